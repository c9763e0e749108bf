/* SPDX-License-Identifier: MIT
**
** nearest_train.c -- a table with an index that changes.
**
** BUILDING  Of a table without an index, while one thread puts batches of 1,024
**           random rows unchanged: the build time, the remaining speed of the
**           writer, and its longest Put.
** TRAINING  emb_apply_gradients in batches of 1,024 random keys, one thread,
**           on a table with an index and on one without, in turns.
** DRIFT     A separate figure.  Each row moves towards the position of another
**           row: its gradient is the difference to it, so it has gone most of
**           the way after ten or twenty updates, and half of all rows are in
**           another list.  A tenth of the table is updated each second.  After
**           every half second training pauses, and 256 queries, which are rows
**           of the table with some noise, are answered with the index and then
**           exactly; comparing the two gives the recall.  At the end, the same
**           with an index newly built from the same rows.
** FRESH     A row is put far from all others, and the next call searches for
**           it.
*/
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "finder_emb.h"
#include "keys.h"
#include "nearest.h"

enum { PROBES = 16, FRESH_ROWS = 100 };

struct batch {
  emb_session *session;
  const struct points *points;
  uint64_t seed;
  int64_t keys[BATCH];
  float *vectors, *gradients;
};

static void batch_begin(struct batch *batch, emb_session *session,
                        const struct points *points) {
  *batch = (struct batch){.session = session, .points = points, .seed = 88172};
  batch->vectors = need(BATCH * points->dim, sizeof(float));
  batch->gradients = need(BATCH * points->dim, sizeof(float));
}

static void batch_end(struct batch *batch) {
  free(batch->vectors);
  free(batch->gradients);
}

static void draw_keys(struct batch *batch) {
  for (size_t i = 0; i < BATCH; i++) {
    batch->keys[i] =
        (int64_t)(random_next(&batch->seed) % batch->points->n) + 1;
  }
}

/* The position that the row of this key moves to. */
static const float *target_of(const struct points *points, int64_t key) {
  size_t other = ((size_t)key * 2654435761u) % points->n;
  return points->vectors + other * points->dim;
}

/* Draws keys and computes their gradients. */
static void prepare(struct batch *batch) {
  size_t dim = batch->points->dim;
  draw_keys(batch);
  emb_finder_ok(
      batch->session,
      emb_peek(batch->session, batch->keys, BATCH, batch->vectors, NULL, NULL),
      "emb_peek");
  for (size_t i = 0; i < BATCH; i++) {
    const float *to = target_of(batch->points, batch->keys[i]);
    for (size_t j = 0; j < dim; j++) {
      batch->gradients[i * dim + j] = batch->vectors[i * dim + j] - to[j];
    }
  }
}

static void apply(struct batch *batch) {
  emb_finder_ok(batch->session,
                emb_apply_gradients(batch->session, batch->keys, BATCH,
                                    batch->gradients, NULL, NULL),
                "emb_apply_gradients");
}

/* ---- building ------------------------------------------------------------ */

struct writer {
  struct batch batch;
  atomic_int stops;
  double rate, longest;
};

static void *write_on(void *arg) {
  struct writer *writer = arg;
  struct batch *batch = &writer->batch;
  const struct points *points = batch->points;
  size_t n = 0;
  double start = now();
  while (!atomic_load_explicit(&writer->stops, memory_order_relaxed)) {
    draw_keys(batch);
    for (size_t i = 0; i < BATCH; i++) {
      memcpy(batch->vectors + i * points->dim,
             points->vectors + (size_t)(batch->keys[i] - 1) * points->dim,
             points->dim * sizeof(float));
    }
    double before = now();
    emb_finder_ok(
        batch->session,
        emb_put(batch->session, batch->keys, BATCH, batch->vectors, NULL),
        "emb_put");
    writer->longest = fmax(writer->longest, now() - before);
    n += BATCH;
  }
  writer->rate = (double)n / (now() - start);
  return NULL;
}

/* Writes until the index is ready, or for the given time; returns the
** seconds. */
static double write_beside(struct emb_finder *emb, const struct points *points,
                           struct writer *writer, double seconds) {
  pthread_t thread;
  emb_session *session = emb_finder_session(emb);
  *writer = (struct writer){0};
  batch_begin(&writer->batch, session, points);
  double start = now();
  if (pthread_create(&thread, NULL, write_on, writer)) {
    die("no thread");
  }
  if (seconds > 0) {
    nap(seconds);
  }
  while (seconds <= 0 && !index_is_ready(emb)) {
    nap(0.01);
  }
  double took = now() - start;
  atomic_store_explicit(&writer->stops, 1, memory_order_relaxed);
  pthread_join(thread, NULL);
  batch_end(&writer->batch);
  emb_session_close(session);
  return took;
}

