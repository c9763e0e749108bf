/* SPDX-License-Identifier: MIT
**
** report.h -- the experiment's results, for people and for programs.
*/
#ifndef ONLINE_REPORT_H
#define ONLINE_REPORT_H

#include "experiment.h"

struct findings {
  struct hashed_result hashed[SEEDS_MAX][HASHED];
  struct sync_result sync[SEEDS_MAX][COPIES];
  double sync_best[SEEDS_MAX];
  double all_keys[SEEDS_MAX], all_bytes[SEEDS_MAX]; /* of a full copy */
  struct scale_result scale;
};

/* Writes online.md, online.svg, and online.tsv, a line per number:
**   finding, seed, name, what, value */
void report_write(const struct settings *settings,
                  const struct findings *findings, const char *directory);

#endif
