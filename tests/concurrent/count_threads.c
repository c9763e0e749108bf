/* SPDX-License-Identifier: MIT
**
** count_threads.c -- the number of rows while threads add and remove one.
**
** A key is found, and may be removed, as soon as it is in the index.  It must
** be counted by then: else its removal is counted first, and for a moment the
** table has a negative number of rows, which capacity and space reserve
** believe.
*/
#include "store_help.h"

#include <pthread.h>

#include "engine/table/session/session.h"

enum { DIM = 4, THREADS = 4 };

static const int64_t KEY = 1;
static emb_store *store;

/* The count may be one too high for each thread that is adding the key. */
static void check_count(emb_session *s, uint64_t n) {
  int64_t rows = emb_count(s);
  uint64_t keys = n % 16 ? 0 : index_count(&emb_session_store(s)->core.index);
  (void)test_check(rows >= 0 && rows <= THREADS, __FILE__, __LINE__,
                   "%lld rows", (long long)rows);
  (void)test_check(keys <= THREADS, __FILE__, __LINE__, "%llu keys",
                   (unsigned long long)keys);
}

static void *work(void *arg) {
  const float row[DIM] = {1, 2, 3, 4};
  uint64_t end = help_amount(100000), n = (uintptr_t)arg;
  emb_session *s = NULL;
  emb_err err;
  CHECK_EQ_INT(emb_session_open(store, &s, &err), EMB_OK);
  for (; n < end && !atomic_load(&test_state.failures); n++) {
    if (n % 2)
      OK(s, emb_put(s, &KEY, 1, row, NULL));
    else
      OK(s, emb_delete(s, &KEY, 1, NULL));
    check_count(s, n);
  }
  emb_session_close(s);
  return NULL;
}

TEST(never_fewer_than_none) {
  emb_config config = {
      .dim = DIM, .flags = EMB_OPEN_CREATE, .timeout_ms = 60000};
  pthread_t threads[THREADS];
  emb_session *s;
  if (!help_open(help_path("store"), &config, &store, &s))
    return;
  for (uintptr_t i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, work, (void *)i);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  help_verify(s);
  help_close(store, s);
}
