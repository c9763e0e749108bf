/* SPDX-License-Identifier: MIT
**
** route.h -- decides where a session's calls are carried out: in this process,
** or in the one that owns the store.
*/
#ifndef EMB_SERVE_ROUTE_H
#define EMB_SERVE_ROUTE_H

#include "engine/table/session/session.h"

/* Called before a call if this process does not own the store.  Afterwards
** session->link says where to make the call.  An error is the call's result. */
int route_session(emb_session *s);
/* Links the session to the owner, if there is one that serves; waits while an
** owner is starting or leaving.  EMB_OK without a link means that no other
** process has the lock, or that its holder does not serve (ALONE). */
int route__find_owner(emb_session *s);
/* Called when a call has returned CALL_ELSEWHERE: it was not carried out,
** because another process owns the store, or no longer does.  EMB_OK: retry the
** call.  EMB_BUSY after the timeout. */
int route_again(emb_session *s);

/* Called when a call has returned EMB_LOCKED because of an undecided
** transaction.  1: the session's coordinator (emb_session_decides) knows how it
** ends, or does not see it: retry the call.  0: *rc is the call's result. */
struct deciding { /* for one call; initially zeros */
  int tries;
  uint64_t waited_us;
};
int route_decide(emb_session *s, int *rc, struct deciding *d);

/* Called when a call has returned a code other than EMB_OK.  1: retry the call;
** 0: *rc is the call's result. */
static inline int route_is_again(const emb_session *session, int *rc,
                                 struct deciding *d) {
  emb_session *s = (emb_session *)(uintptr_t)session;
  if (*rc == CALL_ELSEWHERE) {
    *rc = route_again(s);
    return *rc == EMB_OK;
  }
  return *rc == EMB_LOCKED && route_decide(s, rc, d);
}

/* Decides where the session's next call goes: EMB_OK and session->link, or an
** error. */
static inline int route_call(const emb_session *session) {
  emb_session *s = (emb_session *)(uintptr_t)session;
  int is_own =
      !s->route.lost_txn && !s->route.owed.code &&
      atomic_load_explicit(&s->store->own.is_owner, memory_order_acquire);
  return __builtin_expect(is_own || s->link, 1) ? EMB_OK : route_session(s);
}

/* Makes a session's call where the store is, and retries until it is carried
** out.  `there` is remote_NAME(...); `here` is local_NAME(...), preceded by
** `enter`.  An object that the call opens (a scan)
** began when the call was made, so only the call itself asks how a prepared
** transaction ends. */
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

/* An object knows where it is open: its first member is the link.  The object
** may be NULL, since NULL may be closed. */
static inline int route_is_remote(const void *object) {
  return object && *(struct link *const *)object;
}

/* Does a call on the store, without a session, go to another process? */
static inline int route_is_elsewhere(const emb_store *store) {
  return !atomic_load(&store->own.is_owner) &&
         (atomic_load(&store->remote.links) ||
          atomic_load(&store->own.unloaded));
}

/* Called when the owner died or left after preparing the session's transaction,
** and the caller's coordinator has decided. */
int route_decided(emb_session *s, int commit);

/* Called when a store is opened that another process owns: EMB_OK, and
** *is_served if the owner serves.  With a patience (emb_config) this also holds
** if the owner is silent for a moment: the first call then waits for the owner,
** without the locks held here. */
int route_open(emb_store *store, int *is_served, emb_err *err);
/* As above, if the owner may still be recovering the store: 1 if it already
** serves, as it does while a transaction is in doubt.  Waits only a moment. */
int route_recovered(emb_store *store);
void route_close(emb_store *store);

/* Called when this process has become the owner. */
void route__own(emb_store *store);
/* Has the owner told this linked session that its store was dropped? */
int route_is_dropped(const emb_session *s);
/* Whether another process has the lock; *holder is 0 if it cannot be seen. */
int route__is_owned(emb_store *store, int64_t *holder);
/* Publishes the values of emb_in_doubt and emb_is_dropped to the clients. */
void route__tell(emb_store *store);
/* The owner closes the store.  route_leave: no more calls of others are carried
** out.  route_left, once the files are cleanly closed and before the lock is
** released: clients may go elsewhere, and have lost nothing. */
void route_leave(emb_store *store);
void route_left(emb_store *store, int in_peace);

#endif
