/* SPDX-License-Identifier: MIT
**
** lease.h -- the Gets of a session that were counted and not returned.
**
** A hash table from key to number of leases, with open addressing, used only by
** the session's thread.  The count of pending reads in a key's word is the sum
** over all sessions' leases of the key (verify.c compares the two).
**
** CALLS     Each call that gets or puts has a number.  A lease keeps the number
**           of the last call that counted the key or returned a lease of it
**           (put), so that a key that occurs twice in a batch is counted, or
**           returned, once.  All calls since a statement began have numbers
**           from its first call's on.  Numbers wrap after 2^32 calls, so every
**           2^30 calls leases older than 2^29 calls are flagged as old: no call
**           still running counted them, and no later call can be mistaken for
**           theirs.
** MARKED    Leases taken by an attempt, which may be undone as a whole.
**           `since` tells whether an attempt is over: the marks of a lease with
**           an older call do not count, so they need not be searched for.
** DEFERRED  A Put inside a transaction takes effect when the transaction
**           commits: its lease stays until then.
** OTHERS    A session that waits for a key may look up who holds it and since
**           when [lease_look].  It reads concurrently with the session's
**           thread, which takes no lock to change a key's lease: a lease being
**           added, removed or moved may be missed.  The table itself stays
**           allocated.
** FAILURE   lease_reserve is the only function that allocates.
** MEMORY    32 to 64 bytes per key with a lease.
*/
#ifndef EMB_SESSION_LEASE_H
#define EMB_SESSION_LEASE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/debug.h"
#include "engine/base/spin.h"
#include "engine/base/env/env.h"

#define LEASE_MAX 4095u
#define LEASE_DEFERRED_MAX 127u

struct lease {
  int64_t key;
  uint32_t call;
  uint32_t held : 12;    /* at most WORD_PENDING_MAX; 0: free slot */
  uint32_t marked : 12;  /* of these, taken in the attempt, if call is its */
  uint32_t deferred : 7; /* of these, to be returned by the commit */
  uint32_t put : 1;      /* call returned a lease */
};
_Static_assert(sizeof(struct lease) == 16, "four leases in a cache line");

/* A counting prefetch in progress. */
struct lease_batch {
  uint32_t call; /* 0: none */
  uint64_t ticket;
  uint64_t since_us;
};
#define LEASE_BATCHES 16 /* further ones are not recorded */

struct leases {
  struct lease *slots; /* slots and room are written under `look` */
  size_t room;         /* a power of two, or 0 */
  spin_lock look;      /* held by the session while it writes these */
  struct lease_batch batches[LEASE_BATCHES]; /* look */
  /* Earliest time at which the oldest lease can have been taken: written by the
  ** session when it has none, read by lease_look; relaxed. */
  _Atomic uint64_t since_us;
  size_t used; /* keys with leases */
  size_t held; /* leases */
  int mark;    /* new leases get marked */
  int of_rows; /* a statement took some lease; 0 when none is held */
  uint32_t calls;
  uint32_t since;     /* first call of the attempt, or after the last attempt */
  uint64_t statement; /* of emb_statement; or 0 */
  uint64_t statement_last; /* the last nonzero `statement` */
  uint32_t statement_call; /* the first call of that statement */
};

/* lease_valid.c, for emb_check; between two calls of the session. */
int lease_valid(const struct leases *leases);

void lease_free(struct leases *leases, struct env *env);
/* Makes room for n more keys: EMB_OK or EMB_NOMEM. */
int lease_reserve(struct leases *leases, struct env *env, size_t n);
uint32_t lease_next_call(struct leases *leases);
/* A counting prefetch begins, and ends; its call identifies it. */
void lease_batch_begin(struct leases *leases, uint32_t call, uint64_t ticket,
                       uint64_t now_us);
void lease_batch_end(struct leases *leases, uint32_t call);
/* Another session's leases of the key.  0: none was seen. */
struct lease_seen {
  uint32_t held;
  uint64_t ticket; /* of the prefetch that took the last one; 0: none */
  uint64_t since_us;
};
int lease_look(struct leases *leases, int64_t key, uint64_t hash,
               struct lease_seen *seen);
/* Frees the slot, whose last lease is gone; other leases may move into it. */
void lease_remove(struct leases *leases, struct lease *lease);

/* The key's slot, or the slot where it would be; NULL without a table. */
static inline struct lease *lease_slot(const struct leases *leases, int64_t key,
                                       uint64_t hash) {
  if (!leases->room) {
    return NULL;
  }
  size_t i = hash & (leases->room - 1);
  while (leases->slots[i].held && leases->slots[i].key != key) {
    i = (i + 1) & (leases->room - 1);
  }
  return &leases->slots[i];
}
/* Prefetches the key's slot. */
static inline void lease_prefetch(const struct leases *leases, uint64_t hash) {
  if (leases->room) {
    __builtin_prefetch(&leases->slots[hash & (leases->room - 1)]);
  }
}
/* The key's lease, or NULL. */
static inline struct lease *lease_find(const struct leases *leases, int64_t key,
                                       uint64_t hash) {
  struct lease *lease = leases->held ? lease_slot(leases, key, hash) : NULL;
  return lease && lease->held ? lease : NULL;
}
/* Was the key counted by this call or a later one? */
static inline int lease_counted_since(const struct lease *lease,
                                      uint32_t call) {
  return lease->held && !lease->put && (int32_t)(lease->call - call) >= 0;
}
/* Leases of the key that the attempt took. */
static inline uint32_t lease_marked(const struct leases *leases,
                                    const struct lease *lease) {
  return (int32_t)(lease->call - leases->since) >= 0 ? lease->marked : 0;
}
/* A call counts the key or returns a lease of it. */
static inline void lease_call(const struct leases *leases, struct lease *lease,
                              uint32_t call) {
  lease->marked = lease_marked(leases, lease) & LEASE_MAX;
  lease->call = call;
}
/* Adds a lease of the key, whose slot this is. */
static inline void lease_take(struct leases *leases, struct lease *lease,
                              int64_t key, uint32_t call) {
  emb_assert(lease->held < LEASE_MAX);
  emb_assert(!lease->held || lease->key == key);
  leases->used += lease->held == 0;
  lease->key = key;
  lease_call(leases, lease, call);
  lease->put = 0;
  lease->held = (lease->held + 1u) & LEASE_MAX;
  lease->marked = (lease->marked + (leases->mark ? 1u : 0u)) & LEASE_MAX;
  leases->held++;
}
/* Removes n leases.  If none is left, another key may move into the slot. */
static inline void lease_drop(struct leases *leases, struct lease *lease,
                              uint32_t n) {
  emb_assert(n <= lease->held && n <= leases->held);
  uint32_t held = lease->held - n;
  leases->held -= n;
  lease->held = held & LEASE_MAX;
  if (held == 0) {
    size_t next = ((size_t)(lease - leases->slots) + 1) & (leases->room - 1);
    if (leases->slots[next].held) {
      lease_remove(leases, lease);
    } else {
      *lease = (struct lease){0};
      leases->used--;
    }
    return;
  }
  if (lease->marked > held) {
    lease->marked = held & LEASE_MAX;
  }
  if (lease->deferred > held) {
    lease->deferred = held & LEASE_DEFERRED_MAX;
  }
}

#endif
