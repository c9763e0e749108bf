/* SPDX-License-Identifier: MIT
**
** store_error.c -- errors about a store.  The engine names it by its directory,
** SQL by its table.
*/
#include "conn.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Does the path in a text end here?  A longer path names a file in it. */
static int is_end(char c) { return c == 0 || strchr(" :;,'\"", c) != NULL; }

char *ext_store_text(const char *text, const struct ext_table *table,
                     const char *directory) {
  size_t n = directory ? strlen(directory) : 0;
  sqlite3_str *to;
  const char *at;
  if (table == NULL || n == 0)
    return sqlite3_mprintf("%s", text);
  to = sqlite3_str_new(NULL);
  while ((at = strstr(text, directory)) != NULL) {
    sqlite3_str_append(to, text, (int)(at - text));
    text = at + n;
    if (!is_end(*text))
      sqlite3_str_append(to, at, (int)n);
    else if (sqlite3_stricmp(table->schema, "main") == 0)
      sqlite3_str_appendall(to, table->name);
    else
      sqlite3_str_appendf(to, "%s.%s", table->schema, table->name);
  }
  sqlite3_str_appendall(to, text);
  return sqlite3_str_finish(to);
}

int ext_store_error(char **err, int emb_code, const char *text,
                    const struct ext_table *table, const char *directory) {
  char *named = ext_store_text(text ? text : "", table, directory);
  if (table)
    ext_link_reported(table->conn);
  int rc = named ? ext_engine_error(err, emb_code, named) : SQLITE_NOMEM;
  sqlite3_free(named);
  return rc;
}
