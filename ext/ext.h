/* SPDX-License-Identifier: MIT
**
** ext.h -- what the files of ext/ share: the SQLite side of emb.
**
** OBJECTS   conn    one per SQLite connection, made by the entry point, freed
**                   when the last module or function that holds it goes,
**                   which is after the connection's files are closed.
**           link    one per (connection, store): the session, and the open
**                   transaction.  Outlives the tables that use it, because
**                   SQLite destroys and re-creates those at every schema
**                   change.
**           table   one sqlite3_vtab.  Knows its names and options; finds its
**                   link when it is first used, so that a table whose store
**                   is missing can still be dropped.
**           cursor  one scan.
**
**             conn --> link --> link ...        names --> table
**                       ^                                   |
**                       +-----------------------------------+
**
** ERRORS    A function with a `char **err` returns an SQLite code and leaves
**           a text from sqlite3_malloc there, one line without "emb: "; it
**           stays NULL for SQLITE_NOMEM.  The callbacks that SQLite calls put
**           "emb: " in front and hand it over (error.c).
** THREADS   SQLite serialises all calls of one connection, so nothing here
**           is locked except the list of connections (conn.c).
*/
#ifndef EMB_EXT_EXT_H
#define EMB_EXT_EXT_H

#include "../engine/emb.h"
#include "../engine/base/seed.h"
#include "vec_arg.h"
#include <sqlite3ext.h>
#include <sys/types.h>

/* The first SQLite with sqlite3_vtab_in. */
#define EXT_SQLITE_MIN 3038000
/* Format of the shadow table's row, not of the store. */
#define EXT_PLACE_FORMAT 1

/* Columns as declared to SQLite.  The hidden ones from EXT_KEYS on are also
** the arguments of the table called as a function, in this order. */
enum {
  EXT_KEY = 0,
  EXT_VECTOR,
  EXT_KEYS,
  EXT_MODE,
  EXT_VECTORS,
  EXT_FOUND,
  EXT_VERSIONS,
  EXT_VERSION,
  EXT_CLOCK,
  EXT_COMMAND, /* named like the table, as in fts5 */
  EXT_ARG,
  EXT_GRADIENT,
  EXT_GRADIENTS,
  EXT_LR,
  EXT_STEP,
  EXT_FREQUENCY,
  EXT_UPDATED_AT,
  EXT_SNAPSHOT,
  EXT_MORE, /* the second vector column, and so on */
};

/* ---- options.c: the arguments of USING emb(...) ------------------------- */

struct ext_options {
  char *key;                       /* name of the key column */
  char *vectors[EMB_SEGMENTS_MAX]; /* names of the vector columns */
  int engine_commit;               /* commit='engine' */
  emb_config config; /* all but flags beside EMB_OPEN_BOUNDED; dim is that of a
                        row, segments points to the next */
  emb_segment segments[EMB_SEGMENTS_MAX];
  int optimized; /* some vector has an optimizer */
};

/* Vector columns of a table. */
static inline uint32_t ext_vectors(const struct ext_options *options) {
  return options->config.segment_count;
}
/* Which one a column is, from 0; below 0: none. */
static inline int ext_vector_of(const struct ext_options *options, int column) {
  int i = column == EXT_VECTOR ? 0 : column - EXT_MORE + 1;
  return column == EXT_VECTOR ||
                 (column >= EXT_MORE && (uint32_t)i < ext_vectors(options))
             ? i
             : -1;
}
static inline int ext_vector_column(uint32_t i) {
  return i == 0 ? EXT_VECTOR : EXT_MORE + (int)i - 1;
}
/* First element of a row that belongs to it. */
uint32_t ext_vector_first(const struct ext_options *options, uint32_t i);

/* argv as xCreate gets it; the arguments start at argv[3].  Whatever happens,
** ext_options_clear frees what is in it. */
int ext_options_parse(struct ext_options *options, int argc,
                      const char *const *argv, char **err);
void ext_options_clear(struct ext_options *options);

/* ---- the objects -------------------------------------------------------- */

