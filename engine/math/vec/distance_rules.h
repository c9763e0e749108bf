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
**               without reading past them
**   STORE(p, x), ZERO(), SET(x), ADD(a, b), SUB(a, b), FMA(a, b, c) = a * b + c
**   SUMS(a, b, c, d)        the sums of four VECs, as four float32
**   TILE        rows of a tile: 2 * TILE accumulators, two parts of a panel and
**               a broadcast element fill the registers
*/

#define INLINE TARGET static inline __attribute__((always_inline))
#define UNROLL(variable, n)                                                    \
  _Pragma("GCC unroll 16") for (size_t variable = 0; variable < (n); variable++)

/* ---- rows against one query ---------------------------------------------- */

/* `what` and `half` are constants wherever these are expanded. */
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

/* The sums over elements `from` to `end` of one row, in two chains. */
INLINE void FORM(near_row)(enum distance_what what, int half,
                           const struct distance_part *part, const char *row,
                           VEC *sum, VEC *squares) {
  const float *query = part->query;
  VEC even = ZERO(), odd = ZERO(), own = ZERO();
  size_t i = part->from, end = part->end;
  for (; i + 2 * WIDTH <= end; i += 2 * WIDTH) {
    VEC x = FORM(near_load)(row, i, half);
    VEC next = FORM(near_load)(row, i + WIDTH, half);
    FORM(near_add)(what, &even, &own, LOAD(query + i), x);
    FORM(near_add)(what, &odd, &own, LOAD(query + i + WIDTH), next);
  }
  if (i + WIDTH <= end) {
    VEC x = FORM(near_load)(row, i, half);
    FORM(near_add)(what, &even, &own, LOAD(query + i), x);
    i += WIDTH;
  }
  if (i < end) {
    VEC x = FORM(near_load_some)(row, i, end - i, half);
    FORM(near_add)(what, &odd, &own, LOAD_SOME(query + i, end - i), x);
  }
  *sum = ADD(even, odd);
  *squares = own;
}

/* The sums of four rows are reduced together, which costs hardly more than for
** one row. */
INLINE void FORM(rows)(enum distance_what what, int half,
                       const struct distance_call *call) {
  const struct distance_rows *rows = call->rows;
  for (size_t i = 0; i < rows->n; i += 4) {
    size_t n = rows->n - i < 4 ? rows->n - i : 4;
    struct distance_part part = {.query = call->query};
    __m128 sums = _mm_setzero_ps(), squares = _mm_setzero_ps();
    do {
      size_t left = call->dim - part.from;
      part.end = left < DISTANCE_PART ? call->dim : part.from + DISTANCE_PART;
      VEC sum[4], own[4];
      UNROLL(r, 4) {
        sum[r] = own[r] = ZERO();
        if (r < n) {
          const char *row = part.from ? distance_row(rows, i + r)
                                      : distance_begin(rows, i + r);
          FORM(near_row)(what, half, &part, row, &sum[r], &own[r]);
        }
      }
      sums = _mm_add_ps(sums, SUMS(sum[0], sum[1], sum[2], sum[3]));
      if (what == DISTANCE_DOT_SQUARES) {
        squares = _mm_add_ps(squares, SUMS(own[0], own[1], own[2], own[3]));
      }
      part.from = part.end;
    } while (part.from < call->dim);
    distance_store(call->to + i, sums, n);
    if (what == DISTANCE_DOT_SQUARES) {
      distance_store(call->squares + i, squares, n);
    }
  }
}

/* ---- rows against panels of queries -------------------------------------- */

/* Elements from..from + depth of TILE rows as float32, zeros for missing
** rows. */
struct FORM(part) {
  size_t n, from, depth;
  float row[TILE][DISTANCE_ROW];
};

