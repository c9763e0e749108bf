/* SPDX-License-Identifier: MIT
**
** tvf_delta.c -- what changed since a consumer's last acknowledgement.
**
**     CREATE TABLE emb_delta(
**       key, op, vector, version, "table" HIDDEN, consumer HIDDEN,
**       state HIDDEN, since HIDDEN, upto HIDDEN)
**
**   emb_delta(table, consumer)   op is 'put', or 'delete', 'expire' or 'evict';
**                                vector has all vector columns one after the
**                                other, state what their optimizers keep; both
**                                are NULL without a put
**
** A consumer that is not there is made.  since is 0 when the rows are the whole
** table.  Only a delta that was read to its end may be acknowledged.
**
**     CREATE TABLE emb_delta_consumers(
**       name, state, acked, sent, kept_bytes, keep_bytes, "table" HIDDEN)
**
** What is done with them otherwise is in fn_delta.c.
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

enum { KEY = 0, OP, VECTOR, VERSION, TABLE, CONSUMER, STATE, SINCE, UPTO };
enum { NAME = 0, CONDITION, ACKED, SENT, KEPT, KEEP, OF };

/* A bit of the plan for each that is asked for. */
enum { PLAN_VECTORS = 1, PLAN_STATES = 2 };

/* Rows, and bytes of rows, that are read at once. */
#define ROWS_MAX 512
#define BYTES_MAX (1 << 20)

struct delta_cursor {
  sqlite3_vtab_cursor base; /* must be first */
  struct ext_link *link;    /* NULL: nothing is open */
  emb_delta *delta;
  uint64_t since, upto;
  size_t n, at, room;
  size_t vector_bytes, state_bytes;
  int64_t *keys;
  uint8_t *ops;
  uint64_t *versions;
  float *vectors; /* NULL: not asked for */
  char *states;
};

static int connect(sqlite3 *db, void *conn, int argc, const char *const *argv,
                   sqlite3_vtab **out, char **message) {
  (void)argc, (void)argv, (void)message;
  return ext_tvf_connect(
      db, conn,
      "CREATE TABLE x(key INTEGER, op TEXT, vector BLOB, version INTEGER, "
      "\"table\" HIDDEN, consumer HIDDEN, state HIDDEN, since HIDDEN, "
      "upto HIDDEN)",
      out);
}

/* The arguments are the columns from `first` on. */
static int take_arguments(sqlite3_index_info *info, int first, int count) {
  int given[2] = {-1, -1}, n = 0;
  for (int i = 0; i < info->nConstraint; i++) {
    const struct sqlite3_index_constraint *constraint = &info->aConstraint[i];
    if (constraint->iColumn < first || constraint->iColumn >= first + count ||
        constraint->op != SQLITE_INDEX_CONSTRAINT_EQ)
      continue;
    if (!constraint->usable)
      return SQLITE_CONSTRAINT;
    given[constraint->iColumn - first] = i;
  }
  for (int i = 0; i < count && given[i] >= 0; i++) {
    info->aConstraintUsage[given[i]].argvIndex = ++n;
    info->aConstraintUsage[given[i]].omit = 1;
  }
  info->estimatedCost = n == count ? 1000 : 1e12;
  return SQLITE_OK;
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  (void)vtab;
  info->idxNum = (info->colUsed >> VECTOR & 1 ? PLAN_VECTORS : 0) |
                 (info->colUsed >> STATE & 1 ? PLAN_STATES : 0);
  return take_arguments(info, TABLE, 2);
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  struct delta_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
  (void)vtab;
  if (cursor == NULL)
    return SQLITE_NOMEM;
  memset(cursor, 0, sizeof *cursor);
  *out = &cursor->base;
  return SQLITE_OK;
}

static void rewind_cursor(struct delta_cursor *cursor) {
  emb_delta_close(cursor->delta);
  if (cursor->link)
    cursor->link->cursors--;
  sqlite3_free(cursor->keys);
  sqlite3_free(cursor->ops);
  sqlite3_free(cursor->versions);
  sqlite3_free(cursor->vectors);
  sqlite3_free(cursor->states);
  memset(&cursor->link, 0,
         sizeof *cursor - offsetof(struct delta_cursor, link));
}

static int close_cursor(sqlite3_vtab_cursor *base) {
  rewind_cursor((struct delta_cursor *)base);
  sqlite3_free(base);
  return SQLITE_OK;
}

