/* SPDX-License-Identifier: MIT
**
** hashed.c -- the cost of collisions in a hashed embedding table.
**
** The same model is trained on the same clicks, with a row for each id and
** with fewer rows: once in epochs over a fixed set, with some clicks held
** back, and once on a stream with drift, where each click is scored just
** before training on it.
*/
#include <stdio.h>
#include <stdlib.h>

#include "auc.h"
#include "experiment.h"
#include "fold.h"

/* Slots per id; 0: each id has its own row. */
static const struct {
  const char *name;
  double slots;
} SIZE[HASHED] = {{"no collisions", 0},
                  {"11.5 slots per user, 46 per item", 11.5},
                  {"2 slots per id", 2},
                  {"1 slot per id", 1},
                  {"1 slot per 4 ids", 0.25}};

const char *hashed_name(int size) { return SIZE[size].name; }

struct run {
  const struct settings *settings;
  struct stream_options options;
  struct fold fold;
  struct model model;
  struct batch batch;
  struct outcome *outcomes, *truths;
  size_t count; /* of outcomes and of truths */
};

static void begin(struct run *run, uint64_t seed, int size, const char *what) {
  const struct settings *settings = run->settings;
  /* Rare collisions as in the paper: 7.73 % of users and 2.86 % of items. */
  double more = SIZE[size].slots > 4 ? 4 : 1;
  size_t slots[FIELDS] = {
      (size_t)(SIZE[size].slots * run->options.users),
      (size_t)(SIZE[size].slots * run->options.items * more)};
  fold_make(&run->fold, &run->options, slots);
  char *file = sqlite3_mprintf("%s/%s-%d-%lld.db", settings->directory, what,
                               size, (sqlite3_int64)seed);
  model_open(&run->model, file, settings->extension, TRAINS, TO_TRY, seed);
  sqlite3_free(file);
}

static void end(struct run *run) {
  model_close(&run->model);
  fold_free(&run->fold);
}

/* Scores the clicks, and trains on them if `train`, in one transaction. */
static void pass(struct run *run, const struct click *clicks, size_t count,
                 int train) {
  float score[BATCH];
  database_run(run->model.db, "BEGIN");
  for (size_t i = 0; i < count; i += run->batch.count) {
    size_t left = count - i;
    fold_batch(&run->fold, clicks + i, left < BATCH ? left : BATCH,
               &run->batch);
    (train ? model_train : model_score)(&run->model, &run->batch, score);
    for (size_t j = 0; j < run->batch.count; j++) {
      int clicked = clicks[i + j].clicked;
      run->outcomes[run->count] = (struct outcome){score[j], clicked};
      run->truths[run->count++] =
          (struct outcome){clicks[i + j].truth, clicked};
    }
  }
  database_run(run->model.db, "COMMIT");
}

/* AUC since the last call. */
static double take_auc(struct run *run, double *best) {
  size_t count = run->count;
  run->count = 0;
  *best = auc(run->truths, count);
  return auc(run->outcomes, count);
}

static void do_epochs(struct run *run, struct hashed_result *result) {
  const struct settings *settings = run->settings;
  size_t count = settings->train + settings->test;
  struct click *clicks = need(count, sizeof(*clicks));
  struct stream *stream = stream_new(&run->options);
  stream_take(stream, clicks, count);
  stream_free(stream);
  for (int epoch = 0; epoch < EPOCHS; epoch++) {
    pass(run, clicks, settings->train, 1);
    run->count = 0;
    pass(run, clicks + settings->train, settings->test, 0);
    result->epoch[epoch] = take_auc(run, &result->best);
  }
  free(clicks);
}

static void do_days(struct run *run, struct hashed_result *result) {
  size_t count = run->options.clicks_per_hour;
  struct click *clicks = need(count, sizeof(*clicks));
  struct stream *stream = stream_new(&run->options);
  for (int hour = 0; hour < HOURS; hour++) {
    stream_take(stream, clicks, count);
    pass(run, clicks, count, 1);
    if (hour % 24 == 23) {
      int day = hour / 24;
      result->day[day] = take_auc(run, &result->best_day[day]);
    }
  }
  stream_free(stream);
  free(clicks);
}

void hashed_run(const struct settings *settings, uint64_t seed, int size,
                struct hashed_result *result) {
  struct run *run = need(1, sizeof(*run));
  size_t day = (size_t)settings->clicks_per_hour * 24;
  size_t set = settings->train + settings->test;
  size_t most = day > set ? day : set;
  run->settings = settings;
  run->outcomes = need(most, sizeof(*run->outcomes));
  run->truths = need(most, sizeof(*run->truths));
  run->options =
      (struct stream_options){.seed = seed,
                              .users = settings->users,
                              .items = settings->items,
                              .clicks_per_hour = settings->clicks_per_hour};
  begin(run, seed, size, "epochs");
  do_epochs(run, result);
  end(run);
  run->options.drift = settings->drift;
  begin(run, seed, size, "days");
  result->collided[0] = run->fold.collided[0];
  result->collided[1] = run->fold.collided[1];
  do_days(run, result);
  end(run);
  free(run->outcomes);
  free(run->truths);
  free(run);
}
