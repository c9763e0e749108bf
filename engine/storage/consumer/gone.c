/* SPDX-License-Identifier: MIT
**
** gone.c -- see gone.h.  Merges sorted runs with a heap (Knuth, The Art of
** Computer Programming 3, 5.4.1).  Of equal keys the last one added is kept,
** first within a run, then between runs.
*/
#include "gone.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem/spill.h"

#define FIRST_ROOM 256u
#define READ_ITEMS (4096u / sizeof(struct gone_item))

struct gone_run {
  uint64_t from; /* in the file */
  size_t left;   /* items in the file not read yet */
  struct gone_item *items;
  size_t at, count; /* next item and number of items in memory */
};

void gone_init(struct gone *g, struct env *env, const char *dir) {
  memset(g, 0, sizeof *g);
  g->env = env;
  g->dir = dir;
}

void gone_free(struct gone *g) {
  struct env *env = g->env;
  if (!env) {
    return;
  }
  for (size_t i = 0; i < g->run_count; i++) {
    env->release(env, g->runs[i].items);
  }
  env->release(env, g->runs);
  env->release(env, g->heap);
  env->release(env, g->items);
  if (g->file) {
    env->close(env, g->file);
  }
  gone_init(g, env, g->dir);
}

static int gone_out_of_memory(emb_err *err) {
  return err_set(err, EMB_NOMEM, "out of memory");
}

static int gone_failed(const struct gone *g, const char *what, int os,
                       emb_err *err) {
  return err_os(err, EMB_IOERR, os, "cannot %s a spill file in %s", what,
                g->dir);
}

static int gone_compare(const struct gone_item *x, const struct gone_item *y) {
  if (x->key != y->key) {
    return x->key < y->key ? -1 : 1;
  }
  return x->order < y->order ? -1 : x->order > y->order;
}

static int by_key(const void *a, const void *b) { return gone_compare(a, b); }

/* Sorts the items in memory and keeps the last of each key. */
static void gone_sort_memory(struct gone *g) {
  size_t n = 0;
  if (g->count) {
    qsort(g->items, g->count, sizeof *g->items, by_key);
  }
  for (size_t i = 0; i < g->count; i++) {
    int last = i + 1 == g->count || g->items[i + 1].key != g->items[i].key;
    if (last || EMB_SEED(SEED_DELETION_LISTED_TWICE)) {
      g->items[n++] = g->items[i];
    }
  }
  g->count = n;
}

/* Makes room for one more item in a list. */
static int gone_grow(struct env *env, void **list, size_t count, size_t *room,
                     size_t bytes) {
  size_t more = *room ? *room * 2 : FIRST_ROOM;
  if (count < *room) {
    return 1;
  }
  void *larger = env->resize(env, *list, more * bytes);
  if (larger) {
    *list = larger;
    *room = more;
  }
  return larger != NULL;
}

/* Writes the items in memory as a run. */
static int write_run(struct gone *g, emb_err *err) {
  gone_sort_memory(g);
  int rc = g->file ? EMB_OK : spill_file(g->env, g->dir, &g->file, err);
  if (rc) {
    return rc;
  }
  if (!gone_grow(g->env, (void **)&g->runs, g->run_count, &g->run_room,
                 sizeof *g->runs)) {
    return gone_out_of_memory(err);
  }
  size_t bytes = g->count * sizeof *g->items;
  int os = g->env->write(g->env, g->file, g->items, bytes, g->bytes);
  if (os) {
    return gone_failed(g, "write", os, err);
  }
  g->runs[g->run_count++] =
      (struct gone_run){.from = g->bytes, .left = g->count};
  g->bytes += bytes;
  g->count = 0;
  return EMB_OK;
}

int gone_add(struct gone *g, int64_t key, uint8_t op, emb_err *err) {
  if (g->count == GONE_ITEMS) {
    int rc = write_run(g, err);
    if (rc) {
      return rc;
    }
  }
  if (!gone_grow(g->env, (void **)&g->items, g->count, &g->room,
                 sizeof *g->items)) {
    return gone_out_of_memory(err);
  }
  g->items[g->count++] = (struct gone_item){key, g->order++ << 8 | op};
  return EMB_OK;
}

