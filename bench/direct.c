/* SPDX-License-Identifier: MIT
**
** direct.c -- see direct.h.
*/
#include "direct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contest.h"

enum { ROWS = 8192, STATS = 96 };

void direct_ok(emb_session *session, int rc, const char *call) {
  if (rc) {
    die("%s: %s", call, emb_errmsg(session));
  }
}

emb_session *direct_session(const struct direct *direct) {
  emb_session *session;
  emb_err err;
  if (emb_session_open(direct->store, &session, &err)) {
    die("emb_session_open: %s", err.text);
  }
  return session;
}

int64_t direct_figure(const struct direct *direct, const char *name) {
  emb_stat stats[STATS];
  size_t n = emb_stats(direct->store, stats, STATS);
  for (size_t i = 0; i < n; i++) {
    if (!strcmp(stats[i].name, name)) {
      return stats[i].value;
    }
  }
  return -1;
}

/* Puts all keys unchanged, so that records are in memory, where Puts leave
** them. */
static void put_all(const struct direct *direct) {
  emb_session *session = direct_session(direct);
  int64_t *keys = need(ROWS, sizeof(*keys));
  float *vectors = need((size_t)ROWS * DIRECT_DIM, sizeof(float));
  for (size_t from = 0; from < direct->keys; from += ROWS) {
    size_t left = direct->keys - from, n = left < ROWS ? left : ROWS;
    for (size_t i = 0; i < n; i++) {
      keys[i] = (int64_t)(from + i + 1);
      vector_fill(vectors + i * DIRECT_DIM, DIRECT_DIM, keys[i], 1);
    }
    direct_ok(session, emb_put(session, keys, n, vectors, NULL), "emb_put");
  }
  free(keys);
  free(vectors);
  emb_session_close(session);
}

void direct_open(struct direct *direct, const struct options *options,
                 const char *name, size_t keys, uint64_t budget, int bound) {
  struct store_options load = {
      .dim = DIRECT_DIM, .keys = keys, .budget_bytes = budget};
  snprintf(load.directory, sizeof(load.directory), "%s/%s", options->data,
           name);
  make_directory(load.directory);
  load_store(&store_emb, &load);
  emb_config config = {
      .dim = DIRECT_DIM,
      .memory_bytes = budget ? budget
                             : (uint64_t)keys * (DIRECT_DIM * 4 + 64) +
                                   (UINT64_C(256) << 20),
      .timeout_ms = 60000,
      .flags = bound == DIRECT_NO_BOUND ? 0 : EMB_OPEN_BOUNDED,
      .staleness = bound == DIRECT_NO_BOUND ? 0 : (uint32_t)bound};
  emb_err err;
  if (emb_open(path("%s/store", load.directory), &config, &direct->store,
               &err)) {
    die("emb_open: %s", err.text);
  }
  direct->name = name;
  direct->keys = keys;
  if (!budget) {
    put_all(direct);
  }
}

void direct_close(struct direct *direct) {
  emb_err err;
  if (emb_close(direct->store, &err)) {
    die("emb_close: %s", err.text);
  }
}