struct ext_table {
  sqlite3_vtab base; /* must be first */
  struct ext_conn *conn;
  struct ext_link *link; /* NULL until first used (link.c) */
  struct ext_table *next_of_link;
  struct ext_options options;
  char *schema;   /* "main", "temp" or the name given to ATTACH */
  char *name;     /* follows xRename */
  char *file;     /* the schema's database file, "" if it has none */
  char *key_what; /* "items.key" and "items.vector", for errors */
  char *vector_what[EMB_SEGMENTS_MAX];
  struct ext_cursor *spare; /* a closed one, or NULL (cursor.c) */
  int cursors;              /* that are open on it */
  uint64_t statement;       /* number of the one that opened them (lease.c) */
};

/* A place that exists on disk or in memory while it is open whether the
** database names it: made by a CREATE or left by a DROP that SQLite may
** still undo (orphan.c). */
struct ext_orphan;

/* A name as emb_get and its sisters were given it. */
struct ext_name {
  char *text;
  struct ext_table *table;
  struct ext_name *next;
};

struct ext_conn {
  sqlite3 *db;
  pid_t process;            /* that opened it */
  int refs;                 /* modules and functions that hold it */
  int closing;              /* the connection is gone: no SQL any more */
  int ddl;                  /* a table was created, renamed or dropped in a
                               transaction that may still be open */
  struct ext_table *in_use; /* by ext_fn_table, which is looking it up */
  int in_use_gone;          /* SQLite has disconnected it meanwhile */
  int probing;              /* xBestIndex is to report its table in probed */
  struct ext_table *probed;
  int attached; /* links that may be detached */
  struct ext_link *links;
  struct ext_orphan *orphans;
  struct ext_name *names;
  uint64_t statements;   /* numbers given out (lease.c) */
  struct ext_conn *next; /* all connections of the process */
};

/* A prefetch or write-back in flight (fn_async.c). */
struct ext_ticket {
  uint64_t number;
  size_t n;       /* keys */
  float *vectors; /* where a prefetch puts them; else NULL */
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

  /* The transaction (txn.c). */
  int in_txn;
  int level;       /* innermost open savepoint of SQLite, -1 none */
  int dirty;       /* something was written ... */
  int dirty_level; /* ... first when this was the innermost savepoint */
  int removes;     /* this COMMIT removes SQLite's journal, and SQLite does not
                      wait until that is durable */
  char *late;      /* why this process did not own the store when SQLite's
                      transaction began; NULL if it did */
  int failed;      /* a commit failed in xCommit, where SQLite does not
                      listen; told at the next use ... */
  char *failed_text; /* ... with this text, if there was memory for it */
  int matches;       /* database and store were seen to be of the same age */

  /* Reads that count (lease.c). */
  int bounded;
  int lease_mark; /* leases are marked as taken since BEGIN */

  /* What is in flight, oldest first (fn_async.c). */
  struct ext_ticket *prefetches, *write_backs;
  uint64_t aheads; /* number of the last look-ahead */

  /* Of the last emb_put or emb_rmw (fn_store.c). */
  uint64_t *put_versions;
  size_t put_n, put_capacity;
  int put_valid;
};

/* ---- error.c ------------------------------------------------------------ */

