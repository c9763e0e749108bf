/* SPDX-License-Identifier: MIT
**
** recall.c -- see recall.h.
*/
#include "recall.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/debug.h"
#include "engine/base/seed.h"

const uint32_t recall_ks[RECALL_KS] = {1, 10, 100};
const double recall_levels[RECALL_LEVELS - 1] = {
    0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995};
const double recall_steps[RECALL_STEPS] = {0.125, 0.25, 0.5, 0.75, 1,
                                           1.5,   2,    3,   4};

/* One-sided, 95 percent.  For one neighbour, 98: the order of the lists was
** chosen by the same sample. */
#define CONFIDENCE_Z 1.645
#define CONFIDENCE_Z_ONE 2.054
/* The share of the permitted misses that is left to the codes. */
#define CODES_SHARE 0.2
/* The recall at which design effects are measured: neither all nor none of the
** neighbours are missed. */
#define DESIGN_RECALL 0.9
/* The step that compares as many rows as a search does by itself. */
#define STEP_USUAL 4
/* A query's sorted positions: those of its nearest 1, 10 and 100. */
#define SORTED_STRIDE 111
static const uint32_t sorted_from[RECALL_KS] = {0, 1, 11};

/* ---- a curve ------------------------------------------------------------- */

static const struct recall_point *curve_points(const struct recall_curve *curve,
                                               double recall) {
  if (recall == curve->promised) {
    return curve->points[RECALL_PROMISED];
  }
  for (int i = 0; i < RECALL_LEVELS - 1; i++) {
    if (recall <= recall_levels[i]) {
      return curve->points[i];
    }
  }
  return NULL;
}

/* Between two points, k needs no more lists than either, and its share of the
** rows; beyond the last one lists grow with the logarithm of k, rows with k. */
static struct recall_point point_between(const struct recall_point *low,
                                         const struct recall_point *high,
                                         double from, double to, double k) {
  struct recall_point point = *high;
  double most = fmax(low->probes, high->probes);
  double probes = low->probes * pow((double)high->probes / (double)low->probes,
                                    log(k / from) / log(to / from));
  double rows = low->rows + ((double)high->rows - (double)low->rows) *
                                (k - from) / (to - from);
  if (k > to) {
    most = fmax(most, probes);
    rows = fmax(rows, k * high->rows / to);
  }
  point.probes = (uint32_t)ceil(fmin(most, 1e9));
  point.rows = high->rows ? (uint32_t)ceil(fmin(rows, 1e9)) : 0;
  return point;
}

int recall_pick(const struct recall_curve *curve, double recall, size_t k,
                struct recall_point *to) {
  const struct recall_point *points = curve_points(curve, recall);
  int high = k <= recall_ks[0] ? 0 : k <= recall_ks[1] ? 1 : 2;
  if (!curve->measured || !points || !points[high].probes) {
    return 0;
  }
  *to = points[high];
  if (k != recall_ks[high] && points[high - 1].probes) {
    *to = point_between(&points[high - 1], &points[high], recall_ks[high - 1],
                        recall_ks[high], (double)k);
  } else if (k > recall_ks[high]) {
    return 0; /* nothing to extrapolate from */
  }
  return to->probes <= curve->lists;
}

/* ---- confidence ---------------------------------------------------------- */

/* The least recall that would let a sample look this good once in 20. */
static double least_recall(int k, double found, double wanted, double design) {
  double z = recall_ks[k] == 1 && !EMB_SEED(SEED_CHOICE_OF_ORDER_FORGOTTEN)
                 ? CONFIDENCE_Z_ONE
                 : CONFIDENCE_Z;
  if (EMB_SEED(SEED_RECALL_OF_SAMPLE_PROMISED) && wanted > 0) {
    return found / wanted;
  }
  double misses = (wanted - found) / design + 1;
  double root = 1 - 1 / (9 * misses) + z / (3 * sqrt(misses));
  double most = misses * root * root * root;
  return wanted > 0 ? fmax(1 - most * design / wanted, 0) : 0;
}

