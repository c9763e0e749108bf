/* SPDX-License-Identifier: MIT
**
** facility.c -- facility location: chooses rows so that every row has a chosen
** row similar to it.
**
** VALUE     The sum over all rows of the likeness to the most similar chosen
**           row, 0 if none is chosen.  A candidate's gain is the sum of
**           max(0, likeness - the row's present value).
** LIKENESS  submodular(facility_location): (1 + cosine) / 2, where a vector
**           of zeros has cosine 0 to all others; as in DeepCore (Guo, Zhao,
**           Bai, 2022) and Modyn.  craig: W - Euclidean distance, with a W that
**           no distance exceeds, by Mirzasoleiman, Bilmes, Leskovec, "Coresets
**           for data-efficient training of machine learning models" (2020).  W
**           affects the first gain only; it is twice the greatest distance
**           from the mean, plus 0.001.
** WEIGHT    craig: 1 + the number of rows whose nearest chosen row it is; the
**           first chosen row in a tie.
** TIME      The first gains have a closed form for cosines; for distances all
**           pairs are computed, each once.  After that, a batch of candidates
**           is one matrix product with all rows.
** MEMORY    For each row, a vector and 32 bytes.
*/
#include "engine/data/emb_data.h"
#include "choose.h"

#include <math.h>
#include <string.h>

#include "pairs.h"

struct facility {
  int is_craig;
  struct choose_pairs pairs;
  float *batch, *batch_squares; /* candidates */
  double *sums;                 /* BLOCK_COLUMNS */
  double *lengths;              /* of the vectors; cosine */
  float *worth;      /* of each row, in units of pairs: distance to the */
  double *has;       /* nearest chosen row; or its cosine and likeness */
  uint32_t *nearest; /* of each row: the chosen row it is nearest to */
};

static size_t facility_least(size_t a, size_t b) { return a < b ? a : b; }

/* ---- candidates in float32 ----------------------------------------------- */

/* Computes the sums of n columns in f->sums. */
static void facility_sums(struct choose *c, struct facility *f, size_t n,
                          const float *others, const float *squares) {
  memset(f->sums, 0, BLOCK_COLUMNS * sizeof *f->sums);
  choose__pairs_columns(&f->pairs, others, squares, n);
  for (size_t first = 0; first < c->points->n; first += BLOCK_ROWS) {
    struct choose_block *block = choose__pairs_block(
        &f->pairs, first, facility_least(BLOCK_ROWS, c->points->n - first));
    block->worth = f->worth + first;
    if (f->is_craig) {
      c->ops->squared(block);
      c->ops->nearer(f->sums, block);
    } else {
      c->ops->gain(f->sums, block);
    }
  }
}

static int facility_gains(struct choose *c, void *method, const uint32_t *rows,
                          size_t n) {
  struct facility *f = method;
  uint32_t dim = c->points->dim;
  for (size_t i = 0; i < n; i++) {
    memcpy(f->batch + i * dim, f->pairs.rows + (size_t)rows[i] * dim,
           dim * sizeof *f->batch);
    f->batch_squares[i] = f->pairs.squares[rows[i]];
  }
  facility_sums(c, f, n, f->batch, f->batch_squares);
  for (size_t i = 0; i < n; i++) {
    c->gain[rows[i]] = f->sums[i] * (f->is_craig ? f->pairs.unit : 0.5);
  }
  return EMB_OK;
}

/* Sums up the distances to all rows in c->column.  A block off the diagonal
** also counts for its mirror image. */
static int facility_far(struct choose *c, struct facility *f) {
  struct choose_pairs *pairs = &f->pairs;
  size_t n = c->points->n;
  memset(c->column, 0, n * sizeof *c->column);
  for (size_t first = 0; first < n; first += BLOCK_COLUMNS) {
    size_t columns = facility_least(BLOCK_COLUMNS, n - first);
    int rc = choose__interrupted(c);
    if (rc) {
      return rc;
    }
    choose__pairs_columns(pairs, pairs->rows + first * pairs->dim,
                          pairs->squares + first, columns);
    for (size_t row = first, rows; row < n; row += rows) {
      size_t end = row < first + columns ? first + columns : n;
      rows = facility_least(BLOCK_ROWS, end - row);
      struct choose_block *block = choose__pairs_block(pairs, row, rows);
      c->ops->squared(block);
      c->ops->far(c->column + first,
                  row < first + columns ? NULL : c->column + row, block);
    }
  }
  return EMB_OK;
}

static int facility_start(struct choose *c, void *method) {
  struct facility *f = method;
  size_t n = c->points->n, dim = c->points->dim;
  if (f->is_craig) {
    int rc = facility_far(c, f);
    for (size_t i = 0; i < n; i++) {
      c->gain[i] = (double)n * f->has[0] - c->column[i] * f->pairs.unit;
    }
    return rc;
  }
  memset(c->wide, 0, dim * sizeof *c->wide);
  for (size_t i = 0; i < n * dim; i++) {
    c->wide[i % dim] += (double)f->pairs.rows[i];
  }
  c->ops->dot(c->gain, f->pairs.rows, n, c->points->dim, c->wide);
  for (size_t i = 0; i < n; i++) {
    c->gain[i] = ((double)n + c->gain[i]) / 2;
  }
  return EMB_OK;
}

