/* SPDX-License-Identifier: MIT
**
** indexed.c -- search by an index; see index.h.  README.md has the steps.
**
** A key may come from more than one source (recent keys, the session's own
** transaction, the lists); it counts once.
**
** A search that cannot be done this way is left to exact.c: *done is then 0.
*/
#include <math.h>
#include <string.h>

#include "engine/emb.h"
#include "engine/table/session/txn_map.h"
#include "engine/table/rows/get.h"
#include "candidates.h"
#include "effort.h"
#include "index.h"
#include "nearest.h"

#define OWN_KEYS 65536
#define BATCH_ROWS 1024
#define GROUP_QUERIES 256 /* queries whose candidates are read together */
/* Cost of comparing a row by key, in codes examined: 140 ns against 22 to 33
** ns, for 64 elements. */
#define CODES_PER_KEY 4.0
/* Conditions that admit at least one key in RARE_FREE need no more lists.  If
** they admit one in RARE_FIRST or fewer, a key is tested before its code is
** examined. */
#define RARE_FREE 8.0
#define RARE_FIRST 16.0

struct index_look {
  const struct ask *ask;
  struct best *best;
  struct nearest_index *x;
  struct ivf *ivf;
  int64_t *keys; /* of a batch, BATCH_ROWS */
  float *rows;
  uint64_t *versions; /* of the batch, as the next */
  uint8_t *found;
  int64_t *extra; /* recent keys, and the transaction's */
  size_t extras, extra_room;
  size_t work; /* since the last poll for an interrupt */
  int is_full; /* there are too many extra keys */
  struct effort effort;
  double rare; /* one key in this many is admitted, as far as known
                  beforehand */
};

/* ---- rows ---------------------------------------------------------------- */

static int looking_begin(struct index_look *l) {
  emb_session *s = l->ask->s;
  struct env *env = s->core->env;
  size_t dim = s->core->schema.dim;
  l->keys = env->allocate(env, BATCH_ROWS * sizeof *l->keys);
  l->rows = env->allocate(env, BATCH_ROWS * dim * sizeof *l->rows);
  l->versions = env->allocate(env, BATCH_ROWS * sizeof *l->versions);
  l->found = env->allocate(env, BATCH_ROWS);
  return l->keys && l->rows && l->versions && l->found
             ? EMB_OK
             : session_error(s, EMB_NOMEM, "out of memory");
}

static void looking_end(struct index_look *l) {
  struct env *env = l->ask->s->core->env;
  env->release(env, l->keys);
  env->release(env, l->rows);
  env->release(env, l->versions);
  env->release(env, l->found);
  env->release(env, l->extra);
}

/* Is the row a neighbour of the query, apart from the maximum distance? */
static int counts_for(const struct ask *ask, size_t query,
                      const struct ask_row *row) {
  double distance;
  return !(ask->how.apart && ask->how.apart[query] == row->key) &&
         ask__distance(ask, query, row->row + ask->segment->first, &distance);
}

/* Reads a batch of rows. */
static int look_at_rows(struct index_look *l, const int64_t *keys, size_t n) {
  return get_peek(l->ask->s, keys, n,
                  &(emb_rows){.vectors = l->rows,
                              .found = l->found,
                              .versions = l->versions});
}

/* Compares a row with queries [from, to).  *count is incremented if the row
** fits the first query. */
static int compare_row(struct index_look *l, const struct ask_row *row,
                       size_t from, size_t to, size_t *count) {
  const struct ask *ask = l->ask;
  int rc = EMB_OK;
  *count += counts_for(ask, from, row) != 0;
  for (size_t q = from; !rc && q < to; q++) {
    if (!best__has(l->best, q, row->key)) {
      ask__offer(ask, l->best, q, row);
    }
    rc = ask__look(ask, &l->work, ask->segment->dim + ask->k);
  }
  return rc;
}

