/* SPDX-License-Identifier: MIT
**
** conn.h -- ext/conn/: what belongs to a connection, independent of the kinds
** of its tables: the stores it uses, where they are, and when they are closed.
**
** ROLE      Uses a table's name, schema and file, but not its columns and
**           options.  Used by table/ and the folders above it.
** OBJECTS   conn    one per SQLite connection, made by the entry point, freed
**                   when the last module or function that holds it is
**                   destroyed, after the connection's files are closed.
**           link    one per (connection, store): the session, and the open
**                   transaction.  Outlives the tables that use it, because
**                   SQLite destroys and re-creates tables at every schema
**                   change.
**           table   one sqlite3_vtab; its link is NULL until it is first used.
**
**             conn --> link --> link ...        names --> table
**                       ^                                   |
**                       +-----------------------------------+
**
** FILES     store_error.c, place.c and moved.c (where a store is), link.c (a
**           store in use), conn.c (the list of connections), orphan.c and
**           signal.c (stores that no table names), clientdata.c (data of other
**           modules), close.c (closing), names.c (which table a name means),
**           call.c (tables held by function calls), encoding.c (text encoding),
**           lease.c (counted reads).
** INVARIANTS  A link is in its connection's list from ext_link_add to
**           ext_link_close, and a table in its link's from ext_link_attach to
**           ext_link_put.  Only the end of the connection closes a link with an
**           open cursor or transaction.
** THREADS   SQLite serialises all calls on one connection, so nothing here is
**           locked except the list of connections (conn.c).
*/
#ifndef EMB_EXT_CONN_H
#define EMB_EXT_CONN_H

#include "ext/dict/dict.h"
#include <sys/types.h>

/* Format of the row in the shadow table, not of the store. */
#define EXT_PLACE_FORMAT 1
/* The table to which SQLite reports the end of a transaction (signal.c). */
#define EXT_SIGNAL "sqlite_emb_orphans"

/* Waits for SQLite locks on an internal connection (wait.c). */
struct ext_wait {
  struct ext_conn *conn; /* the user's */
  uint64_t limit_us, since_us;
  int is_interrupted; /* the last wait was interrupted */
};

/* The part of a table object that its connection and its link use, at the
** start of every table (table/table.h has the rest). */
struct ext_table {
  sqlite3_vtab base; /* must be first */
  struct ext_conn *conn;
  struct ext_link *link; /* NULL until first used (table/open.c) */
  struct ext_table *next_of_link;
  struct ext_table *next_held; /* on conn->held */
  int held, gone;              /* by a call; disconnected while held (call.c) */
  char *schema;                /* "main", "temp" or the name given to ATTACH */
  char *name;                  /* follows xRename */
  char *file;         /* the schema's database file, "" if it has none */
  int begun;          /* in SQLite's transaction (table/txn.c), with this ... */
  int level;          /* ... innermost savepoint, -1 none */
  int cursors;        /* open on it */
  uint64_t statement; /* number of the one that opened them (lease.c) */
  int synced;         /* xSync was called, and no write since (conn_valid.c) */
};

/* A place whose fate depends on whether the database names it: made by a CREATE
** or left by a DROP that SQLite may still undo (orphan.c). */
struct ext_orphan;

/* A table name as passed to emb_get and other functions. */
struct ext_name {
  char *text;
  struct ext_table *table;
  struct ext_name *next;
};

struct ext_conn {
  sqlite3 *db;
  pid_t process;            /* that opened the connection */
  int refs;                 /* held by modules and functions */
  int closing;              /* the connection is gone: no more SQL */
  int ddl;                  /* a table was created, renamed or dropped in a
                               transaction that may still be open */
  int calls;                /* nested function calls in progress */
  sqlite3_context *context; /* of the innermost one, or NULL (fn/fn.c) */
  struct ext_table *held;   /* tables held by them (call.c) */
  int probing;              /* xBestIndex must store its table in probed */
  struct ext_table *probed;
  int begun;          /* table objects in SQLite's transaction (table/txn.c) */
  int undo_failed;    /* a ROLLBACK TO failed: no COMMIT is possible */
  int attached;       /* links that may be detached */
  int encoding_known; /* of the database's texts (encoding.c) */
  emb_patience patience; /* shared by all its links [link.c] */
  struct ext_wait wait;  /* of an internal connection (table/keys.c) */
  struct ext_link *links;
  struct ext_orphan *orphans;
  struct ext_name *names;
  uint64_t statements;      /* statement numbers assigned (lease.c) */
  uint64_t ticked_us;       /* when ext_link_interrupted ran a statement */
  struct ext_conn *next;    /* all connections of the process */
  int has_tables, has_data; /* what entry points have registered, */
  int tables_rc, data_rc;   /* and with which result */
  struct ext_clientdata *clientdata;
};

