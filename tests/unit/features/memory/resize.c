/* SPDX-License-Identifier: MIT
**
** resize.c -- tests of engine/features/memory/resize.c: the memory of a store
** grows and shrinks while it is in use, nothing is lost, and freed memory goes
** back to the system.  store_threads.c does the same with threads of all kinds,
** fail_body.h with calls that fail.
*/
#include "engine/table/owner/registry.h"
#include "engine/table/session/session.h"
#include "store_help.h"

#include "failing.h"

enum { DIM = 64, KEYS = 200000, BATCH = 1000 };

static int64_t keys[BATCH];
static float vectors[BATCH * DIM];
static uint8_t found[BATCH];

static int get(emb_session *s, int64_t from, int64_t n, int32_t value) {
  for (int64_t at = from; at < from + n; at += BATCH) {
    for (int64_t i = 0; i < BATCH; i++)
      keys[i] = at + i;
    if (!OK(s, emb_get(s, keys, BATCH, vectors, found, NULL)))
      return 0;
    for (int64_t i = 0; i < BATCH; i++)
      if (!CHECK(found[i]) ||
          !CHECK(help_is(vectors + i * DIM, DIM, at + i, value)))
        return 0;
  }
  return 1;
}

static int64_t in_memory(emb_store *store) {
  return help_stat(store, "log_bytes_in_memory") +
         help_stat(store, "cache_bytes");
}

static void grow_and_shrink(uint32_t flags) {
  const int64_t mib = 1 << 20;
  emb_config config = {
      .dim = DIM, .flags = EMB_OPEN_CREATE | flags, .memory_bytes = 64 << 20};
  emb_store *store;
  emb_session *s;
  if (!help_open(help_path("store"), &config, &store, &s) ||
      !help_put_rows(s, 0, 1, KEYS, 1))
    return;
  CHECK(in_memory(store) > 50 * mib);
  int64_t before = help_rss();
  OK(s, emb_set_memory(s, (uint64_t)(5 * mib)));
  int64_t bytes = help_stat(store, "memory_bytes");
  CHECK(bytes <= 5 * mib && bytes > 4 * mib);
  CHECK(in_memory(store) <= bytes);
  CHECK(before - help_rss() > 40 * mib);
  get(s, 0, KEYS, 1);
  help_put_rows(s, 0, 1, KEYS, 2);
  CHECK(in_memory(store) <= bytes);
  /* More than the store ever had. */
  OK(s, emb_set_memory(s, (uint64_t)(90 * mib)));
  CHECK(help_stat(store, "memory_bytes") > 89 * mib);
  get(s, 0, KEYS, 2);
  get(s, 0, KEYS, 2);
  CHECK(in_memory(store) > 50 * mib);
  int64_t disk = help_stat(store, "get_disk");
  get(s, 0, KEYS, 2);
  CHECK_EQ_INT(help_stat(store, "get_disk"), disk);
  /* 0 means the default. */
  OK(s, emb_set_memory(s, 0));
  CHECK_EQ_INT(help_stat(store, "memory_bytes"), 64 * mib);
  get(s, 0, KEYS, 2);
  CHECK(help_verify(s));
  help_close(store, s);
}

TEST(grows_and_shrinks) { grow_and_shrink(0); }
TEST(grows_and_shrinks_by_steps) { grow_and_shrink(EMB_OPEN_STEP); }

TEST(in_a_transaction) {
  emb_config config = {
      .dim = DIM, .flags = EMB_OPEN_CREATE, .memory_bytes = 40 << 20};
  emb_store *store;
  emb_session *s;
  if (!help_open(help_path("store"), &config, &store, &s) ||
      !help_put_rows(s, 0, 1, KEYS, 1) || !OK(s, emb_begin(s)))
    return;
  for (int64_t at = 0; at < KEYS; at += BATCH) {
    for (int64_t i = 0; i < BATCH; i++) {
      keys[i] = at + i;
      help_vector(vectors + i * DIM, DIM, at + i, 2);
    }
    if (!OK(s, emb_txn_put(s, keys, BATCH, vectors)))
      return;
    if (at % (50 * BATCH) == 0)
      OK(s, emb_set_memory(s, (uint64_t)(4 + at / BATCH % 7) << 20));
  }
  OK(s, emb_set_memory(s, 4 << 20));
  OK(s, emb_commit(s));
  get(s, 0, KEYS, 2);
  CHECK(help_verify(s));
  help_close(store, s);
}

/* ---- limits -------------------------------------------------------------- */

static uint64_t small_limit(struct env *env, const char **whose) {
  (void)env;
  *whose = "this test allows";
  return 20 << 20;
}

