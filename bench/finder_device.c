/* SPDX-License-Identifier: MIT
**
** finder_device.c -- the limit of the disk, as a finder: each call reads a file
** once from its beginning, with O_DIRECT, 1 MiB per request, 8 in flight,
** registered file and buffers.  The file is the log of the store in the
** directory; memory_bytes says how much of it is read.  Finds nothing.
*/
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "finder.h"
#include "harness.h"

enum { DEPTH = 8, PIECE = 1 << 20 };

struct disk {
  struct io_uring ring;
  int fd;
  uint64_t pieces;
  char *buffers;
};

static void check(int rc, const char *what) {
  if (rc < 0) {
    die("device: %s: %s", what, strerror(-rc));
  }
}

static void *device_open(const struct finder_options *options) {
  struct disk *disk = need(1, sizeof(*disk));
  const char *file = path("%s/store/log", options->directory);
  struct stat st;
  disk->fd = open(file, O_RDONLY | O_DIRECT);
  if (disk->fd < 0 || fstat(disk->fd, &st)) {
    die("%s: %s", file, strerror(errno));
  }
  uint64_t bytes = (uint64_t)st.st_size;
  bytes = bytes < options->memory_bytes ? bytes : options->memory_bytes;
  disk->pieces = bytes / PIECE;
  if (!disk->pieces) {
    die("device: %s is too short", file);
  }
  disk->buffers = need_huge((size_t)DEPTH * PIECE);
  memset(disk->buffers, 1, (size_t)DEPTH * PIECE);
  struct iovec all = {disk->buffers, (size_t)DEPTH * PIECE};
  check(io_uring_queue_init(DEPTH, &disk->ring, 0), "io_uring");
  check(io_uring_register_files(&disk->ring, &disk->fd, 1), "register file");
  check(io_uring_register_buffers(&disk->ring, &all, 1), "register buffers");
  return disk;
}

static void device_close(void *finder) {
  struct disk *disk = finder;
  io_uring_queue_exit(&disk->ring);
  drop_huge(disk->buffers, (size_t)DEPTH * PIECE);
  close(disk->fd);
  free(disk);
}

static void request(struct disk *disk, uint64_t piece, unsigned buffer) {
  struct io_uring_sqe *sqe = io_uring_get_sqe(&disk->ring);
  io_uring_prep_read_fixed(sqe, 0, disk->buffers + (size_t)buffer * PIECE,
                           PIECE, piece * PIECE, 0);
  sqe->flags |= IOSQE_FIXED_FILE;
  io_uring_sqe_set_data64(sqe, buffer);
}

static void device_ask(void *finder, const struct question *question,
                       int64_t *keys, double *distances) {
  struct disk *disk = finder;
  uint64_t next = 0, done = 0;
  (void)question, (void)keys, (void)distances;
  for (; next < DEPTH && next < disk->pieces; next++) {
    request(disk, next, (unsigned)next);
  }
  while (done < disk->pieces) {
    struct io_uring_cqe *cqe;
    check(io_uring_submit_and_wait(&disk->ring, 1), "wait");
    while (!io_uring_peek_cqe(&disk->ring, &cqe)) {
      if (cqe->res != PIECE) {
        die("device: %s", cqe->res < 0 ? strerror(-cqe->res) : "short");
      }
      unsigned buffer = (unsigned)io_uring_cqe_get_data64(cqe);
      io_uring_cqe_seen(&disk->ring, cqe);
      done++;
      if (next < disk->pieces) {
        request(disk, next++, buffer);
      }
    }
  }
}

const struct finder_kind finder_device = {
    .name = "sequential read",
    .about = "io_uring, O_DIRECT, 1 MiB a request, 8 in flight",
    .open = device_open,
    .close = device_close,
    .ask = device_ask,
};
