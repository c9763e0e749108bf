/* SPDX-License-Identifier: MIT
**
** env_sync.c -- see env_sync.h.
*/
#include "env_sync.h"

#include <errno.h>
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct env_queue {
  struct env_io *first, **end; /* done and not delivered */
};

static int queue_open(struct env *env, int kind, unsigned depth,
                      struct env_queue **queue) {
  (void)env, (void)kind, (void)depth;
  *queue = calloc(1, sizeof **queue);
  if (*queue == NULL)
    return ENOMEM;
  (*queue)->end = &(*queue)->first;
  return 0;
}

static void queue_close(struct env *env, struct env_queue *queue) {
  (void)env;
  free(queue);
}

static int queue_submit(struct env *env, struct env_queue *queue,
                        struct env_io **ios, size_t n) {
  for (size_t i = 0; i < n; i++) {
    struct env_io *io = ios[i];
    io->result =
        io->is_write
            ? env->write(env, io->file, io->buffer, io->bytes, io->offset)
            : env->read(env, io->file, io->buffer, io->bytes, io->offset);
    io->next = NULL;
    *queue->end = io;
    queue->end = &io->next;
  }
  return 0;
}

static int queue_wait(struct env *env, struct env_queue *queue, size_t min,
                      struct env_io **done, size_t max, size_t *n) {
  (void)env, (void)min;
  for (*n = 0; *n < max && queue->first; ++*n) {
    done[*n] = queue->first;
    queue->first = queue->first->next;
  }
  if (queue->first == NULL)
    queue->end = &queue->first;
  return 0;
}

/* ---- memory -------------------------------------------------------------- */

enum { PAGE = 4096, SPARE_PAGES_MAX = 2048 };

struct spare { /* mapped, and not in use */
  char *memory;
  size_t bytes;
  struct spare *next;
};

static struct spare *spares;
static pthread_mutex_t spares_lock = PTHREAD_MUTEX_INITIALIZER;

/* Zeroes the resident pages; the rest is zero already and stays
** non-resident. */
static void clean(char *memory, size_t bytes) {
  unsigned char resident[SPARE_PAGES_MAX];
  size_t pages = (bytes + PAGE - 1) / PAGE;
  if (mincore(memory, bytes, resident) != 0)
    memset(resident, 1, pages);
  for (size_t i = 0; i < pages; i++)
    if (resident[i] & 1)
      memset(memory + i * PAGE, 0, i + 1 < pages ? PAGE : bytes - i * PAGE);
}

static void *map(struct env *env, size_t bytes, int huge) {
  struct spare **at = &spares, *found;
  (void)huge;
  pthread_mutex_lock(&spares_lock);
  while (*at && (*at)->bytes != bytes)
    at = &(*at)->next;
  found = *at;
  if (found)
    *at = found->next;
  pthread_mutex_unlock(&spares_lock);
  if (found == NULL)
    return env_posix.map(env, bytes, 0);
  char *memory = found->memory;
  free(found);
  ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
  clean(memory, bytes);
  return memory;
}

static void unmap(struct env *env, void *memory, size_t bytes) {
  struct spare *spare = memory && bytes <= (size_t)SPARE_PAGES_MAX * PAGE
                            ? malloc(sizeof *spare)
                            : NULL;
  if (spare == NULL) {
    env_posix.unmap(env, memory, bytes);
    return;
  }
  ASAN_POISON_MEMORY_REGION(memory, bytes);
  pthread_mutex_lock(&spares_lock);
  *spare = (struct spare){memory, bytes, spares};
  spares = spare;
  pthread_mutex_unlock(&spares_lock);
}

static struct env table;

__attribute__((constructor)) static void make(void) {
  table = env_posix;
  table.queue_open = queue_open;
  table.queue_close = queue_close;
  table.queue_submit = queue_submit;
  table.queue_wait = queue_wait;
  table.map = map;
  table.unmap = unmap;
}

struct env *env_sync(void) {
  return &table;
}
