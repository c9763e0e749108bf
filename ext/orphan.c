/* SPDX-License-Identifier: MIT
**
** orphan.c -- places that no table names, and how they go.
**
** SQLite calls xDestroy at once when a table is dropped, and nothing when the
** drop is rolled back; a CREATE that is rolled back gives no xDestroy.  So a
** store is never deleted in a callback.  CREATE and DROP put its place on a
** list, and each entry waits for the end of the transaction:
**
**     CREATE, DROP --> on the list --(the database names the uuid)--> kept
**                          |
**                          +--(it does not)--> store closed and deleted
**
** WHEN      An answer is final when the schema is not in a write transaction
**           of this connection.  It is sought whenever a table is opened or a
**           name is looked up, and at last when the connection has been
**           closed, through a connection made for it.
** FAILURE   A store that others still have open stays on the list.  What is
**           left when the process dies, emb_gc() removes: directories beside
**           the database that none of its rows names.  It holds the write
**           lock meanwhile, as CREATE does, so that no store can be new.
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

#include <dirent.h>
#include <string.h>
#include <unistd.h>

struct ext_orphan {
  char *schema, *file, *vfs;
  char *path; /* NULL if temporary */
  char uuid[33];
  struct ext_orphan *next;
};

static void free_orphan(struct ext_orphan *orphan) {
  sqlite3_free(orphan->schema);
  sqlite3_free(orphan->file);
  sqlite3_free(orphan->vfs);
  sqlite3_free(orphan->path);
  sqlite3_free(orphan);
}

int ext_orphan_add(struct ext_table *table, const char *uuid, const char *path,
                   char **err) {
  struct ext_conn *conn = table->conn;
  struct ext_orphan *orphan = sqlite3_malloc64(sizeof *orphan);
  sqlite3_vfs *vfs = NULL;
  (void)err;
  if (orphan == NULL)
    return SQLITE_NOMEM;
  memset(orphan, 0, sizeof *orphan);
  sqlite3_file_control(conn->db, table->schema, SQLITE_FCNTL_VFS_POINTER, &vfs);
  orphan->schema = sqlite3_mprintf("%s", table->schema);
  orphan->file = sqlite3_mprintf("%s", table->file);
  orphan->vfs = sqlite3_mprintf("%s", vfs ? vfs->zName : "");
  orphan->path = path ? sqlite3_mprintf("%s", path) : NULL;
  memcpy(orphan->uuid, uuid, sizeof orphan->uuid);
  if (!orphan->schema || !orphan->file || !orphan->vfs ||
      (path && !orphan->path)) {
    free_orphan(orphan);
    return SQLITE_NOMEM;
  }
  orphan->next = conn->orphans;
  conn->orphans = orphan;
  return SQLITE_OK;
}

/* Somebody has put another store into the orphan's place.  One that cannot be
** opened is taken for the orphan. */
static int is_replaced(const struct ext_orphan *orphan) {
  emb_config config = {.flags = EMB_OPEN_READONLY};
  emb_store *store;
  char uuid[33];
  int replaced;
  if (emb_open(orphan->path, &config, &store, NULL) != EMB_OK)
    return 0;
  ext_link_uuid(store, uuid);
  replaced = strcmp(uuid, orphan->uuid) != 0;
  emb_close(store, NULL);
  return replaced;
}

/* Deletes the store of an orphan for good.  0 when it has to wait. */
static int bury(struct ext_conn *conn, struct ext_orphan *orphan) {
  struct ext_link *link = ext_link_find(conn, orphan->uuid, orphan->path);
  char *parent;
  emb_err err;
  int rc;
  if (link && !ext_link_close_idle(link))
    return 0;
  if (orphan->path == NULL || (link == NULL && is_replaced(orphan)))
    return 1;
  (void)ext_place_sync(orphan->file); /* the DROP is durable */
  rc = emb_destroy(orphan->path, &err);
  if (rc == EMB_BUSY || rc == EMB_LOCKED)
    return 0;
  if (rc != EMB_OK)
    sqlite3_log(ext_code(rc), "emb: deleting %s: %s", orphan->path, err.text);
  if ((parent = ext_place_path(orphan->file, NULL)) != NULL)
    rmdir(parent); /* goes with the last store */
  sqlite3_free(parent);
  return 1;
}

/* After fork() they are the parent's. */
static int is_inherited(const struct ext_conn *conn) {
  char *err = NULL;
  int rc = ext_conn_check(conn, &err);
  sqlite3_free(err);
  return rc != SQLITE_OK;
}

/* Whether a schema names the orphan; -1 when it cannot be said now. */
static int is_named(sqlite3 *db, const char *schema,
                    const struct ext_orphan *orphan) {
  char *err = NULL;
  char *name = NULL;
  int rc = ext_place_find(db, schema, orphan->uuid, &name, &err);
  int named = rc == SQLITE_OK ? name != NULL : -1;
  sqlite3_free(name);
  sqlite3_free(err);
  return named;
}

