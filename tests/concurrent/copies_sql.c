/* SPDX-License-Identifier: MIT
**
** copies_sql.c -- the engine is linked into a program that also loads emb.so:
** one of the two copies in the process owns a store and the other copy is its
** client, through SQL and through emb.h.
*/
#include "sql_help.h"
#include "store_help.h"

#include <stdlib.h>
#include <string.h>

enum { DIM = 4, ROWS = 500 };

static const char *file_of_test(void) { return help_path("app.db"); }

/* A connection that uses the other copy. */
static sqlite3 *connect_loaded(void) {
  sqlite3 *db = NULL;
  const char *so = getenv("EMB_SO");
  char *text = NULL;
  CHECK_EQ_INT(sqlite3_open(file_of_test(), &db), SQLITE_OK);
  (void)sqlite3_busy_timeout(db, 10000);
  (void)sqlite3_enable_load_extension(db, 1);
  int rc = sqlite3_load_extension(db, so ? so : "build/emb.so",
                                  "sqlite3_emb_init", &text);
  test_check(rc == SQLITE_OK, __FILE__, __LINE__, "loading: %s",
             text ? text : "");
  sqlite3_free(text);
  return db;
}

static void fill_table(void) {
  sqlite3 *db = sql_connect(file_of_test(), 0);
  (void)sql_runs(
      db,
      "PRAGMA journal_mode = WAL; CREATE VIRTUAL TABLE v USING "
      "emb(vector FLOAT[4], memory='4MB'); CREATE TABLE p(n); INSERT INTO p "
      "VALUES(0); WITH RECURSIVE t(i) AS (VALUES(0) UNION ALL SELECT i + 1 "
      "FROM t WHERE i < 499) INSERT INTO v SELECT i, '[0,0,0,0]' FROM t");
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

/* Adds one to each row, in a transaction with an ordinary row. */
static void add_one(sqlite3 *db) {
  (void)sql_runs(db, "BEGIN IMMEDIATE; UPDATE v SET vector = emb_add(vector, "
                     "'[1,1,1,1]'); UPDATE p SET n = n + 1; COMMIT");
}

static void check_all(sqlite3 *db, int value) {
  char sql[200];
  (void)snprintf(sql, sizeof sql,
                 "SELECT count(*) FROM v WHERE vector = "
                 "emb_f32('[%d,%d,%d,%d]')",
                 value, value, value, value);
  CHECK_EQ_INT(sql_integer(db, sql), ROWS);
  CHECK_EQ_INT(sql_integer(db, "SELECT n FROM p"), value);
}

/* Both copies write in turn; the owner closes the store first, or last. */
static void write_in_turn(int loaded_owns, int owner_closes_first) {
  fill_table();
  sqlite3 *linked = sql_connect(file_of_test(), 0), *loaded = connect_loaded();
  sqlite3 *owner = loaded_owns ? loaded : linked;
  sqlite3 *client = loaded_owns ? linked : loaded;
  for (int i = 0; i < 5; i++) {
    add_one(owner);
    add_one(client);
    check_all(owner, 2 * i + 2);
    check_all(client, 2 * i + 2);
    (void)sql_runs(i % 2 ? owner : client,
                   "INSERT INTO v(v) VALUES('checkpoint')");
  }
  CHECK_EQ_INT(sql_integer(client, "SELECT count(*) FROM emb_clients('v') "
                                   "WHERE role = 'client'"),
               1);
  CHECK_EQ_INT(sqlite3_close(owner_closes_first ? owner : client), SQLITE_OK);
  sqlite3 *left = owner_closes_first ? client : owner;
  add_one(left);
  check_all(left, 11);
  (void)sql_runs(left, "INSERT INTO v(v) VALUES('integrity-check')");
  CHECK_EQ_INT(sqlite3_close(left), SQLITE_OK);
  sqlite3 *db = sql_connect(file_of_test(), 0);
  check_all(db, 11);
  CHECK_EQ_INT(sql_integer(db, "SELECT state = 'ok' FROM emb_tables"), 1);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

TEST(linked_copy_owns_and_closes_first) { write_in_turn(0, 1); }
TEST(linked_copy_owns_and_closes_last) { write_in_turn(0, 0); }
TEST(loaded_copy_owns_and_closes_first) { write_in_turn(1, 1); }
TEST(loaded_copy_owns_and_closes_last) { write_in_turn(1, 0); }

/* The program uses its own emb.h, while the loaded copy uses SQL. */
static void use_emb_h(int loaded_owns) {
  emb_config config = {.dim = DIM, .timeout_ms = 5000};
  emb_store *store;
  emb_session *s;
  int64_t keys[2] = {3, 1000};
  float sevens[2 * DIM], got[DIM];
  fill_table();
  for (int i = 0; i < 2 * DIM; i++)
    sevens[i] = 7;
  sqlite3 *db = connect_loaded();
  if (loaded_owns)
    add_one(db);
  if (!help_open(help_path("app.db-emb/v"), &config, &store, &s))
    return;
  OK(s, emb_put(s, keys, 2, sevens, NULL));
  add_one(db);
  OK(s, emb_peek(s, keys, 1, got, NULL, NULL));
  CHECK_EQ_INT((int)got[0], 8);
  CHECK_EQ_INT(emb_count(s), ROWS + 1);
  CHECK_EQ_INT(sql_integer(db, "SELECT count(*) FROM v"), ROWS + 1);
  if (loaded_owns)
    CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  OK(s, emb_put(s, keys, 1, sevens, NULL));
  (void)help_close(store, s);
  if (loaded_owns)
    db = connect_loaded();
  CHECK_EQ_INT(sql_integer(db, "SELECT vector = emb_f32('[7,7,7,7]') FROM v "
                               "WHERE key = 3"),
               1);
  (void)sql_runs(db, "INSERT INTO v(v) VALUES('integrity-check')");
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

TEST(emb_h_beside_a_loaded_copy_that_owns) { use_emb_h(1); }
TEST(emb_h_owns_beside_a_loaded_copy) { use_emb_h(0); }
