/* SPDX-License-Identifier: MIT
**
** shells.h -- the rows of a centre, divided by their distance from it.
**
** Each shell has a list of its own.  Where rows have no clusters, as in a table
** of random vectors, nearly all are at the edge of their centre's cell, and the
** distance between a query and a centre says little about the rows around it.
** The length of their residuals says much more (order.h).
**
** BOUNDS   divide the residuals of the sample that trained the centre into
**          parts of the same size.  They change only with the centres.
** RADII    root mean square of the residuals of a shell.
** THREADS  Fitted and restored by the maintainer before the index is in use;
**          constant afterwards.
*/
#ifndef EMB_IVF_SHELLS_H
#define EMB_IVF_SHELLS_H

#include "engine/base/debug.h"
#include "engine/base/env/env.h"

#define SHELLS_MAX 4

struct shells {
  uint32_t centres, count; /* shells of each centre, at most SHELLS_MAX */
  float *bounds;           /* [centres][count - 1]: squared, ascending */
  float *radii;            /* [centres][count] */
};

/* 0: no memory. */
int ivf__shells_init(struct shells *shells, struct env *env, uint32_t centres,
                     uint32_t count);
void ivf__shells_free(struct shells *shells, struct env *env);
static inline size_t shells_bounds(const struct shells *shells) {
  return (size_t)shells->centres * (shells->count - 1);
}
static inline size_t shells_radii(const struct shells *shells) {
  return (size_t)shells->centres * shells->count;
}
/* The squared length of a vector's residual.  Rows and queries use this
** function alike: equal vectors must be in the same shell. */
float ivf__residual_square(const float *vector, const float *centre,
                           uint32_t dim);
/* The shell of a residual of this squared length. */
static inline uint32_t shells_of(const struct shells *shells, uint32_t centre,
                                 float square) {
  const float *bounds = shells->bounds + (size_t)centre * (shells->count - 1);
  uint32_t shell = 0;
  for (uint32_t i = 0; i + 1 < shells->count; i++) {
    shell += square > bounds[i];
  }
  return shell;
}

/* The squared lengths of the residuals of a sample, and their centres. */
struct shells_sample {
  float *squares;
  uint32_t *centre;
  size_t n, room;
};
int ivf__shells_sample_init(struct shells_sample *sample, struct env *env,
                            size_t room);
void ivf__shells_sample_free(struct shells_sample *sample, struct env *env);
/* Fits bounds and radii.  Sorts the sample.  A centre with too few rows takes
** those of all.  0: no memory. */
int ivf__shells_fit(struct shells *shells, struct env *env,
                    struct shells_sample *sample);

#endif
