/* SPDX-License-Identifier: MIT
**
** block_rules.h -- the kernels of block.h, once for all register widths.
**
** Included by block.c for each form, with
**   FORM(name)  name of a function in this form; NAME, the form's
**   TARGET      the attribute of its functions
**   VEC, WIDTH  WIDTH float32; LOAD, STORE, SET, ADD, SUB, MUL, MAX, SQRT
**   MULADD(a, b, c)   a * b + c
**   ANY_LESS(a, b)    whether any element of a is less than that of b
**   POWER(p, t)       p * 2^n, where t = n + EXP_ROUND
**   WIDE, HALF  HALF doubles; WIDE_LOAD(p) converts HALF floats, WIDE_GET reads
**               doubles; WIDE_SET, WIDE_SUB, WIDE_MULADD
**   SUM(x), WIDE_SUM(x)   of all elements, as double
*/

/* A squared distance below this fraction of |x|^2 + |y|^2 has lost too many
** digits: an eighth of the twenty-four, and those lost in the products. */
#define SMALL 0.01f

TARGET static void FORM(block_squared)(struct choose_block *b) {
  const VEC two = SET(-2), zero = SET(0), small = SET(SMALL);
  for (size_t i = 0; i < b->n; i++) {
    float *row = b->tile + i * b->width;
    VEC square = SET(b->squares[i]);
    for (size_t c = 0; c < b->width; c += WIDTH) {
      VEC sum = ADD(square, LOAD(b->other_squares + c));
      VEC d = ADD(MUL(two, LOAD(row + c)), sum);
      STORE(row + c, MAX(d, zero));
      if (ANY_LESS(d, MUL(small, sum))) {
        choose_block_mend(b, i, c, c + WIDTH);
      }
    }
    for (size_t c = b->columns; c < b->width; c++) {
      row[c] = b->pad;
    }
  }
}

TARGET static void FORM(block_gain)(double *to, const struct choose_block *b) {
  const VEC zero = SET(0);
  for (size_t c = 0; c < b->width; c += WIDTH) {
    const float *at = b->tile + c;
    VEC sum = zero;
    float sums[WIDTH];
    for (size_t i = 0; i < b->n; i++, at += b->width) {
      sum = ADD(sum, MAX(SUB(LOAD(at), SET(b->worth[i])), zero));
    }
    STORE(sums, sum);
    for (size_t k = 0; k < WIDTH; k++) {
      to[c + k] += (double)sums[k];
    }
  }
}

/* Once some rows are chosen, few distances are below a row's worth, so the
** square root is taken only if one of them is. */
TARGET static void FORM(block_nearer)(double *to,
                                      const struct choose_block *b) {
  const VEC zero = SET(0);
  for (size_t c = 0; c < b->width; c += WIDTH) {
    const float *at = b->tile + c;
    VEC sum = zero;
    float sums[WIDTH];
    for (size_t i = 0; i < b->n; i++, at += b->width) {
      VEC d = LOAD(at), worth = SET(b->worth[i]);
      if (ANY_LESS(d, MUL(worth, worth))) {
        sum = ADD(sum, MAX(SUB(worth, SQRT(d)), zero));
      }
    }
    STORE(sums, sum);
    for (size_t k = 0; k < WIDTH; k++) {
      to[c + k] += (double)sums[k];
    }
  }
}

TARGET static void FORM(block_far)(double *to, double *row,
                                   const struct choose_block *b) {
  float sums[BLOCK_COLUMNS] = {0};
  for (size_t i = 0; i < b->n; i++) {
    const float *at = b->tile + i * b->width;
    VEC sum = SET(0);
    for (size_t c = 0; c < b->width; c += WIDTH) {
      VEC root = SQRT(LOAD(at + c));
      sum = ADD(sum, root);
      STORE(sums + c, ADD(LOAD(sums + c), root));
    }
    if (row) {
      row[i] += SUM(sum);
    }
  }
  for (size_t c = 0; c < b->columns; c++) {
    to[c] += (double)sums[c];
  }
}