/* A prefetch or write-back in flight (fn/async.c). */
struct ext_ticket {
  uint64_t number;
  size_t n;       /* keys */
  float *vectors; /* destination of a prefetch; else NULL */
  /* For a write-back to a table with text keys: the texts, their numbers, and
  ** the count of removals when they were looked up (dict/dict.h, AGAIN). */
  struct ext_texts texts;
  int64_t *ids;
  int64_t removals;
  struct ext_ticket *next;
};

struct ext_link {
  struct ext_conn *conn;
  struct ext_link *next;
  emb_store *store;
  emb_session *session;
  char *path;               /* the store's directory, NULL if temporary */
  char *schema;             /* of the row that names the store, */
  char *file;               /* and that schema's file */
  char uuid[33];            /* in hex, as in the shadow table */
  struct ext_table *tables; /* using the link */
  int cursors;              /* open on it */
  int attached;             /* the schema is neither main nor temp */
  int atomic;   /* commits together with SQLite: commit='atomic', on a file */
  int readonly; /* the database is read-only */
  int moved;    /* the row's place is out of date; the next commit updates
                   it */

  /* The transaction (table/txn.c). */
  int in_txn;
  int dirty;       /* something was written ... */
  int dirty_level; /* ... first with this as the innermost savepoint */
  int removes;     /* this COMMIT removes SQLite's journal, and SQLite does not
                      make the removal durable ... */
  int removes_dir; /* ... in this directory, opened earlier; else -1 */
  char *late;      /* why this process neither owned the store nor was served
                      when SQLite's transaction began; NULL if it was */
  int noted;       /* a read came before that (table/txn.c, STALE), */
  int stale;       /* and rows have changed since: no write may follow */
  int noted_alone; /* the read was outside of BEGIN and COMMIT; */
  int noted_temp;  /* or the transaction includes the temporary database; */
  int noted_state; /* at the read: the schema's SQLITE_TXN_ state, */
  unsigned noted_data;    /* its file's SQLITE_FCNTL_DATA_VERSION */
  uint64_t noted_rows[2]; /* and the store's emb_state */
  int looked;             /* the store was checked at data version ... */
  unsigned looked_data;   /* ... looked_data */
  int failed;             /* SQLite's code of a failure that SQLite ignores, in
                             xCommit or while planning; reported at the next
                             use ... */
  char *failed_text;      /* ... with this text, if memory allowed */
  int doubt_failed;       /* SQLite's code of the error that left the last
                          ** prepared transaction undecided, */
  char *doubt_text;       /* and its text */
  int matches; /* database and store were found to be of the same age */

  /* An option was set in this transaction (table/set.c): the memory and the
  ** timeout before it, and after its last xSync. */
  int settings_pending;
  uint64_t memory_before, memory, timeout_before, timeout;

  struct ext_dict *dict; /* of text keys; NULL for integer keys */

  /* Counted reads (lease.c). */
  int bounded;
  int lease_mark;  /* leases are marked as taken since BEGIN, or */
  int lease_write; /* by a statement that writes outside a transaction */

  /* Requests in flight, oldest first (fn/async.c). */
  struct ext_ticket *prefetches, *write_backs;
  uint64_t aheads; /* number of the last look-ahead */

  /* Results of the last emb_put, emb_rmw or emb_apply (fn/store.c). */
  uint64_t *put_versions;
  size_t put_n, put_capacity;
  int put_valid;
};

/* ---- store_error.c ------------------------------------------------------- */

/* Turns an engine error into an SQLite error that names the table instead of
** the store's directory.  table may be NULL. */
int ext_store_error(char **err, int emb_code, const char *text,
                    const struct ext_table *table, const char *directory);
/* Returns text with the table's name in place of the directory; NULL if out of
** memory. */
char *ext_store_text(const char *text, const struct ext_table *table,
                     const char *directory);

