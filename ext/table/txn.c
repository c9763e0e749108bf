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
**           shadow table decides.
** ENGINE    (commit='engine', and temporary and in-memory databases)
**               first write   emb_begin
**               xCommit       emb_commit
**           Not in xSync, because SQLite may still roll back after it (a
**           commit hook, another file that is busy).  SQLite ignores what
**           xCommit returns, so a failure is kept and reported at the next
**           use.
**
** OWNER     A statement may read before it writes: so xBegin, which comes
**           before both, makes this process the store's owner, or a client of
**           the process that is, which is the same here (emb_is_owner).  As a
**           reader it would see the last checkpoint only.  When another
**           process holds the store alone (serve='off') for longer than the
**           timeout, that is no error yet (a command need not write), but there
**           can be no write in this transaction any more: SQLITE_BUSY, as after
**           a snapshot that has grown old.
**
** SERVED    The owner has the transaction then, in a session of its own.  If it
**           dies before the prepare, the next call is SQLITE_ABORT_ROLLBACK; if
**           it dies after, the transaction is in doubt at the next owner, and
**           xCommit or xRollback decides it there.  If this process dies
**           between the two, it is in doubt at the owner (IN DOUBT).
**
** STALE     Before this process was the owner, or its client, it read a
**           checkpoint, and the owner may have changed rows since that were
**           acknowledged.  A transaction that has read so and then writes would
**           undo that, so it cannot: SQLITE_BUSY_SNAPSHOT, which SQLite gives
**           for an ordinary table.  The first read in a transaction notes the
**           state; it is compared when this process has become the owner or its
**           client.  SQLite does not report the end of a transaction to a table
**           that was only read.  So an explicit one is made to include the
**           temporary database, which ends with it: where that is in no
**           transaction, the noted one is over [is_open].  A second one that
**           uses temporary tables itself, while no other was committed in
**           between, may be refused without need.
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
** DECIDING  SQLite gives its lock back before xCommit.  So a statement can see
**           that a transaction has committed which the store does not show yet:
**           an UPDATE that computed from the vectors before it would undo that
**           commit.  The same where the store has just got another owner, which
**           has found the transaction prepared and no more.  So each call of
**           the engine that meets a prepared transaction asks how it ends
**           (emb_session_decides), at whatever moment it meets it, and that is
**           answered from the row as this statement sees it [txn_decide]:
**
**             the row has it    it is committed: waited for, or if its session
**                               is lost said so (IN DOUBT)
**             it does not       the statement does not see that commit either;
**                               so a read shows the state before it
**
** IN DOUBT  What was prepared and then lost its process, or the process that
**           owned the store, is decided by whatever uses the table first, by
**           the newest row that the database has.  If that has it, it counts.
**           If not, it does not, unless a process that lives is just about to
**           commit it: so the database's write lock is taken before that is
**           said, through a connection of its own (conn/place.c) if this one is
**           not writing.  Where none can be had (another VFS, a key, another
**           process that writes) it is left undecided: reads see what was
**           before it, writes fail with that reason.
**
** SAVEPOINTS  SQLite's numbers go to the engine as they are.  One that was
**           announced before the first write is unknown to the engine, where
**           it means the state at emb_begin.
**             SQLite announces savepoints to table objects, and only to those
**           that are in its transaction: from xBegin, or xCreate, to xCommit,
**           xRollback or xDestroy.  After a change of the schema within the
**           transaction two objects of one link get the same calls; the second
**           must not open it anew, for there may be writes since.  And an
**           object that was dropped gets no more calls, not even at the end of
**           the transaction when the DROP is rolled back.  So what was
**           announced is kept with the object:
**             begun   it is in SQLite's transaction
**             level   the innermost savepoint announced to it and not
**                     released, -1 none
**           A savepoint is open in the link when one of its objects has it.
**           While no object is in the transaction nothing of it is in the link
**           (a DROP is refused when there is), and what a dropped one left
**           there ends with the next xBegin.
*/
#include "aux_columns.h"
SQLITE_EXTENSION_INIT3

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Between two looks at what is in doubt. */
#define DOUBT_NAP_MS 2
/* How often a call is made: each time the table has got another owner, which
** has found a transaction that is not decided. */
#define CALL_ATTEMPTS 10
/* The store may get another owner while row and store are compared. */
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

/* Of the transaction that writes; what it read before stays noted. */
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
  RESOLVE_READ,  /* what cannot be decided now may wait */
  RESOLVE_WRITE, /* it must be decided */
  RESOLVE_ADOPT, /* and the user has said that this database is the right one */
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

