/* SPDX-License-Identifier: MIT
**
** txn.c -- the transaction that SQLite and a store share.
**
** ATOMIC    (a table in a file, commit='atomic')
**               first write   emb_begin; a transaction in doubt is decided here
**               xSync         emb_prepare assigns number n and makes the writes
**                             durable; n is written to the shadow table
**               SQLite commits, and n with it: this is the decision
**               xCommit       emb_commit, which cannot fail
**           A crash between xSync and xCommit leaves n in doubt in the store,
**           and the shadow table decides.
** ENGINE    (commit='engine', and temporary and in-memory databases)
**               first write   emb_begin
**               xCommit       emb_commit
**           Not in xSync, because SQLite may still roll back after it (a
**           commit hook, another file that is busy).  SQLite ignores the return
**           code of xCommit, so a failure is saved and reported at the next
**           use.
**
** OWNER     A statement may read before it writes.  So xBegin, which precedes
**           both, makes this process the store's owner or a client of the
**           owner, which is equivalent here (emb_is_owner).  A mere reader
**           would see only the last checkpoint.  If another process holds the
**           store exclusively (serve='off') for longer than the timeout, xBegin
**           does not fail (a command need not write), but any later write in
**           this transaction does: SQLITE_BUSY, as after a stale snapshot.
**
** SERVED    A client's transaction runs at the owner, in a session of its own.
**           If the owner dies before the prepare, the next call returns
**           SQLITE_ABORT_ROLLBACK; if it dies after, the transaction is in
**           doubt at the next owner, and xCommit or xRollback decides it there.
**           If the client dies after the prepare and before xCommit or
**           xRollback, it is in doubt at the owner (IN DOUBT).
**
** STALE     Before this process became the owner or its client, it read a
**           checkpoint, and the owner may have acknowledged row changes since.
**           A transaction that has read the checkpoint and then writes would
**           undo these changes, so the write fails: SQLITE_BUSY_SNAPSHOT, as
**           for an ordinary table of SQLite.  The first read in a transaction
**           notes the state; it is compared once this process has become the
**           owner or its client.  SQLite does not report the end of a
**           transaction to a table that was only read.  So an explicit
**           transaction is made to include the temporary database, which ends
**           with it: if the temporary database is in no transaction, the noted
**           one is over [is_open].  A later transaction that uses temporary
**           tables itself, with no other commit in between, may be refused
**           needlessly.
**
** STATES of a link, by in_txn.  xBegin is not in the table: SQLite omits it
** after CREATE, and a statement that writes nothing needs no transaction.
**
**             xUpdate           xSync     xCommit, xRollback   table gone
**   idle      -> open           -         -                    -
**   open      -                 prepare   -> idle              -> idle (xSync)
**
** DECIDED   In journal mode DELETE, SQLite commits by removing its journal, and
**           with synchronous=FULL (not EXTRA) it leaves it to the file system
**           when the removal becomes durable.  The store assumes that every
**           transaction before the next one is decided, so xCommit waits until
**           the removal is durable.
**
** DECIDING  SQLite releases its lock before xCommit.  So a statement can see
**           that a transaction has committed although the store does not show
**           it yet: an UPDATE computed from the older vectors would undo that
**           commit.  The same happens if the store has just changed owners and
**           the new owner has found the transaction only prepared.  So each
**           engine call that meets a prepared transaction asks how it ends
**           (emb_session_decides), at the moment it meets it, and the answer is
**           derived from the row as this statement sees it [txn_decide]:
**
**             number in the row    it is committed: the call waits for it, or
**                                  declares it so if its session is lost
**                                  (IN DOUBT)
**             not in the row       this statement does not see the commit
**                                  either, so a read shows the state before it
**
** IN DOUBT  A prepared transaction that lost its process, or the process that
**           owned the store, is decided by the next user of the table, from the
**           newest row in the database.  If that row has its number, it is
**           committed.  If not, it is rolled back, unless a live process is
**           just about to commit it: so the database's write lock is taken
**           before rolling back, through a separate connection (conn/place.c)
**           if this one is not writing.  If there can be no such connection
**           (another VFS, a key, another process writing), the transaction
**           stays undecided: reads see the state before it, and writes fail
**           with that reason.
**
** SAVEPOINTS  SQLite's savepoint numbers are passed to the engine unchanged.  A
**           number announced before the first write is unknown to the engine,
**           where it means the state at emb_begin.
**             SQLite announces savepoints to table objects, and only to those
**           that are in its transaction: from xBegin, or xCreate, to xCommit,
**           xRollback or xDestroy.  After a schema change within the
**           transaction two objects of one link get the same calls; the second
**           must not open the savepoint again, because there may have been
**           writes since.  And a dropped object gets no more calls, not even at
**           the end of the transaction if the DROP is rolled back.  So each
**           object records what was announced to it:
**             begun   it is in SQLite's transaction
**             level   the innermost savepoint announced to it and not
**                     released, -1 none
**           A savepoint is open in the link if one of its objects has it.
**           While no object is in the transaction, the link holds no writes of
**           it (a DROP is refused if there are any), and what a dropped object
**           left in the link ends with the next xBegin.
*/
#include "aux_columns.h"
SQLITE_EXTENSION_INIT3

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Pause between two checks of a transaction in doubt. */
#define DOUBT_NAP_MS 2
/* Maximum number of attempts for a call.  A retry is needed each time the table
** gets another owner, which finds an undecided transaction. */
#define CALL_ATTEMPTS 10
/* The store may change owners while row and store are compared. */
#define COMPARISONS 3

