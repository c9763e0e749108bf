/* SPDX-License-Identifier: MIT
**
** scan.c -- a query against the codes of 16 entries (code.h), the innermost
** loop of a search: in scalar form, which is the reference, and for AVX2 and
** AVX-512 with VNNI.
**
** Query and codes are integers, so all forms compute the same sums; the
** results, which are float32, differ only in the last bits.
**
** The square of the value of an 8-, 4- or 2-bit code is computed on the fly
** from the code, though it could be stored: a scan takes as long as reading the
** codes, and two bytes for each key are an eighth of what an index may use
** besides the codes.
*/
#include "code.h"

/* ---- scalar -------------------------------------------------------------- */

static void sums_of_entry(const struct ivf_probe *p, const uint32_t *codes,
                          int32_t *dot, int32_t *squares) {
  uint32_t planes = 8 / p->bits, mask = (1u << p->bits) - 1;
  const int8_t *query = p->query;
  *dot = *squares = 0;
  for (uint32_t w = 0; w < p->words; w++) {
    for (uint32_t plane = 0; plane < planes; plane++) {
      for (uint32_t b = 0; b < 4; b++) {
        uint32_t shift = b * 8 + plane * p->bits;
        int32_t c = (int32_t)(codes[w * IVF_BLOCK] >> shift & mask);
        int32_t z = p->bits == 8 ? c - 128 : 2 * c - (int32_t)mask;
        *dot += c * *query++;
        *squares += z * z;
      }
    }
  }
}

static float mark_value(uint32_t base, uint8_t mark) {
  uint32_t bits = base + ((uint32_t)mark << IVF_MARK_SHIFT);
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t scan_scalar(const struct ivf_probe *p, const uint32_t *codes,
                            const uint8_t *marks, float limit, float *to) {
  uint32_t below = 0;
  for (uint32_t i = 0; i < IVF_BLOCK; i++) {
    int32_t dot, squares;
    sums_of_entry(p, codes + i, &dot, &squares);
    float mark = mark_value(p->base, marks[i]);
    float length =
        p->bits == 1 ? mark_value(p->base, marks[IVF_BLOCK + i]) : mark;
    float square = p->bits == 1 ? length * length
                                : length * length * (float)(squares - p->pad);
    to[i] = p->a + mark * p->b * ((float)dot - p->k) + p->c * square;
    below |= (uint32_t)(to[i] < limit) << i;
  }
  return below;
}

static void minimum_scalar(float *best, uint32_t *at, const float *products,
                           size_t n, float half, uint32_t i) {
  for (size_t j = 0; j < n; j++) {
    float x = half - products[j];
    if (x < best[j]) {
      best[j] = x;
      at[j] = i;
    }
  }
}

static const struct ivf_ops ops_scalar = {"scalar", scan_scalar,
                                          minimum_scalar};

#if defined(__x86_64__)
#include <immintrin.h>

static inline int32_t four_of(const int8_t *query) {
  int32_t four;
  memcpy(&four, query, sizeof four);
  return four;
}

/* ---- AVX2 ---------------------------------------------------------------- */

#define IVF_AVX2 __attribute__((target("avx2,fma")))
#define IVF_INLINE __attribute__((always_inline)) static inline

/* The sums of 8 entries. */
IVF_AVX2 IVF_INLINE void code_sums_avx2(const struct ivf_probe *p,
                                        const uint32_t *codes, uint32_t bits,
                                        int squares, __m256i *dot,
                                        __m256i *square) {
  const __m256i ones = _mm256_set1_epi16(1);
  const __m256i mask = _mm256_set1_epi8((char)((1u << bits) - 1));
  const __m256i top = _mm256_set1_epi8((char)0x80);
  const __m256i sizes = _mm256_broadcastsi128_si256(
      bits == 4
          ? _mm_setr_epi8(15, 13, 11, 9, 7, 5, 3, 1, 1, 3, 5, 7, 9, 11, 13, 15)
          : _mm_set1_epi32(0x03010103));
  const int8_t *query = p->query;
  __m256i sum = _mm256_setzero_si256(), other = sum;
  for (uint32_t w = 0; w < p->words; w++) {
    __m256i word =
        _mm256_loadu_si256((const void *)(codes + (size_t)w * IVF_BLOCK));
    for (uint32_t plane = 0; plane < 8 / bits; plane++, query += 4) {
      __m256i c = bits == 8
                      ? word
                      : _mm256_and_si256(
                            _mm256_srli_epi32(word, (int)(plane * bits)), mask);
      __m256i q = _mm256_set1_epi32(four_of(query));
      sum = _mm256_add_epi32(
          sum, _mm256_madd_epi16(_mm256_maddubs_epi16(c, q), ones));
      if (squares) {
        __m256i z = bits == 8 ? _mm256_abs_epi8(_mm256_xor_si256(c, top))
                              : _mm256_shuffle_epi8(sizes, c);
        other = _mm256_add_epi32(
            other, _mm256_madd_epi16(_mm256_maddubs_epi16(z, z), ones));
      }
    }
  }
  *dot = sum;
  *square = other;
}

IVF_AVX2 static inline __m256 marks_avx2(const struct ivf_probe *p,
                                         const uint8_t *marks) {
  __m256i m = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)marks));
  m = _mm256_add_epi32(_mm256_slli_epi32(m, IVF_MARK_SHIFT),
                       _mm256_set1_epi32((int)p->base));
  return _mm256_castsi256_ps(m);
}

