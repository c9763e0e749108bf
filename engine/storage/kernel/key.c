/* SPDX-License-Identifier: MIT
**
** key.c -- a key's word: latch, intent, pending reads, frequency.  Only
** row_write.c changes which record the key has; index/word.h has the table of
** legal transitions.
**
** ROLE      Called by rows/ (put, rmw, delete), txn/, retention/
**           (compaction) and promote.c, inside an epoch.
** INVARIANT K2  The latch is held for a few instructions, one copy of a vector
**               and the observers (observe.h); its holder takes no lock of a
**               partition.
*/
#include "engine/base/fence.h"
#include "engine/emb.h"
#include "core.h"

/* Latches an entry, ignoring its intent bit.  0: the entry is latched, or now
** belongs to another key or none. */
static int latch_entry(struct entry *entry, int64_t key, uint64_t *word) {
  unsigned spins = 0;
  uint64_t w = *word;
  for (;;) {
    if (!w) {
      return 0;
    }
    if (!(w & WORD_LATCH) && atomic_compare_exchange_weak_explicit(
                                 &entry->word, &w, w | WORD_LATCH,
                                 memory_order_acq_rel, memory_order_acquire)) {
      break;
    }
    if (w & WORD_LATCH) {
      /* The key may be moving to another entry: the caller looks it up
      ** again. */
      spin_pause(&spins);
      return 0;
    }
  }
  if (atomic_load_explicit(&entry->key, memory_order_relaxed) != key) {
    atomic_store_explicit(&entry->word, w, memory_order_release);
    return 0;
  }
  *word = w;
  return 1;
}

int key_latch(struct core *core, int64_t key, uint64_t hash,
              struct entry **entry, uint64_t *word) {
  for (;;) {
    *entry = index_find(&core->index, key, hash, word);
    if (!*entry) {
      return KEY_ABSENT;
    }
    if (*word & WORD_INTENT) {
      return KEY_INTENT;
    }
    if (latch_entry(*entry, key, word)) {
      if (!(*word & WORD_INTENT) || EMB_SEED(SEED_CLAIMED_KEY_LATCHED)) {
        return KEY_FOUND;
      }
      key_unlatch(*entry, *word); /* claimed since the lookup */
      return KEY_INTENT;
    }
  }
}

int key__latch_any(struct core *core, int64_t key, uint64_t hash,
                   struct entry **entry, uint64_t *word) {
  do {
    *entry = index_find(&core->index, key, hash, word);
  } while (*entry && !latch_entry(*entry, key, word));
  return *entry != NULL;
}

void key__unlatch_or_empty(struct core *core, uint64_t hash,
                           struct entry *entry, uint64_t word) {
  if (word & ~WORD_LATCH) {
    key_unlatch(entry, word);
  } else {
    index_remove(&core->index, entry, hash);
  }
}

uint64_t key_log_address(const struct core *core, uint64_t word) {
  uint64_t address = word_address(word);
  if (!(word & WORD_CACHED)) {
    return address;
  }
  return cache_log_address(cache_at(&core->cache, address));
}

uint64_t key_cached_address(const struct core *core, int64_t key,
                            uint64_t word) {
  const struct cache_slot *slot = cache_at(&core->cache, word_address(word));
  const struct rec *rec = &slot->rec;
  uint64_t before = atomic_load_explicit(&rec->stamp, memory_order_acquire);
  if ((before & REC_BUSY) ||
      atomic_load_explicit(&rec->key, memory_order_relaxed) != key) {
    return 0;
  }
  uint64_t address =
      cache_log_address(slot); /* acquire: before the next look */
  uint64_t after = atomic_load_explicit(&rec->stamp, memory_order_acquire);
  return before == after ? address : 0;
}

uint64_t key_find_address(struct core *core, int64_t key, uint64_t hash) {
  uint64_t word, again, address;
  do {
    if (!index_find(&core->index, key, hash, &word)) {
      return 0;
    }
    if (!(word & WORD_CACHED)) {
      return word_address(word);
    }
    address = key_cached_address(core, key, word);
    again = 0;
    index_find(&core->index, key, hash, &again);
  } while (word != again || !address);
  return address;
}

int key_intend(struct core *core, int64_t key, uint64_t hash, uint64_t *word) {
  for (;;) {
    struct entry *entry;
    int found = key_latch(core, key, hash, &entry, word);
    if (found == KEY_FOUND) {
      *word |= WORD_INTENT;
      key_unlatch(entry, *word);
      return KEY_FOUND;
    }
    if (found == KEY_INTENT) {
      return KEY_INTENT;
    }
    struct index_new new = {.key = key, .hash = hash, .word = WORD_INTENT};
    int rc = index_insert(&core->index, &new);
    if (rc == EMB_OK) {
      *word = WORD_INTENT;
      return KEY_ABSENT;
    }
    if (rc != INDEX_EXISTS) {
      return -rc;
    }
  }
}

int key_acquire(struct core *core, int64_t key, uint64_t hash,
                struct entry **entry, uint64_t *word) {
  unsigned spins = 0;
  while (*entry) {
    uint64_t w = *word;
    if (!(w & WORD_LATCH)) {
      if (!word_address(w) && !(w & WORD_INTENT)) {
        return KEY_ABSENT; /* removed while leased */
      }
      if (word_pending(w) > core->staleness &&
          !EMB_SEED(SEED_STALENESS_UNBOUNDED)) {
        return KEY_BLOCKED;
      }
      /* Under the latch, because only the latch makes sure that the entry is
      ** the key's: without it, the key could be moved, and another key take the
      ** entry, before the check. */
      if (key_acquire_found(*entry, key, word)) {
        return KEY_FOUND;
      }
    } else {
      spin_pause(&spins);
    }
    *entry = index_find(&core->index, key, hash, word);
  }
  return KEY_ABSENT;
}

void key_release(struct core *core, int64_t key, uint64_t hash, uint32_t n) {
  struct entry *entry;
  uint64_t word;
  if (key__latch_any(core, key, hash, &entry, &word)) {
    key__unlatch_or_empty(core, hash, entry, word_release(word, n));
  }
}

void key_touch(struct entry *entry, uint64_t word) {
  uint64_t next = word & ~(WORD_FREQ_MAX << WORD_FREQ_SHIFT);
  if (word & WORD_CACHED) {
    next = word_freq(word) < WORD_FREQ_MAX
               ? word + (UINT64_C(1) << WORD_FREQ_SHIFT)
               : word;
  }
  if (next != word && !(word & WORD_LATCH)) {
    /* Lost if another thread changes the word: it is only a hint. */
    atomic_compare_exchange_strong_explicit(
        &entry->word, &word, next, memory_order_relaxed, memory_order_relaxed);
  }
}

void key_expect(struct entry *entry, uint64_t word) {
  if (!(word & (WORD_LATCH | WORD_CACHED))) {
    atomic_compare_exchange_strong_explicit(
        &entry->word, &word, word | UINT64_C(1) << WORD_FREQ_SHIFT,
        memory_order_relaxed, memory_order_relaxed);
  }
}
