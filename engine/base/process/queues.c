/* SPDX-License-Identifier: MIT
**
** queues.c -- rings and read buffers, each used by one call at a time.
**
** A ring costs a descriptor and a system call, so some are kept.  A call takes
** one of the depth it wants, or opens a new one.  Once QUEUES_KEPT are kept, a
** returned ring replaces the one kept longest.
*/
#include "engine/base/debug.h"
#include "process_parts.h"

#include <string.h>

/* Under stock_lock. */
static struct env_queue *take_kept(struct process *p, int kind,
                                   unsigned depth) {
  for (uint32_t i = p->queue_count; i > 0; i--) {
    struct process_queue *kept = &p->queues[i - 1];
    if (kept->kind == kind && kept->depth == depth) {
      struct env_queue *queue = kept->queue;
      memmove(kept, kept + 1, (p->queue_count-- - i) * sizeof *kept);
      return queue;
    }
  }
  return NULL;
}

int process_queue_take(struct process *p, int kind, unsigned depth,
                       struct process_queue *out) {
  *out = (struct process_queue){NULL, kind, depth};
  pthread_mutex_lock(&p->stock_lock);
  out->queue = take_kept(p, kind, depth);
  pthread_mutex_unlock(&p->stock_lock);
  if (out->queue) {
    return 0;
  }
  int os = p->env->queue_open(p->env, kind, depth, &out->queue);
  if (os && kind != ENV_QUEUE_POOL) {
    out->kind = ENV_QUEUE_POOL;
    os = p->env->queue_open(p->env, ENV_QUEUE_POOL, depth, &out->queue);
  }
  if (os) {
    out->queue = NULL;
  }
  return os;
}

void process_queue_give(struct process *p, struct process_queue *given) {
  struct env_queue *oldest = NULL;
  if (!given->queue) {
    return;
  }
  pthread_mutex_lock(&p->stock_lock);
  if (p->queue_count == QUEUES_KEPT) {
    oldest = p->queues[0].queue;
    memmove(p->queues, p->queues + 1, --p->queue_count * sizeof *p->queues);
  }
  p->queues[p->queue_count++] = *given;
  emb_check(stock_valid(p));
  pthread_mutex_unlock(&p->stock_lock);
  given->queue = NULL;
  if (oldest) {
    p->env->queue_close(p->env, oldest);
  }
}

void *process_buffer_take(struct process *p, size_t bytes) {
  void *start = NULL;
  pthread_mutex_lock(&p->stock_lock);
  for (uint32_t i = p->buffer_count; i > 0 && !start; i--) {
    struct process_buffer *kept = &p->buffers[i - 1];
    if (kept->bytes == bytes) {
      start = kept->start;
      memmove(kept, kept + 1, (p->buffer_count-- - i) * sizeof *kept);
    }
  }
  pthread_mutex_unlock(&p->stock_lock);
  return start ? start : p->env->map(p->env, bytes, 0);
}

void process_buffer_give(struct process *p, void *start, size_t bytes) {
  struct process_buffer oldest = {NULL, 0};
  pthread_mutex_lock(&p->stock_lock);
  if (p->buffer_count == BUFFERS_KEPT) {
    oldest = p->buffers[0];
    memmove(p->buffers, p->buffers + 1, --p->buffer_count * sizeof *p->buffers);
  }
  p->buffers[p->buffer_count++] = (struct process_buffer){start, bytes};
  emb_check(stock_valid(p));
  pthread_mutex_unlock(&p->stock_lock);
  if (oldest.start) {
    p->env->unmap(p->env, oldest.start, oldest.bytes);
  }
}

void queues__free(struct process *p) {
  while (p->queue_count > 0) {
    p->env->queue_close(p->env, p->queues[--p->queue_count].queue);
  }
  while (p->buffer_count > 0) {
    struct process_buffer *kept = &p->buffers[--p->buffer_count];
    p->env->unmap(p->env, kept->start, kept->bytes);
  }
}