static struct ext_table *table_of(sqlite3_vtab *vtab) {
  return (struct ext_table *)vtab;
}

static void forget_removal(struct ext_link *link) {
  link->removes = 0;
  if (link->removes_dir >= 0)
    close(link->removes_dir);
  link->removes_dir = -1;
}

/* Forgets the write transaction; what was read before it stays noted. */
static void txn_forget(struct ext_link *link) {
  link->in_txn = 0;
  link->dirty = 0;
  forget_removal(link);
  link->settings_pending = 0;
  sqlite3_free(link->late);
  link->late = NULL;
}

static void txn_end(struct ext_link *link) {
  txn_forget(link);
  link->noted = 0;
  link->stale = 0;
}

int ext_txn_level(const struct ext_link *link) {
  int level = -1;
  for (struct ext_table *table = link->tables; table;
       table = table->next_of_link)
    if (table->begun && table->level > level)
      level = table->level;
  return level;
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
  RESOLVE_READ,  /* may stay undecided for now */
  RESOLVE_WRITE, /* must be decided */
  RESOLVE_ADOPT, /* and the user has declared this database the right one */
};

static int txn_mismatch(struct ext_table *table, sqlite3_int64 txn,
                        char **err) {
  return ext_error(
      err, SQLITE_CORRUPT_VTAB,
      "store is at transaction %llu but database \"%s\" recorded "
      "%lld (restored copy?); see 'adopt'",
      (unsigned long long)emb_committed(ext_link_store(table->link)),
      table->schema, txn);
}

/* *old: may this statement be reading an old state of the database?  Only in
** WAL mode can another connection have committed since. */
static int may_be_old(struct ext_table *table, int *old, char **err) {
  sqlite3 *db = table->conn->db;
  int rc = SQLITE_OK;
  *old = 0;
  if (sqlite3_txn_state(db, table->schema) == SQLITE_TXN_READ)
    rc = ext_place_is_wal(db, table->schema, old);
  return rc == SQLITE_OK ? rc : ext_sql_error(err, db, rc);
}

/* Is this connection writing, or holding the write lock
** (locking_mode=EXCLUSIVE)?  Then no other process can be about to commit, and
** this connection reads the newest state. */
static int is_writing(struct ext_table *table) {
  sqlite3 *db = table->conn->db;
  int lock = SQLITE_LOCK_NONE;
  sqlite3_file_control(db, table->schema, SQLITE_FCNTL_LOCKSTATE, &lock);
  return lock >= SQLITE_LOCK_RESERVED ||
         sqlite3_txn_state(db, table->schema) == SQLITE_TXN_WRITE;
}

/* An older copy of the database has no record of the transaction in doubt; see
** IN DOUBT. */
static int txn_resolve(struct ext_table *table, uint64_t doubt,
                       enum resolve how, char **err) {
  struct ext_link *link = table->link;
  sqlite3_int64 txn;
  emb_err engine_err;
  int commit;
  int rc = read_marker(table, &txn, err);
  if (rc != SQLITE_OK)
    return rc;
  if (txn < (sqlite3_int64)doubt && !is_writing(table) &&
      !EMB_SEED(SEED_OLD_ROW_DECIDES) && !ext_place_read_newest(table, &txn))
    return SQLITE_OK;
  commit = txn >= 0 && (uint64_t)txn >= doubt;
  if (!commit && how != RESOLVE_ADOPT && link->atomic &&
      (uint64_t)txn != emb_committed(ext_link_store(link)))
    return how == RESOLVE_READ ? SQLITE_OK : txn_mismatch(table, txn, err);
  if (commit) /* see DECIDED; if this fails, it failed for the committer too */
    (void)ext_place_sync(link->file);
  rc = emb_resolve(ext_link_store(link), doubt, commit, &engine_err);
  if (rc && !commit && how == RESOLVE_READ)
    return SQLITE_OK;
  return rc ? ext_store_error(err, rc, engine_err.text, table,
                              emb_directory(link->store))
            : SQLITE_OK;
}

