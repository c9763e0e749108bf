/* SPDX-License-Identifier: MIT
**
** wait.c -- waits for an SQLite lock held by another connection.
**
** sqlite3_busy_timeout would not notice an interrupt of the user's connection.
** On the user's own connection SQLite waits as it was configured to, and no
** interrupt ends that wait, as in any other SQLite statement.
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