/* ---- place.c: where a store is, and the shadow table --------------------- */

/* The shadow table's row.  dir is NULL for a temporary store. */
struct ext_place {
  char uuid[33];
  char *dir;
  sqlite3_int64 txn;
};

/* Reads the row; SQLITE_CORRUPT_VTAB if it is missing or malformed.  The caller
** frees place->dir. */
int ext_place_read(struct ext_table *table, struct ext_place *place,
                   char **err);
/* Opens another connection to the table's file.  The caller must sqlite3_close
** it, even after an error. */
int ext_place_connect(struct ext_table *table, sqlite3 **db);
/* The transaction number in the newest committed row, which this connection may
** not see yet, read while no other connection can commit.  0: it cannot be
** read, or another connection is writing. */
int ext_place_read_newest(struct ext_table *table, sqlite3_int64 *txn);
/* Writes the transaction number into the row with this uuid, even if a rename
** has moved it.  *found = 0 when the database has no such row. */
int ext_place_record_txn(struct ext_table *table, sqlite3_int64 txn, int *found,
                         char **err);
/* Looks for a row with this uuid in all shadow tables of a schema.  *name is
** set to the shadow table's name, or NULL. */
int ext_place_find(sqlite3 *db, const char *schema, const char *uuid,
                   char **name, char **err);
/* Calls visit for each row of each shadow table of a schema until it returns
** non-zero; dir may be NULL. */
int ext_place_each(sqlite3 *db, const char *schema,
                   int (*visit)(void *arg, const char *table, const char *uuid,
                                const char *dir),
                   void *arg, char **err);
/* Is this name valid in a row?  A valid name cannot lead to another
** directory. */
int ext_place_is_name(const char *name);
/* Makes the name of a new store from a table's name. */
char *ext_place_encode(const char *name);
/* The directory of places recorded in the row at its last write: for messages
** only.  NULL: not recorded, or the row has no column for it. */
int ext_place_was(struct ext_table *table, char **was);
/* The directory of the place that a row names, or of all places if dir is
** NULL. */
char *ext_place_path(const char *file, const char *dir);
/* The file of a schema; "" if it is temporary, in memory or unknown. */
const char *ext_place_file(sqlite3 *db, const char *schema);
/* Opens the directory of a database file.  Returns 0 and sets *fd, or returns
** the errno. */
int ext_place_open_dir(const char *file, int *fd);
/* Syncs the directory of a database file.  Returns 0 or the errno. */
int ext_place_sync(const char *file);
/* Is the schema in WAL mode?  Returns a code of SQLite: out of memory, say. */
int ext_place_is_wal(sqlite3 *db, const char *schema, int *is);
/* Is its file locked exclusively from the first use on, by PRAGMA
** locking_mode? */
int ext_place_is_exclusive(sqlite3 *db, const char *schema, int *is);

/* ---- moved.c ------------------------------------------------------------- */

/* *path: where the row's store should be.  If the store is not there, but next
** to the database under the database's former name, moves it to *path; in a
** read-only database replaces *path instead. */
int ext_moved_find(struct ext_table *table, const struct ext_place *place,
                   char **path, char **err);
/* Returns SQLITE_CANTOPEN with a message for a store that was not found. */
int ext_moved_text(struct ext_table *table, const struct ext_place *place,
                   char **err);

/* ---- link.c -------------------------------------------------------------- */

/* A store's uuid in hex, as in the shadow table. */
void ext_link_uuid(const emb_store *store, char hex[33]);
/* Returns the link to a store, or NULL if the connection has none. */
struct ext_link *ext_link_find(struct ext_conn *conn, const char *uuid,
                               const char *path);
/* Adds a link to a store that was just opened.  Takes ownership of the store,
** even on error. */
int ext_link_add(struct ext_table *table, emb_store *store, const char *path,
                 char **err);
