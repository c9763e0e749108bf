/* SPDX-License-Identifier: MIT
**
** ghost.h -- estimates the benefit of twice the memory.
**
** A ghost is a key that has left the cache and would still be there if the
** cache were twice as large.  The ghost list acts as a second cache behind the
** first, of the same size, without records.  A disk read of a ghost is a read
** that twice the memory would have saved.  The idea comes from the ghost
** entries of ARC (Megiddo and Modha, 2003).  Keys that have left the log's
** memory need no list: an extent records when it left (extent.left).
**
** SAMPLE    Only keys whose hash ends in `shift` zeros are tracked, so that
**           GHOSTS_MAX of them represent all: spatial sampling, as in SHARDS
**           (Waldspurger, Park, Garthwaite and Ahmad, 2015).  Counts are
**           multiplied by 2^shift.
** POLICY    Same as the cache's (kernel/promote.c), so the list is a clock: a
**           read raises a ghost's count, and a ghost with a nonzero count goes
**           round again.  A ghost that enters memory leaves the list.
** COST      200 KB per store; one branch for each key that is read from disk
**           or leaves memory, and a lock for sampled keys.
** THREADS   Its own mutex.
*/
#ifndef EMB_CACHE_GHOST_H
#define EMB_CACHE_GHOST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "engine/base/env/env.h"

#define GHOSTS_MAX 8192
#define GHOST_BUCKETS 8192

struct ghost_entry {
  uint64_t hash;
  uint32_t chain;        /* next entry of the bucket, plus 1 */
  uint32_t older, newer; /* neighbors in order of arrival, plus 1 */
  uint32_t freq;
};

struct ghosts {
  struct env *env;
  pthread_mutex_t lock;
  struct ghost_entry *entries;
  uint32_t *buckets; /* first entry of each bucket, plus 1 */
  uint32_t count;
  uint32_t oldest, newest; /* plus 1 */
  uint32_t free;           /* plus 1; entries from `made` on were never used */
  uint32_t made;
  /* Hash bits that are 0 in a sampled key; written under lock, read relaxed. */
  _Atomic uint64_t mask;
  _Atomic uint64_t spared; /* reads saved, scaled to all keys; relaxed */
};

int ghosts_init(struct ghosts *ghosts, struct env *env);
void ghosts_free(struct ghosts *ghosts);
/* Sets the number of records that the memory can hold, and empties the list. */
void ghosts_size(struct ghosts *ghosts, uint64_t records);

static inline int ghosts_sample(const struct ghosts *ghosts, uint64_t hash) {
  uint64_t mask = atomic_load_explicit(&ghosts->mask, memory_order_relaxed);
  return (hash & mask) == 0;
}
/* The functions below are for sampled keys; `records` is the capacity of the
** cache. */
/* Records a disk read of the key.  promoted: the key is now in the cache;
** near: its extent left memory a short while ago. */
void ghosts_read(struct ghosts *ghosts, uint64_t hash, int promoted, int near,
                 uint64_t records);
/* Adds a key that has left the cache. */
void ghosts_add(struct ghosts *ghosts, uint64_t hash, uint64_t records);

#endif
