/* SPDX-License-Identifier: MIT
**
** txn.c -- the writes of a transaction; see txn.h for what one is.
**
** A call first claims its keys (intent bit and map entry), so that no other
** writer and no compaction moves them; then it writes the records, each above
** the key's committed address.  The call is all or nothing: it takes a
** savepoint of its own, unless it is a single row, which checks everything
** before it changes anything.
*/
#include <string.h>

#include "engine/storage/kernel/row_write.h"
#include "engine/table/jobs/begin.h"
#include "engine/table/jobs/cold.h"
#include "engine/table/owner/own.h"
#include "engine/table/bound/bound.h"
#include "engine/table/rows/rmw.h"
#include "engine/table/rows/rows.h"
#include "txn.h"

/* Keys that a partition of the map is made for at most: a small transaction
** after a large one touches all partitions, and is to take 2 MB, not 40. */
#define RESERVE_MAX 64

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
        session_enter_exclusive(s, &s->store->txn_owner,
                                "another connection has a transaction open on");
  }
  if (!rc && atomic_load(&s->store->dropped)) { /* since own_claim */
    session_leave_exclusive(s, &s->store->txn_owner);
    rc = own_dropped(s);
  }
  if (rc) {
    return rc;
  }
  emb_store *store = s->store;
  struct env *env = s->core->env;
  if (store->abort_owed) {
    rc = txn__write_abort(s, store->abort_owed);
    store->abort_owed = rc ? store->abort_owed : 0;
  }
  struct txn *txn = rc ? NULL : env->allocate(env, sizeof *txn);
  if (!txn) {
    session_leave_exclusive(s, &store->txn_owner);
    return rc ? rc : session_error(s, EMB_NOMEM, "out of memory");
  }
  txn->map = &store->txn_map;
  txn->era = 1;
  spill_init(&txn->undo, env, s->core->dir, sizeof(struct undo));
  s->txn = txn;
  return EMB_OK;
}

/* A key that the transaction has claimed. */
struct claim {
  struct entry *mine; /* in the map */
  uint64_t word;      /* there */
  uint64_t base;      /* the key's committed log address, 0 if none; as long as
                         it is claimed it does not change */
};

/* key_intend, the key looked up only once in the common case. */
static int intend(emb_session *s, int64_t key, uint64_t hash, uint64_t *word) {
  struct entry *entry = session_find(s, key, hash, word);
  if (entry && (*word & WORD_INTENT)) {
    return KEY_INTENT;
  }
  if (!entry || (*word & WORD_LATCH) || !key_intend_found(entry, key, word)) {
    return key_intend(s->core, key, hash, word);
  }
  return KEY_FOUND;
}

/* A map that is likely to become as large as the last one does not grow step by
** step; within limits, for it may stay small. */
static void reserve_map(emb_session *s, uint64_t hash) {
  struct index *map = s->txn->map;
  struct index_part *part = index_part_of(map, hash);
  uint64_t keys = s->store->txn_keys / index_parts(map);
  if (keys && !atomic_load_explicit(&part->table, memory_order_relaxed)) {
    /* Without memory the insert says so. */
    index_reserve(map, (uint32_t)(part - map->parts),
                  keys < RESERVE_MAX ? keys : RESERVE_MAX);
  }
}

/* Claims one key, if the transaction has not yet: intent bit in the index,
** entry in the map.  Inside an epoch. */
static int claim(emb_session *s, int64_t key, uint64_t hash, struct claim *c) {
  struct index *map = s->txn->map;
  uint64_t word;
  int rc = intend(s, key, hash, &word);
  if (rc == KEY_INTENT) {
    c->mine = index_find(map, key, hash, &c->word);
    if (!c->mine) {
      return session_error(s, EMB_BUSY,
                           "key %lld is held by another transaction",
                           (long long)key);
    }
  } else if (rc >= 0) {
    c->word = MAP_SAME;
    reserve_map(s, hash);
    struct index_new new = {.key = key, .hash = hash, .word = MAP_SAME};
    int failed = index_insert(map, &new);
    c->mine = new.entry;
    if (failed) {
      row_settle(s->core, key, hash, ROW_SAME, 0, NULL);
      rc = -EMB_NOMEM;
    }
  }
  if (rc < 0) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  /* A cached record's slot may be another's by now. */
  c->base = word & WORD_CACHED ? key_find_address(s->core, key, hash)
                               : word_address(word);
  return EMB_OK;
}

