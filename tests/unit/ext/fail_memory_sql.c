/* SPDX-License-Identifier: MIT
**
** fail_memory_sql.c -- every allocation of SQLite, and of the extension through
** SQLite, fails in turn under a workload in SQL, and every one of the engine:
** see fail_sql.h.
*/
#include "fail_sql.h"

/* SQLite's own allocator, and what is to fail of it. */
static struct {
  sqlite3_mem_methods below;
  _Atomic int64_t countdown; /* the call at which it gets to 0 fails; relaxed */
  _Atomic int forever;
  _Atomic int fired;
} heap;

static int strikes(void) {
  int64_t left = atomic_fetch_sub(&heap.countdown, 1);
  int fails = left == 1 || (left < 1 && heap.forever);
  if (fails)
    atomic_store(&heap.fired, 1);
  return fails;
}

static void *take(int bytes) {
  return strikes() ? NULL : heap.below.xMalloc(bytes);
}

static void *resize(void *old, int bytes) {
  return strikes() ? NULL : heap.below.xRealloc(old, bytes);
}

static void heap_arm(int64_t n, int forever) {
  atomic_store(&heap.fired, 0);
  atomic_store(&heap.forever, n > 0 && forever);
  atomic_store(&heap.countdown, n);
}

/* Before SQLite is used at all. */
__attribute__((constructor)) static void replace_heap(void) {
  sqlite3_mem_methods mine;
  (void)sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
  (void)sqlite3_config(SQLITE_CONFIG_GETMALLOC, &heap.below);
  mine = heap.below;
  mine.xMalloc = take;
  mine.xRealloc = resize;
  (void)sqlite3_config(SQLITE_CONFIG_MALLOC, &mine);
  (void)sqlite3_initialize();
}

static int is_memory_code(int code) {
  return (code & 0xff) == SQLITE_NOMEM || code == SQLITE_IOERR_NOMEM;
}

static int fired(struct fail_sql *w) { return heap.fired || w->f.fired > 0; }

static void disarm(struct fail_sql *w) {
  int was = heap.fired;
  heap_arm(0, 0);
  atomic_store(&heap.fired, was);
  failing_disarm(&w->f);
}

static void all(int of_sqlite, unsigned stride) {
  struct fail_sql *w = sql_start(test_dir_in("/dev/shm"));
  if (!w)
    return;
  w->memory = 1;
  w->code_is_right = is_memory_code;
  w->fired = fired;
  w->disarm = disarm;
  (void)snprintf(w->what, sizeof w->what, "nothing fails");
  sql_run_all(w, 1);
  for (int forever = 0; forever < 2; forever++) {
    unsigned step = help_long() > 1 ? 1 : stride * (forever ? FAIL_STRIDE : 1);
    uint64_t n = 1 + test_random() % step;
    int runs = 0;
    w->again = !forever;
    for (int came = 1; came && test_state.failures < TEST_PRINT_MAX;
         n += step, runs += came) {
      (void)snprintf(w->what, sizeof w->what, "%s, call %d%s",
                     of_sqlite ? "SQLite" : "engine", (int)n,
                     forever ? " and all later" : "");
      failing_arm(&w->f, FAILING_MEMORY, of_sqlite ? 0 : n, forever, ENOMEM);
      heap_arm(of_sqlite ? (int64_t)n : 0, forever);
      sql_run_all(w, 0);
      came = fired(w);
    }
    printf("%-8s %5d allocations failed %s\n", of_sqlite ? "SQLite" : "engine",
           runs, forever ? "for ever" : "once");
  }
  w->again = 0;
  heap_arm(0, 0);
  sql_end(w);
}

TEST(no_memory_for_sqlite) { all(1, 23); }
TEST(no_memory_for_the_engine) { all(0, 17); }
