/* SPDX-License-Identifier: MIT
**
** names.c -- makes the names of a store's files durable.
**
** A store keeps no descriptor of its directory open: with hundreds of tables
** there would be hundreds.  The directory is opened for the sync.  If no
** descriptor is left, the whole file system is synced through the log file
** instead, because a file that already has its name must become durable.
**
** FAILURE   The errno of the sync.
*/
#include "core.h"

#include "engine/base/env/replace.h"

int core_sync_names(struct core *core) {
  struct env *env = core->env;
  struct env_dir *names;
  if (core->temporary) {
    return 0;
  }
  int os = env->open_dir(env, core->dir, &names);
  if (os) {
    return core->log.file ? env->sync_all(env, core->log.file) : os;
  }
  os = env->sync_dir(env, names);
  env->close_dir(env, names);
  return os;
}

int core_replace_name(struct core *core, const char *made, const char *path) {
  int os = replace_name(core->env, made, path, NULL);
  return os ? os : core_sync_names(core);
}
