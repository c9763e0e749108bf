/* SPDX-License-Identifier: MIT
**
** loss.h -- loss functions, with their gradients.
*/
#ifndef NEURAL_LOSS_H
#define NEURAL_LOSS_H

#include <stddef.h>
#include <stdint.h>

/* Turns each row of logits into probabilities. */
void loss_softmax(float *logits, size_t rows, size_t classes);

/* Mean over the rows of minus the logarithm of the probability of the row's
** class.  The logits are replaced by their gradient. */
double loss_classes(float *logits, size_t rows, size_t classes,
                    const uint32_t *class);

/* The class with the largest logit. */
uint32_t loss_argmax(const float *logits, size_t classes);

#endif
