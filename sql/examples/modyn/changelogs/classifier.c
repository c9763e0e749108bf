/* SPDX-License-Identifier: MIT
**
** classifier.c -- predicts a label from the words of an entry; see
** classifier.h.
*/
#include "classifier.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../../lib/random.h"
#include "../../../lib/neural/loss.h"

enum { WIDTH = 16, AT_ONCE = 256 };

/* Adam's rate for the dense layer. */
static const double RATE = 0.005;

void classifier_open(struct classifier *classifier, sqlite3 *db,
                     const struct words *words, size_t classes) {
  memset(classifier, 0, sizeof(*classifier));
  classifier->db = db;
  classifier->words = words;
  classifier->classes = classes;
  database_run(db,
               "CREATE VIRTUAL TABLE word USING emb("
               "key INTEGER PRIMARY KEY, vector FLOAT[%d],"
               " optimizer='adagrad(lr=0.1)', commit='engine', memory='64MB')",
               WIDTH);
  pool_open(&classifier->pool, db, WIDTH);
  classifier->pooled = need(AT_ONCE * WIDTH, sizeof(float));
  classifier->gradient = need(AT_ONCE * WIDTH, sizeof(float));
  classifier->logits = need(AT_ONCE * classes, sizeof(float));
  uint64_t random = 0;
  layer_new(&classifier->head, WIDTH, classes, 0, &random);
}

void classifier_close(struct classifier *classifier) {
  pool_close(&classifier->pool);
  layer_free(&classifier->head);
  free(classifier->pooled);
  free(classifier->gradient);
  free(classifier->logits);
}

void classifier_begin(struct classifier *classifier, uint64_t *random) {
  database_run(classifier->db, "DELETE FROM word");
  layer_free(&classifier->head);
  layer_new(&classifier->head, WIDTH, classifier->classes, 0, random);
}

static void shuffle(struct example *example, size_t count, uint64_t *random) {
  for (size_t i = count; i > 1; i--) {
    size_t j = random_below(random, i);
    struct example kept = example[i - 1];
    example[i - 1] = example[j];
    example[j] = kept;
  }
}

/* A step on a batch.  Returns the sum of its losses. */
static double step(struct classifier *classifier, const struct example *example,
                   size_t count) {
  uint32_t entry[CLASSIFIER_BATCH], label[CLASSIFIER_BATCH];
  size_t classes = classifier->classes;
  for (size_t i = 0; i < count; i++) {
    entry[i] = example[i].entry;
    label[i] = example[i].label;
  }
  pool_forward(&classifier->pool, classifier->words, entry, count,
               classifier->pooled);
  layer_forward(&classifier->head, classifier->pooled, count,
                classifier->logits);
  double loss = loss_classes(classifier->logits, count, classes, label);
  for (size_t i = 0; i < count; i++) {
    for (size_t j = 0; j < classes; j++) {
      classifier->logits[i * classes + j] *= example[i].weight;
    }
  }
  layer_backward(&classifier->head, classifier->pooled, NULL, count,
                 classifier->logits, classifier->gradient);
  pool_backward(&classifier->pool, classifier->gradient);
  block_step(&classifier->head.block, RATE);
  return loss * (double)count;
}

double classifier_train(struct classifier *classifier, struct example *example,
                        size_t count, size_t epochs, uint64_t *random) {
  double loss = 0;
  for (size_t epoch = 0; epoch < epochs; epoch++) {
    shuffle(example, count, random);
    loss = 0;
    for (size_t first = 0; first < count; first += CLASSIFIER_BATCH) {
      size_t left = count - first;
      loss += step(classifier, example + first,
                   left < CLASSIFIER_BATCH ? left : CLASSIFIER_BATCH);
    }
  }
  return count ? loss / (double)count : 0;
}

void classifier_predict(struct classifier *classifier, const uint32_t *which,
                        size_t count, float *probability) {
  size_t classes = classifier->classes;
  for (size_t first = 0; first < count; first += AT_ONCE) {
    size_t rows = count - first < AT_ONCE ? count - first : AT_ONCE;
    pool_forward(&classifier->pool, classifier->words, which + first, rows,
                 classifier->pooled);
    layer_forward(&classifier->head, classifier->pooled, rows,
                  probability + first * classes);
    loss_softmax(probability + first * classes, rows, classes);
  }
}
