/* SPDX-License-Identifier: MIT
**
** wait.c -- waits for a lock of SQLite's that another connection has.
**
** sqlite3_busy_timeout would not notice that the user's connection was
** interrupted.  It is for the user's own connection that SQLite waits as it
** was told to, and no interrupt ends that: it is the same in any statement of
** SQLite's.
*/
#include "conn.h"
SQLITE_EXTENSION_INIT3

#define LOOK_MS 5

static int wait_busy(void *arg, int times) {
  struct ext_wait *wait = arg;
  uint64_t now = ext_now_us();
  if (times == 0)
    wait->since_us = now;
  wait->is_interrupted = ext_link_interrupted(wait->conn);
  if (wait->is_interrupted || now - wait->since_us >= wait->limit_us)
    return 0;
  sqlite3_sleep(times < LOOK_MS ? 1 : LOOK_MS);
  return 1;
}

void ext_wait_for_locks(struct ext_wait *wait, struct ext_conn *conn,
                        sqlite3 *db, uint64_t limit_ms) {
  *wait = (struct ext_wait){.conn = conn, .limit_us = limit_ms * 1000};
  sqlite3_busy_handler(db, wait_busy, wait);
}

int ext_wait_result(struct ext_wait *wait, int rc, char **err) {
  if ((rc & 0xff) != SQLITE_BUSY || !wait->is_interrupted)
    return rc;
  wait->is_interrupted = 0;
  return ext_error(err, SQLITE_INTERRUPT, "interrupted");
}
