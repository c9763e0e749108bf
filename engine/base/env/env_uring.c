/* SPDX-License-Identifier: MIT
**
** env_uring.c -- a queue over one io_uring.
**
** ROLE      The asynchronous half of env.h on kernels from 5.6 on.  A batch is
**           one system call; waiting sleeps in the same call.
** STATES    of a request; the function that makes each step:
**
**     submit -> waiting -> in the SQ -> in the kernel -> in the CQ -> done
**                  ^  fill          enter             (kernel)  reap |
**                  +--- short transfer, EAGAIN, EINTR, ECANCELED ----+
**
**           A request that needs no transfer goes from submit to finished and
**           from there to done.
** INVARIANT 1. in_flight counts the requests from the SQ to the CQ, and
**              in_flight <= depth <= entries of the CQ: it cannot overflow.
**           2. The SQ may have fewer entries than depth; fill enters the
**              kernel when it is full.  Entries that the kernel does not take
**              stay in the SQ until the next enter.
** FAILURE   A kernel or container without io_uring is ENOSYS at open.  Later
**           errors of the ring itself (not of a request) are not expected;
**           they are returned, and the requests stay with the queue until
**           env__uring_close.
** THREADS   One at a time, but not always the same one, not even while
**           requests are in flight: hence no IORING_SETUP_SINGLE_ISSUER.  No
**           COOP_TASKRUN either: random reads at depth 1 to 128 gained nothing
**           measurable from it.
*/
#include "env_os.h"
#include "env_queue.h"

#include <errno.h>
#include <liburing.h>

/* An entry of the SQ is in use only between fill and the next enter; more than
** this per system call gain nothing. */
#define SQ_ENTRIES_MAX 128u

struct uring {
  struct env_queue head;
  struct io_uring ring;
  unsigned depth;
  unsigned in_flight;
  struct env__list waiting;  /* to go into the SQ */
  struct env__list finished; /* without the kernel; not yet delivered */
};

static unsigned env_uring_smaller(size_t a, unsigned b) {
  return a < b ? (unsigned)a : b;
}

static int set_up(struct uring *queue, unsigned depth) {
  struct io_uring_params params = {
      .flags = IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE, .cq_entries = depth};
  int rc = -io_uring_queue_init_params(env_uring_smaller(depth, SQ_ENTRIES_MAX),
                                       &queue->ring, &params);
  if (rc != 0)
    return rc;
  queue->depth = env_uring_smaller(depth, params.cq_entries);
  /* IORING_OP_READ and _WRITE came in 5.6, together with this feature. */
  if (!(params.features & IORING_FEAT_RW_CUR_POS)) {
    env__before_unmap();
    io_uring_queue_exit(&queue->ring);
    return ENOSYS;
  }
  return 0;
}

int env__uring_open(unsigned depth, struct env_queue **out) {
  struct uring *queue = env__allocate(NULL, sizeof *queue);
  if (queue == NULL)
    return ENOMEM;
  queue->head.kind = ENV_QUEUE_URING;
  int rc = set_up(queue, depth);
  if (rc == 0) {
    env__after_map();
    *out = &queue->head;
    return 0;
  }
  env__release(NULL, queue);
  switch (rc) {
  case EINVAL: /* a kernel before 5.6 */
  case EPERM:  /* seccomp, sysctl kernel.io_uring_disabled */
  case EACCES:
  case ENOMEM: /* kernels before 5.12 count rings as locked memory */
    return ENOSYS;
  default:
    return rc;
  }
}

static void env_uring_prepare(struct io_uring_sqe *sqe, struct env_io *io) {
  void *at = (char *)io->buffer + io->done_bytes;
  uint64_t offset = io->offset + io->done_bytes;
  if (io->is_write)
    io_uring_prep_write(sqe, io->file->fd, at, env__io_left(io), offset);
  else
    io_uring_prep_read(sqe, io->file->fd, at, env__io_left(io), offset);
  io_uring_sqe_set_data(sqe, io);
}