/* The SQLite code for an engine code. */
int ext_code(int emb_code);
/* Sets the text and returns code. */
int ext_error(char **err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same from an engine error; returns the SQLite code. */
int ext_engine_error(char **err, int emb_code, const char *text);
/* The same from the connection's last SQL error. */
int ext_sql_error(char **err, sqlite3 *db, int code);
/* Hand an error to SQLite; frees err; return code. */
int ext_table_error(struct ext_table *table, int code, char *err);
int ext_vtab_error(sqlite3_vtab *vtab, int code, char *err);
void ext_result_error(sqlite3_context *context, int code, char *err);
/* SQLITE_TOOBIG when n vectors of dim floats do not fit in one BLOB. */
int ext_check_size(sqlite3 *db, size_t n, uint32_t dim, char **err);

/* ---- conn.c ------------------------------------------------------------- */

/* The connection's state, made if there is none, with one more reference;
** NULL without memory. */
struct ext_conn *ext_conn_ref(sqlite3 *db, int *fresh);
void ext_conn_unref(void *conn);
/* SQLITE_MISUSE in a child after fork(), where the connection is its parent's.
** The engine knows of the stores that are open; this is for the rest. */
int ext_conn_check(const struct ext_conn *conn, char **err);
/* Forgets all names; to be called whenever a table object comes or goes. */
void ext_conn_forget_names(struct ext_conn *conn);
void ext_conn_tidy_now(struct ext_conn *conn);
/* The table that 'items' or 'schema.items' means now. */
int ext_conn_find(struct ext_conn *conn, const char *text,
                  struct ext_table **table, char **err);
/* Before a table is opened or looked for: gives up the stores of tables that
** were dropped and databases that were detached. */
static inline void ext_conn_tidy(struct ext_conn *conn) {
  if (conn->orphans || conn->attached)
    ext_conn_tidy_now(conn);
}
/* Runs SQL that returns no rows. */
int ext_exec(sqlite3 *db, char **err, const char *format, ...);

/* ---- place.c: where a store is, and the shadow table -------------------- */

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
/* Writes the transaction number into the row with this uuid, wherever a
** rename may have put it.  *found = 0 when the database has no such row. */
int ext_place_mark(struct ext_table *table, sqlite3_int64 txn, int *found,
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
/* Makes the store of a new table and the shadow table with its row, and links
** the table to it. */
int ext_place_create(struct ext_table *table, char **err);
/* The directory of a place named by a row, or of all places if dir is NULL. */
char *ext_place_path(const char *file, const char *dir);
/* The file of a schema, "" if it is temporary or in memory or unknown. */
const char *ext_place_file(sqlite3 *db, const char *schema);
/* Makes durable which names there are beside a database file; the errno. */
int ext_place_sync(const char *file);

/* ---- orphan.c ----------------------------------------------------------- */

/* Remembers that the table's place must go when the database turns out not
** to name it.  To be called after CREATE and at DROP. */
int ext_orphan_add(struct ext_table *table, const char *uuid, const char *path,
                   char **err);
/* Decides all that can be decided now. */
void ext_orphan_settle(struct ext_conn *conn);
/* The same when the connection is gone. */
void ext_orphan_settle_closed(struct ext_conn *conn);
/* emb_gc(). */
void ext_orphan_gc(sqlite3_context *context, int argc, sqlite3_value **argv);

/* ---- link.c ------------------------------------------------------------- */

/* A store's name as the shadow table has it. */
void ext_link_uuid(const emb_store *store, char hex[33]);
/* Sets table->link, opening the store if this connection has not. */
int ext_link_get(struct ext_table *table, char **err);
/* Adds a store that was just made; takes it over, also on error. */
int ext_link_add(struct ext_table *table, emb_store *store, const char *path,
                 char **err);
/* The table no longer uses its link. */
void ext_link_put(struct ext_table *table);
/* Takes the link from the tables that have it and closes session and store.
** 0, and nothing is done, while it is being read or written. */
int ext_link_close_idle(struct ext_link *link);
/* Closes what belongs to databases that were detached. */
void ext_link_close_detached(struct ext_conn *conn);
struct ext_link *ext_link_find(struct ext_conn *conn, const char *uuid,
                               const char *path);
/* The same whatever happens on it. */
void ext_link_close(struct ext_link *link);
/* For emb_session_interrupt, with the connection: did somebody call
** sqlite3_interrupt? */
int ext_link_interrupted(void *conn);
/* The text of the session's last error, as a result. */
int ext_link_error(struct ext_link *link, int emb_code, char **err);

/* ---- txn.c -------------------------------------------------------------- */

/* To be called before reading: the link is open and nothing is in doubt that
** the database can decide now. */
int ext_txn_read(struct ext_table *table, char **err);
/* To be called before each transactional write. */
int ext_txn_write(struct ext_table *table, char **err);
/* Before a write that acts at once: refused, too, when database and store are
** not of the same age.  Looks once for each link: nobody replaces the files
** while they are open. */
int ext_txn_immediate(struct ext_table *table, char **err);
/* 'adopt': the database takes over the store's number. */
int ext_txn_adopt(struct ext_table *table, char **err);
int ext_txn_begin(sqlite3_vtab *vtab);
int ext_txn_sync(sqlite3_vtab *vtab);
int ext_txn_commit(sqlite3_vtab *vtab);
int ext_txn_rollback(sqlite3_vtab *vtab);
int ext_txn_savepoint(sqlite3_vtab *vtab, int i);
int ext_txn_release(sqlite3_vtab *vtab, int i);
int ext_txn_rollback_to(sqlite3_vtab *vtab, int i);
/* Throws an unwritten transaction away; before a DROP. */
void ext_txn_abandon(struct ext_link *link);

/* ---- lease.c ------------------------------------------------------------- */

/* emb_get for a statement, or for a function with statement 0: counts if the
** table has a bound. */
int ext_lease_get(struct ext_table *table, uint64_t statement,
                  const int64_t *keys, size_t n, float *vectors, uint8_t *found,
                  uint64_t *versions, char **err);
/* Before any other call of the engine that may count. */
void ext_lease_begin(struct ext_link *link, uint64_t statement);
/* SQLite's transaction was committed, or rolled back. */
void ext_lease_commit(struct ext_link *link);
void ext_lease_rollback(struct ext_link *link);

/* ---- the module: vtab.c, plan.c, cursor.c, update.c, command.c ---------- */

const sqlite3_module *ext_vtab_module(void);

/* What xBestIndex tells xFilter.  idxStr has one letter per argument:
**   '=' key = ?     'i' key IN (...)     '<' 'l' '>' 'g' key < <= > >= ?
**   'k' keys = ?    'm' mode = ?         'o' OFFSET ?     's' snapshot = ?
** and idxNum is a sum of these. */
enum {
  EXT_PLAN_ASC = EMB_SCAN_ASC,
  EXT_PLAN_DESC = EMB_SCAN_DESC,
  EXT_PLAN_ORDER = 3, /* mask of the two */
  EXT_PLAN_VECTORS = 4,
  EXT_PLAN_VERSIONS = 8,
  EXT_PLAN_FOUND = 16,
  EXT_PLAN_LAZY = 32, /* an UPDATE: read vectors when asked, a chunk at once */
  EXT_PLAN_BATCH_VERSIONS = 64,
  EXT_PLAN_TRACKS = 128, /* frequency, updated_at */
};
int ext_plan_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);

/* When the table object goes. */
void ext_cursor_free_spare(struct ext_table *table);
int ext_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor);
int ext_cursor_close(sqlite3_vtab_cursor *cursor);
int ext_cursor_filter(sqlite3_vtab_cursor *cursor, int flags, const char *plan,
                      int argc, sqlite3_value **argv);
