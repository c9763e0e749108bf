/* SPDX-License-Identifier: MIT
**
** conn.h -- ext/conn/: what belongs to a connection, whatever its tables are:
** the stores that it uses, where they are, and when they go.
**
** ROLE      Uses a table's name, schema and file, not its columns and options.
**           Used by table/ and what is above.
** OBJECTS   conn    one per SQLite connection, made by the entry point, freed
**                   when the last module or function that holds it goes,
**                   which is after the connection's files are closed.
**           link    one per (connection, store): the session, and the open
**                   transaction.  Outlives the tables that use it, because
**                   SQLite destroys and re-creates those at every schema
**                   change.
**           table   one sqlite3_vtab; its link is NULL until it is first used.
**
**             conn --> link --> link ...        names --> table
**                       ^                                   |
**                       +-----------------------------------+
**
** FILES     store_error.c, place.c and moved.c (where a store is), link.c (a
**           store in use), conn.c (the list of connections), orphan.c and
**           signal.c (stores that no table names), clientdata.c (what others
**           keep for a connection), close.c (the end), names.c (which table a
**           name means), call.c (what a function holds), encoding.c (of
**           texts), lease.c (reads that count).
** INVARIANTS  A link is in its connection's list from ext_link_add to
**           ext_link_close, and a table in its link's from ext_link_attach to
**           ext_link_put.  A link with an open cursor or transaction is closed
**           by nothing but the end of the connection.
** THREADS   SQLite serialises all calls of one connection, so nothing here is
**           locked except the list of connections (conn.c).
*/
#ifndef EMB_EXT_CONN_H
#define EMB_EXT_CONN_H

#include "ext/dict/dict.h"
#include <sys/types.h>

/* Format of the shadow table's row, not of the store. */
#define EXT_PLACE_FORMAT 1
/* The table to which SQLite reports the end of a transaction (signal.c). */
#define EXT_SIGNAL "sqlite_emb_orphans"

/* A table object as its connection and its link see it: the first part of each
** (table/table.h has the whole). */
/* Waits for locks of SQLite's on a connection that is not the user's (wait.c).
 */
struct ext_wait {
  struct ext_conn *conn; /* the user's */
  uint64_t limit_us, since_us;
  int is_interrupted; /* the last one ended so */
};

struct ext_table {
  sqlite3_vtab base; /* must be first */
  struct ext_conn *conn;
  struct ext_link *link; /* NULL until first used (table/open.c) */
  struct ext_table *next_of_link;
  struct ext_table *next_held; /* on conn->held */
  int held, gone;              /* by a call; disconnected meanwhile (call.c) */
  char *schema;                /* "main", "temp" or the name given to ATTACH */
  char *name;                  /* follows xRename */
  char *file;         /* the schema's database file, "" if it has none */
  int begun;          /* in SQLite's transaction (table/txn.c), with this ... */
  int level;          /* ... innermost savepoint, -1 none */
  int cursors;        /* that are open on it */
  uint64_t statement; /* number of the one that opened them (lease.c) */
  int synced;         /* xSync has come, and no write since (conn_valid.c) */
};

/* A place that exists on disk or in memory while it is open whether the
** database names it: made by a CREATE or left by a DROP that SQLite may
** still undo (orphan.c). */
struct ext_orphan;

/* A name as emb_get and other functions were given it. */
struct ext_name {
  char *text;
  struct ext_table *table;
  struct ext_name *next;
};

struct ext_conn {
  sqlite3 *db;
  pid_t process;          /* that opened it */
  int refs;               /* modules and functions that hold it */
  int closing;            /* the connection is gone: no SQL any more */
  int ddl;                /* a table was created, renamed or dropped in a
                             transaction that may still be open */
  int calls;              /* of functions that run, one within another */
  struct ext_table *held; /* by these calls (call.c) */
  int probing;            /* xBestIndex is to report its table in probed */
  struct ext_table *probed;
  int begun;          /* table objects in SQLite's transaction (table/txn.c) */
  int undo_failed;    /* a ROLLBACK TO: the transaction cannot be committed */
  int attached;       /* links that may be detached */
  int encoding_known; /* of the database's texts (encoding.c) */
  emb_patience patience; /* of all its links [link.c] */
  struct ext_wait wait;  /* of connections beside it (table/keys.c) */
  struct ext_link *links;
  struct ext_orphan *orphans;
  struct ext_name *names;
  uint64_t statements;      /* numbers given out (lease.c) */
  uint64_t ticked_us;       /* when ext_link_interrupted ran a statement */
  struct ext_conn *next;    /* all connections of the process */
  int has_tables, has_data; /* registered on it by an entry point */
  struct ext_clientdata *clientdata;
};

