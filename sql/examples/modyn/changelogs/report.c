/* SPDX-License-Identifier: MIT
**
** report.c -- the results of the replays, as tables and pictures.
**
**   report RESULTS DIRECTORY
**
** RESULTS has the lines that replay and lines.sql printed.  Writes modyn.md,
** a part of ../README.md, and the pictures: data.svg, and for each task
** accuracy-TASK.svg, matrix-TASK.svg and cost-TASK.svg.
*/
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../../lib/chart.h"
#include "../../../lib/heat.h"
#include "../../../lib/results.h"
#include "../../../lib/scatter.h"

/* Years, as labels and as names of results. */
struct years {
  size_t count;
  char **name, **brief, **year; /* 2014, 14, "year 2014" */
};

struct task {
  const char *name, *title;
  double low, high; /* of the matrix's colours, % */
};

static const struct task TASK[] = {
    {"urgency", "Urgency", 0, 100},
    {"closes", "Whether an entry closes a bug", 45, 80},
    {0},
};

/* The names of the combinations on the page. */
static const struct results_row COMBINATION[] = {
    {"once-all", "once, all"},
    {"year-all", "each year, all"},
    {"quarter-all", "each quarter, all"},
    {"drift-all", "on drift, all"},
    {"year-new", "each year, the new"},
    {"year-new-warm", "each year, the new, from the last model"},
    {"year-random", "each year, a fourth at random"},
    {"year-balanced", "each year, a fourth, labels balanced"},
    {"year-loss", "each year, a fourth by loss"},
    {"quarter-last", "each quarter, the last 500"},
    {"amount-last", "each 500 entries, the last 500"},
    {"drift-last", "on drift, the last 500"},
    {"performance-last", "on mistakes, the last 500"},
    {"majority of all years", "no model: majority of all years"},
    {"majority of the last year", "no model: majority of the last year"},
    {0},
};

static FILE *file_new(const char *directory, const char *name) {
  char *file = sqlite3_mprintf("%s/%s", directory, name);
  FILE *out = fopen(file, "w");
  if (!out) {
    die("%s: %s", file, strerror(errno));
  }
  sqlite3_free(file);
  return out;
}

static void file_end(FILE *out) {
  if (ferror(out) || fclose(out)) {
    die("cannot write: %s", strerror(errno));
  }
}

static const char *title_of(const char *combination) {
  const struct results_row *row = COMBINATION;
  while (row->name && strcmp(row->name, combination)) {
    row++;
  }
  return row->name ? row->title : combination;
}

/* ---- years --------------------------------------------------------------- */

/* The years that a SELECT returns. */
static struct years years_read(sqlite3 *db, const char *sql) {
  struct years years = {0};
  sqlite3_stmt *statement = statement_new(db, sql);
  size_t room = (size_t)database_number(db, "SELECT count(*) FROM (%s)", sql);
  years.name = need(room, sizeof(char *));
  years.brief = need(room, sizeof(char *));
  years.year = need(room, sizeof(char *));
  for (size_t i = 0; i < room && statement_step(statement); i++) {
    int year = sqlite3_column_int(statement, 0);
    years.name[i] = sqlite3_mprintf("%d", year);
    years.brief[i] = sqlite3_mprintf("%02d", year % 100);
    years.year[i] = sqlite3_mprintf("year %d", year);
    years.count++;
  }
  sqlite3_finalize(statement);
  return years;
}

static void years_free(struct years *years) {
  for (size_t i = 0; i < years->count; i++) {
    sqlite3_free(years->name[i]);
    sqlite3_free(years->brief[i]);
    sqlite3_free(years->year[i]);
  }
  free(years->name);
  free(years->brief);
  free(years->year);
}

static double percent(sqlite3 *db, const char *example, const char *name,
                      const char *what) {
  struct mean mean = results_mean(db, example, name, what);
  return mean.count ? 100 * mean.value : NAN;
}

/* ---- the data ------------------------------------------------------------ */

