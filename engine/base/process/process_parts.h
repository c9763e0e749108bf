/* SPDX-License-Identifier: MIT
**
** process_parts.h -- struct process, for the files of this folder.
*/
#ifndef EMB_PROCESS_PARTS_H
#define EMB_PROCESS_PARTS_H

#include "process.h"

/* struct background.state */
enum { BACKGROUND_IDLE, BACKGROUND_WAITING, BACKGROUND_RUNNING };

/* Maximum threads for each kind of work; background_allow may raise it. */
#define THREADS_MOST 4

struct process_thread {
  struct process_thread *next;
  struct process *process;
  struct crew *crew;
  void *handle;
};

/* The threads of one kind of work, and the backgrounds waiting for them; under
** the process's lock. */
struct crew {
  struct background **heap; /* waiting, the first due at the root */
  uint32_t waiting, room;   /* of the heap: it has room for all members */
  uint32_t members;         /* backgrounds started and not ended */
  /* A thread that neither sleeps nor works checks the heap before it sleeps. */
  uint32_t threads, sleeping, working;
  uint32_t most;    /* maximum threads, plus one per blocked thread */
  uint32_t blocked; /* threads whose work waits (background_waits) */
  pthread_cond_t arrived;
};

#define QUEUES_KEPT 8
#define BUFFERS_KEPT 8

struct process {
  struct process *next; /* list_lock; references too */
  uint64_t references;
  struct env *env;
  pthread_mutex_t hub_lock; /* held to create or end the hub */
  struct hub *hub;
  _Atomic uint32_t counted[PROCESS_COUNTED]; /* relaxed */
  pthread_mutex_t lock;                      /* the background work */
  pthread_cond_t ended; /* the last run of a background is over */
  struct crew crews[BACKGROUND_KINDS];
  struct process_thread *running, *over; /* to be joined */
  int is_stopping;
  /* Kept for the next call; no call uses them now. */
  pthread_mutex_t stock_lock;
  struct process_queue queues[QUEUES_KEPT]; /* oldest first; stock_lock */
  uint32_t queue_count;                     /* stock_lock */
  struct process_buffer {
    void *start;
    size_t bytes;
  } buffers[BUFFERS_KEPT]; /* oldest first; stock_lock */
  uint32_t buffer_count;   /* stock_lock */
};

void background__init(struct process *);
/* Ends all threads; nothing may be left to run. */
void background__free(struct process *);
void queues__free(struct process *);

/* Only in self-checking builds (base/debug.h): return 1; called under the
** process's lock while it is not stopping, and under stock_lock. */
int crews_valid(const struct process *);
int stock_valid(const struct process *);

#endif
