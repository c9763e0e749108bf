/* SPDX-License-Identifier: MIT
**
** draw.c -- see draw.h.
*/
#include "draw.h"

#include "engine/table/rows/rows.h"

uint32_t draw__keep(struct draw *d, uint32_t n, uint32_t want) {
  emb_session *s = d->s;
  uint32_t kept = 0, i = 0;
  emb_assert(!epoch_outside());
  emb_assert(want <= n && n <= s->chunk); /* the session's arrays */
  rows_find(s, d->keys, 0, n);
  for (; i < n && kept < want; i++) {
    uint64_t word = s->words[i] & ~WORD_LATCH;
    if (!word || !txn_word(s, d->keys[i], s->hashes[i], word) ||
        !draw__admits(d, d->keys[i])) {
      continue;
    }
    d->keys[kept] = d->keys[i];
    d->p[kept] = d->p[i];
    s->entries[kept] = s->entries[i];
    s->words[kept++] = word;
  }
  d->draws += i;
  return kept;
}
