/* SPDX-License-Identifier: MIT
**
** recover.c -- a writing process is killed at a random moment; the store's
** rows are then compared with the writes acknowledged before.
**
** The writer notes its next actions and the acknowledgements in shared
** memory.  Each row that it writes has its own number (seq), which is in the
** vector, so a row that is found identifies its write:
**
**   seen before a durable point   must be there, or a later write
**   committed                     may be there; all of its transaction, or none
**   prepared and decided          must be there after emb_resolve
**   rolled back, voided, open     must never be there
**
** Only forked processes open the store, so that a fork never copies an open
** one.  A checking process sometimes dies too, before or after resolving.
*/
#include "fork_help.h"
#include "store_help.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { KEYS = 2500, DIM = 64, EVENTS = 400000, LEVELS = 4, BATCH = 120 };
enum { PUT = 1, DEL = 2 };

enum phase {
  IDLE,       /* no transaction */
  OPEN,       /* begun; none of it may be seen */
  PREPARING,  /* emb_prepare has been called */
  PREPARED,   /* it returned number */
  DECIDED,    /* the coordinator has recorded the number */
  COMMITTING, /* without a coordinator */
};

struct event {
  uint32_t key;
  uint16_t kind;
  uint16_t visible; /* may be found */
  uint32_t group;   /* transaction that the engine committed, or 0 */
};

/* Numbers of events by key: the last one of each state. */
static struct shared {
  struct event events[EVENTS];
  uint32_t seq;           /* the newest event */
  uint32_t now[KEYS];     /* as the writer sees it, without its transaction */
  uint32_t durable[KEYS]; /* this event, or a later one, must be found */
  uint32_t pending[KEYS]; /* of the open transaction; 0: not touched */
  uint32_t marks[LEVELS][KEYS];
  uint32_t group;
  volatile enum phase phase;
  uint64_t number;      /* of the prepared transaction */
  uint64_t committed;   /* the last one that was committed */
  uint64_t rolled_back; /* the last one rolled back after its prepare */
  uint64_t actions[8];  /* how often, to check the test itself */
} * shared;

static const char *dir;

static int64_t key_of(uint32_t i) {
  const int64_t corners[] = {INT64_MIN, INT64_MAX, 0, -1};
  return i < 4 ? corners[i] : (int64_t)i * 7919 - 9000000;
}

static void make_vector(float *v, uint32_t key, uint32_t seq) {
  for (int i = 0; i < DIM; i++)
    v[i] = (float)((seq + (uint32_t)i) & 0xffffff);
  v[1] = (float)key;
}

static emb_config config_of(uint64_t *random) {
  emb_config c = {.dim = DIM, .flags = EMB_OPEN_CREATE, .timeout_ms = 2000};
  c.memory_bytes = 4 << 20;
  if (test_random_from(random) % 3 == 0)
    c.flags |= EMB_OPEN_STEP;
  if (test_random_from(random) % 2)
    c.io = EMB_IO_PREAD;
  return c;
}

/* ---- the writer ---------------------------------------------------------- */

struct writer {
  emb_session *txn, *direct;
  uint64_t random;
  int level;          /* open savepoints */
  uint8_t held[KEYS]; /* by the transaction, also after emb_rollback_to */
};

static uint64_t roll(struct writer *w, uint64_t n) {
  return test_random_from(&w->random) % n;
}

static uint32_t new_event(uint32_t key, uint16_t kind, uint16_t visible) {
  uint32_t seq = shared->seq + 1;
  if (seq >= EVENTS)
    pause(); /* enough for this round: wait for the kill */
  shared->events[seq] = (struct event){key, kind, visible, 0};
  shared->seq = seq;
  return seq;
}

static void durable_point(void) {
  for (uint32_t k = 0; k < KEYS; k++)
    shared->durable[k] = shared->now[k];
}

