/* SPDX-License-Identifier: MIT
**
** evict.h -- keeps a table below its capacity by removing the least recently or
** least often updated rows.
**
** A round begins when there are more rows than the capacity N, and ends at
** N - N/16, so that many rows share the cost of a round.
**
** CHOICE    At the start of a round the table is divided, in log order, into at
**           most 256 strata of equally many extents.  One page of each stratum
**           is sampled (several in a small table), so every row has the same
**           chance to be seen.  The scores of the sample give the score below
**           which the required share of the table lies.  Then the round goes
**           through the extents one by one and removes the rows below that
**           score, starting with the strata that had most of them in the
**           sample.  If the log is in the order of the updates (usual for lru),
**           the round reads little besides the rows it removes; at worst, with
**           rows in random order, sixteen rows for each row removed.
** SCORE     lru: updated_at, then version, which grows with every write of the
**           store.  lfu: log2(frequency) minus one for each mean age (time
**           since the update, averaged over the sample) since the row's own
**           update, then version.  A row without updates therefore loses half
**           of its frequency each time the average age of the rows passes, and
**           is removed in the end however popular it was.  Reads do not count,
**           because they write nothing (as for updated_at).
** BOUND     Steps begin a round at N + 1.  A writer that finds more than
**           N + N/16 rows at the end of its call does a piece of the round
**           itself, unless another thread is doing one; with more than N + N/8
**           it continues, waiting for a checkpoint if necessary, until there
**           are fewer rows or a whole round has found no removable row.  So
**           there are at most N + N/8 rows, plus those of one call of each
**           session, those that one transaction adds, and those that it has
**           changed.
** REMOVAL   and waiting: see sweep.h.
*/
#ifndef EMB_RETENTION_EVICT_H
#define EMB_RETENTION_EVICT_H

#include "engine/table/store/store.h"

#define EVICT_STRATA 256

struct evict_stratum {
  uint64_t from, end; /* extents; both 0: none */
  uint32_t seen, low; /* live rows in its sample, and those below the score */
};

struct evict { /* a round; under ckpt_lock */
  uint64_t random;
  uint64_t most; /* rows at which it ends */
  uint64_t score;
  uint64_t removed;
  uint32_t now, mean_age;
  uint32_t count, at; /* strata, and the current one; 0: there is no round */
  uint64_t next;      /* extent in the current one */
  struct evict_stratum strata[EVICT_STRATA];
};

static inline struct evict *evict_of(const emb_store *store) { /* ckpt_lock */
  return store->features[FEATURE_retention];
}

/* Number of rows beyond the capacity plus 1/part of it, 0: none.  part 0:
** beyond the capacity itself. */
uint64_t evict__over(const struct core *core, uint32_t part);
/* Begins a round, or goes through its next extent.  *removed grows by the rows
** removed; *in_vain: the round is over, and removed none. */
int evict__piece(struct core *core, struct epoch_slot *slot,
                 struct evict *round, uint64_t *removed, int *in_vain,
                 emb_err *err);
/* Is the round, or its absence, as described here?  Under ckpt_lock.  Only in
** self-checking builds. */
int evict_valid(const struct core *core, const struct evict *round);
/* A row's score; rows with the lowest scores are removed first. */
uint64_t evict_score(const struct core *core, const struct evict *round,
                     emb_track track, uint64_t version);

#endif
