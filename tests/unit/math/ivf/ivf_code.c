/* SPDX-License-Identifier: MIT
**
** ivf_code.c -- tests of engine/math/ivf/code.c and scan.c: the error of codes,
** and that all forms of the scan give the distances that the codes represent.
*/
#include "chance_help.h"
#include "test.h"

#include "engine/emb.h"
#include "engine/math/ivf/code.h"

#include <math.h>

enum { DIM_MAX = 300 };

static const uint32_t dims[] = {1, 2, 3, 7, 8, 31, 32, 33, 64, 100, 256, 300};
#define DIMS (sizeof dims / sizeof *dims)
static const uint32_t widths[] = {8, 4, 2, 1};
#define WIDTHS (sizeof widths / sizeof *widths)

/* Decodes a code.  Element i of b bits is in word i / (32 / b), starting at bit
** at % 4 * 8 + at / 4 * b, where at is i % (32 / b). */
static void decode(const struct ivf_form *form, const uint32_t *words,
                   const uint8_t *marks, float *residual) {
  uint32_t bits = form->bits, in_word = 32 / bits;
  float scale = form->marks ? ivf_mark(form, marks[0]) : 0;
  if (bits == 1) {
    scale /= sqrtf((float)form->dim);
  }
  for (uint32_t i = 0; i < form->dim; i++) {
    uint32_t at = i % in_word, shift = at % 4 * 8 + at / 4 * bits;
    float c = (float)(words[i / in_word] >> shift & ((1u << bits) - 1));
    residual[i] = bits == 8   ? scale * (c - 128) / 127
                  : bits == 4 ? scale * (2 * c - 15) / 15
                  : bits == 2 ? scale * (2 * c - 3) / 3
                              : scale * (2 * c - 1);
  }
}

static void fill(float *to, uint32_t dim, float size) {
  for (uint32_t i = 0; i < dim; i++) {
    to[i] = size * chance_normal();
  }
}

static double product(const float *a, const float *b, uint32_t dim) {
  double sum = 0;
  for (uint32_t i = 0; i < dim; i++) {
    sum += (double)a[i] * (double)b[i];
  }
  return sum;
}

TEST(codes_are_within_their_bounds) {
  for (size_t d = 0; d < DIMS; d++) {
    for (int w = 0; w < 2; w++) {
      struct ivf_form form;
      ivf_form_make(&form, dims[d], widths[w], EMB_L2);
      for (int size = -8; size <= 5; size++) {
        float x[DIM_MAX], y[DIM_MAX], most = 0;
        uint32_t words[DIM_MAX];
        uint8_t marks[2];
        ivf__form_base(&form, ldexpf(1, size));
        /* A vector a thousand times as long is not clipped. */
        fill(x, dims[d], ldexpf(size & 1 ? 1000 : 1, size));
        ivf__encode(&form, x, words, marks);
        decode(&form, words, marks, y);
        for (uint32_t i = 0; i < dims[d]; i++) {
          most = fmaxf(most, fabsf(x[i]));
        }
        most = fmaxf(most * 1.126f, ivf_mark(&form, 0));
        float half = most / (widths[w] == 8 ? 254 : 15);
        for (uint32_t i = 0; i < dims[d]; i++) {
          if (!CHECK(fabsf(x[i] - y[i]) <= half * 1.001f + 1e-6f)) {
            return;
          }
        }
      }
    }
  }
}

/* Each element has the nearest of the four values.  The mean square error is
** near 0.1188, the least that four evenly spaced values can have for normally
** distributed elements (Max 1960). */
TEST(two_bits_are_the_nearest_of_four) {
  enum { DIM = 256, TIMES = 200 };
  struct ivf_form form;
  double sum = 0;
  ivf_form_make(&form, DIM, 2, EMB_L2);
  for (int i = 0; i < TIMES; i++) {
    float x[DIM], y[DIM];
    uint32_t words[DIM];
    uint8_t marks[2];
    fill(x, DIM, 1);
    ivf__encode(&form, x, words, marks);
    decode(&form, words, marks, y);
    float step = ivf_mark(&form, marks[0]) / 3;
    for (int j = 0; j < DIM; j++) {
      float off = fabsf(x[j] - y[j]);
      for (int value = -3; value <= 3; value += 2) {
        if (!CHECK(off <= fabsf(x[j] - step * (float)value) + 1e-5f)) {
          return;
        }
      }
      sum += (double)off * (double)off;
    }
  }
  CHECK(sum / TIMES / DIM > 0.115 && sum / TIMES / DIM < 0.123);
}

/* RaBitQ's estimate, plus a quarter for the rounding of its marks. */
TEST(one_bit_is_within_its_bound) {
  enum { DIM = 256, TIMES = 2000 };
  struct ivf_form form;
  int beyond = 0;
  double sum = 0;
  ivf_form_make(&form, DIM, 1, EMB_L2);
  ivf__form_base(&form, 16);
  for (int i = 0; i < TIMES; i++) {
    float x[DIM], q[DIM], y[DIM];
    uint32_t words[DIM];
    uint8_t marks[2];
    fill(x, DIM, 1);
    fill(q, DIM, 1);
    for (int j = 0; j < DIM; j++) {
      q[j] += x[j]; /* not all at right angles */
    }
    double lx = sqrt(product(x, x, DIM)), lq = sqrt(product(q, q, DIM)), r = 0;
    for (int j = 0; j < DIM; j++) {
      r += fabs((double)x[j]) / lx / sqrt(DIM);
    }
    ivf__encode(&form, x, words, marks);
    decode(&form, words, marks, y);
    double off = (product(q, y, DIM) - product(q, x, DIM)) / (lx * lq);
    double bound = 2.5 * sqrt((1 - r * r) / (r * r) / (DIM - 1));
    beyond += fabs(off) > 1.25 * bound;
    sum += off;
  }
  /* 2 exp(-2.5^2 / 2) is 9 of 100. */
  CHECK(beyond < TIMES * 9 / 100);
  CHECK(fabs(sum / TIMES) < 0.02);
}

