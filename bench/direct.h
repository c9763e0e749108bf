/* SPDX-License-Identifier: MIT
**
** direct.h -- emb through emb.h without a layer between, for benchmarks of what
** only emb has: bounds, look-ahead, batches in the background.
*/
#ifndef BENCH_DIRECT_H
#define BENCH_DIRECT_H

#include "../engine/emb.h"
#include "harness.h"

enum { DIRECT_DIM = 64, DIRECT_NO_BOUND = -1 };

struct direct {
  const char *name;
  emb_store *store;
  size_t keys; /* 1 .. keys are there, each filled with stamp 1 */
};

/* A new store in a directory of that name.  budget 0: all fits into memory,
** and is there.  Otherwise the index is beside the budget. */
void direct_open(struct direct *direct, const struct options *options,
                 const char *name, size_t keys, uint64_t budget, int bound);
void direct_close(struct direct *direct);
emb_session *direct_session(const struct direct *direct);
/* A number of emb_stats, or -1. */
int64_t direct_figure(const struct direct *direct, const char *name);
/* The end, unless rc is 0. */
void direct_ok(emb_session *session, int rc, const char *call);

#endif