/* Up to BATCH distinct keys; free_only: none held by the open transaction. */
static uint32_t choose(struct writer *w, uint32_t *keys, int free_only) {
  uint32_t n = 0, most = 1 + (uint32_t)roll(w, BATCH);
  uint32_t at = (uint32_t)roll(w, KEYS), step = 1 + 2 * (uint32_t)roll(w, 400);
  while (step % 5 == 0) /* KEYS is 2^2 * 5^4: odd and not 5n visits all */
    step += 2;
  for (uint32_t i = 0; i < KEYS && n < most; i++, at = (at + step) % KEYS)
    if (!free_only || !w->held[at])
      keys[n++] = at;
  return n;
}

static void write_batch(struct writer *w, int in_txn) {
  static float vectors[BATCH * DIM];
  int64_t keys[BATCH];
  uint32_t which[BATCH], seqs[BATCH];
  uint32_t n = choose(w, which, !in_txn);
  uint16_t kind = roll(w, 4) ? PUT : DEL;
  for (uint32_t i = 0; i < n; i++) {
    seqs[i] = new_event(which[i], kind, !in_txn);
    keys[i] = key_of(which[i]);
    make_vector(vectors + i * DIM, which[i], seqs[i]);
  }
  emb_session *s = in_txn ? w->txn : w->direct;
  if (kind == PUT)
    OK(s, in_txn ? emb_txn_put(s, keys, n, vectors)
                 : emb_put(s, keys, n, vectors, NULL));
  else
    OK(s, in_txn ? emb_txn_delete(s, keys, n, NULL)
                 : emb_delete(s, keys, n, NULL));
  for (uint32_t i = 0; i < n; i++) {
    (in_txn ? shared->pending : shared->now)[which[i]] = seqs[i];
    w->held[which[i]] |= in_txn != 0;
  }
}

static void savepoint(struct writer *w) {
  if (w->level < LEVELS && roll(w, 3)) {
    OK(w->txn, emb_savepoint(w->txn, w->level));
    memcpy(shared->marks[w->level], shared->pending, sizeof shared->pending);
    w->level++;
  } else if (w->level) {
    int to = (int)roll(w, (uint64_t)w->level);
    if (roll(w, 2)) {
      OK(w->txn, emb_rollback_to(w->txn, to));
      memcpy(shared->pending, shared->marks[to], sizeof shared->pending);
      w->level = to + 1;
    } else {
      OK(w->txn, emb_savepoint_release(w->txn, to));
      w->level = to;
    }
  }
}

static void forget_txn(struct writer *w) {
  memset(shared->pending, 0, sizeof shared->pending);
  memset(w->held, 0, sizeof w->held);
  shared->phase = IDLE;
  w->level = 0;
}

/* The transaction's writes become the state. */
static void apply_pending(uint32_t group) {
  for (uint32_t k = 0; k < KEYS; k++) {
    uint32_t seq = shared->pending[k];
    if (seq) {
      shared->events[seq].group = group;
      shared->events[seq].visible = 1;
    }
  }
}

static void take_pending(void) {
  for (uint32_t k = 0; k < KEYS; k++)
    if (shared->pending[k])
      shared->now[k] = shared->pending[k];
}

static void commit_alone(struct writer *w) {
  apply_pending(++shared->group);
  shared->phase = COMMITTING;
  OK(w->txn, emb_commit(w->txn));
  take_pending();
  forget_txn(w);
  shared->actions[0]++;
}

static void prepare_and_end(struct writer *w) {
  uint64_t number = 0;
  shared->phase = PREPARING;
  OK(w->txn, emb_prepare(w->txn, &number));
  if (number)
    durable_point();
  shared->number = number;
  shared->phase = number ? PREPARED : OPEN;
  if (roll(w, 4) == 0) { /* the coordinator failed; it may continue */
    shared->phase = OPEN;
    shared->rolled_back = number ? number : shared->rolled_back;
    shared->actions[1]++;
    if (roll(w, 2)) {
      write_batch(w, 1); /* this voids the number */
      return;
    }
    emb_rollback(w->txn);
    forget_txn(w);
    return;
  }
  if (number)
    shared->phase = DECIDED;
  if (roll(w, 8) == 0)
    usleep(500);
  OK(w->txn, emb_commit(w->txn));
  apply_pending(0);
  take_pending();
  if (number) {
    durable_point();
    shared->committed = number;
  }
  forget_txn(w);
  shared->actions[2]++;
}