/* Compares rows with queries [from, to).  *count: number of rows that fit the
** first query. */
static int compare_keys(struct index_look *l, const int64_t *keys, size_t n,
                        size_t from, size_t to, size_t *count) {
  const struct ask *ask = l->ask;
  emb_session *s = ask->s;
  size_t dim = s->core->schema.dim;
  int rc = EMB_OK;
  for (size_t at = 0; !rc && at < n; at += BATCH_ROWS) {
    size_t m = n - at < BATCH_ROWS ? n - at : BATCH_ROWS;
    rc = look_at_rows(l, keys + at, m);
    rc = rc ? rc : session_interrupted(s);
    for (size_t i = 0; !rc && i < m; i++) {
      if (l->found[i] && ask__admits(ask, keys[at + i])) {
        const struct ask_row row = {keys[at + i], l->rows + i * dim,
                                    l->versions[i]};
        rc = compare_row(l, &row, from, to, count);
      }
    }
  }
  return rc;
}

/* ---- rows that the index may not know ------------------------------------ */

static int add_extra(struct index_look *l, const int64_t *keys, size_t n) {
  struct env *env = l->ask->s->core->env;
  if (l->extras + n > l->extra_room) {
    size_t room = (l->extras + n) * 2;
    void *larger = env->resize(env, l->extra, room * sizeof *l->extra);
    if (!larger) {
      return session_error(l->ask->s, EMB_NOMEM, "out of memory");
    }
    l->extra = larger;
    l->extra_room = room;
  }
  memcpy(l->extra + l->extras, keys, n * sizeof *keys);
  l->extras += n;
  return EMB_OK;
}

static int add_recent(struct index_look *l) {
  uint64_t number = 0;
  size_t n;
  int rc = EMB_OK;
  do {
    n = nearest_observe__piece(l->x, &number, l->keys);
    rc = n ? add_extra(l, l->keys, n) : EMB_OK;
    l->is_full |= l->extras > RECENT_COMPARED;
  } while (!rc && n && !l->is_full);
  return rc;
}

struct own_keys {
  int64_t *keys;
  size_t n;
};

static void own_key(void *arg, int64_t key, uint64_t word) {
  struct own_keys *own = arg;
  (void)word;
  own->keys[own->n++] = key;
}

static int add_own(struct index_look *l) {
  emb_session *s = l->ask->s;
  struct env *env = s->core->env;
  struct own_keys own = {NULL, 0};
  uint64_t count = s->txn && s->txn->number ? index_count(s->txn->map) : 0;
  l->is_full |= count > OWN_KEYS;
  if (!count || l->is_full) {
    return EMB_OK;
  }
  own.keys = env->allocate(env, count * sizeof *own.keys);
  if (!own.keys) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  for (uint32_t p = 0; p < index_parts(s->txn->map); p++) {
    index_each(s->txn->map, p, own_key, &own);
  }
  int rc = add_extra(l, own.keys, own.n);
  env->release(env, own.keys);
  return rc;
}

/* ---- a query ------------------------------------------------------------- */

/* The k nearest that a condition admits are farther away than the k nearest
** overall.  If one key in `rare` is admitted, the number of extra lists grows
** slowly with `rare`; README.md has the figures. */
static uint64_t probes_among(const struct index_look *l, double rare) {
  double more = rare > RARE_FREE ? pow(rare / RARE_FREE, 1.0 / 3) : 1;
  double probes = l->effort.probes * more;
  return probes < LISTS_MAX ? (uint64_t)probes : LISTS_MAX;
}

/* Should each key be tested before its code is examined?  A filter is cheap to
** test. */
static int is_asked_first(const struct index_look *l) {
  return l->ask->how.filter && l->rare >= RARE_FIRST;
}

/* Is comparing the named rows by key faster than examining codes? */
static int is_faster_by_key(const struct index_look *l) {
  uint64_t named = ask__named(l->ask), lists = l->ivf->lists.count;
  double part = (double)probes_among(l, l->rare) / (double)(lists + !lists);
  double codes = (double)local_count(l->ask->s) * (part < 1 ? part : 1);
  return named <= KEYS_FEW ||
         (named < UINT64_MAX && (double)named * CODES_PER_KEY < codes);
}

/* ---- rows of candidates -------------------------------------------------- */

