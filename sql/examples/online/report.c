/* SPDX-License-Identifier: MIT
**
** report.c -- the experiment's results; see report.h.
*/
#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../lib/chart.h"
#include "../../lib/database.h"

/* Mean and standard deviation of a number over the seeds. */
struct mean {
  double value, deviation;
};

/* The mean of a number of each seed, `stride` doubles apart. */
static struct mean mean_of(const double *first, size_t stride, size_t seeds) {
  struct mean mean = {0, 0};
  for (size_t i = 0; i < seeds; i++) {
    mean.value += first[i * stride] / (double)seeds;
  }
  for (size_t i = 0; i < seeds; i++) {
    double off = first[i * stride] - mean.value;
    mean.deviation += off * off;
  }
  mean.deviation = seeds > 1 ? sqrt(mean.deviation / (double)(seeds - 1)) : 0;
  return mean;
}

/* Writes a mean, with its deviation if there is one. */
static void spread(FILE *out, struct mean mean,
                   const struct settings *settings) {
  fprintf(out, "| %.4f ", mean.value);
  if (settings->seeds > 1) {
    fprintf(out, "± %.4f ", mean.deviation);
  }
}

enum {
  HASHED_STRIDE = sizeof(struct hashed_result) * HASHED / sizeof(double),
  SYNC_STRIDE = sizeof(struct sync_result) * COPIES / sizeof(double),
};
_Static_assert(sizeof(struct hashed_result) % sizeof(double) == 0 &&
                   sizeof(struct sync_result) % sizeof(double) == 0,
               "results are doubles");

static struct mean hashed_mean(const struct settings *settings,
                               const double *first) {
  return mean_of(first, HASHED_STRIDE, settings->seeds);
}

static struct mean sync_mean(const struct settings *settings,
                             const double *first) {
  return mean_of(first, SYNC_STRIDE, settings->seeds);
}

/* ---- tables -------------------------------------------------------------- */

static void hashed_head(FILE *out, const struct settings *settings) {
  fprintf(out,
          "## Collisions\n\n"
          "%u users, %u items; %zu clicks to train on, %zu held back, no"
          " drift; and %d days of %u clicks with drift, scored before they are"
          " trained on.  Mean of the seeds 1 to %zu; \"loss\": of the last "
          "epoch to the"
          " table without collisions, with the standard deviation over seeds."
          "\n\n"
          "| table | users, items that share a row ",
          settings->users, settings->items, settings->train, settings->test,
          DAYS, settings->clicks_per_hour * 24, settings->seeds);
  for (int epoch = 0; epoch < EPOCHS; epoch++) {
    fprintf(out, "| epoch %d ", epoch + 1);
  }
  fprintf(out, "| loss | worse in ");
  for (int day = 0; day < DAYS; day++) {
    fprintf(out, "| day %d ", day + 1);
  }
  fprintf(out, "|\n|---|--:");
  for (int i = 0; i < EPOCHS + 2 + DAYS; i++) {
    fprintf(out, "|--:");
  }
  fprintf(out, "|\n");
}

static void hashed_loss(FILE *out, const struct settings *settings,
                        const struct findings *findings, int size) {
  double loss[SEEDS_MAX];
  size_t worse = 0;
  for (size_t i = 0; i < settings->seeds; i++) {
    loss[i] = findings->hashed[i][0].epoch[EPOCHS - 1] -
              findings->hashed[i][size].epoch[EPOCHS - 1];
    worse += loss[i] > 0;
  }
  struct mean mean = mean_of(loss, 1, settings->seeds);
  if (size > 0) {
    spread(out, mean, settings);
    fprintf(out, "| %zu of %zu ", worse, settings->seeds);
  } else {
    fprintf(out, "| | ");
  }
}

