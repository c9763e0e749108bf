/* SPDX-License-Identifier: MIT
**
** sage.h -- GraphSAGE with two layers and the mean as aggregator.
**
**   h1(v) = relu(W1 [x(v); mean of x(u)])    v: targets and neighbours,
**                                            u: FAN2 neighbours of v
**   h2(v) = relu(W2 [h1(v); mean of h1(u)])  v: targets, u: FAN1 neighbours
**   class = softmax(W3 h2(v))
*/
#ifndef GNN_SAGE_H
#define GNN_SAGE_H

#include "../../lib/neural/layer.h"
#include "sample.h"

enum { FEATURES = 256, HIDDEN = 256 }; /* floats */

struct sage {
  struct layer layer[3];
  float *in1, *out1, *in2, *out2, *logits; /* of the last pass */
  float *gradient_in1, *gradient_out1, *gradient_in2, *gradient_out2;
};

void sage_new(struct sage *sage, uint64_t seed);
void sage_free(struct sage *sage);

/* The logits of the targets; x: the sample's rows of features. */
const float *sage_forward(struct sage *sage, const struct sample *sample,
                          const float *x);

/* After sage_forward: makes a step of the layers and writes the gradient of x.
** Returns the loss. */
double sage_train(struct sage *sage, const struct sample *sample,
                  const uint32_t *class, double rate, float *x_gradient);

#endif
