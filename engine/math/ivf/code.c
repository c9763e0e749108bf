/* SPDX-License-Identifier: MIT
**
** code.c -- see code.h: converts vectors to codes, and queries to the input of
** the scanning functions (scan.c).
*/
#include "code.h"

#include <math.h>

#include "engine/base/debug.h"
#include "engine/base/hash.h"
#include "engine/base/seed.h"
#include "engine/emb.h"

void ivf_form_make(struct ivf_form *form, uint32_t dim, uint32_t bits,
                   uint32_t metric) {
  uint32_t per_word = bits ? 32 / bits : 1;
  *form = (struct ivf_form){.dim = dim,
                            .bits = bits,
                            .words = bits ? (dim + per_word - 1) / per_word : 0,
                            .marks = bits == 1 ? 2
                                     : bits    ? 1
                                               : 0,
                            .metric = metric};
  ivf__form_base(form, 1);
}

/* Ten powers of two below the typical value, and 22 above. */
void ivf__form_base(struct ivf_form *form, float typical) {
  uint32_t bits;
  typical = typical > 1e-30f ? typical < 1e30f ? typical : 1e30f : 1e-30f;
  memcpy(&bits, &typical, sizeof bits);
  form->base = ((bits >> 23) - 10) << 23;
}

/* ---- preparing vectors --------------------------------------------------- */

/* Transforms p elements, a power of two; preserves the length. */
static void hadamard_transform(float *x, uint32_t p) {
  for (uint32_t half = 1; half < p; half *= 2) {
    for (uint32_t i = 0; i < p; i += 2 * half) {
      for (uint32_t j = i; j < i + half; j++) {
        float a = x[j], b = x[j + half];
        x[j] = a + b;
        x[j + half] = a - b;
      }
    }
  }
  float scale = 1 / sqrtf((float)p);
  for (uint32_t i = 0; i < p; i++) {
    x[i] *= scale;
  }
}

/* Flips signs, then transforms the first p elements, and the last p: after two
** rounds, every element depends on every other one. */
static void ivf_turn(float *x, uint32_t dim) {
  uint32_t p = 1;
  while (p * 2 <= dim) {
    p *= 2;
  }
  for (uint64_t round = 0; round < 2; round++) {
    for (uint32_t i = 0; i < dim; i++) {
      uint64_t signs = hash_mix((round << 32) + i / 64 + 1);
      x[i] = signs >> (i % 64) & 1 ? -x[i] : x[i];
    }
    hadamard_transform(x, p);
    if (p < dim) {
      hadamard_transform(x + dim - p, p);
    }
  }
}

int ivf__prepare(const struct ivf_form *form, float *vector) {
  if (form->metric == EMB_COSINE) {
    double squares = 0;
    for (uint32_t i = 0; i < form->dim; i++) {
      squares += (double)vector[i] * (double)vector[i];
    }
    if (squares == 0) {
      return 0;
    }
    float scale = (float)(1 / sqrt(squares));
    for (uint32_t i = 0; i < form->dim; i++) {
      vector[i] *= scale;
    }
  }
  if (form->bits && form->bits < 8) {
    ivf_turn(vector, form->dim);
  }
  return 1;
}

/* ---- marks --------------------------------------------------------------- */

/* The smallest mark whose value is at least x if `up`, else the nearest one. */
static uint8_t mark_at_least(const struct ivf_form *form, float x, int up) {
  uint32_t bits, step = UINT32_C(1) << IVF_MARK_SHIFT;
  memcpy(&bits, &x, sizeof bits);
  if (bits <= form->base) {
    return 0;
  }
  uint32_t mark =
      (bits - form->base + (up ? step - 1 : step / 2)) >> IVF_MARK_SHIFT;
  return mark < 255 ? (uint8_t)mark : 255;
}

static float largest_element(const float *x, uint32_t n) {
  float most = 0;
  for (uint32_t i = 0; i < n; i++) {
    float size = fabsf(x[i]);
    most = size > most ? size : most;
  }
  return most;
}

/* Returns the length of x; *sum: the sum of all |element|. */
static float length_of(const float *x, uint32_t n, float *sum) {
  float squares = 0, sizes = 0;
  for (uint32_t i = 0; i < n; i++) {
    squares += x[i] * x[i];
    sizes += fabsf(x[i]);
  }
  *sum = sizes;
  return sqrtf(squares);
}

/* With 2 bits, the largest value of a code, as a multiple of the root mean
** square of the elements. */
#define TWO_BITS_REACH 1.5f

