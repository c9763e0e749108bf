/* SPDX-License-Identifier: MIT
**
** aux_valid.c -- the assertions of conditions on auxiliary columns, and of the
** cached sets, fire.
*/
#include "cursor_spy.h"
#include "death.h"
#include "sql_help.h"

#include "ext/table/table_cursor.h"

static sqlite3 *open_items(void) {
  sqlite3 *db = sql_connect(":memory:", 0);
  sql_runs(db, "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[1], +year "
               "INTEGER INDEXED);"
               "INSERT INTO items(key, vector, year) VALUES(1, '[1]', 1999), "
               "(2, '[2]', 2000), (3, '[3]', 2001)");
  return db;
}

TEST(conditions) {
  sqlite3 *db = open_items();
  struct ext_cursor *c;
  sqlite3_stmt *row =
      spy_on(db, "SELECT key, year FROM items WHERE year >= 2000", &c);
  const struct ext_options *options = &ext_vtab(ext_cursor_table(c))->options;
  struct ext_aux_where *where = c->aux.where;
  CHECK(where && ext_aux_where_valid(options, where));
  CHECK_FIRES(where->n = 0; ext_aux_where_valid(options, where));
  CHECK_FIRES(where->terms[0].column = 1; ext_aux_where_valid(options, where));
  CHECK_FIRES(where->terms[0].op = 'x'; ext_aux_where_valid(options, where));
  CHECK_FIRES(where->terms[0].room = 0; ext_aux_where_valid(options, where));
  CHECK_FIRES(where->terms[0].op = 'n'; ext_aux_where_valid(options, where));
  CHECK(c->aux.state && ext_aux_scan_valid(&c->aux));
  const char *plan = "";
  CHECK_FIRES(ext_aux_ask(&c->aux, &plan, NULL, 0));
  CHECK_FIRES(c->aux.state = 1; ext_aux_rewind(&c->aux));
  CHECK_FIRES(c->aux.row = NULL; ext_aux_rewind(&c->aux));
  sqlite3_finalize(row);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

TEST(sets) {
  sqlite3 *db = open_items();
  struct ext_cursor *c;
  sqlite3_stmt *row = spy_on(db,
                             "SELECT key FROM items WHERE vector MATCH '[1]' "
                             "AND k = 2 AND year >= 2000",
                             &c);
  struct ext_aux_sets *sets = ext_vtab(ext_cursor_table(c))->sets;
  struct ext_aux_set *set = sets->first;
  struct ext_aux_set many[EXT_AUX_SETS_MAX];
  CHECK(c->aux.set == set && ext_aux_sets_valid(sets));
  CHECK_FIRES(set->refs = 0; ext_aux_sets_valid(sets));
  CHECK_FIRES(set->filter = NULL; ext_aux_sets_valid(sets));
  CHECK_FIRES(set->stamp.undone = 1; ext_aux_sets_valid(sets));
  CHECK_FIRES(set->refs = 0; ext_aux_scan_valid(&c->aux));
  CHECK_FIRES(for (int i = 0; i < EXT_AUX_SETS_MAX; i++) {
    many[i] = *set;
    many[i].next = sets->first;
    sets->first = &many[i];
  } ext_aux_sets_valid(sets));
  CHECK_FIRES(c->aux.set = NULL; set->refs = 0;
              ext_aux_sets_free(ext_cursor_table(c)));
  sqlite3_finalize(row);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  CHECK_ALL_FIRED("ext/table/aux_valid.c");
}
