/* SPDX-License-Identifier: MIT
**
** sql_work.h -- work on ordinary and emb tables in the same transactions, and
** the state that must be found after it was cut off.  Used by power_sql.c,
** kill_sql.c.
**
** Every change of a vector comes with the same change of the ordinary table
** `rows`, and transaction n with row n of `log`.  So the state after a crash
** is good if
**   - log ends no earlier than the last COMMIT that returned, and no later
**     than the last one that was called;
**   - rows is as it was after that transaction when nothing crashed;
**   - each emb table that the schema names agrees with rows.
** No table is in doubt then, whatever the first statement on it was.  Then
** each is written to once more, and passes its integrity check.
*/
#ifndef EMB_SQL_WORK_H
#define EMB_SQL_WORK_H

#include "store_help.h"
#include "sql_help.h"

enum { TXNS = 40, KEYS = 30 };

/* ---- SQL ----------------------------------------------------------------- */

struct mode { /* SQLite's settings */
  const char *journal, *synchronous;
  /* The last acknowledged COMMIT may be undone if it changed only ordinary
  ** tables: in mode DELETE with FULL, SQLite leaves it to the file system
  ** when the removal of its journal becomes durable. */
  int may_undo;
};

/* Where and how the last crash happened, for messages of failures. */
extern const struct mode *work_mode;
extern char work_moment[300];

#define HOLDS(expr, ...) work_holds((expr) ? 1 : 0, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 3, 4))) int work_holds(int it_does, int line,
                                                     const char *format, ...);

int work_run(sqlite3 *db, const char *format, ...);

/* The first column of all rows, with a space after each; free it. */
char *work_ask(sqlite3 *db, const char *format, ...);

int work_number(sqlite3 *db, const char *sql);

sqlite3 *work_open(const char *path, const char *vfs);

/* A value of rows as its vector. */
#define VECTOR "printf('[%%d,%%d,7,%%d]', value, value + 1, key)"

#define ALL_ROWS "SELECT tbl || key || ':' || value FROM rows ORDER BY tbl, key"

/* Compares each emb table with rows. */
void work_compare(sqlite3 *db);

/* ---- the work ------------------------------------------------------------ */

void work_forget(void);

struct work {
  uint64_t random;
  const char *path, *vfs;
  int txns;
  void (*begun)(int n); /* called before a COMMIT, */
  void (*acked)(int n); /* and after it returned */
};

void work_do(struct work *w);

/* ---- the check ----------------------------------------------------------- */

/* Checks that the database takes transactions again. */
void work_go_on(sqlite3 *db, int n);

enum { WORK_FIRST = 12 };
/* The first statement after a crash, NULL: what work_check does; key 99 is
** deleted again. */
extern const char *const work_first[WORK_FIRST];

/* Returns how far the work got; was_read (or NULL) is called before anything
** is written. */
int work_examine(const char *path, const char *vfs, int acked, int begun,
                 const char *first, void (*was_read)(void));

#endif
