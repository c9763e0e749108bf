/* SPDX-License-Identifier: MIT
**
** data.h -- WordNet in arrays, as load.sql has prepared it.
*/
#ifndef BANK_DATA_H
#define BANK_DATA_H

#include "../../lib/neural/lists.h"

enum { CLASSES = 45 };

enum part { TRAIN, VALID, TEST, PARTS };

struct data {
  size_t nodes;
  int64_t *synset; /* of a node: its key in the embedding tables; ascending */
  uint32_t *class;
  uint32_t *part[PARTS]; /* the nodes of each part, ascending */
  size_t part_count[PARTS];
  struct lists gloss, lemma; /* words and pieces of each node */
  struct lists edges;        /* neighbours of each node */
  size_t words, pieces;
};

/* Reads a database made by load.sql. */
void data_read(struct data *data, const char *file);
void data_free(struct data *data);

/* The node of a synset. */
uint32_t data_node(const struct data *data, int64_t synset);

/* The synsets of some nodes. */
void data_keys(const struct data *data, const uint32_t *nodes, size_t count,
               int64_t *keys);

#endif
