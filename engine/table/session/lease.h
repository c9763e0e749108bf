/* SPDX-License-Identifier: MIT
**
** lease.h -- the Gets of a session that were counted and not given back.
**
** A table from key to the number of leases, by open addressing, used by the
** session's thread only.  The count of pending reads in the key's word is the
** sum of what the sessions have here (verify.c compares the two).
**
** CALLS     Each call that gets or puts has a number.  A lease keeps the one of
**           the last call that counted the key or gave it back (put), so that
**           a key that occurs twice in a batch is counted, or given back, once.
**           All calls since a statement began have numbers from its first on.
**           Numbers go round after 2^32 calls, so what is older than 2^29 is
**           flagged as such every 2^30 calls: it was not counted by a call that
**           still goes on, and passes for none later.
** MARKED    What an attempt counts that may be undone as a whole.  That one is
**           over is said by `since`: the marks of a lease with an older call
**           do not count, so they need not be looked for.
** DEFERRED  A Put inside a transaction takes effect when that commits: its
**           lease stays until then.
** OTHERS    A session that waits for a key may look who holds it and since
**           when [lease_look].  It reads beside the session's thread, which
**           takes no lock for what it does to a key: a lease that comes, goes
**           or moves just then may be overlooked.  The table itself stays.
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
  uint32_t held : 12;   /* at most WORD_PENDING_MAX; 0: free slot */
  uint32_t marked : 12; /* of them taken since the attempt began, if call was */
  uint32_t deferred : 7; /* of them to be given back by the commit */
  uint32_t put : 1;      /* call gave back */
};
_Static_assert(sizeof(struct lease) == 16, "four leases in a cache line");

/* A prefetch under way that counts. */
struct lease_batch {
  uint32_t call; /* 0: none */
  uint64_t ticket;
  uint64_t since_us;
};
#define LEASE_BATCHES 16 /* more are not known as such */

struct leases {
  struct lease *slots; /* written under `look`, with room */
  size_t room;         /* a power of two, or 0 */
  spin_lock look;      /* the session takes it to write what it is for */
  struct lease_batch batches[LEASE_BATCHES]; /* look */
  /* When the oldest lease can have been taken: written by the session when it
  ** has none, read by those that look; relaxed. */
  _Atomic uint64_t since_us;
  size_t used; /* keys with leases */
  size_t held; /* leases */
  int mark;    /* new leases are marked */
  int of_rows; /* some was taken by a statement, while it has any */
  uint32_t calls;
  uint32_t since;     /* first call of the attempt, or after the last one */
  uint64_t statement; /* emb_statement: number, or 0, */
  uint64_t statement_last; /* the last that was not, and its first call's */
  uint32_t statement_call;
};

/* lease_valid.c, for emb_check; between two calls of the session. */
int lease_valid(const struct leases *leases);

void lease_free(struct leases *leases, struct env *env);
/* Makes room for n more keys: EMB_OK or EMB_NOMEM. */
int lease_reserve(struct leases *leases, struct env *env, size_t n);
uint32_t lease_next_call(struct leases *leases);
/* A prefetch that counts has begun, and ends: forgotten by its call. */
void lease_batch_begin(struct leases *leases, uint32_t call, uint64_t ticket,
                       uint64_t now_us);
void lease_batch_end(struct leases *leases, uint32_t call);
/* What another session has of the key; 0: nothing that was seen. */
struct lease_seen {
  uint32_t held;
  uint64_t ticket; /* its last one is a prefetch's; 0: it is not */
  uint64_t since_us;
};
int lease_look(struct leases *leases, int64_t key, uint64_t hash,
               struct lease_seen *seen);
/* Frees the slot, whose last lease is gone; others may move into it. */
void lease_remove(struct leases *leases, struct lease *lease);

/* The key's slot, or the one where it would be; NULL without a table. */
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
/* The key's slot is wanted soon. */
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
/* Leases that the attempt took of the key. */
static inline uint32_t lease_marked(const struct leases *leases,
                                    const struct lease *lease) {
  return (int32_t)(lease->call - leases->since) >= 0 ? lease->marked : 0;
}
/* A call counts the key or gives it back. */
static inline void lease_call(const struct leases *leases, struct lease *lease,
                              uint32_t call) {
  lease->marked = lease_marked(leases, lease) & LEASE_MAX;
  lease->call = call;
}
/* One more Get of the key, whose slot this is. */
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
/* n fewer.  The slot is another's when none is left. */
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
