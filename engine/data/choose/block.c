/* SPDX-License-Identifier: MIT
**
** block.c -- the forms of block.h: block_rules.h for each register width.
*/
#include "block.h"

#include "engine/math/vec/vec.h"

#include <math.h>
#include <string.h>

/* 1.5 * 2^23: in a float near this value, the lowest bits are an integer. */
#define EXP_ROUND 12582912.0f

/* Computes the squared distances of row i to columns from..end again, by
** differences. */
static void choose_block_mend(struct choose_block *b, size_t i, size_t from,
                              size_t end) {
  const float *row = b->rows + i * b->dim;
  end = end < b->columns ? end : b->columns;
  for (size_t c = from; c < end; c++) {
    const float *other = b->others + c * b->dim;
    double sum = 0;
    for (uint32_t k = 0; k < b->dim; k++) {
      double d = (double)row[k] - (double)other[k];
      sum += d * d;
    }
    b->tile[i * b->width + c] = (float)sum;
  }
}

/* ---- scalar -------------------------------------------------------------- */

static float block_power_scalar(float p, float t) {
  return ldexpf(p, (int)(t - EXP_ROUND));
}

#define FORM(name) name##_scalar
#define NAME "scalar"
#define TARGET
#define VEC float
#define WIDTH 1
#define LOAD(p) (*(p))
#define STORE(p, x) (*(p) = (x))
#define SET(x) (x)
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define MUL(a, b) ((a) * (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define SQRT(a) sqrtf(a)
#define MULADD(a, b, c) ((a) * (b) + (c))
#define ANY_LESS(a, b) ((a) < (b))
#define POWER(p, t) block_power_scalar(p, t)
#define WIDE double
#define HALF 1
#define WIDE_LOAD(p) ((double)*(p))
#define WIDE_GET(p) (*(p))
#define WIDE_SET(x) (x)
#define WIDE_SUB(a, b) ((a) - (b))
#define WIDE_MULADD(a, b, c) ((a) * (b) + (c))
#define SUM(x) ((double)(x))
#define WIDE_SUM(x) (x)
#include "block_rules.h"

/* ---- wide ---------------------------------------------------------------- */

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,f16c,fma")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,f16c")))

AVX2 static inline __m256 block_power_avx2(__m256 p, __m256 t) {
  __m256i n = _mm256_sub_epi32(_mm256_castps_si256(t),
                               _mm256_castps_si256(_mm256_set1_ps(EXP_ROUND)));
  return _mm256_castsi256_ps(
      _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(n, 23)));
}
AVX2 static inline double block_wide_avx2(__m256d x) {
  __m128d sum =
      _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
  return _mm_cvtsd_f64(_mm_add_sd(sum, _mm_unpackhi_pd(sum, sum)));
}
AVX2 static inline double block_sum_avx2(__m256 x) {
  return block_wide_avx2(
      _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(x)),
                    _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))));
}

#define FORM(name) name##_avx2
#define NAME "avx2"
#define TARGET AVX2
#define VEC __m256
#define WIDTH 8
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, x) _mm256_storeu_ps(p, x)
#define SET(x) _mm256_set1_ps(x)
#define ADD(a, b) _mm256_add_ps(a, b)
#define SUB(a, b) _mm256_sub_ps(a, b)
#define MUL(a, b) _mm256_mul_ps(a, b)
#define MAX(a, b) _mm256_max_ps(a, b)
#define SQRT(a) _mm256_sqrt_ps(a)
#define MULADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#define ANY_LESS(a, b) _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ))
#define POWER(p, t) block_power_avx2(p, t)
#define WIDE __m256d
#define HALF 4
#define WIDE_LOAD(p) _mm256_cvtps_pd(_mm_loadu_ps(p))
#define WIDE_GET(p) _mm256_loadu_pd(p)
#define WIDE_SET(x) _mm256_set1_pd(x)
#define WIDE_SUB(a, b) _mm256_sub_pd(a, b)
#define WIDE_MULADD(a, b, c) _mm256_fmadd_pd(a, b, c)
#define SUM(x) block_sum_avx2(x)
#define WIDE_SUM(x) block_wide_avx2(x)
#include "block_rules.h"

AVX512 static inline double block_sum_avx512(__m512 x) {
  __m256 high =
      _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
  return _mm512_reduce_add_pd(_mm512_add_pd(
      _mm512_cvtps_pd(_mm512_castps512_ps256(x)), _mm512_cvtps_pd(high)));
}

#define FORM(name) name##_avx512
#define NAME "avx512"
#define TARGET AVX512
#define VEC __m512
#define WIDTH 16
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, x) _mm512_storeu_ps(p, x)
#define SET(x) _mm512_set1_ps(x)
#define ADD(a, b) _mm512_add_ps(a, b)
#define SUB(a, b) _mm512_sub_ps(a, b)
#define MUL(a, b) _mm512_mul_ps(a, b)
#define MAX(a, b) _mm512_max_ps(a, b)
#define SQRT(a) _mm512_sqrt_ps(a)
#define MULADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#define ANY_LESS(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)
#define POWER(p, t) _mm512_scalef_ps(p, _mm512_sub_ps(t, round))
#define WIDE __m512d
#define HALF 8
#define WIDE_LOAD(p) _mm512_cvtps_pd(_mm256_loadu_ps(p))
#define WIDE_GET(p) _mm512_loadu_pd(p)
#define WIDE_SET(x) _mm512_set1_pd(x)
#define WIDE_SUB(a, b) _mm512_sub_pd(a, b)
#define WIDE_MULADD(a, b, c) _mm512_fmadd_pd(a, b, c)
#define SUM(x) block_sum_avx512(x)
#define WIDE_SUM(x) _mm512_reduce_add_pd(x)
#include "block_rules.h"
#endif

static const struct choose_ops *const block_forms[] = {&choose_ops_scalar,
#if defined(__x86_64__)
                                                       &choose_ops_avx2,
                                                       &choose_ops_avx512
#endif
};

/* A form needs no CPU features beyond those of vec/'s form of the same name. */
static int block_widest(void) {
  int i = (int)(sizeof block_forms / sizeof *block_forms) - 1;
  while (i > 0 && strcmp(block_forms[i]->name, vec_best()->name)) {
    i--;
  }
  return i;
}

const struct choose_ops *choose__form(int i) {
  return i <= block_widest() ? block_forms[i] : NULL;
}

const struct choose_ops *choose__best(void) {
  return choose__form(block_widest());
}
