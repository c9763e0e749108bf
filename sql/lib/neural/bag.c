/* SPDX-License-Identifier: MIT
**
** bag.c -- a bag of words; see bag.h.
*/
#include "bag.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../random.h"

void bag_new(struct bag *bag, size_t words, size_t width, uint64_t *random) {
  memset(bag, 0, sizeof(*bag));
  bag->words = words;
  bag->width = width;
  bag->value = need(words * width, sizeof(float));
  bag->gradient = need(words * width, sizeof(float));
  bag->state = need(words, sizeof(float));
  bag->touched = need(words, sizeof(uint32_t));
  bag->is_touched = need(words, 1);
  for (size_t i = 0; i < words * width; i++) {
    bag->value[i] = random_normal(random);
  }
}

void bag_free(struct bag *bag) {
  free(bag->value);
  free(bag->gradient);
  free(bag->state);
  free(bag->touched);
  free(bag->is_touched);
}

void bag_forward(const struct bag *bag, const struct lists *lists,
                 const uint32_t *which, size_t count, float *y) {
  size_t width = bag->width;
  memset(y, 0, count * width * sizeof(float));
  for (size_t i = 0; i < count; i++, y += width) {
    size_t length = lists_length(lists, which[i]);
    const uint32_t *word = lists_items(lists, which[i]);
    float share = 1 / sqrtf((float)(length ? length : 1));
    for (size_t k = 0; k < length; k++) {
      const float *vector = bag->value + word[k] * width;
      for (size_t j = 0; j < width; j++) {
        y[j] += share * vector[j];
      }
    }
  }
}

static void touch(struct bag *bag, uint32_t word) {
  if (!bag->is_touched[word]) {
    bag->is_touched[word] = 1;
    bag->touched[bag->touched_count++] = word;
  }
}

void bag_backward(struct bag *bag, const struct lists *lists,
                  const uint32_t *which, size_t count,
                  const float *y_gradient) {
  size_t width = bag->width;
  for (size_t i = 0; i < count; i++, y_gradient += width) {
    size_t length = lists_length(lists, which[i]);
    const uint32_t *word = lists_items(lists, which[i]);
    float share = 1 / sqrtf((float)(length ? length : 1));
    for (size_t k = 0; k < length; k++) {
      float *gradient = bag->gradient + word[k] * width;
      touch(bag, word[k]);
      for (size_t j = 0; j < width; j++) {
        gradient[j] += share * y_gradient[j];
      }
    }
  }
}

void bag_step(struct bag *bag, double rate) {
  size_t width = bag->width;
  for (size_t i = 0; i < bag->touched_count; i++) {
    uint32_t word = bag->touched[i];
    float *value = bag->value + word * width;
    float *gradient = bag->gradient + word * width;
    float square = 0;
    for (size_t j = 0; j < width; j++) {
      square += gradient[j] * gradient[j];
    }
    bag->state[word] += square / (float)width;
    float scale = (float)rate / (sqrtf(bag->state[word]) + 1e-10f);
    for (size_t j = 0; j < width; j++) {
      value[j] -= scale * gradient[j];
      gradient[j] = 0;
    }
    bag->is_touched[word] = 0;
  }
  bag->touched_count = 0;
}
