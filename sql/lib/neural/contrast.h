/* SPDX-License-Identifier: MIT
**
** contrast.h -- the contrastive loss: of all candidates, each query is to
** choose its own.
**
** The logits are the cosines of the query with its own candidate and with the
** negatives, which all queries share, divided by the temperature; the loss is
** minus the logarithm of the probability of the own one (van den Oord et al.
** 2018; Chen et al. 2020).
*/
#ifndef NEURAL_CONTRAST_H
#define NEURAL_CONTRAST_H

#include <stddef.h>
#include <stdint.h>

/* Embeddings are rows of `width` floats and of length sqrt(width).  The ids say
** which negative is a query's own candidate: it does not count. */
struct contrast {
  size_t width, rows, negatives; /* rows: at most 4096 */
  float temperature;
  const float *query, *own; /* rows */
  const float *negative;    /* negatives */
  const uint32_t *own_id, *negative_id;
  /* Gradients, to which those of this loss are added; NULL for candidates that
  ** are taken as they are. */
  float *query_gradient, *own_gradient, *negative_gradient;
  float *logits; /* room for rows * (negatives + 1) */
};

/* Mean loss of the queries. */
double contrast_loss(const struct contrast *contrast);

#endif
