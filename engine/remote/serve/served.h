/* SPDX-License-Identifier: MIT
**
** served.h -- the calls of emb.h, asked of the process that owns the store.
*/
#ifndef EMB_SERVE_SERVED_H
#define EMB_SERVE_SERVED_H

#include "engine/table/session/session.h"

#define SERVED_CALL(type, name, parameters, arguments)                         \
  type served_##name parameters;
ALL_CALLS(SERVED_CALL)
#undef SERVED_CALL

/* The session ends there, too. */
void served_close(emb_session *s);

#endif
