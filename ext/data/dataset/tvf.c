/* SPDX-License-Identifier: MIT
**
** tvf.c -- samples by lists of keys, and for workers.
**
**     CREATE TABLE emb_samples_get(pos, found, key, payload, label, timestamp,
**                                  dataset, path, "table" HIDDEN, keys HIDDEN)
**     CREATE TABLE emb_samples_worker(key, payload, label, timestamp, dataset,
**                                  path, "table" HIDDEN, worker HIDDEN, workers
**                                  HIDDEN, start HIDDEN, end HIDDEN)
**
** The first gives a row for each key of the list, in its order, found or not.
** The second gives worker 0 to workers - 1 its share of the samples from start,
** and before end: each sample to exactly one of them (range.c).
*/
#include "samples.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

#define WORKERS_MOST 1000000

struct samples_tvf {
  struct ext_tvf_cursor base; /* must be first */
  struct ext_samples_scan *scan;
  sqlite3_stmt *hold;
  int first;   /* the scan is on a row not returned yet */
  int columns; /* number of columns before the table's */
};

/* ---- the table ----------------------------------------------------------- */

/* Only the first row of the statement is read.  It comes from the schema, so a
** transaction is open; the second SELECT keeps the table. */
static int samples_find_prepare(struct ext_samples_client *client,
                                const char *text, sqlite3_stmt **hold,
                                const char **name, char **err) {
  sqlite3 *db = client->conn->db;
  char *schema, *sql;
  int rc = ext_conn_split_name(db, text, &schema, name);
  if (rc != SQLITE_OK)
    return rc;
  sql = schema ? sqlite3_mprintf("SELECT 1 FROM \"%w\".sqlite_schema UNION ALL "
                                 "SELECT 1 FROM \"%w\".\"%w\"",
                                 schema, schema, *name)
               : sqlite3_mprintf("SELECT 1 FROM sqlite_schema UNION ALL SELECT "
                                 "1 FROM \"%w\"",
                                 *name);
  sqlite3_free(schema);
  if (sql == NULL)
    return SQLITE_NOMEM;
  emb_assert(!client->probing);
  client->probed = NULL;
  client->probing = 1;
  rc = sqlite3_prepare_v2(db, sql, -1, hold, NULL);
  client->probing = 0;
  sqlite3_free(sql);
  return ext_sql_error(err, db, rc);
}

int ext_samples_find(struct ext_samples_client *client, sqlite3_value *value,
                     struct ext_samples **table, sqlite3_stmt **hold,
                     char **err) {
  const char *text, *name = NULL;
  int rc = ext_arg_text(value, "table", &text, err);
  if (rc == SQLITE_OK)
    rc = samples_find_prepare(client, text, hold, &name, err);
  if (rc != SQLITE_OK)
    return rc;
  *table = client->probed;
  if (*table == NULL || sqlite3_stricmp((*table)->name, name) != 0)
    return ext_error(err, SQLITE_ERROR, "not a table of emb_samples: %s", text);
  if (sqlite3_step(*hold) == SQLITE_ROW)
    return SQLITE_OK;
  return ext_sql_error(err, client->conn->db, sqlite3_reset(*hold));
}

static int samples_tvf_start(struct samples_tvf *cursor, sqlite3_value *name,
                             int columns, char **err) {
  struct ext_samples *table = NULL;
  int rc = ext_conn_check(cursor->base.conn, err);
  if (rc == SQLITE_OK)
    rc = ext_samples_find(ext_samples_client(cursor->base.conn), name, &table,
                          &cursor->hold, err);
  if (rc == SQLITE_OK)
    rc = ext_samples_scan_new(table, &cursor->scan);
  cursor->first = 1;
  cursor->columns = columns;
  return rc;
}

/* Finds which columns of the table are read. */
static int samples_tvf_reads(const struct samples_tvf *cursor) {
  return cursor->base.plan / EXT_TVF_PLAN >> cursor->columns;
}

