/* SPDX-License-Identifier: MIT
**
** delta.c -- functions for delta consumers and delta files.
**
**   emb_delta_ack(table, consumer [, upto])   acknowledges the newest complete
**                                             delta, ending at upto; NULL
**   emb_delta_begin(table, consumer [, 'all' | 'now' [, keep_bytes]])
**                                             begins again; NULL
**   emb_delta_drop(table, consumer)           removes the consumer; 1
**   emb_delta_export(table, consumer, path [, options])
**                                             writes the next delta to a file;
**                                             number of its rows
**   emb_delta_apply(table, path [, 'join'])   applies a file; the number of
**                                             rows that it put and deleted, 0
**                                             if it was applied before
**   emb_delta_position(table)                 JSON: the delta applied last, or
**                                             NULL
**
** None of these may be used in the schema, so a path never comes from there.
*/
#include "engine/storage/pack/emb_file.h"
#include "fn.h"
SQLITE_EXTENSION_INIT3

int ext_delta_arguments(struct ext_conn *conn, sqlite3_value **argv,
                        struct ext_table **table, const char **name,
                        char **err) {
  *name = (const char *)sqlite3_value_text(argv[1]);
  if (*name == NULL)
    return ext_error(err, SQLITE_MISMATCH, "consumer must be a name, got %s",
                     ext_value_type_name(argv[1]));
  return ext_fn_table_to_write(conn, argv[0], table, err);
}

/* ---- consumers ----------------------------------------------------------- */

static void fn_ack(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct ext_table *table;
  const char *name;
  uint64_t upto = 0;
  char *err = NULL;
  int attempts = 0;
  int rc = ext_delta_arguments(ext_fn_conn(context), argv, &table, &name, &err);
  if (rc == SQLITE_OK && argc > 2) {
    rc = ext_arg_number(argv[2], "upto", &upto, &err);
    if (rc == SQLITE_OK && upto == 0)
      rc = ext_error(&err, SQLITE_ERROR, "upto must be at least 1");
  }
  if (rc == SQLITE_OK)
    do
      rc = emb_delta_ack(table->link->session, name, upto);
    while (ext_txn_again(table, &attempts, &rc, &err));
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
}

static int read_where(sqlite3_value *value, int *where, char **err) {
  const char *text = (const char *)sqlite3_value_text(value);
  *where = EMB_DELTA_ALL;
  if (text == NULL || sqlite3_stricmp(text, "all") == 0)
    return SQLITE_OK;
  if (sqlite3_stricmp(text, "now") != 0)
    return ext_error(err, SQLITE_ERROR,
                     "unknown beginning: %s; expected all or now", text);
  *where = EMB_DELTA_NOW;
  return SQLITE_OK;
}

static void fn_begin(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct ext_table *table;
  const char *name;
  uint64_t keep_bytes = 0;
  char *err = NULL;
  int attempts = 0;
  int where = EMB_DELTA_ALL;
  int rc = ext_delta_arguments(ext_fn_conn(context), argv, &table, &name, &err);
  if (rc == SQLITE_OK && argc > 2)
    rc = read_where(argv[2], &where, &err);
  if (rc == SQLITE_OK && argc > 3) {
    rc = ext_arg_number(argv[3], "keep_bytes", &keep_bytes, &err);
    if (rc == SQLITE_OK && keep_bytes == 0)
      rc = ext_error(&err, SQLITE_ERROR, "keep_bytes must be at least 1");
  }
  if (rc == SQLITE_OK)
    do
      rc = emb_delta_begin(table->link->session, name, where, keep_bytes);
    while (ext_txn_again(table, &attempts, &rc, &err));
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
}

static void fn_drop(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct ext_table *table;
  const char *name;
  char *err = NULL;
  int attempts = 0;
  int rc = ext_delta_arguments(ext_fn_conn(context), argv, &table, &name, &err);
  (void)argc;
  if (rc == SQLITE_OK)
    do
      rc = emb_delta_drop(table->link->session, name);
    while (ext_txn_again(table, &attempts, &rc, &err));
  if (rc == SQLITE_OK)
    sqlite3_result_int(context, 1);
  else
    ext_result_error(context, rc, err);
}

