/* SPDX-License-Identifier: MIT
**
** store.h -- private to store/: the objects behind emb.h.
**
**   open.c, registry.c   a store: opening, sharing, owning, closing
**   session.c            a session and its buffers
**   get.c read.c         Get: index, memory, cache, disk
**   clock.c lease.c      the staleness bound
**   ahead.c async.c      look-ahead, prefetch and write-back
**   job.c tune.c         their background work
**   put.c erase.c        immediate writes of whole vectors, and deletes
**   change.c value.c     those that need the old value
**   txn*.c               transactions
**   scan.c order.c       scans
**   snap.c snap_read.c   snapshots
**   export.c restore.c   and as files
**   file.c               these, read as they stand
**   forget.c             expiry and eviction
**   step.c stats.c verify.c
*/
#ifndef EMB_STORE_H
#define EMB_STORE_H

#include "../ckpt/chain.h"
#include "../ckpt/checkpoint.h"
#include "../ckpt/snapshot.h"
#include "../core/core.h"
#include "../core/spill.h"
#include "../core/watch.h"
#include "../delta/consumer.h"
#include "../emb.h"
#include "../life/evict.h"
#include "group.h"
#include "lease.h"
#include "tune.h"

/* Keys that are worked on inside one stay in the epoch. */
#define CHUNK_MAX 1024
#define CHUNK_BYTES (4u << 20)

struct txn;
struct job;
struct worker;

struct jobs { /* job.h */
  pthread_mutex_t lock;
  pthread_cond_t arrived, ended;
  struct job *first; /* lock */
  struct worker *workers[EMB_IO_WORKERS_MAX];
  uint32_t worker_count; /* lock */
  int stopping;          /* lock */
  struct tune tune;
  pthread_mutex_t step_lock;
  emb_session *step_session; /* step_lock */
};

/* What the calls of a session did, for emb_stats. */
enum { TALLY_GET, TALLY_MEMORY, TALLY_DISK, TALLY_ABSENT, TALLY_PUT, TALLIES };

struct evict_idle { /* step.c */
  uint64_t version, first_page;
};

struct idle { /* step.c */
  uint64_t tail, first_page;
  int64_t keys;
};

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
  /* 1 owner, 0 reader at a checkpoint; changed under own_lock. */
  _Atomic int owner;
  pthread_mutex_t own_lock;

  /* One transaction at a time. */
  pthread_mutex_t txn_lock;
  struct emb_session *txn_owner; /* txn_lock */
  uint64_t abort_owed; /* number whose abort page is missing; its owner's */
  /* A commit moves its keys, or a scan begins: not both at once. */
  pthread_mutex_t settle_lock;
  /* Of the open transaction from its first write until its keys have moved:
  ** number and lowest address; 0 if none.  settle_lock. */
  uint64_t txn_number;
  uint64_t txn_start;
  uint64_t txn_version; /* of the store then: its rows have higher ones */
  struct index txn_map; /* of the open transaction: key to new place (txn.h) */
  uint64_t txn_keys;    /* that the last one had in it; its owner's */
  void *threads[2];
  struct jobs jobs;
  struct epoch_slot *flush_slot; /* flush thread or emb_step */
  struct epoch_slot *work_slot;  /* ckpt_lock */
  struct checkpoint checkpoint;  /* ckpt_lock */
  struct snapshots snapshots;
  struct consumers consumers; /* of deltas */
  struct chain chain;         /* ckpt_lock */
  /* State in which background work found nothing to do; ckpt_lock. */
  struct idle idle;
  /* When the newest checkpoint was first seen, and when which version was;
  ** ckpt_lock. */
  uint64_t late_generation, late_us, seen_version, seen_us;
  struct evict evict;            /* ckpt_lock, as the next */
  struct evict_idle evict_idle;  /* when a round found nothing */
  uint64_t expired_us;           /* when nothing was due; ckpt_lock */
  struct recovery *doubt;        /* own_lock: of the transaction in doubt */
  _Atomic uint64_t in_doubt;     /* its number */
  _Atomic uint64_t refreshed_us; /* when a reader last looked for a newer one */
  /* Loading a checkpoint failed half way and left nothing: no read may take
  ** keys for absent.  Written under own_lock. */
  _Atomic int unloaded;
};

struct cold { /* a key whose record is on disk */
  uint64_t address;
  uint32_t row;
};

struct emb_session {
  struct emb_store *store;
  struct core *core;
  struct emb_session *next; /* session_lock */
  struct epoch_slot *slot;
  emb_err err;
  uint32_t time;   /* of its writes; 0: the store's clock */
  uint64_t random; /* of admission by chance */
  uint32_t now;    /* the same of the present call (value.c) */
  int (*ask)(void *);
  void *ask_arg;
  int scans;
  struct txn *txn;
  struct leases leases;
  struct job *tickets; /* prefetches and write-backs, oldest first */
  uint64_t ticket_last;
  uint64_t served;       /* records that its look-aheads had */
  struct aheads *aheads; /* look-aheads (ahead.c); made at the first */
  /* Written by the session, read by emb_stats; relaxed.  Not core's counters:
  ** a locked instruction after each key would wait until its vector is there.
  */
  _Atomic uint64_t tally[TALLIES];

