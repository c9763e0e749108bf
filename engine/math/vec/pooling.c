/* SPDX-License-Identifier: MIT
**
** pooling.c -- see pooling.h.
**
** The wide forms hold the sums of four registers of elements while they go down
** the rows, so that each row is read once and the sums are not stored in
** between.
*/
#include "pooling.h"

#include <string.h>

#include "vec.h"

/* Adds the elements from `from` on. */
static void pooling_add_from(float *sum, const struct pooling_rows *rows,
                             size_t from) {
  for (size_t k = from; k < rows->dim; k++) {
    float total = 0, x, weight;
    if (!rows->begins) {
      memcpy(&total, sum + k, sizeof total);
    }
    for (size_t i = 0; i < rows->n; i++) {
      memcpy(&x, rows->first + i * rows->dim + k, sizeof x);
      if (rows->weights) {
        memcpy(&weight, rows->weights + i, sizeof weight);
        x *= weight;
      }
      total += x;
    }
    memcpy(sum + k, &total, sizeof total);
  }
}

static void pooling_add_scalar(float *sum, const struct pooling_rows *rows) {
  emb_check(pooling_rows_valid(sum, rows));
  pooling_add_from(sum, rows, 0);
}

/* x - x is 0 if x is finite and NaN if not; the same holds for a sum of these
** differences. */
static int pooling_finish_scalar(float *to, const float *sum, float by,
                                 size_t n) {
  float wrong = 0;
  for (size_t k = 0; k < n; k++) {
    float x;
    memcpy(&x, sum + k, sizeof x);
    x /= by;
    wrong += x - x;
    memcpy(to + k, &x, sizeof x);
  }
  return wrong == 0;
}

static const struct pooling_form pooling_scalar = {"scalar", pooling_add_scalar,
                                                   pooling_finish_scalar};

#if defined(__x86_64__)
#include <immintrin.h>

static inline float pooling_weight(const struct pooling_rows *rows, size_t i) {
  float weight;
  memcpy(&weight, rows->weights + i, sizeof weight);
  return weight;
}

/* Adds the elements from k on, of one register or of four. */
#define POOLING_ONE                                                            \
  {                                                                            \
    const float *row = rows->first + k;                                        \
    VEC a = FIRST(k);                                                          \
    for (size_t i = 0; i < rows->n; i++, row += rows->dim) {                   \
      a = ADD(a, rows->weights ? MUL(LOAD(row), SET(pooling_weight(rows, i)))  \
                               : LOAD(row));                                   \
    }                                                                          \
    STORE(sum + k, a);                                                         \
  }

#define POOLING_FOUR                                                           \
  {                                                                            \
    const float *row = rows->first + k;                                        \
    VEC a = FIRST(k), b = FIRST(k + WIDTH);                                    \
    VEC c = FIRST(k + 2 * WIDTH), d = FIRST(k + 3 * WIDTH);                    \
    for (size_t i = 0; !rows->weights && i < rows->n; i++, row += rows->dim) { \
      a = ADD(a, LOAD(row));                                                   \
      b = ADD(b, LOAD(row + WIDTH));                                           \
      c = ADD(c, LOAD(row + 2 * WIDTH));                                       \
      d = ADD(d, LOAD(row + 3 * WIDTH));                                       \
    }                                                                          \
    for (size_t i = 0; rows->weights && i < rows->n; i++, row += rows->dim) {  \
      VEC weight = SET(pooling_weight(rows, i));                               \
      a = ADD(a, MUL(LOAD(row), weight));                                      \
      b = ADD(b, MUL(LOAD(row + WIDTH), weight));                              \
      c = ADD(c, MUL(LOAD(row + 2 * WIDTH), weight));                          \
      d = ADD(d, MUL(LOAD(row + 3 * WIDTH), weight));                          \
    }                                                                          \
    STORE(sum + k, a);                                                         \
    STORE(sum + k + WIDTH, b);                                                 \
    STORE(sum + k + 2 * WIDTH, c);                                             \
    STORE(sum + k + 3 * WIDTH, d);                                             \
  }

