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

#include "clock.h"
#include "forget.h"
#include "rmw.h"
#include "rows.h"
#include "txn.h"

/* Keys that a partition of the map is made for at most: a small transaction
** after a large one touches all partitions, and is to take 2 MB, not 40. */
#define RESERVE_MAX 64

uint64_t txn_find(struct txn *txn, int64_t key, uint64_t hash, int *own) {
  uint64_t word;
  if (!index_find(txn->map, key, hash, &word) || (word & MAP_SAME)) {
    *own = 0;
    return 0;
  }
  *own = 1;
  return word & MAP_GONE ? 0 : word_address(word);
}

int emb_in_transaction(const emb_session *s) { return s->txn != NULL; }

/* The store's one transaction place is ours, or EMB_BUSY after the timeout. */
static int take_turn(emb_session *s) {
  emb_store *store = s->store;
  uint64_t waited = 0;
  for (;;) {
    pthread_mutex_lock(&store->txn_lock);
    int free = !store->txn_owner;
    if (free) {
      store->txn_owner = s;
    }
    pthread_mutex_unlock(&store->txn_lock);
    if (free) {
      return EMB_OK;
    }
    int rc = session_ask(s);
    if (rc) {
      return rc;
    }
    if (waited >= s->core->timeout_ms * 1000) {
      return session_error(s, EMB_BUSY,
                           "another connection has a transaction open");
    }
    session_sleep(s, 200, &waited);
  }
}