/* ---- files --------------------------------------------------------------- */

/* "bias, vector"; NULL if out of memory. */
static char *column_names(const struct ext_table *table) {
  sqlite3_str *names = sqlite3_str_new(NULL);
  for (uint32_t i = 0; i < ext_vectors(&ext_vtab(table)->options); i++)
    sqlite3_str_appendf(names, "%s%s", i ? ", " : "",
                        ext_vtab(table)->options.vectors[i]);
  return sqlite3_str_finish(names);
}

struct fn_delta {
  const char *consumer, *path;
  emb_delta_options how;
  emb_delta_file about;
};

static int delta_write(struct ext_table *table, struct fn_delta *to,
                       char **err) {
  int attempts = 0, rc;
  do
    rc = emb_delta_export(table->link->session, to->consumer, to->path,
                          &to->how, &to->about);
  while (ext_txn_again(table, &attempts, &rc, err));
  return rc;
}

/* Renames the file with rows and texts before the delta counts as sent, so that
** no delta can be acknowledged for which there is no file. */
static int delta_send(struct ext_table *table, emb_delta *delta,
                      emb_file_writer *writer, char **err) {
  emb_err error = {0, ""};
  int64_t key;
  uint8_t op;
  size_t n;
  int rc = emb_file_finish(writer, NULL, &error);
  if (rc)
    return ext_engine_error(err, rc, error.text);
  rc = emb_delta_next(delta, 1, &(emb_rows){.keys = &key, .ops = &op}, &n);
  return rc ? ext_link_error(table->link, rc, err) : SQLITE_OK;
}

static int delta_write_open(struct ext_table *table, emb_delta *delta,
                            struct fn_delta *to, char **err) {
  emb_file_writer *writer;
  char *rows = ext_file_rows_name(to->path);
  int rc = rows ? emb_delta_write(delta, rows, &to->how, &to->about) : EMB_OK;
  rc = rows ? rc ? ext_link_error(table->link, rc, err) : SQLITE_OK
            : SQLITE_NOMEM;
  if (rc == SQLITE_OK)
    rc = ext_file_add_texts(table, rows, to->path, to->how.text, &writer, err);
  if (rc == SQLITE_OK)
    rc = delta_send(table, delta, writer, err);
  sqlite3_free(rows);
  return rc;
}

static int delta_write_texts(struct ext_table *table, void *arg, char **err) {
  struct fn_delta *to = arg;
  emb_delta *delta = NULL;
  int attempts = 0, rc;
  do
    rc = emb_delta_open(table->link->session, to->consumer, &delta);
  while (ext_txn_again(table, &attempts, &rc, err));
  if (rc != SQLITE_OK)
    return rc;
  rc = delta_write_open(table, delta, to, err);
  emb_delta_close(delta);
  return rc;
}

static void fn_delta_export(sqlite3_context *context, int argc,
                            sqlite3_value **argv) {
  struct fn_delta to = {.path = NULL};
  struct ext_table *table;
  char *names = NULL, *err = NULL;
  int rc = ext_delta_arguments(ext_fn_conn(context), argv, &table, &to.consumer,
                               &err);
  if (rc == SQLITE_OK)
    rc = ext_arg_text(argv[2], "path", &to.path, &err);
  if (rc == SQLITE_OK && argc > 3)
    rc = ext_arg_text(argv[3], "options", &to.how.text, &err);
  if (rc == SQLITE_OK) {
    to.how.columns = names = column_names(table);
    rc = names ? SQLITE_OK : SQLITE_NOMEM;
  }
  if (rc == SQLITE_OK && ext_vtab(table)->options.text_key)
    rc = ext_fn_same_schema(table, delta_write_texts, &to, &err);
  else if (rc == SQLITE_OK)
    rc = delta_write(table, &to, &err);
  sqlite3_free(names);
  if (rc == SQLITE_OK)
    sqlite3_result_int64(context, to.about.puts + to.about.deletions);
  else
    ext_result_error(context, rc, err);
}

