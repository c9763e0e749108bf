/* SPDX-License-Identifier: MIT
**
** background.c -- threads that run the background work of all stores.
**
** Waiting backgrounds are in a heap, ordered by due time.  A thread takes the
** first one due, runs one piece of its work outside the lock, and puts it back
** with the due time that the piece returned.  So even if many stores have work,
** no store waits for another's to finish.
*/
#include <errno.h>

#include "engine/base/debug.h"
#include "engine/base/seed.h"
#include "process_parts.h"

/* ---- the heap ------------------------------------------------------------ */

static void heap_set(struct crew *crew, uint32_t at, struct background *b) {
  crew->heap[at] = b;
  b->at = at;
}

static void heap_up(struct crew *crew, uint32_t at, struct background *b) {
  while (at > 0 && crew->heap[(at - 1) / 2]->due_us > b->due_us) {
    heap_set(crew, at, crew->heap[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  heap_set(crew, at, b);
}

static void heap_down(struct crew *crew, uint32_t at, struct background *b) {
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child + 1 < crew->waiting &&
        crew->heap[child + 1]->due_us < crew->heap[child]->due_us) {
      child++;
    }
    if (child >= crew->waiting || crew->heap[child]->due_us >= b->due_us) {
      break;
    }
    heap_set(crew, at, crew->heap[child]);
    at = child;
  }
  heap_set(crew, at, b);
}

static void heap_insert(struct crew *crew, struct background *b) {
  emb_assert(crew->waiting < crew->room);
  b->state = BACKGROUND_WAITING;
  heap_up(crew, crew->waiting++, b);
}

static void heap_remove(struct crew *crew, struct background *b) {
  emb_assert(crew->heap[b->at] == b);
  uint32_t at = b->at;
  struct background *last = crew->heap[--crew->waiting];
  b->state = BACKGROUND_IDLE;
  if (last == b) {
    return;
  }
  if (at > 0 && crew->heap[(at - 1) / 2]->due_us > last->due_us) {
    heap_up(crew, at, last);
  } else {
    heap_down(crew, at, last);
  }
}

/* ---- threads ------------------------------------------------------------- */

static void crew_main(void *arg);

static void join_all(struct process *p, struct process_thread **list) {
  while (*list) {
    struct process_thread *t = *list;
    *list = t->next;
    p->env->thread_join(p->env, t->handle);
    p->env->release(p->env, t);
  }
}

/* Under the lock, for which the new thread waits. */
static int crew_hire(struct process *p, struct crew *crew) {
  join_all(p, &p->over); /* they are about to end */
  struct process_thread *t = p->env->allocate(p->env, sizeof *t);
  if (!t) {
    return ENOMEM;
  }
  *t = (struct process_thread){p->running, p, crew, NULL};
  int os = p->env->thread_start(p->env, crew_main, t, &t->handle);
  if (os) {
    p->env->release(p->env, t);
    return os;
  }
  p->running = t;
  crew->threads++;
  return 0;
}

/* Restores invariant 3 after a background was queued or when a thread is about
** to work.  Under the lock. */
static void crew_call(struct process *p, struct crew *crew) {
  if (crew->waiting == 0) {
    return;
  }
  if (crew->sleeping > 0) {
    pthread_cond_signal(&crew->arrived);
  } else if (crew->working == crew->threads &&
             crew->threads < crew->most + crew->blocked) {
    (void)crew_hire(p, crew); /* without it, the others do the work */
  }
}

/* Takes the first background that is due; NULL: none is due for *wait_us. */
static struct background *crew_take(struct process *p, struct crew *crew,
                                    uint64_t *wait_us) {
  *wait_us = UINT64_MAX;
  if (crew->waiting == 0) {
    return NULL;
  }
  struct background *first = crew->heap[0];
  uint64_t now = p->env->now_us(p->env);
  if (first->due_us > now) {
    *wait_us = first->due_us - now;
    return NULL;
  }
  heap_remove(crew, first);
  first->state = BACKGROUND_RUNNING;
  first->is_woken = 0;
  return first;
}

static void run_one(struct process *p, struct crew *crew,
                    struct background *b) {
  crew->working++;
  crew_call(p, crew);
  pthread_mutex_unlock(&p->lock);
  uint64_t due_us = b->run(b->arg);
  pthread_mutex_lock(&p->lock);
  emb_assert(b->state == BACKGROUND_RUNNING);
  crew->working--;
  b->state = BACKGROUND_IDLE;
  if (b->is_ending) {
    pthread_cond_broadcast(&p->ended);
  } else if ((b->is_woken && !EMB_SEED(SEED_WAKE_WHILE_RUNNING_LOST)) ||
             due_us != BACKGROUND_NEVER) {
    /* Goes behind the backgrounds that were waiting while it ran. */
    b->due_us = b->is_woken || due_us == 0 ? p->env->now_us(p->env) : due_us;
    heap_insert(crew, b);
  }
}

static void thread_leave(struct process *p, struct process_thread *self) {
  struct process_thread **at = &p->running;
  while (*at != self) {
    at = &(*at)->next;
  }
  *at = self->next;
  self->next = p->over;
  p->over = self;
  self->crew->threads--;
  crew_call(p, self->crew);
  emb_check(crews_valid(p));
}

/* When the wait times out, the background that was first at its start is due,
** whatever the clock says: a test can stop the clock. */
static void crew_sleep(struct process *p, struct crew *crew, uint64_t wait_us) {
  struct background *first = crew->waiting ? crew->heap[0] : NULL;
  uint64_t due_us = first ? first->due_us : 0;
  crew->sleeping++;
  int is_over = p->env->wait_us(p->env, &crew->arrived, &p->lock, wait_us);
  crew->sleeping--;
  if (is_over && first && crew->waiting && crew->heap[0] == first &&
      first->due_us == due_us) {
    first->due_us = 0;
  }
}

static void crew_main(void *arg) {
  struct process_thread *self = arg;
  struct process *p = self->process;
  struct crew *crew = self->crew;
  pthread_mutex_lock(&p->lock);
  while (!p->is_stopping) {
    uint64_t wait_us;
    struct background *b = crew_take(p, crew, &wait_us);
    if (b) {
      run_one(p, crew, b);
    } else if (crew->threads > crew->most + crew->blocked) {
      break; /* it stood in for a blocked thread */
    } else {
      crew_sleep(p, crew, wait_us);
    }
  }
  if (!p->is_stopping) {
    thread_leave(p, self);
  }
  pthread_mutex_unlock(&p->lock);
}

/* ---- for process.c ------------------------------------------------------- */

void background__init(struct process *p) {
  pthread_condattr_t clock;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->ended, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  for (int i = 0; i < BACKGROUND_KINDS; i++) {
    p->crews[i].most = THREADS_MOST;
    pthread_cond_init(&p->crews[i].arrived, &clock);
  }
  pthread_condattr_destroy(&clock);
}

void background__free(struct process *p) {
  pthread_mutex_lock(&p->lock);
  p->is_stopping = 1;
  for (int i = 0; i < BACKGROUND_KINDS; i++) {
    emb_assert(p->crews[i].members == 0 && p->crews[i].waiting == 0);
    pthread_cond_broadcast(&p->crews[i].arrived);
  }
  pthread_mutex_unlock(&p->lock);
  join_all(p, &p->running); /* no thread leaves the list now */
  join_all(p, &p->over);
  for (int i = 0; i < BACKGROUND_KINDS; i++) {
    p->env->release(p->env, (void *)p->crews[i].heap);
    pthread_cond_destroy(&p->crews[i].arrived);
  }
  pthread_cond_destroy(&p->ended);
  pthread_mutex_destroy(&p->lock);
}

/* ---- a background -------------------------------------------------------- */

/* Reserves room in the heap for one more, so that a wake cannot fail. */
static int heap_reserve(struct process *p, struct crew *crew) {
  if (crew->members < crew->room) {
    return 0;
  }
  uint32_t room = crew->room ? 2 * crew->room : 16;
  void *heap =
      p->env->resize(p->env, (void *)crew->heap, room * sizeof *crew->heap);
  if (!heap) {
    return ENOMEM;
  }
  crew->heap = heap;
  crew->room = room;
  return 0;
}

int background_start(struct background *b, struct process *p,
                     enum background_kind kind, uint64_t (*run)(void *),
                     void *arg) {
  struct crew *crew = &p->crews[kind];
  b->kind = kind;
  b->run = run;
  b->arg = arg;
  b->state = BACKGROUND_IDLE;
  b->is_woken = b->is_ending = 0;
  pthread_mutex_lock(&p->lock);
  int os = heap_reserve(p, crew);
  if (!os && crew->threads == 0) {
    os = crew_hire(p, crew);
  }
  if (!os) {
    crew->members++;
    atomic_store_explicit(&b->process, p, memory_order_relaxed);
  }
  emb_check_some(4, crews_valid(p));
  pthread_mutex_unlock(&p->lock);
  return os;
}

static struct process *process_of(struct background *b) {
  return atomic_load_explicit(&b->process, memory_order_relaxed);
}

void background_wake(struct background *b) {
  struct process *p = process_of(b);
  if (!p) {
    return;
  }
  struct crew *crew = &p->crews[b->kind];
  pthread_mutex_lock(&p->lock);
  uint64_t now = p->env->now_us(p->env);
  if (b->state == BACKGROUND_RUNNING || b->is_ending) {
    b->is_woken = 1;
  } else if (b->state == BACKGROUND_IDLE || b->due_us > now) {
    if (b->state == BACKGROUND_WAITING) {
      heap_remove(crew, b);
    }
    b->due_us = now;
    heap_insert(crew, b);
    crew_call(p, crew);
    emb_check_some(16, crews_valid(p));
  }
  pthread_mutex_unlock(&p->lock);
}

void background_end(struct background *b) {
  struct process *p = process_of(b);
  if (!p) {
    return;
  }
  struct crew *crew = &p->crews[b->kind];
  pthread_mutex_lock(&p->lock);
  b->is_ending = 1;
  if (b->state == BACKGROUND_WAITING) {
    heap_remove(crew, b);
  }
  while (b->state == BACKGROUND_RUNNING) {
    pthread_cond_wait(&p->ended, &p->lock);
  }
  crew->members--;
  emb_check_some(4, crews_valid(p));
  pthread_mutex_unlock(&p->lock);
  atomic_store_explicit(&b->process, NULL, memory_order_relaxed);
}

void background_waits(struct background *b, int change) {
  struct process *p = process_of(b);
  struct crew *crew = &p->crews[b->kind];
  pthread_mutex_lock(&p->lock);
  emb_assert(change > 0 || crew->blocked > 0);
  crew->blocked += (uint32_t)change;
  if (change > 0) {
    crew_call(p, crew);
  } else if (crew->threads > crew->most + crew->blocked) {
    pthread_cond_signal(&crew->arrived); /* a surplus sleeper ends */
  }
  pthread_mutex_unlock(&p->lock);
}

void background_allow(struct process *p, enum background_kind kind,
                      uint32_t threads) {
  pthread_mutex_lock(&p->lock);
  if (p->crews[kind].most < threads) {
    p->crews[kind].most = threads;
  }
  pthread_mutex_unlock(&p->lock);
}
