/* SPDX-License-Identifier: MIT
**
** close.c -- what a connection releases, when it closes and before.
*/
#include "conn.h"
SQLITE_EXTENSION_INIT3

void ext_conn_unref(void *arg) {
  struct ext_conn *conn = arg;
  if (!ext_conn_leave(conn))
    return;
  conn->closing = 1;
  while (conn->links)
    ext_link_close(conn->links);
  ext_orphan_settle_closed(conn);
  ext_conn_forget_names(conn);
  ext_conn_free_clientdata(conn);
  emb_wait_with(NULL); /* drops conn->patience if no call used it */
  sqlite3_free(conn);
}

void ext_conn_tidy_now(struct ext_conn *conn) {
  ext_orphan_settle(conn);
  ext_link_close_detached(conn);
}
