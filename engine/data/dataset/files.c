/* SPDX-License-Identifier: MIT
**
** files.c -- open files of samples, shared by all readers of the process.
**
** A batch of keys may touch a hundred files, and opening a file means reading
** both its ends.  So up to FILES_MAX files stay open; the least recently used
** file is closed first, and a file pinned by a batch is not closed.  An entry
** is a file as surveyed: a file at the same path with another size, time or sum
** would be another entry, and is refused before it becomes one.  When a batch
** takes a file, and again when the batch has been read, the file at the path is
** checked.  Another file, or one whose status has changed, is opened and
** checked again, or is an error.
**
**     take --- found, and fresh ----------------------> pinned --give--> idle
**          --- opened, checked, added ---------------->    |               |
**                                   closed <--- stale -----+--- the oldest +
**                                                               of too many
**
** THREADS  One lock, held only for the list, never while a file is read or
**          opened.  A child after fork() starts with a new lock and an empty
**          list: it does not use its parent's open files.
*/
#include "engine/data/emb_data.h"
#include "samples.h"

#include <stdatomic.h>

#include "engine/base/seed.h"
#include "engine/base/env/env.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#define FILES_MAX 256

struct samples_open {
  struct samples_open *next; /* most recently used first */
  struct env *env;
  struct env_file *file;
  emb_samples_file as;
  struct env_about about; /* as of opening */
  uint32_t pins;
  int direct;
  int stale;   /* no longer the file at its path: not handed out again */
  char path[]; /* as.path */
};

static pthread_mutex_t samples_lock = PTHREAD_MUTEX_INITIALIZER;
static struct samples_open *samples_list;
static size_t samples_count;
static size_t samples_readers;

/* The process that the list belongs to; below 0: it is being reinitialised.
** Acquire, release. */
static _Atomic int64_t samples_process;

static void samples_enter(void) {
  struct env *env = env_default();
  int64_t now = env->process(env), was = atomic_load(&samples_process);
  if (was != now && was != -now &&
      atomic_compare_exchange_strong(&samples_process, &was, -now)) {
    pthread_mutex_init(&samples_lock, NULL);
    samples_list = NULL;
    samples_count = samples_readers = 0;
    atomic_store(&samples_process, now);
  }
  while (atomic_load(&samples_process) != now) {
    sched_yield();
  }
  pthread_mutex_lock(&samples_lock);
}

static void samples_exit(void) { pthread_mutex_unlock(&samples_lock); }

static void samples_close_all(struct samples_open *list) {
  while (list) {
    struct samples_open *open = list;
    list = open->next;
    open->env->close(open->env, open->file);
    open->env->release(open->env, open);
  }
}

/* Removes idle files from the list, the oldest first, until at most `most`
** files are left. */
static struct samples_open *samples_shorten(size_t most) {
  struct samples_open *gone = NULL;
  while (samples_count > most) {
    struct samples_open **oldest = NULL;
    for (struct samples_open **at = &samples_list; *at; at = &(*at)->next) {
      oldest = (*at)->pins == 0 ? at : oldest;
    }
    if (oldest == NULL) {
      break;
    }
    struct samples_open *open = *oldest;
    *oldest = open->next;
    open->next = gone;
    gone = open;
    samples_count--;
  }
  return gone;
}

void samples__come(void) {
  samples_enter();
  samples_readers++;
  samples_exit();
}

void samples__leave(void) {
  struct samples_open *gone = NULL;
  samples_enter();
  /* A reader inherited from the parent process was not counted here. */
  if (samples_readers > 0 && --samples_readers == 0) {
    gone = samples_shorten(0);
  }
  samples_exit();
  samples_close_all(gone);
}

int samples__cannot_open(int os, const char *path, emb_err *err) {
  if (os == ENOENT || os == ENOTDIR) {
    return err_set(err, EMB_CANTOPEN, "file %s does not exist", path);
  }
  if (os == ENOTBLK || os == EISDIR) {
    return err_set(err, EMB_CANTOPEN, "%s is not a regular file", path);
  }
  return err_os(err, EMB_CANTOPEN, os, "cannot open %s", path);
}

int samples__compare(const emb_samples_file *as, const struct env_about *about,
                     emb_err *err) {
  if (about->bytes != as->bytes) {
    return err_set(err, EMB_MISMATCH,
                   "the file %s has changed since it was registered: it has "
                   "%llu bytes, but had %llu",
                   as->path, (unsigned long long)about->bytes,
                   (unsigned long long)as->bytes);
  }
  return about->changed_ns == as->changed_ns
             ? EMB_OK
             : err_set(err, EMB_MISMATCH,
                       "the file %s has changed since it was registered: it "
                       "was written %lld seconds %s",
                       as->path,
                       (long long)((about->changed_ns > as->changed_ns
                                        ? about->changed_ns - as->changed_ns
                                        : as->changed_ns - about->changed_ns) /
                                   1000000000),
                       about->changed_ns > as->changed_ns ? "later"
                                                          : "earlier");
}

int samples__sum(struct env *env, struct env_file *file, uint64_t bytes,
                 uint64_t *sum) {
  uint64_t last = bytes ? (bytes - 1) / SAMPLES_BLOCK_BYTES : 0;
  uint64_t tail = last * SAMPLES_BLOCK_BYTES;
  uint8_t *ends = env->map(env, (size_t)2 * SAMPLES_BLOCK_BYTES, 0);
  if (ends == NULL) {
    return ENOMEM;
  }
  int os = env->read(env, file, ends, SAMPLES_BLOCK_BYTES, 0);
  os = os ? os
          : env->read(env, file, ends + SAMPLES_BLOCK_BYTES,
                      SAMPLES_BLOCK_BYTES, tail);
  /* Reads past the end of the file return zeros. */
  *sum = hash_sum(ends, (size_t)2 * SAMPLES_BLOCK_BYTES, bytes, last);
  env->unmap(env, ends, (size_t)2 * SAMPLES_BLOCK_BYTES);
  return os;
}

