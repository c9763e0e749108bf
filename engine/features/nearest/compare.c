/* SPDX-License-Identifier: MIT
**
** compare.c -- which rows may be among the nearest, in float32, and which are,
** in double.
**
** A row's distance is recomputed in double, and its key looked up, only if the
** float32 result leaves open whether the row is near enough.  Most rows are
** farther than the k nearest so far, so this is rare: about k ln(n/k) of n rows
** in random order.  Whether a record is the latest of its key is not checked
** earlier either.
**
** LIMITS    L is the distance of the k-th nearest so far, e is distance_error,
**           q a query and r a row.  A row is left out if
**
**    l2, few queries   computed sum > L^2 (1 + 2e) + tiny
**    l2                q.r < (q.q (1 - 3e) - L^2 (1 + d)) / 2 - tiny
**                            + r.r (1 - 3e) / 2
**    dot               q.r < -L - |L| d - e q.q - tiny  - e r.r
**    cosine            q.r / |r| < (1 - L - 4e) |q| - tiny
**
**           with the terms that depend on the row alone at the end.
**           distance_error bounds the error of q.r by e |q| |r|, which is at
**           most e (q.q + r.r) / 2, and the error of r.r by e r.r.  The rest
**           of each margin covers the rounding of the comparison itself (d is
**           1e-6), and `tiny` products too small for float32.  Values too
**           large for float32, and NaN, never leave a row out.
** RUNS      Rows that were never trained are all equal, often in a row.  With
**           few queries such a run is recognised by its bytes, without
**           distances (compare_run), and its records are offered in lots
**           (EQUAL_LOT).  One query over 100,000 equal rows of 4 floats, as
**           multiples of random ones, before and after: k = 1, keys upwards
**           1.48, 1.23, downwards 1.82, 1.59; k = 1,000 downwards 4.34, 1.29.
** WRITERS   A row in memory may be written to during the comparison.  If its
**           stamp differs before and after, the row is read again with
**           rec_read.
*/
#include <float.h>
#include <math.h>
#include <string.h>

#include "exact.h"

/* Queries compared with a block at a time, so that the results stay in the
** second-level cache. */
#define WIDTH_MAX 256
#define COMPARE_ROWS_MAX 192
#define COMPARE_BYTES (96 * 1024)
#define SLACK 1e-6
/* Equal records gathered at most, and bytes of them if records are wanted.
** Few queries offer the k lowest keys of each lot, so they gather lots of many
** times k. */
#define EQUAL_ROWS 2048
#define EQUAL_LOT 16
#define EQUAL_ROWS_MAX 65536
#define EQUAL_BYTES (1 << 18)
/* From this many queries on, sorting equal records by key pays. */
#define SORTS_QUERIES 16
/* How far ahead of the row being compared memory is prefetched.  One pass over
** a million rows of 64 floats takes 18.2 ms with 2,048 bytes, 19.3 with 1,024,
** 20 with 3,072, and 30 with 4,096. */
#define AHEAD_BYTES 2048

/* What is known of a row of a page. */
enum { NEAR_YES = 1, NEAR_OPEN = 2 /* a writer was changing it */ };

static int is_l2(const struct compare *c) {
  return c->ask->segment->metric == EMB_L2;
}

/* ---- limits -------------------------------------------------------------- */

static float float_below(double x) {
  return isnan(x) || x > (double)FLT_MAX / 2 ? -INFINITY
         : x < -(double)FLT_MAX              ? -INFINITY
                                             : nextafterf((float)x, -INFINITY);
}

/* Recomputes least[query] after the query's limit has changed. */
static void compare_limit(struct compare *c, size_t query) {
  const struct ask *ask = c->ask;
  double e = distance_error(ask->segment->dim);
  double tiny = (double)ask->segment->dim * (double)FLT_MIN;
  double L = best_limit(&c->best, query), q = c->lengths[query];
  if (isinf(L)) {
    c->least[query] = c->width || !is_l2(c) ? -INFINITY : INFINITY;
  } else if (ask->segment->metric == EMB_DOT) {
    c->least[query] = float_below(-L - fabs(L) * SLACK - e * q - tiny);
  } else if (ask->segment->metric == EMB_COSINE) {
    c->least[query] = float_below((1 - L - 4 * e) * sqrt(q) - tiny);
  } else if (c->width) {
    c->least[query] =
        float_below((q * (1 - 3 * e) - L * L * (1 + SLACK)) / 2 - tiny);
  } else {
    double most = L * L * (1 + 2 * e) + tiny;
    c->least[query] = most > (double)FLT_MAX / 2
                          ? INFINITY
                          : nextafterf((float)most, INFINITY);
  }
}

