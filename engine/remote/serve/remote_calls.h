/* SPDX-License-Identifier: MIT
**
** remote_calls.h -- the calls of emb.h, sent to the owner of the store.
*/
#ifndef EMB_SERVE_REMOTE_CALLS_H
#define EMB_SERVE_REMOTE_CALLS_H

#include "engine/table/session/session.h"

#define CALL(object, how, returns, name, flags, needs, ...)                    \
  CALL_DECLARE(object, returns, remote_##name, __VA_ARGS__)
#include "engine/remote/calls.def"
#undef CALL

/* Ends the session at the owner, too. */
void remote_close(emb_session *s);

#endif