/* A prefetch or write-back in flight (fn/async.c). */
struct ext_ticket {
  uint64_t number;
  size_t n;       /* keys */
  float *vectors; /* where a prefetch puts them; else NULL */
  /* Of a write-back to a table with text keys: its texts, their numbers, and as
  ** of when (dict/dict.h, AGAIN). */
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
  char *schema;             /* where the row that names it was found, */
  char *file;               /* and that schema's file */
  char uuid[33];            /* in hex, as in the shadow table */
  struct ext_table *tables; /* that use it */
  int cursors;              /* that are open on it */
  int attached;             /* the schema is neither main nor temp */
  int atomic;   /* commits together with SQLite: commit='atomic', on a file */
  int readonly; /* the database is */
  int moved;    /* the row's place is not where it is now; the next commit says
                   so there */

  /* The transaction (table/txn.c). */
  int in_txn;
  int dirty;       /* something was written ... */
  int dirty_level; /* ... first when this was the innermost savepoint */
  int removes;     /* this COMMIT removes SQLite's journal, and SQLite does not
                      wait until that is durable ... */
  int removes_dir; /* ... in this directory, open since before; else -1 */
  char *late;      /* why this process neither owned the store nor was served
                      when SQLite's transaction began; NULL if it was */
  int noted;       /* something was read before that, */
  int stale;       /* and it has changed: no write in this transaction */
  int noted_alone; /* outside of BEGIN and COMMIT; */
  int noted_temp;  /* together with the temporary database; */
  int noted_state; /* the schema's SQLITE_TXN_ then, */
  unsigned noted_data;    /* its file's SQLITE_FCNTL_DATA_VERSION */
  uint64_t noted_rows[2]; /* and the store's emb_state */
  int looked;             /* the store was looked at when that was ... */
  unsigned looked_data;   /* ... this */
  int failed;             /* SQLite's code of what failed where SQLite does not
                             listen, in xCommit or while it planned; reported at
                             the next use ... */
  char *failed_text;      /* ... with this text, if there was memory for it */
  int doubt_failed;       /* SQLite's code of what kept the last transaction met
                          ** prepared from being decided, */
  char *doubt_text;       /* and its text */
  int matches; /* database and store were seen to be of the same age */

  /* An option was set in this transaction (table/set.c): what the memory
  ** and the timeout were before, and are after its last xSync. */
  int settings_pending;
  uint64_t memory_before, memory, timeout_before, timeout;

  struct ext_dict *dict; /* of text keys; NULL: they are integers */

  /* Reads that count (lease.c). */
  int bounded;
  int lease_mark;  /* leases are marked as taken since BEGIN, or */
  int lease_write; /* by a statement that writes outside of a transaction */

  /* What is in flight, oldest first (fn/async.c). */
  struct ext_ticket *prefetches, *write_backs;
  uint64_t aheads; /* number of the last look-ahead */

  /* Of the last emb_put or emb_rmw (fn/store.c). */
  uint64_t *put_versions;
  size_t put_n, put_capacity;
  int put_valid;
};

/* ---- store_error.c ------------------------------------------------------- */

/* The error about a table's store, which the engine names by its directory;
** table may be NULL. */
int ext_store_error(char **err, int emb_code, const char *text,
                    const struct ext_table *table, const char *directory);
/* Such a text with the table's name in place of the directory; NULL without
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

/* Reads it; SQLITE_CORRUPT_VTAB when it is missing or nonsense.  The caller
** frees place->dir. */
int ext_place_read(struct ext_table *table, struct ext_place *place,
                   char **err);
/* One more connection to the table's file, for sqlite3_close even after an
** error. */
int ext_place_connect(struct ext_table *table, sqlite3 **db);
/* The transaction number of the newest row that is committed, which this
** connection may not see yet, while no other can commit; 0: it cannot be read,
** or another connection is writing. */
int ext_place_read_newest(struct ext_table *table, sqlite3_int64 *txn);
/* Writes the transaction number into the row with this uuid, wherever a
** rename may have put it.  *found = 0 when the database has no such row. */
int ext_place_record_txn(struct ext_table *table, sqlite3_int64 txn, int *found,
                         char **err);
/* Looks for a row with this uuid in all shadow tables of a schema.  *name is
** the shadow table's name or NULL. */
int ext_place_find(sqlite3 *db, const char *schema, const char *uuid,
                   char **name, char **err);
/* Calls visit for each row of each shadow table of a schema until it returns
** non-zero; dir may be NULL. */
int ext_place_each(sqlite3 *db, const char *schema,
                   int (*visit)(void *arg, const char *table, const char *uuid,
                                const char *dir),
                   void *arg, char **err);
