/* SPDX-License-Identifier: MIT
**
** failing.c -- see failing.h.
*/
#include "failing.h"

#include "stacks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct env_file {
  struct env_file *file; /* of the env below */
  int sync_failed;       /* lock of the failing env */
  char path[256];
};

struct env_dir {
  struct env_dir *dir; /* of the env below */
  char path[256];
};

/* Requests in the order they came, until queue_wait takes one. */
struct env_queue {
  struct env_io **ios;
  size_t count, room;
};

static struct failing *of(struct env *env) {
  return (struct failing *)(void *)env;
}

/* ---- failures ------------------------------------------------------------ */

/* Counts one call; 0, or the errno that it fails with. */
static int strike(struct env *env, enum failing_kind kind, const char *path) {
  struct failing *f = of(env);
  int error = 0;
  pthread_mutex_lock(&f->lock);
  if (f->nth != 0 && (f->kinds & FAILING_BIT(kind)) != 0) {
    f->calls++;
    stacks_note();
    if (f->calls == f->nth || (f->forever && f->calls > f->nth)) {
      error = f->error;
      if (f->fired++ == 0) {
        f->first = kind;
        (void)snprintf(f->first_path, sizeof f->first_path, "%s",
                       path != NULL ? path : "");
      }
    }
  }
  pthread_mutex_unlock(&f->lock);
  return error;
}

static void add(struct failing *f, int64_t *count, int64_t n) {
  pthread_mutex_lock(&f->lock);
  *count += n;
  pthread_mutex_unlock(&f->lock);
}

/* splitmix64 */
static uint64_t draw(struct failing *f, uint64_t below) {
  pthread_mutex_lock(&f->lock);
  uint64_t z = f->random += UINT64_C(0x9e3779b97f4a7c15);
  pthread_mutex_unlock(&f->lock);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (z ^ (z >> 31)) % below;
}

/* ---- files --------------------------------------------------------------- */

static int open_file(struct env *env, const char *path, int flags,
                     struct env_file **out) {
  struct failing *f = of(env);
  int rc = strike(env, FAILING_OPEN, path);
  struct env_file *file = rc ? NULL : calloc(1, sizeof *file);
  if (rc == 0 && file == NULL)
    rc = ENOMEM;
  if (rc == 0)
    rc = f->below->open(f->below, path, flags, &file->file);
  if (rc != 0) {
    free(file);
    return rc;
  }
  (void)snprintf(file->path, sizeof file->path, "%s", path);
  add(f, &f->files, 1);
  *out = file;
  return 0;
}

static void close_file(struct env *env, struct env_file *file) {
  struct failing *f = of(env);
  if (file == NULL)
    return;
  f->below->close(f->below, file->file);
  free(file);
  add(f, &f->files, -1);
}

/* Both kinds of access, from a plain call and from a queue. */
static int transfer(struct env *env, struct env_file *file, void *buffer,
                    size_t bytes, uint64_t offset, int is_write,
                    enum failing_kind kind) {
  struct failing *f = of(env);
  int rc = strike(env, kind, file->path);
  if (rc == 0)
    return is_write
               ? f->below->write(f->below, file->file, buffer, bytes, offset)
               : f->below->read(f->below, file->file, buffer, bytes, offset);
  size_t half = bytes / 2 & ~(size_t)4095;
  if (!is_write)
    memset(buffer, 0xa5, bytes);
  else if (half > 0 && draw(f, 2))
    (void)f->below->write(f->below, file->file, buffer, half, offset);
  return rc;
}

static int read_file(struct env *env, struct env_file *file, void *buffer,
                     size_t bytes, uint64_t offset) {
  return transfer(env, file, buffer, bytes, offset, 0, FAILING_READ);
}

static int write_file(struct env *env, struct env_file *file,
                      const void *buffer, size_t bytes, uint64_t offset) {
  return transfer(env, file, (void *)(uintptr_t)buffer, bytes, offset, 1,
                  FAILING_WRITE);
}

