/* SPDX-License-Identifier: MIT
**
** tvf_valid.c -- checks that a table-valued function and its cursors are as
** tvf.h says.  Only in builds with self-checks (engine/base/debug.h).
*/
#include "tvf_cursors.h"
SQLITE_EXTENSION_INIT3

#if EMB_DEBUG > 0

int ext_tvf_valid(const struct ext_tvf *tvf) {
  emb_assert(tvf->arguments < EXT_TVF_ARGUMENTS); /* a key is one more */
  emb_assert(tvf->needed <= tvf->arguments);
  emb_assert(!tvf->needed == !tvf->needs);
  emb_assert(!tvf->key_is_exact || tvf->key_cost > 0);
  emb_assert(tvf->key_cost < tvf->cost && tvf->rows > 0);
  emb_assert(tvf->cursor_size >= sizeof(struct ext_tvf_cursor));
  emb_assert(tvf->begin && tvf->column);
  return 1;
}

int ext_tvf_cursor_valid(const struct ext_tvf_cursor *cursor) {
  const struct ext_tvf *tvf = cursor->tvf;
  const struct ext_link *link = cursor->link;
  int needed = (1 << tvf->needed) - 1;
  emb_assert(cursor->at <= cursor->n);
  emb_assert(cursor->n == 0 || (cursor->plan & needed) == needed);
  emb_assert(!(cursor->plan >> tvf->arguments & 1) || tvf->key_cost > 0);
  emb_assert(!link || (link->conn == cursor->conn && link->cursors > 0));
  emb_assert(!cursor->reads || (link && link->attached));
  return 1;
}

int ext_nearest_cursor_valid(const struct nearest_cursor *cursor) {
  size_t rows = 0;
  emb_assert(cursor->k > 0 && cursor->n <= cursor->block);
  emb_assert(!cursor->queries == !cursor->are_rows);
  emb_assert(cursor->are_rows ? !cursor->scan != !cursor->scanned
                              : !cursor->scan && !cursor->scanned);
  emb_assert(!cursor->snap == !cursor->with.snapshot);
  emb_assert(!cursor->scanned || cursor->snap);
  emb_assert(cursor->with.how.filter == cursor->among);
  emb_assert(cursor->are_rows ||
             cursor->number <= cursor->given.n / cursor->dim);
  for (size_t i = 0; i < cursor->n; i++) {
    emb_assert(cursor->counts[i] <= cursor->k);
    rows += cursor->counts[i];
  }
  emb_assert(rows == cursor->base.n);
  return 1;
}

int ext_sample_cursor_valid(const struct sample_cursor *cursor) {
  emb_assert(cursor->from <= cursor->end && cursor->end <= cursor->base.n);
  emb_assert(cursor->end - cursor->from <= SAMPLE_BLOCK);
  emb_assert(cursor->end == cursor->from || cursor->vectors);
  return 1;
}

int ext_delta_cursor_valid(const struct delta_cursor *cursor) {
  int plan = cursor->base.plan;
  emb_assert(cursor->delta && cursor->base.link);
  emb_assert(cursor->room > 0 && cursor->room <= DELTA_ROWS_MAX);
  emb_assert(!cursor->vectors == !(plan & DELTA_PLAN_VECTORS));
  emb_assert(!cursor->states ==
             !(plan & DELTA_PLAN_STATES && cursor->state_bytes));
  return 1;
}

#endif
