/* SPDX-License-Identifier: MIT
**
** reserve.c -- see reserve.h.
*/
#include "reserve.h"

#include <errno.h>
#include <stdio.h>

#include "engine/emb.h"

/* File slots made ready at a time, besides the kept ones: a sixteenth of the
** extents in use, within these bounds. */
#define MORE_MIN 2
#define MORE_MAX 64
/* Space left free on the file system for a commit. */
#define YIELD_BYTES (UINT64_C(256) << 10)

void reserve_index_path(char *to, size_t size, const char *dir,
                        uint64_t generation) {
  snprintf(to, size, "%s/index-%016llx", dir, (unsigned long long)generation);
}

/* The path of the file for the next index, or for the index being written. */
static void next_path(const struct core *core, char *to, size_t size) {
  if (core->index_next) {
    reserve_index_path(to, size, core->dir, core->index_next);
  } else {
    snprintf(to, size, "%s/" RESERVE_SPARE, core->dir);
  }
}

/* ---- the index files ----------------------------------------------------- */

/* Returns the size of an index with n keys; the table of extents grows with the
** log. */
static uint64_t index_bytes_for(struct core *core, uint64_t keys) {
  struct log *log = &core->log;
  pthread_mutex_lock(&log->lock);
  uint64_t last = atomic_load(&log->tail) >> core->layout.extent_bits;
  uint64_t extents = last - log->first + LOG_READY_MAX;
  pthread_mutex_unlock(&log->lock);
  return (3 + keys / RESERVE_ITEMS + extents / RESERVE_ITEMS) * RESERVE_BLOCK;
}

int reserve_open(struct core *core, const char *path, int flags,
                 struct env_file **file) {
  struct env *env = core->env;
  int os = env->open(env, path, flags, file);
  if ((os == ELOOP || os == EISDIR || os == ENOTBLK) &&
      (env->unlink(env, path) == 0 || env->remove_dir(env, path) == 0)) {
    os = env->open(env, path, flags | ENV_CREATE, file);
  }
  return os;
}

/* Opens a file and reserves blocks for it; *was: its length before. */
static int reserve_file(struct core *core, const char *path, int flags,
                        uint64_t bytes, uint64_t *was) {
  struct env *env = core->env;
  struct env_file *file;
  int os = reserve_open(core, path, flags, &file);
  if (!os) {
    os = env->size(env, file, was);
    os = os ? os : env->reserve(env, file, 0, bytes);
    env->close(env, file);
  }
  return os;
}

/* Truncates a file to `bytes` if it is longer than `most`; 1: it was. */
static int cut_file(struct core *core, const char *path, uint64_t bytes,
                    uint64_t most) {
  struct env *env = core->env;
  struct env_file *file;
  uint64_t has = 0;
  int longer = 0;
  if (env->open(env, path, ENV_WRITE, &file) == 0) {
    longer = env->size(env, file, &has) == 0 && has > most;
    if (longer) {
      env->truncate(env, file, bytes);
    }
    env->close(env, file);
  }
  return longer;
}

/* Lengthens both files, or neither; path: the one that failed. */
static int reserve_both(struct core *core, uint64_t bytes, char *path,
                        size_t size) {
  char next[RESERVE_PATH_BYTES];
  uint64_t was[2] = {UINT64_MAX, UINT64_MAX};
  next_path(core, next, sizeof next);
  snprintf(path, size, "%s", next);
  int os = reserve_file(core, next, ENV_WRITE | ENV_CREATE, bytes, &was[0]);
  if (!os && core->index_generation) {
    reserve_index_path(path, size, core->dir, core->index_generation);
    os = reserve_file(core, path, ENV_WRITE, bytes, &was[1]);
  }
  if (os) {
    cut_file(core, next, was[0], was[0]);
  }
  if (os && was[1] != UINT64_MAX) {
    cut_file(core, path, was[1], was[1]);
  }
  return os;
}

static int reserve_index(struct core *core, uint64_t bytes, emb_err *err) {
  char path[RESERVE_PATH_BYTES];
  if (core->temporary || bytes <= core->index_reserved ||
      EMB_SEED(SEED_INDEX_SPACE_NOT_RESERVED)) {
    return EMB_OK;
  }
  uint64_t more = (bytes + bytes / 4) / RESERVE_BLOCK * RESERVE_BLOCK;
  int os = reserve_both(core, more, path, sizeof path);
  if (err_is_full(os) && more > bytes) {
    more = bytes;
    os = reserve_both(core, more, path, sizeof path);
  }
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot lengthen %s", path);
  }
  core->index_reserved = more;
  return EMB_OK;
}

void reserve_begin(struct core *core, uint64_t generation) {
  pthread_mutex_lock(&core->log.file_slot_lock);
  core->index_generation = generation;
  core->index_next = core->index_reserved = 0;
  pthread_mutex_unlock(&core->log.file_slot_lock);
}