static int samples_check_sum(const struct samples_open *open, emb_err *err) {
  uint64_t sum;
  int os = samples__sum(open->env, open->file, open->as.bytes, &sum);
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot read %s", open->path);
  }
  return sum == open->as.sum ? EMB_OK
                             : err_set(err, EMB_MISMATCH,
                                       "the file %s has changed since it was "
                                       "registered: its content differs",
                                       open->path);
}

static int samples_check_open(struct samples_open *open, emb_err *err) {
  struct env *env = open->env;
  int os = env->about(env, open->file, NULL, &open->about);
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot stat %s", open->path);
  }
  int rc = samples__compare(&open->as, &open->about, err);
  return rc ? rc : samples_check_sum(open, err);
}

/* If descriptors run out, closes all idle files and tries again. */
static int samples_open_file(struct samples_open *open) {
  struct env *env = open->env;
  int flags = ENV_READ | ENV_FOLLOW | (open->direct ? ENV_DIRECT : 0);
  int os = env->open(env, open->path, flags, &open->file);
  if (os == EMFILE || os == ENFILE) {
    samples_enter();
    struct samples_open *gone = samples_shorten(0);
    samples_exit();
    samples_close_all(gone);
    os = env->open(env, open->path, flags, &open->file);
  }
  return os;
}

static int samples_open_new(const emb_samples_file *as, int direct,
                            struct samples_open **out, emb_err *err) {
  struct env *env = env_default();
  size_t size = strlen(as->path) + 1;
  struct samples_open *open = env->allocate(env, sizeof *open + size);
  if (open == NULL) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  memcpy(open->path, as->path, size);
  open->env = env;
  open->as = *as;
  open->as.path = open->path;
  open->direct = direct;
  open->pins = 1;
  int os = samples_open_file(open);
  if (os) {
    env->release(env, open);
    return samples__cannot_open(os, as->path, err);
  }
  int rc = samples_check_open(open, err);
  if (rc) {
    env->close(env, open->file);
    env->release(env, open);
    return rc;
  }
  *out = open;
  return EMB_OK;
}

/* Returns the file, pinned and moved to the front; NULL: it is not open. */
static struct samples_open *samples_find(const emb_samples_file *as,
                                         int direct) {
  for (struct samples_open **at = &samples_list; *at; at = &(*at)->next) {
    struct samples_open *open = *at;
    if (open->as.sum == as->sum && open->as.bytes == as->bytes &&
        open->as.changed_ns == as->changed_ns && open->direct == direct &&
        !open->stale && open->env == env_default() &&
        strcmp(open->path, as->path) == 0) {
      *at = open->next;
      open->next = samples_list;
      samples_list = open;
      open->pins++;
      return open;
    }
  }
  return NULL;
}

static void samples_add(struct samples_open *open) {
  samples_enter();
  open->next = samples_list;
  samples_list = open;
  samples_count++;
  struct samples_open *gone = samples_shorten(FILES_MAX);
  samples_exit();
  samples_close_all(gone);
}

/* Is the file at its path still the open one, and untouched? */
static int samples_is_fresh(const struct samples_open *open) {
  struct env_about now;
  if (EMB_SEED(SEED_CHANGED_SAMPLES_READ)) {
    return 1;
  }
  return open->env->about(open->env, NULL, open->path, &now) == 0 &&
         now.bytes == open->about.bytes &&
         now.changed_ns == open->about.changed_ns &&
         now.status_ns == open->about.status_ns &&
         memcmp(now.id, open->about.id, sizeof now.id) == 0;
}

int samples__take(const emb_samples_file *as, int direct,
                  struct samples_open **out, emb_err *err) {
  samples_enter();
  struct samples_open *open = samples_find(as, direct);
  samples_exit();
  if (open && !samples_is_fresh(open)) {
    samples_enter();
    open->stale = 1;
    samples_exit();
    samples__give(open);
    open = NULL;
  }
  if (open == NULL) {
    int rc = samples_open_new(as, direct, &open, err);
    if (rc) {
      return rc;
    }
    samples_add(open);
  }
  *out = open;
  return EMB_OK;
}

/* A stale file is closed with its last pin. */
void samples__give(struct samples_open *open) {
  struct samples_open *gone = NULL;
  samples_enter();
  emb_assert(open->pins > 0);
  open->pins--;
  if (samples_readers == 0) {
    gone = samples_shorten(0);
  } else if (open->stale && open->pins == 0) {
    struct samples_open **at = &samples_list;
    while (*at != open) {
      at = &(*at)->next;
    }
    *at = open->next;
    open->next = NULL;
    samples_count--;
    gone = open;
  }
  samples_exit();
  samples_close_all(gone);
}

struct env_file *samples__file(const struct samples_open *open) {
  return open->file;
}

int samples__same(const struct samples_open *open, emb_err *err) {
  struct env *env = open->env;
  struct env_about about;
  if (samples_is_fresh(open)) {
    return EMB_OK;
  }
  int os = env->about(env, NULL, open->path, &about);
  if (os) {
    return samples__cannot_open(os, open->path, err);
  }
  int rc = samples__compare(&open->as, &about, err);
  if (!rc && memcmp(open->about.id, about.id, sizeof about.id) != 0) {
    rc = err_set(err, EMB_MISMATCH,
                 "the file %s has changed since it was registered: another "
                 "file has its name",
                 open->path);
  }
  return rc ? rc : samples_check_sum(open, err);
}
