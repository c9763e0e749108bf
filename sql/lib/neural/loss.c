/* SPDX-License-Identifier: MIT
**
** loss.c -- loss functions; see loss.h.
*/
#include "loss.h"

#include <math.h>
#include <string.h>

/* e^x for x <= 0, within 2e-7, in a form that compilers can vectorise: 2^n
** times a polynomial.  expf takes three times as long, and the logits of
** 4,096 negatives are most of the work around a step. */
static inline float exponential(float x) {
  float t = (x < -87 ? -87 : x) * 1.44269504f;
  float n = (float)(int32_t)(t - 0.5f);
  float f = (t - n) * 0.693147181f;
  float e =
      1 + f * (1 + f * (0.5f +
                        f * (0.166666667f +
                             f * (0.0416666667f +
                                  f * (0.00833333333f + f * 0.00138888889f)))));
  uint32_t bits = (uint32_t)((int32_t)n + 127) << 23;
  float power;
  memcpy(&power, &bits, sizeof(power));
  return e * power;
}

void loss_softmax(float *logits, size_t rows, size_t classes) {
  for (size_t i = 0; i < rows; i++, logits += classes) {
    float largest = logits[0], sum = 0;
    for (size_t j = 1; j < classes; j++) {
      largest = logits[j] > largest ? logits[j] : largest;
    }
    for (size_t j = 0; j < classes; j++) {
      logits[j] = exponential(logits[j] - largest);
    }
    for (size_t j = 0; j < classes; j++) {
      sum += logits[j];
    }
    for (size_t j = 0; j < classes; j++) {
      logits[j] /= sum;
    }
  }
}

double loss_classes(float *logits, size_t rows, size_t classes,
                    const uint32_t *class) {
  double loss = 0;
  float share = 1 / (float)rows;
  loss_softmax(logits, rows, classes);
  for (size_t i = 0; i < rows; i++, logits += classes) {
    loss -= log(fmax(logits[class[i]], 1e-30));
    logits[class[i]] -= 1;
    for (size_t j = 0; j < classes; j++) {
      logits[j] *= share;
    }
  }
  return loss / (double)rows;
}

uint32_t loss_argmax(const float *logits, size_t classes) {
  size_t best = 0;
  for (size_t j = 1; j < classes; j++) {
    best = logits[j] > logits[best] ? j : best;
  }
  return (uint32_t)best;
}
