/* SPDX-License-Identifier: MIT
**
** choose_memory.c -- every allocation of emb_coreset and emb_drift_mmd fails in
** turn, for each method, and some of their interrupt checks return true.  Each
** call returns the right error with a text and leaks no memory, and the next
** call gives the same result as the first.
*/
#include "test.h"

#include "engine/emb.h"
#include "engine/data/emb_data.h"
#include "engine/base/env/env.h"

#include <math.h>

enum { ROWS = 700, DIM = 7, CHOSEN = 40 };

static const char *const methods[] = {
    "k-center",
    "k-center(seed=3)",
    "craig",
    "craig(greedy=naive)",
    "craig(greedy=stochastic, epsilon=0.5, seed=2)",
    "gradmatch",
    "gradmatch(lambda=0)",
    "submodular(facility_location, selection_batch=8)",
    "submodular(facility_location, greedy=stochastic)",
    "submodular(graph_cut)",
    "submodular(graph_cut, greedy=stochastic)",
    "submodular(log_determinant)",
    "submodular(log_determinant, greedy=stochastic)"};
enum { METHODS = sizeof methods / sizeof *methods };

/* ---- memory that fails --------------------------------------------------- */

static struct {
  struct env below;
  uint64_t nth, calls; /* nth 0: none fails */
  int fired;
  int64_t blocks; /* in use */
  int resizes;
} memory;

static void *memory_take(struct env *env, size_t bytes) {
  (void)env;
  if (++memory.calls == memory.nth) {
    memory.fired = 1;
    return NULL;
  }
  void *block = memory.below.allocate(&memory.below, bytes);
  memory.blocks += block != NULL;
  return block;
}

/* No code of choose/ resizes; a call would be counted. */
static void *memory_resize(struct env *env, void *old, size_t bytes) {
  (void)env;
  memory.resizes++;
  return memory.below.resize(&memory.below, old, bytes);
}

static void memory_give(struct env *env, void *block) {
  (void)env;
  memory.blocks -= block != NULL;
  memory.below.release(&memory.below, block);
}

static void memory_start(void) {
  memory.below = env_posix;
  memory.nth = 0;
  memory.blocks = 0;
  memory.resizes = 0;
  env_posix.allocate = memory_take;
  env_posix.resize = memory_resize;
  env_posix.release = memory_give;
}

static void memory_end(void) {
  env_posix = memory.below;
  CHECK_EQ_INT(memory.resizes, 0);
}

static void memory_arm(uint64_t nth) {
  memory.nth = nth;
  memory.calls = 0;
  memory.fired = 0;
}

/* ---- the calls ----------------------------------------------------------- */

static float vectors[ROWS * DIM];
static int64_t keys[ROWS];

static void fill(void) {
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
    vectors[i] = (float)test_unit();
  for (size_t i = 0; i < ROWS; i++)
    keys[i] = (int64_t)i;
}

/* Returns 1 on the call that counts *arg down to 0. */
static int asked(void *arg) { return --*(int64_t *)arg == 0; }

struct answer {
  emb_chosen chosen[CHOSEN];
  double mmd;
};

/* Runs call `which`: a coreset by the method of that number, or one of two
** drift calls. */
static int run(size_t which, int64_t *patience, struct answer *answer,
               emb_err *err) {
  *err = (emb_err){0};
  memset(answer, 0, sizeof *answer);
  if (which < METHODS) {
    emb_points points = {.keys = keys,
                         .vectors = vectors,
                         .n = ROWS,
                         .dim = DIM,
                         .interrupted = patience ? asked : NULL,
                         .arg = patience};
    return emb_coreset(&points, CHOSEN, methods[which], answer->chosen, err);
  }
  emb_drift drift = {.vectors = vectors,
                     .references = ROWS / 2,
                     .others = ROWS - ROWS / 2,
                     .dim = DIM,
                     .unit = 1,
                     .gamma = which == METHODS ? 0 : 0.5,
                     .interrupted = patience ? asked : NULL,
                     .arg = patience};
  return emb_drift_mmd(&drift, &answer->mmd, err);
}
enum { CALLS = METHODS + 2 };

static const char *name(size_t which) {
  return which < METHODS ? methods[which] : "mmd";
}

static int is_same(const struct answer *a, const struct answer *b) {
  for (size_t i = 0; i < CHOSEN; i++) {
    const emb_chosen *x = &a->chosen[i], *y = &b->chosen[i];
    if (x->row != y->row || x->weight != y->weight ||
        (x->gain != y->gain && !(isnan(x->gain) && isnan(y->gain))))
      return 0;
  }
  return a->mmd == b->mmd;
}

TEST(no_memory) {
  uint64_t failed = 0;
  fill();
  memory_start();
  for (size_t which = 0; which < CALLS; which++) {
    struct answer wanted, got;
    emb_err err;
    uint64_t before = failed;
    memory_arm(0);
    if (!CHECK_EQ_INT(run(which, NULL, &wanted, &err), EMB_OK))
      printf("%s: %s\n", name(which), err.text);
    for (uint64_t nth = 1;; nth++, failed++) {
      memory_arm(nth);
      int rc = run(which, NULL, &got, &err);
      CHECK_EQ_INT(memory.blocks, 0);
      if (!memory.fired) {
        CHECK(rc == EMB_OK && is_same(&wanted, &got));
        break;
      }
      if (!CHECK(rc == EMB_NOMEM && err.code == EMB_NOMEM && err.text[0]))
        printf("%s, allocation %" PRIu64 ": %d\n", name(which), nth, rc);
    }
    CHECK(failed - before >= 3);
  }
  memory_end();
  test_count("allocations failed", failed);
}

TEST(interrupted) {
  uint64_t ended = 0;
  fill();
  memory_start();
  for (size_t which = 0; which < CALLS; which++) {
    struct answer wanted, got;
    emb_err err;
    int64_t never = INT64_MAX;
    memory_arm(0);
    CHECK_EQ_INT(run(which, &never, &wanted, &err), EMB_OK);
    int64_t questions = INT64_MAX - never;
    CHECK(questions > 0);
    int64_t step = questions / 10 + 1;
    for (int64_t i = 1 + (int64_t)(test_random() % (uint64_t)step);
         i <= questions; i += step) {
      int64_t patience = i;
      int rc = run(which, &patience, &got, &err);
      CHECK_EQ_INT(memory.blocks, 0);
      if (CHECK(rc == EMB_INTERRUPT && err.code == EMB_INTERRUPT))
        ended++;
      else
        printf("%s, question %" PRId64 ": %d\n", name(which), i, rc);
    }
    CHECK_EQ_INT(run(which, NULL, &got, &err), EMB_OK);
    CHECK(is_same(&wanted, &got));
  }
  memory_end();
  test_count("calls interrupted", ended);
}
