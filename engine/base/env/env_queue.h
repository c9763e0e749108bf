/* SPDX-License-Identifier: MIT
**
** env_queue.h -- shared by the files of engine/base/env: an open file, the
** steps of one request, and the two kinds of queue.  Private to
** engine/base/env.
**
** A REQUEST (struct env_io) takes these steps, whichever queue it is in:
**
**     env__io_begin ---1---------------------------------> finished
**           |                                                 ^
**           0                                                 |
**           v                                                 1
**     one transfer of what is left --> env__io_advance -------+
**           ^                               |
**           +-------------0-----------------+
**
** The transfer is pread/pwrite (env__io_run: the plain calls and the pool) or
** an entry of the ring (env_uring.c).  "What is left" is env__io_left bytes
** at buffer and offset plus done_bytes.
*/
#ifndef EMB_ENV_QUEUE_H
#define EMB_ENV_QUEUE_H

#include "engine/base/debug.h"
#include "env.h"
#include "env_lock.h"

/* Unit of direct access, required by env.h for ENV_DIRECT. */
#define ENV__BLOCK_BYTES 4096u

/* Never changes between open and close, so it needs no lock.  Only the kernel
** knows whether O_DIRECT is currently on. */
struct env_file {
  int fd;
  int aligned; /* opened with ENV_DIRECT: transfers are whole blocks */
  struct env__owned owned; /* listed once it has had byte locks */
};

/* Head of both kinds of queue. */
struct env_queue {
  int kind; /* ENV_QUEUE_* */
};

/* Resets the request's progress.  1: it is already finished, because there is
** nothing to transfer or its arguments are invalid (see result). */
int env__io_begin(struct env_io *io);
/* Takes the outcome of one transfer, bytes or -errno.  1: the request is
** finished and its result set; 0: start another transfer of what is left. */
int env__io_advance(struct env_io *io, int64_t outcome);
/* Runs a whole request by pread or pwrite; returns its result. */
int env__io_run(struct env_io *io);

static inline uint32_t env__io_left(const struct env_io *io) {
  return io->bytes - io->done_bytes;
}

/* A FIFO of requests, linked by env_io.next. */
struct env__list {
  struct env_io *first;
  struct env_io *last;
  size_t count;
};

static inline void env__list_append(struct env__list *list, struct env_io *io) {
  io->next = NULL;
  emb_assert((list->first == NULL) == (list->count == 0));
  if (list->first == NULL)
    list->first = io;
  else
    list->last->next = io;
  list->last = io;
  list->count++;
}

static inline struct env_io *env__list_take(struct env__list *list) {
  struct env_io *io = list->first;
  emb_assert((io == NULL) == (list->count == 0));
  if (io != NULL) {
    list->first = io->next;
    list->count--;
  }
  return io;
}

/* The two kinds; contracts as in env.h. */
int env__uring_open(unsigned depth, struct env_queue **);
void env__uring_close(struct env_queue *);
int env__uring_submit(struct env_queue *, struct env_io **, size_t n);
int env__uring_wait(struct env_queue *, size_t min, struct env_io **done,
                    size_t max, size_t *n);

int env__pool_open(unsigned depth, struct env_queue **);
void env__pool_close(struct env_queue *);
int env__pool_submit(struct env_queue *, struct env_io **, size_t n);
int env__pool_wait(struct env_queue *, size_t min, struct env_io **done,
                   size_t max, size_t *n);

#endif
