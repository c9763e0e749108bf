/* SPDX-License-Identifier: MIT
**
** weights.h -- the keys of a table by how often they were updated, for draws by
** frequency.
**
** Weights are made by a pass over the table.  They take 8 bytes for each key,
** ordered by frequency, and for each frequency that occurs 16 bytes, and 16
** for each power; while they are made, 24 for each key.  A call that finds
** them out of date makes them again: when the updates since are more than an
** eighth of the updates counted, or the number of rows has changed by an
** eighth.  One session does that, and the others continue with the old ones.
** So the cost of making them is spread over many updates.
**
** STATES    none; made, and shared by calls (refs); replaced, and freed with
**           the last call.
** THREADS   Weights do not change once made, except `powers`, under the lock.
*/
#ifndef EMB_NEGATIVES_WEIGHTS_H
#define EMB_NEGATIVES_WEIGHTS_H

#include <pthread.h>

#include "draw.h"

/* Number of powers whose sums are kept. */
#define WEIGHTS_POWERS 4

struct weights_group { /* keys that were updated equally often */
  uint32_t frequency;
  size_t end; /* of its keys, exclusive */
};

struct weights {
  uint32_t refs; /* the store's lock */
  size_t count;
  int64_t *keys; /* by frequency, then by key */
  size_t groups;
  struct weights_group *group;
  uint64_t version, rows; /* of the store, when the pass began */
  uint64_t updates;       /* sum of the frequencies */
  size_t powers;          /* under the store's lock, as are the powers */
  double power[WEIGHTS_POWERS];
  /* One for each group: sums of frequency^power over the keys; followed by
  ** that power of each group. */
  double *cumulated[WEIGHTS_POWERS];
};

struct sampling { /* of a store */
  pthread_mutex_t lock;
  struct weights *weights; /* lock */
  int making;              /* lock: a session makes the next */
  /* Written under the lock, read by emb_stats; relaxed. */
  _Atomic uint64_t bytes, made, samples;
};

static inline struct sampling *sampling_of(const emb_store *store) {
  return store->features[FEATURE_negatives];
}

/* Are the keys in their groups, and the sums those of the groups?  Under the
** lock, or before they are shared.  Only in self-checking builds, as is the
** function for all of a store's. */
int weights_valid(const struct weights *w);
int sampling_valid(struct sampling *sampling);

/* A source; EMB_UNFIT: the store does not track.  End it even after an
** error. */
int weights__begin(struct draw *d);
void weights__end(struct draw *d);
/* Lists the keys that may come, with their probabilities, in d->list. */
int weights__list(struct draw *d);

#endif
