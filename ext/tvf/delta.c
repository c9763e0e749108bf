/* SPDX-License-Identifier: MIT
**
** delta.c -- rows changed since a consumer's last acknowledgement.
**
**     CREATE TABLE emb_delta(
**       key, op, vector, version, "table" HIDDEN, consumer HIDDEN,
**       state HIDDEN, since HIDDEN, upto HIDDEN)
**
**   emb_delta(table, consumer)   op is 'put', or 'delete', 'expire' or 'evict';
**                                vector has all vector columns concatenated,
**                                state the state of their optimizers; both are
**                                NULL except for a put
**
** A consumer that does not exist is created.  since is 0 when the rows are the
** whole table.  Only a delta that was read to its end may be acknowledged.
**
**     CREATE TABLE emb_delta_consumers(
**       name, state, acked, sent, kept_bytes, keep_bytes, "table" HIDDEN)
**
** The functions on consumers are in fn/delta.c.
*/
#include "tvf_cursors.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

enum {
  DELTA_KEY = 0,
  DELTA_OP,
  DELTA_VECTOR,
  DELTA_VERSION,
  DELTA_TABLE,
  DELTA_CONSUMER,
  DELTA_STATE,
  DELTA_SINCE,
  DELTA_UPTO
};

static void delta_tvf_plan(sqlite3_index_info *info) {
  info->idxNum |= (info->colUsed >> DELTA_VECTOR & 1 ? DELTA_PLAN_VECTORS : 0) |
                  (info->colUsed >> DELTA_STATE & 1 ? DELTA_PLAN_STATES : 0);
}

static int delta_make_room(struct delta_cursor *cursor,
                           const struct ext_table *table) {
  cursor->vector_bytes = ext_vtab(table)->options.config.dim * sizeof(float);
  cursor->state_bytes = emb_state_bytes(cursor->base.link->store);
  int vectors = (cursor->base.plan & DELTA_PLAN_VECTORS) != 0;
  int states = (cursor->base.plan & DELTA_PLAN_STATES) && cursor->state_bytes;
  size_t row = cursor->vector_bytes + cursor->state_bytes + 1;
  size_t n = DELTA_BYTES_MAX / row < 1                ? 1
             : DELTA_BYTES_MAX / row > DELTA_ROWS_MAX ? DELTA_ROWS_MAX
                                                      : DELTA_BYTES_MAX / row;
  cursor->room = n;
  cursor->keys = sqlite3_malloc64(n * sizeof *cursor->keys);
  cursor->ops = sqlite3_malloc64(n);
  cursor->versions = sqlite3_malloc64(n * sizeof *cursor->versions);
  if (vectors)
    cursor->vectors = sqlite3_malloc64(n * cursor->vector_bytes);
  if (states)
    cursor->states = sqlite3_malloc64(n * cursor->state_bytes);
  return cursor->keys && cursor->ops && cursor->versions &&
                 (cursor->vectors || !vectors) && (cursor->states || !states)
             ? SQLITE_OK
             : SQLITE_NOMEM;
}

static int delta_tvf_begin(struct ext_tvf_cursor *base,
                           sqlite3_value **arguments, char **err) {
  struct delta_cursor *cursor = (struct delta_cursor *)base;
  struct ext_table *table;
  const char *name;
  int attempts = 0;
  int rc = ext_delta_arguments(base->conn, arguments, &table, &name, err);
  if (rc != SQLITE_OK)
    return rc;
  ext_tvf_hold(base, table->link);
  rc = delta_make_room(cursor, table);
  if (rc != SQLITE_OK)
    return rc;
  do
    rc = emb_delta_open(base->link->session, name, &cursor->delta);
  while (ext_txn_again(table, &attempts, &rc, err));
  if (rc == SQLITE_OK)
    emb_delta_range(cursor->delta, &cursor->since, &cursor->upto);
  return rc;
}

static int delta_tvf_more(struct ext_tvf_cursor *base, char **err) {
  struct delta_cursor *cursor = (struct delta_cursor *)base;
  emb_check(ext_delta_cursor_valid(cursor));
  int rc = emb_delta_next(cursor->delta, cursor->room,
                          &(emb_rows){.keys = cursor->keys,
                                      .ops = cursor->ops,
                                      .vectors = cursor->vectors,
                                      .versions = cursor->versions,
                                      .states = cursor->states},
                          &base->n);
  return rc ? ext_link_error(base->link, rc, err) : SQLITE_OK;
}

static void delta_tvf_end(struct ext_tvf_cursor *base) {
  struct delta_cursor *cursor = (struct delta_cursor *)base;
  emb_delta_close(cursor->delta);
  sqlite3_free(cursor->keys);
  sqlite3_free(cursor->ops);
  sqlite3_free(cursor->versions);
  sqlite3_free(cursor->vectors);
  sqlite3_free(cursor->states);
  memset(&cursor->delta, 0,
         sizeof *cursor - offsetof(struct delta_cursor, delta));
}

