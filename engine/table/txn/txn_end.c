/* SPDX-License-Identifier: MIT
**
** txn_end.c -- how a transaction ends.
**
**   open --emb_prepare--> prepared --emb_commit--> gone   [coordinator decided]
**     |                      |  \--further write--> open
**     |                      \-----emb_rollback--> gone   [abort page]
**     |--emb_commit--> gone                               [the engine decides]
**     \--emb_rollback--> gone
**
** A prepare completes the transaction in the log: tombstones of the deleted
** keys, ranges undone by savepoints, and the LAST flag on its last page; then
** everything is flushed and synced.  Commit moves the words, in memory.  A
** transaction undone after a prepare leaves an abort page, because recovery
** takes a complete transaction that is followed by others for a committed one.
*/
#include <string.h>

#include "engine/storage/ckpt/identity.h"
#include "engine/storage/kernel/reserve.h"
#include "engine/storage/kernel/row_write.h"
#include "engine/table/bound/bound.h"
#include "txn.h"

/* Appends an item to a TOMB or VOID page in the transaction's stream. */
static int put_item(emb_session *s, uint32_t kind, const void *item,
                    size_t bytes) {
  struct core *core = s->core;
  for (;;) {
    struct log_run run = {.stream = LOG_TXN, .txn = s->txn->number};
    epoch_enter(&core->epoch, s->slot);
    int rc = log_take(&core->log, &run, kind, 1);
    if (rc == EMB_OK) {
      memcpy(log_page(&core->log, run.page) + PAGE_HEAD_BYTES +
                 run.slot * bytes,
             item, bytes);
    }
    epoch_leave(s->slot);
    if (rc != LOG_ROOM) {
      return rc ? session_no_address(s) : rc;
    }
    rc = session_wait_kept(s);
    if (rc) {
      return rc;
    }
  }
}

struct ending {
  emb_session *s;
  int rc;
  uint64_t changed;
};

/* index_each on the map: counts the changed keys, and writes tombstones. */
static void count_changed(void *arg, int64_t key, uint64_t word) {
  struct ending *e = arg;
  (void)key;
  e->changed += !(word & MAP_SAME);
}

static void write_tomb(void *arg, int64_t key, uint64_t word) {
  struct ending *e = arg;
  if (!e->rc && (word & MAP_GONE)) {
    e->rc = put_item(e->s, PAGE_TOMB, &key, sizeof key);
  }
}

static void for_map(struct txn *txn, void (*each)(void *, int64_t, uint64_t),
                    void *arg) {
  for (uint32_t p = 0; p < index_parts(txn->map); p++) {
    index_each(txn->map, p, each, arg);
  }
}

/* Writes everything recovery needs besides the records, and the LAST flag. */
static int txn_end_complete(emb_session *s, uint32_t flags) {
  struct txn *txn = s->txn;
  struct ending e = {s, EMB_OK, 0};
  if (txn->deletes) {
    for_map(txn, write_tomb, &e);
  }
  for (size_t i = 0; !e.rc && i < txn->void_count; i++) {
    e.rc = put_item(s, PAGE_VOID, &txn->voids[i], sizeof txn->voids[i]);
  }
  pthread_mutex_lock(&s->store->open_txn.lock);
  s->core->txn_whole =
      1; /* a mark before this closed the page: another follows */
  s->core->txn_skipped = 0;
  pthread_mutex_unlock(&s->store->open_txn.lock);
  while (!e.rc) {
    e.rc = log_end_txn(&s->core->log, PAGE_LAST | flags, txn->number);
    if (e.rc != LOG_ROOM) {
      break;
    }
    e.rc = session_wait_kept(s);
  }
  return e.rc;
}

static int has_changes(emb_session *s) {
  struct index *map = s->txn->map;
  struct ending e = {s, EMB_OK, 0};
  for (uint32_t p = 0; p < index_parts(map) && !e.changed; p++) {
    index_each(map, p, count_changed, &e);
  }
  return e.changed != 0;
}

int local_prepare(emb_session *s, uint64_t *number) {
  *number = 0;
  int rc = txn__need(s);
  if (rc) {
    return rc;
  }
  struct txn *txn = s->txn;
  if (txn->prepared) {
    *number = txn->number;
    return EMB_OK;
  }
  if (!txn->number || (!txn->was_prepared && !has_changes(s))) {
    return EMB_OK;
  }
  emb_check(txn_valid(s));
  /* A dropped store's files are not found again: skip their check. */
  rc = atomic_load(&s->store->dropped) ? core_failed(s->core, &s->err)
                                       : identity_check(s->core, &s->err);
  rc = rc ? rc : txn_end_complete(s, PAGE_SYNCED);
  txn->was_prepared |= !rc;
  uint64_t end = atomic_load(&s->core->log.tail);
  rc = rc || EMB_SEED(SEED_PREPARE_NOT_SYNCED)
           ? rc
           : core_flush_all(s->core, 1, NULL, &s->err);
  if (rc == EMB_OK) {
    emb_assert(atomic_load(&s->core->log.synced) >= end);
    txn->prepared = 1;
    atomic_store(&s->store->txn.undecided, txn->number);
    *number = txn->number;
    if (!s->core->temporary) {
      reserve_yield(s->core); /* the decision must be written, too */
    }
  }
  return rc;
}

/* Keys are prefetched this far ahead of being settled. */
#define SETTLE_AHEAD 16

struct changed {
  int64_t key;
  uint64_t word; /* of the map */
};

