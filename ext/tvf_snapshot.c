/* SPDX-License-Identifier: MIT
**
** tvf_snapshot.c -- the state of a moment, kept under a name.
**
**   emb_snapshot(table, name)        takes one; number of keys in it
**   emb_snapshot_drop(table, name)   forgets it; 1
**
**     CREATE TABLE emb_snapshot(
**       key INTEGER, vector BLOB, version INTEGER, "table" HIDDEN, name HIDDEN)
**     CREATE TABLE emb_snapshots(
**       name TEXT, keys INTEGER, version INTEGER, bytes INTEGER, state TEXT,
**       "table" HIDDEN)
**
** SELECT ... FROM emb_snapshot('items', 'monday') reads it, all rows or those
** with key = ?; several vectors come as one.  The hidden column `snapshot` of
** the table does the same with the table's own columns (filter.c).
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* ---- functions ----------------------------------------------------------- */

static int read_name(sqlite3_value *value, const char **name, char **err) {
  *name = (const char *)sqlite3_value_text(value);
  return *name ? SQLITE_OK
               : ext_error(err, SQLITE_MISMATCH,
                           "a snapshot's name must be TEXT, got NULL");
}

static int find_table(sqlite3_context *context, sqlite3_value **argv,
                      struct ext_table **table, const char **name, char **err) {
  int rc =
      ext_fn_table_to_write(sqlite3_user_data(context), argv[0], table, err);
  return rc == SQLITE_OK ? read_name(argv[1], name, err) : rc;
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
  emb_snap *snap = NULL;
  int rc = find_table(context, argv, &table, &name, &err);
  (void)argc;
  if (rc == SQLITE_OK) {
    rc = emb_snapshot(table->link->session, name);
    if (rc)
      rc = ext_link_error(table->link, rc, &err);
  }
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
  int rc = find_table(context, argv, &table, &name, &err);
  (void)argc;
  if (rc == SQLITE_OK) {
    rc = emb_snapshot_drop(table->link->session, name);
    if (rc)
      rc = ext_link_error(table->link, rc, &err);
  }
  if (rc == SQLITE_OK)
    sqlite3_result_int(context, 1);
  else
    ext_result_error(context, rc, err);
}

/* ---- what the two table-valued functions share --------------------------- */

enum { GIVEN_TABLE = 1, GIVEN_NAME = 2, GIVEN_KEY = 4 };

/* Which of the arguments, from column `first` on, are there; and key = ?, if
** the table has one (key_column, else -2). */
static int take_arguments(sqlite3_index_info *info, int first, int count,
                          int key_column) {
  int at[3] = {-1, -1, -1};
  int n = 0;
  for (int i = 0; i < info->nConstraint; i++) {
    const struct sqlite3_index_constraint *constraint = &info->aConstraint[i];
    int which = constraint->iColumn - first;
    if (constraint->op != SQLITE_INDEX_CONSTRAINT_EQ)
      continue;
    if (which >= 0 && which < count) {
      if (!constraint->usable)
        return SQLITE_CONSTRAINT;
      at[which] = i;
    } else if (constraint->iColumn == key_column && constraint->usable) {
      at[2] = i;
    }
  }
  info->idxNum = 0;
  for (int i = 0; i < 3; i++) {
    if (at[i] < 0)
      continue;
    info->idxNum |= 1 << i;
    info->aConstraintUsage[at[i]].argvIndex = ++n;
    /* A key of another type is compared by SQLite. */
    info->aConstraintUsage[at[i]].omit = i < 2;
  }
  return SQLITE_OK;
}

/* ---- emb_snapshot(table, name) ------------------------------------------- */

enum { KEY = 0, VECTOR, VERSION, TABLE, NAME };

struct snap_cursor {
  sqlite3_vtab_cursor base; /* must be first */
  struct ext_link *link;    /* while the snapshot is open */
  emb_snap *snap;
  int is_one;
  int64_t key;
  uint64_t version;
  float *vector;
  size_t bytes; /* of it */
  size_t n;     /* 1: there is a row */
};

static int connect(sqlite3 *db, void *conn, int argc, const char *const *argv,
                   sqlite3_vtab **out, char **message) {
  (void)argc, (void)argv, (void)message;
  return ext_tvf_connect(
      db, conn,
      "CREATE TABLE x(key INTEGER, vector BLOB, version INTEGER, "
      "\"table\" HIDDEN, name HIDDEN)",
      out);
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  int rc = take_arguments(info, TABLE, 2, KEY);
  (void)vtab;
  info->estimatedRows = info->idxNum & GIVEN_KEY ? 1 : 1000000;
  info->estimatedCost = (info->idxNum & 3) != 3    ? 1e12
                        : info->idxNum & GIVEN_KEY ? 10
                                                   : 1000000;
  return rc;
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  struct snap_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
  (void)vtab;
  if (cursor == NULL)
    return SQLITE_NOMEM;
  memset(cursor, 0, sizeof *cursor);
  *out = &cursor->base;
  return SQLITE_OK;
}

