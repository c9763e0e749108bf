/* SPDX-License-Identifier: MIT
**
** columns.c -- the table of hidden columns.
**
** Declaration, reserved names, a scan's arguments, the columns it must read and
** those that may be written are all derived from EXT_HIDDEN (table.h).
*/
#include "table.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

#define ROW(id, name, type, argument, reads, rules)                            \
  {name, type, argument, reads, rules},
static const struct ext_column hidden_columns[] = {EXT_HIDDEN(ROW)};
#undef ROW

_Static_assert(sizeof hidden_columns / sizeof hidden_columns[0] < 31,
               "a bit each in an int");
_Static_assert(EXT_MORE + EMB_SEGMENTS_MAX < 63,
               "a bit each in sqlite3_index_info.colUsed");

const struct ext_column *ext_column(int column) {
  return &hidden_columns[column - EXT_FIRST_HIDDEN];
}

int ext_column_is_reserved(const struct ext_options *options,
                           const char *name) {
  const char *prefix = ext_column_prefix(options);
  size_t n = strlen(prefix);
  if (sqlite3_strnicmp(name, prefix, (int)n) != 0)
    return 0;
  for (int i = EXT_FIRST_HIDDEN; i < EXT_MORE; i++)
    if (ext_column(i)->name && (n || !(ext_column(i)->rules & EXT_YIELDS)) &&
        sqlite3_stricmp(name + n, ext_column(i)->name) == 0)
      return 1;
  return 0;
}