struct settling {
  emb_session *s;
  int commit;
  uint32_t pass; /* keys in this pass in the epoch */
  uint64_t n;    /* keys seen; the last SETTLE_AHEAD wait in the ring */
  struct changed ring[SETTLE_AHEAD];
};

static void settle_key(struct settling *w, int64_t key, uint64_t word) {
  struct core *core = w->s->core;
  if ((w->pass++ & 255) == 0) {
    if (w->pass > 1) {
      epoch_leave(w->s->slot);
    }
    epoch_enter(&core->epoch, w->s->slot);
  }
  uint64_t address = !w->commit || (word & MAP_SAME) ? ROW_SAME
                     : word & MAP_GONE               ? ROW_GONE
                                                     : word_address(word);
  uint64_t hash = hash_key(key);
  uint32_t give = core_bounded(core)
                      ? bound_settle(w->s, key, hash, address != ROW_SAME)
                      : 0;
  row_settle(core, key, hash, address, give, w->s);
}

/* index_each on the map. */
static void settle_later(void *arg, int64_t key, uint64_t word) {
  struct settling *w = arg;
  struct changed *next = &w->ring[w->n % SETTLE_AHEAD];
  if (w->n++ >= SETTLE_AHEAD) {
    settle_key(w, next->key, next->word);
  }
  *next = (struct changed){key, word};
  index_prefetch(&w->s->core->index, hash_key(key));
}

/* Frees the transaction and lets the next one begin. */
void txn_drop(emb_session *s) {
  struct txn *txn = s->txn;
  emb_store *store = s->store;
  struct env *env = s->core->env;
  store->txn.keys = index_count(txn->map);
  index_clear(txn->map);
  spill_free(&txn->undo);
  env->release(env, txn->savepoints);
  env->release(env, txn->voids);
  env->release(env, txn);
  s->txn = NULL;
  atomic_store(&store->txn.undecided, 0);
  atomic_store(&s->core->txn_first_page, 0);
  core_changed(s->core);
  session_leave_exclusive(s, &store->txn.owner);
}

/* A checkpoint written while the words are moving may contain some of the new
** words; it then says that the transaction is committed (core.h). */
static void settle_all(emb_session *s, int commit) {
  struct settling w = {.s = s, .commit = commit};
  struct core *core = s->core;
  uint64_t decided = commit && s->txn->prepared ? s->txn->number : 0;
  pthread_mutex_lock(&s->store->open_txn.lock);
  atomic_store(&core->txn_settling,
               EMB_SEED(SEED_SETTLING_TXN_NOT_COUNTED) ? 0 : decided);
  for_map(s->txn, settle_later, &w);
  for (uint64_t i = w.n < SETTLE_AHEAD ? 0 : w.n - SETTLE_AHEAD; i < w.n; i++) {
    const struct changed *last = &w.ring[i % SETTLE_AHEAD];
    settle_key(&w, last->key, last->word);
  }
  if (w.pass) {
    epoch_leave(s->slot);
  }
  s->store->open_txn.number = 0;
  core->txn_whole = 0;
  if (decided) {
    atomic_store(&core->txn_committed, decided);
  }
  atomic_store(&core->txn_settling, 0);
  pthread_mutex_unlock(&s->store->open_txn.lock);
  bound_signal(s, 1);
}

int local_commit(emb_session *s) {
  int rc = txn__need(s);
  if (rc) {
    return rc;
  }
  struct txn *txn = s->txn;
  /* If a prepare has become void, the log must say so, even if no changes of
  ** the transaction are left. */
  if (!txn->prepared && txn->number && !s->core->temporary &&
      (txn->was_prepared || has_changes(s))) {
    rc = core_failed(s->core, &s->err);
    rc = rc ? rc : txn_end_complete(s, 0);
    if (rc) {
      return rc;
    }
  }
  emb_check(txn_valid(s));
  settle_all(s, 1);
  if (!txn->prepared && txn->number) {
    /* A checkpoint may have the rows, but not that they are committed. */
    (void)core_versions(s->core, 1);
  }
  count_add(&s->core->counters.commits, 1);
  txn_drop(s);
  core_wake(s->core);
  return EMB_OK;
}

/* Recovery must not take an undone transaction for a committed one. */
int txn__write_abort(emb_session *s, uint64_t number) {
  struct log_run run = {.stream = LOG_TXN, .txn = number};
  int rc;
  do {
    epoch_enter(&s->core->epoch, s->slot);
    log_close(&s->core->log, LOG_TXN);
    rc = log_take(&s->core->log, &run, PAGE_ABORT, 1);
    epoch_leave(s->slot);
    if (rc == LOG_ROOM) {
      rc = core_wait_room(s->core, 1, NULL, NULL, &s->err);
      rc = rc ? rc : LOG_ROOM;
    }
  } while (rc == LOG_ROOM);
  log_close(&s->core->log, LOG_TXN);
  return rc;
}

void local_rollback(emb_session *s) {
  if (!s->txn || store_check(s->store, NULL)) {
    return;
  }
  watch_abort(s->core, s);
  settle_all(s, 0);
  if (s->txn->was_prepared) {
    /* Recovery needs the page only once another transaction follows. */
    if (!EMB_SEED(SEED_ABORT_NOT_WRITTEN) &&
        txn__write_abort(s, s->txn->number)) {
      s->store->txn.abort_owed = s->txn->number;
    }
  } else if (!s->core->temporary) {
    log_close(&s->core->log, LOG_TXN);
  } /* a temporary store goes on in the page, above the next start */
  count_add(&s->core->counters.rollbacks, 1);
  txn_drop(s);
}
