/* SPDX-License-Identifier: MIT
**
** finder_index.c -- everything the benchmarks know about emb's index: how to
** configure one, and what emb_stats reports about it.
**
** The Makefile defines BENCH_INDEX if emb.h has the index.
*/
#include <string.h>

#include "finder_emb.h"
#include "harness.h"

enum { WAIT_SECONDS = 600 };

int index_is_possible(void) { return BENCH_INDEX; }

void index_ask(emb_config *config, const struct finder_options *options) {
#if BENCH_INDEX
  config->index =
      options->index ? options->index : path("ivf(lists=%zu)", options->lists);
#else
  (void)config;
  die("emb.h has no index, of %zu lists or others", options->lists);
#endif
}

int index_is_ready(const struct emb_finder *finder) {
  const char *state = emb_finder_text(finder, "nearest_index");
  if (!strcmp(state, "failed") || !strcmp(state, "more than memory=")) {
    die("the index cannot be made: %s", state);
  }
  return !strcmp(state, "ready");
}

void index_wait(const struct emb_finder *finder) {
  double end = now() + WAIT_SECONDS;
  while (!index_is_ready(finder) ||
         emb_finder_figure(finder, "nearest_recent") != 0 ||
         emb_finder_figure(finder, "nearest_behind") != 0) {
    if (now() > end) {
      die("the index: %s, %lld rows behind, after %d seconds",
          emb_finder_text(finder, "nearest_index"),
          (long long)emb_finder_figure(finder, "nearest_behind"), WAIT_SECONDS);
    }
    nap(0.01);
  }
}

uint64_t index_bytes(const struct emb_finder *finder) {
  int64_t bytes = emb_finder_figure(finder, "nearest_bytes");
  return bytes < 0 ? 0 : (uint64_t)bytes;
}
