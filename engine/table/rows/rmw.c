/* SPDX-License-Identifier: MIT
**
** rmw.c -- the calls that change rows relative to their old values: sums and
** gradients.
*/
#include "change.h"
#include "engine/table/jobs/begin.h"
#include "engine/table/owner/own.h"
#include "engine/table/bound/bound.h"
#include "rmw.h"
#include "rows.h"
#include "engine/table/session/txn_map.h"

/* The checks common to all changes; *call: the call's number, 0 if Gets are not
** counted. */
static int rmw_begin(emb_session *s, const int64_t *keys, size_t n,
                     const float *rows, int gradients, uint32_t *call) {
  int rc = begin_write(s);
  rc = rc          ? rc
       : gradients ? check_finite(s, keys, n, rows, "gradient")
                   : check_rows(s, keys, n, rows, "row");
  rc = rc ? rc : own_claim(s);
  *call = !rc && core_bounded(s->core) ? lease_next_call(&s->leases) : 0;
  return rc;
}

int local_rmw(emb_session *s, const int64_t *keys, size_t n,
              const float *deltas, uint8_t *found, uint64_t *versions) {
  struct row_change change = {.kind = CHANGE_ADD, .rows = deltas};
  struct write_batch batch = {
      .keys = keys, .n = n, .found = found, .versions = versions, .wait = 1};
  int rc = rmw_begin(s, keys, n, deltas, 0, &batch.call);
  if (rc) {
    return rc;
  }
  count_add(&s->core->counters.rmw_keys, n);
  return change__rows(s, &batch, &change);
}

/* Does a segment of these parts have an optimizer? */
static int parts_take_steps(const struct schema *schema, uint32_t parts) {
  int optimized = 0;
  for (uint32_t i = 0; i < schema->count; i++) {
    optimized |= schema_has_part(parts, i) && schema->segments[i].optimized;
  }
  return optimized;
}

int rmw_step(emb_session *s, const float *gradients, const emb_update *how,
             struct row_change *change) {
  static const emb_update plain = {0};
  how = how ? how : &plain;
  if (!parts_take_steps(&s->core->schema, how->parts)) {
    return session_error(s, EMB_UNFIT, "%s%s was created without optimizer=",
                         how->parts ? "the vector to step in " : "",
                         s->core->dir);
  }
  /* A value too small for float32 is already 0 here, so callers that narrow a
  ** double must check it first. */
  double lr = (double)how->lr;
  if (lr != 0 && !(lr >= EMB_LR_MIN && lr <= EMB_LR_MAX)) {
    return session_error(s, EMB_RANGE,
                         "the learning rate must be between %g and %.0f, or 0 "
                         "for the optimizers' own, got %.9g",
                         EMB_LR_MIN, EMB_LR_MAX, lr);
  }
  *change = (struct row_change){
      .kind = CHANGE_STEP,
      .parts = how->parts,
      .rows = gradients,
      .read = how->read,
      .how = {.lr = how->lr > 0 ? how->lr : -1, .step = how->step}};
  return EMB_OK;
}

int rmw_gradients(emb_session *s, const struct rmw_ask *ask) {
  struct row_change change;
  struct write_batch batch = {.keys = ask->keys,
                              .n = ask->n,
                              .found = ask->to ? ask->to->found : NULL,
                              .versions = ask->to ? ask->to->versions : NULL,
                              .wait = 1};
  int rc = rmw_begin(s, ask->keys, ask->n, ask->gradients, 1, &batch.call);
  rc = rc ? rc : rmw_step(s, ask->gradients, ask->how, &change);
  if (rc) {
    return rc;
  }
  change.times = ask->times;
  count_add(&s->core->counters.rmw_keys, ask->n);
  return change__rows(s, &batch, &change);
}

int local_apply_gradients(emb_session *s, const int64_t *keys, size_t n,
                          const float *gradients, const emb_update *how,
                          const emb_rows *to) {
  const struct rmw_ask ask = {
      .keys = keys, .n = n, .gradients = gradients, .how = how, .to = to};
  return s->store->average ? s->store->average(s, &ask)
                           : rmw_gradients(s, &ask);
}

int rmw_steps(emb_session *s, const struct rmw_batch *steps) {
  struct row_change change;
  struct write_batch batch = {.keys = steps->keys,
                              .n = steps->n,
                              .versions = steps->versions,
                              .wait = 1};
  int rc = rmw_step(s, steps->rows, &steps->how, &change);
  if (rc) {
    return rc;
  }
  change.times = steps->times;
  return change__rows(s, &batch, &change);
}

/* ---- rows that appear when they are looked up ---------------------------- */

/* Collects the keys of a chunk that are absent and not held by a transaction.
** Inside an epoch. */
static size_t find_absent(emb_session *s, const int64_t *keys, uint32_t n,
                          int64_t *absent) {
  size_t found = 0;
  rows_find(s, keys, 0, n);
  for (uint32_t i = 0; i < n; i++) {
    if (!(s->words[i] & WORD_INTENT) && !word_address(s->words[i])) {
      absent[found++] = keys[i];
    }
  }
  return found;
}

static int create_chunk(emb_session *s, const int64_t *keys, uint32_t n,
                        int64_t *absent) {
  static const struct row_change change = {.kind = CHANGE_CREATE};
  epoch_enter(&s->core->epoch, s->slot);
  struct write_batch batch = {
      .keys = absent, .n = find_absent(s, keys, n, absent), .wait = 1};
  epoch_leave(s->slot);
  if (!batch.n) {
    return EMB_OK;
  }
  int may, rc = begin_write(s);
  rc = rc ? rc : own_may_write(s, &may);
  if (rc || !may) {
    return rc; /* the keys stay absent */
  }
  rc = own_claim(s);
  return rc ? rc : change__rows(s, &batch, &change);
}

int rmw_create(emb_session *s, const int64_t *keys, size_t n) {
  struct env *env = s->core->env;
  int rc = EMB_OK;
  int64_t *absent = env->resize(env, NULL, s->chunk * sizeof *absent);
  if (!absent) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  for (size_t at = 0; !rc && at < n; at += s->chunk) {
    size_t m = n - at < s->chunk ? n - at : s->chunk;
    rc = create_chunk(s, keys + at, (uint32_t)m, absent);
    rc = rc || at + m == n ? rc : session_poll(s);
  }
  env->release(env, absent);
  return rc;
}
