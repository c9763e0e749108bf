/* SPDX-License-Identifier: MIT
**
** finder_emb.h -- emb through emb.h, as finder_emb and finder_emb_index open
** it, for benchmarks that also write to it; and what they know of its index.
*/
#ifndef BENCH_FINDER_EMB_H
#define BENCH_FINDER_EMB_H

#include "../engine/emb.h"
#include "finder.h"

struct emb_finder {
  emb_store *store;
  emb_session *session;
  size_t dim;
};

/* How a store is opened: with an index, and with rows or only with the keys
** and the dimension that the points tell. */
enum {
  EMB_FINDER_INDEX = 1, /* of options->lists lists */
  EMB_FINDER_OPEN = 2,  /* it is there */
};
struct emb_finder *emb_finder_open(const struct finder_options *options,
                                   int how);
void emb_finder_close(struct emb_finder *finder);
/* A session more, for another thread. */
emb_session *emb_finder_session(const struct emb_finder *finder);
/* The exact answer, whatever there is. */
void emb_finder_exact(struct emb_finder *finder,
                      const struct question *question, int64_t *keys,
                      double *distances);
/* The end, unless rc is 0. */
void emb_finder_ok(emb_session *session, int rc, const char *call);

/* finder_stats.c: what a store says of itself. */

/* Of emb_stats, or -1; or "". */
int64_t emb_finder_figure(const struct emb_finder *finder, const char *name);
const char *emb_finder_text(const struct emb_finder *finder, const char *name);

/* finder_index.c: what is particular to the index. */

/* 1 when emb.h has one. */
int index_is_possible(void);
/* Asks for one. */
void index_ask(emb_config *config, size_t lists);
/* All rows that it was made of are in it, and it is used. */
int index_is_ready(const struct emb_finder *finder);
/* Until then, and no row has yet to be moved. */
void index_wait(const struct emb_finder *finder);
/* Of memory, beside the table. */
uint64_t index_bytes(const struct emb_finder *finder);

#endif