int emb_begin(emb_session *s) {
  int rc = session_begin_write(s);
  if (!rc && s->txn) {
    rc = session_error(s, EMB_MISUSE, "a transaction is open already");
  }
  rc = rc ? rc : store_own(s);
  if (!rc) {
    forget_help(s);
    rc = take_turn(s);
  }
  if (rc) {
    return rc;
  }
  emb_store *store = s->store;
  struct env *env = s->core->env;
  if (store->abort_owed) {
    rc = txn_write_abort(s, store->abort_owed);
    store->abort_owed = rc ? store->abort_owed : 0;
  }
  struct txn *txn = rc ? NULL : env->allocate(env, sizeof *txn);
  if (!txn) {
    pthread_mutex_lock(&store->txn_lock);
    store->txn_owner = NULL;
    pthread_mutex_unlock(&store->txn_lock);
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
                         it is claimed nobody changes it */
};

/* key_intend, the key looked up only once in the common case. */
static int intend(emb_session *s, int64_t key, uint64_t hash, uint64_t *word) {
  struct entry *entry = session_find(s, key, hash, word);
  if (entry && (*word & WORD_INTENT)) {
    return KEY_INTENT;
  }
  if (!entry || (*word & WORD_LATCH) || !key_latch_found(entry, key, word)) {
    return key_intend(s->core, key, hash, word);
  }
  *word |= WORD_INTENT;
  key_unlatch(entry, *word);
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
  uint64_t word, taken;
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
    if (index_insert(map, key, hash, MAP_SAME, &c->mine, &taken, NULL, NULL)) {
      key_settle(s->core, key, hash, KEY_SAME, 0, NULL);
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
** temporary store, which nobody recovers, all have number 1 and share pages. */
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

/* A slot of the transaction above the key's committed address and above every
** tombstone; inside an epoch. */
static int take_slot(emb_session *s, uint64_t above, uint64_t *address) {
  struct core *core = s->core;
  int stream = LOG_TXN;
  uint64_t number = s->txn->number;
  for (;;) {
    uint64_t page;
    uint32_t slot, got;
    int rc =
        log_take(&core->log, stream, PAGE_DATA, number, 1, &page, &slot, &got);
    if (rc) {
      return rc;
    }
    *address = layout_address(&core->layout, page, slot);
    if (*address > above && page > atomic_load(&core->log.last_tomb)) {
      return EMB_OK;
    }
    log_close(&core->log, stream, 0, 0, 0);
  }
}

/* Tells scans of the own session that a key they see leaves its place. */
static void note_move(emb_session *s, int64_t key, uint64_t from, uint64_t to) {
  if (from && watch_any(s->core)) {
    pthread_mutex_lock(&s->core->scan_lock);
    watch_moved(s->core, key, from, to, s, 0);
    pthread_mutex_unlock(&s->core->scan_lock);
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
static int write_row(emb_session *s, int64_t key, const void *value,
                     const struct claim *c) {
  struct core *core = s->core;
  struct txn *txn = s->txn;
  uint64_t seen = visible(c->word, c->base), address;
  uint64_t version =
      atomic_fetch_add_explicit(&core->version, 1, memory_order_relaxed) + 1;
  if (!(c->word & (MAP_SAME | MAP_GONE)) && txn_is_fresh(txn, c->word) &&
      log_mutable(&core->log, seen) && log_rec(&core->log, seen)) {
    struct rec *rec = log_rec(&core->log, seen);
    rec_begin(rec);
    rec_fill(rec, key, value, core->layout.value_bytes, version);
    core_filled(core, key, seen, value);
    return EMB_OK;
  }
  int rc = take_slot(s, c->base > seen ? c->base : seen, &address);
  if (rc) {
    return rc;
  }
  rec_fill(log_rec(&core->log, address), key, value, core->layout.value_bytes,
           version);
  core_filled(core, key, address, value);
  note_move(s, key, seen, address);
  atomic_store_explicit(&c->mine->word, address, memory_order_release);
  txn->count_change += !seen;
  return EMB_OK;
}

/* Which keys a Put is for. */
enum { PUT_ANY, PUT_PRESENT, PUT_ABSENT };

struct row {
  int64_t key;
  int which;
  const struct change *change;
  const float *says; /* of the change */
  const float *read;
  uint32_t times;        /* rows of the batch that it stands for */
  uint32_t at;           /* its place in the chunk, */
  struct loaded *loaded; /* for which this was read; or NULL */
  int found;             /* the key was there */
  int done;              /* it was written: the key was as it was to be */
};

/* Claims the row's key, unless it is not as it is to be.  Inside an epoch. */
static int claim_row(emb_session *s, struct row *row, uint64_t hash,
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
static int read_claimed(emb_session *s, const struct row *row, uint64_t hash,
                        uint64_t address, const void **value, int *cold) {
  struct core *core = s->core;
  char *copy = s->scratch + core->layout.rec_bytes;
  *cold = 0;
  for (;;) {
    uint64_t word, version;
    int own;
    index_find(&core->index, row->key, hash, &word);
    uint64_t mine = txn_find(s->txn, row->key, hash, &own);
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
static int load_claimed(emb_session *s, const struct row *row, uint64_t hash,
                        uint64_t address, const void **value) {
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
    rc = read_cold(s, &row->key, 1, 0, keep_one, copy, &moved);
    if (rc || !moved) {
      *value = copy;
      return rc;
    }
  }
}

/* Makes the value of a claimed key, in s->scratch.  row->done = 0: the key is
** not there, and the change does not add it. */
static int make_value(emb_session *s, struct row *row, uint64_t hash,
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
  } else if (!rc &&
             !value_make(s, row->change, row->says, row->read, row->times,
                         row->key, atomic_load(&s->core->version) + 1, old,
                         s->scratch)) {
    rc = session_error(s, EMB_NONFINITE,
                       "key %lld: the updated vector is not finite",
                       (long long)row->key);
  }
  return rc;
}

/* Is there more to do than to write down what the row says? */
static int needs_old(const emb_session *s, const struct row *row) {
  return row->change->kind != CHANGE_SET || row->change->parts ||
         value_is_wide(&s->core->layout);
}

static int txn_put_row(emb_session *s, struct row *row) {
  struct core *core = s->core;
  const void *value = s->scratch;
  uint64_t hash = hash_key(row->key);
  struct claim c;
  epoch_enter(&core->epoch, s->slot);
  int rc = claim_row(s, row, hash, &c);
  if (!rc && row->done && txn_must_remember(s->txn, c.word)) {
    /* Before the slot is filled: a record in the log that the map does not know
    ** would come back at recovery.  Outside the epoch, for it may wait. */
    epoch_leave(s->slot);
    rc = txn_remember(s, row->key, c.word);
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
    rc = write_row(s, row->key, value, &c);
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
  rc = *found ? txn_remember(s, key, c.word) : EMB_OK;
  if (rc || !*found) {
    return rc;
  }
  atomic_store_explicit(&c.mine->word, MAP_GONE | txn->era,
                        memory_order_release);
  txn->count_change--;
  return EMB_OK;
}

static int begin_call(emb_session *s) {
  int rc = txn_need(s);
  return rc ? rc : core_failed(s->core, &s->err);
}

/* Runs one row; waits for room and tries again where it must. */
static int put_waiting(emb_session *s, struct row *row) {
  for (;;) {
    int rc = txn_put_row(s, row);
    if (rc != LOG_ROOM) {
      return rc == EMB_FULL && !s->err.code
                 ? session_error(s, rc, "the log's addresses are used up")
                 : rc;
    }
    rc = session_wait_room(s);
    if (rc) {
      return rc;
    }
  }
}

/* Ends a call of several rows: keeps its work, or undoes it. */
static int end_call(emb_session *s, size_t depth, int marked, int rc) {
  if (!marked) {
    return rc;
  }
  if (rc && !EMB_SEED(22)) {
    emb_err first = s->err;
    if (txn_undo_to(s, depth) == EMB_OK) {
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

/* Asks for the memory that a key's row will look at, so that it comes while the
** vector is checked. */
static void ask_for(emb_session *s, int64_t key) {
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

/* One row of a batch. */
static int change_one(emb_session *s, const struct change *change,
                      const int64_t *keys, size_t i, uint32_t call,
                      struct loaded *loaded, uint8_t *found) {
  const struct groups *g = &s->groups;
  size_t dim = s->core->layout.dim;
  struct row row = {.key = keys[i],
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
  if (!rc && call) {
    clock_put_later(s, keys[i], hash_key(keys[i]), call);
  }
  if (!rc && found) {
    found[i] = (uint8_t)row.found;
  }
  if (!rc && (i & 1023) == 1023) {
    rc = session_ask(s);
  }
  return rc;
}

/* All rows of a batch.  loaded: NULL where no old value is needed. */
static int change_all(emb_session *s, const struct change *change,
                      const int64_t *keys, size_t n, struct loaded *loaded,
                      uint8_t *found) {
  uint32_t call = core_bounded(s->core) ? lease_next_call(&s->leases) : 0;
  int rc = EMB_OK;
  for (size_t i = 0; !rc && i < n; i++) {
    if (i + 1 < n) {
      ask_for(s, keys[i + 1]);
    }
    if (loaded && i % s->chunk == 0) {
      size_t m = n - i < s->chunk ? n - i : s->chunk;
      rc = preload(s, keys + i, (uint32_t)m, loaded);
    }
    if (!rc && (!loaded || group_stands(&s->groups, i))) {
      rc = change_one(s, change, keys, i, call, loaded, found);
    }
  }
  for (size_t i = 0; !rc && found && loaded && s->groups.any && i < n; i++) {
    found[i] = found[s->groups.stands[i]];
  }
  count_put(s, n);
  return rc;
}

/* A batch, all or nothing; its arguments were checked. */
static int change_batch(emb_session *s, const struct change *change,
                        const int64_t *keys, size_t n, uint8_t *found) {
  size_t depth = s->txn->savepoint_count;
  struct row any = {.change = change};
  struct loaded loaded = {NULL, NULL, NULL};
  int marked = n > 1, old = needs_old(s, &any);
  int rc = EMB_OK;
  take_number(s);
  value_begin_call(s);
  s->txn->prepared = 0;
  if (old &&
      !group_rows(&s->groups, s->core->env, keys, n, change->rows,
                  s->core->layout.dim,
                  change->kind == CHANGE_STEP ? GROUP_SUM : GROUP_LAST)) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  rc = old ? loaded_init(s, &loaded) : EMB_OK;
  rc = rc || !marked ? rc : txn_mark(s, -1);
  if (!rc) {
    rc = change_all(s, change, keys, n, old ? &loaded : NULL, found);
    rc = end_call(s, depth, marked, rc);
  }
  loaded_free(s, &loaded);
  group_end_call(&s->groups, s->core->env);
  return rc;
}

int emb_txn_put(emb_session *s, const int64_t *keys, size_t n,
                const float *vectors) {
  return emb_txn_put_parts(s, keys, n, vectors, 0);
}

int emb_txn_put_parts(emb_session *s, const int64_t *keys, size_t n,
                      const float *vectors, uint32_t parts) {
  struct change change = {.kind = CHANGE_SET, .parts = parts, .rows = vectors};
  int rc = begin_call(s);
  if (!rc && n) {
    ask_for(s, keys[0]);
  }
  rc = rc ? rc : check_rows(s, keys, n, vectors, "row");
  return rc || n == 0 ? rc : change_batch(s, &change, keys, n, NULL);
}

int emb_txn_apply_gradients(emb_session *s, const int64_t *keys, size_t n,
                            const float *gradients, const emb_update *how,
                            uint8_t *found) {
  struct change change;
  int rc = begin_call(s);
  rc = rc ? rc : check_finite(s, keys, n, gradients, "gradient");
  rc = rc ? rc : rmw_step(s, gradients, how, &change);
  return rc || n == 0 ? rc : change_batch(s, &change, keys, n, found);
}

int emb_txn_put_if(emb_session *s, int64_t key, const float *vector,
                   uint32_t parts, int present, int *done) {
  struct change change = {.kind = CHANGE_SET, .parts = parts};
  struct row row = {.key = key,
                    .which = present ? PUT_PRESENT : PUT_ABSENT,
                    .change = &change,
                    .says = vector,
                    .times = 1};
  *done = 0;
  int rc = begin_call(s);
  if (rc) {
    return rc;
  }
  ask_for(s, key);
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
    clock_put_later(s, key, hash_key(key), lease_next_call(&s->leases));
  }
  count_put(s, 1);
  *done = 1;
  return EMB_OK;
}

int txn_put_value(emb_session *s, int64_t key, const void *value) {
  struct change copy = {.kind = CHANGE_COPY, .value = value};
  struct row row = {.key = key, .which = PUT_ANY, .change = &copy};
  int rc = begin_call(s);
  if (rc) {
    return rc;
  }
  take_number(s);
  s->txn->prepared = 0;
  rc = put_waiting(s, &row);
  if (!rc && core_bounded(s->core)) {
    clock_put_later(s, key, hash_key(key), lease_next_call(&s->leases));
  }
  if (!rc) {
    count_put(s, 1);
  }
  return rc;
}

/* The stored value of a key that the session sees; *found: it does. */
static int read_value(emb_session *s, int64_t key, void *value, int *found) {
  uint64_t hash = hash_key(key);
  struct row row = {.key = key};
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

int emb_txn_move(emb_session *s, int64_t from, int64_t to, int *found) {
  struct env *env = s->core->env;
  struct change copy = {.kind = CHANGE_COPY};
  struct row row = {.key = to, .which = PUT_ANY, .change = &copy};
  uint8_t was;
  *found = 0;
  int rc = begin_call(s);
  if (rc || from == to) {
    rc = rc ? rc : emb_exists(s, &from, 1, &was);
    *found = !rc && was;
    return rc;
  }
  void *value = env->resize(env, NULL, s->core->layout.value_bytes);
  if (!value) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  size_t depth = s->txn->savepoint_count;
  take_number(s);
  s->txn->prepared = 0;
  rc = txn_mark(s, -1);
  if (!rc) {
    copy.value = value;
    rc = read_value(s, from, value, found);
    rc = rc || !*found ? rc : put_waiting(s, &row);
    rc = rc || !*found ? rc : txn_delete_row(s, from, &was);
    if (!rc && *found && core_bounded(s->core)) {
      uint32_t call = lease_next_call(&s->leases);
      clock_put_later(s, to, hash_key(to), call);
      clock_put_later(s, from, hash_key(from), call);
    }
    rc = end_call(s, depth, 1, rc);
  }
  env->release(env, value);
  return rc;
}

int emb_txn_delete(emb_session *s, const int64_t *keys, size_t n,
                   uint8_t *found) {
  int rc = begin_call(s);
  if (rc || n == 0) {
    return rc;
  }
  size_t depth = s->txn->savepoint_count;
  int marked = n > 1;
  uint32_t call = core_bounded(s->core) ? lease_next_call(&s->leases) : 0;
  take_number(s);
  s->txn->prepared = 0;
  rc = marked ? txn_mark(s, -1) : EMB_OK;
  if (rc) {
    return rc;
  }
  for (size_t i = 0; !rc && i < n; i++) {
    uint8_t was;
    rc = txn_delete_row(s, keys[i], &was);
    if (!rc && call) {
      clock_put_later(s, keys[i], hash_key(keys[i]), call);
    }
    if (found && !rc) {
      found[i] = was;
    }
  }
  count_add(&s->core->counters.delete_keys, n);
  return end_call(s, depth, marked, rc);
}