/* A name that may stand in a row: of no other directory. */
int ext_place_is_name(const char *name);
/* The name of a new store, of a table's. */
char *ext_place_encode(const char *name);
/* Where the row says that the places were when it was last written to: for a
** text only.  NULL: it does not say. */
int ext_place_was(struct ext_table *table, char **was);
/* The directory of a place named by a row, or of all places if dir is NULL. */
char *ext_place_path(const char *file, const char *dir);
/* The file of a schema, "" if it is temporary or in memory or unknown. */
const char *ext_place_file(sqlite3 *db, const char *schema);
/* The directory of a database file; the errno, or 0 and *fd is open. */
int ext_place_open_dir(const char *file, int *fd);
/* Makes durable which names there are beside a database file; the errno. */
int ext_place_sync(const char *file);
/* Whether a schema's journal is a log; 1 also without memory to find out: that
** is the careful answer. */
int ext_place_is_wal(sqlite3 *db, const char *schema);
/* Whether its file is locked for this connection alone from its first use on
** (PRAGMA locking_mode); 0 also without memory to find out. */
int ext_place_is_exclusive(sqlite3 *db, const char *schema);

/* ---- moved.c ------------------------------------------------------------- */

/* *path is where the row's store should be.  If it is not there, but beside the
** database under the name that this had before, it is moved to where it should
** be, or *path replaced in a read-only database. */
int ext_moved_find(struct ext_table *table, const struct ext_place *place,
                   char **path, char **err);
/* SQLITE_CANTOPEN: the store is nowhere. */
int ext_moved_text(struct ext_table *table, const struct ext_place *place,
                   char **err);

/* ---- link.c -------------------------------------------------------------- */

/* A store's name as the shadow table has it. */
void ext_link_uuid(const emb_store *store, char hex[33]);
/* NULL: the connection has none. */
struct ext_link *ext_link_find(struct ext_conn *conn, const char *uuid,
                               const char *path);
/* Adds a store that was just made; takes it over, also on error. */
int ext_link_add(struct ext_table *table, emb_store *store, const char *path,
                 char **err);
/* One more table uses a link. */
void ext_link_attach(struct ext_table *table, struct ext_link *link);
/* The table no longer uses its link. */
void ext_link_put(struct ext_table *table);
/* Takes the link from the tables that have it and closes session and store.
** 0, and nothing is done, while it is being read or written. */
int ext_link_close_idle(struct ext_link *link);
/* The same whatever happens on it. */
void ext_link_close(struct ext_link *link);
/* Closes what belongs to databases that were detached, and what
** ext_link_close_dropped does: stores that were dropped. */
void ext_link_close_detached(struct ext_conn *conn);
/* Closes stores that were dropped. */
void ext_link_close_dropped(struct ext_conn *conn);
/* For emb_session_interrupt, with the connection: was sqlite3_interrupt
** called, or does the progress handler demand an end?  Calls the handler. */
int ext_link_interrupted(void *conn);
/* Number of rows; -1: there is no answer, and if that is because the store's
** owner has gone, the next use of the table says so. */
sqlite3_int64 ext_link_count(struct ext_link *link);
/* The same, with the error at once. */
int ext_link_count_now(struct ext_link *link, sqlite3_int64 *rows, char **err);
/* Microseconds of a clock that does not jump. */
uint64_t ext_now_us(void);
/* The link's store, for the next call of it: that waits as the link's session
** would. */
static inline emb_store *ext_link_store(const struct ext_link *link) {
  emb_wait_with(&link->conn->patience);
  return link->store;
}
/* The statement ends with an error: the next may wait for an owner anew. */
static inline void ext_link_reported(struct ext_conn *conn) {
  if (conn->patience.limit_us == 0)
    conn->patience.spent_us = 0;
}
/* It does not, although a wait was in vain: the statement waits no more. */
static inline void ext_link_passed_over(struct ext_conn *conn) {
  if (conn->patience.is_silent)
    conn->patience.spent_us = UINT32_MAX * UINT64_C(1000);
}
/* The text of the session's last error, as a result. */
int ext_link_error(struct ext_link *link, int emb_code, char **err);
char *ext_link_text(const struct ext_link *link);
/* A ticket and its memory. */
void ext_ticket_free(struct ext_ticket *ticket);

/* ---- conn.c -------------------------------------------------------------- */

/* The connection's state, made if there is none, with one more reference;
** NULL without memory. */
struct ext_conn *ext_conn_ref(sqlite3 *db);
/* What is registered on a connection keeps this for it, under a name, as
** sqlite3_set_clientdata of SQLite 3.44 has it: free is called at the
** connection's end.  SQLITE_NOMEM: data was freed. */
int ext_conn_set_clientdata(struct ext_conn *conn, const char *name, void *data,
                            void (*free)(void *));
