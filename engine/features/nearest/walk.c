/* SPDX-License-Identifier: MIT
**
** walk.c -- see walk.h.
*/
#include "walk.h"

#include <stdlib.h>
#include <string.h>

#include "engine/table/rows/get.h"
#include "index.h"

int walk__read_rows(struct nearest_index *x, const int64_t *keys, size_t n) {
  return get_peek(x->s, keys, n,
                  &(emb_rows){.vectors = x->rows, .found = x->found});
}

int walk__begin(struct nearest_index *x, struct walk *walk) {
  walk->gather.core = &x->store->core;
  return atomic_load(&x->store->own.is_owner)
             ? local_scan_open(x->s, INT64_MIN, INT64_MAX, EMB_SCAN_ANY,
                               &walk->scan)
             : EMB_OK;
}

static int compare_pairs(const void *a, const void *b) {
  uint64_t x = ((const uint64_t *)a)[1], y = ((const uint64_t *)b)[1];
  return x < y ? -1 : x > y;
}

static int walk_by_key(struct nearest_index *x, struct walk *walk,
                       int64_t *keys, size_t *n) {
  struct core *core = &x->store->core;
  int rc = EMB_OK;
  while (!rc && walk->gathered == walk->gather.count &&
         walk->part < index_parts(&core->index)) {
    rc = gather_partition(&walk->gather, x->s->slot, walk->part++);
    walk->gathered = 0;
    if (!rc && walk->gather.count) {
      qsort(walk->gather.pairs, walk->gather.count,
            2 * sizeof *walk->gather.pairs, compare_pairs);
    }
  }
  for (*n = 0; !rc && *n < IVF_ROWS && walk->gathered < walk->gather.count;
       ++*n) {
    keys[*n] = (int64_t)walk->gather.pairs[2 * walk->gathered++];
  }
  return rc || !*n ? rc : walk__read_rows(x, keys, *n);
}

int walk__next(struct nearest_index *x, struct walk *walk, int64_t *keys,
               size_t *n, int *done) {
  const emb_rows to = {.keys = keys, .vectors = x->rows};
  uint32_t dim = x->store->core.schema.dim;
  size_t kept = 0;
  int rc = walk->scan ? local_scan_next_rows(walk->scan, IVF_ROWS, &to, n)
                      : walk_by_key(x, walk, keys, n);
  *done = !rc && *n == 0;
  for (size_t i = 0; !rc && !walk->scan && i < *n; i++) {
    if (x->found[i]) {
      memmove(x->rows + kept * dim, x->rows + i * dim, dim * sizeof(float));
      keys[kept++] = keys[i];
    }
  }
  *n = walk->scan ? *n : kept;
  return rc;
}

void walk__end(struct nearest_index *x, struct walk *walk) {
  struct env *env = x->store->core.env;
  if (walk->scan) {
    local_scan_close(walk->scan);
  }
  env->release(env, walk->gather.pairs);
  *walk = (struct walk){0};
}
