/* SPDX-License-Identifier: MIT
**
** sql_heap.c -- see sql_heap.h.
*/
#include "sql_heap.h"

#include <sqlite3.h>
#include <stdatomic.h>

#include "stacks.h"

static struct {
  sqlite3_mem_methods below;
  _Atomic int64_t countdown; /* the call that brings it to 0 fails; relaxed */
  _Atomic int forever;
  _Atomic int fired;
} sql_heap;

static int heap_strikes(void) {
  if (atomic_load(&sql_heap.countdown) > 0)
    stacks_note();
  int64_t left = atomic_fetch_sub(&sql_heap.countdown, 1);
  int fails = left == 1 || (left < 1 && atomic_load(&sql_heap.forever));
  if (fails)
    atomic_store(&sql_heap.fired, 1);
  return fails;
}

static void *heap_take(int bytes) {
  return heap_strikes() ? NULL : sql_heap.below.xMalloc(bytes);
}

static void *heap_resize(void *old, int bytes) {
  return heap_strikes() ? NULL : sql_heap.below.xRealloc(old, bytes);
}

void sql_heap_replace(void) {
  sqlite3_mem_methods mine;
  (void)sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
  (void)sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sql_heap.below);
  mine = sql_heap.below;
  mine.xMalloc = heap_take;
  mine.xRealloc = heap_resize;
  (void)sqlite3_config(SQLITE_CONFIG_MALLOC, &mine);
  (void)sqlite3_initialize();
}

void sql_heap_arm(int64_t n, int forever) {
  atomic_store(&sql_heap.fired, 0);
  atomic_store(&sql_heap.forever, n > 0 && forever);
  atomic_store(&sql_heap.countdown, n);
}

void sql_heap_disarm(void) {
  atomic_store(&sql_heap.forever, 0);
  atomic_store(&sql_heap.countdown, 0);
}

int sql_heap_fired(void) { return atomic_load(&sql_heap.fired); }
