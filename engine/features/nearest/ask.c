/* SPDX-License-Identifier: MIT
**
** ask.c -- see ask.h.
*/
#include "ask.h"

#include <math.h>
#include <string.h>

/* Multiplications between two polls: less than a millisecond. */
#define LOOK_WORK (1u << 20)

/* ---- checks -------------------------------------------------------------- */

int nearest_check_size(emb_session *s, size_t n, size_t k) {
  if (k < 1 || k > EMB_NEAREST_MAX) {
    return session_error(s, EMB_RANGE,
                         "the number of neighbours must be between 1 and %d, "
                         "got %zu",
                         EMB_NEAREST_MAX, k);
  }
  return n > EMB_NEAREST_ALL_MAX / k
             ? session_error(s, EMB_RANGE,
                             "%zu neighbours of each of %zu queries are more "
                             "than %u",
                             k, n, EMB_NEAREST_ALL_MAX)
             : EMB_OK;
}

static int check_keys(emb_session *s, const emb_nearest_how *how) {
  for (size_t i = 1; (how->flags & EMB_NEAREST_KEYS) && i < how->key_count;
       i++) {
    if (how->keys[i - 1] >= how->keys[i]) {
      return session_error(s, EMB_RANGE,
                           "key %lld at %zu is not above the one before it",
                           (long long)how->keys[i], i);
    }
  }
  return EMB_OK;
}

static int check_recall(emb_session *s, const emb_nearest_how *how) {
  if (!(how->recall >= 0 && how->recall <= 1)) {
    return session_error(s, EMB_RANGE,
                         "recall must be above 0 and at most 1, got %g",
                         how->recall);
  }
  return how->recall > 0 && how->probes
             ? session_error(s, EMB_RANGE,
                             "give probes or recall, not both: a fixed number "
                             "of lists promises no recall")
             : EMB_OK;
}

static int check_query(const struct ask *ask, size_t i) {
  size_t dim = ask->segment->dim;
  const float *query = ask->queries + i * dim;
  size_t bad = ask->s->core->vec->find_bad(query, dim);
  double distance;
  if (bad < dim) {
    return session_error(ask->s, EMB_NONFINITE,
                         "query %zu: element %zu is not finite", i, bad);
  }
  return ask->segment->metric != EMB_COSINE ||
                 emb_distance(EMB_COSINE, query, query, (uint32_t)dim,
                              &distance)
             ? EMB_OK
             : session_error(ask->s, EMB_RANGE,
                             "query %zu is a vector of zeros, which has no "
                             "cosine",
                             i);
}

/* Checks all arguments and copies the queries to aligned memory. */
int ask__begin(struct ask *ask, emb_session *s, const float *queries, size_t n,
               size_t k, const emb_nearest_how *how) {
  const struct schema *schema = &s->core->schema;
  memset(ask, 0, sizeof *ask);
  ask->s = s;
  ask->n = n;
  ask->k = k;
  ask->how = how ? *how : ask->how;
  ask->most = ask->how.flags & EMB_NEAREST_WITHIN ? ask->how.most : INFINITY;
  int rc = nearest_check_size(s, n, k);
  if (!rc && ask->how.segment >= schema->count) {
    rc = session_error(s, EMB_RANGE, "there is no vector %u; the table has %u",
                       ask->how.segment, schema->count);
  }
  rc = rc ? rc : check_recall(s, &ask->how);
  rc = rc ? rc : check_keys(s, &ask->how);
  if (rc) {
    return rc;
  }
  struct env *env = s->core->env;
  ask->segment = &schema->segments[ask->how.segment];
  ask->ops = distance_best();
  size_t floats = n * ask->segment->dim;
  ask->queries = env->allocate(env, floats * sizeof(float) + 64);
  if (!ask->queries) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  if (floats) {
    memcpy(ask->queries, queries, floats * sizeof(float));
  }
  for (size_t i = 0, work = 0; !rc && i < n; i++) {
    rc = check_query(ask, i);
    rc = rc ? rc : ask__look(ask, &work, ask->segment->dim);
  }
  return rc;
}

