/* SPDX-License-Identifier: MIT
**
** route.h -- where a session's calls are carried out: in this process, or in
** the one that owns the store.
*/
#ifndef EMB_SERVE_ROUTE_H
#define EMB_SERVE_ROUTE_H

#include "engine/table/session/session.h"

/* Before a call, where the store is not this process's own: session->link says
** which of the two.  An error is the call's. */
int route_session(emb_session *s);
/* Links the session to the owner, if there is one that serves; waits while it
** begins or ends.  EMB_OK also without: then nobody has the lock, or its holder
** is alone. */
int route__find_owner(emb_session *s);
/* A call has returned CALL_ELSEWHERE: it was not carried out, because another
** process owns the store, or does not any more.  EMB_OK: it is to be placed
** again.  EMB_BUSY after the timeout. */
int route_again(emb_session *s);

/* A call has returned EMB_LOCKED because of a transaction that is not decided.
** 1: the session's coordinator (emb_session_decides) knows how it ends, or does
** not see it, and the call is to be made again.  0: *rc is the call's. */
struct deciding { /* of one call; zeros at first */
  int tries;
  uint64_t waited_us;
};
int route_decide(emb_session *s, int *rc, struct deciding *d);

/* A call that returns a code has returned one that is no EMB_OK: 1 if it is to
** be made again, else *rc is the call's. */
static inline int route_is_again(const emb_session *session, int *rc,
                                 struct deciding *d) {
  emb_session *s = (emb_session *)(uintptr_t)session;
  if (*rc == CALL_ELSEWHERE) {
    *rc = route_again(s);
    return *rc == EMB_OK;
  }
  return *rc == EMB_LOCKED && route_decide(s, rc, d);
}

/* Where the session's next call goes: an error, or EMB_OK and session->link. */
static inline int route_call(const emb_session *session) {
  emb_session *s = (emb_session *)(uintptr_t)session;
  int is_own =
      !s->route.lost_txn && !s->route.owed.code &&
      atomic_load_explicit(&s->store->own.is_owner, memory_order_acquire);
  return __builtin_expect(is_own || s->link, 1) ? EMB_OK : route_session(s);
}

/* A call of a session, where the store is: `there` is served_NAME(...), and
** `here` local_NAME(...), which follows on `enter`.  It is made until it is
** carried out.  What a call has open (a scan) it began when that was asked for:
** so only the call itself asks how a prepared transaction ends. */
#define ROUTE(session, rc, enter, there, here)                                 \
  do {                                                                         \
    struct deciding route_d = {0};                                             \
    do {                                                                       \
      (rc) = route_call(session);                                              \
      (rc) = (rc) || (session)->link ? (rc) : (enter);                         \
      if (!(rc) && (session)->link) {                                          \
        (rc) = (there);                                                        \
      } else if (!(rc)) {                                                      \
        (session)->doubt.asks = (session)->doubt.decides != NULL;              \
        (rc) = (here);                                                         \
        (session)->doubt.asks = 0;                                             \
      }                                                                        \
    } while (__builtin_expect((rc) != EMB_OK, 0) &&                            \
             route_is_again(session, &(rc), &route_d));                        \
  } while (0)

/* The object knows who has it: its first member is the link.  None may be
** closed. */
static inline int route_is_remote(const void *object) {
  return object && *(struct link *const *)object;
}

/* Is a call of the store, without a session, its owner's? */
static inline int route_is_elsewhere(const emb_store *store) {
  return !atomic_load(&store->own.is_owner) &&
         (atomic_load(&store->remote.served) ||
          atomic_load(&store->own.unloaded));
}

/* The owner died or left after it had prepared the session's transaction, and
** the caller's coordinator has decided. */
int route_decided(emb_session *s, int commit);

/* A store is opened that another process owns: EMB_OK, and *is_served, if that
** one serves.  Where the caller has a patience (emb_config), also if it gives
** no sign of life for a moment: the first call waits for it, without the locks
** that are held here. */
int route_open(emb_store *store, int *is_served, emb_err *err);
/* The same of one that may be recovering it still: 1 if it serves already, as
** it does while a transaction is in doubt.  Waits for a moment only. */
int route_recovered(emb_store *store);
void route_close(emb_store *store);

/* This process has become the owner. */
void route__own(emb_store *store);
/* What a session that is linked was told of its store. */
int route_is_dropped(const emb_session *s);
/* Whether another process has the lock; *holder is 0 if it cannot be seen. */
int route__is_owned(emb_store *store, int64_t *holder);
/* Clients are told what emb_in_doubt and emb_is_dropped say. */
void route__tell(emb_store *store);
/* It closes the store: nothing is carried out for others any more.  Then, when
** its files are closed in peace and before the lock is given back: others may
** go elsewhere, and have lost nothing. */
void route_leave(emb_store *store);
void route_left(emb_store *store, int in_peace);

#endif
