/* SPDX-License-Identifier: MIT
**
** weights.c -- see weights.h.
**
** A DRAW    chooses a frequency by the sums of frequency^power over all keys,
**           and then one of its keys: exactly by the frequencies that were
**           counted.  A key deleted since the count is left out; a key added
**           since is not drawn.
*/
#include "weights.h"
#include "engine/table/jobs/progress.h"
#include "engine/table/store/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAKING_US 1000
#define OUT_OF_DATE 8 /* an eighth */

static int sampling_init(emb_store *store, emb_err *err) {
  (void)err;
  (void)pthread_mutex_init(&sampling_of(store)->lock, NULL);
  return EMB_OK;
}

static void weights_free(struct env *env, struct weights *w) {
  if (w) {
    for (size_t i = 0; i < w->powers; i++) {
      env->release(env, w->cumulated[i]);
    }
    env->release(env, w->keys);
    env->release(env, w->group);
    env->release(env, w);
  }
}

/* Single-threaded. */
static void sampling_free(emb_store *store) {
  weights_free(store->core.env, sampling_of(store)->weights);
  sampling_of(store)->weights = NULL;
  (void)pthread_mutex_destroy(&sampling_of(store)->lock);
}

static void sampling_metrics(emb_store *store, struct metrics *to) {
  struct sampling *x = sampling_of(store);
  metric_count(to, "samples", &x->samples);
  metric_count(to, "sample_bytes", &x->bytes);
  metric_count(to, "sample_counted", &x->made);
}

const struct feature feature_negatives = {
    .name = "negatives",
    .state_bytes = sizeof(struct sampling),
    .init = sampling_init,
    .free = sampling_free,
    .metrics = sampling_metrics,
};

/* ---- making -------------------------------------------------------------- */

struct counted {
  uint32_t frequency;
  int64_t key;
};

static int counted_before(const void *a, const void *b) {
  const struct counted *x = a, *y = b;
  return x->frequency != y->frequency ? (x->frequency < y->frequency ? -1 : 1)
         : x->key != y->key           ? (x->key < y->key ? -1 : 1)
                                      : 0;
}

/* Reads all rows; *n of them. */
static int count_rows(emb_session *s, emb_scan *scan, struct counted **rows,
                      size_t *n) {
  struct env *env = s->core->env;
  enum { SOME = 256 };
  int64_t keys[SOME];
  emb_track tracks[SOME];
  size_t room = 0, more = 1;
  int rc = EMB_OK;
  int begun = progress_begin(s, "sample", "rows", (uint64_t)local_count(s));
  for (*n = 0; !rc && more;) {
    rc = local_scan_next_rows(
        scan, SOME, &(emb_rows){.keys = keys, .tracks = tracks}, &more);
    if (!rc && *n + more > room) {
      room = room ? room * 2 : 4096;
      void *larger = env->resize(env, *rows, room * sizeof **rows);
      rc = larger ? EMB_OK : session_error(s, EMB_NOMEM, "out of memory");
      *rows = larger ? larger : *rows;
    }
    for (size_t i = 0; !rc && i < more; i++) {
      (*rows)[(*n)++] = (struct counted){tracks[i].frequency, keys[i]};
    }
    progress_at(s, begun, *n);
    rc = rc ? rc : session_interrupted(s);
  }
  progress_end(s, begun);
  return rc;
}

/* Groups rows that are in order. */
static int group_rows_by(struct weights *w, struct env *env,
                         const struct counted *rows, size_t n) {
  size_t groups = 0;
  for (size_t i = 0; i < n; i++) {
    groups += i == 0 || rows[i].frequency != rows[i - 1].frequency;
  }
  w->keys = env->allocate(env, (n + 1) * sizeof *w->keys);
  w->group = env->allocate(env, (groups + 1) * sizeof *w->group);
  if (!w->keys || !w->group) {
    return EMB_NOMEM;
  }
  for (size_t i = 0; i < n; i++) {
    w->groups += i == 0 || rows[i].frequency != rows[i - 1].frequency;
    w->group[w->groups - 1] = (struct weights_group){rows[i].frequency, i + 1};
    w->keys[i] = rows[i].key;
    w->updates += rows[i].frequency;
  }
  w->count = n;
  return EMB_OK;
}