/* Whether this statement may be looking at a state of the database that is
** older than the newest: only with a log can there have been a commit
** meanwhile. */
static int may_be_old(struct ext_table *table) {
  sqlite3 *db = table->conn->db;
  return sqlite3_txn_state(db, table->schema) == SQLITE_TXN_READ &&
         ext_place_is_wal(db, table->schema);
}

/* No other process can be about to commit, and what is read is the newest: this
** connection writes, or keeps the lock for that (locking_mode=EXCLUSIVE). */
static int is_writing(struct ext_table *table) {
  sqlite3 *db = table->conn->db;
  int lock = SQLITE_LOCK_NONE;
  sqlite3_file_control(db, table->schema, SQLITE_FCNTL_LOCKSTATE, &lock);
  return lock >= SQLITE_LOCK_RESERVED ||
         sqlite3_txn_state(db, table->schema) == SQLITE_TXN_WRITE;
}

/* An older copy of the database has no record of the transaction in doubt. */
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
  if (commit) /* see DECIDED; if it fails, it failed for the committer too */
    (void)ext_place_sync(link->file);
  rc = emb_resolve(ext_link_store(link), doubt, commit, &engine_err);
  if (rc && !commit && how == RESOLVE_READ)
    return SQLITE_OK;
  return rc ? ext_store_error(err, rc, engine_err.text, table,
                              emb_directory(link->store))
            : SQLITE_OK;
}

