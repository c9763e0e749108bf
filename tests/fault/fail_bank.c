/* SPDX-License-Identifier: MIT
**
** fail_bank.c -- each allocation of memory, and each call that writes, fails in
** turn, once or from then on, while gradients are kept, their averages are
** applied, and rows are looked up, which makes them and counts (emb_lookup).
**
** All gradients are 1 with sgd(lr=1), and a row counts them (track) and its
** look-ups.  The last NEW keys get no gradients: look-ups make them.
** Whatever failed, the acknowledged gradients, and no others, are pending or
** in the row; a failed call has kept a prefix of its batch; after a single
** failure the next try works.  After a store has failed, a read gives a row
** with everything acknowledged, or an error.
*/
#include "store_help.h"

#include "failing.h"
#include "files.h"

enum { DIM = 300, SENT = 40, NEW = 8, KEYS = SENT + NEW, ROUNDS = 4 };

static struct failing f;
static uint64_t points, errors_of_reads;

struct state {
  uint64_t least[KEYS], most[KEYS]; /* gradients and look-ups of each key */
};

static int bank_open(const char *dir, emb_store **store, emb_session **s) {
  const emb_config config = {.dim = DIM,
                             .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP,
                             .memory_bytes = 1,
                             .timeout_ms = 10,
                             .optimizer = "adagrad(lr=1)",
                             .track = EMB_TRACK_WALL,
                             .gradients =
                                 "average(max=3, expire=1h, outlier=mad)"};
  return help_open(dir, &config, store, s);
}

static const float *gradient(void) {
  static float rows[SENT * DIM];
  for (int i = 0; i < SENT * DIM; i++)
    rows[i] = 1;
  return rows;
}

static void send_all(emb_session *s, struct state *state) {
  int64_t keys[SENT];
  for (int k = 0; k < SENT; k++)
    keys[k] = k;
  int rc = emb_apply_gradients(s, keys, SENT, gradient(), NULL, NULL);
  for (int k = 0; k < SENT; k++) {
    state->least[k] += rc == EMB_OK;
    state->most[k]++;
  }
}

/* Looks up some existing keys and some that do not exist yet. */
static void look_up(emb_session *s, struct state *state) {
  static float rows[2 * NEW * DIM];
  int64_t keys[2 * NEW];
  uint8_t found[2 * NEW];
  for (int k = 0; k < 2 * NEW; k++)
    keys[k] = KEYS - 1 - k;
  int rc = emb_lookup(s, keys, 2 * NEW, rows, found);
  for (int k = 0; k < 2 * NEW; k++) {
    state->least[keys[k]] += rc == EMB_OK;
    state->most[keys[k]]++;
    CHECK(rc != EMB_OK || found[k]);
  }
}

/* Each read is right, or an error. */
static void read_all(emb_session *s, const struct state *state, uint64_t n,
                     int must) {
  for (int64_t key = 0; key < KEYS; key++) {
    emb_track track = {0, 0};
    int rc = emb_tracks(s, &key, 1, &track, NULL);
    errors_of_reads += rc != EMB_OK;
    test_check(rc == EMB_OK ? track.frequency >= state->least[key] &&
                                  track.frequency <= state->most[key]
                            : !must,
               __FILE__, __LINE__,
               "call %" PRIu64 " (%s): key %d: %d, %u of %" PRIu64
               " to %" PRIu64 ": %s",
               n, failing_name(f.first), (int)key, rc, track.frequency,
               state->least[key], state->most[key], emb_errmsg(s));
  }
}

static void work_on(emb_store *store, emb_session *s, struct state *state,
                    uint64_t n) {
  for (int i = 0; i < ROUNDS; i++) {
    int more;
    send_all(s, state);
    if (i % 2) {
      (void)emb_step(store, &more);
      send_all(s, state);
    }
    look_up(s, state);
    (void)emb_flush_gradients(s, NULL);
    read_all(s, state, n, 0);
  }
  (void)emb_checkpoint(s);
}

static int try(uint64_t n, const struct failing_case *how, int forever) {
  static char dir[320];
  emb_store *store;
  emb_session *s;
  emb_err err;
  struct state state;
  memset(&state, 0, sizeof state);
  (void)snprintf(dir, sizeof dir, "%s/%" PRIu64 "-%d", test_dir(), n % 2,
                 how->error);
  CHECK_EQ_INT(emb_destroy(dir, &err), EMB_OK);
  if (!bank_open(dir, &store, &s))
    return 0;
  send_all(s, &state);
  OK(s, emb_checkpoint(s));
  const struct state durable = state;
  failing_arm(&f, how->kinds, n, forever, how->error);
  work_on(store, s, &state, n);
  int fired = f.fired > 0;
  failing_disarm(&f);
  int failed = help_stat(store, "failed") != 0;
  read_all(s, &state, n, !failed);
  emb_session_close(s);
  int rc = emb_close(store, &err);
  test_check(rc == EMB_OK || failed, __FILE__, __LINE__, "close: %s", err.text);
  FAILING_CHECK_OUT(&f, n);
  if (bank_open(dir, &store, &s)) {
    struct state found = state;
    for (int k = 0; failed && k < KEYS; k++)
      found.least[k] = durable.least[k];
    read_all(s, &found, n, 1);
    CHECK(help_verify(s));
    help_close(store, s);
  }
  return fired;
}

static void fail_each(const struct failing_case *how) {
  failing_begin(&f);
  errors_of_reads = 0;
  points = failing_each(how, 1, try);
  failing_end(&f);
  HELP_CAME(errors_of_reads > 0);
  test_count("calls failed beside pending gradients", points);
}

TEST(no_memory) { fail_each(&failing_cases[FAILING_CASE_MEMORY]); }
TEST(writes) { fail_each(&failing_cases[FAILING_CASE_IO]); }
TEST(no_space) { fail_each(&failing_cases[FAILING_CASE_FULL]); }
