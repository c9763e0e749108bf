/* SPDX-License-Identifier: MIT
**
** txn_save.c -- savepoints: set, undone, released.  See txn_map.h.
*/
#include "engine/table/bound/bound.h"
#include "txn.h"

/* Was this entry of the map made after the savepoint? */
static int is_later(const struct savepoint *save, uint64_t word) {
  uint64_t when = word_address(word);
  return word & MAP_GONE ? when >= save->era : when >= save->position;
}

int txn__is_fresh(const struct txn *txn, uint64_t word) {
  return txn->savepoint_count == 0 ||
         is_later(&txn->savepoints[txn->savepoint_count - 1], word);
}

/* Room for one more range.  Each savepoint reserves one, and undoing to it or
** to an older savepoint needs no more than that, because adjacent ranges are
** merged. */
static int reserve_void(emb_session *s) {
  struct txn *txn = s->txn;
  struct env *env = s->core->env;
  if (txn->void_count == txn->void_room) {
    size_t room = txn->void_room ? txn->void_room * 2 : 8;
    void *larger = env->resize(env, txn->voids, room * sizeof *txn->voids);
    if (!larger) {
      return session_error(s, EMB_NOMEM, "out of memory");
    }
    txn->voids = larger;
    txn->void_room = room;
  }
  return EMB_OK;
}

int txn__savepoint(emb_session *s, int number) {
  struct txn *txn = s->txn;
  struct env *env = s->core->env;
  int rc = reserve_void(s);
  if (rc) {
    return rc;
  }
  if (txn->savepoint_count == txn->savepoint_room) {
    size_t room = txn->savepoint_room ? txn->savepoint_room * 2 : 8;
    void *larger =
        env->resize(env, txn->savepoints, room * sizeof *txn->savepoints);
    if (!larger) {
      return session_error(s, EMB_NOMEM, "out of memory");
    }
    txn->savepoints = larger;
    txn->savepoint_room = room;
  }
  txn->era++;
  txn->savepoints[txn->savepoint_count++] =
      (struct savepoint){number, log_position(&s->core->log, LOG_TXN), txn->era,
                         spill_count(&txn->undo), txn->count_change};
  return EMB_OK;
}

int txn__must_remember(const struct txn *txn, uint64_t word) {
  return txn->savepoint_count && !(word & MAP_SAME) &&
         !txn__is_fresh(txn, word);
}

int txn__remember(emb_session *s, int64_t key, uint64_t word) {
  struct txn *txn = s->txn;
  if (!txn__must_remember(txn, word)) {
    return EMB_OK;
  }
  struct undo undo = {key, word, bound_deferred(s, key, hash_key(key))};
  return spill_push(&txn->undo, &undo, &s->err);
}

/* Notes the records from `from` to now as void: recovery skips them. */
static int note_void(emb_session *s, uint64_t from) {
  struct txn *txn = s->txn;
  uint64_t to = log_position(&s->core->log, LOG_TXN);
  while (txn->void_count && txn->voids[txn->void_count - 1].to >= from) {
    /* Adjoins the older range: merge the two. */
    txn->void_count--;
    if (txn->voids[txn->void_count].from < from) {
      from = txn->voids[txn->void_count].from;
    }
  }
  int rc = reserve_void(s);
  if (!rc && to > from) {
    txn->voids[txn->void_count++] = (struct void_range){from, to};
  }
  return rc;
}

struct above {
  emb_session *s;
  struct txn *txn;
  const struct savepoint *save;
};

/* index_each on the map: removes the changes made after the savepoint. */
static void txn_save_forget(void *arg, int64_t key, uint64_t word) {
  struct above *a = arg;
  if (!(word & MAP_SAME) && is_later(a->save, word)) {
    uint64_t found;
    struct entry *entry = index_find(a->txn->map, key, hash_key(key), &found);
    atomic_store_explicit(&entry->word, MAP_SAME, memory_order_release);
    bound_settle(a->s, key, hash_key(key), 0);
  }
}

/* Undoes everything after the savepoint. */
static int undo_to(emb_session *s, struct savepoint save) {
  struct txn *txn = s->txn;
  int rc = note_void(s, save.position);
  if (rc) {
    txn->broken = 1; /* the caller may have undone its other state already */
    return rc;
  }
  watch_abort(s->core, s);
  struct above a = {s, txn, &save};
  for (uint32_t p = 0; p < index_parts(txn->map); p++) {
    index_each(txn->map, p, txn_save_forget, &a);
  }
  while (spill_count(&txn->undo) > save.undo_depth) {
    struct undo undo;
    uint64_t word;
    rc = spill_pop(&txn->undo, &undo, &s->err);
    if (rc) {
      txn->broken = 1;
      return rc;
    }
    struct entry *entry =
        index_find(txn->map, undo.key, hash_key(undo.key), &word);
    /* An entry replaced under a savepoint that has since been released may
    ** itself be younger than this savepoint. */
    if (entry && !is_later(&save, undo.word) &&
        !EMB_SEED(SEED_SAVEPOINT_NOT_RESTORED)) {
      atomic_store_explicit(&entry->word, undo.word, memory_order_release);
      bound_defer(s, undo.key, hash_key(undo.key), (uint32_t)undo.deferred);
    }
  }
  txn->count_change = save.count_change;
  txn->prepared = 0;
  return EMB_OK;
}

int txn__undo_to(emb_session *s, size_t at) {
  int rc = undo_to(s, s->txn->savepoints[at]);
  if (!rc) {
    s->txn->savepoint_count = at + 1;
  }
  return rc;
}

/* Index of the oldest savepoint with at least this number. */
static size_t find_savepoint(const struct txn *txn, int number) {
  size_t at = 0;
  while (at < txn->savepoint_count && txn->savepoints[at].number < number) {
    at++;
  }
  return at;
}

int txn__need(emb_session *s) {
  int rc = session_begin(s);
  if (!rc && !s->txn) {
    rc = session_error(s, EMB_MISUSE, "no transaction is open");
  }
  if (!rc && s->txn->broken) {
    rc = session_error(s, EMB_IOERR,
                       "a savepoint of the transaction in %s could not be "
                       "undone; roll back the whole transaction",
                       s->core->dir);
  }
  return rc;
}

int local_savepoint(emb_session *s, int number) {
  int rc = txn__need(s);
  if (rc) {
    return rc;
  }
  size_t at = find_savepoint(s->txn, number);
  if (at < s->txn->savepoint_count) {
    s->txn->savepoint_count = at;
  }
  return txn__savepoint(s, number);
}

int local_savepoint_release(emb_session *s, int number) {
  int rc = txn__need(s);
  if (!rc) {
    s->txn->savepoint_count = find_savepoint(s->txn, number);
  }
  return rc;
}

int local_rollback_to(emb_session *s, int number) {
  int rc = txn__need(s);
  if (rc) {
    return rc;
  }
  struct txn *txn = s->txn;
  size_t at = find_savepoint(txn, number);
  if (at < txn->savepoint_count) {
    /* The savepoint asked for.  If SQLite opened it before the transaction's
    ** first write, the oldest younger savepoint: all changes are above that
    ** one. */
    int exact = txn->savepoints[at].number == number;
    if (exact || at > 0) {
      rc = txn__undo_to(s, at);
      if (!rc && !exact) {
        txn->savepoint_count = at;
      }
      return rc;
    }
  } else if (at > 0) {
    return EMB_OK; /* nothing written since it was opened */
  }
  struct savepoint start = {number, 0, 0, 0, 0};
  rc = undo_to(s, start);
  txn->savepoint_count = 0;
  return rc;
}
