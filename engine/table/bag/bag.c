/* SPDX-License-Identifier: MIT
**
** bag.c -- emb_bag: a Get that pools its vectors as they arrive.
**
** The Get hands over a few rows at a time (get_by_pieces).  They are added to
** the sums of their bags before the next ones reuse the same buffer, in the
** processor's first-level cache.  Only the result is written to memory, and the
** cost of a row is that of fetching it, as with emb_get.  From the first row on
** disk onwards, the rest of the chunk waits for that row.
**
** The sum of the current bag is in a row of its own, and is copied to the
** result once its last key has arrived: the result may be memory that a client
** can change (serve/), so it is written but never read.
**
** A bag of one piece and a bag of a hundred are summed in the same order, key
** order, whether rows were on disk or in memory.
*/
#include "bag.h"

#include <math.h>
#include <string.h>

#include "engine/base/env/env.h"
#include "engine/table/rows/get.h"
#include "engine/math/vec/pooling.h"

/* Rows summed at a time; they share the cache with the next records. */
#define TOGETHER_BYTES (8u << 10)
#define TOGETHER_ROWS 32u

struct bag_pool {
  emb_session *s;
  const emb_bags *bags;
  const struct pooling_form *form;
  size_t n; /* keys */
  float *sum, *pooled;
  size_t bag; /* the current one */
};

static uint32_t bag_together(const emb_session *s) {
  uint32_t rows =
      TOGETHER_BYTES / (s->core->layout.dim * (uint32_t)sizeof(float));
  return rows < 1 ? 1 : rows < TOGETHER_ROWS ? rows : TOGETHER_ROWS;
}

int bag__room(emb_session *s) {
  struct env *env = s->core->env;
  if (!s->pool) {
    s->pool = env->allocate(env, ((size_t)s->chunk + 1) * s->core->layout.dim *
                                     sizeof *s->pool);
  }
  return s->pool ? EMB_OK : session_error(s, EMB_NOMEM, "out of memory");
}

float bag__divisor(const emb_bags *bags, size_t keys) {
  return bags->mode == EMB_BAG_SUM    ? 1
         : bags->mode == EMB_BAG_MEAN ? (float)keys
                                      : (float)sqrt((double)keys);
}

static void bag_begin(void *arg) {
  struct bag_pool *pool = arg;
  if (!EMB_SEED(SEED_BAG_NOT_BEGUN_AGAIN)) {
    pool->bag = 0;
  }
}

/* Clears the sums of the segments that are not pooled, which may have
** overflowed; returns the first element that is pooled. */
static uint32_t bag_keep_parts(const struct bag_pool *pool) {
  const struct schema *schema = &pool->s->core->schema;
  uint32_t first = schema->dim;
  for (uint32_t i = 0; i < schema->count; i++) {
    const struct segment *segment = &schema->segments[i];
    if (!schema_has_part(pool->bags->parts, i)) {
      memset(pool->sum + segment->first, 0, segment->dim * sizeof *pool->sum);
    } else if (segment->first < first) {
      first = segment->first;
    }
  }
  return first;
}

/* Writes the result of the current bag, whose last key has arrived.  An error
** counts elements from the first one pooled. */
static int bag_finish(struct bag_pool *pool, size_t keys) {
  emb_session *s = pool->s;
  uint32_t dim = s->core->layout.dim;
  float *to = pool->pooled + pool->bag * dim;
  uint32_t first = pool->bags->parts && keys ? bag_keep_parts(pool) : 0;
  if (!keys) {
    memset(to, 0, dim * sizeof *to);
  } else if (!pool->form->finish(to, pool->sum, bag__divisor(pool->bags, keys),
                                 dim)) {
    return session_error(
        s, EMB_NONFINITE, "element %zu of bag %zu is not finite",
        s->core->vec->find_bad(pool->sum, dim) - first, pool->bag);
  }
  pool->bag++;
  return EMB_OK;
}

/* Adds rows [at, at + n), and finishes every bag that ends there or before. */
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
                                  .rows = s->chunk,
                                  .together = bag_together(s),
                                  .arg = &pool,
                                  .begin = bag_begin,
                                  .take = bag_take};
  rc = get_by_pieces(s, keys, n, !bags->peek, &taker);
  return rc || n ? rc
                 : bag_take(&pool, 0, NULL, 0); /* bags without keys only */
}
