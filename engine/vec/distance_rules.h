/* SPDX-License-Identifier: MIT
**
** distance_rules.h -- distance.h in wide registers, once for all widths.
**
** Included by distance_forms.c for each form, with
**   FORM(name)  name of a function in this form
**   TARGET      the attribute of its functions
**   VEC, WIDTH  WIDTH float32
**   LOAD(p), LOAD_HALF(p)   WIDTH elements of float32 or float16 as a VEC
**   LOAD_SOME(p, n), LOAD_HALF_SOME(p, n)   the first n < WIDTH and zeros,
**               without a look at what follows them
**   STORE(p, x), ZERO(), SET(x), ADD(a, b), SUB(a, b), FMA(a, b, c) = a * b + c
**   SUMS(a, b, c, d)        the sums of four VECs, as four float32
**   TILE        rows of a tile: 2 * TILE accumulators, two parts of a panel and
**               a broadcast element fill the registers
*/

#define INLINE TARGET static inline __attribute__((always_inline))
#define EACH(variable, n)                                                      \
  _Pragma("GCC unroll 16") for (size_t variable = 0; variable < (n); variable++)

/* ---- rows against one query --------------------------------------------- */

/* what and half are constants wherever these are expanded. */
INLINE VEC FORM(near_load)(const char *row, size_t i, int half) {
  return half ? LOAD_HALF(row + 2 * i) : LOAD(row + 4 * i);
}
INLINE VEC FORM(near_load_some)(const char *row, size_t i, size_t n, int half) {
  return half ? LOAD_HALF_SOME(row + 2 * i, n) : LOAD_SOME(row + 4 * i, n);
}

INLINE void FORM(near_add)(enum distance_what what, VEC *sum, VEC *squares,
                           VEC q, VEC x) {
  if (what == DISTANCE_L2) {
    VEC d = SUB(q, x);
    *sum = FMA(d, d, *sum);
    return;
  }
  *sum = FMA(q, x, *sum);
  if (what == DISTANCE_DOT_SQUARES) {
    *squares = FMA(x, x, *squares);
  }
}

/* Adds what the elements from `from` to `end` contribute to four rows at once:
** with two sums each, these are the eight chains that two units of a latency of
** four take.  The sums of four rows are added up together, which costs hardly
** more than for one. */
INLINE void FORM(near_four)(enum distance_what what, int half, __m128 *to,
                            __m128 *to_squares, const float *query,
                            const char *const *row, size_t from, size_t end) {
  VEC even[4], odd[4], squares[4];
  EACH(r, 4) { even[r] = odd[r] = squares[r] = ZERO(); }
  size_t i = from;
  for (; i + 2 * WIDTH <= end; i += 2 * WIDTH) {
    VEC q = LOAD(query + i), next = LOAD(query + i + WIDTH);
    EACH(r, 4) {
      VEC x = FORM(near_load)(row[r], i, half);
      FORM(near_add)(what, &even[r], &squares[r], q, x);
    }
    EACH(r, 4) {
      VEC x = FORM(near_load)(row[r], i + WIDTH, half);
      FORM(near_add)(what, &odd[r], &squares[r], next, x);
    }
  }
  if (i + WIDTH <= end) {
    VEC q = LOAD(query + i);
    EACH(r, 4) {
      VEC x = FORM(near_load)(row[r], i, half);
      FORM(near_add)(what, &even[r], &squares[r], q, x);
    }
    i += WIDTH;
  }
  if (i < end) {
    VEC q = LOAD_SOME(query + i, end - i);
    EACH(r, 4) {
      VEC x = FORM(near_load_some)(row[r], i, end - i, half);
      FORM(near_add)(what, &odd[r], &squares[r], q, x);
    }
  }
  EACH(r, 4) { even[r] = ADD(even[r], odd[r]); }
  *to = _mm_add_ps(*to, SUMS(even[0], even[1], even[2], even[3]));
  if (what == DISTANCE_DOT_SQUARES) {
    *to_squares = _mm_add_ps(
        *to_squares, SUMS(squares[0], squares[1], squares[2], squares[3]));
  }
}

