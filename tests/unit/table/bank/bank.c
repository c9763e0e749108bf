/* SPDX-License-Identifier: MIT
**
** bank.c -- gradients that are averaged lazily, through emb.h: which calls
** apply them, and that every call sees the rows as if each gradient had been
** applied when it was sent, the average in one step.
**
** The optimizer is sgd(lr=1): a step subtracts its gradient from the row.
*/
#include "store_help.h"

#include <float.h>
#include <math.h>

enum { DIM = 4 };

/* With SERVED=1 another process owns the store (store_help.h). */
static int is_served(void) { return getenv("SERVED") != NULL; }

static emb_config average_config(const char *gradients) {
  return (emb_config){.dim = DIM,
                      .flags = EMB_OPEN_CREATE |
                               (is_served() ? 0u : (uint32_t)EMB_OPEN_STEP),
                      .timeout_ms = 20,
                      .optimizer = "sgd(lr=1)",
                      .gradients = gradients};
}

struct bank_test {
  emb_store *store;
  emb_session *a, *b;
};

static int begin(struct bank_test *t, const emb_config *config) {
  emb_err err;
  return help_open(help_path("store"), config, &t->store, &t->a) &&
         CHECK_EQ_INT(emb_session_open(t->store, &t->b, &err), EMB_OK);
}

static void end(struct bank_test *t) {
  emb_session_close(t->b);
  help_close(t->store, t->a);
}

static void fill(float *row, float value) {
  for (int k = 0; k < DIM; k++)
    row[k] = value;
}

static int send_to(emb_session *s, int64_t key, float value) {
  float row[DIM];
  fill(row, value);
  return emb_apply_gradients(s, &key, 1, row, NULL, NULL);
}

static void put(emb_session *s, int64_t key, float value) {
  float row[DIM];
  fill(row, value);
  OK(s, emb_put(s, &key, 1, row, NULL));
}

/* Reads the row's value; returns FLT_MAX, not a NaN, for an absent key. */
static float value_of(emb_session *s, int64_t key) {
  float row[DIM];
  uint8_t found = 0;
  OK(s, emb_peek(s, &key, 1, row, &found, NULL));
  for (int k = 1; found && k < DIM; k++)
    CHECK(row[k] <= row[0] && row[k] >= row[0]);
  return found ? row[0] : FLT_MAX;
}

static void is(emb_session *s, int64_t key, float value, int line) {
  float got = value_of(s, key);
  test_check(got <= value && got >= value, __FILE__, line,
             "key %lld is %g, not %g", (long long)key, (double)got,
             (double)value);
}
#define IS(s, key, value) is(s, key, value, __LINE__)

/* The number of pending gradients of a key. */
static uint32_t pending_of(emb_session *s, int64_t key) {
  emb_pending_key keys[64];
  size_t n;
  OK(s, emb_pending(s, keys, 64, &n));
  for (size_t i = 0; i < n && i < 64; i++)
    if (keys[i].key == key)
      return keys[i].gradients;
  return 0;
}

TEST(two_sessions_make_one_step) {
  emb_config config = average_config("average(expire=1h)");
  struct bank_test t;
  if (!begin(&t, &config))
    return;
  put(t.a, 7, 10);
  OK(t.a, send_to(t.a, 7, 1));
  OK(t.b, send_to(t.b, 7, 3));
  CHECK_EQ_INT(pending_of(t.a, 7), 2);
  CHECK_EQ_INT(help_stat(t.store, "gradients_pending"), 2);
  CHECK_EQ_INT(help_stat(t.store, "gradients_pending_keys"), 1);
  CHECK(help_stat(t.store, "gradients_pending_bytes") > 0);
  IS(t.b, 7, 8); /* 10 - (1 + 3) / 2 */
  CHECK_EQ_INT(pending_of(t.a, 7), 0);
  IS(t.a, 7, 8);
  CHECK_EQ_INT(help_stat(t.store, "gradients_pending"), 0);
  CHECK_EQ_INT(help_stat(t.store, "gradients_pending_bytes"), 0);
  CHECK_EQ_INT(help_stat(t.store, "gradients_kept"), 2);
  CHECK_EQ_INT(help_stat(t.store, "gradients_steps"), 1);
  end(&t);
}

