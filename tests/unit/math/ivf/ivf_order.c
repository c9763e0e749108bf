/* SPDX-License-Identifier: MIT
**
** ivf_order.c -- tests of engine/math/ivf: the shells of a centre, and the
** orders in which lists are probed, compared with their definitions computed in
** double.
*/
#include "chance_help.h"
#include "test.h"

#include "engine/emb.h"
#include "engine/math/ivf/order.h"

#include <math.h>

enum { DIM = 48, CENTRES = 30, SHELLS = 4, ROWS = 20000, K = 10 };

static float *rows; /* [ROWS][DIM] */
static struct ivf ivf;
static const double margins[IVF_ORDERS] = {0, 2, 3, 4, 6};

static void begin(uint32_t metric, uint32_t shells) {
  const struct ivf_shape shape = {DIM, 8, metric, CENTRES, shells, ROWS};
  struct ivf_training t;
  struct ivf_writer w;
  float *sample = calloc((size_t)ROWS * DIM, sizeof *sample);
  rows = calloc((size_t)ROWS * DIM, sizeof *rows);
  for (size_t i = 0; i < (size_t)ROWS * DIM; i++) {
    sample[i] = rows[i] = chance_normal();
  }
  CHECK(ivf_init(&ivf, &env_posix, &shape));
  CHECK(ivf_train(&t, &ivf, sample, ROWS / 4));
  while (!ivf_train_step(&t)) {
  }
  CHECK_EQ_INT(ivf_train_end(&t, &ivf), 0);
  CHECK(ivf_writer_init(&w, &ivf));
  for (size_t at = 0; at < ROWS; at += IVF_ROWS) {
    int64_t keys[IVF_ROWS];
    size_t n = ROWS - at < IVF_ROWS ? ROWS - at : IVF_ROWS;
    for (size_t i = 0; i < n; i++) {
      keys[i] = (int64_t)(at + i);
    }
    CHECK_EQ_INT(ivf_set(&w, keys, rows + at * DIM, n), 0);
  }
  ivf_writer_free(&w);
  free(sample);
}

static void end(void) {
  ivf_free(&ivf);
  free(rows);
}

static double product(const float *a, const float *b) {
  double sum = 0;
  for (int i = 0; i < DIM; i++) {
    sum += (double)a[i] * b[i];
  }
  return sum;
}

static double square_between(const float *a, const float *b) {
  double sum = 0;
  for (int i = 0; i < DIM; i++) {
    sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
  }
  return sum;
}

static uint32_t list_of(int64_t key) {
  uint32_t place = ivf__places_find(&ivf.places, key);
  return lists_head(&ivf.lists, place / IVF_BLOCK)->list;
}

/* A row is in the shell whose bounds have its distance from the centre.  The
** shells have about the same number of rows, and radii between their bounds. */
TEST(rows_are_in_their_shells) {
  begin(EMB_L2, SHELLS);
  uint32_t counts[SHELLS] = {0};
  for (int64_t key = 0; key < ROWS; key++) {
    uint32_t list = list_of(key), centre = list / SHELLS, shell = list % SHELLS;
    const float *bounds = ivf.shells.bounds + centre * (SHELLS - 1);
    double square =
        square_between(rows + key * DIM, centres_row(&ivf.centres, centre));
    CHECK(shell == 0 || square > bounds[shell - 1] * (1 - 1e-5));
    CHECK(shell == SHELLS - 1 || square < bounds[shell] * (1 + 1e-5));
    counts[shell]++;
  }
  for (uint32_t list = 0; list < CENTRES * SHELLS; list++) {
    uint32_t centre = list / SHELLS, shell = list % SHELLS;
    const float *bounds = ivf.shells.bounds + centre * (SHELLS - 1);
    double radius = (double)ivf.shells.radii[list];
    CHECK(counts[shell] > ROWS / SHELLS * 3 / 4 &&
          counts[shell] < ROWS / SHELLS * 5 / 4);
    double square = radius * radius;
    CHECK(shell == 0 || square > (double)bounds[shell - 1] * (1 - 1e-5));
    CHECK(shell == SHELLS - 1 || square < (double)bounds[shell] * (1 + 1e-5));
  }
  end();
}

