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

/* Makes s->pool hold a chunk of rows plus one: EMB_NOMEM. */
int bag__room(emb_session *s);
/* emb_check_bags, as an error of the session. */
int bag__check(emb_session *s, size_t n, const emb_bags *bags);
/* The divisor for the sum of this number of rows. */
float bag__divisor(const emb_bags *bags, size_t keys);
/* EMB_RANGE: the emb_update has vectors that were read (emb_update.read). */
int bag_check_how(emb_session *s, const emb_update *how);

#endif
