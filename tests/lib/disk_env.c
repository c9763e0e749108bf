/* SPDX-License-Identifier: MIT
**
** disk_env.c -- the disk as the engine sees it; contracts in env.h.
**
** Memory and thread locks are the real system's.
*/
#include "disk_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "env_alone.h"

struct env_file {
  uint32_t number;
};

struct env_dir {
  uint32_t number;
};

struct env_lock {
  uint32_t file;
};

static struct disk *disk_of(struct env *env) { return env->context; }

/* The handle of an open file or directory, which is only a number. */
static void *handle(struct env *env, uint32_t number) {
  uint32_t *handle = env->allocate(env, sizeof *handle);
  if (handle != NULL)
    *handle = number;
  return handle;
}

/* ---- files --------------------------------------------------------------- */

static int file_open(struct env *env, const char *path, int flags,
                     struct env_file **out) {
  uint32_t number;
  int rc = disk_open(disk_of(env), path, flags, &number);
  if (rc != 0)
    return rc;
  *out = handle(env, number);
  return *out ? 0 : ENOMEM;
}

static void file_close(struct env *env, struct env_file *file) {
  env->release(env, file);
}

static int file_read(struct env *env, struct env_file *file, void *to,
                     size_t bytes, uint64_t offset) {
  size_t got;
  disk_read(disk_of(env), file->number, to, bytes, offset, &got);
  return 0;
}

static int file_write(struct env *env, struct env_file *file, const void *from,
                      size_t bytes, uint64_t offset) {
  disk_write(disk_of(env), file->number, from, bytes, offset);
  return 0;
}

static int file_sync(struct env *env, struct env_file *file) {
  disk_sync(disk_of(env), file->number);
  return 0;
}

static int file_size(struct env *env, struct env_file *file, uint64_t *bytes) {
  *bytes = disk_size(disk_of(env), file->number);
  return 0;
}

static int file_truncate(struct env *env, struct env_file *file,
                         uint64_t bytes) {
  disk_truncate(disk_of(env), file->number, bytes);
  return 0;
}

/* Space never runs out here, but the file becomes longer. */
static int file_reserve(struct env *env, struct env_file *file, uint64_t offset,
                        uint64_t bytes) {
  struct disk *disk = disk_of(env);
  if (offset + bytes > disk_size(disk, file->number))
    disk_truncate(disk, file->number, offset + bytes);
  return 0;
}

static int file_room(struct env *env, struct env_file *file, uint64_t *bytes) {
  (void)env, (void)file;
  *bytes = UINT64_C(1) << 40;
  return 0;
}

static int file_punch(struct env *env, struct env_file *file, uint64_t offset,
                      uint64_t bytes) {
  disk_punch(disk_of(env), file->number, offset, bytes);
  return 0;
}

/* ---- names --------------------------------------------------------------- */

static int path_unlink(struct env *env, const char *path) {
  return disk_unlink(disk_of(env), path);
}

static int path_rename(struct env *env, const char *from, const char *to) {
  return disk_rename(disk_of(env), from, to);
}

static int dir_make(struct env *env, const char *path) {
  return disk_make_dir(disk_of(env), path);
}

static int dir_remove(struct env *env, const char *path) {
  return disk_remove_dir(disk_of(env), path);
}

static int dir_open(struct env *env, const char *path, struct env_dir **out) {
  uint32_t number;
  int rc = disk_find(disk_of(env), path, &number);
  if (rc == 0 && !disk_is_dir(disk_of(env), number))
    rc = ENOTDIR;
  if (rc != 0)
    return rc;
  *out = handle(env, number);
  return *out ? 0 : ENOMEM;
}

static void dir_close(struct env *env, struct env_dir *dir) {
  env->release(env, dir);
}

static int dir_sync(struct env *env, struct env_dir *dir) {
  disk_sync(disk_of(env), dir->number);
  return 0;
}

static int sync_all(struct env *env, struct env_file *file) {
  (void)file;
  disk_sync_all(disk_of(env));
  return 0;
}

static int dir_list(struct env *env, const char *path,
                    void (*each)(void *arg, const char *name), void *arg) {
  return disk_list(disk_of(env), path, each, arg);
}

static int path_identity(struct env *env, const char *path, uint64_t id[2]) {
  uint32_t number;
  int rc = disk_find(disk_of(env), path, &number);
  /* A device number that no other disk has, and hardly any real device. */
  id[0] = ~disk_of(env)->device;
  id[1] = number;
  return rc;
}