/* Several tables may share the link, and the statement that called the engine
** need not use this one, so it is held during the call. */
static int decide_with(struct ext_table *table, uint64_t number, int in_doubt,
                       int *has, char **err) {
  struct ext_conn *conn = table->conn;
  sqlite3_int64 txn = 0;
  ext_call_begin(conn);
  if (!table->gone)
    ext_table_hold(table);
  int rc = read_marker(table, &txn, err);
  *has = txn >= 0 && (uint64_t)txn >= number;
  if (rc == SQLITE_OK && in_doubt)
    rc = txn_resolve(table, number, RESOLVE_READ, err);
  if (rc != SQLITE_OK && table->gone) { /* its names were outdated */
    sqlite3_free(*err);
    *err = NULL;
    rc = ext_error(err, SQLITE_SCHEMA, "the schema has changed");
  }
  ext_call_end(conn);
  return rc;
}

/* For emb_session_decides: see DECIDING. */
static int txn_decide(void *arg, uint64_t number, int in_doubt) {
  struct ext_link *link = arg;
  struct ext_table *table = link->tables;
  char *err = NULL;
  int rc, has;
  while (table && table->gone && table->next_of_link)
    table = table->next_of_link;
  if (table == NULL || !link->atomic || EMB_SEED(SEED_UNDECIDED_STATE_READ))
    return EMB_DECIDE_PAST;
  rc = decide_with(table, number, in_doubt, &has, &err);
  sqlite3_free(link->doubt_text); /* for ext_link_error */
  link->doubt_text = err;
  link->doubt_failed = rc;
  return rc != SQLITE_OK ? EMB_DECIDE_FAIL
         : has           ? EMB_DECIDE_AGAIN
                         : EMB_DECIDE_PAST;
}

/* SQLITE_CORRUPT_VTAB if row and store differ.  If the store's owner has died,
** its number is unknown; emb_refresh returns that error. */
static int check_marker(struct ext_table *table, char **err) {
  struct ext_link *link = table->link;
  sqlite3_int64 txn;
  int rc = read_marker(table, &txn, err);
  if (rc != SQLITE_OK || emb_committed(ext_link_store(link)) == (uint64_t)txn)
    return rc;
  rc = emb_refresh(link->session);
  if (rc)
    return ext_link_error(link, rc, err);
  return emb_committed(ext_link_store(link)) == (uint64_t)txn
             ? SQLITE_OK
             : txn_mismatch(table, txn, err);
}

/* Row and store are read one after the other while others commit: a transaction
** that SQLite has committed may only be prepared in the store.  So the store is
** asked before the row is read and again after, by a call that waits for such a
** commit. */
int ext_txn_compare(struct ext_table *table, struct ext_txn_numbers *numbers,
                    char **err) {
  struct ext_link *link = table->link;
  int rc = SQLITE_OK;
  *numbers = (struct ext_txn_numbers){0, 0, 0};
  for (int i = 0; rc == SQLITE_OK && i < COMPARISONS && !numbers->agree; i++) {
    uint64_t before = emb_committed(ext_link_store(link)), after = before;
    sqlite3_int64 txn = 0;
    int is_newest = 1, old = 0;
    rc = read_marker(table, &txn, err);
    if (rc == SQLITE_OK && txn < (sqlite3_int64)before)
      rc = may_be_old(table, &old, err);
    if (rc == SQLITE_OK && old)
      is_newest = ext_place_read_newest(table, &txn);
    if (rc == SQLITE_OK && txn > (sqlite3_int64)before &&
        !EMB_SEED(SEED_ROW_COMPARED_AMID_COMMIT)) {
      int asked = emb_refresh(link->session);
      if (asked)
        return ext_link_error(link, asked, err);
      after = emb_committed(ext_link_store(link));
    }
    *numbers =
        (struct ext_txn_numbers){txn, (sqlite3_int64)after,
                                 !is_newest || ((sqlite3_int64)before <= txn &&
                                                txn <= (sqlite3_int64)after)};
  }
  return rc;
}

