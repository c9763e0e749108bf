/* SPDX-License-Identifier: MIT
**
** sync.c -- the cost of serving from a stale copy.
**
** A model is trained in epochs on the first day of a stream with drift, and
** all of it is sent to serving copies, each a database of its own.  Then it
** trains on the following days click by click, and each copy gets the changes
** at its own interval; one copy never gets them, and stays as batch training
** left it.  Each copy scores each click with its current state, before the
** model has trained on the click, as in production (progressive validation).
*/
#include "auc.h"
#include "experiment.h"
#include "fold.h"
#include "ship.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 2, NEVER = 1000 }; /* steps per hour; NEVER: more than HOURS */

/* Both in hours. */
static const struct {
  const char *name;
  double every, dense_every;
} COPY[COPIES] = {{"never", NEVER, NEVER},
                  {"5 h", 5, 24},
                  {"1 h", 1, 24},
                  {"30 min", 0.5, 24},
                  {"30 min, dense too", 0.5, 0.5},
                  {"at once", 0, 0}};

const char *sync_name(int copy) { return COPY[copy].name; }

struct copy {
  struct model model;
  char *directory; /* files from the trainer */
  struct outcome *outcomes;
};

struct run {
  const struct settings *settings;
  struct fold fold;
  struct model trainer;
  struct copy copies[COPIES]; /* of the last, only the outcomes */
  struct outcome *truths;
  size_t count; /* of the outcomes of each copy, after the warm-up */
  struct batch batch;
};

static char *name(const struct run *run, uint64_t seed, const char *what) {
  return sqlite3_mprintf("%s/sync-%lld%s", run->settings->directory,
                         (sqlite3_int64)seed, what);
}

static void begin(struct run *run, uint64_t seed,
                  const struct stream_options *options) {
  const char *extension = run->settings->extension;
  size_t after = (size_t)options->clicks_per_hour * (HOURS - WARM_HOURS);
  fold_make(&run->fold, options, (size_t[FIELDS]){0, 0});
  char *file = name(run, seed, ".db");
  model_open(&run->trainer, file, extension, TRAINS, TO_TRY, seed);
  sqlite3_free(file);
  for (int c = 0; c < COPIES; c++) {
    struct copy *copy = &run->copies[c];
    copy->outcomes = need(after, sizeof(*copy->outcomes));
    if (c < COPIES - 1) {
      char suffix[32];
      snprintf(suffix, sizeof(suffix), "-copy-%d", c);
      copy->directory = name(run, seed, suffix);
      ship_open(copy->directory);
      file = sqlite3_mprintf("%s.db", copy->directory);
      model_open(&copy->model, file, extension, SERVES, TO_TRY, 0);
      sqlite3_free(file);
    }
  }
  run->truths = need(after, sizeof(*run->truths));
}

static void end(struct run *run) {
  model_close(&run->trainer);
  for (int c = 0; c < COPIES; c++) {
    free(run->copies[c].outcomes);
    if (c < COPIES - 1) {
      model_close(&run->copies[c].model);
      sqlite3_free(run->copies[c].directory);
    }
  }
  free(run->truths);
  fold_free(&run->fold);
}

static struct shipment sync_rows(struct run *run, struct copy *copy) {
  struct shipment all = {0, 0};
  for (int f = 0; f < FIELDS; f++) {
    struct shipment one =
        ship_export(run->trainer.db, FIELD[f], copy->directory);
    ship_apply(copy->model.db, FIELD[f], copy->directory);
    all.rows += one.rows;
    all.bytes += one.bytes;
  }
  return all;
}

static void sync_dense(struct run *run, struct copy *copy) {
  ship_export_dense(run->trainer.db, copy->directory);
  ship_apply_dense(copy->model.db, copy->directory);
  model_load_dense(&copy->model);
}

/* 1 if an interval of `every` hours ends with this step of the stream. */
static int is_due(int step, double every) {
  return step % (int)(every * STEPS) == 0;
}

static void sync_due(struct run *run, int step,
                     struct sync_result result[COPIES]) {
  for (int c = 0; c < COPIES - 1; c++) {
    if (is_due(step, COPY[c].every)) {
      struct shipment sent = sync_rows(run, &run->copies[c]);
      result[c].syncs++;
      result[c].keys += (double)sent.rows;
      result[c].bytes += (double)sent.bytes;
    }
    if (is_due(step, COPY[c].dense_every)) {
      sync_dense(run, &run->copies[c]);
    }
  }
}

