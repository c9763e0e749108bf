/* SPDX-License-Identifier: MIT
**
** cursor_spy.h -- gives a test the cursors that SQLite opens on the extension's
** tables, of which it otherwise sees only rows.  A program that includes this
** header registers each module with an xOpen that notes the cursor.
*/
#ifndef EMB_CURSOR_SPY_H
#define EMB_CURSOR_SPY_H

#include "test.h"

#include <dlfcn.h>
#include <sqlite3.h>
#include <string.h>

struct spied_module {
  sqlite3_module module; /* must be first */
  const sqlite3_module *real;
};

/* The cursor that was opened last. */
static sqlite3_vtab_cursor *spied_cursor;

static int spied_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor) {
  const struct spied_module *spied =
      (const struct spied_module *)(const void *)vtab->pModule;
  int rc = spied->real->xOpen(vtab, cursor);
  if (rc == SQLITE_OK)
    spied_cursor = *cursor;
  return rc;
}

/* Takes the place of SQLite's function in this program. */
int sqlite3_create_module_v2(sqlite3 *db, const char *name,
                             const sqlite3_module *real, void *data,
                             void (*destroy)(void *)) {
  static struct spied_module modules[200];
  static size_t n;
  int (*next)(sqlite3 *, const char *, const sqlite3_module *, void *,
              void (*)(void *));
  void *symbol = dlsym(RTLD_NEXT, "sqlite3_create_module_v2");
  size_t i = 0;
  memcpy(&next, &symbol, sizeof next);
  while (i < n && modules[i].real != real)
    i++;
  if (i == n) {
    modules[n++] = (struct spied_module){*real, real};
    modules[i].module.xOpen = real->xOpen ? spied_open : NULL;
  }
  return next(db, name, &modules[i].module, data, destroy);
}

int sqlite3_create_module(sqlite3 *db, const char *name,
                          const sqlite3_module *real, void *data) {
  return sqlite3_create_module_v2(db, name, real, data, NULL);
}

/* Steps a new statement to its first row; *cursor is the one opened last. */
static sqlite3_stmt *spy_on(sqlite3 *db, const char *sql, void *cursor) {
  sqlite3_stmt *row = NULL;
  int rc = sqlite3_prepare_v2(db, sql, -1, &row, NULL);
  rc = rc ? rc : sqlite3_step(row);
  test_check(rc == SQLITE_ROW, __FILE__, __LINE__, "%.80s gave %d: %s", sql, rc,
             sqlite3_errmsg(db));
  memcpy(cursor, &spied_cursor, sizeof spied_cursor);
  return row;
}

#endif