static void samples_tvf_plan(sqlite3_index_info *info) {
  info->idxNum |= (int)(info->colUsed & 0xffff) * EXT_TVF_PLAN;
}

static int samples_tvf_more(struct ext_tvf_cursor *base, char **err) {
  struct samples_tvf *cursor = (struct samples_tvf *)base;
  int rc = cursor->first ? SQLITE_OK : ext_samples_scan_next(cursor->scan, err);
  cursor->first = 0;
  base->n = rc == SQLITE_OK && !ext_samples_scan_eof(cursor->scan);
  return rc;
}

static void samples_tvf_end(struct ext_tvf_cursor *base) {
  struct samples_tvf *cursor = (struct samples_tvf *)base;
  ext_samples_scan_free(cursor->scan);
  sqlite3_finalize(cursor->hold);
  cursor->scan = NULL;
  cursor->hold = NULL;
}

static void samples_tvf_column(struct ext_tvf_cursor *base,
                               sqlite3_context *context, int i) {
  struct samples_tvf *cursor = (struct samples_tvf *)base;
  int column = i - cursor->columns;
  char *err = NULL;
  int rc = SQLITE_OK;
  if (column < 0 && i == 0)
    sqlite3_result_int64(
        context, (sqlite3_int64)ext_samples_scan_position(cursor->scan));
  else if (column < 0)
    sqlite3_result_int(context, ext_samples_scan_found(cursor->scan));
  else if (column <= EXT_SAMPLES_PATH)
    rc = ext_samples_scan_column(cursor->scan, context, column, &err);
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
}

static sqlite3_int64 samples_tvf_rowid(struct ext_tvf_cursor *base) {
  return (sqlite3_int64)ext_samples_scan_position(
      ((struct samples_tvf *)base)->scan);
}

/* ---- emb_samples_get ----------------------------------------------------- */

static int samples_get_begin(struct ext_tvf_cursor *base,
                             sqlite3_value **arguments, char **err) {
  struct samples_tvf *cursor = (struct samples_tvf *)base;
  int64_t *keys, *own;
  int owned;
  size_t n;
  int rc = samples_tvf_start(cursor, arguments[0], 2, err);
  if (rc == SQLITE_OK)
    rc = ext_keys_from_value(
        arguments[1],
        &(struct ext_arg){"keys", ext_link_interrupted, base->conn}, &keys,
        &owned, &n, err);
  if (rc != SQLITE_OK)
    return rc;
  own = keys;
  if (!owned && (own = sqlite3_malloc64(n * sizeof *own + 1)) != NULL && n)
    memcpy(own, keys, n * sizeof *own);
  if (own == NULL && n)
    return SQLITE_NOMEM;
  return ext_samples_scan_list(cursor->scan, own, n, samples_tvf_reads(cursor),
                               err);
}

static const struct ext_tvf samples_get = {
    .name = "emb_samples_get",
    .declaration = "CREATE TABLE x(pos INTEGER, found INTEGER, key INTEGER, "
                   "payload, label, timestamp INTEGER, dataset TEXT, path "
                   "TEXT, \"table\" HIDDEN, keys HIDDEN)",
    .argument = 8,
    .arguments = 2,
    .needed = 2,
    .needs = "a table name and keys",
    .cost = 1000,
    .rows = 1024,
    .plan = samples_tvf_plan,
    .cursor_size = sizeof(struct samples_tvf),
    .begin = samples_get_begin,
    .more = samples_tvf_more,
    .column = samples_tvf_column,
    .rowid = samples_tvf_rowid,
    .end = samples_tvf_end,
};

/* ---- emb_samples_worker -------------------------------------------------- */

static int samples_worker_number(sqlite3_value *value, const char *what,
                                 int64_t least, int64_t most, int64_t *number,
                                 char **err) {
  int rc;
  sqlite3_value_numeric_type(value);
  rc = ext_key_from_value(value, what, number, err);
  if (rc == SQLITE_OK && (*number < least || *number > most))
    rc = ext_error(err, SQLITE_ERROR,
                   "%s must be between %lld and %lld, got "
                   "%lld",
                   what, (long long)least, (long long)most, (long long)*number);
  return rc;
}

