/* SPDX-License-Identifier: MIT
**
** regularise.c -- semi-supervised learning with a loss that pulls synsets
** towards their neighbours (neighbours.h); section 4.1 of the paper.
**
**   regularise GRAPH EXTENSION DIRECTORY [--OPTION VALUE] ...
**
**     --seed N            (1)
**     --from none|bank|trainer   where neighbours' embeddings come from (bank)
**     --refresh trainer|maker    which process refreshes the bank: the trainer,
**                         with the embeddings that it has computed for a batch,
**                         or a knowledge maker (trainer)
**     --neighbours K      of each example (5)
**     --alpha N           in hundredths (800)
**     --epochs N          over the labelled synsets (12)
**
** One synset in twenty has a label.  A batch has LABELLED of these and,
** unless --from is none, NEAR neighbours of each.  The labels of these
** neighbours are not used.  The trainer computes their embeddings whatever
** --from says, as the paper's footnote requires for some, and they are pulled
** to their own neighbours.  The tested model is the one of the epoch with the
** best accuracy on 2,000 validation synsets; its input is the words of a
** gloss, without neighbours.
*/
#include <stdlib.h>
#include <string.h>

#include "../../lib/clock.h"
#include "../../lib/random.h"
#include "maker.h"
#include "neighbours.h"

enum { LABELLED = 64, NEAR = 3, BATCH = LABELLED * (1 + NEAR) };
enum { CHECKPOINT_STEPS = 50 };
static const double RATE = 0.001;

static const char *const REFRESH[] = {"trainer", "maker", NULL};

struct settings {
  size_t seed, from, refresh, neighbours, alpha, epochs;
};

struct run {
  struct settings settings;
  struct data data;
  struct model model;
  struct table bank;
  struct trainer trainer;
  sqlite3 *db;
  uint64_t random;
  uint32_t *order; /* training synsets: first those with a label */
  size_t labelled;
  int64_t steps;
  double first_loss, last_loss; /* of the epochs */
  float *best;
};

static void draw_labels(struct run *run) {
  run->order = run->data.part[TRAIN];
  run->labelled = run->data.nodes / 20;
  random_shuffle(&run->random, run->order, run->data.part_count[TRAIN]);
}

/* Labelled synsets in the epoch's order, and neighbours of these. */
static size_t draw_batch(struct run *run, size_t first, uint32_t *nodes,
                         uint32_t *class) {
  for (size_t i = 0; i < LABELLED; i++) {
    nodes[i] = run->order[first + i];
    class[i] = run->data.class[nodes[i]];
  }
  if (run->settings.from == NOWHERE) {
    return LABELLED;
  }
  for (size_t i = 0; i < LABELLED; i++) {
    neighbours_draw(&run->data.edges, nodes[i], NEAR, &run->random,
                    nodes + LABELLED + i * NEAR);
  }
  return BATCH;
}

static double train_epoch(struct run *run) {
  uint32_t nodes[BATCH], class[LABELLED];
  double loss = 0;
  size_t batches = run->labelled / LABELLED;
  random_shuffle(&run->random, run->order, run->labelled);
  for (size_t b = 0; b < batches; b++) {
    size_t count = draw_batch(run, b * LABELLED, nodes, class);
    loss += trainer_step(&run->trainer, nodes, class, LABELLED, count);
    run->steps++;
    if (run->settings.refresh && run->steps % CHECKPOINT_STEPS == 0) {
      checkpoint_write(run->db, &run->model, run->steps);
    }
  }
  return loss / (double)batches;
}

static double accuracy(struct run *run, enum part part) {
  return model_accuracy(&run->model, &run->data, run->data.part[part],
                        run->data.part_count[part]);
}

/* Trains; afterwards the model is that of the best epoch. */
static double train(struct run *run) {
  double best = -1, spent = 0;
  for (size_t epoch = 0; epoch < run->settings.epochs; epoch++) {
    double start = seconds();
    double loss = train_epoch(run);
    run->first_loss = epoch ? run->first_loss : loss;
    run->last_loss = loss;
    spent += seconds() - start;
    double valid = accuracy(run, VALID);
    if (valid > best) {
      best = valid;
      model_save(&run->model, run->best);
    }
    print_progress("  regularise %s, seed %zu: epoch %zu of %zu, loss %.3f,"
                   " accuracy %.3f",
                   SOURCES[run->settings.from], run->settings.seed, epoch + 1,
                   run->settings.epochs, loss, valid);
  }
  model_load(&run->model, run->best);
  return spent;
}

static void report(struct run *run, double spent) {
  char name[64];
  const struct settings *settings = &run->settings;
  int bank = settings->from == FROM_BANK;
  sqlite3_snprintf(sizeof(name), name, "%s%s", SOURCES[settings->from],
                   bank && settings->refresh ? ", maker" : "");
  print_result("regularise", settings->seed, name, "accuracy",
               accuracy(run, TEST));
  print_result("regularise", settings->seed, name, "loss in the first epoch",
               run->first_loss);
  print_result("regularise", settings->seed, name, "loss in the last epoch",
               run->last_loss);
  print_result("regularise", settings->seed, name, "ms per step",
               1000 * spent / (double)run->steps);
  if (bank) {
    print_result("regularise", settings->seed, name, "found",
                 run->trainer.looked_up / run->trainer.sought);
  }
}

static void begin(struct run *run, const struct options *options) {
  run->random = run->settings.seed;
  data_read(&run->data, options->graph);
  model_new(&run->model, &run->data, run->settings.seed);
  run->best = need(model_floats(&run->model), sizeof(float));
  run->db = bank_make(options, EMBEDDINGS);
  table_open(&run->bank, run->db, "bank", EMBEDDING);
  draw_labels(run);
  run->trainer = (struct trainer){.data = &run->data,
                                  .model = &run->model,
                                  .bank = &run->bank,
                                  .source = (enum source)run->settings.from,
                                  .k = run->settings.neighbours,
                                  .alpha = (float)run->settings.alpha / 100,
                                  .rate = RATE,
                                  .puts = run->settings.from == FROM_BANK &&
                                          !run->settings.refresh,
                                  .random = run->settings.seed + 1000};
}

static void end(struct run *run) {
  table_close(&run->bank);
  database_close(run->db);
  trainer_free(&run->trainer);
  model_free(&run->model);
  data_free(&run->data);
  free(run->best);
}

int main(int argc, char **argv) {
  struct options options;
  static struct run run = {.settings = {.seed = 1,
                                        .from = FROM_BANK,
                                        .neighbours = 5,
                                        .alpha = 800,
                                        .epochs = 12}};
  struct settings *settings = &run.settings;
  struct option list[] = {{"seed", &settings->seed, NULL},
                          {"from", &settings->from, SOURCES},
                          {"refresh", &settings->refresh, REFRESH},
                          {"neighbours", &settings->neighbours, NULL},
                          {"alpha", &settings->alpha, NULL},
                          {"epochs", &settings->epochs, NULL},
                          {0}};
  options_parse(&options, list, argc, argv);
  block_one_thread();
  begin(&run, &options);
  pid_t maker = 0;
  if (settings->refresh) {
    checkpoint_write(run.db, &run.model, 1);
    maker = maker_start(&options, EMBEDDINGS);
    maker_wait(run.db, run.data.nodes);
  }
  double spent = train(&run);
  if (maker) {
    maker_end(run.db, maker);
  }
  report(&run, spent);
  end(&run);
  return 0;
}
