/* SPDX-License-Identifier: MIT
**
** link.c -- one connection's use of one store.
**
** A link holds the engine session and is found again by the store's path, or
** by its uuid if it is temporary.  It does not go with the last table object
** that uses it: SQLite re-creates these after every change of the schema, and
** closing a store writes a checkpoint.  Nor does it stay because of them: a
** prepared statement that nobody runs any more keeps an old one.  It is closed
**   - when the connection closes,
**   - when its database was detached,
**   - when its table was dropped and the drop is committed (orphan.c),
** the latter two not before the last cursor and transaction on it ended.
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct ext_link *ext_link_find(struct ext_conn *conn, const char *uuid,
                               const char *path) {
  struct ext_link *link;
  for (link = conn->links; link; link = link->next)
    if (strcmp(link->uuid, uuid) == 0 &&
        (path && link->path ? strcmp(path, link->path) == 0
                            : path == link->path))
      break;
  return link;
}

int ext_link_error(struct ext_link *link, int emb_code, char **err) {
  return ext_engine_error(err, emb_code, emb_errmsg(link->session));
}

/* No function says so before 3.41, but a statement that is prepared then fails,
** and it does so at the first space. */
int ext_link_interrupted(void *arg) {
  struct ext_conn *conn = arg;
  sqlite3_stmt *statement = NULL;
  int rc;
  if (conn->closing)
    return 0;
  rc = sqlite3_prepare_v2(conn->db, "SELECT 1", -1, &statement, NULL);
  sqlite3_finalize(statement);
  return rc == SQLITE_INTERRUPT;
}

void ext_link_uuid(const emb_store *store, char hex[33]) {
  static const char digits[] = "0123456789abcdef";
  uint8_t uuid[16];
  emb_uuid(store, uuid);
  for (int i = 0; i < 16; i++) {
    hex[2 * i] = digits[uuid[i] >> 4];
    hex[2 * i + 1] = digits[uuid[i] & 15];
  }
  hex[32] = 0;
}

static void attach(struct ext_table *table, struct ext_link *link) {
  table->link = link;
  table->next_of_link = link->tables;
  link->tables = table;
}

static void free_link(struct ext_link *link) {
  ext_fn_free_tickets(link);
  sqlite3_free(link->put_versions);
  sqlite3_free(link->late);
  sqlite3_free(link->failed_text);
  sqlite3_free(link->path);
  sqlite3_free(link->schema);
  sqlite3_free(link->file);
  sqlite3_free(link);
}

int ext_link_add(struct ext_table *table, emb_store *store, const char *path,
                 char **err) {
  struct ext_conn *conn = table->conn;
  struct ext_link *link = sqlite3_malloc64(sizeof *link);
  emb_err engine_err;
  int rc = link ? EMB_OK : EMB_NOMEM;
  if (link) {
    memset(link, 0, sizeof *link);
    link->conn = conn;
    link->store = store;
    link->level = -1;
    link->atomic = path && !table->options.engine_commit;
    link->bounded = (table->options.config.flags & EMB_OPEN_BOUNDED) != 0;
    link->attached = sqlite3_stricmp(table->schema, "main") != 0 &&
                     sqlite3_stricmp(table->schema, "temp") != 0;
    link->readonly = sqlite3_db_readonly(conn->db, table->schema) == 1;
    ext_link_uuid(store, link->uuid);
    link->path = path ? sqlite3_mprintf("%s", path) : NULL;
    link->schema = sqlite3_mprintf("%s", table->schema);
    link->file = sqlite3_mprintf("%s", table->file);
    if ((path && !link->path) || !link->schema || !link->file)
      rc = EMB_NOMEM;
  }
  if (rc == EMB_OK)
    rc = emb_session_open(store, &link->session, &engine_err);
  if (rc) {
    rc = ext_engine_error(err, rc, engine_err.text);
    emb_close(store, NULL);
    if (link)
      free_link(link);
    return rc;
  }
  emb_session_interrupt(link->session, ext_link_interrupted, conn);
  link->next = conn->links;
  conn->links = link;
  conn->attached += link->attached;
  attach(table, link);
  return SQLITE_OK;
}