IVF_AVX2 static uint32_t eight_avx2(const struct ivf_probe *p,
                                    const uint32_t *codes, const uint8_t *marks,
                                    float limit, float *to) {
  __m256i dot, squares;
  int wanted = p->c > 0;
  if (p->bits == 8) {
    wanted ? code_sums_avx2(p, codes, 8, 1, &dot, &squares)
           : code_sums_avx2(p, codes, 8, 0, &dot, &squares);
  } else if (p->bits == 4) {
    wanted ? code_sums_avx2(p, codes, 4, 1, &dot, &squares)
           : code_sums_avx2(p, codes, 4, 0, &dot, &squares);
  } else if (p->bits == 2) {
    wanted ? code_sums_avx2(p, codes, 2, 1, &dot, &squares)
           : code_sums_avx2(p, codes, 2, 0, &dot, &squares);
  } else {
    code_sums_avx2(p, codes, 1, 0, &dot, &squares);
  }
  __m256 mark = marks_avx2(p, marks);
  __m256 length = p->bits == 1 ? marks_avx2(p, marks + IVF_BLOCK) : mark;
  __m256 square = _mm256_mul_ps(length, length);
  if (p->bits != 1) {
    squares = _mm256_sub_epi32(squares, _mm256_set1_epi32(p->pad));
    square = _mm256_mul_ps(square, _mm256_cvtepi32_ps(squares));
  }
  __m256 d = _mm256_sub_ps(_mm256_cvtepi32_ps(dot), _mm256_set1_ps(p->k));
  __m256 x = _mm256_fmadd_ps(_mm256_mul_ps(mark, _mm256_set1_ps(p->b)), d,
                             _mm256_set1_ps(p->a));
  x = _mm256_fmadd_ps(_mm256_set1_ps(p->c), square, x);
  _mm256_storeu_ps(to, x);
  return (uint32_t)_mm256_movemask_ps(
      _mm256_cmp_ps(x, _mm256_set1_ps(limit), _CMP_LT_OQ));
}

IVF_AVX2 static uint32_t scan_avx2(const struct ivf_probe *p,
                                   const uint32_t *codes, const uint8_t *marks,
                                   float limit, float *to) {
  uint32_t low = eight_avx2(p, codes, marks, limit, to);
  return low | eight_avx2(p, codes + 8, marks + 8, limit, to + 8) << 8;
}

IVF_AVX2 static void minimum_avx2(float *best, uint32_t *at,
                                  const float *products, size_t n, float half,
                                  uint32_t i) {
  size_t j = 0;
  for (; j + 8 <= n; j += 8) {
    __m256 old = _mm256_loadu_ps(best + j);
    __m256 x =
        _mm256_sub_ps(_mm256_set1_ps(half), _mm256_loadu_ps(products + j));
    __m256i less = _mm256_castps_si256(_mm256_cmp_ps(x, old, _CMP_LT_OQ));
    if (!_mm256_testz_si256(less, less)) {
      _mm256_maskstore_ps(best + j, less, x);
      _mm256_maskstore_epi32((int *)(void *)(at + j), less,
                             _mm256_set1_epi32((int)i));
    }
  }
  minimum_scalar(best + j, at + j, products + j, n - j, half, i);
}

static const struct ivf_ops ops_avx2 = {"avx2", scan_avx2, minimum_avx2};

/* ---- AVX-512 ------------------------------------------------------------- */

#define IVF_AVX512                                                             \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma")))

