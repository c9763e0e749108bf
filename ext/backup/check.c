/* SPDX-License-Identifier: MIT
**
** check.c -- emb_backup_check(): reads a whole copy.
**
** A separate connection opens the database file read-only, and the engine does
** the same with its stores: nothing is written, and no lock is kept.  A problem
** found is the text of a row, not an error; an error means that the check could
** not be made.
*/
#include "backup.h"
SQLITE_EXTENSION_INIT3

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PROBLEM_BYTES_MAX 4000

struct check_checking {
  struct ext_conn *conn;
  const char *target;
  sqlite3 *db;
  int alone; /* no journal and no WAL exist */
  struct backup_rows *rows;
  int rc;
  char **err;
};

/* ---- the database -------------------------------------------------------- */

static int connect_stub(sqlite3 *db, void *data, int argc,
                        const char *const *argv, sqlite3_vtab **vtab,
                        char **message) {
  int rc = ext_declare_vtab(db, "CREATE TABLE x(key)");
  (void)data, (void)argc, (void)argv, (void)message;
  *vtab = rc == SQLITE_OK ? sqlite3_malloc64(sizeof **vtab) : NULL;
  if (*vtab)
    memset(*vtab, 0, sizeof **vtab);
  return rc == SQLITE_OK && *vtab == NULL ? SQLITE_NOMEM : rc;
}

static int plan_stub(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  (void)vtab, (void)info;
  return SQLITE_ERROR;
}

static int disconnect_stub(sqlite3_vtab *vtab) {
  sqlite3_free(vtab);
  return SQLITE_OK;
}

/* SQLite's integrity check needs the module of each virtual table. */
static const sqlite3_module stub = {.iVersion = 1,
                                    .xCreate = connect_stub,
                                    .xConnect = connect_stub,
                                    .xBestIndex = plan_stub,
                                    .xDisconnect = disconnect_stub,
                                    .xDestroy = disconnect_stub};

/* Without a WAL a file can be read as immutable (?immutable=1): SQLite then
** creates no files next to it, whatever its journal mode. */
static int open_database(struct check_checking *c) {
  char *wal = sqlite3_mprintf("%s-wal", c->target);
  char *journal = sqlite3_mprintf("%s-journal", c->target);
  sqlite3_str *uri = sqlite3_str_new(NULL);
  struct stat st;
  char *text;
  int rc = wal && journal ? SQLITE_OK : SQLITE_NOMEM;
  c->alone = wal && journal && (stat(wal, &st) != 0 || st.st_size == 0) &&
             (stat(journal, &st) != 0 || st.st_size == 0);
  sqlite3_str_appendall(uri, "file:");
  for (const char *at = c->target; *at; at++)
    if (strchr("%?#", *at))
      sqlite3_str_appendf(uri, "%%%02X", (unsigned)(unsigned char)*at);
    else
      sqlite3_str_appendchar(uri, 1, *at);
  if (c->alone)
    sqlite3_str_appendall(uri, "?immutable=1");
  text = sqlite3_str_finish(uri);
  if (rc == SQLITE_OK && text == NULL)
    rc = SQLITE_NOMEM;
  if (rc == SQLITE_OK && stat(c->target, &st) != 0)
    rc = ext_error(c->err, SQLITE_CANTOPEN, "cannot open \"%s\"", c->target);
  if (rc == SQLITE_OK) {
    rc = sqlite3_open_v2(text, &c->db,
                         SQLITE_OPEN_READONLY | SQLITE_OPEN_URI |
                             SQLITE_OPEN_PRIVATECACHE,
                         NULL);
    if (rc != SQLITE_OK && c->db)
      ext_sql_error(c->err, c->db, rc);
  }
  if (rc == SQLITE_OK)
    rc = sqlite3_create_module(c->db, "emb", &stub, NULL);
  sqlite3_free(wal);
  sqlite3_free(journal);
  sqlite3_free(text);
  return rc;
}

static int backup_check_is_stopped(void *conn) {
  return ext_link_interrupted(conn);
}

