/* SPDX-License-Identifier: MIT
**
** core.h -- where index, log and cache meet.
**
** The layers below do not depend on each other; the layers above (ckpt, table,
** features) work on a struct core.  row_write.c makes every change of a row and
** calls the observers (observe.h), key.c handles the rest of a key's word,
** promote.c decides what the cache holds, flush.c drives log_seal, log_flush
** and log_page_out.
**
** LOCK ORDER  Taken from left to right, never while inside an epoch, except
** the three on the right, which are held for a few instructions only:
**
**   ckpt_lock > flush_lock > scan_lock > [ cache.lock > log.lock > spin locks ]
**
** A store's own.lock (owner/own.c) comes before all of them.
**
** scan_lock is also taken inside an epoch: its holders never wait.
*/
#ifndef EMB_CORE_H
#define EMB_CORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/storage/cache/cache.h"
#include "engine/storage/cache/ghost.h"
#include "engine/base/env/env.h"
#include "engine/base/epoch/epoch.h"
#include "engine/storage/index/index.h"
#include "engine/base/mem/frames.h"
#include "engine/storage/log/log.h"
#include "engine/storage/rec/layout.h"
#include "engine/storage/rec/rec.h"
#include "engine/math/vec/vec.h"
#include "observe.h"
#include "engine/base/process/process.h"
#include "engine/storage/schema/schema.h"

_Static_assert(WORD_ADDRESS_LIMIT_BITS == WORD_ADDRESS_BITS, "one address");

/* Maximum number of log writes in flight. */
#define FLUSH_DEPTH 16

/* Results of key functions that are not errors. */
enum { KEY_FOUND = 0, KEY_ABSENT = 1, KEY_INTENT = 2, KEY_BLOCKED = 3 };

struct scan_watch; /* watch.h */
struct retention;  /* retention.h */

/* Relaxed counters for emb_stats. */
struct counters {
  _Atomic uint64_t get_keys, get_memory, get_cache, get_disk, get_absent;
  _Atomic uint64_t put_keys, put_in_place, delete_keys, rmw_keys;
  _Atomic uint64_t read_pages, read_bytes, write_bytes, syncs;
  _Atomic uint64_t flushes, checkpoints, compacted_records, moved_extents,
      evictions;
  _Atomic uint64_t cache_admitted, cache_evicted, waits_room, waits_key;
  _Atomic uint64_t commits, rollbacks, manifest_damaged, admission_damaged;
  _Atomic uint64_t staleness_waits, staleness_busy;
  _Atomic uint64_t ahead_asked, ahead_memory, ahead_absent;
  _Atomic uint64_t expired_keys, evicted_keys, filtered_keys, filtered_updates;
  _Atomic uint64_t ahead_read, ahead_refused, prefetches, write_backs;
  _Atomic uint64_t snapshots;
  /* Warm-ups: bytes read from the log, rows put into memory, time; failed,
  ** unusable. */
  _Atomic uint64_t warm_bytes, warm_rows, warm_us, warm_errors, warm_damaged;
};

/* Extents that other processes may still be reading (ckpt/readers.h). */
struct held {
  uint64_t extent;
  uint64_t gone; /* first index file that does not name it */
};
struct readers {
  struct held *held;      /* by extent; ckpt_lock */
  _Atomic uint64_t count; /* of `held`; written under ckpt_lock */
  uint64_t bytes_min;     /* set by tests, else 0 */
};

#define FILE_LOG "log"
#define FILE_LOCK "lock"

/* The files of the store as its owner opened them (ckpt/identity.h).  Written
** by the thread that becomes the owner, before it becomes the owner. */
struct identity {
  int is_noted;          /* 0: not the owner */
  uint64_t ids[3][2];    /* device and inode: manifest, log, lock */
  uint64_t directory[2]; /* device and inode of the directory */
  /* The newest generation of the manifest, and while the manifest is being
  ** written, the next one.  Written under ckpt_lock, `to` first; read by any
  ** thread, `from` first, and then the file: sequentially consistent. */
  _Atomic uint64_t from, to;
};