static void write_data(FILE *out, sqlite3 *db, const char *directory) {
  static const char *const LABEL[] = {"low", "medium", "high", "closes"};
  static const char *const SERIES[] = {"urgency low", "urgency medium",
                                       "urgency high", "closes a bug"};
  struct years years = years_read(
      db, "SELECT DISTINCT name FROM result WHERE example = 'data' ORDER BY 1");
  struct chart chart = {.title = "Share of a year's entries, %",
                        .x_title = "year",
                        .x = (const char *const *)years.brief,
                        .points = years.count,
                        .from_zero = 1,
                        .count = 4};
  double *share = need(4 * years.count, sizeof(*share));
  for (size_t s = 0; s < 4; s++) {
    chart.series[s].name = SERIES[s];
    chart.series[s].y = share + s * years.count;
    for (size_t i = 0; i < years.count; i++) {
      share[s * years.count + i] = percent(db, "data", years.name[i], LABEL[s]);
    }
  }
  FILE *svg = file_new(directory, "data.svg");
  chart_write(svg, &chart, 1);
  file_end(svg);
  fprintf(
      out, "### The data\n\n%.0f entries of %.0f sources, from %s to %s.",
      results_mean(db, "read", "entries that are not copies", "number").value,
      results_mean(db, "read", "sources", "number").value, years.name[0],
      years.name[years.count - 1]);
  fprintf(out, " By year:\n\n|");
  for (size_t i = 0; i < years.count; i++) {
    fprintf(out, " %s |", years.brief[i]);
  }
  fprintf(out, "\n|");
  for (size_t i = 0; i < years.count; i++) {
    fprintf(out, "--:|");
  }
  fprintf(out, "\n|");
  for (size_t i = 0; i < years.count; i++) {
    fprintf(out, " %.0f |",
            results_mean(db, "data", years.name[i], "entries").value);
  }
  fprintf(out, "\n\n![labels by year](data.svg)\n\n");
  free(share);
  years_free(&years);
}

/* ---- a task -------------------------------------------------------------- */

static void accuracy_chart(sqlite3 *db, const struct task *task,
                           const struct years *years, const char *directory) {
  static const char *const LINE[] = {
      "once-all",     "year-all",
      "year-new",     "year-new-warm",
      "quarter-last", "performance-last",
      "drift-last",   "majority of the last year"};
  enum { LINES = sizeof(LINE) / sizeof(*LINE) };
  struct chart chart = {.title = "Accuracy on the year ahead, %",
                        .x_title = "year",
                        .x = (const char *const *)years->brief,
                        .points = years->count,
                        .count = LINES};
  double *accuracy = need(LINES * years->count, sizeof(*accuracy));
  for (size_t s = 0; s < LINES; s++) {
    double *y = accuracy + s * years->count;
    results_curve(db, task->name, LINE[s], (const char *const *)years->year,
                  years->count, y);
    for (size_t i = 0; i < years->count; i++) {
      y[i] *= 100;
    }
    chart.series[s].name = title_of(LINE[s]);
    chart.series[s].y = y;
  }
  char *name = sqlite3_mprintf("accuracy-%s.svg", task->name);
  FILE *svg = file_new(directory, name);
  chart_write(svg, &chart, 1);
  file_end(svg);
  sqlite3_free(name);
  free(accuracy);
}

/* The models of one combination on the years. */
static double *matrix_of(sqlite3 *db, const struct task *task,
                         const char *combination, const struct years *models,
                         const struct years *years) {
  double *value = need(models->count * years->count, sizeof(*value));
  for (size_t i = 0; i < models->count; i++) {
    for (size_t j = 0; j < years->count; j++) {
      char *what = sqlite3_mprintf("%s on %s", models->name[i], years->name[j]);
      value[i * years->count + j] = percent(db, task->name, combination, what);
      sqlite3_free(what);
    }
  }
  return value;
}

