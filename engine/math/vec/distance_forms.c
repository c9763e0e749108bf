/* SPDX-License-Identifier: MIT
**
** distance_forms.c -- the forms of distance.h: scalar, which is the reference;
** AVX2 and AVX-512, which instantiate distance_rules.h with their registers;
** and the error bound of them all.
**
** Rows against one query: in place and in order, in the time it takes to read
** them.  The processor's own prefetching needs that order: with four rows at
** once, and prefetching blocks of 8 KiB, one pass over a million rows of 64
** floats took 19.5 or 29 ms, by chance, and over 400,000 rows of 256 floats 36
** ms; now 18.4 and 32.4.  A bare read of the vectors takes 14.5 and 24.
**
** Rows against many: blocked for registers and caches as in Goto, van de Geijn,
** "Anatomy of high-performance matrix multiplication" (2008).
** Taking 256 elements at a time, a tile of rows is copied to the L1 cache as
** float32; the panels of queries, each [element][query], are streamed past it
** and stay in the L2 cache for several tiles.
*/
#include "distance.h"

#include <string.h>

#include "engine/emb.h"
#include "vec.h"

enum distance_what { DISTANCE_L2, DISTANCE_DOT, DISTANCE_DOT_SQUARES };

enum {
  /* Elements in one partial sum of a query and a row, before it is added to the
  ** earlier ones: the error of a product of n elements grows with n. */
  DISTANCE_PART = 2048,
  DISTANCE_DEPTH = 256,               /* the same in a tile */
  DISTANCE_ROW = DISTANCE_DEPTH + 16, /* avoids cache set conflicts */
  DISTANCE_TILES = 16,                /* per part of all panels */
  DISTANCE_LANES = 8                  /* sums of the scalar form */
};

/* The arguments of l2 and dot, and those of tile. */
struct distance_call {
  float *to, *squares;
  const float *query;
  const struct distance_rows *rows;
  size_t dim;
};
struct distance_tile {
  float *to, *squares;
  const float *panels;
  size_t width;
  const struct distance_rows *rows;
  size_t dim;
};

