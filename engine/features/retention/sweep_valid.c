/* SPDX-License-Identifier: MIT
**
** sweep_valid.c -- checks that a pass over records is as sweep.h says.  Only in
** self-checking builds (base/debug.h).
*/
#include "sweep.h"

#if EMB_DEBUG > 0

int sweep_valid(const struct sweep *w) {
  emb_assert(w->look && w->value);
  emb_assert(w->from <= w->end);
  emb_assert(w->end - w->from <= w->core->layout.extent_pages);
  emb_assert(w->buffer || w->from == w->end);
  return 1;
}

#endif
