/* SPDX-License-Identifier: MIT
**
** long_help.h -- what the tests of a long life share: how long it is, and what
** the engine and the process hold meanwhile.
**
** AMOUNT    LONG=n makes it n times as long, LIFE_SECONDS=n as long as that.
**           A life is a number of epochs; what it holds is compared between
**           their second and their last third.
*/
#ifndef EMB_LONG_HELP_H
#define EMB_LONG_HELP_H

#include "store_help.h"

#include "../../engine/env/env.h"
#include "../../engine/store/registry.h"

#include <malloc.h>

enum {
  SHORT_SECONDS = 2,
  EPOCHS_MIN = 9,
  HANG_SECONDS = 300, /* an epoch that takes longer than its time and this */
};

/* What may differ between two thirds. */
#define HELD_SLACK_BYTES (INT64_C(256) << 10)
#define RSS_SLACK_BYTES (INT64_C(1) << 20)

/* ---- amount -------------------------------------------------------------- */

struct span {
  unsigned epochs, ms; /* each */
};

static inline struct span span(unsigned ms_max) {
  const char *text = getenv("LIFE_SECONDS");
  uint64_t seconds =
      text ? strtoull(text, NULL, 10) : (uint64_t)SHORT_SECONDS * help_long();
  uint64_t ms = seconds * 1000 / EPOCHS_MIN, epochs = EPOCHS_MIN;
  if (ms > ms_max) {
    ms = ms_max;
    epochs = seconds * 1000 / ms;
  }
  return (struct span){(unsigned)epochs, (unsigned)ms};
}

/* ---- what is held -------------------------------------------------------- */

/* What the engine holds, as its env sees it. */
static _Atomic int64_t held;
static struct env env;

static inline void *book(void *block, int64_t before) {
  if (block)
    atomic_fetch_add(&held, (int64_t)malloc_usable_size(block) - before);
  return block;
}

static inline void *allocate(struct env *e, size_t bytes) {
  return book(env_posix.allocate(e, bytes), 0);
}

static inline void *resize(struct env *e, void *old, size_t bytes) {
  int64_t before = (int64_t)malloc_usable_size(old);
  return book(env_posix.resize(e, old, bytes), before);
}

static inline void release(struct env *e, void *block) {
  atomic_fetch_sub(&held, (int64_t)malloc_usable_size(block));
  env_posix.release(e, block);
}

static inline void *map(struct env *e, size_t bytes, int huge) {
  void *memory = env_posix.map(e, bytes, huge);
  atomic_fetch_add(&held, memory ? (int64_t)bytes : 0);
  return memory;
}

static inline void unmap(struct env *e, void *memory, size_t bytes) {
  atomic_fetch_sub(&held, memory ? (int64_t)bytes : 0);
  env_posix.unmap(e, memory, bytes);
}

static inline void keep_books(void) {
  env = env_posix;
  env.allocate = allocate;
  env.resize = resize;
  env.release = release;
  env.map = map;
  env.unmap = unmap;
  registry_set_env(&env);
}

/* Threads of this process, without the kernel's that serve an io_uring. */
static inline int threads(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/task");
  for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
    char path[300], name[32] = "";
    (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
    FILE *f = e->d_name[0] != '.' ? fopen(path, "re") : NULL;
    if (f == NULL)
      continue;
    n += fgets(name, sizeof name, f) && strncmp(name, "iou-", 4) != 0;
    (void)fclose(f);
  }
  if (d != NULL)
    (void)closedir(d);
  return n;
}

static inline int open_files(void) { return help_entries("/proc/self/fd"); }

static inline void pause_ms(unsigned ms) {
  struct timespec pause = {ms / 1000, (long)(ms % 1000) * 1000000};
  (void)nanosleep(&pause, NULL);
}

/* A thread that was joined is in the list for a moment more, a thread of the
** pool for reads and writes for seconds. */
static inline int at_most(int (*count)(void), int most, const char *what) {
  for (int i = 0; i < 500 && count() > most; i++)
    pause_ms(10);
  int now = count();
  return test_check(now <= most, __FILE__, __LINE__, "%d %s, at most %d", now,
                    what, most);
}

static inline void is_flat(const char *what, const int64_t max[3],
                           int64_t slack) {
  (void)test_check(max[2] <= max[1] + slack, __FILE__, __LINE__,
                   "%s has grown from %" PRId64 " to %" PRId64 " KB", what,
                   max[1] >> 10, max[2] >> 10);
}

#endif
