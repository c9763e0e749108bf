/* SPDX-License-Identifier: MIT
**
** fail_io_sql.c -- every call of the env that touches a disk fails in turn
** under an SQL workload: see fail_sql.h.  SQLite's own files do not fail.
*/
#include "fail_sql.h"

static int is_io_code(int code) {
  code &= 0xff;
  return code == SQLITE_IOERR || code == SQLITE_CANTOPEN || code == SQLITE_FULL;
}

static int fired(struct fail_sql *w) { return w->f.fired > 0; }
static void disarm(struct fail_sql *w) { failing_disarm(&w->f); }

static struct {
  uint32_t kinds;
  int error;
} failure;

static void arm(struct fail_sql *w, uint64_t n, int forever) {
  (void)snprintf(w->what, sizeof w->what, "call %d%s, %s", (int)n,
                 forever ? " and all later" : "", strerror(failure.error));
  failing_arm(&w->f, failure.kinds, n, forever, failure.error);
}

static void all(uint32_t kinds, int error) {
  struct fail_sql *w = sql_start(test_dir_in("/dev/shm"));
  if (!w)
    return;
  failure.kinds = kinds;
  failure.error = error;
  w->code_is_right = is_io_code;
  w->fired = fired;
  w->disarm = disarm;
  w->arm = arm;
  sql_each(w, strerror(error), "I/O calls failed");
  sql_end(w);
}

TEST(any_call_gives_EIO) { all(FAILING_IO, EIO); }
TEST(a_full_disk) { all(FAILING_WRITES, ENOSPC); }
