/* SPDX-License-Identifier: MIT
**
** env_pool.c -- a queue over a pool of threads that call pread and pwrite.
**
** ROLE      For kernels and containers that forbid io_uring.  The threads are
**           shared by all queues of the process.
** STATES    of a request; all moves are made under pool.lock:
**
**     submit -> queue.waiting -> run by a worker -> queue.done -> delivered
**                     take_request           complete           wait
**
**           of a slot for a worker:
**
**     free -> occupied -> ended -> free
**         hire        work     dismiss
**
** INVARIANT 1. A queue is linked in pool.ready if and only if it has a waiting
**              request and fewer than depth are running.
**           2. For each new runnable request, either a worker is awake, which
**              checks pool.ready before it sleeps, or one is woken, or one is
**              hired; so no request is lost.
**           3. Workers exist only while a queue does: the last env__pool_close
**              joins them all.
** FAILURE   Only env__pool_open and the first hire can fail (ENOMEM, EAGAIN);
**           a submit that fails has started nothing.
** THREADS   One lock for everything: a request holds it for tens of
**           nanoseconds; its transfer takes a thousand times longer.  Order:
**           pool.life before pool.lock.  A forked child starts with an empty
**           pool, and must not touch queues of its parent.
*/
#include "env_os.h"
#include "env_pool.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define WORKERS_MAX 16
#define IDLE_SECONDS 2

/* A slot for a worker. */
struct env_pool_worker {
  void *thread; /* NULL: free.  Set by hire, cleared by dismiss */
  int ended;    /* set by the worker as its last act */
};

