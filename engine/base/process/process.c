/* SPDX-License-Identifier: MIT
**
** process.c -- see process.h: the list of shared state, one struct process per
** env.  Only tests have more than one env.
*/
#include <errno.h>
#include <sched.h>

#include "engine/base/debug.h"
#include "process_parts.h"

static struct process_lock list_lock = {PTHREAD_MUTEX_INITIALIZER, 0};
static struct process *process_list; /* list_lock */

/* ---- locks and fork() ---------------------------------------------------- */

/* 1: the lock was created for this process just now, and is held; the data it
** guards must be initialized. */
static int lock_is_new(struct process_lock *l, struct env *env) {
  int64_t now = env->process(env);
  int64_t was = atomic_load(&l->process);
  if (was != now && was != -now &&
      atomic_compare_exchange_strong(&l->process, &was, -now)) {
    pthread_mutex_init(&l->lock, NULL);
    pthread_mutex_lock(&l->lock);
    atomic_store(&l->process, now);
    return 1;
  }
  while (atomic_load(&l->process) != now) {
    sched_yield();
  }
  return 0;
}

int process_lock_enter(struct process_lock *l, struct env *env) {
  if (lock_is_new(l, env)) {
    return 1;
  }
  pthread_mutex_lock(&l->lock);
  return 0;
}

int process_lock_try(struct process_lock *l, struct env *env, int *is_new) {
  *is_new = lock_is_new(l, env);
  return *is_new || pthread_mutex_trylock(&l->lock) == 0;
}

void process_lock_leave(struct process_lock *l) {
  pthread_mutex_unlock(&l->lock);
}

/* Up to this many are kept for the full time that their users request. */
#define FEW 8

/* ---- the list ------------------------------------------------------------ */

static struct process *process_new(struct env *env) {
  struct process *process = env->allocate(env, sizeof *process);
  if (process) {
    process->env = env;
    pthread_mutex_init(&process->stock_lock, NULL);
    pthread_mutex_init(&process->hub_lock, NULL);
    background__init(process);
  }
  return process;
}

int process_join(struct env *env, struct process **out) {
  if (process_lock_enter(&list_lock, env)) {
    process_list = NULL; /* the parent's */
  }
  struct process *process = process_list;
  while (process && process->env != env) {
    process = process->next;
  }
  if (!process) {
    process = process_new(env);
    if (process) {
      process->next = process_list;
      process_list = process;
    }
  }
  if (process) {
    process->references++;
  }
  process_lock_leave(&list_lock);
  *out = process;
  return process ? 0 : ENOMEM;
}

void process_leave(struct process *process) {
  (void)process_lock_enter(&list_lock, process->env);
  emb_assert(process->references > 0);
  int is_last = --process->references == 0;
  if (is_last) {
    struct process **at = &process_list;
    while (*at != process) {
      at = &(*at)->next;
    }
    *at = process->next;
  }
  process_lock_leave(&list_lock);
  if (is_last) {
    struct env *env = process->env;
    background__free(process);
    queues__free(process);
    emb_assert(!process->hub);
    pthread_mutex_destroy(&process->stock_lock);
    pthread_mutex_destroy(&process->hub_lock);
    env->release(env, process);
  }
}

void process_count(struct process *process, enum process_counted what,
                   int change) {
  if (process) {
    uint32_t was = atomic_fetch_add_explicit(
        &process->counted[what], (uint32_t)change, memory_order_relaxed);
    emb_assert(change > 0 || was > 0);
  }
}

uint64_t process_keeps_us(struct process *process, enum process_counted what,
                          uint64_t us) {
  uint64_t n = process ? atomic_load_explicit(&process->counted[what],
                                              memory_order_relaxed)
                       : 0;
  return n > FEW ? us * FEW * FEW / (n * n) : us;
}

struct env *process_env(struct process *process) {
  return process->env;
}

struct hub *process_hub_enter(struct process *process) {
  pthread_mutex_lock(&process->hub_lock);
  return process->hub;
}

void process_hub_leave(struct process *process, struct hub *hub) {
  process->hub = hub;
  pthread_mutex_unlock(&process->hub_lock);
}
