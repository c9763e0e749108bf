/* SPDX-License-Identifier: MIT
**
** pack_valid.c -- checks a writer, its sink, and a reader of packs.  Only in
** self-checking builds (base/debug.h).  What a reader finds in a file was
** checked before.
*/
#include "engine/base/debug.h"
#include "read.h"
#include "write.h"

#if EMB_DEBUG > 0

int sink_valid(const struct sink *s) {
  emb_assert(s->filled <= s->buffer_bytes);
  emb_assert(s->now == 0 || (s->now == 1 && s->queue));
  emb_assert(!s->in_flight || s->queue);
  return 1;
}

int pack_writer_valid(const struct pack_writer *w) {
  emb_assert(w->now < SLOTS && (!w->now || w->thread));
  emb_assert(w->slots[w->now].count < w->head.block_rows);
  emb_assert(w->slots[w->now].puts <= w->slots[w->now].count);
  emb_assert(w->entry_count < PACK_ENTRIES_MAX);
  emb_assert(w->texts_filled < PACK_TEXTS_BYTES);
  emb_assert(w->end.row_blocks <= w->blocks &&
             w->end.row_blocks <= w->offset_room);
  (void)sink_valid(&w->sink);
  return 1;
}

int pack_reader_valid(const struct pack_reader *r) {
  emb_assert(r->have == UINT64_MAX || r->have < r->end.row_blocks);
  emb_assert(r->have == UINT64_MAX || r->next == r->have + 1);
  emb_assert(r->have == UINT64_MAX || r->block.puts <= r->block.count);
  emb_assert(r->texts_at <= r->texts_n && r->texts_n <= PACK_TEXTS_BYTES);
  emb_assert(r->text_count <= r->rows);
  return 1;
}

#endif
