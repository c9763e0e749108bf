/* SPDX-License-Identifier: MIT
**
** gradients.c -- emb_apply_gradients on a store that averages: immediately, or
** kept for the average.
**
** AT ONCE   Applied immediately although the table averages, after the pending
**           gradients of the keys: gradients with the vectors they were
**           computed from (how->read), since each is compensated by its own
**           vector; and gradients of a session that holds leases, since a
**           lease is given back only when the new vector can be read.
** KEPT      The checks of emb_apply_gradients are made now.  Gradients of a
**           repeated key are first added up to one.  Nothing is kept for a key
**           that is absent, in a table where updates do not insert rows.
**           `found` says whether the key is present now; `versions` are 0,
**           since the row has no version with this gradient yet.
** ORDER     of a session's own calls: each later call that needs the row finds
**           it changed (B1).
*/
#include <string.h>

#include "engine/table/session/txn_map.h"
#include "engine/table/jobs/begin.h"
#include "engine/table/owner/own.h"
#include "engine/table/rows/rmw.h"
#include "engine/table/rows/rows.h"
#include "bank.h"

/* Maximum number of a shard's rows kept together. */
#define TOGETHER BANK_PIECE

struct keeping {
  emb_session *s;
  struct bank *bank;
  const struct row_change *change;
  const int64_t *keys;
  const float *gradients;
  const uint32_t *times; /* as in rmw_ask */
  const emb_update *how;
  const emb_rows *to;
  struct groups groups;
  /* For a chunk: the rows to keep, sorted by shard, and where each shard's rows
  ** begin. */
  uint32_t *order;
  uint32_t starts[BANK_SHARDS + 1];
  int64_t ripe[TOGETHER]; /* keys that have `max` gradients */
  uint32_t ripe_count;
  uint64_t kept;
};

static int key_is_locked(emb_session *s, int64_t key) {
  return session_error(s, EMB_LOCKED,
                       "key %lld was changed by this connection's open "
                       "transaction",
                       (long long)key);
}

/* Waits until no transaction holds the key; *word: its word after that. */
static int wait_until_free(emb_session *s, int64_t key, uint64_t *word) {
  uint64_t waited = 0;
  int rc = EMB_OK;
  while (!rc && (*word & WORD_INTENT)) {
    rc = s->txn ? key_is_locked(s, key) : session_wait_key(s, key, &waited);
    epoch_enter(&s->core->epoch, s->slot);
    session_find(s, key, hash_key(key), word);
    epoch_leave(s->slot);
  }
  return rc;
}

/* Makes room for a gradient that was not kept. */
static int make_place(struct keeping *k, int why, int64_t key) {
  if (why == KEEP_FULL) {
    return bank__settle(k->s, &(struct bank_want){&key, 1, .waits = 1}, NULL);
  }
  struct bank_shard *shard = bank__shard(k->bank, hash_key(key));
  uint32_t keys = atomic_load_explicit(&shard->keys, memory_order_relaxed);
  count_add(&k->bank->overflows, 1);
  return bank__settle(
      k->s,
      &(struct bank_want){.only = shard, .most = keys / 4 + 1, .waits = 1},
      NULL);
}

static struct bank_gradient gradient_at(const struct keeping *k, size_t row) {
  const struct groups *g = &k->groups;
  size_t dim = k->s->core->layout.dim;
  int summed = g->any && g->sum_at[row];
  return (struct bank_gradient){
      .key = k->keys[row],
      .row = summed ? g->sums + (g->sum_at[row] - 1) * dim
                    : k->gradients + row * dim,
      .times = k->times ? k->times[row] : group_times(g, row),
      .time = k->s->clock.time,
      .lr = k->how->lr,
      .step = k->how->step};
}

/* Keeps some rows of one shard. */
static int keep_together(struct keeping *k, struct bank_shard *shard,
                         const struct bank_gradient *g, uint32_t n) {
  int rc = EMB_OK;
  for (uint32_t at = 0; !rc && at < n;) {
    at += bank__keep(k->bank, shard, g + at, n - at, &rc);
    if (rc == KEEP_RIPE) {
      k->ripe[k->ripe_count++] = g[at++].key;
      rc = EMB_OK;
    } else if (rc == KEEP_FULL || rc == KEEP_ROOM) {
      rc = make_place(k, rc, g[at].key);
    } else if (rc) {
      rc = session_error(k->s, rc, "out of memory");
    }
  }
  return rc;
}

static void tell_row(struct keeping *k, size_t row, int found) {
  if (k->to && k->to->found) {
    k->to->found[row] = (uint8_t)found;
  }
  if (k->to && k->to->versions) {
    k->to->versions[row] = 0;
  }
}

/* Applies complete averages.  A key that cannot be applied now stays, and its
** next gradient tries again: this call does not fail. */
static void apply_ripe(struct keeping *k) {
  const struct bank_want want = {.keys = k->ripe, .n = k->ripe_count};
  if (k->ripe_count && bank__settle(k->s, &want, NULL)) {
    err_clear(&k->s->err);
  }
}

static int keep_shard(struct keeping *k, size_t at, uint32_t number) {
  uint32_t end = k->starts[number + 1];
  struct bank_gradient together[TOGETHER];
  int rc = EMB_OK;
  for (uint32_t from = k->starts[number]; !rc && from < end;) {
    uint32_t n = end - from < TOGETHER ? end - from : TOGETHER;
    for (uint32_t i = 0; i < n; i++) {
      together[i] = gradient_at(k, at + k->order[from + i]);
    }
    rc = keep_together(k, &k->bank->shards[number], together, n);
    from += n;
    if (!rc) { /* otherwise keep the error text */
      k->kept += n;
      apply_ripe(k);
    }
    k->ripe_count = 0;
  }
  return rc;
}

