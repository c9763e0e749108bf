/* SPDX-License-Identifier: MIT
**
** key.c -- every change of a key's word; index/word.h has the table of legal
** transitions.
**
** ROLE      Called by store/ (put, rmw, delete, transactions), life/
**           (compaction) and admit.c, inside an epoch.
** INVARIANT K1  A key's log address only grows.  So of all committed records
**               of a key, the one at the highest address is the latest, in
**               memory and after recovery alike.  Who holds a slot below the
**               present address takes another (store/put.c).
**           K2  The latch is held for a few instructions and one copy of a
**               vector; its holder takes no lock of a partition.
**               A slot that was filled and not published is unfilled again.
**           K3  live counts and the number of keys change here only.
*/
#include "../base/fence.h"
#include "../emb.h"
#include "core.h"
#include "notes.h"
#include "watch.h"

/* Latches an entry whatever its intent bit says.  0: the entry now belongs to
** another key or none. */
static int latch_entry(struct entry *entry, int64_t key, uint64_t *word) {
  unsigned turns = 0;
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
      /* Perhaps on its way to another entry: the caller looks it up again. */
      spin_pause(&turns);
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
      return KEY_FOUND;
    }
  }
}

/* key_unlatch for a word that may have lost its last reason to be. */
static void unlatch_or_empty(struct core *core, uint64_t hash,
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

uint64_t key_find_address(struct core *core, int64_t key, uint64_t hash) {
  uint64_t word, again, address;
  do {
    if (!index_find(&core->index, key, hash, &word)) {
      return 0;
    }
    address = key_log_address(core, word);
    if (!(word & WORD_CACHED)) {
      return address;
    }
    again = 0;
    index_find(&core->index, key, hash, &again);
  } while (word != again || !address);
  return address;
}

/* The common end of all moves: counts, notes it for a snapshot, tells scans,
** stores the word without latch (0: the entry is emptied), and frees the cache
** slot. */
static void move(struct core *core, int64_t key, uint64_t hash,
                 struct entry *entry, uint64_t word, uint64_t next,
                 const void *session) {
  uint64_t from = key_log_address(core, word);
  uint64_t to = next && !(next & WORD_CACHED) ? word_address(next) : 0;
  int watched = watch_any(core);
  if (to) {
    log_live(&core->log, to, 1);
  }
  next &= ~WORD_LATCH;
  struct notes *notes =
      atomic_load_explicit(&core->notes, memory_order_acquire);
  if (notes) {
    notes_moved(core, notes, key, from, to, session != NULL);
  }
  if (watched) {
    pthread_mutex_lock(&core->scan_lock);
    watch_moved(core, key, from, to, session, session != NULL);
  }
  if (next) {
    atomic_store_explicit(&entry->word, next, memory_order_release);
  } else {
    index_remove(&core->index, entry, hash);
  }
  if (word & WORD_CACHED) {
    cache_release(&core->cache, word_address(word));
  }
  if (watched) {
    pthread_mutex_unlock(&core->scan_lock);
  }
  if (from) {
    log_live(&core->log, from, -1);
  }
  if (!from != !to) {
    atomic_fetch_add_explicit(&core->count, to ? 1 : -1, memory_order_relaxed);
  }
}

void key_publish(struct core *core, int64_t key, struct entry *entry,
                 uint64_t word, uint64_t address) {
  move(core, key, 0, entry, word, word_move(word, address, 0), NULL);
}

void key_remove(struct core *core, int64_t key, uint64_t hash,
                struct entry *entry, uint64_t word) {
  move(core, key, hash, entry, word, word_move(word, 0, 0), NULL);
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
    int rc = index_insert(&core->index, key, hash, WORD_INTENT, &entry, word,
                          NULL, NULL);
    if (rc == EMB_OK) {
      *word = WORD_INTENT;
      return KEY_ABSENT;
    }
    if (rc != INDEX_EXISTS) {
      return -rc;
    }
  }
}

void key_settle(struct core *core, int64_t key, uint64_t hash, uint64_t address,
                uint32_t give, const void *session) {
  struct entry *entry;
  uint64_t word;
  do {
    entry = index_find(&core->index, key, hash, &word);
    if (!entry) {
      return; /* cannot be: a claimed entry stays */
    }
  } while (!latch_entry(entry, key, &word));
  word = word_give(word & ~WORD_INTENT, give);
  if (address == KEY_SAME) {
    unlatch_or_empty(core, hash, entry, word);
  } else {
    address = address == KEY_GONE ? 0 : address;
    move(core, key, hash, entry, word, word_move(word, address, 0), session);
  }
}

int key_admit(struct core *core, int64_t key, uint64_t hash,
              struct entry **entry, uint64_t *word) {
  unsigned turns = 0;
  while (*entry) {
    uint64_t w = *word;
    if (!(w & WORD_LATCH)) {
      if (!word_address(w) && !(w & WORD_INTENT)) {
        return KEY_ABSENT; /* removed while leased */
      }
      if (word_clock(w) > core->staleness && !EMB_SEED(6)) {
        return KEY_BLOCKED;
      }
      /* Under the latch, because only then the entry is sure to be the key's:
      ** without it, it could be moved, and another come, before we look. */
      if (key_latch_found(*entry, key, &w)) {
        *word = w + WORD_CLOCK_ONE;
        key_unlatch(*entry, *word);
        return KEY_FOUND;
      }
    } else {
      spin_pause(&turns);
    }
    *entry = index_find(&core->index, key, hash, word);
  }
  return KEY_ABSENT;
}

void key_give(struct core *core, int64_t key, uint64_t hash, uint32_t n) {
  struct entry *entry;
  uint64_t word;
  do {
    entry = index_find(&core->index, key, hash, &word);
    if (!entry) {
      return;
    }
  } while (!latch_entry(entry, key, &word));
  unlatch_or_empty(core, hash, entry, word_give(word, n));
}

int key_relocate(struct core *core, int64_t key, uint64_t hash, uint64_t from,
                 uint64_t to) {
  struct entry *entry;
  uint64_t word;
  if (key_latch(core, key, hash, &entry, &word) != KEY_FOUND) {
    return 0;
  }
  if (key_log_address(core, word) != from && !EMB_SEED(11)) {
    key_unlatch(entry, word);
    return 0;
  }
  if (!(word & WORD_CACHED)) {
    move(core, key, hash, entry, word, word_move(word, to, 0), NULL);
    return 1;
  }
  int watched = watch_any(core);
  log_live(&core->log, to, 1);
  if (watched) {
    pthread_mutex_lock(&core->scan_lock);
    watch_moved(core, key, from, to, NULL, 0);
  }
  struct cache_slot *slot = cache_at(&core->cache, word_address(word));
  uint64_t old = atomic_load_explicit(&slot->log_address, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(
      &slot->log_address, &old, (old & ~CACHE_ADDRESS_MASK) | to,
      memory_order_acq_rel, memory_order_relaxed)) {
  }
  if (watched) {
    pthread_mutex_unlock(&core->scan_lock);
  }
  key_unlatch(entry, word);
  log_live(&core->log, from, -1);
  return 1;
}

void key_touch(struct entry *entry, uint64_t word) {
  uint64_t next = word & ~(WORD_FREQ_MAX << WORD_FREQ_SHIFT);
  if (word & WORD_CACHED) {
    next = word_freq(word) < WORD_FREQ_MAX
               ? word + (UINT64_C(1) << WORD_FREQ_SHIFT)
               : word;
  }
  if (next != word && !(word & WORD_LATCH)) {
    /* Lost when somebody else changes the word: it is a hint. */
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
