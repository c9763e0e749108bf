/* SPDX-License-Identifier: MIT
**
** stores.c -- emb_drop of a store that is open: what still works in it, and
** when its directory is gone.
*/
#include "engine/remote/serve/remote_calls.h"
#include "engine/table/session/session.h"
#include "store_help.h"

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

enum { DIM = 4, KEYS = 100 };

static const emb_config config = {
    .dim = DIM, .memory_bytes = 1, .flags = EMB_OPEN_CREATE};

/* Makes a closed store with some rows. */
static int make(const char *dir) {
  emb_store *store;
  emb_session *s;
  if (!help_open(dir, &config, &store, &s))
    return 0;
  help_put_rows(s, 0, 1, KEYS, 1);
  return help_close(store, s);
}

static int is_there(const char *dir) { return access(dir, F_OK) == 0; }

/* Reads all rows in order of their keys. */
static void reads(emb_session *s) {
  float vectors[KEYS * DIM];
  int64_t keys[KEYS];
  emb_scan *scan;
  size_t n;
  if (!OK(s, emb_scan_open(s, INT64_MIN, INT64_MAX, EMB_SCAN_ASC, &scan)))
    return;
  OK(s, emb_scan_next(scan, KEYS, keys, vectors, NULL, &n));
  CHECK_EQ_INT(n, KEYS);
  for (size_t i = 0; i < n; i++)
    CHECK(help_is(vectors + i * DIM, DIM, keys[i], 1));
  emb_scan_close(scan);
}

TEST(what_is_open_is_read_to_its_end) {
  const char *dir = help_path("read");
  emb_store *store, *other;
  emb_session *s;
  emb_err err;
  int64_t key = 7;
  float vector[DIM] = {0};
  if (!make(dir) || !help_open(dir, &config, &store, &s))
    return;
  CHECK_EQ_INT(emb_drop(dir, NULL, &err), EMB_OK);
  CHECK(emb_is_dropped(store) && is_there(dir));
  CHECK_EQ_INT(emb_drop(dir, NULL, &err), EMB_OK);
  emb_look(store);
  reads(s);
  GIVES(s, EMB_CANTOPEN, emb_put(s, &key, 1, vector, NULL));
  CHECK(strstr(emb_errmsg(s), "its table was dropped") != NULL);
  CHECK_EQ_INT(emb_open(dir, &config, &other, &err), EMB_CANTOPEN);
  help_close(store, s);
  CHECK(!is_there(dir));
}

TEST(what_is_written_to_goes_with_the_last_close) {
  const char *dir = help_path("written");
  emb_store *store, *again;
  emb_session *s;
  emb_err err;
  int64_t key = 7;
  float vector[DIM] = {0};
  if (!make(dir) || !help_open(dir, &config, &store, &s))
    return;
  OK(s, emb_begin(s));
  OK(s, emb_txn_put(s, &key, 1, vector));
  CHECK_EQ_INT(emb_drop(dir, NULL, &err), EMB_LOCKED);
  emb_rollback(s);
  reads(s);
  CHECK(is_there(dir));
  CHECK_EQ_INT(emb_open(dir, &config, &again, &err), EMB_OK);
  CHECK_EQ_INT(emb_close(again, &err), EMB_OK);
  CHECK(is_there(dir));
  help_close(store, s);
  CHECK(!is_there(dir));
}

/* A piece of background work holds this lock for a moment. */
struct work {
  pthread_mutex_t *lock;
  sem_t begun;
};

static void *work(void *arg) {
  struct work *w = arg;
  pthread_mutex_lock(w->lock);
  (void)sem_post(&w->begun);
  (void)usleep(50000);
  pthread_mutex_unlock(w->lock);
  return NULL;
}

static int drop_as_owner(emb_store *store, emb_err *err) {
  return emb_drop(emb_directory(store), NULL, err);
}

/* Otherwise the space of a dropped table would not come back before its
** connection is used again. */
TEST(background_work_is_waited_for) {
  int (*const drop[])(emb_store *, emb_err *) = {drop_as_owner, local_drop};
  for (int i = 0; i < 4; i++) {
    const char *dir = help_path("worked_on");
    emb_store *store;
    emb_session *s;
    emb_err err;
    pthread_t thread;
    if (!make(dir) || !help_open(dir, &config, &store, &s))
      return;
    struct work w = {.lock = i % 2 ? &store->core.ckpt_lock : &store->own.lock};
    (void)sem_init(&w.begun, 0, 0);
    if (!CHECK(!pthread_create(&thread, NULL, work, &w)))
      return;
    while (sem_wait(&w.begun) != 0)
      ;
    CHECK_EQ_INT(drop[i / 2](store, &err), EMB_OK);
    CHECK(emb_is_dropped(store));
    (void)pthread_join(thread, NULL);
    (void)sem_destroy(&w.begun);
    help_close(store, s);
    CHECK(!is_there(dir));
  }
}

/* A store that was only read looks for a newer checkpoint while it is dropped.
 */
static void *look(void *arg) {
  emb_session *s = arg;
  emb_store *store = emb_session_store(s);
  while (!emb_is_dropped(store)) {
    emb_look(store);
    reads(s);
  }
  reads(s);
  return NULL;
}

TEST(readers_of_what_is_dropped) {
  for (unsigned i = 0; i < help_amount(30) && test_state.failures == 0; i++) {
    const char *dir = help_path("looked");
    emb_store *store;
    emb_session *s;
    emb_err err;
    pthread_t thread;
    int rc;
    if (!make(dir) || !help_open(dir, &config, &store, &s) ||
        !CHECK(!pthread_create(&thread, NULL, look, s)))
      return;
    (void)usleep((useconds_t)(test_random() % 2000));
    while ((rc = emb_drop(dir, NULL, &err)) == EMB_LOCKED)
      (void)usleep(100);
    CHECK_EQ_INT(rc, EMB_OK);
    (void)pthread_join(thread, NULL);
    help_close(store, s);
    CHECK(!is_there(dir));
  }
}
