/* SPDX-License-Identifier: MIT
**
** direct.h -- emb through emb.h without a layer in between, for benchmarks of
** features only emb has: bounds, look-ahead, batches in the background.
*/
#ifndef BENCH_DIRECT_H
#define BENCH_DIRECT_H

#include "../engine/emb.h"
#include "harness.h"

enum { DIRECT_DIM = 64, DIRECT_NO_BOUND = -1 };

struct direct {
  const char *name;
  emb_store *store;
  size_t keys; /* 1 .. keys exist, each filled with stamp 1 */
};

/* Makes a new store in a directory of that name.  If budget is 0, everything
** fits into memory and is there; otherwise the index comes on top of the
** budget. */
void direct_open(struct direct *direct, const struct options *options,
                 const char *name, size_t keys, uint64_t budget, int bound);
void direct_close(struct direct *direct);
emb_session *direct_session(const struct direct *direct);
/* A number from emb_stats, or -1. */
int64_t direct_figure(const struct direct *direct, const char *name);
/* Ends the program unless rc is 0. */
void direct_ok(emb_session *session, int rc, const char *call);

#endif
