/* SPDX-License-Identifier: MIT
**
** cursor_valid.c -- checks the invariants of a cursor (table_cursor.h), only in
** the self-checking variants (engine/base/debug.h).
*/
#include "table_cursor.h"
SQLITE_EXTENSION_INIT3

#if EMB_DEBUG > 0

int ext_cursor_valid(const struct ext_cursor *cursor) {
  const struct ext_table *table = (const struct ext_table *)cursor->base.pVtab;
  emb_assert(table->cursors > 0);
  emb_assert(cursor->list_at <= cursor->list_n);
  emb_assert(cursor->list_n <= cursor->list_capacity);
  emb_assert(cursor->is_batch || cursor->n <= cursor->capacity);
  emb_assert(!cursor->link || cursor->link->cursors > 0);
  emb_assert(!cursor->scan || !cursor->snap);
  emb_assert((!cursor->scan && !cursor->snap) || cursor->link);
  emb_assert(!cursor->is_one || cursor->n <= 1);
  return 1;
}

#endif
