/* SPDX-License-Identifier: MIT
**
** tvf_lookahead.c -- reading ahead what will be asked for soon.
**
**     CREATE TABLE emb_lookahead(
**       number, asked, in_memory, absent, to_read, read, refused, done,
**       "table" HIDDEN, keys HIDDEN, dest HIDDEN)
**
**   emb_lookahead(table, keys [, dest])    starts one: a row says what it found
**   emb_lookahead(table)                   a row for each of the connection's
**                                          last ones, newest first
**
** and the function emb_lookahead_wait(table [, number]), which waits for one:
** the newest if none is named; its number, NULL when there was none.
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* As many as the engine remembers. */
#define AHEADS_MAX 64

enum {
  NUMBER = 0,
  ASKED,
  IN_MEMORY,
  ABSENT,
  TO_READ,
  READ,
  REFUSED,
  DONE,
  TABLE,
  KEYS,
  DEST,
};
#define ARGUMENTS                                                              \
  3 /* from TABLE on; a bit of the plan for each that is given */

struct ahead_cursor {
  sqlite3_vtab_cursor base; /* must be first */
  size_t n, at;
  emb_ahead rows[AHEADS_MAX];
};

static int connect(sqlite3 *db, void *conn, int argc, const char *const *argv,
                   sqlite3_vtab **out, char **message) {
  (void)argc, (void)argv, (void)message;
  return ext_tvf_connect(
      db, conn,
      "CREATE TABLE x(number INTEGER, asked INTEGER, in_memory INTEGER, "
      "absent INTEGER, to_read INTEGER, read INTEGER, refused INTEGER, "
      "done INTEGER, \"table\" HIDDEN, keys HIDDEN, dest HIDDEN)",
      out);
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  int given[ARGUMENTS] = {-1, -1, -1};
  int n = 0;
  (void)vtab;
  for (int i = 0; i < info->nConstraint; i++) {
    const struct sqlite3_index_constraint *constraint = &info->aConstraint[i];
    if (constraint->iColumn < TABLE ||
        constraint->op != SQLITE_INDEX_CONSTRAINT_EQ)
      continue;
    if (!constraint->usable)
      return SQLITE_CONSTRAINT;
    given[constraint->iColumn - TABLE] = i;
  }
  info->idxNum = 0;
  for (int i = 0; i < ARGUMENTS; i++) {
    if (given[i] < 0)
      continue;
    info->idxNum |= 1 << i;
    info->aConstraintUsage[given[i]].argvIndex = ++n;
    info->aConstraintUsage[given[i]].omit = 1;
  }
  info->estimatedRows = AHEADS_MAX;
  /* Without a table: part of an OR, or a mistake, and xFilter says so. */
  info->estimatedCost = info->idxNum & 1 ? 100 : 1e12;
  return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  struct ahead_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
  (void)vtab;
  if (cursor == NULL)
    return SQLITE_NOMEM;
  memset(cursor, 0, sizeof *cursor);
  *out = &cursor->base;
  return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base) {
  sqlite3_free(base);
  return SQLITE_OK;
}

static int read_dest(sqlite3_value *value, int *dest, char **err) {
  const char *text = (const char *)sqlite3_value_text(value);
  *dest = EMB_AHEAD_BUFFER;
  if (text == NULL || sqlite3_stricmp(text, "buffer") == 0)
    return SQLITE_OK;
  if (sqlite3_stricmp(text, "cache") != 0)
    return ext_error(err, SQLITE_ERROR,
                     "unknown destination: %s; expected buffer or cache", text);
  *dest = EMB_AHEAD_CACHE;
  return SQLITE_OK;
}

/* dest may be NULL. */
static int look_ahead(struct ahead_cursor *cursor, struct ext_link *link,
                      sqlite3_value *keys_value, sqlite3_value *dest_value,
                      char **err) {
  int64_t *keys = NULL;
  int dest = EMB_AHEAD_BUFFER;
  int owned = 0;
  size_t n = 0;
  int rc = dest_value ? read_dest(dest_value, &dest, err) : SQLITE_OK;
  if (rc == SQLITE_OK)
    rc = ext_fn_keys(keys_value, &keys, &owned, &n, err);
  if (rc == SQLITE_OK) {
    rc = emb_lookahead(link->session, keys, n, dest, &cursor->rows[0]);
    if (rc)
      rc = ext_link_error(link, rc, err);
  }
  if (owned)
    sqlite3_free(keys);
  if (rc == SQLITE_OK) {
    link->aheads = cursor->rows[0].number;
    cursor->n = 1;
  }
  return rc;
}

