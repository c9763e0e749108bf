/* SPDX-License-Identifier: MIT
**
** best.c -- see best.h.
*/
#include "best.h"

#include <string.h>

#define LOOK_ROWS 65536

int best__init(struct best *best, struct env *env,
               const struct best_form *form) {
  size_t rows = form->n * form->k;
  memset(best, 0, sizeof *best);
  best->env = env;
  best->n = form->n;
  best->k = form->k;
  best->most = form->most;
  best->dim = form->dim;
  best->rows = env->allocate(env, rows * sizeof *best->rows);
  best->counts = env->allocate(env, form->n * sizeof *best->counts);
  int good = best->rows && best->counts;
  if (good && (form->dim || form->versions)) {
    best->slots = env->allocate(env, rows * sizeof *best->slots);
    good = best->slots != NULL;
  }
  if (good && form->dim) {
    best->vectors = env->allocate(env, rows * form->dim * sizeof(float));
    good = best->vectors != NULL;
  }
  if (good && form->versions) {
    best->versions = env->allocate(env, rows * sizeof *best->versions);
    good = best->versions != NULL;
  }
  if (!good) {
    best__free(best);
    return EMB_NOMEM;
  }
  emb_check(best_valid(best));
  return EMB_OK;
}

void best__free(struct best *best) {
  struct env *env = best->env;
  if (env) {
    env->release(env, best->rows);
    env->release(env, best->counts);
    env->release(env, best->slots);
    env->release(env, best->vectors);
    env->release(env, best->versions);
    best->env = NULL;
  }
}

void best__empty(struct best *best, double most) {
  best->most = most;
  memset(best->counts, 0, best->n * sizeof *best->counts);
}

/* Is a farther than b? */
static int is_farther(const struct best_row *a, const struct best_row *b) {
  return a->distance > b->distance ||
         (a->distance == b->distance && a->key > b->key);
}

/* A query's rows, and their slots or NULL. */
struct best_heap {
  struct best_row *rows;
  uint32_t *slots;
};

static struct best_heap best_heap_of(const struct best *best, size_t query) {
  size_t at = query * best->k;
  return (struct best_heap){best->rows + at,
                            best->slots ? best->slots + at : NULL};
}

static uint32_t best_heap_slot(const struct best_heap *heap, size_t at) {
  return heap->slots ? heap->slots[at] : BEST_NO_SLOT;
}

static void best_heap_set(const struct best_heap *heap, size_t at,
                          const struct best_row *row, uint32_t slot) {
  heap->rows[at] = *row;
  if (heap->slots) {
    heap->slots[at] = slot;
  }
}

/* Moves a row up from place `at`, which is free. */
static void sift_up(const struct best_heap *heap, size_t at,
                    const struct best_row *row, uint32_t slot) {
  size_t parent;
  while (at && is_farther(row, &heap->rows[parent = (at - 1) / 2])) {
    best_heap_set(heap, at, &heap->rows[parent], best_heap_slot(heap, parent));
    at = parent;
  }
  best_heap_set(heap, at, row, slot);
}

/* Moves a row down from the top, which is free, in a heap of n. */
static void sift_down(const struct best_heap *heap, size_t n,
                      const struct best_row *row, uint32_t slot) {
  const struct best_row *rows = heap->rows;
  size_t at = 0, child;
  while ((child = 2 * at + 1) < n) {
    child += child + 1 < n && is_farther(&rows[child + 1], &rows[child]);
    if (!is_farther(&rows[child], row)) {
      break;
    }
    best_heap_set(heap, at, &rows[child], best_heap_slot(heap, child));
    at = child;
  }
  best_heap_set(heap, at, row, slot);
}

uint32_t best__offer(struct best *best, size_t query, int64_t key,
                     double distance) {
  const struct best_heap heap = best_heap_of(best, query);
  const struct best_row row = {distance, key};
  uint32_t slot = BEST_NO_SLOT;
  emb_assert(query < best->n);
  if (!best_takes(best, query, key, distance)) {
    return slot;
  }
  if (best->counts[query] < best->k) {
    size_t at = best->counts[query]++;
    slot = best->slots ? (uint32_t)(query * best->k + at) : slot;
    sift_up(&heap, at, &row, slot);
  } else {
    slot = best_heap_slot(&heap, 0);
    sift_down(&heap, best->k, &row, slot);
  }
  emb_check_some(256, best_heap_valid(best, query));
  return slot;
}

