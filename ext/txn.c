/* SPDX-License-Identifier: MIT
**
** txn.c -- the transaction that SQLite and a store share.
**
** ATOMIC    (a table in a file, commit='atomic')
**               first write   emb_begin; what is in doubt is decided here
**               xSync         emb_prepare gives number n and makes the writes
**                             durable; n goes into the shadow table
**               SQLite commits, and with it n: this decides
**               xCommit       emb_commit, which cannot fail
**           A crash in between leaves the store with n in doubt, and the
**           shadow table knows.
** ENGINE    (commit='engine', and temporary and in-memory databases)
**               first write   emb_begin
**               xCommit       emb_commit
**           Not in xSync, because SQLite may still roll back after it (a
**           commit hook, another file that is busy).  SQLite ignores what
**           xCommit returns, so a failure is kept and told at the next use.
**
** OWNER     A statement may read before it writes: so xBegin, which comes
**           before both, makes this process the store's owner, for as a
**           reader it would see the last checkpoint only.  When another
**           process holds it for longer than the timeout, that is no error
**           yet (a command need not write), but there can be no write in this
**           transaction any more: SQLITE_BUSY, as after a snapshot that has
**           grown old.
**
** STATES of a link, by in_txn.  xBegin is not in the table: SQLite leaves it
** out after CREATE, and a statement that writes nothing needs no transaction.
**
**             xUpdate           xSync     xCommit, xRollback   table gone
**   idle      -> open           -         -                    -
**   open      -                 prepare   -> idle              -> idle (xSync)
**
** DECIDED   In journal mode DELETE it is the removal of its journal by which
**           SQLite commits, and with synchronous=FULL (not EXTRA) it leaves it
**           to the file system when that is durable.  The store takes the
**           transaction before the next for decided, so xCommit waits for it.
**
** IN DOUBT  Only a write may decide for rollback: it holds the database's
**           write lock and so reads the newest row.  A reader in WAL mode may
**           be looking at an old one; it may decide for commit only.
** SAVEPOINTS  SQLite's numbers go to the engine as they are.  Two table
**           objects of one link (after a change of the schema within the
**           transaction) both announce the same savepoint; the second time it
**           must not be opened anew, for there may be writes since.  `level`
**           is the innermost one announced, and a number at or below it is a
**           repetition.  One that was announced before the first write is
**           unknown to the engine, where it means the state at emb_begin.
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

#include <assert.h>
#include <string.h>
#include <unistd.h>

static struct ext_table *table_of(sqlite3_vtab *vtab) {
  return (struct ext_table *)vtab;
}

static void end(struct ext_link *link) {
  link->in_txn = 0;
  link->level = -1;
  link->dirty = 0;
  link->removes = 0;
  sqlite3_free(link->late);
  link->late = NULL;
}

/* ---- the row against the store ------------------------------------------- */

static int read_marker(struct ext_table *table, sqlite3_int64 *txn,
                       char **err) {
  struct ext_place place;
  int rc = ext_place_read(table, &place, err);
  if (rc == SQLITE_OK)
    *txn = place.txn;
  sqlite3_free(place.dir);
  return rc;
}

enum resolve {
  RESOLVE_READ,  /* the row may be an old one: for commit only */
  RESOLVE_WRITE, /* the caller holds the database's write lock */
  RESOLVE_ADOPT, /* and the user has said that this database is the right one */
};

static int mismatch(struct ext_table *table, sqlite3_int64 txn, char **err) {
  return ext_error(err, SQLITE_CORRUPT_VTAB,
                   "store is at transaction %llu but database \"%s\" recorded "
                   "%lld (restored copy?); see 'adopt'",
                   (unsigned long long)emb_committed(table->link->store),
                   table->schema, txn);
}

/* Decides an undecided transaction by the row.  An older copy of the database
** knows nothing of it. */
static int resolve(struct ext_table *table, enum resolve how, char **err) {
  struct ext_link *link = table->link;
  uint64_t doubt = emb_in_doubt(link->store);
  sqlite3_int64 txn;
  emb_err engine_err;
  int commit;
  int rc = read_marker(table, &txn, err);
  if (rc != SQLITE_OK)
    return rc;
  commit = txn >= 0 && (uint64_t)txn >= doubt;
  if (!commit && how == RESOLVE_READ)
    return SQLITE_OK;
  if (!commit && how == RESOLVE_WRITE && link->atomic &&
      (uint64_t)txn != emb_committed(link->store))
    return mismatch(table, txn, err);
  rc = emb_resolve(link->store, commit, &engine_err);
  return rc ? ext_engine_error(err, rc, engine_err.text) : SQLITE_OK;
}

