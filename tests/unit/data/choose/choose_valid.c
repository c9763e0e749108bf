/* SPDX-License-Identifier: MIT
**
** choose_valid.c -- proofs that the assertions of engine/data/choose fire.
*/
#include "engine/data/choose/choose.h"
#include "engine/data/choose/pairs.h"
#include "test.h"
#include "death.h"

enum { ROWS = 100, DIM = 4, CHOSEN = 10 };

static float vectors[ROWS * DIM];
static int64_t keys[ROWS];
static emb_chosen chosen[CHOSEN];
static double gain[ROWS], wide[DIM], column[ROWS];
static uint8_t taken[ROWS];
static emb_err err;
static emb_points points = {
    .keys = keys, .vectors = vectors, .n = ROWS, .dim = DIM};
static struct choose choice;

/* A choice of CHOSEN rows, of which `picked` are chosen. */
static void open_choice(const char *method, size_t picked) {
  memset(taken, 0, sizeof taken);
  for (int i = 0; i < ROWS * DIM; i++) {
    vectors[i] = (float)(i * 37 % 101) / 101;
    keys[i / DIM] = i / DIM;
  }
  choice = (struct choose){.points = &points,
                           .ops = choose__best(),
                           .k = CHOSEN,
                           .chosen = chosen,
                           .gain = gain,
                           .taken = taken,
                           .wide = wide,
                           .column = column,
                           .err = &err};
  CHECK_EQ_INT(choose__parse(method, &choice.how, &err), EMB_OK);
  for (size_t i = 0; i < picked; i++) {
    choose__take(&choice, 3 * i, 0);
  }
}

TEST(the_method) {
  struct choose_method how;
  CHECK_EQ_INT(choose__parse("submodular(graph_cut)", &how, &err), EMB_OK);
  CHECK(choose__method_valid(&how));
  CHECK_FIRES(how.kind = 4; choose__method_valid(&how));
  CHECK_FIRES(how.function = -1; choose__method_valid(&how));
  CHECK_FIRES(how.greedy = 3; choose__method_valid(&how));
  CHECK_FIRES(how.batch = BLOCK_COLUMNS + 1; choose__method_valid(&how));
  CHECK_FIRES(how.epsilon = 1; choose__method_valid(&how));
  CHECK_FIRES(how.ridge = 0; choose__method_valid(&how));
}

TEST(the_choice) {
  open_choice("k-center", 0);
  CHECK(choose__valid(&choice));
  CHECK_EQ_INT(choose__centres(&choice), EMB_OK);
  CHECK(choose__valid(&choice));
  CHECK_FIRES(choice.picked++; choose__valid(&choice));
  CHECK_FIRES(choice.picked--; choose__valid(&choice));
  CHECK_FIRES(chosen[1].row = ROWS; choose__valid(&choice));
}

TEST(the_block) {
  struct choose_pairs pairs = {0};
  CHECK_EQ_INT(choose__pairs_open(&pairs, ROWS, DIM), EMB_OK);
  choose__pairs_normalise(&pairs, vectors);
  choose__pairs_columns(&pairs, pairs.rows, pairs.squares, 70);
  struct choose_block *block = choose__pairs_block(&pairs, 40, 60);
  CHECK(choose__block_valid(block));
  CHECK_FIRES(block->n = BLOCK_ROWS + 1; choose__block_valid(block));
  CHECK_FIRES(block->columns = block->width + 1; choose__block_valid(block));
  CHECK_FIRES(block->width = BLOCK_COLUMNS + 1; choose__block_valid(block));
  CHECK_FIRES(choose__pairs_columns(&pairs, pairs.rows, NULL, 257));
  CHECK_FIRES(choose__pairs_block(&pairs, 40, 61));
  CHECK_FIRES(choose__pairs_block(&pairs, 40, 0));
  choose__pairs_close(&pairs);
  CHECK_ALL_FIRED("engine/data/choose/choose_valid.c");
}

TEST(the_transitions) {
  struct choose_draw draw;
  struct choose_bounded bounded = {0};
  open_choice("craig(greedy=stochastic)", 2);
  CHECK_FIRES(choose__take(&choice, 3, 0));
  CHECK_FIRES(choose__take(&choice, ROWS, 0));
  CHECK_FIRES(choice.picked = CHOSEN; choose__take(&choice, 1, 0));
  CHECK_FIRES(choose__row(&choice, ROWS));
  CHECK_FIRES(choose__greedy_bounded(&choice, &bounded));
  CHECK_FIRES(taken[1] = 1; choice.k = 2;
              choose__greedy_exact(&choice, NULL, NULL));
  CHECK_EQ_INT(choose__draw_open(&choice, &draw), EMB_OK);
  CHECK_FIRES(draw.n = 0; choose__draw(&choice, &draw));
  CHECK_FIRES(choice.k = 2; choose__draw(&choice, &draw));
  choose__draw_close(&draw);
  CHECK_FIRES(choice.how.greedy = CHOOSE_NAIVE; choice.k = choice.picked = 0;
              choose__greedy_bounded(&choice, &bounded));
}
