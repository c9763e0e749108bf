/* SPDX-License-Identifier: MIT
**
** orphan.c -- deletes places that no table names.
**
** SQLite calls xDestroy as soon as a table is dropped, and nothing when the
** drop is rolled back; when a CREATE is rolled back, it does not call xDestroy.
** Therefore no callback deletes a store.  CREATE and DROP add its place to a
** list, and each entry waits for the end of the transaction:
**
**     CREATE, DROP --> on the list --(the database names the uuid)--> kept
**                          |
**                          +--(it does not)--> deleted (emb_drop)
**
** WHEN      An answer is final when the schema is not in a write transaction of
**           this connection.  It is determined when the transaction ends, which
**           SQLite reports to a table of ours (signal.c); failing that,
**           whenever a table is opened or a name is looked up, and finally when
**           the connection has been closed.  Where the connection itself cannot
**           be asked, a temporary one is opened, unless the connection's lock
**           keeps all others out.
** OTHERS    Other connections of the process may have the store open.  Its
**           files are unlinked at once, and freed when the last link is closed.
**           Links of connections that are not in use now are closed here
**           (ext_conn_sweep); the others when their connection finds that the
**           schema has changed, is used, or closes (link.c).
** FAILURE   A store owned by another process is deleted by that process.  If
**           the owner serves nobody, or a transaction has written to the store,
**           or background work on it does not end within a second, the entry
**           stays on the list.  Stores left when the process dies are
**           removed by emb_gc() (fn/gc.c).
*/
#include "conn.h"
SQLITE_EXTENSION_INIT3

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct ext_orphan {
  char *schema, *file, *vfs;
  char *path; /* NULL if temporary */
  char uuid[33];
  int tried; /* a first attempt failed: further waits are short */
  struct ext_orphan *next;
};

/* Limits of waits for a lock or an unresponsive process: of the first wait, and
** of all further waits of one call together. */
#define ORPHAN_WAIT_MS 1000
#define ORPHAN_AGAIN_MS 20

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
  int rc;
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
  /* A temporary store does not wait for that: signal.c says nothing of it.
  ** While a temporary table is created, no statement may use main: if another
  ** connection has changed the schema of main, SQLite discards this schema and
  ** that of temp, with the table that it is creating. */
  if (path == NULL)
    return SQLITE_OK;
  /* If this fails, only the end of the transaction goes unnoticed.  But after
  ** these errors SQLite has rolled back everything: the place is already gone,
  ** and the table's link with it. */
  rc = sqlite3_exec(conn->db, "DELETE FROM main." EXT_SIGNAL, NULL, NULL, NULL);
  switch (rc & 0xff) {
  case SQLITE_INTERRUPT:
  case SQLITE_NOMEM:
  case SQLITE_IOERR:
  case SQLITE_FULL:
    return ext_sql_error(err, conn->db, rc);
  }
  return SQLITE_OK;
}

static void read_uuid(const char *hex, uint8_t uuid[16]) {
  for (int i = 0; i < 32; i++) {
    int digit = hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10;
    uuid[i / 2] = (uint8_t)(i % 2 ? uuid[i / 2] << 4 | digit : digit);
  }
}

static emb_patience orphan_again(const struct ext_conn *conn) {
  return (emb_patience){.limit_us = ORPHAN_AGAIN_MS * UINT64_C(1000),
                        .interrupt = conn->patience.interrupt,
                        .interrupt_arg = conn->patience.interrupt_arg};
}

/* Another process may own the store.  Its silence is not an error of the
** statement, which SQLite has committed, so the next wait starts afresh. */
static int orphan_drop(struct ext_conn *conn, struct ext_orphan *orphan,
                       emb_patience *again, emb_err *err) {
  uint8_t uuid[16];
  int rc;
  read_uuid(orphan->uuid, uuid);
  emb_wait_with(orphan->tried ? again : &conn->patience);
  rc = emb_drop(orphan->path, uuid, err);
  orphan->tried = 1;
  return rc;
}

/* Deletes the store of an orphan permanently.  Returns 0 if it must be
** retried. */
static int orphan_bury(struct ext_conn *conn, struct ext_orphan *orphan,
                       emb_patience *again) {
  struct ext_link *link = ext_link_find(conn, orphan->uuid, orphan->path);
  char *parent;
  emb_err err;
  int rc;
  if (link && !ext_link_close_idle(link))
    return 0;
  if (orphan->path == NULL)
    return 1;
  /* The DROP must be durable first.  A directory without read permission can
  ** never be synced; any other error may be temporary. */
  rc = ext_place_sync(orphan->file);
  if (rc && rc != EACCES)
    return 0;
  rc = orphan_drop(conn, orphan, again, &err);
  if (rc == EMB_BUSY || rc == EMB_LOCKED || rc == EMB_INTERRUPT)
    return 0;
  if (rc != EMB_OK)
    sqlite3_log(ext_code(rc), "emb: deleting %s: %s", orphan->path, err.text);
  ext_conn_sweep(conn);
  if ((parent = ext_place_path(orphan->file, NULL)) != NULL)
    rmdir(parent); /* succeeds for the last store */
  sqlite3_free(parent);
  return 1;
}

