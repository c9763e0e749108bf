/* SPDX-License-Identifier: MIT
**
** env_pool_valid.c -- checks a queue as the head of env_pool.c describes it.
** Only in self-checking builds (base/debug.h).
*/
#include "env_pool.h"

#if EMB_DEBUG > 0

static void check_requests(const struct env__list *list) {
  emb_assert((list->first == NULL) == (list->count == 0));
  emb_assert(list->count == 0 || list->last->next == NULL);
}

int env__pool_queue_valid(const struct pool_queue *queue) {
  size_t runnable = queue->waiting.count + queue->running;
  emb_assert(queue->head.kind == ENV_QUEUE_POOL);
  check_requests(&queue->waiting);
  check_requests(&queue->done);
  emb_assert(queue->running <= queue->depth);
  emb_assert(queue->load ==
             (runnable < queue->depth ? runnable : queue->depth));
  /* Invariant 1. */
  emb_assert(!queue->is_ready ==
             (queue->waiting.count == 0 || queue->running == queue->depth));
  return 1;
}

#endif
