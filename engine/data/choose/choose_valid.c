/* SPDX-License-Identifier: MIT
**
** choose_valid.c -- checks that a choice, its method and a block of pairs are
** as choose.h and block.h say.  Only in self-checking builds (base/debug.h).
*/
#include "choose.h"

#if EMB_DEBUG > 0

int choose__method_valid(const struct choose_method *how) {
  emb_assert(how->kind >= CHOOSE_CENTRES && how->kind <= CHOOSE_SUBMODULAR);
  emb_assert(how->kind != CHOOSE_SUBMODULAR ||
             (how->function >= CHOOSE_FACILITY &&
              how->function <= CHOOSE_DETERMINANT));
  emb_assert(how->greedy >= CHOOSE_LAZY && how->greedy <= CHOOSE_STOCHASTIC);
  emb_assert(how->batch > 0 && how->batch <= BLOCK_COLUMNS);
  emb_assert(how->epsilon > 0 && how->epsilon < 1);
  emb_assert(how->lambda >= 0 && how->ridge > 0);
  return 1;
}

int choose__valid(const struct choose *c) {
  size_t taken = 0;
  emb_assert(c->picked <= c->k && c->k <= c->points->n);
  for (size_t i = 0; i < c->points->n; i++) {
    taken += c->taken[i];
  }
  /* No row was chosen twice. */
  emb_assert(taken == c->picked);
  for (size_t i = 0; i < c->picked; i++) {
    emb_assert(c->chosen[i].row < c->points->n && c->taken[c->chosen[i].row]);
  }
  return 1;
}

int choose__block_valid(const struct choose_block *block) {
  emb_assert(block->n > 0 && block->n <= BLOCK_ROWS);
  emb_assert(block->columns > 0 && block->columns <= block->width);
  emb_assert(block->width <= BLOCK_COLUMNS);
  return 1;
}

#endif
