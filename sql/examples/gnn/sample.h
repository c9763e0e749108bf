/* SPDX-License-Identifier: MIT
**
** sample.h -- the part of the graph that a batch of synsets needs.
**
**   targets -> FAN1 neighbours of each -> FAN2 neighbours of each of all these
**
** Hamilton, Ying and Leskovec, "Inductive Representation Learning on Large
** Graphs", NIPS 2017.  Neighbours are drawn with repetition; a node without
** neighbours is its own.
*/
#ifndef GNN_SAMPLE_H
#define GNN_SAMPLE_H

#include "../bank/data.h"

enum { TARGETS = 256, FAN1 = 10, FAN2 = 5 };
enum { MIDDLE = TARGETS * (1 + FAN1), LEAVES = MIDDLE * FAN2 };

struct sample {
  size_t targets;
  uint32_t target[TARGETS];
  /* Rows of the batch's features: of the targets and then of their neighbours,
  ** FAN1 of each; and of the neighbours of all these, FAN2 of each. */
  uint32_t middle[MIDDLE], leaf[LEAVES];
  /* The keys of these rows, each node once. */
  size_t rows;
  int64_t key[MIDDLE + LEAVES];
};

/* The rows of nodes in the sample being drawn. */
struct rows {
  uint32_t *row, *stamp; /* of a node: its row, if the stamp is the sample's */
  uint32_t number;       /* of the sample */
};
void rows_new(struct rows *rows, size_t nodes);
void rows_free(struct rows *rows);

void sample_draw(struct sample *sample, const struct data *data,
                 struct rows *rows, const uint32_t *targets, size_t count,
                 uint64_t *random);

#endif
