/* SPDX-License-Identifier: MIT
**
** fail_memory.c -- every allocation of memory fails in turn, once or from
** then on: see fail_help.h.  A call that failed once works when it is
** retried, the store takes writes as before, and nothing is lost.
*/
#include "fail_body.h"

static void all(uint32_t kinds) {
  struct fail_base bases[BASES];
  struct fail *w = fail_start(bases, test_dir_in("/dev/shm"));
  if (w) {
    w->codes = 1u << EMB_NOMEM;
    w->memory = 1;
    fail_all(w, bases, kinds, ENOMEM);
  }
  fail_end(w);
}

TEST(no_memory) { all(FAILING_MEMORY); }
/* A queue takes memory, too. */
TEST(no_queue) { all(FAILING_BIT(FAILING_QUEUE_OPEN)); }

/* No thread can be started: neither the store's own nor a worker.  A write-back
** that cannot begin gives its leases back to the session. */
TEST(no_threads) {
  struct failing f;
  emb_config config = {.dim = FAIL_DIM,
                       .flags = EMB_OPEN_CREATE | EMB_OPEN_BOUNDED,
                       .memory_bytes = 1,
                       .staleness = 3};
  const uint32_t threads = FAILING_BIT(FAILING_THREAD_START);
  const char *dir = help_path("store");
  emb_store *store;
  emb_session *s;
  emb_err err;
  failing_init(&f, &env_posix, test_state.seed);
  env_set_default(&f.env);
  for (uint64_t n = 1; n <= 2; n++) {
    failing_arm(&f, threads, n, 0, EAGAIN);
    CHECK_EQ_INT(emb_open(dir, &config, &store, &err), EMB_NOMEM);
    CHECK(strstr(err.text, "thread") != NULL);
    CHECK_EQ_INT(failing_out(&f), 0);
  }
  failing_disarm(&f);
  float *vectors = calloc(FAIL_ALL, FAIL_DIM * sizeof *vectors);
  int64_t keys[FAIL_ALL];
  for (int i = 0; i < FAIL_ALL; i++)
    keys[i] = i;
  if (vectors && help_open(dir, &config, &store, &s)) {
    uint64_t ticket;
    uint32_t clocks[FAIL_ALL];
    OK(s, emb_put(s, keys, FAIL_ALL, vectors, NULL));
    OK(s, emb_get(s, keys, FAIL_ALL, vectors, NULL, NULL));
    failing_arm(&f, threads, 1, 1, EAGAIN);
    int rc = emb_write_back(s, keys, FAIL_ALL, vectors, &ticket);
    if (rc == EMB_OK) /* the log had room for all of it */
      OK(s, emb_write_back_synchronize(s, ticket, NULL));
    else
      CHECK_EQ_INT(rc, EMB_NOMEM);
    size_t sum = 0;
    OK(s, emb_clocks(s, keys, FAIL_ALL, clocks));
    for (int i = 0; i < FAIL_ALL; i++)
      sum += clocks[i];
    CHECK_EQ_INT(sum, emb_leases(s));
    failing_disarm(&f);
    OK(s, emb_put(s, keys, FAIL_ALL, vectors, NULL));
    CHECK(help_verify(s));
    help_close(store, s);
  }
  CHECK_EQ_INT(failing_out(&f), 0);
  free(vectors);
  env_set_default(&env_posix);
  failing_free(&f);
}
