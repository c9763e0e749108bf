/* SPDX-License-Identifier: MIT
**
** serve_sql.c -- emb_serve: sqlite3_interrupt from another thread ends it while
** it waits for its next row or for the process to own the store, and the
** statement can be run again; another connection of the process may drop the
** table while emb_serve runs.
**
** HANG      Its next row would come in a day: an alarm ends the program.
*/
#include "test.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int sqlite3_emb_init(sqlite3 *, char **, const void *);

static sqlite3 *db, *other;
static char file[400];

static sqlite3 *connect_to(const char *name) {
  sqlite3 *to = NULL;
  CHECK_EQ_INT(sqlite3_open(name, &to), SQLITE_OK);
  CHECK_EQ_INT(sqlite3_emb_init(to, NULL, NULL), SQLITE_OK);
  return to;
}

static int runs(sqlite3 *on, const char *sql) {
  int rc = sqlite3_exec(on, sql, NULL, NULL, NULL);
  return test_check(rc == SQLITE_OK, __FILE__, __LINE__, "%.80s gave %d: %s",
                    sql, rc, sqlite3_errmsg(on));
}

static int start(void) {
  char *sql;
  int ok;
  if (!test_dir())
    return 0;
  (void)alarm(300);
  (void)snprintf(file, sizeof file, "%s/app.db", test_dir());
  other = connect_to(file);
  db = connect_to(":memory:");
  sql = sqlite3_mprintf("ATTACH %Q AS app", file);
  ok = runs(other, "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[2])") &&
       runs(other, "INSERT INTO items VALUES(1, '[1,1]')") && runs(db, sql);
  sqlite3_free(sql);
  return ok;
}

static void finish(void) {
  CHECK_EQ_INT(sqlite3_close(other), SQLITE_OK);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  (void)alarm(0);
}

static sqlite3_stmt *serve(void) {
  sqlite3_stmt *statement = NULL;
  CHECK_EQ_INT(sqlite3_prepare_v2(db,
                                  "SELECT rows FROM emb_serve('app.items', "
                                  "86400)",
                                  -1, &statement, NULL),
               SQLITE_OK);
  return statement;
}

static void *interrupt_soon(void *arg) {
  (void)arg;
  sqlite3_sleep(50);
  sqlite3_interrupt(db);
  return NULL;
}

TEST(an_interrupt_ends_it) {
  if (!start())
    return;
  sqlite3_stmt *statement = serve();
  for (int round = 0; round < 3; round++) {
    pthread_t thread;
    if (!CHECK_EQ_INT(sqlite3_step(statement), SQLITE_ROW) ||
        !CHECK_EQ_INT(sqlite3_column_int(statement, 0), 1 + round))
      break;
    /* The connection that serves holds no lock between its rows. */
    runs(other, "INSERT INTO items SELECT max(key) + 1, '[2,2]' FROM items");
    CHECK_EQ_INT(pthread_create(&thread, NULL, interrupt_soon, NULL), 0);
    CHECK_EQ_INT(sqlite3_step(statement), SQLITE_INTERRUPT);
    (void)pthread_join(thread, NULL);
    CHECK_EQ_INT(sqlite3_reset(statement), SQLITE_INTERRUPT);
  }
  (void)sqlite3_finalize(statement);
  finish();
}

static void *drop_soon(void *arg) {
  (void)arg;
  sqlite3_sleep(50);
  runs(other, "DROP TABLE items");
  sqlite3_sleep(50);
  sqlite3_interrupt(db);
  return NULL;
}

TEST(the_table_is_dropped_meanwhile) {
  pthread_t thread;
  if (!start())
    return;
  sqlite3_stmt *statement = serve();
  CHECK_EQ_INT(sqlite3_step(statement), SQLITE_ROW);
  CHECK_EQ_INT(pthread_create(&thread, NULL, drop_soon, NULL), 0);
  CHECK_EQ_INT(sqlite3_step(statement), SQLITE_INTERRUPT);
  (void)pthread_join(thread, NULL);
  (void)sqlite3_reset(statement);
  CHECK_EQ_INT(sqlite3_step(statement), SQLITE_ERROR);
  (void)sqlite3_finalize(statement);
  finish();
}