/* distance_ops of a form, from
**   rows_FORM(what, half, call)   what and half are constants
**   tile_FORM(half, tile) */
#define DISTANCE_NEAR(form, target, type, half)                                \
  target static void l2_##type##_##form(float *to, const float *query,         \
                                        const struct distance_rows *rows,      \
                                        size_t dim) {                          \
    emb_check(distance_rows_valid(rows, (half) ? 2 : 4, dim));                 \
    struct distance_call call = {to, NULL, query, rows, dim};                  \
    rows_##form(DISTANCE_L2, half, &call);                                     \
  }                                                                            \
  target static void dot_##type##_##form(                                      \
      float *to, float *squares, const float *query,                           \
      const struct distance_rows *rows, size_t dim) {                          \
    emb_check(distance_rows_valid(rows, (half) ? 2 : 4, dim));                 \
    struct distance_call call = {to, squares, query, rows, dim};               \
    if (squares) {                                                             \
      rows_##form(DISTANCE_DOT_SQUARES, half, &call);                          \
    } else {                                                                   \
      rows_##form(DISTANCE_DOT, half, &call);                                  \
    }                                                                          \
  }                                                                            \
  target static void tile_##type##_##form(                                     \
      float *to, float *squares, const float *panels, size_t width,            \
      const struct distance_rows *rows, size_t dim) {                          \
    emb_check(distance_rows_valid(rows, (half) ? 2 : 4, dim));                 \
    emb_assert(width % distance_##form.panel == 0);                            \
    struct distance_tile tile = {to, squares, panels, width, rows, dim};       \
    tile_##form(half, &tile);                                                  \
  }
#define DISTANCE_FORM(form, target, queries)                                   \
  static const struct distance_ops distance_##form;                            \
  DISTANCE_NEAR(form, target, f32, 0)                                          \
  DISTANCE_NEAR(form, target, f16, 1)                                          \
  static void pack_##form(float *panels, const float *from, size_t n,          \
                          size_t dim) {                                        \
    distance_pack(panels, from, n, dim, queries);                              \
  }                                                                            \
  static const struct distance_ops distance_##form = {                         \
      .name = #form,                                                           \
      .l2 = {l2_f32_##form, l2_f16_##form},                                    \
      .dot = {dot_f32_##form, dot_f16_##form},                                 \
      .panel = queries,                                                        \
      .pack = pack_##form,                                                     \
      .tile = {tile_f32_##form, tile_f16_##form}};

/* Let u = 2^-24 be the unit roundoff.  The roundings between an element's
** contribution and the result, in every form, are at most
**   2            the difference of l2, which is squared
**   1            the product; none where multiply and add are fused
**   min(n, 256)  the additions of one chain: DISTANCE_DEPTH in a tile, and as
**                many for a sum of DISTANCE_PART elements, which uses at least
**                DISTANCE_LANES chains
**   5            the sums of up to 2 * 16 chains, as a tree
**   n / 256 + 1  the sums of the parts
** Let k be their number.  Each is a factor 1 + d, |d| <= u, so a contribution t
** becomes t * (1 + h), |h| <= ku / (1 - ku) (Higham, "Accuracy and Stability of
** Numerical Algorithms", lemma 3.1).  For l2 and squares no t is negative, so
** the relative error of the sum has the same bound.  The error of a product is
** at most that bound times the sum of all |t|, which is at most |query| * |row|
** (Cauchy-Schwarz).
** Since k <= 521, ku / (1 - ku) < 1.0001 ku.  The rest of 1.001 exceeds the
** roundings of emb_distance, fewer than n + 20 of 2^-53.
**
** Sums and differences below FLT_MIN are exact.  The error of a product there
** is at most 2^-150; that of 2^16 products, with their own factors, is less
** than DISTANCE_UNDERFLOW. */
double distance_error(size_t dim) {
  emb_assert(dim > 0 && dim <= EMB_DIM_MAX); /* more than 521 roundings */
  size_t chain = dim < DISTANCE_DEPTH ? dim : DISTANCE_DEPTH;
  size_t roundings = 9 + chain + dim / DISTANCE_DEPTH;
  return 1.001 * 0x1p-24 * (double)roundings;
}

static void distance_pack(float *panels, const float *queries, size_t n,
                          size_t dim, size_t panel) {
  for (size_t first = 0; first < n; first += panel) {
    size_t filled = n - first < panel ? n - first : panel;
    for (size_t k = 0; k < dim; k++) {
      for (size_t q = 0; q < filled; q++) {
        memcpy(panels + q, queries + (first + q) * dim + k, sizeof *panels);
      }
      memset(panels + filled, 0, (panel - filled) * sizeof *panels);
      panels += panel;
    }
  }
}

static inline const char *distance_row(const struct distance_rows *rows,
                                       size_t i) {
  return (const char *)rows->first + i * rows->stride;
}

/* The row, of which nothing was read before. */
static inline const char *distance_begin(const struct distance_rows *rows,
                                         size_t i) {
  const char *row = distance_row(rows, i);
  if (rows->words) {
    const void *word = row - rows->back;
    rows->words[i] = __atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE);
  }
  for (size_t at = 0; rows->ahead && at < rows->stride; at += 64) {
    __builtin_prefetch(row + rows->ahead + at);
    __asm__ volatile(""); /* gcc 12 drops loops that do nothing else */
  }
  return row;
}

/* ---- scalar -------------------------------------------------------------- */

/* Converts the elements of a row from `from` on, at most DISTANCE_DEPTH, and
** returns their number. */
static size_t row_part(float *to, const char *row, size_t from, size_t dim,
                       int half) {
  size_t n = dim - from < DISTANCE_DEPTH ? dim - from : DISTANCE_DEPTH;
  if (half) {
    uint16_t halves[DISTANCE_DEPTH];
    memcpy(halves, row + from * sizeof *halves, n * sizeof *halves);
    vec_scalar.from_f16(to, halves, n);
  } else {
    memcpy(to, row + from * sizeof *to, n * sizeof *to);
  }
  return n;
}

/* The sum over n elements of (q - x)^2, or of q * x. */
static float part_sum(enum distance_what what, const float *q, const float *x,
                      size_t n) {
  float lane[DISTANCE_LANES] = {0};
  for (size_t i = 0; i < n; i++) {
    float d = q[i] - x[i];
    lane[i % DISTANCE_LANES] += what == DISTANCE_L2 ? d * d : q[i] * x[i];
  }
  return ((lane[0] + lane[4]) + (lane[1] + lane[5])) +
         ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

static void rows_scalar(enum distance_what what, int half,
                        const struct distance_call *call) {
  float q[DISTANCE_DEPTH], x[DISTANCE_DEPTH];
  for (size_t i = 0; i < call->rows->n; i++) {
    const char *row = distance_begin(call->rows, i);
    float sum = 0, squares = 0;
    for (size_t from = 0, n; from < call->dim; from += n) {
      n = row_part(x, row, from, call->dim, half);
      memcpy(q, call->query + from, n * sizeof *q);
      sum += part_sum(what, q, x, n);
      if (what == DISTANCE_DOT_SQUARES) {
        squares += part_sum(DISTANCE_DOT, x, x, n);
      }
    }
    call->to[i] = sum;
    if (what == DISTANCE_DOT_SQUARES) {
      call->squares[i] = squares;
    }
  }
}

/* Adds the products of a part of a row and a part of a panel. */
static void add_panel_scalar(float *to, const float *panel, const float *x,
                             size_t n) {
  float sum[DISTANCE_LANES] = {0};
  for (size_t k = 0; k < n; k++) {
    for (size_t q = 0; q < DISTANCE_LANES; q++) {
      sum[q] += x[k] * panel[k * DISTANCE_LANES + q];
    }
  }
  for (size_t q = 0; q < DISTANCE_LANES; q++) {
    to[q] += sum[q];
  }
}

static void tile_scalar(int half, const struct distance_tile *tile) {
  float x[DISTANCE_DEPTH], *to = tile->to;
  const char *row = tile->rows->first;
  memset(to, 0, tile->rows->n * tile->width * sizeof *to);
  for (size_t i = 0; i < tile->rows->n; i++) {
    float squares = 0;
    for (size_t from = 0, n; from < tile->dim; from += n) {
      n = row_part(x, row, from, tile->dim, half);
      for (size_t p = 0; p < tile->width; p += DISTANCE_LANES) {
        const float *panel = tile->panels + p * tile->dim;
        add_panel_scalar(to + p, panel + from * DISTANCE_LANES, x, n);
      }
      squares += part_sum(DISTANCE_DOT, x, x, n);
    }
    if (tile->squares) {
      tile->squares[i] = squares;
    }
    to += tile->width;
    row += tile->rows->stride;
  }
}

DISTANCE_FORM(scalar, , DISTANCE_LANES)

/* ---- AVX2 and AVX-512 ---------------------------------------------------- */

#if defined(__x86_64__)
#include <immintrin.h>

/* Some elements of a query. */
struct distance_part {
  const float *query;
  size_t from, end;
};

static inline void distance_store(float *to, __m128 x, size_t n) {
  if (n == 4) {
    _mm_storeu_ps(to, x);
    return;
  }
  float four[4];
  _mm_storeu_ps(four, x);
  memcpy(to, four, n * sizeof *to);
}

#define AVX2 __attribute__((target("avx2,f16c,fma")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,f16c,fma")))

AVX2 static inline __m256 some_avx2(const void *from, size_t n) {
  static const int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  const void *mask = ones + 8 - n;
  return _mm256_maskload_ps(from, _mm256_loadu_si256(mask));
}
AVX2 static inline __m256 half_avx2(const void *from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(from));
}
AVX2 static inline __m256 half_some_avx2(const void *from, size_t n) {
  uint16_t some[8] = {0};
  memcpy(some, from, n * sizeof *some);
  return half_avx2(some);
}
/* The sums of each four lanes, those of a, b, c, d side by side. */
AVX2 static inline __m256 sums_of_4_avx2(__m256 a, __m256 b, __m256 c,
                                         __m256 d) {
  __m256d ab = _mm256_castps_pd(
      _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b)));
  __m256d cd = _mm256_castps_pd(
      _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d)));
  return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd)),
                       _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd)));
}
AVX2 static inline __m128 sums_avx2(__m256 a, __m256 b, __m256 c, __m256 d) {
  __m256 sums = sums_of_4_avx2(a, b, c, d);
  return _mm_add_ps(_mm256_castps256_ps128(sums),
                    _mm256_extractf128_ps(sums, 1));
}

