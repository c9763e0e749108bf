/* SPDX-License-Identifier: MIT
**
** served.h -- the calls of emb.h, sent to the process that owns the store.
*/
#ifndef EMB_SERVE_SERVED_H
#define EMB_SERVE_SERVED_H

#include "engine/table/session/session.h"

#define CALL(object, how, returns, name, flags, needs, ...)                    \
  CALL_DECLARE(object, returns, served_##name, __VA_ARGS__)
#include "engine/remote/calls.def"
#undef CALL

/* Ends the session at the owner, too. */
void served_close(emb_session *s);

#endif
