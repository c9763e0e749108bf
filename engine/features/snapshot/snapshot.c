/* SPDX-License-Identifier: MIT
**
** snapshot.c -- the snapshots of a store and their files; see snapshot.h.
** snapshot_make.c takes them.
*/
#include "snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/storage/ckpt/manifest.h"

_Static_assert(EMB_SNAPSHOT_NAME_MAX == 64, "name in the head");

int snapshot__check_name(const char *name, emb_err *err) {
  size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz"
                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
  if (n == 0 || n > EMB_SNAPSHOT_NAME_MAX || name[n]) {
    return err_set(err, EMB_RANGE,
                   "a snapshot's name has 1 to %d letters, digits, '_', '-' "
                   "and '.', got '%.80s'",
                   EMB_SNAPSHOT_NAME_MAX, name);
  }
  return EMB_OK;
}

void snapshot__path(char *to, const struct core *core, const char *prefix,
                    const char *name) {
  snprintf(to, PATH_BYTES, "%s/%s%s", core->dir, prefix, name);
}

int snapshot__no_memory(emb_err *err) {
  return err_set(err, EMB_NOMEM, "out of memory");
}

/* ---- one snapshot in memory ---------------------------------------------- */

static int snapshot_needs(const struct retention *hold, uint64_t extent) {
  const struct snapshot *s = (const struct snapshot *)(const void *)hold;
  uint64_t low = 0, high = s->head.extents;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (s->extents[middle][0] < extent) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < s->head.extents && s->extents[low][0] == extent;
}

struct snapshot *snapshot__new(struct core *core, const char *name) {
  struct snapshot *s = core->env->allocate(core->env, sizeof *s);
  if (s) {
    s->retention.needs = snapshot_needs;
    snprintf(s->name, sizeof s->name, "%s", name);
    s->starts =
        core->env->allocate(core->env, (NOTES_PARTS + 1) * sizeof *s->starts);
    if (!s->starts) {
      snapshot__close(core, s);
      s = NULL;
    }
  }
  return s;
}

void snapshot__close(struct core *core, struct snapshot *s) {
  if (s) {
    if (s->file) {
      core->env->close(core->env, s->file);
    }
    core->env->release(core->env, s->starts);
    core->env->release(core->env, (void *)s->extents);
    core->env->release(core->env, s);
  }
}

struct snapshot *snapshot__find(struct snapshots *list, const char *name) {
  for (struct snapshot *s = list->first; s; s = s->next) {
    if (!s->dropped && strcmp(s->name, name) == 0) {
      return s;
    }
  }
  return NULL;
}

/* Under ckpt_lock. */
void snapshot__enlist(struct core *core, struct snapshots *list,
                      struct snapshot *s) {
  emb_check(snapshot_valid(core, s));
  if (!s->damaged) {
    retention_begin(core, &s->retention);
  }
  pthread_mutex_lock(&list->lock);
  s->next = list->first;
  list->first = s;
  pthread_mutex_unlock(&list->lock);
  emb_check(snapshots_valid(core, list));
}

/* ---- dropping ------------------------------------------------------------ */

int snapshot__drop(struct core *core, struct snapshots *list, const char *name,
                   emb_err *err) {
  char path[PATH_BYTES];
  struct env *env = core->env;
  emb_assert(debug_is_locked(&core->ckpt_lock));
  int rc = snapshot__check_name(name, err);
  struct snapshot *s = rc ? NULL : snapshot__find(list, name);
  if (rc || !s) {
    return rc ? rc
              : err_set(err, EMB_RANGE, "%s has no snapshot '%s'", core->dir,
                        name);
  }
  if (!core->temporary) {
    snapshot__path(path, core, SNAPSHOT_PREFIX, name);
    int os = env->unlink(env, path);
    os = os && os != ENOENT ? os : core_sync_names(core);
    if (os) {
      return err_os(err, EMB_IOERR, os, "cannot remove %s", path);
    }
  }
  pthread_mutex_lock(&list->lock);
  s->dropped = 1;
  pthread_mutex_unlock(&list->lock);
  snapshots_reap(core, list);
  return EMB_OK;
}

int snapshots_reap(struct core *core, struct snapshots *list) {
  int some = 0;
  emb_check(snapshots_valid(core, list));
  for (struct snapshot **at = &list->first; *at;) {
    struct snapshot *s = *at;
    pthread_mutex_lock(&list->lock);
    int gone = s->dropped && s->users == 0;
    if (gone) {
      *at = s->next;
    } else {
      at = &s->next;
    }
    pthread_mutex_unlock(&list->lock);
    if (gone) {
      retention_end(core, &s->retention);
      snapshot__close(core, s);
      some = 1;
    }
  }
  return some;
}

void snapshots__free(struct core *core, struct snapshots *list) {
  while (list->first) {
    struct snapshot *s = list->first;
    list->first = s->next;
    retention_end(core, &s->retention);
    snapshot__close(core, s);
  }
}

/* ---- reading ------------------------------------------------------------- */

