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

/* Keys that are worked on inside one pass in the epoch. */
#define CHUNK_MAX 1024
#define CHUNK_BYTES (4u << 20)

struct txn;

/* What the calls of a session did, for emb_stats. */
enum { TALLY_GET, TALLY_MEMORY, TALLY_DISK, TALLY_ABSENT, TALLY_PUT, TALLIES };

/* What a session's call that takes long says of itself.  Written by the call,
** read by emb_progress_list under sessions.lock; relaxed, but for `what`, which
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

/* How long its calls wait, and what may end that. */
struct session_waits {
  emb_patience *patience; /* emb_session_patience; may be NULL */
  int (*interrupt)(void *);
  void *interrupt_arg;
  uint64_t polled_us;  /* session_poll's last time */
  uint64_t timeout_ms; /* if has_timeout; else the store's */
  int has_timeout;
};

struct session_clock {
  uint32_t time; /* of its writes; 0: the store's clock */
  uint32_t now;  /* the same of the present call (value.c) */
};

struct session_scan {
  int open;       /* how many */
  int is_reading; /* one of this process reads its next rows */
};

struct session_blocks { /* emb_session_blocks */
  int (*ask)(void *, int);
  void *arg;
};

/* emb_session_decides.  A call that asks passes no transaction that is prepared
** and not decided, but the one that its caller does not see. */
struct session_doubt {
  int (*decides)(void *, uint64_t, int);
  void *arg;
  int asks;
  uint64_t seen; /* that one */
  uint64_t met;  /* that the present call has met, or 0; */
  int is_orphan; /* no session will decide it */
};

/* Where its calls go, when the store's owner changes (remote/serve/). */
struct session_route {
  /* The process that owned the store has gone with its transaction; and that
  ** was prepared. */
  int lost_txn, lost_prepared;
  emb_err owed; /* of a call that returns none: the next one's */
  uint64_t prepared_number;
  uint64_t
      died_serial; /* the last link whose owner has died, or was given up */
  int may_ask;     /* a call that finds the store being recovered by another
                      process is to be made anew, perhaps there [route.c] */
  int recovering;  /* the last one did */
  int sought;      /* how often one was, in vain, because of an owner that did
                      not serve yet */
  int is_control;  /* the store's own, control.h; */
  unsigned control_age; /* the store's when it was linked */
};

/* Of a client's session, at the owner; set before the first call. */
struct session_client {
  int64_t process; /* that it works for; 0: this one; below 0: not seen */
  uint64_t number; /* as emb_clients says */
  int only_reads;  /* it may not write, whatever the process may */
};

struct session_tickets { /* prefetches and write-backs, oldest first */
  struct job *first;
  struct remote_ticket *remote; /* those at an owner [serve/tickets.h] */
  uint64_t last;                /* number */
};

struct session_ahead { /* look-aheads (lookahead/ahead.c) */
  struct aheads *list; /* made at the first */
  uint64_t last;       /* number of the last, wherever it was begun */
  uint64_t served;     /* records that they had */
  /* Of a session that keeps records itself: those of s->cold[0..n) that it has
  ** are used, the others are moved to the front, and counted.  Else NULL. */
  uint32_t (*serve)(emb_session *s, const int64_t *keys, uint32_t n,
                    cold_use use, void *arg);
};

struct session_reads {        /* from disk; made at the first need */
  struct process_queue queue; /* of the call that reads; */
  char *pages;                /* the same: depth page buffers */
  uint32_t depth;             /* requests that there is room for */
  uint32_t depth_max;         /* and may be */
  uint32_t depth_now;         /* in flight at most; 0: depth */
  struct env_io *ios;
  struct env_io **io_list; /* three of depth: to submit, free, ready */
};

/* One thread at a time; what others read says so. */
struct emb_session {
  struct link *link; /* first: to the process that owns the store, or NULL */
  struct emb_store *store;
  struct core *core;
  struct emb_session *next; /* sessions.lock */
  struct epoch_slot *slot;
  struct session_route route;
  emb_err err;
  struct session_clock clock;
  uint64_t random; /* of admission by chance */
  struct session_waits waits;
  struct session_blocks blocks;
  struct session_doubt doubt;
  struct session_client client;
  struct progress progress;
  struct background *worker; /* it is a worker's; NULL: a user's */
  struct txn *txn;
  struct leases leases;
  struct session_scan scan;
  struct session_tickets tickets;
  struct session_ahead ahead;
  /* Written by the session, read by emb_stats; relaxed.  Not core's counters:
  ** a locked instruction after each key would wait until its vector is there.
  */
  _Atomic uint64_t tally[TALLIES];

  uint32_t chunk; /* keys per pass in the epoch */
  uint64_t *hashes;
  struct entry **entries;
  uint64_t *words;
  struct cold *cold;
  uint32_t *rows;       /* rows still to do */
  struct groups groups; /* of the present batch */
  char *scratch;        /* two records */
  float *scratch_f32;
  float *pool; /* rows that are summed (bag/); made at the first need */
  struct session_reads reads;
};

/* ---- session_valid.c, for emb_assert and emb_check ----------------------- */

/* Between two calls of the session. */
int session_valid(const emb_session *s);

/* ---- session.c --------------------------------------------------------- */

/* First line of every call: a child after fork() must not use the store. */
int session_begin(emb_session *s);
/* How long the session's calls wait. */
static inline uint64_t session_timeout_us(const emb_session *s) {
  return 1000 * (s->waits.has_timeout
                     ? s->waits.timeout_ms
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
/* Takes a lock that others hold for long (ckpt_lock): EMB_OK, or EMB_INTERRUPT
** and it is not taken. */
int session_lock(emb_session *s, pthread_mutex_t *lock);
/* The error that a call before could not return, once; EMB_OK: there is none.
 */
int session_owed(emb_session *s);
/* EMB_LOCKED: a transaction is in doubt, and must be decided first.  doubt.met
** is which. */
int session_check_doubt(emb_session *s);
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
int session_read_begin(emb_session *s);
void session_read_end(emb_session *s);
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