static int sync_file(struct env *env, struct env_file *file) {
  struct failing *f = of(env);
  int rc = strike(env, FAILING_SYNC, file->path);
  pthread_mutex_lock(&f->lock);
  f->sync_calls++;
  f->resyncs += file->sync_failed != 0;
  file->sync_failed |= rc != 0;
  pthread_mutex_unlock(&f->lock);
  return rc ? rc : f->below->sync(f->below, file->file);
}

static int size_of_file(struct env *env, struct env_file *file,
                        uint64_t *bytes) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_SIZE, file->path);
  return rc ? rc : below->size(below, file->file, bytes);
}

static int truncate_file(struct env *env, struct env_file *file,
                         uint64_t bytes) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_TRUNCATE, file->path);
  return rc ? rc : below->truncate(below, file->file, bytes);
}

static int reserve_file(struct env *env, struct env_file *file, uint64_t offset,
                        uint64_t bytes) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_RESERVE, file->path);
  return rc ? rc : below->reserve(below, file->file, offset, bytes);
}

static int room_of_file(struct env *env, struct env_file *file,
                        uint64_t *bytes) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_ROOM, file->path);
  return rc ? rc : below->room(below, file->file, bytes);
}

static int punch_file(struct env *env, struct env_file *file, uint64_t offset,
                      uint64_t bytes) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_PUNCH, file->path);
  return rc ? rc : below->punch(below, file->file, offset, bytes);
}

/* ---- names --------------------------------------------------------------- */

static int unlink_path(struct env *env, const char *path) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_UNLINK, path);
  return rc ? rc : below->unlink(below, path);
}

static int rename_path(struct env *env, const char *from, const char *to) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_RENAME, from);
  return rc ? rc : below->rename(below, from, to);
}

static int link_path(struct env *env, const char *from, const char *to) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_LINK, from);
  return rc ? rc : below->link(below, from, to);
}

static int make_dir(struct env *env, const char *path) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_MAKE_DIR, path);
  return rc ? rc : below->make_dir(below, path);
}

static int remove_dir(struct env *env, const char *path) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_REMOVE_DIR, path);
  return rc ? rc : below->remove_dir(below, path);
}

static int open_dir(struct env *env, const char *path, struct env_dir **out) {
  struct failing *f = of(env);
  int rc = strike(env, FAILING_OPEN_DIR, path);
  struct env_dir *dir = rc ? NULL : calloc(1, sizeof *dir);
  if (rc == 0 && dir == NULL)
    rc = ENOMEM;
  if (rc == 0)
    rc = f->below->open_dir(f->below, path, &dir->dir);
  if (rc != 0) {
    free(dir);
    return rc;
  }
  (void)snprintf(dir->path, sizeof dir->path, "%s", path);
  add(f, &f->files, 1);
  *out = dir;
  return 0;
}

static void close_dir(struct env *env, struct env_dir *dir) {
  struct failing *f = of(env);
  f->below->close_dir(f->below, dir->dir);
  free(dir);
  add(f, &f->files, -1);
}

static int sync_dir(struct env *env, struct env_dir *dir) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_SYNC_DIR, dir->path);
  return rc ? rc : below->sync_dir(below, dir->dir);
}

static int sync_all(struct env *env, struct env_file *file) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_SYNC_DIR, file->path);
  return rc ? rc : below->sync_all(below, file->file);
}

static int list_dir(struct env *env, const char *path,
                    void (*each)(void *arg, const char *name), void *arg) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_LIST_DIR, path);
  return rc ? rc : below->list_dir(below, path, each, arg);
}

static int about_file(struct env *env, struct env_file *file, const char *path,
                      struct env_about *about) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_IDENTITY, file ? file->path : path);
  return rc ? rc
            : below->about(below, file ? file->file : NULL,
                           file ? file->path : path, about);
}

