/* SPDX-License-Identifier: MIT
**
** txn_row.c -- one row of a transaction.
**
** A write first claims the key (intent bit and map entry), so that no other
** writer and no compaction moves it; then the record goes to the log, above the
** key's committed address.
**
** COMMON    One lookup in the index, one in the map, one stay in the epoch: the
**           key is found and claimed, its old value, if needed, is in memory,
**           and the log has a slot.
** OUTSIDE   If something may wait, the epoch is left, and entered again only
**           for the record: an older entry of the map goes onto the undo stack,
**           which may be a file, or the old value is read from disk.  The key
**           stays claimed throughout, so the lookup's result remains valid.
** AGAIN     If the log has no slot, the row is retried after the wait.
*/
#include <string.h>

#include "engine/storage/kernel/row_write.h"
#include "engine/table/jobs/cold.h"
#include "engine/table/rows/rows.h"
#include "txn_row.h"

/* Maximum number of keys for which a partition of the map is sized: a small
** transaction after a large one may touch all partitions, and must take 2 MB,
** not 40. */
#define RESERVE_MAX 1024

/* put_row: the rest must be done outside the epoch. */
#define ROW_OUTSIDE (-16)

/* A key that the transaction has claimed. */
struct claim {
  uint64_t hash;
  struct entry *mine; /* in the map */
  uint64_t word;      /* in the map */
  uint64_t base;      /* the key's committed log address, 0 if none; it cannot
                         change while the key is claimed */
  uint64_t index;     /* the key's word in the index */
};

/* Sizes the map after the last transaction's, so that it does not grow step by
** step; within limits, because this transaction may be small. */
static void reserve_map(emb_session *s, uint64_t hash) {
  struct index *map = s->txn->map;
  struct index_part *part = index_part_of(map, hash);
  uint64_t keys = s->store->txn.keys / index_parts(map);
  if (keys && !atomic_load_explicit(&part->table, memory_order_relaxed)) {
    /* If memory runs out, the insert reports it. */
    index_reserve(map, (uint32_t)(part - map->parts),
                  keys < RESERVE_MAX ? keys : RESERVE_MAX);
  }
}

/* The address at which the session sees the key now, or 0. */
static uint64_t visible_address(const struct claim *c) {
  if (c->word & MAP_SAME) {
    return c->base;
  }
  return c->word & MAP_GONE ? 0 : word_address(c->word);
}

static int claim_held(emb_session *s, int64_t key) {
  return session_error(s, EMB_BUSY, "key %lld is held by another transaction",
                       (long long)key);
}

