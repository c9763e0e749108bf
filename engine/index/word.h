/* SPDX-License-Identifier: MIT
**
** word.h -- the 64 bits that are all of a key's shared state.
**
**     63     62    61     60-59   58-47   46-0
**   latch   tier  intent  freq    clock   address
**
**   address  tier 0: a slot of the log (rec/layout.h); tier 1: a slot of the
**            record cache, whose head holds the log address.  0: the key has
**            no committed record (an uncommitted insert, intent is set).
**   clock    Gets that were admitted and not given back
**   freq     tier 1: how often the cached record was read since the clock hand
**            passed.  tier 0, in memory: not 0 when a look-ahead found the
**            record there and it was not read since.  tier 0, on disk: in which
**            turn of the hand (modulo 3, plus 1) it was read last
**   intent   an open transaction has changed the key; its own map says how
**   latch    one session is changing the record or moving the word
**   0        the entry is empty
**
** A key that is removed while its clock is not 0 keeps its entry, with address
** 0: whoever holds a lease gives it back there, and a key that is added again
** meanwhile goes on with the same clock.  The last lease empties the entry.
**
** TRANSITIONS  Each is one compare-and-swap of the word, or a plain release
** store by the holder of the latch.  core/key.c makes all of them but the
** last two, which are index_grow.c's (they move entries
** and leave every bit but the latch as it was).
**
**   from                     to                        function
**   empty                    address                   index_insert (new key)
**   empty                    intent, address 0         key_intend  (new key)
**   any, latch 0, intent 0   latch 1                   key_latch
**   latch 1                  other address, latch 0    key_publish
**   latch 1                  empty, or address 0       key_remove
**   latch 1                  as before, latch 0        key_unlatch
**   latch 0                  intent 1                  key_intend
**   intent 1                 other address, intent 0   key_settle
**   intent 1                 intent 0, or empty        key_settle
**   latch 1                  clock - n, or empty       key_give
**   tier 0                   other address, tier 0     key_relocate
**   tier 1                   freq + 1                  key_touch
**   tier 0                   freq 1, or 0 again        key_expect, key_touch
**   tier 0                   freq = turn               cache_admit
**   latch 1, clock <= bound  clock + 1, latch 0        key_admit
**   latch 1                  clock - n                 with any of the above
**   tier 0                   tier 1, freq 0            cache_admit
**   tier 1                   tier 0, or freq - 1       cache_admit and
**                                                      cache_shrink
**   latch 0                  latch 1, moved, 0         index move
*/
#ifndef EMB_INDEX_WORD_H
#define EMB_INDEX_WORD_H

#include <stdint.h>

#define WORD_ADDRESS_BITS 47
#define WORD_ADDRESS_MASK ((UINT64_C(1) << WORD_ADDRESS_BITS) - 1)
#define WORD_CLOCK_SHIFT 47
#define WORD_CLOCK_MAX UINT64_C(4095)
#define WORD_CLOCK_ONE (UINT64_C(1) << WORD_CLOCK_SHIFT)
#define WORD_FREQ_SHIFT 59
#define WORD_FREQ_MAX UINT64_C(3)
#define WORD_INTENT (UINT64_C(1) << 61)
#define WORD_CACHED (UINT64_C(1) << 62)
#define WORD_LATCH (UINT64_C(1) << 63)

_Static_assert(WORD_CLOCK_SHIFT + 12 == WORD_FREQ_SHIFT, "clock is 12 bits");
_Static_assert(WORD_FREQ_SHIFT + 2 == 61, "freq is 2 bits");

static inline uint64_t word_address(uint64_t word) {
  return word & WORD_ADDRESS_MASK;
}
/* The word with another place; clock and intent stay, freq starts anew. */
static inline uint64_t word_move(uint64_t word, uint64_t address, int cached) {
  return (word & ~(WORD_ADDRESS_MASK | WORD_CACHED |
                   WORD_FREQ_MAX << WORD_FREQ_SHIFT)) |
         address | (cached ? WORD_CACHED : 0);
}
static inline uint32_t word_clock(uint64_t word) {
  return (uint32_t)(word >> WORD_CLOCK_SHIFT & WORD_CLOCK_MAX);
}
/* The word with n Gets given back; the clock has no value below 0. */
static inline uint64_t word_give(uint64_t word, uint32_t n) {
  uint64_t clock = word_clock(word);
  return word - ((clock < n ? clock : n) << WORD_CLOCK_SHIFT);
}
static inline uint64_t word_freq(uint64_t word) {
  return word >> WORD_FREQ_SHIFT & WORD_FREQ_MAX;
}

#endif