/* Times are not kept. */
static int file_about(struct env *env, struct env_file *file, const char *path,
                      struct env_about *about) {
  uint32_t number;
  int rc = file ? 0 : disk_find(disk_of(env), path, &number);
  if (rc != 0)
    return rc;
  number = file ? file->number : number;
  *about = (struct env_about){.id = {~disk_of(env)->device, number},
                              .is_file = !disk_is_dir(disk_of(env), number)};
  return about->is_file
             ? file_size(env, &(struct env_file){number}, &about->bytes)
             : 0;
}

static int lock_take(struct env *env, const char *path, struct env_lock **out) {
  struct disk *disk = disk_of(env);
  uint32_t number;
  int rc = disk_open(disk, path, ENV_WRITE | ENV_CREATE, &number);
  if (rc != 0)
    return rc;
  if (disk->inodes[number].locked)
    return EAGAIN;
  *out = env->allocate(env, sizeof **out);
  if (*out == NULL)
    return ENOMEM;
  (*out)->file = number;
  disk->inodes[number].locked = 1;
  return 0;
}

static void lock_drop(struct env *env, struct env_lock *lock) {
  disk_of(env)->inodes[lock->file].locked = 0;
  env->release(env, lock);
}

/* Held by this process, or by none. */
static int lock_look(struct env *env, const char *path,
                     enum env_lock_state *state, int64_t *process) {
  uint32_t number;
  int rc = disk_find(disk_of(env), path, &number);
  int is_held = rc == 0 && disk_of(env)->inodes[number].locked;
  *state = is_held ? ENV_LOCK_ALONE : ENV_LOCK_FREE;
  *process = is_held ? env->process(env) : 0;
  return rc == ENOENT ? 0 : rc;
}

/* ---- queues ---------------------------------------------------------------
**
** done_bytes of a request says how much of it was carried out; the request is
** finished when all of it was. */

struct env_queue {
  struct disk *disk;
  struct env_io **list;
  size_t count, room;
};

static int queue_open(struct env *env, int kind, unsigned depth,
                      struct env_queue **out) {
  (void)kind;
  if (depth == 0)
    return EINVAL;
  *out = env->allocate(env, sizeof **out);
  if (*out == NULL)
    return ENOMEM;
  (*out)->disk = disk_of(env);
  return 0;
}

static void carry_out(struct disk *disk, struct env_io *io, uint32_t upto) {
  uint32_t bytes = upto - io->done_bytes;
  char *at = (char *)io->buffer + io->done_bytes;
  uint64_t offset = io->offset + io->done_bytes;
  size_t got;
  if (io->is_write)
    disk_write(disk, io->file->number, at, bytes, offset);
  else
    disk_read(disk, io->file->number, at, bytes, offset, &got);
  io->done_bytes = upto;
}

/* Carries out all of a request, its first half, or nothing yet. */
static void begin(struct disk *disk, struct env_io *io) {
  uint64_t fate = disk_random(disk) % 8;
  uint32_t half = io->bytes / 2 & ~(uint32_t)511;
  io->result = 0;
  io->done_bytes = 0;
  if (fate < 4)
    carry_out(disk, io, fate == 0 ? half : io->bytes);
}

static int queue_submit(struct env *env, struct env_queue *queue,
                        struct env_io **ios, size_t n) {
  if (queue->count + n > queue->room) {
    size_t room = (queue->count + n) * 2;
    void *larger = env->resize(env, queue->list, room * sizeof *queue->list);
    if (larger == NULL)
      return ENOMEM;
    queue->list = larger;
    queue->room = room;
  }
  size_t first = queue->count;
  memcpy(queue->list + first, ios, n * sizeof *ios);
  queue->count += n;
  for (size_t i = 0; i < n; i++) { /* in any order */
    size_t j = first + i + disk_random(queue->disk) % (n - i);
    struct env_io *io = queue->list[j];
    queue->list[j] = queue->list[first + i];
    queue->list[first + i] = io;
    begin(queue->disk, io);
  }
  return 0;
}

static int queue_wait(struct env *env, struct env_queue *queue, size_t min,
                      struct env_io **done, size_t max, size_t *n) {
  struct disk *disk = queue->disk;
  (void)env;
  *n = 0;
  while (queue->count && *n < max && (*n < min || disk_random(disk) % 2)) {
    size_t i = disk_random(disk) % queue->count;
    struct env_io *io = queue->list[i];
    queue->list[i] = queue->list[--queue->count];
    carry_out(disk, io, io->bytes);
    done[(*n)++] = io;
  }
  return 0;
}

