/* SPDX-License-Identifier: MIT
**
** piece.h -- a group of keys taken together; see piece.c.
*/
#ifndef EMB_BANK_PIECE_H
#define EMB_BANK_PIECE_H

#include "bank.h"

struct bank_piece {
  struct bank_item items[BANK_PIECE];
  uint32_t n, room; /* room: at most BANK_PIECE */
  uint64_t steps;   /* of the last bank__apply, like the next two */
  int any_held;     /* a key was put back: a transaction holds it */
  int64_t held;     /* that key */
  int64_t keys[BANK_PIECE];
  uint32_t times[BANK_PIECE];
  uint64_t versions[BANK_PIECE];
  int32_t left[BANK_PIECE]; /* 1: not applied yet */
  float *rows;              /* room * dim: the averages */
  const float **list;       /* the gradients of one key */
  double *scratch;          /* memory to average them */
};

/* NULL: out of memory. */
struct bank_piece *bank__piece_new(emb_session *s);
void bank__piece_free(emb_session *s, struct bank_piece *piece);
/* Averages and applies the items, and finishes each with this pass: items that
** were not applied are put back. */
int bank__apply(emb_session *s, struct bank_piece *piece, uint64_t pass);

#endif
