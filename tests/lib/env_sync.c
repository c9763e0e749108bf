/* SPDX-License-Identifier: MIT
**
** env_sync.c -- see env_sync.h.
*/
#include "env_sync.h"

#include <errno.h>
#include <stdlib.h>

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

static struct env table;

__attribute__((constructor)) static void make(void) {
  table = env_posix;
  table.queue_open = queue_open;
  table.queue_close = queue_close;
  table.queue_submit = queue_submit;
  table.queue_wait = queue_wait;
}

struct env *env_sync(void) {
  return &table;
}
