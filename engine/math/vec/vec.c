/* SPDX-License-Identifier: MIT
**
** vec.c -- the scalar reference, the wide forms, and the choice; see vec.h.
**
** The wide forms are the same loops compiled for another target, except for
** float16, where the processor has an instruction.  The float16 conversion of
** the scalar form follows IEEE 754-2008 binary16 with round to nearest even.
*/
#include "vec.h"

#include <string.h>

#include "engine/base/seed.h"

#define F16_MAX_EXPONENT 0x7f800000u

static uint16_t half_of(float value) {
  uint32_t x;
  memcpy(&x, &value, 4);
  uint16_t sign = (uint16_t)(x >> 16 & 0x8000);
  x &= 0x7fffffffu;
  if (x > F16_MAX_EXPONENT) { /* NaN stays NaN; its payload is cut */
    return (uint16_t)(sign | 0x7e00 | (x >> 13 & 0x1ff));
  }
  if (x >= 0x477ff000u) { /* rounds to more than 65504 */
    return (uint16_t)(sign | 0x7c00);
  }
  if (x < 0x33000001u) { /* at most half of the smallest subnormal */
    return sign;
  }
  if (x < 0x38800000u) { /* subnormal: shift the mantissa with its lead bit */
    uint32_t shift = 126 - (x >> 23);
    uint32_t mantissa = (x & 0x7fffff) | 0x800000;
    uint32_t half = mantissa >> shift;
    uint32_t rest = mantissa & ((1u << shift) - 1), tie = 1u << (shift - 1);
    half += rest > tie || (rest == tie && (half & 1));
    return (uint16_t)(sign | half);
  }
  uint32_t half = (x - 0x38000000u) >> 13;
  uint32_t rest = x & 0x1fff;
  int tie_up = half & 1 || EMB_SEED(SEED_HALF_TIE_ROUNDED_UP);
  half += rest > 0x1000 || (rest == 0x1000 && tie_up);
  return (uint16_t)(sign | half);
}

static float float_of(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16;
  uint32_t exponent = half >> 10 & 31, mantissa = half & 0x3ff, x;
  if (exponent == 31) {
    x = sign | F16_MAX_EXPONENT | mantissa << 13;
  } else if (exponent) {
    x = sign | (exponent + 112) << 23 | mantissa << 13;
  } else {
    float small = (float)mantissa * 0x1p-24f;
    memcpy(&x, &small, 4);
    x |= sign;
  }
  float value;
  memcpy(&value, &x, 4);
  return value;
}

static void to_f16_scalar(uint16_t *to, const float *from, size_t n) {
  for (size_t i = 0; i < n; i++) {
    float value;
    memcpy(&value, from + i, 4);
    to[i] = half_of(value);
  }
}

static void from_f16_scalar(float *to, const uint16_t *from, size_t n) {
  for (size_t i = 0; i < n; i++) {
    float value = float_of(from[i]);
    memcpy(to + i, &value, 4);
  }
}

/* The body of find_bad: blocks without a branch per element. */
#define FIND_BAD_BODY                                                          \
  size_t i = 0;                                                                \
  for (; i + 16 <= n; i += 16) {                                               \
    uint32_t bad = 0, w[16];                                                   \
    memcpy(w, x + i, sizeof w);                                                \
    for (int k = 0; k < 16; k++) {                                             \
      bad |= (w[k] & F16_MAX_EXPONENT) == F16_MAX_EXPONENT;                    \
    }                                                                          \
    if (bad) {                                                                 \
      break;                                                                   \
    }                                                                          \
  }                                                                            \
  for (; i < n; i++) {                                                         \
    uint32_t w;                                                                \
    memcpy(&w, x + i, 4);                                                      \
    if ((w & F16_MAX_EXPONENT) == F16_MAX_EXPONENT) {                          \
      return i;                                                                \
    }                                                                          \
  }                                                                            \
  return n;

#define ADD_BODY                                                               \
  for (size_t i = 0; i < n; i++) {                                             \
    float p, q;                                                                \
    memcpy(&p, a + i, 4);                                                      \
    memcpy(&q, b + i, 4);                                                      \
    p += q;                                                                    \
    memcpy(to + i, &p, 4);                                                     \
  }

static size_t find_bad_scalar(const float *x, size_t n) { FIND_BAD_BODY }
static void add_scalar(float *to, const float *a, const float *b, size_t n) {
  ADD_BODY
}

const struct vec_ops vec_scalar = {
    "scalar", 0, to_f16_scalar, from_f16_scalar, find_bad_scalar, add_scalar};

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,f16c,fma")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,f16c")))

AVX2 static void to_f16_avx2(uint16_t *to, const float *from, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m128i h =
        _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128((__m128i *)(void *)(to + i), h);
  }
  to_f16_scalar(to + i, from + i, n - i);
}
AVX2 static void from_f16_avx2(float *to, const uint16_t *from, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(h));
  }
  from_f16_scalar(to + i, from + i, n - i);
}
AVX2 static size_t find_bad_avx2(const float *x, size_t n){FIND_BAD_BODY} AVX2
    static void add_avx2(float *to, const float *a, const float *b, size_t n) {
  ADD_BODY
}
static const struct vec_ops vec_avx2 = {
    "avx2", 32, to_f16_avx2, from_f16_avx2, find_bad_avx2, add_avx2};

AVX512 static void to_f16_avx512(uint16_t *to, const float *from, size_t n) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    __m256i h =
        _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256((__m256i *)(void *)(to + i), h);
  }
  to_f16_scalar(to + i, from + i, n - i);
}
AVX512 static void from_f16_avx512(float *to, const uint16_t *from, size_t n) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)(from + i));
    _mm512_storeu_ps(to + i, _mm512_cvtph_ps(h));
  }
  from_f16_scalar(to + i, from + i, n - i);
}
AVX512 static size_t find_bad_avx512(const float *x, size_t n){
    FIND_BAD_BODY} AVX512 static void add_avx512(float *to, const float *a,
                                                 const float *b, size_t n) {
  ADD_BODY
}
static const struct vec_ops vec_avx512 = {
    "avx512", 64, to_f16_avx512, from_f16_avx512, find_bad_avx512, add_avx512};
#endif

const struct vec_ops *vec__form(int i) {
  const struct vec_ops *forms[4] = {&vec_scalar};
  int n = 1;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    forms[n++] = &vec_avx2; /* every processor with these has f16c */
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl")) {
      forms[n++] = &vec_avx512;
    }
  }
#endif
  return i < n ? forms[i] : NULL;
}

const struct vec_ops *vec_best(void) {
  int i = 0;
  while (vec__form(i + 1)) {
    i++;
  }
  return vec__form(i);
}