static int check_database(struct check_checking *c) {
  struct backup_row *row = ext_backup_row(c->rows);
  sqlite3_str *problem = sqlite3_str_new(NULL);
  sqlite3_stmt *check = NULL;
  struct stat st;
  int rc = row ? sqlite3_prepare_v2(c->db, "PRAGMA integrity_check", -1, &check,
                                    NULL)
               : SQLITE_NOMEM;
  if (row && stat(c->target, &st) == 0)
    row->bytes = st.st_size;
  sqlite3_progress_handler(c->db, 10000, backup_check_is_stopped, c->conn);
  while (rc == SQLITE_OK && sqlite3_step(check) == SQLITE_ROW) {
    const char *line;
    rc = ext_column_text(check, 0, &line);
    if (rc == SQLITE_OK && line && strcmp(line, "ok") != 0 &&
        sqlite3_str_length(problem) < PROBLEM_BYTES_MAX)
      sqlite3_str_appendf(problem, "%s%s",
                          sqlite3_str_length(problem) ? "\n" : "", line);
  }
  if (rc == SQLITE_OK)
    rc = sqlite3_finalize(check);
  else
    sqlite3_finalize(check);
  if (sqlite3_str_errcode(problem) == SQLITE_NOMEM)
    rc = SQLITE_NOMEM;
  if (row)
    row->problem = sqlite3_str_finish(problem);
  else
    sqlite3_free(sqlite3_str_finish(problem));
  if (rc == SQLITE_INTERRUPT)
    return ext_error(c->err, rc, "interrupted");
  if (rc == SQLITE_NOMEM)
    return rc;
  if (rc != SQLITE_OK && row && row->problem == NULL) {
    row->problem =
        sqlite3_mprintf("%s%s", sqlite3_errmsg(c->db),
                        c->alone ? ""
                                 : "; it has a journal: open it for writing to "
                                   "roll back the unfinished transaction");
    return row->problem ? SQLITE_OK : SQLITE_NOMEM;
  }
  return SQLITE_OK;
}

/* ---- the stores ---------------------------------------------------------- */

static void add_problem(void *arg, const char *line) {
  sqlite3_str *problem = arg;
  if (sqlite3_str_length(problem) < PROBLEM_BYTES_MAX)
    sqlite3_str_appendf(problem, "%s%s",
                        sqlite3_str_length(problem) ? "\n" : "", line);
}

