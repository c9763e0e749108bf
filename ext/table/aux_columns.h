/* SPDX-License-Identifier: MIT
**
** aux_columns.h -- auxiliary columns:
**
**     CREATE VIRTUAL TABLE items USING emb(
**       vector FLOAT[64], +label INTEGER INDEXED, +title TEXT)
**
** KEPT      As rtree's auxiliary columns, in a shadow table:
**               CREATE TABLE items_rows(id INTEGER PRIMARY KEY,
**                                       label INTEGER, title TEXT)
**           which SQLite commits, rolls back and recovers together with the row
**           of items_emb, so with the vectors.  A row of NULLs needs none.
** TRUTH     A row is there if the store has its vector.  What functions put has
**           no row in items_rows, and reads NULLs; what functions delete, and
**           what expires or is evicted, leaves one, which nothing shows.  It
**           goes before its key is a row again, or with 'optimize'.
** FILES     aux_declare.c  what CREATE says of them
**           aux_columns.c          the shadow table as a whole
**           aux_rows.c     one row of it, read and written
**           aux_left.c     what rows that are gone have left
**           aux_where.c    conditions on these columns: the keys that fit
**           aux_set.c      the same as a set that is kept (nearest.c)
*/
#ifndef EMB_EXT_TABLE_AUX_H
#define EMB_EXT_TABLE_AUX_H

#include "table.h"

/* The shadow table is called so, behind the table's name. */
#define EXT_AUX "rows"

/* ---- aux_declare.c ------------------------------------------------------- */

/* `+name type`: name, which it takes over, and what follows. */
int ext_aux_add(struct ext_options *options, char *name, const char *rest,
                char **err);
/* How many have this name. */
int ext_aux_named(const struct ext_options *options, const char *name);
/* `, "name" type` of each. */
void ext_aux_declare(const struct ext_options *options, sqlite3_str *sql);
void ext_aux_clear(struct ext_options *options);

/* The error of a statement on the shadow table: if that is not as it should be,
** it is damaged. */
static inline int ext_aux_error(struct ext_table *table, int rc, char **err) {
  return ext_sql_error(err, table->conn->db,
                       rc == SQLITE_ERROR ? SQLITE_CORRUPT_VTAB : rc);
}

/* Which of them a column is, from 0; -1: none. */
static inline int ext_aux_of(const struct ext_options *options, int column) {
  int i = column - EXT_MORE - (int)ext_vectors(options) + 1;
  return i >= 0 && i < options->aux_count ? i : -1;
}
static inline int ext_aux_at(const struct ext_options *options, int i) {
  return EXT_MORE + (int)ext_vectors(options) - 1 + i;
}
/* Has the table such columns? */
static inline int ext_aux_is(const struct ext_table *table) {
  return ext_vtab(table)->options.aux_count > 0;
}

/* ---- aux_columns.c ------------------------------------------------------- */

/* Follow CREATE (the link is open), a rename and a DROP. */
int ext_aux_create(struct ext_table *table, char **err);
int ext_aux_rename(struct ext_table *table, const char *name, char **err);
int ext_aux_drop(struct ext_table *table, char **err);
/* Deletes rows whose key is none of the table. */
int ext_aux_optimize(struct ext_table *table, char **err);
/* Calls report with each thing that is wrong. */
int ext_aux_verify(struct ext_table *table,
                   void (*report)(void *arg, const char *line), void *arg,
                   char **err);

/* ---- aux_rows.c ---------------------------------------------------------- */

/* What a table object keeps for these columns; NULL until something is. */
struct ext_aux;
/* Ends its statements, before a rename; and all of it, with the table. */
void ext_aux_forget(struct ext_table *table);
void ext_aux_free(struct ext_table *table);

/* A cursor's place in the shadow table, and what its conditions are. */
struct ext_aux_scan {
  sqlite3_stmt *row; /* NULL: none yet */
  int state;         /* 0: nowhere; SQLITE_ROW, SQLITE_DONE: of `key` */
  int64_t key;
  struct ext_aux_where *where; /* NULL: none */
  struct ext_aux_set *set;     /* a reference, or NULL */
};
/* Column i of a row is the result. */
int ext_aux_column(struct ext_table *table, struct ext_aux_scan *scan,
                   int64_t key, int i, sqlite3_context *context);
/* The cursor goes to another row. */
void ext_aux_reset(struct ext_aux_scan *scan);
static inline void ext_aux_leave(struct ext_aux_scan *scan) {
  if (scan->state)
    ext_aux_reset(scan);
}

