/* SPDX-License-Identifier: MIT
**
** layer.c -- a dense layer; see layer.h.
*/
#include "layer.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

/* He et al. 2015: outputs are as large as inputs. */
void layer_new(struct layer *layer, size_t in, size_t out, int relu,
               uint64_t *random) {
  layer->in = in;
  layer->out = out;
  layer->relu = relu;
  block_new(&layer->block, (in + 1) * out,
            sqrt((relu ? 2.0 : 1.0) / (double)in), random);
  memset(layer->block.value + in * out, 0, out * sizeof(float));
}

void layer_free(struct layer *layer) { block_free(&layer->block); }

void layer_forward(const struct layer *layer, const float *x, size_t rows,
                   float *y) {
  size_t in = layer->in, out = layer->out;
  const float *weight = layer->block.value, *bias = weight + in * out;
  for (size_t i = 0; i < rows; i++) {
    memcpy(y + i * out, bias, out * sizeof(float));
  }
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, (int)out,
              (int)in, 1, x, (int)in, weight, (int)out, 1, y, (int)out);
  for (size_t i = 0; layer->relu && i < rows * out; i++) {
    y[i] = y[i] > 0 ? y[i] : 0;
  }
}

void layer_backward(struct layer *layer, const float *x, const float *y,
                    size_t rows, float *y_gradient, float *x_gradient) {
  size_t in = layer->in, out = layer->out;
  float *weight = layer->block.gradient, *bias = weight + in * out;
  for (size_t i = 0; layer->relu && i < rows * out; i++) {
    y_gradient[i] = y[i] > 0 ? y_gradient[i] : 0;
  }
  for (size_t i = 0; i < rows; i++) {
    for (size_t j = 0; j < out; j++) {
      bias[j] += y_gradient[i * out + j];
    }
  }
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)in, (int)out,
              (int)rows, 1, x, (int)in, y_gradient, (int)out, 1, weight,
              (int)out);
  if (x_gradient) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)in,
                (int)out, 1, y_gradient, (int)out, layer->block.value, (int)out,
                0, x_gradient, (int)in);
  }
}
