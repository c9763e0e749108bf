/* SPDX-License-Identifier: MIT
**
** txn.c -- the writes of a transaction; txn_map.h describes one.
**
** Rows are written one by one (txn_row.c).  A call is all or nothing: it sets a
** savepoint of its own, unless it writes a single row, which checks everything
** before changing anything.
*/
#include <string.h>

#include "engine/table/jobs/begin.h"
#include "engine/table/jobs/cold.h"
#include "engine/table/owner/own.h"
#include "engine/table/bound/bound.h"
#include "engine/table/rows/rmw.h"
#include "engine/table/rows/rows.h"
#include "txn_row.h"

int local_in_transaction(const emb_session *s) { return s->txn != NULL; }

int local_begin(emb_session *s) {
  int rc = begin_write(s);
  if (!rc && s->txn) {
    rc = session_error(s, EMB_MISUSE, "a transaction is open already");
  }
  rc = rc ? rc : own_claim(s);
  if (!rc && !s->core->temporary &&
      atomic_load(&s->core->txn_last) >= PAGE_TXN_MAX) {
    rc = session_error(s, EMB_FULL,
                       "%s has used up its 2^40 transaction numbers: export a "
                       "snapshot and restore it into a new table",
                       s->core->dir);
  }
  if (!rc) {
    s->store->forget(s);
    rc =
        session_enter_exclusive(s, &s->store->txn.owner,
                                "another connection has a transaction open on");
  }
  if (!rc && atomic_load(&s->store->dropped)) { /* since own_claim */
    session_leave_exclusive(s, &s->store->txn.owner);
    rc = own_dropped(s);
  }
  if (rc) {
    return rc;
  }
  emb_store *store = s->store;
  struct env *env = s->core->env;
  if (store->txn.abort_owed) {
    rc = txn__write_abort(s, store->txn.abort_owed);
    store->txn.abort_owed = rc ? store->txn.abort_owed : 0;
  }
  struct txn *txn = rc ? NULL : env->allocate(env, sizeof *txn);
  if (!txn) {
    session_leave_exclusive(s, &store->txn.owner);
    return rc ? rc : session_error(s, EMB_NOMEM, "out of memory");
  }
  txn->map = &store->open_txn.map;
  txn->era = 1;
  spill_init(&txn->undo, env, s->core->dir, sizeof(struct undo));
  s->txn = txn;
  return EMB_OK;
}

/* Takes the transaction's number and start at its first write.  In a temporary
** store, which is never recovered, all transactions have number 1 and share
** pages. */
static void take_number(emb_session *s) {
  struct core *core = s->core;
  struct txn *txn = s->txn;
  if (!txn->number) {
    txn->number =
        core->temporary ? 1 : atomic_fetch_add(&core->txn_last, 1) + 1;
    pthread_mutex_lock(&s->store->open_txn.lock);
    s->store->open_txn.number = txn->number;
    s->store->open_txn.start = log_position(&core->log, LOG_TXN);
    s->store->open_txn.version = atomic_load(&core->version);
    atomic_store(&core->txn_first_page,
                 layout_page(&core->layout, s->store->open_txn.start));
    pthread_mutex_unlock(&s->store->open_txn.lock);
  }
}

/* Does the session see the key?  Inside an epoch. */
static int session_sees(emb_session *s, int64_t key, uint64_t hash) {
  uint64_t word;
  session_find(s, key, hash, &word);
  return word && txn_word(s, key, hash, word) != 0;
}

static int txn_begin_call(emb_session *s) {
  int rc = txn__need(s);
  return rc ? rc : core_failed(s->core, &s->err);
}

/* Ends a call of several rows: keeps its changes, or undoes them. */
static int end_call(emb_session *s, size_t depth, int saved, int rc) {
  if (!saved) {
    return rc;
  }
  if (rc && !EMB_SEED(SEED_FAILED_CALL_NOT_UNDONE)) {
    emb_err first = s->err;
    if (txn__undo_to(s, depth) == EMB_OK) {
      s->err = first;
    }
  }
  s->txn->savepoint_count = depth;
  return rc;
}

/* Ends a call that has put n rows. */
static void count_put(emb_session *s, size_t n) {
  core_wrote(s->core);
  session_count(s, TALLY_PUT, n);
}

/* Prefetches the buckets of a key's row, so that they arrive while the vector
** is checked. */
static void txn_prefetch(emb_session *s, int64_t key) {
  uint64_t hash = hash_key(key);
  index_prefetch(&s->core->index, hash);
  index_prefetch(s->txn->map, hash);
}