static void hashed_table(FILE *out, const struct settings *settings,
                         const struct findings *findings) {
  const struct hashed_result *first = findings->hashed[0];
  hashed_head(out, settings);
  for (int size = 0; size < HASHED; size++) {
    fprintf(out, "| %s | %.1f %%, %.1f %% ", hashed_name(size),
            100 * hashed_mean(settings, &first[size].collided[0]).value,
            100 * hashed_mean(settings, &first[size].collided[1]).value);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
      fprintf(out, "| %.4f ",
              hashed_mean(settings, &first[size].epoch[epoch]).value);
    }
    hashed_loss(out, settings, findings, size);
    for (int day = 0; day < DAYS; day++) {
      fprintf(out, "| %.4f ",
              hashed_mean(settings, &first[size].day[day]).value);
    }
    fprintf(out, "|\n");
  }
  fprintf(out, "| best possible | ");
  for (int epoch = 0; epoch < EPOCHS; epoch++) {
    fprintf(out, "| %.4f ", hashed_mean(settings, &first[0].best).value);
  }
  fprintf(out, "| | ");
  for (int day = 0; day < DAYS; day++) {
    fprintf(out, "| %.4f ",
            hashed_mean(settings, &first[0].best_day[day]).value);
  }
  fprintf(out, "|\n\n");
}

static void sync_row(FILE *out, const struct settings *settings,
                     const struct findings *findings, int copy) {
  const struct sync_result *first = &findings->sync[0][copy];
  struct mean auc = sync_mean(settings, &first->auc);
  size_t above = 0;
  for (size_t i = 0; copy > 0 && i < settings->seeds; i++) {
    above += findings->sync[i][copy].auc > findings->sync[i][copy - 1].auc;
  }
  fprintf(out, "| %s ", sync_name(copy));
  spread(out, auc, settings);
  if (copy > 0) {
    fprintf(out, "| %zu of %zu ", above, settings->seeds);
  } else {
    fprintf(out, "| ");
  }
  double keys = sync_mean(settings, &first->keys).value;
  double all = mean_of(findings->all_keys, 1, settings->seeds).value;
  if (keys > 0) {
    fprintf(out, "| %.0f | %.0f | %.1f %% | %.0f |\n",
            sync_mean(settings, &first->syncs).value, keys, 100 * keys / all,
            sync_mean(settings, &first->bytes).value / 1000);
  } else {
    fprintf(out, "| | | | |\n");
  }
}

static void sync_table(FILE *out, const struct settings *settings,
                       const struct findings *findings) {
  fprintf(out,
          "## Sync\n\n"
          "The same users and items; %d hours of %u clicks with drift, after"
          " batch training on the %d hours before.  The dense part goes to the "
          "copies every"
          " 24 hours, except where it says else.  Mean of the seeds 1 to %zu; "
          "\"±\":"
          " standard deviation over seeds, which is mostly one between"
          " streams; \"better in\": seeds in which the AUC is above that of the"
          " line before.\n\n"
          "| rows are synced | AUC | better in | syncs | rows in one | of all"
          " | kB in one |\n|---|--:|--:|--:|--:|--:|--:|\n",
          HOURS - WARM_HOURS, settings->clicks_per_hour, WARM_HOURS,
          settings->seeds);
  for (int copy = 0; copy < COPIES; copy++) {
    sync_row(out, settings, findings, copy);
  }
  fprintf(out,
          "| best possible | %.4f | | | | | |\n\n"
          "A whole copy: %.0f rows, %.0f kB.\n",
          mean_of(findings->sync_best, 1, settings->seeds).value,
          mean_of(findings->all_keys, 1, settings->seeds).value,
          mean_of(findings->all_bytes, 1, settings->seeds).value / 1000);
}

