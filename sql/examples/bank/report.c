/* SPDX-License-Identifier: MIT
**
** report.c -- the examples' results as tables and charts.
**
**   report RESULTS DIRECTORY
**
** RESULTS has the lines that the programs printed.  Writes bank.md, a part of
** README.md, and a chart for each curve: neighbours.svg, negatives.svg,
** recall.svg.
*/
#include <errno.h>
#include <math.h>
#include <string.h>

#include "../../lib/chart.h"
#include "../../lib/results.h"

enum { COUNTS = 6, SIZES = 5 };
static const char *const NEIGHBOURS[COUNTS] = {"1", "2", "5", "10", "20", "50"};
static const char *const NEGATIVES[SIZES] = {"16", "64", "256", "1024", "4096"};

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

/* ---- neighbours ---------------------------------------------------------- */

static void regularise(FILE *out, sqlite3 *db) {
  static const struct results_row ROW[] = {
      {"none", "no neighbours"},
      {"bank", "5 from the bank, refreshed by the trainer"},
      {"bank, maker", "5 from the bank, refreshed by a knowledge maker"},
      {"trainer", "5 computed in the trainer"},
      {0}};
  static const struct results_column COLUMN[] = {
      {"accuracy", "accuracy, %", 100, 2},
      {"ms per step", "ms per step", 1, 1},
      {"found", "found in the bank, %", 100, 1},
      {0}};
  fprintf(out, "### Neighbours\n\n");
  results_table(out, db, "regularise", "neighbours' embeddings", ROW, COLUMN);
}

/* ---- times --------------------------------------------------------------- */

/* Milliseconds of a step by a number (of neighbours, ...), in several ways. */
struct steps {
  const char *example, *head, *svg;
  const char *const *at; /* the numbers */
  size_t count, ways;
  const char *name[3], *title[3]; /* of the ways */
};

/* Times, with the multiple of the first time of the row in brackets. */
static void times(FILE *out, sqlite3 *db, const struct steps *steps,
                  const char *example) {
  fprintf(out, "| %s ", steps->head);
  for (size_t i = 0; i < steps->count; i++) {
    fprintf(out, "| %s ", steps->at[i]);
  }
  fprintf(out, "|\n|---|");
  for (size_t i = 0; i < steps->count; i++) {
    fprintf(out, "--:|");
  }
  for (size_t way = 0; way < steps->ways; way++) {
    double ms[COUNTS];
    results_curve(db, example, steps->name[way], steps->at, steps->count, ms);
    fprintf(out, "\n| %s ", steps->title[way]);
    for (size_t i = 0; i < steps->count; i++) {
      fprintf(out, "| %.1f (%.2f) ", ms[i], ms[i] / ms[0]);
    }
    fprintf(out, "|");
  }
  fprintf(out, "\n\n");
}

static void steps_chart(sqlite3 *db, const struct steps *steps,
                        const char *directory) {
  double ms[3][COUNTS];
  struct chart chart = {.title = "ms of a training step",
                        .x_title = steps->head,
                        .x = steps->at,
                        .points = steps->count,
                        .from_zero = 1,
                        .count = steps->ways};
  for (size_t way = 0; way < steps->ways; way++) {
    results_curve(db, steps->example, steps->name[way], steps->at, steps->count,
                  ms[way]);
    chart.series[way].name = steps->title[way];
    chart.series[way].y = ms[way];
  }
  FILE *svg = file_new(directory, steps->svg);
  chart_write(svg, &chart, 1);
  file_end(svg);
}

static void write_steps(FILE *out, sqlite3 *db, const struct steps *steps,
                        const char *directory) {
  char *processor = sqlite3_mprintf("%s, processor", steps->example);
  fprintf(out, "Milliseconds of a training step, median, and in brackets as a"
               " multiple of the first:\n\n");
  times(out, db, steps, steps->example);
  fprintf(out, "The part of it in which the trainer computed, and did not wait"
               " for a processor or a process:\n\n");
  times(out, db, steps, processor);
  fprintf(out, "![step time](%s)\n\n", steps->svg);
  steps_chart(db, steps, directory);
  sqlite3_free(processor);
}