/* The same for a file that the connection does not have open any more. */
static int is_named_in_file(const struct ext_orphan *orphan) {
  sqlite3 *db = NULL;
  int named = -1;
  if (orphan->path == NULL)
    return 0;
  if (sqlite3_open_v2(orphan->file, &db,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_PRIVATECACHE,
                      orphan->vfs[0] ? orphan->vfs : NULL) == SQLITE_OK) {
    sqlite3_busy_timeout(db, 1000);
    named = is_named(db, "main", orphan);
  }
  sqlite3_close(db);
  return named;
}

static int is_named_now(struct ext_conn *conn,
                        const struct ext_orphan *orphan) {
  int state = sqlite3_txn_state(conn->db, orphan->schema);
  if (state < 0 ||
      strcmp(ext_place_file(conn->db, orphan->schema), orphan->file) != 0)
    return is_named_in_file(orphan); /* detached */
  return state == SQLITE_TXN_WRITE ? -1
                                   : is_named(conn->db, orphan->schema, orphan);
}

void ext_orphan_settle(struct ext_conn *conn) {
  struct ext_orphan **at = &conn->orphans;
  if (is_inherited(conn))
    return;
  while (*at) {
    struct ext_orphan *orphan = *at;
    int named = is_named_now(conn, orphan);
    if (named == 1 || (named == 0 && bury(conn, orphan))) {
      *at = orphan->next;
      free_orphan(orphan);
    } else {
      at = &orphan->next;
    }
  }
}

void ext_orphan_settle_closed(struct ext_conn *conn) {
  while (conn->orphans) {
    struct ext_orphan *orphan = conn->orphans;
    conn->orphans = orphan->next;
    if (!is_inherited(conn) && is_named_in_file(orphan) == 0)
      bury(conn, orphan);
    free_orphan(orphan);
  }
}

/* ---- emb_gc() ------------------------------------------------------------ */

struct search {
  const char *dir;
  int found;
};

static int find_dir(void *arg, const char *table, const char *uuid,
                    const char *dir) {
  struct search *search = arg;
  (void)table, (void)uuid;
  search->found = dir && strcmp(dir, search->dir) == 0;
  return search->found;
}

/* Deletes dir in the directory of a database file if it is an orphan. */
static int collect(struct ext_conn *conn, const char *schema, const char *file,
                   const char *dir, int *count, char **err) {
  struct search search = {dir, 0};
  struct ext_link *link;
  char *path;
  int rc = ext_place_each(conn->db, schema, find_dir, &search, err);
  if (rc != SQLITE_OK || search.found)
    return rc;
  path = ext_place_path(file, dir);
  if (path == NULL)
    return SQLITE_NOMEM;
  for (link = conn->links; link; link = link->next)
    if (link->path && strcmp(link->path, path) == 0)
      break;
  if (link)
    ext_link_close_idle(link);
  if (emb_destroy(path, NULL) == EMB_OK && access(path, F_OK) != 0)
    ++*count;
  sqlite3_free(path);
  return SQLITE_OK;
}

static int collect_schema(struct ext_conn *conn, const char *schema,
                          const char *file, int *count, char **err) {
  int rc = SQLITE_OK;
  char *parent = ext_place_path(file, NULL);
  DIR *dir = parent ? opendir(parent) : NULL;
  struct dirent *entry;
  while (dir && rc == SQLITE_OK && (entry = readdir(dir)) != NULL)
    if (entry->d_name[0] != '.')
      rc = collect(conn, schema, file, entry->d_name, count, err);
  if (dir) {
    closedir(dir);
    rmdir(parent);
  }
  sqlite3_free(parent);
  return rc;
}

static int collect_all(struct ext_conn *conn, int *count, char **err) {
  sqlite3_stmt *list = NULL;
  int rc =
      sqlite3_prepare_v2(conn->db, "PRAGMA database_list", -1, &list, NULL);
  if (rc != SQLITE_OK)
    return ext_sql_error(err, conn->db, rc);
  while (rc == SQLITE_OK && sqlite3_step(list) == SQLITE_ROW) {
    const char *schema = (const char *)sqlite3_column_text(list, 1);
    const char *file = ext_place_file(conn->db, schema);
    if (file[0] && sqlite3_db_readonly(conn->db, schema) == 0)
      rc = collect_schema(conn, schema, file, count, err);
  }
  sqlite3_finalize(list);
  return rc;
}

void ext_orphan_gc(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct ext_conn *conn = sqlite3_user_data(context);
  char *err = NULL;
  int count = 0;
  int rc = ext_conn_check(conn, &err);
  (void)argc, (void)argv;
  ext_orphan_settle(conn);
  if (rc != SQLITE_OK) {
    /* nothing here is the child's */
  } else if (!sqlite3_get_autocommit(conn->db) ||
             sqlite3_txn_state(conn->db, NULL) == SQLITE_TXN_WRITE) {
    rc = ext_error(&err, SQLITE_LOCKED,
                   "emb_gc cannot run within a transaction");
  } else {
    rc = ext_exec(conn->db, &err, "BEGIN IMMEDIATE");
    if (rc == SQLITE_OK) {
      rc = collect_all(conn, &count, &err);
      sqlite3_exec(conn->db, "COMMIT", NULL, NULL, NULL);
    }
  }
  if (rc == SQLITE_OK)
    sqlite3_result_int(context, count);
  else
    ext_result_error(context, rc, err);
}