/* How near a list is by the definition in order.h. */
static double score_of(uint32_t metric, const float *query, uint32_t list,
                       uint32_t shells, double margin) {
  const float *centre = centres_row(&ivf.centres, list / shells);
  double r = ivf.shells.radii[list];
  if (metric == EMB_DOT) {
    double spread = sqrt(product(query, query) / DIM);
    return -product(query, centre) - margin * spread * r;
  }
  double square = square_between(query, centre);
  return margin > 0 ? square + r * r - 2 * margin * sqrt(square / DIM) * r
                    : square;
}

/* The list of a row that would be equal to the query. */
static uint32_t own_list(const float *query, uint32_t shells) {
  uint32_t best = 0;
  double least = HUGE_VAL;
  for (uint32_t c = 0; c < CENTRES; c++) {
    double square = square_between(query, centres_row(&ivf.centres, c));
    best = square < least ? c : best;
    least = fmin(least, square);
  }
  const float *bounds = ivf.shells.bounds + best * (shells - 1);
  uint32_t shell = 0;
  while (shell + 1 < shells && least > (double)bounds[shell]) {
    shell++;
  }
  return best * shells + shell;
}

static void check_order(uint32_t metric, uint32_t shells) {
  struct ivf_search search;
  begin(metric, shells);
  uint32_t lists = 0;
  for (uint32_t list = 0; list < CENTRES * shells; list++) {
    lists += lists_blocks(&ivf.lists, list) != 0;
  }
  CHECK(ivf_search_init(&search, &ivf));
  for (uint32_t order = 0; order < IVF_ORDERS; order++) {
    float query[DIM];
    double lowest = HUGE_VAL, before = -HUGE_VAL;
    for (int i = 0; i < DIM; i++) {
      query[i] = search.query[i] = chance_normal();
    }
    CHECK_EQ_INT(ivf__choose_lists(&search, UINT32_MAX, order), lists);
    for (uint32_t list = 0; list < CENTRES * shells; list++) {
      double score = score_of(metric, query, list, shells, margins[order]);
      lowest = fmin(lowest, score);
    }
    /* Scores are rounded to eight bits of what they exceed the lowest by. */
    uint32_t first = metric == EMB_DOT ? 0 : 1;
    if (first) {
      CHECK_EQ_INT(search.order[0], own_list(query, shells));
      CHECK_EQ_INT(search.positions[search.order[0]], 0);
    }
    for (uint32_t i = first; i < lists; i++) {
      uint32_t list = search.order[i];
      double score = score_of(metric, query, list, shells, margins[order]);
      CHECK(i == first || score >= before - (before - lowest) / 128 - 1e-3);
      CHECK_EQ_INT(search.positions[list], i);
      before = fmax(before, score);
    }
    /* Fewer lists are the first of these. */
    uint32_t few[CENTRES / 2];
    memcpy(few, search.order, sizeof few);
    CHECK_EQ_INT(ivf__choose_lists(&search, CENTRES / 2, order), CENTRES / 2);
    CHECK(memcmp(few, search.order, sizeof few) == 0);
    for (uint32_t list = 0; list < CENTRES * shells; list++) {
      uint32_t at = search.positions[list];
      CHECK(at == UINT32_MAX || (at < CENTRES / 2 && few[at] == list));
    }
  }
  ivf_search_free(&search);
  end();
}

TEST(lists_are_in_order) {
  check_order(EMB_L2, SHELLS);
  check_order(EMB_L2, 1);
  check_order(EMB_DOT, SHELLS);
}

/* A row's own list comes first, so that one list is enough to find the row. */
TEST(rows_find_themselves) {
  struct ivf_search search;
  begin(EMB_L2, SHELLS);
  CHECK(ivf_search_init(&search, &ivf));
  for (int64_t key = 0; key < 500; key++) {
    memcpy(search.query, rows + key * DIM, DIM * sizeof(float));
    for (uint32_t order = 0; order < IVF_ORDERS; order++) {
      CHECK_EQ_INT(ivf__choose_lists(&search, 1, order), 1);
      CHECK_EQ_INT(search.order[0], list_of(key));
    }
  }
  ivf_search_free(&search);
  end();
}

