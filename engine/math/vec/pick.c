/* SPDX-License-Identifier: MIT
**
** pick.c -- see pick.h.
**
** Usually no result is picked, so the wide forms test a whole register of
** results at once.  With 256 queries and rows of 64 elements, the scalar form
** took more time than all products.
*/
#include "pick.h"

#include "vec.h"

static int is_picked(float result, float least, float factor, float add) {
  return !(result * factor < least + add);
}

size_t pick__scalar(uint32_t *to, const float *results, const float *least,
                    size_t n, float factor, float add) {
  size_t picked = 0;
  for (size_t i = 0; i < n; i++) {
    if (is_picked(results[i], least[i], factor, add)) {
      to[picked++] = (uint32_t)i;
    }
  }
  return picked;
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Writes the set bits of a mask as numbers, bit 0 being `first`. */
static size_t pick_bits(uint32_t *to, unsigned mask, size_t first) {
  size_t n = 0;
  for (; mask; mask &= mask - 1) {
    to[n++] = (uint32_t)(first + (size_t)__builtin_ctz(mask));
  }
  return n;
}

/* Adds `from` to the n numbers picked from the remaining results. */
static size_t pick_number(uint32_t *to, size_t n, size_t from) {
  for (size_t i = 0; i < n; i++) {
    to[i] += (uint32_t)from;
  }
  return n;
}

__attribute__((target("avx2,fma"))) static size_t
pick_avx2(uint32_t *to, const float *results, const float *least, size_t n,
          float factor, float add) {
  __m256 f = _mm256_set1_ps(factor), a = _mm256_set1_ps(add);
  size_t picked = 0, i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 x = _mm256_mul_ps(_mm256_loadu_ps(results + i), f);
    __m256 l = _mm256_add_ps(_mm256_loadu_ps(least + i), a);
    unsigned mask =
        (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x, l, _CMP_NLT_UQ));
    if (mask) {
      picked += pick_bits(to + picked, mask, i);
    }
  }
  size_t rest =
      pick__scalar(to + picked, results + i, least + i, n - i, factor, add);
  return picked + pick_number(to + picked, rest, i);
}

__attribute__((target("avx512f"))) static size_t
pick_avx512(uint32_t *to, const float *results, const float *least, size_t n,
            float factor, float add) {
  __m512 f = _mm512_set1_ps(factor), a = _mm512_set1_ps(add);
  size_t picked = 0, i = 0;
  for (; i + 16 <= n; i += 16) {
    __m512 x = _mm512_mul_ps(_mm512_loadu_ps(results + i), f);
    __m512 l = _mm512_add_ps(_mm512_loadu_ps(least + i), a);
    unsigned mask = _mm512_cmp_ps_mask(x, l, _CMP_NLT_UQ);
    if (mask) {
      picked += pick_bits(to + picked, mask, i);
    }
  }
  size_t rest =
      pick__scalar(to + picked, results + i, least + i, n - i, factor, add);
  return picked + pick_number(to + picked, rest, i);
}
#endif

pick_form *pick__form(int i) {
#if defined(__x86_64__)
  static pick_form *const forms[] = {pick__scalar, pick_avx2, pick_avx512};
#else
  static pick_form *const forms[] = {pick__scalar};
#endif
  return vec__form(i) ? forms[i] : NULL; /* they need no further features */
}

pick_form *pick_best(void) {
  int i = 0;
  while (pick__form(i + 1)) {
    i++;
  }
  return pick__form(i);
}
