/* SPDX-License-Identifier: MIT
**
** tune.h -- tunes the number of requests and workers of asynchronous batches.
**
** The rule is CAM's (section 4): the computation between two batches hides
** their I/O, so I/O gets more resources while it takes longer than the
** computation, and fewer when it is much shorter.  ratio = I/O time / compute
** time of a batch.  After TUNE_STREAK consecutive batches above 1.1, the
** requests in flight double, and once at their ceiling a worker is added.
** After as many below 0.7, a worker is removed, and once at their minimum the
** requests are halved.  A ratio in between, or any change, restarts the count.
*/
#ifndef EMB_PROCESS_TUNE_H
#define EMB_PROCESS_TUNE_H

#include <stdatomic.h>
#include <stdint.h>

#define TUNE_STREAK 3
#define TUNE_HIGH 110 /* percent */
#define TUNE_LOW 70

enum { TUNE_HOLD = 0, TUNE_RAISE = 1, TUNE_LOWER = 2 };

struct tune {
  uint32_t depth_min, depth_max, workers_min, workers_max;
  /* Read relaxed by workers; written when a batch is synchronized, under
  ** jobs.lock. */
  _Atomic uint32_t depth, workers;
  /* Of the last batch, for statistics; relaxed. */
  _Atomic uint64_t io_us, compute_us, wait_us, ratio;
  _Atomic uint64_t raised, lowered, batches;
  _Atomic uint32_t decision;
  int streak; /* consecutive batches above (positive) or below */
};

/* 0: the default. */
void tune_init(struct tune *tune, uint32_t depth_min, uint32_t depth_max,
               uint32_t workers_min, uint32_t workers_max);
/* Reports the time of a batch from start to end, and the times that its session
** computed and waited. */
void tune_batch(struct tune *tune, uint64_t io_us, uint64_t compute_us,
                uint64_t wait_us);

/* ---- tune_valid.c -------------------------------------------------------- */

/* Only in self-checking builds (base/debug.h): returns 1. */
int tune_valid(const struct tune *tune);

#endif