void hunt_building(struct hunt *hunt) {
  struct finder_options options = hunt_options(hunt, "building");
  struct emb_finder *emb = emb_finder_open(&options, 0);
  struct writer alone, beside;
  write_beside(emb, &hunt->points, &alone, 10 * hunt->seconds);
  emb_finder_close(emb);
  emb = emb_finder_open(&options, EMB_FINDER_INDEX | EMB_FINDER_OPEN);
  double took = write_beside(emb, &hunt->points, &beside, 0);
  emb_finder_close(emb);
  struct group *group =
      figure_group(hunt->figure, "building beside a writer", "seconds", NAN);
  group_add(group, "emb index", 0, took, NULL);
  group_bound(group, "emb index", AT_MOST, 10);
  group =
      figure_group(hunt->figure, "a writer beside the building", "rows/s", NAN);
  group_add(group, "before", 0, alone.rate, NULL);
  group_add(group, "while building", 0, beside.rate, NULL);
  group_ratio(group, "while building", "before", AT_LEAST, 0);
  group =
      figure_group(hunt->figure, "its longest Put of 1,024 rows", "ms", NAN);
  group_add(group, "before", 0, 1e3 * alone.longest, NULL);
  group_add(group, "while building", 0, 1e3 * beside.longest, NULL);
}

/* ---- training ------------------------------------------------------------ */

/* Rows per second of emb_apply_gradients. */
static double training_turn(struct batch *batch, double seconds) {
  double end = now() + seconds, spent = 0;
  size_t n = 0;
  while (now() < end) {
    prepare(batch);
    double before = now();
    apply(batch);
    spent += now() - before;
    n += BATCH;
  }
  return (double)n / spent;
}

void hunt_training(struct hunt *hunt) {
  struct finder_options options = hunt_options(hunt, "training");
  struct emb_finder *with = emb_finder_open(&options, EMB_FINDER_INDEX);
  options = hunt_options(hunt, "training without");
  struct emb_finder *without = emb_finder_open(&options, 0);
  struct batch batches[2];
  struct group *group =
      figure_group(hunt->figure, "emb_apply_gradients", "rows/s", NAN);
  batch_begin(&batches[0], without->session, &hunt->points);
  batch_begin(&batches[1], with->session, &hunt->points);
  index_wait(with);
  for (int round = 0; round < hunt->options->rounds; round++) {
    for (int i = 0; i < 2; i++) {
      int indexed = (i + round) % 2;
      settle();
      group_add(group, indexed ? "with an index" : "without", round,
                training_turn(&batches[indexed], 5 * hunt->seconds), NULL);
    }
  }
  group_ratio(group, "with an index", "without", AT_LEAST, 0.9);
  batch_end(&batches[0]);
  batch_end(&batches[1]);
  emb_finder_close(with);
  emb_finder_close(without);
}

/* ---- drift --------------------------------------------------------------- */

/* Draws queries near current rows. */
static void draw_queries(struct batch *batch, float *queries) {
  size_t dim = batch->points->dim;
  draw_keys(batch);
  emb_finder_ok(
      batch->session,
      emb_peek(batch->session, batch->keys, ASKED, queries, NULL, NULL),
      "emb_peek");
  for (size_t i = 0; i < ASKED * dim; i++) {
    double noise = (double)(random_next(&batch->seed) >> 11) * 0x1p-53 - 0.5;
    queries[i] += (float)(noise * 0.2);
  }
}

/* The share of the exact answer's keys that the index finds. */
static double recall_now(struct emb_finder *emb, const float *queries) {
  enum { ALL = ASKED * NEIGHBOURS };
  int64_t *truth = need(ALL, sizeof(*truth)), *keys = need(ALL, sizeof(*keys));
  double *distances = need(ALL, sizeof(*distances));
  struct question question = {.queries = queries,
                              .n = ASKED,
                              .k = NEIGHBOURS,
                              .threads = processors(),
                              .effort = PROBES};
  size_t good = 0;
  finder_emb_index.ask(emb, &question, keys, distances);
  emb_finder_exact(emb, &question, truth, distances);
  for (size_t i = 0; i < ALL; i++) {
    size_t from = i / NEIGHBOURS * NEIGHBOURS;
    for (size_t j = from; j < from + NEIGHBOURS; j++) {
      good += keys[i] && keys[i] == truth[j];
    }
  }
  free(truth);
  free(keys);
  free(distances);
  return (double)good / ALL;
}

