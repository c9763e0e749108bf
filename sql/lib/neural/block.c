/* SPDX-License-Identifier: MIT
**
** block.c -- a block of parameters that Adam trains; see block.h.
*/
#include "block.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../database.h"
#include "../random.h"

void block_new(struct block *block, size_t count, double deviation,
               uint64_t *random) {
  block->count = count;
  block->value = need(count, sizeof(float));
  block->gradient = need(count, sizeof(float));
  block->first = need(count, sizeof(float));
  block->second = need(count, sizeof(float));
  block->steps = 0;
  for (size_t i = 0; i < count; i++) {
    block->value[i] = (float)deviation * random_normal(random);
  }
}

void block_free(struct block *block) {
  free(block->value);
  free(block->gradient);
  free(block->first);
  free(block->second);
}

void block_step(struct block *block, double rate) {
  const float keep1 = 0.9f, keep2 = 0.999f;
  double steps = ++block->steps;
  float scale =
      (float)(rate * sqrt(1 - pow(keep2, steps)) / (1 - pow(keep1, steps)));
  float *restrict value = block->value, *restrict gradient = block->gradient;
  float *restrict first = block->first, *restrict second = block->second;
  for (size_t i = 0; i < block->count; i++) {
    float g = gradient[i];
    first[i] = keep1 * first[i] + (1 - keep1) * g;
    second[i] = keep2 * second[i] + (1 - keep2) * g * g;
    value[i] -= scale * first[i] / (sqrtf(second[i]) + 1e-8f);
  }
  memset(gradient, 0, block->count * sizeof(float));
}

void block_one_thread(void) { openblas_set_num_threads(1); }
