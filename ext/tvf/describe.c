/* SPDX-License-Identifier: MIT
**
** describe.c -- SELECT * FROM emb_describe('items').
**
**     CREATE TABLE emb_describe(name TEXT, value, remark TEXT, "table" HIDDEN)
**
** A dozen rows, always in the same order: what a person asks of a table, and
** what to change.  describe.h says which file makes which rows.
**
** The store is opened as emb_stats opens it, and nothing is counted or
** written.  The facts are collected one after another, so they may differ by
** what others write meanwhile.  While the store's owner does not answer, the
** only row is the owner.
*/
#include "describe.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

enum { DESCRIBE_NAME = 0, DESCRIBE_VALUE, DESCRIBE_REMARK, DESCRIBE_TABLE };

struct describe_cursor {
  struct ext_tvf_cursor base; /* must be first */
  struct describe_facts facts;
  struct describe_rows rows;
};

static int describe_begin(struct ext_tvf_cursor *base,
                          sqlite3_value **arguments, char **err) {
  struct describe_cursor *cursor = (struct describe_cursor *)base;
  const char *name = (const char *)sqlite3_value_text(arguments[0]);
  int rc;
  if (name == NULL)
    return SQLITE_OK;
  rc = ext_describe_find(base->conn, name, &cursor->facts, err);
  if (rc != SQLITE_OK || cursor->facts.stat_count == 0)
    return rc;
  ext_describe_rows(&cursor->facts, &cursor->rows);
  if (!cursor->facts.is_silent)
    ext_describe_advice(&cursor->facts, &cursor->rows);
  base->n = cursor->rows.n;
  return cursor->rows.rc;
}

static void describe_end(struct ext_tvf_cursor *base) {
  struct describe_cursor *cursor = (struct describe_cursor *)base;
  for (size_t i = 0; i < cursor->rows.n; i++) {
    sqlite3_free(cursor->rows.list[i].value);
    sqlite3_free(cursor->rows.list[i].remark);
  }
  sqlite3_free(cursor->rows.list);
  memset(&cursor->rows, 0, sizeof cursor->rows);
  ext_describe_free(&cursor->facts);
}

static void describe_column(struct ext_tvf_cursor *base,
                            sqlite3_context *context, int i) {
  const struct describe_row *row =
      &((struct describe_cursor *)base)->rows.list[base->at];
  if (i == DESCRIBE_NAME)
    sqlite3_result_text(context, row->name, -1, SQLITE_STATIC);
  else if (i == DESCRIBE_VALUE && row->value)
    sqlite3_result_text(context, row->value, -1, SQLITE_TRANSIENT);
  else if (i == DESCRIBE_VALUE)
    sqlite3_result_int64(context, row->number);
  else if (i == DESCRIBE_REMARK && row->remark)
    sqlite3_result_text(context, row->remark, -1, SQLITE_TRANSIENT);
}

static const struct ext_tvf describe = {
    .name = "emb_describe",
    .declaration =
        "CREATE TABLE x(name TEXT, value, remark TEXT, \"table\" HIDDEN)",
    .argument = DESCRIBE_TABLE,
    .arguments = 1,
    .needed = 1,
    .needs = "a table name",
    .is_state = 1,
    .cost = 1000,
    .rows = 15,
    .cursor_size = sizeof(struct describe_cursor),
    .begin = describe_begin,
    .column = describe_column,
    .end = describe_end,
};

int ext_tvf_describe_register(struct ext_conn *conn) {
  return ext_tvf_register(conn, &describe);
}
