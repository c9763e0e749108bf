/* SPDX-License-Identifier: MIT
**
** draw.c -- the candidates of a round of stochastic greedy.
**
** Mirzasoleiman et al., "Lazier than lazy greedy" (2015): to choose k of n
** rows, a round considers round(n / k * ln(1 / epsilon)) rows, at least one.
** Here these are the rows with the least emb_random(seed, key, round) of SQL,
** so that anyone can reproduce the draw.
*/
#include "engine/data/emb_data.h"
#include "choose.h"

#include <math.h>

int choose__draw_open(struct choose *c, struct choose_draw *draw) {
  size_t n = c->points->n;
  double many = -log(c->how.epsilon) * (double)n / (double)c->k;
  *draw = (struct choose_draw){.n = many < 1           ? 1
                                    : many > (double)n ? n
                                                       : (size_t)(many + 0.5)};
  draw->rows = choose__memory(c, n, sizeof *draw->rows);
  draw->words = choose__memory(c, n, sizeof *draw->words);
  draw->numbers = choose__memory(c, n, sizeof *draw->numbers);
  if (!draw->rows || !draw->words || !draw->numbers) {
    return EMB_NOMEM;
  }
  for (size_t i = 0; i < n; i++) {
    draw->words[i] = emb_random_integer(c->points->keys[i]);
  }
  return EMB_OK;
}

void choose__draw_close(struct choose_draw *draw) {
  env_posix.release(&env_posix, draw->rows);
  env_posix.release(&env_posix, draw->words);
  env_posix.release(&env_posix, draw->numbers);
}

/* The number of rank `want`, from 0; Hoare's selection in the form of Wirth,
** "Algorithms + data structures = programs" (1976). */
static double draw_limit(double *numbers, size_t n, size_t want) {
  ptrdiff_t low = 0, high = (ptrdiff_t)n - 1, at = (ptrdiff_t)want;
  while (low < high) {
    double middle = numbers[at];
    ptrdiff_t i = low, j = high;
    do {
      for (; numbers[i] < middle; i++) {
      }
      for (; middle < numbers[j]; j--) {
      }
      if (i <= j) {
        double swap = numbers[i];
        numbers[i++] = numbers[j];
        numbers[j--] = swap;
      }
    } while (i <= j);
    low = j < at ? i : low;
    high = at < i ? j : high;
  }
  return numbers[at];
}

size_t choose__draw(struct choose *c, struct choose_draw *draw) {
  uint64_t seed = emb_random_integer(c->how.seed);
  uint64_t round = emb_random_integer((int64_t)c->picked);
  size_t left = 0, n = 0;
  emb_assert(c->picked < c->k); /* some row is left */
  emb_assert(draw->n > 0 && draw->n <= c->points->n);
  for (size_t i = 0; i < c->points->n; i++) {
    if (!c->taken[i]) {
      draw->numbers[left++] = emb_random(seed, round, draw->words[i]);
    }
  }
  if (left <= draw->n) {
    for (size_t i = 0; i < c->points->n; i++) {
      if (!c->taken[i]) {
        draw->rows[n++] = (uint32_t)i;
      }
    }
    return n;
  }
  double limit = draw_limit(draw->numbers, left, draw->n);
  /* If numbers are equal, which is extremely rare, fewer rows are drawn, but
  ** at least one. */
  for (size_t i = 0; i < c->points->n; i++) {
    if (!c->taken[i] && emb_random(seed, round, draw->words[i]) < limit) {
      draw->rows[n++] = (uint32_t)i;
    }
  }
  for (size_t i = 0; n == 0; i++) {
    if (!c->taken[i] && emb_random(seed, round, draw->words[i]) == limit) {
      draw->rows[n++] = (uint32_t)i;
    }
  }
  return n;
}
