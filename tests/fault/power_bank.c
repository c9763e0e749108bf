/* SPDX-License-Identifier: MIT
**
** power_bank.c -- the power fails at every event of a life in which gradients
** are pending: before a checkpoint, a commit and a close, which apply them
** first.
**
** All gradients are 1, and a row counts them (track): a row found afterwards
** has at least those sent before the last of the three, and no more than were
** sent.  A killed process loses no more.
*/
#include "engine/table/owner/registry.h"
#include "disk.h"
#include "store_help.h"

enum { DIM = 100, KEYS = 30, ROUNDS = 5, MOMENTS = 32 };

static const char dir[] = "/store";

/* From these events on this many gradients of each key are durable; this many
** had been sent when durability was requested. */
static struct {
  size_t events;
  uint32_t durable;
} moments[MOMENTS];
static int moment_count;
static uint32_t sent;

static int open_store(emb_store **store, emb_session **s) {
  const emb_config config = {.dim = DIM,
                             .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP,
                             .memory_bytes = 1,
                             .optimizer = "sgd(lr=1)",
                             .track = EMB_TRACK_WALL,
                             .gradients = "average(max=9, expire=1h)"};
  return help_open(dir, &config, store, s);
}

static void send_all(emb_session *s) {
  static float rows[KEYS * DIM];
  int64_t keys[KEYS];
  for (int k = 0; k < KEYS; k++)
    keys[k] = k;
  for (int i = 0; i < KEYS * DIM; i++)
    rows[i] = 1;
  OK(s, emb_apply_gradients(s, keys, KEYS, rows, NULL, NULL));
  sent++;
}

static void note(const struct disk *disk) {
  if (CHECK(moment_count < MOMENTS)) {
    moments[moment_count].events = disk_events(disk);
    moments[moment_count++].durable = sent;
  }
}

static void commit_other(emb_session *s) {
  const int64_t key = 1000;
  const float row[DIM] = {0};
  uint64_t number;
  OK(s, emb_begin(s));
  OK(s, emb_txn_put(s, &key, 1, row));
  OK(s, emb_prepare(s, &number));
  OK(s, emb_commit(s));
}

static void look(struct disk *after, size_t events, enum disk_loss loss) {
  (void)after;
  emb_store *store;
  emb_session *s;
  emb_err err;
  uint32_t least = 0;
  for (int i = 0; i < moment_count; i++)
    least = moments[i].events <= events ? moments[i].durable : least;
  if (!open_store(&store, &s))
    return;
  if (emb_in_doubt(store))
    CHECK_EQ_INT(emb_resolve(store, emb_in_doubt(store), 1, &err), EMB_OK);
  for (int64_t key = 0; key < KEYS; key++) {
    emb_track track = {0, 0};
    OK(s, emb_tracks(s, &key, 1, &track, NULL));
    test_check(track.frequency >= least && track.frequency <= sent, __FILE__,
               __LINE__, "%zu events, loss %d: key %d has %u of %u to %u",
               events, (int)loss, (int)key, track.frequency, least, sent);
  }
  (void)help_close(store, s);
}

TEST(crash_with_pending_gradients) {
  struct disk *disk = disk_new(test_random());
  emb_store *store;
  emb_session *s;
  sent = 0;
  moment_count = 0;
  env_set_default(disk_env(disk));
  if (!open_store(&store, &s) || !help_close(store, s))
    return;
  disk_record(disk);
  if (!open_store(&store, &s))
    return;
  for (int i = 0; i < ROUNDS; i++) {
    send_all(s);
    send_all(s);
    if (i % 2)
      OK(s, emb_checkpoint(s));
    else
      commit_other(s);
    note(disk);
    send_all(s);
  }
  (void)help_close(store, s);
  note(disk);
  size_t states = disk_crash_each(disk, 5, look);
  test_count("states after power loss", states);
  disk_free(disk);
  env_set_default(&env_posix);
}