/* Some of the keys on which leases were released: a bit for each key, by
** hash. */
#define RELEASED_WORDS 64
struct released {
  uint64_t bits[RELEASED_WORDS];
};
static inline void released_add(struct released *released, uint64_t hash) {
  released->bits[hash >> 58] |= UINT64_C(1) << (hash >> 52 & 63);
}
static inline int released_has(const struct released *released, uint64_t hash) {
  return released->bits[hash >> 58] >> (hash >> 52 & 63) & 1;
}
/* A session that waits for a lease on a key; wake_lock. */
struct release_waiter {
  struct release_waiter *next;
  uint64_t hash; /* of the key */
  int is_woken;
  pthread_cond_t woken;
};

struct core {
  struct env *env;
  struct schema schema;
  struct layout layout;           /* of the schema */
  char types[SCHEMA_TYPES_BYTES]; /* of its vectors */
  const struct vec_ops *vec;
  uint8_t uuid[16];
  uint64_t salt;
  char *dir; /* path without trailing slash */
  int temporary;
  int step_mode;
  int queue_kind;
  _Atomic uint64_t timeout_ms; /* emb_set_timeout; read by any */
  _Atomic int bounded; /* Gets are counted; read acquire, never back to 0 */
  uint32_t
      staleness; /* a Get may start at up to this pending count; set before */
  struct observers observers; /* called on each change of a row (observe.h) */

  struct epoch epoch;
  struct index index;
  struct frames frames;
  struct log log;
  struct cache cache;
  struct ghosts ghosts;       /* estimates the benefit of twice the memory */
  struct admission admission; /* of the schema's rule */

  /* Of the log that was loaded: pages from log_end to the tail at that time
  ** were never written; those up to blank_end are blank (resident.c).  Written
  ** under the flush lock: both by recovery, and blank_end by the process that
  ** becomes owner while no scan is open.  Read by any thread, relaxed. */
  _Atomic uint64_t log_end;
  _Atomic uint64_t blank_end;

  /* Source of versions: grows with every row written. */
  _Atomic uint64_t version;
  /* Committed keys. */
  _Atomic int64_t count;
  /* Newest time of a write, in a table that tracks; any session, relaxed. */
  _Atomic uint32_t newest;

  /* Transactions (txn/).  In order: newest number assigned; newest number
  ** prepared and committed; the next such number while its words are moved, or
  ** 0; first page of the transaction that is open or in doubt, 0 if none:
  ** recovery starts there at the latest, compaction stays below; whether the
  ** open transaction has all its pages, so that its commit writes none; the
  ** page that the newest mark taken while it was open left empty, or 0 (the
  ** last two under open_txn.lock, in core_mark). */
  _Atomic uint64_t txn_last;
  _Atomic uint64_t txn_committed;
  _Atomic uint64_t txn_settling;
  _Atomic uint64_t txn_first_page;
  int txn_whole;
  uint64_t txn_skipped;

  pthread_mutex_t ckpt_lock;  /* checkpoint, compaction, verification */
  pthread_mutex_t flush_lock; /* seal, flush, sync, page out */

  /* Open scans, and the observer that watches rows while there are any. */
  pthread_mutex_t scan_lock;
  struct scan_watch *scans; /* scan_lock */
  struct observer watch;

  /* The index files (reserve.h); log.file_slot_lock.  Generation of the present
  ** index file and of the one being written, 0: none; and the minimum length of
  ** both files. */
  uint64_t index_generation, index_next;
  uint64_t index_reserved;

  struct retention *retentions; /* see retention.h */
  struct readers readers;
  struct identity identity;

  /* Background tasks (background/step.c): one frees frames, the other does the
  ** rest. */
  struct process *process; /* NULL if that failed */
  struct background flush, work;

