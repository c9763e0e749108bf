/* SPDX-License-Identifier: MIT
**
** progress.c -- SELECT * FROM emb_progress, and FROM emb_progress('items').
**
**     CREATE TABLE emb_progress(
**       what TEXT, path TEXT, done INTEGER, total INTEGER, unit TEXT,
**       seconds REAL, process INTEGER, "table" HIDDEN)
**
** Long-running operations in this process, for whichever connection or client;
** or, with a table, in the process that owns it.  total is NULL if not known,
** and process is the client that asked for the operation.
*/
#include "tvf.h"
SQLITE_EXTENSION_INIT3

enum {
  PROGRESS_WHAT = 0,
  PROGRESS_PATH,
  PROGRESS_DONE,
  PROGRESS_TOTAL,
  PROGRESS_UNIT,
  PROGRESS_SECONDS,
  PROGRESS_PROCESS,
  PROGRESS_TABLE
};

struct progress_cursor {
  struct ext_tvf_cursor base; /* must be first */
  emb_progress *list;
};

static int tvf_progress_begin(struct ext_tvf_cursor *base,
                              sqlite3_value **arguments, char **err) {
  struct progress_cursor *cursor = (struct progress_cursor *)base;
  struct ext_table *table = NULL;
  size_t room = 16, n = room;
  int rc = ext_conn_check(base->conn, err);
  if (rc == SQLITE_OK && arguments[0]) {
    const char *name = (const char *)sqlite3_value_text(arguments[0]);
    if (name == NULL)
      return SQLITE_OK;
    rc = ext_table_named(base->conn, name, 0, &table, err);
  }
  while (rc == SQLITE_OK && n >= room) { /* more may have begun */
    room = n * 2;
    sqlite3_free(cursor->list);
    cursor->list = sqlite3_malloc64(room * sizeof *cursor->list);
    if (cursor->list == NULL)
      return SQLITE_NOMEM;
    n = table ? emb_progress_of(ext_link_store(table->link), cursor->list, room)
              : emb_progress_list(cursor->list, room);
  }
  base->n = rc == SQLITE_OK ? n : 0;
  return rc;
}

static void tvf_progress_end(struct ext_tvf_cursor *base) {
  struct progress_cursor *cursor = (struct progress_cursor *)base;
  sqlite3_free(cursor->list);
  cursor->list = NULL;
}

static void progress_column(struct ext_tvf_cursor *base,
                            sqlite3_context *context, int i) {
  const emb_progress *p = &((struct progress_cursor *)base)->list[base->at];
  if (i == PROGRESS_WHAT)
    sqlite3_result_text(context, p->what, -1, SQLITE_TRANSIENT);
  else if (i == PROGRESS_PATH)
    sqlite3_result_text(context, p->dir, -1, SQLITE_TRANSIENT);
  else if (i == PROGRESS_DONE)
    sqlite3_result_int64(context, (sqlite3_int64)p->done);
  else if (i == PROGRESS_TOTAL && p->total)
    sqlite3_result_int64(context, (sqlite3_int64)p->total);
  else if (i == PROGRESS_UNIT)
    sqlite3_result_text(context, p->unit, -1, SQLITE_TRANSIENT);
  else if (i == PROGRESS_SECONDS)
    sqlite3_result_double(context, p->seconds);
  else if (i == PROGRESS_PROCESS && p->process)
    sqlite3_result_int64(context, p->process);
}

static const struct ext_tvf progress = {
    .name = "emb_progress",
    .declaration = "CREATE TABLE x(what TEXT, path TEXT, done INTEGER, "
                   "total INTEGER, unit TEXT, seconds REAL, process INTEGER, "
                   "\"table\" HIDDEN)",
    .argument = PROGRESS_TABLE,
    .arguments = 1,
    .is_state = 1,
    .cost = 10,
    .rows = 2,
    .cursor_size = sizeof(struct progress_cursor),
    .begin = tvf_progress_begin,
    .column = progress_column,
    .end = tvf_progress_end,
};

int ext_tvf_progress_register(struct ext_conn *conn) {
  return ext_tvf_register(conn, &progress);
}
