/* SPDX-License-Identifier: MIT
**
** history.c -- tests of tests/lib/history.c, the checker of histories: it finds
** every defect that a simulated store is given, and none in a correct store.
**
** The simulation has one thread.  Each of its sessions is in the middle of an
** operation most of the time: call, action and return are three steps, and the
** next session to take a step is random.  So operations overlap like those of
** threads.
*/
#include "test.h"

#include "history.h"

enum { SESSIONS = 5, KEYS = 3, STEPS = 10000, SEEDS = 24 };

enum defect {
  NONE,
  ONE_TOO_MANY,  /* now and then a Get is admitted at bound + 1 */
  STALE,         /* now and then a Get sees the version before */
  LOST_GIVE,     /* now and then a Put gives no lease back */
  LOST_RELEASE,  /* now and then a release gives no lease back */
  NEVER_WRITTEN, /* a Get saw a version that no Put made */
  TORN,          /* the vector is not the version's */
  TWICE,         /* two Puts made the same version */
  BACKWARDS,     /* a Put made a version below the one before it */
  DEFECTS,
};

static const char *const defect_names[DEFECTS] = {
    "none",          "one too many", "stale", "lost give-back", "lost release",
    "never written", "torn",         "twice", "backwards"};

enum phase { IDLE, CALLED, ACTED };

struct session {
  enum phase phase;
  struct history_op op;
  int held[KEYS];
};

struct sim {
  enum defect defect;
  uint32_t bound;
  uint64_t random;
  uint64_t version; /* of the store */
  uint64_t versions[KEYS], values[KEYS];
  uint64_t old_versions[KEYS], old_values[KEYS];
  uint32_t pending[KEYS];
  struct session sessions[SESSIONS];
  struct history histories[SESSIONS];
};

static uint64_t below(struct sim *sim, uint64_t n) {
  return test_random_from(&sim->random) % n;
}

/* The defect occurs only now and then. */
static int faulty(struct sim *sim, enum defect defect) {
  return sim->defect == defect &&
         below(sim, defect == LOST_RELEASE ? 2 : 8) == 0;
}

static void call(struct sim *sim, struct session *s) {
  int64_t key = (int64_t)below(sim, KEYS);
  uint64_t what = below(sim, 16);
  uint8_t kind = HISTORY_GET;
  if (s->held[key] && what < 12)
    kind = what < 2 ? HISTORY_RELEASE : HISTORY_PUT;
  else if (what == 14)
    kind = HISTORY_PEEK;
  else if (what == 15)
    kind = HISTORY_PUT;
  s->op = (struct history_op){.key = key, .kind = kind};
  s->op.call = history_tick();
  s->phase = CALLED;
}

static void look(struct sim *sim, struct session *s) {
  int64_t key = s->op.key;
  int stale = faulty(sim, STALE);
  s->op.version = stale ? sim->old_versions[key] : sim->versions[key];
  s->op.value = stale ? sim->old_values[key] : sim->values[key];
  if (faulty(sim, NEVER_WRITTEN))
    s->op.version += 1000000;
  if (faulty(sim, TORN))
    s->op.value ^= 1;
}

/* Returns 0 if the Get must wait. */
static int act_get(struct sim *sim, struct session *s) {
  int64_t key = s->op.key;
  uint32_t limit = sim->bound + (uint32_t)faulty(sim, ONE_TOO_MANY);
  if (sim->pending[key] > limit) {
    if (below(sim, 4))
      return 0;
    s->op.kind = HISTORY_REFUSED;
    s->op.value = history_group();
    return 1;
  }
  sim->pending[key]++;
  s->held[key]++;
  look(sim, s);
  return 1;
}

static void act_put(struct sim *sim, struct session *s) {
  int64_t key = s->op.key;
  sim->old_versions[key] = sim->versions[key];
  sim->old_values[key] = sim->values[key];
  sim->version += 1 + below(sim, 3);
  s->op.version = faulty(sim, TWICE)       ? sim->versions[key]
                  : faulty(sim, BACKWARDS) ? sim->version - 1000
                                           : sim->version;
  s->op.value = below(sim, 8) ? below(sim, UINT64_C(1) << 40) : HISTORY_SAME;
  sim->versions[key] = s->op.version;
  if (s->op.value != HISTORY_SAME)
    sim->values[key] = s->op.value;
  s->op.leases = s->held[key] > 0;
  if (s->op.leases) {
    s->held[key]--;
    sim->pending[key] -= !faulty(sim, LOST_GIVE);
  }
}

static void act_release(struct sim *sim, struct session *s) {
  int64_t key = s->op.key;
  s->op.leases = (uint8_t)s->held[key];
  if (!faulty(sim, LOST_RELEASE))
    sim->pending[key] -= (uint32_t)s->held[key];
  s->held[key] = 0;
}