/* The row's term on the right-hand side, and the factor for its product;
** `square` is its r.r.  0: the row must not be left out. */
static int row_terms(const struct compare *c, float square, float *factor,
                     float *add) {
  float e = c->error;
  *factor = 1;
  *add = 0;
  switch (c->ask->segment->metric) {
  case EMB_L2:
    *add = square * (1 - 3 * e) / 2;
    break;
  case EMB_DOT:
    *add = -square * e;
    break;
  default:
    *factor = 1 / sqrtf(square);
    break;
  }
  return isfinite(*add) && isfinite(*factor) && square < FLT_MAX / 2;
}

/* ---- candidates ---------------------------------------------------------- */

/* Offers a gathered record. */
static void compare_take(struct compare *c, size_t query, uint32_t record,
                         double distance) {
  const struct gathered *g = &c->gather;
  struct best *best = &c->best;
  double before = best_limit(best, query);
  uint32_t slot = ask__take(c->ask, best, query, g->keys[record], distance);
  if (slot != BEST_NO_SLOT) {
    if (best->vectors) {
      session_decode(c->ask->s, best_room(best, slot),
                     g->values + record * g->value);
    }
    if (best->versions) {
      best->versions[slot] = g->versions[record];
    }
  }
  if (best_limit(best, query) != before) {
    compare_limit(c, query);
  }
}

/* Is the record the current one of its key, and may it be an answer? */
static int record_is_live(struct compare *c, uint32_t record) {
  struct gathered *g = &c->gather;
  int64_t key = g->keys[record];
  if (!g->is_live[record]) {
    g->is_live[record] =
        ask__admits(c->ask, key) &&
                scan_sees_record(c->ask->s, key, g->addresses[record])
            ? GATHER_LIVE
            : GATHER_DEAD;
  }
  return g->is_live[record] == GATHER_LIVE;
}

/* Offers the records of a row, which all have this distance.  Those that are
** not live leave a sorted list; another list must keep its first. */
static void compare_records(struct compare *c, size_t query, uint32_t row,
                            double distance) {
  struct gathered *g = &c->gather;
  uint32_t *link = &g->list[row].first;
  int is_sorted = g->list[row].is_sorted;
  while (*link) {
    uint32_t record = *link - 1;
    int takes = best_takes(&c->best, query, g->keys[record], distance);
    int is_live = takes && record_is_live(c, record);
    if (!takes && is_sorted) {
      return;
    }
    if (is_live) {
      compare_take(c, query, record, distance);
    }
    if (takes && !is_live && is_sorted) {
      *link = g->next[record];
    } else {
      link = &g->next[record];
    }
  }
}

/* Would the query take the row's lowest key, at this distance? */
static int is_row_taken(const struct compare *c, size_t query, uint32_t row,
                        double distance) {
  const struct gathered *g = &c->gather;
  uint32_t first = g->list[row].first;
  return first && best_takes(&c->best, query, g->keys[first - 1], distance);
}

/* Decodes the stored segment to float32. */
static void compare_decode(const struct compare *c, float *to,
                           const char *value) {
  const struct segment *segment = c->ask->segment;
  const void *from = value + segment->stored_at;
  if (segment->type == EMB_F16) {
    c->core->vec->from_f16(to, from, segment->dim);
  } else {
    memcpy(to, from, segment->dim * sizeof(float));
  }
}

/* Copies the record to the next place of c->gather, except its vector.  NULL:
** it no longer holds this key. */
static const char *take_record(struct compare *c, const struct rec *rec,
                               int64_t key, int from_disk) {
  uint32_t bytes = c->core->layout.vector_bytes;
  struct gathered *g = &c->gather;
  char *value = gathered_value(g);
  uint64_t version;
  emb_assert(g->records < g->record_room);
  if (from_disk) {
    memcpy(value, rec->vector, bytes);
    version =
        rec_version(atomic_load_explicit(&rec->stamp, memory_order_relaxed));
  } else if (!rec_read(rec, key, value, bytes, &version)) {
    return NULL;
  }
  g->versions[g->records] = version;
  return value;
}