static int identity(struct env *env, const char *path, uint64_t id[2]) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_IDENTITY, path);
  return rc ? rc : below->identity(below, path, id);
}

static int take_lock(struct env *env, const char *path, struct env_lock **out) {
  struct failing *f = of(env);
  int rc = strike(env, FAILING_LOCK, path);
  rc = rc ? rc : f->below->lock(f->below, path, out);
  if (rc == 0)
    add(f, &f->locks, 1);
  return rc;
}

static void give_lock(struct env *env, struct env_lock *held) {
  struct failing *f = of(env);
  f->below->unlock(f->below, held);
  add(f, &f->locks, -1);
}

static void settle_lock(struct env *env, struct env_lock *held,
                        enum env_lock_state state) {
  struct env *below = of(env)->below;
  below->lock_settle(below, held, state);
}

static int look_at_lock(struct env *env, const char *path,
                        enum env_lock_state *state, int64_t *who) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_LOCK, path);
  *state = ENV_LOCK_FREE;
  *who = 0;
  return rc ? rc : below->lock_look(below, path, state, who);
}

static int byte_lock(struct env *env, struct env_file *file, uint64_t at,
                     enum env_byte_lock how) {
  struct env *below = of(env)->below;
  int rc = how ? strike(env, FAILING_LOCK, file->path) : 0;
  return rc ? rc : below->byte_lock(below, file->file, at, how);
}

static int byte_lock_lowest(struct env *env, struct env_file *file,
                            uint64_t under, uint64_t *at) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_LOCK, file->path);
  return rc ? rc : below->byte_lock_lowest(below, file->file, under, at);
}

/* ---- queues -------------------------------------------------------------- */

static int queue_open(struct env *env, int kind, unsigned depth,
                      struct env_queue **out) {
  struct failing *f = of(env);
  int rc = strike(env, FAILING_QUEUE_OPEN, NULL);
  if (rc == 0) {
    *out = calloc(1, sizeof **out);
    rc = *out != NULL ? 0 : ENOMEM;
  }
  if (rc == 0)
    add(f, &f->queues, 1);
  (void)kind, (void)depth;
  return rc;
}

static void carry_out(struct env *env, struct env_io *io) {
  io->result =
      transfer(env, io->file, io->buffer, io->bytes, io->offset, io->is_write,
               io->is_write ? FAILING_QUEUE_WRITE : FAILING_QUEUE_READ);
}

static void queue_close(struct env *env, struct env_queue *queue) {
  struct failing *f = of(env);
  for (size_t i = 0; i < queue->count; i++)
    carry_out(env, queue->ios[i]);
  free((void *)queue->ios);
  free(queue);
  add(f, &f->queues, -1);
}

/* A submission that fails has taken the first half of its requests. */
static int queue_submit(struct env *env, struct env_queue *queue,
                        struct env_io **ios, size_t n) {
  int rc = strike(env, FAILING_QUEUE_SUBMIT, NULL);
  n = rc ? n / 2 : n;
  if (queue->count + n > queue->room) {
    size_t room = (queue->count + n) * 2;
    struct env_io **more =
        realloc((void *)queue->ios, room * sizeof(struct env_io *));
    if (more == NULL)
      return ENOMEM;
    queue->ios = more;
    queue->room = room;
  }
  for (size_t i = 0; i < n; i++)
    queue->ios[queue->count++] = ios[i];
  return rc;
}

static int queue_wait(struct env *env, struct env_queue *queue, size_t min,
                      struct env_io **done, size_t max, size_t *n) {
  struct failing *f = of(env);
  int rc = strike(env, FAILING_QUEUE_WAIT, NULL);
  *n = 0;
  if (rc != 0)
    return rc;
  max = max < queue->count ? max : queue->count;
  min = min < max ? min : max;
  size_t want = min + (size_t)draw(f, max - min + 1);
  while (*n < want) {
    size_t i = (size_t)draw(f, queue->count);
    struct env_io *io = queue->ios[i];
    queue->ios[i] = queue->ios[--queue->count];
    carry_out(env, io);
    done[(*n)++] = io;
  }
  return 0;
}

