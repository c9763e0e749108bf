/* SPDX-License-Identifier: MIT
**
** env_posix.c -- files, directories and lock files, and the table env_posix.
**
** ROLE      Called through the table only.  The steps of one transfer, which
**           the plain calls and both kinds of queue have in common, are here
**           too (env__io_*, drawn in env_queue.h).
** INVARIANT Direct access is a property that the kernel keeps per open file,
**           not a second descriptor: it is switched on after the open and
**           off again at the first refusal, both by fcntl.  The descriptor
**           stays the same, so requests in flight and other threads don't
**           notice, and which alignment a caller must keep does not depend
**           on the file system that he happens to run on.
** FAILURE   errno, born here; what the caller may not see (EINTR, EAGAIN,
**           ECANCELED, short transfers, EINVAL from O_DIRECT) ends here.
** THREADS   Any.
*/
#include "env_os.h"
#include "env_queue.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static_assert(sizeof(off_t) == 8, "offsets are 64 bits");

/* ---- one request ------------------------------------------------------- */

/* Makes the file buffered.  Idempotent, so threads may race for it. */
static void drop_direct(const struct env_file *file) {
  int flags = fcntl(file->fd, F_GETFL);
  if (flags >= 0)
    (void)fcntl(file->fd, F_SETFL, flags & ~O_DIRECT);
}

static int finish(struct env_io *io, int result) {
  io->result = result;
  return 1;
}

int env__io_begin(struct env_io *io) {
  io->result = 0;
  io->done_bytes = 0;
  /* The ring takes offset -1 as "the file's position": it must not get
  ** there. */
  if (io->offset > (uint64_t)INT64_MAX - io->bytes)
    return finish(io, EINVAL);
  uint64_t all = io->offset | io->bytes | (uint64_t)(uintptr_t)io->buffer;
  if (io->file->aligned && all % ENV__BLOCK_BYTES != 0)
    return finish(io, EINVAL);
  return io->bytes == 0;
}

static int failed(struct env_io *io, int error) {
  switch (error) {
  case EINTR:
  case EAGAIN:
  case ECANCELED: /* the thread that started it in a ring has ended */
    return 0;
  case EINVAL:
    /* The file system took O_DIRECT but not this transfer.  Only the second
    ** EINVAL of a request is the caller's; until delivery, result remembers
    ** the first. */
    if (!io->file->aligned || io->result == EINVAL)
      return finish(io, EINVAL);
    drop_direct(io->file);
    io->result = EINVAL;
    return 0;
  default:
    return finish(io, error);
  }
}

static int at_end_of_file(const struct env_io *io) {
  struct stat st;
  return fstat(io->file->fd, &st) == 0 &&
         (uint64_t)st.st_size <= io->offset + io->done_bytes;
}

static int fill_with_zeros(struct env_io *io) {
  memset((char *)io->buffer + io->done_bytes, 0, env__io_left(io));
  return finish(io, 0);
}

