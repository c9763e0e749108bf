/* SPDX-License-Identifier: MIT
**
** optim_forms.c -- the forms of the optimizers' arithmetic: scalar, which is
** the reference, AVX2 and AVX-512.  They differ in nothing but the width.
*/
#include "optim_form.h"

#include <math.h>
#include <string.h>

/* ---- scalar ------------------------------------------------------------- */

static inline float load_scalar(const float *from) {
  float x;
  memcpy(&x, from, sizeof x);
  return x;
}
static inline void store_scalar(float *to, float x) {
  memcpy(to, &x, sizeof x);
}

static inline void add_squares_scalar(double to[16], const float x[16]) {
  for (int i = 0; i < 16; i++) {
    to[i] += (double)x[i] * (double)x[i];
  }
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

static const struct optim_form scalar = {"scalar", apply_scalar, sum_scalar};

/* ---- AVX2 and AVX-512 --------------------------------------------------- */

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx2"))) static inline void
add_squares_avx2(double to[16], const float x[16]) {
  for (int i = 0; i < 16; i += 4) {
    __m256d wide = _mm256_cvtps_pd(_mm_loadu_ps(x + i));
    wide = _mm256_mul_pd(wide, wide);
    _mm256_storeu_pd(to + i, _mm256_add_pd(_mm256_loadu_pd(to + i), wide));
  }
}

__attribute__((target("avx512f,avx512dq"))) static inline void
add_squares_avx512(double to[16], const float x[16]) {
  for (int i = 0; i < 16; i += 8) {
    __m512d wide = _mm512_cvtps_pd(_mm256_loadu_ps(x + i));
    wide = _mm512_mul_pd(wide, wide);
    _mm512_storeu_pd(to + i, _mm512_add_pd(_mm512_loadu_pd(to + i), wide));
  }
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

static const struct optim_form avx2 = {"avx2", apply_avx2, sum_avx2};

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

static const struct optim_form avx512 = {"avx512", apply_avx512, sum_avx512};
#endif

const struct optim_form *optim_form(int i) {
  const struct optim_form *forms[3] = {&scalar};
  if (vec_form(i) == NULL) {
    return NULL;
  }
#if defined(__x86_64__)
  forms[1] = &avx2;
  forms[2] = __builtin_cpu_supports("avx512dq") ? &avx512 : NULL;
#endif
  return forms[i];
}
