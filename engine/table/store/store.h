/* SPDX-License-Identifier: MIT
**
** store.h -- the objects behind emb.h, a store and one user of it, and what the
** files of this folder offer to those above.  README.md lists them.
*/
#ifndef EMB_STORE_H
#define EMB_STORE_H

#include "engine/storage/ckpt/checkpoint.h"
#include "engine/storage/kernel/core.h"
#include "engine/base/mem/spill.h"
#include "engine/storage/kernel/watch.h"
#include "engine/storage/consumer/consumer.h"
#include "engine/emb.h"
#include "calls.h"
#include "engine/table/session/group.h"
#include "engine/table/session/lease.h"
#include "task.h"
#include "engine/base/process/tune.h"

/* Keys that are worked on inside one pass in the epoch. */
#define CHUNK_MAX 1024
#define CHUNK_BYTES (4u << 20)

struct txn;
struct job;
struct worker;
/* What features keep for a store (api/features.h). */
struct warm;
struct nearest_index;
struct sampling;
struct snapshots;
struct chain;
struct evict;
struct bank;
struct step;   /* api/ */
struct server; /* serve/ */

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

/* What the calls of a session did, for emb_stats. */
enum { TALLY_GET, TALLY_MEMORY, TALLY_DISK, TALLY_ABSENT, TALLY_PUT, TALLIES };

struct advice_sample { /* metrics of a moment, since the opening */
  uint64_t us, reads, hits, spared;
};

struct advice { /* budget.h */
  pthread_mutex_t lock;
  struct advice_sample old, last; /* lock */
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
  pthread_mutex_t budget_lock; /* held while the budget changes (budget.c) */
  struct advice advice;
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
  struct warm *warm;
  struct nearest_index *nearest;
  struct sampling *sampling;
  struct epoch_slot *flush_slot; /* LANE_FLUSH */
  struct epoch_slot *work_slot;  /* ckpt_lock */
  struct checkpoint checkpoint;  /* ckpt_lock */
  struct snapshots *snapshots;
  struct consumers consumers;    /* of deltas */
  struct chain *chain;           /* ckpt_lock */
  struct tasks tasks;            /* in the background */
  struct evict *evict;           /* ckpt_lock */
  struct bank *bank;             /* gradients that are averaged */
  struct step *step;             /* of the background work */
  int averages;                  /* there are; set before the first session */
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
  int closed_in_peace;        /* what was acknowledged is durable */
  _Atomic int served;         /* sessions that are linked to the owner, */
  _Atomic int linked;         /* but for the store's own */
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
};

/* What a session's call that takes long says of itself.  Written by the call,
** read by emb_progress_list under session_lock; relaxed, but for `what`, which
** is set last (release, acquire). */
struct progress {
  _Atomic(const char *) what; /* NULL: no such call */
  _Atomic(const char *) unit;
  _Atomic uint64_t done, total, since_us;
};

struct cold { /* a key whose record is on disk */
  uint64_t address;
  uint32_t row;
};

/* What to do with a record read from disk; outside any epoch.  address is
** what the key's word said when the read began. */
typedef int (*cold_use)(emb_session *s, void *arg, uint32_t row, int64_t key,
                        const struct rec *rec);

struct emb_session {
  struct link *link; /* first: to the process that owns the store, or NULL */
  struct emb_store *store;
  struct core *core;
  struct emb_session *next; /* session_lock */
  struct epoch_slot *slot;
  emb_err err;
  uint32_t time;   /* of its writes; 0: the store's clock */
  uint64_t random; /* of admission by chance */
  uint32_t now;    /* the same of the present call (value.c) */
  int (*interrupt)(void *);
  void *interrupt_arg;
  uint64_t polled_us;         /* session_poll's last time */
  int is_control;             /* the store's own, serve/control.h; */
  unsigned control_age;       /* the store's when it was linked */
  emb_patience *patience;     /* emb_session_patience; may be NULL */
  int (*blocks)(void *, int); /* emb_session_blocks */
  void *blocks_arg;
  /* emb_session_decides.  A call that asks_doubt passes no transaction that is
  ** prepared and not decided, but the one that its caller does not see
  ** (doubt_seen). */
  int (*decides)(void *, uint64_t, int);
  void *decides_arg;
  int asks_doubt;
  uint64_t doubt_seen;
  uint64_t met_doubt;  /* that the present call has met, or 0; */
  int met_orphan;      /* no session will decide it */
  uint64_t timeout_ms; /* of its waits, if has_timeout; else the store's */
  int has_timeout;
  int only_reads; /* it may not write, whatever the process may */
  /* The process that owned the store has gone with its transaction; and that
  ** was prepared. */
  int lost_txn, lost_prepared;
  int routes;     /* a call that finds the store being recovered by another
                     process is to be made anew, perhaps there [route.c] */
  int recovering; /* the last one did */
  int sought;     /* how often one was, in vain, because of an owner that did
                     not serve yet */
  uint64_t prepared_number;
  uint64_t
      died_serial; /* the last link whose owner has died, or was given up */
  emb_err owed;    /* of a call that returns none: the next one's */
  struct progress progress;
  /* The process that a client's session works for; 0: this one; below 0: it
  ** cannot be seen.  Set before the first call. */
  int64_t asked_by;
  uint64_t number; /* of a client's session, as emb_clients says; the same */
  int scans;
  int in_scan; /* a scan of this process reads its next rows */
  struct txn *txn;
  struct leases leases;
  int leases_of_rows; /* some was taken by a statement, while it has any */
  struct background *worker; /* it is a worker's; NULL: a user's */
  struct job *tickets;       /* prefetches and write-backs, oldest first */
  struct remote_ticket
      *remote_tickets; /* those at an owner [serve/tickets.h] */
  uint64_t ticket_last;
  uint64_t served;       /* records that its look-aheads had */
  struct aheads *aheads; /* look-aheads (ahead.c); made at the first */
  uint64_t ahead_last;   /* number of the last, wherever it was begun */
  /* Of a session that keeps records itself: those of s->cold[0..n) that it has
  ** are used, the others are moved to the front, and counted.  Else NULL. */
  uint32_t (*serve)(emb_session *s, const int64_t *keys, uint32_t n,
                    cold_use use, void *arg);
  /* Written by the session, read by emb_stats; relaxed.  Not core's counters:
  ** a locked instruction after each key would wait until its vector is there.
  */
  _Atomic uint64_t tally[TALLIES];