static struct {
  pthread_once_t once;
  pthread_mutex_t life; /* queues; held while workers are joined */
  size_t queues;
  pthread_mutex_t lock; /* everything below, and all queues */
  pthread_cond_t work;  /* a queue has become ready, or stopping */
  struct pool_queue *ready_first;
  struct pool_queue *ready_last;
  size_t load;  /* requests that could be running now, over all queues */
  size_t hired; /* workers that have not ended */
  int stopping;
  struct env_pool_worker workers[WORKERS_MAX];
} pool = {.once = PTHREAD_ONCE_INIT,
          .life = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- fork ---------------------------------------------------------------- */

static void init_work(void) {
  pthread_condattr_t attr;
  (void)pthread_condattr_init(&attr);
  (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&pool.work, &attr);
  (void)pthread_condattr_destroy(&attr);
}

static void before_fork(void) {
  (void)pthread_mutex_lock(&pool.life);
  (void)pthread_mutex_lock(&pool.lock);
}

static void after_fork_parent(void) {
  (void)pthread_mutex_unlock(&pool.lock);
  (void)pthread_mutex_unlock(&pool.life);
}

/* Only the forking thread exists in the child: there are no workers, but the
** condition variable would still count waiters. */
static void after_fork_child(void) {
  init_work();
  memset(pool.workers, 0, sizeof pool.workers);
  pool.ready_first = pool.ready_last = NULL;
  pool.queues = pool.load = pool.hired = 0;
  after_fork_parent();
}

static void init_pool(void) {
  init_work();
  (void)pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

/* ---- queues that have work ----------------------------------------------- */

/* Keeps invariant 1 and pool.load after a change of waiting or running. */
static void env_pool_settle(struct pool_queue *queue) {
  size_t load = queue->waiting.count + queue->running;
  if (load > queue->depth)
    load = queue->depth;
  pool.load = pool.load - queue->load + load;
  queue->load = load;
  if (queue->is_ready || queue->waiting.count == 0 ||
      queue->running == queue->depth)
    return;
  queue->is_ready = 1;
  queue->next = NULL;
  if (pool.ready_first == NULL)
    pool.ready_first = queue;
  else
    pool.ready_last->next = queue;
  pool.ready_last = queue;
}

/* Takes a request from the queue whose turn it is, and moves that queue to the
** end, so that a long batch does not hold up other queues. */
static struct env_io *take_request(struct pool_queue **from) {
  struct pool_queue *queue = pool.ready_first;
  if (queue == NULL)
    return NULL;
  pool.ready_first = queue->next;
  queue->is_ready = 0;
  struct env_io *io = env__list_take(&queue->waiting);
  queue->running++;
  env_pool_settle(queue);
  emb_check(env__pool_queue_valid(queue));
  *from = queue;
  return io;
}

static void env_pool_complete(struct pool_queue *queue, struct env_io *io) {
  queue->running--;
  env_pool_settle(queue);
  env__list_append(&queue->done, io);
  emb_check(env__pool_queue_valid(queue));
  if (queue->done.count >= queue->wanted)
    (void)pthread_cond_signal(&queue->arrived);
}

/* ---- workers ------------------------------------------------------------- */

/* 0: there may be work; otherwise the worker must end. */
static int sleep_for_work(void) {
  struct timespec until;
  if (pool.stopping)
    return 1;
  (void)clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += IDLE_SECONDS;
  int rc = pthread_cond_timedwait(&pool.work, &pool.lock, &until);
  return rc == ETIMEDOUT && pool.ready_first == NULL;
}

static void env_pool_work(void *arg) {
  struct env_pool_worker *self = arg;
  (void)pthread_mutex_lock(&pool.lock);
  for (;;) {
    struct pool_queue *queue;
    struct env_io *io = take_request(&queue);
    if (io == NULL) {
      if (sleep_for_work() != 0)
        break;
      continue;
    }
    (void)pthread_mutex_unlock(&pool.lock);
    (void)env__io_run(io);
    (void)pthread_mutex_lock(&pool.lock);
    env_pool_complete(queue, io);
  }
  self->ended = 1;
  pool.hired--;
  (void)pthread_mutex_unlock(&pool.lock);
}

/* Joins a worker that has ended or is about to, and frees its slot. */
static void worker_join(struct env_pool_worker *worker) {
  if (worker->thread != NULL)
    env__thread_join(NULL, worker->thread);
  *worker = (struct env_pool_worker){.thread = NULL};
}

/* Called under pool.lock, for which the new worker waits. */
static int env_pool_hire(void) {
  struct env_pool_worker *worker = pool.workers;
  while (worker->thread != NULL && !worker->ended)
    worker++;
  worker_join(worker);
  int rc = env__thread_start(NULL, env_pool_work, worker, &worker->thread);
  if (rc == 0)
    pool.hired++;
  return rc;
}

/* Hires up to one worker per runnable request; one is enough to succeed. */
static int workers_start(size_t load) {
  int rc = 0;
  while (rc == 0 && pool.hired < WORKERS_MAX && pool.hired < load)
    rc = env_pool_hire();
  return pool.hired > 0 ? 0 : rc;
}

/* ---- the queue ----------------------------------------------------------- */

int env__pool_open(unsigned depth, struct env_queue **out) {
  struct pool_queue *queue = env__allocate(NULL, sizeof *queue);
  if (queue == NULL)
    return ENOMEM;
  queue->head.kind = ENV_QUEUE_POOL;
  queue->depth = depth;
  (void)pthread_cond_init(&queue->arrived, NULL);
  (void)pthread_once(&pool.once, init_pool);
  (void)pthread_mutex_lock(&pool.life);
  pool.queues++;
  (void)pthread_mutex_unlock(&pool.life);
  *out = &queue->head;
  return 0;
}

/* Dismisses all workers.  Called under pool.life and while no queue exists, so
** no worker is hired, and the slots need no pool.lock. */
static void dismiss_all(void) {
  (void)pthread_mutex_lock(&pool.lock);
  pool.stopping = 1;
  (void)pthread_cond_broadcast(&pool.work);
  (void)pthread_mutex_unlock(&pool.lock);
  for (int i = 0; i < WORKERS_MAX; i++)
    worker_join(&pool.workers[i]);
  emb_assert(!pool.hired && !pool.load && !pool.ready_first);
  pool.stopping = 0;
}

void env__pool_close(struct env_queue *head) {
  struct pool_queue *queue = (struct pool_queue *)head;
  (void)pthread_mutex_lock(&pool.lock);
  queue->wanted = queue->done.count + queue->waiting.count + queue->running;
  while (queue->done.count < queue->wanted)
    (void)pthread_cond_wait(&queue->arrived, &pool.lock);
  (void)pthread_mutex_unlock(&pool.lock);
  (void)pthread_mutex_lock(&pool.life);
  emb_assert(pool.queues > 0);
  if (--pool.queues == 0)
    dismiss_all();
  (void)pthread_mutex_unlock(&pool.life);
  (void)pthread_cond_destroy(&queue->arrived);
  env__release(NULL, queue);
}

int env__pool_submit(struct env_queue *head, struct env_io **ios, size_t n) {
  struct pool_queue *queue = (struct pool_queue *)head;
  (void)pthread_mutex_lock(&pool.lock);
  size_t load = queue->waiting.count + queue->running + n;
  if (load > queue->depth)
    load = queue->depth;
  int rc = n > 0 ? workers_start(pool.load - queue->load + load) : 0;
  if (rc == 0) {
    for (size_t i = 0; i < n; i++)
      env__list_append(&queue->waiting, ios[i]);
    env_pool_settle(queue);
    emb_check(env__pool_queue_valid(queue));
    for (size_t i = 0; i < n && i < WORKERS_MAX; i++)
      (void)pthread_cond_signal(&pool.work);
  }
  (void)pthread_mutex_unlock(&pool.lock);
  return rc;
}

int env__pool_wait(struct env_queue *head, size_t min, struct env_io **done,
                   size_t max, size_t *n) {
  struct pool_queue *queue = (struct pool_queue *)head;
  (void)pthread_mutex_lock(&pool.lock);
  size_t all = queue->done.count + queue->waiting.count + queue->running;
  if (min > max)
    min = max;
  queue->wanted = min < all ? min : all;
  while (queue->done.count < queue->wanted)
    (void)pthread_cond_wait(&queue->arrived, &pool.lock);
  size_t got = 0;
  while (got < max && queue->done.count > 0)
    done[got++] = env__list_take(&queue->done);
  emb_check(env__pool_queue_valid(queue));
  (void)pthread_mutex_unlock(&pool.lock);
  *n = got;
  return 0;
}
