/* SPDX-License-Identifier: MIT
**
** needs.h -- which calls need rows as they are, so that gradients that are
** pending for these rows are applied first.
**
** Each call of emb.h that is made of a session has its line here, so that a new
** one cannot be forgotten: without a line it does not compile.  api/calls.c
** asks before a call of this process, serve/run.c before one of another.  Calls
** that the engine makes itself ask for nothing: the caller that began it did.
**
**   NEEDS_NOTHING   it does not look at rows, or asks itself
**   NEEDS_KEYS      the rows of its keys, its second and third argument
**   NEEDS_VALUES    the same, if it asks for vectors or versions (fourth and
**                   sixth argument); else
**   NEEDS_PRESENCE  whether they are there: those that are not, and may appear
**   NEEDS_ONE       the row whose key is its second argument
**   NEEDS_TWO       the same of its second and third
**   NEEDS_ALL       all rows
**   NEEDS_WRITTEN   all rows, if the session's transaction has written
*/
#ifndef EMB_BANK_NEEDS_H
#define EMB_BANK_NEEDS_H

#include "engine/table/session/session.h"

enum bank_needs {
  NEEDS_NOTHING = 0,
  NEEDS_KEYS,
  NEEDS_VALUES,
  NEEDS_PRESENCE,
  NEEDS_ONE,
  NEEDS_TWO,
  NEEDS_ALL,
  NEEDS_WRITTEN,
};

enum {
  /* rows by key */
  NEEDS_OF_get = NEEDS_VALUES,
  NEEDS_OF_peek = NEEDS_VALUES,
  NEEDS_OF_exists = NEEDS_PRESENCE,
  NEEDS_OF_lookup = NEEDS_KEYS,
  NEEDS_OF_tracks = NEEDS_KEYS,
  NEEDS_OF_put = NEEDS_KEYS, /* the optimizers' state stays */
  NEEDS_OF_put_parts = NEEDS_KEYS,
  NEEDS_OF_rmw = NEEDS_KEYS,
  NEEDS_OF_delete = NEEDS_KEYS, /* so that none comes back by a late step */
  NEEDS_OF_apply_gradients = NEEDS_NOTHING, /* gradients.c */
  NEEDS_OF_bag = NEEDS_KEYS,
  NEEDS_OF_bag_apply = NEEDS_NOTHING, /* gradients.c */
  NEEDS_OF_prefetch = NEEDS_KEYS,     /* as of its beginning */
  NEEDS_OF_write_back = NEEDS_KEYS,
  NEEDS_OF_lookahead = NEEDS_NOTHING, /* where records are, not what */
  NEEDS_OF_lookahead_progress = NEEDS_NOTHING,
  NEEDS_OF_lookahead_wait = NEEDS_NOTHING,
  NEEDS_OF_clocks = NEEDS_NOTHING,
  NEEDS_OF_flush_gradients = NEEDS_NOTHING, /* task.c, as the next */
  NEEDS_OF_pending = NEEDS_NOTHING,

  /* transactions */
  NEEDS_OF_begin = NEEDS_NOTHING,
  NEEDS_OF_txn_put = NEEDS_KEYS,
  NEEDS_OF_txn_put_parts = NEEDS_KEYS,
  NEEDS_OF_txn_put_if = NEEDS_ONE,
  NEEDS_OF_txn_apply_gradients = NEEDS_KEYS,
  NEEDS_OF_txn_move = NEEDS_TWO,
  NEEDS_OF_txn_delete = NEEDS_KEYS,
  NEEDS_OF_savepoint = NEEDS_NOTHING,
  NEEDS_OF_rollback_to = NEEDS_NOTHING,
  NEEDS_OF_savepoint_release = NEEDS_NOTHING,
  NEEDS_OF_prepare = NEEDS_WRITTEN, /* it makes durable what was before it */

  /* all rows */
  NEEDS_OF_scan_open = NEEDS_ALL,
  NEEDS_OF_nearest = NEEDS_ALL,
  NEEDS_OF_sample = NEEDS_NOTHING, /* sample.c asks for those it draws */
  NEEDS_OF_snapshot = NEEDS_ALL,
  NEEDS_OF_snapshot_drop = NEEDS_NOTHING,
  NEEDS_OF_snapshots = NEEDS_NOTHING,
  NEEDS_OF_snapshot_open = NEEDS_NOTHING,
  NEEDS_OF_snapshot_export = NEEDS_NOTHING, /* of a snapshot that is there */
  NEEDS_OF_snapshot_restore = NEEDS_ALL,
  NEEDS_OF_snapshot_restore_keys = NEEDS_ALL,
  NEEDS_OF_delta_open = NEEDS_ALL,
  NEEDS_OF_delta_export = NEEDS_ALL,
  NEEDS_OF_delta_apply = NEEDS_ALL,
  NEEDS_OF_delta_begin = NEEDS_ALL, /* what comes later is in its delta */
  NEEDS_OF_delta_ack = NEEDS_NOTHING,
  NEEDS_OF_delta_position = NEEDS_NOTHING,
  NEEDS_OF_delta_drop = NEEDS_NOTHING,
  NEEDS_OF_delta_consumers = NEEDS_NOTHING,
  NEEDS_OF_expire = NEEDS_ALL, /* a gradient makes a row younger */
  NEEDS_OF_evict = NEEDS_ALL,
  NEEDS_OF_evicted = NEEDS_NOTHING,
  NEEDS_OF_checkpoint = NEEDS_ALL,
  NEEDS_OF_optimize = NEEDS_ALL,
  NEEDS_OF_backup_begin = NEEDS_ALL,

  /* the store */
  NEEDS_OF_own = NEEDS_NOTHING,
  NEEDS_OF_set_memory = NEEDS_NOTHING,
  NEEDS_OF_warm = NEEDS_NOTHING,
  NEEDS_OF_verify = NEEDS_NOTHING,
};

/* The arguments of a call that needs may depend on, 0 where there is none. */
struct bank_call {
  uintptr_t second, third, fourth, sixth;
};
int bank_apply_pending(emb_session *s, int needs, const struct bank_call *call);
/* A call begins.  On a store that does not average one predicted branch. */
static inline int bank_enter(emb_session *s, int needs,
                             const struct bank_call *call) {
  return __builtin_expect(s->store->averages, 0) && needs
             ? bank_apply_pending(s, needs, call)
             : EMB_OK;
}

#endif
