/* SPDX-License-Identifier: MIT
**
** directory.c -- lists files that can be registered.
**
**     CREATE TABLE emb_samples_directory(path, bytes, changed,
**                                        directory HIDDEN, pattern HIDDEN)
**
** Returns a row for each regular file in the directory whose name matches the
** GLOB pattern, in the order of the names.  It changes nothing: INSERT OR
** IGNORE INTO samples(path) SELECT path FROM it registers the new files, all or
** none, as any INSERT ... SELECT does.
*/
#include "engine/data/emb_data.h"
#include "samples.h"
SQLITE_EXTENSION_INIT3

enum { DIRECTORY_PATH, DIRECTORY_BYTES, DIRECTORY_CHANGED, DIRECTORY_ARGUMENT };

struct directory_cursor {
  struct ext_tvf_cursor base; /* must be first */
  emb_samples_directory *directory;
  emb_samples_entry entry;
};

static int directory_wanted(void *arg, const char *name) {
  return sqlite3_strglob(arg, name) == 0;
}

static int directory_begin(struct ext_tvf_cursor *base,
                           sqlite3_value **arguments, char **err) {
  struct directory_cursor *cursor = (struct directory_cursor *)base;
  const char *path, *pattern = NULL;
  emb_err why;
  int rc = ext_conn_check(base->conn, err);
  if (rc == SQLITE_OK)
    rc = ext_arg_text(arguments[0], "directory", &path, err);
  if (rc == SQLITE_OK && arguments[1] &&
      sqlite3_value_type(arguments[1]) != SQLITE_NULL)
    rc = ext_arg_text(arguments[1], "pattern", &pattern, err);
  if (rc == SQLITE_OK &&
      emb_samples_directory_open(path, pattern ? directory_wanted : NULL,
                                 (void *)(uintptr_t)pattern, &cursor->directory,
                                 &why))
    rc = ext_engine_error(err, why.code, why.text);
  return rc;
}

static int directory_more(struct ext_tvf_cursor *base, char **err) {
  struct directory_cursor *cursor = (struct directory_cursor *)base;
  emb_err why;
  if (ext_link_interrupted(base->conn))
    return ext_engine_error(err, EMB_INTERRUPT, "interrupted");
  if (emb_samples_directory_next(cursor->directory, &cursor->entry, &why))
    return ext_engine_error(err, why.code, why.text);
  base->n = cursor->entry.path != NULL;
  return SQLITE_OK;
}

static void directory_column(struct ext_tvf_cursor *base,
                             sqlite3_context *context, int i) {
  const emb_samples_entry *entry = &((struct directory_cursor *)base)->entry;
  int64_t changed = entry->changed_ns / 1000000000;
  changed -= entry->changed_ns < 0 && entry->changed_ns % 1000000000 != 0;
  if (i == DIRECTORY_PATH)
    sqlite3_result_text(context, entry->path, -1, SQLITE_TRANSIENT);
  else if (i == DIRECTORY_BYTES)
    sqlite3_result_int64(context, (sqlite3_int64)entry->bytes);
  else if (i == DIRECTORY_CHANGED)
    sqlite3_result_int64(context, changed);
}

static void directory_end(struct ext_tvf_cursor *base) {
  struct directory_cursor *cursor = (struct directory_cursor *)base;
  emb_samples_directory_close(cursor->directory);
  cursor->directory = NULL;
}

static const struct ext_tvf samples_directory = {
    .name = "emb_samples_directory",
    .declaration = "CREATE TABLE x(path TEXT, bytes INTEGER, changed INTEGER, "
                   "directory HIDDEN, pattern HIDDEN)",
    .argument = DIRECTORY_ARGUMENT,
    .arguments = 2,
    .needed = 1,
    .needs = "a directory",
    .cost = 1000,
    .rows = 1000,
    .cursor_size = sizeof(struct directory_cursor),
    .begin = directory_begin,
    .more = directory_more,
    .column = directory_column,
    .end = directory_end,
};

int ext_samples_directory_register(struct ext_conn *conn) {
  return ext_tvf_register(conn, &samples_directory);
}