/* ---- few queries --------------------------------------------------------- */

/* ThreadSanitizer requires atomic reads during a write, so it gets a copy. */
static const char *rows_to_read(struct compare *c,
                                const struct page_rows *rows) {
#if FENCE_TSAN
  rec_copy_out(c->page, rows->at, (size_t)rows->n * c->core->layout.rec_bytes);
  return c->page;
#else
  (void)c;
  return rows->at;
#endif
}

/* Does the float32 result rule the row out? */
static int is_left_out(const struct compare *c, size_t query, uint32_t i) {
  float factor, add, least = c->least[query];
  return is_l2(c) ? c->results[i] > least
                  : row_terms(c, c->squares[i], &factor, &add) &&
                        c->results[i] * factor < least + add;
}

/* Counts the rows that may be near, without a branch per row. */
static uint32_t count_near(const struct compare *c, size_t query,
                           uint32_t rows) {
  const float *results = c->results, *squares = c->squares;
  float least = c->least[query], error = c->error, n = 0;
  uint32_t near = 0;
  if (is_l2(c)) {
    for (uint32_t i = 0; i < rows; i++) {
      near += !(results[i] > least);
    }
  } else if (c->ask->segment->metric == EMB_DOT) {
    for (uint32_t i = 0; i < rows; i++) {
      near += !(results[i] < least - squares[i] * error);
    }
  } else if (least > 0) {
    for (uint32_t i = 0; i < rows; i++) {
      n = results[i] > 0 ? results[i] : 0;
      near += !(n * n < least * least * squares[i] * 0.999f);
    }
  } else {
    near = rows;
  }
  return near;
}

/* Copies the current stamps of a page's rows. */
static void read_stamps(uint64_t *to, const char *at, uint32_t stride,
                        uint32_t rows) {
  for (uint32_t i = 0; i < rows; i++, at += stride) {
    const struct rec *rec = (const struct rec *)(const void *)at;
    to[i] = atomic_load_explicit(&rec->stamp, memory_order_acquire);
  }
}

/* Is a row being written to? */
static int any_busy(const uint64_t *stamps, uint32_t rows) {
  uint64_t any = 0;
  for (uint32_t i = 0; i < rows; i++) {
    any |= stamps[i];
  }
  return (any & REC_BUSY) != 0;
}

/* Has any stamp changed since? */
static int stamps_changed(const uint64_t *from, const char *at, uint32_t stride,
                          uint32_t rows) {
  uint64_t any = 0;
  fence_acquire();
  for (uint32_t i = 0; i < rows; i++, at += stride) {
    const struct rec *rec = (const struct rec *)(const void *)at;
    any |= from[i] ^ atomic_load_explicit(&rec->stamp, memory_order_relaxed);
  }
  return any != 0;
}

/* As mark_near without writers, for l2. */
static void mark_near_l2(struct compare *c, size_t query, uint32_t rows) {
  const float *results = c->results;
  float least = c->least[query];
  for (uint32_t i = 0; i < rows; i++) {
    c->near[i] |= !(results[i] > least);
  }
}

/* Marks the rows of a page that may be near the query.  is_torn: a writer was
** changing one of them. */
static void mark_near(struct compare *c, size_t query,
                      const struct page_rows *rows, int is_torn) {
  uint32_t stride = c->core->layout.rec_bytes;
  const char *at = rows->at;
  for (uint32_t i = 0; i < rows->n; i++, at += stride) {
    const struct rec *rec = (const struct rec *)(const void *)at;
    int is_open =
        is_torn && (c->stamps[i] & REC_BUSY ||
                    atomic_load_explicit(&rec->stamp, memory_order_relaxed) !=
                        c->stamps[i]);
    c->near[i] |= is_open ? NEAR_OPEN : is_left_out(c, query, i) ? 0 : NEAR_YES;
  }
}

