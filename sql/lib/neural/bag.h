/* SPDX-License-Identifier: MIT
**
** bag.h -- a bag of words: the sum of the vectors of a list of words, divided
** by the square root of their number, so that it is as large as one vector.
**
** A step changes only the vectors of the words in a batch, by Adagrad with
** one number of state per vector.
*/
#ifndef NEURAL_BAG_H
#define NEURAL_BAG_H

#include "lists.h"

struct bag {
  size_t words, width;
  float *value, *gradient, *state; /* state: one for each word */
  uint32_t *touched;               /* words that have a gradient */
  size_t touched_count;
  uint8_t *is_touched;
};

void bag_new(struct bag *bag, size_t words, size_t width, uint64_t *random);
void bag_free(struct bag *bag);

/* y: count * width floats, of these lists; an empty list gives zeros. */
void bag_forward(const struct bag *bag, const struct lists *lists,
                 const uint32_t *which, size_t count, float *y);
void bag_backward(struct bag *bag, const struct lists *lists,
                  const uint32_t *which, size_t count, const float *y_gradient);
void bag_step(struct bag *bag, double rate);

#endif