/* Parses one end of the interval, which may be absent. */
static int samples_worker_time(struct ext_range *times, char op,
                               sqlite3_value *value, const char *what,
                               char **err) {
  int64_t time;
  int rc;
  if (value == NULL || sqlite3_value_type(value) == SQLITE_NULL)
    return SQLITE_OK;
  sqlite3_value_numeric_type(value);
  rc = ext_key_from_value(value, what, &time, err);
  if (rc == SQLITE_OK)
    ext_range_narrow(times, op, value);
  return rc;
}

static int samples_worker_begin(struct ext_tvf_cursor *base,
                                sqlite3_value **arguments, char **err) {
  struct samples_tvf *cursor = (struct samples_tvf *)base;
  struct ext_samples_ask ask = {0};
  int rc = samples_tvf_start(cursor, arguments[0], 0, err);
  ext_range_all(&ask.keys);
  ext_range_all(&ask.times);
  ask.reads = samples_tvf_reads(cursor);
  if (rc == SQLITE_OK)
    rc = samples_worker_number(arguments[2], "workers", 1, WORKERS_MOST,
                               &ask.workers, err);
  if (rc == SQLITE_OK)
    rc = samples_worker_number(arguments[1], "worker", 0, ask.workers - 1,
                               &ask.worker, err);
  if (rc == SQLITE_OK)
    rc = samples_worker_time(&ask.times, 'g', arguments[3], "start", err);
  if (rc == SQLITE_OK)
    rc = samples_worker_time(&ask.times, '<', arguments[4], "end", err);
  return rc == SQLITE_OK ? ext_samples_scan_range(cursor->scan, &ask, err) : rc;
}

static const struct ext_tvf samples_worker = {
    .name = "emb_samples_worker",
    .declaration =
        "CREATE TABLE x(key INTEGER, payload, label, timestamp INTEGER, "
        "dataset TEXT, path TEXT, \"table\" HIDDEN, worker HIDDEN, workers "
        "HIDDEN, \"start\" HIDDEN, \"end\" HIDDEN)",
    .argument = 6,
    .arguments = 5,
    .needed = 3,
    .needs = "a table name, a worker and the number of workers",
    .cost = 100000,
    .rows = 100000,
    .plan = samples_tvf_plan,
    .cursor_size = sizeof(struct samples_tvf),
    .begin = samples_worker_begin,
    .more = samples_tvf_more,
    .column = samples_tvf_column,
    .rowid = samples_tvf_rowid,
    .end = samples_tvf_end,
};

/* ---- the connection ------------------------------------------------------ */

struct ext_samples_client *ext_samples_client(struct ext_conn *conn) {
  return ext_conn_get_clientdata(conn, "emb_samples");
}

/* The connection owns the client itself. */
static void samples_module_free(void *arg) {
  struct ext_samples_client *client = arg;
  ext_conn_unref(client->conn);
}

int ext_samples_register(struct ext_conn *conn) {
  struct ext_samples_client *client = sqlite3_malloc64(sizeof *client);
  int rc;
  if (client == NULL)
    return SQLITE_NOMEM;
  memset(client, 0, sizeof *client);
  client->conn = conn;
  rc = ext_conn_set_clientdata(conn, "emb_samples", client, sqlite3_free);
  if (rc == SQLITE_OK) {
    conn->refs++;
    rc = sqlite3_create_module_v2(conn->db, "emb_samples", ext_samples_module(),
                                  client, samples_module_free);
  }
  if (rc == SQLITE_OK)
    rc = ext_tvf_register(conn, &samples_get);
  if (rc == SQLITE_OK)
    rc = ext_tvf_register(conn, &samples_worker);
  return rc == SQLITE_OK ? ext_samples_directory_register(conn) : rc;
}
