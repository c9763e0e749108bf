/* SPDX-License-Identifier: MIT
**
** env_posix.c -- files and directories, and the table env_posix.
**
** ROLE      Called through the table only.
** INVARIANT Direct access is switched on after the open, and off again by the
**           first transfer that the file system refuses (env_io.c).
** FAILURE   errno, from here and env_io.c.
** THREADS   Any.
*/
#include "env_lock.h"
#include "env_os.h"
#include "env_peer.h"
#include "env_queue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

_Static_assert(sizeof(off_t) == 8, "offsets are 64 bits");

/* Splits a plain call of any size into requests, whose sizes have 32 bits. */
static int transfer_all(struct env_file *file, void *buffer, size_t bytes,
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

/* ---- files --------------------------------------------------------------- */

static int file_open(struct env *env, const char *path, int flags,
                     struct env_file **out) {
  /* Links in a store's directory are not followed: they could lead anywhere. */
  int os_flags = (flags & ENV_WRITE ? O_RDWR : O_RDONLY) |
                 (flags & ENV_FOLLOW ? 0 : O_NOFOLLOW);
  if (flags & ENV_CREATE)
    os_flags |= O_CREAT;
  if (flags & ENV_EXCLUSIVE)
    os_flags |= O_EXCL;
  emb_assert(!(flags & ENV_CREATE) || flags & ENV_WRITE);
  emb_assert(!(flags & ENV_EXCLUSIVE) || flags & ENV_CREATE);
  struct env_file *file = env__allocate(env, sizeof *file);
  if (file == NULL)
    return ENOMEM;
  int rc = env__open_fd(path, os_flags, &file->fd);
  if (rc != 0) {
    env__release(env, file);
    return rc;
  }
  if (flags & ENV_DIRECT) {
    /* Not by open(): even if it refuses O_DIRECT, it may have created the file,
    ** and a retry with O_EXCL would fail. */
    int now = fcntl(file->fd, F_GETFL);
    if (now >= 0)
      (void)fcntl(file->fd, F_SETFL, now | O_DIRECT);
    file->aligned = 1;
  }
  *out = file;
  return 0;
}

static void file_close(struct env *env, struct env_file *file) {
  env__lock_disown(&file->owned);
  /* On EINTR, Linux has closed it: a retry might close another file. */
  (void)close(file->fd);
  env__release(env, file);
}

static int file_read(struct env *env, struct env_file *file, void *buffer,
                     size_t bytes, uint64_t offset) {
  (void)env;
  return transfer_all(file, buffer, bytes, offset, 0);
}

static int file_write(struct env *env, struct env_file *file,
                      const void *buffer, size_t bytes, uint64_t offset) {
  (void)env;
  return transfer_all(file, (void *)(uintptr_t)buffer, bytes, offset, 1);
}

static int file_sync(struct env *env, struct env_file *file) {
  (void)env;
  /* EINTR means that the sync was not done, not that a write failed; it is the
  ** only error after which fdatasync may be retried. */
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

static int file_reserve(struct env *env, struct env_file *file, uint64_t offset,
                        uint64_t bytes) {
  (void)env;
  if (bytes == 0)
    return 0;
  if (bytes > (uint64_t)INT64_MAX || offset > (uint64_t)INT64_MAX - bytes)
    return EINVAL;
  while (fallocate(file->fd, 0, (off_t)offset, (off_t)bytes) != 0) {
    if (errno == EOPNOTSUPP || errno == ENOSYS)
      return 0;
    if (errno != EINTR)
      return errno;
  }
  return 0;
}

static int file_room(struct env *env, struct env_file *file, uint64_t *bytes) {
  (void)env;
  struct statvfs system;
  while (fstatvfs(file->fd, &system) != 0)
    if (errno != EINTR)
      return errno;
  *bytes = (uint64_t)system.f_bavail * system.f_frsize;
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

/* ---- names --------------------------------------------------------------- */

static int path_unlink(struct env *env, const char *path) {
  (void)env;
  return unlink(path) != 0 ? errno : 0;
}

static int path_rename(struct env *env, const char *from, const char *to) {
  (void)env;
  return rename(from, to) != 0 ? errno : 0;
}

static int path_link(struct env *env, const char *from, const char *to) {
  (void)env;
  return link(from, to) == 0 ? 0 : errno;
}

static int dir_make(struct env *env, const char *path) {
  (void)env;
  return mkdir(path, 0755) != 0 ? errno : 0;
}

static int env_posix_dir_remove(struct env *env, const char *path) {
  (void)env;
  return rmdir(path) != 0 ? errno : 0;
}

static int dir_open(struct env *env, const char *path, struct env_dir **out) {
  struct env_dir *dir = env__allocate(env, sizeof *dir);
  if (dir == NULL)
    return ENOMEM;
  int rc = env__open_fd(path, O_RDONLY | O_DIRECTORY, &dir->fd);
  if (rc != 0)
    env__release(env, dir);
  else
    *out = dir;
  return rc;
}

static void dir_close(struct env *env, struct env_dir *dir) {
  (void)close(dir->fd);
  env__release(env, dir);
}

static int dir_sync(struct env *env, struct env_dir *dir) {
  (void)env;
  int rc;
  while (rc = fsync(dir->fd) != 0 ? errno : 0, rc == EINTR)
    ;
  /* EINVAL: the file system makes its directories durable by itself. */
  return rc == EINVAL ? 0 : rc;
}

static int file_sync_all(struct env *env, struct env_file *file) {
  (void)env;
  int rc;
  while (rc = syncfs(file->fd) != 0 ? errno : 0, rc == EINTR)
    ;
  return rc;
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

static int file_about(struct env *env, struct env_file *file, const char *path,
                      struct env_about *about) {
  (void)env;
  struct stat st;
  if ((file ? fstat(file->fd, &st) : stat(path, &st)) != 0)
    return errno;
  about->bytes = (uint64_t)st.st_size;
  about->changed_ns =
      (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
  about->status_ns =
      (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
  about->id[0] = (uint64_t)st.st_dev;
  about->id[1] = (uint64_t)st.st_ino;
  about->is_file = S_ISREG(st.st_mode) != 0;
  return 0;
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

/* ---- queues -------------------------------------------------------------- */

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
    .reserve = file_reserve,
    .room = file_room,
    .punch = file_punch,
    .unlink = path_unlink,
    .rename = path_rename,
    .link = path_link,
    .make_dir = dir_make,
    .remove_dir = env_posix_dir_remove,
    .open_dir = dir_open,
    .close_dir = dir_close,
    .sync_dir = dir_sync,
    .sync_all = file_sync_all,
    .list_dir = dir_list,
    .about = file_about,
    .identity = path_identity,
    .lock = env__lock,
    .unlock = env__unlock,
    .lock_settle = env__lock_settle,
    .lock_look = env__lock_look,
    .byte_lock = env__byte_lock,
    .byte_lock_lowest = env__byte_lock_lowest,
    .queue_open = queue_open,
    .queue_close = queue_close,
    .queue_submit = queue_submit,
    .queue_wait = queue_wait,
    .port_open = env__port_open,
    .port_link = env__port_link,
    .port_close = env__port_close,
    .port_accept = env__port_accept,
    .peer_open = env__peer_open,
    .peer_close = env__peer_close,
    .peer_who = env__peer_who,
    .peer_send = env__peer_send,
    .peer_receive = env__peer_receive,
    .peer_gone = env__peer_gone,
    .watch_open = env__watch_open,
    .watch_close = env__watch_close,
    .watch_port = env__watch_port,
    .watch_peer = env__watch_peer,
    .unwatch_peer = env__unwatch_peer,
    .unwatch_port = env__unwatch_port,
    .watch_wait = env__watch_wait,
    .watch_wake = env__watch_wake,
    .shared_make = env__shared_make,
    .shared_fix = env__shared_fix,
    .shared_sent = env__shared_sent,
    .shared_free = env__shared_free,
    .word_wait = env__word_wait,
    .word_wake = env__word_wake,
    .is_remote = env__is_remote,
    .absolute = env__absolute,
    .allocate = env__allocate,
    .resize = env__resize,
    .release = env__release,
    .map = env__map,
    .unmap = env__unmap,
    .use_huge = env__use_huge,
    .populate = env__populate,
    .discard = env__discard,
    .memory_limit = env__memory_limit,
    .now_us = env__now_us,
    .wall_s = env__wall_s,
    .sleep_us = env__sleep_us,
    .wait_us = env__wait_us,
    .random = env__random,
    .process = env__process,
    .user = env__user,
    .thread_start = env__thread_start,
    .thread_join = env__thread_join,
    .processors = env__processors,
    .processor = env__processor,
    .stay_on = env__stay_on,
};
