/* SPDX-License-Identifier: MIT
**
** power_delta.c -- the power fails at every event while deltas travel from
** one store to another.
**
** Source, copy and file are on one disk that records (tests/lib/disk.h).  The
** work writes to the source, exports, applies and acknowledges.  Then, for
** the moment after each event, the disks that a power loss may leave are
** made; on each
**
**   the copy            holds exactly the rows after some delta: one that had
**                       been applied when the power failed, or the one being
**                       applied
**   one delta more      is exported, taken and acknowledged without errors,
**                       and then the copy equals the source.  So nothing that
**                       the copy had seen is undone in the source, and
**                       nothing acknowledged is missing
**
** SEED repeats a run exactly.  LONG=n records n times as many pieces of work.
*/
#include "store_help.h"

#include "engine/table/owner/registry.h"
#include "disk.h"

enum { DIM = 200, KEYS = 60, ROUNDS = 9, STATES = 64, CHOICES = 3 };

static const char *const dirs[] = {"/data/a", "/data/b"};
static const char file[] = "/data/delta";

struct side {
  emb_store *store;
  emb_session *s;
};

static struct {
  struct disk *disk;
  uint32_t source[KEYS];              /* numbers of writes, 0: not there */
  uint32_t states[STATES][KEYS];      /* of the copy, after each delta */
  size_t begun[STATES], done[STATES]; /* events then */
  uint32_t count;                     /* of states; the first is empty */
  uint32_t writes;
} work;

static int open_side(struct disk *disk, int which, struct side *side) {
  emb_config c = {
      .dim = DIM, .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP, .memory_bytes = 1};
  env_set_default(disk_env(disk));
  return help_open(dirs[which], &c, &side->store, &side->s);
}

static void read_all(emb_session *s, uint32_t found[KEYS]) {
  static float vectors[KEYS * DIM];
  int64_t keys[KEYS];
  uint8_t there[KEYS];
  for (uint32_t k = 0; k < KEYS; k++)
    keys[k] = k * 77;
  OK(s, emb_peek(s, keys, KEYS, vectors, there, NULL));
  for (uint32_t k = 0; k < KEYS; k++)
    found[k] =
        there[k] ? (uint32_t)help_value(vectors + k * DIM, DIM, keys[k]) : 0;
}

/* ---- the work ------------------------------------------------------------ */

static void write_some(struct side *a) {
  float vector[DIM];
  for (uint64_t n = 1 + test_below(20); n > 0; n--) {
    uint32_t at = test_below(KEYS);
    int64_t key = at * 77;
    if (test_below(3)) {
      help_vector(vector, DIM, key, (int32_t)++work.writes);
      OK(a->s, emb_put(a->s, &key, 1, vector, NULL));
      work.source[at] = work.writes;
    } else {
      OK(a->s, emb_delete(a->s, &key, 1, NULL));
      work.source[at] = 0;
    }
  }
}

static void upkeep(struct side *side) {
  int more = 1;
  if (test_below(3) == 0)
    OK(side->s, emb_checkpoint(side->s));
  for (uint64_t n = test_below(4); n > 0 && more; n--)
    CHECK_EQ_INT(emb_step(side->store, &more), EMB_OK);
}

/* Some deltas are not acknowledged, and exported again. */
static void travel(struct side *a, struct side *b) {
  emb_delta_file about;
  uint32_t n = work.count;
  if (!OK(a->s, emb_delta_export(a->s, "b", file, NULL, &about)))
    return;
  memcpy(work.states[n], work.source, sizeof work.source);
  work.begun[n] = disk_events(work.disk);
  OK(b->s, emb_delta_apply(b->s, file, NULL, NULL));
  work.done[n] = disk_events(work.disk);
  work.count++;
  if (test_below(4))
    OK(a->s, emb_delta_ack(a->s, "b", about.to));
}

