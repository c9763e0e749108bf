/* SPDX-License-Identifier: MIT
**
** nearest.c -- emb_nearest: chooses how to search, and delivers the answer.
*/
#include "nearest.h"

#include "engine/features/snapshot/snap.h"

int emb_metric(const emb_store *store, uint32_t segment) {
  const struct schema *schema = &store->core.schema;
  return segment < schema->count ? (int)schema->segments[segment].metric
                                 : EMB_L2;
}

int emb_has_index(const emb_store *store, uint32_t segment) {
  const struct schema *schema = &store->core.schema;
  return segment < schema->count && schema->segments[segment].indexed;
}

/* ---- a snapshot ---------------------------------------------------------- */

enum { SNAPSHOT_ROWS = 256 };

static int snapshot_rows(const struct ask *ask, emb_snap *snap,
                         struct best *best) {
  struct env *env = ask->s->core->env;
  size_t dim = ask->s->core->layout.dim, n = 1, work = 0;
  int64_t keys[SNAPSHOT_ROWS];
  uint64_t versions[SNAPSHOT_ROWS];
  float *vectors = env->allocate(env, SNAPSHOT_ROWS * dim * sizeof *vectors);
  int rc = vectors ? EMB_OK : session_error(ask->s, EMB_NOMEM, "out of memory");
  local_snapshot_rewind(snap);
  while (!rc && n) {
    rc = local_snapshot_scan(snap, SNAPSHOT_ROWS, keys, vectors, versions, &n);
    for (size_t i = 0; !rc && i < n; i++) {
      if (ask__admits(ask, keys[i])) {
        const struct ask_row row = {keys[i], vectors + i * dim, versions[i]};
        rc = ask__offer_all(ask, best, &row, &work);
      }
    }
    rc = rc ? rc : session_interrupted(ask->s);
  }
  env->release(env, vectors);
  return rc;
}

/* ---- the calls ----------------------------------------------------------- */

/* By the index if possible, else all rows. */
static int table_rows(const struct ask *ask, struct best *best) {
  int done = 0;
  int rc = indexed__table(ask, best, &done);
  if (!rc && !done) {
    best__empty(best, ask->most);
    rc = exact__table(ask, best);
  }
  return rc;
}

/* Answers a checked query; snap: among the rows of this snapshot, or NULL. */
static int answer_query(struct ask *ask, emb_snap *snap,
                        const emb_neighbours *to) {
  emb_session *s = ask->s;
  struct best best;
  int rc = EMB_OK;
  ask->vectors = to->vectors != NULL;
  ask->versions = to->versions != NULL;
  if (ask__best(ask, &best)) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  if (ask->n) {
    rc = snap ? snapshot_rows(ask, snap, &best) : table_rows(ask, &best);
  }
  rc = rc ? rc : best__deliver(&best, to, s);
  best__free(&best);
  return rc;
}

int local_nearest(emb_session *s, const float *queries, size_t n, size_t k,
                  const emb_nearest_how *how, const emb_neighbours *to) {
  struct ask ask;
  int rc = session_begin(s);
  if (rc) {
    return rc;
  }
  rc = ask__begin(&ask, s, queries, n, k, how);
  rc = rc ? rc : answer_query(&ask, NULL, to);
  ask__end(&ask);
  return rc;
}

int local_snapshot_nearest(emb_snap *snap, const float *queries, size_t n,
                           size_t k, const emb_nearest_how *how,
                           const emb_neighbours *to) {
  struct ask ask;
  int rc = session_begin(snap->s);
  if (rc) {
    return rc;
  }
  rc = ask__begin(&ask, snap->s, queries, n, k, how);
  rc = rc ? rc : answer_query(&ask, snap, to);
  ask__end(&ask);
  return rc;
}

int local_nearest_plan(emb_session *s, uint32_t segment, size_t k,
                       double recall, uint32_t probes, emb_search_plan *plan) {
  const emb_nearest_how how = {
      .segment = segment, .probes = probes, .recall = recall};
  struct ask ask;
  float none = 0;
  int rc = session_begin(s);
  if (rc) {
    return rc;
  }
  rc = ask__begin(&ask, s, &none, 0, k, &how);
  if (!rc) {
    indexed__plan(&ask, plan);
  }
  ask__end(&ask);
  return rc;
}