void ext_link_close(struct ext_link *link) {
  struct ext_link **at = &link->conn->links;
  emb_err err;
  while (*at != link)
    at = &(*at)->next;
  *at = link->next;
  link->conn->attached -= link->attached;
  while (link->tables)
    ext_link_put(link->tables);
  emb_session_close(link->session);
  if (emb_close(link->store, &err) != EMB_OK)
    sqlite3_log(SQLITE_WARNING, "emb: closing %s: %s",
                link->path ? link->path : "a temporary store", err.text);
  free_link(link);
}

int ext_link_close_idle(struct ext_link *link) {
  if (link->cursors || link->in_txn)
    return 0;
  ext_link_close(link);
  return 1;
}

void ext_link_close_detached(struct ext_conn *conn) {
  struct ext_link *next;
  for (struct ext_link *link = conn->links; link; link = next) {
    next = link->next;
    if (sqlite3_db_readonly(conn->db, link->schema) < 0 ||
        strcmp(ext_place_file(conn->db, link->schema), link->file) != 0)
      ext_link_close_idle(link);
  }
}

/* Opens the store that the row names. */
static int open_store(struct ext_table *table, const struct ext_place *place,
                      const char *path, char **err) {
  emb_config config = table->options.config;
  emb_err engine_err;
  emb_store *store;
  char uuid[33];
  int rc;
  if (sqlite3_db_readonly(table->conn->db, table->schema) == 1)
    config.flags |= EMB_OPEN_READONLY;
  rc = emb_open(path, &config, &store, &engine_err);
  if (rc == EMB_CANTOPEN && access(path, F_OK) != 0)
    return ext_error(err, SQLITE_CANTOPEN, "cannot open store \"%s\": %s", path,
                     strerror(errno));
  if (rc)
    return ext_engine_error(err, rc, engine_err.text);
  ext_link_uuid(store, uuid);
  if (strcmp(uuid, place->uuid) != 0) {
    emb_close(store, NULL);
    return ext_error(err, SQLITE_CORRUPT_VTAB,
                     "store in \"%s\" belongs to another table: its uuid is "
                     "%s, but %s_emb names %s",
                     path, uuid, table->name, place->uuid);
  }
  return ext_link_add(table, store, path, err);
}

int ext_link_get(struct ext_table *table, char **err) {
  struct ext_place place;
  struct ext_link *link;
  char *path = NULL;
  int rc;
  if (table->link)
    return SQLITE_OK;
  rc = ext_conn_check(table->conn, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = ext_place_read(table, &place, err);
  if (rc != SQLITE_OK)
    return rc;
  if (place.dir && table->file[0]) {
    path = ext_place_path(table->file, place.dir);
    rc = path ? SQLITE_OK : SQLITE_NOMEM;
  }
  if (rc == SQLITE_OK) {
    link = ext_link_find(table->conn, place.uuid, path);
    if (link)
      attach(table, link);
    else if (path)
      rc = open_store(table, &place, path, err);
    else
      rc = ext_error(err, SQLITE_CANTOPEN,
                     "the store of %s is not part of this database: it %s",
                     table->name,
                     place.dir ? "was left beside the file that this is a "
                                 "copy of"
                               : "was temporary, and its connection is "
                                 "another one");
  }
  sqlite3_free(path);
  sqlite3_free(place.dir);
  return rc;
}

void ext_link_put(struct ext_table *table) {
  struct ext_table **at;
  if (table->link == NULL)
    return;
  for (at = &table->link->tables; *at != table; at = &(*at)->next_of_link)
    ;
  *at = table->next_of_link;
  table->link = NULL;
}