/* The link may be there through several tables, and the statement that the
** engine works for need not be one of this one. */
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
  if (rc != SQLITE_OK && table->gone) { /* its names were of the past */
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

/* If the process that owned the store has died meanwhile, its number could not
** be had: the session is told that. */
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

/* Row and store are read one after the other, and others commit meanwhile:
** what SQLite has committed may only be prepared there.  So the store is asked
** before the row is read and after that, by a call that waits for such a
** commit. */
int ext_txn_compare(struct ext_table *table, struct ext_txn_numbers *numbers,
                    char **err) {
  struct ext_link *link = table->link;
  int rc = SQLITE_OK;
  *numbers = (struct ext_txn_numbers){0, 0, 0};
  for (int i = 0; rc == SQLITE_OK && i < COMPARISONS && !numbers->agree; i++) {
    uint64_t before = emb_committed(ext_link_store(link)), after = before;
    sqlite3_int64 txn = 0;
    int is_newest = 1;
    rc = read_marker(table, &txn, err);
    if (rc == SQLITE_OK && txn < (sqlite3_int64)before && may_be_old(table))
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

/* Reported once; without memory for that, at the next use. */
static int told_failure(struct ext_link *link, char **err) {
  int rc = SQLITE_OK;
  if (link->failed) {
    rc = ext_error(err, link->failed, "%s",
                   link->failed_text ? link->failed_text
                   : link->failed == SQLITE_IOERR
                       ? "the last commit failed: the reason was lost for want "
                         "of memory"
                       : "the process that owned the table has gone");
    if (rc != SQLITE_NOMEM) {
      link->failed = 0;
      sqlite3_free(link->failed_text);
      link->failed_text = NULL;
    }
  }
  return rc;
}

/* ---- what was read of another process's store ---------------------------- */

static unsigned txn_data_version(struct ext_table *table) {
  unsigned version = 0;
  sqlite3_file_control(table->conn->db, table->schema,
                       SQLITE_FCNTL_DATA_VERSION, &version);
  return version;
}

/* From now to the end of an explicit transaction the temporary database is in
** one. */
static int enter_temp(sqlite3 *db) {
  sqlite3_exec(db, "SELECT 1 FROM temp.sqlite_master LIMIT 0", NULL, NULL,
               NULL);
  return sqlite3_txn_state(db, "temp") > SQLITE_TXN_NONE;
}

/* The transaction that read what is noted goes on. */
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

/* This process is the owner by now. */
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

/* The process that committed to the database may have left the store since.
** Otherwise a caller that was refused because of that commit, and begins again
** at once, would read again what it was refused for. */
static void look_after_commit(struct ext_table *table) {
  struct ext_link *link = table->link;
  unsigned data = txn_data_version(table);
  if (!link->looked || data != link->looked_data)
    emb_look(link->store);
  link->looked = 1;
  link->looked_data = data;
}

/* The store's owner has died, this connection only reads, and so what was
** committed since the last checkpoint cannot be shown. */
static int check_recovered(struct ext_table *table, char **err) {
  struct ext_link *link = table->link;
  sqlite3_int64 txn;
  int rc = read_marker(table, &txn, err);
  return rc == SQLITE_OK && txn >= 0 &&
                 (uint64_t)txn > emb_committed(ext_link_store(link))
             ? ext_error(err, SQLITE_READONLY_RECOVERY,
                         "the process that owned %s has died, and what it "
                         "committed cannot be recovered by a connection that "
                         "only reads: open the database for writing once",
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
    /* The owner may have died since; then this recovers what it left. */
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

/* What is in doubt is being committed, and by whom can be seen only when that
** is over: it is waited for as any other transaction is, but not with a lock
** that its COMMIT waits for. */
static int may_wait(struct ext_table *table, uint64_t since_us) {
  sqlite3 *db = table->conn->db;
  return ext_now_us() - since_us <
             ext_vtab(table)->options.config.timeout_ms * UINT64_C(1000) &&
         !ext_link_interrupted(table->conn) &&
         (sqlite3_txn_state(db, table->schema) <= SQLITE_TXN_NONE ||
          ext_place_is_wal(db, table->schema));
}

/* A call that needs a store in which nothing is in doubt: emb_begin, emb_own.
 */
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

/* This process owns the store from now on, and nothing is in doubt. */
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
                         "%s was changed by another process after the last "
                         "checkpoint, which this transaction has read: roll "
                         "it back and begin it again",
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
    link->in_txn = 1; /* what reads the row may make SQLite roll back */
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

/* The row is the store's.  Not to be remembered within a transaction that may
** have written it ('adopt') and be rolled back. */
static void note_match(struct ext_table *table) {
  table->link->matches =
      sqlite3_txn_state(table->conn->db, table->schema) != SQLITE_TXN_WRITE;
}

/* A row that differs may be that of a commit that is just being made.  While
** this session has the store's one transaction there is none. */
static int txn_check_alone(struct ext_table *table, char **err) {
  int rc;
  if (may_be_old(table))
    return SQLITE_OK;
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
    rc = ext_error(err, SQLITE_CORRUPT_VTAB, "%s_emb names no store",
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

/* Whether SQLite may leave the removal of its journal to the file system.
** SQLITE_NOMEM must not be passed over: SQLite keeps it, commits, and then
** reports that it has not. */
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

/* SQLite has committed; once for all tables of a file. */
static void await_removal(struct ext_table *table) {
  struct ext_conn *conn = table->conn;
  struct ext_link *link = table->link;
  int os;
  if (has_journal(conn->db, table->schema))
    return; /* it was emptied */
  os = fsync(link->removes_dir) != 0 ? errno : 0;
  if (os)
    sqlite3_log(SQLITE_IOERR_DIR_FSYNC, "emb: syncing beside %s: %s",
                link->file, strerror(os));
  for (struct ext_link *other = conn->links; other; other = other->next)
    if (strcmp(other->file, link->file) == 0)
      forget_removal(other);
}

/* SQLite is about to commit: from then on no descriptor may be missing. */
static int expect_removal(struct ext_table *table, char **err) {
  struct ext_link *link = table->link;
  int rc = is_synchronous_full(table->conn->db, table->schema, &link->removes);
  int os = rc == SQLITE_OK && link->removes
               ? ext_place_open_dir(link->file, &link->removes_dir)
               : 0;
  if (os)
    link->removes = 0;
  if (os == EACCES) { /* then no one can ever sync it */
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
    if (table->link->in_txn) /* a DROP that could not end it */
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

/* Opens the store, and owns it from now on if it can. */
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
    sqlite3_free(late); /* any other error comes again with the first write */
    rc = SQLITE_OK;
  }
  return ext_vtab_error(&table->base, rc, err);
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
  emb_assert(ext_txn_may(table, EXT_CALL_SYNC, 0));
  emb_assert(ext_conn_valid(table->conn));
  if (table->conn->undo_failed)
    return ext_vtab_error(&table->base, SQLITE_IOERR,
                          sqlite3_mprintf("a savepoint could not be undone: "
                                          "roll the transaction back"));
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

/* SQLite has committed: an interrupt comes too late. */
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

/* One that could not be opened is not there: nothing is written in it, and
** SQLite's xRollbackTo for it must undo nothing. */
int ext_txn_savepoint(sqlite3_vtab *vtab, int i) {
  struct ext_table *table = table_of(vtab);
  struct ext_link *link = table->link;
  char *err = NULL;
  int rc = SQLITE_OK;
  emb_assert(ext_txn_may(table, EXT_CALL_SAVEPOINT, i));
  table->synced = 0;
  table->level = -1; /* whatever it was: the others record what is open */
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

/* After a failure SQLite has undone its own and goes on to no other table, so
** all of the transaction must be rolled back.  Number -1 is the transaction
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
