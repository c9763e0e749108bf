/* SPDX-License-Identifier: MIT
**
** env_alone.c -- see env_alone.h.
*/
#include "env_alone.h"

#include <errno.h>
#include <string.h>

static void alone_lock_settle(struct env *env, struct env_lock *lock,
                              enum env_lock_state state) {
  (void)env, (void)lock, (void)state;
}

static int alone_byte_lock(struct env *env, struct env_file *file, uint64_t at,
                           enum env_byte_lock how) {
  (void)env, (void)file, (void)at, (void)how;
  return 0;
}

static int alone_byte_lock_lowest(struct env *env, struct env_file *file,
                                  uint64_t below, uint64_t *at) {
  (void)env, (void)file, (void)below;
  *at = UINT64_MAX;
  return 0;
}

static int alone_port_open(struct env *env, struct env_dir *dir,
                           const char *name, struct env_port **port) {
  (void)env, (void)dir, (void)name, (void)port;
  return ENOTSUP;
}

static int alone_peer_open(struct env *env, struct env_dir *dir,
                           const char *name, struct env_peer **peer) {
  (void)env, (void)dir, (void)name, (void)peer;
  return ENOTSUP;
}

static const char *alone_is_remote(struct env *env, struct env_dir *dir) {
  (void)env, (void)dir;
  return NULL;
}

/* All paths begin at the root. */
static int alone_absolute(struct env *env, const char *path, char *to,
                          size_t size) {
  size_t n = strlen(path) + 1;
  (void)env;
  if (n > size)
    return ENAMETOOLONG;
  memcpy(to, path, n);
  return 0;
}

void env_without_ports(struct env *env) { env->port_open = alone_port_open; }

void env_alone(struct env *env) {
  env_without_ports(env);
  env->lock_settle = alone_lock_settle;
  env->byte_lock = alone_byte_lock;
  env->byte_lock_lowest = alone_byte_lock_lowest;
  env->peer_open = alone_peer_open;
  env->is_remote = alone_is_remote;
  env->absolute = alone_absolute;
}
