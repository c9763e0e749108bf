/* SPDX-License-Identifier: MIT
**
** file.c -- snapshots as files.
**
**   emb_snapshot_export(table, name, path [, options])   number of rows written
**   emb_snapshot_restore(table, path)                    number of rows read
**
** For a table with text keys the file contains the texts (table/keys_file.c).
** tvf/file.c reads such a file.  None of these functions may be used in the
** schema, so a path never comes from there.
*/
#include "engine/storage/pack/emb_file.h"
#include "fn.h"
SQLITE_EXTENSION_INIT3

struct fn_snapshot {
  const char *name, *path, *options; /* options may be NULL */
  uint64_t rows;
};

static int snapshot_write(struct ext_table *table, struct fn_snapshot *to,
                          const char *path, const char *options, char **err) {
  int rc = emb_snapshot_export(table->link->session, to->name, path, options,
                               &to->rows, NULL);
  return rc ? ext_link_error(table->link, rc, err) : SQLITE_OK;
}

/* Writes no index, because its keys would be numbers, not texts. */
static int snapshot_write_texts(struct ext_table *table, void *arg,
                                char **err) {
  struct fn_snapshot *to = arg;
  emb_file_writer *writer = NULL;
  emb_err error = {0, ""};
  char *rows = ext_file_rows_name(to->path);
  char *options = sqlite3_mprintf("index=0,%s", to->options ? to->options : "");
  int rc = rows && options ? snapshot_write(table, to, rows, options, err)
                           : SQLITE_NOMEM;
  if (rc == SQLITE_OK)
    rc = ext_file_add_texts(table, rows, to->path, to->options, &writer, err);
  if (rc == SQLITE_OK && emb_file_finish(writer, NULL, &error))
    rc = ext_engine_error(err, error.code, error.text);
  sqlite3_free(rows);
  sqlite3_free(options);
  return rc;
}

static void fn_snapshot_export(sqlite3_context *context, int argc,
                               sqlite3_value **argv) {
  struct fn_snapshot to = {NULL, NULL, NULL, 0};
  struct ext_table *table;
  char *err = NULL;
  int rc = ext_conn_may_write(ext_fn_conn(context), &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_table(ext_fn_conn(context), argv[0], &table, &err);
  if (rc == SQLITE_OK)
    rc = ext_arg_text(argv[2], "path", &to.path, &err);
  if (rc == SQLITE_OK)
    rc = ext_arg_snapshot_name(argv[1], &to.name, &err);
  if (rc == SQLITE_OK && argc > 3)
    to.options = (const char *)sqlite3_value_text(argv[3]);
  if (rc == SQLITE_OK && ext_vtab(table)->options.text_key)
    rc = ext_fn_same_schema(table, snapshot_write_texts, &to, &err);
  else if (rc == SQLITE_OK)
    rc = snapshot_write(table, &to, to.path, to.options, &err);
  if (rc == SQLITE_OK)
    sqlite3_result_int64(context, (sqlite3_int64)to.rows);
  else
    ext_result_error(context, rc, err);
}

static void fn_restore(sqlite3_context *context, int argc,
                       sqlite3_value **argv) {
  struct ext_file_keys file = {.other = NULL};
  struct ext_table *table;
  const char *path;
  uint64_t rows = 0;
  char *err = NULL;
  int attempts = 0;
  int rc = ext_fn_table_to_write(ext_fn_conn(context), argv[0], &table, &err);
  (void)argc;
  if (rc == SQLITE_OK)
    rc = ext_arg_text(argv[1], "path", &path, &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_file_keys(table, path, &file, &err);
  if (rc == SQLITE_OK)
    do
      rc = emb_snapshot_restore_keys(table->link->session, path, file.give,
                                     &rows);
    while (ext_txn_again(table, &attempts, &rc, &err));
  ext_file_keys_end(&file);
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
