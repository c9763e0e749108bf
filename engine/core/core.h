/* SPDX-License-Identifier: MIT
**
** core.h -- where index, log and cache meet.
**
** The parts below know nothing of each other; the parts above (ckpt, life,
** store) work on a struct core.  key.c makes every change of a key's word,
** admit.c decides what the cache holds, watch.c tells open scans about moved
** records, flush.c drives log_seal, log_flush and log_evict.
**
** LOCK ORDER  Taken from left to right, never while inside an epoch, except
** the three on the right, which are held for a few instructions only:
**
**   ckpt_lock > flush_lock > scan_lock > [ cache.lock > log.lock > spin locks ]
**
** A store's own_lock (store/own.c) comes before all of them.
**
** scan_lock is also taken inside an epoch: its holders never wait.
*/
#ifndef EMB_CORE_H
#define EMB_CORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "../base/err.h"
#include "../cache/cache.h"
#include "../env/env.h"
#include "../epoch/epoch.h"
#include "../index/index.h"
#include "../io/frames.h"
#include "../log/log.h"
#include "../rec/layout.h"
#include "../rec/rec.h"
#include "../vec/vec.h"
#include "schema.h"

_Static_assert(WORD_ADDRESS_LIMIT_BITS == WORD_ADDRESS_BITS, "one address");

/* Outcomes of key functions that are no errors. */
enum { KEY_FOUND = 0, KEY_ABSENT = 1, KEY_INTENT = 2, KEY_BLOCKED = 3 };

struct scan_watch; /* watch.h */
struct keeper;     /* keep.h */
struct notes;      /* notes.h */

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
};

struct core {
  struct env *env;
  struct schema schema;
  struct layout layout; /* of the schema */
  const struct vec_ops *vec;
  uint8_t uuid[16];
  uint64_t salt;
  char *dir; /* path without trailing slash */
  int temporary;
  int step_mode;
  int queue_kind;
  uint64_t timeout_ms;
  _Atomic int bounded; /* Gets are counted; relaxed, and never back to 0 */
  uint32_t staleness;  /* the largest clock that admits one; set before */

  struct epoch epoch;
  struct index index;
  struct frames frames;
  struct log log;
  struct cache cache;
  struct admission admission; /* of the schema's rule */

  /* Of the log that was loaded: pages from here to the tail that it then had
  ** were never written. */
  uint64_t log_end;

  /* Source of versions: grows with every row written. */
  _Atomic uint64_t version;
  /* Committed keys. */
  _Atomic int64_t count;
  /* Newest time of a write, of a table that tracks; any session, relaxed. */
  _Atomic uint32_t newest;

  /* Transactions (store/txn*.c).  Newest number given out; newest that was
  ** prepared and committed; first page of the one that is open or in doubt,
  ** 0 if none: recovery starts there at the latest, compaction stays below. */
  _Atomic uint64_t txn_last;
  _Atomic uint64_t txn_committed;
  _Atomic uint64_t txn_first_page;

  pthread_mutex_t ckpt_lock;     /* checkpoint, compaction, verification */
  pthread_mutex_t flush_lock;    /* seal, flush, sync, evict */
  struct env_queue *flush_queue; /* flush_lock; NULL once the log failed */
  struct env_queue *work_queue;  /* ckpt_lock */

  /* Open scans; the count is read before every move of a record. */
  pthread_mutex_t scan_lock;
  _Atomic uint32_t scan_count;
  struct scan_watch *scans;

  struct keeper *keepers; /* see keep.h */
  /* While a snapshot's index is being written, else NULL: set release by its
  ** thread, read acquire inside the epoch by whoever moves a record. */
  _Atomic(struct notes *) notes;

