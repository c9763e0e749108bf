/* SPDX-License-Identifier: MIT
**
** open_threads.c -- many threads open, use, close, rename and drop the same
** few stores.  Whoever opens a store that another thread is opening gets the
** same object, and no call finds another process where there is none.
*/
#include "store_help.h"

#include "engine/storage/pack/emb_file.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 8, STORES = 3, DIM = 4 };

struct opener {
  pthread_t thread;
  int64_t number;
  uint64_t random;
  int ends_stores; /* also renames and drops them */
  int64_t added[STORES];
  unsigned rounds;
};

static void name_store(char path[500], int i) {
  (void)snprintf(path, 500, "%s/store-%d", test_dir(), i);
}

static uint32_t below(struct opener *o, uint32_t n) {
  return (uint32_t)(test_random_from(&o->random) % n);
}

/* Adds 1 to the thread's row.  A store that is being deleted may refuse. */
static int add_one(struct opener *o, const char *dir) {
  const emb_config config = {
      .dim = DIM, .flags = EMB_OPEN_CREATE, .insert_on = EMB_INSERT_ON_UPDATE};
  static const float ones[DIM] = {1, 1, 1, 1};
  emb_store *store;
  emb_session *s;
  emb_err err;
  int rc = emb_open(dir, &config, &store, &err);
  if (rc) {
    if (!CHECK(o->ends_stores && rc == EMB_CANTOPEN))
      (void)fprintf(stderr, "%d: %s\n", rc, err.text);
    return 0;
  }
  int is_added = 0;
  if (CHECK_EQ_INT(emb_session_open(store, &s, &err), EMB_OK)) {
    rc = emb_rmw(s, &o->number, 1, ones, NULL, NULL);
    is_added = rc == EMB_OK;
    CHECK(emb_is_owner(store) || emb_is_dropped(store));
    if (!CHECK(rc == EMB_OK || (o->ends_stores && rc == EMB_CANTOPEN)))
      (void)fprintf(stderr, "%d: %s\n", rc, emb_errmsg(s));
    emb_session_close(s);
  }
  rc = emb_close(store, &err);
  if (!CHECK_EQ_INT(rc, EMB_OK))
    (void)fprintf(stderr, "%s\n", err.text);
  return is_added;
}

/* Both may find the store in use, or gone. */
static void end_store(struct opener *o, const char *dir) {
  char to[520];
  emb_err err;
  int rc;
  if (below(o, 2)) {
    rc = below(o, 2) ? emb_drop(dir, NULL, &err) : emb_destroy(dir, &err);
  } else {
    (void)snprintf(to, sizeof to, "%s-%lld", dir, (long long)o->number);
    rc = emb_store_rename(dir, to, &err);
    if (rc == EMB_OK)
      CHECK_EQ_INT(emb_destroy(to, &err), EMB_OK);
  }
  if (!CHECK(rc == EMB_OK || rc == EMB_LOCKED || rc == EMB_CANTOPEN ||
             (rc == EMB_IOERR && strstr(err.text, "No such file"))))
    (void)fprintf(stderr, "%d: %s\n", rc, err.text);
}

static void *run_opener(void *arg) {
  struct opener *o = arg;
  for (unsigned i = 0; i < o->rounds; i++) {
    char dir[500];
    int k = (int)below(o, STORES);
    name_store(dir, k);
    if (o->ends_stores && below(o, 8) == 0)
      end_store(o, dir);
    else
      o->added[k] += add_one(o, dir);
  }
  return NULL;
}

static void run_all(struct opener openers[THREADS], int ends_stores) {
  (void)test_dir(); /* its first call makes it */
  for (int i = 0; i < THREADS; i++) {
    openers[i] = (struct opener){.number = i + 1,
                                 .random = test_random(),
                                 .ends_stores = ends_stores,
                                 .rounds = help_amount(100)};
    CHECK_EQ_INT(
        pthread_create(&openers[i].thread, NULL, run_opener, &openers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++)
    CHECK_EQ_INT(pthread_join(openers[i].thread, NULL), 0);
}

TEST(one_store_for_all_threads) {
  struct opener openers[THREADS];
  run_all(openers, 0);
  for (int k = 0; k < STORES; k++) {
    const emb_config config = {.dim = DIM,
                               .flags = EMB_OPEN_CREATE,
                               .insert_on = EMB_INSERT_ON_UPDATE};
    char dir[500];
    emb_store *store;
    emb_session *s;
    name_store(dir, k);
    if (!help_open(dir, &config, &store, &s))
      continue;
    for (int i = 0; i < THREADS; i++) {
      float row[DIM] = {0};
      OK(s, emb_peek(s, &openers[i].number, 1, row, NULL, NULL));
      CHECK_EQ_INT((int64_t)row[0], openers[i].added[k]);
      CHECK_EQ_INT((int64_t)row[DIM - 1], openers[i].added[k]);
    }
    help_close(store, s);
  }
}

TEST(while_others_end_it) {
  struct opener openers[THREADS];
  run_all(openers, 1);
  for (int k = 0; k < STORES; k++) { /* each can be made anew */
    char dir[500];
    name_store(dir, k);
    openers[0].ends_stores = 0;
    CHECK(add_one(&openers[0], dir));
  }
}
