/* SPDX-License-Identifier: MIT
**
** tvf.c -- emb_join(joiner, source, query [, batch]): takes in the events that
** the query returns, and returns the examples they make as rows.
**
** All work is done before the first row (join/join.h), whether rows are read or
** not.
*/
#include "ext/tvf/tvf.h"
#include "join.h"
SQLITE_EXTENSION_INIT3

#define JOINERS "emb_join"

enum { JOIN_COLUMNS = 8, JOIN_ARGUMENTS = 4 };

struct join_cursor {
  struct ext_tvf_cursor base;
  sqlite3_stmt *examples;
};

static int join_begin(struct ext_tvf_cursor *base, sqlite3_value **arguments,
                      char **err) {
  struct join_cursor *cursor = (struct join_cursor *)base;
  const struct ext_join_ask ask = {arguments[0], arguments[1], arguments[2],
                                   arguments[3]};
  int rc = ext_conn_check(base->conn, err);
  if (rc == SQLITE_OK)
    rc = ext_join_run(ext_conn_get_clientdata(base->conn, JOINERS),
                      base->conn->db, &ask, &cursor->examples, err);
  return rc;
}

static int join_more(struct ext_tvf_cursor *base, char **err) {
  struct join_cursor *cursor = (struct join_cursor *)base;
  int rc = sqlite3_step(cursor->examples);
  base->n = rc == SQLITE_ROW;
  return rc == SQLITE_ROW || rc == SQLITE_DONE
             ? SQLITE_OK
             : ext_sql_error(err, base->conn->db, rc);
}

static void join_column(struct ext_tvf_cursor *base, sqlite3_context *context,
                        int i) {
  struct join_cursor *cursor = (struct join_cursor *)base;
  if (i < JOIN_COLUMNS)
    sqlite3_result_value(context, sqlite3_column_value(cursor->examples, i));
}

static sqlite3_int64 join_rowid(struct ext_tvf_cursor *base) {
  struct join_cursor *cursor = (struct join_cursor *)base;
  return sqlite3_column_int64(cursor->examples, 0);
}

static void join_end(struct ext_tvf_cursor *base) {
  struct join_cursor *cursor = (struct join_cursor *)base;
  sqlite3_finalize(cursor->examples);
  cursor->examples = NULL;
}

static const struct ext_tvf join = {
    .name = "emb_join",
    .declaration = "CREATE TABLE x(number INTEGER, request, time INTEGER,"
                   " kind TEXT, label REAL, weight REAL, log_odds REAL,"
                   " features, joiner HIDDEN, source HIDDEN, query HIDDEN,"
                   " batch HIDDEN)",
    .argument = JOIN_COLUMNS,
    .arguments = JOIN_ARGUMENTS,
    .needed = 3,
    .needs = "a joiner, a source and a query",
    .cost = 1e6,
    .rows = 10000,
    .cursor_size = sizeof(struct join_cursor),
    .begin = join_begin,
    .more = join_more,
    .column = join_column,
    .rowid = join_rowid,
    .end = join_end,
};

int ext_join_register(struct ext_conn *conn) {
  struct ext_joiners *joiners = ext_joiners_new();
  int rc = joiners ? ext_conn_set_clientdata(conn, JOINERS, joiners,
                                             ext_joiners_free)
                   : SQLITE_NOMEM;
  if (rc == SQLITE_OK)
    rc = ext_tvf_register(conn, &join);
  return rc == SQLITE_OK ? ext_join_tables_register(conn) : rc;
}
