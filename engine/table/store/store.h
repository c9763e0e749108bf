/* SPDX-License-Identifier: MIT
**
** store.h -- the object behind emb.h's emb_store; session.h has the other
** object, a user of a store.  README.md lists the files of the folder.
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

/* Not opened for writing, or the files do not let this process write. */
enum store_readonly { STORE_WRITES, STORE_ONLY_READS, STORE_CANNOT_WRITE };

/* Entry in the process's list of open stores; the registry's lock. */
struct store_registered {
  struct emb_store *next;
  int references;
  uint64_t identity[2]; /* device and inode of the directory */
  int drop_owed;        /* emb_drop could not remove the files yet */
};

struct store_sessions {
  pthread_mutex_t lock;
  struct emb_session *list; /* lock; includes the workers' */
  _Atomic int count;        /* without the workers' */
  _Atomic uint64_t last;    /* last number given out, also to workers' */
  _Atomic int scans;        /* open: a reader is not refreshed during scans */
  _Atomic int snaps;        /* open snapshots */
  _Atomic int tickets;      /* prefetches and write-backs under way here */
};

/* Whether this process owns the store, and if not, which checkpoint it reads.
** All fields except the atomic ones are read and written under the lock; the
** atomic ones are written under it. */
struct store_own {
  pthread_mutex_t lock;
  struct env_lock *file; /* held while this process owns the store */
  _Atomic int is_owner;  /* 0: reader at a checkpoint */
  _Atomic int readonly;  /* enum store_readonly */
  int may_not_lock;      /* the lock file is another user's */
  int is_log_held;       /* own.lock: another process has only the log's lock */
  /* The owner has recovered, but lacked the space for the checkpoint that must
  ** precede the first write. */
  _Atomic int owed;
  struct recovery *doubt;    /* of the transaction in doubt */
  _Atomic uint64_t in_doubt; /* its number */
  int replayed;              /* the log was replayed beyond the checkpoint */
  /* The loaded state is the last checkpoint of an owner that died, and this
  ** process is not allowed to recover more. */
  _Atomic int unrecovered;
  /* Nothing is loaded, because loading failed half way or another process
  ** serves this one: no read may report a key as absent. */
  _Atomic int unloaded;
  _Atomic uint64_t loads, loaded; /* begun, and ended, also in failure */
  /* For a reader: */
  int holders;                   /* holds of its checkpoint (hold.c) */
  uint64_t locked;               /* generation of its index file + 1, 0: none */
  struct env_file *manifest;     /* open for looking at */
  uint64_t newest_seen;          /* newest generation read from it */
  _Atomic uint64_t refreshed_us; /* when it last looked for a newer one */
  _Atomic int look;              /* emb_look: look again, even if recent */
};

/* One transaction at a time, and one file being applied: a restore or a delta,
** from its transaction to its last entry in the chain and the position.
** file_owner is taken first. */
struct store_txn {
  pthread_mutex_t lock;
  struct emb_session *owner;      /* lock */
  struct emb_session *file_owner; /* lock */
  /* The number of a transaction from its prepare to its end, else 0: written by
  ** its session, read by sessions that wait for a lease. */
  _Atomic uint64_t undecided;
  _Atomic int leases_of_rows; /* sessions with leases.of_rows; read likewise */
  uint64_t abort_owed; /* transaction without its abort page; for `owner` */
  uint64_t keys;       /* in the last transaction's map; for `owner` */
};

/* The open transaction. */
struct store_open_txn {
  /* A commit moves its keys, or a scan begins: never both at once. */
  pthread_mutex_t lock;
  /* Number from its first write until its keys have moved; 0 if none.  lock. */
  uint64_t number;
  uint64_t start;   /* its lowest address */
  uint64_t version; /* the store's then: its rows have higher ones */
  struct index map; /* key to new address (txn_map.h) */
};

/* Other processes (remote/serve/). */
struct store_remote {
  int is_alone;               /* other processes are not looked for */
  struct server *server;      /* an owner's; own.lock, before own.is_owner */
  uint32_t owner_since;       /* likewise; seconds since 1970 */
  emb_err not_served;         /* why there is no server */
  struct emb_session *orphan; /* its client has gone */
  int closed_in_peace;        /* all acknowledged writes are durable */
  _Atomic int links;          /* this process's, to the owner */
  _Atomic int session_links;  /* of these, without the control session's */
  void (*serve)(emb_store *); /* a new owner serves other processes */
  void (*tell)(emb_store *);  /* its clients: in_doubt or dropped has changed */
  size_t (*clients)(emb_store *, emb_client *, size_t); /* emb_clients */
  /* Any thread adds to the front, and reads, until the store is closed. */
  struct stat_text *_Atomic stat_texts; /* stat_text.h */
};

struct store_control { /* serve/control.h */
  pthread_mutex_t lock;
  struct emb_session *session; /* lock; the kept one */
  _Atomic unsigned age;        /* how often other sessions lost a link */
  /* Relaxed: when the kept session last asked, 0: it has no link; */
  _Atomic uint64_t us;
  _Atomic int64_t owner; /* as last seen by one of these sessions */
  _Atomic int is_near;
};

struct emb_store {
  struct core core;
  struct emb_config config;
  int64_t process; /* the opener; a child after fork has another */
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
  struct tasks tasks;            /* background tasks */
  struct consumers consumers;    /* of deltas */
  /* Called at the end of a call that wrote: removes some rows if there are too
  ** many (retention/forget.c). */
  void (*forget)(emb_session *);
  /* Does the work of emb_apply_gradients if gradients are averaged
  ** (bank/gradients.c), else NULL; set before the first session. */
  int (*average)(emb_session *, const struct rmw_ask *);
  /* The store's files have been unlinked (emb_drop): nothing is written, and
  ** closing the store only frees memory.  Set under the registry's lock,
  ** own.lock and ckpt_lock. */
  _Atomic int dropped;
  /* Each feature's state (feature.h); the pointers never change. */
  void *features[FEATURE_COUNT];
};

/* ---- store.c ------------------------------------------------------------- */

/* EMB_MISUSE in a child after fork(), which must not use the store. */
int store_check(const emb_store *store, emb_err *err);

/* ---- store_valid.c, for emb_assert and emb_check ------------------------- */

/* Checks a store whose sessions are closed and whose threads have ended. */
int store_valid(const emb_store *store);

#endif
