/* SPDX-License-Identifier: MIT
**
** small.c -- see small.h.
*/
#include "small.h"

#include <errno.h>
#include <stdio.h>

int small_path(const struct core *core, const char *name, char *path,
               emb_err *err) {
  int n = snprintf(path, SMALL_PATH_BYTES, "%s/%s", core->dir, name);
  return n < 0 || n >= SMALL_PATH_BYTES
             ? err_set(err, EMB_CANTOPEN, "path too long: %s", core->dir)
             : EMB_OK;
}

int small_read(struct core *core, const char *name, void *to, size_t bytes,
               int *missing, emb_err *err) {
  struct env *env = core->env;
  struct env_file *file;
  char path[SMALL_PATH_BYTES];
  uint64_t size;
  int rc = small_path(core, name, path, err);
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

static int write_all(struct env *env, const char *path, const void *from,
                     size_t bytes) {
  struct env_file *file;
  int os = env->open(env, path, ENV_WRITE | ENV_CREATE, &file);
  if (os) {
    return os;
  }
  os = env->write(env, file, from, bytes, 0);
  os = os ? os : env->truncate(env, file, bytes);
  os = os || EMB_SEED(90) ? os : env->sync(env, file);
  env->close(env, file);
  return os;
}

int small_write(struct core *core, const char *made, const char *name,
                const void *from, size_t bytes, emb_err *err) {
  struct env *env = core->env;
  char path[SMALL_PATH_BYTES], made_path[SMALL_PATH_BYTES];
  int rc = small_path(core, name, path, err);
  rc = rc ? rc : small_path(core, made, made_path, err);
  if (rc) {
    return rc;
  }
  int os = write_all(env, made_path, from, bytes);
  os = os ? os : env->rename(env, made_path, path);
  if (os) {
    env->unlink(env, made_path);
  }
  os = os ? os : env->sync_dir(env, core->dir);
  return os ? err_os(err, EMB_IOERR, os, "cannot write %s", path) : EMB_OK;
}