/* Reads all old values needed by rows [at, at + m) from disk together. */
static int preload_rows(emb_session *s, const int64_t *keys, uint32_t m,
                        struct loaded *loaded) {
  struct core *core = s->core;
  uint32_t cold = 0, moved = 0;
  memset(loaded->at, 0, m * sizeof *loaded->at);
  epoch_enter(&core->epoch, s->slot);
  rows_find(s, keys, 0, m);
  for (uint32_t i = 0; i < m; i++) {
    uint64_t word = s->words[i] & ~WORD_LATCH;
    word = word ? txn_word(s, keys[i], s->hashes[i], word) : 0;
    if (word && !key_rec(core, word)) {
      s->cold[cold++] = (struct cold){word_address(word), i};
    }
  }
  epoch_leave(s->slot);
  return cold ? loaded_read(s, loaded, keys, cold, &moved) : EMB_OK;
}

struct txn_batch {
  const struct row_change *change;
  const int64_t *keys;
  size_t n;
  struct loaded *loaded; /* NULL if no old value is needed */
  uint8_t *found;        /* or NULL */
  uint32_t call;         /* that returns leases, 0: none */
};

/* One row of a batch. */
static int change_one(emb_session *s, const struct txn_batch *b, size_t i) {
  const struct groups *g = &s->groups;
  const struct row_change *change = b->change;
  struct loaded *loaded = b->loaded;
  size_t dim = s->core->layout.dim;
  struct txn_row row = {.key = b->keys[i],
                        .which = PUT_ANY,
                        .change = change,
                        .says = change->rows + i * dim,
                        .read = change->read ? change->read + i * dim : NULL,
                        .times = loaded ? group_times(g, i) : 1,
                        .at = (uint32_t)(i % s->chunk),
                        .loaded = loaded};
  if (loaded && g->any && change->kind == CHANGE_STEP && g->sum_at[i]) {
    row.says = g->sums + (g->sum_at[i] - 1) * dim;
  }
  int rc = txn__put_row(s, &row);
  if (!rc && b->call && row.done) {
    bound_put_later(s, row.key, hash_key(row.key), b->call);
  }
  if (!rc && b->found) {
    b->found[i] = (uint8_t)row.found;
  }
  if (!rc && (i & 1023) == 1023) {
    rc = session_interrupted(s);
  }
  return rc;
}

/* All rows of a batch. */
static int change_all(emb_session *s, const struct txn_batch *b) {
  const int64_t *keys = b->keys;
  size_t n = b->n;
  struct loaded *loaded = b->loaded;
  int rc = EMB_OK;
  for (size_t i = 0; !rc && i < n; i++) {
    if (i + 1 < n) {
      txn_prefetch(s, keys[i + 1]);
    }
    if (loaded && i % s->chunk == 0) {
      size_t m = n - i < s->chunk ? n - i : s->chunk;
      rc = preload_rows(s, keys + i, (uint32_t)m, loaded);
    }
    if (!rc && (!loaded || group_stands(&s->groups, i))) {
      rc = change_one(s, b, i);
    }
  }
  for (size_t i = 0; !rc && b->found && loaded && s->groups.any && i < n; i++) {
    b->found[i] = b->found[s->groups.stands[i]];
  }
  count_put(s, n);
  return rc;
}

/* A batch, all or nothing; its arguments have been checked. */
static int change_batch(emb_session *s, const struct row_change *change,
                        const int64_t *keys, size_t n, uint8_t *found) {
  size_t depth = s->txn->savepoint_count;
  struct loaded loaded = {NULL, NULL, NULL};
  int saved = n > 1, old = txn__needs_old(s, change);
  int rc = EMB_OK;
  take_number(s);
  value_begin_call(s);
  s->txn->prepared = 0;
  if (old &&
      !group_rows(
          &s->groups, s->core->env,
          &(struct group_batch){keys, n, change->rows, s->core->layout.dim},
          change->kind == CHANGE_STEP ? GROUP_SUM : GROUP_LAST)) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  rc = old ? loaded_init(s, &loaded) : EMB_OK;
  rc = rc || !saved ? rc : txn__savepoint(s, -1);
  if (!rc) {
    struct txn_batch batch = {
        .change = change,
        .keys = keys,
        .n = n,
        .loaded = old ? &loaded : NULL,
        .found = found,
        .call = core_bounded(s->core) ? lease_next_call(&s->leases) : 0};
    rc = change_all(s, &batch);
    rc = end_call(s, depth, saved, rc);
  }
  loaded_free(s, &loaded);
  group_end_call(&s->groups, s->core->env);
  return rc;
}

int local_txn_put(emb_session *s, const int64_t *keys, size_t n,
                  const float *vectors) {
  return local_txn_put_parts(s, keys, n, vectors, 0);
}

int local_txn_put_parts(emb_session *s, const int64_t *keys, size_t n,
                        const float *vectors, uint32_t parts) {
  struct row_change change = {
      .kind = CHANGE_SET, .parts = parts, .rows = vectors};
  int rc = txn_begin_call(s);
  if (!rc && n) {
    txn_prefetch(s, keys[0]);
  }
  rc = rc ? rc : check_rows(s, keys, n, vectors, "row");
  return rc || n == 0 ? rc : change_batch(s, &change, keys, n, NULL);
}

