/* SPDX-License-Identifier: MIT
**
** change_valid.c -- the assertions of a parsed change fire.  An SQL function
** gets the arguments of xUpdate, and parses them.
*/
#include "death.h"
#include "sql_help.h"

#include "ext/table/change.h"

static struct ext_table *table;
static void (*during)(struct ext_change *change);

static void parse(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct ext_change change;
  char *err = NULL;
  int rc = ext_change_parse(table, argc, argv, &change, &err);
  if (CHECK_EQ_INT(rc, SQLITE_OK)) {
    CHECK(ext_change_valid(table, &change));
    during(&change);
  }
  sqlite3_free(err);
  ext_change_free(&change);
  sqlite3_result_int(context, rc);
}

static void a_row(struct ext_change *c) {
  CHECK_EQ_INT(c->kind, EXT_CHANGE_INSERT);
  CHECK_FIRES(c->command = c->arg = *c->aux.at; ext_change_valid(table, c));
  CHECK_FIRES(c->kind = EXT_CHANGE_DELETE; ext_change_valid(table, c));
  CHECK_FIRES(c->keys.n = 2; ext_change_valid(table, c));
  CHECK_FIRES(c->keys.absent = 2; ext_change_valid(table, c));
  CHECK_FIRES(c->keys.absent = 1; ext_change_valid(table, c));
  CHECK_FIRES(c->moves = 1; ext_change_valid(table, c));
  CHECK_FIRES(c->vectors.at = NULL; ext_change_valid(table, c));
  CHECK_FIRES(c->gradients.n = 1; ext_change_valid(table, c));
  CHECK_FIRES(c->read.at = c->vectors.at; ext_change_valid(table, c));
  CHECK_FIRES(c->read.n = 1; ext_change_valid(table, c));
  CHECK_FIRES(c->parts = 1; ext_change_valid(table, c));
}

static void a_batch(struct ext_change *c) {
  CHECK_EQ_INT(c->kind, EXT_CHANGE_INSERT_BATCH);
  CHECK_FIRES(c->vectors.n = 1; ext_change_valid(table, c));
  CHECK_FIRES(c->kind = EXT_CHANGE_GRADIENT; ext_change_valid(table, c));
}

static void an_update(struct ext_change *c) {
  CHECK_EQ_INT(c->kind, EXT_CHANGE_UPDATE);
  CHECK_FIRES(c->parts = 1; ext_change_valid(table, c));
}

/* More NULLs than there are columns. */
#define NULLS                                                                  \
  ", NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, " \
  "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"

TEST(changes) {
  sqlite3 *db = sql_connect(":memory:", 0);
  struct ext_conn *conn = ext_conn_ref(db);
  char *err = NULL;
  sql_runs(db, "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[1], +a)");
  CHECK_EQ_INT(sqlite3_create_function_v2(db, "parse", -1, SQLITE_UTF8, NULL,
                                          parse, NULL, NULL, NULL),
               SQLITE_OK);
  ext_call_begin(conn);
  CHECK_EQ_INT(ext_table_named(conn, "items", 0, &table, &err), SQLITE_OK);
  during = a_row;
  sql_integer(db, "SELECT parse(NULL, NULL, 1, '[1]'" NULLS);
  during = a_batch;
  sql_integer(
      db,
      "SELECT parse(NULL, NULL, NULL, NULL, '[1, 2]', NULL, '[1, 2]'" NULLS);
  during = an_update;
  ext_vtab(table)->update_reads = -1; /* as an UPDATE that sets no other */
  sql_integer(db, "SELECT parse(1, 1, 1, '[1]'" NULLS);
  ext_call_end(conn);
  ext_conn_unref(conn);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  CHECK_ALL_FIRED("ext/table/change_valid.c");
}
