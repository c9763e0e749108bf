/* SPDX-License-Identifier: MIT
**
** mmd.c -- emb_drift_mmd: how far two samples of vectors are from having one
** distribution; see emb_data.h.
**
** Gretton, Borgwardt, Rasch, Schoelkopf, Smola, "A kernel two-sample test"
** (2012): the squared maximum mean discrepancy with k(x, y) =
** exp(-gamma |x - y|^2), in its unbiased estimate (their equation 3) or the
** biased one (5).  gamma is 1 / median of |x - y|^2, over the pairs of the
** reference or of all rows; of two values in the middle, the lower is taken, as
** in alibi-detect.
**
** MEDIAN    Of all pairs, without keeping them: the bits of nonnegative float32
**           values sort like the values.  One pass counts the upper halves of
**           the bits, a second the lower halves of the values in the middle.
** MEMORY    A vector and 4 bytes for each row, half a megabyte for the counts.
*/
#include "engine/data/emb_data.h"
#include "engine/base/err.h"
#include "engine/base/env/env.h"
#include "pairs.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Called for each block; is_diagonal: the block pairs a group with itself, and
** is on the diagonal of all pairs. */
typedef void mmd_visit(struct choose_pairs *pairs, struct choose_block *block,
                       int is_diagonal, void *arg);

struct mmd {
  const emb_drift *ask;
  struct choose_pairs pairs;
  emb_err *err;
};

static size_t mmd_least(size_t a, size_t b) { return a < b ? a : b; }

/* Visits all pairs of rows[0]..rows[1] with columns[0]..columns[1].  If the two
** ranges are the same, only blocks on and below the diagonal are visited: those
** below it count twice. */
static int mmd_each(struct mmd *m, const size_t rows[2],
                    const size_t columns[2], mmd_visit *visit, void *arg) {
  const struct choose_pairs *pairs = &m->pairs;
  int same = rows[0] == columns[0] && rows[1] == columns[1];
  for (size_t c = columns[0]; c < columns[1]; c += BLOCK_ROWS) {
    size_t n = mmd_least(BLOCK_ROWS, columns[1] - c);
    if (m->ask->interrupted && m->ask->interrupted(m->ask->arg)) {
      return err_set(m->err, EMB_INTERRUPT, "interrupted");
    }
    choose__pairs_columns(&m->pairs, pairs->rows + c * pairs->dim,
                          pairs->squares + c, n);
    for (size_t row = same ? c : rows[0]; row < rows[1]; row += BLOCK_ROWS) {
      struct choose_block *block = choose__pairs_block(
          &m->pairs, row, mmd_least(BLOCK_ROWS, rows[1] - row));
      block->pad = INFINITY;
      pairs->ops->squared(block);
      visit(&m->pairs, block, same && row == c, arg);
    }
  }
  return EMB_OK;
}

/* ---- the median ---------------------------------------------------------- */

struct mmd_count {
  uint64_t at[65536];
  int is_lower; /* counts lower halves, where the upper half is `upper` */
  uint32_t upper;
};

static void mmd_count(struct choose_pairs *pairs, struct choose_block *block,
                      int is_diagonal, void *arg) {
  struct mmd_count *count = arg;
  (void)pairs;
  for (size_t i = 0; i < block->n; i++) {
    const float *row = block->tile + i * block->width;
    size_t end = is_diagonal ? i : block->columns; /* each pair once */
    for (size_t c = 0; c < end; c++) {
      uint32_t bits;
      memcpy(&bits, row + c, sizeof bits);
      if (!count->is_lower) {
        count->at[bits >> 16]++;
      } else if (bits >> 16 == count->upper) {
        count->at[bits & 0xffff]++;
      }
    }
  }
}

/* The index of the count that holds this rank; *rank becomes relative to it. */
static uint32_t mmd_find(const struct mmd_count *count, uint64_t *rank) {
  uint32_t i = 0;
  for (; i < 65535 && *rank >= count->at[i]; i++) {
    *rank -= count->at[i];
  }
  return i;
}

