/* SPDX-License-Identifier: MIT
**
** delta_threads.c -- one consumer of deltas that several threads use, while
** writers write and checkpoints give the consumer up.
**
** FORWARD   Its acknowledged position never goes back: deletions before it
**           may have been freed.
** LOST      Once lost, it stays lost until it begins again, whatever delta is
**           read to its end or acknowledged at that moment: data that it
**           needs may be gone.
** NEW       Sessions that use a new name at the same time create one
**           consumer.
*/
#include "store_help.h"

#include <pthread.h>

enum { DIM = 64, KEYS = 4000, READERS = 3, KEEP = 300000 };

static struct {
  emb_store *store;
  _Atomic int stop;
  _Atomic uint64_t acks, deltas, lost;
} work;

static emb_session *session(void) {
  emb_session *s = NULL;
  emb_err err;
  CHECK_EQ_INT(emb_session_open(work.store, &s, &err), EMB_OK);
  return s;
}

static void *write_on(void *arg) {
  uint64_t random = (uint64_t)(uintptr_t)arg;
  emb_session *s = session();
  float row[DIM];
  while (!atomic_load(&work.stop)) {
    for (int i = 0; i < 300; i++) {
      int64_t key = (int64_t)(test_random_from(&random) % KEYS);
      help_vector(row, DIM, key, 1);
      OK(s, test_random_from(&random) % 2 ? emb_put(s, &key, 1, row, NULL)
                                          : emb_delete(s, &key, 1, NULL));
    }
    if (!OK(s, emb_checkpoint(s)))
      break;
  }
  emb_session_close(s);
  return NULL;
}

/* GAP: it is lost.  RANGE: another session has acknowledged, or begun again. */
static int allowed(emb_session *s, int rc) {
  return rc == EMB_GAP || rc == EMB_RANGE || OK(s, rc);
}

static void *take(void *arg) {
  emb_session *s = session();
  int64_t keys[64];
  uint8_t ops[64];
  emb_delta *delta;
  (void)arg;
  while (!atomic_load(&work.stop)) {
    size_t n = 1;
    int rc = emb_delta_open(s, "a", &delta);
    if (!allowed(s, rc))
      break;
    while (!rc && n > 0)
      rc = emb_delta_next(delta, 64, &(emb_rows){.keys = keys, .ops = ops}, &n);
    (void)allowed(s, rc);
    atomic_fetch_add(&work.deltas, rc == EMB_OK);
    emb_delta_close(delta);
    rc = emb_delta_ack(s, "a", 0);
    (void)allowed(s, rc);
    atomic_fetch_add(&work.acks, rc == EMB_OK);
  }
  emb_session_close(s);
  return NULL;
}

static int look(emb_session *s, emb_consumer *consumer) {
  size_t n;
  return OK(s, emb_delta_consumers(s, consumer, 1, &n)) && CHECK_EQ_INT(n, 1);
}

/* The only thread that makes it begin again. */
static void watch(emb_session *s, unsigned rounds) {
  emb_consumer now;
  uint64_t acked = 0;
  for (unsigned round = 0; round < rounds; round++) {
    int lost = 0;
    if (!OK(s, emb_delta_begin(s, "a", EMB_DELTA_NOW, KEEP)))
      return;
    for (int looks = 0; looks < 60 || (!lost && looks < 600); looks++) {
      if (!look(s, &now))
        return;
      (void)test_check(now.acked >= acked, __FILE__, __LINE__,
                       "it was at %" PRIu64 ", and is at %" PRIu64, acked,
                       now.acked);
      (void)test_check(!lost || now.state == EMB_CONSUMER_LOST, __FILE__,
                       __LINE__, "it was lost, and is so no more");
      acked = now.acked;
      lost = now.state == EMB_CONSUMER_LOST;
      usleep(500);
      if (atomic_load(&test_state.failures))
        return;
    }
    atomic_fetch_add(&work.lost, lost != 0);
  }
}

static int open_store(void) {
  emb_config config = {
      .dim = DIM, .flags = EMB_OPEN_CREATE, .timeout_ms = 60000};
  emb_session *s;
  memset(&work, 0, sizeof work);
  int good = help_open(help_path("store"), &config, &work.store, &s);
  emb_session_close(s);
  return good;
}

TEST(one_consumer_many_sessions) {
  pthread_t threads[READERS + 1];
  if (!open_store())
    return;
  emb_session *s = session();
  OK(s, emb_delta_begin(s, "a", EMB_DELTA_NOW, KEEP));
  for (int i = 0; i <= READERS; i++)
    pthread_create(&threads[i], NULL, i ? take : write_on,
                   (void *)(uintptr_t)(test_random() | 1));
  watch(s, help_amount(12));
  atomic_store(&work.stop, 1);
  for (int i = 0; i <= READERS; i++)
    pthread_join(threads[i], NULL);
  help_verify(s);
  help_close(work.store, s);
  CHECK(work.deltas > 0);
  test_count("deltas of one consumer read by several", work.deltas);
  test_count("acknowledgements by several", work.acks);
  test_count("times that it was given up", work.lost);
}

/* ---- a new name ---------------------------------------------------------- */

static void *use_name(void *arg) {
  emb_session *s = session();
  int64_t keys[16];
  uint8_t ops[16];
  emb_delta *delta;
  size_t n = 1;
  if (OK(s, emb_delta_open(s, arg, &delta))) {
    while (n > 0 &&
           OK(s, emb_delta_next(delta, 16,
                                &(emb_rows){.keys = keys, .ops = ops}, &n))) {
    }
    emb_delta_close(delta);
    int rc = emb_delta_ack(s, arg, 0);
    CHECK(rc == EMB_OK || rc == EMB_RANGE);
    atomic_fetch_add(&work.acks, rc == EMB_OK);
  }
  emb_session_close(s);
  return NULL;
}

/* A consumer stays at the position that it acknowledged. */
TEST(a_new_name) {
  pthread_t threads[READERS];
  emb_consumer all[200];
  float row[DIM];
  int64_t key = 1;
  size_t n;
  unsigned names = help_amount(40);
  names = names > 200 ? 200 : names;
  if (!open_store())
    return;
  emb_session *s = session();
  help_vector(row, DIM, key, 1);
  OK(s, emb_put(s, &key, 1, row, NULL));
  for (unsigned i = 0; i < names; i++) {
    char name[32];
    (void)snprintf(name, sizeof name, "consumer %u", i);
    for (int t = 0; t < READERS; t++)
      pthread_create(&threads[t], NULL, use_name, name);
    for (int t = 0; t < READERS; t++)
      pthread_join(threads[t], NULL);
  }
  OK(s, emb_delta_consumers(s, all, 200, &n));
  CHECK_EQ_INT(n, names);
  for (size_t i = 0; i < n && i < 200; i++)
    CHECK(all[i].acked > 0);
  CHECK(work.acks >= names);
  help_close(work.store, s);
}