int local_txn_apply_gradients(emb_session *s, const int64_t *keys, size_t n,
                              const float *gradients, const emb_update *how,
                              uint8_t *found) {
  struct row_change change;
  int rc = txn_begin_call(s);
  rc = rc ? rc : check_finite(s, keys, n, gradients, "gradient");
  rc = rc ? rc : rmw_step(s, gradients, how, &change);
  return rc || n == 0 ? rc : change_batch(s, &change, keys, n, found);
}

int local_txn_put_if(emb_session *s, int64_t key, const float *vector,
                     uint32_t parts, int present, int *done) {
  struct row_change change = {.kind = CHANGE_SET, .parts = parts};
  struct txn_row row = {.key = key,
                        .which = present ? PUT_PRESENT : PUT_ABSENT,
                        .change = &change,
                        .says = vector,
                        .times = 1};
  *done = 0;
  int rc = txn_begin_call(s);
  if (rc) {
    return rc;
  }
  txn_prefetch(s, key);
  rc = check_rows(s, &key, 1, vector, "row");
  if (rc) {
    return rc;
  }
  take_number(s);
  value_begin_call(s);
  s->txn->prepared = 0;
  rc = txn__put_row(s, &row);
  if (rc || !row.done) {
    return rc;
  }
  if (core_bounded(s->core)) {
    bound_put_later(s, key, hash_key(key), lease_next_call(&s->leases));
  }
  count_put(s, 1);
  *done = 1;
  return EMB_OK;
}

int txn_put_value(emb_session *s, int64_t key, const void *value) {
  struct row_change copy = {.kind = CHANGE_COPY, .value = value};
  struct txn_row row = {.key = key, .which = PUT_ANY, .change = &copy};
  int rc = txn_begin_call(s);
  rc = rc ? rc : check_numbers(s);
  if (rc) {
    return rc;
  }
  take_number(s);
  s->txn->prepared = 0;
  rc = txn__put_row(s, &row);
  if (!rc && core_bounded(s->core)) {
    bound_put_later(s, key, hash_key(key), lease_next_call(&s->leases));
  }
  if (!rc) {
    count_put(s, 1);
  }
  return rc;
}

int local_txn_move(emb_session *s, int64_t from, int64_t to, int *found) {
  struct env *env = s->core->env;
  struct row_change copy = {.kind = CHANGE_COPY};
  struct txn_row row = {.key = to, .which = PUT_ANY, .change = &copy};
  uint8_t was;
  *found = 0;
  int rc = txn_begin_call(s);
  rc = rc ? rc : check_numbers(s);
  if (rc || from == to) {
    epoch_enter(&s->core->epoch, s->slot);
    *found = !rc && session_sees(s, from, hash_key(from));
    epoch_leave(s->slot);
    return rc;
  }
  void *value = env->resize(env, NULL, s->core->layout.value_bytes);
  if (!value) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  size_t depth = s->txn->savepoint_count;
  take_number(s);
  s->txn->prepared = 0;
  rc = txn__savepoint(s, -1);
  if (!rc) {
    copy.value = value;
    rc = txn__read_row(s, from, value, found);
    rc = rc || !*found ? rc : txn__put_row(s, &row);
    rc = rc || !*found ? rc : txn__delete_row(s, from, &was);
    if (!rc && *found && core_bounded(s->core)) {
      uint32_t call = lease_next_call(&s->leases);
      bound_put_later(s, to, hash_key(to), call);
      bound_put_later(s, from, hash_key(from), call);
    }
    rc = end_call(s, depth, 1, rc);
  }
  env->release(env, value);
  return rc;
}

int local_txn_delete(emb_session *s, const int64_t *keys, size_t n,
                     uint8_t *found) {
  int rc = txn_begin_call(s);
  if (rc || n == 0) {
    return rc;
  }
  size_t depth = s->txn->savepoint_count;
  int saved = n > 1;
  uint32_t call = core_bounded(s->core) ? lease_next_call(&s->leases) : 0;
  take_number(s);
  s->txn->prepared = 0;
  rc = saved ? txn__savepoint(s, -1) : EMB_OK;
  if (rc) {
    return rc;
  }
  for (size_t i = 0; !rc && i < n; i++) {
    uint8_t was;
    rc = txn__delete_row(s, keys[i], &was);
    if (!rc && call && was) {
      bound_put_later(s, keys[i], hash_key(keys[i]), call);
    }
    if (found && !rc) {
      found[i] = was;
    }
  }
  count_add(&s->core->counters.delete_keys, n);
  return end_call(s, depth, saved, rc);
}
