/* SPDX-License-Identifier: MIT
**
** remote.c -- snapshots, deltas and backups that a session has open at the
** owner's: see remote.h.
*/
#include "remote.h"

void *remote__open(emb_session *s, int call, const union word *w, size_t bytes,
                   int *rc) {
  uint64_t result;
  struct env *env = s->core->env;
  *rc = session_begin(s);
  struct remote *remote = *rc ? NULL : env->allocate(env, bytes);
  if (!remote) {
    *rc = *rc ? *rc : session_error(s, EMB_NOMEM, "out of memory");
    return NULL;
  }
  *rc = link__ask(s, call, 0, w, &result);
  *rc = *rc ? *rc : (int)(uint32_t)result;
  if (*rc) {
    env->release(env, remote);
    return NULL;
  }
  *remote = (struct remote){s->link, s, result >> 32, s->link->serial};
  return remote;
}

/* What ends with its owner. */
static void *open_counted(emb_session *s, int call, const union word *w,
                          int *rc) {
  void *remote = remote__open(s, call, w, sizeof(struct remote), rc);
  if (remote) {
    s->link->objects++;
  }
  return remote;
}

int remote__is_there(const struct remote *remote) {
  return remote->s->link && remote->s->link->serial == remote->serial;
}

int remote__has_gone(const struct remote *remote) {
  return session_error(remote->s, EMB_ABORT,
                       "the process that owned %s has gone, and with it what "
                       "was open there: open it again",
                       remote->s->core->dir);
}

static int remote_ask(const void *object, int call, const union word *w,
                      uint64_t *result) {
  const struct remote *remote = object;
  emb_session *s = remote->s;
  *result = 0;
  int rc = session_begin(s);
  if (!rc && !remote__is_there(remote)) {
    return remote__has_gone(remote);
  }
  rc = rc ? rc : link__ask(s, call, remote->number, w, result);
  /* It cannot be opened anew by itself. */
  return rc == CALL_ELSEWHERE
             ? session_error(s, EMB_ABORT,
                             "the process that owned %s has closed it: open "
                             "it again",
                             s->core->dir)
             : rc;
}

int remote__ask_code(const void *object, int call, const union word *w) {
  uint64_t result;
  int rc = remote_ask(object, call, w, &result);
  return rc ? rc : (int)(uint32_t)result;
}

void remote__close(struct remote *remote, int call) {
  struct env *env = remote->s->core->env;
  uint64_t result;
  if (remote__is_there(remote)) {
    emb_err err = remote->s->err; /* what the user is to read */
    (void)link__ask(remote->s, call, remote->number, NULL, &result);
    remote->s->err = err;
  }
  env->release(env, remote);
}

static void close_counted(void *object, int call) {
  struct remote *remote = object;
  if (!remote) {
    return;
  }
  if (remote__is_there(remote) && remote->s->link->objects) {
    remote->s->link->objects--;
  }
  remote__close(remote, call);
}

int served_snapshot_open(emb_session *session, const char *name,
                         emb_snap **snap) {
  const union word w[REQUEST_ARGS] = {{.c = name}};
  int rc;
  *snap = open_counted(session, CALL_snapshot_open, w, &rc);
  return rc;
}

void served_snapshot_close(emb_snap *snap) {
  close_counted(snap, CALL_snapshot_close);
}

int64_t served_snapshot_count(const emb_snap *snap) {
  uint64_t result;
  return remote_ask(snap, CALL_snapshot_count, NULL, &result) ? 0
                                                              : (int64_t)result;
}

int served_snapshot_get(emb_snap *snap, const int64_t *keys, size_t n,
                        float *vectors, uint8_t *found, uint64_t *versions) {
  const union word w[REQUEST_ARGS] = {
      {.c = keys}, {.u = n}, {.p = vectors}, {.p = found}, {.p = versions}};
  return remote__ask_code(snap, CALL_snapshot_get, w);
}

int served_snapshot_scan(emb_snap *snap, size_t max, int64_t *keys,
                         float *vectors, uint64_t *versions, size_t *n) {
  const union word w[REQUEST_ARGS] = {
      {.u = max}, {.p = keys}, {.p = vectors}, {.p = versions}, {.p = n}};
  *n = 0;
  return remote__ask_code(snap, CALL_snapshot_scan, w);
}

void served_snapshot_rewind(emb_snap *snap) {
  uint64_t result;
  (void)remote_ask(snap, CALL_snapshot_rewind, NULL, &result);
}

int served_delta_open(emb_session *session, const char *consumer,
                      emb_delta **delta) {
  const union word w[REQUEST_ARGS] = {{.c = consumer}};
  int rc;
  *delta = open_counted(session, CALL_delta_open, w, &rc);
  return rc;
}

void served_delta_range(const emb_delta *delta, uint64_t *from, uint64_t *to) {
  uint64_t begin = 0, end = 0, result;
  const union word w[REQUEST_ARGS] = {{.p = &begin}, {.p = &end}};
  (void)remote_ask(delta, CALL_delta_range, w, &result);
  if (from) {
    *from = begin;
  }
  if (to) {
    *to = end;
  }
}

int served_delta_next(emb_delta *delta, size_t max, const emb_rows *to,
                      size_t *n) {
  const union word w[REQUEST_ARGS] = {{.u = max},
                                      {.p = to->keys},
                                      {.p = to->ops},
                                      {.p = to->vectors},
                                      {.p = to->versions},
                                      {.p = to->states},
                                      {.p = n}};
  *n = 0;
  return remote__ask_code(delta, CALL_delta_next, w);
}

int served_delta_write(emb_delta *delta, const char *path,
                       const emb_delta_options *how, emb_delta_file *about) {
  const struct remote *remote = (const void *)delta;
  char full[PATH_BYTES];
  emb_delta_file here;
  const union word w[REQUEST_ARGS] = {{.c = full},
                                      {.c = how ? how->text : NULL},
                                      {.c = how ? how->columns : NULL},
                                      {.u = 0},
                                      {.p = about ? about : &here}};
  int rc = served__absolute(remote->s, path, full);
  return rc ? rc : remote__ask_code(delta, CALL_delta_write, w);
}

void served_delta_close(emb_delta *delta) {
  close_counted(delta, CALL_delta_close);
}

int served_backup_begin(emb_session *session, const char *scratch,
                        emb_backup **backup) {
  char full[PATH_BYTES];
  const union word w[REQUEST_ARGS] = {{.c = full}};
  int rc = served__absolute(session, scratch, full);
  *backup = NULL;
  if (!rc) {
    *backup = open_counted(session, CALL_backup_begin, w, &rc);
  }
  return rc;
}

int served_backup_freeze(emb_backup *backup) {
  return remote__ask_code(backup, CALL_backup_freeze, NULL);
}

int served_backup_write(emb_backup *backup, const char *dir, const char *base,
                        emb_backup_info *info) {
  const struct remote *remote = (const void *)backup;
  char full[PATH_BYTES], other[PATH_BYTES];
  emb_backup_info here;
  const union word w[REQUEST_ARGS] = {
      {.c = full}, {.c = base ? other : NULL}, {.p = info ? info : &here}};
  int rc = served__absolute(remote->s, dir, full);
  rc = rc || !base ? rc : served__absolute(remote->s, base, other);
  return rc ? rc : remote__ask_code(backup, CALL_backup_write, w);
}

void served_backup_end(emb_backup *backup) {
  close_counted(backup, CALL_backup_end);
}
