/* SPDX-License-Identifier: MIT
**
** towers.h -- two towers: what a synset's words look like, and what its gloss
** says, as embeddings that are near each other; section 4.3 of the paper.
**
** The contrastive loss goes both ways: of a batch, each lemma is to choose its
** own gloss before the negatives, and each gloss its lemma.  What is chosen
** from are rows of the embedding tables `lemma` and `gloss`, which a knowledge
** maker refreshes as a whole (towers_refresh); or all is computed in the
** trainer, with the gradient back through it, which costs as much as as many
** examples.
**
** The own one comes from the bank, too, though the trainer has computed a newer
** embedding of it.  If it did not, the towers would learn what is easier than
** to tell synsets apart: to tell the new from the old.  All embeddings move
** away from where the bank has its rows, the loss falls at first, and nothing
** is found any more.  For the same reason rows are not refreshed one by one, as
** they occur in batches, but all of them with the same parameters (MoCo, He et
** al. 2020, has its own encoder for that).
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
  const uint32_t *pool; /* what these are chosen from */
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

/* A step; the loss, mean of both ways. */
double towers_step(struct towers *towers, const uint32_t *nodes, size_t count);

/* Brings the tables up to date with the towers as they are, for these nodes,
** and makes negatives of them. */
void towers_refresh(struct towers *towers, const uint32_t *nodes, size_t count);

/* Share of the nodes whose gloss is among the k nearest to their lemma, of the
** glosses of these nodes, which go to a table of their own. */
double towers_recall(struct towers *towers, const uint32_t *nodes, size_t count,
                     size_t k);

#endif
