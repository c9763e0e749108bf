/* SPDX-License-Identifier: MIT
**
** base_valid.c -- each assertion of the small utilities fires.
*/
#include "death.h"

#include "engine/base/debug.h"
#include "engine/base/err.h"
#include "engine/base/near.h"
#include "engine/base/param.h"
#include "engine/base/spin.h"

#include <math.h>

TEST(a_lock_that_is_not_held) {
  static spin_lock lock;
  spin_acquire(&lock);
  spin_release(&lock);
  CHECK_FIRES(spin_release(&lock));
}

TEST(an_error_without_a_code) {
  emb_err err;
  CHECK_EQ_INT(err_set(&err, EMB_RANGE, "wrong"), EMB_RANGE);
  CHECK_FIRES(err_set(&err, EMB_OK, "wrong"));
  CHECK_FIRES(err_os(&err, EMB_OK, 5, "wrong"));
}

TEST(a_suggestion) {
  static struct near near;
  near_start(&near, "adma", 4);
  near_offer(&near, "adam");
  CHECK(near.best != NULL);
  CHECK_FIRES(near.used = NEAR_TEXT; near_offer(&near, "sgd"));
  CHECK_FIRES(near.best = NULL; near_offer(&near, "sgd"));
  CHECK_ALL_FIRED("engine/base/near.c");
}

TEST(a_default_out_of_its_range) {
  static struct { double lr; } to;
  static struct param params[] = {
      {.name = "lr", .value = 0.5, .high = 1}, {.name = NULL}, {.name = NULL}};
  static const struct param common[] = {{.name = NULL}};
  static const struct param_kind kinds[] = {{"sgd", params}, {NULL, NULL}};
  static const struct param_list list = {"optimizer", kinds, common};
  uint32_t kind;
  emb_err err;
  char text[100];
  CHECK_EQ_INT(param_parse(&list, "sgd", &to, &kind, &err), 0);
  CHECK_FIRES(params[0].value = 2; param_parse(&list, "sgd", &to, &kind, &err));
  CHECK_FIRES(to.lr = INFINITY; param_print(&list, 0, &to, text, sizeof text));
}

TEST(a_sample_of_nothing) { CHECK_FIRES(debug_sample(0)); }
