/* SPDX-License-Identifier: MIT
**
** bag.h -- pooled lookups and their way back: what bag.c and apply.c share, and
** what a client checks itself.
*/
#ifndef EMB_BAG_H
#define EMB_BAG_H

#include "engine/table/session/session.h"

/* Where a bag ends in n keys. */
static inline size_t bag_end(const emb_bags *bags, size_t n, size_t bag) {
  return bag + 1 < bags->count ? (size_t)bags->offsets[bag + 1] : n;
}

/* A chunk of rows and one more are in s->pool: EMB_NOMEM. */
int bag__room(emb_session *s);
/* emb_check_bags, as an error of the session. */
int bag__check(emb_session *s, size_t n, const emb_bags *bags);
/* What the sum of so many rows is divided by. */
float bag__divisor(const emb_bags *bags, size_t keys);
/* EMB_RANGE: an emb_update that has vectors that were read. */
int bag_check_how(emb_session *s, const emb_update *how);

#endif
