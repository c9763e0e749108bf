/* SPDX-License-Identifier: MIT
**
** exact.c -- the nearest among all rows of a table.
**
** A few keys: their rows are looked up.  Otherwise one pass over the log in
** storage order, by several threads (extents.c, compare.c).
**
** EXACTLY   A scan is open during the pass.  Its cursor stays at the beginning,
** ONCE      so every record that moves out of its range is reported to it
**           (kernel/watch.h).  A record that the pass finds live is counted
**           with its value at that time.  A record that moved earlier is not
**           live where the pass looks; it was reported, and is looked up at
**           the end unless its key was counted already.
** LIMIT     For many neighbours a sample estimates beforehand how far the
**           farthest is (limit.c).  The limit holds if k rows are within it.
** FAILURE   If a thread cannot read an extent, exact_by_scan gives the answer,
**           or the error.
*/
#include <math.h>
#include <string.h>

#include "exact.h"
#include "engine/table/jobs/progress.h"
#include "engine/table/owner/own.h"

#include "engine/table/rows/get.h"

enum {
  ROWS_AT_ONCE = 64,
  /* Up to this part of the table, rows are looked up by key: a lookup takes
  ** about as long as eight rows of a pass. */
  KEYS_PART = 8,
  THREADS_MAX = 64,
  /* Threads for a table that is mostly on disk. */
  THREADS_READING = 4,
};

/* Multiplications that justify another thread; starting one takes about 50
** us. */
#define WORK_PER_THREAD 4e6
/* Bytes compared per stay in the epoch. */
#define STAY_BYTES (64 * 1024)

/* ---- by key -------------------------------------------------------------- */

struct lookup {
  const struct ask *ask;
  struct best *best;
  float *vectors;
  int64_t keys[ROWS_AT_ONCE];
  uint64_t versions[ROWS_AT_ONCE];
  size_t n;
  size_t work; /* since the last poll for an interrupt */
};

static int lookup_init(struct lookup *l, const struct ask *ask,
                       struct best *best) {
  struct env *env = ask->s->core->env;
  size_t row = ask->s->core->layout.dim * sizeof(float);
  l->ask = ask;
  l->best = best;
  l->n = l->work = 0;
  l->vectors = env->allocate(env, ROWS_AT_ONCE * row);
  return l->vectors ? EMB_OK
                    : session_error(ask->s, EMB_NOMEM, "out of memory");
}

static void lookup_free(struct lookup *l) {
  struct env *env = l->ask->s->core->env;
  env->release(env, l->vectors);
}

/* Compares the collected rows.  once: except those whose key is already in the
** answer. */
static int lookup_flush(struct lookup *l, int once) {
  const struct ask *ask = l->ask;
  uint8_t found[ROWS_AT_ONCE];
  size_t dim = ask->s->core->layout.dim;
  int rc = get_peek(ask->s, l->keys, l->n,
                    &(emb_rows){.vectors = l->vectors,
                                .found = found,
                                .versions = l->versions});
  for (size_t i = 0; !rc && i < l->n; i++) {
    const struct ask_row row = {l->keys[i], l->vectors + i * dim,
                                l->versions[i]};
    for (size_t query = 0; !rc && found[i] && query < ask->n; query++) {
      if (!once || !best__has(l->best, query, l->keys[i])) {
        ask__offer(ask, l->best, query, &row);
      }
      rc = ask__look(ask, &l->work, ask->segment->dim + (once ? ask->k : 0));
    }
  }
  l->n = 0;
  return rc ? rc : session_interrupted(ask->s);
}

static int lookup_add(struct lookup *l, int64_t key) {
  if (!ask__admits(l->ask, key)) {
    return EMB_OK;
  }
  l->keys[l->n++] = key;
  return l->n == ROWS_AT_ONCE ? lookup_flush(l, 0) : EMB_OK;
}

/* Does the filter name the fewest keys? */
static int is_exact_by_filter(const struct ask *ask) {
  const struct emb_filter *filter = ask->how.filter;
  return filter && !filter->shape.without &&
         filter->shape.count == ask__named(ask);
}

