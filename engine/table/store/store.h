/* SPDX-License-Identifier: MIT
**
** store.h -- the object behind emb.h's emb_store; session.h has the other, a
** user of it.  README.md lists the files of the folder.
*/
#ifndef EMB_STORE_H
#define EMB_STORE_H

#include "engine/storage/ckpt/checkpoint.h"
#include "engine/storage/kernel/core.h"
#include "engine/storage/kernel/watch.h"
#include "engine/storage/consumer/consumer.h"
#include "engine/emb.h"
#include "calls.h"
#include "feature.h"
#include "engine/base/process/tune.h"

struct job;
struct worker;
struct rmw_ask; /* rows/rmw.h */
struct server;  /* remote/serve/ */

struct jobs { /* job.h */
  pthread_mutex_t lock;
  pthread_cond_t ended;
  struct job *first;                          /* lock */
  struct worker *workers[EMB_IO_WORKERS_MAX]; /* lock */
  int stopping;                               /* lock */
  struct tune tune;
  pthread_mutex_t step_lock;
  emb_session *step_session; /* step_lock */
};

/* It was not opened for writing, or the files do not let this process write. */
enum store_readonly { STORE_WRITES, STORE_ONLY_READS, STORE_CANNOT_WRITE };

struct emb_store {
  struct core core;
  struct env_lock *lock; /* held while this process owns the store */
  struct emb_config config;
  uint64_t identity[2]; /* device and inode of the directory */
  int64_t process;      /* that opened it; a child after fork has another */
  struct emb_store *next;
  int references; /* registry lock */
  _Atomic int sessions;
  _Atomic uint64_t session_last; /* numbers given out, to workers' too */
  pthread_mutex_t session_lock;
  struct emb_session *session_list; /* session_lock: also the workers' */
  _Atomic int scans; /* open ones: a reader is not refreshed under them */
  _Atomic int snaps; /* open snapshots */
  _Atomic int
      tickets;     /* prefetches and write-backs under way in this process */
  int holders;     /* of a reader's checkpoint (hold.c); own_lock */
  uint64_t locked; /* its index file + 1, 0: none; own_lock */
  /* 1 owner, 0 reader at a checkpoint; changed under own_lock. */
  _Atomic int owner;
  _Atomic int readonly; /* enum store_readonly */
  pthread_mutex_t own_lock;
  pthread_mutex_t budget_lock; /* held while the budget changes */
  /* The owner has recovered, and there was no space for the checkpoint that
  ** must come before the first write; changed under own_lock. */
  _Atomic int owed;

  /* One transaction at a time, and one file that the store takes: a restore or
  ** a delta, from its transaction to the last word about it in the chain and
  ** the position.  The latter is taken first. */
  pthread_mutex_t txn_lock;
  struct emb_session *txn_owner;  /* txn_lock */
  struct emb_session *file_owner; /* txn_lock */
  uint64_t abort_owed; /* number whose abort page is missing; its owner's */
  /* A commit moves its keys, or a scan begins: not both at once. */
  pthread_mutex_t settle_lock;
  /* Of the open transaction from its first write until its keys have moved:
  ** number and lowest address; 0 if none.  settle_lock. */
  uint64_t txn_number;
  uint64_t txn_start;
  /* From a transaction's prepare to its end its number, else 0: written by its
  ** session, read by those that wait for a lease. */
  _Atomic uint64_t txn_undecided;
  _Atomic int leases_of_rows; /* sessions of which that is true; the same */
  uint64_t txn_version;       /* of the store then: its rows have higher ones */
  struct index
      txn_map;       /* of the open transaction: key to new address (txn.h) */
  uint64_t txn_keys; /* that the last one had in it; its owner's */
  struct jobs jobs;
  struct epoch_slot *flush_slot; /* LANE_FLUSH */
  struct epoch_slot *work_slot;  /* ckpt_lock */
  struct checkpoint checkpoint;  /* ckpt_lock */
  struct consumers consumers;    /* of deltas */
  struct tasks tasks;            /* in the background */
  /* At the end of a call that wrote: removes some rows if there are too many
  ** (retention/forget.c). */
  void (*forget)(emb_session *);
  int averages; /* there are; set before the first session */
  /* What emb_apply_gradients does where there are (bank/gradients.c). */
  int (*average)(emb_session *, const struct rmw_ask *);
  struct recovery *doubt;        /* own_lock: of the transaction in doubt */
  _Atomic uint64_t in_doubt;     /* its number */
  _Atomic uint64_t refreshed_us; /* when a reader last looked for a newer one */
  _Atomic int look;              /* emb_look: that was too long ago */
  /* What is loaded is the last checkpoint of an owner that has died, and this
  ** process may not recover more. */
  _Atomic int unrecovered;
  /* Nothing is loaded, because that failed half way or another process serves
  ** this one: no read may take keys for absent.  Written under own_lock. */
  _Atomic int unloaded;
  /* Its files have no names any more (emb_drop): nothing is written, and
  ** closing it only frees.  Set under the registry's lock, own_lock and
  ** ckpt_lock. */
  _Atomic int dropped;
  int drop_owed; /* emb_drop could not take them then; the registry's lock */
  /* Of checkpoints: begun, and ended in whatever way; written under own_lock.
   */
  _Atomic uint64_t loads, loaded;
  /* Other processes (serve/).  is_alone: they are not looked for. */
  int is_alone;
  struct server *server;      /* of an owner; own_lock, before `owner` */
  uint32_t owner_since;       /* seconds since 1970; as `server` */
  emb_err not_served;         /* why there is none; own_lock */
  void (*serve)(emb_store *); /* what becomes the owner serves */
  void (*tell)(emb_store *);  /* clients: in_doubt or dropped has changed */
  size_t (*clients)(emb_store *, emb_client *, size_t); /* emb_clients */
  int closed_in_peace; /* what was acknowledged is durable */
  _Atomic int served;  /* sessions that are linked to the owner, */
  _Atomic int linked;  /* but for the store's own */
  /* serve/control.h. */
  pthread_mutex_t control_lock;
  struct emb_session *control;  /* control_lock: that is kept */
  _Atomic unsigned control_age; /* how often other sessions lost a link */
  /* When the kept one asked last, 0: it has no link; relaxed. */
  _Atomic uint64_t control_us;
  _Atomic int64_t control_owner; /* that one of them saw last; relaxed, so is */
  _Atomic int control_is_near;
  /* Any thread puts one in front; read by any, until the store is closed. */
  struct stat_text *_Atomic stat_texts; /* serve/stat_text.h */
  struct emb_session *orphan; /* own_lock: its client has gone (serve/) */
  struct env_file *manifest;  /* to look at; own_lock */
  uint64_t newest_seen;       /* generation of it; own_lock */
  int may_not_lock;           /* the lock file is another user's; own_lock */
  int replayed; /* the log was read beyond the checkpoint; own_lock */
  /* What each feature keeps (feature.h); the pointers never change. */
  void *features[FEATURE_COUNT];
};

/* ---- store.c ------------------------------------------------------------ */

/* EMB_MISUSE in a child after fork(), which must not use the store. */
int store_check(const emb_store *store, emb_err *err);

/* ---- store_valid.c, for emb_assert and emb_check ------------------------- */

/* Its sessions are closed and its threads have ended. */
int store_valid(const emb_store *store);

#endif
