/* SPDX-License-Identifier: MIT
**
** beside.h -- columns beside the vector:
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
** FILES     beside_declare.c  what CREATE says of them
**           beside.c          the shadow table as a whole
**           beside_rows.c     one row of it, read and written
**           beside_left.c     what rows that are gone have left
**           beside_where.c    conditions on these columns: the keys that fit
**           beside_set.c      the same as a set that is kept (nearest.c)
*/
#ifndef EMB_EXT_TABLE_BESIDE_H
#define EMB_EXT_TABLE_BESIDE_H

#include "table.h"

/* The shadow table is called so, behind the table's name. */
#define EXT_BESIDE "rows"

/* ---- beside_declare.c ---------------------------------------------------- */

/* `+name type`: name, which it takes over, and what follows. */
int ext_beside_add(struct ext_options *options, char *name, const char *rest,
                   char **err);
/* How many have this name. */
int ext_beside_named(const struct ext_options *options, const char *name);
/* `, "name" type` of each. */
void ext_beside_declare(const struct ext_options *options, sqlite3_str *sql);
void ext_beside_clear(struct ext_options *options);

/* The error of a statement on the shadow table: if that is not as it should be,
** it is damaged. */
static inline int ext_beside_error(struct ext_table *table, int rc,
                                   char **err) {
  return ext_sql_error(err, table->conn->db,
                       rc == SQLITE_ERROR ? SQLITE_CORRUPT_VTAB : rc);
}

/* Which of them a column is, from 0; -1: none. */
static inline int ext_beside_of(const struct ext_options *options, int column) {
  int i = column - EXT_MORE - (int)ext_vectors(options) + 1;
  return i >= 0 && i < options->beside_count ? i : -1;
}
static inline int ext_beside_at(const struct ext_options *options, int i) {
  return EXT_MORE + (int)ext_vectors(options) - 1 + i;
}
/* Has the table such columns? */
static inline int ext_beside_is(const struct ext_table *table) {
  return ext_vtab(table)->options.beside_count > 0;
}

/* ---- beside.c ------------------------------------------------------------ */

/* Follow CREATE (the link is open), a rename and a DROP. */
int ext_beside_create(struct ext_table *table, char **err);
int ext_beside_rename(struct ext_table *table, const char *name, char **err);
int ext_beside_drop(struct ext_table *table, char **err);
/* Deletes rows whose key is none of the table. */
int ext_beside_optimize(struct ext_table *table, char **err);
/* Calls report with each thing that is wrong. */
int ext_beside_verify(struct ext_table *table,
                      void (*report)(void *arg, const char *line), void *arg,
                      char **err);

/* ---- beside_rows.c ------------------------------------------------------- */

/* What a table object keeps for these columns; NULL until something is. */
struct ext_beside;
/* Ends its statements, before a rename; and all of it, with the table. */
void ext_beside_forget(struct ext_table *table);
void ext_beside_free(struct ext_table *table);

/* A cursor's place in the shadow table, and what its conditions are. */
struct ext_beside_scan {
  sqlite3_stmt *row; /* NULL: none yet */
  int state;         /* 0: nowhere; SQLITE_ROW, SQLITE_DONE: of `key` */
  int64_t key;
  struct ext_beside_where *where; /* NULL: none */
  struct ext_beside_set *set;     /* a reference, or NULL */
};
/* Column i of a row is the result. */
int ext_beside_column(struct ext_table *table, struct ext_beside_scan *scan,
                      int64_t key, int i, sqlite3_context *context);
/* The cursor goes to another row. */
void ext_beside_reset(struct ext_beside_scan *scan);
static inline void ext_beside_leave(struct ext_beside_scan *scan) {
  if (scan->state)
    ext_beside_reset(scan);
}

