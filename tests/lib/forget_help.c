/* SPDX-License-Identifier: MIT
**
** forget_help.c -- a clock that tests move, and copies as a kill leaves them:
** see forget_help.h.
*/
#include "forget_help.h"

struct failing forget_env;

void forget_begin(void) {
  failing_init(&forget_env, &env_posix, test_random());
  forget_env.jump = 1;
  forget_env.still_wall_s = BEGIN;
  forget_env.still_us = 1;
  env_set_default(&forget_env.env);
}

void forget_end(void) {
  env_set_default(&env_posix);
  CHECK_EQ_INT(failing_out(&forget_env), 0);
  failing_free(&forget_env);
}

uint32_t forget_now(void) { return forget_env.env.wall_s(&forget_env.env); }

emb_config forget_config(uint32_t dim) {
  return (emb_config){.dim = dim,
                      .memory_bytes = 1,
                      .timeout_ms = 1000,
                      .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
}

void forget_steps(emb_store *store) {
  int more = 1;
  for (int i = 0; more && CHECK(i < 100000); i++)
    CHECK_EQ_INT(emb_step(store, &more), EMB_OK);
}

int forget_open_copy(const char *dir, emb_session *s, const emb_config *config,
                     emb_store **store, emb_session **other) {
  static unsigned copies;
  char name[32];
  uint64_t number;
  int64_t key = -5;
  float vector[64] = {0};
  (void)snprintf(name, sizeof name, "copy%u", copies++);
  OK(s, emb_begin(s));
  OK(s, emb_txn_put(s, &key, 1, vector));
  OK(s, emb_prepare(s, &number));
  OK(s, emb_commit(s));
  CHECK(files_copy_dir(help_path(name), dir));
  if (!help_open(help_path(name), config, store, other))
    return 0;
  if (emb_in_doubt(*store))
    CHECK_EQ_INT(emb_resolve(*store, emb_in_doubt(*store), 1, NULL), EMB_OK);
  return 1;
}
