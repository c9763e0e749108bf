/* SPDX-License-Identifier: MIT
**
** bag.c -- emb_bag: a Get whose vectors are pooled as they come.
**
** The Get delivers some hundred rows at a time into a buffer that stays in the
** processor's second-level cache (get_by_pieces), and each piece is added to
** the sums of its bags before the next one is read.  So no more is written to
** memory than the result, and what a row costs is its way to the processor, as
** with emb_get.
**
** The sum of the bag that is under way stands in a row of its own and goes to
** the result when its last key has come: the result may be memory that a client
** can change (serve/), which is only written.
**
** A bag of one piece and one of a hundred are summed in the same order, that of
** the keys, whatever was on disk and whatever was in memory.
*/
#include "bag.h"

#include <math.h>
#include <string.h>

#include "../env/env.h"
#include "../table/get.h"
#include "../vec/pooling.h"

/* Rows that are worked on together: what the second-level cache holds beside
** their records, but enough for many reads of the disk at a time. */
#define PIECE_BYTES (256u << 10)
#define PIECE_ROWS 128u

struct bag_pool {
  emb_session *s;
  const emb_bags *bags;
  const struct pooling_form *form;
  size_t n; /* keys */
  float *sum, *pooled;
  size_t bag; /* the one that is under way */
};

/* ---- what is asked --------------------------------------------------------
 */

static int bag_bad_offset(emb_session *s, const emb_bags *bags, size_t i,
                          size_t n) {
  long long at = (long long)bags->offsets[i];
  if (i == 0) {
    return session_error(s, EMB_RANGE, "offsets must begin with 0, got %lld",
                         at);
  }
  return at < bags->offsets[i - 1]
             ? session_error(s, EMB_RANGE,
                             "offset %zu (%lld) is less than the one before it "
                             "(%lld)",
                             i, at, (long long)bags->offsets[i - 1])
             : session_error(s, EMB_RANGE,
                             "offset %zu (%lld) is behind the end of the %zu "
                             "keys",
                             i, at, n);
}

int bag__check(emb_session *s, size_t n, const emb_bags *bags) {
  if (bags->mode < EMB_BAG_SUM || bags->mode > EMB_BAG_SQRTN) {
    return session_error(s, EMB_RANGE, "no way of pooling has the number %d",
                         bags->mode);
  }
  if (n > EMB_ROWS_MAX || bags->count > EMB_ROWS_MAX) {
    return session_error(s, EMB_RANGE,
                         "there are at most %u keys and bags, got %zu and %zu",
                         EMB_ROWS_MAX, n, bags->count);
  }
  if (n && !bags->count) {
    return session_error(s, EMB_RANGE, "there are %zu keys, but no offsets", n);
  }
  int64_t before = 0;
  for (size_t i = 0; i < bags->count; i++) {
    int64_t at = bags->offsets[i];
    if (at < before || at > (int64_t)n || (i == 0 && at != 0)) {
      return bag_bad_offset(s, bags, i, n);
    }
    before = at;
  }
  size_t bad = bags->weights ? s->core->vec->find_bad(bags->weights, n) : n;
  return bad == n
             ? EMB_OK
             : session_error(s, EMB_NONFINITE, "weight %zu is not finite", bad);
}

uint32_t bag__piece(const emb_session *s) {
  uint32_t row = s->core->layout.dim * (uint32_t)sizeof(float);
  uint32_t rows = PIECE_BYTES / row;
  rows = rows > PIECE_ROWS ? rows : PIECE_ROWS;
  return rows < s->chunk ? rows : s->chunk;
}

int bag__room(emb_session *s) {
  struct env *env = s->core->env;
  if (!s->pool) {
    s->pool = env->allocate(env, ((size_t)bag__piece(s) + 1) *
                                     s->core->layout.dim * sizeof *s->pool);
  }
  return s->pool ? EMB_OK : session_error(s, EMB_NOMEM, "out of memory");
}

float bag__divisor(const emb_bags *bags, size_t keys) {
  return bags->mode == EMB_BAG_SUM    ? 1
         : bags->mode == EMB_BAG_MEAN ? (float)keys
                                      : (float)sqrt((double)keys);
}

/* ---- pooling --------------------------------------------------------------
 */

static void bag_begin(void *arg) {
  struct bag_pool *pool = arg;
  pool->bag = 0;
}

/* The last key of the bag has come. */
static int bag_finish(struct bag_pool *pool, size_t keys) {
  emb_session *s = pool->s;
  uint32_t dim = s->core->layout.dim;
  float *to = pool->pooled + pool->bag * dim;
  if (!keys) {
    memset(to, 0, dim * sizeof *to);
  } else if (!pool->form->finish(to, pool->sum, bag__divisor(pool->bags, keys),
                                 dim)) {
    return session_error(s, EMB_NONFINITE,
                         "element %zu of bag %zu is not finite",
                         s->core->vec->find_bad(pool->sum, dim), pool->bag);
  }
  pool->bag++;
  return EMB_OK;
}

/* Rows [at, at + n) have come; all bags that end there or before are done. */
static int bag_take(void *arg, size_t at, const float *rows, uint32_t n) {
  struct bag_pool *pool = arg;
  const emb_bags *bags = pool->bags;
  uint32_t dim = pool->s->core->layout.dim;
  size_t row = at, end = at + n;
  int rc = EMB_OK;
  while (!rc && pool->bag < bags->count) {
    size_t first = (size_t)bags->offsets[pool->bag];
    size_t last = bag_end(bags, pool->n, pool->bag);
    size_t to = last < end ? last : end;
    if (to > row) {
      pool->form->add(pool->sum,
                      &(struct pooling_rows){
                          .first = rows + (row - at) * dim,
                          .weights = bags->weights ? bags->weights + row : NULL,
                          .n = to - row,
                          .dim = dim,
                          .begins = row == first});
      row = to;
    }
    if (last > end) {
      break;
    }
    rc = bag_finish(pool, last - first);
  }
  return rc;
}

int local_bag(emb_session *s, const int64_t *keys, size_t n,
              const emb_bags *bags, float *pooled) {
  int rc = session_begin(s);
  rc = rc ? rc : bag__check(s, n, bags);
  rc = rc ? rc : bag__room(s);
  if (rc) {
    return rc;
  }
  struct bag_pool pool = {
      .s = s, .bags = bags, .form = pooling_best(), .n = n, .pooled = pooled};
  pool.sum = s->pool;
  const struct get_taker taker = {.vectors = s->pool + s->core->layout.dim,
                                  .rows = bag__piece(s),
                                  .arg = &pool,
                                  .begin = bag_begin,
                                  .take = bag_take};
  rc = get_by_pieces(s, keys, n, !bags->peek, &taker);
  return rc || n ? rc
                 : bag_take(&pool, 0, NULL, 0); /* bags without keys only */
}
