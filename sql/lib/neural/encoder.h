/* SPDX-License-Identifier: MIT
**
** encoder.h -- a network that embeds a bag of words.
**
**   words -> bag (bag.h) -> dense, relu -> dense, relu -> dense
**         -> scaled to length sqrt(width)
**
** Embeddings of the same length cannot come nearer to each other by
** shrinking, and their Euclidean distance, their cosine and their dot product
** are equivalent.  With this length their elements are about 1, as the next
** layer needs.
*/
#ifndef NEURAL_ENCODER_H
#define NEURAL_ENCODER_H

#include "bag.h"
#include "layer.h"

struct encoder_shape {
  size_t words, width, hidden[2], out;
};

enum { ENCODER_LAYERS = 3 };

struct encoder {
  struct bag bag;
  struct layer layer[ENCODER_LAYERS];
  /* Of the last forward pass: */
  const struct lists *lists;
  const uint32_t *which;
  size_t count, room;
  float *x[ENCODER_LAYERS + 1]; /* input of each layer, and the last output */
  float *gradient[2];
  float *embedding, *length;
};

void encoder_new(struct encoder *encoder, const struct encoder_shape *shape,
                 uint64_t *random);
void encoder_free(struct encoder *encoder);

/* The embeddings of these lists of words, count * out floats, valid until the
** next pass.  `lists` and `which` are kept for the backward pass. */
const float *encoder_forward(struct encoder *encoder, const struct lists *lists,
                             const uint32_t *which, size_t count);

/* Computes the gradients of all parameters from that of the last embeddings. */
void encoder_backward(struct encoder *encoder, const float *gradient);
/* The words have a rate of their own: Adagrad updates them, and each word is
** in few batches. */
void encoder_step(struct encoder *encoder, double rate, double words_rate);

/* Parameters as one row of floats; both functions return its end. */
size_t encoder_floats(const struct encoder *encoder);
float *encoder_save(const struct encoder *encoder, float *to);
const float *encoder_load(struct encoder *encoder, const float *from);

#endif
