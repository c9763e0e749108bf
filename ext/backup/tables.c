/* SPDX-License-Identifier: MIT
**
** tables.c -- the emb tables of a backup, and the moment of their stores.
*/
#include "backup.h"
SQLITE_EXTENSION_INIT3

#include <stdlib.h>
#include <string.h>

#define COMMIT_MS 10000
#define ATTEMPTS 50 /* to find a moment between commits of others */
#define NAP_MS 5    /* between attempts */
/* A result besides SQLite's: a transaction is in doubt, or was until now. */
#define NOT_DECIDED (-1)

/* ---- the tables ---------------------------------------------------------- */

/* Does this text of sqlite_schema make an emb table? */
static int is_emb(const char *sql) {
  for (const char *at = sql; (at = strchr(at, ' ')) != NULL; at++) {
    const char *word = at + 1;
    if (sqlite3_strnicmp(word, "using", 5) != 0)
      continue;
    word += 5;
    while (*word == ' ' || *word == '\t' || *word == '\n' || *word == '\r')
      word++;
    word += *word == '"' || *word == '[' || *word == '`' || *word == '\'';
    if (sqlite3_strnicmp(word, "emb", 3) == 0 &&
        strchr("( \t\r\n\"]`');", word[3]) != NULL)
      return 1;
  }
  return 0;
}

static int take_part(struct backup_part *part, struct ext_table *table,
                     char **err) {
  struct ext_place place;
  int rc = ext_txn_read(table, err);
  if (rc != SQLITE_OK)
    return rc;
  if (table->link->in_txn)
    return ext_error(err, SQLITE_LOCKED,
                     "emb_backup cannot run within a transaction that has "
                     "written");
  rc = ext_place_read(table, &place, err);
  if (rc != SQLITE_OK)
    return rc;
  part->dir = place.dir;
  memcpy(part->uuid, place.uuid, sizeof part->uuid);
  part->link = table->link;
  part->link->cursors++;
  return SQLITE_OK;
}

static int add_part(struct backup *b, const char *name, char **err) {
  struct backup_part *parts =
      sqlite3_realloc64(b->parts, (b->n + 1) * sizeof *parts);
  struct ext_table *table;
  struct backup_part *part;
  char *full = sqlite3_mprintf("%s.%s", b->schema, name);
  int rc = parts && full ? SQLITE_OK : SQLITE_NOMEM;
  if (parts)
    b->parts = parts;
  if (rc == SQLITE_OK) {
    part = &parts[b->n++];
    memset(part, 0, sizeof *part);
    part->name = sqlite3_mprintf("%s", name);
    rc = part->name ? ext_table_find(b->conn, full, &table, err) : SQLITE_NOMEM;
  }
  sqlite3_free(full);
  if (rc == SQLITE_OK)
    rc = take_part(part, table, err);
  return rc;
}

