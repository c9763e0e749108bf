/* SPDX-License-Identifier: MIT
**
** contrast.h -- the contrastive loss: each query should choose its own
** candidate among all.
**
** The logits are the cosines of the query with its own candidate and with the
** negatives, which all queries share, divided by the temperature.  The loss
** is minus the logarithm of the probability of its own candidate (van den
** Oord et al. 2018; Chen et al. 2020).
*/
#ifndef NEURAL_CONTRAST_H
#define NEURAL_CONTRAST_H

#include <stddef.h>
#include <stdint.h>

/* Embeddings are rows of `width` floats and of length sqrt(width).  The ids
** show which negative is a query's own candidate: it does not count. */
struct contrast {
  size_t width, rows, negatives; /* rows: at most 4096 */
  float temperature;
  const float *query, *own; /* rows */
  const float *negative;    /* negatives */
  const uint32_t *own_id, *negative_id;
  /* The gradients of this loss are added to these; NULL for candidates that are
  ** constant. */
  float *query_gradient, *own_gradient, *negative_gradient;
  float *logits; /* room for rows * (negatives + 1) */
};

/* Mean loss of the queries. */
double contrast_loss(const struct contrast *contrast);

#endif
