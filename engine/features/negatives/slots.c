/* SPDX-License-Identifier: MIT
**
** slots.c -- uniform draws: random places of the index; empty places are
** rejected.
**
** A place is drawn out of as many places of each partition as the largest one
** has (index_place), and a key has one place: so each key comes with the same
** probability, whatever the partitions' sizes are and whichever of them grows
** in the meantime.  The index is at least 0.7 full while a table grows, and its
** partitions' sizes are one step apart, so a row takes less than two draws.  If
** a row would take more than SPARSE draws, because most keys were deleted, the
** index is first shrunk to fit its keys, at some nanoseconds per key: once,
** and not again until as many keys were deleted.  A draw is a few instructions
** and one memory access; many accesses are in flight at the same time.
**
** An entry that is being moved is in two places for a few instructions.
*/
#include "engine/table/rows/rows.h"
#include "draw.h"

#define AIM 32
/* Maximum number of blocks in one stay in the epoch. */
#define AIMS 1024
/* Draws per row at which an index is sparse, and roughly the number of places
** that an index always has. */
#define SPARSE 6
#define SPARSE_MIN (8 * INDEX_BUCKET_ENTRIES << INDEX_PART_BITS_MAX)

static struct entry slots_none;

static void slots_aim(struct draw *d, const struct index *index,
                      uint64_t places, struct entry **aimed) {
  for (int i = 0; i < AIM; i++) {
    struct entry *entry = index_place(index, sample_below(&d->random, places));
    if (EMB_SEED(SEED_SAMPLE_PREFERS_EMPTY_BUCKETS) && entry &&
        !atomic_load_explicit(&entry->word, memory_order_relaxed)) {
      entry = (struct entry *)((uintptr_t)entry & ~(uintptr_t)63);
    }
    aimed[i] = entry ? entry : &slots_none;
    __builtin_prefetch(aimed[i], 0, 2);
  }
}

static int slots_sees(emb_session *s, int64_t key, uint64_t word) {
  return EMB_SEED(SEED_SAMPLE_OF_UNCOMMITTED) ||
         txn_word(s, key, hash_key(key), word) != 0;
}

struct slots_found { /* in one block of places */
  int64_t keys[AIM];
  struct entry *entries[AIM];
  uint64_t words[AIM];
};

/* Collects the non-empty places; returns how many.  Whether a place is empty
** cannot be predicted, so there is no branch. */
static int slots_look(struct entry **aimed, struct slots_found *found) {
  int n = 0;
  for (int i = 0; i < AIM; i++) {
    struct entry *entry = aimed[i];
    int64_t key = atomic_load_explicit(&entry->key, memory_order_relaxed);
    uint64_t word = atomic_load_explicit(&entry->word, memory_order_acquire);
    int is = (word != 0) &
             (atomic_load_explicit(&entry->key, memory_order_relaxed) == key);
    found->keys[n] = key;
    found->entries[n] = entry;
    found->words[n] = word & ~WORD_LATCH;
    n += is;
  }
  return n;
}

/* Adds the keys found, from row n on; returns the new number of rows. */
static uint32_t slots_take(struct draw *d, struct entry **aimed, uint32_t n,
                           uint32_t want) {
  emb_session *s = d->s;
  struct slots_found found;
  int there = slots_look(aimed, &found);
  for (int i = 0; i < there && n < want; i++) {
    int64_t key = found.keys[i];
    uint64_t word = found.words[i];
    if (__builtin_expect((word & WORD_INTENT) || !word_address(word), 0) &&
        !slots_sees(s, key, word)) {
      continue;
    }
    if (draw__admits(d, key)) {
      d->keys[n] = key;
      s->entries[n] = found.entries[i];
      s->words[n++] = word;
    }
  }
  d->draws += AIM;
  return n;
}

static uint32_t slots_next(struct draw *d, uint32_t want) {
  const struct index *index = &d->s->core->index;
  struct entry *aimed[2][AIM];
  uint64_t places = index_places(index);
  uint32_t n = 0;
  if (!places) {
    return 0;
  }
  slots_aim(d, index, places, aimed[0]);
  for (unsigned i = 0; i < AIMS && n < want; i++) {
    /* The places aimed at last are being fetched while these are examined. */
    slots_aim(d, index, places, aimed[(i + 1) & 1]);
    n = slots_take(d, aimed[i & 1], n, want);
  }
  return n;
}

/* Partitions shrunk in one stay in the epoch. */
#define TIGHTEN 16

/* Small tables are sparse, too, but have no smaller index. */
static int slots_are_sparse(const struct draw *d, const struct index *index) {
  return index_places(index) / SPARSE > d->rows &&
         index_places(index) > SPARSE_MIN;
}

static void slots_tighten(struct draw *d) {
  struct core *core = d->s->core;
  struct index *index = &core->index;
  for (uint32_t p = 0; p < index_parts(index); p += TIGHTEN) {
    epoch_enter(&core->epoch, d->s->slot);
    for (uint32_t i = p; i < index_parts(index) && i < p + TIGHTEN; i++) {
      index_shrink(index, i);
    }
    epoch_leave(d->s->slot);
  }
  epoch_enter(&core->epoch, d->s->slot);
  index_measure(index);
  epoch_leave(d->s->slot);
}

void slots__begin(struct draw *d) {
  if (slots_are_sparse(d, &d->s->core->index)) {
    slots_tighten(d);
  }
  double places = (double)index_places(&d->s->core->index);
  d->next = slots_next;
  /* Far above the mean: reached only if the table is being emptied. */
  d->most = 64 * (double)d->n * (places / (double)(d->rows ? d->rows : 1) + 1) +
            65536;
}
