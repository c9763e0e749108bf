/* SPDX-License-Identifier: MIT
**
** encoder.c -- a network that embeds a bag of words; see encoder.h.
*/
#include "encoder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void encoder_new(struct encoder *encoder, const struct encoder_shape *shape,
                 uint64_t *random) {
  memset(encoder, 0, sizeof(*encoder));
  bag_new(&encoder->bag, shape->words, shape->width, random);
  size_t in = shape->width;
  for (int i = 0; i < ENCODER_LAYERS; i++) {
    int last = i == ENCODER_LAYERS - 1;
    size_t out = last ? shape->out : shape->hidden[i];
    layer_new(&encoder->layer[i], in, out, !last, random);
    in = out;
  }
}

static void room_free(struct encoder *encoder) {
  for (int i = 0; i <= ENCODER_LAYERS; i++) {
    free(encoder->x[i]);
  }
  free(encoder->gradient[0]);
  free(encoder->gradient[1]);
  free(encoder->embedding);
  free(encoder->length);
}

void encoder_free(struct encoder *encoder) {
  room_free(encoder);
  bag_free(&encoder->bag);
  for (int i = 0; i < ENCODER_LAYERS; i++) {
    layer_free(&encoder->layer[i]);
  }
}

/* Makes room for a pass over this many examples. */
static void room_for(struct encoder *encoder, size_t count) {
  if (count <= encoder->room) {
    return;
  }
  room_free(encoder);
  encoder->room = count;
  size_t widest = encoder->layer[0].in;
  for (int i = 0; i <= ENCODER_LAYERS; i++) {
    size_t width = i == 0 ? encoder->layer[0].in : encoder->layer[i - 1].out;
    widest = width > widest ? width : widest;
    encoder->x[i] = need(count * width, sizeof(float));
  }
  encoder->gradient[0] = need(count * widest, sizeof(float));
  encoder->gradient[1] = need(count * widest, sizeof(float));
  size_t out = encoder->layer[ENCODER_LAYERS - 1].out;
  encoder->embedding = need(count * out, sizeof(float));
  encoder->length = need(count, sizeof(float));
}

/* embedding = z sqrt(width) / |z|. */
static void scale(struct encoder *encoder) {
  size_t out = encoder->layer[ENCODER_LAYERS - 1].out;
  const float *z = encoder->x[ENCODER_LAYERS];
  for (size_t i = 0; i < encoder->count; i++) {
    float square = 1e-12f;
    for (size_t j = 0; j < out; j++) {
      square += z[i * out + j] * z[i * out + j];
    }
    encoder->length[i] = sqrtf(square / (float)out);
    for (size_t j = 0; j < out; j++) {
      encoder->embedding[i * out + j] = z[i * out + j] / encoder->length[i];
    }
  }
}

/* The part of the gradient that is orthogonal to the embedding, divided by the
** length: along the embedding nothing changes. */
static void scale_back(const struct encoder *encoder, const float *gradient,
                       float *to) {
  size_t out = encoder->layer[ENCODER_LAYERS - 1].out;
  for (size_t i = 0; i < encoder->count; i++) {
    const float *e = encoder->embedding + i * out, *g = gradient + i * out;
    float along = 0;
    for (size_t j = 0; j < out; j++) {
      along += g[j] * e[j];
    }
    along /= (float)out;
    for (size_t j = 0; j < out; j++) {
      to[i * out + j] = (g[j] - along * e[j]) / encoder->length[i];
    }
  }
}

const float *encoder_forward(struct encoder *encoder, const struct lists *lists,
                             const uint32_t *which, size_t count) {
  room_for(encoder, count);
  encoder->lists = lists;
  encoder->which = which;
  encoder->count = count;
  bag_forward(&encoder->bag, lists, which, count, encoder->x[0]);
  for (int i = 0; i < ENCODER_LAYERS; i++) {
    layer_forward(&encoder->layer[i], encoder->x[i], count, encoder->x[i + 1]);
  }
  scale(encoder);
  return encoder->embedding;
}

void encoder_backward(struct encoder *encoder, const float *gradient) {
  float *of_y = encoder->gradient[0], *of_x = encoder->gradient[1];
  scale_back(encoder, gradient, of_y);
  for (int i = ENCODER_LAYERS - 1; i >= 0; i--) {
    layer_backward(&encoder->layer[i], encoder->x[i], encoder->x[i + 1],
                   encoder->count, of_y, of_x);
    float *other = of_y;
    of_y = of_x;
    of_x = other;
  }
  bag_backward(&encoder->bag, encoder->lists, encoder->which, encoder->count,
               of_y);
}

void encoder_step(struct encoder *encoder, double rate, double words_rate) {
  bag_step(&encoder->bag, words_rate);
  for (int i = 0; i < ENCODER_LAYERS; i++) {
    block_step(&encoder->layer[i].block, rate);
  }
}

size_t encoder_floats(const struct encoder *encoder) {
  size_t floats = encoder->bag.words * encoder->bag.width;
  for (int i = 0; i < ENCODER_LAYERS; i++) {
    floats += encoder->layer[i].block.count;
  }
  return floats;
}

float *encoder_save(const struct encoder *encoder, float *to) {
  size_t words = encoder->bag.words * encoder->bag.width;
  memcpy(to, encoder->bag.value, words * sizeof(float));
  to += words;
  for (int i = 0; i < ENCODER_LAYERS; i++) {
    const struct block *block = &encoder->layer[i].block;
    memcpy(to, block->value, block->count * sizeof(float));
    to += block->count;
  }
  return to;
}

const float *encoder_load(struct encoder *encoder, const float *from) {
  size_t words = encoder->bag.words * encoder->bag.width;
  memcpy(encoder->bag.value, from, words * sizeof(float));
  from += words;
  for (int i = 0; i < ENCODER_LAYERS; i++) {
    struct block *block = &encoder->layer[i].block;
    memcpy(block->value, from, block->count * sizeof(float));
    from += block->count;
  }
  return from;
}
