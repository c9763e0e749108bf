/* SPDX-License-Identifier: MIT
**
** weights_valid.c -- checks that counted updates are as weights.h says.  Only
** in self-checking builds (base/debug.h).
*/
#include "weights.h"

#if EMB_DEBUG > 0

/* Checks the group's keys, and returns their number. */
static size_t check_group(const struct weights *w, size_t g) {
  size_t from = g ? w->group[g - 1].end : 0, end = w->group[g].end;
  emb_assert(from < end && end <= w->count);
  emb_assert(!g || w->group[g - 1].frequency < w->group[g].frequency);
  for (size_t i = from + 1; i < end; i++) {
    emb_assert(w->keys[i - 1] <= w->keys[i]);
  }
  return end - from;
}

static void check_power(const struct weights *w, size_t at) {
  const double *sums = w->cumulated[at];
  for (size_t g = 0; g < w->groups; g++) {
    emb_assert(sums[g] >= (g ? sums[g - 1] : 0));
  }
  for (size_t i = 0; i < at; i++) {
    emb_assert(w->power[i] != w->power[at]);
  }
}

int weights_valid(const struct weights *w) {
  uint64_t updates = 0;
  size_t keys = 0;
  for (size_t g = 0; g < w->groups; g++) {
    size_t n = check_group(w, g);
    updates += (uint64_t)n * w->group[g].frequency;
    keys += n;
  }
  emb_assert(keys == w->count);
  emb_assert(updates == w->updates);
  emb_assert(w->powers <= WEIGHTS_POWERS);
  for (size_t i = 0; i < w->powers; i++) {
    check_power(w, i);
  }
  return 1;
}

int sampling_valid(struct sampling *x) {
  const struct weights *w = x->weights;
  emb_assert(debug_is_locked(&x->lock));
  emb_assert(!w || w->refs);
  emb_assert(atomic_load(&x->bytes) ==
             (w ? w->count * sizeof *w->keys + w->groups * sizeof *w->group +
                      w->powers * 2 * w->groups * sizeof **w->cumulated
                : 0));
  return 1;
}

#endif
