/* SPDX-License-Identifier: MIT
**
** fail_sql.h -- an SQL workload during which something fails, and the
** conditions that must hold afterwards.
**
** TABLES    items holds emb_scale(one, n) where p, an ordinary table, holds n.
**           Each transaction changes both, so a difference is an error.
**           `state` is one number for all of p.
** STEPS     are the statements.  Each scene of them starts from the same
**           database; with LONG all are one scene.  A step that failed is
**           rolled back and, when only memory failed and only once, tried
**           again: then it works, and gives the same result as when nothing
**           fails.
** AFTER     a run the database is closed and reopened: both tables agree, the
**           state is that of the last COMMIT that returned, or of one that
**           failed after it; 'integrity-check' is content; emb_gc finds no
**           table's store to delete; everything that the run took is given
**           back.
*/
#ifndef EMB_FAIL_SQL_H
#define EMB_FAIL_SQL_H

#include "fail_help.h"
#include "sql_help.h"

#define FAIL_ONE "(SELECT one FROM v)"
#define FAIL_STATE "SELECT coalesce(sum(id * 7919 * val % 1000003), 0) FROM p"

enum { FAIL_STEPS = 40 };

struct fail_sql {
  struct failing f;
  char dir[300], base[320], file[320];
  sqlite3 *db;
  int memory;                      /* only memory fails */
  int (*code_is_right)(int code);  /* extended code of a failed step */
  int (*fired)(struct fail_sql *); /* has something failed yet? */
  void (*disarm)(struct fail_sql *);
  /* The n-th call fails, or all from there on; `what` must say which. */
  void (*arm)(struct fail_sql *, uint64_t n, int forever);
  int from, to;                   /* the steps of the scene */
  int again;                      /* a step that failed works then */
  char *wanted[FAIL_STEPS];       /* results when nothing fails */
  int64_t states[FAIL_STEPS + 1]; /* that p may have */
  int state_count;
  int stop;
  char what[200];
};

#define SQL_CHECK(w_, holds_, ...)                                             \
  ((holds_) ? 1 : ((w_)->stop = 1, sql_say((w_), __LINE__, __VA_ARGS__)))

__attribute__((format(printf, 3, 4))) int sql_say(struct fail_sql *w, int line,
                                                  const char *format, ...);

/* Columns and rows of a result, as text. */
struct sql_text {
  char text[2000];
  size_t length;
};

int sql_run(struct fail_sql *w, const char *sql, struct sql_text *out);

int64_t sql_number(struct fail_sql *w, const char *sql);

int sql_open(struct fail_sql *w);

void sql_close(struct fail_sql *w);

void sql_may_be(struct fail_sql *w, int64_t state, int surely);

/* The state of p after the step, as found by the run in which nothing fails. */
extern int64_t sql_after[FAIL_STEPS];

void sql_check_all(struct fail_sql *w);

void sql_run_all(struct fail_sql *w, int learn);

/* For each scene a run in which nothing fails, then one for each call that
** stacks.h chooses: it fails, and in some runs all later ones do, too.  Prints
** for `name` how many `counted` there were. */
void sql_each(struct fail_sql *w, const char *name, const char *counted);

/* The database from which all runs start, and their results. */
struct fail_sql *sql_start(const char *dir);

void sql_end(struct fail_sql *w);

#endif
