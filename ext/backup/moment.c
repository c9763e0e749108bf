/* SPDX-License-Identifier: MIT
**
** moment.c -- fixes a database at one moment, for a backup.
**
** WAL       Two separate connections to the schema's file, through the same VFS
**           and with the same parameters: one takes the write lock, so that
**           nobody can commit; the other begins to read, and keeps seeing that
**           state after the lock is released.
** JOURNAL   In the other modes a reader blocks commits, and the caller is a
**           reader: the statement that calls emb_backup() reads the schema from
**           its first step to its last.  So the moment already exists, and
**           lasts.  Do not wait for a lock: its holder may be waiting for this
**           statement in order to commit.
** ALONE     The caller's connection also reads a database without a file, or
**           with locking_mode=EXCLUSIVE: no other connections exist.
** KEYED     A WAL database that other connections cannot read, because it needs
**           PRAGMA key: the caller's connection takes the lock, and releases it
**           to begin again as a reader.  If another connection committed in
**           between, it retries.
*/
#include "backup.h"
SQLITE_EXTENSION_INIT3

#include <string.h>
#include <time.h>

#define MOMENT_WAIT_MS 10000 /* minimum limit, for the write lock */

static int pragma_number(sqlite3 *db, const char *sql) {
  sqlite3_stmt *pragma = NULL;
  int n = 0;
  if (sqlite3_prepare_v2(db, sql, -1, &pragma, NULL) == SQLITE_OK &&
      sqlite3_step(pragma) == SQLITE_ROW)
    n = sqlite3_column_int(pragma, 0);
  sqlite3_finalize(pragma);
  return n;
}

/* ---- connections --------------------------------------------------------- */

static void moment_append_encoded(sqlite3_str *to, const char *text) {
  for (; *text; text++)
    if (strchr("%?#&=+ ", *text))
      sqlite3_str_appendf(to, "%%%02X", (unsigned)(unsigned char)*text);
    else
      sqlite3_str_appendchar(to, 1, *text);
}

/* The file as a URI with the parameters with which it was opened. */
static char *moment_uri(sqlite3 *db, const char *schema) {
  const char *file = sqlite3_db_filename(db, schema);
  sqlite3_str *uri = sqlite3_str_new(NULL);
  const char *key;
  char next = '?';
  sqlite3_str_appendall(uri, file[0] == '/' ? "file://" : "file:");
  moment_append_encoded(uri, file);
  for (int i = 0; (key = sqlite3_uri_key(file, i)) != NULL; i++) {
    const char *value = sqlite3_uri_parameter(file, key);
    if (strcmp(key, "vfs") == 0 || strcmp(key, "cache") == 0 ||
        strcmp(key, "mode") == 0)
      continue;
    sqlite3_str_appendchar(uri, 1, next);
    next = '&';
    moment_append_encoded(uri, key);
    sqlite3_str_appendchar(uri, 1, '=');
    moment_append_encoded(uri, value ? value : "");
  }
  return sqlite3_str_finish(uri);
}

static int moment_connect(struct ext_moment *m, int flags, sqlite3 **db,
                          char **err) {
  sqlite3_vfs *vfs = NULL;
  char *uri = moment_uri(m->conn->db, m->schema);
  int rc = uri ? SQLITE_OK : SQLITE_NOMEM;
  sqlite3_file_control(m->conn->db, m->schema, SQLITE_FCNTL_VFS_POINTER, &vfs);
  if (rc == SQLITE_OK)
    rc = sqlite3_open_v2(uri, db,
                         flags | SQLITE_OPEN_URI | SQLITE_OPEN_PRIVATECACHE,
                         vfs ? vfs->zName : NULL);
  sqlite3_free(uri);
  if (rc != SQLITE_OK && *db)
    return ext_sql_error(err, *db, rc);
  return rc;
}

static void moment_disconnect(sqlite3 **db) {
  sqlite3_close(*db);
  *db = NULL;
}

/* Runs SQL that needs a lock; the wait may take as long as the caller's busy
** timeout, and at least MOMENT_WAIT_MS. */
static int moment_run(struct ext_moment *m, sqlite3 *db, const char *sql,
                      char **err) {
  struct ext_wait wait;
  int ms = pragma_number(m->conn->db, "PRAGMA busy_timeout"), rc;
  ext_wait_for_locks(&wait, m->conn, db,
                     (uint64_t)(ms > MOMENT_WAIT_MS ? ms : MOMENT_WAIT_MS));
  rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
  if (rc != SQLITE_OK)
    ext_sql_error(err, db, rc);
  sqlite3_busy_handler(db, NULL, NULL);
  return ext_wait_result(&wait, rc, err);
}

/* ---- two connections ----------------------------------------------------- */

