/* SPDX-License-Identifier: MIT
**
** report.c -- what the examples found, as tables and charts.
**
**   report RESULTS DIRECTORY
**
** RESULTS are the lines that the programs have printed.  Writes bank.md, a part
** of README.md, and a chart for each curve: neighbours.svg, negatives.svg,
** recall.svg.
*/
#include <errno.h>
#include <math.h>
#include <string.h>

#include "../lib/chart.h"
#include "../lib/results.h"

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

/* ---- neighbours -------------------------------------------------------- */

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

/* A table of times, and after each the ratio to the first of its row. */
static void times(FILE *out, const char *head, const char *const *at,
                  size_t count, const char *const *title,
                  double curves[][COUNTS], size_t ways) {
  fprintf(out, "| %s ", head);
  for (size_t i = 0; i < count; i++) {
    fprintf(out, "| %s ", at[i]);
  }
  fprintf(out, "|\n|---|");
  for (size_t i = 0; i < count; i++) {
    fprintf(out, "--:|");
  }
  for (size_t way = 0; way < ways; way++) {
    fprintf(out, "\n| %s ", title[way]);
    for (size_t i = 0; i < count; i++) {
      fprintf(out, "| %.1f (%.2f) ", curves[way][i],
              curves[way][i] / curves[way][0]);
    }
    fprintf(out, "|");
  }
  fprintf(out, "\n\n");
}

/* The same of the time in which the trainer's thread computed. */
static void processor_times(FILE *out, sqlite3 *db, const char *example,
                            const char *head, const char *const *at,
                            size_t count, const char *const *name,
                            const char *const *title, size_t ways) {
  double curve[3][COUNTS];
  for (size_t way = 0; way < ways; way++) {
    results_curve(db, example, name[way], at, count, curve[way]);
  }
  fprintf(out, "Of that, in which the trainer computed and did not wait for a"
               " processor or another process:\n\n");
  times(out, head, at, count, title, curve, ways);
}

static void steps(FILE *out, sqlite3 *db, const char *directory) {
  static const char *const NAME[] = {"bank", "bank, maker at work", "trainer"};
  static const char *const TITLE[] = {"from the bank",
                                      "from the bank, a maker at work",
                                      "computed in the trainer"};
  double curve[3][COUNTS];
  struct chart chart = {.title = "ms of a training step",
                        .x_title = "neighbours of each example",
                        .x = NEIGHBOURS,
                        .points = COUNTS,
                        .from_zero = 1,
                        .count = 3};
  for (int i = 0; i < 3; i++) {
    results_curve(db, "steps", NAME[i], NEIGHBOURS, COUNTS, curve[i]);
    chart.series[i].name = TITLE[i];
    chart.series[i].y = curve[i];
  }
  fprintf(out,
          "Milliseconds of a training step, and as a multiple of that with one"
          " neighbour:\n\n");
  times(out, "neighbours of each example", NEIGHBOURS, COUNTS, TITLE, curve, 3);
  processor_times(out, db, "steps, processor", "neighbours of each example",
                  NEIGHBOURS, COUNTS, NAME, TITLE, 3);
  fprintf(out,
          "Handing over the parameters, %.1f MB, takes the trainer %.1f ms; "
          "the embeddings of all synsets take a knowledge maker %.1f s.\n\n"
          "![step time by number of neighbours](neighbours.svg)\n\n",
          results_mean(db, "steps", "checkpoint", "MB").value,
          results_mean(db, "steps", "checkpoint", "ms").value,
          results_mean(db, "steps", "maker", "seconds for all").value);
  FILE *svg = file_new(directory, "neighbours.svg");
  chart_write(svg, &chart, 1);
  file_end(svg);
}

/* ---- curriculum -------------------------------------------------------- */

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

/* ---- towers ------------------------------------------------------------ */

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
  static const char *const NAME[] = {"bank", "trainer"};
  static const char *const TITLE[] = {"from the bank",
                                      "computed in the trainer"};
  double curve[2][COUNTS];
  struct chart chart = {.title = "ms of a training step",
                        .x_title = "negatives",
                        .x = NEGATIVES,
                        .points = SIZES,
                        .from_zero = 1,
                        .count = 2};
  fprintf(out, "### Negatives\n\n");
  results_table(out, db, "retrieve", "negatives", ROW, COLUMN);
  for (int i = 0; i < 2; i++) {
    results_curve(db, "retrieve steps", NAME[i], NEGATIVES, SIZES, curve[i]);
    chart.series[i].name = TITLE[i];
    chart.series[i].y = curve[i];
  }
  fprintf(out, "Milliseconds of a training step, and as a multiple of that with"
               " 16 negatives:\n\n");
  times(out, "negatives", NEGATIVES, SIZES, TITLE, curve, 2);
  processor_times(out, db, "retrieve steps, processor", "negatives", NEGATIVES,
                  SIZES, NAME, TITLE, 2);
  fprintf(out, "![recall by number of negatives](recall.svg)\n\n"
               "![step time by number of negatives](negatives.svg)\n");
  FILE *svg = file_new(directory, "negatives.svg");
  chart_write(svg, &chart, 1);
  file_end(svg);
  recall_chart(db, directory);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    die("usage: report RESULTS DIRECTORY");
  }
  sqlite3 *db = results_read(argv[1]);
  FILE *out = file_new(argv[2], "bank.md");
  regularise(out, db);
  steps(out, db, argv[2]);
  mining(out, db);
  agreement(out, db);
  retrieve(out, db, argv[2]);
  file_end(out);
  database_close(db);
  return 0;
}