TEST(without_the_option_each_is_applied_at_once) {
  emb_config config = average_config(NULL);
  struct bank_test t;
  uint64_t steps = 5;
  if (!begin(&t, &config))
    return;
  CHECK(!emb_averages(t.store));
  put(t.a, 7, 10);
  OK(t.a, send_to(t.a, 7, 1));
  OK(t.b, send_to(t.b, 7, 3));
  CHECK_EQ_INT(pending_of(t.a, 7), 0);
  OK(t.a, emb_flush_gradients(t.a, &steps));
  CHECK_EQ_INT(steps, 0);
  IS(t.a, 7, 6);
  CHECK_EQ_INT(help_stat(t.store, "gradients_kept"), 0);
  end(&t);
}

TEST(a_full_key_is_applied) {
  emb_config config = average_config("average(max=3, expire=1h)");
  struct bank_test t;
  if (!begin(&t, &config))
    return;
  put(t.a, 7, 10);
  for (int i = 1; i <= 7; i++)
    OK(t.a, send_to(t.a, 7, (float)i));
  CHECK_EQ_INT(pending_of(t.a, 7), 1);
  CHECK_EQ_INT(help_stat(t.store, "gradients_steps"), 2);
  IS(t.a, 7, 10 - 2 - 5 - 7);
  end(&t);
}

TEST(rows_of_one_call_with_the_same_key_are_one_gradient) {
  emb_config config = average_config("average(expire=1h)");
  const int64_t keys[4] = {7, 8, 7, 9};
  float rows[4 * DIM];
  uint8_t found[4] = {9, 9, 9, 9};
  uint64_t versions[4] = {9, 9, 9, 9};
  struct bank_test t;
  if (!begin(&t, &config))
    return;
  for (int i = 0; i < 4; i++)
    fill(rows + (size_t)i * DIM, (float)(i + 1));
  put(t.a, 7, 10);
  put(t.a, 8, 10);
  OK(t.a,
     emb_apply_gradients(t.a, keys, 4, rows, NULL,
                         &(emb_rows){.found = found, .versions = versions}));
  CHECK(found[0] == 1 && found[1] == 1 && found[2] == 1 && found[3] == 0);
  CHECK(!versions[0] && !versions[1] && !versions[2] && !versions[3]);
  CHECK_EQ_INT(pending_of(t.a, 7), 1);
  IS(t.a, 7, 10 - 1 - 3);
  IS(t.a, 8, 8);
  IS(t.a, 9, -4); /* an update adds the row */
  end(&t);
}

TEST(lr_and_step_are_those_of_the_latest) {
  emb_config config = average_config("average(expire=1h)");
  const int64_t key = 7;
  const emb_update half = {.lr = 0.5f}, two = {.lr = 2};
  float row[DIM];
  struct bank_test t;
  if (!begin(&t, &config))
    return;
  fill(row, 1);
  put(t.a, 7, 10);
  OK(t.a, emb_apply_gradients(t.a, &key, 1, row, &half, NULL));
  OK(t.b, emb_apply_gradients(t.b, &key, 1, row, &two, NULL));
  IS(t.a, 7, 8);
  OK(t.b, emb_apply_gradients(t.b, &key, 1, row, &two, NULL));
  OK(t.a, emb_apply_gradients(t.a, &key, 1, row, &half, NULL));
  put(t.a, 8, 1);
  OK(t.b, send_to(t.b, 8, 1)); /* in one flush with the other rate */
  OK(t.a, emb_flush_gradients(t.a, NULL));
  IS(t.a, 7, 7.5f);
  IS(t.a, 8, 0);
  end(&t);
}

/* ---- calls that apply them ----------------------------------------------- */

enum { KEY = 7, OTHER = 8 };

static void nothing(void *arg, const char *line) { (void)arg, (void)line; }

