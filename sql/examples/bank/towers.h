/* SPDX-License-Identifier: MIT
**
** towers.h -- two towers: they embed a synset's lemmas and its gloss, so that
** the two embeddings are near each other; section 4.3 of the paper.
**
** The contrastive loss has two directions: in a batch, each lemma should prefer
** its own gloss to the negatives, and each gloss its lemma.  The candidates are
** rows of the embedding tables `lemma` and `gloss`, all of which a knowledge
** maker refreshes together (towers_refresh).  Or the trainer computes all
** candidates, with the gradient back through them, at the cost of as many
** examples.
**
** The positive candidate comes from the bank, too, although the trainer has
** computed a newer embedding of it.  Otherwise the towers would learn something
** easier than telling synsets apart: telling new embeddings from old ones.  All
** embeddings would move away from the bank's rows, the loss would fall at
** first, and searches would find nothing any more.  For the same reason rows
** are not refreshed one by one, as they occur in batches, but all with the same
** parameters (MoCo, He et al. 2020, has a separate encoder for that).
*/
#ifndef BANK_TOWERS_H
#define BANK_TOWERS_H

#include "../../lib/options.h"
#include "../../lib/table.h"
#include "../../lib/neural/encoder.h"
#include "data.h"

enum side { LEMMA, GLOSS, SIDES };

/* Where the negatives' embeddings come from. */
enum negatives_from { BANK, TRAINER };

struct tower {
  struct encoder encoder;
  const struct lists *words;
  struct table bank;
  float *candidate, *gradient; /* room, of the step */
};

struct towers {
  const struct data *data;
  sqlite3 *db;
  struct tower tower[SIDES];
  uint64_t random;
  double rate;
  enum negatives_from from;
  size_t negatives;
  const uint32_t *pool; /* the negatives are chosen from these */
  size_t pool_count;
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

/* A step.  Returns the mean loss of both directions. */
double towers_step(struct towers *towers, const uint32_t *nodes, size_t count);

/* Brings the tables up to date with the current towers, for these nodes, and
** makes these nodes the pool of negatives. */
void towers_refresh(struct towers *towers, const uint32_t *nodes, size_t count);

/* Share of the nodes whose gloss is among the k nearest to their lemma.  Only
** the glosses of these nodes are searched, in a table of their own. */
double towers_recall(struct towers *towers, const uint32_t *nodes, size_t count,
                     size_t k);

#endif