  /* For sessions that wait for frames. */
  pthread_mutex_t wake_lock;
  pthread_cond_t stopped;           /* `stopping` is set */
  pthread_cond_t room;              /* frames were freed, or the log failed */
  struct release_waiter *waiting;   /* for a lease; wake_lock */
  _Atomic uint32_t release_waiters; /* sessions in that list, or entering it */
  /* REST_*: background work sleeps until something changes.  It sets its bits
  ** before it checks for changes; a thread that makes a change reads them
  ** after.  Sequentially consistent on both sides, so one sees the other. */
  _Atomic uint32_t resting;
  int stopping; /* wake_lock */
  /* Runs one step of background work (background/step.c), for callers that must
  ** wait in a store without a thread. */
  int (*step)(struct core *, int *more, emb_err *err);
  /* Frees disk space if there is any to free (relieve.c).  interrupt may be
  ** NULL.  Call outside any epoch, without locks. */
  void (*relieve)(struct core *, int (*interrupt)(void *), void *arg);
  /* Number of the log's frames that the cache wants; relaxed. */
  _Atomic uint32_t cache_hungry;
  /* Records leave the cache unread, so the cache gives its frames to the log;
  ** relaxed, written under flush_lock (flush.c). */
  _Atomic uint32_t cache_useless;
  /* Until this time there may be records with key_expect's bits; relaxed. */
  _Atomic uint64_t expected_until_us;
  uint64_t judged_hits, judged_promoted; /* at the last verdict; flush_lock */
  /* The tail when the cache last asked for a frame: if nothing was written
  ** since, the log does not need its minimum of frames; flush_lock. */
  uint64_t hungry_tail;
  /* No warm-up: nothing is read ahead of the first Get, or saved for that. */
  int cold;
  /* The warm-up is complete, so the records now in memory are the hot set.
  ** Written by warmup/warm.c, read when the set is written; relaxed. */
  _Atomic int warmed;
  uint64_t hot_moves; /* state of memory at the last hot set; ckpt_lock */

  struct counters counters;
};

static inline int core_bounded(const struct core *core) {
  return atomic_load_explicit(&core->bounded, memory_order_acquire);
}

