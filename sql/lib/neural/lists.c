/* SPDX-License-Identifier: MIT
**
** lists.c -- many lists of numbers; see lists.h.
*/
#include "lists.h"

#include <stdlib.h>

void lists_read(struct lists *lists, sqlite3 *db, const char *sql,
                size_t count) {
  size_t items = 0, room = 1 << 16, list = 0;
  sqlite3_stmt *statement = statement_new(db, sql);
  lists->count = count;
  lists->first = need(count + 1, sizeof(size_t));
  lists->item = need(room, sizeof(uint32_t));
  while (statement_step(statement)) {
    size_t to = (size_t)sqlite3_column_int64(statement, 0);
    if (to >= count || to < list) {
      die("list %zu of %zu after %zu, in: %s", to, count, list, sql);
    }
    while (list < to) {
      lists->first[++list] = items;
    }
    if (items == room) {
      room *= 2;
      lists->item = realloc(lists->item, room * sizeof(uint32_t));
      if (!lists->item) {
        die("out of memory");
      }
    }
    lists->item[items++] = (uint32_t)sqlite3_column_int64(statement, 1);
  }
  while (list < count) {
    lists->first[++list] = items;
  }
  sqlite3_finalize(statement);
}

void lists_free(struct lists *lists) {
  free(lists->first);
  free(lists->item);
}