static int check_marker(struct ext_table *table, char **err) {
  sqlite3_int64 txn;
  uint64_t committed = emb_committed(table->link->store);
  int rc = read_marker(table, &txn, err);
  if (rc == SQLITE_OK && committed != (uint64_t)txn)
    rc = mismatch(table, txn, err);
  return rc;
}

/* Told once; without memory for that it is told at the next use. */
static int told_failure(struct ext_link *link, char **err) {
  int rc = SQLITE_OK;
  if (link->failed) {
    rc =
        ext_error(err, SQLITE_IOERR, "the last commit failed: %s",
                  link->failed_text ? link->failed_text
                                    : "the reason was lost for want of memory");
    if (rc != SQLITE_NOMEM) {
      link->failed = 0;
      sqlite3_free(link->failed_text);
      link->failed_text = NULL;
    }
  }
  return rc;
}

/* ---- reading and writing ------------------------------------------------- */

int ext_txn_read(struct ext_table *table, char **err) {
  int rc = table->link ? SQLITE_OK : ext_link_get(table, err);
  if (rc == SQLITE_OK && table->link->failed)
    rc = told_failure(table->link, err);
  if (rc == SQLITE_OK && !emb_is_owner(table->link->store)) {
    /* The owner may have died since; then this recovers what it left. */
    rc = emb_exists(table->link->session, NULL, 0, NULL);
    if (rc)
      return ext_link_error(table->link, rc, err);
  }
  if (rc == SQLITE_OK && emb_in_doubt(table->link->store) &&
      emb_is_owner(table->link->store))
    rc = resolve(table, RESOLVE_READ, err);
  return rc;
}

static int begin(struct ext_table *table, enum resolve how, char **err) {
  struct ext_link *link = table->link;
  int rc = emb_begin(link->session);
  if (rc == EMB_LOCKED && emb_in_doubt(link->store)) {
    rc = resolve(table, how, err);
    if (rc != SQLITE_OK)
      return rc;
    rc = emb_begin(link->session);
  }
  return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
}

int ext_txn_write(struct ext_table *table, char **err) {
  struct ext_link *link = table->link;
  int rc;
  if (link == NULL || !link->in_txn) {
    rc = link ? SQLITE_OK : ext_link_get(table, err);
    link = table->link;
    if (rc == SQLITE_OK)
      rc = told_failure(link, err);
    if (rc == SQLITE_OK && link->late)
      rc = ext_error(err, SQLITE_BUSY, "%s", link->late);
    if (rc == SQLITE_OK)
      rc = begin(table, RESOLVE_WRITE, err);
    if (rc == SQLITE_OK && link->atomic &&
        (rc = check_marker(table, err)) != SQLITE_OK)
      emb_rollback(link->session);
    if (rc != SQLITE_OK)
      return rc;
    link->in_txn = 1;
  }
  if (!link->dirty) {
    link->dirty = 1;
    link->dirty_level = link->level;
  }
  return SQLITE_OK;
}

/* The row is the store's.  Not to be remembered within a transaction that may
** have written it ('adopt') and be rolled back. */
static void note_match(struct ext_table *table) {
  table->link->matches =
      sqlite3_txn_state(table->conn->db, table->schema) != SQLITE_TXN_WRITE;
}

/* Whether this statement may be looking at a state of the database that is
** older than the newest: only with a log can somebody have committed
** meanwhile. */
static int may_be_old(struct ext_table *table) {
  sqlite3 *db = table->conn->db;
  sqlite3_stmt *pragma = NULL;
  char *sql;
  int is_wal = 0;
  if (sqlite3_txn_state(db, table->schema) != SQLITE_TXN_READ)
    return 0;
  sql = sqlite3_mprintf("PRAGMA \"%w\".journal_mode", table->schema);
  if (sql && sqlite3_prepare_v2(db, sql, -1, &pragma, NULL) == SQLITE_OK &&
      sqlite3_step(pragma) == SQLITE_ROW)
    is_wal = sqlite3_stricmp((const char *)sqlite3_column_text(pragma, 0),
                             "wal") == 0;
  sqlite3_finalize(pragma);
  sqlite3_free(sql);
  return is_wal;
}