/* ---- other processes ----------------------------------------------------- */

static int port_open(struct env *env, struct env_dir *dir, const char *name,
                     struct env_port **out) {
  struct failing *f = of(env);
  int rc = strike(env, FAILING_PEER, dir->path);
  rc = rc ? rc : f->below->port_open(f->below, dir->dir, name, out);
  add(f, &f->files, rc == 0);
  return rc;
}

static int port_link(struct env *env, struct env_port *port,
                     struct env_dir *dir, const char *name) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_PEER, dir->path);
  return rc ? rc : below->port_link(below, port, dir->dir, name);
}

static void port_close(struct env *env, struct env_port *port) {
  struct failing *f = of(env);
  f->below->port_close(f->below, port);
  add(f, &f->files, -1);
}

static int port_accept(struct env *env, struct env_port *port,
                       struct env_peer **out) {
  struct failing *f = of(env);
  int rc = f->below->port_accept(f->below, port, out);
  add(f, &f->files, rc == 0);
  return rc;
}

static int peer_open(struct env *env, struct env_dir *dir, const char *name,
                     struct env_peer **out) {
  struct failing *f = of(env);
  int rc = strike(env, FAILING_PEER, dir->path);
  rc = rc ? rc : f->below->peer_open(f->below, dir->dir, name, out);
  add(f, &f->files, rc == 0);
  return rc;
}

static void peer_close(struct env *env, struct env_peer *peer) {
  struct failing *f = of(env);
  f->below->peer_close(f->below, peer);
  add(f, &f->files, -1);
}

static void peer_who(struct env *env, struct env_peer *peer,
                     struct env_who *who) {
  struct env *below = of(env)->below;
  below->peer_who(below, peer, who);
}

static int peer_send(struct env *env, struct env_peer *peer,
                     const struct env_message *message) {
  struct env *below = of(env)->below;
  struct env_message copy = *message;
  for (int i = 0; i < ENV_GIFTS_MAX && copy.gifts[i].kind; i++)
    if (copy.gifts[i].kind == ENV_GIFT_FILE)
      copy.gifts[i].file = copy.gifts[i].file->file;
  return below->peer_send(below, peer, &copy);
}

static int peer_receive(struct env *env, struct env_peer *peer,
                        struct env_message *message, uint64_t us) {
  struct failing *f = of(env);
  int rc = f->below->peer_receive(f->below, peer, message, us);
  for (int i = 0; i < ENV_GIFTS_MAX && rc == 0; i++)
    add(f, &f->blocks, message->gifts[i].shared.base != NULL);
  return rc;
}

static int peer_gone(struct env *env, struct env_peer *peer) {
  struct env *below = of(env)->below;
  return below->peer_gone(below, peer);
}

static int watch_open(struct env *env, struct env_watch **out) {
  struct failing *f = of(env);
  int rc = strike(env, FAILING_PEER, NULL);
  rc = rc ? rc : f->below->watch_open(f->below, out);
  add(f, &f->files, rc == 0);
  return rc;
}

static void watch_close(struct env *env, struct env_watch *watch) {
  struct failing *f = of(env);
  f->below->watch_close(f->below, watch);
  add(f, &f->files, -1);
}

static int watch_port(struct env *env, struct env_watch *watch,
                      struct env_port *port, void *tag) {
  struct env *below = of(env)->below;
  return below->watch_port(below, watch, port, tag);
}

static int watch_peer(struct env *env, struct env_watch *watch,
                      struct env_peer *peer, void *tag) {
  struct env *below = of(env)->below;
  return below->watch_peer(below, watch, peer, tag);
}

