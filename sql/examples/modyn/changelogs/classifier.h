/* SPDX-License-Identifier: MIT
**
** classifier.h -- guesses a label from the words of an entry.
**
**   words -> pooled (pool.h) -> dense -> a logit for each label
**
** Nothing between the two, as in fastText: Joulin, Grave, Bojanowski and
** Mikolov, "Bag of Tricks for Efficient Text Classification", EACL 2017.  The
** words' vectors are rows of an emb table, changed by its optimizer; the dense
** layer is in memory, changed by Adam.
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

/* Forgets all that was learned. */
void classifier_begin(struct classifier *classifier, uint64_t *random);

/* Passes over the examples, each time in another order; they are shuffled.  The
** mean loss of the last pass. */
double classifier_train(struct classifier *classifier, struct example *example,
                        size_t count, size_t epochs, uint64_t *random);

/* probability: of each label, count * classes floats. */
void classifier_predict(struct classifier *classifier, const uint32_t *which,
                        size_t count, float *probability);

#endif