#define FIRST(k) (rows->begins ? SET(0) : LOAD(sum + (k)))
#define POOLING_BODY                                                           \
  size_t k = 0;                                                                \
  for (; k + 4 * WIDTH <= rows->dim; k += 4 * WIDTH) {                         \
    POOLING_FOUR                                                               \
  }                                                                            \
  for (; k + WIDTH <= rows->dim; k += WIDTH) {                                 \
    POOLING_ONE                                                                \
  }                                                                            \
  pooling_add_from(sum, rows, k);

#define POOLING_FINISH                                                         \
  size_t k = 0;                                                                \
  VEC wrong = SET(0);                                                          \
  for (; k + WIDTH <= n; k += WIDTH) {                                         \
    VEC x = by == 1 ? LOAD(sum + k) : DIV(LOAD(sum + k), SET(by));             \
    wrong = ADD(wrong, SUB(x, x));                                             \
    STORE(to + k, x);                                                          \
  }                                                                            \
  int rest = pooling_finish_scalar(to + k, sum + k, by, n - k);                \
  return rest && !ANY_NAN(wrong);

#define VEC __m256
#define WIDTH 8
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, x) _mm256_storeu_ps(p, x)
#define SET(x) _mm256_set1_ps(x)
#define ADD(a, b) _mm256_add_ps(a, b)
#define MUL(a, b) _mm256_mul_ps(a, b)
#define DIV(a, b) _mm256_div_ps(a, b)
#define SUB(a, b) _mm256_sub_ps(a, b)
#define ANY_NAN(x) _mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q))
__attribute__((target("avx2"))) static void
pooling_add_avx2(float *sum, const struct pooling_rows *rows) {
  emb_check(pooling_rows_valid(sum, rows));
  POOLING_BODY
}
__attribute__((target("avx2"))) static int
pooling_finish_avx2(float *to, const float *sum, float by, size_t n) {
  POOLING_FINISH
}
#undef VEC
#undef WIDTH
#undef LOAD
#undef STORE
#undef SET
#undef ADD
#undef MUL
#undef DIV
#undef SUB
#undef ANY_NAN

#define VEC __m512
#define WIDTH 16
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, x) _mm512_storeu_ps(p, x)
#define SET(x) _mm512_set1_ps(x)
#define ADD(a, b) _mm512_add_ps(a, b)
#define MUL(a, b) _mm512_mul_ps(a, b)
#define DIV(a, b) _mm512_div_ps(a, b)
#define SUB(a, b) _mm512_sub_ps(a, b)
#define ANY_NAN(x) _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q)
__attribute__((target("avx512f"))) static void
pooling_add_avx512(float *sum, const struct pooling_rows *rows) {
  emb_check(pooling_rows_valid(sum, rows));
  POOLING_BODY
}
__attribute__((target("avx512f"))) static int
pooling_finish_avx512(float *to, const float *sum, float by, size_t n) {
  POOLING_FINISH
}
#undef VEC
#undef WIDTH
#undef LOAD
#undef STORE
#undef SET
#undef ADD
#undef MUL
#undef DIV
#undef SUB
#undef ANY_NAN

static const struct pooling_form pooling_avx2 = {"avx2", pooling_add_avx2,
                                                 pooling_finish_avx2};
static const struct pooling_form pooling_avx512 = {"avx512", pooling_add_avx512,
                                                   pooling_finish_avx512};
#endif

const struct pooling_form *pooling__form(int i) {
  const struct pooling_form *forms[3] = {&pooling_scalar};
  if (vec__form(i) == NULL) {
    return NULL;
  }
#if defined(__x86_64__)
  forms[1] = &pooling_avx2;
  forms[2] = &pooling_avx512;
#endif
  return forms[i];
}

const struct pooling_form *pooling_best(void) {
  int i = 0;
  while (pooling__form(i + 1)) {
    i++;
  }
  return pooling__form(i);
}