static void unwatch_peer(struct env *env, struct env_watch *watch,
                         struct env_peer *peer) {
  struct env *below = of(env)->below;
  below->unwatch_peer(below, watch, peer);
}

static void unwatch_port(struct env *env, struct env_watch *watch,
                         struct env_port *port) {
  struct env *below = of(env)->below;
  below->unwatch_port(below, watch, port);
}

static int watch_wait(struct env *env, struct env_watch *watch, uint64_t us,
                      void **tag, int *what) {
  struct env *below = of(env)->below;
  return below->watch_wait(below, watch, us, tag, what);
}

static void watch_wake(struct env *env, struct env_watch *watch) {
  struct env *below = of(env)->below;
  below->watch_wake(below, watch);
}

static int shared_make(struct env *env, size_t bytes, struct env_shared *out) {
  struct failing *f = of(env);
  int rc = strike(env, FAILING_SHARED, NULL);
  rc = rc ? rc : f->below->shared_make(f->below, bytes, out);
  add(f, &f->blocks, rc == 0);
  return rc;
}

static int shared_fix(struct env *env, struct env_shared *shared) {
  struct env *below = of(env)->below;
  return below->shared_fix(below, shared);
}

static void shared_sent(struct env *env, struct env_shared *shared) {
  struct env *below = of(env)->below;
  below->shared_sent(below, shared);
}

static void shared_free(struct env *env, struct env_shared *shared) {
  struct failing *f = of(env);
  add(f, &f->blocks, -(shared->base != NULL));
  f->below->shared_free(f->below, shared);
}

static void word_wait(struct env *env, _Atomic uint32_t *word, uint32_t is,
                      uint64_t us) {
  struct failing *f = of(env);
  int jumps = f->jump && us != UINT64_MAX;
  if (jumps)
    failing_pass(f, us + f->late_us);
  f->below->word_wait(f->below, word, is, jumps ? 0 : us);
}

static void word_wake(struct env *env, _Atomic uint32_t *word) {
  struct env *below = of(env)->below;
  below->word_wake(below, word);
}

static uint32_t processors(struct env *env) {
  struct env *below = of(env)->below;
  return below->processors(below);
}

static uint32_t processor(struct env *env) {
  struct env *below = of(env)->below;
  return below->processor(below);
}

static int stay_on(struct env *env, uint32_t where) {
  struct env *below = of(env)->below;
  return below->stay_on(below, where);
}

static const char *is_remote(struct env *env, struct env_dir *dir) {
  struct env *below = of(env)->below;
  return below->is_remote(below, dir->dir);
}

static int absolute(struct env *env, const char *path, char *to, size_t size) {
  struct env *below = of(env)->below;
  return below->absolute(below, path, to, size);
}

/* ---- memory -------------------------------------------------------------- */

static void *allocate(struct env *env, size_t bytes) {
  struct failing *f = of(env);
  void *at = strike(env, FAILING_ALLOCATE, NULL)
                 ? NULL
                 : f->below->allocate(f->below, bytes);
  add(f, &f->blocks, at != NULL);
  return at;
}

static void *resize(struct env *env, void *old, size_t bytes) {
  struct failing *f = of(env);
  void *at = strike(env, FAILING_RESIZE, NULL)
                 ? NULL
                 : f->below->resize(f->below, old, bytes);
  add(f, &f->blocks, old == NULL && at != NULL);
  return at;
}

static void release(struct env *env, void *at) {
  struct failing *f = of(env);
  add(f, &f->blocks, -(at != NULL));
  f->below->release(f->below, at);
}

static void *map(struct env *env, size_t bytes, int huge) {
  struct failing *f = of(env);
  void *at = strike(env, FAILING_MAP, NULL)
                 ? NULL
                 : f->below->map(f->below, bytes, huge);
  add(f, &f->blocks, at != NULL);
  return at;
}

