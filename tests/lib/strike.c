/* SPDX-License-Identifier: MIT
**
** strike.c -- see strike.h.
*/
#include "strike.h"

#include <errno.h>
#include <sqlite3.h>
#include <unistd.h>

static struct { strike_function *engine, *sqlite; } strike;

/* ---- the engine ---------------------------------------------------------- */

static int strike_open(struct env *env, const char *path, int flags,
                       struct env_file **file) {
  int error = strike.engine();
  return error ? error : env_posix.open(env, path, flags, file);
}
static int strike_write(struct env *env, struct env_file *file,
                        const void *from, size_t bytes, uint64_t offset) {
  int error = strike.engine();
  return error ? error : env_posix.write(env, file, from, bytes, offset);
}
static int strike_sync(struct env *env, struct env_file *file) {
  int error = strike.engine();
  return error ? error : env_posix.sync(env, file);
}
static int strike_truncate(struct env *env, struct env_file *file,
                           uint64_t bytes) {
  int error = strike.engine();
  return error ? error : env_posix.truncate(env, file, bytes);
}
static int strike_unlink(struct env *env, const char *path) {
  int error = strike.engine();
  return error ? error : env_posix.unlink(env, path);
}
static int strike_rename(struct env *env, const char *from, const char *to) {
  int error = strike.engine();
  return error ? error : env_posix.rename(env, from, to);
}
static int strike_link(struct env *env, const char *from, const char *to) {
  int error = strike.engine();
  return error ? error : env_posix.link(env, from, to);
}
static int strike_make_dir(struct env *env, const char *path) {
  int error = strike.engine();
  return error ? error : env_posix.make_dir(env, path);
}
static int strike_remove_dir(struct env *env, const char *path) {
  int error = strike.engine();
  return error ? error : env_posix.remove_dir(env, path);
}
static int strike_queue_submit(struct env *env, struct env_queue *queue,
                               struct env_io **ios, size_t n) {
  int error = strike.engine();
  return error ? error : env_posix.queue_submit(env, queue, ios, n);
}

struct env *strike_engine(strike_function *function) {
  static struct env env;
  strike.engine = function;
  env = env_posix;
  env.open = strike_open;
  env.write = strike_write;
  env.sync = strike_sync;
  env.truncate = strike_truncate;
  env.unlink = strike_unlink;
  env.rename = strike_rename;
  env.link = strike_link;
  env.make_dir = strike_make_dir;
  env.remove_dir = strike_remove_dir;
  env.queue_submit = strike_queue_submit;
  return &env;
}

/* ---- SQLite -------------------------------------------------------------- */

static int strikes_sqlite(void) {
  int error = strike.sqlite();
  if (error)
    errno = error;
  return error;
}

static ssize_t strike_pwrite(int fd, const void *from, size_t bytes, off_t at) {
  return strikes_sqlite() ? -1 : pwrite(fd, from, bytes, at);
}
static int strike_cut(int fd, off_t bytes) {
  return strikes_sqlite() ? -1 : ftruncate(fd, bytes);
}
static int strike_remove(const char *path) {
  return strikes_sqlite() ? -1 : unlink(path);
}

/* Replaces a system call of SQLite's VFS, by its name there. */
static void take_call(const char *name, sqlite3_syscall_ptr call) {
  sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
  if (vfs->xGetSystemCall(vfs, name))
    (void)vfs->xSetSystemCall(vfs, name, call);
}

void strike_sqlite(strike_function *function) {
  strike.sqlite = function;
  take_call("pwrite", (sqlite3_syscall_ptr)strike_pwrite);
  take_call("pwrite64", (sqlite3_syscall_ptr)strike_pwrite);
  take_call("ftruncate", (sqlite3_syscall_ptr)strike_cut);
  take_call("unlink", (sqlite3_syscall_ptr)strike_remove);
}
