/* SPDX-License-Identifier: MIT
**
** session.h -- the object behind emb.h's emb_session: one user of a store, a
** connection or a thread.  README.md lists the files of the folder.
*/
#ifndef EMB_SESSION_H
#define EMB_SESSION_H

#include "engine/base/mem/spill.h"
#include "engine/table/store/store.h"
#include "group.h"
#include "lease.h"

/* Maximum number of keys, and bytes of their vectors, per pass in the epoch. */
#define CHUNK_MAX 1024
#define CHUNK_BYTES (4u << 20)

struct txn;

/* Counts of the session's operations, for emb_stats. */
enum { TALLY_GET, TALLY_MEMORY, TALLY_DISK, TALLY_ABSENT, TALLY_PUT, TALLIES };

/* Progress of a session's long call.  Written by the call, read by
** emb_progress_list under sessions.lock; relaxed, except `what`, which is set
** last (release, acquire). */
struct progress {
  _Atomic(const char *) what; /* NULL: no long call is running */
  _Atomic(const char *) unit;
  _Atomic uint64_t done, total, since_us;
};

struct cold { /* a key whose record is on disk */
  uint64_t address;
  uint32_t row;
};

/* Called with each record read from disk; outside any epoch. */
typedef int (*cold_use)(emb_session *s, void *arg, uint32_t row, int64_t key,
                        const struct rec *rec);

/* How long the session's calls wait, and what may end a wait. */
struct session_waits {
  emb_patience *patience; /* emb_session_patience; may be NULL */
  int (*interrupt)(void *);
  void *interrupt_arg;
  uint64_t polled_us;  /* session_poll's last time */
  uint64_t timeout_ms; /* if has_timeout; else the store's */
  int has_timeout;
};

struct session_clock {
  uint32_t time; /* time of its writes; 0: the store's clock */
  uint32_t now;  /* time of the current call's writes (value.c) */
};

struct session_scan {
  int open;       /* number of open scans */
  int is_reading; /* a scan run by this process is reading its next rows */
};

struct session_blocks { /* emb_session_blocks */
  int (*ask)(void *, int);
  void *arg;
};

/* emb_session_decides.  A call that asks does not read past a prepared,
** undecided transaction, except the one that its caller does not see. */
struct session_doubt {
  int (*decides)(void *, uint64_t, int);
  void *arg;
  int asks;
  uint64_t seen; /* number of that transaction */
  uint64_t met;  /* number of the one that this call met, or 0 */
  int is_orphan; /* no session is left to decide it */
};

/* Where the session's calls go when the owner changes (remote/serve/). */
struct session_route {
  /* Did the owner die with the session's transaction?  Was it prepared? */
  int lost_txn, lost_prepared;
  emb_err owed; /* of a call that cannot return it: for the next call */
  uint64_t prepared_number;
  uint64_t died_serial; /* the last link whose owner died or was given up */
  int may_ask;    /* retry a call that finds another process recovering the
                     store; that process may now own it [route.c] */
  int recovering; /* the last call found such a process */
  int sought;     /* failed searches for an owner, because it did not serve
                     yet */
  int is_control; /* one of the store's own, control.h; */
  unsigned control_age; /* the store's age when it was linked */
};

/* For a client's session, at the owner; set before the first call. */
struct session_client {
  int64_t process; /* the client's; 0: this one; below 0: not visible here */
  uint64_t number; /* as in emb_clients */
  int only_reads;  /* it may not write, even if the process may */
};

struct session_tickets { /* prefetches and write-backs, oldest first */
  struct job *first;
  struct remote_ticket *remote; /* those held by an owner [serve/tickets.h] */
  uint64_t last;                /* number of the newest */
};

struct session_ahead { /* look-aheads (lookahead/ahead.c) */
  struct aheads *list; /* allocated by the first */
  uint64_t last;       /* number of the last, in whichever process it began */
  uint64_t served;     /* records served by them */
  /* If the session keeps records itself: uses those of s->cold[0..n) that it
  ** keeps, moves the others to the front, and returns their number.  Else
  ** NULL. */
  uint32_t (*serve)(emb_session *s, const int64_t *keys, uint32_t n,
                    cold_use use, void *arg);
};

struct session_reads {        /* disk reads; allocated when first needed */
  struct process_queue queue; /* of the reading call; */
  char *pages;                /* of the reading call: depth page buffers */
  uint32_t depth;             /* requests there is room for */
  uint32_t depth_max;         /* upper limit of depth */
  uint32_t depth_now;         /* maximum in flight; 0: depth */
  struct env_io *ios;
  struct env_io **io_list; /* three of depth: to submit, free, ready */
};

/* Used by one thread at a time; fields that other threads read say so. */
struct emb_session {
  struct link *link; /* first: to the process that owns the store, or NULL */
  struct emb_store *store;
  struct core *core;
  struct emb_session *next; /* sessions.lock */
  struct epoch_slot *slot;
  struct session_route route;
  emb_err err;
  struct session_clock clock;
  uint64_t random; /* state of random admission */
  struct session_waits waits;
  struct session_blocks blocks;
  struct session_doubt doubt;
  struct session_client client;
  struct progress progress;
  struct background *worker; /* whose session it is; NULL: a user's */
  struct txn *txn;
  struct leases leases;
  struct released released; /* keys whose waiters are still to be woken */
  struct session_scan scan;
  struct session_tickets tickets;
  struct session_ahead ahead;
  /* Written by the session, read by emb_stats; relaxed.  Not core's counters: a
  ** locked instruction after each key would wait until its vector has
  ** arrived. */
  _Atomic uint64_t tally[TALLIES];

