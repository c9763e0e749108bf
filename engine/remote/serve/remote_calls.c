/* SPDX-License-Identifier: MIT
**
** remote_calls.c -- see remote_calls.h.
**
** Most of these calls are generated from calls.def.  The ones written here know
** something beforehand, or must do something afterwards.  Open objects are in
** remote.c and remote_scan.c, prefetches in remote_batch.c, and a store's calls
** in remote_store.c.
*/
#include "remote_calls.h"

#include "engine/features/nearest/nearest.h"
#include "engine/features/negatives/sample.h"
#include "engine/table/bag/bag.h"
#include "remote.h"
#include "tickets.h"

int remote__ask_session(emb_session *s, int call, void *args) {
  uint64_t result;
  int rc = session_begin(s);
  rc = rc ? rc : link__ask(s, call, 0, args, &result);
  return rc ? rc : (int)(uint32_t)result;
}

/* ---- those that are only asked ------------------------------------------- */

/* By the object of the call. */
#define ASK_SESSION(call) return remote__ask_session(session, call, &args)
#define ASK_SNAP(call) return remote__ask_code(snap, call, &args)
#define ASK_DELTA(call) return remote__ask_code(delta, call, &args)
#define ASK_BACKUP(call) return remote__ask_code(backup, call, &args)
#define CLOSE_SNAP(call) remote__close_counted(snap, call)
#define CLOSE_DELTA(call) remote__close_counted(delta, call)
#define CLOSE_BACKUP(call) remote__close_counted(backup, call)

#define REMOTE_ASK(object, returns, name, ...)                                 \
  returns remote_##name(                                                       \
      OBJECT_##object CALL_ARGUMENTS(AS_PARAMETER, __VA_ARGS__)) {             \
    struct args_##name args = args_of_##name(                                  \
        SELF_##object CALL_ARGUMENTS(AS_ARGUMENT, __VA_ARGS__));               \
    ASK_##object(CALL_##name);                                                 \
  }
#define REMOTE_OPEN(object, returns, name, ...)                                \
  returns remote_##name(                                                       \
      OBJECT_##object CALL_ARGUMENTS(AS_PARAMETER, __VA_ARGS__)) {             \
    struct args_##name args = args_of_##name(                                  \
        SELF_##object CALL_ARGUMENTS(AS_ARGUMENT, __VA_ARGS__));               \
    return remote__open_counted(session, CALL_##name, &args);                  \
  }
#define REMOTE_CLOSE(object, returns, name, ...)                               \
  returns remote_##name(OBJECT_##object) { CLOSE_##object(CALL_##name); }
#define REMOTE_OWN(...)
#define REMOTE_FACT(...)
#define REMOTE_HAND(...)
#define REMOTE_PRIVATE(...)

#define CALL(object, how, returns, name, flags, needs, ...)                    \
  REMOTE_##how(object, returns, name, __VA_ARGS__)
#include "engine/remote/calls.def"
#undef CALL

/* ---- rows ---------------------------------------------------------------- */

int remote_bag_apply(emb_session *session, const int64_t *keys, size_t n,
                     const emb_bags *bags, const float *gradients,
                     const emb_update *how) {
  struct args_bag_apply args =
      args_of_bag_apply(session, keys, n, bags, gradients, how);
  int rc = session_begin(session);
  rc = rc ? rc : bag_check_how(session, how);
  return rc ? rc : remote__ask_session(session, CALL_bag_apply, &args);
}

int remote_nearest(emb_session *session, const float *queries, size_t n,
                   size_t k, const emb_nearest_how *how,
                   const emb_neighbours *to) {
  struct args_nearest args = args_of_nearest(session, queries, n, k, how, to);
  int rc = session_begin(session);
  rc = rc ? rc : nearest_check_size(session, n, k);
  return rc ? rc : remote__ask_session(session, CALL_nearest, &args);
}

int remote_sample(emb_session *session, size_t n, const emb_sample_how *how,
                  const emb_samples *to, size_t *count) {
  struct args_sample args = args_of_sample(session, n, how, to, count);
  *count = 0;
  int rc = session_begin(session);
  rc = rc ? rc : sample_check_size(session, n);
  return rc ? rc : remote__ask_session(session, CALL_sample, &args);
}

/* -1: see the session's error; or the link is gone. */
int64_t remote_count(emb_session *session) {
  struct args_count args = {session};
  uint64_t result = 0;
  int rc = session_begin(session);
  rc = rc ? rc : link__ask(session, CALL_count, 0, &args, &result);
  return rc || session->err.code ? -1 : (int64_t)result;
}

