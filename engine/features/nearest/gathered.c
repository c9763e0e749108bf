/* SPDX-License-Identifier: MIT
**
** gathered.c -- see gathered.h.
**
** A row is compared only with the last row of the same hash, so the time per
** row is bounded.  Equal rows that are missed are gathered separately, which
** only takes longer.
*/
#include <stdlib.h>
#include <string.h>

#include "engine/emb.h"
#include "engine/base/debug.h"
#include "gathered.h"

int gathered__init(struct gathered *g, struct env *env,
                   const struct gathered_form *form) {
  uint32_t rows = form->rows, records = form->records;
  memset(g, 0, sizeof *g);
  g->row_room = rows;
  g->record_room = records;
  g->dim = form->dim;
  g->value = form->value;
  g->list = env->allocate(env, rows * sizeof *g->list);
  g->vectors = env->allocate(env, rows * form->dim * sizeof(float) + 64);
  g->keys = env->allocate(env, records * sizeof *g->keys);
  g->addresses = env->allocate(env, records * sizeof *g->addresses);
  g->versions = env->allocate(env, records * sizeof *g->versions);
  g->values = env->allocate(env, form->values);
  g->is_live = env->allocate(env, records);
  g->row_of = env->allocate(env, records * sizeof *g->row_of);
  g->next = env->allocate(env, records * sizeof *g->next);
  g->order = env->allocate(env, records * sizeof *g->order);
  return g->list && g->vectors && g->keys && g->addresses && g->versions &&
                 g->values && g->is_live && g->row_of && g->next && g->order
             ? EMB_OK
             : EMB_NOMEM;
}

void gathered__free(struct gathered *g, struct env *env) {
  env->release(env, g->list);
  env->release(env, g->vectors);
  env->release(env, g->keys);
  env->release(env, g->addresses);
  env->release(env, g->versions);
  env->release(env, g->values);
  env->release(env, g->is_live);
  env->release(env, g->row_of);
  env->release(env, g->next);
  env->release(env, g->order);
}

/* A hash of four of the elements. */
static uint32_t gathered_hash(const float *vector, size_t dim) {
  uint64_t hash = 0;
  for (size_t i = 0; i < 4; i++) {
    uint32_t bits;
    memcpy(&bits, vector + i * (dim - 1) / 3, sizeof bits);
    hash = (hash ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 32;
  }
  return (uint32_t)hash & (GATHER_SEEN - 1);
}

/* Adds a record to the list of a row. */
static void gathered_link(struct gathered *g, uint32_t row, uint32_t record) {
  struct gathered_row *to = &g->list[row];
  g->row_of[record] = row;
  if (!to->first) {
    *to = (struct gathered_row){record + 1, record + 1, 1};
    g->next[record] = 0;
  } else if (g->keys[record] < g->keys[to->first - 1]) {
    g->next[record] = to->first;
    to->first = record + 1;
  } else if (g->keys[record] > g->keys[to->last - 1]) {
    g->next[record] = 0;
    g->next[to->last - 1] = record + 1;
    to->last = record + 1;
  } else {
    /* Not after the only record of a list: that one is also the last. */
    uint32_t *link =
        to->first == to->last ? &to->first : &g->next[to->first - 1];
    g->next[record] = *link;
    *link = record + 1;
    to->is_sorted = 0;
  }
}

void gathered__again(struct gathered *g, int64_t key, uint64_t address) {
  uint32_t record = g->records++;
  emb_assert(g->records <= g->record_room && g->rows);
  g->keys[record] = key;
  g->addresses[record] = address;
  g->is_live[record] = 0;
  gathered_link(g, 0, record);
}

void gathered__empty(struct gathered *g) {
  g->records = 0;
  for (uint32_t row = 0; row < g->rows; row++) {
    g->list[row].first = 0;
  }
}

void gathered__add(struct gathered *g, int64_t key, uint64_t address) {
  const float *vector = gathered_vector(g);
  uint32_t *seen = &g->seen[gathered_hash(vector, g->dim)];
  uint32_t record = g->records++, row = *seen - 1;
  emb_assert(g->records <= g->record_room && g->rows < g->row_room);
  g->keys[record] = key;
  g->addresses[record] = address;
  g->is_live[record] = 0;
  if (!*seen ||
      memcmp(g->vectors + row * g->dim, vector, g->dim * sizeof *vector) != 0) {
    row = g->rows++;
    g->list[row].first = 0;
    *seen = row + 1;
  }
  gathered_link(g, row, record);
}

static int gathered_by_key(const void *a, const void *b) {
  int64_t x = ((const struct gathered_order *)a)->key;
  int64_t y = ((const struct gathered_order *)b)->key;
  return x < y ? -1 : x > y;
}

void gathered__sort(struct gathered *g, uint32_t row) {
  struct gathered_row *of = &g->list[row];
  uint32_t n = 0;
  for (uint32_t at = of->first; at; at = g->next[at - 1]) {
    g->order[n++] = (struct gathered_order){g->keys[at - 1], at - 1};
  }
  qsort(g->order, n, sizeof *g->order, gathered_by_key);
  for (uint32_t i = 0; i < n; i++) {
    g->next[g->order[i].record] = i + 1 < n ? g->order[i + 1].record + 1 : 0;
  }
  of->first = g->order[0].record + 1;
  of->last = g->order[n - 1].record + 1;
  of->is_sorted = 1;
}

/* Moves a record to a lower place. */
static void gathered_move(struct gathered *g, uint32_t to, uint32_t from) {
  g->keys[to] = g->keys[from];
  g->addresses[to] = g->addresses[from];
  g->versions[to] = g->versions[from];
  g->is_live[to] = g->is_live[from];
  memmove(g->values + to * g->value, g->values + from * g->value, g->value);
}

void gathered__drop(struct gathered *g, uint32_t rows) {
  uint32_t records = g->records, kept = 0;
  emb_assert(rows <= g->rows);
  memset(g->seen, 0, sizeof g->seen);
  g->rows -= rows;
  memmove(g->vectors, g->vectors + rows * g->dim,
          g->rows * g->dim * sizeof *g->vectors);
  for (uint32_t row = 0; row < g->rows; row++) {
    g->seen[gathered_hash(g->vectors + row * g->dim, g->dim)] = row + 1;
    g->list[row].first = 0;
  }
  for (uint32_t from = 0; g->rows && from < records; from++) {
    if (g->row_of[from] >= rows) {
      uint32_t row = g->row_of[from] - rows;
      gathered_move(g, kept, from);
      gathered_link(g, row, kept++);
    }
  }
  g->records = kept;
  emb_check(gathered_valid(g));
}
