/* SPDX-License-Identifier: MIT
**
** find.c -- looks up the rows of a chunk in blocks, shortly before they are
** processed; see rows.h.
*/
#include "rows.h"

/* The rows of a block, which begins at row `at`. */
static struct index_wanted finder_wanted(const struct rows_finder *f,
                                         uint32_t at) {
  const emb_session *s = f->s;
  return (struct index_wanted){f->keys + at, s->hashes + at, s->entries + at,
                               s->words + at};
}

/* Begins a block, matches the block before it in the first buckets, and the one
** before that in the second ones. */
static void finder_step(struct rows_finder *f) {
  struct index *index = &f->s->core->index;
  uint32_t begun = f->begun, matched = f->matched, step = f->steps++;
  uint32_t left = f->n - begun, m = left < INDEX_BLOCK ? left : INDEX_BLOCK;
  if (m) {
    uint64_t *hashes = f->s->hashes + begun;
    for (uint32_t i = 0; i < m; i++) {
      hashes[i] = hash_key(f->keys[begun + i]);
    }
    index_probe_begin(index, &f->blocks[step % 3], hashes, m);
    f->begun = begun + m;
  }
  if (matched < begun) {
    const struct index_wanted rows = finder_wanted(f, matched);
    index_probe_first(index, &f->blocks[(step + 2) % 3], &rows);
    f->matched = begun;
  }
  if (f->found < matched) {
    const struct index_wanted rows = finder_wanted(f, f->found);
    index_probe_second(index, &f->blocks[(step + 1) % 3], &rows);
    f->found = matched;
  }
}

void finder__until(struct rows_finder *f, uint32_t row) {
  emb_assert(!epoch_outside());
  emb_assert(row < f->n);
  while (f->found <= row) {
    finder_step(f);
  }
}