/* ---- one row, in double -------------------------------------------------- */

/* Puts the row's distances, or likenesses, into c->column. */
static void facility_column(struct choose *c, const struct facility *f,
                            size_t row) {
  const emb_points *points = c->points;
  double *to = c->column;
  const double *wide = choose__wide(c, row);
  if (f->is_craig) {
    c->ops->l2(to, points->vectors, points->n, points->dim, wide);
    for (size_t i = 0; i < points->n; i++) {
      to[i] = sqrt(to[i]);
    }
    return;
  }
  c->ops->dot(to, points->vectors, points->n, points->dim, wide);
  for (size_t i = 0; i < points->n; i++) {
    double lengths = f->lengths[i] * f->lengths[row];
    to[i] = 0.5 + (lengths > 0 ? 0.5 * (to[i] / lengths) : 0);
  }
}

static double facility_exact(struct choose *c, void *method, size_t row) {
  struct facility *f = method;
  double sum = 0, sign = f->is_craig ? -1 : 1;
  facility_column(c, f, row);
  for (size_t i = 0; i < c->points->n; i++) {
    double more = sign * (c->column[i] - f->has[i]);
    sum += more > 0 ? more : 0;
  }
  return sum;
}

static int facility_chose(struct choose *c, void *method, size_t row) {
  struct facility *f = method;
  facility_column(c, f, row);
  for (size_t i = 0; i < c->points->n; i++) {
    double more =
        f->is_craig ? f->has[i] - c->column[i] : c->column[i] - f->has[i];
    if (more < 0 || (more == 0 && row > f->nearest[i])) {
      continue;
    }
    f->has[i] = c->column[i];
    f->nearest[i] = (uint32_t)row;
    f->worth[i] =
        (float)(f->is_craig ? f->has[i] / f->pairs.unit : 2 * f->has[i] - 1);
  }
  return EMB_OK;
}

/* ---- all ----------------------------------------------------------------- */

static int facility_open(struct choose *c, struct facility *f) {
  const emb_points *points = c->points;
  size_t n = points->n;
  if (choose__pairs_open(&f->pairs, n, points->dim)) {
    return err_set(c->err, EMB_NOMEM, "out of memory for %llu vectors",
                   (unsigned long long)n);
  }
  f->batch = choose__memory(c, c->how.batch * points->dim, sizeof *f->batch);
  f->batch_squares = choose__memory(c, c->how.batch, sizeof(float));
  f->sums = choose__memory(c, BLOCK_COLUMNS, sizeof *f->sums);
  f->lengths = choose__lengths(c);
  f->worth = choose__memory(c, n, sizeof *f->worth);
  f->has = choose__memory(c, n, sizeof *f->has);
  f->nearest = choose__memory(c, n, sizeof *f->nearest);
  if (!f->batch || !f->batch_squares || !f->sums || !f->lengths || !f->worth ||
      !f->has || !f->nearest) {
    return EMB_NOMEM;
  }
  if (f->is_craig) {
    choose__pairs_centre(&f->pairs, points->vectors);
  } else {
    choose__pairs_normalise(&f->pairs, points->vectors);
  }
  for (size_t i = 0; i < n; i++) {
    f->lengths[i] = sqrt(f->lengths[i]);
    f->has[i] = f->is_craig ? 2 * f->pairs.unit + 1e-3 : 0;
    f->worth[i] = (float)(f->is_craig ? f->has[i] / f->pairs.unit : -1);
    f->nearest[i] = UINT32_MAX;
  }
  return EMB_OK;
}

/* The weights of craig: 1 + the number of rows each chosen row represents. */
static void facility_weigh(struct choose *c, const struct facility *f) {
  memset(c->column, 0, c->points->n * sizeof *c->column);
  for (size_t i = 0; i < c->points->n; i++) {
    c->column[f->nearest[i]]++;
  }
  for (size_t i = 0; i < c->picked; i++) {
    c->chosen[i].weight = 1 + c->column[c->chosen[i].row];
  }
}

int choose__facility(struct choose *c) {
  struct facility f = {.is_craig = c->how.kind == CHOOSE_CRAIG};
  struct choose_bounded bounded = {.method = &f,
                                   .start = facility_start,
                                   .gains = facility_gains,
                                   .exact = facility_exact,
                                   .chose = facility_chose};
  int rc = facility_open(c, &f);
  bounded.scale = f.is_craig ? f.pairs.unit : 1;
  if (rc == EMB_OK) {
    rc = choose__greedy_bounded(c, &bounded);
  }
  if (rc == EMB_OK && f.is_craig) {
    facility_weigh(c, &f);
  }
  choose__pairs_close(&f.pairs);
  void *const memory[] = {f.batch, f.batch_squares, f.sums,   f.lengths,
                          f.worth, f.has,           f.nearest};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
    env_posix.release(&env_posix, memory[i]);
  }
  return rc;
}