/* Makes the updates due in `seconds`, spread over that time. */
static void train(struct batch *batch, double seconds) {
  double start = now(), rate = (double)batch->points->n / 10;
  for (double done = 0; done < rate * seconds; done += BATCH) {
    double due = start + done / rate;
    nap(fmax(0, due - now()));
    prepare(batch);
    apply(batch);
  }
}

/* Recall of an index newly built from the same rows. */
static double recall_of_new(const struct hunt *hunt, struct emb_finder *emb,
                            const float *queries) {
  struct points present = hunt->points;
  size_t floats = present.n * present.dim;
  int64_t *keys = need(present.n, sizeof(*keys));
  present.vectors = need_huge(floats * sizeof(float));
  for (size_t i = 0; i < present.n; i++) {
    keys[i] = (int64_t)i + 1;
  }
  emb_finder_ok(
      emb->session,
      emb_peek(emb->session, keys, present.n, present.vectors, NULL, NULL),
      "emb_peek");
  struct finder_options options = hunt_options(hunt, "new");
  options.points = &present;
  struct emb_finder *fresh = emb_finder_open(&options, EMB_FINDER_INDEX);
  index_wait(fresh);
  double recall = recall_now(fresh, queries);
  emb_finder_close(fresh);
  drop_huge(present.vectors, floats * sizeof(float));
  free(keys);
  return recall;
}

/* The share of rows found right after they were put far from all others. */
static double find_fresh(struct emb_finder *emb, const struct points *points) {
  float *vector = need(points->dim, sizeof(float));
  size_t found = 0;
  for (size_t i = 0; i < FRESH_ROWS; i++) {
    int64_t key = (int64_t)(points->n + 1 + i), keys[NEIGHBOURS];
    double distances[NEIGHBOURS];
    struct question question = {
        .queries = vector, .n = 1, .k = NEIGHBOURS, .threads = 1, .effort = 1};
    for (size_t j = 0; j < points->dim; j++) {
      vector[j] = (i + j) % 2 ? 20 : -20 - (float)i;
    }
    emb_finder_ok(emb->session, emb_put(emb->session, &key, 1, vector, NULL),
                  "emb_put");
    finder_emb_index.ask(emb, &question, keys, distances);
    found += keys[0] == key;
  }
  free(vector);
  return (double)found / FRESH_ROWS;
}

static void note_backlog(struct figure *figure, const struct emb_finder *emb) {
  double start = now();
  int64_t behind = emb_finder_figure(emb, "nearest_behind");
  index_wait(emb);
  figure_note(figure,
              "at the end of training the index was %lld rows behind, %.1f s"
              " later none",
              (long long)behind, now() - start);
}

void hunt_drift(struct hunt *hunt) {
  struct finder_options options = hunt_options(hunt, "drift");
  struct figure *figure = figure_new(
      hunt->options, "drift", "Recall of an index while the table is trained");
  int steps = hunt->options->quick ? 6 : 40;
  double each = hunt->options->quick ? 0.1 : 0.5;
  struct emb_finder *emb = emb_finder_open(&options, EMB_FINDER_INDEX);
  float *queries = need(ASKED * hunt->points.dim, sizeof(float));
  struct batch batch;
  double recall = 0;
  figure_axis(figure, "seconds of training");
  figure_note(figure,
              "%zu vectors of %zu elements, %zu lists, %d probes; a tenth of"
              " the rows is updated each second",
              hunt->points.n, hunt->points.dim, hunt->lists, PROBES);
  batch_begin(&batch, emb->session, &hunt->points);
  index_wait(emb);
  for (int i = 0; i <= steps; i++) {
    train(&batch, i ? each : 0);
    draw_queries(&batch, queries);
    recall = recall_now(emb, queries);
    struct group *group =
        figure_group(figure, path("while training, %.1f s", i * each),
                     "recall@10", i * each);
    group_add(group, "emb index", 0, recall, NULL);
  }
  note_backlog(figure, emb);
  double rested = recall_now(emb, queries);
  double fresh = recall_of_new(hunt, emb, queries);
  struct group *group = figure_group(figure, "at the end", "recall@10", NAN);
  group_add(group, "emb index", 0, recall, NULL);
  group_add(group, "nothing behind", 0, rested, NULL);
  group_add(group, "a new index", 0, fresh, NULL);
  group = figure_group(figure, "lost to a new index", "points", NAN);
  group_add(group, "emb index", 0, 100 * (fresh - recall), NULL);
  group_bound(group, "emb index", AT_MOST, 1);
  group = figure_group(figure, "found by the next call", "share", NAN);
  group_add(group, "emb index", 0, find_fresh(emb, &hunt->points), NULL);
  group_bound(group, "emb index", AT_LEAST, 1);
  free(queries);
  batch_end(&batch);
  emb_finder_close(emb);
  figure_done(figure);
}