static int look_up_all(const struct ask *ask, struct best *best) {
  const emb_nearest_how *how = &ask->how;
  struct lookup lookup;
  int rc = own_refresh(ask->s);
  rc = rc ? rc : lookup_init(&lookup, ask, best);
  if (rc) {
    return rc;
  }
  if (is_exact_by_filter(ask)) {
    uint64_t at = 0;
    int64_t key;
    while (!rc && filter__next(how->filter, &at, &key)) {
      rc = lookup_add(&lookup, key);
    }
  } else if (how->flags & EMB_NEAREST_KEYS) {
    for (size_t i = 0; !rc && i < how->key_count; i++) {
      rc = lookup_add(&lookup, how->keys[i]);
    }
  } else {
    rc = lookup_add(&lookup, how->lo);
    for (int64_t key = how->lo; !rc && key < how->hi;) {
      rc = lookup_add(&lookup, ++key);
    }
  }
  rc = rc || !lookup.n ? rc : lookup_flush(&lookup, 0);
  lookup_free(&lookup);
  return rc;
}

/* Do so few keys fit the conditions that a lookup by key is faster? */
static int is_exact_by_key(const struct ask *ask) {
  uint64_t n = ask__named(ask);
  return n <= KEYS_FEW || n < (uint64_t)local_count(ask->s) / KEYS_PART;
}

/* ---- by a scan ----------------------------------------------------------- */

static int exact_by_scan(const struct ask *ask, struct best *best) {
  emb_session *s = ask->s;
  struct env *env = s->core->env;
  size_t dim = s->core->layout.dim, n = 1, work = 0;
  int64_t keys[ROWS_AT_ONCE];
  uint64_t versions[ROWS_AT_ONCE];
  emb_scan *scan = NULL;
  float *vectors = env->allocate(env, ROWS_AT_ONCE * dim * sizeof *vectors);
  const emb_rows to = {.keys = keys, .vectors = vectors, .versions = versions};
  int rc = vectors ? EMB_OK : session_error(s, EMB_NOMEM, "out of memory");
  rc = rc ? rc : local_scan_open(s, INT64_MIN, INT64_MAX, EMB_SCAN_ANY, &scan);
  while (!rc && n) {
    rc = local_scan_next_rows(scan, ROWS_AT_ONCE, &to, &n);
    for (size_t i = 0; !rc && i < n; i++) {
      if (ask__admits(ask, keys[i])) {
        const struct ask_row row = {keys[i], vectors + i * dim, versions[i]};
        rc = ask__offer_all(ask, best, &row, &work);
      }
    }
  }
  local_scan_close(scan);
  env->release(env, vectors);
  return rc;
}

/* ---- by a pass over the log ---------------------------------------------- */

/* Number of threads to use, the caller's included. */
static uint32_t count_threads(const struct search *search) {
  const struct ask *ask = search->ask;
  struct core *core = search->core;
  uint64_t extents =
      (search->end - search->first) / core->layout.extent_pages + 1;
  double rows =
      (double)core->layout.slots * (double)(search->end - search->first);
  double work = rows * (double)ask->n * (double)ask->segment->dim;
  uint64_t most = ask->how.threads;
  if (core->step_mode) {
    return 1;
  }
  if (!most) {
    most = core->env->processors(core->env);
    if (atomic_load(&core->log.resident) < extents / 2 &&
        most < THREADS_READING) {
      most = THREADS_READING;
    }
  }
  most = most > THREADS_MAX ? THREADS_MAX : most;
  most = most > extents ? extents : most;
  most = (double)most > work / WORK_PER_THREAD
             ? (uint64_t)(work / WORK_PER_THREAD)
             : most;
  return most ? (uint32_t)most : 1;
}

static void pass_thread(void *arg) { exact__extents(arg); }

