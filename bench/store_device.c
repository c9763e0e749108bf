/* SPDX-License-Identifier: MIT
**
** store_device.c -- the limits of the disk, as stores.
**
** Reading: each key is one random 4 KiB read with O_DIRECT from the largest
** file below the directory's parent's "emb C" (the very pages that emb reads),
** with 128 in flight at all times, across batches as well; registered file and
** buffers.  Writing: each batch is one sequential write of its bytes with
** O_DIRECT, 8 in flight, cycling through a file written beforehand.  Neither
** delivers anything: they are ceilings, not stores.
*/
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "keys.h"
#include "store.h"

enum { READS = 128, WRITES = 8, PAGE = 4096 };

struct device {
  char file[512];
  uint64_t bytes;
  int flags;
};

struct session {
  struct device *device;
  struct io_uring ring;
  int fd;
  unsigned depth, in_flight;
  uint64_t seed, at;
  size_t piece; /* bytes per request */
  char *buffers;
  unsigned idle[READS]; /* indexes of free buffers */
};

static void check(int rc, const char *what) {
  if (rc < 0) {
    die("device: %s: %s", what, strerror(-rc));
  }
}

/* ---- files --------------------------------------------------------------- */

static struct device *found; /* nftw passes no user argument */

static int larger(const char *name, const struct stat *st, int type,
                  struct FTW *ftw) {
  (void)ftw;
  if (type == FTW_F && (uint64_t)st->st_size > found->bytes) {
    found->bytes = (uint64_t)st->st_size;
    snprintf(found->file, sizeof(found->file), "%s", name);
  }
  return 0;
}

static void *reader_open(const struct store_options *options) {
  struct device *device = need(1, sizeof(*device));
  found = device;
  device->flags = O_RDONLY | O_DIRECT;
  nftw(path("%s/../emb C", options->directory), larger, 16, FTW_PHYS);
  if (device->bytes < 64 * PAGE) {
    die("device: there is no file to read");
  }
  return device;
}

static void *writer_open(const struct store_options *options) {
  struct device *device = need(1, sizeof(*device));
  size_t piece = BATCH * options->dim * sizeof(float);
  device->flags = O_WRONLY | O_DIRECT;
  device->bytes = options->keys * options->dim * sizeof(float) / piece * piece;
  snprintf(device->file, sizeof(device->file), "%s/sequential",
           options->directory);
  int fd = open(device->file, O_RDWR | O_CREAT | O_TRUNC, 0666);
  char *zeros = need(1, piece);
  for (uint64_t at = 0; at < device->bytes; at += piece) {
    if (write(fd, zeros, piece) != (ssize_t)piece) {
      die("%s: %s", device->file, strerror(errno));
    }
  }
  free(zeros);
  fdatasync(fd);
  close(fd);
  return device;
}

static void device_close(void *store) { free(store); }

/* ---- requests ------------------------------------------------------------ */

static struct session *start(struct device *device, unsigned depth,
                             size_t piece) {
  struct session *s = need(1, sizeof(*s));
  s->device = device;
  s->depth = depth;
  s->piece = piece;
  s->seed = (uint64_t)(uintptr_t)s | 1;
  s->fd = open(device->file, device->flags);
  if (s->fd < 0) {
    die("%s: %s", device->file, strerror(errno));
  }
  s->buffers = need_huge(depth * piece);
  memset(s->buffers, 1, depth * piece);
  struct iovec all = {s->buffers, depth * piece};
  check(io_uring_queue_init(depth, &s->ring, 0), "io_uring");
  check(io_uring_register_files(&s->ring, &s->fd, 1), "register file");
  check(io_uring_register_buffers(&s->ring, &all, 1), "register buffers");
  for (unsigned i = 0; i < depth; i++) {
    s->idle[i] = i;
  }
  return s;
}

static void *reader_session(void *store) { return start(store, READS, PAGE); }

static void *writer_session(void *store) {
  return start(store, WRITES, BATCH * 64 * sizeof(float));
}

static void request(struct session *s, int writes) {
  struct io_uring_sqe *sqe = io_uring_get_sqe(&s->ring);
  unsigned number = s->idle[s->depth - 1 - s->in_flight++];
  char *buffer = s->buffers + number * s->piece;
  uint64_t pieces = s->device->bytes / s->piece;
  if (writes) {
    uint64_t offset = s->at++ % pieces * s->piece;
    io_uring_prep_write_fixed(sqe, 0, buffer, (unsigned)s->piece, offset, 0);
  } else {
    uint64_t offset = random_next(&s->seed) % pieces * s->piece;
    io_uring_prep_read_fixed(sqe, 0, buffer, (unsigned)s->piece, offset, 0);
  }
  sqe->flags |= IOSQE_FIXED_FILE;
  io_uring_sqe_set_data64(sqe, number);
}

/* Reaps completed requests and returns their number. */
static unsigned reap(struct session *s) {
  struct io_uring_cqe *cqe;
  unsigned head, n = 0;
  io_uring_for_each_cqe(&s->ring, head, cqe) {
    if (cqe->res != (int)s->piece) {
      die("device: %s", cqe->res < 0 ? strerror(-cqe->res) : "short");
    }
    s->idle[s->depth - s->in_flight--] = (unsigned)io_uring_cqe_get_data64(cqe);
    n++;
  }
  io_uring_cq_advance(&s->ring, n);
  return n;
}

static void session_close(void *session) {
  struct session *s = session;
  while (s->in_flight) {
    check(io_uring_submit_and_wait(&s->ring, 1), "wait");
    reap(s);
  }
  io_uring_queue_exit(&s->ring);
  drop_huge(s->buffers, s->depth * s->piece);
  close(s->fd);
  free(s);
}

static const float *read_pages(void *session, const int64_t *keys, size_t n,
                               float *buffer) {
  struct session *s = session;
  (void)keys, (void)buffer;
  for (size_t done = 0; done < n;) {
    while (s->in_flight < s->depth) {
      request(s, 0);
    }
    check(io_uring_submit_and_wait(&s->ring, 1), "wait");
    done += reap(s);
  }
  return NULL;
}

static void write_piece(void *session, const int64_t *keys, size_t n,
                        const float *vectors) {
  struct session *s = session;
  (void)keys, (void)n, (void)vectors;
  while (s->in_flight == s->depth) {
    check(io_uring_submit_and_wait(&s->ring, 1), "wait");
    reap(s);
  }
  request(s, 1);
  check(io_uring_submit(&s->ring), "submit");
  reap(s);
}

const struct store_kind store_device_read = {
    .name = "device ceiling",
    .about = "random 4 KiB reads of emb's file, io_uring, O_DIRECT, 128 in"
             " flight",
    .open = reader_open,
    .close = device_close,
    .session_open = reader_session,
    .session_close = session_close,
    .get = read_pages,
    .torn = 1,
};

const struct store_kind store_device_write = {
    .name = "sequential write",
    .about = "io_uring, O_DIRECT, 256 KiB a request, 8 in flight",
    .open = writer_open,
    .close = device_close,
    .session_open = writer_session,
    .session_close = session_close,
    .put = write_piece,
    .torn = 1,
};
