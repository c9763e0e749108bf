/* SPDX-License-Identifier: MIT
**
** vec_valid.c -- each assertion of engine/math/vec/vec_valid.c fires, and the
** preconditions of the other files.
*/
#include "test.h"
#include "death.h"

#include "engine/emb.h"
#include "engine/math/vec/distance.h"
#include "engine/math/vec/init.h"
#include "engine/math/vec/optim.h"
#include "engine/math/vec/pooling.h"
#include "engine/math/vec/quant.h"

#include <math.h>

enum { DIM = 20, ROWS = 5 };

static emb_err err;

/* ---- optimizers ---------------------------------------------------------- */

static struct optim optim;
static float vector[DIM], state[3 * DIM + 2], gradient[DIM];

static void parse(const char *text) {
  CHECK_EQ_INT(optim_parse(&optim, text, &err), EMB_OK);
}

static void steps(int n) {
  for (int i = 0; i < n; i++) {
    (void)optim_apply(&optim, DIM, vector, state, gradient,
                      &(struct optim_step){.lr = -1});
  }
}

TEST(an_optimizer) {
  struct optim_factors *k = &optim.factors;
  parse("adam");
  CHECK(optim_valid(&optim));
  CHECK_FIRES(optim.kind = OPTIM_GROUP_FTRL + 1; optim_valid(&optim));
  CHECK_FIRES(optim.arrays = 4; optim_valid(&optim));
  CHECK_FIRES(optim.heads = 1; optim_valid(&optim));
  CHECK_FIRES(struct vec_ops other = *optim.vec; other.name = "other";
              optim.vec = &other; optim_valid(&optim));
  CHECK_FIRES(k->lr = 0; optim_valid(&optim));
  CHECK_FIRES(k->p = 1; optim_valid(&optim));
  CHECK_FIRES(k->q1 = 0; optim_valid(&optim));
  CHECK_FIRES(k->clip = 0; optim_valid(&optim));
  CHECK_FIRES(k->root = 2; optim_valid(&optim));
  CHECK_FIRES(k->scale = 2; optim_use_form(&optim, 0));
  CHECK_FIRES(k->shrink = 0; steps(5000));
}

TEST(a_step) {
  parse("adam");
  steps(1);
  CHECK_FIRES(optim_apply(&optim, DIM, NULL, state, gradient,
                          &(struct optim_step){.lr = -1}));
  CHECK_FIRES(optim_apply(&optim, DIM, state + 2 * DIM + 1, state, gradient,
                          &(struct optim_step){.lr = -1}));
  parse("ftrl");
  CHECK_FIRES(optim.beta = optim.initial_accumulator = 0;
              optim_init(&optim, DIM, vector, state));
}

/* ---- initializers -------------------------------------------------------- */

static void fill(const struct init *init, int times) {
  for (int i = 0; i < times; i++) {
    init_fill(init, 7, i, DIM, vector);
  }
}

TEST(an_initializer) {
  struct init init;
  CHECK_EQ_INT(init_parse(&init, "uniform(low=-1, high=1)", &err), EMB_OK);
  fill(&init, 1);
  CHECK(init_vector_valid(&init, DIM, vector));
  CHECK_FIRES(init.kind = INIT_TRUNCATED_NORMAL + 1; init_valid(&init));
  CHECK_FIRES(init.value = 1; init_valid(&init));
  CHECK_FIRES(init.low = 2; init_valid(&init));
  CHECK_FIRES(init.std = -1; init_valid(&init));
  CHECK_FIRES(init.mean = INFINITY; init_valid(&init));
  CHECK_FIRES(init.high = 2e37; init_valid(&init));
  CHECK_FIRES(vector[DIM - 1] = 1.0001f; init_vector_valid(&init, DIM, vector));
  CHECK_FIRES(vector[0] = NAN; init_vector_valid(&init, DIM, vector));
  CHECK_FIRES(init.low = 2; fill(&init, 5000));
}

/* ---- rows ---------------------------------------------------------------- */

TEST(sums_of_rows) {
  float rows[ROWS * DIM] = {0}, sum[DIM] = {0};
  struct pooling_rows of = {rows, NULL, ROWS, DIM, 1};
  CHECK(pooling_rows_valid(sum, &of));
  for (int i = 0; pooling__form(i); i++) {
    const struct pooling_form *form = pooling__form(i);
    CHECK_FIRES(of.dim = 0; form->add(sum, &of));
    CHECK_FIRES(form->add(rows + (ROWS - 1) * DIM, &of));
  }
}

TEST(distances_of_rows) {
  float rows[ROWS * DIM] = {0}, panels[64 * DIM] = {0}, to[ROWS * 64];
  uint16_t halves[ROWS * DIM] = {0};
  struct distance_rows of = {
      .first = rows, .stride = DIM * sizeof(float), .n = ROWS};
  struct distance_rows half = {
      .first = halves, .stride = DIM * sizeof *halves, .n = ROWS};
  CHECK(distance_rows_valid(&of, sizeof *rows, DIM));
  for (int i = 0; distance__form(i); i++) {
    const struct distance_ops *ops = distance__form(i);
    CHECK_FIRES(of.stride--; ops->l2[EMB_F32](to, rows, &of, DIM));
    CHECK_FIRES(half.stride--; ops->l2[EMB_F16](to, rows, &half, DIM));
    CHECK_FIRES(of.stride--; ops->dot[EMB_F32](to, NULL, rows, &of, DIM));
    CHECK_FIRES(half.stride--; ops->dot[EMB_F16](to, NULL, rows, &half, DIM));
    CHECK_FIRES(of.stride--;
                ops->tile[EMB_F32](to, NULL, panels, ops->panel, &of, DIM));
    CHECK_FIRES(half.stride--;
                ops->tile[EMB_F16](to, NULL, panels, ops->panel, &half, DIM));
    CHECK_FIRES(ops->tile[EMB_F32](to, NULL, panels, ops->panel + 1, &of, DIM));
    CHECK_FIRES(
        ops->tile[EMB_F16](to, NULL, panels, ops->panel - 1, &half, DIM));
  }
  CHECK_FIRES(distance_best()->l2[EMB_F32](to, rows, &of, 0));
  CHECK_FIRES(distance_error(0));
  CHECK_FIRES(distance_error(EMB_DIM_MAX + 1));
}

TEST(rows_in_fewer_bits) {
  char bytes[256];
  CHECK_FIRES(quant_encode(QUANT_INT8, 0, vector, bytes));
  CHECK_FIRES(quant_decode(QUANT_INT8, (uint32_t)INT32_MAX + 1, bytes, vector));
  CHECK_ALL_FIRED("engine/math/vec/quant.c");
  CHECK_ALL_FIRED("engine/math/vec/vec_valid.c");
}