static int record(void) {
  struct side a, b;
  memset(&work, 0, sizeof work);
  work.count = 1;
  work.disk = disk_new(test_random());
  CHECK_EQ_INT(disk_make_dir(work.disk, "/data"), 0);
  disk_record(work.disk);
  for (int life = 0; life < 2; life++) {
    if (!open_side(work.disk, 0, &a) || !open_side(work.disk, 1, &b))
      return 0;
    for (int i = 0; i < ROUNDS; i++) {
      write_some(&a);
      upkeep(&a);
      if (test_below(3))
        travel(&a, &b);
      upkeep(&b);
      if (test_below(12) == 0)
        OK(a.s, emb_delta_begin(a.s, "b", EMB_DELTA_ALL, 0));
    }
    if (!help_close(a.store, a.s) || !help_close(b.store, b.s))
      return 0;
  }
  return 1;
}

/* ---- the check ----------------------------------------------------------- */

static int is_state(const uint32_t found[KEYS], size_t events) {
  uint32_t newest = 0;
  for (uint32_t i = 1; i < work.count && work.done[i] <= events; i++)
    newest = i;
  int next = newest + 1 < work.count && work.begun[newest + 1] <= events;
  return memcmp(found, work.states[newest], sizeof work.states[0]) == 0 ||
         (next &&
          memcmp(found, work.states[newest + 1], sizeof work.states[0]) == 0);
}

static void examine(struct disk *disk, size_t events, const char *when) {
  uint32_t ours[KEYS], theirs[KEYS];
  struct side a, b;
  char event[200] = "";
  if (events)
    disk_describe(work.disk, events - 1, event, sizeof event);
  if (!open_side(disk, 0, &a) || !open_side(disk, 1, &b)) {
    (void)test_check(0, __FILE__, __LINE__, "%s: after %s", when, event);
    return;
  }
  read_all(b.s, theirs);
  (void)test_check(is_state(theirs, events), __FILE__, __LINE__,
                   "%s: the copy holds a part of a delta; after %s", when,
                   event);
  help_verify(a.s);
  help_verify(b.s);
  int rc = emb_delta_export(a.s, "b", file, NULL, NULL);
  (void)test_check(rc == EMB_OK, __FILE__, __LINE__, "%s: export %s; after %s",
                   when, emb_errmsg(a.s), event);
  rc = rc ? rc : emb_delta_apply(b.s, file, NULL, NULL);
  (void)test_check(rc == EMB_OK, __FILE__, __LINE__, "%s: apply %s; after %s",
                   when, emb_errmsg(b.s), event);
  OK(a.s, emb_delta_ack(a.s, "b", 0));
  read_all(a.s, ours);
  read_all(b.s, theirs);
  for (uint32_t k = 0; k < KEYS; k++)
    if (!test_check(ours[k] == theirs[k], __FILE__, __LINE__,
                    "%s: key %u is %u in the source, %u in the copy; after %s",
                    when, k, ours[k], theirs[k], event))
      break;
  (void)help_close(a.store, a.s);
  (void)help_close(b.store, b.s);
}

static void crash_everywhere(uint64_t *states) {
  struct disk *player = disk_player(work.disk);
  size_t events = disk_events(work.disk);
  for (size_t e = 0; e <= events && !atomic_load(&test_state.failures); e++) {
    disk_play(player, work.disk, e);
    if ((e + test_state.seed) % help_share() != 0)
      continue;
    for (int i = 0; i < CHOICES + 2; i++) {
      enum disk_loss loss = i == 0   ? DISK_KEEP
                            : i == 1 ? DISK_DROP
                                     : (enum disk_loss)(DISK_PREFIX + i % 3);
      if (i > 0 && disk_unsynced(player) == 0)
        break;
      struct disk *after = disk_crash(player, loss, test_random());
      examine(after, e, "recovered");
      disk_free(after);
      ++*states;
    }
  }
  disk_free(player);
}

TEST(crash_while_deltas_travel) {
  uint64_t states = 0, deltas = 0;
  for (unsigned i = 0; i < help_long() && !atomic_load(&test_state.failures);
       i++) {
    if (record())
      crash_everywhere(&states);
    deltas += work.count - 1;
    disk_free(work.disk);
    env_set_default(&env_posix);
  }
  CHECK(deltas > 0);
  test_count("states after power loss", states);
}
