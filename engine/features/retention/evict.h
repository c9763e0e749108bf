/* SPDX-License-Identifier: MIT
**
** evict.h -- a table of at most so many rows: the least recently or the least
** often updated ones go.
**
** A round begins when there are more rows than the capacity N, and ends at
** N - N/16, so that the work of a round is shared by many rows.
**
** CHOICE    At the begin of a round the table is cut, in the order of the log,
**           into at most 256 strata of as many extents, and a page of each is
**           looked at (in a small table several): every row has the same chance
**           to be seen.  The scores of the rows seen give the score below which
**           as large a share of the table lies as has to go.  Then the extents
**           are gone through one by one and the rows below it removed, first
**           those of the strata in which most was seen.  Where the log's order
**           is that of the updates (lru, as a rule) that reads little else than
**           what goes; at worst, all in disorder, sixteen rows for each.
** SCORE     lru: updated_at, then version, which grows with every write of the
**           store.  lfu: log2(frequency) less one for each mean age (time since
**           the update, over the rows seen) that passed since the row's own
**           update, then version.  So a row that is not updated loses half of
**           its frequency whenever as much time passes as rows are old on
**           average, and has to go in the end however popular it was.  Reads do
**           not count, since they write nothing (as updated_at).
** BOUND     Steps begin a round at N + 1.  A writer that finds more than
**           N + N/16 rows at the end of its call does a piece of the round
**           itself, if no other thread does; with more than N + N/8 it goes on,
**           waiting for a checkpoint if need be, until there are less or a
**           whole round found nothing that may go.  So there are at most
**           N + N/8 rows, those of one call of each session, those that one
**           transaction adds, and those that it has changed.
** REMOVAL   and what waits: see sweep.h.
*/
#ifndef EMB_RETENTION_EVICT_H
#define EMB_RETENTION_EVICT_H

#include "engine/table/store/store.h"

#define EVICT_STRATA 256

struct evict_stratum {
  uint64_t from, end; /* extents */
  uint32_t seen, low; /* live rows in its sample, and those below the score */
};

struct evict { /* a round; under ckpt_lock */
  uint64_t random;
  uint64_t most; /* rows at which it ends */
  uint64_t score;
  uint64_t removed;
  uint32_t now, mean_age;
  uint32_t count, at; /* strata; 0: there is no round */
  uint64_t next;      /* extent in the present one */
  struct evict_stratum strata[EVICT_STRATA];
};

static inline struct evict *evict_of(const emb_store *store) { /* ckpt_lock */
  return store->features[FEATURE_retention];
}

/* Rows beyond the capacity and a part of it, 0: none.  part 0: the capacity. */
uint64_t evict__over(const struct core *core, uint32_t part);
/* Begins a round, or goes through one more extent of it.  *removed grows by the
** rows; *ended: the round is over. */
int evict__piece(struct core *core, struct epoch_slot *slot,
                 struct evict *round, uint64_t *removed, int *ended,
                 emb_err *err);
/* What a row is chosen by: the lowest goes first. */
uint64_t evict_score(const struct core *core, const struct evict *round,
                     emb_track track, uint64_t version);

#endif