int ext_cursor_next(sqlite3_vtab_cursor *cursor);
int ext_cursor_eof(sqlite3_vtab_cursor *cursor);
int ext_cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context,
                      int column);
int ext_cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid);
/* gradient.c: what UPDATE and INSERT do when a gradient is given. */
int ext_gradient_update(struct ext_table *table, sqlite3_value **argv,
                        int64_t key, char **err);
int ext_gradient_insert(struct ext_table *table, sqlite3_value **argv,
                        sqlite3_int64 *rowid, char **err);
/* The time of what the table's session writes until ext_update_time_end: NULL,
** or SQL's NULL, is the table's clock. */
int ext_update_time(struct ext_table *table, sqlite3_value *time, char **err);
void ext_update_time_end(struct ext_table *table);
/* Learning rate and step of an update; NULL, or SQL's NULL: not given. */
int ext_update_how(sqlite3_value *lr, sqlite3_value *step, emb_update *how,
                   char **err);

/* range.c: the keys that comparisons with any SQL value let through. */
struct ext_range {
  sqlite3_int64 lo, hi; /* empty when lo > hi */
};
void ext_range_all(struct ext_range *range);
/* Narrows the range by `key op value`, exactly as SQLite compares an INTEGER
** PRIMARY KEY; op is a letter of the plan. */
void ext_range_narrow(struct ext_range *range, char op, sqlite3_value *value);
/* The key for which `key = value` is true; 0: there is none. */
int ext_range_key(sqlite3_value *value, int64_t *key);