void best__keep(struct best *best, uint32_t slot, const float *row,
                uint64_t version) {
  if (slot == BEST_NO_SLOT) {
    return;
  }
  emb_assert(best->slots && slot < best->n * best->k);
  if (best->vectors) {
    memcpy(best_room(best, slot), row, best->dim * sizeof *row);
  }
  if (best->versions) {
    best->versions[slot] = version;
  }
}

int best__has(const struct best *best, size_t query, int64_t key) {
  const struct best_row *heap = best->rows + query * best->k;
  for (size_t i = 0; i < best->counts[query]; i++) {
    if (heap[i].key == key) {
      return 1;
    }
  }
  return 0;
}

/* Called per query: polls for an interrupt from time to time. */
static int best_look(emb_session *s, size_t *rows, size_t more) {
  *rows += more + 1;
  if (*rows < LOOK_ROWS) {
    return EMB_OK;
  }
  *rows = 0;
  return session_interrupted(s);
}

static int best_is_empty(const struct best *best) {
  size_t query = 0;
  while (query < best->n && !best->counts[query]) {
    query++;
  }
  return query == best->n;
}

int best__merge(struct best *to, struct best *from, emb_session *s) {
  size_t rows = 0;
  int rc = EMB_OK;
  emb_assert(to->n == from->n && to->k == from->k && to->dim == from->dim);
  emb_assert(!to->versions == !from->versions);
  if (best_is_empty(to)) {
    struct best empty = *to;
    *to = *from;
    *from = empty;
    return EMB_OK;
  }
  for (size_t query = 0; !rc && query < to->n; query++) {
    const struct best_heap heap = best_heap_of(from, query);
    for (size_t i = 0; i < from->counts[query]; i++) {
      const struct best_row *row = &heap.rows[i];
      uint32_t slot = best__offer(to, query, row->key, row->distance);
      if (slot != BEST_NO_SLOT) {
        uint32_t its = heap.slots[i];
        best__keep(to, slot, best_room(from, its),
                   from->versions ? from->versions[its] : 0);
      }
    }
    rc = best_look(s, &rows, from->counts[query]);
  }
  return rc;
}

/* Heap sort: repeatedly moves the farthest row to the end. */
static void best_heap_sort(const struct best_heap *heap, size_t n) {
  while (n > 1) {
    const struct best_row row = heap->rows[--n];
    uint32_t slot = best_heap_slot(heap, n);
    best_heap_set(heap, n, &heap->rows[0], best_heap_slot(heap, 0));
    sift_down(heap, n, &row, slot);
  }
}

static void deliver_row(const struct best *best, const struct best_heap *heap,
                        size_t i, const emb_neighbours *to, size_t at) {
  uint32_t slot = best_heap_slot(heap, i);
  to->keys[at] = heap->rows[i].key;
  to->distances[at] = heap->rows[i].distance;
  if (best->vectors) {
    memcpy(to->vectors + at * best->dim, best_room(best, slot),
           best->dim * sizeof(float));
  }
  if (best->versions) {
    to->versions[at] = best->versions[slot];
  }
}

int best__deliver(struct best *best, const emb_neighbours *to, emb_session *s) {
  size_t rows = 0;
  int rc = EMB_OK;
  emb_check(best_valid(best));
  for (size_t query = 0; !rc && query < best->n; query++) {
    const struct best_heap heap = best_heap_of(best, query);
    best_heap_sort(&heap, best->counts[query]);
    for (size_t i = 0; i < best->counts[query]; i++) {
      deliver_row(best, &heap, i, to, query * best->k + i);
    }
    to->counts[query] = best->counts[query];
    rc = best_look(s, &rows, best->counts[query]);
  }
  return rc;
}