TEST(too_small_and_too_large) {
  struct env env = env_posix;
  emb_config config = {
      .dim = DIM, .flags = EMB_OPEN_CREATE, .memory_bytes = 8 << 20};
  emb_store *store;
  emb_session *s;
  emb_err err;
  env.memory_limit = small_limit;
  env_set_default(&env);
  if (help_open(help_path("store"), &config, &store, &s)) {
    int64_t before = help_stat(store, "memory_bytes");
    GIVES(s, EMB_RANGE, emb_set_memory(s, 1000000));
    CHECK(strstr(emb_errmsg(s), "memory of 1000000 bytes is too small") &&
          strstr(emb_errmsg(s), "needs at least 4194304"));
    GIVES(s, EMB_RANGE, emb_set_memory(s, 21 << 20));
    CHECK(strstr(emb_errmsg(s),
                 "memory of 22020096 bytes is more than this test allows: "
                 "20971520 bytes"));
    CHECK_EQ_INT(help_stat(store, "memory_bytes"), before);
    OK(s, emb_set_memory(s, 20 << 20));
    OK(s, emb_set_memory(s, 4194304));
    help_close(store, s);
  }
  config.memory_bytes = 21 << 20;
  CHECK_EQ_INT(emb_open(help_path("other"), &config, &store, &err), EMB_RANGE);
  CHECK(strstr(err.text, "memory of 22020096 bytes is more than") != NULL);
  CHECK_EQ_INT(help_entries(help_path("other")), -1);
  CHECK_EQ_INT(emb_check_memory(21 << 20, &err), EMB_RANGE);
  CHECK_EQ_INT(emb_check_memory(20 << 20, &err), EMB_OK);
  env_set_default(&env_posix);
}

TEST(the_least_follows_the_record) {
  emb_config config = {
      .dim = EMB_DIM_MAX, .flags = EMB_OPEN_CREATE, .memory_bytes = 1};
  emb_store *store;
  emb_session *s;
  if (!help_open(help_path("store"), &config, &store, &s))
    return;
  uint64_t least = (uint64_t)help_stat(store, "memory_bytes");
  GIVES(s, EMB_RANGE, emb_set_memory(s, least - 1));
  OK(s, emb_set_memory(s, least));
  OK(s, emb_set_memory(s, 2 * least));
  CHECK_EQ_INT(help_stat(store, "memory_bytes"), 2 * least);
  help_close(store, s);
}

/* ---- failures ------------------------------------------------------------ */

static int interrupts;
static int interrupt(void *arg) {
  (void)arg;
  return ++interrupts > 3;
}

TEST(interrupted) {
  emb_config config = {
      .dim = DIM, .flags = EMB_OPEN_CREATE, .memory_bytes = 64 << 20};
  emb_store *store;
  emb_session *s;
  if (!help_open(help_path("store"), &config, &store, &s) ||
      !help_put_rows(s, 0, 1, KEYS, 1))
    return;
  int64_t before = help_stat(store, "memory_bytes");
  emb_session_interrupt(s, interrupt, NULL);
  interrupts = 3;
  GIVES(s, EMB_INTERRUPT, emb_set_memory(s, 4 << 20));
  emb_session_interrupt(s, NULL, NULL);
  CHECK_EQ_INT(help_stat(store, "memory_bytes"), before);
  get(s, 0, KEYS, 1);
  help_put_rows(s, 0, 1, KEYS, 2);
  CHECK(in_memory(store) > 50 << 20);
  OK(s, emb_set_memory(s, 4 << 20));
  get(s, 0, KEYS, 2);
  help_close(store, s);
}

/* Pages that cannot be written stay in memory. */
TEST(disk_that_fails) {
  struct failing f;
  emb_config config = {.dim = DIM,
                       .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP,
                       .memory_bytes = 64 << 20};
  emb_store *store;
  emb_session *s;
  failing_init(&f, &env_posix, test_state.seed);
  env_set_default(&f.env);
  if (help_open(help_path("store"), &config, &store, &s) &&
      help_put_rows(s, 0, 1, KEYS / 2, 1)) {
    int64_t before = help_stat(store, "memory_bytes");
    failing_arm(&f, FAILING_IO, 1, 1, EIO);
    int rc = emb_set_memory(s, 4 << 20);
    CHECK(rc == EMB_IOERR || rc == EMB_FAILED);
    CHECK(strstr(emb_errmsg(s), "log") != NULL);
    CHECK_EQ_INT(help_stat(store, "memory_bytes"), before);
    failing_disarm(&f);
    get(s, 0, KEYS / 2, 1);
    emb_session_close(s);
    emb_close(store, NULL);
  }
  CHECK_EQ_INT(failing_out(&f), 0);
  env_set_default(&env_posix);
  failing_free(&f);
}
