/* SPDX-License-Identifier: MIT
**
** bound.h -- the staleness bound: counting Gets, waiting, giving back.
**
** A Get of a batch first tries to count its keys in the order they come, and
** never waits meanwhile (bound_try).  If one is at the bound, the call gives
** back what it took, leaves the epoch, and takes all keys again in the order
** of their hashes, waiting where it must (bound_acquire).  So a session that
** waits holds, of this call, only keys before the one it waits for, and two
** batches cannot wait for each other.  What it holds from earlier calls can:
** then the timeout ends it, or at once the rule that no session waits for
** itself.
*/
#ifndef EMB_BOUND_H
#define EMB_BOUND_H

#include "engine/base/fence.h"
#include "engine/table/session/session.h"

/* Number of a call that is about to count. */
uint32_t bound_call(emb_session *s);
/* Makes room for the leases of n keys; outside any epoch. */
int bound_reserve(emb_session *s, size_t n);
/* Counts one key, unless the call or its statement did already: KEY_FOUND,
** KEY_ABSENT, KEY_BLOCKED.  Inside an epoch; entry and word as for key_acquire.
** */
int bound_try(emb_session *s, int64_t key, uint64_t hash, uint32_t call,
              struct entry **entry, uint64_t *word);
/* A statement has taken a lease: until the session has none any more it may be
** for a statement that gives it back. */
static inline void bound_note_statement(emb_session *s) {
  if (s->leases.statement && !s->leases.of_rows) {
    s->leases.of_rows = 1;
    atomic_fetch_add(&s->store->txn.leases_of_rows, 1);
  }
}
static inline void bound_note_none(emb_session *s) {
  if (s->leases.of_rows && !s->leases.held) {
    s->leases.of_rows = 0;
    atomic_fetch_sub(&s->store->txn.leases_of_rows, 1);
  }
}
/* The common case of bound_try: a key that this session has no lease of, and
** no transaction has changed.  0: not so, nothing was done. */
static inline int bound_try_plain(emb_session *s, int64_t key, uint64_t hash,
                                  uint32_t call, struct entry *entry,
                                  uint64_t *word) {
  struct leases *leases = &s->leases;
  struct lease *lease = lease_slot(leases, key, hash);
  uint64_t w = *word;
  if (lease->held || (w & (WORD_LATCH | WORD_INTENT)) || !word_address(w) ||
      word_pending(w) > s->core->staleness ||
      !key_acquire_found(entry, key, word)) {
    return 0;
  }
  lease_take(leases, lease, key, call);
  bound_note_statement(s);
  return 1;
}
/* Counts all n keys, waiting for each: EMB_BUSY, EMB_INTERRUPT, EMB_NOMEM with
** nothing counted. */
int bound_acquire(emb_session *s, const int64_t *keys, size_t n, uint32_t call);
/* Gives back what the call counted of these keys.  No call of the session came
** after it, for a lease knows its newest one only (bound_release_rows). */
void bound_release_call(emb_session *s, const int64_t *keys, size_t n,
                        uint32_t call);
/* Which of these rows the call counted, where no call came after it. */
void bound_note_call(const emb_session *s, const int64_t *keys, size_t n,
                     uint32_t call, uint8_t *counted);
/* Gives back what was counted for these rows, whatever calls came after it: one
** lease of each key, unless a Put has given the session's last one back.  None
** is counted then. */
void bound_release_rows(emb_session *s, const int64_t *keys, size_t n,
                        uint8_t *counted);
/* Takes a lease off the session, unless this call did already; 1: the caller
** has to give it back to the key. */
static inline int bound_take(emb_session *s, int64_t key, uint64_t hash,
                             uint32_t call) {
  struct lease *lease = lease_find(&s->leases, key, hash);
  if (!lease || (lease->put && lease->call == call)) {
    return 0;
  }
  lease_call(&s->leases, lease, call);
  lease->put = 1;
  lease_drop(&s->leases, lease, 1);
  return 1;
}
/* A Put of a latched key: its word with one of the session's Gets given back,
** unless this call did already.  To be stored with the new address. */
static inline uint64_t bound_put(emb_session *s, int64_t key, uint64_t hash,
                                 uint32_t call, uint64_t word) {
  return bound_take(s, key, hash, call) && !EMB_SEED(SEED_PUT_KEEPS_LEASE)
             ? word_release(word, 1)
             : word;
}
/* The caller did not give it back: it is the session's again.  In an epoch. */
void bound_untake(emb_session *s, int64_t key, uint64_t hash);
/* The same for a Put inside a transaction: given back by the commit. */
void bound_put_later(emb_session *s, int64_t key, uint64_t hash, uint32_t call);
/* How many of the key's leases the commit gives back; of an earlier moment, to
** which the transaction is undone. */
uint32_t bound_deferred(const emb_session *s, int64_t key, uint64_t hash);
void bound_defer(emb_session *s, int64_t key, uint64_t hash, uint32_t n);
/* What the commit gives back for the key; 0 ends the promise without. */
uint32_t bound_settle(emb_session *s, int64_t key, uint64_t hash, int commit);
/* After a call that may have given something back. */
static inline void bound_signal(emb_session *s) {
  if (core_bounded(s->core)) {
    bound_note_none(s);
#if !FENCE_TSAN
    /* A session that begins to wait after this look sees what was given
    ** back. */
    atomic_thread_fence(memory_order_seq_cst);
#endif
    if (atomic_load(&s->core->release_waiters)) {
      core_signal_release(s->core);
    }
  }
}

#endif
