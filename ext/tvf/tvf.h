/* SPDX-License-Identifier: MIT
**
** tvf.h -- ext/tvf/: the table-valued functions and emb_tables.
**
** ROLE      tvf.c is the sqlite3_module of all of them; every other file has
**           one or two, each described by a struct ext_tvf (emb_nearest has its
**           options in nearest_options.c; describe.h lists the files of
**           emb_describe).  Uses fn/ for the arguments, backup/, and the
**           folders below.
** ARGUMENTS  are hidden columns side by side: f(1, 2) and `a = 1 AND b = 2` are
**            the same to SQLite.  A plan that lacks a required argument,
**            because of an OR or by mistake, costs more than any other, and its
**            scan fails.
** A SCAN     begin; more, then column and rowid of each row in memory, more ...
**            until it returns no rows; end.  The next scan of the same cursor,
**            as for the next row of a join, starts again with begin.
*/
#ifndef EMB_EXT_TVF_H
#define EMB_EXT_TVF_H

#include "ext/fn/fn.h"

/* Maximum number of arguments, including a key. */
#define EXT_TVF_ARGUMENTS 8
/* idxNum has a bit for each argument given; the bits from here on belong to
** `plan`. */
#define EXT_TVF_PLAN (1 << EXT_TVF_ARGUMENTS)

/* Each function's own cursor begins with this. */
struct ext_tvf_cursor {
  sqlite3_vtab_cursor base; /* must be first */
  const struct ext_tvf *tvf;
  struct ext_conn *conn;
  struct ext_link *link; /* NULL, or kept open by ext_tvf_hold until the end */
  sqlite3_stmt *reads;   /* keeps the database attached; or NULL */
  int plan;              /* idxNum */
  uint64_t spent_us;     /* waited in vain for owners, by a statement that shows
                            the state of many tables */
  size_t n, at;          /* rows in memory, and the current one */
};

/* Pointers that may be NULL say what NULL means. */
struct ext_tvf {
  const char *name;
  const char *declaration; /* of its columns: "CREATE TABLE x(...)" */

  int argument;       /* column of the first argument */
  int arguments;      /* number of arguments */
  int needed;         /* this many, from the first on, are required */
  const char *needs;  /* what the error calls the required ones */
  double key_cost;    /* not 0: column 0 is a key, and the cost of finding a row
                         by it; the key is one more argument, after the rest */
  int key_is_exact;   /* begin compares it as SQLite would, or better */
  int is_state;       /* shows the current state: waits only briefly for an
                         owner that does not respond */
  double cost;        /* of all rows, */
  sqlite3_int64 rows; /* and their approximate number */
  void (*plan)(sqlite3_index_info *info); /* NULL: nothing to add */

  size_t cursor_size;
  /* Starts a scan.  An argument that was not given is NULL. */
  int (*begin)(struct ext_tvf_cursor *cursor, sqlite3_value **arguments,
               char **err);
  /* Sets n, which is 0 before.  NULL: begin returns all rows, as it does with a
  ** key. */
  int (*more)(struct ext_tvf_cursor *cursor, char **err);
  void (*column)(struct ext_tvf_cursor *cursor, sqlite3_context *context,
                 int i);
  /* NULL: the row's position, from 0. */
  sqlite3_int64 (*rowid)(struct ext_tvf_cursor *cursor);
  /* Frees the memory of begin, even after an error.  NULL: nothing to free. */
  void (*end)(struct ext_tvf_cursor *cursor);
  /* Frees memory kept between scans.  NULL: nothing to free. */
  void (*close)(struct ext_tvf_cursor *cursor);
};

int ext_tvf_register(struct ext_conn *conn, const struct ext_tvf *tvf);
/* Does the description contradict itself; is the cursor as it says?  Only in
** self-checking builds. */
int ext_tvf_valid(const struct ext_tvf *tvf);
int ext_tvf_cursor_valid(const struct ext_tvf_cursor *cursor);
/* Keeps the link open until the scan ends. */
void ext_tvf_hold(struct ext_tvf_cursor *cursor, struct ext_link *link);
/* Called by begin for a key that it cannot look up: the scan reads all rows,
** and SQLite compares. */
void ext_tvf_read_all(struct ext_tvf_cursor *cursor);

/* ---- the lists of the functions that show a state, for emb_describe ------ */

/* stats.c.  As emb_stats finds the table; the caller frees *stats.  Of an owner
** that does not respond there is only the metric owner_pid. */
int ext_tvf_stats(struct ext_conn *conn, const char *name,
                  struct ext_table **table, emb_stat **stats, size_t *n,
                  char **err);
/* clients.c.  *list must be NULL before; the caller frees it, even after an
** error. */
int ext_tvf_clients(struct ext_table *table, emb_client **list, size_t *n);
/* delta.c.  *list must be NULL before; the caller frees it, even after an
** error. */
int ext_tvf_consumers(struct ext_table *table, emb_consumer **list, size_t *n,
                      char **err);
/* snapshot.c. */
int ext_tvf_snapshots(struct ext_table *table,
                      emb_snapshot_info rows[EMB_SNAPSHOTS_MAX], size_t *n,
                      char **err);
/* tables.c: the column `state` of a table whose store is open. */
int ext_tvf_state(struct ext_table *table, const char **state, char **err);

/* nearest_options.c: the options of emb_nearest. */
struct nearest_options {
  emb_nearest_how how;
  char *snapshot; /* NULL: the table; sqlite3_free it, even on error */
};
/* value may be NULL, or SQL's NULL; *with must be zeroed before. */
int ext_nearest_options(const struct ext_options *options, sqlite3_value *value,
                        struct nearest_options *with, char **err);

/* Each file registers its functions. */
int ext_tvf_file_register(struct ext_conn *conn);
int ext_tvf_lookahead_register(struct ext_conn *conn);
int ext_tvf_snapshot_register(struct ext_conn *conn);
int ext_tvf_delta_register(struct ext_conn *conn);
int ext_tvf_evicted_register(struct ext_conn *conn);
int ext_tvf_keys_register(struct ext_conn *conn);
int ext_tvf_nearest_register(struct ext_conn *conn);
int ext_tvf_sample_register(struct ext_conn *conn);
int ext_tvf_stats_register(struct ext_conn *conn);
int ext_tvf_tables_register(struct ext_conn *conn);
int ext_tvf_describe_register(struct ext_conn *conn);
int ext_tvf_backup_register(struct ext_conn *conn);
int ext_tvf_progress_register(struct ext_conn *conn);
int ext_tvf_clients_register(struct ext_conn *conn);
int ext_tvf_pending_register(struct ext_conn *conn);
int ext_tvf_serve_register(struct ext_conn *conn);

#endif