/* Compares the rows of a page with a query.  The first query also reads the
** stamps, unless they were read before.  0: none is near. */
static int compare_query(struct compare *c, size_t query,
                         const struct page_rows *rows, const char *bytes) {
  const struct segment *segment = c->ask->segment;
  uint32_t stride = c->core->layout.rec_bytes;
  struct distance_rows of = {.first = bytes, .stride = stride, .n = rows->n};
  const float *to = c->ask->queries + query * segment->dim;
  int reads_stamps = query == 0 && !c->has_stamps;
  if (query == 0 && !rows->from_disk) {
    of.ahead = AHEAD_BYTES;
  }
  if (reads_stamps) {
    of.words = c->stamps;
    of.back = (size_t)(bytes - rows->at) - offsetof(struct rec, stamp);
  }
  if (is_l2(c)) {
    c->ask->ops->l2[segment->type](c->results, to, &of, segment->dim);
  } else {
    c->ask->ops->dot[segment->type](c->results, c->squares, to, &of,
                                    segment->dim);
  }
  if (reads_stamps) {
    c->is_busy = any_busy(c->stamps, rows->n);
  }
  int is_torn =
      !rows->from_disk &&
      (c->is_busy || stamps_changed(c->stamps, rows->at, stride, rows->n));
  if (!is_torn && !count_near(c, query, rows->n)) {
    return 0;
  }
  if (!is_torn && is_l2(c)) {
    mark_near_l2(c, query, rows->n);
  } else {
    mark_near(c, query, rows, is_torn);
  }
  return 1;
}

/* Computes which keys a query would take with the row last gathered: all, or
** those below c->equal_key.  Call when the row or a limit has changed. */
static void compare_equal_keys(struct compare *c) {
  const struct best *best = &c->best;
  c->equal_all = 0;
  c->equal_key = INT64_MIN;
  for (size_t query = 0; query < c->ask->n; query++) {
    const struct best_row *farthest = &best->rows[query * best->k];
    double distance = c->equal_far[query];
    if (best_takes(best, query, INT64_MAX, distance)) {
      c->equal_all = 1;
    } else if (best_takes(best, query, INT64_MIN, distance) &&
               farthest->key > c->equal_key) {
      c->equal_key = farthest->key;
    }
  }
}

/* As memcmp(a, b, n) == 0, but without a call for short vectors. */
static int is_same_bytes(const char *a, const char *b, size_t n) {
  for (; n >= 8; a += 8, b += 8, n -= 8) {
    uint64_t x, y;
    memcpy(&x, a, 8);
    memcpy(&y, b, 8);
    if (x != y) {
      return 0;
    }
    if (n > 128) {
      return memcmp(a, b, n) == 0;
    }
  }
  return n == 0 || memcmp(a, b, n) == 0;
}

/* Is the stored segment equal to that of the row last gathered?  Without a
** writer: the stamp is still the one read before. */
static int is_equal(const struct compare *c, const struct rec *rec,
                    const char *segment, uint64_t stamp, int from_disk) {
  if (!c->gather.rows || !is_same_bytes(c->equal, segment, c->equal_bytes)) {
    return 0;
  }
  fence_acquire();
  return from_disk ||
         atomic_load_explicit(&rec->stamp, memory_order_relaxed) == stamp;
}

/* Offers the records that were gathered for the last row. */
static void compare_equal(struct compare *c) {
  struct gathered *g = &c->gather;
  for (size_t query = 0; g->records && query < c->ask->n; query++) {
    if (is_row_taken(c, query, 0, c->equal_far[query])) {
      compare_records(c, query, 0, c->equal_far[query]);
    }
  }
  gathered__empty(g);
  compare_equal_keys(c);
}

/* Compares a record that may be near, in double.  Its row becomes the last
** one. */
static void compare_again(struct compare *c, const struct rec *rec, int64_t key,
                          uint64_t address, int from_disk) {
  struct gathered *g = &c->gather;
  compare_equal(c);
  gathered__drop(g, g->rows);
  const char *value = take_record(c, rec, key, from_disk);
  if (!value) {
    return;
  }
  memcpy(c->equal, value + c->ask->segment->stored_at, c->equal_bytes);
  compare_decode(c, gathered_vector(g), value);
  for (size_t query = 0; query < c->ask->n; query++) {
    if (!ask__distance(c->ask, query, gathered_vector(g),
                       &c->equal_far[query])) {
      c->equal_far[query] = NAN;
    }
  }
  gathered__add(g, key, address);
  compare_equal(c);
}

/* Gathers one more record of the last row. */
static void gathered_equal(struct compare *c, const struct rec *rec,
                           int64_t key, uint64_t address, int from_disk) {
  if (c->gather.value && !take_record(c, rec, key, from_disk)) {
    return;
  }
  gathered__again(&c->gather, key, address);
  if (c->gather.records == c->most) {
    compare_equal(c);
  }
}

