/* SPDX-License-Identifier: MIT
**
** leave.c -- see leave.h.
*/
#include "leave.h"

#include "engine/features/lookahead/async.h"

void leave_session(emb_session *s) {
  async_close(s);
  local_rollback(s);
  local_release(s);
  session_free(s);
}
