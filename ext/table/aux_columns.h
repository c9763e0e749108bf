/* SPDX-License-Identifier: MIT
**
** aux_columns.h -- auxiliary columns, declared with a +:
**
**     CREATE VIRTUAL TABLE items USING emb(
**       vector FLOAT[64], +label INTEGER INDEXED, +title TEXT)
**
** STORAGE   Like rtree's auxiliary columns, in a shadow table:
**               CREATE TABLE items_rows(id INTEGER PRIMARY KEY,
**                                       label INTEGER, title TEXT)
**           SQLite commits, rolls back and recovers it together with the row of
**           items_emb, hence with the vectors.  A row of NULLs is not stored.
** TRUTH     A row exists if the store has its vector.  Rows put by functions
**           have no row in items_rows, and read as NULLs.  Rows that functions
**           delete, that expire or are evicted leave theirs behind, invisible.
**           It is removed before its key becomes a row again, or by 'optimize'.
** FILES     aux_declare.c  how CREATE declares them
**           aux_columns.c  the shadow table as a whole
**           aux_rows.c     reading and writing one of its rows
**           aux_left.c     leftovers of rows that are gone
**           aux_where.c    conditions on these columns: the matching keys
**           aux_set.c      the same as a cached set (nearest.c)
*/
#ifndef EMB_EXT_TABLE_AUX_H
#define EMB_EXT_TABLE_AUX_H

#include "table.h"

/* The suffix of the shadow table's name. */
#define EXT_AUX "rows"

/* ---- aux_declare.c ------------------------------------------------------- */

/* Adds `+name type`; takes ownership of name.  rest: the text after it. */
int ext_aux_add(struct ext_options *options, char *name, const char *rest,
                char **err);
/* The number of auxiliary columns with this name. */
int ext_aux_named(const struct ext_options *options, const char *name);
/* Appends `, "name" type` for each. */
void ext_aux_declare(const struct ext_options *options, sqlite3_str *sql);
void ext_aux_clear(struct ext_options *options);

/* The error of a statement on the shadow table.  SQLITE_ERROR means that the
** shadow table is damaged. */
static inline int ext_aux_error(struct ext_table *table, int rc, char **err) {
  return ext_sql_error(err, table->conn->db,
                       rc == SQLITE_ERROR ? SQLITE_CORRUPT_VTAB : rc);
}

/* The number of an auxiliary column, from 0; -1: not an auxiliary column. */
static inline int ext_aux_of(const struct ext_options *options, int column) {
  int i = column - EXT_MORE - (int)ext_vectors(options) + 1;
  return i >= 0 && i < options->aux_count ? i : -1;
}
static inline int ext_aux_at(const struct ext_options *options, int i) {
  return EXT_MORE + (int)ext_vectors(options) - 1 + i;
}
/* Does the table have auxiliary columns? */
static inline int ext_aux_is(const struct ext_table *table) {
  return ext_vtab(table)->options.aux_count > 0;
}

/* ---- aux_columns.c ------------------------------------------------------- */

/* Called for a CREATE (the link is open), a rename and a DROP. */
int ext_aux_create(struct ext_table *table, char **err);
int ext_aux_rename(struct ext_table *table, const char *name, char **err);
int ext_aux_drop(struct ext_table *table, char **err);
/* Deletes rows whose key is not in the table. */
int ext_aux_optimize(struct ext_table *table, char **err);
/* Calls report for the first problem of the shadow table's columns. */
int ext_aux_verify(struct ext_table *table,
                   void (*report)(void *arg, const char *line), void *arg,
                   char **err);

/* ---- aux_rows.c ---------------------------------------------------------- */

/* A table object's prepared statements for these columns; NULL until used. */
struct ext_aux;
/* Finalizes the statements, before a rename; frees everything. */
void ext_aux_forget(struct ext_table *table);
void ext_aux_free(struct ext_table *table);

/* A cursor's position in the shadow table, and its conditions. */
struct ext_aux_scan {
  sqlite3_stmt *row; /* NULL: not prepared yet */
  int state;         /* 0: no position; SQLITE_ROW, SQLITE_DONE: for `key` */
  int64_t key;
  struct ext_aux_where *where; /* NULL: none */
  struct ext_aux_set *set;     /* a reference, or NULL */
};
/* Returns column i of the row as the result. */
int ext_aux_column(struct ext_table *table, struct ext_aux_scan *scan,
                   int64_t key, int i, sqlite3_context *context);
/* Gives up the position, because the cursor moves to another row. */
void ext_aux_reset(struct ext_aux_scan *scan);
static inline void ext_aux_leave(struct ext_aux_scan *scan) {
  if (scan->state)
    ext_aux_reset(scan);
}

/* Make a change of the store and one of the shadow table atomic: make both
** between these two calls; if rc is an error, the store's change is undone.
** *level is passed on to ext_aux_end. */
int ext_aux_begin(struct ext_table *table, int *level, char **err);
int ext_aux_end(struct ext_table *table, int level, int rc, char **err);
/* A statement's values for these columns, owned by SQLite, valid during the
** call. */
struct ext_aux_values {
  sqlite3_value **at; /* aux_count of them */
  int updates;        /* an UPDATE: unset columns stay unchanged, else NULL */
  int given;          /* some are set (UPDATE) or not NULL (INSERT) */
};
/* The values in xUpdate's argv. */
struct ext_aux_values ext_aux_values(struct ext_table *table,
                                     sqlite3_value **argv, int is_insert);
