/* SPDX-License-Identifier: MIT
**
** word.h -- the 64-bit word that holds all of a key's shared state.
**
**     63     62    61     60-59   58-47   46-0
**   latch   tier  intent  freq   pending  address
**
**   address  tier 0: a slot of the log (rec/layout.h); tier 1: a slot of the
**            record cache, whose head holds the log address.  0: the key has
**            no committed record (an uncommitted insert, intent is set).
**   pending  Gets counted and not yet released: the staleness count
**   freq     tier 1: how often the cached record was read since the CLOCK hand
**            passed.  tier 0, in memory: not 0 if a look-ahead found the
**            record there and it has not been read since.  tier 0, on disk:
**            the round of the hand (modulo 3, plus 1) of its last read
**   intent   an open transaction has changed the key; its own map says how
**   latch    one session is changing the record or moving the word
**   0        the entry is empty
**
** A key removed while reads of it are pending keeps its entry, with address 0:
** its leases are released there, and if the key is added again before the last
** release, the count carries on.  The last lease empties the entry.
**
** TRANSITIONS  Each is one compare-and-swap of the word, or a plain release
** store by the holder of the latch.  kernel/row_write.c changes which record
** the key has (row_), kernel/promote.c which tier it is in (promote_),
** kernel/key.c and core.h the rest (key_); index_grow.c moves entries and
** leaves every bit except the latch unchanged.
**
**   from                     to                        function
**   empty                    address                   row_insert, row_load,
**                                                      row_replay
**   empty                    address, latch 1          row_insert, observed
**   empty                    intent, address 0         key_intend (new key)
**   any, latch 0, intent 0   latch 1                   key_latch,
**                                                      key_latch_found
**   any, latch 0             latch 1                   key__latch_any
**   latch 1                  other address, latch 0    row_publish
**   latch 1                  empty, or address 0       row_remove
**   latch 1                  as before, latch 0        key_unlatch
**   latch 0                  intent 1                  key_intend,
**                                                      key_intend_found
**   intent 1                 other address, intent 0   row_settle
**   intent 1                 intent 0, or empty        row_settle
**   latch 1                  pending - n, or empty     key_release
**   tier 0                   other address, tier 0     row_move
**   no session               other address             row_replay
**   no session               empty, or address 0       row_replay_removal
**   tier 1                   freq + 1                  key_touch
**   tier 0                   freq 1, or 0 again        key_expect, key_touch
**   tier 0                   freq = round              promote_offer
**   latch 1, pending <= N    pending + 1, latch 0    key_acquire,
**                                                      key_acquire_found
**   latch 1                  pending - n               with any of the above
**   tier 0                   tier 1, freq 0            promote_offer
**   tier 0                   tier 1, any freq          promote_offer_warm
**   tier 1                   other slot of tier 1      promote__shrink
**   tier 1                   tier 0, or freq - 1       promote_offer and
**                                                      promote__shrink
**   latch 0                  latch 1, moved, 0         index move
*/
#ifndef EMB_INDEX_WORD_H
#define EMB_INDEX_WORD_H

#include <stdint.h>

#include "engine/base/debug.h"

#define WORD_ADDRESS_BITS 47
#define WORD_ADDRESS_MASK ((UINT64_C(1) << WORD_ADDRESS_BITS) - 1)
#define WORD_PENDING_SHIFT 47
#define WORD_PENDING_MAX UINT64_C(4095)
#define WORD_PENDING_ONE (UINT64_C(1) << WORD_PENDING_SHIFT)
#define WORD_PENDING_ALL (WORD_PENDING_MAX << WORD_PENDING_SHIFT)
#define WORD_FREQ_SHIFT 59
#define WORD_FREQ_MAX UINT64_C(3)
#define WORD_INTENT (UINT64_C(1) << 61)
#define WORD_CACHED (UINT64_C(1) << 62)
#define WORD_LATCH (UINT64_C(1) << 63)

_Static_assert(WORD_PENDING_SHIFT + 12 == WORD_FREQ_SHIFT,
               "pending is 12 bits");
_Static_assert(WORD_FREQ_SHIFT + 2 == 61, "freq is 2 bits");

static inline uint64_t word_address(uint64_t word) {
  return word & WORD_ADDRESS_MASK;
}
/* The word with another address; pending and intent stay, freq is reset to
** 0. */
static inline uint64_t word_move(uint64_t word, uint64_t address, int cached) {
  emb_assert((address & ~WORD_ADDRESS_MASK) == 0);
  return (word & ~(WORD_ADDRESS_MASK | WORD_CACHED |
                   WORD_FREQ_MAX << WORD_FREQ_SHIFT)) |
         address | (cached ? WORD_CACHED : 0);
}
static inline uint32_t word_pending(uint64_t word) {
  return (uint32_t)(word >> WORD_PENDING_SHIFT & WORD_PENDING_MAX);
}
/* The word with n Gets released; pending never goes below 0. */
static inline uint64_t word_release(uint64_t word, uint32_t n) {
  uint64_t pending = word_pending(word);
  emb_assert(pending >= n); /* pending is the sum of the sessions' leases */
  return word - ((pending < n ? pending : n) << WORD_PENDING_SHIFT);
}
static inline uint64_t word_freq(uint64_t word) {
  return word >> WORD_FREQ_SHIFT & WORD_FREQ_MAX;
}

#endif