static void rewind_cursor(struct snap_cursor *cursor) {
  emb_snapshot_close(cursor->snap);
  cursor->snap = NULL;
  if (cursor->link)
    cursor->link->cursors--;
  cursor->link = NULL;
  sqlite3_free(cursor->vector);
  cursor->vector = NULL;
  cursor->n = 0;
}

static int close_cursor(sqlite3_vtab_cursor *base) {
  rewind_cursor((struct snap_cursor *)base);
  sqlite3_free(base);
  return SQLITE_OK;
}

static int next(sqlite3_vtab_cursor *base) {
  struct snap_cursor *cursor = (struct snap_cursor *)base;
  char *err = NULL;
  int rc;
  cursor->n = 0;
  if (cursor->is_one)
    return SQLITE_OK;
  rc = emb_snapshot_scan(cursor->snap, 1, &cursor->key, cursor->vector,
                         &cursor->version, &cursor->n);
  if (rc)
    rc = ext_link_error(cursor->link, rc, &err);
  return ext_vtab_error(base->pVtab, rc, err);
}

/* An INTEGER, or what SQLite compares as one; no other key is there. */
static int find_key(struct snap_cursor *cursor, sqlite3_value *value,
                    char **err) {
  struct ext_range range;
  uint8_t found = 0;
  int rc;
  ext_range_all(&range);
  ext_range_narrow(&range, '=', value);
  cursor->is_one = 1;
  if (range.lo != range.hi)
    return SQLITE_OK;
  cursor->key = range.lo;
  rc = emb_snapshot_get(cursor->snap, &cursor->key, 1, cursor->vector, &found,
                        &cursor->version);
  cursor->n = found;
  return rc ? ext_link_error(cursor->link, rc, err) : SQLITE_OK;
}

static int start(struct snap_cursor *cursor, int given, sqlite3_value **argv,
                 char **err) {
  struct ext_tvf_table *vtab = (struct ext_tvf_table *)cursor->base.pVtab;
  struct ext_table *table;
  const char *name;
  int rc;
  if ((given & 3) != 3)
    return ext_error(err, SQLITE_ERROR,
                     "emb_snapshot needs the names of a table and a snapshot");
  rc = ext_fn_table(vtab->conn, argv[0], &table, err);
  if (rc == SQLITE_OK)
    rc = read_name(argv[1], &name, err);
  if (rc == SQLITE_OK)
    rc = open_snap(table->link, name, &cursor->snap, err);
  if (rc != SQLITE_OK)
    return rc;
  cursor->link = table->link;
  cursor->link->cursors++;
  cursor->bytes = table->options.config.dim * sizeof(float);
  cursor->vector = sqlite3_malloc64(cursor->bytes);
  if (cursor->vector == NULL)
    return SQLITE_NOMEM;
  cursor->is_one = 0;
  return given & GIVEN_KEY ? find_key(cursor, argv[2], err) : SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *base, int given, const char *plan,
                  int argc, sqlite3_value **argv) {
  struct snap_cursor *cursor = (struct snap_cursor *)base;
  char *err = NULL;
  int rc;
  (void)plan, (void)argc;
  rewind_cursor(cursor);
  rc = start(cursor, given, argv, &err);
  if (rc == SQLITE_OK && !cursor->is_one)
    return next(base);
  return ext_vtab_error(base->pVtab, rc, err);
}

static int eof(sqlite3_vtab_cursor *base) {
  return ((struct snap_cursor *)base)->n == 0;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int i) {
  struct snap_cursor *cursor = (struct snap_cursor *)base;
  if (i == KEY)
    sqlite3_result_int64(context, cursor->key);
  else if (i == VECTOR)
    sqlite3_result_blob64(context, cursor->vector, cursor->bytes,
                          SQLITE_TRANSIENT);
  else if (i == VERSION)
    sqlite3_result_int64(context, (sqlite3_int64)cursor->version);
  return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out) {
  *out = ((struct snap_cursor *)base)->key;
  return SQLITE_OK;
}

static const sqlite3_module module = {
    .xConnect = connect,
    .xBestIndex = best_index,
    .xDisconnect = ext_tvf_disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next,
    .xEof = eof,
    .xColumn = column,
    .xRowid = rowid,
};

/* ---- emb_snapshots(table) ------------------------------------------------ */

enum {
  LIST_NAME = 0,
  LIST_KEYS,
  LIST_VERSION,
  LIST_BYTES,
  LIST_STATE,
  LIST_TABLE
};

