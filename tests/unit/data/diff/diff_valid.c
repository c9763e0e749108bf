/* SPDX-License-Identifier: MIT
**
** diff_valid.c -- proofs that the assertions of engine/data/diff fire.
*/
#include "engine/data/emb_data.h"
#include "engine/data/diff/diff.h"
#include "test.h"
#include "death.h"

#include "engine/base/env/env.h"

TEST(the_form) {
  struct diff_form form = diff__form(EMB_DIFF_SUB, 4, 1, 1000001);
  struct diff_work w = {.env = &env_posix};
  CHECK(diff__form_valid(&form));
  CHECK_FIRES(form.width = 3; diff__form_valid(&form));
  CHECK_FIRES(form.parts = 2; diff__form_valid(&form));
  CHECK_FIRES(form.op = 0; diff__form_valid(&form));
  CHECK_FIRES(form.bytes += 4; diff__form_valid(&form));
  CHECK_FIRES(form.blocks++; diff__form_valid(&form));
  CHECK_ALL_FIRED("engine/data/diff/diff_valid.c");
  CHECK_FIRES(diff_block_elements(&form, form.blocks));
  CHECK_EQ_INT(diff__open(&w, 4, 1), 0);
  CHECK_FIRES(diff__open(&w, 4, 1));
  diff__close(&w);
}
