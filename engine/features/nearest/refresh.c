/* SPDX-License-Identifier: MIT
**
** refresh.c -- a pass over the lists of an index that moves rows changed by
** training steps to the lists where they now belong; see index.h.
**
** During a pass steps set bits in the other words.  A row that moves to a list
** not yet visited is visited again.
**
** A pass begins a second after the last one, or immediately if a hundredth of
** the rows is dirty, since an answer may miss those rows.
*/
#include "index.h"

#define SWEEP_US UINT64_C(1000000) /* from the end of a pass to the next */
#define SWEEP_LISTS 256            /* most lists visited per piece */

int refresh__due(struct nearest_index *x) {
  return x->sweep.is_on || (atomic_load(&x->behind) && !refresh__rest_us(x));
}

int refresh__is_far_behind(struct nearest_index *x) {
  uint64_t rows = (uint64_t)atomic_load(&x->store->core.count);
  return atomic_load(&x->behind) > rows / 100;
}

uint64_t refresh__rest_us(struct nearest_index *x) {
  struct env *env = x->store->core.env;
  uint64_t now = env->now_us(env), due = x->sweep.ended_us + SWEEP_US;
  return x->store->core.step_mode || due <= now || refresh__is_far_behind(x)
             ? 0
             : due - now;
}

/* All lists are done: fills their holes, in every index. */
static void refresh_end(struct nearest_index *x, struct index_set *set) {
  for (uint32_t k = 0; k < x->store->core.schema.count; k++) {
    for (uint32_t list = 0; index_has(x, k) && list < set->ivf[k].lists.count;
         list++) {
      ivf_close(&set->ivf[k], list);
    }
  }
  nearest_observe__clean(x, x->sweep.old);
  emb_assert(atomic_load(&x->behind) >= x->sweep.bits);
  atomic_fetch_sub(&x->behind, x->sweep.bits);
  x->sweep.is_on = 0;
  x->sweep.ended_us = x->store->core.env->now_us(x->store->core.env);
}

int refresh__piece(struct nearest_index *x, struct index_set *set) {
  struct renewal *sweep = &x->sweep;
  struct dirty *dirty = atomic_load(&x->dirty);
  int64_t keys[IVF_ROWS];
  size_t n, kept = 0;
  uint32_t lists = 0;
  emb_assert(set == index_set_at(x, SET_USED));
  if (!sweep->is_on) {
    sweep->bits = atomic_load(&x->behind);
    sweep->old = nearest_observe__turn(x);
    sweep->is_on = 1;
    sweep->list = sweep->block = 0;
    sweep->segment = indexed_first(x);
  }
  struct ivf *ivf = &set->ivf[sweep->segment];
  while (kept < IVF_ROWS / 2 && lists < SWEEP_LISTS &&
         sweep->list < ivf->lists.count) {
    n = ivf_keys(ivf, sweep->list, &sweep->block, keys + kept, IVF_ROWS - kept);
    lists += sweep->block == 0;
    sweep->list += sweep->block == 0;
    for (size_t i = kept, all = kept + n; i < all; i++) {
      if (dirty_has(dirty, sweep->old, keys[i])) {
        keys[kept++] = keys[i];
      }
    }
  }
  int rc = kept ? build__apply(x, keys, kept) : EMB_OK;
  if (!rc && sweep->list >= ivf->lists.count) {
    refresh_end(x, set);
  }
  return rc;
}
