/* SPDX-License-Identifier: MIT
**
** linked.c -- the amalgamation in a program: emb.c compiled with -DSQLITE_CORE,
** its entry point given to sqlite3_auto_extension, and the engine also called
** through its own interface.
*/
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emb.h"

int sqlite3_emb_init(sqlite3 *db, char **message, const void *api);

static int passed, failed;

static void check(int good, const char *what) {
  passed += good;
  failed += !good;
  if (!good)
    printf("failed: %s\n", what);
}

/* Compares the first value of a statement, as text. */
static void gives(sqlite3 *db, const char *sql, const char *expected) {
  sqlite3_stmt *statement = NULL;
  const char *text = NULL;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW)
    text = (const char *)sqlite3_column_text(statement, 0);
  check(text && strcmp(text, expected) == 0, sql);
  sqlite3_finalize(statement);
}

static void use_sql(const char *file) {
  sqlite3 *db;
  check(sqlite3_open(file, &db) == SQLITE_OK, "open");
  check(sqlite3_exec(db,
                     "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[4]);"
                     "INSERT INTO items VALUES(1, '[1,2,3,4]');"
                     "BEGIN; DELETE FROM items; ROLLBACK",
                     NULL, NULL, NULL) == SQLITE_OK,
        "create, insert, roll back");
  gives(db, "SELECT emb_to_json(vector) FROM items WHERE key = 1", "[1,2,3,4]");
  gives(db, "SELECT emb_to_json(vectors) FROM items('[1]')", "[1,2,3,4]");
  gives(db, "PRAGMA integrity_check", "ok");
  check(sqlite3_close(db) == SQLITE_OK, "close");
}

static void use_engine(const char *dir) {
  emb_config config = {.dim = 2, .flags = EMB_OPEN_CREATE};
  emb_store *store;
  emb_session *session;
  int64_t key = 7;
  float vector[2] = {1, 2}, got[2] = {0, 0};
  uint8_t found = 0;
  if (emb_open(dir, &config, &store, NULL) ||
      emb_session_open(store, &session, NULL)) {
    check(0, "open a store");
    return;
  }
  check(emb_put(session, &key, 1, vector, NULL) == EMB_OK &&
            emb_get(session, &key, 1, got, &found, NULL) == EMB_OK && found &&
            memcmp(got, vector, sizeof got) == 0,
        "put and get");
  emb_session_close(session);
  check(emb_close(store, NULL) == EMB_OK, "close the store");
  check(emb_destroy(dir, NULL) == EMB_OK, "remove the store");
}

int main(void) {
  const char *parent = getenv("TMPDIR");
  char dir[400], path[500];
  (void)snprintf(dir, sizeof dir, "%s/emb-linked-XXXXXX",
                 parent ? parent : "/tmp");
  check(mkdtemp(dir) != NULL, "a directory");
  check(sqlite3_auto_extension((void (*)(void))sqlite3_emb_init) == SQLITE_OK,
        "sqlite3_auto_extension");
  (void)snprintf(path, sizeof path, "%s/store", dir);
  use_engine(path);
  (void)snprintf(path, sizeof path, "%s/app.db", dir);
  use_sql(path);
  (void)unlink(path);
  (void)snprintf(path, sizeof path, "%s/app.db-emb/items", dir);
  (void)emb_destroy(path, NULL);
  (void)snprintf(path, sizeof path, "%s/app.db-emb", dir);
  (void)rmdir(path);
  check(rmdir(dir) == 0, "nothing is left");
  printf("%d passed, %d failed\n", passed, failed);
  return failed > 0;
}
