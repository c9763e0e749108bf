/* SPDX-License-Identifier: MIT
**
** track.c -- the frequency and updated_at that rows record of their updates,
** through log, cache, disk, commit, rollback and restart, against a model.
*/
#include "forget_help.h"

enum { KEYS = 3000, DIM = 24, BATCH = 200 };

struct model {
  int there;
  emb_track track;
};

static struct model rows[KEYS], saved[KEYS];
static uint32_t newest;

static emb_config config(uint32_t track) {
  emb_config c = forget_config(DIM);
  c.track = track;
  return c;
}

static void begin(void) {
  forget_begin();
  memset(rows, 0, sizeof rows);
  newest = 0;
}

/* Applies an update at this time to the model's row. */
static void model_update(int64_t key, uint32_t time) {
  struct model *m = &rows[key];
  if (!m->there)
    m->track = (emb_track){0, 0};
  m->there = 1;
  m->track.frequency++;
  m->track.updated_at = time > m->track.updated_at ? time : m->track.updated_at;
}

static void check_all(emb_session *s) {
  static int64_t keys[KEYS];
  static emb_track tracks[KEYS];
  static uint8_t found[KEYS];
  for (int i = 0; i < KEYS; i++)
    keys[i] = i;
  OK(s, emb_tracks(s, keys, KEYS, tracks, found));
  for (int i = 0; i < KEYS; i++) {
    CHECK_EQ_INT(found[i], rows[i].there);
    CHECK_EQ_INT(tracks[i].frequency,
                 rows[i].there ? rows[i].track.frequency : 0);
    CHECK_EQ_INT(tracks[i].updated_at,
                 rows[i].there ? rows[i].track.updated_at : 0);
  }
}

/* A scan gives the same, with vectors or without. */
static void check_scan(emb_session *s, int order, int with) {
  static float vectors[64 * DIM];
  int64_t keys[64];
  emb_track tracks[64];
  size_t n = 1, seen = 0, there = 0;
  emb_scan *scan;
  if (!OK(s, emb_scan_open(s, INT64_MIN, INT64_MAX, order, &scan)))
    return;
  while (n &&
         OK(s, emb_scan_next_rows(scan, 64,
                                  &(emb_rows){.keys = keys,
                                              .vectors = with ? vectors : NULL,
                                              .tracks = tracks},
                                  &n))) {
    seen += n;
    for (size_t i = 0; i < n; i++) {
      CHECK_EQ_INT(tracks[i].frequency, rows[keys[i]].track.frequency);
      CHECK_EQ_INT(tracks[i].updated_at, rows[keys[i]].track.updated_at);
    }
  }
  emb_scan_close(scan);
  for (int i = 0; i < KEYS; i++)
    there += (size_t)rows[i].there;
  CHECK_EQ_INT(seen, there);
}

/* Writes a random batch, and updates the model. */
static void write_some(emb_session *s, int data, uint64_t *written) {
  int64_t keys[BATCH];
  static float vectors[BATCH * DIM];
  size_t n = 1 + test_random() % BATCH;
  int64_t from = (int64_t)(test_random() % KEYS);
  int64_t width = test_random() % 2 ? 10 : KEYS; /* many repeats, or few */
  uint32_t given = 0, time;
  for (size_t i = 0; i < n; i++) {
    keys[i] = (from + (int64_t)(test_random() % (uint64_t)width)) % KEYS;
    help_vector(vectors + i * DIM, DIM, keys[i], (int32_t)i);
  }
  if (test_random() % 2)
    given = BEGIN - 1000 + (uint32_t)(test_random() % 2000);
  time = given ? given : data ? newest : forget_now();
  emb_session_time(s, given);
  switch (test_random() % 4) {
  case 0:
    OK(s, emb_in_transaction(s) ? emb_txn_put(s, keys, n, vectors)
                                : emb_put(s, keys, n, vectors, NULL));
    break;
  case 1:
    OK(s, emb_in_transaction(s)
              ? emb_txn_apply_gradients(s, keys, n, vectors, NULL, NULL)
              : emb_apply_gradients(s, keys, n, vectors, NULL, NULL));
    break;
  case 2:
    if (emb_in_transaction(s))
      OK(s, emb_txn_put(s, keys, n, vectors));
    else
      OK(s, emb_rmw(s, keys, n, vectors, NULL, NULL));
    break;
  default:
    if (emb_in_transaction(s))
      OK(s, emb_txn_delete(s, keys, n, NULL));
    else
      OK(s, emb_delete(s, keys, n, NULL));
    for (size_t i = 0; i < n; i++)
      rows[keys[i]].there = 0;
    return;
  }
  newest = time > newest ? time : newest; /* a deletion has no time */
  for (size_t i = 0; i < n; i++)
    model_update(keys[i], time);
  *written += n;
}

