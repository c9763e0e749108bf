/* SPDX-License-Identifier: MIT
**
** quant.c -- fuzzes quantised rows: any bytes are decoded to finite numbers
** or refused; and an encoded row is decoded within the error bound, or to the
** bit if it came from decoding.
**
** INPUT     byte 0  bits 0-1: the type
**           bytes 1-2  the number of elements, less than 600
**           then    the encoded row; and the same bytes as float32, a row
*/
#include "fuzz.h"

#include "engine/math/vec/quant.h"
#include "quant_help.h"

#include <math.h>

enum { DIM_MAX = 600, ROOM = 4 * DIM_MAX + 64 };

/* Exactly this long, so that a sanitizer sees any access beyond its end. */
static char *room(const struct fuzz_input *in, size_t n) {
  char *at = calloc(1, n ? n : 1);
  FUZZ_CHECK(at != NULL);
  memcpy(at, in->at, in->left < n ? in->left : n);
  return at;
}

static int all_finite(const float *x, uint32_t dim) {
  for (uint32_t i = 0; i < dim; i++)
    if (!isfinite(x[i]))
      return 0;
  return 1;
}

static void check_bound(enum quant_type type, uint32_t dim, const float *x,
                        const float *y) {
  for (uint32_t i = 0; i < dim; i++) {
    uint32_t from = type == QUANT_INT4 ? i / QUANT_GROUP * QUANT_GROUP : 0;
    uint32_t to = type == QUANT_INT4 ? from + QUANT_GROUP : dim;
    float low = x[from], high = x[from];
    for (uint32_t j = from; j < to && j < dim; j++) {
      low = fminf(low, x[j]);
      high = fmaxf(high, x[j]);
    }
    FUZZ_CHECK(fabs((double)x[i] - (double)y[i]) <=
               quant_error_max(type, low, high));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static float x[DIM_MAX], y[DIM_MAX];
  struct fuzz_input in = {data, size};
  enum quant_type type = (enum quant_type)(fuzz_byte(&in) & 3);
  uint32_t dim = 1 + (uint32_t)(fuzz_bytes(&in, 2) % (DIM_MAX - 1));
  size_t bytes = quant_bytes(type, dim);
  FUZZ_CHECK(bytes > 0 && bytes <= ROOM);
  FUZZ_CHECK(quant_dim(type, bytes) ==
             (type == QUANT_INT4 ? dim + dim % 2 : dim));
  char *row = room(&in, bytes);
  int rc = quant_decode(type, dim, row, x);
  FUZZ_CHECK(rc == EMB_OK || rc == EMB_CORRUPT);
  FUZZ_CHECK(rc != EMB_OK || all_finite(x, dim));
  free(row);
  row = calloc(1, bytes);
  char *floats = room(&in, 4 * (size_t)dim);
  memcpy(x, floats, 4 * (size_t)dim);
  rc = quant_encode(type, dim, x, row);
  FUZZ_CHECK(rc == EMB_OK || rc == EMB_NONFINITE);
  FUZZ_CHECK(rc != EMB_OK || all_finite(x, dim));
  if (rc == EMB_OK) {
    FUZZ_CHECK(quant_decode(type, dim, row, y) == EMB_OK);
    if (type == QUANT_F32)
      FUZZ_CHECK(memcmp(x, y, 4 * (size_t)dim) == 0);
    else
      check_bound(type, dim, x, y);
  }
  free(row);
  free(floats);
  return 0;
}