/* Records each copy's scores of the batch, and the clicks. */
static void note(struct run *run, const struct click *clicks,
                 const float score[COPIES][BATCH]) {
  for (size_t i = 0; i < run->batch.count; i++) {
    int clicked = clicks[i].clicked;
    for (int c = 0; c < COPIES; c++) {
      run->copies[c].outcomes[run->count] =
          (struct outcome){score[c][i], clicked};
    }
    run->truths[run->count++] = (struct outcome){clicks[i].truth, clicked};
  }
}

static void do_step(struct run *run, const struct click *clicks, size_t count,
                    int score_too) {
  float score[COPIES][BATCH];
  database_run(run->trainer.db, "BEGIN");
  for (size_t i = 0; i < count; i += run->batch.count) {
    size_t left = count - i;
    fold_batch(&run->fold, clicks + i, left < BATCH ? left : BATCH,
               &run->batch);
    for (int c = 0; score_too && c < COPIES - 1; c++) {
      model_score(&run->copies[c].model, &run->batch, score[c]);
    }
    model_train(&run->trainer, &run->batch, score[COPIES - 1]);
    if (score_too) {
      note(run, clicks + i, score);
    }
  }
  model_save_dense(&run->trainer);
  database_run(run->trainer.db, "COMMIT");
}

static void measure(struct run *run, struct sync_result result[COPIES],
                    double *best) {
  size_t window = run->count / WINDOWS;
  struct outcome *sorted = need(window, sizeof(*sorted));
  for (int c = 0; c < COPIES; c++) {
    struct outcome *outcomes = run->copies[c].outcomes;
    for (size_t w = 0; w < WINDOWS; w++) {
      for (size_t i = 0; i < window; i++) {
        sorted[i] = outcomes[w * window + i];
      }
      result[c].window[w] = auc(sorted, window);
    }
    result[c].auc = auc(outcomes, run->count);
    if (result[c].syncs > 0) {
      result[c].keys /= result[c].syncs;
      result[c].bytes /= result[c].syncs;
    }
  }
  *best = auc(run->truths, run->count);
  free(sorted);
}

/* Batch training: the first day's clicks, EPOCHS times. */
static void warm_up(struct run *run, struct stream *stream, size_t step) {
  size_t count = step * WARM_HOURS * STEPS;
  struct click *clicks = need(count, sizeof(*clicks));
  stream_take(stream, clicks, count);
  for (int epoch = 0; epoch < EPOCHS; epoch++) {
    for (size_t i = 0; i < count; i += step) {
      do_step(run, clicks + i, step, 0);
    }
  }
  free(clicks);
}

/* Returns the shipment of one copy; all copies get the same. */
static struct shipment send_all(struct run *run) {
  struct shipment sent = {0, 0};
  for (int c = 0; c < COPIES - 1; c++) {
    sent = sync_rows(run, &run->copies[c]);
    sync_dense(run, &run->copies[c]);
  }
  return sent;
}

void sync_run(const struct settings *settings, uint64_t seed,
              struct sync_result result[COPIES], double *best, double *all_keys,
              double *all_bytes) {
  struct stream_options options = {.seed = seed,
                                   .users = settings->users,
                                   .items = settings->items,
                                   .drift = settings->drift,
                                   .clicks_per_hour =
                                       settings->clicks_per_hour};
  struct run *run = need(1, sizeof(*run));
  run->settings = settings;
  begin(run, seed, &options);
  struct stream *stream = stream_new(&options);
  size_t count = options.clicks_per_hour / STEPS;
  struct click *clicks = need(count, sizeof(*clicks));
  warm_up(run, stream, count);
  struct shipment sent = send_all(run);
  *all_keys = (double)sent.rows;
  *all_bytes = (double)sent.bytes;
  for (int step = 0; step < (HOURS - WARM_HOURS) * STEPS; step++) {
    if (step > 0) {
      sync_due(run, step, result);
    }
    stream_take(stream, clicks, count);
    do_step(run, clicks, count, 1);
  }
  measure(run, result, best);
  stream_free(stream);
  free(clicks);
  end(run);
  free(run);
}
