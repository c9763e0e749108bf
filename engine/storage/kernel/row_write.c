/* SPDX-License-Identifier: MIT
**
** row_write.c -- see row_write.h.  This file makes the transitions of a key's
** word that change which record the key has; key.c makes the others.
*/
#include "row_write.h"

#include "engine/emb.h"

int row__slot(struct core *core, struct log_run *run, uint32_t want,
              uint64_t above, uint64_t *address) {
  want = want ? want : 1;
  for (;;) {
    while (run->left) {
      *address = layout_address(&core->layout, run->page, run->slot);
      run->slot++;
      run->left--;
      if (*address > above) {
        return EMB_OK;
      }
    }
    int rc = log_take(&core->log, run, PAGE_DATA, want);
    if (rc) {
      return rc;
    }
    if (layout_address(&core->layout, run->page, run->slot) <= above) {
      /* The open page is older than a record of another stream. */
      log_close(&core->log, run->stream);
      run->left = 0;
    }
  }
}

/* ---- one step ------------------------------------------------------------ */

/* One change of a latched key. */
struct row_write_step {
  int64_t key;
  uint64_t hash;
  struct entry *entry;
  uint64_t word, next; /* before and after; 0: the entry is emptied */
  enum observe_kind kind;
  enum row_cause cause;
  const struct rec *record; /* the new one; NULL: none, or the log's */
  const void *session;      /* the committing session, or NULL */
};

/* The common end of all changes except those in place: updates the counts,
** calls the observers, stores the word without latch, and frees the cache
** slot. */
static void take_step(struct core *core, const struct row_write_step *step) {
  uint64_t word = step->word, next = step->next & ~WORD_LATCH;
  uint64_t from = key_log_address(core, word);
  uint64_t to = next && !(next & WORD_CACHED) ? word_address(next) : 0;
  uint32_t slots = observers_active(&core->observers);
  struct row_event event;
  emb_assert(!to || to > from);              /* K1 */
  emb_assert(!(word & WORD_CACHED) || from); /* C1 */
  /* A record on disk is not known to be the key's: the file may be damaged. */
  emb_assert(!(word & WORD_CACHED) || key_has_record(core, step->key, word));
  emb_assert(key_has_record(core, step->key, to));
  if (to) {
    log_live(&core->log, to, 1);
  }
  if (slots) {
    const struct rec *rec =
        step->record || !to ? step->record : log_rec(&core->log, to);
    event = (struct row_event){step->key, from,          to,
                               rec,       step->session, step->cause};
    observe__notify(&core->observers, slots, step->kind, &event);
  }
  /* A key is counted before readers can find it, and for as long as they
  ** can. */
  if (!from && to) {
    atomic_fetch_add_explicit(&core->count, 1, memory_order_relaxed);
  }
  if (next) {
    atomic_store_explicit(&step->entry->word, next, memory_order_release);
  } else {
    index_remove(&core->index, step->entry, step->hash);
  }
  if (word & WORD_CACHED) {
    cache_release(&core->cache, word_address(word));
  }
  if (slots) {
    observe__ended(&core->observers, slots, &event);
  }
  if (from) {
    log_live(&core->log, from, -1);
  }
  if (from && !to) {
    atomic_fetch_sub_explicit(&core->count, 1, memory_order_relaxed);
  }
}

/* ---- changes ------------------------------------------------------------- */

void row__notify_here(struct core *core, int64_t key, uint64_t word,
                      const struct rec *rec, enum row_cause cause) {
  uint64_t address = word_address(word);
  uint32_t slots = observers_of_all(&core->observers);
  struct row_event event = {key, address, address, rec, NULL, cause};
  observe__notify(&core->observers, slots, OBSERVE_CHANGED, &event);
  observe__ended(&core->observers, slots, &event);
}

void row_publish(struct core *core, int64_t key, struct entry *entry,
                 uint64_t word, uint64_t address, enum row_cause cause) {
  const struct rec *rec = log_rec(&core->log, address);
  row_filled(core, key, address, rec->vector);
  take_step(core, &(struct row_write_step){.key = key,
                                           .entry = entry,
                                           .word = word,
                                           .next = word_move(word, address, 0),
                                           .kind = OBSERVE_CHANGED,
                                           .cause = cause,
                                           .record = rec});
}

