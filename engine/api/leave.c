/* SPDX-License-Identifier: MIT
**
** leave.c -- the end of a session: what it has under way is ended first, then
** its transaction is undone, then its leases are given back.
*/
#include "../ahead/async.h"

void emb_session_close(emb_session *s) {
  if (!s) {
    return;
  }
  emb_store *store = s->store;
  if (store_check(store, NULL) == EMB_OK) {
    async_close(s);
    emb_rollback(s);
    emb_release(s);
    session_free(s);
    atomic_fetch_sub(&store->sessions, 1);
  }
}