/* SQLITE_ERROR if some are given together with `what`. */
int ext_aux_refuse(struct ext_table *table, const struct ext_aux_values *values,
                   const char *what, char **err);
/* Inserts or replaces the row of a key. */
int ext_aux_insert(struct ext_table *table, const struct ext_aux_values *values,
                   int64_t key, char **err);
/* Applies an UPDATE to a row that changes or keeps its key. */
int ext_aux_update(struct ext_table *table, const struct ext_aux_values *values,
                   int64_t from, int64_t to, char **err);
int ext_aux_delete(struct ext_table *table, int64_t key, char **err);
/* Deletes leftovers of those of n keys that are not rows yet. */
int ext_aux_clean(struct ext_table *table, const int64_t *keys, size_t n,
                  char **err);

/* ---- aux_left.c ---------------------------------------------------------- */

/* Call before a function creates rows: deletes the leftovers of those keys that
** are not rows.  Runs SQL. */
int ext_aux_forget_left(struct ext_table *table, const int64_t *keys, size_t n,
                        char **err);

/* ---- aux_where.c --------------------------------------------------------- */

/* How well a condition narrows the rows. */
enum { EXT_AUX_NONE, EXT_AUX_RANGE, EXT_AUX_IN, EXT_AUX_EQ };
/* The best condition on an indexed column; also NONE if the key is constrained
** by equality or a list. */
int ext_aux_use(const struct ext_options *options, sqlite3_index_info *info);
/* The letter, in the plan, of a comparison that this table evaluates; 0: it is
** left to SQLite. */
char ext_aux_letter(const struct ext_options *options, sqlite3_index_info *info,
                    int i);

/* Adds the condition at *plan and advances *plan past it.  in: the value is a
** list. */
int ext_aux_ask(struct ext_aux_scan *scan, const char **plan,
                sqlite3_value *value, int in);
/* The keys that match all conditions, in ascending order, for sqlite3_free;
** *done = 0: the shadow table cannot answer, scan the table. */
int ext_aux_list(struct ext_table *table, struct ext_aux_scan *scan,
                 int64_t **keys, size_t *n, int *done, char **err);

/* For aux_set.c.  The keys that match or, if *without is set, those that do
** not, in any order. */
int ext_aux_select(struct ext_table *table, const struct ext_aux_where *where,
                   int *without, int64_t **keys, size_t *n, char **err);
int ext_aux_where_equal(const struct ext_aux_where *a,
                        const struct ext_aux_where *b);
void ext_aux_where_free(struct ext_aux_where *where);

/* A table object's cached sets for conditions. */
struct ext_aux_sets {
  sqlite3_stmt *select;      /* the last statement, or NULL */
  uint64_t undone;           /* transactions and savepoints undone so far */
  struct ext_aux_set *first; /* most recently used first */
};
/* Allocated on first use; NULL if memory runs out. */
struct ext_aux_sets *ext_aux_sets_of(struct ext_table *table);

/* ---- aux_set.c ----------------------------------------------------------- */

/* The keys that match the scan's conditions, as a filter that is valid as long
** as the scan holds its set. */
int ext_aux_filter(struct ext_table *table, struct ext_aux_scan *scan,
                   const emb_filter **filter, char **err);
/* Call when a savepoint or the transaction is undone. */
static inline void ext_aux_undone(struct ext_table *table) {
  if (ext_vtab(table)->sets)
    ext_vtab(table)->sets->undone++;
}
/* Frees a table object's sets, before it goes away or is renamed. */
void ext_aux_sets_free(struct ext_table *table);

/* ---- aux_valid.c, only in self-checking builds --------------------------- */

/* A condition, `column op value`. */
struct aux_term {
  int column;
  char op; /* as in the plan, or 'i' for IN */
  sqlite3_value **values;
  int n, room;
};

/* Conditions, all of which must hold. */
struct ext_aux_where {
  struct aux_term *terms;
  int n;
};

/* What the shadow table was when a set was built (aux_set.c). */
struct aux_stamp {
  unsigned data;
  int written;
  uint64_t undone;
};

struct ext_aux_set {
  struct ext_aux_set *next; /* the next less recently used */
  int refs;
  struct aux_stamp stamp;
  struct ext_aux_where *where;
  emb_filter *filter;
};

/* Maximum number of sets of a table object. */
#define EXT_AUX_SETS_MAX 16

int ext_aux_where_valid(const struct ext_options *options,
                        const struct ext_aux_where *where);
int ext_aux_sets_valid(const struct ext_aux_sets *sets);
int ext_aux_scan_valid(const struct ext_aux_scan *scan);

/* ---- aux_set.c ----------------------------------------------------------- */

/* Drop a scan's conditions; the second also finalizes its statement. */
void ext_aux_rewind(struct ext_aux_scan *scan);
void ext_aux_close(struct ext_aux_scan *scan);

#endif