/* Makes the table a user of the link. */
void ext_link_attach(struct ext_table *table, struct ext_link *link);
/* The table no longer uses its link. */
void ext_link_put(struct ext_table *table);
/* Detaches the link from its tables and closes session and store.  Returns 0
** and does nothing while the store is being read or written. */
int ext_link_close_idle(struct ext_link *link);
/* As above, even while it is in use. */
void ext_link_close(struct ext_link *link);
/* Closes the links of detached databases, and those of dropped stores. */
void ext_link_close_detached(struct ext_conn *conn);
/* Closes the links of dropped stores. */
void ext_link_close_dropped(struct ext_conn *conn);
/* For emb_session_interrupt, with the connection: was sqlite3_interrupt called,
** or does the progress handler ask to stop?  Calls the handler. */
int ext_link_interrupted(void *conn);
/* As qsort; SQLITE_INTERRUPT leaves the elements in some order. */
int ext_link_sort(struct ext_conn *conn, void *at, size_t n, size_t size,
                  int (*compare)(const void *, const void *), char **err);
/* Number of rows; -1 if it is not available.  If the store's owner has died,
** the next use of the table reports it. */
sqlite3_int64 ext_link_count(struct ext_link *link);
/* As above, but reports the error at once. */
int ext_link_count_now(struct ext_link *link, sqlite3_int64 *rows, char **err);
/* Monotonic time in microseconds. */
uint64_t ext_now_us(void);
/* The link's store, for the next engine call, which will wait as the link's
** session would. */
static inline emb_store *ext_link_store(const struct ext_link *link) {
  emb_wait_with(&link->conn->patience);
  return link->store;
}
/* The statement ends with an error, so the next one may wait for an owner
** again. */
static inline void ext_link_reported(struct ext_conn *conn) {
  if (conn->patience.limit_us == 0)
    conn->patience.spent_us = 0;
}
/* The statement goes on after a wait in vain, but must not wait any more. */
static inline void ext_link_passed_over(struct ext_conn *conn) {
  if (conn->patience.is_silent)
    conn->patience.spent_us = UINT32_MAX * UINT64_C(1000);
}
/* Turns the session's last error into a result. */
int ext_link_error(struct ext_link *link, int emb_code, char **err);
char *ext_link_text(const struct ext_link *link);
/* Frees a ticket and its memory. */
void ext_ticket_free(struct ext_ticket *ticket);

/* ---- conn.c -------------------------------------------------------------- */

/* Returns the connection's state with one more reference, and creates it if
** necessary; NULL if out of memory. */
struct ext_conn *ext_conn_ref(sqlite3 *db);
/* Stores data with the connection under a name, like sqlite3_set_clientdata of
** SQLite 3.44; free is called when the connection closes.  On SQLITE_NOMEM the
** data has been freed. */
int ext_conn_set_clientdata(struct ext_conn *conn, const char *name, void *data,
                            void (*free)(void *));
/* NULL if there is no data with this name. */
void *ext_conn_get_clientdata(const struct ext_conn *conn, const char *name);
/* Frees all client data. */
void ext_conn_free_clientdata(struct ext_conn *conn);
/* Drops a reference without freeing; returns 1 if it was the last. */
int ext_conn_leave(struct ext_conn *conn);
/* Was the connection inherited from the parent by fork()? */
int ext_conn_is_inherited(const struct ext_conn *conn);
/* SQLITE_MISUSE in a child after fork(), where the connection is its parent's.
** The engine checks this for open stores; use this function everywhere else. */
int ext_conn_check(const struct ext_conn *conn, char **err);
/* Is PRAGMA query_only on, or is that unknown, after an interrupt say?  SQLite
** then refuses statements that write, but runs functions.  To ask costs as much
** as to write a row, so a function asks once per run of its statement, as
** SQLite does for an INSERT, if its first argument is constant. */
int ext_conn_is_query_only(struct ext_conn *conn);
/* SQLITE_READONLY if it is on.  To be called by whatever writes a row or a
** file. */
int ext_conn_may_write(struct ext_conn *conn, char **err);
/* Forgets all names.  Must be called whenever a table object is created or
** destroyed. */
void ext_conn_forget_names(struct ext_conn *conn);
/* Closes the links to dropped stores in other connections of the process that
** are not in use now. */
void ext_conn_sweep(struct ext_conn *conn);

/* ---- wait.c -------------------------------------------------------------- */

/* Makes db wait for locks for at most limit_ms, or until the user's connection
** is interrupted.  *wait must outlive db. */
void ext_wait_for_locks(struct ext_wait *wait, struct ext_conn *conn,
                        sqlite3 *db, uint64_t limit_ms);
/* Returns rc, or SQLITE_INTERRUPT if rc is SQLITE_BUSY because of an
** interrupt. */
int ext_wait_result(struct ext_wait *wait, int rc, char **err);