  uint32_t chunk; /* keys per stay in the epoch */
  uint64_t *hashes;
  struct entry **entries;
  uint64_t *words;
  struct cold *cold;
  uint32_t *rows; /* rows still to do */
  char *scratch;  /* two records */
  float *scratch_f32;
  struct groups groups; /* of the present batch */

  /* Disk reads; made at the first need. */
  struct env_queue *queue;
  uint32_t depth;      /* requests that there is room for */
  uint32_t depth_max;  /* and may be */
  uint32_t read_depth; /* in flight at most; 0: depth */
  char *pages;         /* depth page buffers */
  struct env_io *ios;
  struct env_io **io_list; /* three of depth: to submit, free, ready */
};

/* ---- session.c --------------------------------------------------------- */

/* EMB_MISUSE in a child after fork(), which must not use the store. */
int store_check(const emb_store *store, emb_err *err);
/* First line of every call: a child after fork() must not use the store. */
int session_begin(emb_session *s);
/* The same before a write: what the session writes in the background comes
** first. */
int session_begin_write(emb_session *s);
/* The same before maintenance, which no transaction of the session may be open
** for; `what` names it. */
int session_begin_work(emb_session *s, const char *what);
/* A session that is not counted: a worker's own. */
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
int session_ask(emb_session *s);
/* Takes a lock that others hold for long (ckpt_lock): EMB_OK, or EMB_INTERRUPT
** and it is not taken. */
int session_lock(emb_session *s, pthread_mutex_t *lock);
/* Sleeps; *waited_us grows by what that took. */
void session_sleep(emb_session *s, uint64_t us, uint64_t *waited_us);
/* The session gave up its epoch because log_take had no room. */
int session_wait_room(emb_session *s);
/* A key is held by a transaction of another session: waits a little.
** *waited_us grows; past the timeout it is EMB_BUSY naming the key. */
int session_wait_key(emb_session *s, int64_t key, uint64_t *waited_us);
int session_queue(emb_session *s);
/* Stored form of a float32 vector: itself, or scratch filled with float16. */
const void *session_encode(emb_session *s, const float *vector);
void session_decode(emb_session *s, float *to, const void *stored);

/* index_find for one key, by the geometry that stands in the partition, and
** with both buckets asked for at once: nothing else can be done while memory is
** waited for.  Inside an epoch. */
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

/* ---- open.c ------------------------------------------------------------ */

/* Writes or checks the head of the log. */
int store_log_head(emb_store *store, int write, emb_err *err);

/* ---- own.c ------------------------------------------------------------- */

/* Before a write: the process owns the store, nothing failed or is in doubt. */
int store_own(emb_session *s);
/* Does this process own the store, or could it take it without waiting? */
int store_may_write(emb_session *s);
/* Is a Get counted?  Then this process must be the one whose Puts give it back,
** so it becomes the owner; while another is, nothing is counted here. */
int store_counts(emb_session *s);
/* Before a read: a reader sees the newest checkpoint. */
int store_refresh(emb_session *s);
/* A reader found a page damaged: loads the newest checkpoint, because the owner
** may have used its place again.  Scans in storage order end. */
int store_reload(emb_session *s);

/* ---- read.c ------------------------------------------------------------ */

/* What to do with a record read from disk; outside any epoch.  address is
** what the key's word said when the read began. */
typedef int (*cold_use)(emb_session *s, void *arg, uint32_t row, int64_t key,
                        const struct rec *rec);
/* Reads the records of s->cold[0..n), whose keys are keys[row].  Rows whose
** record moved meanwhile are appended to s->rows (*again counts them) and
** must be looked up anew.  admit: offer them to the cache. */
int read_cold(emb_session *s, const int64_t *keys, uint32_t n, int admit,
              cold_use use, void *arg, uint32_t *again);
/* ---- slots for writing ------------------------------------------------- */

struct run { /* consecutive slots that this stay in the epoch may fill */
  uint64_t page;
  uint32_t slot;
  uint32_t left;
};
/* The next slot above address `above`; want: how many more will be needed. */
int run_take(struct core *core, struct run *run, uint32_t want, uint64_t above,
             uint64_t *address);

/* ---- checks ------------------------------------------------------------ */

/* Names the first element that is not finite, and refuses too many rows. */
int check_finite(emb_session *s, const int64_t *keys, size_t n,
                 const float *rows, const char *what);
/* The same, and for one that does not fit its storage type. */
int check_rows(emb_session *s, const int64_t *keys, size_t n,
               const float *vectors, const char *what);

#endif