/* The median of the squared distances of the first n rows, n > 1. */
static int mmd_median(struct mmd *m, size_t n, double *median) {
  struct mmd_count *count = env_posix.allocate(&env_posix, sizeof *count);
  const size_t all[2] = {0, n};
  uint64_t rank = ((uint64_t)n * (n - 1) / 2 - 1) / 2;
  if (count == NULL) {
    return err_set(m->err, EMB_NOMEM, "out of memory for a median");
  }
  int rc = mmd_each(m, all, all, mmd_count, count);
  if (rc == EMB_OK) {
    count->upper = mmd_find(count, &rank);
    count->is_lower = 1;
    memset(count->at, 0, sizeof count->at);
    rc = mmd_each(m, all, all, mmd_count, count);
  }
  if (rc == EMB_OK) {
    uint32_t bits = count->upper << 16 | mmd_find(count, &rank);
    float number;
    memcpy(&number, &bits, sizeof number);
    *median = (double)number;
  }
  env_posix.release(&env_posix, count);
  return rc;
}

/* ---- the discrepancy ----------------------------------------------------- */

struct mmd_sum {
  double gamma; /* in the unit of the pairs */
  double sum;   /* over all ordered pairs, with the diagonal */
  int same;
};

static void mmd_add(struct choose_pairs *pairs, struct choose_block *block,
                    int is_diagonal, void *arg) {
  struct mmd_sum *sum = arg;
  double part = pairs->ops->kernel(block, sum->gamma);
  sum->sum += sum->same && !is_diagonal ? 2 * part : part;
}

/* The mean of the kernel over the pairs of two groups.  For a group with
** itself, the unbiased estimate leaves out the pairs of a row with itself. */
static int mmd_mean(struct mmd *m, const size_t rows[2],
                    const size_t columns[2], double gamma, double *mean) {
  struct mmd_sum sum = {.gamma = gamma, .same = rows[0] == columns[0]};
  double n = (double)(rows[1] - rows[0]);
  double other = (double)(columns[1] - columns[0]);
  int rc = mmd_each(m, rows, columns, mmd_add, &sum);
  if (sum.same && !m->ask->is_biased) {
    *mean = (sum.sum - n) / (n * (n - 1));
  } else {
    *mean = sum.sum / (n * other);
  }
  return rc;
}

/* Computes gamma for distances in units of the pairs. */
static int mmd_gamma(struct mmd *m, double *gamma) {
  const emb_drift *ask = m->ask;
  double unit = m->pairs.unit * ask->unit, median = 0;
  if (ask->gamma > 0) {
    *gamma = ask->gamma * unit * unit;
  } else {
    int rc = mmd_median(
        m, ask->median_of_all ? ask->references + ask->others : ask->references,
        &median);
    if (rc) {
      return rc;
    }
    *gamma = median > 0 ? 1 / median : INFINITY;
  }
  /* If the median is 0, only equal rows are alike. */
  *gamma = fmin(*gamma, FLT_MAX);
  return EMB_OK;
}

int emb_drift_mmd(const emb_drift *ask, double *mmd, emb_err *err) {
  struct mmd m = {.ask = ask, .err = err};
  const size_t reference[2] = {0, ask->references};
  const size_t other[2] = {ask->references, ask->references + ask->others};
  double gamma = 0, inside = 0, outside = 0, between = 0;
  int rc = EMB_OK;
  if (ask->references < 2 || ask->others < 2) {
    return err_set(err, EMB_RANGE, "the discrepancy needs two rows of each");
  }
  if (choose__pairs_open(&m.pairs, other[1], ask->dim)) {
    rc = err_set(err, EMB_NOMEM, "out of memory for %llu vectors",
                 (unsigned long long)other[1]);
  }
  if (rc == EMB_OK) {
    choose__pairs_centre(&m.pairs, ask->vectors);
    rc = mmd_gamma(&m, &gamma);
  }
  rc = rc ? rc : mmd_mean(&m, reference, reference, gamma, &inside);
  rc = rc ? rc : mmd_mean(&m, other, other, gamma, &outside);
  rc = rc ? rc : mmd_mean(&m, other, reference, gamma, &between);
  *mmd = inside + outside - 2 * between;
  choose__pairs_close(&m.pairs);
  return rc;
}
