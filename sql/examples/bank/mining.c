/* SPDX-License-Identifier: MIT
**
** mining.c -- online label mining: three labels in ten are wrong, and a bank
** holds the model's beliefs; section 4.2.1 of the paper.
**
**   mining GRAPH EXTENSION DIRECTORY [--OPTION VALUE] ...
**
**     --seed N            (1)
**     --labels given|right|mined   the labels to train on (mined)
**     --by trainer|maker  which process predicts the classes: the trainer,
**                         after each epoch, or a knowledge maker
**     --epochs N          (7)
**     --share N           of the training synsets, in hundredths (40)
**
** A row of the bank is a running mean of the class probabilities that the
** model predicted for a synset.  From epoch WARM on, the trainer looks up the
** row of each synset of a batch, and if the likeliest class is more than MUCH
** times as likely as the given one, it trains on the likeliest.
*/
#include <stdlib.h>
#include <string.h>

#include "../../lib/clock.h"
#include "../../lib/random.h"
#include "../../lib/neural/loss.h"
#include "maker.h"

enum { BATCH = 256, WARM = 2, WRONG = 30, CHECKPOINT_STEPS = 50 };
static const double RATE = 0.001;

/* A model that was trained on labels where every class occurs among the wrong
** ones is never sure that a class is not the given one.  By Bayes' rule 103
** would be enough if the model knew the truth, but 103 corrected only a third
** of the labels that 20 corrects.  With 10, half of the changed labels had been
** right (figures of one seed, by accuracy in validation).
*/
static const float MUCH = 20;

static const char *const LABELS[] = {"given", "right", "mined", NULL};
static const char *const BY[] = {"trainer", "maker", NULL};
enum labels { GIVEN, RIGHT, MINED };

struct settings {
  size_t seed, labels, by, epochs, share;
};

struct run {
  struct settings settings;
  struct data data;
  struct model model;
  struct maker maker; /* its bank is the trainer's, too */
  sqlite3 *db;
  uint64_t random;
  uint32_t *order, *given; /* synsets to train on; the given class of a node */
  size_t count;
  float *best, *gradient;
  int64_t steps;
};

static void spoil_labels(struct run *run) {
  run->order = run->data.part[TRAIN];
  random_shuffle(&run->random, run->order, run->data.part_count[TRAIN]);
  run->count = run->data.part_count[TRAIN] * run->settings.share / 100;
  memcpy(run->given, run->data.class, run->data.nodes * sizeof(uint32_t));
  for (size_t i = 0; run->settings.labels != RIGHT && i < run->count; i++) {
    uint32_t *class = &run->given[run->order[i]];
    if (random_below(&run->random, 100) < WRONG) {
      *class =
          (uint32_t)((*class + 1 + random_below(&run->random, CLASSES - 1)) %
                     CLASSES);
    }
  }
}

/* The classes that a batch is trained on. */
static void labels_of(struct run *run, const uint32_t *nodes, size_t count,
                      int mine, uint32_t *class) {
  int64_t keys[BATCH];
  const uint8_t *found;
  for (size_t i = 0; i < count; i++) {
    class[i] = run->given[nodes[i]];
  }
  if (!mine) {
    return;
  }
  data_keys(&run->data, nodes, count, keys);
  const float *belief = table_find(&run->maker.bank, keys, count, &found);
  for (size_t i = 0; i < count; i++) {
    const float *row = belief + i * CLASSES;
    uint32_t likely = loss_argmax(row, CLASSES);
    if (found[i] && row[likely] > MUCH * row[class[i]]) {
      class[i] = likely;
    }
  }
  table_find_end(&run->maker.bank);
}

static double train_epoch(struct run *run, int mine) {
  uint32_t class[BATCH];
  double loss = 0;
  size_t batches = run->count / BATCH;
  random_shuffle(&run->random, run->order, run->count);
  for (size_t b = 0; b < batches; b++) {
    const uint32_t *nodes = run->order + b * BATCH;
    labels_of(run, nodes, BATCH, mine, class);
    model_embed(&run->model, &run->data, nodes, BATCH);
    loss += model_loss(&run->model, class, BATCH, run->gradient);
    model_step(&run->model, run->gradient, RATE);
    if (run->settings.by && ++run->steps % CHECKPOINT_STEPS == 0) {
      checkpoint_write(run->db, &run->model, run->steps);
    }
  }
  return loss / (double)batches;
}