int ext_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv,
               sqlite3_int64 *rowid);
int ext_command(struct ext_table *table, sqlite3_value *command,
                sqlite3_value *arg, char **err);
/* Appends what is wrong with the table, a line each, to report; quick leaves
** out what must read the disk. */
int ext_command_verify(struct ext_table *table, int quick, sqlite3_str *report,
                       char **err);

/* ---- functions and table-valued functions ------------------------------- */

/* Each registers its own on the connection and takes references to conn; a
** table-valued one by tvf.h. */
int ext_fn_store_register(struct ext_conn *conn);
int ext_fn_async_register(struct ext_conn *conn);
int ext_fn_file_register(struct ext_conn *conn);
int ext_fn_delta_register(struct ext_conn *conn);
int ext_tvf_file_register(struct ext_conn *conn);
int ext_tvf_lookahead_register(struct ext_conn *conn);
int ext_tvf_snapshot_register(struct ext_conn *conn);
int ext_tvf_delta_register(struct ext_conn *conn);
int ext_tvf_evicted_register(struct ext_conn *conn);
int ext_tvf_stats_register(struct ext_conn *conn);
int ext_tvf_tables_register(struct ext_conn *conn);

/* What they have in common.  A function as SQLite is to know it: */
struct ext_function {
  const char *name;
  int argc;
  void (*call)(sqlite3_context *, int, sqlite3_value **);
};
int ext_fn_register(struct ext_conn *conn, const struct ext_function *functions,
                    size_t n);
/* A function or a table-valued one holds no table as a statement does: when
** what is asked of SQLite finds that somebody has changed the schema, SQLite
** disconnects all tables.  One that is held stays in memory until it is let go;
** 1: then it was disconnected, and is freed. */
void ext_table_hold(struct ext_table *table);
int ext_table_let_go(struct ext_table *table);
void ext_table_free_gone(struct ext_table *table); /* vtab.c */
/* The table of this name, ready to be read, or to be written to at once:
** SQLITE_READONLY, or an error of ext_txn_immediate, when it cannot be.
** Nothing is asked of SQLite about it after that. */
int ext_fn_named(struct ext_conn *conn, const char *text, int writes,
                 struct ext_table **table, char **err);
/* The table that the argument names. */
int ext_fn_table(struct ext_conn *conn, sqlite3_value *name,
                 struct ext_table **table, char **err);
int ext_fn_table_to_write(struct ext_conn *conn, sqlite3_value *name,
                          struct ext_table **table, char **err);
/* The argument `keys`; after an error there is nothing to free. */
int ext_fn_keys(sqlite3_value *value, int64_t **keys, int *owned, size_t *n,
                char **err);
/* n vectors. */
int ext_fn_vectors(sqlite3_value *value, const char *what,
                   const struct ext_table *table, size_t n, float **vectors,
                   int *owned, char **err);
/* The table, to be acted on at once, and a consumer's name. */
int ext_delta_arguments(struct ext_conn *conn, sqlite3_value **argv,
                        struct ext_table **table, const char **name,
                        char **err);
/* A TEXT without a zero byte in it. */
int ext_fn_text(sqlite3_value *value, const char *what, const char **text,
                char **err);
int ext_fn_snapshot_name(sqlite3_value *value, const char **name, char **err);
/* A number of something; 0 for what none can be. */
int ext_fn_number(sqlite3_value *value, const char *what, uint64_t *number,
                  char **err);
/* Memory for a result of n vectors, for sqlite3_free. */
int ext_fn_new_vectors(const struct ext_table *table, size_t n, float **vectors,
                       size_t *size, char **err);
/* Frees what the link's tickets hold; the session is closed. */
void ext_fn_free_tickets(struct ext_link *link);

#endif
