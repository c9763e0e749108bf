/* SPDX-License-Identifier: MIT
**
** dataset_valid.c -- checks that a window, a text being scanned, and blocks of
** records are as samples.h says.  Only in self-checking builds (base/debug.h).
*/
#include "engine/data/emb_data.h"
#include "samples.h"

#if EMB_DEBUG > 0

int samples__window_valid(const struct samples_window *window) {
  emb_assert(window->at <= window->filled);
  emb_assert(window->filled <= window->capacity);
  emb_assert(window->next <= window->size);
  /* What is available ends where the next read begins. */
  emb_assert(window->offset + samples__window_have(window) == window->next);
  return 1;
}

int samples__csv_valid(const struct samples_csv *csv) {
  emb_assert(csv->state <= CSV_ENDING);
  /* Only a CR may have been seen of an empty record. */
  emb_assert(!csv->empty || csv->state == CSV_BEGIN ||
             csv->state == CSV_RETURN);
  emb_assert(!csv->empty || csv->fields <= 1);
  return 1;
}

int samples__blocks_valid(const struct samples_blocks *blocks) {
  const emb_samples_block *block = &blocks->block;
  emb_assert(!blocks->begun || block->records > 0);
  emb_assert(block->records <= EMB_SAMPLES_BLOCK);
  emb_assert(block->bytes <= sizeof blocks->bytes);
  emb_assert(!block->bytes == !(blocks->spans && block->records));
  emb_assert(block->least <= block->most);
  /* Only the last block has fewer records than EMB_SAMPLES_BLOCK. */
  emb_assert(block->records == 0 ||
             blocks->found->records ==
                 block->number * EMB_SAMPLES_BLOCK + block->records);
  return 1;
}

#endif
