/* SPDX-License-Identifier: MIT
**
** sink.c -- see sink.h.
*/
#include "sink.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/debug.h"
#include "pack.h"

#define UNIT 4096u

/* A power failure while a pack was written may leave only zeros. */
static int is_nothing(const char *bytes, size_t n) {
  while (n && !*bytes) {
    bytes++;
    n--;
  }
  return n == 0;
}

/* May the file be replaced?  It must be absent, empty or a pack; with cut_off
** it may also be an incomplete pack. */
static int check_replaced(struct env *env, const char *path, int cut_off,
                          emb_err *err) {
  struct env_file *file;
  uint64_t bytes = 0;
  char magic[512] = {0}; /* a sector: written as a whole or not at all */
  int os = env->open(env, path, ENV_READ, &file);
  if (os == ENOENT) {
    return EMB_OK;
  }
  if (!os) {
    os = env->size(env, file, &bytes);
    size_t n = bytes < sizeof magic ? (size_t)bytes : sizeof magic;
    os = os || !n ? os : env->read(env, file, magic, n, 0);
    env->close(env, file);
  }
  if (os) {
    return err_os(err, EMB_CANTOPEN, os, "cannot replace %s", path);
  }
  return bytes && memcmp(magic + 8, PACK_MAGIC, 8) != 0 &&
                 !(cut_off && is_nothing(magic, sizeof magic))
             ? err_set(err, EMB_CANTOPEN,
                       "%s exists and is not an emb file; it is not replaced",
                       path)
             : EMB_OK;
}

static int open_dir(struct sink *s, emb_err *err) {
  char *slash = strrchr(s->path, '/');
  char *end = slash ? slash + (slash == s->path) : NULL;
  char kept = end ? *end : 0;
  if (end) {
    *end = 0;
  }
  int os = s->env->open_dir(s->env, slash ? s->path : ".", &s->dir);
  if (end) {
    *end = kept;
  }
  return os ? err_os(err, EMB_CANTOPEN, os, "cannot open the directory of %s",
                     s->path)
            : EMB_OK;
}

/* Makes a name in the path's directory that no other writer uses.  own:
** PACK_PATH_BYTES. */
static int own_name(const struct sink *s, char *own) {
  uint64_t name;
  const char *slash = strrchr(s->path, '/');
  int os = s->env->random(s->env, &name, sizeof name);
  snprintf(own, PACK_PATH_BYTES, "%.*semb-%016llx",
           slash ? (int)(slash - s->path + 1) : 0, s->path,
           (unsigned long long)name);
  return os;
}

/* Creates the file under a unique name, so that the identity read is that of
** this file, then renames it over any incomplete one. */
static int sink_create(struct sink *s, emb_err *err) {
  struct env *env = s->env;
  char own[PACK_PATH_BYTES];
  int rc = check_replaced(env, s->path, 0, err);
  rc = rc ? rc : check_replaced(env, s->new_path, 1, err);
  rc = rc ? rc : open_dir(s, err);
  if (rc) {
    return rc;
  }
  int os = own_name(s, own);
  os = os ? os
          : env->open(env, own,
                      ENV_WRITE | ENV_CREATE | ENV_EXCLUSIVE | ENV_DIRECT,
                      &s->file);
  if (!os) {
    os = env->identity(env, own, s->identity);
    os = os ? os : env->rename(env, own, s->new_path);
    s->created = !os;
    if (os) {
      env->unlink(env, own);
    }
  }
  return os ? err_os(err, EMB_CANTOPEN, os, "cannot create %s", s->new_path)
            : EMB_OK;
}

int sink__open(struct sink *s, struct env *env, const char *path, size_t room,
               emb_err *err) {
  size_t n = strlen(path);
  if (n + 32 > PACK_PATH_BYTES) {
    return err_set(err, EMB_RANGE, "a path has at most %d bytes",
                   PACK_PATH_BYTES - 32);
  }
  s->env = env;
  s->buffer_bytes = SINK_BYTES + UNIT + room;
  s->path = env->allocate(env, (n + 8) * 2);
  s->buffers[0] = env->map(env, s->buffer_bytes, 0);
  if (!s->path || !s->buffers[0]) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  memcpy(s->path, path, n + 1);
  s->new_path = s->path + n + 1;
  snprintf(s->new_path, n + 8, "%s-new", path);
  return sink_create(s, err);
}

void sink__queue(struct sink *s, int kind) {
  struct env *env = s->env;
  emb_assert(!s->buffers[1] && !s->queue);
  s->buffers[1] = env->map(env, s->buffer_bytes, 0);
  if (s->buffers[1] && env->queue_open(env, kind, 1, &s->queue)) {
    s->queue = NULL;
  }
}

/* ---- writing ------------------------------------------------------------- */

