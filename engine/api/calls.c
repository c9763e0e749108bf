/* SPDX-License-Identifier: MIT
**
** calls.c -- the calls of emb.h: chooses between the local and the served form
** of each (remote/calls.def), and retries a call whose owner has gone
** (serve/route.h).
**
** If this process owns the store, this costs two loads and two branches, plus a
** third of each for averaged gradients (bank/needs.h).
*/
#include "engine/table/bank/needs.h"
#include "engine/remote/serve/leave.h"
#include "engine/remote/serve/route.h"
#include "engine/remote/serve/remote_calls.h"
#include "engine/remote/serve/tickets.h"
#include "engine/table/jobs/job.h"
#include "engine/table/owner/own.h"

#define ARGUMENT(name) (name)

/* A call NAME with its arguments. */
#define MAKE(call, object, ...)                                                \
  call(SELF_##object CALL_ARGUMENTS(AS_ARGUMENT, __VA_ARGS__))
#define DEFINE(object, returns, name, ...)                                     \
  returns emb_##name(OBJECT_##object CALL_ARGUMENTS(AS_PARAMETER, __VA_ARGS__))

/* By the object of a call: a session first finds where the store is. */
#define EMB_SESSION(object, returns, name, needs, ...)                         \
  DEFINE(object, returns, name, __VA_ARGS__) {                                 \
    int rc;                                                                    \
    ROUTE(session, rc, NEEDS_##needs,                                          \
          MAKE(remote_##name, object, __VA_ARGS__),                            \
          MAKE(local_##name, object, __VA_ARGS__));                            \
    return rc;                                                                 \
  }
#define EMB_EITHER(is_there, object, returns, name, ...)                       \
  DEFINE(object, returns, name, __VA_ARGS__) {                                 \
    return is_there ? MAKE(remote_##name, object, __VA_ARGS__)                 \
                    : MAKE(local_##name, object, __VA_ARGS__);                 \
  }
/* An open object knows where it was opened. */
#define EMB_OPENED(object, returns, name, needs, ...)                          \
  EMB_EITHER(route_is_remote(SELF_##object), object, returns, name, __VA_ARGS__)
#define EMB_SCAN EMB_OPENED
#define EMB_SNAP EMB_OPENED
#define EMB_CONST_SNAP EMB_OPENED
#define EMB_DELTA EMB_OPENED
#define EMB_CONST_DELTA EMB_OPENED
#define EMB_BACKUP EMB_OPENED
#define EMB_STORE(object, returns, name, needs, ...)                           \
  EMB_EITHER(route_is_elsewhere(store), object, returns, name, __VA_ARGS__)
#define EMB_CONST_STORE EMB_STORE

#define EMB_ASK(object, ...) EMB_##object(object, __VA_ARGS__)
#define EMB_OPEN EMB_ASK
#define EMB_CLOSE EMB_ASK
#define EMB_OWN EMB_ASK
#define EMB_FACT(object, returns, name, needs, ...)                            \
  EMB_EITHER(session->link, object, returns, name, __VA_ARGS__)
#define EMB_HAND(...)
#define EMB_PRIVATE(...)

#define CALL(object, how, returns, name, flags, needs, ...)                    \
  EMB_##how(object, returns, name, needs, __VA_ARGS__)
#include "engine/remote/calls.def"
#undef CALL

int emb_session_is_dropped(const emb_session *session) {
  return session->link ? route_is_dropped(session)
                       : emb_is_dropped(session->store);
}

/* ---- those that say more ------------------------------------------------- */

int emb_commit(emb_session *session) {
  int rc = EMB_OK;
  if (!session->route.lost_prepared) {
    rc = route_call(session);
    rc = rc              ? rc
         : session->link ? remote_commit(session)
                         : local_commit(session);
  }
  return session->route.lost_prepared ? route_decided(session, 1) : rc;
}

void emb_rollback(emb_session *session) {
  if (session->link) {
    remote_rollback(session);
  } else if (!session->route.lost_txn) {
    local_rollback(session);
  }
  if (session->route.lost_prepared) {
    (void)route_decided(session, 0);
  }
  session->route.lost_txn = 0;
}

int64_t emb_count(emb_session *session) {
  int64_t n = -1;
  int rc;
  struct deciding d = {0};
  do {
    /* Without a link, emb_refresh finds one or loads the newest checkpoint. */
    rc = session->link ? EMB_OK : emb_refresh(session);
    if (!rc) {
      n = session->link ? remote_count(session) : local_count(session);
      rc = n >= 0              ? EMB_OK
           : session->err.code ? session->err.code
                               : CALL_ELSEWHERE;
    }
  } while (rc && route_is_again(session, &rc, &d));
  return rc ? -1 : n;
}

/* A ticket is synchronized where it was begun, or without asking any owner if
** its owner has gone.  The older of two tickets has the lower number. */
static int is_ticket_here(const emb_session *s, int kind, uint64_t number) {
  const struct job *job = s->tickets.first;
  const struct remote_ticket *there = tickets_find(s, kind, number);
  while (job && (job->kind != kind || (number && job->number != number))) {
    job = job->sibling;
  }
  return job ? !there || job->number < there->number : !there && !s->link;
}

typedef int synchronizer(emb_session *, uint64_t, uint64_t *);

static int synchronize_where(emb_session *s, int kind, uint64_t ticket,
                             uint64_t *ended, synchronizer *here,
                             synchronizer *there) {
  int rc = session_begin(s);
  rc = rc ? rc : session_owed(s);
  return rc                                ? rc
         : is_ticket_here(s, kind, ticket) ? here(s, ticket, ended)
                                           : there(s, ticket, ended);
}

int emb_prefetch_synchronize(emb_session *session, uint64_t ticket,
                             uint64_t *ended) {
  return synchronize_where(session, JOB_READ, ticket, ended,
                           local_prefetch_synchronize,
                           remote_prefetch_synchronize);
}

int emb_write_back_synchronize(emb_session *session, uint64_t ticket,
                               uint64_t *ended) {
  return synchronize_where(session, JOB_WRITE, ticket, ended,
                           local_write_back_synchronize,
                           remote_write_back_synchronize);
}

size_t emb_tickets(const emb_session *session, size_t *write_backs) {
  size_t here = 0, there = 0;
  size_t n = local_tickets(session, &here) + remote_tickets(session, &there);
  if (write_backs) {
    *write_backs = here + there;
  }
  return n;
}

int emb_scan_next(emb_scan *scan, size_t max, int64_t *keys, float *vectors,
                  uint64_t *versions, size_t *n) {
  const emb_rows to = {.keys = keys, .vectors = vectors, .versions = versions};
  return emb_scan_next_rows(scan, max, &to, n);
}

void emb_session_close(emb_session *s) {
  if (!s) {
    return;
  }
  emb_store *store = s->store;
  if (store_check(store, NULL) == EMB_OK) {
    remote_close(s);
    leave_session(s);
    emb_assert(atomic_load(&store->sessions.count) > 0);
    atomic_fetch_sub(&store->sessions.count, 1);
    own_unload(store);
  }
}