/* NULL: there is none. */
void *ext_conn_get_clientdata(const struct ext_conn *conn, const char *name);
/* All of it is freed. */
void ext_conn_free_clientdata(struct ext_conn *conn);
/* A reference less, without freeing; whether it was the last. */
int ext_conn_leave(struct ext_conn *conn);
/* After fork() it is the parent's. */
int ext_conn_is_inherited(const struct ext_conn *conn);
/* SQLITE_MISUSE in a child after fork(), where the connection is its parent's.
** The engine checks the stores that are open; this is for the rest. */
int ext_conn_check(const struct ext_conn *conn, char **err);
/* Forgets all names; to be called whenever a table object comes or goes. */
void ext_conn_forget_names(struct ext_conn *conn);
/* Closes what the other connections of the process have of stores that were
** dropped, where those connections are not in use now. */
void ext_conn_sweep(struct ext_conn *conn);

/* ---- wait.c -------------------------------------------------------------- */

/* From now on db waits for locks so long, or until the user's connection is
** interrupted.  *wait stays until db is closed. */
void ext_wait_for_locks(struct ext_wait *wait, struct ext_conn *conn,
                        sqlite3 *db, uint64_t limit_ms);
/* rc, or SQLITE_INTERRUPT where that is why it is SQLITE_BUSY. */
int ext_wait_result(struct ext_wait *wait, int rc, char **err);

/* ---- orphan.c ------------------------------------------------------------ */

/* Records that the table's place must go when the database turns out not
** to name it.  To be called after CREATE and at DROP. */
int ext_orphan_add(struct ext_table *table, const char *uuid, const char *path,
                   char **err);
/* Decides all that can be decided now. */
void ext_orphan_settle(struct ext_conn *conn);
/* The same when the connection is gone. */
void ext_orphan_settle_closed(struct ext_conn *conn);
/* Whether the newest state of the table's database file names no such store;
** asked through another connection. */
int ext_orphan_is_dropped(struct ext_table *table, const char *uuid);
/* The same when a transaction has just ended. */
void ext_orphan_settle_ended(struct ext_conn *conn);

/* ---- signal.c ------------------------------------------------------------ */

int ext_signal_register(struct ext_conn *conn);

/* ---- close.c ------------------------------------------------------------- */

/* A reference less; the last frees all.  Takes a struct ext_conn, as SQLite's
** destructors do. */
void ext_conn_unref(void *conn);
void ext_conn_tidy_now(struct ext_conn *conn);
/* Before a table is opened or looked for: gives up the stores of tables that
** were dropped and databases that were detached. */
static inline void ext_conn_tidy(struct ext_conn *conn) {
  if (conn->orphans || conn->attached)
    ext_conn_tidy_now(conn);
  else
    ext_link_close_dropped(conn);
}

/* ---- encoding.c ---------------------------------------------------------- */

/* To be called by functions that are given a name, before their first SQL: the
** texts of their statement will be the same when it runs again. */
void ext_conn_learn_encoding(struct ext_conn *conn);

/* ---- names.c ------------------------------------------------------------- */

/* Splits "aux.items" when aux is a schema of this connection, for a table
** name may itself hold a dot.  *schema, for sqlite3_free, is NULL when there is
** none. */
int ext_conn_split_name(sqlite3 *db, const char *text, char **schema,
                        const char **table);
/* The table that 'items' or 'schema.items' means now. */
int ext_conn_find(struct ext_conn *conn, const char *text,
                  struct ext_table **table, char **err);
/* Calls visit with each table of ours in a schema, in the order of the names,
** until it returns an error; one that cannot be found is passed over.  `err` is
** for visit. */
int ext_conn_each(struct ext_conn *conn, const char *schema,
                  int (*visit)(void *arg, struct ext_table *table, char **err),
                  void *arg, char **err);

/* ---- call.c -------------------------------------------------------------- */

/* Around a call of a function; it may run within another. */
void ext_call_begin(struct ext_conn *conn);
void ext_call_end(struct ext_conn *conn);
/* The table stays in memory, with its link, until the outermost call ends.
** table->gone: SQLite has disconnected it meanwhile. */
void ext_table_hold(struct ext_table *table);

/* ---- lease.c ------------------------------------------------------------- */

/* emb_get for a statement, or for a function with statement 0: counts if the
** table has a bound.  to: vectors, found, versions. */
int ext_lease_get(struct ext_table *table, uint64_t statement,
                  const int64_t *keys, size_t n, const emb_rows *to,
                  char **err);
/* Before any other call of the engine that may count. */
void ext_lease_begin(struct ext_link *link, uint64_t statement);
/* SQLite's transaction was committed, or rolled back. */
/* A statement or transaction that writes begins. */
void ext_lease_write(struct ext_link *link);
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
/* SQLite's call fits its earlier calls to the object; i: the savepoint. */
int ext_txn_may(const struct ext_table *table, enum ext_call call, int i);
/* The connection's links and tables agree. */
int ext_conn_valid(const struct ext_conn *conn);

#endif