static int snapshot_damaged(struct core *core, const struct snapshot *s,
                            uint64_t block, emb_err *err) {
  return err_set(err, EMB_CORRUPT,
                 "%s/%s%s: block %llu (offset %llu) is damaged", core->dir,
                 SNAPSHOT_PREFIX, s->name, (unsigned long long)block,
                 (unsigned long long)block * BLOCK_BYTES);
}

/* Reads blocks from `number` on. */
static int snapshot_read_blocks(struct core *core, const struct snapshot *s,
                                uint64_t number, uint32_t n,
                                struct block *blocks, emb_err *err) {
  size_t bytes = (size_t)n * BLOCK_BYTES;
  int os =
      core->env->read(core->env, s->file, blocks, bytes, number * BLOCK_BYTES);
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot read %s/%s%s", core->dir,
                  SNAPSHOT_PREFIX, s->name);
  }
  count_add(&core->counters.read_bytes, bytes);
  return EMB_OK;
}

static int snapshot_check_block(struct core *core, const struct snapshot *s,
                                uint64_t number, uint32_t kind,
                                const struct block *block, emb_err *err) {
  uint64_t salt = core->salt + (number ? s->head.id : 0);
  int valid = number ? blocks_valid(block, salt, number)
                     : block->sum == hash_sum((const char *)block + 8,
                                              BLOCK_BYTES - 8, salt, 0);
  return valid && block->kind == kind ? EMB_OK
                                      : snapshot_damaged(core, s, number, err);
}

static int snapshot_read_block(struct core *core, const struct snapshot *s,
                               uint64_t number, uint32_t kind,
                               struct block *block, emb_err *err) {
  int rc = snapshot_read_blocks(core, s, number, 1, block, err);
  return rc ? rc : snapshot_check_block(core, s, number, kind, block, err);
}

int snapshot__read_entries(struct core *core, const struct snapshot *s,
                           uint64_t number, uint32_t n, struct block *blocks,
                           emb_err *err) {
  int rc = snapshot_read_blocks(core, s, number + 2, n, blocks, err);
  for (uint32_t i = 0; !rc && i < n; i++) {
    uint64_t left = s->head.keys - (number + i) * BLOCK_PAIRS;
    rc = snapshot_check_block(core, s, number + i + 2, BLOCK_ENTRIES,
                              &blocks[i], err);
    if (!rc && blocks[i].count != (left < BLOCK_PAIRS ? left : BLOCK_PAIRS)) {
      rc = snapshot_damaged(core, s, number + i + 2, err);
    }
  }
  return rc;
}

/* Even in a head with a correct checksum the numbers must fit the file: they
** determine how much memory is allocated. */
static int snapshot_read_head(struct core *core, struct snapshot *s,
                              struct block *block, emb_err *err) {
  uint64_t bytes = 0;
  int rc = snapshot_read_block(core, s, 0, BLOCK_HEAD, block, err);
  if (rc) {
    return rc;
  }
  memcpy(&s->head, block->u.bytes, sizeof s->head);
  int os = core->env->size(core->env, s->file, &bytes);
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot read %s/%s%s", core->dir,
                  SNAPSHOT_PREFIX, s->name);
  }
  uint64_t most = bytes / BLOCK_BYTES * BLOCK_PAIRS;
  if (memcmp(s->head.magic, SNAPSHOT_MAGIC, 8) != 0 ||
      strncmp(s->head.name, s->name, sizeof s->head.name) != 0 ||
      s->head.keys > most || s->head.extents > most) {
    s->head.keys = s->head.extents = 0;
    return snapshot_damaged(core, s, 0, err);
  }
  return s->head.format == SNAPSHOT_FORMAT
             ? EMB_OK
             : err_set(err, EMB_CORRUPT, "%s/%s%s is of format %u", core->dir,
                       SNAPSHOT_PREFIX, s->name, s->head.format);
}

static int read_sizes(struct core *core, struct snapshot *s,
                      struct block *block, emb_err *err) {
  int rc = snapshot_read_block(core, s, 1, BLOCK_SIZES, block, err);
  for (uint32_t p = 0; !rc && p < NOTES_PARTS; p++) {
    s->starts[p + 1] = s->starts[p] + block->u.sizes[p];
  }
  if (!rc &&
      (block->count != NOTES_PARTS || s->starts[NOTES_PARTS] != s->head.keys)) {
    rc = snapshot_damaged(core, s, 1, err);
  }
  return rc;
}

/* The extents must ascend, and each must be in the log. */
static int read_extents(struct core *core, struct snapshot *s,
                        struct block *block, emb_err *err) {
  uint64_t n = s->head.extents, number = 2 + snapshot_entry_blocks(s), keys = 0;
  s->extents = core->env->allocate(core->env, (n ? n : 1) * sizeof *s->extents);
  if (!s->extents) {
    return snapshot__no_memory(err);
  }
  for (uint64_t at = 0; at < n; number++) {
    int rc = snapshot_read_block(core, s, number, BLOCK_EXTENTS, block, err);
    if (rc) {
      return rc;
    }
    for (uint32_t i = 0; i < block->count && at < n; i++, at++) {
      uint64_t *extent = s->extents[at];
      memcpy(extent, &block->u.pairs[i * 2], sizeof *s->extents);
      keys += extent[1];
      if (at && extent[0] <= s->extents[at - 1][0]) {
        return snapshot_damaged(core, s, number, err);
      }
    }
    if (block->count == 0) {
      return snapshot_damaged(core, s, number, err);
    }
  }
  return keys == s->head.keys ? EMB_OK
                              : snapshot_damaged(core, s, number - 1, err);
}

