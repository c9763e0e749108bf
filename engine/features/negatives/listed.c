/* SPDX-License-Identifier: MIT
**
** listed.c -- draws from a list of the keys that may come, if these are so few
** that drawing from all keys and rejecting would take too long.
**
** The keys are listed in ascending order, so the sample depends only on the
** table's keys and the seed.  Costs a pass and 8 to 24 bytes for each key of
** the table.
**
** UNIFORM   With replacement, random places of the list; without, its first
**           part is shuffled (Fisher and Yates).
** WEIGHTED  With replacement, by the sums of p; the number of draws is the mean
**           number that rejection would have taken.  Without: imagine draws
**           that come at random times, one per unit of time.  Each key then
**           first comes at a time that is exponential, with its p as the rate,
**           and independent of the others; the first n keys are a sample
**           without replacement (Efraimidis and Spirakis 2006), and the last
**           time is the number of draws.
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "weights.h"

static int listed_by_key(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

/* Lists all keys of the table that are not excluded, in ascending order. */
static int list_keys(struct draw *d) {
  struct listed *list = &d->list;
  struct env *env = d->s->core->env;
  size_t room = 0, n = 1;
  emb_scan *scan;
  int rc = local_scan_open(
      d->s, d->how->distribution == EMB_UNIFORM ? INT64_MIN : 0,
      d->how->distribution == EMB_UNIFORM ? INT64_MAX : d->range - 1,
      EMB_SCAN_KEYS, &scan);
  while (!rc && n) {
    if (list->count + 256 > room) {
      room = room ? room * 2 : 4096;
      void *larger = env->resize(env, list->keys, room * sizeof *list->keys);
      if (!larger) {
        rc = session_error(d->s, EMB_NOMEM, "out of memory");
        break;
      }
      list->keys = larger;
    }
    rc = local_scan_next_rows(
        scan, 256, &(emb_rows){.keys = list->keys + list->count}, &n);
    size_t end = list->count + n;
    for (size_t i = list->count; !rc && i < end; i++) {
      list->keys[list->count] = list->keys[i];
      list->count += !d->uses_set || !keyset_has(&d->set, list->keys[i]);
    }
  }
  if (scan) {
    local_scan_close(scan);
  }
  return rc ? rc
            : session_sort(d->s, list->keys, list->count, sizeof *list->keys,
                           listed_by_key);
}

static int list_weights(struct draw *d) {
  struct listed *list = &d->list;
  struct env *env = d->s->core->env;
  size_t bytes = (list->count + 1) * sizeof(double);
  list->p = list->p ? list->p : env->allocate(env, bytes);
  list->when = env->allocate(env, bytes);
  if (!list->p || !list->when) {
    return session_error(d->s, EMB_NOMEM, "out of memory");
  }
  for (size_t i = 0; i < list->count && d->how->distribution == EMB_LOG_UNIFORM;
       i++) {
    list->p[i] = law__of(d, list->keys[i]);
  }
  return EMB_OK;
}

/* ---- with replacement ---------------------------------------------------- */

static size_t listed_find(const struct listed *list, double sum) {
  size_t low = 0, n = list->count - 1;
  while (n) { /* the first key whose sum is above `sum`, or the last */
    size_t half = n / 2;
    if (list->when[low + half] <= sum) {
      low += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return low;
}

static uint32_t listed_again(struct draw *d, uint32_t want) {
  const struct listed *list = &d->list;
  double all = list->when ? list->when[list->count - 1] : 1;
  for (uint32_t i = 0; i < want; i++) {
    size_t at = list->when ? listed_find(list, sample_unit(&d->random) * all)
                           : sample_below(&d->random, list->count);
    d->keys[i] = list->keys[at];
    d->p[i] = list->p ? list->p[at] : 0;
  }
  double draws = d->draws;
  uint32_t n = draw__keep(d, want, want);
  d->draws = draws + n / all;
  return n;
}

static void sum_up(struct listed *list) {
  double sum = 0;
  for (size_t i = 0; i < list->count; i++) {
    list->when[i] = sum += list->p[i];
  }
}

/* ---- without replacement ------------------------------------------------- */

static uint32_t listed_once(struct draw *d, uint32_t want) {
  struct listed *list = &d->list;
  size_t left = list->count - list->at;
  uint32_t n = left < want ? (uint32_t)left : want;
  for (uint32_t i = 0; i < n; i++) {
    d->keys[i] = list->keys[list->at + i];
    d->p[i] = list->p ? list->p[list->at + i] : 0;
  }
  list->at += n;
  uint32_t kept = draw__keep(d, n, n);
  if (list->when && n) {
    d->draws = list->when[list->at - 1];
  }
  return kept;
}

static void shuffle_keys(struct draw *d) {
  struct listed *list = &d->list;
  size_t n = list->count < d->n ? list->count : d->n;
  for (size_t i = 0; i < n; i++) {
    size_t other = i + sample_below(&d->random, list->count - i);
    int64_t key = list->keys[other];
    list->keys[other] = list->keys[i];
    list->keys[i] = key;
  }
}

struct arrival {
  double when, p;
  int64_t key;
};

static int arrives_before(const void *a, const void *b) {
  const struct arrival *x = a, *y = b;
  return x->when < y->when   ? -1
         : x->when > y->when ? 1
                             : listed_by_key(&x->key, &y->key);
}

/* Sorts the keys by the time of their first draw. */
static int order_by_arrival(struct draw *d) {
  struct listed *list = &d->list;
  struct env *env = d->s->core->env;
  size_t n = 0;
  struct arrival *all = env->allocate(env, (list->count + 1) * sizeof *all);
  if (!all) {
    return session_error(d->s, EMB_NOMEM, "out of memory");
  }
  for (size_t i = 0; i < list->count; i++) {
    double u = sample_unit(&d->random), p = list->p[i];
    if (p > 0) {
      all[n++] = (struct arrival){-log1p(-u) / p, p, list->keys[i]};
    }
  }
  int rc = session_sort(d->s, all, n, sizeof *all, arrives_before);
  for (size_t i = 0; !rc && i < n; i++) {
    list->keys[i] = all[i].key;
    list->p[i] = all[i].p;
    list->when[i] = all[i].when;
  }
  list->count = n;
  env->release(env, all);
  return rc;
}

/* ---- both ---------------------------------------------------------------- */

int listed__begin(struct draw *d) {
  struct listed *list = &d->list;
  int is_uniform = d->how->distribution == EMB_UNIFORM;
  int rc = d->weights ? weights__list(d) : list_keys(d);
  rc = rc || is_uniform ? rc : list_weights(d);
  d->most = INFINITY;
  d->draws = 0;
  d->next = d->replaces ? listed_again : listed_once;
  if (rc) {
    return rc;
  }
  if (is_uniform) {
    d->rows = list->count;
  }
  if (!d->replaces && !is_uniform) {
    rc = order_by_arrival(d);
  } else if (!d->replaces) {
    shuffle_keys(d);
  } else if (!is_uniform) {
    sum_up(list);
  }
  /* Excluded keys are not in the list. */
  d->uses_set = 0;
  if (list->count == 0 ||
      (d->replaces && list->when && !(list->when[list->count - 1] > 0))) {
    d->next = NULL;
  }
  emb_check(rc || listed_valid(d));
  return rc;
}

void listed__end(struct draw *d) {
  struct env *env = d->s->core->env;
  env->release(env, d->list.keys);
  env->release(env, d->list.p);
  env->release(env, d->list.when);
  memset(&d->list, 0, sizeof d->list);
}