void ask__end(struct ask *ask) {
  struct env *env = ask->s->core->env;
  env->release(env, ask->queries);
}

/* ---- rows ---------------------------------------------------------------- */

static int list_has(const int64_t *keys, size_t n, int64_t key) {
  size_t low = 0;
  while (n) {
    size_t half = n / 2;
    if (keys[low + half] < key) {
      low += half + 1;
      n -= half + 1;
    } else if (keys[low + half] == key) {
      return 1;
    } else {
      n = half;
    }
  }
  return 0;
}

static uint64_t smaller_count(uint64_t a, uint64_t b) { return a < b ? a : b; }

uint64_t ask__named(const struct ask *ask) {
  const emb_nearest_how *how = &ask->how;
  const struct emb_filter *filter = how->filter;
  uint64_t n = UINT64_MAX;
  if (how->flags & EMB_NEAREST_RANGE) {
    n = (uint64_t)how->hi - (uint64_t)how->lo;
    n = how->lo > how->hi ? 0 : n + (n < UINT64_MAX);
  }
  if (how->flags & EMB_NEAREST_KEYS) {
    n = smaller_count(n, how->key_count);
  }
  if (filter && !filter->shape.without) {
    n = smaller_count(n, filter->shape.count);
  }
  return n;
}

int ask__admits(const struct ask *ask, int64_t key) {
  const emb_nearest_how *how = &ask->how;
  if (how->flags & EMB_NEAREST_RANGE && (key < how->lo || key > how->hi)) {
    return 0;
  }
  if (how->filter && !filter__admits(how->filter, key)) {
    return 0;
  }
  return !(how->flags & EMB_NEAREST_KEYS) ||
         list_has(how->keys, how->key_count, key);
}

int ask__best(const struct ask *ask, struct best *best) {
  const struct best_form form = {.n = ask->n,
                                 .k = ask->k,
                                 .most = ask->most,
                                 .dim = ask->vectors ? ask->s->core->layout.dim
                                                     : 0,
                                 .versions = ask->versions};
  return best__init(best, ask->s->core->env, &form);
}

int ask__distance(const struct ask *ask, size_t query, const float *vector,
                  double *distance) {
  uint32_t dim = ask->segment->dim;
  return emb_distance((int)ask->segment->metric, ask->queries + query * dim,
                      vector, dim, distance);
}

uint32_t ask__take(const struct ask *ask, struct best *best, size_t query,
                   int64_t key, double distance) {
  const emb_nearest_how *how = &ask->how;
  emb_assert(query < ask->n);
  if (distance <= best_limit(best, query) &&
      !(how->flags & EMB_NEAREST_WITHIN && distance < how->least) &&
      !(how->apart && how->apart[query] == key)) {
    return best__offer(best, query, key, distance);
  }
  return BEST_NO_SLOT;
}

void ask__offer(const struct ask *ask, struct best *best, size_t query,
                const struct ask_row *row) {
  double distance;
  if (ask__distance(ask, query, row->row + ask->segment->first, &distance)) {
    uint32_t slot = ask__take(ask, best, query, row->key, distance);
    best__keep(best, slot, row->row, row->version);
  }
}

int ask__offer_all(const struct ask *ask, struct best *best,
                   const struct ask_row *row, size_t *work) {
  int rc = EMB_OK;
  for (size_t i = 0; !rc && i < ask->n; i++) {
    ask__offer(ask, best, i, row);
    rc = ask__look(ask, work, ask->segment->dim);
  }
  return rc;
}

int ask__look(const struct ask *ask, size_t *work, size_t more) {
  *work += more;
  if (*work < LOOK_WORK) {
    return EMB_OK;
  }
  *work = 0;
  return session_poll(ask->s);
}
