/* SPDX-License-Identifier: MIT
**
** aux_valid.c -- checks conditions on auxiliary columns, the cached sets of
** their keys, and a scan's place in the shadow table.  Only in builds with
** self-checks (engine/base/debug.h).
*/
#include "aux_columns.h"
SQLITE_EXTENSION_INIT3

#if EMB_DEBUG > 0
#include <string.h>

int ext_aux_where_valid(const struct ext_options *options,
                        const struct ext_aux_where *where) {
  emb_assert(where->n > 0);
  for (int i = 0; i < where->n; i++) {
    const struct aux_term *term = &where->terms[i];
    int is_null_test = term->op == 'n' || term->op == 'N';
    emb_assert(term->column >= 0 && term->column < options->aux_count);
    emb_assert(term->op && strchr("=<l>g!snNi", term->op));
    emb_assert(term->n <= term->room);
    emb_assert(term->op == 'i' || term->n == !is_null_test);
  }
  return 1;
}

int ext_aux_sets_valid(const struct ext_aux_sets *sets) {
  int n = 0;
  for (const struct ext_aux_set *set = sets->first; set; set = set->next) {
    n++;
    emb_assert(n <= EXT_AUX_SETS_MAX);
    emb_assert(set->refs > 0); /* the table object's */
    emb_assert(set->filter && set->where);
    emb_assert(set->stamp.undone <= sets->undone);
  }
  return 1;
}

int ext_aux_scan_valid(const struct ext_aux_scan *scan) {
  emb_assert(scan->state == 0 || scan->state == SQLITE_ROW ||
             scan->state == SQLITE_DONE);
  emb_assert(!scan->state || scan->row);
  emb_assert(!scan->set || scan->set->refs > 0);
  return 1;
}

#endif
