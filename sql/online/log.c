/* SPDX-License-Identifier: MIT
**
** log.c -- the log of clicks; see log.h.
*/
#include "log.h"

enum { PATIENCE_MS = 10000 };

/* To go over to a write-ahead log SQLite needs the file for itself and does not
** wait for it; the other process may be doing the same. */
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
               "CREATE TABLE IF NOT EXISTS click(id INTEGER PRIMARY KEY, hour,"
               " user, item, place, clicked);"
               "CREATE TABLE IF NOT EXISTS ended(clicks)");
  log->append =
      statement_new(log->db, "INSERT INTO click VALUES(?1,?2,?3,?4,?5,?6)");
  log->read = statement_new(log->db,
                            "SELECT user, item, place, clicked, hour FROM click"
                            " WHERE id > ?1 ORDER BY id LIMIT ?2");
}

void log_close(struct log *log) {
  sqlite3_finalize(log->append);
  sqlite3_finalize(log->read);
  database_close(log->db);
}

sqlite3_int64 log_last(struct log *log) {
  return database_number(log->db, "SELECT max(id) FROM click");
}

void log_append(struct log *log, sqlite3_int64 id, double hour,
                const struct batch *batch, size_t n) {
  sqlite3_bind_int64(log->append, 1, id);
  sqlite3_bind_double(log->append, 2, hour);
  for (int f = 0; f < FIELDS; f++) {
    sqlite3_bind_int64(log->append, 3 + f, batch->keys[f][n]);
  }
  sqlite3_bind_int(log->append, 5, batch->place[n]);
  sqlite3_bind_int(log->append, 6, batch->clicked[n]);
  statement_step(log->append);
  statement_end(log->append);
}

void log_read(struct log *log, sqlite3_int64 after, struct batch *batch,
              double *hour) {
  size_t n = 0;
  sqlite3_bind_int64(log->read, 1, after);
  sqlite3_bind_int(log->read, 2, BATCH);
  while (statement_step(log->read)) {
    for (int f = 0; f < FIELDS; f++) {
      batch->keys[f][n] = sqlite3_column_int64(log->read, f);
    }
    int place = sqlite3_column_int(log->read, 2);
    if (place < 0 || place >= PLACES) {
      die("a click of the log has no place %d", place);
    }
    batch->place[n] = (uint8_t)place;
    batch->clicked[n] = sqlite3_column_int(log->read, 3) != 0;
    *hour = sqlite3_column_double(log->read, 4);
    n++;
  }
  batch->count = n;
  statement_end(log->read);
}