struct list_cursor {
  sqlite3_vtab_cursor base; /* must be first */
  size_t n, at;
  emb_snapshot_info rows[EMB_SNAPSHOTS_MAX];
};

static int list_connect(sqlite3 *db, void *conn, int argc,
                        const char *const *argv, sqlite3_vtab **out,
                        char **message) {
  (void)argc, (void)argv, (void)message;
  return ext_tvf_connect(
      db, conn,
      "CREATE TABLE x(name TEXT, keys INTEGER, version INTEGER, "
      "bytes INTEGER, state TEXT, \"table\" HIDDEN)",
      out);
}

static int list_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  int rc = take_arguments(info, LIST_TABLE, 1, -2);
  (void)vtab;
  info->estimatedRows = EMB_SNAPSHOTS_MAX;
  info->estimatedCost = info->idxNum & GIVEN_TABLE ? 100 : 1e12;
  return rc;
}

static int list_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  struct list_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
  (void)vtab;
  if (cursor == NULL)
    return SQLITE_NOMEM;
  memset(cursor, 0, sizeof *cursor);
  *out = &cursor->base;
  return SQLITE_OK;
}

static int list_close(sqlite3_vtab_cursor *base) {
  sqlite3_free(base);
  return SQLITE_OK;
}

static int list_filter(sqlite3_vtab_cursor *base, int given, const char *plan,
                       int argc, sqlite3_value **argv) {
  struct list_cursor *cursor = (struct list_cursor *)base;
  struct ext_tvf_table *vtab = (struct ext_tvf_table *)base->pVtab;
  struct ext_table *table;
  char *err = NULL;
  int rc;
  (void)plan, (void)argc;
  cursor->n = cursor->at = 0;
  rc = given & GIVEN_TABLE
           ? ext_fn_table(vtab->conn, argv[0], &table, &err)
           : ext_error(&err, SQLITE_ERROR, "emb_snapshots needs a table name");
  if (rc == SQLITE_OK) {
    rc = emb_snapshots(table->link->session, cursor->rows, EMB_SNAPSHOTS_MAX,
                       &cursor->n);
    if (rc)
      rc = ext_link_error(table->link, rc, &err);
  }
  return ext_vtab_error(base->pVtab, rc, err);
}

static int list_next(sqlite3_vtab_cursor *base) {
  ((struct list_cursor *)base)->at++;
  return SQLITE_OK;
}

static int list_eof(sqlite3_vtab_cursor *base) {
  struct list_cursor *cursor = (struct list_cursor *)base;
  return cursor->at >= cursor->n;
}

static int list_column(sqlite3_vtab_cursor *base, sqlite3_context *context,
                       int i) {
  struct list_cursor *cursor = (struct list_cursor *)base;
  const emb_snapshot_info *row = &cursor->rows[cursor->at];
  switch (i) {
  case LIST_NAME:
    sqlite3_result_text(context, row->name, -1, SQLITE_TRANSIENT);
    break;
  case LIST_KEYS:
    sqlite3_result_int64(context, row->keys);
    break;
  case LIST_VERSION:
    sqlite3_result_int64(context, (sqlite3_int64)row->version);
    break;
  case LIST_BYTES:
    sqlite3_result_int64(context, (sqlite3_int64)row->bytes);
    break;
  case LIST_STATE:
    sqlite3_result_text(context, row->damaged ? "damaged" : "ok", -1,
                        SQLITE_STATIC);
  }
  return SQLITE_OK;
}

static int list_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out) {
  *out = (sqlite3_int64)((struct list_cursor *)base)->at + 1;
  return SQLITE_OK;
}

static const sqlite3_module list_module = {
    .xConnect = list_connect,
    .xBestIndex = list_best_index,
    .xDisconnect = ext_tvf_disconnect,
    .xOpen = list_open,
    .xClose = list_close,
    .xFilter = list_filter,
    .xNext = list_next,
    .xEof = list_eof,
    .xColumn = list_column,
    .xRowid = list_rowid,
};

int ext_tvf_snapshot_register(struct ext_conn *conn) {
  static const struct ext_function functions[] = {
      {"emb_snapshot", 2, fn_snapshot},
      {"emb_snapshot_drop", 2, fn_snapshot_drop}};
  int rc =
      ext_fn_register(conn, functions, sizeof functions / sizeof functions[0]);
  if (rc == SQLITE_OK) {
    conn->refs++;
    rc = sqlite3_create_module_v2(conn->db, "emb_snapshot", &module, conn,
                                  ext_conn_unref);
  }
  if (rc == SQLITE_OK) {
    conn->refs++;
    rc = sqlite3_create_module_v2(conn->db, "emb_snapshots", &list_module, conn,
                                  ext_conn_unref);
  }
  return rc;
}
