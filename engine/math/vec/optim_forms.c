/* SPDX-License-Identifier: MIT
**
** optim_forms.c -- the forms of the optimizers' arithmetic: scalar, which is
** the reference, AVX2 and AVX-512.  They differ only in width.
*/
#include "optim_form.h"

#include <math.h>
#include <string.h>

/* ---- scalar -------------------------------------------------------------- */

static inline float load_scalar(const float *from) {
  float x;
  memcpy(&x, from, sizeof x);
  return x;
}
static inline void store_scalar(float *to, float x) {
  memcpy(to, &x, sizeof x);
}

/* 16 sums, added as a tree: 8 to 8, 4 to 4, 2 to 2, 1 to 1. */
typedef struct {
  double sum[16];
} lanes_scalar;

static inline lanes_scalar no_lanes_scalar(void) { return (lanes_scalar){{0}}; }
static inline void add_squares_scalar(lanes_scalar *to, int j, float x) {
  to->sum[j] += (double)x * (double)x;
}
static inline double sum_lanes_scalar(lanes_scalar *lanes) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; i++) {
      lanes->sum[i] += lanes->sum[i + half];
    }
  }
  return lanes->sum[0];
}

#define FORM(name) name##_scalar
#define TARGET
#define VEC float
#define WIDTH 1
#define LOAD(p) load_scalar(p)
#define STORE(p, x) store_scalar(p, x)
#define SET(x) ((float)(x))
#define SQRT(x) sqrtf(x)
#define MIN(a, b) ((a) < (b) ? (a) : (b)) /* b for NaN, as minps */
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define ANY_NAN(x) isnan(x)
#define ABS(x) fabsf(x)
#define SIGNED(x, s) copysignf(x, s)
#include "optim_rules.h"

static const struct optim__form scalar = {"scalar", apply_scalar, sum_scalar};

/* ---- AVX2 and AVX-512 ---------------------------------------------------- */

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2"))) static inline
#define AVX512 __attribute__((target("avx512f,avx512dq"))) static inline

typedef struct {
  __m256d sum[4];
} lanes_avx2;

AVX2 lanes_avx2 no_lanes_avx2(void) { return (lanes_avx2){{{0}}}; }
AVX2 __m256d add_square_avx2(__m256d to, __m128 x) {
  __m256d wide = _mm256_cvtps_pd(x);
  return _mm256_add_pd(to, _mm256_mul_pd(wide, wide));
}
AVX2 void add_squares_avx2(lanes_avx2 *to, int j, __m256 x) {
  __m256d *sum = to->sum + j / 4;
  sum[0] = add_square_avx2(sum[0], _mm256_castps256_ps128(x));
  sum[1] = add_square_avx2(sum[1], _mm256_extractf128_ps(x, 1));
}
AVX2 double sum_4_avx2(__m256d x) {
  __m128d two =
      _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}
AVX2 double sum_lanes_avx2(const lanes_avx2 *lanes) {
  return sum_4_avx2(_mm256_add_pd(_mm256_add_pd(lanes->sum[0], lanes->sum[2]),
                                  _mm256_add_pd(lanes->sum[1], lanes->sum[3])));
}

typedef struct {
  __m512d sum[2];
} lanes_avx512;

AVX512 lanes_avx512 no_lanes_avx512(void) { return (lanes_avx512){{{0}}}; }
AVX512 __m512d add_square_avx512(__m512d to, __m256 x) {
  __m512d wide = _mm512_cvtps_pd(x);
  return _mm512_add_pd(to, _mm512_mul_pd(wide, wide));
}
AVX512 void add_squares_avx512(lanes_avx512 *to, int j, __m512 x) {
  (void)j;
  to->sum[0] = add_square_avx512(to->sum[0], _mm512_castps512_ps256(x));
  to->sum[1] = add_square_avx512(to->sum[1], _mm512_extractf32x8_ps(x, 1));
}
AVX512 double sum_lanes_avx512(const lanes_avx512 *lanes) {
  __m512d eight = _mm512_add_pd(lanes->sum[0], lanes->sum[1]);
  return sum_4_avx2(_mm256_add_pd(_mm512_castpd512_pd256(eight),
                                  _mm512_extractf64x4_pd(eight, 1)));
}

#define FORM(name) name##_avx2
#define TARGET __attribute__((target("avx2")))
#define VEC __m256
#define WIDTH 8
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, x) _mm256_storeu_ps(p, x)
#define SET(x) _mm256_set1_ps(x)
#define SQRT(x) _mm256_sqrt_ps(x)
#define MIN(a, b) _mm256_min_ps(a, b)
#define MAX(a, b) _mm256_max_ps(a, b)
#define ANY_NAN(x) _mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q))
#define ABS(x) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x)
#define SIGNED(x, s) _mm256_or_ps(x, _mm256_and_ps(_mm256_set1_ps(-0.0f), s))
#include "optim_rules.h"

static const struct optim__form avx2 = {"avx2", apply_avx2, sum_avx2};

#define FORM(name) name##_avx512
#define TARGET __attribute__((target("avx512f,avx512dq")))
#define VEC __m512
#define WIDTH 16
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, x) _mm512_storeu_ps(p, x)
#define SET(x) _mm512_set1_ps(x)
#define SQRT(x) _mm512_sqrt_ps(x)
#define MIN(a, b) _mm512_min_ps(a, b)
#define MAX(a, b) _mm512_max_ps(a, b)
#define ANY_NAN(x) _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q)
#define ABS(x) _mm512_andnot_ps(_mm512_set1_ps(-0.0f), x)
#define SIGNED(x, s) _mm512_or_ps(x, _mm512_and_ps(_mm512_set1_ps(-0.0f), s))
#include "optim_rules.h"

static const struct optim__form avx512 = {"avx512", apply_avx512, sum_avx512};
#endif

const struct optim__form *optim__form(int i) {
  const struct optim__form *forms[3] = {&scalar};
  if (vec__form(i) == NULL) {
    return NULL;
  }
#if defined(__x86_64__)
  forms[1] = &avx2;
  forms[2] = __builtin_cpu_supports("avx512dq") ? &avx512 : NULL;
#endif
  return forms[i];
}
