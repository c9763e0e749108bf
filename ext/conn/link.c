/* SPDX-License-Identifier: MIT
**
** link.c -- one connection's use of one store.
**
** A link holds the engine session.  It is found again by the store's path, or
** by its uuid if the store is temporary.  It outlives the last table object
** that uses it, because SQLite re-creates table objects after every schema
** change and closing a store writes a checkpoint.  Table objects do not keep it
** open either, because a prepared statement that no longer runs keeps an old
** table object alive.  A link is closed
**   - when the connection closes,
**   - when its database was detached,
**   - when its table was dropped and the drop is committed (orphan.c),
** the last two only after the last cursor and transaction on it have ended.
*/
#include "conn.h"
#include "engine/base/sort.h"
SQLITE_EXTENSION_INIT3

#include <errno.h>
#include <string.h>
#include <time.h>
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
  uint64_t number = emb_undecided(link->session);
  ext_link_reported(link->conn);
  if (emb_code == EMB_LOCKED && number && link->doubt_failed) {
    int rc = link->doubt_failed;
    sqlite3_free(*err);
    *err = link->doubt_text; /* NULL: memory had run out */
    link->doubt_text = NULL;
    link->doubt_failed = SQLITE_OK;
    return rc;
  }
  if (emb_code == EMB_LOCKED && number && link->tables)
    return ext_error(err, SQLITE_BUSY,
                     "%s: transaction %llu of another connection is being "
                     "committed, and its outcome is not known yet; try again",
                     link->tables->name, (unsigned long long)number);
  return ext_store_error(err, emb_code, emb_errmsg(link->session), link->tables,
                         emb_directory(link->store));
}

char *ext_link_text(const struct ext_link *link) {
  return ext_store_text(emb_errmsg(link->session), link->tables,
                        emb_directory(link->store));
}

int ext_link_count_now(struct ext_link *link, sqlite3_int64 *rows, char **err) {
  *rows = emb_count(link->session);
  return *rows < 0 ? ext_link_error(link, emb_errcode(link->session), err)
                   : SQLITE_OK;
}

sqlite3_int64 ext_link_count(struct ext_link *link) {
  sqlite3_int64 rows = emb_count(link->session);
  if (rows < 0 && emb_errcode(link->session) == EMB_LOST && !link->failed) {
    link->failed_text = ext_link_text(link);
    link->failed = ext_code(EMB_LOST);
  }
  return rows;
}

/* SQLite calls a progress handler only while it runs a statement.  To have it
** called while the engine works, a short statement is run every TICK_US. */
#define TICK_US 5000
#define LOOK_WAIT_US 20000
#define TICK_SQL                                                               \
  "WITH RECURSIVE t(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM t "           \
  "WHERE i < 1000) SELECT count(*) FROM t"

uint64_t ext_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Before 3.41 no function reports that sqlite3_interrupt was called, but
** preparing then fails, already at the first space.  A space alone makes no
** statement and allocates nothing.  The tick's statement is not kept, because
** sqlite3_close refuses while one exists. */
int ext_link_interrupted(void *arg) {
  struct ext_conn *conn = arg;
  sqlite3_stmt *statement = NULL;
  uint64_t now;
  int rc;
  if (conn->closing)
    return 0;
  now = ext_now_us();
  if (now - conn->ticked_us < TICK_US) {
    rc = sqlite3_prepare_v2(conn->db, " ", -1, &statement, NULL);
  } else {
    rc = sqlite3_prepare_v2(conn->db, TICK_SQL, -1, &statement, NULL);
    if (rc == SQLITE_OK)
      rc = sqlite3_step(statement);
    conn->ticked_us = ext_now_us();
  }
  sqlite3_finalize(statement);
  return rc == SQLITE_INTERRUPT;
}

int ext_link_sort(struct ext_conn *conn, void *at, size_t n, size_t size,
                  int (*compare)(const void *, const void *), char **err) {
  return sort_until(at, n, size, compare, ext_link_interrupted, conn)
             ? ext_error(err, SQLITE_INTERRUPT, "interrupted")
             : SQLITE_OK;
}

