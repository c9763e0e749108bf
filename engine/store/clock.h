/* SPDX-License-Identifier: MIT
**
** clock.h -- the staleness bound: counting Gets, waiting, giving back.
**
** A Get of a batch first tries to count its keys in the order they come, and
** never waits meanwhile (clock_admit).  If one is at the bound, the call gives
** back what it took, leaves the epoch, and takes all keys again in the order
** of their hashes, waiting where it must (clock_acquire).  So a session that
** waits holds, of this call, only keys before the one it waits for, and two
** batches cannot wait for each other.  What it holds from earlier calls can:
** then the timeout ends it, or at once the rule that nobody waits for himself.
*/
#ifndef EMB_STORE_CLOCK_H
#define EMB_STORE_CLOCK_H

#include "../base/fence.h"
#include "store.h"

/* Number of a call that is about to count. */
uint32_t clock_call(emb_session *s);
/* Makes room for the leases of n keys; outside any epoch. */
int clock_reserve(emb_session *s, size_t n);
/* Counts one key, unless the call or its statement did already: KEY_FOUND,
** KEY_ABSENT, KEY_BLOCKED.  Inside an epoch; entry and word as for key_admit.
** */
int clock_admit(emb_session *s, int64_t key, uint64_t hash, uint32_t call,
                struct entry **entry, uint64_t *word);
/* The common case of clock_admit: a key that this session has no lease of, and
** no transaction has changed.  0: not so, nothing was done. */
static inline int clock_admit_plain(emb_session *s, int64_t key, uint64_t hash,
                                    uint32_t call, struct entry *entry,
                                    uint64_t *word) {
  struct leases *leases = &s->leases;
  struct lease *lease = lease_slot(leases, key, hash);
  uint64_t w = *word;
  if (lease->held || (w & (WORD_LATCH | WORD_INTENT)) || !word_address(w) ||
      word_clock(w) > s->core->staleness || !key_latch_found(entry, key, &w)) {
    return 0;
  }
  *word = w + WORD_CLOCK_ONE;
  key_unlatch(entry, *word);
  lease_take(leases, lease, key, call);
  return 1;
}
/* Counts all n keys, waiting for each: EMB_BUSY, EMB_INTERRUPT, EMB_NOMEM with
** nothing counted. */
int clock_acquire(emb_session *s, const int64_t *keys, size_t n, uint32_t call);
/* Gives back what the call counted of these keys. */
void clock_give_call(emb_session *s, const int64_t *keys, size_t n,
                     uint32_t call);
/* Takes a lease off the session, unless this call did already; 1: the caller
** has to give it back to the key. */
static inline int clock_take(emb_session *s, int64_t key, uint64_t hash,
                             uint32_t call) {
  struct lease *lease = lease_find(&s->leases, key, hash);
  if (!lease || (lease->put && lease->call == call)) {
    return 0;
  }
  lease->call = call;
  lease->put = 1;
  lease_drop(&s->leases, lease, 1);
  return 1;
}
/* A Put of a latched key: its word with one of the session's Gets given back,
** unless this call did already.  To be stored with the new place. */
static inline uint64_t clock_put(emb_session *s, int64_t key, uint64_t hash,
                                 uint32_t call, uint64_t word) {
  return clock_take(s, key, hash, call) && !EMB_SEED(7) ? word_give(word, 1)
                                                        : word;
}
/* The caller did not give it back: it is the session's again.  In an epoch. */
void clock_untake(emb_session *s, int64_t key, uint64_t hash);
/* The same for a Put inside a transaction: given back by the commit. */
void clock_put_later(emb_session *s, int64_t key, uint64_t hash, uint32_t call);
/* What the commit gives back for the key; 0 ends the promise without. */
uint32_t clock_settle(emb_session *s, int64_t key, uint64_t hash, int commit);
/* After a call that may have given something back. */
static inline void clock_tell(emb_session *s) {
  if (core_bounded(s->core)) {
#if !FENCE_TSAN
    /* Who begins to wait after our look sees what was given back. */
    atomic_thread_fence(memory_order_seq_cst);
#endif
    if (atomic_load(&s->core->given_wanted)) {
      core_tell_given(s->core);
    }
  }
}

#endif