static inline void count_add(_Atomic uint64_t *counter, uint64_t n) {
  atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* Returns the time by the clock of the table (schema.track). */
static inline uint32_t core_time(struct core *core) {
  return core->schema.track == EMB_TRACK_DATA
             ? atomic_load_explicit(&core->newest, memory_order_relaxed)
             : core->env->wall_s(core->env);
}

/* ---- names.c ------------------------------------------------------------- */

/* Makes the present names of the store's files durable; returns an errno.  Does
** nothing in a temporary store. */
int core_sync_names(struct core *core);
/* As replace_name, but durable. */
int core_replace_name(struct core *core, const char *made, const char *path);

/* ---- tomb.c -------------------------------------------------------------- */

/* Writes a tombstone above log address `above`, with a page flag that gives the
** reason, or 0; inside an epoch.  LOG_ROOM. */
int tomb_write(struct core *core, int64_t key, uint64_t above, uint32_t reason);

/* ---- key.c --------------------------------------------------------------- */

/* Latches the word of a key.  KEY_FOUND (*word without the latch bit),
** KEY_ABSENT, or KEY_INTENT (not latched) if a transaction holds the key. */
int key_latch(struct core *core, int64_t key, uint64_t hash,
              struct entry **entry, uint64_t *word);
/* As key_latch, but ignores the intent bit; 0: there is no entry. */
int key__latch_any(struct core *core, int64_t key, uint64_t hash,
                   struct entry **entry, uint64_t *word);
/* key_latch for an entry and word just found; 0: the word changed. */
static inline int key_latch_found(struct entry *entry, int64_t key,
                                  uint64_t *word) {
  uint64_t w = *word;
  if (!atomic_compare_exchange_strong_explicit(&entry->word, &w, w | WORD_LATCH,
                                               memory_order_acq_rel,
                                               memory_order_relaxed)) {
    return 0;
  }
  if (atomic_load_explicit(&entry->key, memory_order_relaxed) == key) {
    return 1;
  }
  atomic_store_explicit(&entry->word, w, memory_order_release);
  return 0;
}
static inline void key_unlatch(struct entry *entry, uint64_t word) {
  emb_assert(atomic_load(&entry->word) & WORD_LATCH);
  emb_assert(word & ~WORD_LATCH); /* else index_remove must empty it */
  atomic_store_explicit(&entry->word, word & ~WORD_LATCH, memory_order_release);
}
/* As key_unlatch, but empties the entry if the word is 0. */
void key__unlatch_or_empty(struct core *core, uint64_t hash,
                           struct entry *entry, uint64_t word);
/* Returns the log address of the record that a word points to; 0 if none.
** Unless the word is latched, the result is only a hint.  For a cached record a
** later check of the word does not make it certain: compaction changes the log
** address and leaves the word unchanged. */
uint64_t key_log_address(const struct core *core, uint64_t word);
/* As above, for a cached record whose word is not latched; read like a record
** (rec_read), so the slot belonged to this key throughout.  0: it did not; look
** the key up again.  If the word is unchanged afterwards, the address was the
** key's at some moment of the call.  The word alone does not prove that: in
** between, the record may have left the cache, another may have used the slot,
** and the record may have come back. */
uint64_t key_cached_address(const struct core *core, int64_t key,
                            uint64_t word);
/* Returns the log address of a key's committed record, 0 if none, without a
** latch; a cached record may change its slot during the call. */
uint64_t key_find_address(struct core *core, int64_t key, uint64_t hash);
/* Returns the record in memory, in a log frame or the cache; NULL: on disk. */
static inline struct rec *key_rec(const struct core *core, uint64_t word) {
  uint64_t address = word_address(word);
  return word & WORD_CACHED ? &cache_at(&core->cache, address)->rec
                            : log_rec(&core->log, address);
}
/* Claims a key for a transaction.  KEY_FOUND, or KEY_ABSENT (an empty entry now
** holds the key); KEY_INTENT if the key is already claimed; EMB_NOMEM < 0. */
int key_intend(struct core *core, int64_t key, uint64_t hash, uint64_t *word);
/* key_intend for an entry and word just found, without intent and latch; 0: the
** word changed. */
static inline int key_intend_found(struct entry *entry, int64_t key,
                                   uint64_t *word) {
  if (!key_latch_found(entry, key, word)) {
    return 0;
  }
  *word |= WORD_INTENT;
  key_unlatch(entry, *word);
  return 1;
}
/* Counts a Get.  KEY_FOUND: one more is pending (*word); KEY_ABSENT;
** KEY_BLOCKED: the pending count is above the bound.  *entry and *word come
** from a lookup, and are set to what was found last.  The record is copied
** after this call, so the copy has the value that was current when the Get was
** counted, or a later one. */
int key_acquire(struct core *core, int64_t key, uint64_t hash,
                struct entry **entry, uint64_t *word);
/* key_acquire for an entry and word just found, of a key that exists and is not
** above the bound; 0: the word changed. */
static inline int key_acquire_found(struct entry *entry, int64_t key,
                                    uint64_t *word) {
  uint64_t w = *word;
  if (!key_latch_found(entry, key, &w)) {
    return 0;
  }
  *word = w + WORD_PENDING_ONE;
  key_unlatch(entry, *word);
  return 1;
}
/* Releases n Gets of the key. */
void key_release(struct core *core, int64_t key, uint64_t hash, uint32_t n);
/* Notes a read of a record that is cached or that a look-ahead expected
** (key_expect), that is, one with WORD_CACHED or a frequency. */
void key_touch(struct entry *entry, uint64_t word);
/* Notes that a look-ahead found the record in the log's memory. */
void key_expect(struct entry *entry, uint64_t word);

/* ---- promote.c ----------------------------------------------------------- */

struct cache_offer { /* a record that was read from disk */
  int64_t key;
  uint64_t hash;
  uint64_t address; /* in the log */
  const void *value;
  uint64_t version;
  uint32_t freq; /* for promote_offer_warm: the frequency for the word */
};
/* Offers the record to the cache; inside an epoch.  1: the log has a frame for
** the cache, and gives it once the caller has left the epoch and called
** core_wake. */
int promote_offer(struct core *core, const struct cache_offer *offer);
/* As promote_offer, for a record that a look-ahead read: it stays until it has
** been read once.  CACHE_LATER: no slot is free now, but the log will give a
** frame to a caller that waits for it (core_wake, core_wait_frame). */
enum { CACHE_PROMOTED, CACHE_MOVED, CACHE_LATER, CACHE_REFUSED };
int promote_offer_ahead(struct core *core, const struct cache_offer *offer);
/* As promote_offer, for the warm-up: takes a free slot, or a frame while more
** than keep are free, and evicts nothing; otherwise CACHE_REFUSED. */
int promote_offer_warm(struct core *core, const struct cache_offer *offer,
                       uint32_t keep);
/* Moves the records that a look-ahead expects from an extent about to leave
** memory to the cache.  Under the flush lock, outside any epoch. */
void promote__extent(struct core *core, struct epoch_slot *slot,
                     uint64_t number);
/* Returns one frame of the cache to the pool; outside any epoch. */
int promote__shrink(struct core *core, struct epoch_slot *slot);

/* ---- shares.c ------------------------------------------------------------ */

/* Number of frames kept free for the tail. */
uint32_t core_low_water(const struct core *core);
/* Frames that the cache keeps, however useless it seems. */
uint32_t core__cache_min(const struct core *core);
/* Frames that the log keeps, however hungry the cache is. */
uint32_t core__log_min(const struct core *core);
/* Numbers of frames that the cache and the log would gain from twice the
** memory. */
void core__twice(const struct core *core, uint32_t *cache, uint32_t *log);

/* ---- resident.c ---------------------------------------------------------- */

/* Is the page below the tail although it was never written? */
static inline int core_is_blank(const struct core *core, uint64_t page) {
  return page < atomic_load_explicit(&core->blank_end, memory_order_relaxed) &&
         page >= atomic_load_explicit(&core->log_end, memory_order_relaxed);
}
/* Gives the log a frame that the caller has taken and read an extent into;
** valid: a bit for each page whose checksum is right.  1: the log now owns the
** frame. */
int core_restore(struct core *core, uint64_t number, char *frame,
                 uint64_t valid);
/* Is a frame free for an extent that was read? */
int core_may_keep(const struct core *core);
/* Copies an extent that was read elsewhere into such a frame, if all of it can
** be used. */
void core_keep(struct core *core, struct epoch_slot *slot, uint64_t number,
               const char *bytes, uint64_t valid);
_Static_assert(EXTENT_BYTES_TARGET / PAGE_UNIT <= 64, "a bit for each page");

struct aside;
struct resident {
  struct aside *extents;
  size_t n;
};
/* Before another checkpoint is loaded: takes the frames that hold extents below
** `tail`, the tail of the present checkpoint, from the log. */
void core_set_aside(struct core *core, uint64_t tail, struct resident *r);
/* After the load, or if the log is empty: returns the frames to the log, or
** else to the pool. */
void core_take_back(struct core *core, struct resident *r);

/* ---- flush.c ------------------------------------------------------------- */

/* Seals, flushes and pages out as the state of the pool requires.  *did: work
** was done.  Takes the flush lock. */
int core_make_room(struct core *core, struct epoch_slot *slot, int *did,
                   emb_err *err);
/* Writes everything below `page`, which must be sealed, durably, a piece at a
** time, so that no session waits long for frames in between. */
int core_flush_below(struct core *core, uint64_t page, emb_err *err);
/* Writes everything written before the call to the file; durably if asked.
** *upto (or NULL): everything below this page is in the file. */
int core_flush_all(struct core *core, int sync, uint64_t *upto, emb_err *err);
/* Takes a mark: seals the log at its tail between two commits.  From then on no
** slots below the mark are taken; sessions inside the epoch may still fill
** slots that they hold. */
struct core_marking {
  pthread_mutex_t *settle; /* excludes commits, also while `then` runs */
  struct epoch_slot *slot;
  void (*then)(void *arg, uint64_t mark);
  void *arg;
  /* Everything below this page must be durable before any caller learns the
  ** mark, so that the next mark is higher if anything has changed by then,
  ** also after a crash. */
  uint64_t below;
};
int core_mark(struct core *core, struct core_marking *m, emb_err *err);
/* For a session that got LOG_ROOM and has left its epoch: waits for a free
** frame, and makes sure that there is a file slot with its blocks; kept: one of
** the kept file slots will do (log/log.h).  EMB_FULL: there is no space, and
** nothing to free.  interrupt (may be NULL) is polled: non-zero ends the wait
** with EMB_INTERRUPT.  Call outside any epoch, without locks. */
int core_wait_room(struct core *core, int kept, int (*interrupt)(void *),
                   void *arg, emb_err *err);
/* As core_wait_room, for background work, which may use the kept file slots and
** holds ckpt_lock: tries once; then the caller goes on or has an error. */
int core_make_kept_room(struct core *core, struct epoch_slot *slot,
                        emb_err *err);
/* Waits for a condition for at most ms; the caller holds the lock. */
void core_wait_ms(struct core *core, pthread_cond_t *cond,
                  pthread_mutex_t *lock, uint64_t ms);
/* For a look-ahead that got CACHE_LATER: waits a little for a frame. */
void core_wait_frame(struct core *core);
/* Discards the verdict on the cache, since a small cache that was useless says
** nothing about a larger one.  Under the flush lock. */
void core_judge_anew(struct core *core);
/* Wakes the sessions that wait for a lease on one of these keys, after leases
** were released, and clears the set.  NULL: wakes all.  Of 95 sessions that
** wait with batches of 600 keys, most wait for others: when each release woke
** all of them, they did little else. */
void core_signal_release(struct core *core, struct released *released);
/* Wakes sessions that wait for a frame, after frames were freed. */
void core_signal_room(struct core *core);
/* Is the store being closed, so that threads must end? */
int core_stopping(struct core *core);
/* Wakes the background task that frees frames. */
void core_wake(struct core *core);
/* Has that task something to do: frames to free, or half of the log to seal and
** write? */
int core_is_behind(const struct core *core);
/* Call after writing rows: wakes the task in time, before a session has to wait
** for it.  While it was woken only when few frames were left, a load of a
** million keys, 64 floats, into 256 MiB stood still for 80 to 90 ms of 600; it
** now takes 500, and no call takes 11.  To wake it for making frames resident,
** too, gains nothing where the system clears memory as fast as rows are
** written, and loses where it is slower: both threads then clear the same huge
** page. */
static inline void core_wrote(struct core *core) {
  if (core_is_behind(core)) {
    core_wake(core);
  }
}

/* struct core.resting */
enum {
  REST_FLUSH = 1,
  REST_WORK = 2,
  REST_CALLS = 4 /* any call of a session wakes REST_WORK */
};
/* Wakes both background tasks. */
void core_rouse(struct core *core);
/* Call after a change that background work depends on. */
static inline void core_changed(struct core *core) {
  if (__builtin_expect(atomic_load(&core->resting) != 0, 0)) {
    core_rouse(core);
  }
}
/* Assigns n versions and returns the first; the store now has something to
** save. */
static inline uint64_t core_versions(struct core *core, uint64_t n) {
  uint64_t first = atomic_fetch_add(&core->version, n) + 1;
  core_changed(core);
  return first;
}
/* Returns this version if it is above `old`, that of the record to be replaced,
** else a new one: another session may have taken its versions later and written
** earlier.  So no record's version is above the counter. */
static inline uint64_t core_version_above(struct core *core, uint64_t version,
                                          uint64_t old) {
  return version > old ? version : core_versions(core, 1);
}
/* Returns EMB_FULL or EMB_FAILED if the store has failed, with the reason of
** the first failure. */
int core_failed(struct core *core, emb_err *err);

/* ---- core_valid.c, for assertions ---------------------------------------- */

/* Does every word name a record that is at its address, and is each counted
** once?  The caller is alone. */
int core_valid(const struct core *core);
/* Does the word name a record of the key, if that record is in memory?  The
** word is latched, or about to be published. */
int key_has_record(const struct core *core, int64_t key, uint64_t word);

#endif
