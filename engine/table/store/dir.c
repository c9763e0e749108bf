/* SPDX-License-Identifier: MIT
**
** dir.c -- operations on all files that a store's directory may have: loading,
** saving, checking, and removing.
**
** A kind of file is a constant in a file of its feature (kernel/store_file.h)
** and is named in the feature's descriptor (feature.h).
*/
#include "dir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/storage/ckpt/manifest.h"
#include "feature.h"

/* ---- all of them --------------------------------------------------------- */

/* Iterates over all kinds in the order of features.def; begins as zeros. */
struct kind_cursor {
  size_t feature, file;
};

static const struct store_file *kind_next(struct kind_cursor *at) {
  for (; at->feature < FEATURE_COUNT; at->feature++, at->file = 0) {
    const struct store_file *const *files = store_features[at->feature]->files;
    if (files && files[at->file]) {
      return files[at->file++];
    }
  }
  return NULL;
}

static int is_many(const char *pattern) {
  return pattern[strlen(pattern) - 1] == '*';
}

static int pattern_matches(const char *pattern, const char *name) {
  return pattern &&
         (is_many(pattern) ? strncmp(name, pattern, strlen(pattern) - 1) == 0
                           : strcmp(name, pattern) == 0);
}

int dir_load(struct core *core, int recovered, emb_err *err) {
  struct kind_cursor at = {0, 0};
  const struct store_file *f;
  int rc = EMB_OK;
  while (!rc && (f = kind_next(&at))) {
    rc = f->load ? f->load(core, recovered, err) : EMB_OK;
  }
  return rc;
}

int dir_save(struct core *core, struct epoch_slot *slot, emb_err *err) {
  struct kind_cursor at = {0, 0};
  const struct store_file *f;
  int rc = EMB_OK;
  while (!rc && (f = kind_next(&at))) {
    rc = f->save ? f->save(core, slot, err) : EMB_OK;
    if (rc == EMB_FULL) {
      err_clear(err);
      rc = EMB_OK;
    }
  }
  return rc;
}

/* ---- checking ------------------------------------------------------------ */

struct dir_checking {
  struct core *core;
  const struct store_file *file;
  void (*report)(void *, const char *);
  void *arg;
  emb_err *err;
  int rc;
};

static void check_one(void *arg, const char *name) {
  struct dir_checking *c = arg;
  emb_err error = {EMB_OK, ""};
  if (c->rc || !pattern_matches(c->file->name, name) ||
      pattern_matches(c->file->temporary, name)) {
    return;
  }
  int rc = c->file->check(c->core, name, &error);
  if (rc == EMB_CORRUPT) {
    c->report(c->arg, error.text);
  } else if (rc) {
    c->rc = err_set(c->err, rc, "%s", error.text);
  }
}

int dir_check(struct core *core, void (*report)(void *, const char *),
              void *arg, emb_err *err) {
  struct dir_checking c = {core, NULL, report, arg, err, EMB_OK};
  struct kind_cursor at = {0, 0};
  while (!c.rc && !core->temporary && (c.file = kind_next(&at))) {
    if (!c.file->check) {
      continue;
    }
    if (!is_many(c.file->name)) {
      check_one(&c, c.file->name);
      continue;
    }
    int os = core->env->list_dir(core->env, core->dir, check_one, &c);
    if (os) {
      c.rc = err_os(err, EMB_IOERR, os, "cannot list %s", core->dir);
    }
  }
  return c.rc;
}

/* ---- removing ------------------------------------------------------------ */

struct removal {
  struct env *env;
  const char *dir;
  uint64_t index_generation; /* for leftovers */
  int os;
};

/* ENOENT: the file is already gone. */
static int remove_name(struct env *env, const char *dir, const char *name) {
  char path[PATH_BYTES];
  return path_join(path, sizeof path, dir, name, NULL) ? ENAMETOOLONG
                                                       : env->unlink(env, path);
}

static void remove_left(void *arg, const char *name) {
  struct removal *r = arg;
  struct kind_cursor at = {0, 0};
  const struct store_file *f;
  while ((f = kind_next(&at))) {
    if (pattern_matches(f->temporary, name) ||
        (f->is_left && pattern_matches(f->name, name) &&
         f->is_left(name, r->index_generation))) {
      remove_name(r->env, r->dir, name);
      return;
    }
  }
}

void dir_remove_leftovers(struct core *core, uint64_t index_generation) {
  struct removal r = {core->env, core->dir, index_generation, 0};
  core->env->list_dir(core->env, core->dir, remove_left, &r);
}

static void remove_own(void *arg, const char *name) {
  struct removal *r = arg;
  struct kind_cursor at = {0, 0};
  const struct store_file *f;
  while ((f = kind_next(&at))) {
    if (pattern_matches(f->name, name) || pattern_matches(f->temporary, name)) {
      int os = remove_name(r->env, r->dir, name);
      if (os && os != ENOENT && !r->os) {
        r->os = os;
      }
      return;
    }
  }
}

/* The manifest, which makes the directory a store, is renamed first, and the
** new name is removed last: an interrupted removal leaves no store, and the new
** name shows that a log without a manifest has not lost it. */
int dir_remove(struct env *env, const char *dir) {
  char path[PATH_BYTES], gone[PATH_BYTES];
  if (path_join(path, sizeof path, dir, MANIFEST_NAME, NULL) ||
      path_join(gone, sizeof gone, dir, MANIFEST_GONE, NULL)) {
    return ENAMETOOLONG;
  }
  struct env_dir *names = NULL;
  int os = env->open_dir(env, dir, &names);
  if (!os) {
    os = env->rename(env, path, gone);
    os = os == ENOENT ? 0 : os;
  }
  os = os ? os : env->sync_dir(env, names);
  struct removal r = {env, dir, 0, 0};
  if (!os) {
    os = env->list_dir(env, dir, remove_own, &r);
    os = os ? os : r.os;
  }
  os = os ? os : env->sync_dir(env, names);
  if (!os) {
    os = env->unlink(env, gone);
    os = os == ENOENT ? 0 : os;
  }
  if (names) {
    env->close_dir(env, names);
  }
  return os;
}

void dir_remove_copy(struct env *env, const char *dir) {
  struct kind_cursor at = {0, 0};
  const struct store_file *f;
  while ((f = kind_next(&at))) {
    if (f->in_copy) {
      remove_name(env, dir, f->name);
      if (f->temporary) {
        remove_name(env, dir, f->temporary);
      }
    }
  }
}
