/* SPDX-License-Identifier: MIT
**
** finder_stats.c -- values of emb_stats for a finder's store, by name.
*/
#include <string.h>

#include "finder_emb.h"

enum { STATS = 192 };

static emb_stat stat_of(const struct emb_finder *finder, const char *name) {
  emb_stat stats[STATS];
  size_t n = emb_stats(finder->store, stats, STATS);
  for (size_t i = 0; i < n; i++) {
    if (!strcmp(stats[i].name, name)) {
      return stats[i];
    }
  }
  return (emb_stat){.name = name, .value = -1};
}

int64_t emb_finder_figure(const struct emb_finder *finder, const char *name) {
  return stat_of(finder, name).value;
}

const char *emb_finder_text(const struct emb_finder *finder, const char *name) {
  const char *text = stat_of(finder, name).text;
  return text ? text : "";
}