static void scale_table(FILE *out, const struct settings *settings,
                        const struct findings *findings) {
  const struct scale_result *scale = &findings->scale;
  fprintf(
      out,
      "\n## A large table\n\n"
      "%u users and %u items, all of them in the tables, and the same %u"
      " clicks an hour.\n\n"
      "| rows are synced | rows in one | of all | kB in one | ms to export |"
      "\n|---|--:|--:|--:|--:|\n",
      settings->many_users, settings->many_items, settings->clicks_per_hour);
  for (int i = 0; i < INTERVALS; i++) {
    fprintf(out, "| %s | %.0f | %.1f %% | %.0f | %.0f |\n", scale_name(i),
            scale->keys[i], 100 * scale->keys[i] / scale->all_keys,
            scale->bytes[i] / 1000, scale->ms[i]);
  }
  fprintf(out, "| a whole copy | %.0f | 100 %% | %.0f | %.0f |\n",
          scale->all_keys, scale->all_bytes / 1000, scale->all_ms);
}

/* ---- charts -------------------------------------------------------------- */

static const char *const *labels(char text[][8], const char **list,
                                 size_t count, int first, int each) {
  for (size_t i = 0; i < count; i++) {
    snprintf(text[i], sizeof(text[i]), "%d", first + each * (int)i);
    list[i] = text[i];
  }
  return list;
}

/* The copies shown in charts: not the one that differs in the dense part. */
static const int CHARTED[] = {0, 1, 2, 3, COPIES - 1};
enum { CHARTED_COUNT = sizeof(CHARTED) / sizeof(CHARTED[0]) };

static void epoch_chart(struct chart *chart, const struct settings *settings,
                        const struct findings *findings) {
  static double epoch[HASHED][EPOCHS];
  for (int i = 0; i < HASHED; i++) {
    chart->series[i].name = hashed_name(i);
    chart->series[i].y = epoch[i];
    for (int e = 0; e < EPOCHS; e++) {
      epoch[i][e] =
          hashed_mean(settings, &findings->hashed[0][i].epoch[e]).value;
    }
  }
}

static void window_chart(struct chart *chart, const struct settings *settings,
                         const struct findings *findings) {
  static double window[CHARTED_COUNT][WINDOWS];
  for (int i = 0; i < CHARTED_COUNT; i++) {
    const struct sync_result *first = &findings->sync[0][CHARTED[i]];
    chart->series[i].name = sync_name(CHARTED[i]);
    chart->series[i].y = window[i];
    for (int w = 0; w < WINDOWS; w++) {
      window[i][w] = sync_mean(settings, &first->window[w]).value;
    }
  }
}

/* AUC and size of the copies that are ever synced, and of the trainer. */
static void sync_charts(const char **copies, double *at, double *size,
                        const struct settings *settings,
                        const struct findings *findings) {
  for (int i = 1; i < CHARTED_COUNT; i++) {
    const struct sync_result *first = &findings->sync[0][CHARTED[i]];
    double kilobytes = sync_mean(settings, &first->bytes).value / 1000;
    copies[i - 1] = sync_name(CHARTED[i]);
    at[i - 1] = sync_mean(settings, &first->auc).value;
    size[i - 1] = kilobytes > 0 ? kilobytes : NAN;
  }
}

static void charts(FILE *out, const struct settings *settings,
                   const struct findings *findings) {
  char epoch_text[EPOCHS][8], window_text[WINDOWS][8];
  const char *epochs[EPOCHS], *windows[WINDOWS], *copies[CHARTED_COUNT - 1];
  double at[CHARTED_COUNT - 1], size[CHARTED_COUNT - 1];
  struct chart chart[4] = {
      {.title = "AUC on clicks held back: tables with and without collisions",
       .x_title = "epoch",
       .x = labels(epoch_text, epochs, EPOCHS, 1, 1),
       .points = EPOCHS,
       .count = HASHED},
      {.title = "AUC of a serving copy, by sync interval of its rows",
       .x_title = "hours",
       .x = labels(window_text, windows, WINDOWS, WINDOW_HOURS, WINDOW_HOURS),
       .points = WINDOWS,
       .count = CHARTED_COUNT},
      {.title = "AUC of the whole stream",
       .x_title = "rows are synced",
       .x = copies,
       .points = CHARTED_COUNT - 1,
       .count = 1,
       .series = {{"AUC", at}}},
      {.title = "Size of a sync",
       .x_title = "rows are synced",
       .x = copies,
       .points = CHARTED_COUNT - 1,
       .count = 1,
       .series = {{"kB in one", size}}}};
  epoch_chart(&chart[0], settings, findings);
  window_chart(&chart[1], settings, findings);
  sync_charts(copies, at, size, settings, findings);
  chart_write(out, chart, 4);
}