  /* Sessions that wait for frames, and the thread that makes them. */
  pthread_mutex_t wake_lock;
  pthread_cond_t wake;  /* the flush thread has work */
  pthread_cond_t work;  /* the other one should stop */
  pthread_cond_t room;  /* frames were freed, or the log failed */
  pthread_cond_t given; /* leases were given back */
  uint64_t given_turn;  /* wake_lock: grows with every broadcast of it */
  _Atomic uint32_t given_wanted; /* sessions that wait for it */
  int work_wanted;               /* wake_lock */
  int stopping;                  /* wake_lock */
  /* One step of background work (store/step.c), for callers that must wait in
  ** a store without a thread. */
  int (*step)(struct core *, int *more, emb_err *err);
  /* So many frames that the log has are wanted by the cache; relaxed. */
  _Atomic uint32_t cache_hungry;
  /* Records leave the cache unread: it gives its frames to the log; relaxed,
  ** written under flush_lock (flush.c). */
  _Atomic uint32_t cache_useless;
  /* Until then there may be records with key_expect's mark; relaxed. */
  _Atomic uint64_t expected_until_us;
  uint64_t judged_hits, judged_admitted; /* counters then; flush_lock */

  struct counters counters;
};

static inline int core_bounded(const struct core *core) {
  return atomic_load_explicit(&core->bounded, memory_order_acquire);
}

static inline void count_add(_Atomic uint64_t *counter, uint64_t n) {
  atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* What the clock of a table that tracks says. */
static inline uint32_t core_time(struct core *core) {
  return core->schema.track == EMB_TRACK_DATA
             ? atomic_load_explicit(&core->newest, memory_order_relaxed)
             : core->env->wall_s(core->env);
}
/* A slot was filled that is, or may become, the record of the key.  Inside the
** stay in the epoch in which it is. */
static inline void core_filled(struct core *core, int64_t key, uint64_t address,
                               const void *value) {
  if (ttl_any(&core->schema.ttl)) {
    log_due(&core->log, address, schema_due(&core->schema, key, value));
  }
}

/* ---- tomb.c ------------------------------------------------------------ */

/* Writes a tombstone above log address `above`, with a flag of the page that
** says why, or 0; inside an epoch.  LOG_ROOM. */
int tomb_write(struct core *core, int64_t key, uint64_t above, uint32_t reason);

/* ---- key.c ------------------------------------------------------------- */

/* Latches the word of a key: KEY_FOUND (*word without the latch bit),
** KEY_ABSENT, or KEY_INTENT (not latched) when a transaction holds the key. */
int key_latch(struct core *core, int64_t key, uint64_t hash,
              struct entry **entry, uint64_t *word);
/* The same for an entry and a word that were just found; 0: it changed. */
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
  atomic_store_explicit(&entry->word, word & ~WORD_LATCH, memory_order_release);
}
/* Log address of the record that a word points to; 0 if none.  The word is
** latched, or the result is checked by a later compare-and-swap. */
uint64_t key_log_address(const struct core *core, uint64_t word);
/* Log address of a key's committed record, 0 if none, without a latch: a
** cached record may change its slot meanwhile. */
uint64_t key_find_address(struct core *core, int64_t key, uint64_t hash);
/* The record in memory, log frame or cache; NULL: on disk. */
static inline struct rec *key_rec(const struct core *core, uint64_t word) {
  uint64_t address = word_address(word);
  return word & WORD_CACHED ? &cache_at(&core->cache, address)->rec
                            : log_rec(&core->log, address);
}
/* The latched key now lives at a new, higher log address. */
void key_publish(struct core *core, int64_t key, struct entry *entry,
                 uint64_t word, uint64_t address);
/* The latched key is gone. */
void key_remove(struct core *core, int64_t key, uint64_t hash,
                struct entry *entry, uint64_t word);
/* A transaction claims a key: KEY_FOUND or KEY_ABSENT (an empty entry now
** holds its place); KEY_INTENT when it is claimed already; EMB_NOMEM < 0. */
int key_intend(struct core *core, int64_t key, uint64_t hash, uint64_t *word);
/* Ends the claim: the key lives at `address`, is gone (KEY_GONE), or is as it
** was before (KEY_SAME).  give: so many Gets of its session end with it. */
#define KEY_GONE UINT64_MAX
#define KEY_SAME 0
void key_settle(struct core *core, int64_t key, uint64_t hash, uint64_t address,
                uint32_t give, const void *session);