int snapshot__open(struct core *core, const char *name, struct snapshot **out,
                   emb_err *err) {
  struct env *env = core->env;
  char path[PATH_BYTES];
  *out = NULL;
  struct snapshot *s = snapshot__new(core, name);
  struct block *block = env->map(env, sizeof *block, 0);
  int rc = s && block ? EMB_OK : snapshot__no_memory(err);
  if (!rc) {
    snapshot__path(path, core, SNAPSHOT_PREFIX, name);
    int os = env->open(env, path, ENV_READ, &s->file);
    rc = os == ENOENT ? err_set(err, EMB_RANGE, "%s has no snapshot '%s'",
                                core->dir, name)
         : os         ? err_os(err, EMB_CANTOPEN, os, "cannot open %s", path)
                      : EMB_OK;
  }
  if (!rc) {
    rc = snapshot_read_head(core, s, block, &s->err);
    rc = rc ? rc : read_sizes(core, s, block, &s->err);
    rc = rc ? rc : read_extents(core, s, block, &s->err);
    if (rc == EMB_CORRUPT) {
      s->damaged = 1;
      s->head.extents = s->extents ? s->head.extents : 0;
      rc = EMB_OK;
    } else if (rc) {
      err_set(err, rc, "%s", s->err.text);
    }
  }
  if (block) {
    env->unmap(env, block, sizeof *block);
  }
  if (rc) {
    snapshot__close(core, s);
  } else {
    *out = s;
  }
  return rc;
}

/* ---- all snapshots ------------------------------------------------------- */

struct snapshot_names {
  void (*each)(void *, const char *);
  void *arg;
};

static void each_file(void *arg, const char *name) {
  const struct snapshot_names *names = arg;
  size_t n = strlen(SNAPSHOT_PREFIX);
  if (strncmp(name, SNAPSHOT_PREFIX, n) == 0 &&
      snapshot__check_name(name + n, NULL) == EMB_OK) {
    names->each(names->arg, name + n);
  }
}

int snapshots__list(struct core *core, void (*each)(void *, const char *name),
                    void *arg, emb_err *err) {
  struct snapshot_names names = {each, arg};
  int os = core->temporary
               ? 0
               : core->env->list_dir(core->env, core->dir, each_file, &names);
  return os ? err_os(err, EMB_IOERR, os, "cannot read %s", core->dir) : EMB_OK;
}

struct snapshot_loading {
  struct core *core;
  struct snapshots *list;
  emb_err *err;
  int rc;
};

/* A missing extent was freed by a process that did not know of the snapshot, or
** never got into the log: its records are lost. */
static void snapshot_check_extents(struct core *core, struct snapshot *s) {
  uint64_t last = atomic_load(&core->log.tail) >> core->layout.extent_bits;
  for (uint64_t i = 0; !s->damaged && i < s->head.extents; i++) {
    uint64_t number = s->extents[i][0];
    if (number < core->log.first || number > last ||
        extent_phys(log_extent(&core->log, number)) == EXTENT_NOWHERE) {
      s->damaged = 1;
      err_set(&s->err, EMB_CORRUPT,
              "%s/%s%s: extent %llu is not in the log any more", core->dir,
              SNAPSHOT_PREFIX, s->name, (unsigned long long)number);
    }
  }
}

static void snapshot_load_one(void *arg, const char *name) {
  struct snapshot_loading *l = arg;
  struct snapshot *s;
  if (l->rc || snapshot__find(l->list, name)) {
    return;
  }
  l->rc = snapshot__open(l->core, name, &s, l->err);
  if (l->rc == EMB_RANGE) { /* it was listed, and only owners drop one */
    char path[PATH_BYTES];
    snapshot__path(path, l->core, SNAPSHOT_PREFIX, name);
    l->rc = err_os(l->err, EMB_CANTOPEN, ENOENT, "cannot open %s", path);
  }
  if (!l->rc) {
    snapshot_check_extents(l->core, s);
    snapshot__enlist(l->core, l->list, s);
  }
}

int snapshots__load(struct core *core, struct snapshots *list, emb_err *err) {
  struct snapshot_loading l = {core, list, err, EMB_OK};
  emb_assert(debug_is_locked(&core->ckpt_lock));
  snapshots__free(core, list); /* from an attempt that failed later */
  int rc = snapshots__list(core, snapshot_load_one, &l, err);
  rc = rc ? rc : l.rc;
  if (rc) {
    snapshots__free(core, list);
  }
  return rc;
}
