/* SPDX-License-Identifier: MIT
**
** remote.c -- snapshots, deltas and backups that a session has open at the
** owner; see remote.h.
*/
#include "remote.h"

#include "engine/features/nearest/nearest.h"

void *remote__open(emb_session *s, int call, void *args, size_t bytes,
                   int *rc) {
  uint64_t result;
  struct env *env = s->core->env;
  *rc = session_begin(s);
  struct remote *remote = *rc ? NULL : env->allocate(env, bytes);
  if (!remote) {
    *rc = *rc ? *rc : session_error(s, EMB_NOMEM, "out of memory");
    return NULL;
  }
  *rc = link__ask(s, call, 0, args, &result);
  *rc = *rc ? *rc : (int)(uint32_t)result;
  if (*rc) {
    env->release(env, remote);
    return NULL;
  }
  *remote = (struct remote){s->link, s, result >> 32, s->link->serial};
  return remote;
}

/* Opens an object that is lost with its owner. */
int remote__open_counted(emb_session *s, int call, void *args) {
  int rc;
  void *remote = remote__open(s, call, args, sizeof(struct remote), &rc);
  void *to = shape__pointer(args, shape__find(&shapes[call], SHAPE_OPEN));
  memcpy(to, &remote, sizeof remote);
  if (remote) {
    s->link->objects++;
  }
  return rc;
}

int remote__is_there(const struct remote *remote) {
  return remote->s->link && remote->s->link->serial == remote->serial;
}

int remote__has_gone(const struct remote *remote) {
  return session_error(remote->s, EMB_ABORT,
                       "the process that owned %s is gone, and everything open "
                       "there was closed; open it again",
                       remote->s->core->dir);
}

int remote__ask(const void *object, int call, void *args, uint64_t *result) {
  const struct remote *remote = object;
  emb_session *s = remote->s;
  *result = 0;
  int rc = session_begin(s);
  if (!rc && !remote__is_there(remote)) {
    return remote__has_gone(remote);
  }
  rc = rc ? rc : link__ask(s, call, remote->number, args, result);
  /* It cannot be reopened automatically. */
  return rc == CALL_ELSEWHERE
             ? session_error(
                   s, EMB_ABORT,
                   "the process that owned %s has closed it; open it again",
                   s->core->dir)
             : rc;
}

int remote__ask_code(const void *object, int call, void *args) {
  uint64_t result;
  int rc = remote__ask(object, call, args, &result);
  return rc ? rc : (int)(uint32_t)result;
}

void remote__close(struct remote *remote, int call) {
  struct env *env = remote->s->core->env;
  union args none = {.scan_close = {0}};
  uint64_t result;
  if (remote__is_there(remote)) {
    emb_err err = remote->s->err; /* the error to report to the user */
    (void)link__ask(remote->s, call, remote->number, &none, &result);
    remote->s->err = err;
  }
  env->release(env, remote);
}

void remote__close_counted(void *object, int call) {
  struct remote *remote = object;
  if (!remote) {
    return;
  }
  if (remote__is_there(remote) && remote->s->link->objects) {
    remote->s->link->objects--;
  }
  remote__close(remote, call);
}

int64_t remote_snapshot_count(const emb_snap *snap) {
  struct args_snapshot_count args = {snap};
  uint64_t result;
  return remote__ask(snap, CALL_snapshot_count, &args, &result)
             ? 0
             : (int64_t)result;
}

int remote_snapshot_scan(emb_snap *snap, size_t max, int64_t *keys,
                         float *vectors, uint64_t *versions, size_t *n) {
  struct args_snapshot_scan args =
      args_of_snapshot_scan(snap, max, keys, vectors, versions, n);
  *n = 0;
  return remote__ask_code(snap, CALL_snapshot_scan, &args);
}

void remote_snapshot_rewind(emb_snap *snap) {
  struct args_snapshot_rewind args = {snap};
  uint64_t result;
  (void)remote__ask(snap, CALL_snapshot_rewind, &args, &result);
}

int remote_snapshot_nearest(emb_snap *snap, const float *queries, size_t n,
                            size_t k, const emb_nearest_how *how,
                            const emb_neighbours *to) {
  struct args_snapshot_nearest args =
      args_of_snapshot_nearest(snap, queries, n, k, how, to);
  emb_session *s = ((struct remote *)(void *)snap)->s;
  int rc = session_begin(s);
  rc = rc ? rc : nearest_check_size(s, n, k);
  return rc ? rc : remote__ask_code(snap, CALL_snapshot_nearest, &args);
}

void remote_delta_range(const emb_delta *delta, uint64_t *from, uint64_t *to) {
  struct args_delta_range args = {delta, from, to};
  uint64_t result;
  if (from) {
    *from = 0;
  }
  if (to) {
    *to = 0;
  }
  (void)remote__ask(delta, CALL_delta_range, &args, &result);
}

int remote_delta_next(emb_delta *delta, size_t max, const emb_rows *to,
                      size_t *n) {
  struct args_delta_next args = args_of_delta_next(delta, max, to, n);
  *n = 0;
  return remote__ask_code(delta, CALL_delta_next, &args);
}
