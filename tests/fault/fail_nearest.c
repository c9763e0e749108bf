/* SPDX-License-Identifier: MIT
**
** fail_nearest.c -- each call of the operating system fails, once or from then
** on, while an index of neighbours is loaded, repaired, built, searched and
** saved: input and output, memory, descriptors, and disk space.
**
** Answers are right, whatever failed; if the index's file cannot be written,
** neither the checkpoint nor the store fails; all resources are given back;
** and afterwards the index becomes ready.  SHARE=n tries one call in n.
*/
#include "near_help.h"

#include "failing.h"
#include "files.h"

enum { KEYS = 1200, STEPS = 60 };

static struct failing f;
static struct near model, saved;
static char source[320], work[320];
static uint64_t points, failed_own;

#define GOOD(holds_, n_, what_, is_)                                           \
  FAILING_CHECK(&f, (holds_), (n_), (what_), (is_))

static int make(int with_file) {
  emb_store *store;
  emb_session *s;
  (void)snprintf(source, sizeof source, "%s/source", test_dir());
  (void)snprintf(work, sizeof work, "%s/work", test_dir());
  failing_begin(&f);
  memset(&saved, 0, sizeof saved);
  if (!near_open(source, "ivf(lists=12)", 0, &store, &s) ||
      !near_put(s, &saved, 0, KEYS, 1) || !OK(s, emb_checkpoint(s)))
    return 0;
  if (with_file)
    near_settle(store);
  help_close(store, s);
  char path[340];
  (void)snprintf(path, sizeof path, "%s/nearest", source);
  return CHECK((access(path, F_OK) == 0) == with_file);
}

/* Anything but a wrong answer. */
static void ask(emb_session *s, uint64_t n) {
  float query[NEAR_DIM];
  int64_t key = -1;
  double distance = -1;
  size_t count = 0;
  float vector[NEAR_DIM];
  uint64_t version = 0;
  near_vector(query, 7, 2);
  int rc =
      emb_nearest(s, query, 1, 1, NULL,
                  &(emb_neighbours){&key, &distance, &count, vector, &version});
  GOOD(rc != EMB_OK || (count == 1 && key == 7 && distance == 0 &&
                        near_row_is(vector, 7, 2) && version),
       n, "the nearest is", (int)key);
}

static void work_on(emb_store *store, emb_session *s, uint64_t n) {
  for (int i = 0; i < STEPS; i++) {
    int more;
    (void)emb_step(store, &more);
    if (i % 20 == 0)
      ask(s, n);
    f.skew_us += 6000000; /* failed work is retried */
  }
}

static int try(uint64_t n, const struct failing_case *how, int forever) {
  emb_store *store;
  emb_session *s;
  emb_err err;
  model = saved;
  if (!CHECK(files_copy_dir(work, source)) ||
      !near_open(work, NULL, 0, &store, &s) || !near_put(s, &model, 0, 100, 2))
    return 0;
  OK(s, emb_checkpoint(s));
  failing_arm(&f, how->kinds, n, forever, how->error);
  work_on(store, s, n);
  int rc = emb_checkpoint(s);
  int fired = f.fired > 0;
  failing_disarm(&f);
  /* The store does not need the index's file. */
  int its_own = !forever && strstr(f.first_path, "nearest") != NULL;
  failed_own += its_own && fired;
  GOOD(!its_own || rc == EMB_OK, n, "the checkpoint", rc);
  GOOD(!its_own || !help_stat(store, "failed"), n, "the store failed", 0);
  if (!help_stat(store, "failed")) {
    f.skew_us += 100000000;
    GOOD(near_settle(store), n, "it is ready", 0);
    near_verifies(s, NULL);
  }
  CHECK(near_recall(s, &model, 2) >= 0.5);
  near_finds(s, &model, 0, 5);
  emb_session_close(s);
  (void)emb_close(store, &err);
  FAILING_CHECK_OUT(&f, n);
  if (near_open(work, NULL, 0, &store, &s)) {
    near_finds(s, &model, 0, 5);
    help_close(store, s);
  }
  return fired;
}

static void fail_each(void) {
  for (int i = 0; i < FAILING_CASES; i++)
    points += failing_each(&failing_cases[i], 1, try);
}

TEST(loaded_and_saved) {
  points = failed_own = 0;
  if (make(1))
    fail_each();
  HELP_CAME(failed_own > 0);
  failing_end(&f);
  test_count("calls failed beside an index", points);
}

TEST(made_and_saved) {
  points = failed_own = 0;
  if (make(0))
    fail_each();
  HELP_CAME(failed_own > 0);
  failing_end(&f);
  test_count("calls failed beside an index", points);
}
