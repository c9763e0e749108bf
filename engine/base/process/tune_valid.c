/* SPDX-License-Identifier: MIT
**
** tune_valid.c -- checks that tuned numbers are within their limits.  Only in
** self-checking builds (base/debug.h).
*/
#include "engine/base/debug.h"
#include "tune.h"

#if EMB_DEBUG > 0

int tune_valid(const struct tune *tune) {
  uint32_t depth = atomic_load_explicit(&tune->depth, memory_order_relaxed);
  uint32_t workers = atomic_load_explicit(&tune->workers, memory_order_relaxed);
  emb_assert(depth >= tune->depth_min && depth <= tune->depth_max);
  emb_assert(workers >= tune->workers_min && workers <= tune->workers_max);
  emb_assert(tune->streak > -TUNE_STREAK && tune->streak < TUNE_STREAK);
  return 1;
}

#endif