/* ---- reading ------------------------------------------------------------- */

/* Makes sure that the next item of a run, if any, is in memory. */
static int run_refill(struct gone *g, struct gone_run *run, emb_err *err) {
  if (run->at < run->count || !run->left) {
    return EMB_OK;
  }
  size_t n = run->left < READ_ITEMS ? run->left : READ_ITEMS;
  int os = g->env->read(g->env, g->file, run->items, n * sizeof *run->items,
                        run->from);
  if (os) {
    return gone_failed(g, "read", os, err);
  }
  run->from += n * sizeof *run->items;
  run->left -= n;
  run->at = 0;
  run->count = n;
  return EMB_OK;
}

static int gone_is_less(const struct gone *g, size_t a, size_t b) {
  const struct gone_run *x = g->heap[a], *y = g->heap[b];
  return gone_compare(&x->items[x->at], &y->items[y->at]) < 0;
}

static void gone_sift_down(struct gone *g, size_t at) {
  for (;;) {
    size_t least = at, child = 2 * at + 1;
    for (size_t i = child; i < child + 2 && i < g->heap_count; i++) {
      least = gone_is_less(g, i, least) ? i : least;
    }
    if (least == at) {
      return;
    }
    struct gone_run *run = g->heap[at];
    g->heap[at] = g->heap[least];
    g->heap[least] = run;
    at = least;
  }
}

int gone_sort(struct gone *g, emb_err *err) {
  struct env *env = g->env;
  g->sorted = 1;
  if (!g->run_count) {
    gone_sort_memory(g);
    return EMB_OK;
  }
  int rc = g->count ? write_run(g, err) : EMB_OK;
  if (rc) {
    return rc;
  }
  env->release(env, g->items);
  g->items = NULL;
  g->heap = env->allocate(env, g->run_count * sizeof *g->heap);
  if (!g->heap) {
    return gone_out_of_memory(err);
  }
  for (size_t i = 0; !rc && i < g->run_count; i++) {
    struct gone_run *run = &g->runs[i];
    run->items = env->allocate(env, READ_ITEMS * sizeof *run->items);
    rc = run->items ? run_refill(g, run, err) : gone_out_of_memory(err);
    g->heap[g->heap_count++] = run;
  }
  for (size_t i = g->heap_count; !rc && i-- > 0;) {
    gone_sift_down(g, i);
  }
  return rc;
}

/* Removes the least item of all runs; *some = 0: there is none. */
static int gone_take(struct gone *g, struct gone_item *item, int *some,
                     emb_err *err) {
  *some = g->heap_count > 0;
  if (!*some) {
    return EMB_OK;
  }
  struct gone_run *run = g->heap[0];
  *item = run->items[run->at++];
  int rc = run_refill(g, run, err);
  if (!rc && run->at == run->count) {
    g->heap[0] = g->heap[--g->heap_count];
  }
  if (!rc && g->heap_count) {
    gone_sift_down(g, 0);
  }
  return rc;
}

/* Is there another item with this key? */
static int goes_on(const struct gone *g, int64_t key) {
  const struct gone_run *run = g->heap_count ? g->heap[0] : NULL;
  return run && run->items[run->at].key == key &&
         !EMB_SEED(SEED_DELETION_LISTED_TWICE);
}

int gone_next(struct gone *g, int64_t *key, uint8_t *op, int *some,
              emb_err *err) {
  struct gone_item item = {0, 0};
  int rc = EMB_OK;
  if (g->run_count) {
    do {
      rc = gone_take(g, &item, some, err);
    } while (!rc && *some && goes_on(g, item.key));
  } else {
    *some = g->at < g->count;
    if (*some) {
      item = g->items[g->at++];
    }
  }
  *key = item.key;
  *op = (uint8_t)item.order;
  return rc;
}
