/* SPDX-License-Identifier: MIT
**
** snapshot.c -- named snapshots.
**
**   emb_snapshot(table, name)        takes a snapshot; its number of keys
**   emb_snapshot_drop(table, name)   removes it; 1
**
**     CREATE TABLE emb_snapshot(
**       key, vector BLOB, version INTEGER, "table" HIDDEN, name HIDDEN)
**     CREATE TABLE emb_snapshots(
**       name TEXT, keys INTEGER, version INTEGER, bytes INTEGER, state TEXT,
**       "table" HIDDEN)
**
** SELECT ... FROM emb_snapshot('items', 'monday') reads a snapshot, all rows or
** those with key = ?; several vectors are returned as one.  The key column has
** no type, because keys may be texts: a value compared with it is converted as
** by the key column of the table.  The hidden column `snapshot` of the table
** does the same with the table's own columns (table/filter.c).
*/
#include "tvf.h"
SQLITE_EXTENSION_INIT3

/* ---- functions ----------------------------------------------------------- */

static int snapshot_tvf_find_table(sqlite3_context *context,
                                   sqlite3_value **argv,
                                   struct ext_table **table, const char **name,
                                   char **err) {
  int rc = ext_fn_table_to_write(ext_fn_conn(context), argv[0], table, err);
  return rc == SQLITE_OK ? ext_arg_snapshot_name(argv[1], name, err) : rc;
}

static int open_snap(struct ext_link *link, const char *name, emb_snap **snap,
                     char **err) {
  int rc = emb_snapshot_open(link->session, name, snap);
  return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
}

static void fn_snapshot(sqlite3_context *context, int argc,
                        sqlite3_value **argv) {
  struct ext_table *table;
  const char *name;
  char *err = NULL;
  int attempts = 0;
  emb_snap *snap = NULL;
  int rc = snapshot_tvf_find_table(context, argv, &table, &name, &err);
  (void)argc;
  if (rc == SQLITE_OK)
    do
      rc = emb_snapshot(table->link->session, name);
    while (ext_txn_again(table, &attempts, &rc, &err));
  if (rc == SQLITE_OK)
    rc = open_snap(table->link, name, &snap, &err);
  if (rc != SQLITE_OK) {
    ext_result_error(context, rc, err);
    return;
  }
  sqlite3_result_int64(context, emb_snapshot_count(snap));
  emb_snapshot_close(snap);
}

static void fn_snapshot_drop(sqlite3_context *context, int argc,
                             sqlite3_value **argv) {
  struct ext_table *table;
  const char *name;
  char *err = NULL;
  int attempts = 0;
  int rc = snapshot_tvf_find_table(context, argv, &table, &name, &err);
  (void)argc;
  if (rc == SQLITE_OK)
    do
      rc = emb_snapshot_drop(table->link->session, name);
    while (ext_txn_again(table, &attempts, &rc, &err));
  if (rc == SQLITE_OK)
    sqlite3_result_int(context, 1);
  else
    ext_result_error(context, rc, err);
}

/* ---- emb_snapshot(table, name) ------------------------------------------- */

enum {
  SNAPSHOT_KEY = 0,
  SNAPSHOT_VECTOR,
  SNAPSHOT_VERSION,
  SNAPSHOT_TABLE,
  SNAPSHOT_NAME
};

struct snap_cursor {
  struct ext_tvf_cursor base; /* must be first */
  emb_snap *snap;
  int64_t key;
  uint64_t version;
  float *vector;
  size_t bytes; /* of the vector */
};

/* Finds the number of a text, 0 if it has none; a number is converted to
** text. */
static int snapshot_tvf_find_text(struct ext_table *table, sqlite3_value *value,
                                  int64_t *key, char **err) {
  struct ext_dict *dict = table->link->dict;
  int type = sqlite3_value_type(value);
  struct ext_text text;
  size_t absent;
  int rc;
  *key = 0;
  if (type == SQLITE_BLOB || type == SQLITE_NULL)
    return SQLITE_OK;
  rc = ext_text_from_value(value, "key", &text, err);
  return rc == SQLITE_OK ? ext_dict_find(dict, &text, 1, key, &absent, err)
                         : rc;
}

