/* SPDX-License-Identifier: MIT
**
** quant.h -- rows of float32 in fewer bits, for snapshots, deltas and serving.
**
** FORMATS   little-endian, without padding
**   QUANT_F32   float32[dim]
**   QUANT_F16   float16[dim], to nearest even
**   QUANT_INT8  float32 low, float32 scale, uint8[dim]: low + scale * code
**   QUANT_INT4  for each 32 elements, the last group perhaps fewer: float32
**               low, float32 scale, then two codes in a byte, the first in its
**               low bits; a last byte that holds one code has 0 above it
**
** CHOICE    Low and scale from the smallest and largest element, as FBGEMM's
**           fused 8-bit rows and Check-N-Run's checkpoints: rows that are not
**           centred lose nothing, and a row of equal elements is exact.  With
**           4 bits an outlier costs 16 times as much, so groups are smaller;
**           32 as in ggml's Q4.  Both numbers are float32, as float16 would
**           not hold the range.  64 floats: 256, 128, 72 or 48 bytes.
** EXACT     scale is (high - low) / levels rounded toward zero, so that no
**           decoded value is beyond high: what was finite stays finite.
** FAILURE   Encoding refuses a row with an element that is not finite, or that
**           float16 does not hold.  Decoding gives EMB_CORRUPT when a value is
**           not finite, which no encoded row has.
** LIMIT     dim is at most INT32_MAX.
** THREADS   No state.
*/
#ifndef EMB_VEC_QUANT_H
#define EMB_VEC_QUANT_H

#include "engine/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum quant_type { QUANT_F32, QUANT_F16, QUANT_INT8, QUANT_INT4 };

enum { QUANT_GROUP = 32 };

/* Bytes of an encoded row. */
size_t quant_bytes(enum quant_type type, uint32_t dim);
/* Elements of a row of so many bytes: where two numbers give that many, as with
** QUANT_INT4, the even one, which is one more; 0 where none does. */
uint32_t quant_dim(enum quant_type type, size_t bytes);

/* No pointer need be aligned; the two do not overlap.  EMB_NONFINITE: see
** FAILURE; what is in `to` then is undefined. */
int quant_encode(enum quant_type type, uint32_t dim, const float *vector,
                 void *to);
int quant_decode(enum quant_type type, uint32_t dim, const void *from,
                 float *vector);

#endif