/* A Get is admitted: KEY_FOUND, the clock is one higher (*word); KEY_ABSENT;
** KEY_BLOCKED, the clock is above the bound.  *entry and *word come from a
** lookup, and are what was found last.  Whoever copies the record does so after
** this, so he sees a value that was current when he was counted, or a later. */
int key_admit(struct core *core, int64_t key, uint64_t hash,
              struct entry **entry, uint64_t *word);
/* n Gets of the key are given back. */
void key_give(struct core *core, int64_t key, uint64_t hash, uint32_t n);
/* Compaction: from one log address to another, whatever the tier.  0 if the
** key has moved or is claimed. */
int key_relocate(struct core *core, int64_t key, uint64_t hash, uint64_t from,
                 uint64_t to);
/* A record was read that is cached, or that a look-ahead expected (key_expect):
** one with WORD_CACHED or a frequency. */
void key_touch(struct entry *entry, uint64_t word);
/* A look-ahead found the record in the log's memory. */
void key_expect(struct entry *entry, uint64_t word);

/* ---- admit.c ----------------------------------------------------------- */

/* Offers a record that was read from disk to the cache; inside an epoch. */
void cache_admit(struct core *core, int64_t key, uint64_t hash,
                 uint64_t log_address, const void *vector, uint64_t version);
/* The same for a record that a look-ahead read: it stays until it was read
** once.  CACHE_LATER: there is no slot now, but the log will give a frame to
** whoever waits for it (core_wake, core_wait_frame). */
enum { CACHE_ADMITTED, CACHE_MOVED, CACHE_LATER, CACHE_REFUSED };
int cache_admit_ahead(struct core *core, int64_t key, uint64_t hash,
                      uint64_t log_address, const void *vector,
                      uint64_t version);
/* The extent is about to leave memory: its records that a look-ahead expects
** go to the cache.  Under the flush lock, outside any epoch. */
void cache_save_extent(struct core *core, struct epoch_slot *slot,
                       uint64_t number);
/* Gives one frame of the cache back to the pool; outside any epoch. */
int cache_shrink(struct core *core, struct epoch_slot *slot);

/* ---- flush.c ----------------------------------------------------------- */

/* Frames that are kept free for the tail. */
uint32_t core_low_water(const struct core *core);
/* Frames that the cache keeps however useless it seems. */
uint32_t core_cache_min(const struct core *core);
/* Frames that the log keeps however hungry the cache is. */
uint32_t core_log_min(const struct core *core);
/* Seals, flushes and evicts what the state of the pool asks for.  *did: work
** was done.  Takes the flush lock. */
int core_make_room(struct core *core, struct epoch_slot *slot, int *did,
                   emb_err *err);
/* What is below `page`, which was sealed, reaches the file durably: a piece at
** a time, so that nobody waits long for frames meanwhile. */
int core_flush_below(struct core *core, uint64_t page, emb_err *err);
/* Everything written before the call reaches the file; durably if asked.
** *upto (or NULL): the page below which that is so. */
int core_flush_all(struct core *core, int sync, uint64_t *upto, emb_err *err);
/* Takes a mark: seals the log at its tail, which is what `then` gets, between
** two commits.  settle excludes those, also while `then` runs.  Nobody takes
** slots below from then on; who is inside the epoch may still fill his. */
void core_mark(struct core *core, pthread_mutex_t *settle,
               void (*then)(void *arg, uint64_t page), void *arg);
/* A session got LOG_ROOM and has left its epoch: waits for a free frame.
** ask (may be NULL) is polled: non-zero ends the wait with EMB_INTERRUPT. */
int core_wait_room(struct core *core, int (*ask)(void *), void *arg,
                   emb_err *err);
/* Waits for a condition at most this long; its lock is held. */
void core_wait_ms(struct core *core, pthread_cond_t *cond,
                  pthread_mutex_t *lock, uint64_t ms);
/* A look-ahead was told CACHE_LATER: waits a little for a frame. */
void core_wait_frame(struct core *core);
/* Leases were given back: wakes sessions that wait for one. */
void core_tell_given(struct core *core);
/* Wakes the flush thread. */
void core_wake(struct core *core);
int core_failed(struct core *core, emb_err *err);

#endif