static void step(struct sim *sim, uint32_t who) {
  struct session *s = &sim->sessions[who];
  if (s->phase == IDLE) {
    call(sim, s);
  } else if (s->phase == ACTED) {
    s->op.back = history_tick();
    CHECK(history_add(&sim->histories[who], s->op));
    s->phase = IDLE;
  } else {
    s->phase = ACTED;
    if (s->op.kind == HISTORY_GET && !act_get(sim, s))
      s->phase = CALLED;
    if (s->op.kind == HISTORY_PEEK)
      look(sim, s);
    if (s->op.kind == HISTORY_PUT)
      act_put(sim, s);
    if (s->op.kind == HISTORY_RELEASE)
      act_release(sim, s);
  }
}

/* Operations that have acted return; those that have not are dropped. */
static void finish(struct sim *sim) {
  for (uint32_t who = 0; who < SESSIONS; who++)
    if (sim->sessions[who].phase == ACTED)
      step(sim, who);
}

static void simulate(struct sim *sim, enum defect defect, uint32_t bound) {
  memset(sim, 0, sizeof *sim);
  sim->defect = defect;
  sim->bound = bound;
  sim->random = test_random();
  sim->version = 5000;
  for (int64_t key = 0; key < KEYS; key++) {
    struct history_op load = {.key = key, .kind = HISTORY_PUT};
    load.call = history_tick();
    load.back = history_tick();
    load.version = sim->versions[key] = sim->old_versions[key] =
        (uint64_t)key + 1;
    load.value = sim->values[key] = sim->old_values[key] = 7;
    CHECK(history_add(&sim->histories[0], load));
  }
  for (int i = 0; i < STEPS; i++)
    step(sim, (uint32_t)below(sim, SESSIONS));
  finish(sim);
}

static void forget(struct sim *sim) {
  for (int i = 0; i < SESSIONS; i++)
    history_free(&sim->histories[i]);
}

TEST(history_without_defect) {
  static struct sim sim;
  struct history_report report;
  for (int i = 0; i < SEEDS; i++) {
    simulate(&sim, NONE, (uint32_t)i % 4);
    CHECK_EQ_INT(
        history_check(sim.histories, SESSIONS, (uint32_t)i % 4, &report), 0);
    CHECK_STR(report.first, "");
    CHECK_EQ_INT(report.pending_max, (uint32_t)i % 4 + 1);
    forget(&sim);
  }
}

/* The findings of the check that must detect the defect. */
static uint64_t found(const struct history_report *r, enum defect defect) {
  switch (defect) {
  case ONE_TOO_MANY:
    return r->joint;
  case LOST_GIVE:
  case LOST_RELEASE:
    return r->cause;
  default:
    return r->value;
  }
}

TEST(history_with_defects) {
  static struct sim sim;
  struct history_report report;
  for (int defect = NONE + 1; defect < DEFECTS; defect++) {
    uint32_t time = 0;
    for (int i = 0; i < SEEDS; i++) {
      uint32_t bound = (uint32_t)i % 3;
      simulate(&sim, (enum defect)defect, bound);
      int64_t n = history_check(sim.histories, SESSIONS, bound, &report);
      (void)test_check(n > 0 && found(&report, (enum defect)defect), __FILE__,
                       __LINE__, "%s was not found at bound %u: %s",
                       defect_names[defect], bound, report.first);
      CHECK(report.first[0]);
      time += report.time > 0;
      forget(&sim);
    }
    if (defect == ONE_TOO_MANY)
      CHECK(time > 0);
  }
}

/* ---- by hand ------------------------------------------------------------- */

/* Checks these operations of one key at bound 0, and the number of findings of
** each check. */
static void by_hand(const struct history_op *ops, size_t n, uint64_t time,
                    uint64_t value, uint64_t joint, uint64_t cause) {
  struct history h = {NULL, 0, 0};
  struct history_report r;
  for (size_t i = 0; i < n; i++)
    CHECK(history_add(&h, ops[i]));
  CHECK_EQ_INT(history_check(&h, 1, 0, &r), time + value + joint + cause);
  CHECK_EQ_INT(r.time, time);
  CHECK_EQ_INT(r.value, value);
  CHECK_EQ_INT(r.joint, joint);
  CHECK_EQ_INT(r.cause, cause);
  history_free(&h);
}

#define HAND(time_, value_, joint_, cause_, ...)                               \
  by_hand((struct history_op[]){LOAD, __VA_ARGS__},                            \
          sizeof((struct history_op[]){LOAD, __VA_ARGS__}) /                   \
              sizeof(struct history_op),                                       \
          time_, value_, joint_, cause_)
#define LOAD                                                                   \
  { .call = 1, .back = 2, .version = 10, .kind = HISTORY_PUT }
#define GET(call_, back_, version_)                                            \
  { .call = call_, .back = back_, .version = version_, .kind = HISTORY_GET }