/* Does the schema name the orphan?  -1 if that is not known now. */
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

/* As above, for a file that the connection no longer has open. */
static int is_named_in_file(struct ext_conn *conn, struct ext_orphan *orphan) {
  struct ext_wait wait;
  sqlite3 *db = NULL;
  int named = -1;
  if (orphan->path == NULL)
    return 0;
  if (sqlite3_open_v2(orphan->file, &db,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_PRIVATECACHE,
                      orphan->vfs[0] ? orphan->vfs : NULL) == SQLITE_OK) {
    ext_wait_for_locks(&wait, conn, db,
                       orphan->tried && !conn->closing ? ORPHAN_AGAIN_MS
                                                       : ORPHAN_WAIT_MS);
    named = is_named(db, "main", orphan);
    orphan->tried |= named < 0;
  }
  sqlite3_close(db);
  return named;
}

int ext_orphan_is_dropped(struct ext_table *table, const char *uuid) {
  struct ext_orphan like = {.file = table->file, .path = table->file};
  sqlite3_vfs *vfs = NULL;
  sqlite3_file_control(table->conn->db, table->schema, SQLITE_FCNTL_VFS_POINTER,
                       &vfs);
  like.vfs = (char *)(vfs ? vfs->zName : "");
  memcpy(like.uuid, uuid, sizeof like.uuid);
  return is_named_in_file(table->conn, &like) == 0;
}

static int is_named_now(struct ext_conn *conn, struct ext_orphan *orphan) {
  int state = sqlite3_txn_state(conn->db, orphan->schema);
  if (state < 0 ||
      strcmp(ext_place_file(conn->db, orphan->schema), orphan->file) != 0)
    return is_named_in_file(conn, orphan); /* detached */
  return state == SQLITE_TXN_WRITE ? -1
                                   : is_named(conn->db, orphan->schema, orphan);
}

void ext_orphan_settle(struct ext_conn *conn) {
  struct ext_orphan **at = &conn->orphans;
  emb_patience again = orphan_again(conn);
  if (ext_conn_is_inherited(conn))
    return;
  while (*at) {
    struct ext_orphan *orphan = *at;
    int named = is_named_now(conn, orphan);
    if (named == 1 || (named == 0 && orphan_bury(conn, orphan, &again))) {
      *at = orphan->next;
      free_orphan(orphan);
    } else {
      at = &orphan->next;
    }
  }
}

void ext_orphan_settle_closed(struct ext_conn *conn) {
  emb_patience again = orphan_again(conn);
  while (conn->orphans) {
    struct ext_orphan *orphan = conn->orphans;
    conn->orphans = orphan->next;
    if (!ext_conn_is_inherited(conn) && is_named_in_file(conn, orphan) == 0)
      orphan_bury(conn, orphan, &again);
    free_orphan(orphan);
  }
}

/* With PRAGMA locking_mode = EXCLUSIVE the connection keeps its lock: another
** one would wait for it in vain. */
static int is_locked_here(struct ext_conn *conn,
                          const struct ext_orphan *orphan) {
  int state = SQLITE_LOCK_NONE;
  return strcmp(ext_place_file(conn->db, orphan->schema), orphan->file) == 0 &&
         sqlite3_file_control(conn->db, orphan->schema, SQLITE_FCNTL_LOCKSTATE,
                              &state) == SQLITE_OK &&
         state == SQLITE_LOCK_EXCLUSIVE;
}

/* SQL cannot run on this connection yet. */
void ext_orphan_settle_ended(struct ext_conn *conn) {
  struct ext_orphan **at = &conn->orphans;
  emb_patience again = orphan_again(conn);
  if (ext_conn_is_inherited(conn))
    return;
  while (*at) {
    struct ext_orphan *orphan = *at;
    int named = orphan->path && !is_locked_here(conn, orphan)
                    ? is_named_in_file(conn, orphan)
                    : -1;
    if (named == 1 || (named == 0 && orphan_bury(conn, orphan, &again))) {
      *at = orphan->next;
      free_orphan(orphan);
    } else {
      at = &orphan->next;
    }
  }
  ext_link_reported(conn);
}