/* The position that a search reports, and ivf_positions, agree; each key is
** found once. */
TEST(positions_agree) {
  struct ivf_search search, other;
  begin(EMB_L2, SHELLS);
  CHECK(ivf_search_init(&search, &ivf));
  CHECK(ivf_search_init(&other, &ivf));
  for (uint32_t order = 0; order < IVF_ORDERS; order++) {
    const struct ivf_asked asked = {
        .query = rows, .probes = CENTRES, .most = ROWS, .order = order};
    CHECK_EQ_INT(ivf_search(&search, &asked), 0);
    CHECK_EQ_INT(search.probed, CENTRES);
    uint64_t expected = 0;
    for (int64_t key = 0; key < ROWS; key++) {
      uint32_t at;
      ivf_positions(&other, rows, order, &key, 1, &at);
      expected += at < CENTRES;
      if (key == 200)
        break;
    }
    uint64_t found = 0;
    for (size_t i = 0; i < search.n; i++) {
      const struct ivf_candidate *c = &search.found[i];
      uint32_t at;
      if (c->key <= 200) {
        ivf_positions(&other, rows, order, &c->key, 1, &at);
        CHECK_EQ_INT(c->at, at);
        found++;
      }
    }
    CHECK_EQ_INT(found, expected);
  }
  ivf_search_free(&search);
  ivf_search_free(&other);
  end();
}

/* The share of the ten nearest rows that is in the first lists, which have at
** most this many rows. */
static double found_in(uint32_t shells, uint32_t order, uint64_t most) {
  struct ivf_search search;
  double found = 0;
  CHECK(ivf_search_init(&search, &ivf));
  for (int q = 0; q < 40; q++) {
    float query[DIM];
    double best[K + 1];
    int64_t near[K + 1];
    uint32_t at[K];
    uint64_t count = 0;
    size_t n = 0;
    for (int i = 0; i < DIM; i++) {
      query[i] = chance_normal();
    }
    for (int64_t key = 0; key < ROWS; key++) {
      double square = square_between(query, rows + key * DIM);
      size_t i = n < K ? n++ : K;
      for (; i > 0 && best[i - 1] > square; i--) {
        best[i] = best[i - 1];
        near[i] = near[i - 1];
      }
      best[i] = square;
      near[i] = key;
    }
    ivf_positions(&search, query, order, near, K, at);
    memcpy(search.query, query, sizeof query);
    uint32_t lists = ivf__choose_lists(&search, CENTRES * shells, order), i = 0;
    for (; i < lists && count < most; i++) {
      uint32_t block = ivf_first(&ivf, search.order[i]);
      for (; block != BLOCK_NONE; block = lists_head(&ivf.lists, block)->next) {
        count += (uint32_t)__builtin_popcount(lists_live(&ivf.lists, block));
      }
    }
    for (int j = 0; j < K; j++) {
      found += at[j] < i;
    }
  }
  ivf_search_free(&search);
  return found / (40 * K);
}

/* Without clusters, shells find far more in as many rows. */
TEST(shells_find_random_rows) {
  begin(EMB_L2, 1);
  double centres = found_in(1, 0, ROWS * 2 / 5);
  end();
  begin(EMB_L2, SHELLS);
  double shells = found_in(SHELLS, 2, ROWS * 2 / 5);
  end();
  if (!CHECK(shells > centres + 0.03 && shells > 0.85)) {
    printf("by centre %.3f, by shells %.3f\n", centres, shells);
  }
}

/* A sample too small for shells of its own gives every centre the same. */
TEST(few_rows_are_fitted_together) {
  struct shells shells;
  struct shells_sample sample;
  CHECK(ivf__shells_init(&shells, &env_posix, 2, 2));
  CHECK(ivf__shells_sample_init(&sample, &env_posix, 9));
  for (int i = 0; i < 9; i++) {
    sample.centre[i] = i == 0;
    sample.squares[i] = (float)(9 - i);
  }
  sample.n = 9;
  CHECK(ivf__shells_fit(&shells, &env_posix, &sample));
  CHECK(shells.bounds[0] == 4);          /* of 1 to 8 */
  CHECK(shells.bounds[1] == 4);          /* of 1 to 9 */
  CHECK(shells.radii[0] == sqrtf(2.5f)); /* 1 to 4 */
  CHECK_EQ_INT(shells_of(&shells, 0, 4), 0);
  CHECK_EQ_INT(shells_of(&shells, 0, 4.5f), 1);
  ivf__shells_sample_free(&sample, &env_posix);
  ivf__shells_free(&shells, &env_posix);
}
