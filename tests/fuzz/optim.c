/* SPDX-License-Identifier: MIT
**
** optim.c -- fuzzes the text of an optimizer: an accepted text is printed and
** reads back as the same, and a step with it leaves a finite row.
*/
#include "fuzz.h"

#include "engine/math/vec/optim.h"

#include <math.h>

enum { DIM = 5, STATE_MAX = 3 * DIM + 2 };

static void check_text(const struct optim *optim) {
  struct optim again;
  char text[OPTIM_TEXT_MAX], second[OPTIM_TEXT_MAX];
  size_t n = optim_print(optim, text, sizeof text);
  FUZZ_CHECK(n > 0 && n == strlen(text));
  FUZZ_CHECK(optim_parse(&again, text, NULL) == EMB_OK);
  FUZZ_CHECK(memcmp(optim, &again, sizeof again) == 0);
  FUZZ_CHECK(optim_print(&again, second, sizeof second) == n);
  FUZZ_CHECK(memcmp(text, second, n) == 0);
}

static void check_steps(const struct optim *optim) {
  static const float gradient[DIM] = {1, -0.5f, 0, 1e-20f, 1e15f};
  const struct optim_step step = {.lr = -1, .read = gradient};
  float w[DIM] = {0.5f, -2, 0, 1, 3}, state[STATE_MAX];
  uint32_t floats = optim_state_floats(optim, DIM);
  FUZZ_CHECK(floats <= STATE_MAX);
  optim_init(optim, DIM, w, state);
  for (int t = 0; t < 3; t++) {
    float old[DIM];
    memcpy(old, w, sizeof w);
    if (optim_apply(optim, DIM, w, state, gradient, &step) != EMB_OK)
      FUZZ_CHECK(memcmp(old, w, sizeof w) == 0);
    for (int i = 0; i < DIM; i++)
      FUZZ_CHECK(isfinite(w[i]));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct optim optim;
  emb_err err = {0};
  char *text = malloc(size + 1);
  if (text == NULL)
    return 0;
  memcpy(text, data, size);
  text[size] = 0;
  if (optim_parse(&optim, text, &err) == EMB_OK) {
    FUZZ_CHECK(err.text[0] == 0);
    check_text(&optim);
    check_steps(&optim);
  } else {
    FUZZ_CHECK(err.code == EMB_RANGE && err.text[0]);
  }
  free(text);
  return 0;
}