static void rename_index(struct core *core, uint64_t from, uint64_t to) {
  struct env *env = core->env;
  char a[RESERVE_PATH_BYTES], b[RESERVE_PATH_BYTES];
  reserve_index_path(a, sizeof a, core->dir, from);
  reserve_index_path(b, sizeof b, core->dir, to);
  snprintf(from ? b : a, sizeof a, "%s/" RESERVE_SPARE, core->dir);
  if (env->rename(env, a, b)) {
    core->index_reserved = 0; /* must be reserved again */
    if (from) {
      env->unlink(env, a);
    }
  }
}

void reserve_index_begin(struct core *core, uint64_t generation) {
  pthread_mutex_lock(&core->log.file_slot_lock);
  rename_index(core, 0, generation);
  core->index_next = generation;
  pthread_mutex_unlock(&core->log.file_slot_lock);
}

void reserve_index_undo(struct core *core, uint64_t generation) {
  pthread_mutex_lock(&core->log.file_slot_lock);
  rename_index(core, generation, 0);
  core->index_next = 0;
  pthread_mutex_unlock(&core->log.file_slot_lock);
}

/* Truncates index files that are too long; `written` is the length of the
** present index.  Keys that it names may have been removed since it was begun,
** so the number of present keys does not tell how much to keep.  The actual
** file sizes are used, since a previous owner that died may have lengthened the
** files. */
static void shorten_index_file(struct core *core, uint64_t written) {
  char path[RESERVE_PATH_BYTES];
  uint64_t need = index_bytes_for(core, index_count(&core->index));
  need =
      need < written && !EMB_SEED(SEED_INDEX_FILE_CUT_SHORT) ? written : need;
  need += need / 4 + 4 * RESERVE_BLOCK;
  next_path(core, path, sizeof path);
  int cut = cut_file(core, path, need, 2 * need);
  reserve_index_path(path, sizeof path, core->dir, core->index_generation);
  cut |= cut_file(core, path, need, 2 * need);
  if (cut && core->index_reserved > need) {
    core->index_reserved = need;
  }
}

void reserve_index_end(struct core *core, uint64_t generation,
                       uint64_t blocks) {
  pthread_mutex_lock(&core->log.file_slot_lock);
  uint64_t before = core->index_generation;
  core->index_generation = generation;
  core->index_next = 0;
  if (before && !EMB_SEED(SEED_OLD_INDEX_NOT_DELETED)) {
    rename_index(core, before, 0);
  }
  shorten_index_file(core, blocks * RESERVE_BLOCK);
  pthread_mutex_unlock(&core->log.file_slot_lock);
}

/* ---- file slots ---------------------------------------------------------- */

static int make_file_slots(struct core *core, emb_err *err) {
  struct log *log = &core->log;
  pthread_mutex_lock(&log->lock);
  uint64_t more = log_extents_used(log) / 16;
  pthread_mutex_unlock(&log->lock);
  more = more < MORE_MIN ? MORE_MIN : more > MORE_MAX ? MORE_MAX : more;
  uint64_t rows = core->layout.slots * (uint64_t)core->layout.extent_pages;
  int rc = EMB_OK, os = 0;
  do {
    /* The keys of the extent being filled may all be new, too. */
    uint64_t keys = index_count(&core->index) + (more + 1) * rows;
    err_clear(err);
    rc = reserve_index(core, index_bytes_for(core, keys), err);
    os = rc ? 0 : log_make_ready(log, (uint32_t)more);
    more /= 2;
  } while (rc == EMB_FULL && more);
  if (rc == EMB_FULL) { /* then at least the kept slots */
    os = log_make_ready(log, 0);
    atomic_store_explicit(&log->full, 1, memory_order_relaxed);
  }
  return os ? err_os(err, EMB_IOERR, os, "cannot lengthen %s/log", core->dir)
            : rc;
}

int reserve_file_slots(struct core *core, int kept, emb_err *err) {
  emb_err first;
  pthread_mutex_lock(&core->log.file_slot_lock);
  int rc = log_has_file_slot(&core->log, kept) ? EMB_OK
                                               : make_file_slots(core, &first);
  if (rc && log_has_file_slot(&core->log, kept)) {
    rc = EMB_OK; /* fewer than asked for, but enough */
  }
  pthread_mutex_unlock(&core->log.file_slot_lock);
  if (rc == EMB_FULL) {
    return err_set(err, rc, "%s; delete rows or free disk space, then continue",
                   first.text);
  }
  return rc ? err_set(err, rc, "%s", first.text) : EMB_OK;
}

void reserve_yield(struct core *core) {
  struct env *env = core->env;
  uint64_t left;
  if (env->room(env, core->log.file, &left) == 0 && left < YIELD_BYTES) {
    log_yield(&core->log);
  }
}