static void act(struct writer *w) {
  uint64_t what = roll(w, 100);
  if (what < 40) {
    write_batch(w, 0);
  } else if (what < 43) {
    if (shared->phase == IDLE || roll(w, 2)) {
      OK(w->direct, emb_checkpoint(w->direct));
      durable_point();
      shared->actions[3]++;
    }
  } else if (what < 44) {
    OK(w->direct, emb_optimize(w->direct));
    durable_point();
  } else if (shared->phase == IDLE) {
    OK(w->txn, emb_begin(w->txn));
    shared->phase = OPEN;
  } else if (what < 75) {
    write_batch(w, 1);
  } else if (what < 84) {
    savepoint(w);
  } else if (what < 88) {
    commit_alone(w);
  } else if (what < 96) {
    prepare_and_end(w);
  } else {
    emb_rollback(w->txn);
    forget_txn(w);
    shared->actions[4]++;
  }
}

/* Never returns: killed by its parent, by itself, or by a failed check. */
static void write_until_killed(uint64_t random) {
  struct writer w = {.random = random};
  emb_config c = config_of(&w.random);
  emb_store *store;
  uint64_t most = roll(&w, 4) ? UINT64_MAX : roll(&w, 300);
  int more;
  if (!help_open(dir, &c, &store, &w.txn) ||
      !CHECK_EQ_INT(emb_session_open(store, &w.direct, NULL), EMB_OK))
    _exit(1);
  for (uint64_t i = 0; i < most; i++) {
    act(&w);
    if (c.flags & EMB_OPEN_STEP && roll(&w, 4) == 0)
      CHECK_EQ_INT(emb_step(store, &more), EMB_OK);
    if (atomic_load(&test_state.failures))
      _exit(1);
  }
  raise(SIGKILL);
}

/* ---- the check ----------------------------------------------------------- */

/* Was the key deleted by this event or a later visible one? */
static int may_be_absent(uint32_t key) {
  uint32_t from = shared->durable[key];
  if (from == 0 || shared->events[from].kind == DEL)
    return 1;
  for (uint32_t seq = from + 1; seq <= shared->seq; seq++) {
    const struct event *e = &shared->events[seq];
    if (e->key == key && e->kind == DEL && e->visible)
      return 1;
  }
  return 0;
}

static int may_be_found(uint32_t key, uint32_t seq) {
  const struct event *e = &shared->events[seq];
  return seq && seq <= shared->seq && e->key == key && e->kind == PUT &&
         e->visible && seq >= shared->durable[key];
}

/* found[k]: the event of the row found, 0 if absent. */
static void read_all(emb_session *s, uint32_t *found) {
  static int64_t keys[KEYS];
  static float vectors[KEYS * DIM];
  static uint8_t there[KEYS];
  uint64_t count = 0;
  for (uint32_t k = 0; k < KEYS; k++)
    keys[k] = key_of(k);
  OK(s, emb_get(s, keys, KEYS, vectors, there, NULL));
  for (uint32_t k = 0; k < KEYS; k++) {
    const float *v = vectors + (size_t)k * DIM;
    float want[DIM];
    found[k] = 0;
    count += there[k];
    if (!there[k])
      continue;
    found[k] = (uint32_t)v[0];
    make_vector(want, k, found[k]);
    if (memcmp(v, want, sizeof want) != 0)
      CHECK_EQ_INT(k, -1); /* another key's vector, or a torn one */
  }
  CHECK_EQ_INT(emb_count(s), count);
}