/* ---- orphan.c ------------------------------------------------------------ */

/* Records that the table's place must be deleted if it turns out that the
** database does not name it.  Must be called after CREATE and at DROP. */
int ext_orphan_add(struct ext_table *table, const char *uuid, const char *path,
                   char **err);
/* Decides all entries that can be decided now. */
void ext_orphan_settle(struct ext_conn *conn);
/* As above, after the connection has closed. */
void ext_orphan_settle_closed(struct ext_conn *conn);
/* Is there no such store in the newest state of the table's database file?
** Asks through another connection. */
int ext_orphan_is_dropped(struct ext_table *table, const char *uuid);
/* As ext_orphan_settle, when a transaction has just ended. */
void ext_orphan_settle_ended(struct ext_conn *conn);

/* ---- signal.c ------------------------------------------------------------ */

int ext_signal_register(struct ext_conn *conn);

/* ---- close.c ------------------------------------------------------------- */

/* Drops a reference and frees everything with the last.  Takes a struct
** ext_conn, as void * for SQLite's destructors. */
void ext_conn_unref(void *conn);
void ext_conn_tidy_now(struct ext_conn *conn);
/* Called before a table is opened or looked up: closes the stores of dropped
** tables and detached databases. */
static inline void ext_conn_tidy(struct ext_conn *conn) {
  if (conn->orphans || conn->attached)
    ext_conn_tidy_now(conn);
  else
    ext_link_close_dropped(conn);
}

/* ---- encoding.c ---------------------------------------------------------- */

/* Functions that take a name must call this before their first SQL, so that the
** texts of their statement stay the same when it runs again. */
void ext_conn_learn_encoding(struct ext_conn *conn);

/* ---- names.c ------------------------------------------------------------- */

/* Splits "aux.items" if aux is a schema of this connection, because a table
** name may itself contain a dot.  *schema is NULL if there is none; the caller
** must sqlite3_free it. */
int ext_conn_split_name(sqlite3 *db, const char *text, char **schema,
                        const char **table);
/* The table that 'items' or 'schema.items' means now. */
int ext_conn_find(struct ext_conn *conn, const char *text,
                  struct ext_table **table, char **err);
/* Calls visit with each emb table in a schema, ordered by name, until it
** returns an error.  Skips tables that cannot be found.  `err` is for visit. */
int ext_conn_each(struct ext_conn *conn, const char *schema,
                  int (*visit)(void *arg, struct ext_table *table, char **err),
                  void *arg, char **err);

/* ---- call.c -------------------------------------------------------------- */

/* Enclose a function call; calls may nest. */
void ext_call_begin(struct ext_conn *conn);
void ext_call_end(struct ext_conn *conn);
/* Keeps the table in memory, with its link, until the outermost call ends.
** table->gone: SQLite has disconnected it since. */
void ext_table_hold(struct ext_table *table);

/* ---- lease.c ------------------------------------------------------------- */

/* emb_get for a statement, or for a function with statement 0: counted if the
** table has a bound.  to: vectors, found, versions. */
int ext_lease_get(struct ext_table *table, uint64_t statement,
                  const int64_t *keys, size_t n, const emb_rows *to,
                  char **err);
/* Must precede any other engine call that may be counted. */
void ext_lease_begin(struct ext_link *link, uint64_t statement);
/* A statement or transaction that writes begins. */
void ext_lease_write(struct ext_link *link);
/* SQLite's transaction was committed, or rolled back. */
void ext_lease_commit(struct ext_link *link);
void ext_lease_rollback(struct ext_link *link);

/* ---- conn_valid.c: for assertions ---------------------------------------- */

enum ext_call {
  EXT_CALL_BEGIN,
  EXT_CALL_SYNC,
  EXT_CALL_COMMIT,
  EXT_CALL_ROLLBACK,
  EXT_CALL_SAVEPOINT,
  EXT_CALL_RELEASE,
  EXT_CALL_ROLLBACK_TO,
  EXT_CALL_UPDATE
};
/* Does SQLite's call fit its earlier calls to the object?  i: the savepoint. */
int ext_txn_may(const struct ext_table *table, enum ext_call call, int i);
/* Are the connection's links and tables consistent? */
int ext_conn_valid(const struct ext_conn *conn);

#endif