/* Reports a failed commit once; if memory runs out, again at the next use. */
static int told_failure(struct ext_link *link, char **err) {
  int rc = SQLITE_OK;
  if (link->failed) {
    rc = ext_error(err, link->failed, "%s",
                   link->failed_text ? link->failed_text
                   : link->failed == SQLITE_IOERR
                       ? "the last commit failed; out of memory for the reason"
                       : "the process that owned the table is gone");
    if (rc != SQLITE_NOMEM) {
      link->failed = 0;
      sqlite3_free(link->failed_text);
      link->failed_text = NULL;
    }
  }
  return rc;
}

/* ---- reads from a store owned by another process ------------------------- */

static unsigned txn_data_version(struct ext_table *table) {
  unsigned version = 0;
  sqlite3_file_control(table->conn->db, table->schema,
                       SQLITE_FCNTL_DATA_VERSION, &version);
  return version;
}

/* Makes an explicit transaction include the temporary database until it
** ends. */
static int enter_temp(sqlite3 *db) {
  sqlite3_exec(db, "SELECT 1 FROM temp.sqlite_master LIMIT 0", NULL, NULL,
               NULL);
  return sqlite3_txn_state(db, "temp") > SQLITE_TXN_NONE;
}

/* Is the transaction whose read was noted still open? */
static int is_open(struct ext_table *table) {
  struct ext_link *link = table->link;
  sqlite3 *db = table->conn->db;
  if (link->cursors)
    return 1;
  if (sqlite3_get_autocommit(db) || link->noted_alone)
    return 0;
  if (link->noted_temp && sqlite3_txn_state(db, "temp") <= SQLITE_TXN_NONE)
    return 0;
  return link->noted_state == SQLITE_TXN_NONE ||
         (sqlite3_txn_state(db, table->schema) != SQLITE_TXN_NONE &&
          txn_data_version(table) == link->noted_data);
}

static void txn_note_read(struct ext_table *table) {
  struct ext_link *link = table->link;
  if (link->noted && is_open(table))
    return;
  link->noted = 1;
  link->stale = 0;
  link->noted_alone = sqlite3_get_autocommit(table->conn->db);
  link->noted_state = sqlite3_txn_state(table->conn->db, table->schema);
  link->noted_data = txn_data_version(table);
  link->noted_temp = !link->noted_alone && enter_temp(table->conn->db);
  emb_state(ext_link_store(link), link->noted_rows);
}

/* Compares the noted state; this process is the owner by now. */
static void compare_read(struct ext_table *table) {
  struct ext_link *link = table->link;
  uint64_t rows[2];
  emb_state(ext_link_store(link), rows);
  if (!is_open(table))
    link->noted = link->stale = 0;
  else if (!link->stale && (memcmp(rows, link->noted_rows, sizeof rows) == 0 ||
                            EMB_SEED(SEED_STALE_TXN_WRITES)))
    link->noted = 0;
  else
    link->stale = 1;
}

/* Looks for a newer checkpoint after a commit to the database: the process that
** committed may have left the store since.  Otherwise a caller that was refused
** because of that commit and retries at once would read the same old state. */
static void look_after_commit(struct ext_table *table) {
  struct ext_link *link = table->link;
  unsigned data = txn_data_version(table);
  if (!link->looked || data != link->looked_data)
    emb_look(link->store);
  link->looked = 1;
  link->looked_data = data;
}

/* The store's owner has died and this connection is read-only, so transactions
** committed since the last checkpoint cannot be shown. */
static int check_recovered(struct ext_table *table, char **err) {
  struct ext_link *link = table->link;
  sqlite3_int64 txn;
  int rc = read_marker(table, &txn, err);
  return rc == SQLITE_OK && txn >= 0 &&
                 (uint64_t)txn > emb_committed(ext_link_store(link))
             ? ext_error(err, SQLITE_READONLY_RECOVERY,
                         "the process that owned %s has died, and a read-only "
                         "connection cannot recover its commits; open the "
                         "database for writing once",
                         table->name)
             : rc;
}

/* ---- reading and writing ------------------------------------------------- */

