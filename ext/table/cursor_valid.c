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
  emb_assert(!cursor->is_batch || cursor->is_one);
  emb_assert(cursor->is_batch ||
             (!cursor->batch_vectors && !cursor->batch_found &&
              !cursor->batch_versions));
  emb_assert(!cursor->snap || cursor->snap_name);
  emb_assert(!cursor->snap_scan ||
             (cursor->snap && cursor->snap_lo < cursor->snap_hi));
  emb_assert(!cursor->vector ||
             (cursor->is_one && (cursor->vector == cursor->vector_pool[0] ||
                                 cursor->vector == cursor->vector_pool[1])));
  emb_assert(!cursor->lazy || cursor->lazy & EXT_PLAN_LAZY);
  return 1;
}

int ext_cursor_list_valid(const struct ext_cursor *cursor) {
  int desc = (cursor->flags & EXT_PLAN_ORDER) == EXT_PLAN_DESC;
  emb_assert(cursor->list_at == 0);
  for (size_t i = 1; i < cursor->list_n; i++)
    emb_assert(desc ? cursor->list[i - 1] >= cursor->list[i]
                    : cursor->list[i - 1] <= cursor->list[i]);
  return 1;
}

int ext_near_valid(const struct ext_cursor *cursor) {
  const struct ext_table *table = (const struct ext_table *)cursor->base.pVtab;
  const struct ext_near *near = cursor->near;
  emb_assert(cursor->flags & EXT_PLAN_NEAREST && cursor->peek);
  emb_assert(!cursor->scan && !cursor->snap_scan);
  emb_assert(near->how.segment < ext_vectors(&ext_vtab(table)->options));
  emb_assert(near->at <= near->n);
  emb_assert(near->n * (sizeof *near->keys + sizeof *near->distances) <=
             near->size);
  emb_assert(!near->keys == !near->size);
  emb_assert(!near->query == !near->query_size);
  emb_assert(near->is_last || near->query); /* NULL has no neighbours */
  emb_assert(!near->keys_set || near->how.filter == near->keys_set);
  emb_assert(!near->how.filter || near->keys_set || cursor->aux.set);
  emb_assert(near->k == 0 || !near->has_last); /* asked once, not open */
  return 1;
}

int ext_cursor_spare_valid(const struct ext_cursor *cursor) {
  emb_assert(!cursor->link && !cursor->scan && !cursor->snap);
  emb_assert(!cursor->aux.state && !cursor->aux.where && !cursor->aux.set);
  emb_assert(!cursor->is_batch && !cursor->vector);
  emb_assert(cursor->n == 0 && cursor->list_n == 0);
  return 1;
}

#endif
