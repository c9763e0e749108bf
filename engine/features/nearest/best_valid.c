/* SPDX-License-Identifier: MIT
**
** best_valid.c -- are the heaps of a search, and the candidates of a query, as
** best.h and candidates.h say?  Only in self-checking builds (base/debug.h).
*/
#include "candidates.h"

#if EMB_DEBUG > 0

/* Is a, below b in the heap, no farther than b? */
static int is_in_order(const struct best_row *a, const struct best_row *b) {
  return a->distance < b->distance ||
         (a->distance == b->distance && a->key <= b->key);
}

/* The slots of a query's n rows are its first n. */
static void check_slots(const struct best *best, size_t query) {
  const uint32_t *slots = best->slots + query * best->k;
  size_t n = best->counts[query], sum = 0;
  for (size_t i = 0; i < n; i++) {
    size_t slot = slots[i] - query * best->k;
    emb_assert(slot < n);
    sum += slot;
  }
  emb_assert(!n || sum == n * (n - 1) / 2); /* none is used twice */
}

int best_heap_valid(const struct best *best, size_t query) {
  const struct best_row *rows = best->rows + query * best->k;
  emb_assert(best->counts[query] <= best->k);
  for (size_t i = 0; i < best->counts[query]; i++) {
    emb_assert(rows[i].distance <= best->most);
    emb_assert(i == 0 || is_in_order(&rows[i], &rows[(i - 1) / 2]));
  }
  if (best->slots) {
    check_slots(best, query);
  }
  return 1;
}

int best_valid(const struct best *best) {
  emb_assert(!best->slots == (!best->vectors && !best->versions));
  emb_assert(!best->vectors == !best->dim);
  for (size_t query = 0; query < best->n; query++) {
    best_heap_valid(best, query);
  }
  return 1;
}

int candidates_valid(const struct candidates *c, const struct ask *ask) {
  emb_assert(c->query < ask->n);
  emb_assert(c->probes >= 1 && c->probes <= LISTS_MAX);
  emb_assert(c->n <= c->room);
  emb_assert(c->fit <= c->n);
  emb_assert(c->admitted <= c->sampled);
  return 1;
}

#endif