/* Looks up a text, or an INTEGER, or a value that SQLite compares as one; no
** other key can exist. */
static int snapshot_tvf_find_key(struct snap_cursor *cursor,
                                 struct ext_table *table, sqlite3_value *value,
                                 char **err) {
  uint8_t found = 0;
  int rc;
  if (ext_vtab(table)->options.text_key) {
    rc = snapshot_tvf_find_text(table, value, &cursor->key, err);
    if (rc != SQLITE_OK || cursor->key == 0)
      return rc;
  } else {
    rc = ext_key_comparable(value, "key", err);
    if (rc != SQLITE_OK || !ext_range_key(value, &cursor->key))
      return rc;
  }
  rc = emb_snapshot_get(cursor->snap, &cursor->key, 1, cursor->vector, &found,
                        &cursor->version);
  cursor->base.n = found;
  return rc ? ext_link_error(cursor->base.link, rc, err) : SQLITE_OK;
}

static int snapshot_tvf_begin(struct ext_tvf_cursor *base,
                              sqlite3_value **arguments, char **err) {
  struct snap_cursor *cursor = (struct snap_cursor *)base;
  struct ext_table *table;
  const char *name;
  int rc = ext_fn_table(base->conn, arguments[0], &table, err);
  if (rc == SQLITE_OK)
    rc = ext_arg_snapshot_name(arguments[1], &name, err);
  if (rc == SQLITE_OK)
    rc = open_snap(table->link, name, &cursor->snap, err);
  if (rc != SQLITE_OK)
    return rc;
  ext_tvf_hold(base, table->link);
  cursor->bytes = ext_vtab(table)->options.config.dim * sizeof(float);
  cursor->vector = sqlite3_malloc64(cursor->bytes);
  if (cursor->vector == NULL)
    return SQLITE_NOMEM;
  return arguments[2] ? snapshot_tvf_find_key(cursor, table, arguments[2], err)
                      : SQLITE_OK;
}

static int snapshot_tvf_more(struct ext_tvf_cursor *base, char **err) {
  struct snap_cursor *cursor = (struct snap_cursor *)base;
  int rc = emb_snapshot_scan(cursor->snap, 1, &cursor->key, cursor->vector,
                             &cursor->version, &base->n);
  return rc ? ext_link_error(base->link, rc, err) : SQLITE_OK;
}

static void snapshot_tvf_end(struct ext_tvf_cursor *base) {
  struct snap_cursor *cursor = (struct snap_cursor *)base;
  emb_snapshot_close(cursor->snap);
  cursor->snap = NULL;
  sqlite3_free(cursor->vector);
  cursor->vector = NULL;
}

static void snapshot_tvf_column(struct ext_tvf_cursor *base,
                                sqlite3_context *context, int i) {
  struct snap_cursor *cursor = (struct snap_cursor *)base;
  if (i == SNAPSHOT_KEY)
    ext_key_result(context, base->link, cursor->key);
  else if (i == SNAPSHOT_VECTOR)
    sqlite3_result_blob64(context, cursor->vector, cursor->bytes,
                          SQLITE_TRANSIENT);
  else if (i == SNAPSHOT_VERSION)
    sqlite3_result_int64(context, (sqlite3_int64)cursor->version);
}

static sqlite3_int64 snapshot_tvf_rowid(struct ext_tvf_cursor *base) {
  return ((struct snap_cursor *)base)->key;
}

static const struct ext_tvf snapshot = {
    .name = "emb_snapshot",
    .declaration = "CREATE TABLE x(key, vector BLOB, version INTEGER, "
                   "\"table\" HIDDEN, name HIDDEN)",
    .argument = SNAPSHOT_TABLE,
    .arguments = 2,
    .needed = 2,
    .needs = "the names of a table and a snapshot",
    .key_cost = 10,
    .key_is_exact = 1,
    .cost = 1000000,
    .rows = 1000000,
    .cursor_size = sizeof(struct snap_cursor),
    .begin = snapshot_tvf_begin,
    .more = snapshot_tvf_more,
    .column = snapshot_tvf_column,
    .rowid = snapshot_tvf_rowid,
    .end = snapshot_tvf_end,
};