INLINE void FORM(near_rows)(enum distance_what what, int half, float *to,
                            float *squares, const float *query,
                            const struct distance_rows *rows, size_t dim) {
  const char *first = rows->first;
  for (size_t i = 0; i < rows->n; i += 4) {
    size_t n = rows->n - i < 4 ? rows->n - i : 4;
    const char *row[4]; /* the last again, where there are no four */
    EACH(r, 4) { row[r] = first + (r < n ? r : n - 1) * rows->stride; }
    __m128 sums = _mm_setzero_ps(), sums_squares = _mm_setzero_ps();
    size_t from = 0;
    do {
      size_t end = dim - from < DISTANCE_PART ? dim : from + DISTANCE_PART;
      FORM(near_four)(what, half, &sums, &sums_squares, query, row, from, end);
      from = end;
    } while (from < dim);
    distance_store(to + i, sums, n);
    if (what == DISTANCE_DOT_SQUARES) {
      distance_store(squares + i, sums_squares, n);
    }
    first += 4 * rows->stride;
  }
}

TARGET static void FORM(l2_f32)(float *to, const float *query,
                                const struct distance_rows *rows, size_t dim) {
  FORM(near_rows)(DISTANCE_L2, 0, to, NULL, query, rows, dim);
}
TARGET static void FORM(l2_f16)(float *to, const float *query,
                                const struct distance_rows *rows, size_t dim) {
  FORM(near_rows)(DISTANCE_L2, 1, to, NULL, query, rows, dim);
}
TARGET static void FORM(dot_f32)(float *to, float *squares, const float *query,
                                 const struct distance_rows *rows, size_t dim) {
  if (squares) {
    FORM(near_rows)(DISTANCE_DOT_SQUARES, 0, to, squares, query, rows, dim);
  } else {
    FORM(near_rows)(DISTANCE_DOT, 0, to, NULL, query, rows, dim);
  }
}
TARGET static void FORM(dot_f16)(float *to, float *squares, const float *query,
                                 const struct distance_rows *rows, size_t dim) {
  if (squares) {
    FORM(near_rows)(DISTANCE_DOT_SQUARES, 1, to, squares, query, rows, dim);
  } else {
    FORM(near_rows)(DISTANCE_DOT, 1, to, NULL, query, rows, dim);
  }
}

/* ---- rows against panels of queries ------------------------------------- */

/* A part of TILE rows as float32, zeros for those that are not there. */
struct FORM(tile) {
  float row[TILE][DISTANCE_DEPTH + 16]; /* not all at one place of the cache */
};

INLINE void FORM(tile_load)(struct FORM(tile) * tile, const char *first,
                            size_t stride, size_t n, size_t from, size_t depth,
                            int half) {
  for (size_t r = 0; r < TILE; r++) {
    float *to = tile->row[r];
    const char *row = first + r * stride;
    size_t i = 0;
    for (; r < n && i + WIDTH <= depth; i += WIDTH) {
      STORE(to + i, FORM(near_load)(row, from + i, half));
    }
    if (r < n && i < depth) {
      STORE(to + i, FORM(near_load_some)(row, from + i, depth - i, half));
      i = depth;
    }
    memset(to + i, 0, (depth - i) * sizeof *to);
  }
}

/* The squares of the first n rows. */
INLINE void FORM(tile_squares)(float *to, const struct FORM(tile) * tile,
                               size_t n, size_t depth, int first) {
  for (size_t r = 0; r < n; r++) {
    VEC sum = ZERO();
    size_t i = 0;
    for (; i + WIDTH <= depth; i += WIDTH) {
      VEC x = LOAD(tile->row[r] + i);
      sum = FMA(x, x, sum);
    }
    if (i < depth) {
      VEC x = LOAD_SOME(tile->row[r] + i, depth - i);
      sum = FMA(x, x, sum);
    }
    float one = _mm_cvtss_f32(SUMS(sum, ZERO(), ZERO(), ZERO()));
    to[r] = first ? one : to[r] + one;
  }
}

