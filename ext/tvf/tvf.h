/* SPDX-License-Identifier: MIT
**
** tvf.h -- ext/tvf/: the table-valued functions and emb_tables.
**
** ROLE      tvf.c is the sqlite3_module of all of them; every other file is one
**           or two, each described by a struct ext_tvf (nearest.c has its
**           options in nearest_options.c).  Uses fn/ for the
**           arguments, backup/, and what is below.
** ARGUMENTS  are hidden columns side by side: f(1, 2) and `a = 1 AND b = 2`
**            are the same to SQLite.  A plan that lacks one that is needed,
**            for an OR or by mistake, costs more than any other, and its scan
**            fails.
** A SCAN     begin; more, column and rowid of each row at hand, more ... until
**            it finds none; end.  The next scan of the same cursor, as for the
**            next row of a join, starts over with begin.
*/
#ifndef EMB_EXT_TVF_H
#define EMB_EXT_TVF_H

#include "ext/fn/fn.h"

/* Arguments at most, a key among them. */
#define EXT_TVF_ARGUMENTS 8
/* In idxNum, a bit for each argument that is given; from here on what `plan`
** puts there. */
#define EXT_TVF_PLAN (1 << EXT_TVF_ARGUMENTS)

/* Each function's own cursor begins with it. */
struct ext_tvf_cursor {
  sqlite3_vtab_cursor base; /* must be first */
  const struct ext_tvf *tvf;
  struct ext_conn *conn;
  struct ext_link *link; /* NULL, or kept open by ext_tvf_hold until the end */
  sqlite3_stmt *reads;   /* NULL, or what keeps its database attached */
  int plan;              /* idxNum */
  uint64_t spent_us; /* waited in vain for an owner whose state it shows, in a
                        statement that asks for those of many tables */
  size_t n, at;      /* rows at hand, and which one it is on */
};

/* What may be NULL says what that means. */
struct ext_tvf {
  const char *name;
  const char *declaration; /* of its columns: "CREATE TABLE x(...)" */

  int argument;       /* column of the first argument */
  int arguments;      /* how many there are, */
  int needed;         /* how many of them, the first, are needed, */
  const char *needs;  /* and what the error calls these */
  double key_cost;    /* not 0: column 0 is a key, and finding a row by it costs
                         this; it is one more argument, behind the others */
  int key_is_exact;   /* begin compares it as SQLite would, or better */
  int is_state;       /* shows how things are: waits for no owner that is
                         stopped but for a moment */
  double cost;        /* of all rows, */
  sqlite3_int64 rows; /* and about how many there are */
  void (*plan)(sqlite3_index_info *info); /* NULL: there is no more to say */

  size_t cursor_size;
  /* Gets NULL for an argument that is not given. */
  int (*begin)(struct ext_tvf_cursor *cursor, sqlite3_value **arguments,
               char **err);
  /* Sets n, which is 0.  NULL: begin has all rows, as it has with a key. */
  int (*more)(struct ext_tvf_cursor *cursor, char **err);
  void (*column)(struct ext_tvf_cursor *cursor, sqlite3_context *context,
                 int i);
  /* NULL: the row's position, from 0. */
  sqlite3_int64 (*rowid)(struct ext_tvf_cursor *cursor);
  /* Frees what begin made, after an error too.  NULL: nothing. */
  void (*end)(struct ext_tvf_cursor *cursor);
  /* Frees what is kept from scan to scan.  NULL: nothing. */
  void (*close)(struct ext_tvf_cursor *cursor);
};

int ext_tvf_register(struct ext_conn *conn, const struct ext_tvf *tvf);
/* Keeps the link open until the scan ends. */
void ext_tvf_hold(struct ext_tvf_cursor *cursor, struct ext_link *link);
/* From begin, which got a key that it cannot look for: all rows are read, and
** SQLite compares. */
void ext_tvf_read_all(struct ext_tvf_cursor *cursor);

/* nearest_options.c: what the options of emb_nearest say. */
struct nearest_options {
  emb_nearest_how how;
  char *snapshot; /* NULL: the table; for sqlite3_free, after an error, too */
};
/* value may be NULL, or SQL's NULL; *with is zeros before. */
int ext_nearest_options(const struct ext_options *options, sqlite3_value *value,
                        struct nearest_options *with, char **err);

/* Each file registers its own. */
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
int ext_tvf_backup_register(struct ext_conn *conn);
int ext_tvf_progress_register(struct ext_conn *conn);
int ext_tvf_clients_register(struct ext_conn *conn);
int ext_tvf_pending_register(struct ext_conn *conn);
int ext_tvf_serve_register(struct ext_conn *conn);

#endif
