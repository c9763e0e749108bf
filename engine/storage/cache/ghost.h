/* SPDX-License-Identifier: MIT
**
** ghost.h -- what twice the memory would be good for.
**
** A ghost is a key that has left the cache and would still be there if that
** were twice as large: the list of them is a second cache behind the first, of
** the same size, without records.  A read of a ghost from disk is one that
** twice the memory would have spared.  The idea is that of the ghost entries of
** ARC (Megiddo and Modha, 2003).  What has left the log's memory needs no list:
** an extent records when it did (extent.left).
**
** SAMPLE    Only keys whose hash ends in `shift` zeros are looked at, so that
**           GHOSTS_MAX of them stand for all: spatial sampling, as in SHARDS
**           (Waldspurger, Park, Garthwaite and Ahmad, 2015).  What is counted
**           is multiplied by 2^shift.
** POLICY    That of the cache (kernel/promote.c), so the list is a clock: a
**           read raises a ghost's count, and one whose count is not 0 goes
**           round once more.  A ghost that comes into memory is none any more.
** COST      200 KB a store; one branch for each key that is read from disk or
**           leaves memory, and a lock for the sampled ones.
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
  uint32_t chain;        /* the next one of its bucket, plus 1 */
  uint32_t older, newer; /* in the order in which they came, plus 1 */
  uint32_t freq;
};

struct ghosts {
  struct env *env;
  pthread_mutex_t lock;
  struct ghost_entry *entries;
  uint32_t *buckets; /* of each the first entry, plus 1 */
  uint32_t count;
  uint32_t oldest, newest; /* plus 1 */
  uint32_t free;           /* plus 1; those never used come after `made` */
  uint32_t made;
  /* Bits of the hash that are 0 in a sampled key; written under lock, read
  ** relaxed. */
  _Atomic uint64_t mask;
  _Atomic uint64_t spared; /* reads, as if all keys were looked at; relaxed */
};

int ghosts_init(struct ghosts *ghosts, struct env *env);
void ghosts_free(struct ghosts *ghosts);
/* The memory holds at most so many records now; begins anew. */
void ghosts_size(struct ghosts *ghosts, uint64_t records);

static inline int ghosts_sample(const struct ghosts *ghosts, uint64_t hash) {
  uint64_t mask = atomic_load_explicit(&ghosts->mask, memory_order_relaxed);
  return (hash & mask) == 0;
}
/* The following are for sampled keys; records: that the cache has room for. */
/* The key was read from disk, and is in the cache now or not; near: its extent
** has left memory a short while ago. */
void ghosts_read(struct ghosts *ghosts, uint64_t hash, int promoted, int near,
                 uint64_t records);
/* The key has left the cache. */
void ghosts_add(struct ghosts *ghosts, uint64_t hash, uint64_t records);

#endif