static double accuracy(struct run *run, enum part part) {
  return model_accuracy(&run->model, &run->data, run->data.part[part],
                        run->data.part_count[part]);
}

/* Seconds that the trainer was busy. */
static double train(struct run *run) {
  const struct settings *settings = &run->settings;
  double best = -1, spent = 0;
  for (size_t epoch = 0; epoch < settings->epochs; epoch++) {
    double start = seconds();
    int mine = settings->labels == MINED && epoch >= WARM;
    double loss = train_epoch(run, mine);
    if (settings->labels == MINED && !settings->by) {
      maker_refresh(&run->maker, run->order, run->count);
    }
    spent += seconds() - start;
    double valid = accuracy(run, VALID);
    if (valid > best) {
      best = valid;
      model_save(&run->model, run->best);
    }
    print_progress("  mining %s, seed %zu: epoch %zu of %zu, loss %.3f,"
                   " accuracy %.3f",
                   LABELS[settings->labels], settings->seed, epoch + 1,
                   settings->epochs, loss, valid);
  }
  return spent;
}

/* Counts the labels that were corrected and spoiled. */
static void report_labels(struct run *run, const char *name) {
  size_t wrong = 0, mended = 0, right = 0, spoiled = 0;
  uint32_t class[BATCH];
  for (size_t first = 0; first + BATCH <= run->count; first += BATCH) {
    const uint32_t *nodes = run->order + first;
    labels_of(run, nodes, BATCH, 1, class);
    for (size_t i = 0; i < BATCH; i++) {
      uint32_t truth = run->data.class[nodes[i]];
      if (run->given[nodes[i]] == truth) {
        right++;
        spoiled += class[i] != truth;
      } else {
        wrong++;
        mended += class[i] == truth;
      }
    }
  }
  print_result("mining", run->settings.seed, name, "mended",
               (double)mended / (double)wrong);
  print_result("mining", run->settings.seed, name, "spoiled",
               (double)spoiled / (double)right);
  print_result("mining", run->settings.seed, name, "wrong before",
               (double)wrong / (double)(wrong + right));
  print_result("mining", run->settings.seed, name, "wrong after",
               (double)(wrong - mended + spoiled) / (double)(wrong + right));
}

static void report(struct run *run, double spent) {
  const struct settings *settings = &run->settings;
  char name[64];
  sqlite3_snprintf(sizeof(name), name, "%s%s", LABELS[settings->labels],
                   settings->by ? ", maker" : "");
  if (settings->labels == MINED) {
    report_labels(run, name);
  }
  print_result("mining", settings->seed, name, "accuracy in the last epoch",
               accuracy(run, TEST));
  model_load(&run->model, run->best);
  print_result("mining", settings->seed, name, "accuracy", accuracy(run, TEST));
  print_result("mining", settings->seed, name, "seconds per epoch",
               spent / (double)settings->epochs);
}

static void begin(struct run *run, const struct options *options) {
  run->random = run->settings.seed;
  data_read(&run->data, options->graph);
  model_new(&run->model, &run->data, run->settings.seed);
  run->db = bank_make(options, BELIEFS);
  maker_new(&run->maker, run->db, BELIEFS, &run->data, &run->model);
  run->given = need(run->data.nodes, sizeof(uint32_t));
  run->best = need(model_floats(&run->model), sizeof(float));
  run->gradient = need(BATCH * EMBEDDING, sizeof(float));
  spoil_labels(run);
}

static void end(struct run *run) {
  maker_free(&run->maker);
  database_close(run->db);
  model_free(&run->model);
  data_free(&run->data);
  free(run->given);
  free(run->best);
  free(run->gradient);
}

int main(int argc, char **argv) {
  struct options options;
  static struct run run = {
      .settings = {.seed = 1, .labels = MINED, .epochs = 7, .share = 40}};
  struct settings *settings = &run.settings;
  struct option list[] = {
      {"seed", &settings->seed, NULL},   {"labels", &settings->labels, LABELS},
      {"by", &settings->by, BY},         {"epochs", &settings->epochs, NULL},
      {"share", &settings->share, NULL}, {0}};
  options_parse(&options, list, argc, argv);
  block_one_thread();
  begin(&run, &options);
  pid_t maker = settings->by ? maker_start(&options, BELIEFS) : 0;
  double spent = train(&run);
  if (maker) {
    maker_end(run.db, maker);
  }
  report(&run, spent);
  end(&run);
  return 0;
}
