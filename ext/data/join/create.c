/* SPDX-License-Identifier: MIT
**
** create.c -- a joiner's tables.
**
**   emb_join_create(joiner)  creates them; NULL
**   emb_join_drop(joiner)    removes the joiner with its tables; 1
**
** join/tvf.c fills them.
*/
#include "ext/fn/fn.h"
#include "join.h"
SQLITE_EXTENSION_INIT3

static int join_change(sqlite3_context *context, sqlite3_value **argv,
                       int (*change)(sqlite3 *, sqlite3_value *, char **)) {
  struct ext_conn *conn = ext_fn_conn(context);
  char *err = NULL;
  int rc = ext_conn_check(conn, &err);
  if (rc == SQLITE_OK) {
    ext_conn_learn_encoding(conn);
    rc = change(conn->db, argv[0], &err);
  }
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
  return rc;
}

static void call_join_create(sqlite3_context *context, int argc,
                             sqlite3_value **argv) {
  (void)argc;
  (void)join_change(context, argv, ext_join_create);
}

static void call_join_drop(sqlite3_context *context, int argc,
                           sqlite3_value **argv) {
  (void)argc;
  if (join_change(context, argv, ext_join_drop) == SQLITE_OK)
    sqlite3_result_int(context, 1);
}

int ext_join_tables_register(struct ext_conn *conn) {
  static const struct ext_function functions[] = {
      {"emb_join_create", 1, call_join_create},
      {"emb_join_drop", 1, call_join_drop}};
  return ext_fn_register(conn, functions,
                         sizeof functions / sizeof functions[0]);
}