/* A transaction that the engine committed is there completely or not at all. */
static void check_groups(const uint32_t *found) {
  static uint8_t seen[EVENTS];
  memset(seen, 0, (size_t)shared->group + 1);
  for (uint32_t k = 0; k < KEYS; k++)
    if (found[k])
      seen[shared->events[found[k]].group] = 1;
  for (uint32_t seq = 1; seq <= shared->seq; seq++) {
    const struct event *e = &shared->events[seq];
    if (!e->group || !seen[e->group])
      continue;
    uint32_t f = found[e->key];
    int good = e->kind == DEL ? f == 0 || f > seq : f >= seq;
    for (uint32_t later = seq + 1; !good && f == 0 && later <= shared->seq;
         later++)
      good = shared->events[later].key == e->key &&
             shared->events[later].kind == DEL && shared->events[later].visible;
    if (!good)
      test_check(0, __FILE__, __LINE__,
                 "transaction %u is there, but key %u has %u, not %u", e->group,
                 e->key, f, seq);
  }
}

static void check_state(const uint32_t *found, const char *when) {
  for (uint32_t k = 0; k < KEYS; k++) {
    if (found[k] ? may_be_found(k, found[k]) : may_be_absent(k))
      continue;
    const struct event *e = &shared->events[found[k]];
    test_check(0, __FILE__, __LINE__,
               "%s: key %u has event %u (kind %u, visible %u), durable %u "
               "(group %u), written %u, phase %d",
               when, k, found[k], e->kind, e->visible, shared->durable[k],
               shared->events[shared->durable[k]].group, shared->now[k],
               (int)shared->phase);
  }
  check_groups(found);
}

static void complain(void *arg, const char *text) {
  (void)arg;
  test_check(0, __FILE__, __LINE__, "emb_verify: %s", text);
}

/* Does the phase allow this answer of emb_in_doubt? */
static void check_doubt(uint64_t doubt, uint64_t committed) {
  if (shared->phase == PREPARED)
    CHECK(doubt == shared->number);
  else if (shared->phase == DECIDED)
    CHECK(doubt == shared->number || committed == shared->number);
  else if (doubt && doubt != shared->committed &&
           doubt != shared->rolled_back) {
    CHECK(shared->phase == PREPARING || shared->phase == OPEN);
    CHECK(doubt > shared->committed);
  }
  if (!doubt && shared->phase != DECIDED)
    CHECK(committed == shared->committed);
}

/* Resolves as the coordinator would; 1: the open transaction is committed. */
static int resolve(emb_store *store, uint64_t doubt, uint64_t *random) {
  emb_err err = {0, ""};
  int ours = doubt > shared->committed &&
             (shared->phase == PREPARED || shared->phase == DECIDED ||
              (shared->phase == PREPARING && doubt != shared->rolled_back));
  int decided = shared->phase == DECIDED || doubt == shared->committed;
  if (!decided && ours) /* unknown: both are right */
    decided = test_random_from(random) % 2 == 0;
  int rc = emb_resolve(store, emb_in_doubt(store), decided, &err);
  if (rc == EMB_CORRUPT && decided && shared->phase == PREPARING) {
    /* Killed while its pages were being written, in any order: its last one
    ** is there and another is missing.  Its prepare has not returned. */
    decided = 0;
    rc = emb_resolve(store, emb_in_doubt(store), decided, &err);
  }
  test_check(rc == EMB_OK, __FILE__, __LINE__, "emb_resolve: %s", err.text);
  CHECK_EQ_INT(emb_in_doubt(store), 0);
  if (decided)
    CHECK(emb_committed(store) == doubt);
  return ours && decided;
}

