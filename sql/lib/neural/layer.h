/* SPDX-License-Identifier: MIT
**
** layer.h -- a dense layer: y = x W + b, optionally with relu.
**
** Matrices are row-major; a row is an example.
*/
#ifndef NEURAL_LAYER_H
#define NEURAL_LAYER_H

#include "block.h"

struct layer {
  size_t in, out;
  int relu;
  struct block block; /* W, in * out floats, then b, out floats */
};

void layer_new(struct layer *layer, size_t in, size_t out, int relu,
               uint64_t *random);
void layer_free(struct layer *layer);

/* y: rows * out floats. */
void layer_forward(const struct layer *layer, const float *x, size_t rows,
                   float *y);

/* From the gradient of y (rows * out floats, overwritten), computes those of
** W and b, which add up in the block, and that of x (NULL: not wanted). */
void layer_backward(struct layer *layer, const float *x, const float *y,
                    size_t rows, float *y_gradient, float *x_gradient);

#endif