/* The scan gives the distance between the rounded query and the vector that the
** entry's code represents. */
TEST(scans_say_what_codes_stand_for) {
  for (size_t d = 0; d < DIMS; d++) {
    for (size_t w = 0; w < WIDTHS; w++) {
      for (uint32_t metric = EMB_L2; metric <= EMB_DOT; metric++) {
        static uint32_t codes[DIM_MAX * IVF_BLOCK];
        uint8_t marks[2 * IVF_BLOCK] = {0};
        float x[IVF_BLOCK][DIM_MAX], q[DIM_MAX], back[DIM_MAX], step;
        int8_t rounded[DIM_MAX * 4 + 64];
        struct ivf_form form;
        struct ivf_probe probe = {.query = rounded};
        ivf_form_make(&form, dims[d], widths[w], metric);
        for (uint32_t i = 0; i < IVF_BLOCK; i++) {
          uint32_t words[DIM_MAX];
          uint8_t mark[2];
          fill(x[i], dims[d], 0.5f);
          ivf__encode(&form, x[i], words, mark);
          for (uint32_t j = 0; j < form.words; j++) {
            codes[j * IVF_BLOCK + i] = words[j];
          }
          marks[i] = mark[0];
          marks[IVF_BLOCK + i] = mark[1];
        }
        fill(q, dims[d], 1);
        int32_t sum = ivf__round_query(&form, q, rounded, &step);
        for (uint32_t i = 0; i < dims[d]; i++) {
          q[i] = (float)rounded[i] * step;
        }
        float a = metric != EMB_DOT ? (float)product(q, q, dims[d]) : -3;
        ivf__probe(&probe, &form, a, step, sum);
        for (int f = 0; ivf__ops(f); f++) {
          float to[IVF_BLOCK], limit = (float)chance_normal();
          uint32_t below = ivf__ops(f)->scan(&probe, codes, marks, limit, to);
          for (uint32_t i = 0; i < IVF_BLOCK; i++) {
            uint32_t words[DIM_MAX];
            uint8_t mark[2] = {marks[i], marks[IVF_BLOCK + i]};
            for (uint32_t j = 0; j < form.words; j++) {
              words[j] = codes[j * IVF_BLOCK + i];
            }
            decode(&form, words, mark, back);
            double square = widths[w] == 1
                                ? pow((double)ivf_mark(&form, mark[1]), 2)
                                : product(back, back, dims[d]);
            double qx = product(q, back, dims[d]);
            double want = metric != EMB_DOT ? a - 2 * qx + square : a - qx;
            double scale = fabs((double)a) + square + fabs(qx) +
                           product(q, q, dims[d]) + 1;
            if (!CHECK(fabs(want - (double)to[i]) < 2e-5 * scale)) {
              printf("%s dim %u bits %u metric %u: %g not %g\n",
                     ivf__ops(f)->name, dims[d], widths[w], metric,
                     (double)to[i], want);
              return;
            }
            CHECK_EQ_INT(below >> i & 1, to[i] < limit);
          }
        }
      }
    }
  }
}

/* Rotation changes no product. */
TEST(turning_keeps_products) {
  for (size_t d = 0; d < DIMS; d++) {
    float x[DIM_MAX], y[DIM_MAX];
    struct ivf_form form;
    ivf_form_make(&form, dims[d], 1, EMB_DOT);
    fill(x, dims[d], 1);
    fill(y, dims[d], 1);
    double before = product(x, y, dims[d]), length = product(x, x, dims[d]);
    CHECK(ivf__prepare(&form, x) && ivf__prepare(&form, y));
    CHECK(fabs(product(x, y, dims[d]) - before) < 1e-4 * dims[d]);
    CHECK(fabs(product(x, x, dims[d]) - length) < 1e-4 * dims[d]);
  }
  float one[256] = {0};
  struct ivf_form form;
  ivf_form_make(&form, 256, 4, EMB_L2);
  one[17] = 1;
  CHECK(ivf__prepare(&form, one));
  for (int i = 0; i < 256; i++) {
    CHECK(fabsf(one[i]) < 0.4f); /* nothing stands out */
  }
}

TEST(least_of_products) {
  enum { N = 37 };
  for (int f = 0; ivf__ops(f); f++) {
    float best[N], products[3][N], want[N];
    uint32_t at[N] = {0}, want_at[N] = {0};
    for (int j = 0; j < N; j++) {
      best[j] = want[j] = 1e30f;
    }
    for (uint32_t i = 0; i < 3; i++) {
      fill(products[i], N, 1);
      ivf__ops(f)->minimum(best, at, products[i], N, 0.5f * (float)i, i);
      for (int j = 0; j < N; j++) {
        float x = 0.5f * (float)i - products[i][j];
        if (x < want[j]) {
          want[j] = x;
          want_at[j] = i;
        }
      }
    }
    CHECK(memcmp(best, want, sizeof best) == 0);
    CHECK(memcmp(at, want_at, sizeof at) == 0);
  }
}
