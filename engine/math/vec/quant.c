/* SPDX-License-Identifier: MIT
**
** quant.c -- rows of float32 in fewer bits; see quant.h.
**
** CODES     With s the stored scale, code = (x - low) / s to the nearest, at
**           most `levels`; it decodes to low + s * code, computed in double
**           and rounded once.
** ERROR     A code that is not clamped is within s / 2.  A code clamped to
**           `levels` also loses the rounding error of s, at most levels times
**           the last place of s: 2^-23 of the range, or levels * 2^-149 if s is
**           subnormal or 0.  Rounding the result adds half of its last place.
*/
#include "quant.h"
#include "vec.h"

#include <math.h>
#include <string.h>

enum { HEAD_BYTES = 8, quant_BLOCK = 16, HALVES = 256 };

static uint32_t quant_smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Bytes of the codes of n elements. */
static size_t code_bytes(enum quant_type type, uint32_t n) {
  return type == QUANT_INT8 ? n : (n + 1) / 2;
}

/* Elements that share low and scale. */
static uint32_t group_size(enum quant_type type, uint32_t dim) {
  return type == QUANT_INT8 ? dim : QUANT_GROUP;
}

static double quant_levels(enum quant_type type) {
  return type == QUANT_INT8 ? 255 : 15;
}

size_t quant_bytes(enum quant_type type, uint32_t dim) {
  uint32_t rest = dim % QUANT_GROUP;
  switch (type) {
  case QUANT_F32:
    return 4 * (size_t)dim;
  case QUANT_F16:
    return 2 * (size_t)dim;
  case QUANT_INT8:
    return HEAD_BYTES + (size_t)dim;
  default:
    return dim / QUANT_GROUP * (HEAD_BYTES + code_bytes(type, QUANT_GROUP)) +
           (rest ? HEAD_BYTES + code_bytes(type, rest) : 0);
  }
}

uint32_t quant_dim(enum quant_type type, size_t bytes) {
  size_t group = quant_bytes(type, QUANT_GROUP), rest = bytes % group, dim;
  switch (type) {
  case QUANT_F32:
    dim = bytes / 4;
    break;
  case QUANT_F16:
    dim = bytes / 2;
    break;
  case QUANT_INT8:
    dim = bytes > HEAD_BYTES ? bytes - HEAD_BYTES : 0;
    break;
  default:
    dim = bytes / group * QUANT_GROUP;
    dim += rest > HEAD_BYTES ? 2 * (rest - HEAD_BYTES) : 0;
  }
  return dim > 0 && dim <= INT32_MAX &&
                 quant_bytes(type, (uint32_t)dim) == bytes
             ? (uint32_t)dim
             : 0;
}

/* ---- a group ------------------------------------------------------------- */

struct range {
  float low, high;
};

/* Finds the smallest and largest element; 0: some element is not finite. */
static int find_range(const float *x, uint32_t n, struct range *range) {
  float low[quant_BLOCK], high[quant_BLOCK], bad[quant_BLOCK] = {0}, first,
                                             sum = 0;
  memcpy(&first, x, sizeof first);
  for (int j = 0; j < quant_BLOCK; j++) {
    low[j] = high[j] = first;
  }
  for (uint32_t i = 0; i < n; i += quant_BLOCK) {
    float block[quant_BLOCK];
    for (int j = 0; j < quant_BLOCK; j++) {
      block[j] = first;
    }
    memcpy(block, x + i, quant_smaller(quant_BLOCK, n - i) * sizeof first);
    for (int j = 0; j < quant_BLOCK; j++) {
      low[j] = block[j] < low[j] ? block[j] : low[j];
      high[j] = block[j] > high[j] ? block[j] : high[j];
      bad[j] += block[j] - block[j]; /* NaN if it is not finite */
    }
  }
  for (int j = 0; j < quant_BLOCK; j++) {
    low[0] = low[j] < low[0] ? low[j] : low[0];
    high[0] = high[j] > high[0] ? high[j] : high[0];
    sum += bad[j];
  }
  range->low = low[0];
  range->high = high[0];
  return sum == 0;
}

static float toward_zero(double x) {
  float rounded = (float)x;
  uint32_t bits;
  if ((double)rounded > x) {
    memcpy(&bits, &rounded, sizeof bits);
    bits--;
    memcpy(&rounded, &bits, sizeof bits);
  }
  return rounded;
}

static void pack_codes(enum quant_type type, const uint8_t *codes, uint32_t n,
                       uint8_t *to) {
  if (type == QUANT_INT8) {
    memcpy(to, codes, n);
    return;
  }
  for (uint32_t i = 0; i < n; i += 2) {
    to[i / 2] = (uint8_t)(codes[i] | (i + 1 < n ? codes[i + 1] << 4 : 0));
  }
}