/* Sets the intent bit of a key that did not have it when looked up, and adds
** the key to the map. */
static int intend_key(emb_session *s, int64_t key, struct entry *entry,
                      struct claim *c) {
  if (!entry || (c->index & WORD_LATCH) ||
      !key_intend_found(entry, key, &c->index)) {
    int rc = key_intend(s->core, key, c->hash, &c->index);
    if (rc == KEY_INTENT) {
      return claim_held(s, key);
    }
    if (rc < 0) {
      return session_error(s, EMB_NOMEM, "out of memory");
    }
  }
  reserve_map(s, c->hash);
  struct index_new new = {
      .key = key, .hash = c->hash, .word = MAP_SAME, .is_absent = 1};
  int failed = index_insert(s->txn->map, &new);
  c->mine = new.entry;
  c->word = MAP_SAME;
  if (failed) {
    row_settle(s->core, key, c->hash, ROW_SAME, 0, NULL);
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  return EMB_OK;
}

/* Claims a key that is present or absent as `which` requires; *done: it is, and
** is claimed.  Inside an epoch. */
static int claim_key(emb_session *s, int64_t key, enum txn_which which,
                     struct claim *c, int *done) {
  int absent = which == PUT_ABSENT, rc = EMB_OK;
  *done = 0;
  struct entry *entry = session_find(s, key, c->hash, &c->index);
  int held = entry && (c->index & WORD_INTENT);
  c->mine = held ? index_find(s->txn->map, key, c->hash, &c->word) : NULL;
  if (!c->mine) {
    int there = entry && word_address(c->index) != 0;
    if (which != PUT_ANY && there == absent) {
      return EMB_OK; /* the key is not claimed */
    }
    rc = held ? claim_held(s, key) : intend_key(s, key, entry, c);
  }
  if (rc) {
    return rc;
  }
  /* A cached record's slot may belong to another key by now. */
  c->base = c->index & WORD_CACHED ? key_find_address(s->core, key, c->hash)
                                   : word_address(c->index);
  /* Another session may have added or deleted it before the claim. */
  *done = which == PUT_ANY || (visible_address(c) == 0) == absent;
  return EMB_OK;
}

/* ---- the value ----------------------------------------------------------- */

static void *old_copy(emb_session *s) {
  return s->scratch + s->core->layout.rec_bytes;
}

/* The value of a claimed key as the session sees it; NULL: the value is on
** disk.  Inside an epoch. */
static const void *value_in_memory(emb_session *s, const struct txn_row *row,
                                   struct claim *c) {
  struct core *core = s->core;
  uint64_t version;
  for (;;) {
    const struct rec *rec = c->word & MAP_SAME
                                ? key_rec(core, c->index & ~WORD_LATCH)
                                : log_rec(&core->log, word_address(c->word));
    if (!rec) {
      return row->loaded
                 ? loaded_value(s, row->loaded, row->at, visible_address(c))
                 : NULL;
    }
    if (rec_read(rec, row->key, old_copy(s), core->layout.value_bytes,
                 &version)) {
      return old_copy(s);
    }
    /* The record is cached, and its slot now belongs to another key. */
    index_find(&core->index, row->key, c->hash, &c->index);
  }
}

static int keep_one(emb_session *s, void *arg, uint32_t row, int64_t key,
                    const struct rec *rec) {
  (void)row;
  (void)key;
  memcpy(arg, rec->vector, s->core->layout.value_bytes);
  return EMB_OK;
}

/* As value_in_memory, but outside the epoch, and from disk if necessary. */
static int load_value(emb_session *s, const struct txn_row *row,
                      struct claim *c, const void **value) {
  for (;;) {
    uint32_t moved = 0;
    epoch_enter(&s->core->epoch, s->slot);
    index_find(&s->core->index, row->key, c->hash, &c->index);
    *value = value_in_memory(s, row, c);
    epoch_leave(s->slot);
    if (*value) {
      return EMB_OK;
    }
    s->cold[0] = (struct cold){visible_address(c), 0};
    struct cold_batch one = {
        .keys = &row->key, .n = 1, .use = keep_one, .arg = old_copy(s)};
    int rc = cold_read(s, &one, &moved);
    if (rc || !moved) {
      *value = old_copy(s);
      return rc;
    }
  }
}

int txn__needs_old(const emb_session *s, const struct row_change *change) {
  return change->kind != CHANGE_SET || change->parts ||
         value_is_wide(&s->core->layout);
}

/* Does the change read the claimed key's present value? */
static int reads_old_value(const struct txn_row *row, const struct claim *c) {
  return visible_address(c) && row->change->kind != CHANGE_COPY;
}

/* Computes the new value from the old one, in s->scratch.  row->done = 0: the
** key is absent, and the change does not add it. */
static int make_value(emb_session *s, struct txn_row *row,
                      const struct claim *c, const void *old) {
  row->found = visible_address(c) != 0;
  if (!row->found && (!value_adds(s, row->change) ||
                      !value_admits(s, row->change, row->key, row->times))) {
    row->done = 0;
    return EMB_OK;
  }
  const struct value_row says = {row->says, row->read, row->times, row->key,
                                 atomic_load(&s->core->version) + 1};
  return value_make(s, row->change, &says, old, s->scratch)
             ? EMB_OK
             : session_error(s, EMB_NONFINITE,
                             "key %lld: the updated vector is not finite",
                             (long long)row->key);
}

/* ---- writing ------------------------------------------------------------- */

/* Writes the value of a claimed key.  Inside an epoch. */
static int write_record(emb_session *s, int64_t key, const void *value,
                        const struct claim *c) {
  struct core *core = s->core;
  struct txn *txn = s->txn;
  uint64_t seen = visible_address(c), address;
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
  if (layout_begins_extent(&core->layout, address)) {
    core_wake(core); /* to prepare memory for the next extents */
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

/* Claims the key and writes its row.  ROW_OUTSIDE: the key is claimed, and
** put_outside must finish the row.  Inside an epoch. */
static int put_here(emb_session *s, struct txn_row *row, struct claim *c) {
  const void *value = s->scratch, *old = NULL;
  int rc = claim_key(s, row->key, row->which, c, &row->done);
  if (rc || !row->done) {
    return rc;
  }
  if (txn__must_remember(s->txn, c->word)) {
    return ROW_OUTSIDE;
  }
  if (!txn__needs_old(s, row->change)) {
    value = session_encode(s, row->says);
  } else {
    if (reads_old_value(row, c) && !(old = value_in_memory(s, row, c))) {
      return ROW_OUTSIDE;
    }
    rc = make_value(s, row, c, old);
  }
  return rc || !row->done ? rc : write_record(s, row->key, value, c);
}

/* Finishes a claimed key's row when that may wait.  The undo stack comes before
** the slot is filled: recovery would restore a record that is in the log but
** not in the map. */
static int put_outside(emb_session *s, struct txn_row *row, struct claim *c) {
  const void *value = s->scratch, *old = NULL;
  int rc = txn__remember(s, row->key, c->word);
  if (!rc && !txn__needs_old(s, row->change)) {
    value = session_encode(s, row->says);
  } else if (!rc) {
    rc = reads_old_value(row, c) ? load_value(s, row, c, &old) : EMB_OK;
    rc = rc ? rc : make_value(s, row, c, old);
  }
  if (rc || !row->done) {
    return rc;
  }
  epoch_enter(&s->core->epoch, s->slot);
  rc = write_record(s, row->key, value, c);
  epoch_leave(s->slot);
  return rc;
}

int txn__put_row(emb_session *s, struct txn_row *row) {
  for (;;) {
    struct claim c = {.hash = hash_key(row->key)};
    epoch_enter(&s->core->epoch, s->slot);
    int rc = put_here(s, row, &c);
    epoch_leave(s->slot);
    if (rc == ROW_OUTSIDE) {
      rc = put_outside(s, row, &c);
    }
    if (rc != LOG_ROOM) {
      return rc == EMB_FULL && !s->err.code ? session_no_address(s) : rc;
    }
    rc = session_wait_room(s);
    if (rc) {
      return rc;
    }
  }
}

int txn__delete_row(emb_session *s, int64_t key, uint8_t *found) {
  struct txn *txn = s->txn;
  struct claim c = {.hash = hash_key(key)};
  int there;
  epoch_enter(&s->core->epoch, s->slot);
  int rc = claim_key(s, key, PUT_PRESENT, &c, &there);
  epoch_leave(s->slot);
  *found = (uint8_t)there;
  rc = rc || !there ? rc : txn__remember(s, key, c.word);
  if (rc || !there) {
    return rc;
  }
  atomic_store_explicit(&c.mine->word, MAP_GONE | txn->era,
                        memory_order_release);
  txn->deletes = 1;
  txn->count_change--;
  return EMB_OK;
}

int txn__read_row(emb_session *s, int64_t key, void *value, int *found) {
  struct txn_row row = {.key = key};
  struct claim c = {.hash = hash_key(key)};
  const void *at;
  epoch_enter(&s->core->epoch, s->slot);
  int rc = claim_key(s, key, PUT_PRESENT, &c, found);
  epoch_leave(s->slot);
  rc = rc || !*found ? rc : load_value(s, &row, &c, &at);
  if (rc) {
    *found = 0;
  } else if (*found) {
    memcpy(value, at, s->core->layout.value_bytes);
  }
  return rc;
}