static int by_get(emb_session *s) {
  const int64_t key = KEY;
  float row[DIM];
  return emb_get(s, &key, 1, row, NULL, NULL);
}
static int by_versions(emb_session *s) {
  const int64_t key = KEY;
  uint64_t version;
  return emb_peek(s, &key, 1, NULL, NULL, &version);
}
static int by_tracks(emb_session *s) {
  const int64_t key = KEY;
  emb_track track;
  return emb_tracks(s, &key, 1, &track, NULL);
}
static int by_lookup(emb_session *s) {
  const int64_t key = KEY;
  float row[DIM];
  return emb_lookup(s, &key, 1, row, NULL);
}
static int by_put(emb_session *s) {
  const int64_t key = KEY;
  float row[DIM] = {0};
  return emb_put(s, &key, 1, row, NULL);
}
static int by_rmw(emb_session *s) {
  const int64_t key = KEY;
  float row[DIM] = {0};
  return emb_rmw(s, &key, 1, row, NULL, NULL);
}
static int by_delete(emb_session *s) {
  const int64_t key = KEY;
  return emb_delete(s, &key, 1, NULL);
}
static int by_prefetch(emb_session *s) {
  const int64_t key = KEY;
  static float row[DIM];
  uint64_t ticket;
  int rc = emb_prefetch(s, &key, 1, &(emb_rows){.vectors = row}, &ticket);
  return rc ? rc : emb_prefetch_synchronize(s, ticket, NULL);
}
static int by_write_back(emb_session *s) {
  const int64_t key = KEY;
  float row[DIM] = {0};
  uint64_t ticket;
  int rc = emb_write_back(s, &key, 1, row, &ticket);
  return rc ? rc : emb_write_back_synchronize(s, ticket, NULL);
}
static int by_read(emb_session *s) {
  const int64_t key = KEY;
  float row[DIM] = {0};
  return emb_apply_gradients(s, &key, 1, row, &(emb_update){.read = row}, NULL);
}
static int by_txn_put(emb_session *s) {
  const int64_t key = KEY;
  float row[DIM] = {0};
  int rc = emb_begin(s);
  rc = rc ? rc : emb_txn_put(s, &key, 1, row);
  return rc ? rc : emb_commit(s);
}
static int by_txn_put_if(emb_session *s) {
  float row[DIM] = {0};
  int done, rc = emb_begin(s);
  rc = rc ? rc : emb_txn_put_if(s, KEY, row, 0, 1, &done);
  emb_rollback(s);
  return rc;
}
static int by_txn_gradient(emb_session *s) {
  const int64_t key = KEY;
  float row[DIM] = {0};
  int rc = emb_begin(s);
  rc = rc ? rc : emb_txn_apply_gradients(s, &key, 1, row, NULL, NULL);
  emb_rollback(s);
  return rc;
}
static int by_txn_move(emb_session *s) {
  int found, rc = emb_begin(s);
  rc = rc ? rc : emb_txn_move(s, OTHER, KEY, &found);
  emb_rollback(s);
  return rc;
}
static int by_txn_delete(emb_session *s) {
  const int64_t key = KEY;
  int rc = emb_begin(s);
  rc = rc ? rc : emb_txn_delete(s, &key, 1, NULL);
  emb_rollback(s);
  return rc;
}
static int by_prepare(emb_session *s) {
  const int64_t key = OTHER;
  float row[DIM] = {0};
  uint64_t number;
  int rc = emb_begin(s);
  rc = rc ? rc : emb_txn_put(s, &key, 1, row);
  rc = rc ? rc : emb_prepare(s, &number);
  emb_rollback(s);
  return rc;
}
static int by_scan(emb_session *s) {
  emb_scan *scan;
  int rc = emb_scan_open(s, 0, 100, EMB_SCAN_ANY, &scan);
  if (!rc)
    emb_scan_close(scan);
  return rc;
}
static int by_nearest(emb_session *s) {
  float row[DIM] = {0};
  int64_t key;
  double distance;
  size_t n;
  return emb_nearest(s, row, 1, 1, NULL,
                     &(emb_neighbours){&key, &distance, &n, NULL, NULL});
}
static int by_snapshot(emb_session *s) {
  int rc = emb_snapshot(s, "s");
  return rc ? rc : emb_snapshot_drop(s, "s");
}
static int by_delta(emb_session *s) {
  emb_delta *delta;
  int rc = emb_delta_open(s, "c", &delta);
  if (!rc)
    emb_delta_close(delta);
  return rc;
}
static int by_delta_begin(emb_session *s) {
  return emb_delta_begin(s, "c", EMB_DELTA_NOW, 0);
}
static int by_delta_export(emb_session *s) {
  return emb_delta_export(s, "c", help_path("delta"), NULL, NULL);
}
static int by_backup(emb_session *s) {
  emb_backup *backup;
  int rc = emb_backup_begin(s, test_dir(), &backup);
  if (!rc)
    emb_backup_end(backup);
  return rc;
}
static int by_checkpoint(emb_session *s) { return emb_checkpoint(s); }
static int by_optimize(emb_session *s) { return emb_optimize(s); }
static int by_expire(emb_session *s) { return emb_expire(s, NULL); }
static int by_evict(emb_session *s) { return emb_evict(s, NULL); }
static int by_flush(emb_session *s) { return emb_flush_gradients(s, NULL); }
static int by_step(emb_session *s) {
  int more, rc = EMB_OK;
  for (int i = 0; !rc && i < 3; i++)
    rc = emb_step(emb_session_store(s), &more);
  return rc;
}

