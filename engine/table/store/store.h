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

/* Of the process's open stores; the registry's lock. */
struct store_registered {
  struct emb_store *next;
  int references;
  uint64_t identity[2]; /* device and inode of the directory */
  int drop_owed;        /* emb_drop could not take the files then */
};

struct store_sessions {
  pthread_mutex_t lock;
  struct emb_session *list; /* lock: also the workers' */
  _Atomic int count;        /* without these */
  _Atomic uint64_t last;    /* numbers given out, to workers' too */
  _Atomic int scans;        /* open: a reader is not refreshed under them */
  _Atomic int snaps;        /* open snapshots */
  _Atomic int tickets;      /* prefetches and write-backs under way here */
};

/* Whether this process owns the store, and else which checkpoint it reads; all
** but the atomic ones under the lock, and these are changed under it. */
struct store_own {
  pthread_mutex_t lock;
  struct env_lock *file; /* held while this process owns the store */
  _Atomic int is_owner;  /* 0: reader at a checkpoint */
  _Atomic int readonly;  /* enum store_readonly */
  int may_not_lock;      /* the lock file is another user's */
  /* The owner has recovered, and there was no space for the checkpoint that
  ** must come before the first write. */
  _Atomic int owed;
  struct recovery *doubt;    /* of the transaction in doubt */
  _Atomic uint64_t in_doubt; /* its number */
  int replayed;              /* the log was read beyond the checkpoint */
  /* What is loaded is the last checkpoint of an owner that has died, and this
  ** process may not recover more. */
  _Atomic int unrecovered;
  /* Nothing is loaded, because that failed half way or another process serves
  ** this one: no read may take keys for absent. */
  _Atomic int unloaded;
  _Atomic uint64_t loads, loaded; /* begun, and ended in whatever way */
  /* Of a reader. */
  int holders;                   /* of its checkpoint (hold.c) */
  uint64_t locked;               /* its index file + 1, 0: none */
  struct env_file *manifest;     /* to look at */
  uint64_t newest_seen;          /* generation of it */
  _Atomic uint64_t refreshed_us; /* when it last looked for a newer one */
  _Atomic int look;              /* emb_look: that was too long ago */
};

/* One transaction at a time, and one file that the store takes: a restore or a
** delta, from its transaction to the last word about it in the chain and the
** position.  The latter is taken first. */
struct store_txn {
  pthread_mutex_t lock;
  struct emb_session *owner;      /* lock */
  struct emb_session *file_owner; /* lock */
  /* From a transaction's prepare to its end its number, else 0: written by its
  ** session, read by those that wait for a lease. */
  _Atomic uint64_t undecided;
  _Atomic int leases_of_rows; /* sessions of which that is true; the same */
  uint64_t abort_owed; /* number whose abort page is missing; the owner's, as */
  uint64_t keys;       /* that the last one had in the map */
};

/* The open transaction. */
struct store_open_txn {
  /* A commit moves its keys, or a scan begins: not both at once. */
  pthread_mutex_t lock;
  /* From its first write until its keys have moved; 0 if none.  lock. */
  uint64_t number;
  uint64_t start;   /* lowest address */
  uint64_t version; /* of the store then: its rows have higher ones */
  struct index map; /* key to new address (txn.h) */
};

/* Other processes (remote/serve/). */
struct store_remote {
  int is_alone; /* they are not looked for */
  struct server
      *server;          /* of an owner; own.lock, before own.is_owner; so are */
  uint32_t owner_since; /* seconds since 1970 */
  emb_err not_served;   /* why there is none */
  struct emb_session *orphan; /* its client has gone */
  int closed_in_peace;        /* what was acknowledged is durable */
  _Atomic int served, linked; /* sessions that are, but for the store's own */
  void (*serve)(emb_store *); /* what becomes the owner serves */
  void (*tell)(emb_store *);  /* clients: in_doubt or dropped has changed */
  size_t (*clients)(emb_store *, emb_client *, size_t); /* emb_clients */
  /* Any thread puts one in front; read by any, until the store is closed. */
  struct stat_text *_Atomic stat_texts; /* stat_text.h */
};

struct store_control { /* serve/control.h */
  pthread_mutex_t lock;
  struct emb_session *session; /* lock: that is kept */
  _Atomic unsigned age;        /* how often other sessions lost a link */
  /* Relaxed: when the kept one asked last, 0: it has no link; */
  _Atomic uint64_t us;
  _Atomic int64_t owner; /* that one of them saw last */
  _Atomic int is_near;
};

struct emb_store {
  struct core core;
  struct emb_config config;
  int64_t process; /* that opened it; a child after fork has another */
  struct store_registered registered;
  struct store_own own;
  struct store_sessions sessions;
  struct store_txn txn;
  struct store_open_txn open_txn;
  struct store_remote remote;
  struct store_control control;
  struct jobs jobs;
  pthread_mutex_t budget_lock;   /* held while the budget changes */
  struct checkpoint checkpoint;  /* ckpt_lock */
  struct epoch_slot *work_slot;  /* ckpt_lock */
  struct epoch_slot *flush_slot; /* LANE_FLUSH */
  struct tasks tasks;            /* in the background */
  struct consumers consumers;    /* of deltas */
  /* At the end of a call that wrote: removes some rows if there are too many
  ** (retention/forget.c). */
  void (*forget)(emb_session *);
  /* What emb_apply_gradients does where gradients are averaged
  ** (bank/gradients.c), else NULL; set before the first session. */
  int (*average)(emb_session *, const struct rmw_ask *);
  /* Its files have no names any more (emb_drop): nothing is written, and
  ** closing it only frees.  Set under the registry's lock, own.lock and
  ** ckpt_lock. */
  _Atomic int dropped;
  /* What each feature keeps (feature.h); the pointers never change. */
  void *features[FEATURE_COUNT];
};

/* ---- store.c ------------------------------------------------------------- */

/* EMB_MISUSE in a child after fork(), which must not use the store. */
int store_check(const emb_store *store, emb_err *err);

/* ---- store_valid.c, for emb_assert and emb_check ------------------------- */

/* Its sessions are closed and its threads have ended. */
int store_valid(const emb_store *store);

#endif
