/* SPDX-License-Identifier: MIT
**
** use.c -- a store with the feature of files/: its observer, task, metrics
** and file work, using only the public interface.
*/
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emb.h"

enum { DIM = 2, ROWS = 5 };

static int passed, failed;

static void check(int good, const char *what) {
  passed += good;
  failed += !good;
  if (!good)
    printf("failed: %s\n", what);
}

/* -2: there is no such metric. */
static int64_t metric(emb_store *store, const char *name) {
  emb_stat stats[256];
  size_t n = emb_stats(store, stats, 256);
  for (size_t i = 0; i < n; i++)
    if (strcmp(stats[i].name, name) == 0)
      return stats[i].value;
  return -2;
}

static emb_store *open_store(const char *dir, emb_session **session) {
  emb_config config = {.dim = DIM, .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  emb_store *store = NULL;
  int good = emb_open(dir, &config, &store, NULL) == EMB_OK &&
             emb_session_open(store, session, NULL) == EMB_OK;
  check(good, "open");
  if (!good)
    exit(1);
  return store;
}

static void close_store(emb_store *store, emb_session *session) {
  emb_session_close(session);
  check(emb_close(store, NULL) == EMB_OK, "close");
}

static void put(emb_session *session, int64_t first) {
  int64_t keys[ROWS];
  float vectors[ROWS * DIM] = {0};
  for (int i = 0; i < ROWS; i++)
    keys[i] = first + i;
  check(emb_put(session, keys, ROWS, vectors, NULL) == EMB_OK, "put");
}

static void step_until_done(emb_store *store) {
  int more = 1;
  while (more && emb_step(store, &more) == EMB_OK) {
  }
  check(!more, "steps");
}

static int is_there(const char *dir, const char *name) {
  char path[600];
  (void)snprintf(path, sizeof path, "%s/%s", dir, name);
  return access(path, F_OK) == 0;
}

static void use(const char *dir) {
  emb_session *session;
  emb_store *store = open_store(dir, &session);
  check(metric(store, "example_changed") == 0, "nothing has changed");
  check(metric(store, "task_example_pieces") == 0, "the task did nothing");
  put(session, 1);
  put(session, 1);
  check(metric(store, "example_changed") == 2 * ROWS, "changes are counted");
  check(metric(store, "example_noted") == 0, "not by the task");
  step_until_done(store);
  check(metric(store, "example_noted") == 2 * ROWS, "by the task, too");
  check(metric(store, "task_example_pieces") == 1, "which has run once");
  check(emb_checkpoint(session) == EMB_OK, "checkpoint");
  check(is_there(dir, "example"), "a checkpoint writes it");
  put(session, 100);
  close_store(store, session);
  store = open_store(dir, &session);
  check(metric(store, "keys") == 2 * ROWS, "rows are there");
  put(session, 1);
  check(metric(store, "example_changed") == 4 * ROWS, "so is the count");
  close_store(store, session);
  check(emb_destroy(dir, NULL) == EMB_OK && !is_there(dir, "."),
        "nothing is left");
}

/* The same metric through SQL: a table has the metrics of any store. */
static void use_sql(void) {
  sqlite3 *db;
  sqlite3_stmt *statement = NULL;
  check(sqlite3_open(":memory:", &db) == SQLITE_OK &&
            sqlite3_exec(db,
                         "CREATE VIRTUAL TABLE temp.items USING emb("
                         "vector FLOAT[2]);"
                         "INSERT INTO items VALUES(1, '[1,2]')",
                         NULL, NULL, NULL) == SQLITE_OK,
        "a table");
  check(sqlite3_prepare_v2(db,
                           "SELECT value FROM emb_stats('items') "
                           "WHERE name = 'example_changed'",
                           -1, &statement, NULL) == SQLITE_OK &&
            sqlite3_step(statement) == SQLITE_ROW &&
            sqlite3_column_int(statement, 0) == 1,
        "emb_stats");
  sqlite3_finalize(statement);
  check(sqlite3_close(db) == SQLITE_OK, "close the database");
}

int sqlite3_emb_init(sqlite3 *db, char **message, const void *api);

int main(void) {
  const char *parent = getenv("TMPDIR");
  char dir[400], path[500];
  (void)snprintf(dir, sizeof dir, "%s/emb-extended-XXXXXX",
                 parent ? parent : "/tmp");
  check(mkdtemp(dir) != NULL, "a directory");
  check(sqlite3_auto_extension((void (*)(void))sqlite3_emb_init) == SQLITE_OK,
        "sqlite3_auto_extension");
  (void)snprintf(path, sizeof path, "%s/store", dir);
  use(path);
  use_sql();
  check(rmdir(dir) == 0, "the directory is empty");
  printf("%d passed, %d failed\n", passed, failed);
  return failed > 0;
}
