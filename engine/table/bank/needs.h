/* SPDX-License-Identifier: MIT
**
** needs.h -- which calls need up-to-date rows, so that the gradients pending
** for these rows are applied first.
**
** calls.def says this for each call of a session.  api/calls.c asks before a
** call of this process, serve/run.c before a call of another process.  Calls
** that the engine itself makes do not ask: the outer call has already asked.
**
** NEEDS_NAME is evaluated before a call, for its `session`; the call's
** arguments are ARGUMENT(name).  Its value is EMB_OK or an error.
*/
#ifndef EMB_BANK_NEEDS_H
#define EMB_BANK_NEEDS_H

#include "engine/table/session/session.h"

#define NEEDS_NOTHING EMB_OK
/* The rows of these keys. */
#define NEEDS_KEYS(keys, n)                                                    \
  bank_enter(session, BANK_KEYS, ARGUMENT(keys), ARGUMENT(n))
/* As NEEDS_KEYS if vectors or versions are asked for, else NEEDS_PRESENCE. */
#define NEEDS_VALUES(keys, n, vectors, versions)                               \
  bank_enter(session,                                                          \
             ARGUMENT(vectors) || ARGUMENT(versions) ? BANK_KEYS               \
                                                     : BANK_PRESENCE,          \
             ARGUMENT(keys), ARGUMENT(n))
/* Whether the keys are present: absent keys that a pending step may insert. */
#define NEEDS_PRESENCE(keys, n)                                                \
  bank_enter(session, BANK_PRESENCE, ARGUMENT(keys), ARGUMENT(n))
#define NEEDS_ONE(key)                                                         \
  bank_enter(session, BANK_KEYS, (const int64_t[]){ARGUMENT(key)}, 1)
#define NEEDS_TWO(a, b)                                                        \
  bank_enter(session, BANK_KEYS, (const int64_t[]){ARGUMENT(a), ARGUMENT(b)}, 2)
#define NEEDS_ALL bank_enter(session, BANK_ALL, NULL, 0)
/* All rows, if the session's transaction has written. */
#define NEEDS_WRITTEN bank_enter(session, BANK_WRITTEN, NULL, 0)

enum bank_needs { BANK_KEYS, BANK_PRESENCE, BANK_ALL, BANK_WRITTEN };

int bank_apply_pending(emb_session *s, enum bank_needs needs,
                       const int64_t *keys, size_t n);
/* A call begins.  Costs one predicted branch if the store does not average. */
static inline int bank_enter(emb_session *s, enum bank_needs needs,
                             const int64_t *keys, size_t n) {
  return __builtin_expect(s->store->average != NULL, 0)
             ? bank_apply_pending(s, needs, keys, n)
             : EMB_OK;
}

#endif
