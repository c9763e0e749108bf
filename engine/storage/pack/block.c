/* SPDX-License-Identifier: MIT
**
** block.c -- see block.h, and pack.h about sizes.
*/
#include "block.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

uint32_t pack_value_bytes(const struct pack_head *head) {
  uint32_t bytes = 0;
  for (uint32_t i = 0; i < head->column_count; i++) {
    bytes += head->columns[i].bytes;
  }
  return bytes;
}

uint32_t pack__block_rows(uint32_t value_bytes) {
  uint32_t n = PACK_BLOCK_TARGET / (ROW_BYTES + value_bytes);
  return n ? n : 1;
}

/* ---- the width that nearly all bytes have -------------------------------- */

#ifdef __SSE2__
/* Splits 16 elements at a time; returns the number of elements done. */
static size_t split_many(const char *row, size_t elements, char *to,
                         size_t plane) {
  const __m128i low = _mm_set1_epi32(255);
  size_t e = 0;
  for (; e + 16 <= elements; e += 16) {
    __m128i x[4];
    memcpy(x, row + e * 4, sizeof x);
    for (size_t p = 0; p < 4; p++) {
      __m128i a =
          _mm_packs_epi32(_mm_and_si128(x[0], low), _mm_and_si128(x[1], low));
      __m128i b =
          _mm_packs_epi32(_mm_and_si128(x[2], low), _mm_and_si128(x[3], low));
      __m128i bytes = _mm_packus_epi16(a, b);
      memcpy(to + plane * p + e, &bytes, sizeof bytes);
      for (int i = 0; i < 4; i++) {
        x[i] = _mm_srli_epi32(x[i], 8);
      }
    }
  }
  return e;
}

static size_t join_many(const char *from, size_t plane, size_t elements,
                        char *row) {
  size_t e = 0;
  for (; e + 16 <= elements; e += 16) {
    __m128i p[4], x[4];
    for (size_t i = 0; i < 4; i++) {
      memcpy(&p[i], from + plane * i + e, sizeof p[i]);
    }
    __m128i a = _mm_unpacklo_epi8(p[0], p[1]),
            b = _mm_unpackhi_epi8(p[0], p[1]);
    __m128i c = _mm_unpacklo_epi8(p[2], p[3]),
            d = _mm_unpackhi_epi8(p[2], p[3]);
    x[0] = _mm_unpacklo_epi16(a, c);
    x[1] = _mm_unpackhi_epi16(a, c);
    x[2] = _mm_unpacklo_epi16(b, d);
    x[3] = _mm_unpackhi_epi16(b, d);
    memcpy(row + e * 4, x, sizeof x);
  }
  return e;
}
#else
static size_t split_many(const char *row, size_t elements, char *to,
                         size_t plane) {
  (void)row, (void)elements, (void)to, (void)plane;
  return 0;
}

static size_t join_many(const char *from, size_t plane, size_t elements,
                        char *row) {
  (void)from, (void)plane, (void)elements, (void)row;
  return 0;
}
#endif

static void split_words(const char *row, size_t elements, char *to,
                        size_t plane) {
  for (size_t e = split_many(row, elements, to, plane); e < elements; e++) {
    uint32_t word;
    memcpy(&word, row + e * 4, 4);
    to[e] = (char)word;
    to[plane + e] = (char)(word >> 8);
    to[plane * 2 + e] = (char)(word >> 16);
    to[plane * 3 + e] = (char)(word >> 24);
  }
}

static void join_words(const char *from, size_t plane, size_t elements,
                       char *row) {
  const uint8_t *at = (const uint8_t *)from;
  for (size_t e = join_many(from, plane, elements, row); e < elements; e++) {
    uint32_t word = at[e] | (uint32_t)at[plane + e] << 8 |
                    (uint32_t)at[plane * 2 + e] << 16 |
                    (uint32_t)at[plane * 3 + e] << 24;
    memcpy(row + e * 4, &word, 4);
  }
}

/* ---- any width ----------------------------------------------------------- */

char *block_planes(const char *rows, size_t stride, size_t n, size_t elements,
                   uint32_t width, char *to) {
  size_t plane = n * elements;
  for (size_t r = 0; r < n; r++, rows += stride) {
    char *at = to + r * elements;
    if (width == 1) {
      memcpy(at, rows, elements);
    } else if (width == 4) {
      split_words(rows, elements, at, plane);
    } else {
      for (uint32_t p = 0; p < width; p++) {
        for (size_t e = 0; e < elements; e++) {
          at[p * plane + e] = rows[e * width + p];
        }
      }
    }
  }
  return to + plane * width;
}

const char *block_rows(const char *from, size_t n, size_t elements,
                       uint32_t width, char *rows, size_t stride) {
  size_t plane = n * elements;
  for (size_t r = 0; r < n; r++, rows += stride) {
    const char *at = from + r * elements;
    if (width == 1) {
      memcpy(rows, at, elements);
    } else if (width == 4) {
      join_words(at, plane, elements, rows);
    } else {
      for (uint32_t p = 0; p < width; p++) {
        for (size_t e = 0; e < elements; e++) {
          rows[e * width + p] = at[p * plane + e];
        }
      }
    }
  }
  return from + plane * width;
}