static void run(uint32_t track, const char *optimizer) {
  const char *dir = help_path("store");
  emb_config c = config(track);
  emb_store *store;
  emb_session *s;
  uint64_t written = 0;
  begin();
  c.optimizer = optimizer;
  if (!help_open(dir, &c, &store, &s))
    return;
  for (unsigned round = 0; round < help_amount(300); round++) {
    int more;
    switch (test_random() % 12) {
    case 0:
      if (!emb_in_transaction(s)) {
        memcpy(saved, rows, sizeof rows);
        OK(s, emb_begin(s));
      } else if (test_random() % 2) {
        OK(s, emb_commit(s));
      } else {
        emb_rollback(s);
        memcpy(rows, saved, sizeof rows);
      }
      break;
    case 1:
      emb_step(store, &more);
      break;
    case 2:
      failing_pass(&forget_env, test_random() % 100 * 1000000);
      break;
    case 3:
      if (!emb_in_transaction(s))
        OK(s, emb_checkpoint(s));
      break;
    case 4:
      if (!emb_in_transaction(s) && test_random() % 4 == 0) {
        help_close(store, s);
        if (!help_open(dir, &c, &store, &s))
          return;
      }
      break;
    case 5:
      check_scan(s, (int)(test_random() % 3), test_random() % 2 == 0);
      break;
    default:
      write_some(s, track == EMB_TRACK_DATA, &written);
    }
    if (round % 16 == 0)
      check_all(s);
  }
  if (emb_in_transaction(s))
    OK(s, emb_commit(s));
  check_all(s);
  for (int order = 0; order < 3; order++)
    check_scan(s, order, 1);
  help_verify(s);
  help_close(store, s);
  forget_end();
  test_count("tracked updates", written);
}

TEST(wall_time_against_a_model) { run(EMB_TRACK_WALL, "sgd"); }
TEST(data_time_against_a_model) { run(EMB_TRACK_DATA, "sgd"); }
TEST(beside_the_state_of_an_optimizer) { run(EMB_TRACK_WALL, "adam"); }

TEST(a_moved_row_keeps_what_it_knows) {
  emb_config c = config(EMB_TRACK_DATA);
  emb_store *store;
  emb_session *s;
  float v[DIM] = {0};
  int64_t from = 1, to = 2;
  emb_track t;
  int found;
  begin();
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  emb_session_time(s, 50);
  OK(s, emb_put(s, &from, 1, v, NULL));
  OK(s, emb_begin(s));
  OK(s, emb_txn_move(s, from, to, &found));
  OK(s, emb_commit(s));
  OK(s, emb_tracks(s, &to, 1, &t, NULL));
  CHECK_EQ_INT(t.frequency, 1);
  CHECK_EQ_INT(t.updated_at, 50);
  help_close(store, s);
  forget_end();
}

TEST(a_write_back_has_the_time_of_its_session) {
  emb_config c = config(EMB_TRACK_DATA);
  emb_store *store;
  emb_session *s;
  enum { N = 60000 }; /* more than the log has room for at a time */
  float *v = calloc(N, DIM * sizeof *v);
  int64_t *keys = calloc(N, sizeof *keys);
  emb_track *tracks = calloc(N, sizeof *tracks);
  uint64_t ticket;
  begin();
  if (!v || !keys || !tracks || !help_open(help_path("store"), &c, &store, &s))
    return;
  for (int i = 0; i < N; i++)
    keys[i] = i;
  emb_session_time(s, 77);
  OK(s, emb_write_back(s, keys, N, v, &ticket));
  emb_session_time(s, 99);
  OK(s, emb_write_back_synchronize(s, ticket, NULL));
  OK(s, emb_tracks(s, keys, N, tracks, NULL));
  for (int i = 0; i < N; i++)
    CHECK_EQ_INT(tracks[i].updated_at, 77);
  help_close(store, s);
  free(v), free(keys), free(tracks);
  forget_end();
}

/* Data time does not start again after a restart, clean or not. */
TEST(the_newest_time_survives) {
  const char *dir = help_path("store");
  emb_config c = config(EMB_TRACK_DATA);
  emb_store *store;
  emb_session *s;
  float v[DIM] = {0};
  int64_t a = 1, b = 2;
  emb_track t;
  begin();
  if (!help_open(dir, &c, &store, &s))
    return;
  emb_session_time(s, 1000);
  OK(s, emb_put(s, &a, 1, v, NULL));
  OK(s, emb_delete(s, &a, 1, NULL)); /* no record has this time any more */
  help_close(store, s);
  if (!help_open(dir, &c, &store, &s))
    return;
  OK(s, emb_put(s, &b, 1, v, NULL));
  OK(s, emb_tracks(s, &b, 1, &t, NULL));
  CHECK_EQ_INT(t.updated_at, 1000);
  help_close(store, s);
  forget_end();
}

TEST(tracking_cannot_be_begun_or_given_up) {
  const char *dir = help_path("store"), *plain = help_path("plain");
  emb_config c = config(EMB_TRACK_DATA), none = config(EMB_TRACK_NONE);
  emb_config any = config(0), wall = config(EMB_TRACK_WALL);
  emb_store *store;
  emb_session *s;
  emb_track t;
  emb_err err;
  int64_t key = 1;
  begin();
  if (!help_open(dir, &c, &store, &s))
    return;
  help_close(store, s);
  CHECK_EQ_INT(emb_open(dir, &none, &store, &err), EMB_MISMATCH);
  if (help_open(dir, &wall, &store, &s))
    help_close(store, s);
  if (!help_open(dir, &any, &store, &s))
    return;
  OK(s, emb_tracks(s, &key, 1, &t, NULL));
  CHECK_EQ_INT(t.frequency, 0);
  help_close(store, s);
  if (!help_open(plain, &any, &store, &s))
    return;
  GIVES(s, EMB_UNFIT, emb_tracks(s, &key, 1, &t, NULL));
  help_close(store, s);
  CHECK_EQ_INT(emb_open(plain, &wall, &store, &err), EMB_MISMATCH);
  wall.track = 9;
  CHECK_EQ_INT(emb_open(help_path("new"), &wall, &store, &err), EMB_RANGE);
  forget_end();
}