static void queue_close(struct env *env, struct env_queue *queue) {
  for (size_t i = 0; i < queue->count; i++)
    carry_out(queue->disk, queue->list[i], queue->list[i]->bytes);
  env->release(env, queue->list);
  env->release(env, queue);
}

/* ---- time, randomness, threads ------------------------------------------- */

static uint64_t now_us(struct env *env) { return disk_of(env)->clock_us; }

static uint32_t wall_s(struct env *env) {
  return UINT32_C(1700000000) + (uint32_t)(disk_of(env)->clock_us / 1000000);
}

static void sleep_us(struct env *env, uint64_t us) {
  disk_of(env)->clock_us += us;
}

/* There is only one thread: no other can end the wait. */
static int wait_us(struct env *env, pthread_cond_t *condition,
                   pthread_mutex_t *mutex, uint64_t us) {
  (void)condition, (void)mutex;
  disk_of(env)->clock_us += us;
  return 1;
}

static void word_wait(struct env *env, _Atomic uint32_t *word, uint32_t is,
                      uint64_t us) {
  (void)word, (void)is;
  disk_of(env)->clock_us += us != UINT64_MAX ? us : 0;
}

static int random_bytes(struct env *env, void *to, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    ((uint8_t *)to)[i] = (uint8_t)disk_random(disk_of(env));
  return 0;
}

static int thread_start(struct env *env, void (*run)(void *), void *arg,
                        void **thread) {
  (void)env, (void)run, (void)arg;
  static int never;
  *thread = &never;
  return 0;
}

static void thread_join(struct env *env, void *thread) {
  (void)env, (void)thread;
}

void disk_no_threads(struct env *env) {
  env_without_ports(env); /* a server needs a running thread */
  env->thread_start = thread_start;
  env->thread_join = thread_join;
}

/* ---- memory ----------------------------------------------------------------
**
** Thousands of stores are opened one after another.  Each gets the memory
** that the previous one gave back, because clearing pages takes less time
** than getting fresh ones from the system. */

enum { SPARE = 64 };
static struct {
  void *at;
  size_t bytes;
} spare[SPARE];

static void *map(struct env *env, size_t bytes, int huge) {
  for (int i = 0; i < SPARE; i++)
    if (spare[i].at && spare[i].bytes == bytes) {
      void *at = spare[i].at;
      spare[i].at = NULL;
      return memset(at, 0, bytes);
    }
  return env_posix.map(env, bytes, huge);
}

static void unmap(struct env *env, void *at, size_t bytes) {
  for (int i = 0; i < SPARE; i++)
    if (spare[i].at == NULL) {
      spare[i].at = at;
      spare[i].bytes = bytes;
      return;
    }
  env_posix.unmap(env, at, bytes);
}

void disk__env_init(struct disk *disk) {
  disk->env = env_posix;
  disk->env.context = disk;
  disk->env.open = file_open;
  disk->env.close = file_close;
  disk->env.read = file_read;
  disk->env.write = file_write;
  disk->env.sync = file_sync;
  disk->env.size = file_size;
  disk->env.truncate = file_truncate;
  disk->env.reserve = file_reserve;
  disk->env.room = file_room;
  disk->env.punch = file_punch;
  disk->env.unlink = path_unlink;
  disk->env.rename = path_rename;
  disk->env.make_dir = dir_make;
  disk->env.remove_dir = dir_remove;
  disk->env.open_dir = dir_open;
  disk->env.close_dir = dir_close;
  disk->env.sync_dir = dir_sync;
  disk->env.sync_all = sync_all;
  disk->env.list_dir = dir_list;
  disk->env.about = file_about;
  disk->env.identity = path_identity;
  disk->env.lock = lock_take;
  disk->env.unlock = lock_drop;
  env_alone(&disk->env);
  disk->env.lock_look = lock_look;
  disk->env.queue_open = queue_open;
  disk->env.queue_close = queue_close;
  disk->env.queue_submit = queue_submit;
  disk->env.queue_wait = queue_wait;
  disk->env.now_us = now_us;
  disk->env.wall_s = wall_s;
  disk->env.sleep_us = sleep_us;
  disk->env.wait_us = wait_us;
  disk->env.word_wait = word_wait;
  disk->env.random = random_bytes;
  disk->env.map = map;
  disk->env.unmap = unmap;
  disk_no_threads(&disk->env);
}

struct env *disk_env(struct disk *disk) {
  return &disk->env;
}
