/* SPDX-License-Identifier: MIT
**
** bag.h -- pooled lookups and their backward pass: the functions that bag.c and
** apply.c share, and the checks that a client makes itself.
*/
#ifndef EMB_BAG_H
#define EMB_BAG_H

#include "engine/table/session/session.h"

/* The end of a bag among n keys. */
static inline size_t bag_end(const emb_bags *bags, size_t n, size_t bag) {
  return bag + 1 < bags->count ? (size_t)bags->offsets[bag + 1] : n;
}

/* ---- apply.c ------------------------------------------------------------- */

/* The rows of each key of a batch. */
struct bag_sums {
  emb_session *s;
  const emb_bags *bags;
  const struct pooling_form *form;
  const float *gradients;
  size_t n;             /* rows: keys of the batch */
  size_t distinct;      /* distinct keys, in order of first occurrence */
  int64_t *keys;        /* each distinct key */
  uint32_t *times;      /* number of the key's rows */
  uint32_t *ends;       /* where these rows end in `rows` */
  uint8_t *found;       /* is the key present? */
  uint32_t *rows;       /* grouped by key */
  uint32_t *bag;        /* of each row */
  uint32_t *number;     /* for the first row of each key: index of the key */
  struct groups groups; /* finds the first row of a key */
  void *memory;
};

/* The index of a row's key. */
static inline uint32_t bag__number_of(const struct bag_sums *sums, size_t row) {
  return sums->groups.any ? sums->number[sums->groups.stands[row]]
                          : (uint32_t)row;
}
/* Only in self-checking builds: once the rows are listed. */
int bag_sums_valid(const struct bag_sums *sums);

/* ---- shared -------------------------------------------------------------- */

/* Makes s->pool hold a chunk of rows plus one: EMB_NOMEM. */
int bag__room(emb_session *s);
/* emb_check_bags, as an error of the session. */
int bag__check(emb_session *s, size_t n, const emb_bags *bags);
/* The divisor for the sum of this number of rows. */
float bag__divisor(const emb_bags *bags, size_t keys);
/* EMB_RANGE: the emb_update has vectors that were read (emb_update.read). */
int bag_check_how(emb_session *s, const emb_update *how);

#endif