/* Number and first page of the transaction, at its first write.  In a
** temporary store, which is never recovered, all have number 1 and share
** pages. */
static void take_number(emb_session *s) {
  struct core *core = s->core;
  struct txn *txn = s->txn;
  if (!txn->number) {
    txn->number =
        core->temporary ? 1 : atomic_fetch_add(&core->txn_last, 1) + 1;
    pthread_mutex_lock(&s->store->settle_lock);
    s->store->txn_number = txn->number;
    s->store->txn_start = log_position(&core->log, LOG_TXN);
    s->store->txn_version = atomic_load(&core->version);
    atomic_store(&core->txn_first_page,
                 layout_page(&core->layout, s->store->txn_start));
    pthread_mutex_unlock(&s->store->settle_lock);
  }
}

/* Where the session sees the key now: log address, or 0. */
static uint64_t visible(uint64_t map_word, uint64_t base) {
  if (map_word & MAP_SAME) {
    return base;
  }
  return map_word & MAP_GONE ? 0 : word_address(map_word);
}

/* Does the session see the key?  Inside an epoch. */
static int sees(emb_session *s, int64_t key, uint64_t hash) {
  uint64_t word;
  session_find(s, key, hash, &word);
  return word && txn_word(s, key, hash, word) != 0;
}

/* Writes the value of a key that is claimed.  Inside an epoch. */
static int txn_write_row(emb_session *s, int64_t key, const void *value,
                         const struct claim *c) {
  struct core *core = s->core;
  struct txn *txn = s->txn;
  uint64_t seen = visible(c->word, c->base), address;
  uint64_t above = c->base > seen ? c->base : seen, tombs = row_tombs_end(core);
  uint64_t version = core_versions(core, 1);
  if (!(c->word & (MAP_SAME | MAP_GONE)) && txn__is_fresh(txn, c->word) &&
      log_mutable(&core->log, seen) && log_rec(&core->log, seen)) {
    struct rec *rec = log_rec(&core->log, seen);
    emb_assert(log_unwritten(&core->log, seen)); /* L2 */
    rec_begin(rec);
    rec_fill(rec, key, value, core->layout.value_bytes, version);
    row_filled(core, key, seen, value);
    return EMB_OK;
  }
  struct log_run run = {.stream = LOG_TXN, .txn = txn->number};
  int rc = row_slot(core, &run, 1, above > tombs ? above : tombs, &address);
  if (rc) {
    return rc;
  }
  rec_fill(log_rec(&core->log, address), key, value, core->layout.value_bytes,
           version);
  row_filled(core, key, address, value);
  if (seen && watch_any(core)) {
    watch_own_write(core, key, seen, address, s);
  }
  atomic_store_explicit(&c->mine->word, address, memory_order_release);
  txn->count_change += !seen;
  return EMB_OK;
}

/* Which keys a Put is for. */
enum { PUT_ANY, PUT_PRESENT, PUT_ABSENT };

struct txn_row {
  int64_t key;
  int which;
  const struct row_change *change;
  const float *says; /* of the change */
  const float *read;
  uint32_t times;        /* rows of the batch that it stands for */
  uint32_t at;           /* its position in the chunk, */
  struct loaded *loaded; /* for which this was read; or NULL */
  int found;             /* the key was there */
  int done;              /* it was written: the key was as it was to be */
};

/* Claims the row's key, unless it is not as it is to be.  Inside an epoch. */
static int claim_row(emb_session *s, struct txn_row *row, uint64_t hash,
                     struct claim *c) {
  int absent = row->which == PUT_ABSENT;
  row->done = 0;
  if (row->which != PUT_ANY && sees(s, row->key, hash) == absent) {
    return EMB_OK; /* and is not claimed */
  }
  int rc = claim(s, row->key, hash, c);
  /* Until the claim another session may have added or deleted it. */
  row->done = !rc && (row->which == PUT_ANY ||
                      (visible(c->word, c->base) == 0) == absent);
  return rc;
}

