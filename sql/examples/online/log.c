/* SPDX-License-Identifier: MIT
**
** log.c -- the log of events; see log.h.
*/
#include "log.h"

enum { PATIENCE_MS = 10000 };

/* To switch to a write-ahead log, SQLite needs exclusive access to the file
** and does not wait for it; the other process may be switching too. */
static void begin_wal(sqlite3 *db) {
  int rc = SQLITE_BUSY;
  for (int ms = 0; rc == SQLITE_BUSY && ms < PATIENCE_MS; ms += 10) {
    if (ms) {
      sqlite3_sleep(10);
    }
    rc = sqlite3_exec(db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
  }
  if (rc != SQLITE_OK) {
    die("cannot begin a write-ahead log: %s", sqlite3_errmsg(db));
  }
}

void log_open(struct log *log, const char *file) {
  if (sqlite3_open(file, &log->db) != SQLITE_OK) {
    die("%s: %s", file, sqlite3_errmsg(log->db));
  }
  sqlite3_busy_timeout(log->db, PATIENCE_MS);
  begin_wal(log->db);
  database_run(log->db,
               "CREATE TABLE IF NOT EXISTS event(id INTEGER PRIMARY KEY,"
               " request, time, kind, features);"
               "CREATE TABLE IF NOT EXISTS ended(requests)");
  log->append =
      statement_new(log->db, "INSERT INTO event(request, time, kind, features)"
                             " VALUES(nullif(?1, 0), ?2, ?3, ?4)");
}

void log_close(struct log *log) {
  sqlite3_finalize(log->append);
  database_close(log->db);
}

sqlite3_int64 log_last_request(struct log *log) {
  return database_number(log->db, "SELECT max(request) FROM event");
}

void log_append(struct log *log, sqlite3_int64 request, sqlite3_int64 time,
                const struct features *features) {
  sqlite3_bind_int64(log->append, 1, request);
  sqlite3_bind_int64(log->append, 2, time);
  if (features) {
    sqlite3_bind_blob(log->append, 4, features, sizeof(*features),
                      SQLITE_STATIC);
  } else if (request) {
    sqlite3_bind_text(log->append, 3, "click", -1, SQLITE_STATIC);
  }
  statement_step(log->append);
  statement_end(log->append);
}