static void delta_tvf_column(struct ext_tvf_cursor *base,
                             sqlite3_context *context, int i) {
  static const char *const names[] = {[EMB_DELTA_PUT] = "put",
                                      [EMB_DELTA_DELETE] = "delete",
                                      [EMB_DELTA_EXPIRE] = "expire",
                                      [EMB_DELTA_EVICT] = "evict"};
  struct delta_cursor *cursor = (struct delta_cursor *)base;
  size_t at = base->at;
  int put = cursor->ops[at] == EMB_DELTA_PUT;
  switch (i) {
  case DELTA_KEY:
    ext_key_result(context, base->link, cursor->keys[at]);
    break;
  case DELTA_OP:
    sqlite3_result_text(context, names[cursor->ops[at]], -1, SQLITE_STATIC);
    break;
  case DELTA_VECTOR:
    if (put && cursor->vectors)
      sqlite3_result_blob64(context,
                            (char *)cursor->vectors + at * cursor->vector_bytes,
                            cursor->vector_bytes, SQLITE_TRANSIENT);
    break;
  case DELTA_VERSION:
    if (put)
      sqlite3_result_int64(context, (sqlite3_int64)cursor->versions[at]);
    break;
  case DELTA_STATE:
    if (put && cursor->states)
      sqlite3_result_blob64(context, cursor->states + at * cursor->state_bytes,
                            cursor->state_bytes, SQLITE_TRANSIENT);
    break;
  case DELTA_SINCE:
    sqlite3_result_int64(context, (sqlite3_int64)cursor->since);
    break;
  case DELTA_UPTO:
    sqlite3_result_int64(context, (sqlite3_int64)cursor->upto);
    break;
  }
}

static sqlite3_int64 delta_tvf_rowid(struct ext_tvf_cursor *base) {
  return ((struct delta_cursor *)base)->keys[base->at];
}

static const struct ext_tvf delta = {
    .name = "emb_delta",
    .declaration =
        "CREATE TABLE x(key, op TEXT, vector BLOB, version INTEGER, "
        "\"table\" HIDDEN, consumer HIDDEN, state HIDDEN, since HIDDEN, "
        "upto HIDDEN)",
    .argument = DELTA_TABLE,
    .arguments = 2,
    .needed = 2,
    .needs = "a table name and a consumer",
    .cost = 1000,
    .rows = 25,
    .plan = delta_tvf_plan,
    .cursor_size = sizeof(struct delta_cursor),
    .begin = delta_tvf_begin,
    .more = delta_tvf_more,
    .column = delta_tvf_column,
    .rowid = delta_tvf_rowid,
    .end = delta_tvf_end,
};

/* ---- emb_delta_consumers ------------------------------------------------- */

enum {
  DELTA_NAME = 0,
  DELTA_CONDITION,
  DELTA_ACKED,
  DELTA_SENT,
  DELTA_KEPT,
  DELTA_KEEP,
  DELTA_OF
};

struct delta_list_cursor {
  struct ext_tvf_cursor base; /* must be first */
  emb_consumer *rows;
};

/* Other connections may add consumers after we ask for their number. */
int ext_tvf_consumers(struct ext_table *table, emb_consumer **list, size_t *n,
                      char **err) {
  struct ext_link *link = table->link;
  size_t room = 0;
  int rc = emb_delta_consumers(link->session, NULL, 0, n);
  while (rc == EMB_OK && *n > room) {
    void *rows = sqlite3_realloc64(*list, *n * sizeof **list);
    if (rows == NULL)
      return SQLITE_NOMEM;
    *list = rows;
    room = *n;
    rc = emb_delta_consumers(link->session, *list, room, n);
  }
  if (rc == EMB_OK)
    return SQLITE_OK;
  *n = 0;
  return ext_link_error(link, rc, err);
}

static int delta_list_begin(struct ext_tvf_cursor *base,
                            sqlite3_value **arguments, char **err) {
  struct delta_list_cursor *cursor = (struct delta_list_cursor *)base;
  struct ext_table *table;
  size_t n = 0;
  int rc = ext_fn_table(base->conn, arguments[0], &table, err);
  if (rc == SQLITE_OK)
    rc = ext_tvf_consumers(table, &cursor->rows, &n, err);
  base->n = rc == SQLITE_OK ? n : 0;
  return rc;
}

static void list_end(struct ext_tvf_cursor *base) {
  struct delta_list_cursor *cursor = (struct delta_list_cursor *)base;
  sqlite3_free(cursor->rows);
  cursor->rows = NULL;
}

static void delta_list_column(struct ext_tvf_cursor *base,
                              sqlite3_context *context, int i) {
  static const char *const states[] = {"good", "lost", "damaged"};
  const emb_consumer *row = &((struct delta_list_cursor *)base)->rows[base->at];
  const uint64_t values[] = {[DELTA_ACKED] = row->acked,
                             [DELTA_SENT] = row->sent,
                             [DELTA_KEPT] = row->kept_bytes,
                             [DELTA_KEEP] = row->keep_bytes};
  if (i == DELTA_NAME && row->name[0])
    sqlite3_result_text(context, row->name, -1, SQLITE_TRANSIENT);
  else if (i == DELTA_CONDITION)
    sqlite3_result_text(context, states[row->state], -1, SQLITE_STATIC);
  else if (i >= DELTA_ACKED && i <= DELTA_KEEP)
    sqlite3_result_int64(context, (sqlite3_int64)values[i]);
}

static const struct ext_tvf consumers = {
    .name = "emb_delta_consumers",
    .declaration =
        "CREATE TABLE x(name TEXT, state TEXT, acked INTEGER, sent INTEGER, "
        "kept_bytes INTEGER, keep_bytes INTEGER, \"table\" HIDDEN)",
    .argument = DELTA_OF,
    .arguments = 1,
    .needed = 1,
    .needs = "a table name",
    .cost = 1000,
    .rows = 25,
    .cursor_size = sizeof(struct delta_list_cursor),
    .begin = delta_list_begin,
    .column = delta_list_column,
    .end = list_end,
};

int ext_tvf_delta_register(struct ext_conn *conn) {
  int rc = ext_tvf_register(conn, &delta);
  return rc == SQLITE_OK ? ext_tvf_register(conn, &consumers) : rc;
}
