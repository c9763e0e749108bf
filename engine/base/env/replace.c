/* SPDX-License-Identifier: MIT
**
** replace.c -- see replace.h.
*/
#include "replace.h"

#include <stdio.h>

#include "engine/emb.h"

int path_join(char *to, size_t size, const char *dir, const char *name,
              emb_err *err) {
  int n = snprintf(to, size, "%s/%s", dir, name);
  return n < 0 || (size_t)n >= size
             ? err_set(err, EMB_CANTOPEN, "path too long: %s", dir)
             : EMB_OK;
}

int replace_begin(struct env *env, const char *made, int flags,
                  struct env_file **file) {
  env->unlink(env, made);
  return env->open(env, made, ENV_WRITE | ENV_CREATE | ENV_EXCLUSIVE | flags,
                   file);
}

int replace_seal(struct env *env, const char *made, struct env_file *file,
                 int os) {
  if (!os && !EMB_SEED(SEED_REPLACED_FILE_NOT_SYNCED)) {
    os = env->sync(env, file);
  }
  env->close(env, file);
  if (os) {
    env->unlink(env, made);
  }
  return os;
}

int replace_name(struct env *env, const char *made, const char *path,
                 struct env_dir *names) {
  int os = env->rename(env, made, path);
  if (os) {
    env->unlink(env, made);
  }
  return os || !names ? os : env->sync_dir(env, names);
}

int replace_make(struct env *env, const char *made, const void *content,
                 size_t bytes) {
  struct env_file *file;
  int os = replace_begin(env, made, 0, &file);
  return os ? os
            : replace_seal(env, made, file,
                           env->write(env, file, content, bytes, 0));
}

int replace_whole(struct env *env, const char *made, const char *path,
                  struct env_dir *names, const void *content, size_t bytes) {
  int os = replace_make(env, made, content, bytes);
  return os ? os : replace_name(env, made, path, names);
}
