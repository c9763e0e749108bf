/* SPDX-License-Identifier: MIT
**
** env_pool.h -- a queue of env_pool.c, for its validity function.  Private to
** engine/base/env.
*/
#ifndef EMB_ENV_POOL_H
#define EMB_ENV_POOL_H

#include "env_queue.h"

struct pool_queue {
  struct env_queue head;
  size_t depth;
  struct env__list waiting;
  size_t running; /* taken by workers */
  struct env__list done;
  size_t wanted;          /* the waiter sleeps until done has as many */
  pthread_cond_t arrived; /* done.count >= wanted, or nothing is left */
  size_t load;            /* this queue's part of pool.load */
  int is_ready;           /* linked in pool.ready */
  struct pool_queue *next;
};

/* Only in self-checking builds (base/debug.h): returns 1; called under
** pool.lock. */
int env__pool_queue_valid(const struct pool_queue *queue);

#endif
