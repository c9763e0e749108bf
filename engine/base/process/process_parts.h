/* SPDX-License-Identifier: MIT
**
** process_parts.h -- struct process, for the files of this folder.
*/
#ifndef EMB_PROCESS_PARTS_H
#define EMB_PROCESS_PARTS_H

#include "process.h"

/* Of each kind of work at a time. */
#define THREADS_MOST 4

struct process_thread {
  struct process_thread *next;
  struct process *process;
  struct crew *crew;
  void *handle;
};

/* The threads of one kind of work, and what waits for them; the process's
** lock. */
struct crew {
  struct background **heap; /* what waits, the first due at the root */
  uint32_t waiting, room;   /* of the heap: it has room for all members */
  uint32_t members;         /* that are started and not ended */
  /* One that neither sleeps nor works looks at the heap before it sleeps. */
  uint32_t threads, sleeping, working;
  uint32_t most;    /* threads at a time, but for those */
  uint32_t blocked; /* whose work waits (background_waits) */
  pthread_cond_t arrived;
};

#define QUEUES_KEPT 8
#define BUFFERS_KEPT 8

struct process {
  struct process *next; /* the list's lock, and so has */
  uint64_t references;
  struct env *env;
  pthread_mutex_t hub_lock; /* held while the hub is made or ended */
  struct hub *hub;
  _Atomic uint32_t counted[PROCESS_COUNTED]; /* relaxed */
  pthread_mutex_t lock;                      /* the background work */
  pthread_cond_t ended; /* a run that is to be the last is over */
  struct crew crews[BACKGROUND_KINDS];
  struct process_thread *running, *over; /* to be joined */
  int is_stopping;
  /* What no call uses at the moment. */
  pthread_mutex_t stock_lock;
  struct process_queue queues[QUEUES_KEPT]; /* oldest first; stock_lock */
  uint32_t queue_count;                     /* stock_lock */
  struct process_buffer {
    void *start;
    size_t bytes;
  } buffers[BUFFERS_KEPT]; /* the same; stock_lock */
  uint32_t buffer_count;   /* stock_lock */
};

void background__init(struct process *);
/* All threads end, and nothing is left to run. */
void background__free(struct process *);
void queues__free(struct process *);

#endif