static sqlite3_int64 bytes_in(const char *path) {
  DIR *dir = opendir(path);
  struct dirent *entry;
  struct stat st;
  sqlite3_int64 bytes = 0;
  while (dir && (entry = readdir(dir)) != NULL)
    if (entry->d_name[0] != '.' &&
        fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
      bytes += st.st_size;
  if (dir)
    closedir(dir);
  return bytes;
}

static void backup_check_numbers(emb_store *store, const char *uuid,
                                 sqlite3_int64 txn, sqlite3_str *problem) {
  char own[33];
  ext_link_uuid(store, own);
  if (strcmp(own, uuid) != 0) {
    char line[128];
    sqlite3_snprintf(sizeof line, line,
                     "the store belongs to another table: its uuid is %s", own);
    add_problem(problem, line);
  }
  if ((uint64_t)txn != emb_committed(store)) {
    char line[128];
    sqlite3_snprintf(sizeof line, line,
                     "the store is at transaction %llu, the database at %lld",
                     (unsigned long long)emb_committed(store), txn);
    add_problem(problem, line);
  }
}

/* Returns an error only for failures that are not the fault of the store. */
static int check_store(struct check_checking *c, struct backup_row *row,
                       const char *path, const char *uuid, sqlite3_int64 txn,
                       sqlite3_str *problem) {
  emb_config config = {.flags = EMB_OPEN_READONLY,
                       .patience = &c->conn->patience};
  emb_session *session = NULL;
  emb_store *store = NULL;
  emb_err error = {0, ""};
  int rc = emb_open(path, &config, &store, &error);
  if (rc == EMB_OK)
    rc = emb_session_open(store, &session, &error);
  if (rc == EMB_OK) {
    emb_session_interrupt(session, ext_link_interrupted, c->conn);
    emb_session_patience(session, &c->conn->patience);
    row->rows = emb_count(session);
    backup_check_numbers(store, uuid, txn, problem);
    rc = emb_verify(session, add_problem, problem);
    if (rc) {
      error.code = rc;
      sqlite3_snprintf(sizeof error.text, error.text, "%s",
                       emb_errmsg(session));
    }
  }
  if (session)
    emb_session_close(session);
  emb_close(store, NULL);
  if (rc == EMB_NOMEM || rc == EMB_INTERRUPT)
    return ext_engine_error(c->err, rc, error.text);
  if (rc)
    add_problem(problem, error.text);
  return SQLITE_OK;
}

static int backup_check_row(struct check_checking *c, const char *shadow,
                            const char *uuid, const char *dir,
                            sqlite3_int64 txn) {
  struct backup_row *row = ext_backup_row(c->rows);
  sqlite3_str *problem = sqlite3_str_new(NULL);
  int length = (int)strlen(shadow) - 4;
  char *path = sqlite3_mprintf("%s-emb/%s", c->target, dir);
  int rc = row && path ? SQLITE_OK : SQLITE_NOMEM;
  if (rc == SQLITE_OK) {
    row->table = sqlite3_mprintf("%.*s", length, shadow);
    rc = row->table ? check_store(c, row, path, uuid, txn, problem)
                    : SQLITE_NOMEM;
    row->bytes = bytes_in(path);
  }
  if (row)
    row->problem = sqlite3_str_finish(problem);
  else
    sqlite3_free(sqlite3_str_finish(problem));
  sqlite3_free(path);
  return rc;
}

static int backup_check_visit(void *arg, const char *shadow, const char *uuid,
                              const char *dir) {
  struct check_checking *c = arg;
  sqlite3_stmt *row = NULL;
  sqlite3_int64 txn = 0;
  char *sql;
  if (dir == NULL || strlen(uuid) != 32 || !ext_place_is_name(dir))
    return 0; /* not emb's, or a temporary store */
  sql = sqlite3_mprintf("SELECT txn FROM \"%w\" WHERE uuid = %Q", shadow, uuid);
  if (sql == NULL) {
    c->rc = SQLITE_NOMEM;
    return 1;
  }
  if (sqlite3_prepare_v2(c->db, sql, -1, &row, NULL) == SQLITE_OK &&
      sqlite3_step(row) == SQLITE_ROW)
    txn = sqlite3_column_int64(row, 0);
  sqlite3_finalize(row);
  sqlite3_free(sql);
  c->rc = backup_check_row(c, shadow, uuid, dir, txn);
  return c->rc != SQLITE_OK;
}

static int by_table(const void *a, const void *b) {
  const struct backup_row *x = a, *y = b;
  return strcmp(x->table ? x->table : "", y->table ? y->table : "");
}

int ext_backup_check(struct ext_conn *conn, const char *target,
                     struct backup_rows *rows, char **err) {
  struct check_checking c = {.conn = conn, .rows = rows, .err = err};
  char *path = NULL, *ignored = NULL;
  int rc = ext_conn_check(conn, err);
  if (rc == SQLITE_OK)
    rc = ext_backup_path(target, &path, err);
  if (rc == SQLITE_OK) {
    c.target = path;
    rc = open_database(&c);
  }
  if (rc == SQLITE_OK)
    rc = check_database(&c);
  if (rc == SQLITE_OK) {
    /* A damaged database may be unable to list its tables; the problem is then
    ** in its own row. */
    int listed = ext_place_each(c.db, "main", backup_check_visit, &c, &ignored);
    sqlite3_free(ignored);
    rc = c.rc;
    if (rc == SQLITE_OK && listed == SQLITE_NOMEM)
      rc = listed;
    if (rc == SQLITE_OK && listed == SQLITE_INTERRUPT)
      rc = ext_error(err, listed, "interrupted");
  }
  if (rows->n > 2)
    qsort(rows->rows + 1, rows->n - 1, sizeof *rows->rows, by_table);
  sqlite3_close(c.db);
  sqlite3_free(path);
  return rc;
}