/* ---- emb_snapshots(table) ------------------------------------------------ */

enum {
  SNAPSHOT_LIST_NAME = 0,
  SNAPSHOT_LIST_KEYS,
  SNAPSHOT_LIST_VERSION,
  SNAPSHOT_LIST_BYTES,
  SNAPSHOT_LIST_STATE,
  SNAPSHOT_LIST_TABLE
};

struct snapshot_list_cursor {
  struct ext_tvf_cursor base; /* must be first */
  emb_snapshot_info rows[EMB_SNAPSHOTS_MAX];
};

int ext_tvf_snapshots(struct ext_table *table,
                      emb_snapshot_info rows[EMB_SNAPSHOTS_MAX], size_t *n,
                      char **err) {
  int rc = emb_snapshots(table->link->session, rows, EMB_SNAPSHOTS_MAX, n);
  return rc ? ext_link_error(table->link, rc, err) : SQLITE_OK;
}

static int snapshot_list_begin(struct ext_tvf_cursor *base,
                               sqlite3_value **arguments, char **err) {
  struct snapshot_list_cursor *cursor = (struct snapshot_list_cursor *)base;
  struct ext_table *table;
  int rc = ext_fn_table(base->conn, arguments[0], &table, err);
  return rc == SQLITE_OK ? ext_tvf_snapshots(table, cursor->rows, &base->n, err)
                         : rc;
}

static void snapshot_list_column(struct ext_tvf_cursor *base,
                                 sqlite3_context *context, int i) {
  const emb_snapshot_info *row =
      &((struct snapshot_list_cursor *)base)->rows[base->at];
  switch (i) {
  case SNAPSHOT_LIST_NAME:
    sqlite3_result_text(context, row->name, -1, SQLITE_TRANSIENT);
    break;
  case SNAPSHOT_LIST_KEYS:
    sqlite3_result_int64(context, row->keys);
    break;
  case SNAPSHOT_LIST_VERSION:
    sqlite3_result_int64(context, (sqlite3_int64)row->version);
    break;
  case SNAPSHOT_LIST_BYTES:
    sqlite3_result_int64(context, (sqlite3_int64)row->bytes);
    break;
  case SNAPSHOT_LIST_STATE:
    sqlite3_result_text(context, row->damaged ? "damaged" : "ok", -1,
                        SQLITE_STATIC);
  }
}

static sqlite3_int64 snapshot_list_rowid(struct ext_tvf_cursor *base) {
  return (sqlite3_int64)base->at + 1;
}

static const struct ext_tvf snapshots = {
    .name = "emb_snapshots",
    .declaration = "CREATE TABLE x(name TEXT, keys INTEGER, version INTEGER, "
                   "bytes INTEGER, state TEXT, \"table\" HIDDEN)",
    .argument = SNAPSHOT_LIST_TABLE,
    .arguments = 1,
    .needed = 1,
    .needs = "a table name",
    .cost = 100,
    .rows = EMB_SNAPSHOTS_MAX,
    .cursor_size = sizeof(struct snapshot_list_cursor),
    .begin = snapshot_list_begin,
    .column = snapshot_list_column,
    .rowid = snapshot_list_rowid,
};

int ext_tvf_snapshot_register(struct ext_conn *conn) {
  static const struct ext_function functions[] = {
      {"emb_snapshot", 2, fn_snapshot},
      {"emb_snapshot_drop", 2, fn_snapshot_drop}};
  int rc =
      ext_fn_register(conn, functions, sizeof functions / sizeof functions[0]);
  if (rc == SQLITE_OK)
    rc = ext_tvf_register(conn, &snapshot);
  return rc == SQLITE_OK ? ext_tvf_register(conn, &snapshots) : rc;
}