#define PUT(call_, back_, version_, leases_)                                   \
  {                                                                            \
    .call = call_, .back = back_, .version = version_, .kind = HISTORY_PUT,    \
    .leases = leases_                                                          \
  }
#define RELEASE(call_, back_, leases_)                                         \
  { .call = call_, .back = back_, .kind = HISTORY_RELEASE, .leases = leases_ }
#define REFUSED(call_, back_)                                                  \
  { .call = call_, .back = back_, .kind = HISTORY_REFUSED }
/* Of another group. */
#define REFUSED_1(call_, back_)                                                \
  { .call = call_, .back = back_, .value = 1, .kind = HISTORY_REFUSED }

TEST(history_time) {
  HAND(0, 0, 0, 0, GET(3, 4, 10), PUT(5, 8, 11, 1), GET(6, 7, 11));
  HAND(1, 0, 1, 0, GET(3, 4, 10), GET(5, 6, 10), PUT(7, 8, 11, 1));
  /* A blind Put gives no lease back. */
  HAND(1, 0, 1, 0, GET(3, 4, 10), PUT(5, 6, 11, 0), GET(7, 8, 11));
}

TEST(history_joint_sees_what_time_cannot) {
  /* The second Get returns after the Put was called, and saw the version before
  ** it. */
  HAND(0, 0, 1, 0, GET(3, 5, 10), GET(4, 8, 10), PUT(6, 9, 11, 1));
}

TEST(history_release) {
  HAND(0, 0, 0, 0, GET(3, 4, 10), RELEASE(5, 8, 1), GET(6, 7, 10));
  HAND(1, 0, 1, 0, GET(3, 5, 10), GET(4, 6, 10), RELEASE(7, 8, 1));
  /* Overlapping releases, with a Put in between that frees a place. */
  HAND(0, 0, 0, 0, GET(3, 4, 10), PUT(5, 10, 11, 1), GET(6, 7, 11),
       RELEASE(8, 11, 1), GET(9, 12, 11));
  /* The release was called after the read of version 11, so it cannot have come
  ** before that version, when there were two Gets. */
  HAND(0, 0, 1, 0, GET(3, 6, 10), GET(4, 20, 10), PUT(5, 21, 11, 0),
       {.call = 7, .back = 8, .version = 11, .kind = HISTORY_PEEK},
       RELEASE(9, 10, 1));
}

TEST(history_value) {
  HAND(0, 1, 0, 0, GET(3, 4, 12), RELEASE(5, 6, 1));
  HAND(0, 1, 0, 0, PUT(3, 4, 11, 0), GET(5, 6, 10), RELEASE(7, 8, 1));
  HAND(0, 0, 0, 0, PUT(3, 6, 11, 0), GET(4, 7, 10), RELEASE(8, 9, 1));
  HAND(0, 1, 0, 0, PUT(3, 4, 9, 0));
  HAND(0, 1, 0, 0, PUT(3, 4, 10, 0));
}

TEST(history_untold) {
  struct history_op put = PUT(5, 20, HISTORY_UNTOLD, 1);
  struct history_op look = {
      .call = 8, .back = 9, .version = 11, .value = 4, .kind = HISTORY_PEEK};
  put.value = 4;
  HAND(0, 0, 0, 0, GET(3, 4, 10), put, look);
  /* If no read saw the Put, it may have given its lease back before the second
  ** Get.  If a read saw it, the Put came after that Get. */
  HAND(0, 0, 0, 0, GET(3, 4, 10), put, GET(6, 7, 10));
  HAND(0, 0, 1, 0, GET(3, 4, 10), put, GET(6, 7, 10), look);
  HAND(0, 1, 0, 0, put, look, GET(21, 22, 10));
}

TEST(history_cause) {
  HAND(0, 0, 0, 0, GET(3, 4, 10), REFUSED(5, 6), PUT(7, 8, 11, 1));
  HAND(0, 0, 0, 1, GET(3, 4, 10), PUT(5, 6, 11, 1), REFUSED(7, 8));
  /* The refusal came before the Put had returned. */
  HAND(0, 0, 0, 0, GET(3, 4, 10), PUT(5, 8, 11, 1), REFUSED(7, 9));
  /* Another refused Get may have counted for a while, if it had more keys than
  ** the one it waited for. */
  HAND(0, 0, 0, 1, REFUSED(3, 4));
  HAND(0, 0, 0, 1, REFUSED(3, 4),
       {.key = 1, .call = 3, .back = 4, .kind = HISTORY_REFUSED});
  HAND(0, 0, 0, 2, REFUSED(3, 5), REFUSED_1(4, 6));
  HAND(0, 0, 0, 1, REFUSED(3, 5),
       {.key = 1, .call = 3, .back = 5, .kind = HISTORY_REFUSED},
       REFUSED_1(4, 6));
}