AVX512 static inline __m512 some_avx512(const void *from, size_t n) {
  return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), from);
}
AVX512 static inline __m512 half_avx512(const void *from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(from));
}
AVX512 static inline __m512 half_some_avx512(const void *from, size_t n) {
  return _mm512_cvtph_ps(
      _mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), from));
}
AVX512 static inline __m128 sums_avx512(__m512 a, __m512 b, __m512 c,
                                        __m512 d) {
  __m512d ab = _mm512_castps_pd(
      _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)));
  __m512d cd = _mm512_castps_pd(
      _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d)));
  __m512 four = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)),
                              _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)));
  __m256 high =
      _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(four), 1));
  __m256 sums = _mm256_add_ps(_mm512_castps512_ps256(four), high);
  return _mm_add_ps(_mm256_castps256_ps128(sums),
                    _mm256_extractf128_ps(sums, 1));
}

#define FORM(name) name##_avx2
#define TARGET AVX2
#define VEC __m256
#define WIDTH 8
#define LOAD(p) _mm256_loadu_ps((const float *)(const void *)(p))
#define LOAD_SOME(p, n) some_avx2(p, n)
#define LOAD_HALF(p) half_avx2(p)
#define LOAD_HALF_SOME(p, n) half_some_avx2(p, n)
#define STORE(p, x) _mm256_storeu_ps(p, x)
#define ZERO() _mm256_setzero_ps()
#define SET(x) _mm256_set1_ps(x)
#define ADD(a, b) _mm256_add_ps(a, b)
#define SUB(a, b) _mm256_sub_ps(a, b)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define SUMS(a, b, c, d) sums_avx2(a, b, c, d)
#define TILE 6
#include "distance_rules.h"

