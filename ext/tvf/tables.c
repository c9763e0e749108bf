/* SPDX-License-Identifier: MIT
**
** tables.c -- SELECT * FROM emb_tables: every emb table of the connection.
**
**   schema, name       as in SQL
**   path               the store's directory, NULL if temporary
**   key, vector        names of the key and of the vector columns
**   dimensions         of a row
**   type               'float32' or 'float16', of each vector column
**   rows               number of keys
**   state              'ok'
**                      'in doubt'   a crash left a commit undecided; the next
**                                   write decides it
**                      'ahead', 'behind'   the store's transaction number is
**                                   above or below the database's
**                      'read-only'  the database is read-only
**                      'missing'    the store's directory does not exist
**                      'error'      see message
**   owner              1 when this process itself owns the store for writing,
**                      which it does from its first write on unless another
**                      process does; 0 also in a process served by the owner
**   commit_mode        'atomic' or 'engine'
**   txn, store_txn     last transaction recorded by the database and the store
**   uuid               of the store
**   message            why the store cannot be opened
**   options            options changed by 'set', a JSON object; NULL: none
**   owner_pid          the process that owns the store; NULL: none, or one that
**                      cannot be seen from here
**   owner_since        when it became the owner, in seconds since 1970; NULL:
**                      not known
**   clients            sessions of other processes that it serves
**
** Listing opens the stores.  The wait for an unresponsive owner is short, one
** wait for all its tables: their state is 'error', and owner_pid is taken from
** the lock.
*/
#include "tvf.h"
SQLITE_EXTENSION_INIT3

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum {
  TABLES_SCHEMA = 0,
  TABLES_NAME,
  TABLES_PATH,
  TABLES_KEY,
  TABLES_VECTOR,
  TABLES_DIMENSIONS,
  TABLES_TYPE,
  TABLES_ROWS,
  TABLES_STATE,
  TABLES_OWNER,
  TABLES_COMMIT_MODE,
  TABLES_TXN,
  TABLES_STORE_TXN,
  TABLES_UUID,
  TABLES_MESSAGE,
  TABLES_OPTIONS,
  TABLES_OWNER_PID,
  TABLES_OWNER_SINCE,
  TABLES_CLIENTS,
};

struct table_row {
  char *schema, *name, *path, *key, *vector, *type, *message, *options;
  const char *state;
  char uuid[33];
  uint32_t dim;
  int is_open, is_owner, is_atomic, has_place, agrees;
  sqlite3_int64 rows, txn, store_txn, owner_pid, owner_since, clients;
};

struct tables_cursor {
  struct ext_tvf_cursor base; /* must be first */
  struct table_row *rows;
};

/* ---- collecting ---------------------------------------------------------- */

static const char *state_of(struct ext_table *table,
                            const struct table_row *row) {
  struct ext_link *link = table->link;
  if (emb_in_doubt(ext_link_store(link)))
    return "in doubt";
  if (sqlite3_db_readonly(table->conn->db, table->schema) == 1)
    return "read-only";
  if (!row->agrees)
    return row->store_txn > row->txn ? "ahead" : "behind";
  return "ok";
}

/* In a write transaction both numbers are those at its start. */
static int compare_numbers(struct ext_table *table, struct table_row *row,
                           char **err) {
  struct ext_link *link = table->link;
  struct ext_txn_numbers numbers;
  int rc;
  row->store_txn = (sqlite3_int64)emb_committed(ext_link_store(link));
  row->agrees = 1;
  if (!link->atomic || link->in_txn || emb_in_doubt(ext_link_store(link)))
    return SQLITE_OK;
  rc = ext_txn_compare(table, &numbers, err);
  if (rc != SQLITE_OK)
    return rc;
  row->txn = numbers.row;
  row->store_txn = numbers.store;
  row->agrees = numbers.agree;
  return SQLITE_OK;
}

int ext_tvf_state(struct ext_table *table, const char **state, char **err) {
  struct table_row row = {0};
  int rc = compare_numbers(table, &row, err);
  if (rc == SQLITE_OK)
    *state = state_of(table, &row);
  return rc;
}

