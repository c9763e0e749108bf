/* SPDX-License-Identifier: MIT
**
** classifier.h -- predicts a label from the words of an entry.
**
**   words -> pooled (pool.h) -> dense -> a logit for each label
**
** There is nothing between pooling and the dense layer, as in fastText:
** Joulin, Grave, Bojanowski and Mikolov, "Bag of Tricks for Efficient Text
** Classification", EACL 2017.  The words' vectors are rows of an emb table,
** updated by its optimizer; the dense layer is in memory, updated by Adam.
*/
#ifndef CHANGELOGS_CLASSIFIER_H
#define CHANGELOGS_CLASSIFIER_H

#include "../../../lib/neural/layer.h"
#include "pool.h"

enum { CLASSIFIER_BATCH = 32 };

struct classifier {
  sqlite3 *db;
  const struct words *words;
  size_t classes;
  struct pool pool;
  struct layer head;
  float *pooled, *gradient, *logits;
};

/* One sample of a training. */
struct example {
  uint32_t entry, label;
  float weight;
};

/* Makes the table of words. */
void classifier_open(struct classifier *classifier, sqlite3 *db,
                     const struct words *words, size_t classes);
void classifier_close(struct classifier *classifier);

/* Resets the classifier to an untrained state. */
void classifier_begin(struct classifier *classifier, uint64_t *random);

/* Passes over the examples, which it shuffles before each pass.  Returns the
** mean loss of the last pass. */
double classifier_train(struct classifier *classifier, struct example *example,
                        size_t count, size_t epochs, uint64_t *random);

/* probability: of each label; count * classes floats. */
void classifier_predict(struct classifier *classifier, const uint32_t *which,
                        size_t count, float *probability);

#endif