int env__io_advance(struct env_io *io, int64_t outcome) {
  if (outcome < 0)
    return failed(io, (int)-outcome);
  assert(outcome <= env__io_left(io));
  io->done_bytes += (uint32_t)outcome;
  if (io->done_bytes == io->bytes)
    return finish(io, 0);
  if (outcome == 0)
    return io->is_write ? finish(io, EIO) : fill_with_zeros(io);
  if (io->file->aligned && io->done_bytes % ENV__BLOCK_BYTES != 0) {
    /* A direct transfer cannot go on from here.  Nearly always it need not:
    ** the file ends inside a block. */
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

/* A plain call of any size is a row of requests, whose sizes are 32 bits. */
static int transfer(struct env_file *file, void *buffer, size_t bytes,
                    uint64_t offset, int is_write) {
  const size_t piece_bytes_max = (size_t)16 << 20;
  if (bytes > (uint64_t)INT64_MAX || offset > (uint64_t)INT64_MAX - bytes)
    return EINVAL;
  int rc;
  size_t done = 0;
  do {
    size_t piece = bytes - done;
    if (piece > piece_bytes_max)
      piece = piece_bytes_max;
    struct env_io io = {.file = file,
                        .buffer = (char *)buffer + done,
                        .offset = offset + done,
                        .bytes = (uint32_t)piece,
                        .is_write = is_write};
    rc = env__io_run(&io);
    done += piece;
  } while (rc == 0 && done < bytes);
  return rc;
}

/* ---- files ------------------------------------------------------------- */

/* 0 when fd is of a file as it is asked for.  O_NONBLOCK let us in without
** waiting for somebody at the other end; but with it a ring would not wait for
** the disk. */
static int check_kind(int fd, int flags) {
  struct stat st;
  if (flags & O_DIRECTORY)
    return 0;
  if (fstat(fd, &st) != 0)
    return errno;
  if (!S_ISREG(st.st_mode))
    return S_ISDIR(st.st_mode) ? EISDIR : ENOTBLK;
  int now = fcntl(fd, F_GETFL);
  return now < 0 || fcntl(fd, F_SETFL, now & ~O_NONBLOCK) != 0 ? errno : 0;
}

/* open(), but never one of the standard descriptors: where the host has
** closed stderr, its messages would go into our file. */
static int open_fd(const char *path, int flags, int *fd) {
  int got;
  do
    got = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
  while (got < 0 && errno == EINTR);
  if (got < 0)
    return errno == ENXIO ? ENOTBLK : errno; /* a socket */
  int kind = check_kind(got, flags);
  if (kind != 0) {
    (void)close(got);
    return kind;
  }
  if (got <= STDERR_FILENO) {
    int higher = fcntl(got, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int rc = higher < 0 ? errno : 0;
    (void)close(got);
    if (rc != 0)
      return rc;
    got = higher;
  }
  *fd = got;
  return 0;
}

static int file_open(struct env *env, const char *path, int flags,
                     struct env_file **out) {
  /* A link in a store's directory must not lead to anybody else's file. */
  int os_flags = (flags & ENV_WRITE ? O_RDWR : O_RDONLY) | O_NOFOLLOW;
  if (flags & ENV_CREATE)
    os_flags |= O_CREAT;
  if (flags & ENV_EXCLUSIVE)
    os_flags |= O_EXCL;
  struct env_file *file = env__allocate(env, sizeof *file);
  if (file == NULL)
    return ENOMEM;
  int rc = open_fd(path, os_flags, &file->fd);
  if (rc != 0) {
    env__release(env, file);
    return rc;
  }
  if (flags & ENV_DIRECT) {
    /* Not by open(): where it refuses O_DIRECT, it may have created the
    ** file, and a second try with O_EXCL would fail on that. */
    int now = fcntl(file->fd, F_GETFL);
    if (now >= 0)
      (void)fcntl(file->fd, F_SETFL, now | O_DIRECT);
    file->aligned = 1;
  }
  *out = file;
  return 0;
}

static void file_close(struct env *env, struct env_file *file) {
  /* On EINTR Linux has closed it: never again, the number may be another's. */
  (void)close(file->fd);
  env__release(env, file);
}

static int file_read(struct env *env, struct env_file *file, void *buffer,
                     size_t bytes, uint64_t offset) {
  (void)env;
  return transfer(file, buffer, bytes, offset, 0);
}

static int file_write(struct env *env, struct env_file *file,
                      const void *buffer, size_t bytes, uint64_t offset) {
  (void)env;
  return transfer(file, (void *)(uintptr_t)buffer, bytes, offset, 1);
}

static int file_sync(struct env *env, struct env_file *file) {
  (void)env;
  /* EINTR says that the sync has not been done, not that a write failed; it
  ** is the one error after which it may be called again. */
  while (fdatasync(file->fd) != 0)
    if (errno != EINTR)
      return errno;
  return 0;
}

static int file_size(struct env *env, struct env_file *file, uint64_t *bytes) {
  (void)env;
  struct stat st;
  if (fstat(file->fd, &st) != 0)
    return errno;
  *bytes = (uint64_t)st.st_size;
  return 0;
}

static int file_truncate(struct env *env, struct env_file *file,
                         uint64_t bytes) {
  (void)env;
  if (bytes > (uint64_t)INT64_MAX)
    return EINVAL;
  while (ftruncate(file->fd, (off_t)bytes) != 0)
    if (errno != EINTR)
      return errno;
  return 0;
}

static int file_punch(struct env *env, struct env_file *file, uint64_t offset,
                      uint64_t bytes) {
  (void)env;
  if (bytes == 0)
    return 0;
  if (bytes > (uint64_t)INT64_MAX || offset > (uint64_t)INT64_MAX - bytes)
    return EINVAL;
  while (fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                   (off_t)offset, (off_t)bytes) != 0) {
    if (errno == EOPNOTSUPP || errno == ENOSYS)
      return 0;
    if (errno != EINTR)
      return errno;
  }
  return 0;
}

/* ---- names ------------------------------------------------------------- */

static int path_unlink(struct env *env, const char *path) {
  (void)env;
  return unlink(path) != 0 ? errno : 0;
}

static int path_rename(struct env *env, const char *from, const char *to) {
  (void)env;
  return rename(from, to) != 0 ? errno : 0;
}

static int dir_make(struct env *env, const char *path) {
  (void)env;
  return mkdir(path, 0755) != 0 ? errno : 0;
}

static int dir_remove(struct env *env, const char *path) {
  (void)env;
  return rmdir(path) != 0 ? errno : 0;
}

static int dir_sync(struct env *env, const char *path) {
  (void)env;
  int fd;
  int rc = open_fd(path, O_RDONLY | O_DIRECTORY, &fd);
  if (rc != 0)
    return rc;
  while (rc = fsync(fd) != 0 ? errno : 0, rc == EINTR)
    ;
  (void)close(fd);
  /* A file system that keeps its directories in order by itself. */
  return rc == EINVAL ? 0 : rc;
}

static int dir_list(struct env *env, const char *path,
                    void (*each)(void *arg, const char *name), void *arg) {
  (void)env;
  DIR *dir = opendir(path);
  if (dir == NULL)
    return errno;
  int rc;
  for (;;) {
    errno = 0;
    const struct dirent *entry = readdir(dir);
    if (entry == NULL) {
      rc = errno;
      break;
    }
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      each(arg, entry->d_name);
  }
  (void)closedir(dir);
  return rc;
}

static int path_identity(struct env *env, const char *path, uint64_t id[2]) {
  (void)env;
  struct stat st;
  if (stat(path, &st) != 0)
    return errno;
  id[0] = (uint64_t)st.st_dev;
  id[1] = (uint64_t)st.st_ino;
  return 0;
}

/* ---- lock files --------------------------------------------------------
**
** A record lock belongs to the process and the inode.  So a second lock of
** the same file by this process would succeed, and closing any descriptor of
** that file would drop the lock: the caller takes it once per process and
** opens the file in no other way (the registry of stores sees to it). */

struct env_lock {
  int fd;
};

/* 1 when path no longer names the file that we have locked: the owner before
** us has deleted it (emb_destroy) between our open and our lock. */
static int is_deleted(int fd, const char *path) {
  struct stat held, named;
  if (stat(path, &named) != 0)
    return errno == ENOENT;
  return fstat(fd, &held) == 0 &&
         (held.st_dev != named.st_dev || held.st_ino != named.st_ino);
}

static int set_lock(int fd) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  while (fcntl(fd, F_SETLK, &whole) != 0) {
    if (errno == EACCES)
      return EAGAIN; /* POSIX leaves a system the choice of the two */
    if (errno != EINTR)
      return errno;
  }
  return 0;
}

static int lock_take(struct env *env, const char *path, struct env_lock **out) {
  struct env_lock *lock = env__allocate(env, sizeof *lock);
  if (lock == NULL)
    return ENOMEM;
  int rc;
  for (;;) {
    rc = open_fd(path, O_RDWR | O_CREAT | O_NOFOLLOW, &lock->fd);
    if (rc != 0)
      break;
    rc = set_lock(lock->fd);
    if (rc == 0 && !is_deleted(lock->fd, path))
      break;
    (void)close(lock->fd);
    if (rc != 0)
      break;
  }
  if (rc != 0)
    env__release(env, lock);
  else
    *out = lock;
  return rc;
}

static void lock_drop(struct env *env, struct env_lock *lock) {
  (void)close(lock->fd);
  env__release(env, lock);
}

/* ---- queues ------------------------------------------------------------ */

static int queue_open(struct env *env, int kind, unsigned depth,
                      struct env_queue **queue) {
  (void)env;
  if (depth == 0)
    return EINVAL;
  switch (kind) {
  case ENV_QUEUE_URING:
    return env__uring_open(depth, queue);
  case ENV_QUEUE_POOL:
    return env__pool_open(depth, queue);
  default:
    return EINVAL;
  }
}

static void queue_close(struct env *env, struct env_queue *queue) {
  (void)env;
  if (queue->kind == ENV_QUEUE_URING)
    env__uring_close(queue);
  else
    env__pool_close(queue);
}

static int queue_submit(struct env *env, struct env_queue *queue,
                        struct env_io **ios, size_t n) {
  (void)env;
  return queue->kind == ENV_QUEUE_URING ? env__uring_submit(queue, ios, n)
                                        : env__pool_submit(queue, ios, n);
}

static int queue_wait(struct env *env, struct env_queue *queue, size_t min,
                      struct env_io **done, size_t max, size_t *n) {
  (void)env;
  return queue->kind == ENV_QUEUE_URING
             ? env__uring_wait(queue, min, done, max, n)
             : env__pool_wait(queue, min, done, max, n);
}

struct env env_posix = {
    .open = file_open,
    .close = file_close,
    .read = file_read,
    .write = file_write,
    .sync = file_sync,
    .size = file_size,
    .truncate = file_truncate,
    .punch = file_punch,
    .unlink = path_unlink,
    .rename = path_rename,
    .make_dir = dir_make,
    .remove_dir = dir_remove,
    .sync_dir = dir_sync,
    .list_dir = dir_list,
    .identity = path_identity,
    .lock = lock_take,
    .unlock = lock_drop,
    .queue_open = queue_open,
    .queue_close = queue_close,
    .queue_submit = queue_submit,
    .queue_wait = queue_wait,
    .allocate = env__allocate,
    .resize = env__resize,
    .release = env__release,
    .map = env__map,
    .unmap = env__unmap,
    .now_us = env__now_us,
    .wall_s = env__wall_s,
    .sleep_us = env__sleep_us,
    .wait_us = env__wait_us,
    .random = env__random,
    .process = env__process,
    .thread_start = env__thread_start,
    .thread_join = env__thread_join,
};