static int make_room(struct delta_cursor *cursor, const struct ext_table *table,
                     int plan) {
  cursor->vector_bytes = table->options.config.dim * sizeof(float);
  cursor->state_bytes = emb_state_bytes(cursor->link->store);
  size_t row = cursor->vector_bytes + cursor->state_bytes + 1;
  size_t n = BYTES_MAX / row < 1          ? 1
             : BYTES_MAX / row > ROWS_MAX ? ROWS_MAX
                                          : BYTES_MAX / row;
  cursor->room = n;
  cursor->keys = sqlite3_malloc64(n * sizeof *cursor->keys);
  cursor->ops = sqlite3_malloc64(n);
  cursor->versions = sqlite3_malloc64(n * sizeof *cursor->versions);
  if (plan & PLAN_VECTORS)
    cursor->vectors = sqlite3_malloc64(n * cursor->vector_bytes);
  if ((plan & PLAN_STATES) && cursor->state_bytes)
    cursor->states = sqlite3_malloc64(n * cursor->state_bytes);
  return cursor->keys && cursor->ops && cursor->versions &&
                 (cursor->vectors || !(plan & PLAN_VECTORS)) &&
                 (cursor->states || !(plan & PLAN_STATES) ||
                  !cursor->state_bytes)
             ? SQLITE_OK
             : SQLITE_NOMEM;
}

static int read_rows(struct delta_cursor *cursor, char **err) {
  int rc = emb_delta_next(cursor->delta, cursor->room, cursor->keys,
                          cursor->ops, cursor->vectors, cursor->versions,
                          cursor->states, &cursor->n);
  cursor->at = 0;
  return rc ? ext_link_error(cursor->link, rc, err) : SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *base, int given, const char *plan,
                  int argc, sqlite3_value **argv) {
  struct delta_cursor *cursor = (struct delta_cursor *)base;
  struct ext_tvf_table *vtab = (struct ext_tvf_table *)base->pVtab;
  struct ext_table *table = NULL;
  const char *name = NULL;
  char *err = NULL;
  int rc;
  (void)plan;
  rewind_cursor(cursor);
  if (argc < 2)
    rc = ext_error(&err, SQLITE_ERROR,
                   "emb_delta needs a table name and a "
                   "consumer");
  else
    rc = ext_delta_arguments(vtab->conn, argv, &table, &name, &err);
  if (rc == SQLITE_OK) {
    cursor->link = table->link;
    cursor->link->cursors++;
    rc = make_room(cursor, table, given);
  }
  if (rc == SQLITE_OK) {
    rc = emb_delta_open(cursor->link->session, name, &cursor->delta);
    if (rc)
      rc = ext_link_error(cursor->link, rc, &err);
  }
  if (rc == SQLITE_OK) {
    emb_delta_range(cursor->delta, &cursor->since, &cursor->upto);
    rc = read_rows(cursor, &err);
  }
  return ext_vtab_error(base->pVtab, rc, err);
}

static int next(sqlite3_vtab_cursor *base) {
  struct delta_cursor *cursor = (struct delta_cursor *)base;
  char *err = NULL;
  int rc = SQLITE_OK;
  if (++cursor->at >= cursor->n)
    rc = read_rows(cursor, &err);
  return ext_vtab_error(base->pVtab, rc, err);
}