/* `count` rows of the tile, a constant, with one panel; the first n are kept:
** set, or added to what earlier parts gave. */
INLINE void FORM(tile_panel)(size_t count, float *to, size_t width, size_t n,
                             const float *panel, const float *x, size_t depth,
                             int first) {
  enum { ROW = DISTANCE_DEPTH + 16 };
  VEC low[TILE], high[TILE];
  EACH(r, count) { low[r] = high[r] = ZERO(); }
  for (size_t k = 0; k < depth; k++) {
    VEC p = LOAD(panel + 2 * WIDTH * k),
        q = LOAD(panel + 2 * WIDTH * k + WIDTH);
    EACH(r, count) {
      VEC e = SET(x[r * ROW + k]);
      low[r] = FMA(e, p, low[r]);
      high[r] = FMA(e, q, high[r]);
    }
  }
  EACH(r, count) {
    if (r < n) {
      float *at = to + r * width;
      STORE(at, first ? low[r] : ADD(LOAD(at), low[r]));
      STORE(at + WIDTH, first ? high[r] : ADD(LOAD(at + WIDTH), high[r]));
    }
  }
}

/* Few rows, at the end, in tiles of a third. */
TARGET static void FORM(tile_panels)(float *to, size_t width, size_t n,
                                     const float *panels, size_t dim,
                                     const struct FORM(tile) * tile,
                                     size_t from, size_t depth) {
  for (size_t p = 0; p < width; p += 2 * WIDTH) {
    const float *panel = panels + p * dim + 2 * WIDTH * from;
    if (n > TILE - TILE / 3) {
      FORM(tile_panel)
      (TILE, to + p, width, n, panel, tile->row[0], depth, from == 0);
      continue;
    }
    for (size_t r = 0; r < n; r += TILE / 3) {
      FORM(tile_panel)
      (TILE / 3, to + r * width + p, width, n - r, panel, tile->row[r], depth,
       from == 0);
    }
  }
}

INLINE void FORM(tile_rows)(float *to, float *squares, const float *panels,
                            size_t width, const struct distance_rows *rows,
                            size_t dim, int half) {
  struct FORM(tile) tile;
  for (size_t block = 0; block < rows->n; block += TILE * DISTANCE_TILES) {
    size_t left = rows->n - block, end = TILE * DISTANCE_TILES;
    end = block + (left < end ? left : end);
    for (size_t from = 0; from < dim; from += DISTANCE_DEPTH) {
      size_t depth = dim - from < DISTANCE_DEPTH ? dim - from : DISTANCE_DEPTH;
      for (size_t i = block; i < end; i += TILE) {
        size_t n = end - i < TILE ? end - i : TILE;
        const char *first = (const char *)rows->first + i * rows->stride;
        FORM(tile_load)(&tile, first, rows->stride, n, from, depth, half);
        if (squares) {
          FORM(tile_squares)(squares + i, &tile, n, depth, from == 0);
        }
        FORM(tile_panels)
        (to + i * width, width, n, panels, dim, &tile, from, depth);
      }
    }
  }
}

TARGET static void FORM(tile_f32)(float *to, float *squares,
                                  const float *panels, size_t width,
                                  const struct distance_rows *rows,
                                  size_t dim) {
  FORM(tile_rows)(to, squares, panels, width, rows, dim, 0);
}
TARGET static void FORM(tile_f16)(float *to, float *squares,
                                  const float *panels, size_t width,
                                  const struct distance_rows *rows,
                                  size_t dim) {
  FORM(tile_rows)(to, squares, panels, width, rows, dim, 1);
}

static void FORM(pack)(float *panels, const float *queries, size_t n,
                       size_t dim) {
  distance_pack(panels, queries, n, dim, 2 * WIDTH);
}

#undef INLINE
#undef EACH
#undef FORM
#undef TARGET
#undef VEC
#undef WIDTH
#undef LOAD
#undef LOAD_SOME
#undef LOAD_HALF
#undef LOAD_HALF_SOME
#undef STORE
#undef ZERO
#undef SET
#undef ADD
#undef SUB
#undef FMA
#undef SUMS
#undef TILE
