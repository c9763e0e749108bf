/* SPDX-License-Identifier: MIT
**
** ivf_valid.c -- are lists, places, a training, and a whole index as their
** headers say?  Only in self-checking builds (base/debug.h).
**
** Removals only clear bits of live entries.  So the maintainer may check the
** blocks of its lists at any time, and a part of the places under its lock.
*/
#include "ivf.h"

#include <string.h>

#if EMB_DEBUG > 0

/* ---- lists --------------------------------------------------------------- */

/* Returns the number of blocks of a list. */
static uint32_t check_list(const struct lists *lists, uint32_t number) {
  struct ivf_list *list = &lists->all[number];
  uint32_t n = 0;
  /* The maintainer is outside. */
  emb_assert(
      !(atomic_load_explicit(&list->gate, memory_order_relaxed) & GATE_ALONE));
  for (uint32_t block = list->first; block != BLOCK_NONE; n++) {
    emb_assert(block < lists->blocks && n < lists->blocks);
    emb_assert(lists_head(lists, block)->list == number);
    block = lists_head(lists, block)->next;
  }
  emb_assert(n == lists_blocks(lists, number));
  return n;
}

int ivf__lists_valid(const struct lists *lists) {
  uint32_t n = 0, chunk = 1u << lists->chunk_bits;
  emb_assert(lists->count >= 1 && lists->count <= LISTS_MAX);
  emb_assert(lists->chunk_count == (lists->blocks + chunk - 1) / chunk);
  for (uint32_t i = 0; i < lists->count; i++) {
    n += check_list(lists, i);
  }
  for (uint32_t block = lists->free; block != BLOCK_NONE; n++) {
    emb_assert(block < lists->blocks && n < lists->blocks);
    emb_assert(lists_live(lists, block) == 0);
    block = lists_head(lists, block)->next;
  }
  emb_assert(n == lists->blocks); /* each is in a list or free */
  return 1;
}

/* ---- places -------------------------------------------------------------- */

/* The slot at which a search for this key of a part ends. */
static uint32_t slot_of_key(const struct places *places,
                            const struct places_part *part, int64_t key) {
  uint64_t hash = hash_key(key);
  uint32_t slot = (uint32_t)((hash << 8 >> 32) * part->size >> 32), value;
  while ((value = atomic_load_explicit(&part->slots[slot],
                                       memory_order_relaxed)) != 0) {
    if (value != PLACE_GONE && places->key_at(places->arg, value - 1) == key) {
      break;
    }
    slot = slot + 1 == part->size ? 0 : slot + 1;
  }
  return slot;
}

int ivf__places_part_valid(const struct places *places,
                           const struct places_part *part) {
  uint32_t used = 0, gone = 0;
  emb_assert(part->gone <= part->used);
  /* A free slot ends each search. */
  emb_assert(part->used < part->size || !part->size);
  for (uint32_t i = 0; i < part->size; i++) {
    uint32_t value =
        atomic_load_explicit(&part->slots[i], memory_order_relaxed);
    used += value != 0;
    gone += value == PLACE_GONE;
    if (value && value != PLACE_GONE) {
      int64_t key = places->key_at(places->arg, value - 1);
      emb_assert(&places->parts[hash_key(key) >> 56] == part);
      emb_assert(slot_of_key(places, part, key) == i);
    }
  }
  emb_assert(used == part->used && gone == part->gone);
  return 1;
}

/* ---- training ------------------------------------------------------------ */

int ivf__training_valid(const struct training *t) {
  uint64_t rows = 0;
  emb_assert(t->at <= t->n);
  for (uint32_t i = 0; i < t->centres->count; i++) {
    rows += t->counts[i];
  }
  emb_assert(rows == t->at); /* each row is counted in one centre */
  return 1;
}

/* ---- an index ------------------------------------------------------------ */

int ivf_valid(struct ivf *ivf) {
  struct ivf_checked checked;
  emb_assert(ivf->centres.dim == ivf->form.dim &&
             ivf->centres.count == ivf->shells.centres);
  emb_assert(shells_radii(&ivf->shells) == ivf->lists.count);
  emb_assert(memcmp(&ivf->form, &ivf->lists.form, sizeof ivf->form) == 0);
  ivf__lists_valid(&ivf->lists);
  for (uint32_t i = 0; i < PLACES_PARTS; i++) {
    ivf__places_part_valid(&ivf->places, &ivf->places.parts[i]);
  }
  ivf_check(ivf, &checked);
  emb_assert(checked.lost == 0);
  emb_assert(checked.rows == checked.found);
  emb_assert(checked.rows ==
             atomic_load_explicit(&ivf->rows, memory_order_relaxed));
  return 1;
}

#endif