/* For emb_session_blocks: SQLite admits one writer at a time, and without WAL a
** reader's lock keeps others from committing. */
static int link_blocks(void *arg, int what) {
  struct ext_link *link = arg;
  sqlite3 *db = link->conn->db;
  int state = link->conn->closing ? -1 : sqlite3_txn_state(db, link->schema);
  int is_wal;
  if (what == EMB_BLOCKS_WRITE)
    return state == SQLITE_TXN_WRITE;
  return state > SQLITE_TXN_NONE &&
         ext_place_is_wal(db, link->schema, &is_wal) == SQLITE_OK && !is_wal;
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

void ext_link_attach(struct ext_table *table, struct ext_link *link) {
  table->link = link;
  table->next_of_link = link->tables;
  link->tables = table;
}

void ext_ticket_free(struct ext_ticket *ticket) {
  ext_texts_free(&ticket->texts);
  sqlite3_free(ticket->ids);
  sqlite3_free(ticket->vectors);
  sqlite3_free(ticket);
}

static void ticket_free_all(struct ext_ticket **list) {
  while (*list) {
    struct ext_ticket *ticket = *list;
    *list = ticket->next;
    ext_ticket_free(ticket);
  }
}

static void free_link(struct ext_link *link) {
  ticket_free_all(&link->prefetches);
  ticket_free_all(&link->write_backs);
  ext_dict_free(link->dict);
  sqlite3_free(link->put_versions);
  sqlite3_free(link->late);
  sqlite3_free(link->failed_text);
  sqlite3_free(link->doubt_text);
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
    link->removes_dir = -1;
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
  emb_session_patience(link->session, &conn->patience);
  emb_session_blocks(link->session, link_blocks, link);
  link->next = conn->links;
  conn->links = link;
  conn->attached += link->attached;
  ext_link_attach(table, link);
  emb_assert(ext_conn_valid(conn));
  return SQLITE_OK;
}

void ext_link_close(struct ext_link *link) {
  struct ext_link **at = &link->conn->links;
  char *parent;
  emb_err err;
  while (*at != link)
    at = &(*at)->next;
  *at = link->next;
  link->conn->attached -= link->attached;
  emb_assert(link->cursors == 0 || link->conn->closing);
  while (link->tables)
    ext_link_put(link->tables);
  emb_session_close(link->session);
  if (emb_close(link->store, &err) != EMB_OK)
    sqlite3_log(SQLITE_WARNING, "emb: closing %s: %s",
                link->path ? link->path : "a temporary store", err.text);
  if (link->path && access(link->path, F_OK) != 0 &&
      (parent = ext_place_path(link->file, NULL)) != NULL) {
    rmdir(parent); /* succeeds for the last store */
    sqlite3_free(parent);
  }
  free_link(link);
}

/* A function call holds tables, because the SQL it runs may make SQLite
** disconnect them. */
static int link_is_held(const struct ext_link *link) {
  for (const struct ext_table *table = link->tables; table;
       table = table->next_of_link)
    if (table->held)
      return 1;
  return 0;
}

int ext_link_close_idle(struct ext_link *link) {
  if (link->cursors || link->in_txn || link_is_held(link))
    return 0;
  ext_link_close(link);
  return 1;
}

/* Checked before each use of any table, so with a short limit: an owner that
** does not respond must block only the users of its own store. */
static int link_is_dropped(struct ext_link *link) {
  emb_patience *patience = &link->conn->patience;
  uint64_t limit_us = patience->limit_us;
  patience->limit_us = LOOK_WAIT_US;
  emb_wait_with(patience);
  int is = emb_session_is_dropped(link->session);
  emb_wait_with(NULL); /* the call may not have used it */
  patience->limit_us = limit_us;
  return is;
}

/* Keeps the link of a table during a transaction, which may still see the table
** (in WAL mode an old one does) and may go on reading. */
void ext_link_close_dropped(struct ext_conn *conn) {
  struct ext_link *next;
  for (struct ext_link *link = conn->links; link; link = next) {
    next = link->next;
    if (link_is_dropped(link) &&
        (link->tables == NULL ||
         sqlite3_txn_state(conn->db, link->schema) == SQLITE_TXN_NONE))
      ext_link_close_idle(link);
  }
}

void ext_link_close_detached(struct ext_conn *conn) {
  struct ext_link *next;
  ext_link_close_dropped(conn);
  for (struct ext_link *link = conn->links; link; link = next) {
    next = link->next;
    if (sqlite3_db_readonly(conn->db, link->schema) < 0 ||
        strcmp(ext_place_file(conn->db, link->schema), link->file) != 0)
      ext_link_close_idle(link);
  }
}

void ext_link_put(struct ext_table *table) {
  struct ext_table **at;
  if (table->link == NULL)
    return;
  for (at = &table->link->tables; *at != table; at = &(*at)->next_of_link)
    ;
  *at = table->next_of_link;
  if (table->link->tables == NULL)
    ext_dict_idle(table->link->dict);
  table->link = NULL;
}
