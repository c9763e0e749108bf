/* SPDX-License-Identifier: MIT
**
** long_help.c -- the books of a long life: see long_help.h.
*/
#include "long_help.h"

#include "engine/base/process/process_parts.h"

#include <malloc.h>

/* ---- amount -------------------------------------------------------------- */

struct span long_span(unsigned ms_max) {
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

/* ---- resources held ------------------------------------------------------ */

/* Memory that the engine holds, as seen by its env. */
static _Atomic int64_t held;
static struct env env;

static void *book(void *block, int64_t before) {
  if (block)
    atomic_fetch_add(&held, (int64_t)malloc_usable_size(block) - before);
  return block;
}

static void *allocate(struct env *e, size_t bytes) {
  return book(env_posix.allocate(e, bytes), 0);
}

static void *resize(struct env *e, void *old, size_t bytes) {
  int64_t before = (int64_t)malloc_usable_size(old);
  return book(env_posix.resize(e, old, bytes), before);
}

static void release(struct env *e, void *block) {
  atomic_fetch_sub(&held, (int64_t)malloc_usable_size(block));
  env_posix.release(e, block);
}

static void *map(struct env *e, size_t bytes, int huge) {
  void *memory = env_posix.map(e, bytes, huge);
  atomic_fetch_add(&held, memory ? (int64_t)bytes : 0);
  return memory;
}

static void unmap(struct env *e, void *memory, size_t bytes) {
  atomic_fetch_sub(&held, memory ? (int64_t)bytes : 0);
  env_posix.unmap(e, memory, bytes);
}

void long_keep_books(void) {
  env = env_posix;
  env.allocate = allocate;
  env.resize = resize;
  env.release = release;
  env.map = map;
  env.unmap = unmap;
  env_set_default(&env);
}

int64_t long_held(void) { return atomic_load(&held); }

int64_t long_held_by(const emb_store *store) {
  struct process *p = store->core.process;
  int64_t kept = 0;
  (void)pthread_mutex_lock(&p->stock_lock);
  for (uint32_t i = 0; i < p->buffer_count; i++)
    kept += (int64_t)p->buffers[i].bytes;
  (void)pthread_mutex_unlock(&p->stock_lock);
  return long_held() - kept;
}

int long_threads(void) {
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

int long_files(void) { return help_entries("/proc/self/fd"); }

void pause_ms(unsigned ms) {
  struct timespec pause = {ms / 1000, (long)(ms % 1000) * 1000000};
  (void)nanosleep(&pause, NULL);
}

int long_at_most(int (*count)(void), int most, const char *what) {
  for (int i = 0; i < 500 && count() > most; i++)
    pause_ms(10);
  int now = count();
  return test_check(now <= most, __FILE__, __LINE__, "%d %s, at most %d", now,
                    what, most);
}

void long_is_flat(const char *what, const int64_t max[3], int64_t slack) {
  (void)test_check(max[2] <= max[1] + slack, __FILE__, __LINE__,
                   "%s has grown from %" PRId64 " to %" PRId64 " KB", what,
                   max[1] >> 10, max[2] >> 10);
}
