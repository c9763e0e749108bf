/* SPDX-License-Identifier: MIT
**
** block.h -- a block of parameters that Adam trains.
**
** Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.
*/
#ifndef NEURAL_BLOCK_H
#define NEURAL_BLOCK_H

#include <stddef.h>
#include <stdint.h>

struct block {
  size_t count;
  float *value, *gradient; /* the gradient adds up until the next step */
  float *first, *second;   /* Adam's moments */
  unsigned steps;
};

/* Values are normal, of this deviation. */
void block_new(struct block *block, size_t count, double deviation,
               uint64_t *random);
void block_free(struct block *block);

/* A step along the gradient, which is zero afterwards. */
void block_step(struct block *block, double rate);

/* Makes BLAS work in the calling thread only.  Here only processes run in
** parallel, and sums have a fixed order, so that runs are repeatable. */
void block_one_thread(void);

#endif
