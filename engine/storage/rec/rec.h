/* SPDX-License-Identifier: MIT
**
** rec.h -- a record in memory: lock-free reads concurrent with a writer.
**
**   00-07  key
**   08-15  stamp  bit 0       busy: the owner of the key's latch is writing
**                 bits  1-15  sequence: counts the changes of the slot
**                 bits 16-63  version: grows with every Put of the key; 0 in a
**                             slot never used
**   16-..  vector, dim elements of the table's storage type, little-endian
**
** STATES    free (stamp 0) -> filled before readers can find it [rec_fill] ->
**           changed in place by the holder of the key's latch while its page is
**           mutable [rec_begin, rec_end].
** INVARIANT A reader that sees the same even stamp and its own key before and
**           after the copy has an untorn vector of that key [rec_read].
**           Versions grow per key, but two keys may have the same version, and
**           the cache may refill a slot with another key during a read:
**           the sequence makes the stamps before and after differ.
** THREADS   One writer (the latch holder), any number of readers.  The value
**           is copied with plain instructions, or under ThreadSanitizer with
**           relaxed atomic words, so that the sanitizer checks the protocol
**           and needs no suppression.
*/
#ifndef EMB_REC_H
#define EMB_REC_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "engine/base/debug.h"
#include "engine/base/fence.h"
#include "engine/base/seed.h"
#include "engine/base/spin.h"
#include "layout.h"

struct rec {
  /* Written before publication or by the cache under its lock; relaxed. */
  _Atomic int64_t key;
  /* Release by writers, acquire by readers. */
  _Atomic uint64_t stamp;
  char vector[];
};
_Static_assert(sizeof(struct rec) == REC_HEAD_BYTES, "record header");

#define REC_BUSY UINT64_C(1)
#define REC_SEQUENCE UINT64_C(2)
#define REC_SEQUENCE_MASK UINT64_C(0xfffe)
#define REC_VERSION_SHIFT 16
/* No call that assigns versions may begin at or above this version: the
** versions that calls in progress still assign then fit below 2^48. */
#define REC_VERSIONS_END ((UINT64_C(1) << 48) - (UINT64_C(1) << 40))

static inline uint64_t rec_stamp(uint64_t version) {
  return version << REC_VERSION_SHIFT;
}
static inline uint64_t rec_version(uint64_t stamp) {
  return stamp >> REC_VERSION_SHIFT;
}

#if FENCE_TSAN
/* Both copy words of 8 bytes; source and destination in frames are
** 8-aligned. */
static inline void rec_copy_out(void *to, const void *from, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t w =
        atomic_load_explicit((const _Atomic uint64_t *)((const char *)from + i),
                             memory_order_relaxed);
    memcpy((char *)to + i, &w, 8);
  }
  for (; i < n; i++) {
    ((char *)to)[i] = atomic_load_explicit(
        (const _Atomic char *)((const char *)from + i), memory_order_relaxed);
  }
}
static inline void rec_copy_in(void *to, const void *from, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t w;
    memcpy(&w, (const char *)from + i, 8);
    atomic_store_explicit((_Atomic uint64_t *)((char *)to + i), w,
                          memory_order_relaxed);
  }
  for (; i < n; i++) {
    atomic_store_explicit((_Atomic char *)((char *)to + i),
                          ((const char *)from)[i], memory_order_relaxed);
  }
}
#else
/* Whole cache lines are copied inline: a call for each record costs more. */
static inline void rec_copy_out(void *to, const void *from, size_t n) {
  size_t lines = n % 64 ? 0 : n;
  if (lines == 0 || lines > 4096) {
    memcpy(to, from, n);
    return;
  }
  for (size_t i = 0; i < lines; i += 64) {
    __builtin_memcpy((char *)to + i, (const char *)from + i, 64);
  }
}
static inline void rec_copy_in(void *to, const void *from, size_t n) {
  rec_copy_out(to, from, n);
}
#endif

/* Copies the stored vector of `key` to `to` and its version to *version.
** Returns 0 if the record holds another key; the caller must look the key up
** again. */
static inline int rec_read(const struct rec *rec, int64_t key, void *to,
                           size_t bytes, uint64_t *version) {
  unsigned spins = 0;
  for (;;) {
    uint64_t before = atomic_load_explicit(&rec->stamp, memory_order_acquire);
    if (before & REC_BUSY) {
      spin_pause(&spins);
      continue;
    }
    if (atomic_load_explicit(&rec->key, memory_order_relaxed) != key) {
      return 0;
    }
    if (to) {
      rec_copy_out(to, rec->vector, bytes);
    }
#if FENCE_TSAN
    /* ThreadSanitizer does not model fences.  Here the copy is a series of
    ** calls, which nothing reorders; a load that also writes would look like a
    ** race with the write of the page to disk. */
    uint64_t after = atomic_load_explicit(&rec->stamp, memory_order_acquire);
#else
    atomic_thread_fence(memory_order_acquire);
    uint64_t after = atomic_load_explicit(&rec->stamp, memory_order_relaxed);
#endif
    if (before == after || EMB_SEED(SEED_TORN_COPY_TAKEN)) {
      *version = rec_version(before);
      return 1;
    }
    spin_pause(&spins);
  }
}

/* Marks the record as being changed; the caller holds the key's latch. */
static inline void rec_begin(struct rec *rec) {
  uint64_t stamp = atomic_load_explicit(&rec->stamp, memory_order_relaxed);
  emb_assert(!(stamp & REC_BUSY)); /* one writer */
#if FENCE_TSAN
  atomic_exchange_explicit(&rec->stamp, stamp | REC_BUSY, memory_order_acq_rel);
#else
  atomic_store_explicit(&rec->stamp, stamp | REC_BUSY, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
#endif
}
static inline void rec_end(struct rec *rec, uint64_t version) {
  uint64_t stamp = atomic_load_explicit(&rec->stamp, memory_order_relaxed);
  atomic_store_explicit(&rec->stamp,
                        rec_stamp(version) |
                            ((stamp + REC_SEQUENCE) & REC_SEQUENCE_MASK),
                        memory_order_release);
}

/* Fills a slot that readers cannot find yet, or that rec_begin marked busy. */
static inline void rec_fill(struct rec *rec, int64_t key, const void *vector,
                            size_t bytes, uint64_t version) {
  atomic_store_explicit(&rec->key, key, memory_order_relaxed);
  rec_copy_in(rec->vector, vector, bytes);
  rec_end(rec, version);
}

/* Marks a filled but unpublished slot as never used; recovery would otherwise
** take it for the key's latest record. */
static inline void rec_unfill(struct rec *rec) {
  atomic_store_explicit(&rec->stamp, 0, memory_order_release);
}

#endif
