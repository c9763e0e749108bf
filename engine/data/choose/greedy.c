/* SPDX-License-Identifier: MIT
**
** greedy.c -- repeatedly chooses the row with the greatest gain.
**
** LAZY      Minoux, "Accelerated greedy algorithms for maximizing submodular
**           set functions" (1978): a gain never grows, so a gain of an earlier
**           round is a bound.  Rows with the greatest bounds are recomputed, a
**           batch at a time, until no bound is above the best gain.  Naive
**           greedy computes all gains in each round, and chooses the same rows.
** TIES      Gains in float32 have a small error.  All gains within twice that
**           error of the best are compared in double, and among equal ones the
**           first row is chosen.  Rows that are copies of each other have equal
**           gains: only the first of them is computed.
*/
#include "choose.h"

#include "engine/base/seed.h"

#include <math.h>
#include <string.h>

/* ---- gains that are exact ------------------------------------------------ */

/* The row with the greatest gain among n rows; rows NULL: the first n rows. */
static size_t greedy_best(const struct choose *c, const uint32_t *rows,
                          size_t n) {
  size_t best = SIZE_MAX;
  for (size_t i = 0; i < n; i++) {
    size_t row = rows ? rows[i] : i;
    if (!c->taken[row] && (best == SIZE_MAX || c->gain[row] > c->gain[best])) {
      best = row;
    }
  }
  return best;
}

int choose__greedy_exact(struct choose *c, choose_update *update,
                         void *method) {
  struct choose_draw draw = {0};
  int stochastic = c->how.greedy == CHOOSE_STOCHASTIC;
  int rc = stochastic ? choose__draw_open(c, &draw) : EMB_OK;
  while (rc == EMB_OK && c->picked < c->k) {
    size_t row = stochastic ? greedy_best(c, draw.rows, choose__draw(c, &draw))
                            : greedy_best(c, NULL, c->points->n);
    choose__take(c, row, c->gain[row]);
    rc = choose__interrupted(c);
    if (rc == EMB_OK && c->picked < c->k) {
      rc = update(c, method, row);
    }
  }
  choose__draw_close(&draw);
  emb_check(choose__valid(c));
  return rc;
}

/* ---- gains that are bounds ----------------------------------------------- */

struct greedy {
  struct choose *c;
  struct choose_bounded *bounded;
  struct choose_draw draw;
  uint32_t *fresh; /* of each row: the round its gain is from, + 1 */
  uint32_t *batch;
  double best; /* of this round */
};

/* Error bound of a gain, in a round with this best gain. */
static double greedy_slack(const struct greedy *g, double gain) {
  return 1e-4 * fabs(gain) +
         g->bounded->scale * 0x1p-20 * sqrt((double)g->c->points->n);
}

static int is_fresh(const struct greedy *g, size_t row) {
  return g->fresh[row] == g->c->picked + 1 || EMB_SEED(SEED_OLD_GAIN_CHOSEN);
}

static int greedy_compute(struct greedy *g, size_t n) {
  struct choose *c = g->c;
  int rc = n ? choose__interrupted(c) : EMB_OK;
  if (rc == EMB_OK && n) {
    rc = g->bounded->gains(c, g->bounded->method, g->batch, n);
  }
  for (size_t i = 0; rc == EMB_OK && i < n; i++) {
    size_t row = g->batch[i];
    g->fresh[row] = (uint32_t)c->picked + 1;
    g->best = fmax(g->best, c->gain[row]);
  }
  return rc;
}

/* Restores the heap order of the batch, with the least bound on top. */
static void greedy_sift(const struct greedy *g, size_t n, size_t at) {
  const double *gain = g->c->gain;
  for (size_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && gain[g->batch[child + 1]] < gain[g->batch[child]]) {
      child++;
    }
    if (gain[g->batch[at]] <= gain[g->batch[child]]) {
      break;
    }
    uint32_t swap = g->batch[at];
    g->batch[at] = g->batch[child];
    g->batch[child] = swap;
  }
}

/* Fills the batch with the greatest bounds that can still be among the best. */
static size_t greedy_promising(struct greedy *g) {
  const struct choose *c = g->c;
  size_t n = 0, most = c->how.batch;
  double least = g->best - 2 * greedy_slack(g, g->best);
  for (size_t row = 0; row < c->points->n; row++) {
    double bound = c->gain[row];
    if (c->taken[row] || is_fresh(g, row) || bound < least) {
      continue;
    }
    if (n < most) {
      g->batch[n++] = (uint32_t)row;
      for (size_t at = n / 2; n == most && at-- > 0;) {
        greedy_sift(g, n, at);
      }
    } else if (bound > c->gain[g->batch[0]]) {
      g->batch[0] = (uint32_t)row;
      greedy_sift(g, n, 0);
    }
  }
  return n;
}

