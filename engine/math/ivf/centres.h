/* SPDX-License-Identifier: MIT
**
** centres.h -- the centres of an index's lists: finding the nearest one, and
** training them (k-means).
**
** TRAINING Lloyd's rounds over a sample, starting from rows of the sample.  A
**          centre that gets no row is moved next to the centre with the most
**          rows, so that the two share those rows.  Training stops after
**          IVF_ROUNDS, or when a round gains less than a hundredth.  It runs in
**          pieces, so that other background work can proceed.
** THREADS  Training belongs to one thread.  Trained centres do not change.
*/
#ifndef EMB_IVF_CENTRES_H
#define EMB_IVF_CENTRES_H

#include "engine/base/debug.h"
#include "engine/base/env/env.h"
#include "engine/math/vec/distance.h"
#include "code.h"

#define IVF_ROUNDS 8

struct centres {
  uint32_t dim, count;
  float *rows;    /* [count][dim] */
  float *squares; /* of their lengths */
};

/* 0: no memory. */
int ivf__centres_init(struct centres *centres, struct env *env, uint32_t dim,
                      uint32_t count);
void ivf__centres_free(struct centres *centres, struct env *env);
static inline const float *centres_row(const struct centres *centres,
                                       uint32_t i) {
  return centres->rows + (size_t)i * centres->dim;
}
/* Computes `squares`; the rows are complete. */
void ivf__centres_measure(struct centres *centres);

/* Buffers for finding the nearest centres of rows. */
struct nearer {
  const struct distance_ops *distance;
  const struct ivf_ops *ops;
  float *panels, *products, *best; /* of NEARER_ROWS rows */
};
#define NEARER_ROWS 256
int ivf__nearer_init(struct nearer *nearer, struct env *env, uint32_t dim);
void ivf__nearer_free(struct nearer *nearer, struct env *env);
/* Finds the centre nearest to each of n rows, at most NEARER_ROWS.
** nearer->best: half the squared distance, minus half the row's squared
** length. */
void ivf__nearest(struct nearer *nearer, const struct centres *centres,
                  const float *rows, size_t n, uint32_t *list);

struct training {
  struct env *env;
  struct centres *centres;
  float *sample; /* rows of centres->dim floats; the caller's */
  size_t n, at;
  uint32_t round;
  double *sums;
  uint32_t *counts;
  double error, before; /* of this round, and the previous one */
};
/* Between steps.  Only in self-checking builds (ivf_valid.c). */
int ivf__training_valid(const struct training *t);
/* n: at least centres->count.  0: no memory. */
int ivf__training_init(struct training *t, struct env *env,
                       struct centres *centres, float *sample, size_t n);
void ivf__training_free(struct training *t);
/* Processes at most NEARER_ROWS rows; 1: training is complete. */
int ivf__training_step(struct training *t, struct nearer *nearer);

#endif