int ext_txn_read(struct ext_table *table, char **err) {
  struct ext_link *link;
  int rc = table->link ? SQLITE_OK : ext_table_open(table, err);
  if (rc == SQLITE_OK && table->link->failed)
    rc = told_failure(table->link, err);
  if (rc != SQLITE_OK)
    return rc;
  link = table->link;
  emb_session_decides(link->session, txn_decide, link);
  if (!emb_is_owner(link->store)) {
    look_after_commit(table);
    /* The owner may have died; then this recovers its store. */
    rc = emb_refresh(link->session);
    if (rc)
      return ext_link_error(link, rc, err);
    if (!link->readonly)
      txn_note_read(table);
    if (link->atomic && emb_is_unrecovered(link->store))
      rc = check_recovered(table, err);
  }
  if (rc == SQLITE_OK && link->noted && emb_is_owner(link->store) &&
      !emb_in_doubt(ext_link_store(link)))
    compare_read(table);
  return rc;
}

/* May this call wait for the transaction in doubt?  Another connection is
** committing it; which one shows only when it ends.  The call waits as for any
** other transaction, but not while holding a lock that the COMMIT waits for. */
static int may_wait(struct ext_table *table, uint64_t since_us) {
  sqlite3 *db = table->conn->db;
  int is_wal;
  return ext_now_us() - since_us <
             ext_vtab(table)->options.config.timeout_ms * UINT64_C(1000) &&
         !ext_link_interrupted(table->conn) &&
         (sqlite3_txn_state(db, table->schema) <= SQLITE_TXN_NONE ||
          (ext_place_is_wal(db, table->schema, &is_wal) == SQLITE_OK &&
           is_wal));
}

/* Runs a call that needs a store with nothing in doubt: emb_begin, emb_own. */
static int txn_decided(struct ext_table *table, int (*call)(emb_session *),
                       enum resolve how, char **err) {
  struct ext_link *link = table->link;
  uint64_t since_us = ext_now_us(), number;
  int rc = call(link->session);
  while (rc == EMB_LOCKED && (number = emb_undecided(link->session)) != 0) {
    int resolved = txn_resolve(table, number, how, err);
    if (resolved != SQLITE_OK)
      return resolved;
    rc = call(link->session);
    if (rc != EMB_LOCKED || !may_wait(table, since_us))
      break;
    sqlite3_sleep(DOUBT_NAP_MS);
  }
  return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
}

static int txn_begin(struct ext_table *table, enum resolve how, char **err) {
  return txn_decided(table, emb_begin, how, err);
}

/* Makes this process the store's owner, with nothing in doubt. */
static int txn_own(struct ext_table *table, char **err) {
  struct ext_link *link = table->link;
  int rc = txn_decided(table, emb_own, RESOLVE_WRITE, err);
  if (rc != SQLITE_OK)
    return rc;
  if (link->noted)
    compare_read(table);
  return SQLITE_OK;
}

static int check_fresh(struct ext_table *table, char **err) {
  if (table->link->noted)
    compare_read(table);
  return table->link->stale
             ? ext_error(err, SQLITE_BUSY_SNAPSHOT,
                         "another process has changed %s since the checkpoint "
                         "that this transaction has read; roll the transaction "
                         "back and begin it again",
                         table->name)
             : SQLITE_OK;
}

int ext_txn_write(struct ext_table *table, char **err) {
  struct ext_link *link = table->link;
  int rc;
  if (link == NULL || !link->in_txn) {
    rc = link ? SQLITE_OK : ext_table_open(table, err);
    link = table->link;
    if (rc == SQLITE_OK)
      rc = told_failure(link, err);
    if (rc == SQLITE_OK && link->late) {
      rc = ext_error(err, SQLITE_BUSY, "%s", link->late);
      ext_link_reported(table->conn);
    }
    if (rc == SQLITE_OK)
      rc = txn_begin(table, RESOLVE_WRITE, err);
    if (rc != SQLITE_OK)
      return rc;
    link->in_txn = 1; /* reading the row may make SQLite roll back */
    if (link->atomic)
      rc = check_marker(table, err);
    if (rc == SQLITE_OK)
      rc = check_fresh(table, err);
    if (rc != SQLITE_OK) {
      ext_txn_abandon(link);
      return rc;
    }
  }
  if (!link->dirty) {
    link->dirty = 1;
    link->dirty_level = ext_txn_level(link);
  }
  return SQLITE_OK;
}

/* Remembers that row and store match, unless within a transaction that may have
** written the row ('adopt') and may be rolled back. */
static void note_match(struct ext_table *table) {
  table->link->matches =
      sqlite3_txn_state(table->conn->db, table->schema) != SQLITE_TXN_WRITE;
}

