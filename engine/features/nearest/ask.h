/* SPDX-License-Identifier: MIT
**
** ask.h -- a query to emb_nearest: checked once, then used by every search
** method.
*/
#ifndef EMB_NEAREST_ASK_H
#define EMB_NEAREST_ASK_H

#include "engine/table/session/session.h"
#include "engine/math/vec/distance.h"
#include "best.h"
#include "filter.h"

/* Up to this many keys, rows are always looked up by key. */
#define KEYS_FEW 256

struct ask {
  emb_session *s;
  const struct distance_ops *ops;
  const struct segment *segment;
  float *queries; /* n of segment->dim elements, aligned */
  size_t n, k;
  emb_nearest_how how;
  double most; /* how->most, or infinity */
  /* Does the caller want vectors, versions (nearest.c)? */
  int vectors, versions;
};

/* A row that may be an answer, as read. */
struct ask_row {
  int64_t key;
  const float *row; /* all its elements */
  uint64_t version; /* 0 if not wanted */
};

/* Returns EMB_RANGE if k or n*k is out of range.  Called before any array is
** accessed. */
int nearest_check_size(emb_session *s, size_t n, size_t k);
/* Checks all arguments and copies the queries.  Must be followed by ask__end,
** even after an error. */
int ask__begin(struct ask *ask, emb_session *s, const float *queries, size_t n,
               size_t k, const emb_nearest_how *how);
void ask__end(struct ask *ask);

/* Number of keys named by the conditions (a list, a filter, a range of keys):
** an upper bound on the rows that can be an answer.  UINT64_MAX: they name
** none. */
uint64_t ask__named(const struct ask *ask);
/* May this row be an answer at all? */
int ask__admits(const struct ask *ask, int64_t key);
/* Allocates the answer.  EMB_NOMEM. */
int ask__best(const struct ask *ask, struct best *best);
/* Offers a row to one query. */
void ask__offer(const struct ask *ask, struct best *best, size_t query,
                const struct ask_row *row);
/* Offers a row to all queries.  EMB_INTERRUPT and `work` as in ask__look. */
int ask__offer_all(const struct ask *ask, struct best *best,
                   const struct ask_row *row, size_t *work);
/* The two halves of ask__offer.  Computes a distance; 0: it is undefined.
** vector: segment->dim floats. */
int ask__distance(const struct ask *ask, size_t query, const float *vector,
                  double *distance);
/* Offers a key at a known distance.  As with best__offer, the caller must fill
** the slot. */
uint32_t ask__take(const struct ask *ask, struct best *best, size_t query,
                   int64_t key, double distance);
/* For the calling thread only: polls for an interrupt once enough work has
** accumulated.  `more` counts multiplications, or other work of equal time. */
int ask__look(const struct ask *ask, size_t *work, size_t more);

#endif
