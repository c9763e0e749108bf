/* SPDX-License-Identifier: MIT
**
** choose_block.c -- tests of engine/data/choose/block.h and pairs.h: every form
** that this processor can run, against sums of the vectors in double.  Rows are
** near to each other, far from 0 or equal, and all short sizes occur; nothing
** beyond the columns contributes to a sum.
*/
#include "test.h"

#include "engine/data/choose/pairs.h"
#include "engine/emb.h"
#include "engine/base/env/env.h"

#include <math.h>

enum { DIM_MAX = 70, ROUNDS = 60 };

struct example {
  size_t n, columns;
  uint32_t dim;
  float rows[BLOCK_ROWS * DIM_MAX], others[BLOCK_COLUMNS * DIM_MAX];
  float squares[BLOCK_ROWS], other_squares[BLOCK_COLUMNS];
  float worth[BLOCK_ROWS];
  double exact[BLOCK_ROWS][BLOCK_COLUMNS]; /* squared distances, */
  double product[BLOCK_ROWS][BLOCK_COLUMNS];
  struct choose_block block;
  float tile[BLOCK_ROWS * BLOCK_COLUMNS];
};

static void make_vectors(float *to, float *squares, size_t n, uint32_t dim,
                         int kind) {
  for (size_t i = 0; i < n; i++) {
    double sum = 0;
    for (uint32_t k = 0; k < dim; k++) {
      double x = test_unit();
      x = kind == 0   ? x
          : kind == 1 ? 1 + x * 1e-3                /* near to each other */
          : kind == 2 ? (double)(test_random() % 2) /* many equal */
                      : x * 1e-12;
      to[i * dim + k] = (float)x;
      sum += (double)to[i * dim + k] * (double)to[i * dim + k];
    }
    squares[i] = (float)sum;
  }
}

static void make_exact(struct example *e) {
  for (size_t i = 0; i < e->n; i++) {
    for (size_t c = 0; c < e->columns; c++) {
      double square = 0, product = 0;
      for (uint32_t k = 0; k < e->dim; k++) {
        double a = (double)e->rows[i * e->dim + k];
        double b = (double)e->others[c * e->dim + k];
        square += (a - b) * (a - b);
        product += a * b;
      }
      e->exact[i][c] = square;
      e->product[i][c] = product;
    }
  }
}

static void make_example(struct example *e, int kind) {
  e->n = 1 + test_random() % BLOCK_ROWS;
  e->columns = 1 + test_random() % BLOCK_COLUMNS;
  e->dim = 1 + (uint32_t)(test_random() % DIM_MAX);
  make_vectors(e->rows, e->squares, e->n, e->dim, kind);
  memset(e->other_squares, 0, sizeof e->other_squares);
  make_vectors(e->others, e->other_squares, e->columns, e->dim, kind);
  make_exact(e);
  e->block = (struct choose_block){.tile = e->tile,
                                   .n = e->n,
                                   .columns = e->columns,
                                   .width = (e->columns + 31) / 32 * 32,
                                   .dim = e->dim,
                                   .rows = e->rows,
                                   .others = e->others,
                                   .squares = e->squares,
                                   .other_squares = e->other_squares,
                                   .worth = e->worth};
}

/* The products, and zeros beyond the columns. */
static void fill_products(struct example *e) {
  for (size_t i = 0; i < e->n; i++) {
    for (size_t c = 0; c < e->block.width; c++) {
      e->tile[i * e->block.width + c] =
          c < e->columns ? (float)e->product[i][c] : 0;
    }
  }
}

static int is_near(double got, double expected, double off) {
  return fabs(got - expected) <= off * fabs(expected) + 1e-30;
}

static void check_squared(struct example *e, const struct choose_ops *ops) {
  size_t wrong = 0;
  fill_products(e);
  e->block.pad = 0;
  ops->squared(&e->block);
  for (size_t i = 0; i < e->n; i++) {
    for (size_t c = 0; c < e->columns; c++) {
      double got = (double)e->tile[i * e->block.width + c];
      wrong += !is_near(got, e->exact[i][c], 1e-4);
      wrong += e->exact[i][c] == 0 && got != 0;
    }
  }
  CHECK_EQ_INT(wrong, 0);
}

