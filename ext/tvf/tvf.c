/* SPDX-License-Identifier: MIT
**
** tvf.c -- the sqlite3_module of the table-valued functions (tvf.h).
**
** Their tables point to their connection, may not be used in the schema, and
** own nothing.  There is no xCreate: the tables exist in every schema without
** being created.
*/
#include "tvf.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Client data of the module. */
struct client {
  struct ext_conn *conn;
  const struct ext_tvf *tvf;
};

struct table {
  sqlite3_vtab base; /* must be first */
  const struct client *client;
};

static int tvf_connect(sqlite3 *db, void *data, int argc,
                       const char *const *argv, sqlite3_vtab **out,
                       char **message) {
  const struct client *client = data;
  struct table *table;
  int rc = ext_declare_vtab(db, client->tvf->declaration);
  (void)argc, (void)argv;
  if (rc == SQLITE_OK)
    rc = sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
  if (rc != SQLITE_OK) {
    *message = sqlite3_mprintf("emb: %s", sqlite3_errmsg(db));
    return rc;
  }
  table = sqlite3_malloc64(sizeof *table);
  if (table == NULL)
    return SQLITE_NOMEM;
  memset(table, 0, sizeof *table);
  table->client = client;
  *out = &table->base;
  return SQLITE_OK;
}

static int tvf_disconnect(sqlite3_vtab *vtab) {
  sqlite3_free(vtab);
  return SQLITE_OK;
}

/* ---- planning ------------------------------------------------------------ */

static int lacks_arguments(const struct ext_tvf *tvf, int plan) {
  int needed = (1 << tvf->needed) - 1;
  return (plan & needed) != needed;
}

static int is_by_key(const struct ext_tvf *tvf, int plan) {
  return plan >> tvf->arguments & 1;
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  const struct ext_tvf *tvf = ((struct table *)vtab)->client->tvf;
  int at[EXT_TVF_ARGUMENTS];
  int n = 0;
  memset(at, -1, sizeof at);
  for (int i = 0; i < info->nConstraint; i++) {
    const struct sqlite3_index_constraint *constraint = &info->aConstraint[i];
    int argument = constraint->iColumn - tvf->argument;
    if (constraint->op != SQLITE_INDEX_CONSTRAINT_EQ)
      continue;
    if (argument >= 0 && argument < tvf->arguments) {
      if (!constraint->usable)
        return SQLITE_CONSTRAINT; /* makes SQLite try another join order */
      at[argument] = i;
    } else if (constraint->iColumn == 0 && constraint->usable &&
               tvf->key_cost > 0 &&
               sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY") ==
                   0) {
      at[tvf->arguments] = i;
    }
  }
  info->idxNum = 0;
  for (int i = 0; i < EXT_TVF_ARGUMENTS; i++) {
    if (at[i] < 0)
      continue;
    info->idxNum |= 1 << i;
    info->aConstraintUsage[at[i]].argvIndex = ++n;
    /* SQLite itself compares a key of another type. */
    info->aConstraintUsage[at[i]].omit =
        i < tvf->arguments || tvf->key_is_exact;
  }
  info->estimatedRows = is_by_key(tvf, info->idxNum) ? 1 : tvf->rows;
  info->estimatedCost = lacks_arguments(tvf, info->idxNum) ? 1e12
                        : is_by_key(tvf, info->idxNum)     ? tvf->key_cost
                                                           : tvf->cost;
  if (tvf->plan)
    tvf->plan(info);
  return SQLITE_OK;
}

/* ---- scanning ------------------------------------------------------------ */

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  const struct client *client = ((struct table *)vtab)->client;
  struct ext_tvf_cursor *cursor = sqlite3_malloc64(client->tvf->cursor_size);
  if (cursor == NULL)
    return SQLITE_NOMEM;
  memset(cursor, 0, client->tvf->cursor_size);
  cursor->tvf = client->tvf;
  cursor->conn = client->conn;
  *out = &cursor->base;
  return SQLITE_OK;
}

void ext_tvf_hold(struct ext_tvf_cursor *cursor, struct ext_link *link) {
  emb_assert(cursor->link == NULL && cursor->conn->calls > 0);
  cursor->link = link;
  link->cursors++;
}

void ext_tvf_read_all(struct ext_tvf_cursor *cursor) {
  emb_assert(is_by_key(cursor->tvf, cursor->plan));
  cursor->plan &= ~(1 << cursor->tvf->arguments);
}

/* Keeps the database attached.  SQLite refuses DETACH only while a statement
** reads the database, and the calling statement reads nothing there. */
static int stay_attached(struct ext_tvf_cursor *cursor, char **err) {
  sqlite3 *db = cursor->conn->db;
  char *sql;
  int rc;
  if (cursor->link == NULL || !cursor->link->attached)
    return SQLITE_OK;
  sql = sqlite3_mprintf("SELECT 1 FROM \"%w\".sqlite_schema",
                        cursor->link->schema);
  rc = sql ? sqlite3_prepare_v2(db, sql, -1, &cursor->reads, NULL)
           : SQLITE_NOMEM;
  sqlite3_free(sql);
  if (rc == SQLITE_OK && sqlite3_step(cursor->reads) != SQLITE_ROW)
    rc = sqlite3_reset(cursor->reads);
  return ext_sql_error(err, db, rc);
}

