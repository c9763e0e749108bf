/* SPDX-License-Identifier: MIT
**
** results.h -- the result lines that the programs printed (options.h), and
** tables and curves made from them.
*/
#ifndef LIB_RESULTS_H
#define LIB_RESULTS_H

#include <stdio.h>

#include "database.h"

/* Reads a file of result lines into an in-memory database, table `result`. */
sqlite3 *results_read(const char *file);

/* Mean and standard deviation over the seeds; count: of seeds, 0: none. */
struct mean {
  double value, deviation;
  int count;
};
struct mean results_mean(sqlite3 *db, const char *example, const char *name,
                         const char *what);

struct results_row {
  const char *name, *title; /* NULL: the end */
};
struct results_column {
  const char *what, *title; /* NULL: the end */
  double scale;
  int digits;
};

/* A table in Markdown: mean, and deviation if there are several seeds.  A cell
** without a measurement is empty; a row without any is left out. */
void results_table(FILE *out, sqlite3 *db, const char *example,
                   const char *head, const struct results_row *rows,
                   const struct results_column *columns);

/* The values of one name for several `whats`; NAN if there is none. */
void results_curve(sqlite3 *db, const char *example, const char *name,
                   const char *const *whats, size_t count, double *to);

#endif