/* Checks sums of the squared distances in the tile. */
static void check_sums(struct example *e, const struct choose_ops *ops) {
  double nearer[BLOCK_COLUMNS] = {0}, far[BLOCK_COLUMNS] = {0};
  double across[BLOCK_ROWS] = {0}, all_of_row[BLOCK_ROWS], kernel = 0,
         gamma = 0.7;
  size_t wrong = 0;
  for (size_t i = 0; i < e->n; i++) {
    double sum = 0;
    e->worth[i] = (float)fabs(test_unit());
    for (size_t c = 0; c < e->columns; c++) {
      sum += sqrt(e->exact[i][c]);
      kernel += exp(-gamma * e->exact[i][c]);
    }
    across[i] = -sum;
    all_of_row[i] = sum;
  }
  ops->nearer(nearer, &e->block);
  ops->far(far, across, &e->block);
  for (size_t i = 0; i < e->n; i++) {
    wrong += fabs(across[i]) > 1e-3 + 2e-5 * all_of_row[i];
  }
  for (size_t c = 0; c < e->columns; c++) {
    double near = 0, all = 0;
    for (size_t i = 0; i < e->n; i++) {
      near += fmax(0, (double)e->worth[i] - sqrt(e->exact[i][c]));
      all += sqrt(e->exact[i][c]);
    }
    wrong += fabs(nearer[c] - near) > 1e-3 + 2e-5 * near;
    wrong += fabs(far[c] - all) > 1e-3 + 2e-5 * all;
  }
  CHECK_EQ_INT(wrong, 0);
  for (size_t i = 0; i < e->n; i++) {
    for (size_t c = e->columns; c < e->block.width; c++) {
      e->tile[i * e->block.width + c] = INFINITY;
    }
  }
  CHECK(is_near(ops->kernel(&e->block, gamma), kernel, 1e-4));
  /* the kernel of equal vectors is exactly one, whatever the width */
  memset(e->tile, 0, sizeof e->tile);
  e->block.width = e->columns = 32;
  CHECK(ops->kernel(&e->block, 3e38) == (double)e->n * 32);
}

static void check_gain(struct example *e, const struct choose_ops *ops) {
  double gain[BLOCK_COLUMNS] = {0};
  size_t wrong = 0;
  fill_products(e);
  for (size_t i = 0; i < e->n; i++) {
    e->worth[i] = (float)test_unit();
  }
  ops->gain(gain, &e->block);
  for (size_t c = 0; c < e->columns; c++) {
    double sum = 0;
    for (size_t i = 0; i < e->n; i++) {
      sum += fmax(0, e->product[i][c] - (double)e->worth[i]);
    }
    wrong += fabs(gain[c] - sum) > 1e-4 * (1 + sum);
  }
  CHECK_EQ_INT(wrong, 0);
}

static void check_wide(const struct example *e, const struct choose_ops *ops) {
  double query[DIM_MAX], dot[BLOCK_ROWS], l2[BLOCK_ROWS];
  size_t wrong = 0;
  for (uint32_t k = 0; k < e->dim; k++) {
    query[k] = (double)e->others[k];
  }
  ops->dot(dot, e->rows, e->n, e->dim, query);
  ops->l2(l2, e->rows, e->n, e->dim, query);
  for (size_t i = 0; i < e->n; i++) {
    wrong += fabs(dot[i] - e->product[i][0]) > 1e-12 * e->dim;
    wrong += !is_near(l2[i], e->exact[i][0], 1e-12);
  }
  CHECK_EQ_INT(wrong, 0);
}

TEST(forms) {
  struct example *e = malloc(sizeof *e);
  const struct choose_ops *ops;
  size_t forms = 0;
  for (int form = 0; (ops = choose__form(form)) != NULL; form++) {
    forms++;
    for (int round = 0; round < ROUNDS; round++) {
      make_example(e, round % 4);
      check_wide(e, ops);
      check_gain(e, ops);
      check_squared(e, ops);
      check_sums(e, ops);
    }
  }
  test_count("forms", forms);
  CHECK(choose__form(0) != choose__best() || forms == 1);
  free(e);
}

/* The full range of exp: between whole numbers, and at both ends. */
TEST(kernel_of_many_widths) {
  const struct choose_ops *ops;
  for (int form = 0; (ops = choose__form(form)) != NULL; form++) {
    float tile[32];
    struct choose_block block = {
        .tile = tile, .n = 1, .columns = 32, .width = 32};
    double worst = 0;
    for (double x = 0; x < 80; x += 0.01) {
      for (int i = 0; i < 32; i++) {
        tile[i] = (float)(x + i * 0.0003);
      }
      double sum = 0;
      for (int i = 0; i < 32; i++) {
        sum += exp(-(double)tile[i]);
      }
      worst = fmax(worst, fabs(ops->kernel(&block, 1) / sum - 1));
    }
    CHECK(worst < 4e-6);
  }
}

/* Centring does not change the distances of pairs, except for the unit. */
TEST(centred) {
  enum { N = 50, DIM = 13 };
  float vectors[N * DIM], squares[N];
  struct choose_pairs pairs = {0};
  make_vectors(vectors, squares, N, DIM, 0);
  for (size_t i = 0; i < N * DIM; i++) {
    vectors[i] = vectors[i] * 1e30f + 3e30f;
  }
  CHECK_EQ_INT(choose__pairs_open(&pairs, N, DIM), EMB_OK);
  choose__pairs_centre(&pairs, vectors);
  choose__pairs_columns(&pairs, pairs.rows, pairs.squares, N);
  struct choose_block *block = choose__pairs_block(&pairs, 0, N);
  pairs.ops->squared(block);
  for (size_t i = 0; i < N; i++) {
    for (size_t c = 0; c < N; c++) {
      double got = sqrt((double)block->tile[i * block->width + c]), expected;
      emb_distance(EMB_L2, vectors + i * DIM, vectors + c * DIM, DIM,
                   &expected);
      CHECK(is_near(got * pairs.unit, expected, 1e-4));
    }
  }
  choose__pairs_close(&pairs);
}
