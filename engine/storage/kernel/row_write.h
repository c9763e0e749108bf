/* SPDX-License-Identifier: MIT
**
** row_write.h -- the only way in which a row changes.
**
** A record is never changed but where it is, under its key's latch, in the
** mutable part of the log; every other change fills a slot above the old
** address and points the key's word there.  Each function below ends one such
** change: it counts what is live and how many keys there are, and calls the
** observers (observe.h).
**
**   put, gradient    in place                   row_changed_here
**                    elsewhere                  row_slot, fill, row_publish
**                    a key that is not there    row_insert
**   transaction      each write                 row_slot, fill, row_filled
**                    its end                    row_settle
**   delete, expiry, eviction                    tomb_write, row_remove
**   compaction                                  row_slot, fill, row_move
**   open, refresh    a row of the checkpoint    row_load
**   recovery         a record, a deletion       row_replay, row_replay_removal
**   all of these     before                     rows_reset
**
** A restore and a delta that is applied are transactions.
**
** INVARIANT K1  A key's log address only grows.  So of all committed records
**               of a key, the one at the highest address is the latest, in
**               memory and after recovery alike.  A session that holds a slot
**               below the present address takes another (row_slot).
**           K3  Live counts and the number of keys change here only.
**           K4  A slot that was filled and not published is unfilled again.
** THREADS   Inside an epoch, with the key's latch held where an entry is given.
**           Loading and recovery are alone with the core, without latches.
** FAILURE   Only what takes a slot or adds a key can fail; then nothing has
**           changed, and the latch is still held.
*/
#ifndef EMB_KERNEL_ROW_WRITE_H
#define EMB_KERNEL_ROW_WRITE_H

#include "core.h"

/* What a write of one row comes to besides EMB_OK and errors. */
enum {
  ROW_ROOM = LOG_ROOM, /* no slot: leave the epoch, wait, and try again */
  ROW_HELD = -3,       /* a transaction has the key; or (row_insert) something
                          was deleted meanwhile, and the next slot may do */
  ROW_COLD = -4,       /* the old record is needed, and on disk */
};

/* ---- slots --------------------------------------------------------------- */

/* Takes more slots from the log, then as row_slot. */
int row__slot(struct core *core, struct log_run *run, uint32_t want,
              uint64_t above, uint64_t *address);

/* The next slot of a run, which lasts for one stay in the epoch, above address
** `above`; want: how many more will be needed.  ROW_ROOM, EMB_FULL: the log has
** no more addresses. */
static inline int row_slot(struct core *core, struct log_run *run,
                           uint32_t want, uint64_t above, uint64_t *address) {
  if (run->left) {
    *address = layout_address(&core->layout, run->page, run->slot);
    run->slot++;
    run->left--;
    if (*address > above) {
      return EMB_OK;
    } /* another session overtook: this slot stays empty */
  }
  return row__slot(core, run, want, above, address);
}

/* The last address at which a tombstone may stand: what is added, or belongs to
** a transaction, comes above. */
static inline uint64_t row_tombs_end(struct core *core) {
  return layout_address(&core->layout, atomic_load(&core->log.last_tomb) + 1,
                        0) -
         1;
}

/* A slot was filled that is, or may become, the record of the key: in the pass
** in which it is, before it can be found. */
static inline void row_filled(struct core *core, int64_t key, uint64_t address,
                              const void *value) {
  if (ttl_any(&core->schema.ttl)) {
    log_due(&core->log, address, schema_due(&core->schema, key, value));
  }
}

/* ---- changes ------------------------------------------------------------- */

void row__notify_here(struct core *core, int64_t key, uint64_t word,
                      const struct rec *rec, enum row_cause cause);

/* The latched key's record was changed where it is; unlatches it with this
** word. */
static inline void row_changed_here(struct core *core, int64_t key,
                                    struct entry *entry, uint64_t word,
                                    const struct rec *rec,
                                    enum row_cause cause) {
  if (__builtin_expect(observers_of_all(&core->observers) != 0, 0)) {
    row__notify_here(core, key, word, rec, cause);
  }
  key_unlatch(entry, word);
}

/* The latched key's record is the one at this higher log address, which was
** filled; unlatches it. */
void row_publish(struct core *core, int64_t key, struct entry *entry,
                 uint64_t word, uint64_t address, enum row_cause cause);
struct row_new {
  int64_t key;
  uint64_t hash;
  const void *value; /* as it is stored */
  uint64_t version;
};
/* Adds a key that was not there a moment ago.  INDEX_EXISTS: it is there by
** now; ROW_HELD, EMB_NOMEM (without a text); else as row_slot. */
int row_insert(struct core *core, struct log_run *run, uint32_t want,
               const struct row_new *row);
/* The latched key, whose tombstone was written, is removed. */
void row_remove(struct core *core, int64_t key, uint64_t hash,
                struct entry *entry, uint64_t word);
/* Ends a transaction's claim: the key is at `address`, is removed (ROW_GONE),
** or is as it was before (ROW_SAME).  give: so many Gets of its session end
** with it. */
#define ROW_GONE UINT64_MAX
#define ROW_SAME 0
void row_settle(struct core *core, int64_t key, uint64_t hash, uint64_t address,
                uint32_t give, const void *session);
/* Compaction: from one log address to another, where a copy is, whatever the
** tier.  0: the key has moved or is claimed, and the copy was unfilled. */
int row_move(struct core *core, int64_t key, uint64_t hash, uint64_t from,
             uint64_t to);

/* ---- loading ------------------------------------------------------------- */

/* Index, cache and log are emptied; the caller is alone. */
void rows_reset(struct core *core);
/* A row as a checkpoint has it; live counts and the number of keys are made
** when all are there (ckpt/dump.c).  EMB_NOMEM, INDEX_EXISTS. */
int row_load(struct core *core, int64_t key, uint64_t address);
/* A committed record of the log, which counts if it is above what the key has.
** EMB_NOMEM. */
int row_replay(struct core *core, const struct rec *rec, uint64_t address);
/* The same of a deletion. */
void row_replay_removal(struct core *core, int64_t key, uint64_t address);

#endif
