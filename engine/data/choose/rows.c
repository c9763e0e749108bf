/* SPDX-License-Identifier: MIT
**
** rows.c -- operations on rows common to all methods.
*/
#include "engine/data/emb_data.h"
#include "choose.h"

int choose__interrupted(const struct choose *c) {
  const emb_points *points = c->points;
  return points->interrupted && points->interrupted(points->arg)
             ? err_set(c->err, EMB_INTERRUPT, "interrupted")
             : EMB_OK;
}

void *choose__memory(struct choose *c, size_t n, size_t size) {
  void *memory = n > SIZE_MAX / 2 / size
                     ? NULL
                     : env_posix.allocate(&env_posix, n ? n * size : size);
  if (memory == NULL) {
    err_set(c->err, EMB_NOMEM, "out of memory for choosing %llu of %llu rows",
            (unsigned long long)c->k, (unsigned long long)c->points->n);
  }
  return memory;
}

const float *choose__row(const struct choose *c, size_t row) {
  emb_assert(row < c->points->n);
  return c->points->vectors + row * c->points->dim;
}

const double *choose__wide(struct choose *c, size_t row) {
  const float *from = choose__row(c, row);
  for (uint32_t i = 0; i < c->points->dim; i++) {
    c->wide[i] = (double)from[i];
  }
  return c->wide;
}

double *choose__lengths(struct choose *c) {
  double *lengths = choose__memory(c, c->points->n, sizeof *lengths);
  for (size_t i = 0; lengths && i < c->points->n; i++) {
    c->ops->dot(&lengths[i], choose__row(c, i), 1, c->points->dim,
                choose__wide(c, i));
  }
  return lengths;
}

void choose__take(struct choose *c, size_t row, double gain) {
  emb_assert(c->picked < c->k);
  emb_assert(row < c->points->n && !c->taken[row]);
  c->chosen[c->picked++] = (emb_chosen){.row = row, .weight = 1, .gain = gain};
  c->taken[row] = 1;
}