/* Waits for the write in flight. */
static int sink_wait(struct sink *s) {
  struct env_io *done;
  size_t n = 0;
  if (!s->in_flight) {
    return 0;
  }
  int os = s->env->queue_wait(s->env, s->queue, 1, &done, 1, &n);
  s->in_flight = os && n == 0; /* closing the queue waits for it */
  return os ? os : s->io.result;
}

/* Writes `bytes` bytes of the buffer, and switches to the other buffer. */
static int sink_submit(struct sink *s, size_t bytes) {
  struct env_io *list = &s->io;
  int os = sink_wait(s);
  if (os) {
    return os;
  }
  s->io = (struct env_io){.file = s->file,
                          .buffer = s->buffers[s->now],
                          .offset = s->written,
                          .bytes = (uint32_t)bytes,
                          .is_write = 1};
  os = s->env->queue_submit(s->env, s->queue, &list, 1);
  if (!os) {
    s->in_flight = 1;
    s->now ^= 1;
  }
  return os;
}

/* Writes whole units; all: also the last one, padded with zeros. */
static int sink_drain(struct sink *s, int all, emb_err *err) {
  char *from = s->buffers[s->now];
  size_t bytes = s->filled / UNIT * UNIT, rest = s->filled - bytes;
  if (all && rest) {
    memset(from + s->filled, 0, UNIT - rest);
    bytes += UNIT;
    rest = 0;
  }
  int os = s->queue ? sink_submit(s, bytes)
                    : s->env->write(s->env, s->file, from, bytes, s->written);
  os = os || !all ? os : sink_wait(s);
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot write %s", s->new_path);
  }
  memmove(s->buffers[s->now], from + bytes, rest);
  s->written += bytes;
  s->filled = rest;
  return EMB_OK;
}

int sink__add(struct sink *s, size_t bytes, emb_err *err) {
  s->filled += bytes;
  return s->filled >= SINK_BYTES ? sink_drain(s, 0, err) : EMB_OK;
}

/* ---- the end ------------------------------------------------------------- */

/* Is the file still the one created here? */
static int is_ours(struct sink *s) {
  uint64_t id[2];
  return s->created && s->env->identity(s->env, s->new_path, id) == 0 &&
         id[0] == s->identity[0] && id[1] == s->identity[1];
}

/* Another writer to the same path may put its own file under the same `-new`
** name at any time.  So the file there is first renamed to a name that no other
** writer uses; then it cannot be swapped between the check and the final
** rename.  ENOENT: it was another writer's file.  own: PACK_PATH_BYTES. */
static int take_away(struct sink *s, char *own) {
  struct env *env = s->env;
  uint64_t id[2];
  int os = own_name(s, own);
  os = os ? os : env->rename(env, s->new_path, own);
  if (os) {
    return os;
  }
  os = env->identity(env, own, id);
  if (!os && (id[0] != s->identity[0] || id[1] != s->identity[1]) &&
      !EMB_SEED(SEED_UNFINISHED_FILE_NAMED)) {
    os = ENOENT;
  }
  if (os) {
    env->rename(env, own, s->new_path); /* else its writer fails, too */
  }
  return os;
}

int sink__give_name(struct sink *s, emb_err *err) {
  struct env *env = s->env;
  char own[PACK_PATH_BYTES];
  emb_assert(s->created && !s->in_flight && !s->filled);
  int os = take_away(s, own);
  if (os == ENOENT) {
    return err_set(err, EMB_BUSY, "another thread or process is writing %s",
                   s->path);
  }
  if (!os) {
    os = env->rename(env, own, s->path);
    if (os) {
      env->unlink(env, own);
    }
  }
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot write %s", s->path);
  }
  s->created = 0;
  os = env->sync_dir(env, s->dir);
  return os ? err_os(err, EMB_IOERR, os, "cannot sync the directory of %s",
                     s->path)
            : EMB_OK;
}

int sink__finish(struct sink *s, emb_err *err) {
  uint64_t bytes = sink_offset(s);
  int rc = sink_drain(s, 1, err);
  if (rc) {
    return rc;
  }
  int os = s->env->truncate(s->env, s->file, bytes);
  os = os || EMB_SEED(SEED_EXPORT_NOT_SYNCED) ? os
                                              : s->env->sync(s->env, s->file);
  return os ? err_os(err, EMB_IOERR, os, "cannot write %s", s->new_path)
            : EMB_OK;
}

void sink__close(struct sink *s) {
  struct env *env = s->env;
  if (s->queue) {
    env->queue_close(env, s->queue);
  }
  if (!EMB_SEED(SEED_UNFINISHED_FILE_KEPT) && is_ours(s)) {
    env->unlink(env, s->new_path);
  }
  if (s->file) {
    env->close(env, s->file);
  }
  if (s->dir) {
    env->close_dir(env, s->dir);
  }
  for (int i = 0; i < 2; i++) {
    if (s->buffers[i]) {
      env->unmap(env, s->buffers[i], s->buffer_bytes);
    }
  }
  env->release(env, s->path);
}
