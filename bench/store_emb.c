/* SPDX-License-Identifier: MIT
**
** store_emb.c -- emb through its C interface, emb.h.
**
** memory_bytes covers everything, so the size of the index is subtracted from
** the budget.  That size is known only once the table is filled; a filled store
** is therefore opened twice.
*/
#include <stdlib.h>
#include <string.h>

#include "../engine/emb.h"
#include "harness.h"
#include "store.h"

struct emb {
  emb_store *store;
};

static uint64_t budget_of(const struct store_options *options,
                          uint64_t index_bytes) {
  uint64_t least = UINT64_C(4) << 20;
  if (options->budget_bytes) {
    return options->budget_bytes;
  }
  if (!options->memory_bytes) {
    return (options->keys + 100000) * (options->dim * 4 + 32) +
           (UINT64_C(512) << 20);
  }
  return options->memory_bytes > index_bytes + least
             ? options->memory_bytes - index_bytes
             : least;
}

static int64_t figure_of(emb_store *store, const char *name) {
  emb_stat stats[96];
  size_t n = emb_stats(store, stats, 96);
  for (size_t i = 0; i < n; i++) {
    if (!strcmp(stats[i].name, name)) {
      return stats[i].value;
    }
  }
  return -1;
}

static emb_store *open_with(const struct store_options *options,
                            uint64_t memory_bytes) {
  emb_config config = {.dim = (uint32_t)options->dim,
                       .memory_bytes = memory_bytes,
                       .timeout_ms = 10000,
                       .staleness = options->staleness};
  config.flags |= options->create ? EMB_OPEN_CREATE | EMB_OPEN_EXCLUSIVE : 0u;
  config.flags |= options->bounded ? EMB_OPEN_BOUNDED : 0u;
  config.flags |= options->cold ? EMB_OPEN_COLD : 0u;
  emb_store *store;
  emb_err err;
  if (emb_open(path("%s/store", options->directory), &config, &store, &err)) {
    die("emb_open: %s", err.text);
  }
  return store;
}

static void emb_end(emb_store *store) {
  emb_err err;
  if (emb_close(store, &err)) {
    die("emb_close: %s", err.text);
  }
}

static void *emb_begin_(const struct store_options *options) {
  struct emb *emb = need(1, sizeof(*emb));
  emb->store = open_with(options, budget_of(options, 24 * options->keys));
  if (options->memory_bytes && !options->budget_bytes && !options->create) {
    uint64_t index = (uint64_t)figure_of(emb->store, "index_bytes");
    emb_end(emb->store);
    emb->store = open_with(options, budget_of(options, index));
  }
  return emb;
}

static void emb_finish(void *store) {
  struct emb *emb = store;
  emb_end(emb->store);
  free(emb);
}

static void *emb_session_begin(void *store) {
  struct emb *emb = store;
  emb_session *session;
  emb_err err;
  if (emb_session_open(emb->store, &session, &err)) {
    die("emb_session_open: %s", err.text);
  }
  return session;
}

static void emb_session_end(void *session) { emb_session_close(session); }

static const float *get(void *session, const int64_t *keys, size_t n,
                        float *buffer) {
  if (emb_get(session, keys, n, buffer, NULL, NULL)) {
    die("emb_get: %s", emb_errmsg(session));
  }
  return buffer;
}

static void put(void *session, const int64_t *keys, size_t n,
                const float *vectors) {
  if (emb_put(session, keys, n, vectors, NULL)) {
    die("emb_put: %s", emb_errmsg(session));
  }
}

static int64_t figure(void *store, const char *name) {
  return figure_of(((struct emb *)store)->store, name);
}

const struct store_kind store_emb = {
    .name = "emb C",
    .about = "budget and index together within the memory given",
    .open = emb_begin_,
    .close = emb_finish,
    .session_open = emb_session_begin,
    .session_close = emb_session_end,
    .get = get,
    .put = put,
    .figure = figure,
};