/* A row that differs may be that of a commit that is just being made.  While
** this session has the store's place for a transaction there is none. */
static int check_alone(struct ext_table *table, char **err) {
  int rc;
  if (may_be_old(table))
    return SQLITE_OK;
  rc = begin(table, RESOLVE_READ, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = check_marker(table, err);
  emb_rollback(table->link->session);
  if (rc == SQLITE_OK)
    note_match(table);
  return rc;
}

int ext_txn_immediate(struct ext_table *table, char **err) {
  struct ext_link *link = table->link;
  sqlite3_int64 txn;
  int rc;
  if (!link->atomic || link->matches || link->in_txn)
    return SQLITE_OK;
  rc = read_marker(table, &txn, err);
  if (rc != SQLITE_OK)
    return rc;
  if (emb_committed(link->store) != (uint64_t)txn)
    return emb_in_doubt(link->store) ? mismatch(table, txn, err)
                                     : check_alone(table, err);
  note_match(table);
  return SQLITE_OK;
}

int ext_txn_adopt(struct ext_table *table, char **err) {
  int found = 0;
  int rc = ext_link_get(table, err);
  if (rc == SQLITE_OK && table->link->in_txn)
    rc = ext_error(err, SQLITE_LOCKED,
                   "cannot adopt: %s was modified in this transaction",
                   table->name);
  if (rc == SQLITE_OK)
    rc = begin(table, RESOLVE_ADOPT, err);
  if (rc != SQLITE_OK)
    return rc;
  emb_rollback(table->link->session);
  rc = ext_place_mark(table, (sqlite3_int64)emb_committed(table->link->store),
                      &found, err);
  if (rc == SQLITE_OK && !found)
    rc = ext_error(err, SQLITE_CORRUPT_VTAB, "%s_emb names no store",
                   table->name);
  return rc;
}

void ext_txn_abandon(struct ext_link *link) {
  if (link->in_txn) {
    assert(!link->dirty);
    emb_rollback(link->session);
    link->in_txn = 0;
  }
}

/* ---- SQLite's journal ---------------------------------------------------- */

static int has_journal(sqlite3 *db, const char *schema) {
  const char *file = sqlite3_db_filename(db, schema);
  return file && file[0] && access(sqlite3_filename_journal(file), F_OK) == 0;
}

/* Whether SQLite may leave the removal of its journal to the file system.
** SQLITE_NOMEM must not be passed over: SQLite remembers it, commits, and then
** says that it has not. */
static int is_full(sqlite3 *db, const char *schema, int *full) {
  sqlite3_stmt *pragma = NULL;
  char *sql = sqlite3_mprintf("PRAGMA \"%w\".synchronous", schema);
  int rc = sql ? sqlite3_prepare_v2(db, sql, -1, &pragma, NULL) : SQLITE_NOMEM;
  int row = rc == SQLITE_OK && sqlite3_step(pragma) == SQLITE_ROW;
  *full = !row || sqlite3_column_int(pragma, 0) == 2;
  if (rc == SQLITE_OK)
    rc = sqlite3_finalize(pragma);
  sqlite3_free(sql);
  return rc == SQLITE_NOMEM || rc == SQLITE_IOERR_NOMEM ? SQLITE_NOMEM
                                                        : SQLITE_OK;
}

/* SQLite has committed; once for all tables of a file. */
static void await_removal(struct ext_table *table) {
  struct ext_conn *conn = table->conn;
  struct ext_link *link = table->link;
  int os;
  if (has_journal(conn->db, table->schema))
    return; /* it was emptied */
  os = ext_place_sync(link->file);
  if (os)
    sqlite3_log(SQLITE_IOERR_DIR_FSYNC, "emb: syncing beside %s: %s",
                link->file, strerror(os));
  for (struct ext_link *other = conn->links; other; other = other->next)
    if (strcmp(other->file, link->file) == 0)
      other->removes = 0;
}

/* ---- callbacks ----------------------------------------------------------- */

/* Opens the store, and owns it from now on if it can.  From here on there is a
** link that savepoints can be counted in. */
int ext_txn_begin(sqlite3_vtab *vtab) {
  struct ext_table *table = table_of(vtab);
  char *err = NULL;
  int rc = ext_link_get(table, &err);
  if (rc == SQLITE_OK && !emb_is_owner(table->link->store)) {
    struct ext_link *link = table->link;
    char *late = NULL;
    rc = begin(table, RESOLVE_WRITE, &late);
    if (rc == SQLITE_OK) {
      emb_rollback(link->session);
    } else if (rc == SQLITE_BUSY && late) {
      sqlite3_free(link->late);
      link->late = late;
      late = NULL;
    }
    sqlite3_free(late); /* any other error comes again with the first write */
    rc = SQLITE_OK;
  }
  return ext_table_error(table, rc, err);
}

/* May be called twice for one COMMIT, if that found the file busy; the second
** number replaces the first. */
int ext_txn_sync(sqlite3_vtab *vtab) {
  struct ext_table *table = table_of(vtab);
  struct ext_link *link = table->link;
  uint64_t number = 0;
  char *err = NULL;
  int found = 1;
  int rc = SQLITE_OK;
  if (link == NULL || !link->in_txn || !link->atomic)
    return SQLITE_OK;
  if (emb_prepare(link->session, &number) != EMB_OK)
    rc = ext_link_error(link, emb_errcode(link->session), &err);
  else if (number > 0 && !EMB_SEED(24))
    rc = ext_place_mark(table, (sqlite3_int64)number, &found, &err);
  if (rc == SQLITE_OK && !found) {
    /* The table was created in a savepoint that was rolled back. */
    emb_rollback(link->session);
    end(link);
  } else if (rc == SQLITE_OK && number > 0) {
    link->removes = 0;
    if (has_journal(table->conn->db, table->schema))
      rc = is_full(table->conn->db, table->schema, &link->removes);
  }
  return ext_table_error(table, rc, err);
}

/* SQLite has committed: an interrupt comes too late. */
static int commit(struct ext_link *link) {
  emb_session_interrupt(link->session, NULL, NULL);
  int rc = emb_commit(link->session);
  emb_session_interrupt(link->session, ext_link_interrupted, link->conn);
  return rc;
}

int ext_txn_commit(sqlite3_vtab *vtab) {
  struct ext_link *link = table_of(vtab)->link;
  if (link == NULL)
    return SQLITE_OK;
  if (link->removes)
    await_removal(table_of(vtab));
  if (link->in_txn && commit(link) != EMB_OK) {
    link->failed = 1;
    sqlite3_free(link->failed_text);
    link->failed_text = sqlite3_mprintf("%s", emb_errmsg(link->session));
    emb_rollback(link->session);
    ext_lease_rollback(link);
  }
  ext_lease_commit(link);
  end(link);
  return SQLITE_OK;
}

int ext_txn_rollback(sqlite3_vtab *vtab) {
  struct ext_link *link = table_of(vtab)->link;
  if (link == NULL)
    return SQLITE_OK;
  if (link->in_txn && !EMB_SEED(25))
    emb_rollback(link->session);
  ext_lease_rollback(link);
  end(link);
  return SQLITE_OK;
}

int ext_txn_savepoint(sqlite3_vtab *vtab, int i) {
  struct ext_table *table = table_of(vtab);
  struct ext_link *link = table->link;
  char *err = NULL;
  int rc = SQLITE_OK;
  if (link == NULL || i <= link->level)
    return SQLITE_OK;
  link->level = i;
  if (link->in_txn && emb_savepoint(link->session, i) != EMB_OK)
    rc = ext_link_error(link, emb_errcode(link->session), &err);
  return ext_table_error(table, rc, err);
}

int ext_txn_release(sqlite3_vtab *vtab, int i) {
  struct ext_table *table = table_of(vtab);
  struct ext_link *link = table->link;
  char *err = NULL;
  int rc = SQLITE_OK;
  if (link == NULL)
    return SQLITE_OK;
  if (link->level >= i)
    link->level = i - 1;
  if (link->dirty_level >= i)
    link->dirty_level = i - 1;
  if (link->in_txn && emb_savepoint_release(link->session, i) != EMB_OK)
    rc = ext_link_error(link, emb_errcode(link->session), &err);
  return ext_table_error(table, rc, err);
}

int ext_txn_rollback_to(sqlite3_vtab *vtab, int i) {
  struct ext_table *table = table_of(vtab);
  struct ext_link *link = table->link;
  char *err = NULL;
  int rc = SQLITE_OK;
  if (link == NULL)
    return SQLITE_OK;
  if (link->level > i)
    link->level = i;
  if (link->dirty && link->dirty_level >= i)
    link->dirty = 0;
  if (link->in_txn && emb_rollback_to(link->session, i) != EMB_OK)
    rc = ext_link_error(link, emb_errcode(link->session), &err);
  return ext_table_error(table, rc, err);
}