static int eof(sqlite3_vtab_cursor *base) {
  struct delta_cursor *cursor = (struct delta_cursor *)base;
  return cursor->at >= cursor->n;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int i) {
  static const char *const names[] = {[EMB_DELTA_PUT] = "put",
                                      [EMB_DELTA_DELETE] = "delete",
                                      [EMB_DELTA_EXPIRE] = "expire",
                                      [EMB_DELTA_EVICT] = "evict"};
  struct delta_cursor *cursor = (struct delta_cursor *)base;
  size_t at = cursor->at;
  int put = cursor->ops[at] == EMB_DELTA_PUT;
  switch (i) {
  case KEY:
    sqlite3_result_int64(context, cursor->keys[at]);
    break;
  case OP:
    sqlite3_result_text(context, names[cursor->ops[at]], -1, SQLITE_STATIC);
    break;
  case VECTOR:
    if (put && cursor->vectors)
      sqlite3_result_blob64(context,
                            (char *)cursor->vectors + at * cursor->vector_bytes,
                            cursor->vector_bytes, SQLITE_TRANSIENT);
    break;
  case VERSION:
    if (put)
      sqlite3_result_int64(context, (sqlite3_int64)cursor->versions[at]);
    break;
  case STATE:
    if (put && cursor->states)
      sqlite3_result_blob64(context, cursor->states + at * cursor->state_bytes,
                            cursor->state_bytes, SQLITE_TRANSIENT);
    break;
  case SINCE:
    sqlite3_result_int64(context, (sqlite3_int64)cursor->since);
    break;
  case UPTO:
    sqlite3_result_int64(context, (sqlite3_int64)cursor->upto);
    break;
  }
  return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out) {
  struct delta_cursor *cursor = (struct delta_cursor *)base;
  *out = cursor->keys[cursor->at];
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

/* ---- emb_delta_consumers --------------------------------------------------
 */

struct list_cursor {
  sqlite3_vtab_cursor base; /* must be first */
  emb_consumer *rows;
  size_t n, at;
};

static int list_connect(sqlite3 *db, void *conn, int argc,
                        const char *const *argv, sqlite3_vtab **out,
                        char **message) {
  (void)argc, (void)argv, (void)message;
  return ext_tvf_connect(db, conn,
                         "CREATE TABLE x(name TEXT, state TEXT, acked INTEGER, "
                         "sent INTEGER, kept_bytes INTEGER, keep_bytes "
                         "INTEGER, \"table\" HIDDEN)",
                         out);
}

static int list_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  (void)vtab;
  return take_arguments(info, OF, 1);
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
  sqlite3_free(((struct list_cursor *)base)->rows);
  sqlite3_free(base);
  return SQLITE_OK;
}

/* Others may add some while we ask how many there are. */
static int read_list(struct list_cursor *cursor, struct ext_link *link,
                     char **err) {
  size_t room = 0, n = 0;
  int rc = emb_delta_consumers(link->session, NULL, 0, &n);
  while (rc == EMB_OK && n > room) {
    void *rows = sqlite3_realloc64(cursor->rows, n * sizeof *cursor->rows);
    if (rows == NULL)
      return SQLITE_NOMEM;
    cursor->rows = rows;
    room = n;
    rc = emb_delta_consumers(link->session, cursor->rows, room, &n);
  }
  cursor->n = rc == EMB_OK ? n : 0;
  return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
}

static int list_filter(sqlite3_vtab_cursor *base, int flags, const char *plan,
                       int argc, sqlite3_value **argv) {
  struct list_cursor *cursor = (struct list_cursor *)base;
  struct ext_tvf_table *vtab = (struct ext_tvf_table *)base->pVtab;
  struct ext_table *table;
  char *err = NULL;
  int rc;
  (void)flags, (void)plan;
  cursor->n = cursor->at = 0;
  if (argc == 0)
    rc =
        ext_error(&err, SQLITE_ERROR, "emb_delta_consumers needs a table name");
  else
    rc = ext_fn_table(vtab->conn, argv[0], &table, &err);
  if (rc == SQLITE_OK)
    rc = read_list(cursor, table->link, &err);
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
  static const char *const states[] = {"good", "lost", "damaged"};
  struct list_cursor *cursor = (struct list_cursor *)base;
  const emb_consumer *row = &cursor->rows[cursor->at];
  const uint64_t values[] = {[ACKED] = row->acked,
                             [SENT] = row->sent,
                             [KEPT] = row->kept_bytes,
                             [KEEP] = row->keep_bytes};
  if (i == NAME && row->name[0])
    sqlite3_result_text(context, row->name, -1, SQLITE_TRANSIENT);
  else if (i == CONDITION)
    sqlite3_result_text(context, states[row->state], -1, SQLITE_STATIC);
  else if (i >= ACKED && i <= KEEP)
    sqlite3_result_int64(context, (sqlite3_int64)values[i]);
  return SQLITE_OK;
}

static int list_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out) {
  *out = (sqlite3_int64)((struct list_cursor *)base)->at;
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

int ext_tvf_delta_register(struct ext_conn *conn) {
  int rc;
  conn->refs++;
  rc = sqlite3_create_module_v2(conn->db, "emb_delta", &module, conn,
                                ext_conn_unref);
  if (rc == SQLITE_OK) {
    conn->refs++;
    rc = sqlite3_create_module_v2(conn->db, "emb_delta_consumers", &list_module,
                                  conn, ext_conn_unref);
  }
  return rc;
}
