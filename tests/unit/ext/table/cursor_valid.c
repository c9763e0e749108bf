/* SPDX-License-Identifier: MIT
**
** cursor_valid.c -- the assertions of a table's cursor fire: of a scan, a list,
** a batch and a search, and of the agreement between plan.c and filter.c.
*/
#include "cursor_spy.h"
#include "death.h"
#include "sql_help.h"

#include "ext/table/table_cursor.h"

static char *err;

TEST(a_scan) {
  sqlite3 *db = sql_connect_items();
  struct ext_cursor *c;
  sqlite3_stmt *row = spy_on(db, "SELECT key, vector FROM items", &c);
  struct ext_table *table = ext_cursor_table(c);
  sqlite3_value *one = sqlite3_column_value(row, 0);
  CHECK(c->scan && ext_cursor_valid(c));
  CHECK_FIRES(table->cursors = 0; ext_cursor_valid(c));
  CHECK_FIRES(c->list_at = 1; ext_cursor_valid(c));
  CHECK_FIRES(c->list_n = 1; ext_cursor_valid(c));
  CHECK_FIRES(c->n = c->capacity + 1; ext_cursor_valid(c));
  CHECK_FIRES(c->link->cursors = 0; ext_cursor_valid(c));
  CHECK_FIRES(c->snap = (emb_snap *)(void *)c; ext_cursor_valid(c));
  CHECK_FIRES(c->link = NULL; ext_cursor_valid(c));
  CHECK_FIRES(c->is_one = 1; ext_cursor_valid(c));
  CHECK_FIRES(c->is_batch = 1; ext_cursor_valid(c));
  CHECK_FIRES(c->batch_found = (struct ext_value *)(void *)c;
              ext_cursor_valid(c));
  CHECK_FIRES(c->scan = NULL; c->snap = (emb_snap *)(void *)c;
              ext_cursor_valid(c));
  CHECK_FIRES(c->snap_scan = 1; ext_cursor_valid(c));
  CHECK_FIRES(c->vector = (struct ext_value *)(void *)c; ext_cursor_valid(c));
  CHECK_FIRES(c->lazy = EXT_PLAN_VECTORS; ext_cursor_valid(c));
  /* Calls that do not fit a scan. */
  CHECK_FIRES(ext_cursor_compact(c, c->capacity + 1));
  CHECK_FIRES(c->link->bounded = 1; ext_cursor_read_key(c, 1, &err));
  CHECK_FIRES(ext_batch_read(c, one, &err));
  CHECK_FIRES(ext_batch_column(c, NULL, EXT_FOUND));
  /* Plans that plan.c does not write. */
  CHECK_FIRES(ext_cursor_filter(&c->base, 0, "=", 0, NULL));
  sqlite3_finalize(row);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

TEST(a_list) {
  sqlite3 *db = sql_connect_items();
  struct ext_cursor *c;
  sqlite3_stmt *row =
      spy_on(db, "SELECT key FROM items WHERE key IN (1, 2, 3)", &c);
  CHECK_EQ_INT(c->list_n, 3);
  CHECK_FIRES(ext_cursor_list_valid(c)); /* was read */
  c->list_at = 0;
  CHECK(ext_cursor_list_valid(c));
  CHECK_FIRES(c->list[0] = 9; ext_cursor_list_valid(c));
  sqlite3_finalize(row);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

TEST(a_search) {
  sqlite3 *db = sql_connect_items();
  struct ext_cursor *c;
  sqlite3_stmt *row = spy_on(
      db, "SELECT key FROM items WHERE vector MATCH '[1]' AND k = 2", &c);
  struct ext_near *near = c->near;
  emb_filter *filter = (emb_filter *)(void *)c;
  CHECK(ext_near_valid(c));
  CHECK_FIRES(c->peek = 0; ext_near_valid(c));
  CHECK_FIRES(c->snap_scan = 1; ext_near_valid(c));
  CHECK_FIRES(near->how.segment = 1; ext_near_valid(c));
  CHECK_FIRES(near->at = near->n + 1; ext_near_valid(c));
  CHECK_FIRES(near->n = near->size + 1; ext_near_valid(c));
  CHECK_FIRES(near->size++; ext_near_valid(c));
  CHECK_FIRES(near->query_size = 0; ext_near_valid(c));
  CHECK_FIRES(near->query = NULL; near->query_size = 0; near->is_last = 0;
              ext_near_valid(c));
  CHECK_FIRES(near->keys_set = filter; ext_near_valid(c));
  CHECK_FIRES(near->how.filter = filter; ext_near_valid(c));
  CHECK_FIRES(near->has_last = 1; ext_near_valid(c));
  sqlite3_finalize(row);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

TEST(a_closed_cursor) {
  sqlite3 *db = sql_connect_items();
  struct ext_cursor *c;
  sqlite3_stmt *row = spy_on(db, "SELECT key FROM items", &c);
  struct ext_link *link = c->link;
  struct ext_table *table = ext_cursor_table(c);
  sqlite3_finalize(row);
  CHECK(ext_vtab(table)->spare == c && ext_cursor_spare_valid(c));
  CHECK_FIRES(c->link = link; ext_cursor_spare_valid(c));
  CHECK_FIRES(c->aux.state = SQLITE_ROW; ext_cursor_spare_valid(c));
  CHECK_FIRES(c->is_batch = 1; ext_cursor_spare_valid(c));
  CHECK_FIRES(c->n = 1; ext_cursor_spare_valid(c));
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  CHECK_ALL_FIRED("ext/table/cursor_valid.c");
  CHECK_ALL_FIRED("ext/table/chunk.c");
  CHECK_ALL_FIRED("ext/table/batch.c");
}