  uint32_t chunk; /* keys per pass in the epoch */
  uint64_t *hashes;
  struct entry **entries;
  uint64_t *words;
  struct cold *cold;
  uint32_t *rows;       /* rows still to do */
  struct groups groups; /* of the current batch */
  char *scratch;        /* two records */
  float *scratch_f32;
  float *pool; /* rows being summed (bag/); allocated when needed */
  struct session_reads reads;
};

/* ---- session_valid.c, for emb_assert and emb_check ----------------------- */

/* Between two calls of the session. */
int session_valid(const emb_session *s);

/* ---- session.c ----------------------------------------------------------- */

/* First line of every call: a child after fork() must not use the store. */
int session_begin(emb_session *s);
/* How long the session's calls wait. */
static inline uint64_t session_timeout_us(const emb_session *s) {
  return 1000 * (s->waits.has_timeout
                     ? s->waits.timeout_ms
                     : atomic_load_explicit(&s->core->timeout_ms,
                                            memory_order_relaxed));
}
/* Opens a session that is not counted: a worker's own, or a client's. */
int session_new(emb_store *store, emb_session **session, emb_err *err);
void session_free(emb_session *s);
/* Sums the tallies of all sessions, open or closed, in the enum's order. */
void session_tallies(emb_store *store, uint64_t sum[TALLIES]);
static inline void session_count(emb_session *s, int tally, uint64_t n) {
  _Atomic uint64_t *at = &s->tally[tally];
  atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + n,
                        memory_order_relaxed);
}
int session_error(emb_session *s, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* EMB_INTERRUPT if the session's callback asks to stop. */
int session_interrupted(emb_session *s);
/* As qsort; EMB_INTERRUPT leaves the elements in some order. */
int session_sort(emb_session *s, void *at, size_t n, size_t size,
                 int (*compare)(const void *, const void *));
/* As session_interrupted, if some milliseconds have passed since the last poll:
** the callback may run a statement, which takes microseconds.  Called between
** the pieces of a long call. */
int session_poll(emb_session *s);
/* As session_poll, for a session that has waited this long for others: it polls
** less and less often, and leaves the processors to those that work.  Training
** on 96 connections with a staleness bound of 0, on two processors, did not get
** beyond its first batches when each of them polled every 5 ms. */
int session_poll_waiting(emb_session *s, uint64_t waited_us);
/* Takes a lock that may be held for long (ckpt_lock): EMB_OK, or EMB_INTERRUPT
** and the lock is not taken. */
int session_lock(emb_session *s, pthread_mutex_t *lock);
/* Returns, once, the error that an earlier call could not return, or EMB_OK. */
int session_owed(emb_session *s);
/* EMB_LOCKED: a transaction is in doubt, and must be decided first.  doubt.met
** is its number. */
int session_check_doubt(emb_session *s);
/* As session_check_doubt, and also EMB_LOCKED for a transaction that is only
** prepared, if the session can tell how it ends (emb_session_decides) and has
** not said that its caller does not see it. */
int session_ask_doubt(emb_session *s);
/* Acquires `owner`, which only one session of the store may hold at a time.
** Waits; after the timeout EMB_BUSY: `taken`, then the store's directory. */
int session_enter_exclusive(emb_session *s, struct emb_session **owner,
                            const char *taken);
void session_leave_exclusive(emb_session *s, struct emb_session **owner);
/* The session begins to wait for another session's work (1), or has finished
** waiting (-1): a waiting worker lets another thread do its work. */
static inline void session_waits(emb_session *s, int change) {
  if (s->worker) {
    background_waits(s->worker, change);
  }
}
/* Sleeps; adds the time slept to *waited_us. */
void session_sleep(emb_session *s, uint64_t us, uint64_t *waited_us);
/* Waits for room in the log, which log_take did not have; the session has left
** its epoch. */
int session_wait_room(emb_session *s);
/* As above, for writes that may also take kept file slots (log/log.h):
** deletions and ends of transactions. */
int session_wait_kept(emb_session *s);
/* Waits a little for a key held by another session's transaction.  *waited_us
** grows; past the timeout EMB_BUSY, naming the key. */
int session_wait_key(emb_session *s, int64_t key, uint64_t *waited_us);
/* Takes a queue and buffers for disk reads from the process; returns them. */
int session_read_begin(emb_session *s);
void session_read_end(emb_session *s);
/* Stored form of a float32 vector: itself, or scratch filled with float16. */
const void *session_encode(emb_session *s, const float *vector);
void session_decode(emb_session *s, float *to, const void *stored);

/* index_find for one key, using the partition's current geometry, with both
** buckets prefetched at once: there is no other work to overlap with the memory
** access.  Inside an epoch. */
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

/* ---- checks -------------------------------------------------------------- */

/* Before rows are written: checks that versions are left for them and that the
** log may grow.  EMB_FULL. */
int check_numbers(emb_session *s);
/* Sets EMB_FULL: the log has no more addresses. */
int session_no_address(emb_session *s);
/* As check_numbers; also reports the first element that is not finite, and
** refuses too many rows. */
int check_finite(emb_session *s, const int64_t *keys, size_t n,
                 const float *rows, const char *what);
/* As check_finite; also refuses an element too large for its storage type. */
int check_rows(emb_session *s, const int64_t *keys, size_t n,
               const float *vectors, const char *what);

#endif