/* Gathers the record, which is equal to the row last gathered, if a query would
** take it. */
static void compare_equal_row(struct compare *c, const struct page_rows *rows,
                              uint32_t i, const struct rec *rec) {
  int64_t key = atomic_load_explicit(&rec->key, memory_order_relaxed);
  if (c->equal_all || key < c->equal_key) {
    gathered_equal(
        c, rec, key,
        layout_address(&c->core->layout, rows->page, rows->first + i),
        rows->from_disk);
  }
}

/* Goes through the rows that are near. */
static void compare_near(struct compare *c, const struct page_rows *rows,
                         const char *bytes) {
  const struct layout *l = &c->core->layout;
  const char *at = rows->at;
  for (uint32_t i = 0; i < rows->n; i++, at += l->rec_bytes) {
    const struct rec *rec = (const struct rec *)(const void *)at;
    if (rec_version(c->stamps[i]) == 0 || !c->near[i]) {
      continue; /* never used, or far */
    }
    c->in_run = !(c->near[i] & NEAR_OPEN) &&
                is_equal(c, rec, bytes + (size_t)i * l->rec_bytes, c->stamps[i],
                         rows->from_disk);
    if (c->in_run) {
      compare_equal_row(c, rows, i, rec);
    } else if (c->near[i] & NEAR_OPEN || c->ask->n > 1 ||
               !is_left_out(c, 0, i)) {
      compare_again(
          c, rec, atomic_load_explicit(&rec->key, memory_order_relaxed),
          layout_address(l, rows->page, rows->first + i), rows->from_disk);
    }
  }
}

/* The stored segments of the rows.  Stamps must be read before their rows: for
** a run or a copy here, else with the rows [compare_query]. */
static const char *compare_begin(struct compare *c,
                                 const struct page_rows *rows) {
  c->has_stamps = c->in_run || FENCE_TSAN;
  if (c->has_stamps) {
    read_stamps(c->stamps, rows->at, c->core->layout.rec_bytes, rows->n);
    c->is_busy = any_busy(c->stamps, rows->n);
  }
  return rows_to_read(c, rows) + REC_HEAD_BYTES + c->ask->segment->stored_at;
}

/* Goes on with a run of equal rows, without computing distances.  Returns how
** many rows belong to it. */
static uint32_t compare_run(struct compare *c, const struct page_rows *rows,
                            const char *bytes) {
  uint32_t stride = c->core->layout.rec_bytes, i = 0;
  const char *at = rows->at;
  for (; i < rows->n; i++, at += stride, bytes += stride) {
    const struct rec *rec = (const struct rec *)(const void *)at;
    if (rec_version(c->stamps[i]) == 0) {
      continue;
    }
    if (c->stamps[i] & REC_BUSY ||
        !is_equal(c, rec, bytes, c->stamps[i], rows->from_disk)) {
      break;
    }
    compare_equal_row(c, rows, i, rec);
  }
  return i;
}

void compare__rows(struct compare *c, const struct page_rows *rows) {
  struct page_rows rest = *rows;
  int some = 0;
  emb_assert(!epoch_outside());
  emb_assert(rows->first + rows->n <= c->core->layout.slots);
  const char *bytes = compare_begin(c, &rest);
  if (c->in_run) {
    uint32_t done = compare_run(c, rows, bytes);
    if (done == rows->n) {
      return;
    }
    c->in_run = 0;
    if (done) {
      rest.first += done;
      rest.at += (size_t)done * c->core->layout.rec_bytes;
      rest.n -= done;
      bytes = compare_begin(c, &rest);
    }
  }
  memset(c->near, 0, rest.n);
  for (size_t query = 0; query < c->ask->n; query++) {
    some |= compare_query(c, query, &rest, bytes);
  }
  if (some) {
    compare_near(c, &rest, bytes);
  }
}

/* Offers what compare__rows has gathered and not offered yet. */
static void compare_rest(struct extents *e, int all) {
  struct epoch *epoch = &e->search->core->epoch;
  if (all && e->compare.gather.records) {
    epoch_enter(epoch, e->slot);
    compare_equal(&e->compare);
    epoch_leave(e->slot);
  }
}

/* ---- several queries ----------------------------------------------------- */