static int read_join(sqlite3_value *value, int *join, char **err) {
  const char *text;
  int rc = ext_arg_text(value, "how", &text, err);
  *join = 1;
  return rc != SQLITE_OK || sqlite3_stricmp(text, "join") == 0
             ? rc
             : ext_error(err, SQLITE_ERROR,
                         "unknown way to apply a delta: %s; expected join",
                         text);
}

static void fn_apply(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct ext_file_keys file = {.other = NULL};
  emb_delta_options how = {0};
  struct ext_table *table;
  const char *path;
  char *names = NULL, *err = NULL;
  int attempts = 0;
  emb_delta_file about;
  int rc = ext_arg_text(argv[1], "path", &path, &err);
  if (rc == SQLITE_OK && argc > 2)
    rc = read_join(argv[2], &how.join, &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_table_to_write(ext_fn_conn(context), argv[0], &table, &err);
  if (rc == SQLITE_OK) {
    how.columns = names = column_names(table);
    rc = names ? SQLITE_OK : SQLITE_NOMEM;
  }
  if (rc == SQLITE_OK)
    rc = ext_fn_file_keys(table, path, &file, &err);
  how.keys = file.give;
  if (rc == SQLITE_OK)
    do
      rc = emb_delta_apply(table->link->session, path, &how, &about);
    while (ext_txn_again(table, &attempts, &rc, &err));
  ext_file_keys_end(&file);
  sqlite3_free(names);
  if (rc == SQLITE_OK)
    sqlite3_result_int64(context,
                         about.applied ? about.puts + about.deletions : 0);
  else
    ext_result_error(context, rc, err);
}

static void fn_position(sqlite3_context *context, int argc,
                        sqlite3_value **argv) {
  struct ext_table *table;
  char *err = NULL;
  emb_delta_place place;
  int rc = ext_fn_table(ext_fn_conn(context), argv[0], &table, &err);
  (void)argc;
  if (rc == SQLITE_OK) {
    rc = emb_delta_position(table->link->session, &place);
    if (rc)
      rc = ext_link_error(table->link, rc, &err);
  }
  if (rc != SQLITE_OK) {
    ext_result_error(context, rc, err);
  } else if (place.mark) {
    sqlite3_str *json = sqlite3_str_new(NULL);
    sqlite3_str_appendall(json, "{\"source\":\"");
    for (size_t i = 0; i < sizeof place.source; i++)
      sqlite3_str_appendf(json, "%02x", place.source[i]);
    sqlite3_str_appendall(json, "\",\"consumer\":\"");
    for (const char *c = place.consumer; *c; c++) {
      if ((uint8_t)*c < 32) {
        sqlite3_str_appendf(json, "\\u%04x", *c);
        continue;
      }
      if (*c == '"' || *c == '\\')
        sqlite3_str_appendchar(json, 1, '\\');
      sqlite3_str_appendchar(json, 1, *c);
    }
    sqlite3_str_appendf(json, "\",\"number\":%llu,\"mark\":%llu}", place.number,
                        place.mark);
    char *text = sqlite3_str_finish(json);
    if (text)
      sqlite3_result_text(context, text, -1, sqlite3_free);
    else
      sqlite3_result_error_nomem(context);
  }
}

int ext_fn_delta_register(struct ext_conn *conn) {
  static const struct ext_function functions[] = {
      {"emb_delta_ack", 2, fn_ack},
      {"emb_delta_ack", 3, fn_ack},
      {"emb_delta_begin", 2, fn_begin},
      {"emb_delta_begin", 3, fn_begin},
      {"emb_delta_begin", 4, fn_begin},
      {"emb_delta_drop", 2, fn_drop},
      {"emb_delta_export", 3, fn_delta_export},
      {"emb_delta_export", 4, fn_delta_export},
      {"emb_delta_apply", 2, fn_apply},
      {"emb_delta_apply", 3, fn_apply},
      {"emb_delta_position", 1, fn_position}};
  return ext_fn_register(conn, functions,
                         sizeof functions / sizeof functions[0]);
}
