/* SPDX-License-Identifier: MIT
**
** fail_io_sql.c -- every call of the env that touches a disk fails in turn
** under a workload in SQL: see fail_sql.h.  SQLite's own files do not fail.
*/
#include "fail_sql.h"

static int is_io_code(int code) {
  code &= 0xff;
  return code == SQLITE_IOERR || code == SQLITE_CANTOPEN || code == SQLITE_FULL;
}

static int fired(struct fail_sql *w) { return w->f.fired > 0; }
static void disarm(struct fail_sql *w) { failing_disarm(&w->f); }

static void all(uint32_t kinds, int error, unsigned stride) {
  struct fail_sql *w = sql_start(test_dir_in("/dev/shm"));
  if (!w)
    return;
  w->code_is_right = is_io_code;
  w->fired = fired;
  w->disarm = disarm;
  (void)snprintf(w->what, sizeof w->what, "nothing fails");
  sql_run_all(w, 1);
  for (int forever = 0; forever < 2; forever++) {
    unsigned step = help_long() > 1
                        ? 1
                        : stride * help_share() * (forever ? FAIL_STRIDE : 1);
    uint64_t n = 1 + test_random() % step;
    int runs = 0;
    for (int came = 1; came && test_state.failures < TEST_PRINT_MAX;
         n += step, runs += came) {
      (void)snprintf(w->what, sizeof w->what, "call %d%s, %s", (int)n,
                     forever ? " and all later" : "", strerror(error));
      failing_arm(&w->f, kinds, n, forever, error);
      sql_run_all(w, 0);
      came = w->f.fired > 0;
    }
    printf("%-26s %4d calls failed %s\n", strerror(error), runs,
           forever ? "for ever" : "once");
    test_count("I/O calls failed", (uint64_t)runs);
  }
  sql_end(w);
}

TEST(any_call_gives_EIO) { all(FAILING_IO, EIO, 1); }
TEST(a_full_disk) { all(FAILING_WRITES, ENOSPC, 2); }
