/* SPDX-License-Identifier: MIT
**
** ask.h -- what emb_nearest is asked: checked once, and then what every way of
** answering goes by.
*/
#ifndef EMB_NEAREST_ASK_H
#define EMB_NEAREST_ASK_H

#include "engine/table/session/session.h"
#include "engine/math/vec/distance.h"
#include "best.h"
#include "filter.h"

/* Rows of so few keys are looked up by key in any case. */
#define KEYS_FEW 256

struct ask {
  emb_session *s;
  const struct distance_ops *ops;
  const struct segment *segment;
  float *queries; /* n of segment->dim elements, aligned */
  size_t n, k;
  emb_nearest_how how;
  double most; /* how->most, or infinity */
  /* What else is wanted of the rows that are found (nearest.c). */
  int vectors, versions;
};

/* A row that may be an answer, as it was read. */
struct ask_row {
  int64_t key;
  const float *row; /* all its elements */
  uint64_t version; /* 0 if it is not wanted */
};

/* EMB_RANGE: k, or n*k; before any array is looked at. */
int nearest_check_size(emb_session *s, size_t n, size_t k);
/* Checks all, and copies the queries.  To be ended in any case. */
int ask__begin(struct ask *ask, emb_session *s, const float *queries, size_t n,
               size_t k, const emb_nearest_how *how);
void ask__end(struct ask *ask);

/* Keys that the conditions name: a list, a filter, a range of keys; at most so
** many rows can be an answer.  UINT64_MAX: they name none. */
uint64_t ask__named(const struct ask *ask);
/* May this row be among the neighbours at all? */
int ask__admits(const struct ask *ask, int64_t key);
/* Room for the answer.  EMB_NOMEM. */
int ask__best(const struct ask *ask, struct best *best);
/* Offers a row to a query, or to all. */
void ask__offer(const struct ask *ask, struct best *best, size_t query,
                const struct ask_row *row);
/* EMB_INTERRUPT, as below; work as there. */
int ask__offer_all(const struct ask *ask, struct best *best,
                   const struct ask_row *row, size_t *work);
/* The halves of ask__offer.  0: there is no distance; vector: segment->dim
** floats. */
int ask__distance(const struct ask *ask, size_t query, const float *vector,
                  double *distance);
/* As best__offer: the slot is to be filled. */
uint32_t ask__take(const struct ask *ask, struct best *best, size_t query,
                   int64_t key, double distance);
/* For the calling thread: looks for an interrupt when so many more
** multiplications, or what takes as long, have made enough work. */
int ask__look(const struct ask *ask, size_t *work, size_t more);

#endif
