/* SPDX-License-Identifier: MIT
**
** join_valid.c -- checks that a joiner in memory, and a call of it, are as
** join_call.h says.  Only in self-checking builds (engine/base/debug.h).
** Numbers that came from the tables are not checked here: anybody may change
** the tables.
*/
#include "join_call.h"
SQLITE_EXTENSION_INIT3

#if EMB_DEBUG > 0

#include <string.h>

/* Returns the number of slots in use. */
static size_t join_check_slots(const struct join_half *half) {
  size_t used = 0;
  for (size_t i = 0; i < half->slots_n; i++)
    used += half->slots[i] != 0;
  return used;
}

int ext_join_half_valid(const struct join_half *half) {
  size_t records = 0, place = 0;
  emb_assert(half->used <= half->room && half->used % 8 == 0);
  emb_assert(!half->used || half->arena);
  emb_assert(!half->slots_n == !half->slots);
  emb_assert((half->slots_n & (half->slots_n - 1)) == 0);
  emb_assert(half->slots_n <= half->slots_most);
  emb_assert(half->records * 2 <= half->slots_n);
  emb_assert(join_check_slots(half) == half->records);
  while (ext_join_half_next(half, &place))
    records++;
  emb_assert(records == half->records && place == half->used);
  return 1;
}

static void join_check_runs(const struct ext_joiner *joiner) {
  size_t words = 0;
  emb_assert(joiner->runs_n <= joiner->runs_room);
  for (size_t i = 0; i < joiner->runs_n; i++) {
    const struct join_filter *filter = &joiner->runs[i].filter;
    emb_assert(!filter->words == !filter->n);
    words += filter->n;
  }
  emb_assert(words == joiner->filter_words);
}

static void join_check_chunks(const struct ext_joiner *joiner) {
  size_t loaded = 0;
  for (size_t i = 0; i < joiner->chunks_n; i++)
    if (joiner->chunks[i]) {
      loaded++;
      emb_assert(joiner->in_use || !joiner->chunks[i]->changed);
    }
  emb_assert(loaded == joiner->chunks_loaded);
}

int ext_joiner_valid(const struct ext_joiner *joiner) {
  emb_assert(joiner->name && joiner->schema && joiner->table);
  emb_assert(joiner->in_use || joiner->current ||
             (!joiner->runs && !joiner->chunks && !joiner->young.arena &&
              !joiner->old.arena));
  ext_join_half_valid(&joiner->young);
  ext_join_half_valid(&joiner->old);
  /* They change places (spill.c). */
  emb_assert(joiner->young.room == joiner->old.room);
  emb_assert(joiner->young.slots_most == joiner->old.slots_most);
  join_check_runs(joiner);
  join_check_chunks(joiner);
  emb_assert(!joiner->early.words == !joiner->early.n);
  return 1;
}

int ext_join_call_valid(const struct join_call *call) {
  emb_assert(call->joiner->in_use && call->joiner->current);
  emb_assert(call->kinds_n > 0);
  for (size_t i = 0; i < call->kinds_n; i++) {
    emb_assert(strlen(call->kinds[i].name) == call->kinds[i].n);
    emb_assert(call->kinds[i].window <= call->window);
    emb_assert(call->kinds[i].label <= call->label_max);
  }
  emb_assert(call->position >= call->begun);
  return 1;
}

#endif