/* The value of a claimed key at this log address, as the session sees it: into
** *value, which may be memory of the session; *cold: it is on disk.  Inside an
** epoch. */
static int read_claimed(emb_session *s, const struct txn_row *row,
                        uint64_t hash, uint64_t address, const void **value,
                        int *cold) {
  struct core *core = s->core;
  char *copy = s->scratch + core->layout.rec_bytes;
  *cold = 0;
  for (;;) {
    uint64_t word, version;
    int own;
    index_find(&core->index, row->key, hash, &word);
    uint64_t mine = session_txn_find(s->txn, row->key, hash, &own);
    const struct rec *rec =
        own ? log_rec(&core->log, mine) : key_rec(core, word & ~WORD_LATCH);
    if (!rec) {
      *value =
          row->loaded ? loaded_value(s, row->loaded, row->at, address) : NULL;
      *cold = !*value;
      return EMB_OK;
    }
    if (rec_read(rec, row->key, copy, core->layout.value_bytes, &version)) {
      *value = copy;
      return EMB_OK;
    }
  }
}

static int keep_one(emb_session *s, void *arg, uint32_t row, int64_t key,
                    const struct rec *rec) {
  (void)row;
  (void)key;
  memcpy(arg, rec->vector, s->core->layout.value_bytes);
  return EMB_OK;
}

/* The same outside the epoch, from wherever it is. */
static int load_claimed(emb_session *s, const struct txn_row *row,
                        uint64_t hash, uint64_t address, const void **value) {
  char *copy = s->scratch + s->core->layout.rec_bytes;
  for (;;) {
    int cold;
    uint32_t moved = 0;
    epoch_enter(&s->core->epoch, s->slot);
    int rc = read_claimed(s, row, hash, address, value, &cold);
    epoch_leave(s->slot);
    if (rc || !cold) {
      return rc;
    }
    s->cold[0] = (struct cold){address, 0};
    struct cold_batch one = {
        .keys = &row->key, .n = 1, .use = keep_one, .arg = copy};
    rc = cold_read(s, &one, &moved);
    if (rc || !moved) {
      *value = copy;
      return rc;
    }
  }
}

/* Makes the value of a claimed key, in s->scratch.  row->done = 0: the key is
** not there, and the change does not add it. */
static int make_value(emb_session *s, struct txn_row *row, uint64_t hash,
                      const struct claim *c) {
  const void *old = NULL;
  uint64_t address = visible(c->word, c->base);
  int looks = address && row->change->kind != CHANGE_COPY;
  int rc = looks ? load_claimed(s, row, hash, address, &old) : EMB_OK;
  row->found = address != 0;
  if (!rc && !address &&
      (!value_adds(s, row->change) ||
       !value_admits(s, row->change, row->key, row->times))) {
    row->done = 0;
  } else if (!rc && !value_make(s, row->change,
                                &(struct value_row){
                                    row->says, row->read, row->times, row->key,
                                    atomic_load(&s->core->version) + 1},
                                old, s->scratch)) {
    rc = session_error(s, EMB_NONFINITE,
                       "key %lld: the updated vector is not finite",
                       (long long)row->key);
  }
  return rc;
}

/* Is there more to do than to write down what the row says? */
static int needs_old(const emb_session *s, const struct txn_row *row) {
  return row->change->kind != CHANGE_SET || row->change->parts ||
         value_is_wide(&s->core->layout);
}

static int txn_put_row(emb_session *s, struct txn_row *row) {
  struct core *core = s->core;
  const void *value = s->scratch;
  uint64_t hash = hash_key(row->key);
  struct claim c;
  epoch_enter(&core->epoch, s->slot);
  int rc = claim_row(s, row, hash, &c);
  if (!rc && row->done && txn__must_remember(s->txn, c.word)) {
    /* Before the slot is filled: a record in the log that is not in the map
    ** would come back at recovery.  Outside the epoch, for it may wait. */
    epoch_leave(s->slot);
    rc = txn__remember(s, row->key, c.word);
    epoch_enter(&core->epoch, s->slot);
  }
  if (!rc && row->done && needs_old(s, row)) {
    epoch_leave(s->slot);
    rc = make_value(s, row, hash, &c);
    epoch_enter(&core->epoch, s->slot);
  } else if (!rc && row->done) {
    value = session_encode(s, row->says);
  }
  if (!rc && row->done) {
    rc = txn_write_row(s, row->key, value, &c);
  }
  epoch_leave(s->slot);
  return rc;
}

