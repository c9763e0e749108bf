/* SPDX-License-Identifier: MIT
**
** wordnet.c -- the value of a staleness bound to a model: the trainer of the
** demo (sql/examples/wordnet/train.c) at several bounds, the same epochs at
** each, with many workers, so that many batches are between their Get and their
** Put.  Triples per second, and the quality of the trained model.
**
** The workers' batches are small and close to each other in the graph, so they
** share many synsets.  A worker that has read a row before another's Put
** overwrites that Put: the update is lost, and the bound limits how many are.
**
** A round is an epoch here: each bound is trained from its first epoch to its
** last in one run, and then tested, one bound after the other.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "bench.h"

enum { BOUNDS = 5, WORKERS = 96, TRIPLES = 512, EPOCHS = 5, EPOCHS_QUICK = 1 };
static const char *const bounds[BOUNDS] = {"0", "4", "16", "80", "none"};
/* The recommended bound is the largest that costs no more than this, in points
** of Hits@10. */
static const double TOLERATED = 0.5;

struct trained {
  double rate[EPOCHS]; /* triples per second */
  double hits10, mrr;  /* percent; 0 .. 1 */
  int epochs;
};

static void shell(const char *command) {
  fflush(stdout);
  int status = system(command);
  if (status) {
    die("status %d: %s", WEXITSTATUS(status), command);
  }
}

static struct trained train(const struct options *options, const char *bound,
                            int epochs) {
  struct trained result = {.hits10 = NAN, .mrr = NAN};
  const char *db = path("%s/bound_%s.db", options->data, bound);
  shell(path("cp '%s/graph.db' '%s'", options->data, db));
  FILE *f = popen(path("'%s' '%s' '%s' --staleness %s --workers %d --triples %d"
                       " --epochs %d",
                       options->trainer, db, options->extension, bound, WORKERS,
                       TRIPLES, epochs),
                  "r");
  char line[256];
  while (f && fgets(line, sizeof(line), f)) {
    int epoch;
    double loss, rate, mrr, hits[3];
    if (sscanf(line, "%d %lf %lf", &epoch, &loss, &rate) == 3 && epoch > 0 &&
        epoch <= EPOCHS) {
      result.rate[epoch - 1] = rate;
      result.epochs = epoch;
    } else if (sscanf(line, " with more digits %lf %lf %lf %lf", &mrr, &hits[0],
                      &hits[1], &hits[2]) == 4) {
      result.mrr = mrr;
      result.hits10 = 100 * hits[2];
    }
  }
  if (!f || pclose(f) || result.epochs != epochs || isnan(result.hits10)) {
    die("bound %s: the trainer failed", bound);
  }
  remove_tree(db);
  remove_tree(path("%s-emb", db));
  return result;
}

static const char *series_of(int k) {
  return strcmp(bounds[k], "none") ? path("bound %s", bounds[k]) : "no bound";
}

static void add_results(struct figure *figure, const struct trained *trained) {
  struct group *rates = figure_group(figure, "Training", "triples/s", NAN);
  struct group *lost =
      figure_group(figure, "Hits@10 lost to bound 0", "points", NAN);
  for (int k = 0; k < BOUNDS; k++) {
    const struct trained *t = &trained[k];
    struct group *rate =
        figure_group(figure, path("speed, %s", bounds[k]), "triples/s", k);
    struct group *hits =
        figure_group(figure, path("Hits@10, %s", bounds[k]), "percent", k);
    for (int i = 0; i < t->epochs; i++) {
      group_add(rates, series_of(k), i, t->rate[i], NULL);
      group_add(rate, "triples/s", i, t->rate[i], NULL);
    }
    group_add(hits, "Hits@10", 0, t->hits10, NULL);
    group_add(lost, series_of(k), 0, trained[0].hits10 - t->hits10, NULL);
  }
  for (int k = 0; k < BOUNDS - 1; k++) {
    group_ratio(rates, series_of(k), series_of(BOUNDS - 1), AT_LEAST, 0);
  }
}

static void recommend(struct figure *figure, const struct trained *trained) {
  int best = 0;
  for (int k = 0; k < BOUNDS; k++) {
    figure_note(figure, "%s: MRR %.3f, Hits@10 %.1f %%", series_of(k),
                trained[k].mrr, trained[k].hits10);
    best = trained[0].hits10 - trained[k].hits10 <= TOLERATED + 1e-9 ? k : best;
  }
  figure_note(figure,
              "recommended: %s, the largest within %.1f points of bound 0 in"
              " Hits@10",
              series_of(best), TOLERATED);
}

void bench_wordnet(const struct options *options) {
  int epochs = options->quick ? EPOCHS_QUICK : EPOCHS;
  struct options epoch_rounds = *options;
  epoch_rounds.rounds = epochs; /* as the head of the figure says */
  struct figure *figure =
      figure_new(&epoch_rounds, "wordnet",
                 "Training on WordNet: speed and quality against the bound");
  figure_steps(figure, "staleness bound");
  figure_note(figure,
              "ComplEx on 354,552 triples of 116,650 synsets, %d epochs at each"
              " bound (a round is an epoch); %d workers, batches of %d triples,"
              " memory a quarter of the table",
              epochs, WORKERS, TRIPLES);
  shell(path("sqlite3 -bail '%s/graph.db' <sql/examples/wordnet/load.sql",
             options->data));
  struct trained trained[BOUNDS];
  for (int k = 0; k < BOUNDS; k++) {
    trained[k] = train(options, bounds[k], epochs);
  }
  add_results(figure, trained);
  recommend(figure, trained);
  figure_done(figure);
}