/* Sorts the rows to keep by shard: a counting sort.  Their hashes are in the
** session. */
static void sort_rows(struct keeping *k, const uint32_t *rows, uint32_t n) {
  const uint64_t *hashes = k->s->hashes;
  uint32_t next[BANK_SHARDS];
  memset(k->starts, 0, sizeof k->starts);
  for (uint32_t i = 0; i < n; i++) {
    k->starts[bank__shard_of(hashes[rows[i]]) + 1]++;
  }
  for (int i = 0; i < BANK_SHARDS; i++) {
    next[i] = k->starts[i];
    k->starts[i + 1] += k->starts[i];
  }
  for (uint32_t i = 0; i < n; i++) {
    k->order[next[bank__shard_of(hashes[rows[i]])]++] = rows[i];
  }
}

/* Looks up rows [at, at + m), waits for those held by a transaction, and sorts
** the rows to keep. */
static int find_rows(struct keeping *k, size_t at, uint32_t m) {
  emb_session *s = k->s;
  uint32_t n = 0;
  int rc = EMB_OK;
  epoch_enter(&s->core->epoch, s->slot);
  rows_find(s, k->keys + at, 0, m);
  epoch_leave(s->slot);
  for (uint32_t i = 0; !rc && i < m; i++) {
    if (!group_stands(&k->groups, at + i)) {
      continue;
    }
    rc = wait_until_free(s, k->keys[at + i], &s->words[i]);
    int found = word_address(s->words[i]) != 0;
    tell_row(k, at + i, found);
    if (found || value_adds(s, k->change)) {
      s->rows[n++] = i;
    }
  }
  sort_rows(k, s->rows, n);
  return rc;
}

static int keep_chunk(struct keeping *k, size_t at, uint32_t m) {
  int rc = find_rows(k, at, m);
  /* Sessions start at different shards, so that they do not follow each other
  ** from lock to lock. */
  uint32_t first = (uint32_t)(hash_mix((uintptr_t)k->s + at) % BANK_SHARDS);
  for (uint32_t i = 0; !rc && i < BANK_SHARDS; i++) {
    rc = keep_shard(k, at, (first + i) % BANK_SHARDS);
  }
  return rc;
}

static int keep_all(struct keeping *k, size_t n) {
  uint32_t chunk = n < k->s->chunk ? (uint32_t)n : k->s->chunk;
  struct env *env = k->s->core->env;
  int rc = EMB_OK;
  k->order = env->resize(env, NULL, (chunk + 1) * sizeof *k->order);
  if (!k->order) {
    return session_error(k->s, EMB_NOMEM, "out of memory");
  }
  for (size_t at = 0; !rc && at < n; at += chunk) {
    rc = keep_chunk(k, at, (uint32_t)(n - at < chunk ? n - at : chunk));
    rc = rc ? rc : session_interrupted(k->s);
  }
  env->release(env, k->order);
  for (size_t i = 0; !rc && k->groups.any && i < n; i++) {
    uint32_t stands = k->groups.stands[i];
    tell_row(k, i, k->to && k->to->found ? k->to->found[stands] : 0);
  }
  return rc;
}

/* A flush uses s->groups for its own batches, so this call's groups are moved
** out of the session first. */
static int keep_grouped(struct keeping *k, size_t n) {
  emb_session *s = k->s;
  struct env *env = s->core->env;
  const struct group_batch batch = {k->keys, n, k->gradients,
                                    s->core->layout.dim};
  if (!group_rows(&s->groups, env, &batch, GROUP_SUM)) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  k->groups = s->groups;
  memset(&s->groups, 0, sizeof s->groups);
  int rc = keep_all(k, n);
  group_free(&s->groups, env);
  s->groups = k->groups;
  group_end_call(&s->groups, env);
  return rc;
}

int bank_at_once(const emb_session *s, const emb_update *how) {
  return (how && (how->read || how->parts)) ||
         (core_bounded(s->core) && s->leases.held);
}

static int keep_gradients(emb_session *s, const struct rmw_ask *ask) {
  static const emb_update plain = {0};
  struct row_change change;
  size_t n = ask->n;
  int rc = begin_write(s);
  rc = rc ? rc : check_finite(s, ask->keys, n, ask->gradients, "gradient");
  rc = rc ? rc : own_claim(s);
  rc = rc ? rc : rmw_step(s, ask->gradients, ask->how, &change);
  if (rc) {
    return rc;
  }
  struct keeping k = {.s = s,
                      .bank = bank_of(s->store),
                      .change = &change,
                      .keys = ask->keys,
                      .gradients = ask->gradients,
                      .times = ask->times,
                      .how = ask->how ? ask->how : &plain,
                      .to = ask->to};
  count_add(&s->core->counters.rmw_keys, n);
  rc = keep_grouped(&k, n);
  count_add(&k.bank->kept, k.kept);
  return rc;
}

int bank_gradients(emb_session *s, const struct rmw_ask *ask, int at_once) {
  if (!s->store->average) {
    return rmw_gradients(s, ask);
  }
  if (!at_once) {
    return keep_gradients(s, ask);
  }
  int rc = bank__rows(s, ask->keys, ask->n);
  return rc ? rc : rmw_gradients(s, ask);
}

int bank__apply_gradients(emb_session *s, const struct rmw_ask *ask) {
  return bank_gradients(s, ask, bank_at_once(s, ask->how));
}
