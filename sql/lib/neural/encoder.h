/* SPDX-License-Identifier: MIT
**
** encoder.h -- a network that makes an embedding of a bag of words.
**
**   words -> bag (bag.h) -> dense, relu -> dense, relu -> dense
**         -> scaled to length sqrt(width)
**
** Embeddings of one length cannot come nearer to each other by shrinking, and
** their Euclidean distance, their cosine and their dot product say the same.
** With this length their elements are about 1, as the next layer wants it.
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
  float *x[ENCODER_LAYERS + 1]; /* what goes into each layer, what comes out */
  float *gradient[2];
  float *embedding, *length;
};

void encoder_new(struct encoder *encoder, const struct encoder_shape *shape,
                 uint64_t *random);
void encoder_free(struct encoder *encoder);

/* The embeddings of these lists of words, count * out floats, which stay until
** the next pass.  lists and which are kept for the way back. */
const float *encoder_forward(struct encoder *encoder, const struct lists *lists,
                             const uint32_t *which, size_t count);

/* From the gradient of the last pass's embeddings those of all parameters. */
void encoder_backward(struct encoder *encoder, const float *gradient);
/* The words have a rate of their own: they are changed by Adagrad, and each of
** them is in few batches only. */
void encoder_step(struct encoder *encoder, double rate, double words_rate);

/* Parameters as one row of floats; both return where it ends. */
size_t encoder_floats(const struct encoder *encoder);
float *encoder_save(const struct encoder *encoder, float *to);
const float *encoder_load(struct encoder *encoder, const float *from);

#endif