static void describe_owner(struct ext_table *table, struct table_row *row) {
  emb_client owner = {0};
  size_t n = emb_clients(ext_link_store(table->link), &owner, 1);
  row->owner_pid = owner.process;
  row->owner_since = owner.since;
  row->clients = n ? (sqlite3_int64)n - 1 : 0;
  row->is_owner = n && owner.process == table->conn->process;
}

/* Describes an unresponsive owner, of which only the lock can be seen. */
static void describe_lock(struct ext_table *table, struct table_row *row) {
  int64_t process = 0;
  char *err = NULL;
  (void)ext_table_owner(table, &process, &err);
  sqlite3_free(err);
  row->owner_pid = process;
}

/* A store that exists but cannot be opened is not missing; a temporary store
** has no directory. */
static int is_store_missing(const struct table_row *row, int rc) {
  struct stat st;
  return rc == SQLITE_CANTOPEN &&
         (row->path == NULL || (stat(row->path, &st) != 0 && errno == ENOENT));
}

/* The names and the types of the vector columns. */
static void describe_vectors(const struct ext_options *options,
                             struct table_row *row) {
  sqlite3_str *names = sqlite3_str_new(NULL), *types = sqlite3_str_new(NULL);
  for (uint32_t i = 0; i < ext_vectors(options); i++) {
    const char *comma = i ? ", " : "";
    int half = options->segments[i].type == EMB_F16;
    sqlite3_str_appendf(names, "%s%s", comma, options->vectors[i]);
    sqlite3_str_appendf(types, "%s%s", comma, half ? "float16" : "float32");
  }
  row->vector = sqlite3_str_finish(names);
  row->type = sqlite3_str_finish(types);
}

static int tables_describe(struct ext_table *table, struct table_row *row) {
  struct ext_place place;
  char *err = NULL;
  int rc;
  row->schema = sqlite3_mprintf("%s", table->schema);
  row->name = sqlite3_mprintf("%s", table->name);
  row->key = sqlite3_mprintf("%s", ext_vtab(table)->options.key);
  describe_vectors(&ext_vtab(table)->options, row);
  row->dim = ext_vtab(table)->options.config.dim;
  row->is_atomic = table->file[0] && !ext_vtab(table)->options.engine_commit;
  rc = ext_settings_json(table, &row->options, &err);
  if (rc == SQLITE_OK)
    rc = ext_place_read(table, &place, &err);
  if (rc == SQLITE_OK) {
    row->has_place = 1;
    row->txn = place.txn;
    memcpy(row->uuid, place.uuid, sizeof row->uuid);
    if (place.dir)
      row->path = ext_place_path(table->file, place.dir);
    rc = place.dir && row->path == NULL ? SQLITE_NOMEM
                                        : ext_txn_read(table, &err);
    sqlite3_free(place.dir);
  }
  if (rc == SQLITE_OK)
    rc = ext_link_count_now(table->link, &row->rows, &err);
  if (rc == SQLITE_OK)
    rc = compare_numbers(table, row, &err);
  if (rc == SQLITE_OK) {
    row->is_open = 1;
    describe_owner(table, row);
    row->state = state_of(table, row);
  } else {
    row->state = is_store_missing(row, rc) ? "missing" : "error";
    if (rc == SQLITE_BUSY)
      describe_lock(table, row);
    row->message = err;
  }
  if (rc == SQLITE_NOMEM || rc == SQLITE_INTERRUPT)
    return rc;
  return row->schema && row->name && row->key && row->vector ? SQLITE_OK
                                                             : SQLITE_NOMEM;
}

/* For ext_conn_each. */
static int tables_add_row(void *arg, struct ext_table *table, char **err) {
  struct tables_cursor *cursor = arg;
  size_t n = cursor->base.n;
  struct table_row *rows =
      sqlite3_realloc64(cursor->rows, (n + 1) * sizeof *rows);
  (void)err;
  if (rows == NULL)
    return SQLITE_NOMEM;
  memset(&rows[n], 0, sizeof rows[n]);
  cursor->rows = rows;
  cursor->base.n = n + 1;
  ext_table_hold(table);
  return tables_describe(table, &rows[n]);
}