void row_remove(struct core *core, int64_t key, uint64_t hash,
                struct entry *entry, uint64_t word, enum row_cause cause) {
  (void)core_versions(core, 1); /* there is something to save */
  take_step(core, &(struct row_write_step){.key = key,
                                           .hash = hash,
                                           .entry = entry,
                                           .word = word,
                                           .next = word_move(word, 0, 0),
                                           .kind = OBSERVE_REMOVED,
                                           .cause = cause});
}

struct guard {
  struct core *core;
  uint64_t address;
  int counted;
};

/* A key may be added only above the newest tombstone, which could be the key's
** own. */
static int above_tombs(void *arg) {
  struct guard *g = arg;
  if (layout_page(&g->core->layout, g->address) <=
      atomic_load_explicit(&g->core->log.last_tomb, memory_order_acquire)) {
    return ROW_HELD;
  }
  atomic_fetch_add_explicit(&g->core->count, 1, memory_order_relaxed);
  g->counted = 1;
  return EMB_OK;
}

/* Reports a row that no word named before; slots: bits of observers. */
static void notify_added(struct core *core, uint32_t slots, int64_t key,
                         uint64_t address, const struct rec *rec) {
  struct row_event event = {key, 0, address, rec, NULL, ROW_PUT};
  observe__notify(&core->observers, slots, OBSERVE_CHANGED, &event);
  observe__ended(&core->observers, slots, &event);
}

int row_insert(struct core *core, struct log_run *run, uint32_t want,
               const struct row_new *row) {
  int64_t key = row->key;
  struct guard guard = {.core = core};
  int rc = row_slot(core, run, want, row_tombs_end(core), &guard.address);
  if (rc) {
    return rc;
  }
  struct rec *rec = log_rec(&core->log, guard.address);
  rec_fill(rec, key, row->value, core->layout.value_bytes, row->version);
  row_filled(core, key, guard.address, row->value);
  log_live(&core->log, guard.address, 1);
  /* The entry is latched from the start if observers are called, so that the
  ** row is reported before it changes. */
  uint32_t slots = observers_of_all(&core->observers);
  struct index_new new = {.key = key,
                          .hash = row->hash,
                          .word = guard.address | (slots ? WORD_LATCH : 0),
                          .guard = above_tombs,
                          .arg = &guard};
  rc = index_insert(&core->index, &new);
  if (rc) {
    rec_unfill(rec);
    if (rc == INDEX_EXISTS) { /* a key may occur often in a batch */
      run->slot--;
      run->left++;
    }
    log_live(&core->log, guard.address, -1);
    atomic_fetch_sub_explicit(&core->count, guard.counted,
                              memory_order_relaxed);
    return rc;
  }
  if (slots) {
    notify_added(core, slots, key, guard.address, rec);
    key_unlatch(new.entry, new.word);
  }
  return EMB_OK;
}

void row_settle(struct core *core, int64_t key, uint64_t hash, uint64_t address,
                uint32_t give, const void *session) {
  struct entry *entry;
  uint64_t word;
  if (!key__latch_any(core, key, hash, &entry, &word)) {
    emb_assert(0);
    return; /* cannot happen: a claimed entry stays */
  }
  emb_assert(word & WORD_INTENT); /* T1 */
  word = word_release(word & ~WORD_INTENT, give);
  if (address == ROW_SAME) {
    key__unlatch_or_empty(core, hash, entry, word);
    return;
  }
  int gone = address == ROW_GONE;
  take_step(core, &(struct row_write_step){
                      .key = key,
                      .hash = hash,
                      .entry = entry,
                      .word = word,
                      .next = word_move(word, gone ? 0 : address, 0),
                      .kind = gone ? OBSERVE_REMOVED : OBSERVE_CHANGED,
                      .cause = gone ? ROW_REMOVED : ROW_PUT,
                      .session = session});
}