/* Hands the SQ to the kernel and sleeps until wait_count completions are in
** the CQ.  May return 0 having done less: callers check again. */
static int env_uring_enter(struct uring *queue, unsigned wait_count) {
  int rc = wait_count > 0 ? io_uring_submit_and_wait(&queue->ring, wait_count)
                          : io_uring_submit(&queue->ring);
  if (rc >= 0 || rc == -EINTR)
    return 0;
  if (rc != -EAGAIN && rc != -EBUSY)
    return -rc;
  /* The kernel is short of memory for requests, and gives no sign when it has
  ** memory again. */
  if (wait_count > 0)
    env__sleep_us(NULL, 1000);
  return 0;
}

static int env_uring_fill(struct uring *queue) {
  while (queue->waiting.count > 0 && queue->in_flight < queue->depth) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&queue->ring);
    if (sqe == NULL) {
      int rc = env_uring_enter(queue, 0);
      if (rc != 0)
        return rc;
      sqe = io_uring_get_sqe(&queue->ring);
      if (sqe == NULL)
        return 0;
    }
    env_uring_prepare(sqe, env__list_take(&queue->waiting));
    queue->in_flight++;
  }
  return 0;
}

static int env_uring_start(struct uring *queue) {
  int rc = env_uring_fill(queue);
  if (rc == 0 && io_uring_sq_ready(&queue->ring) > 0)
    rc = env_uring_enter(queue, 0);
  return rc;
}

/* Takes at most max finished requests; never sleeps. */
static size_t completions_take(struct uring *queue, struct env_io **done,
                               size_t max) {
  struct io_uring_cqe *cqes[64];
  size_t n = 0;
  while (n < max && queue->finished.count > 0)
    done[n++] = env__list_take(&queue->finished);
  while (n < max) {
    unsigned room = env_uring_smaller(max - n, sizeof cqes / sizeof cqes[0]);
    unsigned ready = io_uring_peek_batch_cqe(&queue->ring, cqes, room);
    if (ready == 0)
      break;
    for (unsigned i = 0; i < ready; i++) {
      struct env_io *io = io_uring_cqe_get_data(cqes[i]);
      if (env__io_advance(io, cqes[i]->res))
        done[n++] = io;
      else
        env__list_append(&queue->waiting, io);
    }
    io_uring_cq_advance(&queue->ring, ready);
    queue->in_flight -= ready;
  }
  return n;
}

int env__uring_submit(struct env_queue *head, struct env_io **ios, size_t n) {
  struct uring *queue = (struct uring *)head;
  for (size_t i = 0; i < n; i++)
    env__list_append(env__io_begin(ios[i]) ? &queue->finished : &queue->waiting,
                     ios[i]);
  return env_uring_start(queue);
}

/* How many completions to sleep for.  While requests wait for room, the ring is
** refilled when a quarter is free, rather than drained. */
static unsigned wait_count(const struct uring *queue, size_t wanted) {
  unsigned most = queue->in_flight;
  if (queue->waiting.count > 0)
    most = (most + 3) / 4;
  return env_uring_smaller(wanted, most);
}

int env__uring_wait(struct env_queue *head, size_t min, struct env_io **done,
                    size_t max, size_t *n) {
  struct uring *queue = (struct uring *)head;
  size_t all = queue->finished.count + queue->in_flight + queue->waiting.count;
  if (min > max)
    min = max;
  if (min > all)
    min = all;
  size_t got = completions_take(queue, done, max);
  int rc = env_uring_fill(queue);
  while (rc == 0 && got < min) {
    rc = env_uring_enter(queue, wait_count(queue, min - got));
    got += completions_take(queue, done + got, max - got);
    if (rc == 0)
      rc = env_uring_fill(queue);
  }
  if (rc == 0)
    rc = env_uring_start(queue);
  *n = got;
  return rc;
}

void env__uring_close(struct env_queue *head) {
  struct uring *queue = (struct uring *)head;
  struct env_io *done[64];
  size_t n;
  int rc;
  do
    rc = env__uring_wait(head, 1, done, sizeof done / sizeof done[0], &n);
  while (rc == 0 && n > 0);
  env__before_unmap();
  io_uring_queue_exit(&queue->ring);
  env__release(NULL, queue);
}