  uint32_t chunk; /* keys per pass in the epoch */
  uint64_t *hashes;
  struct entry **entries;
  uint64_t *words;
  struct cold *cold;
  uint32_t *rows; /* rows still to do */
  char *scratch;  /* two records */
  float *scratch_f32;
  struct groups groups; /* of the present batch */
  float *pool; /* rows that are summed (bag/); made at the first need */

  /* Disk reads; made at the first need. */
  struct process_queue queue; /* of the call that reads; */
  char *pages;                /* the same: depth page buffers */
  uint32_t depth;             /* requests that there is room for */
  uint32_t depth_max;         /* and may be */
  uint32_t read_depth;        /* in flight at most; 0: depth */
  struct env_io *ios;
  struct env_io **io_list; /* three of depth: to submit, free, ready */
};

/* ---- store_valid.c, for emb_assert and emb_check ------------------------- */

/* Between two calls of the session. */
int session_valid(const emb_session *s);
/* Its sessions are closed and its threads have ended. */
int store_valid(const emb_store *store);

/* ---- session.c --------------------------------------------------------- */

/* EMB_MISUSE in a child after fork(), which must not use the store. */
int store_check(const emb_store *store, emb_err *err);
/* First line of every call: a child after fork() must not use the store. */
int session_begin(emb_session *s);
/* How long the session's calls wait. */
static inline uint64_t session_timeout_us(const emb_session *s) {
  return 1000 * (s->has_timeout ? s->timeout_ms
                                : atomic_load_explicit(&s->core->timeout_ms,
                                                       memory_order_relaxed));
}
/* A session that is not counted: a worker's own, or a client's. */
int session_new(emb_store *store, emb_session **session, emb_err *err);
void session_free(emb_session *s);
/* The tallies of all sessions, open or closed, in the order of the enum. */
void session_tallies(emb_store *store, uint64_t sum[TALLIES]);
static inline void session_count(emb_session *s, int tally, uint64_t n) {
  _Atomic uint64_t *at = &s->tally[tally];
  atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + n,
                        memory_order_relaxed);
}
int session_error(emb_session *s, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* EMB_INTERRUPT when the session's callback asks to stop. */
int session_interrupted(emb_session *s);
/* The same, if the last time was some milliseconds ago: the callback may run a
** statement, which takes microseconds.  Between the pieces of a long call. */
int session_poll(emb_session *s);
/* A call that takes long begins: 1, or 0 where it is a part of another one.
** The caller that got 1 ends it. */
int progress_begin(emb_session *s, const char *what, const char *unit,
                   uint64_t total);
void progress_end(emb_session *s, int begun);
/* It is so far; only of the outermost call, which is begun. */
static inline void progress_at(emb_session *s, int begun, uint64_t done) {
  if (begun) {
    atomic_store_explicit(&s->progress.done, done, memory_order_relaxed);
  }
}
static inline void progress_of(emb_session *s, int begun, uint64_t total) {
  if (begun) {
    atomic_store_explicit(&s->progress.total, total, memory_order_relaxed);
  }
}
/* Which store the row is of. */
void progress_name(emb_progress *row, const emb_store *store);
/* What takes long in a session of this process, "" nothing. */
void progress_of_owner(emb_store *store, char *to, size_t size);
/* Takes a lock that others hold for long (ckpt_lock): EMB_OK, or EMB_INTERRUPT
** and it is not taken. */
int session_lock(emb_session *s, pthread_mutex_t *lock);
/* The error that a call before could not return, once; EMB_OK: there is none.
 */
int session_owed(emb_session *s);
/* EMB_LOCKED: a transaction is in doubt, and must be decided first.  met_doubt
** is which. */
int session__check_doubt(emb_session *s);
/* The same of one that is only prepared, too, for a session that can tell how
** that ends (emb_session_decides) and has not said that its caller does not see
** it. */
int session_ask_doubt(emb_session *s);
/* What one session of the store may have at a time, `owner`: waits, and
** after the timeout it is EMB_BUSY with this text, the store behind it. */
int session_enter_exclusive(emb_session *s, struct emb_session **owner,
                            const char *taken);
void session_leave_exclusive(emb_session *s, struct emb_session **owner);
/* The session begins to wait for what another one has to do (1), or has waited
** (-1): a worker's lets another thread do its work meanwhile. */
static inline void session_waits(emb_session *s, int change) {
  if (s->worker) {
    background_waits(s->worker, change);
  }
}
/* Sleeps; *waited_us grows by what that took. */
void session_sleep(emb_session *s, uint64_t us, uint64_t *waited_us);
/* The session left its epoch because log_take had no room. */
int session_wait_room(emb_session *s);
/* The same for what may take what is kept: deletions, and ends of transactions.
 */
int session_wait_kept(emb_session *s);
/* A key is held by a transaction of another session: waits a little.
** *waited_us grows; past the timeout it is EMB_BUSY naming the key. */
int session_wait_key(emb_session *s, int64_t key, uint64_t *waited_us);
/* What a read from disk needs, of the process. */
int session__read_begin(emb_session *s);
void session__read_end(emb_session *s);
/* Stored form of a float32 vector: itself, or scratch filled with float16. */
const void *session_encode(emb_session *s, const float *vector);
void session_decode(emb_session *s, float *to, const void *stored);

/* index_find for one key, by the geometry that stands in the partition, and
** with both buckets prefetched at once: nothing else can be done while memory
** is waited for.  Inside an epoch. */
static inline struct entry *session_find(emb_session *s, int64_t key,
                                         uint64_t hash, uint64_t *word) {
  struct index *index = &s->core->index;
  struct bucket *first = index_first_bucket(index, hash);
  struct bucket *second = index_second_bucket(index, hash);
  __builtin_prefetch(second);
  struct entry *entry = first ? index_match(first, key, word) : NULL;
  if (!entry && second) {
    entry = index_match(second, key, word);
  }
  return entry ? entry : index_find(index, key, hash, word);
}

/* ---- begin.c ----------------------------------------------------------- */

/* session_begin before a write: what the session writes in the background comes
** first. */
int session_begin_write(emb_session *s);
/* The same before maintenance, which no transaction of the session may be open
** for; `what` names it. */
int session_begin_work(emb_session *s, const char *what);

/* ---- own.c ------------------------------------------------------------- */

/* Before a write: the process owns the store, nothing failed or is in doubt. */
int store_own(emb_session *s);
/* The error of a write to a store that was dropped. */
int store_dropped(emb_session *s);
/* Does this process own the store, or could it take it without waiting?
** CALL_ELSEWHERE: another one is the owner by now, and may serve this one. */
int store_may_write(emb_session *s, int *may);
/* Is a Get counted?  Then this process must be the one whose Puts give it back,
** so it becomes the owner; while another one is that does not serve, nothing is
** counted here.  CALL_ELSEWHERE as above. */
int store_counts(emb_session *s, int *counts);
/* Before a read: a reader sees the newest checkpoint. */
int store_refresh(emb_session *s);
/* A reader found a page damaged: loads the newest checkpoint, because the owner
** may have used its file slot again.  Scans in storage order end. */
int store_reload(emb_session *s);

/* ---- hold.c ------------------------------------------------------------ */

/* Until store_let_go a reader sees one checkpoint, and what that says is in the
** log's file stays there.  *held is for store_let_go; after an error there is
** nothing to let go. */
int store_hold(emb_session *s, int *held);
void store_let_go(emb_session *s, int held);

/* ---- read.c ------------------------------------------------------------ */

struct cold_batch {    /* the records of s->cold[0..n) */
  const int64_t *keys; /* keys[row] of each */
  uint32_t n;
  int promote; /* offer them to the cache */
  cold_use use;
  void *arg;
};
/* Reads records.  Rows whose record moved meanwhile are appended to s->rows
** (*again counts them) and must be looked up anew. */
int session_read_cold(emb_session *s, const struct cold_batch *batch,
                      uint32_t *again);

/* ---- checks ------------------------------------------------------------ */

/* Before rows are written: are there versions for them, and may the log become
** longer?  EMB_FULL. */
int check_numbers(emb_session *s);
/* The log has no more addresses: EMB_FULL, with a text. */
int session_no_address(emb_session *s);
/* The same as check_numbers; names the first element that is not finite, and
** refuses too many rows. */
int check_finite(emb_session *s, const int64_t *keys, size_t n,
                 const float *rows, const char *what);
/* The same, and for one that does not fit its storage type. */
int check_rows(emb_session *s, const int64_t *keys, size_t n,
               const float *vectors, const char *what);

#endif
