/* SPDX-License-Identifier: MIT
**
** centres.c -- k-center: chooses rows so that no row is far from a chosen one.
**
** Gonzalez, "Clustering to minimize the maximum intercluster distance" (1985):
** the row farthest from all chosen rows is chosen next; the greatest remaining
** distance is at most twice the least possible.  As a coreset: Sener, Savarese
** (2018).  The first row is the one with the least emb_random(seed, key).
*/
#include "engine/data/emb_data.h"
#include "choose.h"

#include <math.h>

static size_t centres_first(const struct choose *c) {
  uint64_t seed = emb_random_integer(c->how.seed);
  uint64_t stream = emb_random_integer(0);
  size_t first = 0;
  double least = 1;
  for (size_t i = 0; i < c->points->n; i++) {
    double x = emb_random(seed, stream, emb_random_integer(c->points->keys[i]));
    if (x < least) {
      first = i;
      least = x;
    }
  }
  return first;
}

/* The gain is the squared distance to the nearest chosen row. */
static int centres_update(struct choose *c, void *method, size_t row) {
  const emb_points *points = c->points;
  (void)method;
  c->ops->l2(c->column, points->vectors, points->n, points->dim,
             choose__wide(c, row));
  for (size_t i = 0; i < points->n; i++) {
    c->gain[i] = c->column[i] < c->gain[i] ? c->column[i] : c->gain[i];
  }
  return EMB_OK;
}

int choose__centres(struct choose *c) {
  size_t first = centres_first(c);
  for (size_t i = 0; i < c->points->n; i++) {
    c->gain[i] = INFINITY;
  }
  choose__take(c, first, NAN);
  centres_update(c, NULL, first);
  int rc = choose__greedy_exact(c, centres_update, NULL);
  for (size_t i = 1; i < c->picked; i++) {
    c->chosen[i].gain = sqrt(c->chosen[i].gain);
  }
  return rc;
}
