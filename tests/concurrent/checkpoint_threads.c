/* SPDX-License-Identifier: MIT
**
** checkpoint_threads.c -- a checkpoint that is written while a commit moves
** the words of its keys.  An observer makes the commit slow.  The checkpoint
** shows one state, not parts of two, to a process that only reads.
*/
#include "store_help.h"

#include "engine/storage/kernel/observe.h"
#include "engine/table/session/session.h"
#include "files.h"

#include <pthread.h>
#include <unistd.h>

enum { DIM = 16, KEYS = 8192, BATCH = 1024, EVERY = 128, PAUSE_US = 10000 };

static struct {
  struct observer observer;
  _Atomic int settled; /* keys of the commit */
  _Atomic int hurry;   /* the checkpoint is there */
} slow;

/* Runs inside the epoch, which the session leaves after every few keys: so a
** wait for the epoch can end. */
static void settle_slowly(void *arg, const struct row_event *event) {
  (void)arg;
  if (event->session && atomic_fetch_add(&slow.settled, 1) % EVERY == 0 &&
      !atomic_load(&slow.hurry))
    (void)usleep(PAUSE_US);
}

static int put_all(emb_session *s, int32_t value) {
  static float vectors[BATCH * DIM];
  static int64_t keys[BATCH];
  int good = OK(s, emb_begin(s));
  for (int64_t first = 0; good && first < KEYS; first += BATCH) {
    for (int64_t i = 0; i < BATCH; i++) {
      keys[i] = first + i;
      help_vector(vectors + i * DIM, DIM, first + i, value);
    }
    good = OK(s, emb_txn_put(s, keys, BATCH, vectors));
  }
  return good;
}

static void *commit(void *arg) {
  emb_session *s = arg;
  uint64_t number;
  if (OK(s, emb_prepare(s, &number)))
    OK(s, emb_commit(s));
  return NULL;
}

/* The round that all rows of a checkpoint have, or -1.  No process owns the
** copy, and it may not be recovered. */
static int64_t shown(const char *dir) {
  static float vectors[256 * DIM];
  const emb_config config = {.flags = EMB_OPEN_READONLY};
  int64_t keys[256], rows = 0, value = -1, others = 0;
  emb_store *store;
  emb_session *s;
  emb_scan *scan;
  size_t n = 1;
  if (!help_open(dir, &config, &store, &s))
    return -1;
  if (OK(s, emb_scan_open(s, INT64_MIN, INT64_MAX, EMB_SCAN_ANY, &scan))) {
    while (n && OK(s, emb_scan_next(scan, 256, keys, vectors, NULL, &n)))
      for (size_t i = 0; i < n; i++, rows++) {
        int64_t is = help_value(vectors + i * DIM, DIM, keys[i]);
        value = value < 0 ? is : value;
        others += is != value;
      }
    emb_scan_close(scan);
  }
  help_close(store, s);
  test_check(others == 0, __FILE__, __LINE__,
             "%lld of %lld rows are not of round %lld", (long long)others,
             (long long)rows, (long long)value);
  CHECK_EQ_INT(rows, KEYS);
  return others ? -1 : value;
}

TEST(checkpoint_within_a_commit) {
  const char *dir = help_path("store");
  const emb_config config = {
      .dim = DIM, .memory_bytes = 1, .flags = EMB_OPEN_CREATE};
  emb_store *store;
  emb_session *s, *t;
  emb_err err;
  int within = 0;
  if (!help_open(dir, &config, &store, &s))
    return;
  CHECK(emb_session_open(store, &t, &err) == EMB_OK);
  slow.observer = (struct observer){.name = "slow", .changed = settle_slowly};
  CHECK(observe_begin(&store->core, &slow.observer) == EMB_OK);
  for (int32_t round = 1; round < 5; round++) {
    pthread_t thread;
    atomic_store(&slow.hurry, round == 1); /* there is no older state yet */
    atomic_store(&slow.settled, 0);
    if (!put_all(s, round) || !CHECK(!pthread_create(&thread, NULL, commit, s)))
      break;
    while (round > 1 && atomic_load(&slow.settled) < KEYS / 8 &&
           test_state.failures == 0)
      (void)usleep(500);
    OK(t, emb_checkpoint(t));
    within += atomic_load(&slow.settled) < KEYS;
    char name[16];
    (void)snprintf(name, sizeof name, "copy-%d", round);
    const char *copy = help_path(name);
    CHECK(files_copy_dir(copy, dir));
    atomic_store(&slow.hurry, 1);
    (void)pthread_join(thread, NULL);
    if (round > 1)
      CHECK_EQ_INT(shown(copy), round);
  }
  CHECK(within > 0);
  test_count("checkpoints within a commit", (uint64_t)within);
  observe_end(&store->core, &slow.observer);
  emb_session_close(t);
  help_close(store, s);
}
