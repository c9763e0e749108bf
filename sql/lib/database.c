/* SPDX-License-Identifier: MIT
**
** database.c -- SQLite helpers of the examples; see database.h.
*/
#include "database.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void die(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fflush(stdout);
  fprintf(stderr, "%s: ", program_invocation_short_name);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  /* Not exit: other threads may be in a library whose memory it would free. */
  fflush(stderr);
  _Exit(1);
}

void *need(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size);
  if (!memory) {
    die("out of memory");
  }
  return memory;
}

sqlite3_stmt *statement_new(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement = NULL;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) {
    die("%s\n  in: %s", sqlite3_errmsg(db), sql);
  }
  return statement;
}

int statement_step(sqlite3_stmt *statement) {
  int rc = sqlite3_step(statement);
  if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
    die("%s\n  in: %s", sqlite3_errmsg(sqlite3_db_handle(statement)),
        sqlite3_sql(statement));
  }
  return rc == SQLITE_ROW;
}

void statement_end(sqlite3_stmt *statement) {
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
}

sqlite3 *database_open(const char *file, const char *extension) {
  sqlite3 *db = NULL;
  if (sqlite3_open(file, &db) != SQLITE_OK) {
    die("%s: %s", file, sqlite3_errmsg(db));
  }
  /* A killed process may hold its locks a moment longer. */
  sqlite3_busy_timeout(db, 10000);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
  char *message = NULL;
  if (sqlite3_load_extension(db, extension, "sqlite3_emb_init", &message)) {
    die("%s", message ? message : sqlite3_errmsg(db));
  }
  return db;
}

void database_close(sqlite3 *db) {
  if (sqlite3_close(db) != SQLITE_OK) {
    die("close: %s", sqlite3_errmsg(db));
  }
}

void database_run(sqlite3 *db, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *sql = sqlite3_vmprintf(format, args);
  va_end(args);
  if (!sql) {
    die("out of memory");
  }
  if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
    die("%s\n  in: %s", sqlite3_errmsg(db), sql);
  }
  sqlite3_free(sql);
}

sqlite3_int64 database_number(sqlite3 *db, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *sql = sqlite3_vmprintf(format, args);
  va_end(args);
  if (!sql) {
    die("out of memory");
  }
  sqlite3_stmt *statement = statement_new(db, sql);
  sqlite3_int64 number = 0;
  if (statement_step(statement)) {
    number = sqlite3_column_int64(statement, 0);
  }
  sqlite3_finalize(statement);
  sqlite3_free(sql);
  return number;
}
