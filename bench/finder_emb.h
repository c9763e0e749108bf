/* SPDX-License-Identifier: MIT
**
** finder_emb.h -- emb through emb.h, opened as by finder_emb and
** finder_emb_index, for benchmarks that also write; and statistics of its
** index.
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

/* How to open a store: with an index; and either filled with the points' rows
** or, if it exists, using only their number and dimension. */
enum {
  EMB_FINDER_INDEX = 1, /* as the options say */
  EMB_FINDER_OPEN = 2,  /* it exists */
};
struct emb_finder *emb_finder_open(const struct finder_options *options,
                                   int how);
void emb_finder_close(struct emb_finder *finder);
/* Another session, for another thread. */
emb_session *emb_finder_session(const struct emb_finder *finder);
/* The exact answer, with or without an index. */
void emb_finder_exact(struct emb_finder *finder,
                      const struct question *question, int64_t *keys,
                      double *distances);
/* Ends the program unless rc is 0. */
void emb_finder_ok(emb_session *session, int rc, const char *call);

/* finder_stats.c: statistics of a store. */

/* From emb_stats; -1 or "" if absent. */
int64_t emb_finder_figure(const struct emb_finder *finder, const char *name);
const char *emb_finder_text(const struct emb_finder *finder, const char *name);

/* finder_index.c: specific to the index. */

/* 1 if emb.h has an index. */
int index_is_possible(void);
/* Configures an index. */
void index_ask(emb_config *config, const struct finder_options *options);
/* Is the index in use, with all rows it was built from? */
int index_is_ready(const struct emb_finder *finder);
/* Waits until the index is ready and no row remains to be moved. */
void index_wait(const struct emb_finder *finder);
/* Memory of the index, beside the table. */
uint64_t index_bytes(const struct emb_finder *finder);

#endif