int remote_verify(emb_session *session, void (*report)(void *, const char *),
                  void *arg) {
  struct args_verify args = {session, report, arg};
  session->link->report = report;
  session->link->report_arg = arg;
  int rc = remote__ask_session(session, CALL_verify, &args);
  if (session->link) {
    session->link->report = NULL;
  }
  return rc;
}

/* ---- look-ahead ---------------------------------------------------------- */

/* Look-ahead numbers continue from owner to owner: those begun at this owner
** follow link->aheads_before.  A look-ahead of an earlier owner is over, along
** with what it fetched: it was only advice. */
static int is_ahead_over(const emb_session *s, uint64_t number) {
  return number && number <= s->ahead.last && number <= s->link->aheads_before;
}

int remote_lookahead(emb_session *session, const int64_t *keys, size_t n,
                     int dest, emb_ahead *result) {
  emb_ahead here;
  struct args_lookahead args = {session, keys, n, dest, &here};
  int rc = remote__ask_session(session, CALL_lookahead, &args);
  if (!rc) {
    here.number += session->link->aheads_before;
    session->ahead.last = here.number;
  }
  if (!rc && result) {
    *result = here;
  }
  return rc;
}

int remote_lookahead_progress(emb_session *session, uint64_t number,
                              emb_ahead *result) {
  struct args_lookahead_progress args = {
      session, number - session->link->aheads_before, result};
  if (is_ahead_over(session, number)) {
    *result = (emb_ahead){.number = number, .done = 1};
    return session_begin(session);
  }
  int rc = remote__ask_session(session, CALL_lookahead_progress, &args);
  result->number = number;
  return rc;
}

int remote_lookahead_wait(emb_session *session, uint64_t number) {
  struct args_lookahead_wait args = {session,
                                     number - session->link->aheads_before};
  return is_ahead_over(session, number)
             ? session_begin(session)
             : remote__ask_session(session, CALL_lookahead_wait, &args);
}

/* ---- state of a session -------------------------------------------------- */

/* Makes a call that returns a number; 0 if there is no answer.  args: for a
** call without arguments, those of any such call. */
static uint64_t ask_number(const emb_session *session, int call, void *args) {
  emb_session *s = (emb_session *)(uintptr_t)session;
  uint64_t result;
  if (session_begin(s)) {
    return 0;
  }
  int rc = link__ask(s, call, 0, args, &result);
  if (rc == EMB_LOST) {
    s->route.owed = s->err;
  }
  return rc ? 0 : result;
}

static size_t ask_leases(const emb_session *s, int call) {
  struct args_leases none = {s};
  /* Without a bound there are no leases to count. */
  int has = (s->link->holds & (SLOT_HAS_LEASES | SLOT_HAS_TICKETS)) != 0;
  return has ? ask_number(s, call, &none) : 0;
}

/* Nothing to send: the owner gets the number with each request.  This process
** may become the owner during the statement. */
void remote_statement(emb_session *session, uint64_t number) {
  local_statement(session, number);
}

size_t remote_release_statement(emb_session *session) {
  return ask_leases(session, CALL_release_statement);
}

size_t remote_release(emb_session *session) {
  return ask_leases(session, CALL_release);
}

size_t remote_leases(const emb_session *session) {
  return ask_leases(session, CALL_leases);
}

void remote_lease_mark(emb_session *session, int mark) {
  struct args_lease_mark args = {session, mark != 0};
  session->leases.mark = mark;
  if (core_bounded(session->core)) {
    (void)ask_number(session, CALL_lease_mark, &args);
  }
}

size_t remote_release_marked(emb_session *session) {
  return ask_leases(session, CALL_release_marked);
}

int remote_in_transaction(const emb_session *session) {
  return (session->link->holds & SLOT_HAS_TXN) != 0;
}

int remote_prepare(emb_session *session, uint64_t *number) {
  struct args_prepare args = {session, number};
  int rc = remote__ask_session(session, CALL_prepare, &args);
  session->route.prepared_number = rc ? 0 : *number;
  return rc;
}

int remote_commit(emb_session *session) {
  struct args_commit args = {session};
  return remote__ask_session(session, CALL_commit, &args);
}

void remote_rollback(emb_session *session) {
  struct args_rollback args = {session};
  if (session->link->holds & SLOT_HAS_TXN) {
    (void)ask_number(session, CALL_rollback, &args);
  }
}

void remote_close(emb_session *s) {
  link__close(s);
  tickets__free(s);
}
