/* SPDX-License-Identifier: MIT
**
** interrupt.c -- interrupts a connection at a chosen place.  Part of the
** fixture; called by tests/wrap.tcl when CROSS says "interrupt".
**
** PLACES  A poll: the extension asks whether its connection is interrupted by
**         preparing a short statement (ext_link_interrupted), and
**         sqlite3_prepare_v2 is replaced here.  The n-th poll is preceded by
**         sqlite3_interrupt, as from another thread.
**         A step: a progress handler ends the statement at the n-th step of
**         SQLite's machine, and all steps after it, as a host with a deadline
**         does.  It also runs in the statements of the extension.  But SQLite
**         3.40 calls the handler once more after a statement has been committed
**         and then reports SQLITE_INTERRUPT, so a commit ends the counting.
** THREADS The suite's.  Other threads only read `armed`.
*/
#include "interrupt.h"

#include <dlfcn.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Beginnings of the statements that the extension prepares to poll. */
#define POLL_SPACE " "
#define POLL_TICK "WITH RECURSIVE t(i) AS (VALUES(1) UNION ALL SELECT i + 1"

/* Set and reset by the suite's thread; any thread that prepares reads it,
** relaxed: it only compares. */
static _Atomic(sqlite3 *) armed;
static enum interrupt_place place;
static long left; /* places before the interrupt */
static int sent, committing;

static void *interrupt_sqlite(const char *name) {
  void *handle = dlopen("libsqlite3.so.0", RTLD_LAZY);
  void *function = handle ? dlsym(handle, name) : NULL;
  if (!function) {
    fprintf(stderr, "interrupt: libsqlite3.so.0 has no %s\n", name);
    _exit(2);
  }
  return function;
}
#define SQLITE(name) ((__typeof__(&name))interrupt_sqlite(#name))

static int is_poll(const char *sql) {
  return sql && (strcmp(sql, POLL_SPACE) == 0 ||
                 strncmp(sql, POLL_TICK, sizeof POLL_TICK - 1) == 0);
}

__attribute__((visibility("default"))) int
sqlite3_prepare_v2(sqlite3 *db, const char *sql, int bytes,
                   sqlite3_stmt **statement, const char **tail) {
  static __typeof__(&sqlite3_prepare_v2) _Atomic next;
  if (!atomic_load_explicit(&next, memory_order_relaxed))
    atomic_store_explicit(&next, SQLITE(sqlite3_prepare_v2),
                          memory_order_relaxed);
  if (db && db == atomic_load_explicit(&armed, memory_order_relaxed) &&
      place == INTERRUPT_POLL && is_poll(sql) && left-- == 0) {
    SQLITE(sqlite3_interrupt)(db);
    sent = 1;
  }
  return atomic_load_explicit(&next, memory_order_relaxed)(db, sql, bytes,
                                                           statement, tail);
}

static int at_step(void *unused) {
  (void)unused;
  if (committing)
    return 0;
  if (left > 0)
    left--;
  else
    sent = 1;
  return sent;
}

static int at_commit(void *unused) {
  (void)unused;
  committing = 1;
  return 0;
}

void interrupt_arm(sqlite3 *db, enum interrupt_place where, long before) {
  place = where;
  left = before;
  sent = committing = 0;
  atomic_store_explicit(&armed, db, memory_order_relaxed);
  if (where == INTERRUPT_STEP) {
    SQLITE(sqlite3_progress_handler)(db, 1, at_step, NULL);
    SQLITE(sqlite3_commit_hook)(db, at_commit, NULL);
  }
}

int interrupt_disarm(void) {
  sqlite3 *db = atomic_load_explicit(&armed, memory_order_relaxed);
  if (db && place == INTERRUPT_STEP) {
    SQLITE(sqlite3_progress_handler)(db, 0, NULL, NULL);
    SQLITE(sqlite3_commit_hook)(db, NULL, NULL);
  }
  atomic_store_explicit(&armed, NULL, memory_order_relaxed);
  return sent;
}
