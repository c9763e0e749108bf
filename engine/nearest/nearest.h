/* SPDX-License-Identifier: MIT
**
** nearest.h -- the nearest neighbours of vectors: what is asked (nearest.c),
** and who answers: exact.c for a table, and nearest.c for a snapshot.
*/
#ifndef EMB_NEAREST_NEAREST_H
#define EMB_NEAREST_NEAREST_H

#include "../scan/scan.h"
#include "../vec/distance.h"
#include "best.h"

/* A question that was checked. */
struct ask {
  emb_session *s;
  const struct distance_ops *ops;
  const struct segment *segment;
  float *queries; /* n of segment->dim elements, aligned */
  size_t n, k;
  emb_nearest_how how;
  double most; /* how->most, or infinity */
};

/* EMB_RANGE: k, or n*k; before any array is looked at. */
int nearest_check_size(emb_session *s, size_t n, size_t k);

/* May this row be among the neighbours at all? */
int nearest__admits(const struct ask *ask, int64_t key);
/* Offers a row to a query, or to all; vector: segment->dim floats. */
void nearest__offer(const struct ask *ask, struct best *best, size_t query,
                    int64_t key, const float *vector);
void nearest__offer_all(const struct ask *ask, struct best *best, int64_t key,
                        const float *vector);

/* exact.c: every row of the table. */
int exact__table(const struct ask *ask, struct best *best);
/* indexed.c: those that an index says.  *done: 0, it cannot be done so, and what
** best has is not all. */
int indexed__table(const struct ask *ask, struct best *best, int *done);

#endif
