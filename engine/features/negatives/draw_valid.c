/* SPDX-License-Identifier: MIT
**
** draw_valid.c -- checks that a running call of emb_sample, and its list, are
** as draw.h and listed.c say.  Only in self-checking builds (base/debug.h).
*/
#include "draw.h"

#include <math.h>

#if EMB_DEBUG > 0

int draw_valid(const struct draw *d) {
  emb_assert(!d->uses_set || d->set.places);
  emb_assert(d->draws >= 0);
  /* Excluded keys are not in the list, nor is one drawn again. */
  emb_assert(!isinf(d->most) || !d->uses_set);
  emb_assert(!d->cumulated || d->weights);
  emb_assert(!d->own_cumulated || d->own_cumulated == d->cumulated);
  emb_assert(d->list.at <= d->list.count);
  return 1;
}

int listed_valid(const struct draw *d) {
  const struct listed *list = &d->list;
  emb_assert(isinf(d->most) && !d->list.at);
  emb_assert(!list->when || list->p);
  for (size_t i = 0; list->p && i < list->count; i++) {
    emb_assert(list->p[i] > 0 && list->p[i] <= 1);
  }
  for (size_t i = 0; list->when && i < list->count; i++) {
    emb_assert(list->when[i] >= (i ? list->when[i - 1] : 0));
  }
  return 1;
}

#endif