static void matrices(sqlite3 *db, const struct task *task,
                     const struct years *years, const char *directory) {
  static const char *const WHICH[] = {"year-all", "year-new", "year-new-warm"};
  static const char *const TITLE[] = {
      "Accuracy, %: trained on all entries up to the end of a year",
      "Accuracy, %: trained on the entries of one year",
      "Accuracy, %: trained on the entries of one year, from the last model"};
  enum { MATRICES = sizeof(WHICH) / sizeof(*WHICH) };
  struct heat heat[MATRICES];
  double *value[MATRICES];
  struct years models =
      years_read(db, "SELECT DISTINCT substr(what, 1, 4) FROM result"
                     " WHERE what LIKE '____ on ____' ORDER BY 1");
  for (size_t i = 0; i < MATRICES; i++) {
    value[i] = matrix_of(db, task, WHICH[i], &models, years);
    heat[i] = (struct heat){.title = TITLE[i],
                            .row_title = "trained to",
                            .column_title = "evaluated on",
                            .row = (const char *const *)models.name,
                            .column = (const char *const *)years->name,
                            .rows = models.count,
                            .columns = years->count,
                            .value = value[i],
                            .low = task->low,
                            .high = task->high};
  }
  char *name = sqlite3_mprintf("matrix-%s.svg", task->name);
  FILE *svg = file_new(directory, name);
  heat_write(svg, heat, MATRICES);
  file_end(svg);
  sqlite3_free(name);
  for (size_t i = 0; i < MATRICES; i++) {
    free(value[i]);
  }
  years_free(&models);
}

static void costs(sqlite3 *db, const struct task *task, const char *directory) {
  static const char *const WHAT[] = {"trainings", "samples"};
  static const char *const X_TITLE[] = {"trainings",
                                        "samples trained on, an epoch"};
  enum { COUNT = sizeof(COMBINATION) / sizeof(*COMBINATION) - 1 };
  struct scatter_point point[2][COUNT];
  struct scatter scatter[2];
  for (size_t s = 0; s < 2; s++) {
    for (size_t i = 0; i < COUNT; i++) {
      const char *name = COMBINATION[i].name;
      point[s][i] = (struct scatter_point){
          .name = COMBINATION[i].title,
          .x = results_mean(db, task->name, name, WHAT[s]).value,
          .y = percent(db, task->name, name, "years")};
    }
    scatter[s] = (struct scatter){
        .title = "Accuracy on the year ahead, mean of years, %",
        .x_title = X_TITLE[s],
        .count = COUNT,
        .point = point[s]};
  }
  char *name = sqlite3_mprintf("cost-%s.svg", task->name);
  FILE *svg = file_new(directory, name);
  scatter_write(svg, scatter, 2);
  file_end(svg);
  sqlite3_free(name);
}

static void write_task(FILE *out, sqlite3 *db, const struct task *task,
                       const char *directory) {
  static const struct results_column COLUMN[] = {
      {"trainings", "trainings", 1, 0},
      {"samples", "samples trained on", 1, 0},
      {"years", "year ahead, %", 100, 1},
      {"as they come", "two weeks ahead, %", 100, 1},
      {"f1", "F1, two weeks ahead, %", 100, 1},
      {0}};
  struct years years =
      years_read(db, "SELECT DISTINCT substr(what, 6) FROM result"
                     " WHERE what LIKE 'year ____' ORDER BY 1");
  fprintf(out, "### %s\n\n", task->title);
  results_table(out, db, task->name, "trigger, selection", COMBINATION, COLUMN);
  fprintf(out,
          "![accuracy by year](accuracy-%s.svg)\n\n"
          "![accuracy by cost](cost-%s.svg)\n\n"
          "![models by years](matrix-%s.svg)\n\n",
          task->name, task->name, task->name);
  accuracy_chart(db, task, &years, directory);
  costs(db, task, directory);
  matrices(db, task, &years, directory);
  years_free(&years);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    die("usage: report RESULTS DIRECTORY");
  }
  sqlite3 *db = results_read(argv[1]);
  FILE *out = file_new(argv[2], "modyn.md");
  write_data(out, db, argv[2]);
  for (const struct task *task = TASK; task->name; task++) {
    write_task(out, db, task, argv[2]);
  }
  file_end(out);
  database_close(db);
  return 0;
}