IVF_AVX512 IVF_INLINE void code_sums_avx512(const struct ivf_probe *p,
                                            const uint32_t *codes,
                                            uint32_t bits, int squares,
                                            __m512i *dot, __m512i *square) {
  const __m512i mask = _mm512_set1_epi8((char)((1u << bits) - 1));
  const __m512i top = _mm512_set1_epi8((char)0x80);
  const __m512i sizes = _mm512_broadcast_i32x4(
      bits == 4
          ? _mm_setr_epi8(15, 13, 11, 9, 7, 5, 3, 1, 1, 3, 5, 7, 9, 11, 13, 15)
          : _mm_set1_epi32(0x03010103));
  const int8_t *query = p->query;
  /* Two of each, because each addition waits for the previous one. */
  __m512i sum[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  __m512i other[2] = {sum[0], sum[0]};
  for (uint32_t w = 0; w < p->words; w++) {
    __m512i word = _mm512_loadu_si512(codes + (size_t)w * IVF_BLOCK);
    for (uint32_t plane = 0; plane < 8 / bits; plane++, query += 4) {
      uint32_t turn = (bits == 8 ? w : plane) & 1;
      __m512i c =
          bits == 8
              ? word
              : _mm512_and_si512(_mm512_srli_epi32(word, plane * bits), mask);
      sum[turn] =
          _mm512_dpbusd_epi32(sum[turn], c, _mm512_set1_epi32(four_of(query)));
      if (squares) {
        __m512i z = bits == 8 ? _mm512_abs_epi8(_mm512_xor_si512(c, top))
                              : _mm512_shuffle_epi8(sizes, c);
        other[turn] = _mm512_dpbusd_epi32(other[turn], z, z);
      }
    }
  }
  *dot = _mm512_add_epi32(sum[0], sum[1]);
  *square = _mm512_add_epi32(other[0], other[1]);
}

IVF_AVX512 static inline __m512 marks_avx512(const struct ivf_probe *p,
                                             const uint8_t *marks) {
  __m512i m = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)marks));
  m = _mm512_add_epi32(_mm512_slli_epi32(m, IVF_MARK_SHIFT),
                       _mm512_set1_epi32((int)p->base));
  return _mm512_castsi512_ps(m);
}

IVF_AVX512 static uint32_t scan_avx512(const struct ivf_probe *p,
                                       const uint32_t *codes,
                                       const uint8_t *marks, float limit,
                                       float *to) {
  __m512i dot, squares;
  int wanted = p->c > 0;
  if (p->bits == 8) {
    wanted ? code_sums_avx512(p, codes, 8, 1, &dot, &squares)
           : code_sums_avx512(p, codes, 8, 0, &dot, &squares);
  } else if (p->bits == 4) {
    wanted ? code_sums_avx512(p, codes, 4, 1, &dot, &squares)
           : code_sums_avx512(p, codes, 4, 0, &dot, &squares);
  } else if (p->bits == 2) {
    wanted ? code_sums_avx512(p, codes, 2, 1, &dot, &squares)
           : code_sums_avx512(p, codes, 2, 0, &dot, &squares);
  } else {
    code_sums_avx512(p, codes, 1, 0, &dot, &squares);
  }
  __m512 mark = marks_avx512(p, marks);
  __m512 length = p->bits == 1 ? marks_avx512(p, marks + IVF_BLOCK) : mark;
  __m512 square = _mm512_mul_ps(length, length);
  if (p->bits != 1) {
    squares = _mm512_sub_epi32(squares, _mm512_set1_epi32(p->pad));
    square = _mm512_mul_ps(square, _mm512_cvtepi32_ps(squares));
  }
  __m512 d = _mm512_sub_ps(_mm512_cvtepi32_ps(dot), _mm512_set1_ps(p->k));
  __m512 x = _mm512_fmadd_ps(_mm512_mul_ps(mark, _mm512_set1_ps(p->b)), d,
                             _mm512_set1_ps(p->a));
  x = _mm512_fmadd_ps(_mm512_set1_ps(p->c), square, x);
  _mm512_storeu_ps(to, x);
  return _mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_LT_OQ);
}

IVF_AVX512 static void minimum_avx512(float *best, uint32_t *at,
                                      const float *products, size_t n,
                                      float half, uint32_t i) {
  for (size_t j = 0; j < n; j += 16) {
    __mmask16 in = (__mmask16)(n - j >= 16 ? 0xffff : (1u << (n - j)) - 1);
    __m512 old = _mm512_maskz_loadu_ps(in, best + j);
    __m512 x = _mm512_sub_ps(_mm512_set1_ps(half),
                             _mm512_maskz_loadu_ps(in, products + j));
    __mmask16 less = _mm512_mask_cmp_ps_mask(in, x, old, _CMP_LT_OQ);
    _mm512_mask_storeu_ps(best + j, less, x);
    _mm512_mask_storeu_epi32(at + j, less, _mm512_set1_epi32((int)i));
  }
}

static const struct ivf_ops ops_avx512 = {"avx512", scan_avx512,
                                          minimum_avx512};
#endif

/* ---- the choice ---------------------------------------------------------- */

const struct ivf_ops *ivf__ops(int i) {
  const struct ivf_ops *ops[4] = {&ops_scalar, NULL, NULL, NULL};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    ops[1] = &ops_avx2;
    if (__builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vnni")) {
      ops[2] = &ops_avx512;
    }
  }
#endif
  return ops[i];
}

const struct ivf_ops *ivf__ops_best(void) {
  int i = 0;
  while (ivf__ops(i + 1)) {
    i++;
  }
  return ivf__ops(i);
}
