/* SPDX-License-Identifier: MIT
**
** tvf_valid.c -- the assertions of table-valued functions and their cursors
** fire.
*/
#include "cursor_spy.h"
#include "death.h"
#include "sql_help.h"

#include "ext/tvf/tvf_cursors.h"

/* ---- a function of our own ----------------------------------------------- */

static void (*during_begin)(struct ext_tvf_cursor *cursor);

static int own_begin(struct ext_tvf_cursor *cursor, sqlite3_value **arguments,
                     char **err) {
  (void)arguments, (void)err;
  if (during_begin)
    during_begin(cursor);
  cursor->n = 2;
  return SQLITE_OK;
}

static void own_column(struct ext_tvf_cursor *cursor, sqlite3_context *context,
                       int i) {
  sqlite3_result_int64(context, (sqlite3_int64)cursor->at + i);
}

static const struct ext_tvf own = {
    .name = "own",
    .declaration = "CREATE TABLE x(value, a HIDDEN, b HIDDEN)",
    .argument = 1,
    .arguments = 2,
    .needed = 1,
    .needs = "a",
    .cost = 10,
    .rows = 2,
    .cursor_size = sizeof(struct ext_tvf_cursor),
    .begin = own_begin,
    .column = own_column,
};

static void read_all(struct ext_tvf_cursor *cursor) {
  ext_tvf_read_all(cursor);
}

TEST(a_description) {
  struct ext_tvf tvf = own;
  CHECK(ext_tvf_valid(&tvf));
  CHECK_FIRES(tvf.arguments = EXT_TVF_ARGUMENTS; ext_tvf_valid(&tvf));
  CHECK_FIRES(tvf.needed = 3; ext_tvf_valid(&tvf));
  CHECK_FIRES(tvf.needs = NULL; ext_tvf_valid(&tvf));
  CHECK_FIRES(tvf.key_is_exact = 1; ext_tvf_valid(&tvf));
  CHECK_FIRES(tvf.rows = 0; ext_tvf_valid(&tvf));
  CHECK_FIRES(tvf.cursor_size = 8; ext_tvf_valid(&tvf));
  CHECK_FIRES(tvf.begin = NULL; ext_tvf_valid(&tvf));
}

TEST(a_cursor) {
  sqlite3 *db = sql_connect_items();
  struct ext_conn *conn = ext_conn_ref(db);
  struct ext_link other = {.cursors = 1};
  struct ext_tvf_cursor *cursor;
  CHECK_EQ_INT(ext_tvf_register(conn, &own), SQLITE_OK);
  sqlite3_stmt *row = spy_on(db, "SELECT rowid, value FROM own(1)", &cursor);
  CHECK(ext_tvf_cursor_valid(cursor));
  CHECK_FIRES(cursor->at = 3; ext_tvf_cursor_valid(cursor));
  CHECK_FIRES(cursor->plan = 0; ext_tvf_cursor_valid(cursor));
  CHECK_FIRES(cursor->plan |= 4; ext_tvf_cursor_valid(cursor));
  CHECK_FIRES(cursor->link = &other; ext_tvf_cursor_valid(cursor));
  CHECK_FIRES(cursor->reads = row; ext_tvf_cursor_valid(cursor));
  /* The order of SQLite's calls. */
  const sqlite3_module *module = cursor->base.pVtab->pModule;
  sqlite3_int64 rowid;
  CHECK_FIRES(cursor->at = 2; module->xRowid(&cursor->base, &rowid));
  CHECK_FIRES(cursor->at = 2; module->xColumn(&cursor->base, NULL, 0));
  CHECK_FIRES(cursor->at = 2; module->xNext(&cursor->base));
  CHECK_FIRES(module->xFilter(&cursor->base, 1, NULL, 0, NULL));
  CHECK_FIRES(ext_tvf_hold(cursor, conn->links)); /* outside of a call */
  sqlite3_finalize(row);
  during_begin = read_all;
  CHECK_FIRES(sql_runs(db, "SELECT value FROM own(1)"));
  during_begin = NULL;
  ext_conn_unref(conn);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

/* ---- the functions ------------------------------------------------------- */

TEST(the_nearest) {
  sqlite3 *db = sql_connect_items();
  struct nearest_cursor *c;
  sqlite3_stmt *row =
      spy_on(db, "SELECT key FROM emb_nearest('items', '[[1], [2]]', 2)", &c);
  CHECK(ext_nearest_cursor_valid(c));
  CHECK_FIRES(c->n = c->block + 1; ext_nearest_cursor_valid(c));
  CHECK_FIRES(c->queries = c->given.at; ext_nearest_cursor_valid(c));
  CHECK_FIRES(c->scan = (emb_scan *)(void *)c; ext_nearest_cursor_valid(c));
  CHECK_FIRES(c->snap = (emb_snap *)(void *)c; ext_nearest_cursor_valid(c));
  CHECK_FIRES(c->are_rows = 1; c->queries = c->given.at;
              c->scanned = (emb_snap *)(void *)c; ext_nearest_cursor_valid(c));
  CHECK_FIRES(c->among = (emb_filter *)(void *)c; ext_nearest_cursor_valid(c));
  CHECK_FIRES(c->number = 3; ext_nearest_cursor_valid(c));
  CHECK_FIRES(c->counts[0] = 3; ext_nearest_cursor_valid(c));
  CHECK_FIRES(c->counts[0] = 1; ext_nearest_cursor_valid(c));
  CHECK_FIRES(c->first_row = 1; sqlite3_step(row); c->base.at = 0;
              c->base.base.pVtab->pModule->xColumn(&c->base.base, NULL, 0));
  sqlite3_finalize(row);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

TEST(a_sample) {
  sqlite3 *db = sql_connect_items();
  struct sample_cursor *c;
  sqlite3_stmt *row =
      spy_on(db, "SELECT vector FROM emb_sample('items', 3)", &c);
  CHECK(ext_sample_cursor_valid(c));
  CHECK_FIRES(c->end = 4; ext_sample_cursor_valid(c));
  CHECK_FIRES(c->end = c->base.n = SAMPLE_BLOCK + 1;
              ext_sample_cursor_valid(c));
  CHECK_FIRES(c->vectors = NULL; ext_sample_cursor_valid(c));
  sqlite3_finalize(row);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

TEST(a_delta) {
  sqlite3 *db = sql_connect_items();
  char sql[700];
  struct delta_cursor *c;
  (void)snprintf(sql, sizeof sql,
                 "ATTACH '%s/delta.db' AS side;"
                 "CREATE VIRTUAL TABLE side.rows USING emb(vector FLOAT[1]);"
                 "INSERT INTO rows VALUES(1, '[1]')",
                 test_dir());
  sql_runs(db, sql);
  sqlite3_stmt *row =
      spy_on(db, "SELECT key, vector FROM emb_delta('side.rows', 'us')", &c);
  CHECK(ext_delta_cursor_valid(c));
  CHECK_FIRES(c->delta = NULL; ext_delta_cursor_valid(c));
  CHECK_FIRES(c->room = DELTA_ROWS_MAX + 1; ext_delta_cursor_valid(c));
  CHECK_FIRES(c->vectors = NULL; ext_delta_cursor_valid(c));
  CHECK_FIRES(c->states = sql; ext_delta_cursor_valid(c));
  sqlite3_finalize(row);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  CHECK_ALL_FIRED("ext/tvf/tvf_valid.c");
}