static void end_scan(struct ext_tvf_cursor *cursor) {
  if (cursor->tvf->end)
    cursor->tvf->end(cursor);
  sqlite3_finalize(cursor->reads);
  cursor->reads = NULL;
  if (cursor->link)
    cursor->link->cursors--;
  cursor->link = NULL;
  cursor->n = cursor->at = 0;
}

static int close_cursor(sqlite3_vtab_cursor *base) {
  struct ext_tvf_cursor *cursor = (struct ext_tvf_cursor *)base;
  emb_check(ext_tvf_cursor_valid(cursor));
  end_scan(cursor);
  if (cursor->tvf->close)
    cursor->tvf->close(cursor);
  sqlite3_free(cursor);
  return SQLITE_OK;
}

/* Reads the next rows, if any. */
static int tvf_read_rows(struct ext_tvf_cursor *cursor, char **err) {
  const struct ext_tvf *tvf = cursor->tvf;
  if (tvf->more == NULL || is_by_key(tvf, cursor->plan))
    return SQLITE_OK;
  cursor->n = cursor->at = 0;
  return tvf->more(cursor, err);
}

/* An owner that does not respond for this long is shown as unresponsive. */
#define STATE_WAIT_US 400000

static int tvf_begin(struct ext_tvf_cursor *cursor, sqlite3_value **arguments,
                     char **err) {
  emb_patience *patience = &cursor->conn->patience;
  int rc;
  if (!cursor->tvf->is_state || patience->limit_us)
    return cursor->tvf->begin(cursor, arguments, err);
  patience->limit_us = STATE_WAIT_US;
  patience->spent_us = cursor->spent_us;
  rc = cursor->tvf->begin(cursor, arguments, err);
  cursor->spent_us = patience->spent_us;
  patience->limit_us = patience->spent_us = 0;
  return rc;
}

static int tvf_filter(sqlite3_vtab_cursor *base, int plan,
                      const char *plan_text, int argc, sqlite3_value **argv) {
  struct ext_tvf_cursor *cursor = (struct ext_tvf_cursor *)base;
  const struct ext_tvf *tvf = cursor->tvf;
  sqlite3_value *arguments[EXT_TVF_ARGUMENTS] = {NULL};
  char *err = NULL;
  int rc;
  (void)plan_text, (void)argc;
  /* As best_index has numbered them. */
  emb_assert(argc == __builtin_popcount((unsigned)plan & (EXT_TVF_PLAN - 1)));
  end_scan(cursor);
  cursor->plan = plan;
  for (int i = 0; i < EXT_TVF_ARGUMENTS; i++)
    if (plan >> i & 1)
      arguments[i] = *argv++;
  ext_call_begin(cursor->conn);
  if (lacks_arguments(tvf, plan))
    rc = ext_error(&err, SQLITE_ERROR, "%s needs %s", tvf->name, tvf->needs);
  else
    rc = tvf_begin(cursor, arguments, &err);
  if (rc == SQLITE_OK)
    rc = stay_attached(cursor, &err);
  if (rc == SQLITE_OK)
    rc = tvf_read_rows(cursor, &err);
  emb_check(ext_tvf_cursor_valid(cursor));
  ext_call_end(cursor->conn);
  return ext_vtab_error(base->pVtab, rc, err);
}

static int tvf_next(sqlite3_vtab_cursor *base) {
  struct ext_tvf_cursor *cursor = (struct ext_tvf_cursor *)base;
  char *err = NULL;
  int rc = SQLITE_OK;
  emb_assert(cursor->at < cursor->n);
  ext_call_begin(cursor->conn);
  if (++cursor->at >= cursor->n)
    rc = tvf_read_rows(cursor, &err);
  emb_check(ext_tvf_cursor_valid(cursor));
  ext_call_end(cursor->conn);
  return ext_vtab_error(base->pVtab, rc, err);
}

static int tvf_eof(sqlite3_vtab_cursor *base) {
  struct ext_tvf_cursor *cursor = (struct ext_tvf_cursor *)base;
  return cursor->at >= cursor->n;
}

static int tvf_column(sqlite3_vtab_cursor *base, sqlite3_context *context,
                      int i) {
  struct ext_tvf_cursor *cursor = (struct ext_tvf_cursor *)base;
  emb_assert(cursor->at < cursor->n);
  cursor->tvf->column(cursor, context, i);
  return SQLITE_OK;
}

static int tvf_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out) {
  struct ext_tvf_cursor *cursor = (struct ext_tvf_cursor *)base;
  emb_assert(cursor->at < cursor->n);
  *out = cursor->tvf->rowid ? cursor->tvf->rowid(cursor)
                            : (sqlite3_int64)cursor->at;
  return SQLITE_OK;
}

static const sqlite3_module tvf_module = {
    .xConnect = tvf_connect,
    .xBestIndex = best_index,
    .xDisconnect = tvf_disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = tvf_filter,
    .xNext = tvf_next,
    .xEof = tvf_eof,
    .xColumn = tvf_column,
    .xRowid = tvf_rowid,
};

static void free_client(void *data) {
  struct client *client = data;
  ext_conn_unref(client->conn);
  sqlite3_free(client);
}

int ext_tvf_register(struct ext_conn *conn, const struct ext_tvf *tvf) {
  struct client *client = sqlite3_malloc64(sizeof *client);
  emb_check(ext_tvf_valid(tvf));
  if (client == NULL)
    return SQLITE_NOMEM;
  client->conn = conn;
  client->tvf = tvf;
  conn->refs++;
  return sqlite3_create_module_v2(conn->db, tvf->name, &tvf_module, client,
                                  free_client);
}