static int list_aheads(struct ahead_cursor *cursor, struct ext_link *link,
                       char **err) {
  uint64_t number = link->aheads;
  for (; number > 0 && cursor->n < AHEADS_MAX; number--) {
    int rc =
        emb_lookahead_progress(link->session, number, &cursor->rows[cursor->n]);
    if (rc)
      return ext_link_error(link, rc, err);
    cursor->n++;
  }
  return SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *base, int given, const char *plan,
                  int argc, sqlite3_value **argv) {
  struct ahead_cursor *cursor = (struct ahead_cursor *)base;
  struct ext_tvf_table *vtab = (struct ext_tvf_table *)base->pVtab;
  struct ext_table *table;
  char *err = NULL;
  int rc;
  (void)plan, (void)argc;
  cursor->n = cursor->at = 0;
  if (!(given & 1))
    rc = ext_error(&err, SQLITE_ERROR, "emb_lookahead needs a table name");
  else if (given == 5)
    rc = ext_error(&err, SQLITE_ERROR, "emb_lookahead needs keys for dest");
  else
    rc = ext_fn_table(vtab->conn, argv[0], &table, &err);
  if (rc == SQLITE_OK && given == 1)
    rc = list_aheads(cursor, table->link, &err);
  else if (rc == SQLITE_OK)
    rc = look_ahead(cursor, table->link, argv[1], given & 4 ? argv[2] : NULL,
                    &err);
  return ext_vtab_error(base->pVtab, rc, err);
}

static int next(sqlite3_vtab_cursor *base) {
  ((struct ahead_cursor *)base)->at++;
  return SQLITE_OK;
}

static int eof(sqlite3_vtab_cursor *base) {
  struct ahead_cursor *cursor = (struct ahead_cursor *)base;
  return cursor->at >= cursor->n;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int i) {
  struct ahead_cursor *cursor = (struct ahead_cursor *)base;
  const emb_ahead *row = &cursor->rows[cursor->at];
  const uint64_t values[] = {
      [NUMBER] = row->number,       [ASKED] = row->asked,
      [IN_MEMORY] = row->in_memory, [ABSENT] = row->absent,
      [TO_READ] = row->to_read,     [READ] = row->read,
      [REFUSED] = row->refused,     [DONE] = row->done != 0};
  if (i < TABLE)
    sqlite3_result_int64(context, (sqlite3_int64)values[i]);
  return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out) {
  struct ahead_cursor *cursor = (struct ahead_cursor *)base;
  *out = (sqlite3_int64)cursor->rows[cursor->at].number;
  return SQLITE_OK;
}

/* No xCreate: it exists in every schema without being created. */
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

/* ---- emb_lookahead_wait -------------------------------------------------- */

/* The look-ahead that the argument means. */
static int read_number(sqlite3_value *value, const struct ext_table *table,
                       uint64_t *number, char **err) {
  uint64_t last = table->link->aheads;
  int rc = ext_fn_number(value, "number", number, err);
  if (rc == SQLITE_OK &&
      (*number == 0 || *number > last || last - *number >= AHEADS_MAX))
    rc = ext_error(err, SQLITE_ERROR,
                   "%lld is not among the last %d look-aheads of %s",
                   sqlite3_value_int64(value), AHEADS_MAX, table->name);
  return rc;
}

static void fn_wait(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct ext_table *table;
  uint64_t number = 0;
  char *err = NULL;
  int rc = ext_fn_table(sqlite3_user_data(context), argv[0], &table, &err);
  if (rc == SQLITE_OK && argc == 1)
    number = table->link->aheads;
  else if (rc == SQLITE_OK && sqlite3_value_type(argv[1]) != SQLITE_NULL)
    rc = read_number(argv[1], table, &number, &err);
  if (rc == SQLITE_OK && number > 0) {
    rc = emb_lookahead_wait(table->link->session, number);
    if (rc)
      rc = ext_link_error(table->link, rc, &err);
  }
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
  else if (number > 0)
    sqlite3_result_int64(context, (sqlite3_int64)number);
}

int ext_tvf_lookahead_register(struct ext_conn *conn) {
  static const struct ext_function functions[] = {
      {"emb_lookahead_wait", 1, fn_wait}, {"emb_lookahead_wait", 2, fn_wait}};
  int rc;
  conn->refs++;
  rc = sqlite3_create_module_v2(conn->db, "emb_lookahead", &module, conn,
                                ext_conn_unref);
  return rc == SQLITE_OK ? ext_fn_register(conn, functions, 2) : rc;
}
