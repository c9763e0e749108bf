/* SPDX-License-Identifier: MIT
**
** small.c -- see small.h.
*/
#include "small.h"

#include <errno.h>

int small__read(struct core *core, const char *name, void *to, size_t bytes,
                int *missing, emb_err *err) {
  struct env *env = core->env;
  struct env_file *file;
  char path[PATH_BYTES];
  uint64_t size;
  int rc = path_join(path, sizeof path, core->dir, name, err);
  if (rc) {
    return rc;
  }
  int os = env->open(env, path, ENV_READ, &file);
  if (missing) {
    *missing = os == ENOENT;
  }
  if (os) {
    return err_os(err, EMB_CANTOPEN, os, "cannot open %s", path);
  }
  os = env->size(env, file, &size);
  if (!os && size == bytes) {
    os = env->read(env, file, to, bytes, 0);
  }
  env->close(env, file);
  return os              ? err_os(err, EMB_IOERR, os, "cannot read %s", path)
         : size != bytes ? err_set(err, EMB_CORRUPT, "%s is damaged", path)
                         : EMB_OK;
}

int small__load(struct core *core, const char *name, size_t unit, size_t most,
                struct small *small, emb_err *err) {
  struct env *env = core->env;
  struct env_file *file;
  char path[PATH_BYTES];
  uint64_t size = 0;
  small->data = NULL;
  int rc = path_join(path, sizeof path, core->dir, name, err);
  if (rc) {
    return rc;
  }
  int os = env->open(env, path, ENV_READ, &file);
  if (os) {
    return err_os(err, EMB_CANTOPEN, os, "cannot open %s", path);
  }
  os = env->size(env, file, &size);
  int fits = size >= unit && size <= most && size % unit == 0;
  small->bytes = (size_t)size;
  small->data = !os && fits ? env->allocate(env, small->bytes) : NULL;
  os = os || !small->data ? os
                          : env->read(env, file, small->data, small->bytes, 0);
  env->close(env, file);
  return os             ? err_os(err, EMB_IOERR, os, "cannot read %s", path)
         : !fits        ? err_set(err, EMB_CORRUPT, "%s is damaged", path)
         : !small->data ? err_set(err, EMB_NOMEM, "out of memory")
                        : EMB_OK;
}

int small__make(struct core *core, const char *made, const void *from,
                size_t bytes, emb_err *err) {
  char path[PATH_BYTES];
  int rc = path_join(path, sizeof path, core->dir, made, err);
  int os = rc ? 0 : replace_make(core->env, path, from, bytes);
  return os ? err_os(err, EMB_IOERR, os, "cannot write %s", path) : rc;
}

void small__drop(struct core *core, const char *made) {
  char path[PATH_BYTES];
  if (path_join(path, sizeof path, core->dir, made, NULL) == EMB_OK) {
    core->env->unlink(core->env, path);
  }
}

int small__name(struct core *core, const char *made, const char *name,
                emb_err *err) {
  char path[PATH_BYTES], made_path[PATH_BYTES];
  int rc = path_join(path, sizeof path, core->dir, name, err);
  rc = rc ? rc : path_join(made_path, sizeof made_path, core->dir, made, err);
  int os = rc ? 0 : core_replace_name(core, made_path, path);
  return os ? err_os(err, EMB_IOERR, os, "cannot write %s", path) : rc;
}

int small__write(struct core *core, const char *made, const char *name,
                 const void *from, size_t bytes, emb_err *err) {
  int rc = small__make(core, made, from, bytes, err);
  return rc ? rc : small__name(core, made, name, err);
}