/* A row that differs may belong to a commit in progress.  There is none while
** this session holds the store's only write transaction, so compare then. */
static int txn_check_alone(struct ext_table *table, char **err) {
  int old, rc = may_be_old(table, &old, err);
  if (rc != SQLITE_OK || old)
    return rc;
  rc = txn_begin(table, RESOLVE_WRITE, err);
  if (rc != SQLITE_OK)
    return rc;
  table->link->in_txn = 1;
  rc = check_marker(table, err);
  ext_txn_abandon(table->link);
  if (rc == SQLITE_OK)
    note_match(table);
  return rc;
}

int ext_txn_immediate(struct ext_table *table, char **err) {
  struct ext_link *link = table->link;
  sqlite3_int64 txn;
  int rc = SQLITE_OK;
  if (!emb_is_owner(link->store) || emb_in_doubt(ext_link_store(link)))
    rc = txn_own(table, err);
  if (rc != SQLITE_OK || !link->atomic || link->matches || link->in_txn)
    return rc;
  rc = read_marker(table, &txn, err);
  if (rc != SQLITE_OK)
    return rc;
  if (emb_committed(ext_link_store(link)) != (uint64_t)txn)
    return txn_check_alone(table, err);
  note_match(table);
  return SQLITE_OK;
}

int ext_txn_again(struct ext_table *table, int *attempts, int *rc, char **err) {
  struct ext_link *link = table->link;
  if (*rc == EMB_OK)
    return 0;
  if (*rc != EMB_LOCKED || ++*attempts == CALL_ATTEMPTS ||
      !emb_undecided(link->session)) {
    *rc = ext_link_error(link, *rc, err);
    return 0;
  }
  *rc = ext_txn_immediate(table, err);
  return *rc == SQLITE_OK;
}

int ext_txn_adopt(struct ext_table *table, char **err) {
  int found = 0;
  int rc = ext_table_open(table, err);
  if (rc == SQLITE_OK && table->link->in_txn)
    rc = ext_error(err, SQLITE_LOCKED,
                   "cannot adopt: %s was modified in this transaction",
                   table->name);
  if (rc == SQLITE_OK)
    rc = txn_begin(table, RESOLVE_ADOPT, err);
  if (rc != SQLITE_OK)
    return rc;
  emb_rollback(table->link->session);
  rc = ext_place_record_txn(
      table, (sqlite3_int64)emb_committed(ext_link_store(table->link)), &found,
      err);
  if (rc == SQLITE_OK && !found)
    rc = ext_error(err, SQLITE_CORRUPT_VTAB, "%s_emb does not name a store",
                   table->name);
  return rc;
}

void ext_txn_abandon(struct ext_link *link) {
  if (link->in_txn) {
    emb_assert(!link->dirty);
    emb_rollback(link->session);
    link->in_txn = 0;
  }
}

/* ---- SQLite's journal ---------------------------------------------------- */

static int has_journal(sqlite3 *db, const char *schema) {
  const char *file = sqlite3_db_filename(db, schema);
  return file && file[0] && access(sqlite3_filename_journal(file), F_OK) == 0;
}

