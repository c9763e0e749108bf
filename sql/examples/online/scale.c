/* SPDX-License-Identifier: MIT
**
** scale.c -- the size of deltas of a large table.
**
** The stream has as many clicks as the other experiments, but its catalogue
** has so many ids that most of them are rare, as in production.  A smaller
** share of the rows changes in an hour, and the delta is smaller, too.
*/
#include <stdlib.h>

#include "../../lib/clock.h"
#include "experiment.h"
#include "fold.h"
#include "ship.h"

enum { STEPS = 2 }; /* per hour */

static const struct {
  const char *name;
  int steps;
} INTERVAL[INTERVALS] = {{"30 min", 1}, {"1 h", 2}, {"5 h", 10}};

const char *scale_name(int interval) { return INTERVAL[interval].name; }

struct run {
  struct stream_options options;
  struct fold fold;
  struct model trainer;
  struct batch batch;
  char *directory[INTERVALS];
};

static void begin(struct run *run, const struct settings *settings) {
  char *file = sqlite3_mprintf("%s/scale.db", settings->directory);
  run->options =
      (struct stream_options){.seed = 1,
                              .users = settings->many_users,
                              .items = settings->many_items,
                              .drift = settings->drift,
                              .clicks_per_hour = settings->clicks_per_hour};
  fold_make(&run->fold, &run->options, (size_t[FIELDS]){0, 0});
  model_open(&run->trainer, file, settings->extension, TRAINS, TO_TRY, 1);
  sqlite3_free(file);
  for (int i = 0; i < INTERVALS; i++) {
    run->directory[i] = sqlite3_mprintf("%s/scale-%d", settings->directory, i);
    ship_open(run->directory[i]);
  }
}

static void end(struct run *run) {
  model_close(&run->trainer);
  fold_free(&run->fold);
  for (int i = 0; i < INTERVALS; i++) {
    sqlite3_free(run->directory[i]);
  }
}

static struct shipment send(struct run *run, int interval, double *ms) {
  struct shipment all = {0, 0};
  double start = seconds();
  for (int f = 0; f < FIELDS; f++) {
    struct shipment one =
        ship_export(run->trainer.db, FIELD[f], run->directory[interval]);
    all.rows += one.rows;
    all.bytes += one.bytes;
  }
  *ms = 1e3 * (seconds() - start);
  return all;
}

/* Makes a row for each user and each item. */
static void fill(struct run *run) {
  uint32_t users = run->options.users, items = run->options.items;
  struct batch *batch = &run->batch;
  database_run(run->trainer.db, "BEGIN");
  for (uint32_t n = 0; n < users || n < items; n += BATCH) {
    batch->count = BATCH;
    for (uint32_t i = 0; i < BATCH; i++) {
      batch->keys[0][i] = run->fold.key[0][(n + i) % users];
      batch->keys[1][i] = run->fold.key[1][(n + i) % items];
    }
    model_touch(&run->trainer, batch);
  }
  database_run(run->trainer.db, "COMMIT");
}

static void train(struct run *run, const struct click *clicks, size_t count) {
  float score[BATCH];
  database_run(run->trainer.db, "BEGIN");
  for (size_t i = 0; i < count; i += run->batch.count) {
    size_t left = count - i;
    fold_batch(&run->fold, clicks + i, left < BATCH ? left : BATCH,
               &run->batch);
    model_train(&run->trainer, &run->batch, score);
  }
  database_run(run->trainer.db, "COMMIT");
}

static void sync_due(struct run *run, int step, struct scale_result *result) {
  for (int i = 0; i < INTERVALS; i++) {
    if (step % INTERVAL[i].steps == 0) {
      double ms, syncs = (double)SCALE_HOURS * STEPS / INTERVAL[i].steps;
      struct shipment sent = send(run, i, &ms);
      result->keys[i] += (double)sent.rows / syncs;
      result->bytes[i] += (double)sent.bytes / syncs;
      result->ms[i] += ms / syncs;
    }
  }
}

void scale_run(const struct settings *settings, struct scale_result *result) {
  struct run *run = need(1, sizeof(*run));
  begin(run, settings);
  fill(run);
  for (int i = 0; i < INTERVALS; i++) {
    struct shipment sent = send(run, i, &result->all_ms);
    result->all_keys = (double)sent.rows;
    result->all_bytes = (double)sent.bytes;
  }
  size_t count = run->options.clicks_per_hour / STEPS;
  struct click *clicks = need(count, sizeof(*clicks));
  struct stream *stream = stream_new(&run->options);
  for (int step = 1; step <= SCALE_HOURS * STEPS; step++) {
    stream_take(stream, clicks, count);
    train(run, clicks, count);
    sync_due(run, step, result);
  }
  stream_free(stream);
  free(clicks);
  end(run);
  free(run);
}
