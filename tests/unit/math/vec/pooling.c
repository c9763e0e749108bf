/* SPDX-License-Identifier: MIT
**
** pooling.c -- tests of engine/math/vec/pooling.c: each form that this
** processor has, against sums in double arithmetic, and bit by bit against the
** scalar form.
*/
#include "test.h"

#include "engine/math/vec/pooling.h"

#include <math.h>

enum { ROWS = 40, DIM = 200 };

static float any_float(void) {
  int exponent = (int)(test_random() % 20) - 10;
  double x = (double)(test_random() % 2000001) / 1e6 - 1;
  return (float)ldexp(x, exponent);
}

static void fill(float *to, size_t n) {
  for (size_t i = 0; i < n; i++)
    to[i] = any_float();
}

/* The sum of an element, and the error allowed in float32. */
static double exact(const float *sum, const struct pooling_rows *rows, size_t k,
                    double *off) {
  double x = rows->begins ? 0 : (double)sum[k], size = fabs(x);
  for (size_t i = 0; i < rows->n; i++) {
    double row = (double)rows->first[i * rows->dim + k];
    row *= rows->weights ? (double)rows->weights[i] : 1;
    x += row;
    size += fabs(row);
  }
  *off = size * (double)(rows->n + 2) * 6e-8;
  return x;
}

/* All forms give the bits of the scalar form, which are near the exact sum; the
** memory after the elements stays unchanged. */
static void compare(const float *start, const struct pooling_rows *rows) {
  float want[DIM + 1], got[DIM + 1];
  memcpy(want, start, sizeof want);
  pooling__form(0)->add(want, rows);
  for (size_t k = 0; k < rows->dim; k++) {
    double off, x = exact(start, rows, k, &off);
    if (!CHECK(fabs((double)want[k] - x) <= off))
      return;
  }
  for (int f = 0; pooling__form(f); f++) {
    memcpy(got, start, sizeof got);
    pooling__form(f)->add(got, rows);
    if (!CHECK(memcmp(got, want, sizeof got) == 0)) {
      printf("form %s, %zu rows of %zu\n", pooling__form(f)->name, rows->n,
             rows->dim);
      return;
    }
  }
}

TEST(sums_of_all_forms) {
  static float rows[ROWS * DIM + 8], weights[ROWS + 8], start[DIM + 1];
  for (size_t dim = 1; dim <= DIM; dim++) {
    size_t n = test_random() % ROWS, shift = test_random() % 8;
    fill(rows, ROWS * DIM + 8);
    fill(weights, ROWS + 8);
    fill(start, DIM + 1);
    for (int of = 0; of < 4; of++)
      compare(start,
              &(struct pooling_rows){.first = rows + shift,
                                     .weights = of & 1 ? weights + shift : NULL,
                                     .n = n,
                                     .dim = dim,
                                     .begins = of >> 1});
  }
}

/* Summing in two calls gives the same as in one call. */
TEST(sums_go_on) {
  static float rows[ROWS * DIM], weights[ROWS];
  fill(rows, ROWS * DIM);
  fill(weights, ROWS);
  for (int f = 0; pooling__form(f); f++)
    for (size_t n = 0; n <= ROWS; n++) {
      float once[DIM], twice[DIM];
      struct pooling_rows all = {rows, weights, ROWS, DIM, 1};
      struct pooling_rows first = {rows, weights, n, DIM, 1};
      struct pooling_rows rest = {rows + n * DIM, weights + n, ROWS - n, DIM,
                                  0};
      pooling__form(f)->add(once, &all);
      pooling__form(f)->add(twice, &first);
      pooling__form(f)->add(twice, &rest);
      CHECK(memcmp(once, twice, sizeof once) == 0);
    }
}

TEST(division) {
  static const float by[] = {1, 2, 3, 7.5f, 0.1f};
  float sum[DIM], to[DIM + 1];
  fill(sum, DIM);
  for (int f = 0; pooling__form(f); f++)
    for (size_t n = 1; n <= DIM; n++)
      for (size_t i = 0; i < sizeof by / sizeof by[0]; i++) {
        to[n] = 17;
        if (!CHECK(pooling__form(f)->finish(to, sum, by[i], n)) ||
            !CHECK(to[n] > 16))
          return;
        for (size_t k = 0; k < n; k++)
          if (!CHECK(to[k] == sum[k] / by[i]))
            return;
      }
}

/* A non-finite element is found at any position, and so are two elements that
** cancel each other. */
TEST(what_is_not_finite) {
  float sum[DIM], to[DIM];
  for (int f = 0; pooling__form(f); f++)
    for (size_t n = 1; n <= DIM; n++)
      for (size_t k = 0; k < n; k++) {
        fill(sum, n);
        sum[k] = k % 3 == 0 ? INFINITY : k % 3 == 1 ? -INFINITY : NAN;
        if (k > 0 && k % 3 == 1)
          sum[k - 1] = INFINITY;
        if (!CHECK(!pooling__form(f)->finish(to, sum, k % 2 ? 1 : 2, n)))
          return;
      }
}

TEST(the_widest_form_is_the_last) {
  int forms = 0;
  while (pooling__form(forms))
    forms++;
  CHECK(forms >= 1);
  CHECK(pooling_best() == pooling__form(forms - 1));
  test_count("forms of pooling", (uint64_t)forms);
}
