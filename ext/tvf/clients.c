/* SPDX-License-Identifier: MIT
**
** clients.c -- SELECT * FROM emb_clients('items').
**
**     CREATE TABLE emb_clients(
**       process INTEGER, user INTEGER, since INTEGER, role TEXT, calls INTEGER,
**       doing TEXT, connection INTEGER, "table" HIDDEN)
**
** The first row is the process that owns the store; then come the sessions of
** other processes that it serves.  role is 'owner', 'client' or 'reader'.  No
** rows: no process owns the store.  An owner that does not respond gives one
** row with only its process.
*/
#include "tvf.h"
SQLITE_EXTENSION_INIT3

enum {
  CLIENTS_PROCESS = 0,
  CLIENTS_USER,
  CLIENTS_SINCE,
  CLIENTS_ROLE,
  CLIENTS_CALLS,
  CLIENTS_DOING,
  CLIENTS_CONNECTION,
  CLIENTS_TABLE
};

struct clients_cursor {
  struct ext_tvf_cursor base; /* must be first */
  emb_client *list;
};

/* An unresponsive owner can only be seen to hold the lock. */
static int add_silent_owner(struct clients_cursor *cursor, const char *name,
                            char **err) {
  struct ext_table *table;
  int64_t owner;
  int rc;
  sqlite3_free(*err);
  *err = NULL;
  rc = ext_table_find(cursor->base.conn, name, &table, err);
  if (rc == SQLITE_OK)
    rc = ext_table_owner(table, &owner, err);
  if (rc != SQLITE_OK)
    return rc;
  cursor->list = sqlite3_malloc64(sizeof *cursor->list);
  if (cursor->list == NULL)
    return SQLITE_NOMEM;
  cursor->list[0] = (emb_client){.process = owner, .is_owner = 1, .user = -1};
  cursor->base.n = 1;
  return SQLITE_OK;
}

int ext_tvf_clients(struct ext_table *table, emb_client **list, size_t *n) {
  size_t room = 16;
  *n = room;
  while (*n >= room) { /* new clients may have connected */
    room = *n * 2;
    sqlite3_free(*list);
    *list = sqlite3_malloc64(room * sizeof **list);
    if (*list == NULL)
      return SQLITE_NOMEM;
    *n = emb_clients(ext_link_store(table->link), *list, room);
  }
  return SQLITE_OK;
}

static int clients_begin(struct ext_tvf_cursor *base, sqlite3_value **arguments,
                         char **err) {
  struct clients_cursor *cursor = (struct clients_cursor *)base;
  const char *name = (const char *)sqlite3_value_text(arguments[0]);
  struct ext_table *table;
  int rc;
  if (name == NULL)
    return SQLITE_OK;
  rc = ext_table_named(base->conn, name, 0, &table, err);
  if (rc == SQLITE_BUSY && base->conn->patience.is_silent)
    return add_silent_owner(cursor, name, err);
  return rc == SQLITE_OK ? ext_tvf_clients(table, &cursor->list, &base->n) : rc;
}

static void clients_end(struct ext_tvf_cursor *base) {
  struct clients_cursor *cursor = (struct clients_cursor *)base;
  sqlite3_free(cursor->list);
  cursor->list = NULL;
}

static const char *role_of(const emb_client *client) {
  return client->is_owner ? "owner" : client->is_readonly ? "reader" : "client";
}

static void clients_column(struct ext_tvf_cursor *base,
                           sqlite3_context *context, int i) {
  const emb_client *client = &((struct clients_cursor *)base)->list[base->at];
  if (i == CLIENTS_PROCESS && client->process)
    sqlite3_result_int64(context, client->process);
  else if (i == CLIENTS_USER && client->user >= 0)
    sqlite3_result_int64(context, client->user);
  else if (i == CLIENTS_SINCE && client->since)
    sqlite3_result_int64(context, client->since);
  else if (i == CLIENTS_ROLE)
    sqlite3_result_text(context, role_of(client), -1, SQLITE_STATIC);
  else if (i == CLIENTS_CALLS)
    sqlite3_result_int64(context, (sqlite3_int64)client->calls);
  else if (i == CLIENTS_DOING && client->call[0])
    sqlite3_result_text(context, client->call, -1, SQLITE_TRANSIENT);
  else if (i == CLIENTS_DOING && client->in_transaction)
    sqlite3_result_text(context, "transaction", -1, SQLITE_STATIC);
  else if (i == CLIENTS_CONNECTION && client->number)
    sqlite3_result_int64(context, (sqlite3_int64)client->number);
}

static const struct ext_tvf clients_tvf = {
    .name = "emb_clients",
    .declaration = "CREATE TABLE x(process INTEGER, user INTEGER, "
                   "since INTEGER, role TEXT, calls INTEGER, doing TEXT, "
                   "connection INTEGER, \"table\" HIDDEN)",
    .argument = CLIENTS_TABLE,
    .arguments = 1,
    .needed = 1,
    .needs = "a table name",
    .is_state = 1,
    .cost = 100,
    .rows = 5,
    .cursor_size = sizeof(struct clients_cursor),
    .begin = clients_begin,
    .column = clients_column,
    .end = clients_end,
};

int ext_tvf_clients_register(struct ext_conn *conn) {
  return ext_tvf_register(conn, &clients_tvf);
}
