/* SPDX-License-Identifier: MIT
**
** lease.h -- the Gets of a session that were counted and not returned.
**
** An array in the order of the Gets, used only by the session's thread.  The
** count of pending reads in a key's word is the sum of all sessions' leases of
** the key (verify.c compares the two).
**
** ORDER     A key whose word has no pending reads has no lease here either, and
**           is appended without a search.  Puts usually come in the order of
**           the Gets: a search first looks behind the slot that the last one
**           found.  Only if the key is not there, the slots that are not yet in
**           a hash table, with open addressing, are entered into it.  A slot
**           whose leases are gone stays empty until no lease is left, or the
**           slots are moved together.  A Get and a Put of 1,024 of a million
**           keys reached 0.85 of the speed without a bound, uniform, and 0.69,
**           Zipf; with one hash table of all leases 0.81 and 0.65.
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
**           added or removed may be missed.  The array itself stays allocated.
** FAILURE   lease_reserve is the only function that allocates.
** MEMORY    48 to 96 bytes per key with a lease, of which a session that puts
**           in the order of its Gets touches 16.
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
/* Elements of the table for each slot: at most half of them are in use. */
#define LEASE_TABLE 2

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
  size_t count;        /* slots from here on are empty and were not used */
  size_t next;         /* where a search looks first */
  uint32_t *table; /* position + 1 of a key's slot, or 0; LEASE_TABLE * room */
  size_t table_mask; /* number of its elements now in use, less 1 */
  size_t listed;     /* slots below this are in the table, if not empty */
  spin_lock look;    /* held by the session while it writes these */
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
int lease_look(struct leases *leases, int64_t key, struct lease_seen *seen);
/* lease_find by the table. */
struct lease *lease__search(struct leases *leases, int64_t key, uint64_t hash);
/* No lease is left. */
void lease__none_left(struct leases *leases);

/* The key's lease, or NULL. */
static inline struct lease *lease_find(struct leases *leases, int64_t key,
                                       uint64_t hash) {
  if (!leases->held) {
    return NULL;
  }
  struct lease *lease = &leases->slots[leases->next];
  if (leases->next < leases->count && lease->key == key && lease->held) {
    leases->next++;
    return lease;
  }
  return lease__search(leases, key, hash);
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
/* Adds a lease of a key that has none; lease_reserve has made room. */
static inline void lease_append(struct leases *leases, int64_t key,
                                uint32_t call) {
  emb_assert(leases->count < leases->room);
  leases->slots[leases->count++] = (struct lease){
      .key = key, .call = call, .held = 1, .marked = leases->mark != 0};
  leases->used++;
  leases->held++;
}
/* Adds a lease of the key; lease: lease_find's result. */
static inline void lease_take(struct leases *leases, struct lease *lease,
                              int64_t key, uint32_t call) {
  if (!lease) {
    lease_append(leases, key, call);
    return;
  }
  emb_assert(lease->held && lease->held < LEASE_MAX && lease->key == key);
  lease_call(leases, lease, call);
  lease->put = 0;
  lease->held = (lease->held + 1u) & LEASE_MAX;
  lease->marked = (lease->marked + (leases->mark ? 1u : 0u)) & LEASE_MAX;
  leases->held++;
}
/* Removes n leases. */
static inline void lease_drop(struct leases *leases, struct lease *lease,
                              uint32_t n) {
  emb_assert(lease->held && n <= lease->held && n <= leases->held);
  uint32_t held = lease->held - n;
  leases->held -= n;
  if (held == 0) {
    *lease = (struct lease){.key = lease->key};
    leases->used--;
    if (!leases->held) {
      lease__none_left(leases);
    }
    return;
  }
  lease->held = held & LEASE_MAX;
  if (lease->marked > held) {
    lease->marked = held & LEASE_MAX;
  }
  if (lease->deferred > held) {
    lease->deferred = held & LEASE_DEFERRED_MAX;
  }
}

#endif