static int weights_make(emb_session *s, struct weights **out) {
  struct env *env = s->core->env;
  struct counted *rows = NULL;
  size_t n = 0;
  emb_scan *scan = NULL;
  struct weights *w = env->allocate(env, sizeof *w);
  int rc = w ? EMB_OK : session_error(s, EMB_NOMEM, "out of memory");
  if (w) {
    w->version = atomic_load(&s->core->version);
    w->rows = (uint64_t)local_count(s);
  }
  rc = rc ? rc : local_scan_open(s, INT64_MIN, INT64_MAX, EMB_SCAN_ANY, &scan);
  rc = rc ? rc : count_rows(s, scan, &rows, &n);
  if (scan) {
    local_scan_close(scan);
  }
  rc = rc ? rc : session_sort(s, rows, n, sizeof *rows, counted_before);
  if (!rc && group_rows_by(w, env, rows, n)) {
    rc = session_error(s, EMB_NOMEM, "out of memory");
  }
  env->release(env, rows);
  if (rc) {
    weights_free(env, w);
  }
  *out = rc ? NULL : w;
  return rc;
}

/* ---- sharing ------------------------------------------------------------- */

static int is_out_of_date(emb_session *s, const struct weights *w) {
  uint64_t version =
               atomic_load_explicit(&s->core->version, memory_order_relaxed),
           rows = (uint64_t)local_count(s),
           changed = rows > w->rows ? rows - w->rows : w->rows - rows;
  return (version - w->version) * OUT_OF_DATE > w->updates ||
         changed * OUT_OF_DATE > w->rows;
}

/* Under the lock. */
static void weights_drop(struct env *env, struct weights *w) {
  emb_assert(!w || w->refs);
  if (w && --w->refs == 0) {
    weights_free(env, w);
  }
}

static void weights_publish(emb_store *store, struct weights *w) {
  struct sampling *sampling = sampling_of(store);
  emb_check(weights_valid(w));
  weights_drop(store->core.env, sampling->weights);
  sampling->weights = w;
  w->refs++;
  atomic_store_explicit(&sampling->bytes,
                        w->count * sizeof *w->keys +
                            w->groups * sizeof *w->group,
                        memory_order_relaxed);
  atomic_fetch_add_explicit(&sampling->made, 1, memory_order_relaxed);
  emb_check(sampling_valid(sampling));
}

/* Returns the current weights if they are recent enough; else *makes: the
** caller must make new ones. */
static struct weights *weights_look(emb_session *s, int *makes) {
  struct sampling *sampling = sampling_of(s->store);
  pthread_mutex_lock(&sampling->lock);
  struct weights *w = sampling->weights;
  if (w && is_out_of_date(s, w) && !sampling->making && !s->txn) {
    w = NULL;
  }
  *makes = !w && !sampling->making;
  if (w) {
    w->refs++;
  }
  sampling->making = sampling->making || *makes;
  pthread_mutex_unlock(&sampling->lock);
  return w;
}

/* A transaction's own rows are private: weights made within a transaction, when
** there are none yet, are not shared. */
static int weights_hold(struct draw *d) {
  emb_session *s = d->s;
  struct sampling *sampling = sampling_of(s->store);
  uint64_t waited = 0;
  int makes = 0, rc = EMB_OK;
  while (!rc && !makes && !(d->weights = weights_look(s, &makes))) {
    if (!makes) { /* another session makes the first */
      session_sleep(s, MAKING_US, &waited);
      rc = session_interrupted(s);
    }
  }
  if (rc || !makes) {
    return rc;
  }
  rc = weights_make(s, &d->weights);
  pthread_mutex_lock(&sampling->lock);
  sampling->making = 0;
  if (!rc) {
    d->weights->refs = 1;
    if (!s->txn) {
      weights_publish(s->store, d->weights);
    }
  }
  pthread_mutex_unlock(&sampling->lock);
  return rc;
}

/* ---- a power ------------------------------------------------------------- */

static double *sum_powers(struct env *env, const struct weights *w,
                          double power) {
  double *to = env->allocate(env, (2 * w->groups + 1) * sizeof *to), sum = 0;
  for (size_t i = 0; to && i < w->groups; i++) {
    size_t from = i ? w->group[i - 1].end : 0;
    double weight = pow((double)w->group[i].frequency, power);
    sum += (double)(w->group[i].end - from) * weight;
    to[i] = sum;
    to[w->groups + i] = weight;
  }
  return to;
}

static const double *find_power(const struct weights *w, double power) {
  for (size_t i = 0; i < w->powers; i++) {
    if (w->power[i] == power) {
      return w->cumulated[i];
    }
  }
  return NULL;
}

