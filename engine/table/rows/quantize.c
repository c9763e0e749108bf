/* SPDX-License-Identifier: MIT
**
** quantize.c -- quantised vectors for callers outside the engine: adds type
** names and errors to vec/quant.  Needs no store and has no state.
*/
#include "engine/storage/pack/emb_file.h"
#include "engine/base/err.h"
#include "engine/storage/pack/options.h"
#include "engine/math/vec/quant.h"
#include "engine/math/vec/vec.h"

#include <math.h>
#include <string.h>

_Static_assert((int)EMB_QUANT_F16 == QUANT_F16 &&
                   (int)EMB_QUANT_INT8 == QUANT_INT8 &&
                   (int)EMB_QUANT_INT4 == QUANT_INT4,
               "the numbers of files of rows");

enum { HALF_BEYOND = 65520 }; /* from here on rounds beyond float16 */

static int is_type(int type) {
  return type >= EMB_QUANT_F16 && type <= EMB_QUANT_INT4;
}

static int is_dim(uint32_t dim) { return dim > 0 && dim <= INT32_MAX; }

static int quantize_check(int type, uint32_t dim, emb_err *err) {
  if (!is_type(type)) {
    return err_set(err, EMB_RANGE, "there is no type %d of quantised vectors",
                   type);
  }
  if (!is_dim(dim)) {
    return err_set(err, EMB_RANGE, "a vector cannot have %u dimensions", dim);
  }
  return EMB_OK;
}

int emb_quant_type(const char *name) {
  int type = pack_encoding(name);
  return is_type(type) ? type : 0;
}

size_t emb_quant_bytes(int type, uint32_t dim) {
  return is_type(type) && is_dim(dim) ? quant_bytes((enum quant_type)type, dim)
                                      : 0;
}

uint32_t emb_quant_dim(int type, size_t bytes) {
  return is_type(type) ? quant_dim((enum quant_type)type, bytes) : 0;
}

/* Index of the first element too large for float16, or dim. */
static uint32_t find_beyond(const float *vector, uint32_t dim) {
  uint32_t i;
  for (i = 0; i < dim; i++) {
    float x;
    memcpy(&x, vector + i, sizeof x);
    if (fabsf(x) >= HALF_BEYOND) {
      break;
    }
  }
  return i;
}

static int fail_finite(const float *vector, uint32_t dim, emb_err *err) {
  return err_set(err, EMB_NONFINITE, "element %zu is not finite",
                 vec_best()->find_bad(vector, dim));
}

int emb_quantize(int type, uint32_t dim, const float *vector, void *bytes,
                 emb_err *err) {
  int rc = quantize_check(type, dim, err);
  if (rc || quant_encode((enum quant_type)type, dim, vector, bytes) == EMB_OK) {
    return rc;
  }
  if (vec_best()->find_bad(vector, dim) < dim) {
    return fail_finite(vector, dim, err);
  }
  return err_set(err, EMB_NONFINITE, "element %u does not fit into float16",
                 find_beyond(vector, dim));
}

int emb_dequantize(int type, uint32_t dim, const void *bytes, float *vector,
                   emb_err *err) {
  int rc = quantize_check(type, dim, err);
  if (rc || quant_decode((enum quant_type)type, dim, bytes, vector) == EMB_OK) {
    return rc;
  }
  return fail_finite(vector, dim, err);
}
