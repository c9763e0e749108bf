/* SPDX-License-Identifier: MIT
**
** best.c -- see best.h.
*/
#include "best.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_ROWS 65536

int best__init(struct best *best, struct env *env, size_t n, size_t k,
               double most) {
  best->env = env;
  best->n = n;
  best->k = k;
  best->most = most;
  best->rows = env->allocate(env, n * k * sizeof *best->rows);
  best->counts = env->allocate(env, n * sizeof *best->counts);
  if (!best->rows || !best->counts) {
    best__free(best);
    return EMB_NOMEM;
  }
  return EMB_OK;
}

void best__free(struct best *best) {
  if (best->env) {
    best->env->release(best->env, best->rows);
    best->env->release(best->env, best->counts);
    best->env = NULL;
  }
}

void best__empty(struct best *best) {
  memset(best->counts, 0, best->n * sizeof *best->counts);
}

/* Is a behind b? */
static int is_farther(const struct best_row *a, const struct best_row *b) {
  return a->distance > b->distance ||
         (a->distance == b->distance && a->key > b->key);
}

static void sift_up(struct best_row *heap, size_t at) {
  struct best_row row = heap[at];
  while (at && is_farther(&row, &heap[(at - 1) / 2])) {
    heap[at] = heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap[at] = row;
}

static void sift_down(struct best_row *heap, size_t n) {
  struct best_row row = heap[0];
  size_t at = 0, child;
  while ((child = 2 * at + 1) < n) {
    child += child + 1 < n && is_farther(&heap[child + 1], &heap[child]);
    if (!is_farther(&heap[child], &row)) {
      break;
    }
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = row;
}

void best__offer(struct best *best, size_t query, int64_t key,
                 double distance) {
  struct best_row *heap = best->rows + query * best->k;
  const struct best_row row = {distance, key};
  if (!best_takes(best, query, key, distance)) {
    return;
  }
  if (best->counts[query] < best->k) {
    heap[best->counts[query]] = row;
    sift_up(heap, best->counts[query]++);
  } else {
    heap[0] = row;
    sift_down(heap, best->k);
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

/* For each of many queries: looks now and then for an interrupt. */
static int best_look(emb_session *s, size_t *rows, size_t more) {
  *rows += more + 1;
  if (*rows < LOOK_ROWS) {
    return EMB_OK;
  }
  *rows = 0;
  return session_interrupted(s);
}

int best__merge(struct best *to, const struct best *from, emb_session *s) {
  size_t rows = 0;
  int rc = EMB_OK;
  for (size_t query = 0; !rc && query < to->n; query++) {
    const struct best_row *heap = from->rows + query * from->k;
    for (size_t i = 0; i < from->counts[query]; i++) {
      best__offer(to, query, heap[i].key, heap[i].distance);
    }
    rc = best_look(s, &rows, from->counts[query]);
  }
  return rc;
}

static int best_order(const void *a, const void *b) {
  return is_farther(a, b) - is_farther(b, a);
}

int best__deliver(struct best *best, const emb_neighbours *to, emb_session *s) {
  size_t rows = 0;
  int rc = EMB_OK;
  for (size_t query = 0; !rc && query < best->n; query++) {
    struct best_row *heap = best->rows + query * best->k;
    size_t at = query * best->k;
    qsort(heap, best->counts[query], sizeof *heap, best_order);
    for (size_t i = 0; i < best->counts[query]; i++) {
      to->keys[at + i] = heap[i].key;
      to->distances[at + i] = heap[i].distance;
    }
    to->counts[query] = best->counts[query];
    rc = best_look(s, &rows, best->counts[query]);
  }
  return rc;
}