/* Exit status: 0 good, 1 failed, 2 left before resolving: look again. */
static void check_after_kill(uint64_t random) {
  static uint32_t found[KEYS];
  emb_config c = config_of(&random);
  emb_store *store;
  emb_session *s;
  emb_err err = {0, ""};
  if (!help_open(dir, &c, &store, &s))
    _exit(1);
  uint64_t doubt = emb_in_doubt(store);
  check_doubt(doubt, emb_committed(store));
  if (doubt) {
    read_all(s, found); /* the state before it, or an earlier state */
    CHECK_EQ_INT(emb_begin(s), EMB_LOCKED);
    if (shared->phase != DECIDED && doubt != shared->committed)
      check_state(found, "in doubt");
    if (test_random_from(&random) % 4 == 0)
      _exit(atomic_load(&test_state.failures) ? 1 : 2);
    if (resolve(store, doubt, &random))
      shared->phase = DECIDED;
  }
  if (shared->phase == DECIDED) {
    apply_pending(0);
    take_pending();
    for (uint32_t k = 0; k < KEYS; k++)
      if (shared->pending[k])
        shared->durable[k] = shared->pending[k];
  }
  read_all(s, found);
  check_state(found, "recovered");
  if (atomic_load(&test_state.failures))
    printf("doubt %" PRIu64 ", committed %" PRIu64 " (store: %" PRIu64
           "), undone %" PRIu64 ", prepared %" PRIu64 ", newest event %u\n",
           doubt, shared->committed, emb_committed(store), shared->rolled_back,
           shared->number, shared->seq);
  OK(s, emb_verify(s, complain, NULL));
  shared->committed = emb_committed(store);
  if (test_random_from(&random) % 2) {
    emb_session_close(s);
    int rc = emb_close(store, &err);
    test_check(rc == EMB_OK, __FILE__, __LINE__, "emb_close: %s", err.text);
  }
  /* The next round begins with the rows found. */
  memcpy(shared->now, found, sizeof found);
  memcpy(shared->durable, found, sizeof found);
  memset(shared->pending, 0, sizeof shared->pending);
  shared->phase = IDLE;
  shared->actions[5] += doubt != 0;
  _exit(atomic_load(&test_state.failures) ? 1 : 0);
}

/* ---- rounds -------------------------------------------------------------- */

static int run_child(void (*run)(uint64_t), int kill_it) {
  uint64_t seed = test_random();
  long patience = (long)(test_random() % 40000);
  pid_t child = test_fork();
  if (child == 0) {
    run(seed);
    _exit(1);
  }
  int status = 0;
  if (kill_it) {
    usleep((useconds_t)patience);
    kill(child, SIGKILL);
  }
  CHECK(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status))
    return WEXITSTATUS(status);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 0 : 1;
}

/* Event numbers start again: the rows found get small ones. */
static void renumber(void) {
  shared->group = 0;
  if (shared->seq < EVENTS / 2)
    return;
  emb_err err;
  CHECK_EQ_INT(emb_destroy(dir, &err), EMB_OK);
  memset(shared, 0, sizeof *shared);
}

TEST(killed_writers) {
  char path[300];
  if (!test_dir())
    return;
  (void)snprintf(path, sizeof path, "%s/store", test_dir());
  dir = path;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (!CHECK(shared != MAP_FAILED))
    return;
  uint64_t totals[8] = {0}, kills = 0;
  time_t end = time(NULL) + 4 * (time_t)help_long();
  for (int round = 0; round < 10 || time(NULL) < end; round++) {
    int status = run_child(write_until_killed, 1);
    if (!CHECK_EQ_INT(status, 0))
      break;
    do {
      status = run_child(check_after_kill, 0);
      kills += status == 0 || status == 2;
    } while (status == 2);
    if (!test_check(status == 0, __FILE__, __LINE__, "in round %d", round))
      break;
    for (int i = 0; i < 8; i++) {
      totals[i] += shared->actions[i];
      shared->actions[i] = 0;
    }
    for (uint32_t seq = 1; seq <= shared->seq; seq++)
      shared->events[seq].group = 0;
    renumber();
  }
  test_count("kill points", kills);
  if (getenv("VERBOSE"))
    printf("%" PRIu64 " commits alone, %" PRIu64 " undone after prepare, "
           "%" PRIu64 " commits, %" PRIu64 " checkpoints, %" PRIu64
           " rollbacks, %" PRIu64 " in doubt\n",
           totals[0], totals[1], totals[2], totals[3], totals[4], totals[5]);
  munmap(shared, sizeof *shared);
}