static int not_exists(emb_session *s) {
  const int64_t key = KEY;
  uint8_t found;
  return emb_exists(s, &key, 1, &found);
}
static int not_found(emb_session *s) {
  const int64_t key = KEY;
  uint8_t found;
  return emb_get(s, &key, 1, NULL, &found, NULL);
}
static int not_other(emb_session *s) {
  const int64_t key = OTHER;
  float row[DIM];
  return emb_get(s, &key, 1, row, NULL, NULL);
}
static int not_clocks(emb_session *s) {
  const int64_t key = KEY;
  uint32_t clock;
  return emb_clocks(s, &key, 1, &clock);
}
static int not_lookahead(emb_session *s) {
  const int64_t key = KEY;
  int rc = emb_lookahead(s, &key, 1, EMB_AHEAD_BUFFER, NULL);
  return rc ? rc : emb_lookahead_wait(s, 1);
}
static int not_begin(emb_session *s) {
  int rc = emb_begin(s);
  rc = rc ? rc : emb_savepoint(s, 0);
  rc = rc ? rc : emb_commit(s);
  return rc;
}
static int not_verify(emb_session *s) { return emb_verify(s, nothing, NULL); }
static int not_count(emb_session *s) {
  return emb_count(s) >= 1 ? EMB_OK : EMB_CORRUPT;
}