float ivf__mark_size(const struct ivf_form *form, const float *residual) {
  float sum;
  switch (form->bits) {
  case 1:
    return length_of(residual, form->dim, &sum);
  case 2:
    return length_of(residual, form->dim, &sum) * TWO_BITS_REACH /
           sqrtf((float)form->dim);
  default:
    return largest_element(residual, form->dim);
  }
}

/* ---- codes --------------------------------------------------------------- */

/* Rounds to the nearest whole number, which must be small. */
static int32_t nearest_whole(float x) {
  const float big = 12582912; /* 1.5 * 2^23: no fraction is left */
  return (int32_t)((x + big) - big);
}

static uint32_t element_code(uint32_t bits, float x) {
  int32_t low = bits == 8 ? 1 : 0, high = (1 << bits) - 1;
  float half = (float)high / 2;
  if (bits == 1) {
    return x >= 0;
  }
  x = x > -1 ? x < 1 ? x : 1 : -1;
  int32_t c =
      bits == 8 ? nearest_whole(x * 127) + 128 : nearest_whole(x * half + half);
  return (uint32_t)(c < low ? low : c > high ? high : c);
}

/* The position of element i in a code: its word, and its first bit there. */
static uint32_t element_word(uint32_t bits, uint32_t i, uint32_t *shift) {
  uint32_t per_word = 32 / bits, at = i % per_word;
  *shift = at % 4 * 8 + at / 4 * bits;
  return i / per_word;
}

void ivf__encode(const struct ivf_form *form, const float *residual,
                 uint32_t *words, uint8_t *marks) {
  float scale = 1, sum;
  uint32_t per_word = form->bits ? 32 / form->bits : 0;
  if (!form->bits) {
    return;
  }
  if (form->bits == 1) {
    float length = length_of(residual, form->dim, &sum);
    float f = sum > 0 ? length * length / sum * sqrtf((float)form->dim) : 0;
    marks[0] = mark_at_least(form, f, 0);
    marks[1] = mark_at_least(form, length, 0);
  } else {
    marks[0] = mark_at_least(form, ivf__mark_size(form, residual),
                             form->bits != 2 && !EMB_SEED(SEED_CODE_CLAMPED));
    scale = 1 / ivf_mark(form, marks[0]);
  }
  memset(words, 0, ivf_code_bytes(form));
  for (uint32_t i = 0; i < form->words * per_word; i++) {
    float x = i < form->dim ? residual[i] * scale : 0;
    uint32_t shift, word = element_word(form->bits, i, &shift);
    words[word] |= element_code(form->bits, x) << shift;
  }
}

/* ---- queries ------------------------------------------------------------- */

/* Two products of 255 and 64 fit into 16 bits, as do two of 15 and 127. */
int32_t ivf__round_query(const struct ivf_form *form, const float *q,
                         int8_t *to, float *step) {
  float most = largest_element(q, form->dim);
  float high = form->bits == 8 ? 64 : 127;
  float scale = most > 0 ? high / most : 0;
  uint32_t all = form->bits ? form->words * (32 / form->bits) : 0;
  int32_t sum = 0;
  scale = scale < 1e30f ? scale : 0;
  *step = scale > 0 ? 1 / scale : 0;
  for (uint32_t i = 0; i < all; i++) {
    int32_t x = i < form->dim ? nearest_whole(q[i] * scale) : 0;
    to[i] = (int8_t)x;
    sum += x;
  }
  return sum;
}

void ivf__probe(struct ivf_probe *probe, const struct ivf_form *form, float a,
                float step, int32_t sum) {
  int is_distance = form->metric != EMB_DOT;
  float sign = is_distance ? -2.0f : -1.0f;
  probe->words = form->words;
  probe->bits = form->bits;
  probe->base = form->base;
  probe->a = a;
  probe->pad = 0;
  if (form->bits == 8) {
    probe->b = sign * step / 127;
    probe->k = 128 * (float)sum;
    probe->c = is_distance ? 1 / (127.0f * 127.0f) : 0;
  } else if (form->bits > 1) {
    float high = (float)((1 << form->bits) - 1);
    probe->b = sign * 2 * step / high;
    probe->k = high / 2 * (float)sum;
    probe->pad =
        (int32_t)(form->words * (32 / form->bits) - form->dim); /* ones */
    probe->c = is_distance ? 1 / (high * high) : 0;
  } else {
    probe->b = sign * 2 * step / sqrtf((float)form->dim);
    probe->k = 0.5f * (float)sum;
    probe->c = is_distance ? 1 : 0;
  }
}