static int tables_begin(struct ext_tvf_cursor *base, sqlite3_value **arguments,
                        char **err) {
  sqlite3_stmt *schemas = NULL;
  int rc = sqlite3_prepare_v2(base->conn->db, "PRAGMA database_list", -1,
                              &schemas, NULL);
  (void)arguments;
  while (rc == SQLITE_OK && sqlite3_step(schemas) == SQLITE_ROW)
    rc =
        ext_conn_each(base->conn, (const char *)sqlite3_column_text(schemas, 1),
                      tables_add_row, base, err);
  /* The loop may have ended because memory ran out. */
  int end = sqlite3_finalize(schemas);
  return rc == SQLITE_OK ? end : rc;
}

static void tables_end(struct ext_tvf_cursor *base) {
  struct tables_cursor *cursor = (struct tables_cursor *)base;
  for (size_t i = 0; i < base->n; i++) {
    struct table_row *row = &cursor->rows[i];
    sqlite3_free(row->schema);
    sqlite3_free(row->name);
    sqlite3_free(row->path);
    sqlite3_free(row->key);
    sqlite3_free(row->vector);
    sqlite3_free(row->type);
    sqlite3_free(row->message);
    sqlite3_free(row->options);
  }
  sqlite3_free(cursor->rows);
  cursor->rows = NULL;
}

/* ---- the rows ------------------------------------------------------------ */

static void result_text(sqlite3_context *context, const char *text) {
  sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static void tables_column(struct ext_tvf_cursor *base, sqlite3_context *context,
                          int i) {
  const struct table_row *row = &((struct tables_cursor *)base)->rows[base->at];
  const char *texts[] = {
      [TABLES_SCHEMA] = row->schema,
      [TABLES_NAME] = row->name,
      [TABLES_PATH] = row->path,
      [TABLES_KEY] = row->key,
      [TABLES_VECTOR] = row->vector,
      [TABLES_TYPE] = row->type,
      [TABLES_STATE] = row->state,
      [TABLES_COMMIT_MODE] = row->is_atomic ? "atomic" : "engine",
      [TABLES_UUID] = row->has_place ? row->uuid : NULL,
      [TABLES_MESSAGE] = row->message,
      [TABLES_OPTIONS] = row->options,
  };
  switch (i) {
  case TABLES_DIMENSIONS:
    sqlite3_result_int64(context, row->dim);
    break;
  case TABLES_ROWS:
    if (row->is_open)
      sqlite3_result_int64(context, row->rows);
    break;
  case TABLES_OWNER:
    if (row->is_open)
      sqlite3_result_int(context, row->is_owner);
    break;
  case TABLES_TXN:
    if (row->has_place)
      sqlite3_result_int64(context, row->txn);
    break;
  case TABLES_STORE_TXN:
    if (row->is_open)
      sqlite3_result_int64(context, row->store_txn);
    break;
  case TABLES_OWNER_PID:
    if (row->owner_pid)
      sqlite3_result_int64(context, row->owner_pid);
    break;
  case TABLES_OWNER_SINCE:
    if (row->owner_since)
      sqlite3_result_int64(context, row->owner_since);
    break;
  case TABLES_CLIENTS:
    if (row->is_open)
      sqlite3_result_int64(context, row->clients);
    break;
  default:
    result_text(context, texts[i]); /* NULL for NULL */
  }
}

static sqlite3_int64 tables_rowid(struct ext_tvf_cursor *base) {
  return (sqlite3_int64)base->at + 1;
}

static const struct ext_tvf tables = {
    .name = "emb_tables",
    .declaration =
        "CREATE TABLE x(schema TEXT, name TEXT, path TEXT, key TEXT, "
        "vector TEXT, dimensions INTEGER, type TEXT, rows INTEGER, "
        "state TEXT, owner INTEGER, commit_mode TEXT, txn INTEGER, "
        "store_txn INTEGER, uuid TEXT, message TEXT, options TEXT, "
        "owner_pid INTEGER, owner_since INTEGER, clients INTEGER)",
    .is_state = 1,
    .cost = 10000,
    .rows = 10,
    .cursor_size = sizeof(struct tables_cursor),
    .begin = tables_begin,
    .column = tables_column,
    .rowid = tables_rowid,
    .end = tables_end,
};

int ext_tvf_tables_register(struct ext_conn *conn) {
  return ext_tvf_register(conn, &tables);
}