/* Neighbours, among the query's k nearest, in the first `probes` lists. */
static uint32_t found_in(const struct recall_measure *m, size_t query, int k,
                         uint32_t probes) {
  const uint32_t *at = m->sorted + query * SORTED_STRIDE + sorted_from[k];
  uint32_t low = 0, high = m->counts[query];
  high = high < recall_ks[k] ? high : recall_ks[k];
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (at[middle] < probes) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static uint32_t wanted_of(const struct recall_measure *m, size_t query, int k) {
  uint32_t n = m->counts[query];
  return n < recall_ks[k] ? n : recall_ks[k];
}

static size_t group_from(const struct recall_measure *m, int group) {
  return group ? m->form.queries[0] : 0;
}

static double found_of(const struct recall_measure *m, int group, int k,
                       uint32_t probes) {
  size_t from = group_from(m, group);
  double found = 0;
  for (size_t i = 0; i < m->form.queries[group]; i++) {
    found += found_in(m, from + i, k, probes);
  }
  return found;
}

/* The fewest lists in which at least this share of the neighbours is, with
** confidence or in the sample.  0: no number is enough. */
static uint32_t probes_of(const struct recall_measure *m, int group, int k,
                          double recall, int with_confidence) {
  double wanted = m->wanted[group][k], design = m->design[group][k];
  uint32_t low = 1, high = m->form.lists + 1;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    double found = found_of(m, group, k, middle);
    double reached = with_confidence ? least_recall(k, found, wanted, design)
                                     : found / wanted;
    if (reached >= recall) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low <= m->form.lists ? low : 0;
}

/* The variance between queries of the share found, relative to that of
** independent trials. */
static double design_of(const struct recall_measure *m, int group, int k) {
  uint32_t probes = probes_of(m, group, k, DESIGN_RECALL, 0);
  size_t from = group_from(m, group), n = m->form.queries[group];
  double mean = found_of(m, group, k, probes) / m->wanted[group][k], sum = 0;
  if (!probes || mean >= 1 || n < 2 || recall_ks[k] == 1) {
    return recall_ks[k]; /* nothing is known: a query is one trial */
  }
  for (size_t i = 0; i < n; i++) {
    double wanted = wanted_of(m, from + i, k);
    double share =
        wanted > 0 ? found_in(m, from + i, k, probes) / wanted : mean;
    sum += (share - mean) * (share - mean);
  }
  double trial = mean * (1 - mean) / recall_ks[k];
  double design = sum / (double)(n - 1) / trial;
  return fmin(fmax(design, 1), recall_ks[k]);
}

/* ---- lists --------------------------------------------------------------- */

int recall_begin(struct recall_measure *m, struct env *env,
                 const struct recall_form *form) {
  size_t n = form->queries[0] + form->queries[1];
  *m = (struct recall_measure){.env = env, .form = *form, .n = n};
  m->counts = env->allocate(env, (n + 1) * sizeof *m->counts);
  m->at = env->allocate(env, (n + 1) * RECALL_MOST * sizeof *m->at);
  m->sorted = env->allocate(env, (n + 1) * SORTED_STRIDE * sizeof *m->sorted);
  if (!m->counts || !m->at || !m->sorted) {
    recall_end(m);
    return 0;
  }
  memset(m->counts, 0, (n + 1) * sizeof *m->counts);
  return 1;
}

void recall_end(struct recall_measure *m) {
  if (m->env) {
    m->env->release(m->env, m->counts);
    m->env->release(m->env, m->at);
    m->env->release(m->env, m->sorted);
  }
  *m = (struct recall_measure){0};
}

static int compare_positions(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

void recall_lists(struct recall_measure *m, size_t query, const uint32_t *at,
                  size_t n) {
  emb_assert(query < m->n && n <= RECALL_MOST);
  m->counts[query] = (uint32_t)n;
  memcpy(m->at + query * RECALL_MOST, at, n * sizeof *at);
  for (int k = 0; k < RECALL_KS; k++) {
    uint32_t *to = m->sorted + query * SORTED_STRIDE + sorted_from[k];
    uint32_t some = wanted_of(m, query, k);
    memcpy(to, at, some * sizeof *at);
    qsort(to, some, sizeof *to, compare_positions);
    m->wanted[query >= m->form.queries[0]][k] += some;
  }
}

/* Are these the points of a number of lists that the index's options fix? */
static int is_fixed(const struct recall_measure *m, int level) {
  return level == RECALL_PROMISED && m->form.probes;
}

static double level_of(const struct recall_measure *m, int level) {
  return level == RECALL_PROMISED ? m->form.promised : recall_levels[level];
}

/* The lists that a level needs in every group; 0: no number is enough. */
static uint32_t choose_probes(const struct recall_measure *m, int level,
                              int k) {
  double recall = level_of(m, level);
  uint32_t most = 0;
  if (is_fixed(m, level)) {
    return m->form.probes < m->form.lists ? m->form.probes : m->form.lists;
  }
  if (recall <= 0) {
    return 0;
  }
  recall += m->form.extra[k] ? (1 - recall) * CODES_SHARE : 0;
  for (int group = 0; group < RECALL_GROUPS; group++) {
    if (m->wanted[group][k] > 0) {
      uint32_t probes = probes_of(m, group, k, recall, 1);
      if (!probes) {
        return 0;
      }
      most = probes > most ? probes : most;
    }
  }
  return most;
}

void recall_choose_lists(struct recall_measure *m) {
  for (int k = 0; k < RECALL_KS; k++) {
    for (int group = 0; group < RECALL_GROUPS; group++) {
      m->design[group][k] = recall_ks[k];
      if (m->wanted[group][k] > 0) {
        m->design[group][k] = design_of(m, group, k);
      }
    }
    for (int level = 0; level < RECALL_LEVELS; level++) {
      m->points[level][k].probes = choose_probes(m, level, k);
    }
  }
}

/* Lower is better. */
static double cost_of(const struct recall_measure *m, int level) {
  double cost = 0;
  for (int k = 0; k < RECALL_KS; k++) {
    uint32_t probes = m->points[level][k].probes;
    if (is_fixed(m, level)) {
      cost -= found_of(m, 0, k, probes) + found_of(m, 1, k, probes);
    } else {
      cost += probes ? probes : 2.0 * m->form.lists;
    }
  }
  return cost;
}

int recall_is_better(const struct recall_measure *m,
                     const struct recall_measure *other) {
  double gain = 0;
  for (int level = RECALL_PROMISED; gain == 0 && level >= 0; level--) {
    gain = cost_of(other, level) - cost_of(m, level);
  }
  return gain > 0;
}

uint32_t recall_probes(const struct recall_measure *m) {
  uint32_t most = 0;
  for (int i = 0; i < RECALL_LEVELS * RECALL_KS; i++) {
    uint32_t probes = m->points[i / RECALL_KS][i % RECALL_KS].probes;
    most = probes > most ? probes : most;
  }
  return most;
}

/* ---- rows ---------------------------------------------------------------- */

static uint32_t rows_at(const struct recall_measure *m, int k, int step) {
  return recall_ks[k] + (uint32_t)ceil(m->form.extra[k] * recall_steps[step]);
}

uint32_t recall_rows(const struct recall_measure *m) {
  return rows_at(m, RECALL_KS - 1, RECALL_STEPS - 1);
}

static int order_by_estimate(const void *a, const void *b) {
  const struct recall_candidate *x = a, *y = b;
  return x->estimate < y->estimate ? -1 : x->estimate > y->estimate;
}

/* Counts the candidates that are among the k nearest, at one point.  Candidates
** with the same estimate are taken for equal rows, of which any will do, if
** codes tell rows apart; else the worst is assumed. */
static void add_candidates(struct recall_measure *m, int level, int k,
                           int group, const struct recall_candidate *all,
                           size_t n) {
  double *found = m->found[level][k][group];
  uint32_t probes = m->points[level][k].probes, rank = 0;
  for (size_t i = 0, end; i < n; i = end) {
    uint32_t same = 0;
    for (end = i; end < n && all[end].estimate == all[i].estimate; end++) {
      same += all[end].at < probes;
    }
    uint32_t last = m->form.is_exact ? rank : rank + same - (same > 0);
    int step = 0;
    while (step < RECALL_STEPS && rows_at(m, k, step) <= last) {
      step++;
    }
    for (size_t j = i; j < end; j++) {
      int counts = all[j].at < probes && all[j].number < recall_ks[k];
      for (int at = step; counts && at < RECALL_STEPS; at++) {
        found[at]++;
      }
    }
    rank += same;
  }
}

void recall_rows_found(struct recall_measure *m, size_t query,
                       struct recall_candidate *all, size_t n) {
  int group = query >= m->form.queries[0];
  qsort(all, n, sizeof *all, order_by_estimate);
  for (int level = 0; level < RECALL_LEVELS; level++) {
    for (int k = 0; k < RECALL_KS; k++) {
      if (m->points[level][k].probes) {
        add_candidates(m, level, k, group, all, n);
      }
    }
  }
}

/* The recall of a point in a group, in the sample (least: with confidence). */
static double recall_at(const struct recall_measure *m, int level, int k,
                        int group, int step, int least) {
  double wanted = m->wanted[group][k];
  double found = m->form.extra[k]
                     ? m->found[level][k][group][step]
                     : found_of(m, group, k, m->points[level][k].probes);
  return least ? least_recall(k, found, wanted, m->design[group][k])
               : found / wanted;
}

static double lowest_recall(const struct recall_measure *m, int level, int k,
                            int step, int least) {
  double lowest = 1;
  for (int group = 0; group < RECALL_GROUPS; group++) {
    if (m->wanted[group][k] > 0) {
      lowest = fmin(lowest, recall_at(m, level, k, group, step, least));
    }
  }
  return lowest;
}

/* The first step at which the level is reached; RECALL_STEPS: none. */
static int choose_step(const struct recall_measure *m, int level, int k) {
  int step = 0, steps = m->form.extra[k] ? RECALL_STEPS : 1;
  if (is_fixed(m, level)) {
    return m->form.extra[k] ? STEP_USUAL : 0;
  }
  while (step < steps &&
         lowest_recall(m, level, k, step, 1) < level_of(m, level)) {
    step++;
  }
  return step < steps ? step : RECALL_STEPS;
}

void recall_choose(struct recall_measure *m, struct recall_curve *curve) {
  *curve = (struct recall_curve){.promised = m->form.promised,
                                 .lists = m->form.lists,
                                 .order = m->form.order,
                                 .rows = (uint32_t)m->form.queries[0],
                                 .asked = (uint32_t)m->form.queries[1]};
  for (int level = 0; level < RECALL_LEVELS; level++) {
    for (int k = 0; k < RECALL_KS; k++) {
      struct recall_point *point = &m->points[level][k];
      int step = point->probes ? choose_step(m, level, k) : RECALL_STEPS;
      if (step == RECALL_STEPS) {
        *point = (struct recall_point){0};
        continue;
      }
      point->rows = m->form.extra[k] ? rows_at(m, k, step) : 0;
      point->mean = (float)lowest_recall(m, level, k, step, 0);
      point->least = (float)lowest_recall(m, level, k, step, 1);
    }
  }
  memcpy(curve->points, m->points, sizeof curve->points);
}