/* The store's change and that of the shadow table are one: between these two
** both are made, and if rc is an error the store's is undone.  *level is what
** ext_aux_end gets. */
int ext_aux_begin(struct ext_table *table, int *level, char **err);
int ext_aux_end(struct ext_table *table, int level, int rc, char **err);
/* What a statement says of them: values of SQLite's, as long as the call. */
struct ext_aux_values {
  sqlite3_value **at; /* beside_count of them */
  int updates;        /* what is not set stays as it is, else is NULL */
  int given;          /* some are set, or not NULL */
};
/* Those of xUpdate's argv. */
struct ext_aux_values ext_aux_values(struct ext_table *table,
                                     sqlite3_value **argv, int is_insert);
/* SQLITE_ERROR: some are given, beside `what`. */
int ext_aux_refuse(struct ext_table *table, const struct ext_aux_values *values,
                   const char *what, char **err);
/* The row of a key, new or in place of another. */
int ext_aux_insert(struct ext_table *table, const struct ext_aux_values *values,
                   int64_t key, char **err);
/* What an UPDATE sets, of a row that gets another key or keeps its own. */
int ext_aux_update(struct ext_table *table, const struct ext_aux_values *values,
                   int64_t from, int64_t to, char **err);
int ext_aux_delete(struct ext_table *table, int64_t key, char **err);
/* Of n keys, those that are no row yet begin without. */
int ext_aux_clean(struct ext_table *table, const int64_t *keys, size_t n,
                  char **err);

/* ---- aux_left.c ---------------------------------------------------------- */

/* Before a function makes rows of those keys that are none: what was left of
** earlier ones goes.  It runs SQL. */
int ext_aux_forget_left(struct ext_table *table, const int64_t *keys, size_t n,
                        char **err);

/* ---- aux_where.c --------------------------------------------------------- */

/* How a condition helps to find rows. */
enum { EXT_AUX_NONE, EXT_AUX_RANGE, EXT_AUX_IN, EXT_AUX_EQ };
/* Which is the best that is said of a column with an index; NONE also where the
** key says more. */
int ext_aux_use(const struct ext_options *options, sqlite3_index_info *info);
/* The letter of a comparison that is handed over, behind the column's number;
** 0: it is SQLite's. */
char ext_aux_letter(const struct ext_options *options, sqlite3_index_info *info,
                    int i);

/* One more condition, which *plan is at, and moves behind.  in: the value is a
** list. */
int ext_aux_ask(struct ext_aux_scan *scan, const char **plan,
                sqlite3_value *value, int in);
/* The keys that fit all conditions, in ascending order, for sqlite3_free;
** *done: 0, only the table can tell. */
int ext_aux_list(struct ext_table *table, struct ext_aux_scan *scan,
                 int64_t **keys, size_t *n, int *done, char **err);

/* For aux_set.c.  The keys that fit, or with *without those that do not, in
** any order. */
int ext_aux_select(struct ext_table *table, const struct ext_aux_where *where,
                   int *without, int64_t **keys, size_t *n, char **err);
int ext_aux_where_equal(const struct ext_aux_where *a,
                        const struct ext_aux_where *b);
void ext_aux_where_free(struct ext_aux_where *where);

/* What a table object keeps for conditions. */
struct ext_aux_sets {
  sqlite3_stmt *select;      /* the last one, or NULL */
  uint64_t undone;           /* transactions and savepoints */
  struct ext_aux_set *first; /* the last one that was used */
};
/* NULL without memory. */
struct ext_aux_sets *ext_aux_sets_of(struct ext_table *table);

/* ---- aux_set.c ----------------------------------------------------------- */

/* The keys that fit the scan's conditions, as a filter that lives as long as
** the scan has its set. */
int ext_aux_filter(struct ext_table *table, struct ext_aux_scan *scan,
                   const emb_filter **filter, char **err);
/* A savepoint, or the transaction, is undone. */
static inline void ext_aux_undone(struct ext_table *table) {
  if (ext_vtab(table)->sets)
    ext_vtab(table)->sets->undone++;
}
/* Of the table object, when it goes or gets another name. */
void ext_aux_sets_free(struct ext_table *table);

/* Ends what a scan has asked; and all of it. */
void ext_aux_rewind(struct ext_aux_scan *scan);
void ext_aux_close(struct ext_aux_scan *scan);

#endif
