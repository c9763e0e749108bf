/* SPDX-License-Identifier: MIT
**
** process.h -- what the stores of one process share: threads for their
** background work, and what they read and write the disk with.
**
** ROLE      A process may have hundreds of tables open, of which few do
**           anything at a time.  So a store has no thread, no ring and no read
**           buffer of its own.  It joins what its process has, asks for a ring
**           for one call, and gives its background work to threads that serve
**           all stores.
** THREADS   Each kind of work has threads of its own, so that work that waits
**           for a flush does not keep the flush from running.  They are
**           started as they are needed, up to a number that does not depend on
**           how many stores there are, and end when the last store leaves.
** STATES    of a background; all changes under the lock of the process
**
**     idle --wake, or its moment--> waiting --a thread takes it--> running
**     running --run says never--> idle
**     running --run says when, or it was woken meanwhile--> waiting
**
** INVARIANT 1. A background runs in one thread at a time.
**           2. One that is woken while it runs, runs again.
**           3. Where something waits there is a thread that sleeps no longer
**              than until the first is due, or all are busy and no more may be
**              started.
** FORK      A child has none of this: its first store makes all anew.  It must
**           not touch its parent's.
** FAILURE   Opening a ring falls back to threads that read and write, which
**           need no descriptor.
*/
#ifndef EMB_PROCESS_H
#define EMB_PROCESS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/env/env.h"

struct process;
struct hub;

/* What stores of this env share; made for the first, freed with the last that
** leaves.  ENOMEM. */
int process_join(struct env *, struct process **);
void process_leave(struct process *);

struct env *process_env(struct process *);
/* What serves other processes (serve/hub.h), NULL: nothing yet; it is changed
** by one thread at a time. */
struct hub *process_hub_enter(struct process *);
void process_hub_leave(struct process *, struct hub *);

/* What each of hundreds of stores may have for a while. */
enum process_counted {
  PROCESS_LINKS,   /* descriptors to ask a store's owner with */
  PROCESS_SERVING, /* threads for clients' sessions */
  PROCESS_COUNTED
};
/* One more (1) or less (-1) of them; no process: nothing. */
void process_count(struct process *, enum process_counted, int change);
/* How long one of them is kept that nothing uses: `us`, and where there are
** many, less and less, so that there are not more of them. */
uint64_t process_keeps_us(struct process *, enum process_counted, uint64_t us);

/* A lock of what the whole process has.  A child after fork() may have
** inherited it from a thread that it does not have: it begins with a new one,
** and what it guards is to be begun anew, too. */
struct process_lock {
  pthread_mutex_t lock;
  /* Whose it is, getpid(); below 0: it is being made.  Acquire, release. */
  _Atomic int64_t process;
};
/* Takes it; 1: for the first time in this process. */
int process_lock_enter(struct process_lock *, struct env *);
/* 0: another thread has it. */
int process_lock_try(struct process_lock *, struct env *, int *is_new);
void process_lock_leave(struct process_lock *);

/* ---- disk access, queues.c ----------------------------------------------- */

struct process_queue {
  struct env_queue *queue; /* NULL: none, or it was closed */
  int kind;                /* ENV_QUEUE_* */
  unsigned depth;
};

/* A queue for one call: one that is left from a call before, or a new one.  By
** threads where there is no descriptor for a ring. */
int process_queue_take(struct process *, int kind, unsigned depth,
                       struct process_queue *);
/* Nothing is in flight in it any more. */
void process_queue_give(struct process *, struct process_queue *);
/* Memory to read into, as env->map gives it but not zeroed; NULL: out of it. */
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
  /* NULL: not started, or ended.  Whoever wakes reads it; relaxed, since what
  ** it names is there as long as the store. */
  _Atomic(struct process *) process;
  enum background_kind kind;
  /* One piece of work; returns when the next is due, in the env's microseconds,
  ** 0: now; BACKGROUND_NEVER: when it is woken. */
  uint64_t (*run)(void *arg);
  void *arg;
  /* The rest is the process's, under its lock. */
  int state, is_woken, is_ending;
  uint64_t due_us;
  uint32_t at; /* in the heap of its kind */
};

/* Begins idle.  An errno: there is no memory, or no thread at all for it. */
int background_start(struct background *, struct process *,
                     enum background_kind, uint64_t (*run)(void *), void *arg);
/* It is to run soon.  Nothing before its start and after its end. */
void background_wake(struct background *);
/* It does not run any more, and never will.  Not from its run. */
void background_end(struct background *);
/* Its run begins (1) or ends (-1) to wait for something that other work may
** have to bring about: meanwhile one more thread may be started. */
void background_waits(struct background *, int change);
/* Up to so many threads of the kind at a time, if that is more than now. */
void background_allow(struct process *, enum background_kind, uint32_t threads);

#endif
