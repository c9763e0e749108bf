/* SPDX-License-Identifier: MIT
**
** finder_index.c -- all that the benchmarks know of emb's index: how a store is
** asked for one, and what emb_stats says of it.
**
** BENCH_INDEX comes from the Makefile, which looks whether emb.h has it.
*/
#include "finder_emb.h"
#include "harness.h"

int index_is_possible(void) { return BENCH_INDEX; }

void index_ask(emb_config *config, size_t lists) {
#if BENCH_INDEX
  config->index = path("ivf(lists=%zu)", lists);
#else
  (void)config;
  die("emb.h has no index, of %zu lists or others", lists);
#endif
}

int index_is_ready(const struct emb_finder *finder) {
  return emb_finder_figure(finder, "nearest_pending") == 0 &&
         emb_finder_figure(finder, "nearest_lists") > 0;
}

void index_wait(const struct emb_finder *finder) {
  double end = now() + 600;
  while (!index_is_ready(finder)) {
    if (now() > end) {
      die("the index was not ready after ten minutes");
    }
    nap(0.01);
  }
}

uint64_t index_bytes(const struct emb_finder *finder) {
  int64_t bytes = emb_finder_figure(finder, "nearest_bytes");
  return bytes < 0 ? 0 : (uint64_t)bytes;
}
