/* SPDX-License-Identifier: MIT
**
** neighbours.h -- a loss that pulls synsets towards their neighbours.
**
** Lu et al., "CARLS", section 4.1: the loss of the labelled examples, plus
** alpha times the mean over all examples i and their neighbours j of
** |embedding_i - embedding_j|^2 / width.
**
** The neighbours' embeddings come from one of these sources:
**
**   NOWHERE     there is no such loss
**   FROM_BANK   rows of an embedding table, which the trainer or a maker
**               refreshes; the trainer looks them up and uses them as they are
**   IN_TRAINER  the trainer computes them, and the gradient goes back through
**               them, so a step computes 1 + k embeddings for each example
*/
#ifndef BANK_NEIGHBOURS_H
#define BANK_NEIGHBOURS_H

#include "../../lib/table.h"
#include "model.h"

enum source { NOWHERE, FROM_BANK, IN_TRAINER };
extern const char *const SOURCES[];

struct trainer {
  const struct data *data;
  struct model *model;
  struct table *bank;
  enum source source;
  size_t k; /* neighbours of an example */
  float alpha;
  double rate;
  int puts; /* the embeddings of each batch go to the bank */
  uint64_t random;
  /* Room: */
  size_t room;
  uint32_t *nodes; /* of the batch, then their neighbours */
  int64_t *keys;
  float *gradient;
  double looked_up, sought; /* neighbours: found in the bank, and in all */
};

/* A step on `count` nodes; the first `labelled` have a class.  Returns the
** supervised loss. */
double trainer_step(struct trainer *trainer, const uint32_t *nodes,
                    const uint32_t *class, size_t labelled, size_t count);
void trainer_free(struct trainer *trainer);

/* k neighbours of a node: consecutive ones from a random position.  If it has
** fewer than k, all of them, and for the rest random neighbours of these, which
** may repeat.  A node without neighbours gets itself. */
void neighbours_draw(const struct lists *edges, uint32_t node, size_t k,
                     uint64_t *random, uint32_t *to);

#endif