INLINE void FORM(part_load)(struct FORM(part) * part, const char *row,
                            size_t stride, int half) {
  size_t from = part->from, depth = part->depth;
  for (size_t r = 0; r < TILE; r++) {
    float *to = part->row[r];
    size_t i = 0;
    for (; r < part->n && i + WIDTH <= depth; i += WIDTH) {
      STORE(to + i, FORM(near_load)(row, from + i, half));
    }
    if (r < part->n && i < depth) {
      STORE(to + i, FORM(near_load_some)(row, from + i, depth - i, half));
      i = depth;
    }
    memset(to + i, 0, (depth - i) * sizeof *to);
    row += stride;
  }
}

TARGET static void FORM(part_squares)(float *to,
                                      const struct FORM(part) * part) {
  for (size_t r = 0; r < part->n; r++) {
    VEC sum = ZERO();
    size_t i = 0;
    for (; i + WIDTH <= part->depth; i += WIDTH) {
      VEC x = LOAD(part->row[r] + i);
      sum = FMA(x, x, sum);
    }
    if (i < part->depth) {
      VEC x = LOAD_SOME(part->row[r] + i, part->depth - i);
      sum = FMA(x, x, sum);
    }
    float squares = _mm_cvtss_f32(SUMS(sum, ZERO(), ZERO(), ZERO()));
    to[r] = part->from ? to[r] + squares : squares;
  }
}

/* Multiplies `count` rows (a constant), from row `first` on, with one panel;
** sets the results of existing rows, or adds to those of earlier parts. */
INLINE void FORM(part_panel)(float *to, size_t width, const float *panel,
                             const struct FORM(part) * part, size_t first,
                             size_t count) {
  VEC low[TILE], high[TILE];
  UNROLL(r, count) { low[r] = high[r] = ZERO(); }
  for (size_t k = 0; k < part->depth; k++) {
    VEC p = LOAD(panel), q = LOAD(panel + WIDTH);
    UNROLL(r, count) {
      VEC x = SET(part->row[first + r][k]);
      low[r] = FMA(x, p, low[r]);
      high[r] = FMA(x, q, high[r]);
    }
    panel += 2 * WIDTH;
  }
  UNROLL(r, count) {
    if (first + r < part->n) {
      float *at = to + (first + r) * width;
      STORE(at, part->from ? ADD(LOAD(at), low[r]) : low[r]);
      at += WIDTH;
      STORE(at, part->from ? ADD(LOAD(at), high[r]) : high[r]);
    }
  }
}

/* Multiplies a part with all panels; the last few rows in thirds of a tile. */
TARGET static void FORM(part_panels)(float *to,
                                     const struct distance_tile *tile,
                                     const struct FORM(part) * part) {
  for (size_t p = 0; p < tile->width; p += 2 * WIDTH) {
    const float *panel = tile->panels + p * tile->dim + 2 * WIDTH * part->from;
    if (part->n > TILE - TILE / 3) {
      FORM(part_panel)(to + p, tile->width, panel, part, 0, TILE);
      continue;
    }
    for (size_t r = 0; r < part->n; r += TILE / 3) {
      FORM(part_panel)(to + p, tile->width, panel, part, r, TILE / 3);
    }
  }
}

/* Each part of the panels is used for many tiles before the next part. */
INLINE void FORM(tile)(int half, const struct distance_tile *tile) {
  const size_t many = (size_t)TILE * DISTANCE_TILES;
  const struct distance_rows *rows = tile->rows;
  struct FORM(part) part;
  for (size_t i = 0; i < rows->n; i += many) {
    size_t end = rows->n - i < many ? rows->n : i + many;
    for (part.from = 0; part.from < tile->dim; part.from += DISTANCE_DEPTH) {
      size_t left = tile->dim - part.from;
      part.depth = left < DISTANCE_DEPTH ? left : DISTANCE_DEPTH;
      for (size_t row = i; row < end; row += TILE) {
        part.n = end - row < TILE ? end - row : TILE;
        FORM(part_load)
        (&part, (const char *)rows->first + row * rows->stride, rows->stride,
         half);
        FORM(part_panels)(tile->to + row * tile->width, tile, &part);
        if (tile->squares) {
          FORM(part_squares)(tile->squares + row, &part);
        }
      }
    }
  }
}

#undef INLINE
#undef UNROLL
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