/* ---- numbers ------------------------------------------------------------- */

static void line(FILE *out, const char *finding, size_t seed, const char *name,
                 const char *what, double value) {
  fprintf(out, "%s\t%zu\t%s\t%s\t%.6f\n", finding, seed, name, what, value);
}

static void numbers(FILE *out, const struct settings *settings,
                    const struct findings *findings) {
  for (size_t i = 0; i < settings->seeds; i++) {
    char what[16];
    size_t seed = i + 1;
    for (int size = 0; size < HASHED; size++) {
      const struct hashed_result *result = &findings->hashed[i][size];
      const char *name = hashed_name(size);
      for (int e = 0; e < EPOCHS; e++) {
        snprintf(what, sizeof(what), "epoch %d", e + 1);
        line(out, "hashed", seed, name, what, result->epoch[e]);
      }
      for (int d = 0; d < DAYS; d++) {
        snprintf(what, sizeof(what), "day %d", d + 1);
        line(out, "hashed", seed, name, what, result->day[d]);
      }
      line(out, "hashed", seed, name, "best", result->best);
    }
    for (int copy = 0; copy < COPIES; copy++) {
      const struct sync_result *result = &findings->sync[i][copy];
      line(out, "sync", seed, sync_name(copy), "auc", result->auc);
      line(out, "sync", seed, sync_name(copy), "syncs", result->syncs);
      line(out, "sync", seed, sync_name(copy), "rows", result->keys);
      line(out, "sync", seed, sync_name(copy), "bytes", result->bytes);
    }
    line(out, "sync", seed, "all", "rows", findings->all_keys[i]);
    line(out, "sync", seed, "all", "bytes", findings->all_bytes[i]);
    line(out, "sync", seed, "all", "best", findings->sync_best[i]);
  }
  for (int i = 0; i < INTERVALS; i++) {
    line(out, "scale", 1, scale_name(i), "rows", findings->scale.keys[i]);
    line(out, "scale", 1, scale_name(i), "bytes", findings->scale.bytes[i]);
  }
  line(out, "scale", 1, "all", "rows", findings->scale.all_keys);
  line(out, "scale", 1, "all", "bytes", findings->scale.all_bytes);
}

/* ---- files --------------------------------------------------------------- */

typedef void writer(FILE *out, const struct settings *settings,
                    const struct findings *findings);

static void tables(FILE *out, const struct settings *settings,
                   const struct findings *findings) {
  hashed_table(out, settings, findings);
  sync_table(out, settings, findings);
  scale_table(out, settings, findings);
  fprintf(out, "\n![charts](online.svg)\n");
}

static void write_file(const char *directory, const char *name, writer *write,
                       const struct settings *settings,
                       const struct findings *findings) {
  char *file = sqlite3_mprintf("%s/%s", directory, name);
  FILE *out = fopen(file, "w");
  if (out) {
    write(out, settings, findings);
  }
  if (!out || ferror(out) || fclose(out)) {
    die("%s: %s", file, strerror(errno));
  }
  sqlite3_free(file);
}

void report_write(const struct settings *settings,
                  const struct findings *findings, const char *directory) {
  write_file(directory, "online.md", tables, settings, findings);
  write_file(directory, "online.svg", charts, settings, findings);
  write_file(directory, "online.tsv", numbers, settings, findings);
  tables(stdout, settings, findings);
}