/* Compares a batch of rows, each with the query whose candidate it is. */
static int compare_batch(struct index_look *l, struct candidates *const *of,
                         size_t n) {
  const struct ask *ask = l->ask;
  emb_session *s = ask->s;
  size_t dim = s->core->schema.dim;
  int rc = look_at_rows(l, l->keys, n);
  for (size_t i = 0; !rc && i < n; i++) {
    const struct ask_row row = {l->keys[i], l->rows + i * dim, l->versions[i]};
    size_t query = of[i]->query;
    if (!l->found[i] || !ask__admits(ask, l->keys[i])) {
      continue;
    }
    of[i]->fit += counts_for(ask, query, &row) != 0;
    if (!best__has(l->best, query, l->keys[i])) {
      ask__offer(ask, l->best, query, &row);
    }
  }
  return rc ? rc : session_interrupted(s);
}

/* Compares the candidates of several queries, whose rows on disk are read
** together. */
static int compare_candidates(struct index_look *l, struct candidates *all,
                              size_t n) {
  struct candidates *of[BATCH_ROWS];
  size_t filled = 0;
  int rc = EMB_OK;
  for (size_t q = 0; !rc && q < n; q++) {
    all[q].fit = 0;
    for (size_t i = 0; !rc && i < all[q].n; i++) {
      l->keys[filled] = all[q].keys[i];
      of[filled++] = &all[q];
      if (filled == BATCH_ROWS) {
        rc = compare_batch(l, of, filled);
        filled = 0;
      }
    }
    count_add(&l->x->candidates, all[q].n);
  }
  rc = rc || !filled ? rc : compare_batch(l, of, filled);
  for (size_t q = 0; !rc && q < n; q++) {
    emb_check(candidates_valid(&all[q], l->ask));
  }
  return rc;
}

/* Number of lists the query should have probed: c->probes if that was enough.
** Otherwise as many as probes_among gives for the share of keys admitted in
** those lists, and more if not even k rows came.  `c->fit` counts rows of the
** lists that fit, apart from the maximum distance; a row being moved may count
** twice. */
static uint32_t probes_after(const struct index_look *l,
                             const struct candidates *c) {
  const struct ask *ask = l->ask;
  double rare = (double)c->sampled / (c->admitted ? c->admitted : 1);
  uint64_t want = probes_among(l, rare);
  int far = ask->how.flags & EMB_NEAREST_WITHIN && c->fit >= ask->k;
  want = want * 3 / 4 > c->probes ? want : c->probes;
  if (l->best->counts[c->query] < ask->k && !far &&
      want < 4 * (uint64_t)c->probes) {
    want = 4 * (uint64_t)c->probes;
  }
  return want < LISTS_MAX ? (uint32_t)want : LISTS_MAX;
}

/* Moves the queries that need more lists to the front, and returns their
** number.  *done: 0: too many lists. */
static size_t not_enough(const struct index_look *l, struct candidates *all,
                         size_t n, int *done) {
  size_t left = 0;
  for (size_t q = 0; q < n; q++) {
    uint32_t want = probes_after(l, &all[q]);
    if (want > all[q].probes) {
      struct candidates other = all[left];
      all[left] = all[q];
      all[q] = other;
      all[left++].probes = want;
      *done = *done && want < l->ivf->lists.count / 2;
    }
  }
  return left;
}

static int look_for(struct index_look *l, struct candidates *all, size_t n,
                    int *done) {
  const struct candidates_how how = {.most =
                                         l->effort.rows ? l->effort.rows : 1,
                                     .order = l->effort.order,
                                     .few = is_asked_first(l)};
  int rc = EMB_OK;
  for (size_t q = 0; q < n; q++) {
    all[q].probes = (uint32_t)probes_among(l, l->rare);
    *done = *done &&
            (l->rare <= RARE_FREE || all[q].probes < l->ivf->lists.count / 2);
  }
  while (!rc && n && *done) {
    rc = candidates__find(l->ask, l->ivf, all, n, &how);
    rc = rc ? rc : compare_candidates(l, all, n);
    n = rc ? 0 : not_enough(l, all, n, done);
  }
  return rc;
}

