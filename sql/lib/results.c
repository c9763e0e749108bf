/* SPDX-License-Identifier: MIT
**
** results.c -- the results that the programs printed; see results.h.
*/
#include "results.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void add_line(sqlite3_stmt *insert, char *line) {
  char *rest = line;
  for (int i = 1; i <= 5; i++) {
    char *field = strsep(&rest, "\t\n");
    if (!field) {
      die("a line of results has less than five fields");
    }
    sqlite3_bind_text(insert, i, field, -1, SQLITE_TRANSIENT);
  }
  statement_step(insert);
  statement_end(insert);
}

sqlite3 *results_read(const char *file) {
  sqlite3 *db = NULL;
  char *line = NULL;
  size_t room = 0;
  FILE *in = fopen(file, "r");
  if (!in || sqlite3_open(":memory:", &db) != SQLITE_OK) {
    die("%s: %s", file, strerror(errno));
  }
  database_run(db, "CREATE TABLE result(example TEXT, seed INTEGER, name TEXT,"
                   " what TEXT, value REAL)");
  sqlite3_stmt *insert =
      statement_new(db, "INSERT INTO result VALUES (?, ?, ?, ?, ?)");
  while (getline(&line, &room, in) > 0) {
    add_line(insert, line);
  }
  sqlite3_finalize(insert);
  free(line);
  fclose(in);
  return db;
}

struct mean results_mean(sqlite3 *db, const char *example, const char *name,
                         const char *what) {
  sqlite3_stmt *statement = statement_new(
      db,
      "WITH v AS (SELECT value, avg(value) OVER () AS mean FROM result"
      "            WHERE (example, name, what) = (?1, ?2, ?3))"
      "SELECT count(*), avg(value),"
      "       sum((value - mean) * (value - mean)) / (count(*) - 1) FROM v");
  sqlite3_bind_text(statement, 1, example, -1, SQLITE_STATIC);
  sqlite3_bind_text(statement, 2, name, -1, SQLITE_STATIC);
  sqlite3_bind_text(statement, 3, what, -1, SQLITE_STATIC);
  statement_step(statement);
  struct mean mean = {.count = sqlite3_column_int(statement, 0),
                      .value = sqlite3_column_double(statement, 1),
                      .deviation = sqrt(sqlite3_column_double(statement, 2))};
  sqlite3_finalize(statement);
  return mean;
}

static void write_cell(FILE *out, struct mean mean,
                       const struct results_column *column) {
  fprintf(out, "|");
  if (mean.count > 0) {
    fprintf(out, " %.*f", column->digits, column->scale * mean.value);
  }
  if (mean.count > 1) {
    fprintf(out, " ± %.*f", column->digits, column->scale * mean.deviation);
  }
  fprintf(out, " ");
}

void results_table(FILE *out, sqlite3 *db, const char *example,
                   const char *head, const struct results_row *rows,
                   const struct results_column *columns) {
  fprintf(out, "| %s ", head);
  for (const struct results_column *c = columns; c->what; c++) {
    fprintf(out, "| %s ", c->title);
  }
  fprintf(out, "| seeds |\n|---|");
  for (const struct results_column *c = columns; c->what; c++) {
    fprintf(out, "--:|");
  }
  fprintf(out, "--:|\n");
  for (; rows->name; rows++) {
    int seeds = 0;
    for (const struct results_column *c = columns; c->what; c++) {
      int count = results_mean(db, example, rows->name, c->what).count;
      seeds = count > seeds ? count : seeds;
    }
    if (seeds == 0) {
      continue;
    }
    fprintf(out, "| %s ", rows->title);
    for (const struct results_column *c = columns; c->what; c++) {
      write_cell(out, results_mean(db, example, rows->name, c->what), c);
    }
    fprintf(out, "| %d |\n", seeds);
  }
  fprintf(out, "\n");
}

void results_curve(sqlite3 *db, const char *example, const char *name,
                   const char *const *whats, size_t count, double *to) {
  for (size_t i = 0; i < count; i++) {
    struct mean mean = results_mean(db, example, name, whats[i]);
    to[i] = mean.count ? mean.value : NAN;
  }
}
