/* SPDX-License-Identifier: MIT
**
** tune.h -- how many requests and workers the asynchronous batches use.
**
** The rule is CAM's (section 4): the computation between two batches hides
** their I/O, so more is put into I/O while it takes longer than the
** computation, and less when it is much shorter.  ratio = I/O time / compute
** time of a batch.  Above 1.1 in TUNE_STREAK batches running, the requests in
** flight double, and at their ceiling a worker is added; below 0.7 as often, a
** worker is taken away, then the requests are halved.  In between, and after
** every change, the count begins anew.
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
  int streak; /* batches above (positive) or below running */
};

/* 0 stands for the default. */
void tune_init(struct tune *tune, uint32_t depth_min, uint32_t depth_max,
               uint32_t workers_min, uint32_t workers_max);
/* A batch took this long from start to end, and its session computed and
** waited this long. */
void tune_batch(struct tune *tune, uint64_t io_us, uint64_t compute_us,
                uint64_t wait_us);

#endif
