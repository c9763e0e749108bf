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
** CHOICE    Low and scale come from the smallest and largest element, as in
**           FBGEMM's fused 8-bit rows and Check-N-Run's checkpoints: rows that
**           are not centred lose nothing, and a row of equal elements is exact.
**           With 4 bits an outlier costs 16 times as much, so groups are
**           smaller: 32, as in ggml's Q4.  Both numbers are float32, because
**           float16 lacks the range.  64 floats: 256, 128, 72 or 48 bytes.
** EXACT     scale is (high - low) / levels rounded toward zero, so that no
**           decoded value is beyond high: finite values stay finite.
** FAILURE   Encoding refuses a row with an element that is not finite, or out
**           of range for float16.  Decoding returns EMB_CORRUPT for a value
**           that is not finite, since no encoded row has one.
** LIMIT     dim is at most INT32_MAX.
** THREADS   No state.
*/
#ifndef EMB_VEC_QUANT_H
#define EMB_VEC_QUANT_H

#include "engine/base/debug.h"
#include "engine/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum quant_type { QUANT_F32, QUANT_F16, QUANT_INT8, QUANT_INT4 };

enum { QUANT_GROUP = 32 };

/* Returns the size of an encoded row in bytes. */
size_t quant_bytes(enum quant_type type, uint32_t dim);
/* Returns the number of elements of a row of `bytes` bytes; 0: none fits.  If
** two numbers fit, as with QUANT_INT4, the even one, which is larger by one. */
uint32_t quant_dim(enum quant_type type, size_t bytes);

/* No pointer need be aligned; the two must not overlap.  EMB_NONFINITE: see
** FAILURE; the content of `to` is then undefined. */
int quant_encode(enum quant_type type, uint32_t dim, const float *vector,
                 void *to);
int quant_decode(enum quant_type type, uint32_t dim, const void *from,
                 float *vector);

#endif