/* exp(x) = 2^n * exp(r), where n is the integer nearest to x / ln 2, and r the
** remainder, with n ln 2 subtracted in two parts; exp(r) is Taylor's series, to
** 2^-25.  Values below 2^-126 count as nothing. */
TARGET static double FORM(block_kernel)(const struct choose_block *b,
                                        double gamma) {
  const VEC factor = SET((float)-gamma), least = SET(-87.0f);
  const VEC log2e = SET(0x1.715476p+0f), round = SET(EXP_ROUND);
  const VEC high = SET(-0x1.62e4p-1f), low = SET(-0x1.7f7d1cp-20f);
  double total = 0;
  for (size_t i = 0; i < b->n; i++) {
    const float *at = b->tile + i * b->width;
    VEC sum = SET(0);
    for (size_t c = 0; c < b->width; c += WIDTH) {
      VEC x = MAX(MUL(LOAD(at + c), factor), least);
      VEC t = MULADD(x, log2e, round), n = SUB(t, round);
      VEC r = MULADD(n, low, MULADD(n, high, x));
      VEC p = MULADD(r, SET(1.0f / 5040), SET(1.0f / 720));
      p = MULADD(r, p, SET(1.0f / 120));
      p = MULADD(r, p, SET(1.0f / 24));
      p = MULADD(r, p, SET(1.0f / 6));
      p = MULADD(r, p, SET(0.5f));
      p = MULADD(r, p, SET(1));
      p = MULADD(r, p, SET(1));
      sum = ADD(sum, POWER(p, t));
    }
    total += SUM(sum);
  }
  return total;
}

TARGET static void FORM(block_dot)(double *to, const float *rows, size_t n,
                                   uint32_t dim, const double *query) {
  for (size_t i = 0; i < n; i++, rows += dim) {
    WIDE sum = WIDE_SET(0);
    uint32_t k = 0;
    for (; k + HALF <= dim; k += HALF) {
      sum = WIDE_MULADD(WIDE_LOAD(rows + k), WIDE_GET(query + k), sum);
    }
    double total = WIDE_SUM(sum);
    for (; k < dim; k++) {
      total += (double)rows[k] * query[k];
    }
    to[i] = total;
  }
}

TARGET static void FORM(block_l2)(double *to, const float *rows, size_t n,
                                  uint32_t dim, const double *query) {
  for (size_t i = 0; i < n; i++, rows += dim) {
    WIDE sum = WIDE_SET(0);
    uint32_t k = 0;
    for (; k + HALF <= dim; k += HALF) {
      WIDE d = WIDE_SUB(WIDE_LOAD(rows + k), WIDE_GET(query + k));
      sum = WIDE_MULADD(d, d, sum);
    }
    double total = WIDE_SUM(sum);
    for (; k < dim; k++) {
      double d = (double)rows[k] - query[k];
      total += d * d;
    }
    to[i] = total;
  }
}

static const struct choose_ops FORM(choose_ops) = {
    .name = NAME,
    .squared = FORM(block_squared),
    .gain = FORM(block_gain),
    .nearer = FORM(block_nearer),
    .far = FORM(block_far),
    .kernel = FORM(block_kernel),
    .dot = FORM(block_dot),
    .l2 = FORM(block_l2)};

#undef SMALL
#undef FORM
#undef NAME
#undef TARGET
#undef VEC
#undef WIDTH
#undef LOAD
#undef STORE
#undef SET
#undef ADD
#undef SUB
#undef MUL
#undef MAX
#undef SQRT
#undef MULADD
#undef ANY_LESS
#undef POWER
#undef WIDE
#undef HALF
#undef WIDE_LOAD
#undef WIDE_GET
#undef WIDE_SET
#undef WIDE_SUB
#undef WIDE_MULADD
#undef SUM
#undef WIDE_SUM
