/* SPDX-License-Identifier: MIT
**
** towers.h -- two towers: what a synset's words look like, and what its gloss
** says, as embeddings that are near each other; section 4.3 of the paper.
**
** The contrastive loss goes both ways: of a batch, each lemma is to choose its
** gloss among the negatives, and each gloss its lemma.  The negatives'
*embeddings
** are rows of the embedding tables `lemma` and `gloss`, which get those of each
** batch; or they are computed in the trainer, with the gradient back through
** them, which costs as much as as many examples.
*/
#ifndef BANK_TOWERS_H
#define BANK_TOWERS_H

#include "../lib/options.h"
#include "../lib/table.h"
#include "../neural/encoder.h"
#include "data.h"

enum side { LEMMA, GLOSS, SIDES };

/* Where the negatives' embeddings come from. */
enum negatives_from { BANK, TRAINER };

struct tower {
  struct encoder encoder;
  const struct lists *words;
  struct table bank;
  float *negative; /* room, of the step */
  float *gradient;
};

struct towers {
  const struct data *data;
  sqlite3 *db;
  struct tower tower[SIDES];
  uint64_t random;
  double rate;
  enum negatives_from from;
  size_t negatives;
  /* Room: */
  size_t room, negatives_room;
  uint32_t *nodes; /* of the batch, then the negatives */
  int64_t *keys;
  float *logits;
};

enum { TOWER_WIDTH = 32 };

/* With tables in DIRECTORY/towers.db. */
void towers_new(struct towers *towers, const struct options *options,
                const struct data *data, uint64_t seed);
void towers_free(struct towers *towers);

/* A step; the loss, mean of both ways. */
double towers_step(struct towers *towers, const uint32_t *nodes, size_t count);

/* Brings a table up to date with its tower, for all nodes. */
void towers_refresh(struct towers *towers, enum side side);

/* Share of the nodes whose gloss is among the k nearest of all to their lemma:
** in the table, as it is. */
double towers_recall(struct towers *towers, const uint32_t *nodes, size_t count,
                     size_t k);

#endif
