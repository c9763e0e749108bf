/* SPDX-License-Identifier: MIT
**
** gathered_valid.c -- are the gathered rows as gathered.h says?  Only in
** self-checking builds (base/debug.h).
*/
#include "gathered.h"

#include "engine/base/debug.h"

#if EMB_DEBUG > 0

/* The records in a row's list. */
static uint32_t check_list(const struct gathered *g, uint32_t row) {
  const struct gathered_row *of = &g->list[row];
  uint32_t n = 0;
  for (uint32_t at = of->first; at; at = g->next[at - 1]) {
    emb_assert(at <= g->records && n < g->records);
    emb_assert(g->row_of[at - 1] == row);
    emb_assert(g->keys[at - 1] >= g->keys[of->first - 1]);
    emb_assert(g->keys[at - 1] <= g->keys[of->last - 1]);
    emb_assert(!of->is_sorted || !g->next[at - 1] ||
               g->keys[at - 1] <= g->keys[g->next[at - 1] - 1]);
    n++;
  }
  return n;
}

/* Before the rows are compared: every record is in a list. */
int gathered_valid(const struct gathered *g) {
  uint32_t n = 0;
  emb_assert(g->rows <= g->row_room && g->records <= g->record_room);
  for (uint32_t row = 0; row < g->rows; row++) {
    n += check_list(g, row);
  }
  emb_assert(n == g->records);
  return 1;
}

#endif