/* Moves a latched key whose record is in the cache and stays there: its slot
** gets the new log address, the word does not change. */
static void move_cached(struct core *core, int64_t key, struct entry *entry,
                        uint64_t word, uint64_t from, uint64_t to) {
  emb_assert(to > from && cache_log_address(cache_at(
                              &core->cache, word_address(word))) == from);
  uint32_t slots = observers_active(&core->observers);
  struct row_event event = {key, from, to, NULL, NULL, ROW_MOVED};
  log_live(&core->log, to, 1);
  if (slots) {
    event.record = log_rec(&core->log, to);
    observe__notify(&core->observers, slots, OBSERVE_MOVED, &event);
  }
  struct cache_slot *slot = cache_at(&core->cache, word_address(word));
  uint64_t old = atomic_load_explicit(&slot->log_address, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(
      &slot->log_address, &old, (old & ~CACHE_ADDRESS_MASK) | to,
      memory_order_acq_rel, memory_order_relaxed)) {
  }
  if (slots) {
    observe__ended(&core->observers, slots, &event);
  }
  key_unlatch(entry, word);
  log_live(&core->log, from, -1);
}

int row_move(struct core *core, int64_t key, uint64_t hash, uint64_t from,
             uint64_t to) {
  struct rec *copy = log_rec(&core->log, to);
  struct entry *entry;
  uint64_t word;
  row_filled(core, key, to, copy->vector);
  if (key_latch(core, key, hash, &entry, &word) != KEY_FOUND) {
    rec_unfill(copy);
    return 0;
  }
  if (key_log_address(core, word) != from &&
      !EMB_SEED(SEED_COMPACTION_MOVES_OUTDATED)) {
    key_unlatch(entry, word);
    rec_unfill(copy);
    return 0;
  }
  if (word & WORD_CACHED) {
    move_cached(core, key, entry, word, from, to);
  } else {
    take_step(core, &(struct row_write_step){.key = key,
                                             .entry = entry,
                                             .word = word,
                                             .next = word_move(word, to, 0),
                                             .kind = OBSERVE_MOVED,
                                             .cause = ROW_MOVED,
                                             .record = copy});
  }
  return 1;
}

/* ---- loading ------------------------------------------------------------- */

static void give_frame(void *arg, char *frame) { frames_give(arg, frame); }

void rows_reset(struct core *core) {
  index_clear(&core->index);
  cache_reset(&core->cache, give_frame, &core->frames);
  log_reset(&core->log);
  atomic_store(&core->count, 0);
  observe__reset(&core->observers);
}

int row_load(struct core *core, int64_t key, uint64_t address) {
  struct index_new new = {.key = key, .hash = hash_key(key), .word = address};
  int rc = index_insert(&core->index, &new);
  uint32_t slots = observers_of_all(&core->observers);
  if (!rc && slots) {
    notify_added(core, slots, key, address, NULL);
  }
  return rc;
}

/* While a transaction is in doubt the store is readable, so the transaction's
** keys may be in the cache by the time it is applied.  Their words change as in
** any other write, but without a latch, which no other thread wants. */
int row_replay(struct core *core, const struct rec *rec, uint64_t address) {
  int64_t key = atomic_load_explicit(&rec->key, memory_order_relaxed);
  struct index_new new = {.key = key, .hash = hash_key(key), .word = address};
  int rc = index_insert(&core->index, &new);
  if (rc == INDEX_EXISTS) {
    uint64_t word = new.present;
    if (key_log_address(core, word) < address) {
      take_step(core,
                &(struct row_write_step){.key = key,
                                         .entry = new.entry,
                                         .word = word,
                                         .next = word_move(word, address, 0),
                                         .kind = OBSERVE_CHANGED,
                                         .record = rec});
    }
    return EMB_OK;
  }
  if (rc) {
    return rc;
  }
  log_live(&core->log, address, 1);
  atomic_fetch_add(&core->count, 1);
  uint32_t slots = observers_of_all(&core->observers);
  if (slots) {
    notify_added(core, slots, key, address, rec);
  }
  return EMB_OK;
}

void row_replay_removal(struct core *core, int64_t key, uint64_t address) {
  uint64_t word, hash = hash_key(key);
  struct entry *entry = index_find(&core->index, key, hash, &word);
  if (entry && key_log_address(core, word) < address) {
    take_step(core, &(struct row_write_step){.key = key,
                                             .hash = hash,
                                             .entry = entry,
                                             .word = word,
                                             .next = word_move(word, 0, 0),
                                             .kind = OBSERVE_REMOVED,
                                             .cause = ROW_REMOVED});
  }
}
