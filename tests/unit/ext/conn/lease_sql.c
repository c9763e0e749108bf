/* SPDX-License-Identifier: MIT
**
** lease_sql.c -- a SELECT that waits for a lease, and a COMMIT that waits for
** that SELECT's lock, on a table with a timeout that no wait reaches.  Without
** a WAL the SELECT gives up; with one it reads the committed row.  And a
** transaction that writes and waits for a lease: it gives up if a SELECT took
** the lease, whose connection could give it back only by an UPDATE.
*/
#include "sql_help.h"
#include "store_help.h"

#include <pthread.h>
#include <unistd.h>

static sqlite3 *open_db(const char *path) {
  sqlite3 *db = sql_connect(path, 0);
  sqlite3_busy_timeout(db, 3600000);
  return db;
}

static int column(void *arg, int n, char **values, char **names) {
  (void)n, (void)names;
  (void)snprintf(arg, 100, "%s", values[0] ? values[0] : "NULL");
  return 0;
}

struct reader {
  const char *path, *sql;
  int rc;
  char row[100], text[200];
};

static void *read_row(void *arg) {
  struct reader *r = arg;
  sqlite3 *db = open_db(r->path);
  r->rc = sqlite3_exec(db, r->sql, column, r->row, NULL);
  (void)snprintf(r->text, sizeof r->text, "%s", sqlite3_errmsg(db));
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  return NULL;
}

/* Waits until n waits for a lease have begun. */
static void await_waits(sqlite3 *db, int n) {
  char row[100] = "0";
  while (atoi(row) < n && usleep(1000) == 0)
    CHECK_EQ_INT(sqlite3_exec(db,
                              "SELECT value FROM emb_stats('items') "
                              "WHERE name = 'staleness_waits'",
                              column, row, NULL),
                 SQLITE_OK);
}

#define UPDATE_ONE "UPDATE items SET vector = '[5]' WHERE key = 1"

/* A connection reads a row by `holder` and then writes it by `give`; in between
** another connection runs `sql`. */
static struct reader beside(const char *journal, const char *holder,
                            const char *give, const char *sql) {
  static char path[400];
  char text[500];
  pthread_t thread;
  struct reader r = {path, sql, -1, "", ""};
  (void)snprintf(path, sizeof path, "%s/%s-%d.db", test_dir(), journal,
                 (int)(test_random() % 1000000));
  sqlite3 *db = open_db(path);
  (void)snprintf(text, sizeof text,
                 "PRAGMA journal_mode = %s; CREATE VIRTUAL TABLE items USING "
                 "emb(vector FLOAT[1], staleness=0, timeout=3600000); "
                 "INSERT INTO items VALUES(1, '[1]'), (2, '[1]')",
                 journal);
  if (!sql_runs(db, text) || !sql_runs(db, holder) ||
      !CHECK_EQ_INT(pthread_create(&thread, NULL, read_row, &r), 0)) {
    sqlite3_close(db);
    return r;
  }
  await_waits(db, 1);
  (void)sql_runs(db, give);
  if (!sqlite3_get_autocommit(db))
    (void)sql_runs(db, "COMMIT");
  CHECK_EQ_INT(pthread_join(thread, NULL), 0);
  (void)sql_runs(
      db, "SELECT vector FROM items WHERE key = 1"); /* no lease is left */
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  return r;
}

static const char *const holders[] = {
    "SELECT vector FROM items WHERE key = 1",
    "BEGIN; SELECT vector FROM items WHERE key = 1",
};
static const char *const waiters[] = {
    "SELECT emb_to_json(vector) FROM items WHERE key = 1",
    "SELECT emb_to_json(vector) FROM items WHERE key IN (1, 2)",
    "SELECT emb_to_json(vectors) FROM items('[1]')",
};
/* emb_get holds no lock. */
static const char get[] = "SELECT emb_to_json(emb_get('items', '[1]'))";

TEST(a_commit_waits_for_who_waits_for_a_lease) {
  if (!test_dir())
    return;
  (void)alarm(600);
  for (size_t h = 0; h < 2; h++) {
    for (size_t i = 0; i < 3; i++) {
      struct reader r = beside("DELETE", holders[h], UPDATE_ONE, waiters[i]);
      CHECK_EQ_INT(r.rc, SQLITE_BUSY);
      test_check(strstr(r.text, "a COMMIT waits for this statement") != NULL,
                 __FILE__, __LINE__, "%s: %s", waiters[i], r.text);
      r = beside("WAL", holders[h], UPDATE_ONE, waiters[i]);
      CHECK_EQ_INT(r.rc, SQLITE_OK);
      CHECK(strcmp(r.row, i == 1 ? "[1]" : "[5]") == 0 ||
            strcmp(r.row, "[5]") == 0);
    }
    struct reader r = beside("DELETE", holders[h], UPDATE_ONE, get);
    CHECK_EQ_INT(r.rc, SQLITE_OK);
    CHECK(strcmp(r.row, "[5]") == 0);
  }
  (void)alarm(0);
}

static const char *const writers[] = {
    "UPDATE items SET vector = emb_add(vector, '[1]') WHERE key = 1",
    "BEGIN IMMEDIATE; SELECT emb_to_json(vector) FROM items WHERE key = 1; "
    "COMMIT",
    "BEGIN; UPDATE items SET vector = '[2]' WHERE key = 2; "
    "SELECT emb_to_json(emb_get('items', '[1]')); COMMIT",
};

TEST(a_write_waits_for_who_waits_for_a_lease) {
  static const char *const journals[] = {"DELETE", "WAL"};
  if (!test_dir())
    return;
  (void)alarm(600);
  for (size_t j = 0; j < 2; j++)
    for (size_t i = 0; i < 3; i++) {
      struct reader r = beside(journals[j], holders[0], UPDATE_ONE, writers[i]);
      CHECK_EQ_INT(r.rc, SQLITE_BUSY);
      test_check(strstr(r.text, "cannot write while this") != NULL, __FILE__,
                 __LINE__, "%s: %s", writers[i], r.text);
      /* emb_put needs no SQLite lock. */
      r = beside(journals[j], get, "SELECT emb_put('items', '[1]', '[5]')",
                 writers[i]);
      CHECK_EQ_INT(r.rc, SQLITE_OK);
    }
  (void)alarm(0);
}
