/* SPDX-License-Identifier: MIT
**
** stacks.c -- see stacks.h.
*/
#include "stacks.h"

#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>

#include "hash_set.h"
#include "store_help.h"

enum {
  DEPTH = 64,
  NEAR = 5,  /* of SQLite */
  OURS = 10, /* without SQLite, with those of the test */
};

struct call {
  uint64_t stack;
  uint64_t nth;
};

static struct {
  pthread_mutex_t lock;
  _Atomic int learning;
  struct call *calls;
  size_t count, room;
  struct hash_set tried; /* in the program so far */
} notes = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *resized(void *old, size_t bytes) {
  void *memory = realloc(old, bytes);
  if (!memory) {
    abort();
  }
  return memory;
}

static uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 29;
}

static uint64_t mixed_text(uint64_t hash, const char *text) {
  for (; text && *text; text++) {
    hash = mixed(hash, (unsigned char)*text);
  }
  return hash;
}

/* ---- stacks -------------------------------------------------------------- */

static struct { uintptr_t from, to; } sqlite; /* the code of the library */

static int find_sqlite(struct dl_phdr_info *info, size_t size, void *arg) {
  uintptr_t address = (uintptr_t)sqlite3_libversion;
  (void)size, (void)arg;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    uintptr_t to = from + info->dlpi_phdr[i].p_memsz;
    if (address >= from && address < to) {
      sqlite.from = from;
      sqlite.to = to;
    }
  }
  return 0;
}

static int is_in_sqlite(const void *address) {
  return (uintptr_t)address >= sqlite.from && (uintptr_t)address < sqlite.to;
}

/* The frames from i on that are of SQLite, or that are not. */
static int skip_frames(void *const *frames, int n, int i, int of_sqlite) {
  while (i < n && is_in_sqlite(frames[i]) == of_sqlite) {
    i++;
  }
  return i;
}

/* See STACK in stacks.h.  Frames, from the innermost: those of the test that
** notes the call; SQLite's, if it makes the call; ours, if we called it;
** SQLite's again, which called us; then the test's. */
static uint64_t stack_of(void *const *frames, int n) {
  uint64_t stack = 0;
  int inner = skip_frames(frames, n, 0, 0);
  int ours = skip_frames(frames, n, inner, 1);
  int outer = skip_frames(frames, n, ours, 0);
  for (int i = 0; i < n; i++) {
    if (inner == n ? i < OURS : i < inner + NEAR || (i >= ours && i < outer)) {
      stack = mixed(stack, (uintptr_t)frames[i]);
    }
  }
  return stack;
}

/* ---- a run --------------------------------------------------------------- */

static void learn(void) {
  if (!sqlite.to) {
    (void)dl_iterate_phdr(find_sqlite, NULL);
  }
  notes.count = 0;
  atomic_store(&notes.learning, 1);
}

void stacks_note(void) {
  void *frames[DEPTH];
  if (!atomic_load(&notes.learning)) {
    return;
  }
  int n = backtrace(frames, DEPTH);
  struct call call = {.stack = stack_of(frames, n)};
  pthread_mutex_lock(&notes.lock);
  if (notes.count == notes.room) {
    notes.room = notes.room ? notes.room * 2 : 1024;
    notes.calls = resized(notes.calls, notes.room * sizeof *notes.calls);
  }
  notes.calls[notes.count++] = call;
  pthread_mutex_unlock(&notes.lock);
}

/* ---- the choice ---------------------------------------------------------- */

static int by_stack(const void *a, const void *b) {
  const struct call *x = a, *y = b;
  return x->stack != y->stack ? (x->stack < y->stack ? -1 : 1)
                              : (x->nth > y->nth) - (x->nth < y->nth);
}

static int by_number(const void *a, const void *b) {
  const uint64_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* The calls to fail. */
struct plan {
  uint64_t *nth;
  size_t count;
};

static void choose(struct plan *plan, const char *group, unsigned again) {
  struct call *calls = notes.calls;
  uint64_t of_test = mixed_text(0, test_state.name);
  uint64_t of_group = mixed_text(mixed(of_test, 1), group);
  atomic_store(&notes.learning, 0);
  *plan =
      (struct plan){resized(NULL, (notes.count + 1) * sizeof *plan->nth), 0};
  for (size_t i = 0; i < notes.count; i++) {
    calls[i].nth = i + 1;
  }
  qsort(calls, notes.count, sizeof *calls, by_stack);
  for (size_t i = 0, end; i < notes.count; i = end) {
    end = i + 1;
    while (end < notes.count && calls[end].stack == calls[i].stack) {
      end++;
    }
    int is_new = hash_set_add(&notes.tried, mixed(calls[i].stack, of_test));
    is_new = hash_set_add(&notes.tried, mixed(calls[i].stack, of_group)) &&
             (is_new || test_random() % again == 0);
    for (size_t k = i; help_long() > 1 && k < end; k++) {
      plan->nth[plan->count++] = calls[k].nth;
    }
    if (help_long() == 1 && is_new && test_random() % help_share() == 0) {
      plan->nth[plan->count++] = calls[i + test_random() % (end - i)].nth;
    }
  }
  qsort(plan->nth, plan->count, sizeof *plan->nth, by_number);
}

uint64_t stacks_each(const char *group, unsigned again, unsigned lasting,
                     int (*run)(void *arg, uint64_t n, int forever),
                     void *arg) {
  struct plan plan;
  uint64_t came = 0;
  learn();
  (void)run(arg, STACKS_NEVER, 0);
  choose(&plan, group, again);
  for (size_t i = 0;
       i < plan.count && atomic_load(&test_state.failures) < TEST_PRINT_MAX;
       i++) {
    came += run(arg, plan.nth[i], 0) != 0;
    if (lasting && (help_long() > 1 || test_random() % lasting == 0)) {
      came += run(arg, plan.nth[i], 1) != 0;
    }
  }
  free(plan.nth);
  return came;
}
