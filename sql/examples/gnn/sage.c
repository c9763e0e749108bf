/* SPDX-License-Identifier: MIT
**
** sage.c -- GraphSAGE with two layers; see sage.h.
*/
#include "sage.h"

#include <stdlib.h>
#include <string.h>

#include "../../lib/neural/loss.h"

void sage_new(struct sage *sage, uint64_t seed) {
  uint64_t random = seed;
  layer_new(&sage->layer[0], 2 * FEATURES, HIDDEN, 1, &random);
  layer_new(&sage->layer[1], 2 * HIDDEN, HIDDEN, 1, &random);
  layer_new(&sage->layer[2], HIDDEN, CLASSES, 0, &random);
  sage->in1 = need(MIDDLE * 2 * FEATURES, sizeof(float));
  sage->out1 = need(MIDDLE * HIDDEN, sizeof(float));
  sage->in2 = need(TARGETS * 2 * HIDDEN, sizeof(float));
  sage->out2 = need(TARGETS * HIDDEN, sizeof(float));
  sage->logits = need(TARGETS * CLASSES, sizeof(float));
  sage->gradient_in1 = need(MIDDLE * 2 * FEATURES, sizeof(float));
  sage->gradient_out1 = need(MIDDLE * HIDDEN, sizeof(float));
  sage->gradient_in2 = need(TARGETS * 2 * HIDDEN, sizeof(float));
  sage->gradient_out2 = need(TARGETS * HIDDEN, sizeof(float));
}

void sage_free(struct sage *sage) {
  for (int i = 0; i < 3; i++) {
    layer_free(&sage->layer[i]);
  }
  free(sage->in1);
  free(sage->out1);
  free(sage->in2);
  free(sage->out2);
  free(sage->logits);
  free(sage->gradient_in1);
  free(sage->gradient_out1);
  free(sage->gradient_in2);
  free(sage->gradient_out2);
}

/* to += scale * from */
static void add(float *restrict to, const float *restrict from, size_t width,
                float scale) {
  for (size_t j = 0; j < width; j++) {
    to[j] += scale * from[j];
  }
}

/* A row and the mean of others, side by side. */
static void join(float *to, const float *own, const float *x,
                 const uint32_t *rows, size_t count, size_t width) {
  memcpy(to, own, width * sizeof(float));
  memset(to + width, 0, width * sizeof(float));
  for (size_t n = 0; n < count; n++) {
    add(to + width, x + rows[n] * width, width, 1 / (float)count);
  }
}

/* The backward pass of join: adds the gradient to both inputs. */
static void part(const float *from, float *own, float *x, const uint32_t *rows,
                 size_t count, size_t width) {
  add(own, from, width, 1);
  for (size_t n = 0; n < count; n++) {
    add(x + rows[n] * width, from + width, width, 1 / (float)count);
  }
}

/* The places of a target's neighbours in the sample's middle. */
static void neighbours_of(const struct sample *sample, size_t target,
                          uint32_t rows[FAN1]) {
  for (size_t n = 0; n < FAN1; n++) {
    rows[n] = (uint32_t)(sample->targets + target * FAN1 + n);
  }
}

const float *sage_forward(struct sage *sage, const struct sample *sample,
                          const float *x) {
  uint32_t rows[FAN1];
  size_t middle = sample->targets * (1 + FAN1);
  for (size_t i = 0; i < middle; i++) {
    join(sage->in1 + i * 2 * FEATURES, x + sample->middle[i] * FEATURES, x,
         sample->leaf + i * FAN2, FAN2, FEATURES);
  }
  layer_forward(&sage->layer[0], sage->in1, middle, sage->out1);
  for (size_t i = 0; i < sample->targets; i++) {
    neighbours_of(sample, i, rows);
    join(sage->in2 + i * 2 * HIDDEN, sage->out1 + i * HIDDEN, sage->out1, rows,
         FAN1, HIDDEN);
  }
  layer_forward(&sage->layer[1], sage->in2, sample->targets, sage->out2);
  layer_forward(&sage->layer[2], sage->out2, sample->targets, sage->logits);
  return sage->logits;
}

static void sage_backward(struct sage *sage, const struct sample *sample,
                          float *x_gradient) {
  uint32_t rows[FAN1];
  size_t targets = sample->targets, middle = targets * (1 + FAN1);
  layer_backward(&sage->layer[2], sage->out2, NULL, targets, sage->logits,
                 sage->gradient_out2);
  layer_backward(&sage->layer[1], sage->in2, sage->out2, targets,
                 sage->gradient_out2, sage->gradient_in2);
  memset(sage->gradient_out1, 0, middle * HIDDEN * sizeof(float));
  for (size_t i = 0; i < targets; i++) {
    neighbours_of(sample, i, rows);
    part(sage->gradient_in2 + i * 2 * HIDDEN, sage->gradient_out1 + i * HIDDEN,
         sage->gradient_out1, rows, FAN1, HIDDEN);
  }
  layer_backward(&sage->layer[0], sage->in1, sage->out1, middle,
                 sage->gradient_out1, sage->gradient_in1);
  memset(x_gradient, 0, sample->rows * FEATURES * sizeof(float));
  for (size_t i = 0; i < middle; i++) {
    part(sage->gradient_in1 + i * 2 * FEATURES,
         x_gradient + sample->middle[i] * FEATURES, x_gradient,
         sample->leaf + i * FAN2, FAN2, FEATURES);
  }
}

double sage_train(struct sage *sage, const struct sample *sample,
                  const uint32_t *class, double rate, float *x_gradient) {
  double loss = loss_classes(sage->logits, sample->targets, CLASSES, class);
  sage_backward(sage, sample, x_gradient);
  for (int i = 0; i < 3; i++) {
    block_step(&sage->layer[i].block, rate);
  }
  return loss;
}
