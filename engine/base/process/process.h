/* SPDX-License-Identifier: MIT
**
** process.h -- what the stores of one process share: threads for their
** background work, and rings and buffers for disk access.
**
** ROLE      A process may have hundreds of tables open, few of them active at
**           a time.  So a store has no thread, no ring and no read buffer of
**           its own.  It joins its process's struct process, borrows a ring for
**           one call, and gives its background work to threads that serve all
**           stores.
** THREADS   Each kind of work has threads of its own, so that work waiting for
**           a flush does not keep the flush from running.  Threads are started
**           on demand, up to a limit that does not depend on the number of
**           stores, and end when the last store leaves.
** STATES    of a background; all changes under the lock of the process
**
**     idle --woken, or due--> waiting --a thread takes it--> running
**     running --run returns "never"--> idle
**     running --run returns a time, or it was woken while running--> waiting
**
** INVARIANT 1. A background runs in one thread at a time.
**           2. A background woken while it runs, runs again.
**           3. While any background waits, either some thread sleeps at most
**              until the first one is due, or all threads are busy and no more
**              may be started.
** FORK      A child inherits nothing: its first store creates everything again.
**           It must not touch its parent's objects.
** FAILURE   If a ring cannot be opened, threads that read and write take its
**           place; they need no descriptor.
*/
#ifndef EMB_PROCESS_H
#define EMB_PROCESS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/env/env.h"

struct process;
struct hub;

/* The shared state of this env's stores; created for the first store, freed
** when the last one leaves.  ENOMEM. */
int process_join(struct env *, struct process **);
void process_leave(struct process *);

struct env *process_env(struct process *);
/* Returns the hub that serves other processes (serve/hub.h), NULL: none yet.
** One thread at a time may change it, between these calls. */
struct hub *process_hub_enter(struct process *);
void process_hub_leave(struct process *, struct hub *);

/* Resources that each of hundreds of stores may hold for a while. */
enum process_counted {
  PROCESS_LINKS,   /* descriptors connected to a store's owner */
  PROCESS_SERVING, /* threads for clients' sessions */
  PROCESS_COUNTED
};
/* Adds 1 or -1 to the count; does nothing if the process is NULL. */
void process_count(struct process *, enum process_counted, int change);
/* How long to keep an unused resource: `us`, or progressively less if there are
** many, so that their number does not grow. */
uint64_t process_keeps_us(struct process *, enum process_counted, uint64_t us);

/* A lock of process-wide data.  A child after fork() may have inherited it held
** by a thread that does not exist there.  It therefore starts with a new lock,
** and must also reinitialize the data. */
struct process_lock {
  pthread_mutex_t lock;
  /* The process it belongs to, getpid(); negative while it is being created.
  ** Acquire, release. */
  _Atomic int64_t process;
};
/* Takes the lock; 1: for the first time in this process. */
int process_lock_enter(struct process_lock *, struct env *);
/* 0: another thread holds it. */
int process_lock_try(struct process_lock *, struct env *, int *is_new);
void process_lock_leave(struct process_lock *);

/* ---- disk access, queues.c ----------------------------------------------- */

struct process_queue {
  struct env_queue *queue; /* NULL: none, or it was closed */
  int kind;                /* ENV_QUEUE_* */
  unsigned depth;
};

/* Takes a queue for one call: one kept from an earlier call, or a new one.  If
** a ring cannot be opened, a queue over threads. */
int process_queue_take(struct process *, int kind, unsigned depth,
                       struct process_queue *);
/* Gives it back; nothing may be in flight in it. */
void process_queue_give(struct process *, struct process_queue *);
/* A read buffer, as from env->map but not zeroed; NULL: no memory. */
void *process_buffer_take(struct process *, size_t bytes);
void process_buffer_give(struct process *, void *, size_t bytes);

/* ---- background work, background.c --------------------------------------- */

enum background_kind {
  BACKGROUND_FLUSH, /* waits for the disk only */
  BACKGROUND_WORK,  /* compaction, checkpoints, warm-up: waits for flushes */
  BACKGROUND_JOBS,  /* batches of prefetches and write-backs */
  BACKGROUND_KINDS
};

#define BACKGROUND_NEVER UINT64_MAX

struct background {
  /* NULL: not started, or ended.  Read by any thread that wakes it; relaxed,
  ** since the process lives as long as the store. */
  _Atomic(struct process *) process;
  enum background_kind kind;
  /* Does one piece of work; returns when the next is due, in microseconds of
  ** the env's clock; 0: now; BACKGROUND_NEVER: when woken. */
  uint64_t (*run)(void *arg);
  void *arg;
  /* The rest belongs to the process, under its lock. */
  int state, is_woken, is_ending;
  uint64_t due_us;
  uint32_t at; /* in the heap of its kind */
};

/* Starts idle.  An errno: no memory, or its kind has no thread at all. */
int background_start(struct background *, struct process *,
                     enum background_kind, uint64_t (*run)(void *), void *arg);
/* Makes it run soon.  Does nothing before its start and after its end. */
void background_wake(struct background *);
/* Returns when it is not running and never will again.  Not from its run. */
void background_end(struct background *);
/* Its run starts (1) or stops (-1) waiting for something that may depend on
** other work: while it waits, one more thread may be started. */
void background_waits(struct background *, int change);
/* Raises the maximum number of threads of the kind; never lowers it. */
void background_allow(struct process *, enum background_kind, uint32_t threads);

#endif
