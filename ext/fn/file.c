/* SPDX-License-Identifier: MIT
**
** file.c -- snapshots as files.
**
**   emb_snapshot_export(table, name, path [, options])   number of rows written
**   emb_snapshot_restore(table, path)                    number of rows read
**
** tvf/file.c reads one.  None of these may stand in the schema, so a path never
** comes from there.
*/
#include "fn.h"
SQLITE_EXTENSION_INIT3

static void fn_snapshot_export(sqlite3_context *context, int argc,
                               sqlite3_value **argv) {
  struct ext_table *table;
  const char *path, *name;
  uint64_t rows = 0;
  char *err = NULL;
  int rc = ext_fn_table(sqlite3_user_data(context), argv[0], &table, &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_integers(table, &err);
  if (rc == SQLITE_OK)
    rc = ext_arg_text(argv[2], "path", &path, &err);
  if (rc == SQLITE_OK)
    rc = ext_arg_snapshot_name(argv[1], &name, &err);
  if (rc == SQLITE_OK) {
    rc = emb_snapshot_export(
        table->link->session, name, path,
        argc > 3 ? (const char *)sqlite3_value_text(argv[3]) : NULL, &rows,
        NULL);
    if (rc)
      rc = ext_link_error(table->link, rc, &err);
  }
  if (rc == SQLITE_OK)
    sqlite3_result_int64(context, (sqlite3_int64)rows);
  else
    ext_result_error(context, rc, err);
}

static void fn_restore(sqlite3_context *context, int argc,
                       sqlite3_value **argv) {
  struct ext_table *table;
  const char *path;
  uint64_t rows = 0;
  char *err = NULL;
  int attempts = 0;
  int rc =
      ext_fn_table_to_write(sqlite3_user_data(context), argv[0], &table, &err);
  (void)argc;
  if (rc == SQLITE_OK)
    rc = ext_fn_integers(table, &err);
  if (rc == SQLITE_OK)
    rc = ext_arg_text(argv[1], "path", &path, &err);
  if (rc == SQLITE_OK)
    do
      rc = emb_snapshot_restore(table->link->session, path, &rows);
    while (ext_txn_again(table, &attempts, &rc, &err));
  if (rc == SQLITE_OK)
    sqlite3_result_int64(context, (sqlite3_int64)rows);
  else
    ext_result_error(context, rc, err);
}

int ext_fn_file_register(struct ext_conn *conn) {
  static const struct ext_function functions[] = {
      {"emb_snapshot_export", 3, fn_snapshot_export},
      {"emb_snapshot_export", 4, fn_snapshot_export},
      {"emb_snapshot_restore", 2, fn_restore}};
  return ext_fn_register(conn, functions,
                         sizeof functions / sizeof functions[0]);
}
