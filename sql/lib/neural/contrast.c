/* SPDX-License-Identifier: MIT
**
** contrast.c -- the contrastive loss; see contrast.h.
*/
#include "contrast.h"

#include <cblas.h>

#include "loss.h"

/* Column 0 is a query's own candidate. */
static void logits(const struct contrast *c, float scale) {
  size_t width = c->width, columns = c->negatives + 1;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)c->rows,
              (int)c->negatives, (int)width, scale, c->query, (int)width,
              c->negative, (int)width, 0, c->logits + 1, (int)columns);
  for (size_t i = 0; i < c->rows; i++) {
    float *row = c->logits + i * columns;
    row[0] = scale * cblas_sdot((int)width, c->query + i * width, 1,
                                c->own + i * width, 1);
    for (size_t n = 0; n < c->negatives; n++) {
      row[n + 1] = c->negative_id[n] == c->own_id[i] ? -1e9f : row[n + 1];
    }
  }
}

double contrast_loss(const struct contrast *c) {
  static const uint32_t OWN[4096]; /* column 0 is the class of each row */
  size_t width = c->width, columns = c->negatives + 1;
  float scale = 1 / (c->temperature * (float)width);
  logits(c, scale);
  double loss = loss_classes(c->logits, c->rows, columns, OWN);
  for (size_t i = 0; i < c->rows; i++) {
    float part = scale * c->logits[i * columns];
    cblas_saxpy((int)width, part, c->own + i * width, 1,
                c->query_gradient + i * width, 1);
    if (c->own_gradient) {
      cblas_saxpy((int)width, part, c->query + i * width, 1,
                  c->own_gradient + i * width, 1);
    }
  }
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)c->rows,
              (int)width, (int)c->negatives, scale, c->logits + 1, (int)columns,
              c->negative, (int)width, 1, c->query_gradient, (int)width);
  if (c->negative_gradient) {
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)c->negatives,
                (int)width, (int)c->rows, scale, c->logits + 1, (int)columns,
                c->query, (int)width, 1, c->negative_gradient, (int)width);
  }
  return loss;
}