static void neighbour_steps(FILE *out, sqlite3 *db, const char *directory) {
  static const struct steps STEPS = {
      .example = "steps",
      .head = "neighbours of each example",
      .svg = "neighbours.svg",
      .at = NEIGHBOURS,
      .count = COUNTS,
      .ways = 3,
      .name = {"bank", "bank, maker at work", "trainer"},
      .title = {"from the bank", "from the bank, a maker at work",
                "computed in the trainer"}};
  write_steps(out, db, &STEPS, directory);
  fprintf(out,
          "Handing over the parameters, %.1f MB, takes the trainer %.1f ms;"
          " the embeddings of all synsets take a knowledge maker %.1f s.\n\n",
          results_mean(db, "steps", "checkpoint", "MB").value,
          results_mean(db, "steps", "checkpoint", "ms").value,
          results_mean(db, "steps", "maker", "seconds for all").value);
}

/* ---- curriculum ---------------------------------------------------------- */

static void mining(FILE *out, sqlite3 *db) {
  static const struct results_row ROW[] = {
      {"given", "as given"},
      {"mined", "mined, the trainer does it all"},
      {"mined, maker", "mined, with a knowledge maker"},
      {"right", "all right"},
      {0}};
  static const struct results_column COLUMN[] = {
      {"accuracy", "accuracy, best epoch, %", 100, 2},
      {"accuracy in the last epoch", "last epoch, %", 100, 2},
      {"mended", "wrong labels mended, %", 100, 1},
      {"spoiled", "right labels spoiled, %", 100, 1},
      {"wrong after", "wrong after, %", 100, 1},
      {"seconds per epoch", "s per epoch", 1, 2},
      {0}};
  fprintf(out, "### Wrong labels\n\n");
  results_table(out, db, "mining", "labels", ROW, COLUMN);
}

static void agreement(FILE *out, sqlite3 *db) {
  static const struct results_row ROW[] = {
      {"few", "the given ones"},           {"inferred", "and inferred ones"},
      {"inferred, round 1", "in round 1"}, {"inferred, round 2", "in round 2"},
      {"inferred, round 3", "in round 3"}, {0}};
  static const struct results_column COLUMN[] = {
      {"accuracy", "accuracy, %", 100, 2},
      {"inferred", "of those without a label inferred, %", 100, 1},
      {"inferred right", "of these right, %", 100, 1},
      {"seconds to infer", "s to infer", 1, 1},
      {0}};
  fprintf(out, "### Missing labels\n\n");
  results_table(out, db, "agreement", "labels", ROW, COLUMN);
}

/* ---- towers -------------------------------------------------------------- */

static void recall_chart(sqlite3 *db, const char *directory) {
  double recall[SIZES];
  struct chart chart = {.title = "Recall@10 of glosses by their lemmas, %",
                        .x_title = "negatives",
                        .x = NEGATIVES,
                        .points = SIZES,
                        .count = 1};
  for (int i = 0; i < SIZES; i++) {
    char name[32];
    sqlite3_snprintf(sizeof(name), name, "bank, %s", NEGATIVES[i]);
    struct mean mean = results_mean(db, "retrieve", name, "recall");
    recall[i] = mean.count ? 100 * mean.value : NAN;
  }
  chart.series[0].name = "from the bank";
  chart.series[0].y = recall;
  FILE *svg = file_new(directory, "recall.svg");
  chart_write(svg, &chart, 1);
  file_end(svg);
}

static void retrieve(FILE *out, sqlite3 *db, const char *directory) {
  static const struct results_row ROW[] = {
      {"bank, 16", "16 from the bank"},
      {"bank, 64", "64 from the bank"},
      {"bank, 256", "256 from the bank"},
      {"bank, 1024", "1,024 from the bank"},
      {"bank, 4096", "4,096 from the bank"},
      {"trainer, 256", "256 computed in the trainer"},
      {0}};
  static const struct results_column COLUMN[] = {
      {"recall", "Recall@10, %", 100, 2}, {"loss", "loss", 1, 2}, {0}};
  static const struct steps STEPS = {
      .example = "retrieve steps",
      .head = "negatives",
      .svg = "negatives.svg",
      .at = NEGATIVES,
      .count = SIZES,
      .ways = 2,
      .name = {"bank", "trainer"},
      .title = {"from the bank", "computed in the trainer"}};
  fprintf(out, "### Negatives\n\n");
  results_table(out, db, "retrieve", "negatives", ROW, COLUMN);
  fprintf(out, "![recall by number of negatives](recall.svg)\n\n");
  recall_chart(db, directory);
  write_steps(out, db, &STEPS, directory);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    die("usage: report RESULTS DIRECTORY");
  }
  sqlite3 *db = results_read(argv[1]);
  FILE *out = file_new(argv[2], "bank.md");
  regularise(out, db);
  neighbour_steps(out, db, argv[2]);
  mining(out, db);
  agreement(out, db);
  retrieve(out, db, argv[2]);
  file_end(out);
  database_close(db);
  return 0;
}
