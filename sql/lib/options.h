/* SPDX-License-Identifier: MIT
**
** options.h -- the arguments of the programs, and the lines that they print.
**
**   PROGRAM GRAPH EXTENSION DIRECTORY [--OPTION VALUE] ...
**
** GRAPH is the database that load.sql has made, EXTENSION emb.so, DIRECTORY
** one of the run's own, for its tables.  Progress goes to stderr, and what was
** measured to stdout, a line per number, which the report reads:
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

/* A line of what was measured. */
void print_result(const char *example, uint64_t seed, const char *name,
                  const char *what, double value);

/* A line of progress. */
void print_progress(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

#endif
