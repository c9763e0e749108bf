/* SPDX-License-Identifier: MIT
**
** gc.c -- emb_gc(): deletes the stores that no table names.
**
** A process leaves such stores if it dies after a CREATE or DROP and before it
** has handled their outcome (conn/orphan.c): directories next to the database
** that none of its rows names.  emb_gc holds the write lock, as CREATE does, so
** no store can be new.
*/
#include "fn.h"
SQLITE_EXTENSION_INIT3

#include <dirent.h>
#include <string.h>
#include <unistd.h>

struct gc_search {
  const char *dir;
  int found;
};

static int find_dir(void *arg, const char *table, const char *uuid,
                    const char *dir) {
  struct gc_search *search = arg;
  (void)table, (void)uuid;
  search->found = dir && strcmp(dir, search->dir) == 0;
  return search->found;
}

/* Deletes dir in the directory of a database file if it is an orphan. */
static int gc_collect(struct ext_conn *conn, const char *schema,
                      const char *file, const char *dir, int *count,
                      char **err) {
  struct gc_search search = {dir, 0};
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
  emb_wait_with(&conn->patience);
  if (emb_drop(path, NULL, NULL) == EMB_OK) {
    ext_conn_sweep(conn);
    *count += access(path, F_OK) != 0;
  }
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
      rc = gc_collect(conn, schema, file, entry->d_name, count, err);
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

void ext_fn_gc(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct ext_conn *conn = ext_fn_conn(context);
  char *err = NULL;
  int count = 0;
  int rc = ext_conn_check(conn, &err);
  (void)argc, (void)argv;
  ext_orphan_settle(conn);
  if (rc != SQLITE_OK) {
    /* a child after fork() owns nothing here */
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
