/* SPDX-License-Identifier: MIT
**
** table_valid.c -- the assertions of a table object and its options fire, and
** those of calls that need another state of the object.
*/
#include "death.h"
#include "sql_help.h"

#include "ext/table/aux_columns.h"
#include "ext/table/table_cursor.h"

static char *err;

TEST(options) {
  static const char *const argv[] = {
      "emb", "main", "items", "vector FLOAT[4]", "title FLOAT[2]", "+year INT"};
  struct ext_options options;
  CHECK_EQ_INT(ext_arguments_parse(&options, 6, argv, &err), SQLITE_OK);
  CHECK(ext_options_valid(&options));
  CHECK_FIRES(options.config.segment_count = 0; ext_options_valid(&options));
  CHECK_FIRES(options.config.segments = NULL; ext_options_valid(&options));
  CHECK_FIRES(options.config.dim++; ext_options_valid(&options));
  CHECK_FIRES(options.config.type++; ext_options_valid(&options));
  CHECK_FIRES(options.segments[0].dim = options.segments[1].dim = 0;
              options.config.dim = 0; ext_options_valid(&options));
  CHECK_FIRES(options.key = NULL; ext_options_valid(&options));
  CHECK_FIRES(options.vectors[1] = NULL; ext_options_valid(&options));
  CHECK_FIRES(options.aux[0].type = NULL; ext_options_valid(&options));
  ext_options_clear(&options);
}

static struct ext_table *open_items(sqlite3 **db, struct ext_conn **conn) {
  struct ext_table *table = NULL;
  *db = sql_connect(":memory:", 0);
  sql_runs(*db, "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[1]);"
                "INSERT INTO items VALUES(1, '[1]')");
  *conn = ext_conn_ref(*db);
  ext_call_begin(*conn);
  CHECK_EQ_INT(ext_table_named(*conn, "items", 0, &table, &err), SQLITE_OK);
  sql_integer(*db, "SELECT count(*) FROM items"); /* leaves a spare cursor */
  return table;
}

static void close_items(sqlite3 *db, struct ext_conn *conn) {
  ext_call_end(conn);
  ext_conn_unref(conn);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

TEST(an_object) {
  sqlite3 *db;
  struct ext_conn *conn;
  struct ext_table *table = open_items(&db, &conn);
  struct ext_vtab *vtab = ext_vtab(table);
  CHECK(vtab->spare && ext_table_valid(table));
  CHECK_FIRES(table->name = NULL; ext_table_valid(table));
  CHECK_FIRES(vtab->vector_what[1] = table->name; ext_table_valid(table));
  CHECK_FIRES(table->link->tables = NULL; ext_table_valid(table));
  CHECK_FIRES(conn->calls = 0; ext_table_valid(table));
  CHECK_FIRES(table->begun = 1; ext_table_valid(table));
  CHECK_FIRES(vtab->spare->n = 1; ext_table_valid(table));
  CHECK_FIRES(table->held = 0; table->cursors = 1;
              table->base.pModule->xDisconnect(&table->base));
  close_items(db, conn);
}

TEST(calls_in_a_wrong_state) {
  sqlite3 *db;
  struct ext_conn *conn;
  struct ext_table *table = open_items(&db, &conn);
  struct ext_file_keys file = {.give = &file.keys};
  struct ext_keys keys = {.owned = 1}, absent = {.absent = 1};
  CHECK_FIRES(ext_table_link(table, table->link->store, NULL, &err));
  CHECK_FIRES(ext_settings_commit(table->link));
  CHECK_FIRES(ext_settings_sync(table, &err));
  CHECK_FIRES(ext_file_keys_begin(table, "", &file, &err));
  CHECK_FIRES(ext_keys_parse(table, NULL, "keys", &keys, &err));
  CHECK_FIRES(ext_keys_settle(table, &absent, &err));
  close_items(db, conn);
  CHECK_ALL_FIRED("ext/table/set.c");
  CHECK_ALL_FIRED("ext/table/open.c");
  CHECK_ALL_FIRED("ext/table/keys.c");
  CHECK_ALL_FIRED("ext/table/keys_file.c");
}