/* If a thread cannot be started, the pass runs with fewer. */
static int pass_run(struct search *search, struct best *best,
                    struct extents *all, uint32_t n) {
  emb_session *s = search->ask->s;
  struct env *env = s->core->env;
  int rc = extents__begin(&all[0], search);
  uint32_t ready = 1;
  if (rc) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  all[0].caller = s;
  for (; ready < n; ready++) {
    struct extents *e = &all[ready];
    if (extents__begin(e, search) ||
        env->thread_start(env, pass_thread, e, &e->thread)) {
      break;
    }
  }
  exact__extents(&all[0]);
  for (uint32_t i = 1; i < ready; i++) {
    env->thread_join(env, all[i].thread);
  }
  for (uint32_t i = 0; i < ready; i++) {
    struct extents *e = &all[i];
    if (!rc) {
      rc = best__merge(best, &e->compare.best, s);
    }
    if (e->rc && (!rc || rc == EXACT_BROKEN)) {
      rc = e->rc;
      s->err =
          e->rc == EXACT_BROKEN || e->rc == EMB_INTERRUPT ? s->err : e->err;
    }
  }
  return rc;
}

static int pass_over(struct search *search, struct best *best) {
  const struct ask *ask = search->ask;
  struct env *env = search->core->env;
  uint32_t n = count_threads(search);
  struct extents *all = env->allocate(env, n * sizeof *all);
  if (!all) {
    return session_error(ask->s, EMB_NOMEM, "out of memory");
  }
  atomic_init(&search->next, search->first >> search->core->layout.extent_bits);
  int rc = pass_run(search, best, all, n);
  for (uint32_t i = 0; i < n; i++) {
    extents__end(&all[i]);
  }
  env->release(env, all);
  return rc;
}

/* First a pass within the sampled limit, then one without if the limit was too
** near. */
static int pass_within(struct search *search, struct best *best) {
  const struct ask *ask = search->ask;
  struct ask within = *ask;
  int rc = limit__sample(search, &within.most);
  if (!rc && within.most < ask->most) {
    search->ask = &within;
    rc = pass_over(search, best);
    search->ask = ask;
    if (rc || best->counts[0] == ask->k || EMB_SEED(SEED_NEAREST_LIMIT_KEPT)) {
      return rc;
    }
    best__empty(best, ask->most);
  }
  return rc ? rc : pass_over(search, best);
}

/* Looks up the rows that moved during the pass. */
static int moved_rows(const struct ask *ask, emb_scan *scan,
                      struct best *best) {
  struct lookup lookup;
  int rc = lookup_init(&lookup, ask, best);
  if (rc) {
    return rc;
  }
  do {
    scan->batch_keys = 0;
    rc = scan_take_moved(scan);
    for (uint32_t i = 0; i < scan->batch_keys; i++) {
      if (ask__admits(ask, scan->batch[i])) {
        lookup.keys[lookup.n++] = scan->batch[i];
      }
    }
    rc = rc || !lookup.n ? rc : lookup_flush(&lookup, 1);
  } while (!rc && scan->batch_keys);
  lookup_free(&lookup);
  return rc;
}
_Static_assert(SCAN_BATCH <= ROWS_AT_ONCE, "a batch of the scan's");

static int exact_by_pass(const struct ask *ask, struct best *best) {
  struct core *core = ask->s->core;
  emb_scan *scan;
  int rc = local_scan_open(ask->s, INT64_MIN, INT64_MAX, EMB_SCAN_ANY, &scan);
  if (rc) {
    return rc;
  }
  struct search search = {
      .ask = ask,
      .core = core,
      .watch = &scan->watch,
      .first = scan->page,
      .end = layout_page(&core->layout, scan->watch.end),
      .group = STAY_BYTES / core->layout.page_bytes,
  };
  search.group = search.group && ask->n == 1 ? search.group : 1;
  rc = search.first < search.end ? pass_within(&search, best) : EMB_OK;
  rc = rc ? rc : moved_rows(ask, scan, best);
  rc = rc ? rc : scan_ended(scan);
  local_scan_close(scan);
  return rc;
}

int exact__table(const struct ask *ask, struct best *best) {
  emb_session *s = ask->s;
  if (is_exact_by_key(ask)) {
    return look_up_all(ask, best);
  }
  int begun = progress_begin(s, "nearest", "rows", 0);
  int rc = exact_by_pass(ask, best);
  if (rc == EXACT_BROKEN || rc == EMB_BUSY) {
    best__empty(best, ask->most);
    rc = exact_by_scan(ask, best);
  }
  progress_end(s, begun);
  return rc;
}