static void unpack_codes(enum quant_type type, const uint8_t *from, uint32_t n,
                         uint8_t *codes) {
  if (type == QUANT_INT8) {
    memcpy(codes, from, n);
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    codes[i] = from[i / 2] >> (i % 2 * 4) & 15;
  }
}

static int encode_group(enum quant_type type, const float *x, uint32_t n,
                        uint8_t *to) {
  double top = quant_levels(type), low, inverse;
  struct range range;
  float scale;
  if (!find_range(x, n, &range)) {
    return EMB_NONFINITE;
  }
  low = (double)range.low;
  scale = toward_zero(((double)range.high - low) / top);
  inverse = scale > 0 ? 1 / (double)scale : 0;
  memcpy(to, &range.low, sizeof range.low);
  memcpy(to + 4, &scale, sizeof scale);
  for (uint32_t i = 0; i < n; i += quant_BLOCK) {
    uint32_t count = quant_smaller(quant_BLOCK, n - i);
    float block[quant_BLOCK] = {0};
    uint8_t codes[quant_BLOCK];
    memcpy(block, x + i, count * sizeof block[0]);
    for (int j = 0; j < quant_BLOCK; j++) {
      double code = ((double)block[j] - low) * inverse + 0.5;
      code = code > 0 ? code : 0; /* negative only past the end of x */
      codes[j] = (uint8_t)(int)(code < top ? code : top);
    }
    pack_codes(type, codes, count, to + HEAD_BYTES + code_bytes(type, i));
  }
  return EMB_OK;
}

static void decode_group(enum quant_type type, const uint8_t *from, uint32_t n,
                         float *x) {
  float low, scale;
  memcpy(&low, from, sizeof low);
  memcpy(&scale, from + 4, sizeof scale);
  for (uint32_t i = 0; i < n; i += quant_BLOCK) {
    uint32_t count = quant_smaller(quant_BLOCK, n - i);
    uint8_t codes[quant_BLOCK] = {0};
    float block[quant_BLOCK];
    unpack_codes(type, from + HEAD_BYTES + code_bytes(type, i), count, codes);
    for (int j = 0; j < quant_BLOCK; j++) {
      block[j] = (float)((double)low + (double)scale * (double)codes[j]);
    }
    memcpy(x + i, block, count * sizeof block[0]);
  }
}

/* ---- a row --------------------------------------------------------------- */

static int encode_f16(uint32_t dim, const float *vector, uint8_t *to) {
  uint16_t half[HALVES];
  for (uint32_t i = 0; i < dim; i += HALVES) {
    uint32_t n = quant_smaller(HALVES, dim - i);
    vec_best()->to_f16(half, vector + i, n);
    for (uint32_t j = 0; j < n; j++) {
      if ((half[j] & 0x7c00) == 0x7c00) {
        return EMB_NONFINITE;
      }
    }
    memcpy(to + 2 * i, half, n * sizeof half[0]);
  }
  return EMB_OK;
}

static void decode_f16(uint32_t dim, const uint8_t *from, float *vector) {
  uint16_t half[HALVES];
  for (uint32_t i = 0; i < dim; i += HALVES) {
    uint32_t n = quant_smaller(HALVES, dim - i);
    memcpy(half, from + 2 * i, n * sizeof half[0]);
    vec_best()->from_f16(vector + i, half, n);
  }
}

int quant_encode(enum quant_type type, uint32_t dim, const float *vector,
                 void *to) {
  uint8_t *out = to;
  uint32_t size = group_size(type, dim);
  emb_assert(dim > 0 && dim <= INT32_MAX);
  if (type == QUANT_F16) {
    return encode_f16(dim, vector, to);
  }
  if (type == QUANT_F32) {
    memcpy(to, vector, 4 * (size_t)dim);
    return vec_best()->find_bad(vector, dim) == dim ? EMB_OK : EMB_NONFINITE;
  }
  for (uint32_t i = 0; i < dim; i += size) {
    uint32_t n = quant_smaller(size, dim - i);
    if (encode_group(type, vector + i, n, out)) {
      return EMB_NONFINITE;
    }
    out += HEAD_BYTES + code_bytes(type, n);
  }
  return EMB_OK;
}

int quant_decode(enum quant_type type, uint32_t dim, const void *from,
                 float *vector) {
  const uint8_t *in = from;
  uint32_t size = group_size(type, dim);
  emb_assert(dim > 0 && dim <= INT32_MAX);
  if (type == QUANT_F32) {
    memcpy(vector, from, 4 * (size_t)dim);
  } else if (type == QUANT_F16) {
    decode_f16(dim, from, vector);
  } else {
    for (uint32_t i = 0; i < dim; i += size) {
      uint32_t n = quant_smaller(size, dim - i);
      decode_group(type, in, n, vector + i);
      in += HEAD_BYTES + code_bytes(type, n);
    }
  }
  return vec_best()->find_bad(vector, dim) == dim ? EMB_OK : EMB_CORRUPT;
}
