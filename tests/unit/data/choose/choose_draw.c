/* SPDX-License-Identifier: MIT
**
** choose_draw.c -- stochastic greedy where all rows draw the same number,
** because all keys are equal: each row is chosen once.
*/
#include "test.h"

#include "engine/emb.h"
#include "engine/data/emb_data.h"

enum { ROWS = 60, DIM = 3 };

static const char *const methods[] = {
    "craig(greedy=stochastic)",
    "submodular(facility_location, greedy=stochastic, epsilon=0.1)",
    "submodular(graph_cut, greedy=stochastic)"};

TEST(equal_keys) {
  static float vectors[ROWS * DIM];
  static int64_t keys[ROWS];
  static emb_chosen chosen[ROWS];
  emb_points points = {.keys = keys, .vectors = vectors, .n = ROWS, .dim = DIM};
  emb_err err;
  for (int i = 0; i < ROWS * DIM; i++) {
    vectors[i] = (float)(i * 37 % 101) / 101;
  }
  for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
    char seen[ROWS] = {0};
    CHECK_EQ_INT(emb_coreset(&points, ROWS, methods[m], chosen, &err), EMB_OK);
    for (int i = 0; i < ROWS; i++) {
      CHECK(chosen[i].row < ROWS && !seen[chosen[i].row]++);
    }
  }
}
