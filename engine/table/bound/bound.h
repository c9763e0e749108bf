/* SPDX-License-Identifier: MIT
**
** bound.h -- the staleness bound: counting Gets, waiting, giving back.
**
** A batched Get first tries to count its keys in the order given, and never
** waits (bound_try).  If a key is at the bound, the call gives back the leases
** it took, leaves the epoch, and takes all keys again in hash order, waiting
** where it must (bound_acquire).  A waiting session therefore holds, from the
** current call, only keys that sort before the one it waits for, and two
** batches cannot deadlock.  Leases from earlier calls can still deadlock: the
** timeout ends such a wait, and a session that would wait for itself fails
** immediately.
*/
#ifndef EMB_BOUND_H
#define EMB_BOUND_H

#include "engine/base/fence.h"
#include "engine/table/session/session.h"

/* Only in self-checking builds: between two calls of the session. */
int bound_valid(const emb_session *s);
/* The number of a call that is about to count keys. */
uint32_t bound_call(emb_session *s);
/* Makes room for the leases of n keys.  Outside any epoch. */
int bound_reserve(emb_session *s, size_t n);
/* Counts one key, unless this call or its statement has counted it: KEY_FOUND,
** KEY_ABSENT, KEY_BLOCKED.  In an epoch; entry and word as in key_acquire. */
int bound_try(emb_session *s, int64_t key, uint64_t hash, uint32_t call,
              struct entry **entry, uint64_t *word);
/* A statement has taken a lease.  Until the session has no leases left, it may
** take another statement to give them back. */
static inline void bound_note_statement(emb_session *s) {
  if (s->leases.statement && !s->leases.of_rows) {
    s->leases.of_rows = 1;
    atomic_fetch_add(&s->store->txn.leases_of_rows, 1);
  }
}
static inline void bound_note_none(emb_session *s) {
  if (s->leases.of_rows && !s->leases.held) {
    s->leases.of_rows = 0;
    emb_assert(atomic_load(&s->store->txn.leases_of_rows) > 0);
    atomic_fetch_sub(&s->store->txn.leases_of_rows, 1);
  }
}
/* The common case of bound_try: a key on which no session has a lease, and that
** no transaction has changed.  0: not that case, nothing was done. */
static inline int bound_try_plain(emb_session *s, int64_t key, uint32_t call,
                                  struct entry *entry, uint64_t *word) {
  uint64_t w = *word;
  /* The word differs if the key occurred before in the batch: a failed
  ** compare-and-swap costs as much as another one. */
  if ((w & (WORD_LATCH | WORD_INTENT | WORD_PENDING_ALL)) || !word_address(w) ||
      atomic_load_explicit(&entry->word, memory_order_relaxed) != w ||
      !key_acquire_found(entry, key, word)) {
    return 0;
  }
  lease_append(&s->leases, key, call);
  bound_note_statement(s);
  return 1;
}
/* Counts all n keys, waiting where it must.  After EMB_BUSY, EMB_INTERRUPT or
** EMB_NOMEM nothing is counted. */
int bound_acquire(emb_session *s, const int64_t *keys, size_t n, uint32_t call);
/* Gives back the leases that the call took on these keys.  The session must not
** have made another call since, because a lease records only its newest call
** (otherwise use bound_release_rows). */
void bound_release_call(emb_session *s, const int64_t *keys, size_t n,
                        uint32_t call);
/* Marks in `counted` the rows that the call counted.  The session must not have
** made another call since. */
void bound_note_call(emb_session *s, const int64_t *keys, size_t n,
                     uint32_t call, uint8_t *counted);
/* Gives back the leases counted for these rows, even after later calls: one for
** each key, unless a Put has already given back the session's last lease on the
** key.  Clears `counted`. */
void bound_release_rows(emb_session *s, const int64_t *keys, size_t n,
                        uint8_t *counted);
/* Removes a lease from the session, unless this call has already done so.  1:
** the caller must give it back to the key. */
static inline int bound_take(emb_session *s, int64_t key, uint64_t hash,
                             uint32_t call) {
  struct lease *lease = lease_find(&s->leases, key, hash);
  if (!lease || (lease->put && lease->call == call)) {
    return 0;
  }
  lease_call(&s->leases, lease, call);
  lease->put = 1;
  lease_drop(&s->leases, lease, 1);
  released_add(&s->released, hash);
  return 1;
}
/* For a Put of a latched key: the word with one of the session's leases given
** back, unless this call has already done so.  The caller stores it together
** with the new address. */
static inline uint64_t bound_put(emb_session *s, int64_t key, uint64_t hash,
                                 uint32_t call, uint64_t word) {
  return bound_take(s, key, hash, call) && !EMB_SEED(SEED_PUT_KEEPS_LEASE)
             ? word_release(word, 1)
             : word;
}
/* Undoes bound_take, if the lease was not given back to the key: the session
** holds it again.  In an epoch. */
void bound_untake(emb_session *s, int64_t key, uint64_t hash);
/* As bound_put, for a Put inside a transaction: the commit gives the lease
** back. */
void bound_put_later(emb_session *s, int64_t key, uint64_t hash, uint32_t call);
/* Number of the key's leases that the commit gives back.  bound_defer restores
** an earlier number, when the transaction rolls back to a savepoint. */
uint32_t bound_deferred(emb_session *s, int64_t key, uint64_t hash);
void bound_defer(emb_session *s, int64_t key, uint64_t hash, uint32_t n);
/* Ends the deferral.  Returns the number of leases the commit must give back to
** the key; 0 if commit is 0. */
uint32_t bound_settle(emb_session *s, int64_t key, uint64_t hash, int commit);
/* Called after every call that may have given leases back; all: or made keys
** visible on which the session has no lease. */
static inline void bound_signal(emb_session *s, int all) {
  if (core_bounded(s->core)) {
    bound_note_none(s);
#if !FENCE_TSAN
    /* A session that starts to wait after this load of release_waiters sees the
    ** leases that were given back. */
    atomic_thread_fence(memory_order_seq_cst);
#endif
    if (atomic_load(&s->core->release_waiters)) {
      core_signal_release(s->core, all ? NULL : &s->released);
    }
  }
}

#endif