/* Compares a row of the block that may be near a query. */
static void compare_block_row(struct compare *c, size_t query, uint32_t row) {
  const float *vector = c->gather.vectors + row * c->gather.dim;
  double distance;
  if (!ask__distance(c->ask, query, vector, &distance) ||
      !is_row_taken(c, query, row, distance)) {
    return;
  }
  if (!c->gather.list[row].is_sorted && c->ask->n >= SORTS_QUERIES) {
    gathered__sort(&c->gather, row);
  }
  compare_records(c, query, row, distance);
}

static size_t all_of(uint32_t *to, size_t n) {
  for (size_t i = 0; i < n; i++) {
    to[i] = (uint32_t)i;
  }
  return n;
}

/* Compares rows [first, first + rows) with n queries. */
static void compare_some(struct compare *c, uint32_t first, uint32_t rows,
                         size_t from, size_t n) {
  const struct ask *ask = c->ask;
  size_t dim = ask->segment->dim, width = distance_width(ask->ops, n);
  const float *block = c->gather.vectors + (size_t)first * dim;
  const struct distance_rows of = {
      .first = block, .stride = dim * sizeof(float), .n = rows};
  const float *least = c->least + from;
  ask->ops->tile[EMB_F32](c->results, c->squares, c->panels + from * dim, width,
                          &of, dim);
  for (uint32_t row = 0; row < rows; row++) {
    const float *results = c->results + row * width;
    float factor, add;
    int exact = row_terms(c, c->squares[row], &factor, &add);
    size_t picked = exact ? c->pick(c->picked, results, least, n, factor, add)
                          : all_of(c->picked, n);
    for (size_t i = 0; i < picked; i++) {
      compare_block_row(c, from + c->picked[i], first + row);
    }
  }
}

/* Enters the epoch separately for each c->width queries: with many queries a
** block takes long. */
static void compare_block(struct extents *e, uint32_t first, uint32_t rows) {
  struct compare *c = &e->compare;
  struct epoch *epoch = &e->search->core->epoch;
  for (size_t from = 0; from < c->ask->n && exact_goes_on(e);
       from += c->width) {
    size_t left = c->ask->n - from;
    epoch_enter(epoch, e->slot);
    compare_some(c, first, rows, from, left < c->width ? left : c->width);
    epoch_leave(e->slot);
  }
}

void compare__blocks(struct extents *e, int all) {
  struct compare *c = &e->compare;
  struct gathered *g = &c->gather;
  uint32_t at = 0, n;
  emb_assert(epoch_outside());
  if (!c->width) {
    compare_rest(e, all);
    return;
  }
  all = all || g->records >= c->most;
  for (; at < g->rows && (all || g->rows - at >= c->room); at += n) {
    n = g->rows - at < c->room ? g->rows - at : c->room;
    compare_block(e, at, n);
  }
  if (at) {
    gathered__drop(g, at);
  }
}

static void compare_gather(struct compare *c, const struct page_rows *rows) {
  const struct layout *l = &c->core->layout;
  const char *at = rows->at;
  for (uint32_t i = 0; i < rows->n; i++, at += l->rec_bytes) {
    const struct rec *rec = (const struct rec *)(const void *)at;
    uint64_t stamp = atomic_load_explicit(&rec->stamp, memory_order_acquire);
    int64_t key = atomic_load_explicit(&rec->key, memory_order_relaxed);
    const char *value = rec_version(stamp) == 0
                            ? NULL
                            : take_record(c, rec, key, rows->from_disk);
    if (value) {
      compare_decode(c, gathered_vector(&c->gather), value);
      gathered__add(&c->gather, key, layout_address(l, rows->page, i));
    }
  }
}

void compare__row(struct compare *c, int64_t key, const float *vector) {
  emb_assert(c->width && c->gather.records < c->gather.record_room);
  memcpy(gathered_vector(&c->gather), vector,
         c->ask->segment->dim * sizeof *vector);
  gathered__add(&c->gather, key, 0);
  c->gather.is_live[c->gather.records - 1] = GATHER_LIVE;
}

void compare__page(struct compare *c, const struct page_rows *rows) {
  emb_assert(!epoch_outside());
  emb_assert(rows->first == 0 && rows->n <= c->core->layout.slots);
  if (c->width) {
    compare_gather(c, rows);
  } else {
    compare__rows(c, rows);
  }
}

/* ---- memory -------------------------------------------------------------- */

