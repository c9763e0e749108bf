/* SPDX-License-Identifier: MIT
**
** tune.c -- see tune.h.
*/
#include "tune.h"

#include "engine/base/debug.h"

#define DEPTH_MIN 32u
#define DEPTH_MAX 256u
#define WORKERS_MIN 1u
#define WORKERS_MAX 4u

static void store_u32(_Atomic uint32_t *to, uint32_t value) {
  atomic_store_explicit(to, value, memory_order_relaxed);
}
static void store_u64(_Atomic uint64_t *to, uint64_t value) {
  atomic_store_explicit(to, value, memory_order_relaxed);
}

void tune_init(struct tune *tune, uint32_t depth_min, uint32_t depth_max,
               uint32_t workers_min, uint32_t workers_max) {
  tune->depth_min = depth_min ? depth_min : DEPTH_MIN;
  tune->depth_max = depth_max ? depth_max : DEPTH_MAX;
  tune->workers_min = workers_min ? workers_min : WORKERS_MIN;
  tune->workers_max = workers_max ? workers_max : WORKERS_MAX;
  if (tune->depth_max < tune->depth_min) {
    tune->depth_max = tune->depth_min;
  }
  if (tune->workers_max < tune->workers_min) {
    tune->workers_max = tune->workers_min;
  }
  store_u32(&tune->depth, tune->depth_min);
  store_u32(&tune->workers, tune->workers_min);
  emb_check(tune_valid(tune));
}

static int tune_raise(struct tune *tune) {
  uint32_t depth = tune->depth, workers = tune->workers;
  if (depth < tune->depth_max) {
    store_u32(&tune->depth,
              depth * 2 < tune->depth_max ? depth * 2 : tune->depth_max);
  } else if (workers < tune->workers_max) {
    store_u32(&tune->workers, workers + 1);
  } else {
    return 0;
  }
  atomic_fetch_add_explicit(&tune->raised, 1, memory_order_relaxed);
  return 1;
}

static int tune_lower(struct tune *tune) {
  uint32_t depth = tune->depth, workers = tune->workers;
  if (workers > tune->workers_min) {
    store_u32(&tune->workers, workers - 1);
  } else if (depth > tune->depth_min) {
    store_u32(&tune->depth,
              depth / 2 > tune->depth_min ? depth / 2 : tune->depth_min);
  } else {
    return 0;
  }
  atomic_fetch_add_explicit(&tune->lowered, 1, memory_order_relaxed);
  return 1;
}

void tune_batch(struct tune *tune, uint64_t io_us, uint64_t compute_us,
                uint64_t wait_us) {
  uint64_t ratio = io_us * 100 / (compute_us ? compute_us : 1);
  uint32_t decision = TUNE_HOLD;
  store_u64(&tune->io_us, io_us);
  store_u64(&tune->compute_us, compute_us);
  store_u64(&tune->wait_us, wait_us);
  store_u64(&tune->ratio, ratio);
  atomic_fetch_add_explicit(&tune->batches, 1, memory_order_relaxed);
  if (ratio > TUNE_HIGH) {
    tune->streak = tune->streak > 0 ? tune->streak + 1 : 1;
  } else if (ratio < TUNE_LOW) {
    tune->streak = tune->streak < 0 ? tune->streak - 1 : -1;
  } else {
    tune->streak = 0;
  }
  if (tune->streak >= TUNE_STREAK) {
    decision = tune_raise(tune) ? TUNE_RAISE : TUNE_HOLD;
    tune->streak = 0;
  } else if (tune->streak <= -TUNE_STREAK) {
    decision = tune_lower(tune) ? TUNE_LOWER : TUNE_HOLD;
    tune->streak = 0;
  }
  store_u32(&tune->decision, decision);
  emb_check(tune_valid(tune));
}