/* The store's change and that of the shadow table are one: between these two
** both are made, and if rc is an error the store's is undone.  *level is what
** ext_beside_end gets. */
int ext_beside_begin(struct ext_table *table, int *level, char **err);
int ext_beside_end(struct ext_table *table, int level, int rc, char **err);
/* What a statement says of them: values of SQLite's, as long as the call. */
struct ext_beside_values {
  sqlite3_value **at; /* beside_count of them */
  int updates;        /* what is not set stays as it is, else is NULL */
  int given;          /* some are set, or not NULL */
};
/* Those of xUpdate's argv. */
struct ext_beside_values ext_beside_values(struct ext_table *table,
                                           sqlite3_value **argv, int is_insert);
/* SQLITE_ERROR: some are given, beside `what`. */
int ext_beside_refuse(struct ext_table *table,
                      const struct ext_beside_values *values, const char *what,
                      char **err);
/* The row of a key, new or in place of another. */
int ext_beside_insert(struct ext_table *table,
                      const struct ext_beside_values *values, int64_t key,
                      char **err);
/* What an UPDATE sets, of a row that gets another key or keeps its own. */
int ext_beside_update(struct ext_table *table,
                      const struct ext_beside_values *values, int64_t from,
                      int64_t to, char **err);
int ext_beside_delete(struct ext_table *table, int64_t key, char **err);
/* Of n keys, those that are no row yet begin without. */
int ext_beside_clean(struct ext_table *table, const int64_t *keys, size_t n,
                     char **err);

/* ---- beside_left.c ------------------------------------------------------- */

/* Before a function makes rows of those keys that are none: what was left of
** earlier ones goes.  It runs SQL. */
int ext_beside_forget_left(struct ext_table *table, const int64_t *keys,
                           size_t n, char **err);

/* ---- beside_where.c ------------------------------------------------------ */

/* How a condition helps to find rows. */
enum { EXT_BESIDE_NONE, EXT_BESIDE_RANGE, EXT_BESIDE_IN, EXT_BESIDE_EQ };
/* Which is the best that is said of a column with an index; NONE also where the
** key says more. */
int ext_beside_use(const struct ext_options *options, sqlite3_index_info *info);
/* The letter of a comparison that is handed over, behind the column's number;
** 0: it is SQLite's. */
char ext_beside_letter(const struct ext_options *options,
                       sqlite3_index_info *info, int i);

/* One more condition, which *plan is at, and moves behind.  in: the value is a
** list. */
int ext_beside_ask(struct ext_beside_scan *scan, const char **plan,
                   sqlite3_value *value, int in);
/* The keys that fit all conditions, in ascending order, for sqlite3_free;
** *done: 0, only the table can tell. */
int ext_beside_list(struct ext_table *table, struct ext_beside_scan *scan,
                    int64_t **keys, size_t *n, int *done, char **err);

/* For beside_set.c.  The keys that fit, or with *without those that do not, in
** any order. */
int ext_beside_select(struct ext_table *table,
                      const struct ext_beside_where *where, int *without,
                      int64_t **keys, size_t *n, char **err);
int ext_beside_where_equal(const struct ext_beside_where *a,
                           const struct ext_beside_where *b);
void ext_beside_where_free(struct ext_beside_where *where);

/* What a table object keeps for conditions. */
struct ext_beside_sets {
  sqlite3_stmt *select;         /* the last one, or NULL */
  uint64_t undone;              /* transactions and savepoints */
  struct ext_beside_set *first; /* the last one that was used */
};
/* NULL without memory. */
struct ext_beside_sets *ext_beside_sets_of(struct ext_table *table);

/* ---- beside_set.c -------------------------------------------------------- */

/* The keys that fit the scan's conditions, as a filter that lives as long as
** the scan has its set. */
int ext_beside_filter(struct ext_table *table, struct ext_beside_scan *scan,
                      const emb_filter **filter, char **err);
/* A savepoint, or the transaction, is undone. */
static inline void ext_beside_undone(struct ext_table *table) {
  if (ext_vtab(table)->sets)
    ext_vtab(table)->sets->undone++;
}
/* Of the table object, when it goes or gets another name. */
void ext_beside_sets_free(struct ext_table *table);

/* Ends what a scan has asked; and all of it. */
void ext_beside_rewind(struct ext_beside_scan *scan);
void ext_beside_close(struct ext_beside_scan *scan);

#endif