static void use_huge(struct env *env, void *start, size_t bytes, int is_used) {
  struct env *below = of(env)->below;
  below->use_huge(below, start, bytes, is_used);
}

static void populate(struct env *env, void *start, size_t bytes) {
  struct env *below = of(env)->below;
  below->populate(below, start, bytes);
}

static void unmap(struct env *env, void *at, size_t bytes) {
  struct failing *f = of(env);
  add(f, &f->blocks, -(at != NULL));
  f->below->unmap(f->below, at, bytes);
}

static void discard(struct env *env, void *at, size_t bytes) {
  struct failing *f = of(env);
  f->below->discard(f->below, at, bytes);
}

static uint64_t memory_limit(struct env *env, const char **whose) {
  struct failing *f = of(env);
  return f->below->memory_limit(f->below, whose);
}

/* ---- time, process ------------------------------------------------------- */

static uint64_t now_us(struct env *env) {
  struct failing *f = of(env);
  uint64_t now = f->still_us ? f->still_us : f->below->now_us(f->below);
  pthread_mutex_lock(&f->lock);
  f->looks++;
  now += (uint64_t)f->skew_us;
  pthread_mutex_unlock(&f->lock);
  return now;
}

static uint32_t wall_s(struct env *env) {
  struct failing *f = of(env);
  uint32_t now = f->still_wall_s ? f->still_wall_s : f->below->wall_s(f->below);
  pthread_mutex_lock(&f->lock);
  now += (uint32_t)(f->skew_us / 1000000);
  pthread_mutex_unlock(&f->lock);
  return now;
}

static void sleep_us(struct env *env, uint64_t us) {
  struct failing *f = of(env);
  if (f->jump)
    failing_pass(f, us + f->late_us);
  else
    f->below->sleep_us(f->below, us);
}

static int wait_us(struct env *env, pthread_cond_t *condition,
                   pthread_mutex_t *mutex, uint64_t us) {
  struct failing *f = of(env);
  if (f->jump && us != UINT64_MAX)
    failing_pass(f, us + f->late_us);
  /* Others get the mutex, even if no time passes. */
  return f->below->wait_us(f->below, condition, mutex, f->jump ? 0 : us);
}

static int random_bytes(struct env *env, void *to, size_t bytes) {
  struct env *below = of(env)->below;
  int rc = strike(env, FAILING_RANDOM, NULL);
  return rc ? rc : below->random(below, to, bytes);
}

static int64_t process(struct env *env) {
  struct env *below = of(env)->below;
  return below->process(below);
}

static int64_t user(struct env *env) {
  struct env *below = of(env)->below;
  return below->user(below);
}

static int thread_start(struct env *env, void (*run)(void *), void *arg,
                        void **thread) {
  struct failing *f = of(env);
  int rc = strike(env, FAILING_THREAD_START, NULL);
  rc = rc ? rc : f->below->thread_start(f->below, run, arg, thread);
  add(f, &f->threads, rc == 0);
  return rc;
}

static void thread_join(struct env *env, void *thread) {
  struct failing *f = of(env);
  f->below->thread_join(f->below, thread);
  add(f, &f->threads, -1);
}

/* ---- its own calls ------------------------------------------------------- */