static int weights_power(struct draw *d) {
  struct weights *w = d->weights;
  struct sampling *sampling = sampling_of(d->s->store);
  struct env *env = d->s->core->env;
  pthread_mutex_lock(&sampling->lock);
  d->cumulated = find_power(w, d->how->power);
  pthread_mutex_unlock(&sampling->lock);
  if (d->cumulated) {
    return EMB_OK;
  }
  double *made = sum_powers(env, w, d->how->power);
  if (!made) {
    return session_error(d->s, EMB_NOMEM, "out of memory");
  }
  d->cumulated = made;
  pthread_mutex_lock(&sampling->lock);
  if (w->powers < WEIGHTS_POWERS && !find_power(w, d->how->power)) {
    w->power[w->powers] = d->how->power;
    w->cumulated[w->powers++] = made;
    atomic_fetch_add_explicit(
        &sampling->bytes,
        w == sampling->weights ? 2 * w->groups * sizeof *made : 0,
        memory_order_relaxed);
  } else {
    d->own_cumulated = made;
  }
  emb_check(sampling_valid(sampling));
  pthread_mutex_unlock(&sampling->lock);
  return EMB_OK;
}

/* ---- draws --------------------------------------------------------------- */

static double weights_all(const struct draw *d) {
  return d->weights->groups ? d->cumulated[d->weights->groups - 1] : 0;
}

static double weights_of(const struct draw *d, size_t group) {
  return d->cumulated[d->weights->groups + group] / weights_all(d);
}

/* Returns the first group whose sum is above `sum`, or the last. */
static size_t weights_find(const struct draw *d, double sum) {
  size_t low = 0, n = d->weights->groups - 1;
  while (n) {
    size_t half = n / 2;
    if (d->cumulated[low + half] <= sum) {
      low += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return low;
}

static uint32_t weights_next(struct draw *d, uint32_t want) {
  const struct weights *w = d->weights;
  uint32_t n = want < 64 && d->s->chunk >= 64 ? 64 : want;
  for (uint32_t i = 0; i < n; i++) {
    size_t g = weights_find(d, sample_unit(&d->random) * weights_all(d));
    size_t from = g ? w->group[g - 1].end : 0;
    d->keys[i] =
        w->keys[from + sample_below(&d->random, w->group[g].end - from)];
    d->p[i] = weights_of(d, g);
  }
  return draw__keep(d, n, want);
}

int weights__list(struct draw *d) {
  const struct weights *w = d->weights;
  struct listed *list = &d->list;
  struct env *env = d->s->core->env;
  int rc = EMB_OK;
  list->keys = env->allocate(env, (w->count + 1) * sizeof *list->keys);
  list->p = env->allocate(env, (w->count + 1) * sizeof *list->p);
  if (!list->keys || !list->p) {
    return session_error(d->s, EMB_NOMEM, "out of memory");
  }
  for (size_t g = 0, i = 0; g < w->groups; g++) {
    for (double p = weights_of(d, g); i < w->group[g].end; i++) {
      list->keys[list->count] = w->keys[i];
      list->p[list->count] = p;
      list->count +=
          p > 0 && (!d->uses_set || !keyset_has(&d->set, w->keys[i]));
    }
  }
  size_t all = list->count;
  list->count = 0;
  for (size_t at = 0, n; !rc && at < all; at += n) {
    n = all - at < d->s->chunk ? all - at : d->s->chunk;
    rc = local_exists(d->s, list->keys + at, n, d->found);
    for (size_t i = at; !rc && i < at + n; i++) {
      list->keys[list->count] = list->keys[i];
      list->p[list->count] = list->p[i];
      list->count += d->found[i - at] != 0;
    }
    rc = rc ? rc : session_interrupted(d->s);
  }
  return rc;
}

int weights__begin(struct draw *d) {
  emb_session *s = d->s;
  emb_assert(schema_tracks(&s->core->schema));
  int rc = weights_hold(d);
  rc = rc ? rc : weights_power(d);
  if (!rc && weights_all(d) > 0) {
    d->next = weights_next;
    d->most = 64 * (double)d->n + 65536;
  }
  return rc;
}

void weights__end(struct draw *d) {
  struct sampling *sampling = sampling_of(d->s->store);
  struct env *env = d->s->core->env;
  env->release(env, d->own_cumulated);
  if (d->weights) {
    pthread_mutex_lock(&sampling->lock);
    weights_drop(env, d->weights);
    emb_check(sampling_valid(sampling));
    pthread_mutex_unlock(&sampling->lock);
  }
}