static int txn_delete_row(emb_session *s, int64_t key, uint8_t *found) {
  struct txn *txn = s->txn;
  uint64_t hash = hash_key(key);
  struct claim c;
  epoch_enter(&s->core->epoch, s->slot);
  *found = (uint8_t)sees(s, key, hash);
  int rc = *found ? claim(s, key, hash, &c) : EMB_OK; /* else not claimed */
  epoch_leave(s->slot);
  if (rc || !*found) {
    return rc;
  }
  /* Until the claim another session may have deleted it. */
  *found = visible(c.word, c.base) != 0;
  rc = *found ? txn__remember(s, key, c.word) : EMB_OK;
  if (rc || !*found) {
    return rc;
  }
  atomic_store_explicit(&c.mine->word, MAP_GONE | txn->era,
                        memory_order_release);
  txn->count_change--;
  return EMB_OK;
}

static int txn_begin_call(emb_session *s) {
  int rc = txn__need(s);
  return rc ? rc : core_failed(s->core, &s->err);
}

/* Runs one row; waits for room and tries again where it must. */
static int put_waiting(emb_session *s, struct txn_row *row) {
  for (;;) {
    int rc = txn_put_row(s, row);
    if (rc != LOG_ROOM) {
      return rc == EMB_FULL && !s->err.code ? session_no_address(s) : rc;
    }
    rc = session_wait_room(s);
    if (rc) {
      return rc;
    }
  }
}

/* Ends a call of several rows: keeps its work, or undoes it. */
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

/* After a call that has put n rows. */
static void count_put(emb_session *s, size_t n) {
  if (frames_left(&s->core->frames) < core_low_water(s->core)) {
    core_wake(s->core);
  }
  session_count(s, TALLY_PUT, n);
}

/* Prefetches the memory that a key's row will look at, so that it comes while
** the vector is checked. */
static void txn_prefetch(emb_session *s, int64_t key) {
  uint64_t hash = hash_key(key);
  __builtin_prefetch(index_first_bucket(&s->core->index, hash));
  __builtin_prefetch(index_second_bucket(&s->core->index, hash));
  __builtin_prefetch(index_first_bucket(s->txn->map, hash));
  __builtin_prefetch(index_second_bucket(s->txn->map, hash));
}

/* Reads what rows [at, at + m) will need from disk, all at once. */
static int preload(emb_session *s, const int64_t *keys, uint32_t m,
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
  struct loaded *loaded; /* NULL where no old value is needed */
  uint8_t *found;        /* or NULL */
  uint32_t call;         /* that gives Gets back, 0: none */
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
  int rc = put_waiting(s, &row);
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
      rc = preload(s, keys + i, (uint32_t)m, loaded);
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

/* A batch, all or nothing; its arguments were checked. */
static int change_batch(emb_session *s, const struct row_change *change,
                        const int64_t *keys, size_t n, uint8_t *found) {
  size_t depth = s->txn->savepoint_count;
  struct txn_row any = {.change = change};
  struct loaded loaded = {NULL, NULL, NULL};
  int saved = n > 1, old = needs_old(s, &any);
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
  rc = put_waiting(s, &row);
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
  rc = put_waiting(s, &row);
  if (!rc && core_bounded(s->core)) {
    bound_put_later(s, key, hash_key(key), lease_next_call(&s->leases));
  }
  if (!rc) {
    count_put(s, 1);
  }
  return rc;
}

/* The stored value of a key that the session sees; *found: it does. */
static int read_value(emb_session *s, int64_t key, void *value, int *found) {
  uint64_t hash = hash_key(key);
  struct txn_row row = {.key = key};
  struct claim c;
  const void *at;
  *found = 0;
  epoch_enter(&s->core->epoch, s->slot);
  int rc = sees(s, key, hash) ? claim(s, key, hash, &c) : EMB_OK;
  int is_there = !rc && sees(s, key, hash);
  epoch_leave(s->slot);
  if (!is_there) {
    return rc;
  }
  rc = load_claimed(s, &row, hash, visible(c.word, c.base), &at);
  if (!rc) {
    memcpy(value, at, s->core->layout.value_bytes);
    *found = 1;
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
    *found = !rc && sees(s, from, hash_key(from));
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
    rc = read_value(s, from, value, found);
    rc = rc || !*found ? rc : put_waiting(s, &row);
    rc = rc || !*found ? rc : txn_delete_row(s, from, &was);
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
    rc = txn_delete_row(s, keys[i], &was);
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
