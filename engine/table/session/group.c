/* SPDX-License-Identifier: MIT
**
** group.c -- see group.h.
*/
#include "group.h"

#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/env/env.h"

static int group_grow(struct env *env, void **array, size_t *room, size_t want,
                      size_t each) {
  if (want > *room) {
    void *more = env->resize(env, *array, want * each);
    if (!more) {
      return 0;
    }
    *array = more;
    *room = want;
  }
  return 1;
}

static int group_reserve(struct groups *g, struct env *env, size_t n) {
  size_t slots = 16;
  while (slots < n * 2) {
    slots *= 2;
  }
  if (g->rows_room < n) {
    /* All or none: one capacity covers all three arrays. */
    size_t before = g->rows_room, times = g->rows_room;
    if (!group_grow(env, (void **)&g->sum_at, &before, n, sizeof *g->sum_at) ||
        !group_grow(env, (void **)&g->times, &times, n, sizeof *g->times)) {
      return 0;
    }
    if (!group_grow(env, (void **)&g->stands, &g->rows_room, n,
                    sizeof *g->stands)) {
      return 0;
    }
  }
  if (!group_grow(env, (void **)&g->table, &g->table_room, slots,
                  sizeof *g->table)) {
    return 0;
  }
  memset(g->table, 0, slots * sizeof *g->table);
  return 1;
}

/* Sets stands[] of rows whose key occurred before to the first row with that
** key; returns the number of rows that stand for others. */
static size_t group_find(struct groups *g, const int64_t *keys, size_t n) {
  size_t mask = 16, groups = 0;
  while (mask < n * 2) {
    mask *= 2;
  }
  mask--;
  memset(g->sum_at, 0, n * sizeof *g->sum_at);
  for (size_t i = 0; i < n; i++) {
    size_t at = hash_key(keys[i]) & mask;
    while (g->table[at] && keys[g->table[at] - 1] != keys[i]) {
      at = (at + 1) & mask;
    }
    g->times[i] = 1;
    if (!g->table[at]) {
      g->table[at] = (uint32_t)i + 1;
      g->stands[i] = (uint32_t)i;
      continue;
    }
    uint32_t first = g->table[at] - 1;
    g->stands[i] = first;
    g->times[first]++;
    if (!g->sum_at[first]) {
      g->sum_at[first] = (uint32_t)++groups;
    }
  }
  return groups;
}

static int sum_groups(struct groups *g, struct env *env,
                      const struct group_batch *batch, size_t groups) {
  const float *rows = batch->rows;
  size_t n = batch->n;
  uint32_t dim = batch->dim;
  if (!group_grow(env, (void **)&g->sums, &g->sums_room, groups * dim,
                  sizeof *g->sums)) {
    return 0;
  }
  for (size_t i = 0; i < n; i++) {
    uint32_t at = g->sum_at[g->stands[i]];
    if (!at) {
      continue;
    }
    float *to = g->sums + (size_t)(at - 1) * dim;
    if (g->stands[i] == i) {
      memcpy(to, rows + i * dim, dim * sizeof *to);
    } else {
      for (uint32_t k = 0; k < dim; k++) {
        to[k] += rows[i * dim + k];
      }
    }
  }
  return 1;
}

/* Makes the last row of each key stand for it. */
static void choose_last(struct groups *g, size_t n) {
  /* sum_at of a key's first row: 1 + the key's last row. */
  for (size_t i = 0; i < n; i++) {
    if (g->stands[i] != i) {
      g->sum_at[g->stands[i]] = (uint32_t)i + 1;
      g->times[i] = g->times[g->stands[i]];
    }
  }
  for (size_t i = 0; i < n; i++) {
    uint32_t last = g->sum_at[g->stands[i]];
    g->stands[i] = last ? last - 1 : g->stands[i];
  }
}

/* Memory kept between calls, at most: rows of a batch, floats of sums. */
#define ROWS_KEPT (1u << 16)
#define SUMS_KEPT (1u << 20)

void group_end_call(struct groups *g, struct env *env) {
  if (g->rows_room > ROWS_KEPT || g->sums_room > SUMS_KEPT) {
    group_free(g, env);
  }
}

int group_rows(struct groups *g, struct env *env,
               const struct group_batch *batch, enum group_by by) {
  size_t n = batch->n;
  g->any = 0;
  if (n < 2) {
    return 1;
  }
  if (!group_reserve(g, env, n)) {
    return 0;
  }
  size_t groups = group_find(g, batch->keys, n);
  g->any = groups > 0;
  if (!g->any) {
    return 1;
  }
  if (by == GROUP_SUM) {
    return sum_groups(g, env, batch, groups);
  }
  if (by == GROUP_LAST) {
    choose_last(g, n);
  }
  return 1;
}

void group_free(struct groups *g, struct env *env) {
  env->release(env, g->stands);
  env->release(env, g->sum_at);
  env->release(env, g->times);
  env->release(env, g->sums);
  env->release(env, g->table);
  memset(g, 0, sizeof *g);
}