/* *full: may SQLite leave the removal of its journal to the file system?
** SQLITE_NOMEM must not be ignored: SQLite remembers it, commits, and then
** reports that the commit failed. */
static int is_synchronous_full(sqlite3 *db, const char *schema, int *full) {
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

/* SQLite has committed: syncs the journal's removal, once for all tables of a
** file. */
static void await_removal(struct ext_table *table) {
  struct ext_conn *conn = table->conn;
  struct ext_link *link = table->link;
  int os;
  if (has_journal(conn->db, table->schema))
    return; /* emptied, not removed */
  os = fsync(link->removes_dir) != 0 ? errno : 0;
  if (os)
    sqlite3_log(SQLITE_IOERR_DIR_FSYNC, "emb: syncing the directory of %s: %s",
                link->file, strerror(os));
  for (struct ext_link *other = conn->links; other; other = other->next)
    if (strcmp(other->file, link->file) == 0)
      forget_removal(other);
}

/* SQLite is about to commit: opens the directory now, because a failure to open
** it after the commit could not be reported. */
static int expect_removal(struct ext_table *table, char **err) {
  struct ext_link *link = table->link;
  int rc = is_synchronous_full(table->conn->db, table->schema, &link->removes);
  int os = rc == SQLITE_OK && link->removes
               ? ext_place_open_dir(link->file, &link->removes_dir)
               : 0;
  if (os)
    link->removes = 0;
  if (os == EACCES) { /* nobody can sync it then */
    sqlite3_log(SQLITE_CANTOPEN, "emb: the directory of %s: %s", link->file,
                strerror(os));
  } else if (os) {
    rc = os == ENOMEM ? SQLITE_NOMEM
                      : ext_error(err, SQLITE_CANTOPEN,
                                  "cannot open the directory of %s: %s",
                                  link->file, strerror(os));
  }
  return rc;
}

/* ---- callbacks ----------------------------------------------------------- */

void ext_txn_enter(struct ext_table *table) {
  int others = 0;
  emb_assert(ext_txn_may(table, EXT_CALL_BEGIN, 0));
  for (struct ext_table *other = table->link->tables; other;
       other = other->next_of_link)
    others += other->begun;
  if (others == 0) {
    if (table->link->in_txn) /* left by a DROP that could not end it */
      emb_rollback(table->link->session);
    txn_forget(table->link);
  }
  table->begun = 1;
  if (table->conn->begun++ == 0)
    table->conn->undo_failed = 0;
}

void ext_txn_leave(struct ext_table *table) {
  table->conn->begun -= table->begun;
  table->begun = table->synced = 0;
  table->level = -1;
}

/* Opens the store, and tries to become its owner. */
int ext_txn_begin(sqlite3_vtab *vtab) {
  struct ext_table *table = table_of(vtab);
  char *err = NULL;
  int rc = ext_table_open(table, &err);
  if (rc == SQLITE_OK) {
    ext_txn_enter(table);
    ext_lease_write(table->link);
  }
  if (rc == SQLITE_OK && !emb_is_owner(table->link->store)) {
    struct ext_link *link = table->link;
    char *late = NULL;
    rc = txn_own(table, &late);
    if (rc == SQLITE_BUSY && late) {
      sqlite3_free(link->late);
      link->late = late;
      late = NULL;
      ext_link_passed_over(table->conn);
    }
    sqlite3_free(late); /* any other error recurs at the first write */
    rc = SQLITE_OK;
  }
  return ext_vtab_error(&table->base, rc, err);
}

/* May be called twice for one COMMIT, if the first attempt found the file busy;
** the second number replaces the first. */
int ext_txn_sync(sqlite3_vtab *vtab) {
  struct ext_table *table = table_of(vtab);
  struct ext_link *link = table->link;
  uint64_t number = 0;
  char *err = NULL;
  int found = 1;
  int rc = SQLITE_OK;
  emb_assert(ext_txn_may(table, EXT_CALL_SYNC, 0));
  emb_assert(ext_conn_valid(table->conn));
  if (table->conn->undo_failed)
    return ext_vtab_error(
        &table->base, SQLITE_IOERR,
        sqlite3_mprintf(
            "a savepoint could not be undone; roll back the transaction"));
  if (link && link->settings_pending)
    rc = ext_settings_sync(table, &err);
  table->synced = rc == SQLITE_OK;
  if (rc != SQLITE_OK || link == NULL || !link->in_txn || !link->atomic)
    return ext_vtab_error(&table->base, rc, err);
  if (emb_prepare(link->session, &number) != EMB_OK)
    rc = ext_link_error(link, emb_errcode(link->session), &err);
  else if (number > 0 && !EMB_SEED(SEED_COMMIT_NOT_NOTED))
    rc = ext_place_record_txn(table, (sqlite3_int64)number, &found, &err);
  if (rc == SQLITE_OK && !found) {
    /* The table was created in a savepoint that was rolled back. */
    emb_rollback(link->session);
    txn_end(link);
  } else if (rc == SQLITE_OK && number > 0) {
    forget_removal(link);
    if (has_journal(table->conn->db, table->schema))
      rc = expect_removal(table, &err);
  }
  table->synced = rc == SQLITE_OK;
  return ext_vtab_error(&table->base, rc, err);
}

/* SQLite has committed, so interrupts are ignored. */
static int txn_commit(struct ext_link *link) {
  int rc = EMB_OK;
  emb_session_interrupt(link->session, NULL, NULL);
  if (link->in_txn)
    rc = emb_commit(link->session);
  if (rc == EMB_OK && link->settings_pending)
    ext_settings_commit(link);
  emb_session_interrupt(link->session, ext_link_interrupted, link->conn);
  return rc;
}

int ext_txn_commit(sqlite3_vtab *vtab) {
  struct ext_link *link = table_of(vtab)->link;
  emb_assert(ext_txn_may(table_of(vtab), EXT_CALL_COMMIT, 0));
  ext_txn_leave(table_of(vtab));
  if (link == NULL)
    return SQLITE_OK;
  if (link->removes)
    await_removal(table_of(vtab));
  ext_dict_end(link->dict);
  if ((link->in_txn || link->settings_pending) && txn_commit(link) != EMB_OK) {
    char *why = ext_link_text(link);
    link->failed = SQLITE_IOERR;
    sqlite3_free(link->failed_text);
    link->failed_text =
        why ? sqlite3_mprintf("the last commit failed: %s", why) : NULL;
    sqlite3_free(why);
    emb_rollback(link->session);
    ext_lease_rollback(link);
  }
  ext_lease_commit(link);
  txn_end(link);
  emb_assert(ext_conn_valid(link->conn));
  return SQLITE_OK;
}

int ext_txn_rollback(sqlite3_vtab *vtab) {
  struct ext_link *link = table_of(vtab)->link;
  emb_assert(ext_txn_may(table_of(vtab), EXT_CALL_ROLLBACK, 0));
  ext_aux_undone(table_of(vtab));
  ext_txn_leave(table_of(vtab));
  if (link == NULL)
    return SQLITE_OK;
  ext_dict_end(link->dict);
  if (link->in_txn && !EMB_SEED(SEED_ROLLBACK_NOT_PASSED_ON))
    emb_rollback(link->session);
  ext_lease_rollback(link);
  txn_end(link);
  emb_assert(ext_conn_valid(link->conn));
  return SQLITE_OK;
}

/* A savepoint that could not be opened does not exist: nothing is written in
** it, and SQLite's xRollbackTo for it must undo nothing. */
int ext_txn_savepoint(sqlite3_vtab *vtab, int i) {
  struct ext_table *table = table_of(vtab);
  struct ext_link *link = table->link;
  char *err = NULL;
  int rc = SQLITE_OK;
  emb_assert(ext_txn_may(table, EXT_CALL_SAVEPOINT, i));
  table->synced = 0;
  table->level = -1; /* the other objects record which savepoints are open */
  if (link && link->in_txn &&
      (ext_txn_level(link) < i || EMB_SEED(SEED_SAVEPOINT_OPENED_TWICE)) &&
      emb_savepoint(link->session, i) != EMB_OK)
    rc = ext_link_error(link, emb_errcode(link->session), &err);
  table->level =
      rc == SQLITE_OK || EMB_SEED(SEED_FAILED_SAVEPOINT_COUNTED) ? i : i - 1;
  return ext_vtab_error(&table->base, rc, err);
}

int ext_txn_release(sqlite3_vtab *vtab, int i) {
  struct ext_table *table = table_of(vtab);
  struct ext_link *link = table->link;
  char *err = NULL;
  int rc = SQLITE_OK;
  emb_assert(ext_txn_may(table, EXT_CALL_RELEASE, i));
  if (table->level < i)
    return SQLITE_OK;
  table->level = i - 1;
  if (link == NULL)
    return SQLITE_OK;
  if (link->dirty_level >= i)
    link->dirty_level = i - 1;
  if (link->in_txn && emb_savepoint_release(link->session, i) != EMB_OK)
    rc = ext_link_error(link, emb_errcode(link->session), &err);
  return ext_vtab_error(&table->base, rc, err);
}

/* After a failure SQLite has undone its own changes and calls no further table,
** so the whole transaction must be rolled back.  Number -1 is the transaction
** itself, begun by SAVEPOINT. */
int ext_txn_rollback_to(sqlite3_vtab *vtab, int i) {
  struct ext_table *table = table_of(vtab);
  struct ext_link *link = table->link;
  char *err = NULL;
  int rc = SQLITE_OK;
  emb_assert(ext_txn_may(table, EXT_CALL_ROLLBACK_TO, i));
  ext_aux_undone(table);
  if (table->level < i)
    return SQLITE_OK;
  table->level = i;
  if (link == NULL)
    return SQLITE_OK;
  if (link->dirty && link->dirty_level >= i)
    link->dirty = 0;
  if (link->in_txn && emb_rollback_to(link->session, i) != EMB_OK) {
    rc = ext_link_error(link, emb_errcode(link->session), &err);
    table->conn->undo_failed = 1;
  }
  return ext_vtab_error(&table->base, rc, err);
}
