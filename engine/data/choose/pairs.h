/* SPDX-License-Identifier: MIT
**
** pairs.h -- vectors prepared for blocks of pairs (block.h), and the blocks.
*/
#ifndef EMB_CHOOSE_PAIRS_H
#define EMB_CHOOSE_PAIRS_H

#include "engine/base/debug.h"
#include "block.h"

struct choose_pairs {
  size_t n;
  uint32_t dim;
  float *rows;    /* n vectors, */
  float *squares; /* and their squared lengths */
  double unit;    /* the original distance for a distance of 1 in `rows` */
  const struct choose_ops *ops;
  const struct distance_ops *distance;
  float *panels; /* of the current columns */
  float *tile;
  float *other_squares;
  struct choose_block block;
};

/* `pairs` must be zeroed; call choose__pairs_close after an error, too.
** EMB_NOMEM. */
int choose__pairs_open(struct choose_pairs *pairs, size_t n, uint32_t dim);
void choose__pairs_close(struct choose_pairs *pairs);
/* Sets the rows to the vectors minus their mean, scaled so that the longest has
** length 1: distances are the same except for the unit, and products lose the
** least precision. */
void choose__pairs_centre(struct choose_pairs *pairs, const float *vectors);
/* Sets the rows to the vectors scaled to length 1; zero vectors stay 0. */
void choose__pairs_normalise(struct choose_pairs *pairs, const float *vectors);

/* Sets the columns of the following blocks: at most BLOCK_COLUMNS vectors,
** which must stay in place, with their squares (or NULL). */
void choose__pairs_columns(struct choose_pairs *pairs, const float *others,
                           const float *squares, size_t n);
/* Computes the products of rows first..first + n, at most BLOCK_ROWS, with the
** columns. */
struct choose_block *choose__pairs_block(struct choose_pairs *pairs,
                                         size_t first, size_t n);

#endif