/* In the first round the bounds are the gains. */
static int greedy_lazy(struct greedy *g) {
  const struct choose *c = g->c;
  size_t n;
  int rc = EMB_OK;
  for (size_t row = 0; c->picked == 0 && row < c->points->n; row++) {
    g->fresh[row] = 1;
    g->best = fmax(g->best, c->gain[row]);
  }
  while (rc == EMB_OK && (n = greedy_promising(g)) > 0) {
    rc = greedy_compute(g, n);
  }
  return rc;
}

/* Computes the gains of all rows of a list, or of all rows. */
static int greedy_all(struct greedy *g, const uint32_t *rows, size_t n) {
  struct choose *c = g->c;
  size_t filled = 0;
  int rc = EMB_OK;
  for (size_t i = 0; i < n && rc == EMB_OK; i++) {
    size_t row = rows ? rows[i] : i;
    if (!c->taken[row]) {
      g->batch[filled++] = (uint32_t)row;
    }
    if (filled == c->how.batch) {
      rc = greedy_compute(g, filled);
      filled = 0;
    }
  }
  return rc == EMB_OK ? greedy_compute(g, filled) : rc;
}

static int greedy_same(const struct choose *c, size_t a, size_t b) {
  return memcmp(choose__row(c, a), choose__row(c, b),
                c->points->dim * sizeof(float)) == 0;
}

/* Picks the best row of this round; *gain: its gain in double. */
static int greedy_pick(struct greedy *g, size_t *picked, double *gain) {
  struct choose *c = g->c;
  double least = g->best - 2 * greedy_slack(g, g->best);
  size_t best = SIZE_MAX;
  int rc = EMB_OK;
  *gain = 0;
  for (size_t row = 0; row < c->points->n && rc == EMB_OK; row++) {
    if (c->taken[row] || !is_fresh(g, row) || c->gain[row] < least ||
        (best != SIZE_MAX && greedy_same(c, row, best))) {
      continue;
    }
    double exact = g->bounded->exact(c, g->bounded->method, row);
    if (best == SIZE_MAX || exact > *gain) {
      best = row;
      *gain = exact;
    }
    rc = choose__interrupted(c);
  }
  *picked = best;
  return rc;
}

static int greedy_round(struct greedy *g) {
  struct choose *c = g->c;
  size_t row = 0;
  double gain = 0;
  int rc;
  g->best = -INFINITY;
  if (c->how.greedy == CHOOSE_STOCHASTIC) {
    rc = greedy_all(g, g->draw.rows, choose__draw(c, &g->draw));
  } else if (c->how.greedy == CHOOSE_NAIVE) {
    rc = greedy_all(g, NULL, c->points->n);
  } else {
    rc = greedy_lazy(g);
  }
  if (rc == EMB_OK) {
    rc = greedy_pick(g, &row, &gain);
  }
  if (rc == EMB_OK) {
    choose__take(c, row, gain);
    rc = g->bounded->chose(c, g->bounded->method, row);
  }
  return rc;
}

int choose__greedy_bounded(struct choose *c, struct choose_bounded *bounded) {
  struct greedy g = {.c = c, .bounded = bounded};
  int rc = EMB_OK;
  emb_assert(c->picked == 0); /* the first bounds are the gains of none */
  g.fresh = choose__memory(c, c->points->n, sizeof *g.fresh);
  g.batch = choose__memory(c, c->how.batch, sizeof *g.batch);
  if (!g.fresh || !g.batch) {
    rc = EMB_NOMEM;
  }
  if (rc == EMB_OK && c->how.greedy == CHOOSE_STOCHASTIC) {
    rc = choose__draw_open(c, &g.draw);
  }
  if (rc == EMB_OK && c->how.greedy == CHOOSE_LAZY) {
    rc = bounded->start(c, bounded->method);
  }
  while (rc == EMB_OK && c->picked < c->k) {
    rc = greedy_round(&g);
  }
  choose__draw_close(&g.draw);
  emb_check(choose__valid(c));
  env_posix.release(&env_posix, g.fresh);
  env_posix.release(&env_posix, g.batch);
  return rc;
}
