/* SPDX-License-Identifier: MIT
**
** row_write.h -- the only code that changes a row.
**
** A record is changed in place only under its key's latch, in the mutable part
** of the log; every other change fills a slot above the old address and points
** the key's word there.  Each function below ends one such change: it updates
** the live counts and the number of keys, and calls the observers (observe.h).
**
**   put, gradient    in place                   row_changed_here
**                    to a new slot              row_slot, fill, row_publish
**                    a new key                  row_insert
**   transaction      each write                 row_slot, fill, row_filled
**                    its end                    row_settle
**   delete, expiry, eviction                    tomb_write, row_remove
**   compaction                                  row_slot, fill, row_move
**   open, refresh    a row of the checkpoint    row_load
**   recovery         a record, a deletion       row_replay, row_replay_removal
**   open, refresh, recovery: before they begin  rows_reset
**
** Restoring a snapshot and applying a delta are transactions.
**
** INVARIANT K1  A key's log address only grows.  So of all committed records
**               of a key, the one at the highest address is the latest, both
**               in memory and after recovery.  A session that holds a slot
**               below the present address takes another slot (row_slot).
**           K3  Live counts and the number of keys change here only.
**           K4  A slot that was filled but not published is unfilled again.
** THREADS   Inside an epoch, with the key's latch held if an entry is passed.
**           Loading and recovery have the core to themselves, without latches.
** FAILURE   Only functions that take a slot or add a key can fail; then nothing
**           has changed, and the latch is still held.
*/
#ifndef EMB_KERNEL_ROW_WRITE_H
#define EMB_KERNEL_ROW_WRITE_H

#include "core.h"

/* Results of writing one row, besides EMB_OK and errors. */
enum {
  ROW_ROOM = LOG_ROOM, /* no slot: leave the epoch, wait, and retry */
  ROW_HELD = -3,       /* a transaction has the key; or (row_insert) a row was
                          deleted during the call, and the next slot may do */
  ROW_COLD = -4,       /* the old record is needed, but is on disk */
};

/* ---- slots --------------------------------------------------------------- */

/* Takes more slots from the log, then does the same as row_slot. */
int row__slot(struct core *core, struct log_run *run, uint32_t want,
              uint64_t above, uint64_t *address);

/* Takes the next slot of a run above address `above`; a run lasts for one stay
** in the epoch.  want: how many more will be needed.  ROW_ROOM, EMB_FULL: the
** log has no addresses left. */
static inline int row_slot(struct core *core, struct log_run *run,
                           uint32_t want, uint64_t above, uint64_t *address) {
  if (run->left) {
    *address = layout_address(&core->layout, run->page, run->slot);
    run->slot++;
    run->left--;
    if (*address > above) {
      return EMB_OK;
    } /* overtaken by another session: this slot stays empty */
  }
  return row__slot(core, run, want, above, address);
}

/* Returns the last address at which there may be a tombstone: rows that are
** added, or belong to a transaction, must be above it. */
static inline uint64_t row_tombs_end(struct core *core) {
  return layout_address(&core->layout, atomic_load(&core->log.last_tomb) + 1,
                        0) -
         1;
}

/* Notes when the record in a filled slot, which is or may become the key's
** record, is due.  Call in the same stay in the epoch as the fill, before
** readers can find the slot. */
static inline void row_filled(struct core *core, int64_t key, uint64_t address,
                              const void *value) {
  if (ttl_any(&core->schema.ttl)) {
    log_due(&core->log, address, schema_due(&core->schema, key, value));
  }
}

/* ---- changes ------------------------------------------------------------- */

void row__notify_here(struct core *core, int64_t key, uint64_t word,
                      const struct rec *rec, enum row_cause cause);

/* Ends a change in place of the latched key's record; unlatches the key with
** this word. */
static inline void row_changed_here(struct core *core, int64_t key,
                                    struct entry *entry, uint64_t word,
                                    const struct rec *rec,
                                    enum row_cause cause) {
  if (__builtin_expect(observers_of_all(&core->observers) != 0, 0)) {
    row__notify_here(core, key, word, rec, cause);
  }
  key_unlatch(entry, word);
}

/* Points the latched key at the filled record at this higher log address, and
** unlatches it. */
void row_publish(struct core *core, int64_t key, struct entry *entry,
                 uint64_t word, uint64_t address, enum row_cause cause);
struct row_new {
  int64_t key;
  uint64_t hash;
  const void *value; /* in stored form */
  uint64_t version;
};
/* Adds a key that was absent a moment ago.  INDEX_EXISTS: it exists by now;
** ROW_HELD, EMB_NOMEM (without a text); otherwise as row_slot. */
int row_insert(struct core *core, struct log_run *run, uint32_t want,
               const struct row_new *row);
/* Removes the latched key, whose tombstone was written.  cause: ROW_REMOVED,
** ROW_EXPIRED or ROW_EVICTED. */
void row_remove(struct core *core, int64_t key, uint64_t hash,
                struct entry *entry, uint64_t word, enum row_cause cause);
/* Ends a transaction's claim: the key is now at `address`, is removed
** (ROW_GONE), or is unchanged (ROW_SAME).  give: number of Gets of its session
** that end with the claim. */
#define ROW_GONE UINT64_MAX
#define ROW_SAME 0
void row_settle(struct core *core, int64_t key, uint64_t hash, uint64_t address,
                uint32_t give, const void *session);
/* Compaction: moves a record from one log address to another, where there is a
** copy, whatever the tier.  0: the key has moved or is claimed, and the copy
** was unfilled. */
int row_move(struct core *core, int64_t key, uint64_t hash, uint64_t from,
             uint64_t to);

/* ---- loading ------------------------------------------------------------- */

/* Empties index, cache and log; the caller is alone. */
void rows_reset(struct core *core);
/* Adds a row of a checkpoint; live counts and the number of keys are computed
** when all rows are loaded (ckpt/dump.c).  EMB_NOMEM, INDEX_EXISTS. */
int row_load(struct core *core, int64_t key, uint64_t address);
/* Applies a committed record of the log if it is above the key's present
** record.  EMB_NOMEM. */
int row_replay(struct core *core, const struct rec *rec, uint64_t address);
/* As above, for a deletion. */
void row_replay_removal(struct core *core, int64_t key, uint64_t address);

#endif