DISTANCE_FORM(avx2, AVX2, 16)

#define FORM(name) name##_avx512
#define TARGET AVX512
#define VEC __m512
#define WIDTH 16
#define LOAD(p) _mm512_loadu_ps(p)
#define LOAD_SOME(p, n) some_avx512(p, n)
#define LOAD_HALF(p) half_avx512(p)
#define LOAD_HALF_SOME(p, n) half_some_avx512(p, n)
#define STORE(p, x) _mm512_storeu_ps(p, x)
#define ZERO() _mm512_setzero_ps()
#define SET(x) _mm512_set1_ps(x)
#define ADD(a, b) _mm512_add_ps(a, b)
#define SUB(a, b) _mm512_sub_ps(a, b)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define SUMS(a, b, c, d) sums_avx512(a, b, c, d)
#define TILE 12
#include "distance_rules.h"

DISTANCE_FORM(avx512, AVX512, 32)
#endif

const struct distance_ops *distance__form(int i) {
  const struct distance_ops *forms[3] = {&distance_scalar};
  if (vec__form(i) == NULL) {
    return NULL;
  }
#if defined(__x86_64__)
  forms[1] = &distance_avx2;
  forms[2] = &distance_avx512;
#endif
  return forms[i];
}

const struct distance_ops *distance_best(void) {
  int i = 0;
  while (distance__form(i + 1)) {
    i++;
  }
  return distance__form(i);
}
