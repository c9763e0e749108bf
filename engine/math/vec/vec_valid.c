/* SPDX-License-Identifier: MIT
**
** vec_valid.c -- are optimizers, initializers and rows as their headers say?
** Only in self-checking builds (base/debug.h).
*/
#include "distance.h"
#include "init.h"
#include "optim.h"
#include "optim_form.h"
#include "pooling.h"

#include <math.h>
#include <string.h>

#if EMB_DEBUG > 0

/* ---- optimizers ---------------------------------------------------------- */

static int is_decay(float p, float p1) { return p >= 0 && p < 1 && p1 > 0; }

int optim_valid(const struct optim *optim) {
  const struct optim_factors *k = &optim->factors;
  uint32_t kind = optim->kind;
  emb_assert(kind <= OPTIM_GROUP_FTRL);
  /* A step has room for these on its stack. */
  emb_assert(optim->heads <= OPTIM_HEADS && optim->arrays <= OPTIM_ARRAYS);
  emb_assert((optim->heads == 2) ==
             (kind == OPTIM_ADAM || kind == OPTIM_AMSGRAD));
  /* The arithmetic and the conversions are of one form. */
  emb_assert(strcmp(optim->form->name, optim->vec->name) == 0);
  emb_assert(k->lr > 0 && isfinite(k->inverse));
  emb_assert(is_decay(k->p, k->p1) && is_decay(k->q, k->q1));
  emb_assert(k->clip > 0);
  /* Only a copy has the factors of a row. */
  emb_assert(k->scale == 1 && k->root == 1 && k->shrink == 1);
  return 1;
}

/* ---- initializers -------------------------------------------------------- */

static int is_number(double x) { return fabs(x) <= INIT_NUMBER_MAX; }

int init_valid(const struct init *init) {
  emb_assert(init->kind <= INIT_TRUNCATED_NORMAL);
  emb_assert(init->kind == INIT_CONSTANT || init->value == 0);
  emb_assert(init->low <= init->high);
  emb_assert(init->std >= 0);
  emb_assert(is_number(init->value) && is_number(init->low) &&
             is_number(init->high) && is_number(init->mean) &&
             is_number(init->std));
  return 1;
}

int init_vector_valid(const struct init *init, uint32_t dim,
                      const float *vector) {
  /* An element is rounded to float32. */
  double most = init_largest(init) * (1 + 0x1p-23) + 0x1p-149;
  init_valid(init);
  for (uint32_t i = 0; i < dim; i++) {
    float x;
    memcpy(&x, vector + i, sizeof x);
    emb_assert(fabs((double)x) <= most);
  }
  return 1;
}

/* ---- rows ---------------------------------------------------------------- */

int pooling_rows_valid(const float *sum, const struct pooling_rows *rows) {
  uintptr_t from = (uintptr_t)rows->first, to = (uintptr_t)sum;
  size_t bytes = rows->dim * sizeof(float);
  emb_assert(rows->dim > 0);
  /* The sum is no part of the rows. */
  emb_assert(to + bytes <= from || from + rows->n * bytes <= to);
  return 1;
}

int distance_rows_valid(const struct distance_rows *rows, size_t element,
                        size_t dim) {
  emb_assert(dim > 0);
  emb_assert(rows->n < 2 || rows->stride >= dim * element);
  return 1;
}

#endif
