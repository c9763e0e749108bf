/* SPDX-License-Identifier: MIT
**
** options.h -- the arguments of the programs, and the lines that they print.
**
**   PROGRAM GRAPH EXTENSION DIRECTORY [--OPTION VALUE] ...
**
** GRAPH is the database made by load.sql, EXTENSION is emb.so, and DIRECTORY
** is the run's own directory for its tables.  Progress goes to stderr, and
** results go to stdout, a line per number, which the report reads:
**
**   example  seed  name  what  value        with tabs between them
*/
#ifndef LIB_OPTIONS_H
#define LIB_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

struct options {
  const char *graph, *extension, *directory;
};

/* An option is a number, or one of the words, whose position is the number. */
struct option {
  const char *name; /* NULL: the end of the list */
  size_t *number;
  const char *const *words; /* up to NULL */
};

void options_parse(struct options *options, const struct option *list, int argc,
                   char **argv);

/* Prints a result line. */
void print_result(const char *example, uint64_t seed, const char *name,
                  const char *what, double value);

/* Prints a line of progress. */
void print_progress(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

#endif
