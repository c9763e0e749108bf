/* SPDX-License-Identifier: MIT
**
** pairs.h -- vectors made ready for blocks of pairs (block.h), and the blocks.
*/
#ifndef EMB_CHOOSE_PAIRS_H
#define EMB_CHOOSE_PAIRS_H

#include "block.h"

struct choose_pairs {
  size_t n;
  uint32_t dim;
  float *rows;    /* n vectors, */
  float *squares; /* and their squared lengths */
  double unit;    /* 1 in them is this much of what they were made of */
  const struct choose_ops *ops;
  const struct distance_ops *distance;
  float *panels; /* of the columns at hand */
  float *tile;
  float *other_squares;
  struct choose_block block;
};

/* Zeros before; choose__pairs_close after an error, too.  EMB_NOMEM. */
int choose__pairs_open(struct choose_pairs *pairs, size_t n, uint32_t dim);
void choose__pairs_close(struct choose_pairs *pairs);
/* Sets the rows to the vectors less their mean, the longest of length 1: the
** distances are the same but for the unit, and products lose least. */
void choose__pairs_centre(struct choose_pairs *pairs, const float *vectors);
/* Sets them to the vectors of length 1, or 0. */
void choose__pairs_normalise(struct choose_pairs *pairs, const float *vectors);

/* The columns of the blocks that follow: at most BLOCK_COLUMNS vectors, which
** stay, with their squares (or NULL). */
void choose__pairs_columns(struct choose_pairs *pairs, const float *others,
                           const float *squares, size_t n);
/* The products of rows first..first + n, at most BLOCK_ROWS, with them. */
struct choose_block *choose__pairs_block(struct choose_pairs *pairs,
                                         size_t first, size_t n);

#endif