void failing_init(struct failing *f, struct env *below, uint64_t seed) {
  memset(f, 0, sizeof *f);
  (void)pthread_mutex_init(&f->lock, NULL);
  f->below = below;
  f->random = seed;
  f->env = (struct env){
      .open = open_file,
      .close = close_file,
      .read = read_file,
      .write = write_file,
      .sync = sync_file,
      .size = size_of_file,
      .truncate = truncate_file,
      .reserve = reserve_file,
      .room = room_of_file,
      .punch = punch_file,
      .unlink = unlink_path,
      .rename = rename_path,
      .link = link_path,
      .make_dir = make_dir,
      .remove_dir = remove_dir,
      .open_dir = open_dir,
      .close_dir = close_dir,
      .sync_dir = sync_dir,
      .sync_all = sync_all,
      .list_dir = list_dir,
      .about = about_file,
      .identity = identity,
      .lock = take_lock,
      .unlock = give_lock,
      .lock_settle = settle_lock,
      .lock_look = look_at_lock,
      .byte_lock = byte_lock,
      .byte_lock_lowest = byte_lock_lowest,
      .queue_open = queue_open,
      .queue_close = queue_close,
      .queue_submit = queue_submit,
      .queue_wait = queue_wait,
      .port_open = port_open,
      .port_link = port_link,
      .port_close = port_close,
      .port_accept = port_accept,
      .peer_open = peer_open,
      .peer_close = peer_close,
      .peer_who = peer_who,
      .peer_send = peer_send,
      .peer_receive = peer_receive,
      .peer_gone = peer_gone,
      .watch_open = watch_open,
      .watch_close = watch_close,
      .watch_port = watch_port,
      .watch_peer = watch_peer,
      .unwatch_peer = unwatch_peer,
      .unwatch_port = unwatch_port,
      .watch_wait = watch_wait,
      .watch_wake = watch_wake,
      .shared_make = shared_make,
      .shared_fix = shared_fix,
      .shared_sent = shared_sent,
      .shared_free = shared_free,
      .word_wait = word_wait,
      .word_wake = word_wake,
      .processors = processors,
      .processor = processor,
      .stay_on = stay_on,
      .is_remote = is_remote,
      .absolute = absolute,
      .allocate = allocate,
      .resize = resize,
      .release = release,
      .map = map,
      .unmap = unmap,
      .use_huge = use_huge,
      .populate = populate,
      .discard = discard,
      .memory_limit = memory_limit,
      .now_us = now_us,
      .wall_s = wall_s,
      .sleep_us = sleep_us,
      .wait_us = wait_us,
      .random = random_bytes,
      .process = process,
      .user = user,
      .thread_start = thread_start,
      .thread_join = thread_join,
  };
}

void failing_free(struct failing *f) { (void)pthread_mutex_destroy(&f->lock); }

void failing_arm(struct failing *f, uint32_t kinds, uint64_t n, int forever,
                 int error) {
  pthread_mutex_lock(&f->lock);
  f->kinds = kinds;
  f->nth = n;
  f->forever = forever;
  f->error = error;
  f->calls = f->fired = f->resyncs = 0;
  f->first_path[0] = '\0';
  pthread_mutex_unlock(&f->lock);
}

void failing_disarm(struct failing *f) {
  pthread_mutex_lock(&f->lock);
  f->nth = 0;
  pthread_mutex_unlock(&f->lock);
}

void failing_pass(struct failing *f, uint64_t us) {
  add(f, &f->skew_us, (int64_t)us);
}

int64_t failing_out(struct failing *f) {
  pthread_mutex_lock(&f->lock);
  int64_t out = f->files + f->locks + f->queues + f->threads + f->blocks;
  pthread_mutex_unlock(&f->lock);
  return out;
}

const char *failing_name(enum failing_kind kind) {
  static const char *const names[FAILING_KINDS] = {"open",
                                                   "read",
                                                   "write",
                                                   "sync",
                                                   "size",
                                                   "truncate",
                                                   "reserve",
                                                   "room",
                                                   "punch",
                                                   "unlink",
                                                   "rename",
                                                   "link",
                                                   "make_dir",
                                                   "remove_dir",
                                                   "open_dir",
                                                   "sync_dir",
                                                   "list_dir",
                                                   "identity",
                                                   "lock",
                                                   "queue_open",
                                                   "queue_submit",
                                                   "queue_wait",
                                                   "read of a queue",
                                                   "write of a queue",
                                                   "random",
                                                   "allocate",
                                                   "resize",
                                                   "map",
                                                   "thread_start",
                                                   "port, peer or watch",
                                                   "shared_make"};
  return names[kind];
}