static int compare_gathers(struct compare *c) {
  const struct ask *ask = c->ask;
  size_t stored = c->core->layout.vector_bytes + 8;
  uint32_t slots = c->width ? c->core->layout.slots : 1;
  int wanted = ask->vectors || ask->versions;
  size_t most = EQUAL_ROWS;
  if (!c->width && ask->k > EQUAL_ROWS / EQUAL_LOT) {
    most = ask->k < EQUAL_ROWS_MAX / EQUAL_LOT ? ask->k * EQUAL_LOT
                                               : EQUAL_ROWS_MAX;
  }
  most = wanted && most > EQUAL_BYTES / stored ? EQUAL_BYTES / stored : most;
  c->most = (uint32_t)most;
  c->most = c->most < c->room ? c->room : c->most;
  const struct gathered_form form = {
      .rows = c->room + slots,
      .records = c->most + slots,
      .dim = ask->segment->dim,
      .value = wanted ? stored / 8 * 8 : 0,
      .values = wanted ? stored * (c->most + slots) : stored};
  return gathered__init(&c->gather, c->core->env, &form);
}

static int compare_room(struct compare *c) {
  const struct ask *ask = c->ask;
  struct env *env = c->core->env;
  size_t dim = ask->segment->dim, slots = c->core->layout.slots;
  size_t block = COMPARE_BYTES / (dim * sizeof(float));
  block = block < 12 ? 12 : block > COMPARE_ROWS_MAX ? COMPARE_ROWS_MAX : block;
  c->room = c->width ? (uint32_t)block : 1;
  size_t rows = c->width ? block : slots;
  int rc = compare_gathers(c);
  c->equal_bytes = dim * (ask->segment->type == EMB_F16 ? 2 : sizeof(float));
  c->results =
      env->allocate(env, rows * (c->width ? c->width : 1) * sizeof(float));
  c->squares = env->allocate(env, rows * sizeof *c->squares);
  c->least = env->allocate(env, ask->n * sizeof *c->least);
  c->picked = env->allocate(env, (c->width + 1) * sizeof *c->picked);
  c->lengths = env->allocate(env, ask->n * sizeof *c->lengths);
  c->stamps = env->allocate(env, slots * sizeof *c->stamps);
  c->near = env->allocate(env, slots);
  c->page = env->allocate(env, c->core->layout.page_bytes);
  c->equal = env->allocate(env, c->equal_bytes);
  c->panels = env->allocate(
      env, distance_panel_floats(ask->ops, ask->n, dim) * sizeof(float) + 64);
  return !rc && c->results && c->squares && c->least && c->picked &&
                 c->lengths && c->stamps && c->near && c->page && c->equal &&
                 c->panels
             ? EMB_OK
             : EMB_NOMEM;
}

int compare__init(struct compare *c, const struct ask *ask) {
  size_t dim = ask->segment->dim, panel = ask->ops->panel;
  memset(c, 0, sizeof *c);
  c->ask = ask;
  c->core = ask->s->core;
  c->pick = pick_best();
  c->error = (float)distance_error(ask->segment->dim);
  if (ask->n > FEW_QUERIES) {
    size_t width = WIDTH_MAX / panel * panel;
    size_t all = distance_width(ask->ops, ask->n);
    c->width = all < width ? all : width;
  }
  if (ask__best(ask, &c->best) || compare_room(c)) {
    compare__free(c);
    memset(c, 0, sizeof *c); /* nothing is left to free */
    return EMB_NOMEM;
  }
  if (c->width) {
    ask->ops->pack(c->panels, ask->queries, ask->n, dim);
  }
  for (size_t i = 0; i < ask->n; i++) {
    double minus;
    emb_distance(EMB_DOT, ask->queries + i * dim, ask->queries + i * dim,
                 (uint32_t)dim, &minus);
    c->lengths[i] = -minus;
    compare_limit(c, i);
  }
  return EMB_OK;
}

void compare__free(struct compare *c) {
  struct env *env = c->core->env;
  best__free(&c->best);
  env->release(env, c->panels);
  env->release(env, c->results);
  env->release(env, c->squares);
  env->release(env, c->least);
  env->release(env, c->picked);
  env->release(env, c->lengths);
  env->release(env, c->stamps);
  env->release(env, c->page);
  env->release(env, c->near);
  env->release(env, c->equal);
  gathered__free(&c->gather, env);
}