static int begin_two(struct ext_moment *m, char **err) {
  int is_readonly = sqlite3_db_readonly(m->conn->db, m->schema) == 1;
  int flags = is_readonly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  int rc = SQLITE_OK;
  if (!is_readonly) {
    rc = moment_connect(m, flags, &m->lock, err);
    if (rc == SQLITE_OK)
      rc = moment_run(m, m->lock, "BEGIN IMMEDIATE", err);
  }
  if (rc == SQLITE_OK)
    rc = moment_connect(m, flags, &m->reader, err);
  if (rc == SQLITE_OK)
    rc = moment_run(m, m->reader, "BEGIN; SELECT count(*) FROM sqlite_schema",
                    err);
  m->source = "main";
  m->locked = m->lock != NULL;
  if (rc != SQLITE_OK)
    ext_moment_end(m);
  return rc;
}

/* ---- the caller's own ---------------------------------------------------- */

/* SQLite does not copy pages from a connection that may write. */
static sqlite3_int64 moment_data_version(struct ext_moment *m) {
  char *sql = sqlite3_mprintf("PRAGMA \"%w\".data_version", m->schema);
  sqlite3_int64 n = sql ? pragma_number(m->reader, sql) : 0;
  sqlite3_free(sql);
  return n;
}

static int begin_keyed(struct ext_moment *m, char **err) {
  sqlite3 *db = m->conn->db;
  int rc;
  m->reader = db;
  m->source = m->schema;
  if (sqlite3_get_autocommit(db))
    rc = ext_exec(db, err, "BEGIN IMMEDIATE");
  else
    rc = ext_error(err, SQLITE_LOCKED,
                   "emb_backup cannot run within a transaction here, because "
                   "no other connection can open the database");
  m->own = m->locked = rc == SQLITE_OK;
  if (m->own)
    m->version = moment_data_version(m);
  else
    m->reader = NULL;
  return rc;
}

/* Reads until the running statement ends. */
static int begin_reading(struct ext_moment *m, char **err) {
  m->reader = m->conn->db;
  m->source = m->schema;
  return ext_exec(m->reader, err, "SELECT count(*) FROM \"%w\".sqlite_schema",
                  m->schema);
}

static int read_anew(struct ext_moment *m, char **err) {
  int rc = ext_exec(m->reader, err, "COMMIT");
  m->own = rc != SQLITE_OK;
  if (rc == SQLITE_OK)
    rc = ext_exec(m->reader, err, "BEGIN");
  m->own = rc == SQLITE_OK;
  if (rc == SQLITE_OK)
    rc = ext_exec(m->reader, err, "SELECT count(*) FROM \"%w\".sqlite_schema",
                  m->schema);
  return rc == SQLITE_OK && moment_data_version(m) != m->version
             ? SQLITE_BUSY_SNAPSHOT
             : rc;
}

static int pragma_is(struct ext_moment *m, const char *name, const char *value,
                     int *is, char **err) {
  sqlite3 *db = m->conn->db;
  sqlite3_stmt *pragma = NULL;
  char *sql = sqlite3_mprintf("PRAGMA \"%w\".%s", m->schema, name);
  int rc = sql ? sqlite3_prepare_v2(db, sql, -1, &pragma, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  *is = 0;
  if (rc == SQLITE_OK && sqlite3_step(pragma) == SQLITE_ROW) {
    const char *text;
    rc = ext_column_text(pragma, 0, &text);
    *is = rc == SQLITE_OK && sqlite3_stricmp(text, value) == 0;
  }
  if (rc == SQLITE_OK)
    rc = sqlite3_finalize(pragma);
  else
    sqlite3_finalize(pragma);
  return ext_sql_error(err, db, rc);
}

int ext_moment_begin(struct ext_moment *m, struct ext_conn *conn,
                     const char *schema, char **err) {
  int is_wal, is_exclusive = 0;
  int rc;
  memset(m, 0, sizeof *m);
  m->conn = conn;
  m->schema = schema;
  rc = pragma_is(m, "journal_mode", "wal", &is_wal, err);
  if (rc == SQLITE_OK && is_wal)
    rc = pragma_is(m, "locking_mode", "exclusive", &is_exclusive, err);
  if (rc != SQLITE_OK)
    return rc;
  if (ext_place_file(conn->db, schema)[0] == 0 || !is_wal || is_exclusive)
    rc = begin_reading(m, err);
  else if ((rc = begin_two(m, err)) == SQLITE_NOTADB)
    rc = begin_keyed(m, err);
  emb_check(ext_moment_valid(m));
  return rc;
}

static void give_lock(struct ext_moment *m) {
  if (m->lock) {
    sqlite3_exec(m->lock, "ROLLBACK", NULL, NULL, NULL);
    moment_disconnect(&m->lock);
  }
}

int ext_moment_open_up(struct ext_moment *m, char **err) {
  emb_check(ext_moment_valid(m));
  give_lock(m);
  return m->own ? read_anew(m, err) : SQLITE_OK;
}

void ext_moment_end(struct ext_moment *m) {
  give_lock(m);
  if (m->own)
    sqlite3_exec(m->conn->db, "COMMIT", NULL, NULL, NULL);
  else if (m->reader && m->reader != m->conn->db)
    moment_disconnect(&m->reader);
  m->reader = NULL;
  m->own = 0;
}
