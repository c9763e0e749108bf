/* SPDX-License-Identifier: MIT
**
** init_valid.c -- the assertions of ext/init.c fire: what is registered on a
** connection holds its state.
*/
#include "death.h"
#include "sql_help.h"

#include "ext/conn/conn.h"

#ifndef EMB_OMIT_DATA
int sqlite3_emb_data_init(sqlite3 *db, char **message, const void *api);
#endif

TEST(loaded_again) {
  sqlite3 *db = sql_connect(":memory:", 0);
  struct ext_conn *conn = ext_conn_ref(db);
  CHECK_EQ_INT(sqlite3_emb_init(db, NULL, NULL), SQLITE_OK);
  CHECK_FIRES(conn->refs = 0; sqlite3_emb_init(db, NULL, NULL));
#ifndef EMB_OMIT_DATA
  CHECK_FIRES(conn->refs = 0; sqlite3_emb_data_init(db, NULL, NULL));
#endif
  ext_conn_unref(conn);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
#ifndef EMB_OMIT_DATA
  CHECK_ALL_FIRED("ext/init.c");
#endif
}