/* *done: 0: all rows must be compared. */
static int look_for_all(struct index_look *l, int *done) {
  const struct ask *ask = l->ask;
  struct env *env = ask->s->core->env;
  size_t count = 0, room = ask->n < GROUP_QUERIES ? ask->n : GROUP_QUERIES;
  struct candidates *all = env->allocate(env, room * sizeof *all);
  int rc = all ? compare_keys(l, l->extra, l->extras, 0, ask->n, &count)
               : session_error(ask->s, EMB_NOMEM, "out of memory");
  for (size_t at = 0; !rc && *done && at < ask->n; at += room) {
    size_t n = ask->n - at < room ? ask->n - at : room;
    for (size_t q = 0; q < n; q++) {
      all[q].query = at + q;
    }
    rc = look_for(l, all, n, done);
  }
  for (size_t q = 0; all && q < room; q++) {
    env->release(env, all[q].keys);
  }
  env->release(env, all);
  return rc;
}

/* ---- the calls ----------------------------------------------------------- */

static double rows_per_admitted(const struct ask *ask) {
  double named = (double)ask__named(ask), all = (double)local_count(ask->s);
  double rare = named > 0 ? all / named : all;
  return rare > 1 ? rare : 1;
}

static int look_into(struct nearest_index *x, struct index_set *set,
                     const struct ask *ask, struct best *best, int *done) {
  struct index_look l = {.ask = ask,
                         .best = best,
                         .x = x,
                         .ivf = &set->ivf[ask->how.segment],
                         .rare = rows_per_admitted(ask)};
  effort__choose(x, set, &ask->how, ask->n, ask->k, &l.effort);
  if (l.effort.is_exact || is_faster_by_key(&l)) {
    return EMB_OK;
  }
  int rc = looking_begin(&l);
  rc = rc ? rc : add_recent(&l);
  rc = rc ? rc : add_own(&l);
  *done = !l.is_full;
  rc = rc || l.is_full ? rc : look_for_all(&l, done);
  count_add(&x->searches, ask->n);
  looking_end(&l);
  return rc;
}

int indexed__table(const struct ask *ask, struct best *best, int *done) {
  struct nearest_index *x = nearest_of(ask->s->store);
  const emb_nearest_how *how = &ask->how;
  *done = 0;
  double least = ask->segment->metric == EMB_DOT ? -INFINITY : 0;
  if (!ask->segment->indexed || how->flags & EMB_NEAREST_EXACT ||
      (how->flags & EMB_NEAREST_WITHIN && how->least > least)) {
    return EMB_OK;
  }
  struct index_set *set = nearest__use(x);
  if (!set) {
    return EMB_OK;
  }
  asked__note(&x->asked[how->segment], ask->s->core->env, ask->queries, ask->n,
              ask->segment->dim);
  int rc = look_into(x, set, ask, best, done);
  nearest__unuse(x, set);
  return rc;
}

void indexed__plan(const struct ask *ask, emb_search_plan *plan) {
  struct nearest_index *x = nearest_of(ask->s->store);
  uint32_t segment = ask->how.segment;
  struct index_set *set = ask->segment->indexed ? nearest__use(x) : NULL;
  *plan = (emb_search_plan){.is_exact = 1};
  if (!set) {
    const struct ivf_options *options = &ask->segment->index;
    plan->recall = ask->how.recall > 0 ? ask->how.recall
                   : ask->how.probes || !ask->segment->indexed
                       ? 0
                       : options->recall;
    return;
  }
  struct effort effort;
  effort__choose(x, set, &ask->how, 1, ask->k, &effort);
  pthread_mutex_lock(&x->use_lock);
  const struct recall_curve *curve = &set->curves[segment];
  *plan = (emb_search_plan){
      .is_exact = effort.is_exact,
      .probes = effort__centres(&set->ivf[segment], effort.probes),
      .rows = effort.rows,
      .asked = curve->asked,
      .recall = effort.recall,
      .measured = (double)effort.point.mean,
      .least = (double)effort.point.least,
      .at = curve->measured};
  pthread_mutex_unlock(&x->use_lock);
  nearest__unuse(x, set);
}
