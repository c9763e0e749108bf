/* SPDX-License-Identifier: MIT
**
** step.c -- no thread wakes in a store in which nothing is due: each thread
** sleeps forever, or until a known moment, and is woken by any event it must
** handle.  An env counts how the threads sleep; nothing is timed.
**
** HANG      An event that never comes is a failure after GIVE_UP_MS.
*/
#include "store_help.h"

#include "engine/base/env/env.h"
#include "engine/table/owner/registry.h"

#include <stdatomic.h>
#include <unistd.h>

enum { DIM = 30, ROWS = 2000, GIVE_UP_MS = 25000 };
#define LONG_US UINT64_C(900000)

static struct env counting;
static _Atomic int ever, timed; /* threads now asleep this way */
static _Atomic uint64_t waits, skew;
static _Atomic int hurry; /* long sleeps end immediately */

static uint64_t skewed_now(struct env *env) {
  (void)env;
  return env_posix.now_us(&env_posix) + atomic_load(&skew);
}

static int count_wait(struct env *env, pthread_cond_t *condition,
                      pthread_mutex_t *mutex, uint64_t us) {
  _Atomic int *sleeps = us == UINT64_MAX ? &ever
                        : us >= LONG_US  ? &timed
                                         : NULL;
  int is_over;
  (void)env;
  atomic_fetch_add(&waits, 1);
  if (sleeps)
    atomic_fetch_add(sleeps, 1);
  if (sleeps == &timed && atomic_load(&hurry)) {
    is_over = env_posix.wait_us(&env_posix, condition, mutex, 1000);
    atomic_fetch_add(&skew, us);
  } else {
    is_over = env_posix.wait_us(&env_posix, condition, mutex, us);
  }
  if (sleeps)
    atomic_fetch_sub(sleeps, 1);
  return is_over;
}

static int begin(const emb_config *config, emb_store **store, emb_session **s) {
  counting = env_posix;
  counting.wait_us = count_wait;
  counting.now_us = skewed_now;
  atomic_store(&hurry, 0);
  env_set_default(&counting);
  return help_open(help_path("store"), config, store, s);
}

static void end(emb_store *store, emb_session *s) {
  help_close(store, s);
  env_set_default(&env_posix);
}

/* Both threads sleep, at least this many forever. */
static int await_sleep(int for_ever) {
  for (int ms = 0; ms < GIVE_UP_MS; ms++) {
    int n = atomic_load(&ever);
    if (n >= for_ever && n + atomic_load(&timed) == 2)
      return 1;
    (void)usleep(1000);
  }
  return test_check(0, __FILE__, __LINE__, "%d sleep for ever, %d for long",
                    atomic_load(&ever), atomic_load(&timed));
}

/* Both threads sleep, one of them until a known moment. */
static int await_due(void) {
  for (int ms = 0; ms < GIVE_UP_MS; ms++) {
    if (atomic_load(&timed) == 1 && atomic_load(&ever) == 1)
      return 1;
    (void)usleep(1000);
  }
  return test_check(0, __FILE__, __LINE__, "%d sleep for ever, %d for long",
                    atomic_load(&ever), atomic_load(&timed));
}

static int await_wake(uint64_t before) {
  for (int ms = 0; ms < GIVE_UP_MS && atomic_load(&waits) == before; ms++)
    (void)usleep(1000);
  return CHECK(atomic_load(&waits) > before);
}

static int await_checkpoint(emb_store *store, int64_t before) {
  for (int ms = 0; ms < GIVE_UP_MS && help_stat(store, "checkpoints") == before;
       ms++)
    (void)usleep(1000);
  return CHECK(help_stat(store, "checkpoints") > before);
}

static int await_count(emb_session *s, int64_t n) {
  for (int ms = 0; ms < GIVE_UP_MS && emb_count(s) != n; ms++)
    (void)usleep(1000);
  return CHECK_EQ_INT(emb_count(s), n);
}

static int64_t keys[ROWS];
static float vectors[ROWS * DIM];

TEST(an_idle_store_sleeps_for_ever) {
  emb_config c = {.dim = DIM, .flags = EMB_OPEN_CREATE};
  emb_store *store;
  emb_session *s;
  if (!begin(&c, &store, &s))
    return;
  await_sleep(2); /* the store has no owner */
  help_put_rows(s, 1, 1, ROWS, 1);
  await_due(); /* a checkpoint is due */
  int64_t before = help_stat(store, "checkpoints");
  atomic_store(&hurry, 1);
  help_put_rows(s, 1, 1, ROWS, 1); /* wakes the thread */
  await_checkpoint(store, before);
  await_sleep(2);
  end(store, s);
}

/* Only the first call after a long rest wakes a thread. */
TEST(reads_rouse_once) {
  emb_config c = {.dim = DIM, .flags = EMB_OPEN_CREATE};
  emb_store *store;
  emb_session *s;
  if (!begin(&c, &store, &s))
    return;
  help_put_rows(s, 1, 1, ROWS, 1);
  atomic_store(&hurry, 1);
  await_sleep(2);
  atomic_store(&hurry, 0);
  uint64_t before = atomic_load(&waits);
  OK(s, emb_peek(s, keys, 1, vectors, NULL, NULL));
  await_wake(before);
  await_sleep(1);
  before = atomic_load(&waits);
  for (int i = 0; i < 1000; i++)
    OK(s, emb_peek(s, keys, 1, vectors, NULL, NULL));
  CHECK(atomic_load(&waits) - before < 100);
  end(store, s);
}

/* The space of rows deleted while the threads rest is released. */
TEST(a_change_ends_the_rest) {
  emb_config c = {
      .dim = DIM, .memory_bytes = 4 << 20, .flags = EMB_OPEN_CREATE};
  emb_store *store;
  emb_session *s;
  if (!begin(&c, &store, &s))
    return;
  for (int i = 0; i < 50; i++)
    help_put_rows(s, 1 + i * ROWS, 1, ROWS, 1);
  await_sleep(1);
  int64_t before = help_stat(store, "checkpoints");
  for (int i = 0; i < 50; i++) {
    help_put_rows(s, 1 + i * ROWS, 1, ROWS, 1);
    OK(s, emb_delete(s, keys, ROWS, NULL));
  }
  await_checkpoint(store, before);
  await_sleep(1);
  end(store, s);
}

/* A rollback writes no row. */
TEST(a_rollback_is_seen) {
  emb_config c = {.dim = DIM, .flags = EMB_OPEN_CREATE};
  emb_store *store;
  emb_session *s;
  if (!begin(&c, &store, &s))
    return;
  help_put_rows(s, 1, 1, ROWS, 1);
  OK(s, emb_begin(s));
  OK(s, emb_txn_put(s, keys, ROWS, vectors));
  await_sleep(1);
  uint64_t before = atomic_load(&waits);
  emb_rollback(s);
  await_wake(before);
  await_sleep(1);
  end(store, s);
}

TEST(what_time_brings_is_waited_for) {
  emb_config c = {.dim = DIM,
                  .flags = EMB_OPEN_CREATE,
                  .track = EMB_TRACK_WALL,
                  .ttl = "3s"};
  emb_store *store;
  emb_session *s;
  if (!begin(&c, &store, &s))
    return;
  help_put_rows(s, 1, 1, ROWS, 1);
  await_count(s, 0);
  end(store, s);
}
