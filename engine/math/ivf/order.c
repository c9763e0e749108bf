/* SPDX-License-Identifier: MIT
**
** order.c -- see order.h.
*/
#include "order.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/base/seed.h"
#include "engine/emb.h"

/* 0: by the centre alone. */
static const float margins[IVF_ORDERS] = {0, 2, 3, 4, 6};

/* ---- sorting ------------------------------------------------------------- */

#define DIGIT_BITS 8
#define DIGIT (1u << DIGIT_BITS)

/* Sorts by the upper 16 bits, in two passes by digits: nothing depends on
** branches.  Equal ones keep their order.  other: room for n. */
static void sort_upper(uint32_t *all, uint32_t *other, uint32_t n) {
  uint32_t ends[2][DIGIT] = {{0}};
  for (uint32_t i = 0; i < n; i++) {
    ends[0][all[i] >> 16 & (DIGIT - 1)]++;
    ends[1][all[i] >> 24]++;
  }
  for (int pass = 0; pass < 2; pass++) {
    uint32_t *from = pass ? other : all, *to = pass ? all : other, sum = 0;
    int shift = 16 + pass * DIGIT_BITS;
    for (uint32_t i = 0; i < DIGIT; i++) {
      uint32_t count = ends[pass][i];
      ends[pass][i] = sum;
      sum += count;
    }
    for (uint32_t i = 0; i < n; i++) {
      to[ends[pass][from[i] >> shift & (DIGIT - 1)]++] = from[i];
    }
  }
}

/* The exponent and eight more bits of how much a score exceeds the lowest. */
static uint32_t rank_of(float score, float lowest) {
  float excess = score - lowest;
  uint32_t bits;
  memcpy(&bits, &excess, sizeof bits);
  return bits >> 15 & 0xffff;
}

/* ---- scores -------------------------------------------------------------- */

static float square_length(const float *vector, uint32_t dim) {
  float sum = 0;
  for (uint32_t i = 0; i < dim; i++) {
    sum += vector[i] * vector[i];
  }
  return sum;
}

/* Sets the scores of the lists of one centre; returns the lowest so far. */
static float score_lists(struct ivf_search *search, uint32_t centre,
                         float margin, float square, float lowest) {
  const struct ivf *ivf = search->ivf;
  const struct shells *shells = &ivf->shells;
  const float *radii = shells->radii + (size_t)centre * shells->count;
  float *scores = search->scores + (size_t)centre * shells->count;
  float near = search->products[centre], across = square;
  if (ivf->form.metric != EMB_DOT) {
    near = ivf->centres.squares[centre] - 2 * near;
    across = near + square > 0 ? near + square : 0;
  } else {
    near = -near;
  }
  float spread = margin * sqrtf(across / (float)ivf->form.dim);
  for (uint32_t i = 0; i < shells->count; i++) {
    float r = radii[i], score = near;
    if (margin > 0 && !EMB_SEED(SEED_RADIUS_IGNORED)) {
      score += ivf->form.metric == EMB_DOT ? -spread * r : r * (r - 2 * spread);
    }
    scores[i] = score < FLT_MAX ? score : FLT_MAX; /* also of a NaN */
    lowest = scores[i] < lowest ? scores[i] : lowest;
  }
  return lowest;
}

/* The list that a row equal to the query is in. */
static uint32_t own_list(const struct ivf_search *search) {
  const struct ivf *ivf = search->ivf;
  const float *squares = ivf->centres.squares;
  uint32_t best = 0;
  float least = FLT_MAX;
  for (uint32_t i = 0; i < ivf->centres.count; i++) {
    float near = squares[i] - 2 * search->products[i];
    if (near < least) {
      least = near;
      best = i;
    }
  }
  float square = ivf__residual_square(
      search->query, centres_row(&ivf->centres, best), ivf->form.dim);
  return best * ivf->shells.count + shells_of(&ivf->shells, best, square);
}

/* Adds the list to the `chosen` ones so far, unless it is empty or one of them;
** returns how many there are now. */
static uint32_t choose(struct ivf_search *search, uint32_t list,
                       uint32_t chosen) {
  if (search->positions[list] != UINT32_MAX ||
      !lists_blocks(&search->ivf->lists, list)) {
    return chosen;
  }
  search->positions[list] = chosen;
  search->order[chosen] = list;
  return chosen + 1;
}

uint32_t ivf__choose_lists(struct ivf_search *search, uint32_t probes,
                           uint32_t order) {
  const struct ivf *ivf = search->ivf;
  const struct centres *c = &ivf->centres;
  const struct distance_rows rows = {
      .first = c->rows, .stride = c->dim * sizeof(float), .n = c->count};
  float square = square_length(search->query, c->dim), lowest = FLT_MAX;
  uint32_t lists = ivf->lists.count, n = 0, chosen = 0;
  emb_assert(order < IVF_ORDERS);
  /* lists that have the same score */
  uint32_t same = margins[order] > 0 ? 1 : ivf->shells.count;
  distance_best()->dot[EMB_F32](search->products, NULL, search->query, &rows,
                                c->dim);
  for (uint32_t i = 0; i < c->count; i++) {
    lowest = score_lists(search, i, margins[order], square, lowest);
  }
  for (uint32_t i = 0; i < lists; i += same) {
    search->ranks[n++] = rank_of(search->scores[i], lowest) << 16 | i;
  }
  sort_upper(search->ranks, search->ranks + n, n);
  memset(search->positions, 0xff, lists * sizeof(uint32_t));
  if (probes && ivf->form.metric != EMB_DOT &&
      !EMB_SEED(SEED_OWN_LIST_IGNORED)) {
    chosen = choose(search, own_list(search), 0);
  }
  for (uint32_t i = 0; i < n && chosen < probes; i++) {
    uint32_t list = search->ranks[i] & 0xffff;
    for (uint32_t end = list + same; list < end && chosen < probes; list++) {
      chosen = choose(search, list, chosen);
    }
  }
  return chosen;
}
