/* SPDX-License-Identifier: MIT
**
** env_io.c -- the steps of one transfer, shared by the plain calls and both
** kinds of queue; drawn in env_queue.h.
**
** INVARIANT Direct access is a property that the kernel keeps per open file,
**           not a second descriptor: it is switched on after the open and
**           off again at the first refusal, both by fcntl.  The descriptor
**           stays the same, so requests in flight and other threads don't
**           notice, and the alignment required of a caller does not depend
**           on the file system.
** FAILURE   errno.  EINTR, EAGAIN, ECANCELED, short transfers and EINVAL from
**           O_DIRECT are handled here; callers never see them.
** THREADS   Any.
*/
#include "engine/base/debug.h"
#include "env_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes the file buffered.  Idempotent, so threads may race. */
static void drop_direct(const struct env_file *file) {
  int flags = fcntl(file->fd, F_GETFL);
  if (flags >= 0)
    (void)fcntl(file->fd, F_SETFL, flags & ~O_DIRECT);
}

static int io_finish(struct env_io *io, int result) {
  io->result = result;
  return 1;
}

int env__io_begin(struct env_io *io) {
  io->result = 0;
  io->done_bytes = 0;
  /* io_uring reads offset -1 as "the file's position", so no offset may reach
  ** it. */
  if (io->offset > (uint64_t)INT64_MAX - io->bytes)
    return io_finish(io, EINVAL);
  uint64_t all = io->offset | io->bytes | (uint64_t)(uintptr_t)io->buffer;
  if (io->file->aligned && all % ENV__BLOCK_BYTES != 0)
    return io_finish(io, EINVAL);
  return io->bytes == 0;
}

static int env_io_failed(struct env_io *io, int error) {
  switch (error) {
  case EINTR:
  case EAGAIN:
  case ECANCELED: /* the thread that started it in a ring has ended */
    return 0;
  case EINVAL:
    /* The file system accepted O_DIRECT but not this transfer.  Only the second
    ** EINVAL of a request goes to the caller; until delivery, result holds the
    ** first. */
    if (!io->file->aligned || io->result == EINVAL)
      return io_finish(io, EINVAL);
    drop_direct(io->file);
    io->result = EINVAL;
    return 0;
  default:
    return io_finish(io, error);
  }
}

static int at_end_of_file(const struct env_io *io) {
  struct stat st;
  return fstat(io->file->fd, &st) == 0 &&
         (uint64_t)st.st_size <= io->offset + io->done_bytes;
}

static int fill_with_zeros(struct env_io *io) {
  memset((char *)io->buffer + io->done_bytes, 0, env__io_left(io));
  return io_finish(io, 0);
}

int env__io_advance(struct env_io *io, int64_t outcome) {
  emb_assert(io->done_bytes < io->bytes); /* else it is finished */
  if (outcome < 0)
    return env_io_failed(io, (int)-outcome);
  emb_assert(outcome <= env__io_left(io));
  io->done_bytes += (uint32_t)outcome;
  if (io->done_bytes == io->bytes)
    return io_finish(io, 0);
  if (outcome == 0)
    return io->is_write ? io_finish(io, EIO) : fill_with_zeros(io);
  if (io->file->aligned && io->done_bytes % ENV__BLOCK_BYTES != 0) {
    /* A direct transfer cannot continue from here.  It rarely has to: usually
    ** the file ends inside this block. */
    if (!io->is_write && at_end_of_file(io))
      return fill_with_zeros(io);
    drop_direct(io->file);
  }
  return 0;
}

int env__io_run(struct env_io *io) {
  int finished = env__io_begin(io);
  while (!finished) {
    int fd = io->file->fd;
    char *at = (char *)io->buffer + io->done_bytes;
    off_t offset = (off_t)(io->offset + io->done_bytes);
    ssize_t n = io->is_write ? pwrite(fd, at, env__io_left(io), offset)
                             : pread(fd, at, env__io_left(io), offset);
    finished = env__io_advance(io, n < 0 ? -errno : n);
  }
  return io->result;
}