/* Lists the names first, because opening tables may change what a statement
** reads. */
static int list_tables(struct backup *b, char ***names, size_t *n, char **err) {
  sqlite3 *db = b->conn->db;
  sqlite3_stmt *list = NULL;
  char *sql =
      sqlite3_mprintf("SELECT name, sql FROM \"%w\".sqlite_schema WHERE "
                      "type = 'table' AND rootpage = 0 ORDER BY name",
                      b->schema);
  int rc = sql ? sqlite3_prepare_v2(db, sql, -1, &list, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  *names = NULL;
  *n = 0;
  while (rc == SQLITE_OK && sqlite3_step(list) == SQLITE_ROW) {
    const char *name, *text;
    char **more;
    rc = ext_column_text(list, 0, &name);
    if (rc == SQLITE_OK)
      rc = ext_column_text(list, 1, &text);
    if (rc != SQLITE_OK)
      break;
    if (name == NULL || text == NULL || !is_emb(text))
      continue;
    more = sqlite3_realloc64(*names, (*n + 1) * sizeof *more);
    if (more == NULL) {
      rc = SQLITE_NOMEM;
      break;
    }
    *names = more;
    more[*n] = sqlite3_mprintf("%s", name);
    rc = more[*n] ? SQLITE_OK : SQLITE_NOMEM;
    *n += rc == SQLITE_OK;
  }
  if (rc == SQLITE_OK)
    return ext_sql_error(err, db, sqlite3_finalize(list));
  if (rc != SQLITE_NOMEM)
    ext_sql_error(err, db, rc);
  sqlite3_finalize(list);
  return rc;
}

/* An order common to all processes. */
static int by_store(const void *a, const void *b) {
  uint8_t x[16], y[16];
  emb_uuid(((const struct backup_part *)a)->link->store, x);
  emb_uuid(((const struct backup_part *)b)->link->store, y);
  return memcmp(x, y, sizeof x);
}

int ext_backup_tables(struct backup *b, char **err) {
  char **names;
  size_t n;
  int rc = list_tables(b, &names, &n, err);
  for (size_t i = 0; i < n; i++) {
    if (rc == SQLITE_OK)
      rc = add_part(b, names[i], err);
    sqlite3_free(names[i]);
  }
  sqlite3_free(names);
  /* Concurrent backups lock the stores in the same order. */
  if (rc == SQLITE_OK && b->n)
    qsort(b->parts, b->n, sizeof *b->parts, by_store);
  return rc;
}

/* ---- the moment ---------------------------------------------------------- */

int ext_backup_sessions(struct backup *b, char **err) {
  for (size_t i = 0; i < b->n; i++) {
    struct backup_part *part = &b->parts[i];
    emb_err error;
    int rc = emb_session_open(part->link->store, &part->session, &error);
    if (rc)
      return ext_backup_error(err, rc, &error);
    emb_session_interrupt(part->session, ext_link_interrupted, b->conn);
  }
  return SQLITE_OK;
}

struct backup_reading {
  struct backup *b;
  int rc;
};

/* Reads a row as of the moment. */
static int backup_read_row(void *arg, const char *shadow, const char *uuid,
                           const char *dir) {
  struct backup_reading *r = arg;
  struct backup *b = r->b;
  (void)dir;
  for (size_t i = 0; i < b->n; i++)
    if (strcmp(b->parts[i].uuid, uuid) == 0 && !b->parts[i].shadow) {
      b->parts[i].shadow = sqlite3_mprintf("%s", shadow);
      if (b->parts[i].shadow == NULL)
        r->rc = SQLITE_NOMEM;
    }
  return r->rc != SQLITE_OK;
}

static int backup_read_txn(struct backup *b, struct backup_part *part,
                           char **err) {
  sqlite3 *db = b->moment.reader;
  sqlite3_stmt *row = NULL;
  char *sql = sqlite3_mprintf("SELECT txn FROM \"%w\".\"%w\" WHERE uuid = %Q",
                              b->moment.source, part->shadow, part->uuid);
  int rc = sql ? sqlite3_prepare_v2(db, sql, -1, &row, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  if (rc == SQLITE_OK && sqlite3_step(row) == SQLITE_ROW)
    part->txn = sqlite3_column_int64(row, 0);
  if (rc == SQLITE_OK)
    rc = sqlite3_finalize(row);
  return ext_sql_error(err, db, rc);
}

/* Counts the emb tables at the moment, to compare with those found. */
static int count_tables(struct backup *b, size_t *n, char **err) {
  sqlite3 *db = b->moment.reader;
  sqlite3_stmt *list = NULL;
  char *sql = sqlite3_mprintf("SELECT sql FROM \"%w\".sqlite_schema WHERE "
                              "type = 'table' AND rootpage = 0",
                              b->moment.source);
  int rc = sql ? sqlite3_prepare_v2(db, sql, -1, &list, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  *n = 0;
  while (rc == SQLITE_OK && sqlite3_step(list) == SQLITE_ROW) {
    const char *text;
    rc = ext_column_text(list, 0, &text);
    *n += rc == SQLITE_OK && text && is_emb(text);
  }
  if (rc == SQLITE_OK)
    rc = sqlite3_finalize(list);
  else
    sqlite3_finalize(list);
  return ext_sql_error(err, db, rc);
}

static int backup_read_rows(struct backup *b, char **err) {
  struct backup_reading r = {b, SQLITE_OK};
  size_t n = 0;
  int rc = ext_place_each(b->moment.reader, b->moment.source, backup_read_row,
                          &r, err);
  if (rc == SQLITE_OK)
    rc = r.rc;
  if (rc == SQLITE_OK)
    rc = count_tables(b, &n, err);
  for (size_t i = 0; rc == SQLITE_OK && i < b->n; i++)
    rc = b->parts[i].shadow ? backup_read_txn(b, &b->parts[i], err)
                            : SQLITE_SCHEMA;
  if (rc == SQLITE_SCHEMA || (rc == SQLITE_OK && n != b->n))
    rc = ext_error(
        err, SQLITE_BUSY,
        "a table was created or dropped during the backup; try again");
  return rc;
}

static int part_mismatch(const struct backup_part *part, int is_reader,
                         char **err) {
  return ext_error(
      err, is_reader ? SQLITE_BUSY : SQLITE_CORRUPT_VTAB,
      "the store of %s is at transaction %llu but the database "
      "recorded %lld%s",
      part->name, (unsigned long long)emb_committed(ext_link_store(part->link)),
      part->txn,
      is_reader ? ": open it for writing once"
                : " (restored copy?); see 'adopt'");
}

/* After EMB_LOCKED: decides a transaction in doubt by the row, which is the
** newest as long as nobody else can commit.  Only the write lock ensures that:
** without it, a live process may be about to commit. */
static int decide_part(struct backup *b, struct backup_part *part,
                       uint64_t doubt, char **err) {
  sqlite3_int64 txn = part->txn;
  emb_err error;
  int rc;
  if (txn < (sqlite3_int64)doubt && !b->moment.locked &&
      (part->link->tables == NULL ||
       !ext_place_read_newest(part->link->tables, &txn)))
    return NOT_DECIDED;
  if (txn < (sqlite3_int64)doubt &&
      (uint64_t)txn != emb_committed(ext_link_store(part->link)))
    return emb_in_doubt(ext_link_store(part->link)) == doubt
               ? part_mismatch(part, 0, err)
               : NOT_DECIDED;
  if (txn >= (sqlite3_int64)doubt) /* see DECIDED in table/txn.c */
    (void)ext_place_sync(part->link->file);
  rc = emb_resolve(ext_link_store(part->link), doubt,
                   txn >= (sqlite3_int64)doubt, &error);
  return rc ? ext_backup_error(err, rc, &error) : SQLITE_OK;
}

/* Converts the result of a call of the part's session. */
static int part_result(struct backup *b, struct backup_part *part, int code,
                       char **err) {
  uint64_t doubt = emb_undecided(part->session);
  if (code == EMB_LOCKED && doubt) {
    int rc = decide_part(b, part, doubt, err);
    return rc == SQLITE_OK ? NOT_DECIDED : rc; /* the caller retries */
  }
  return code ? ext_backup_part_error(part, code, err) : SQLITE_OK;
}

/* Makes this process the owner of the store, if it may be, and ensures that
** nothing is in doubt. */
static int own_store(struct backup *b, struct backup_part *part, int is_reader,
                     char **err) {
  return part_result(b, part,
                     is_reader ? emb_refresh(part->session)
                               : emb_delete(part->session, NULL, 0, NULL),
                     err);
}

/* Waits for a commit that SQLite has completed and that may not have reached
** the store yet.  If the write lock is held, the store's transaction has ended
** as soon as another may begin; otherwise a transaction may be open, and
** waiting for us. */
static int await_commit(struct backup *b, struct backup_part *part,
                        char **err) {
  int rc = SQLITE_OK;
  if (b->moment.locked) {
    rc = part_result(b, part, emb_begin(part->session), err);
    if (rc != SQLITE_OK)
      return rc;
    emb_rollback(part->session);
  }
  for (int ms = 0;
       rc == SQLITE_OK && part->link->atomic && ms < COMMIT_MS &&
       emb_committed(ext_link_store(part->link)) < (uint64_t)part->txn;
       ms++) {
    sqlite3_sleep(1);
    if (ext_link_interrupted(b->conn))
      rc = ext_error(err, SQLITE_INTERRUPT, "interrupted");
  }
  return rc;
}

static int backup_settle(struct backup *b, struct backup_part *part,
                         char **err) {
  int is_reader = sqlite3_db_readonly(b->conn->db, b->schema) == 1;
  int rc = own_store(b, part, is_reader, err);
  if (rc == SQLITE_OK && !is_reader)
    rc = await_commit(b, part, err);
  if (rc == SQLITE_OK && part->link->atomic &&
      (uint64_t)part->txn != emb_committed(ext_link_store(part->link)))
    rc = is_reader && b->attempts < ATTEMPTS
             ? SQLITE_BUSY_SNAPSHOT
             : part_mismatch(part, is_reader, err);
  return rc;
}

static int mark_stores(struct backup *b, char **err) {
  emb_check(ext_backup_may(b, BACKUP_MARK));
  int rc = ext_moment_begin(&b->moment, b->conn, b->schema, err);
  if (rc == SQLITE_OK)
    rc = backup_read_rows(b, err);
  for (size_t i = 0; rc == SQLITE_OK && i < b->n; i++)
    rc = backup_settle(b, &b->parts[i], err);
  for (size_t i = 0; rc == SQLITE_OK && i < b->n; i++) {
    struct backup_part *part = &b->parts[i];
    rc = part_result(b, part,
                     emb_backup_begin(part->session, b->new_emb, &part->backup),
                     err);
  }
  return rc == SQLITE_OK ? ext_moment_open_up(&b->moment, err) : rc;
}

static void unmark_stores(struct backup *b) {
  for (size_t i = 0; i < b->n; i++) {
    emb_backup_end(b->parts[i].backup);
    b->parts[i].backup = NULL;
    sqlite3_free(b->parts[i].shadow);
    b->parts[i].shadow = NULL;
  }
  ext_moment_end(&b->moment);
}

/* Returns 1 if the stores must be marked again after *rc. */
static int has_to_mark_again(struct backup *b, uint64_t since_us, int *rc,
                             char **err) {
  if (*rc == SQLITE_BUSY_SNAPSHOT && ++b->attempts > ATTEMPTS) {
    *rc = ext_error(err, SQLITE_BUSY,
                    "other connections keep committing; try again");
    return 0;
  }
  if (*rc == NOT_DECIDED && ext_link_interrupted(b->conn)) {
    *rc = ext_error(err, SQLITE_INTERRUPT, "interrupted");
    return 0;
  }
  if (*rc == NOT_DECIDED &&
      ext_now_us() - since_us > COMMIT_MS * UINT64_C(1000)) {
    *rc = ext_error(err, SQLITE_BUSY,
                    "a transaction of another connection is being committed, "
                    "and its outcome is not known yet; try again");
    return 0;
  }
  return *rc == SQLITE_BUSY_SNAPSHOT || *rc == NOT_DECIDED;
}

int ext_backup_moment(struct backup *b, char **err) {
  uint64_t since_us = ext_now_us();
  int rc = mark_stores(b, err);
  while (has_to_mark_again(b, since_us, &rc, err)) {
    unmark_stores(b);
    sqlite3_sleep(NAP_MS);
    rc = mark_stores(b, err);
  }
  for (size_t i = 0; rc == SQLITE_OK && i < b->n; i++) {
    int made = emb_backup_freeze(b->parts[i].backup);
    if (made)
      rc = ext_backup_part_error(&b->parts[i], made, err);
  }
  return rc;
}
