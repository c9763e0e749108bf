/* SPDX-License-Identifier: MIT
**
** forget_help.h -- what the tests share whose tables know of updates, expire or
** evict: a clock that moves when they say so, and a look at what a kill leaves.
*/
#ifndef EMB_FORGET_HELP_H
#define EMB_FORGET_HELP_H

#include "store_help.h"

#include "../../engine/store/registry.h"
#include "../lib/failing.h"
#include "../lib/files.h"

enum { BEGIN = 1700000000 }; /* seconds since 1970 */

static struct failing env;

static inline void forget_begin(void) {
  failing_init(&env, &env_posix, test_random());
  env.jump = 1;
  env.still_wall_s = BEGIN;
  env.still_us = 1;
  registry_set_env(&env.env);
}

static inline void forget_end(void) {
  registry_set_env(&env_posix);
  CHECK_EQ_INT(failing_out(&env), 0);
  failing_free(&env);
}

static inline uint32_t now(void) { return env.env.wall_s(&env.env); }

/* A store without threads and with little memory. */
static inline emb_config forget_config(uint32_t dim) {
  return (emb_config){.dim = dim,
                      .memory_bytes = 1,
                      .timeout_ms = 1000,
                      .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
}

static inline void steps(emb_store *store) {
  int more = 1;
  for (int i = 0; more && CHECK(i < 100000); i++)
    CHECK_EQ_INT(emb_step(store, &more), EMB_OK);
}

/* Opens what a killed process would have left, with all before the call
** durable.  There is one row more, of key -5, in both. */
static inline int forget_open_copy(const char *dir, emb_session *s,
                                   const emb_config *config, emb_store **store,
                                   emb_session **other) {
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
    CHECK_EQ_INT(emb_resolve(*store, 1, NULL), EMB_OK);
  return 1;
}

#endif
