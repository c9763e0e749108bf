/* SPDX-License-Identifier: MIT
**
** finder_emb.c -- emb through emb.h: emb_nearest, exact and with an index.  The
** table has an optimizer, which needs no state, so that it can be trained.
*/
#include "finder_emb.h"

#include <math.h>
#include <stdlib.h>

#include "harness.h"

enum { ROWS = 8192 };

void emb_finder_ok(emb_session *session, int rc, const char *call) {
  if (rc) {
    die("%s: %s", call, emb_errmsg(session));
  }
}

emb_session *emb_finder_session(const struct emb_finder *finder) {
  emb_session *session;
  emb_err err;
  if (emb_session_open(finder->store, &session, &err)) {
    die("emb_session_open: %s", err.text);
  }
  return session;
}

static void fill(struct emb_finder *finder, const struct points *points) {
  int64_t *keys = need(ROWS, sizeof(*keys));
  for (size_t from = 0; from < points->n; from += ROWS) {
    size_t left = points->n - from, n = left < ROWS ? left : ROWS;
    for (size_t i = 0; i < n; i++) {
      keys[i] = (int64_t)(from + i + 1);
    }
    emb_finder_ok(finder->session,
                  emb_put(finder->session, keys, n,
                          points->vectors + from * points->dim, NULL),
                  "emb_put");
  }
  free(keys);
}

struct emb_finder *emb_finder_open(const struct finder_options *options,
                                   int how) {
  const struct points *points = options->points;
  struct emb_finder *finder = need(1, sizeof(*finder));
  emb_config config = {.dim = (uint32_t)points->dim,
                       .memory_bytes = options->memory_bytes,
                       .timeout_ms = 60000,
                       .optimizer = "sgd(lr=0.1)"};
  emb_err err;
  finder->dim = points->dim;
  if (!config.memory_bytes) {
    config.memory_bytes =
        points->n * (points->dim * sizeof(float) + 64) + ((uint64_t)256 << 20);
  }
  config.flags =
      how & EMB_FINDER_OPEN ? 0 : EMB_OPEN_CREATE | EMB_OPEN_EXCLUSIVE;
  if (how & EMB_FINDER_INDEX) {
    index_ask(&config, options);
  }
  if (emb_open(path("%s/store", options->directory), &config, &finder->store,
               &err)) {
    die("emb_open: %s", err.text);
  }
  finder->session = emb_finder_session(finder);
  if (!(how & EMB_FINDER_OPEN)) {
    fill(finder, points);
    /* Flush now, so that no outstanding writes run during the measurement. */
    emb_finder_ok(finder->session, emb_checkpoint(finder->session),
                  "emb_checkpoint");
  }
  return finder;
}

void emb_finder_close(struct emb_finder *finder) {
  emb_err err;
  emb_session_close(finder->session);
  if (emb_close(finder->store, &err)) {
    die("emb_close: %s", err.text);
  }
  free(finder);
}

static void ask(struct emb_finder *finder, const struct question *question,
                uint32_t flags, int64_t *keys, double *distances) {
  emb_nearest_how how = {.flags = flags,
                         .probes = (uint32_t)question->effort,
                         .threads = (uint32_t)question->threads};
  size_t *counts = need(question->n, sizeof(*counts));
  const emb_neighbours to = {keys, distances, counts, NULL, NULL};
  emb_finder_ok(finder->session,
                emb_nearest(finder->session, question->queries, question->n,
                            question->k, &how, &to),
                "emb_nearest");
  for (size_t i = 0; i < question->n; i++) {
    for (size_t j = counts[i]; j < question->k; j++) {
      keys[i * question->k + j] = 0;
      distances[i * question->k + j] = INFINITY;
    }
  }
  free(counts);
}

void emb_finder_exact(struct emb_finder *finder,
                      const struct question *question, int64_t *keys,
                      double *distances) {
  ask(finder, question, EMB_NEAREST_EXACT, keys, distances);
}

/* ---- in the shape of finders --------------------------------------------- */

static void *exact_open(const struct finder_options *options) {
  return emb_finder_open(options, 0);
}

static void *indexed_open(const struct finder_options *options) {
  if (!index_is_possible()) {
    return NULL;
  }
  struct emb_finder *finder = emb_finder_open(options, EMB_FINDER_INDEX);
  index_wait(finder);
  return finder;
}

static void *open_for(const struct finder_options *options, const char *index) {
  struct finder_options own = *options;
  own.index = index;
  return indexed_open(&own);
}

static void *open_95(const struct finder_options *options) {
  return open_for(options, "ivf");
}

static void *open_99(const struct finder_options *options) {
  return open_for(options, "ivf(recall=0.99)");
}

static void finder_close(void *finder) { emb_finder_close(finder); }

static void exact_ask(void *finder, const struct question *question,
                      int64_t *keys, double *distances) {
  emb_finder_exact(finder, question, keys, distances);
}

static void indexed_ask(void *finder, const struct question *question,
                        int64_t *keys, double *distances) {
  ask(finder, question, 0, keys, distances);
}

static uint64_t indexed_bytes(void *finder) { return index_bytes(finder); }

const struct finder_kind finder_emb = {
    .name = "emb C",
    .about = "emb_nearest",
    .open = exact_open,
    .close = finder_close,
    .ask = exact_ask,
};

const struct finder_kind finder_emb_95 = {
    .name = "emb recall=0.95",
    .about = "emb_nearest with index=ivf",
    .effort = "recall",
    .open = open_95,
    .close = finder_close,
    .ask = indexed_ask,
};

const struct finder_kind finder_emb_99 = {
    .name = "emb recall=0.99",
    .about = "emb_nearest with index='ivf(recall=0.99)'",
    .effort = "recall",
    .open = open_99,
    .close = finder_close,
    .ask = indexed_ask,
};

const struct finder_kind finder_emb_index = {
    .name = "emb index",
    .about = "emb_nearest with an index",
    .effort = "probes",
    .open = indexed_open,
    .close = finder_close,
    .ask = indexed_ask,
    .index_bytes = indexed_bytes,
};