static const struct needs_case {
  const char *name;
  int (*call)(emb_session *);
  int applies;
} needs_cases[] = {
#define APPLIES(name)                                                          \
  { #name, by_##name, 1 }
#define LEAVES(name)                                                           \
  { #name, not_##name, 0 }
    APPLIES(get),          APPLIES(lookup),   APPLIES(versions),
    APPLIES(tracks),       APPLIES(put),      APPLIES(rmw),
    APPLIES(delete),       APPLIES(prefetch), APPLIES(write_back),
    APPLIES(read),         APPLIES(txn_put),  APPLIES(txn_put_if),
    APPLIES(txn_gradient), APPLIES(txn_move), APPLIES(txn_delete),
    APPLIES(prepare),      APPLIES(scan),     APPLIES(nearest),
    APPLIES(snapshot),     APPLIES(delta),    APPLIES(delta_begin),
    APPLIES(delta_export), APPLIES(backup),   APPLIES(checkpoint),
    APPLIES(optimize),     APPLIES(expire),   APPLIES(evict),
    APPLIES(flush),        APPLIES(step),     LEAVES(exists),
    LEAVES(found),         LEAVES(other),     LEAVES(clocks),
    LEAVES(lookahead),     LEAVES(begin),     LEAVES(verify),
    LEAVES(count),
};

TEST(what_needs_a_row_applies_what_is_pending) {
  emb_config config = average_config("average(expire=1h)");
  struct bank_test t;
  config.track = EMB_TRACK_WALL;
  if (!begin(&t, &config))
    return;
  for (size_t i = 0; i < sizeof needs_cases / sizeof needs_cases[0]; i++) {
    const struct needs_case *c = &needs_cases[i];
    if (c->call == by_step && is_served())
      continue;
    put(t.a, KEY, 10);
    put(t.a, OTHER, 10);
    int64_t steps = help_stat(t.store, "gradients_steps");
    OK(t.b, send_to(t.b, KEY, 1));
    int rc = c->call(t.a);
    test_check(rc == EMB_OK, __FILE__, __LINE__, "%s: %s", c->name,
               emb_errmsg(t.a));
    test_check(pending_of(t.a, KEY) == (c->applies ? 0 : 1), __FILE__, __LINE__,
               "%s: %u are pending", c->name, pending_of(t.a, KEY));
    CHECK_EQ_INT(help_stat(t.store, "gradients_steps") - steps, c->applies);
    OK(t.a, emb_flush_gradients(t.a, NULL));
  }
  end(&t);
}

/* ---- keys that are not there --------------------------------------------- */

TEST(a_key_that_appears) {
  emb_config config = average_config("average(expire=1h)");
  const int64_t key = 5;
  uint8_t found = 9;
  emb_track track;
  struct bank_test t;
  config.track = EMB_TRACK_WALL;
  if (!begin(&t, &config))
    return;
  OK(t.a, send_to(t.a, 5, 2));
  OK(t.b, send_to(t.b, 5, 4));
  CHECK_EQ_INT(emb_count(t.a), 0);
  /* The key may appear, so the call applies its gradients. */
  OK(t.a, emb_exists(t.a, &key, 1, &found));
  CHECK_EQ_INT(found, 1);
  CHECK_EQ_INT(emb_count(t.a), 1);
  IS(t.a, 5, -3);
  OK(t.a, emb_tracks(t.a, &key, 1, &track, NULL));
  CHECK_EQ_INT(track.frequency, 2);
  end(&t);
}

TEST(a_key_that_may_not_appear_keeps_nothing) {
  emb_config config = average_config("average(expire=1h)");
  struct bank_test t;
  config.insert_on = EMB_INSERT_ON_PUT;
  if (!begin(&t, &config))
    return;
  OK(t.a, send_to(t.a, 5, 2));
  CHECK_EQ_INT(pending_of(t.a, 5), 0);
  put(t.a, 5, 1);
  IS(t.a, 5, 1);
  OK(t.a, send_to(t.a, 5, 2));
  OK(t.b, emb_delete(t.b, &(int64_t){5}, 1, NULL)); /* applied, and deleted */
  CHECK_EQ_INT(pending_of(t.a, 5), 0);
  CHECK_EQ_INT(emb_count(t.a), 0);
  end(&t);
}

TEST(admission_counts_each_gradient) {
  emb_config config = average_config("average(expire=1h)");
  struct bank_test t;
  config.admission = "count(n=3, memory=65536)";
  if (!begin(&t, &config))
    return;
  OK(t.a, send_to(t.a, 5, 2));
  OK(t.a, send_to(t.a, 5, 4));
  CHECK_EQ_INT(emb_count(t.a), 0);
  OK(t.a, emb_flush_gradients(t.a, NULL));
  /* Two of three: dropped, as without averaging. */
  CHECK_EQ_INT(emb_count(t.a), 0);
  OK(t.a, send_to(t.a, 5, 6));
  IS(t.a, 5, -6);
  end(&t);
}

TEST(the_time_is_that_of_the_latest) {
  emb_config config = average_config("average(expire=1h)");
  const int64_t keys[2] = {5, 6};
  emb_track tracks[2];
  struct bank_test t;
  config.track = EMB_TRACK_DATA;
  if (!begin(&t, &config))
    return;
  emb_session_time(t.a, 1000);
  OK(t.a, send_to(t.a, 5, 1));
  emb_session_time(t.a, 2000);
  OK(t.a, send_to(t.a, 5, 1));
  emb_session_time(t.a, 1500);
  OK(t.a, send_to(t.a, 6, 1));
  emb_session_time(t.a, 0);
  OK(t.b, emb_tracks(t.b, keys, 2, tracks, NULL));
  CHECK_EQ_INT(tracks[0].updated_at, 2000);
  CHECK_EQ_INT(tracks[0].frequency, 2);
  CHECK_EQ_INT(tracks[1].updated_at, 1500);
  end(&t);
}

/* ---- failures ------------------------------------------------------------ */

TEST(what_would_not_be_finite_is_refused) {
  emb_config config = average_config("average(expire=1h)");
  struct bank_test t;
  if (!begin(&t, &config))
    return;
  put(t.a, 7, -FLT_MAX);
  put(t.a, 8, 1);
  OK(t.a, send_to(t.a, 7, FLT_MAX));
  OK(t.a, send_to(t.a, 8, 1));
  OK(t.a, emb_flush_gradients(t.a, NULL));
  CHECK_EQ_INT(help_stat(t.store, "gradients_refused"), 1);
  CHECK_EQ_INT(help_stat(t.store, "gradients_pending"), 0);
  IS(t.a, 7, -FLT_MAX);
  IS(t.a, 8, 0);
  float row[DIM] = {0, 0, (float)INFINITY, 0};
  GIVES(t.a, EMB_NONFINITE,
        emb_apply_gradients(t.a, &(int64_t){7}, 1, row, NULL, NULL));
  CHECK_EQ_INT(pending_of(t.a, 7), 0);
  end(&t);
}

TEST(a_transaction_has_the_key) {
  emb_config config = average_config("average(expire=1h)");
  const int64_t keys[2] = {7, 8};
  float rows[2 * DIM];
  struct bank_test t;
  if (!begin(&t, &config))
    return;
  fill(rows, 20);
  fill(rows + DIM, 30);
  put(t.a, 7, 10);
  put(t.a, 8, 10);
  OK(t.b, send_to(t.b, 7, 1));
  OK(t.a, emb_begin(t.a));
  OK(t.a, emb_txn_put(t.a, keys, 1, rows)); /* after the gradient */
  CHECK_EQ_INT(pending_of(t.b, 7), 0);
  GIVES(t.b, EMB_BUSY, send_to(t.b, 7, 1));
  GIVES(t.a, EMB_LOCKED, send_to(t.a, 7, 1));
  OK(t.a, send_to(t.a, 8, 1)); /* another key: kept, not in the txn */
  IS(t.b, 7, 9);
  emb_rollback(t.a);
  IS(t.a, 7, 9);
  IS(t.a, 8, 9);
  end(&t);
}

TEST(a_session_with_leases_applies_at_once) {
  emb_config config = average_config("average(expire=1h)");
  const int64_t key = 7;
  uint32_t clock = 9;
  struct bank_test t;
  float row[DIM];
  config.flags |= EMB_OPEN_BOUNDED;
  if (!begin(&t, &config))
    return;
  put(t.a, 7, 10);
  OK(t.a, emb_get(t.a, &key, 1, row, NULL, NULL));
  OK(t.b, send_to(t.b, 7, 1)); /* has no lease: kept */
  CHECK_EQ_INT(pending_of(t.b, 7), 1);
  OK(t.a, send_to(t.a, 7, 2));
  CHECK_EQ_INT(pending_of(t.b, 7), 0);
  OK(t.a, emb_clocks(t.a, &key, 1, &clock));
  CHECK_EQ_INT(clock, 0);
  IS(t.b, 7, 7);
  end(&t);
}

TEST(errors_of_arguments) {
  emb_config config = average_config("average(expire=1h)");
  const int64_t key = 7;
  float row[DIM] = {0};
  struct bank_test t;
  if (!begin(&t, &config))
    return;
  GIVES(t.a, EMB_RANGE,
        emb_apply_gradients(t.a, &key, 1, row, &(emb_update){.lr = -1}, NULL));
  CHECK_EQ_INT(pending_of(t.a, 7), 0);
  end(&t);
  config.gradients = "mean";
  emb_err err;
  CHECK_EQ_INT(emb_open(help_path("store"), &config, &t.store, &err),
               EMB_RANGE);
  CHECK_STR(err.text, "unknown gradients: mean; expected none or average");
}

TEST(a_store_without_optimizer) {
  emb_config config = average_config("average");
  struct bank_test t;
  config.optimizer = NULL;
  if (!begin(&t, &config))
    return;
  GIVES(t.a, EMB_UNFIT, send_to(t.a, 7, 1));
  end(&t);
}

/* ---- memory, and many keys ----------------------------------------------- */

/* More keys than the bank has room for: every gradient arrives. */
TEST(the_oldest_make_room) {
  enum { KEYS = 40000, ROUNDS = 3, BATCH = 500 };
  emb_config config = average_config("average(expire=1h)");
  struct bank_test t;
  int64_t keys[BATCH];
  float rows[BATCH * DIM];
  config.flags = EMB_OPEN_CREATE;
  config.memory_bytes = 8 << 20;
  if (!begin(&t, &config))
    return;
  uint64_t most = 0;
  for (int64_t i = 0; i < KEYS * ROUNDS; i += BATCH) {
    for (int k = 0; k < BATCH; k++) {
      keys[k] = (i + k) % KEYS;
      fill(rows + k * DIM, (float)(keys[k] % 100));
    }
    OK(t.a, emb_apply_gradients(t.a, keys, BATCH, rows, NULL, NULL));
    uint64_t bytes = (uint64_t)help_stat(t.store, "gradients_pending_bytes");
    most = bytes > most ? bytes : most;
  }
  CHECK(most <= (uint64_t)help_stat(t.store, "memory_bytes") / 8 + 32 * 1024);
  CHECK(help_stat(t.store, "gradients_overflows") > 0);
  CHECK_EQ_INT(help_stat(t.store, "gradients_kept"), KEYS * ROUNDS);
  for (int64_t key = 0; key < KEYS; key++)
    IS(t.b, key, -(float)(ROUNDS * (key % 100)));
  CHECK_EQ_INT(help_stat(t.store, "gradients_steps"), KEYS * ROUNDS);
  end(&t);
}

TEST(pending_gradients_are_in_what_is_closed) {
  emb_config config = average_config("average(expire=1h)");
  struct bank_test t;
  if (!begin(&t, &config))
    return;
  put(t.a, 7, 10);
  OK(t.a, send_to(t.a, 7, 1));
  OK(t.b, send_to(t.b, 7, 3));
  end(&t);
  config.gradients = NULL;
  if (!begin(&t, &config))
    return;
  IS(t.a, 7, 8);
  CHECK(help_verify(t.a));
  end(&t);
}

/* ---- a model ------------------------------------------------------------- */

enum { MODEL_KEYS = 12, MODEL_MAX = 5 };

struct model {
  float value[MODEL_KEYS];
  int present[MODEL_KEYS];
  float sent[MODEL_KEYS][MODEL_MAX];
  int n[MODEL_KEYS];
};

static void model_apply(struct model *m, int key) {
  double sum = 0;
  for (int i = 0; i < m->n[key]; i++)
    sum += (double)m->sent[key][i];
  if (m->n[key]) {
    m->value[key] =
        (m->present[key] ? m->value[key] : 0) - (float)(sum / m->n[key]);
    m->present[key] = 1;
  }
  m->n[key] = 0;
}

static void model_send(struct model *m, emb_session *s) {
  int key = (int)(test_random() % MODEL_KEYS);
  float value = (float)(test_random() % 1000) / 7;
  OK(s, send_to(s, key, value));
  m->sent[key][m->n[key]++] = value;
  if (m->n[key] == MODEL_MAX)
    model_apply(m, key);
}

static void model_change(struct model *m, emb_session *s) {
  int key = (int)(test_random() % MODEL_KEYS);
  const int64_t wide = key;
  uint8_t found = 9;
  model_apply(m, key);
  switch (test_random() % 4) {
  case 0:
    OK(s, emb_delete(s, &wide, 1, &found));
    CHECK_EQ_INT(found, m->present[key]);
    m->present[key] = 0;
    break;
  case 1:
    put(s, key, 3);
    m->present[key] = 1;
    m->value[key] = 3;
    break;
  default:
    IS(s, key, m->present[key] ? m->value[key] : FLT_MAX);
  }
}

TEST(random_calls_against_a_model) {
  emb_config config = average_config("average(max=5, expire=1h)");
  struct bank_test t;
  struct model m;
  memset(&m, 0, sizeof m);
  if (!begin(&t, &config))
    return;
  for (unsigned i = 0; i < help_amount(20000); i++) {
    emb_session *s = test_random() % 2 ? t.a : t.b;
    int more;
    switch (test_random() % 40) {
    case 0:
      OK(s, emb_flush_gradients(s, NULL));
      for (int key = 0; key < MODEL_KEYS; key++)
        model_apply(&m, key);
      break;
    case 1:
      CHECK_EQ_INT(emb_step(t.store, &more), EMB_OK);
      if (!is_served()) /* else it is not the owner's step */
        for (int key = 0; key < MODEL_KEYS; key++)
          model_apply(&m, key);
      break;
    case 2:
    case 3:
    case 4:
    case 5:
    case 6:
      model_change(&m, s);
      break;
    default:
      model_send(&m, s);
    }
  }
  for (int key = 0; key < MODEL_KEYS; key++) {
    model_apply(&m, key);
    IS(t.a, key, m.present[key] ? m.value[key] : FLT_MAX);
  }
  CHECK(help_verify(t.a));
  end(&t);
}
