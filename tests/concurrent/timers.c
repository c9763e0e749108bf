/* SPDX-License-Identifier: MIT
**
** timers.c -- the times in seconds that the manual and engine/README.md
** promise, on an env whose clock moves only when the test or the engine's own
** sleeps move it.  No test waits for the time that it tests.
*/
#include "process_help.h"
#include "staleness_help.h"

#include "engine/storage/cache/cache.h"
#include "engine/table/owner/registry.h"
#include "failing.h"
#include "files.h"

#include <poll.h>
#include <sys/wait.h>

#define SECOND UINT64_C(1000000)
#define START (1000 * SECOND)

static struct failing clock_env;

/* From now on the engine's clock stands still. */
static void stop_clock(void) {
  failing_init(&clock_env, &env_posix, 1);
  clock_env.still_us = START;
  env_set_default(&clock_env.env);
}

static void real_clock(void) {
  env_set_default(&env_posix);
  CHECK_EQ_INT(failing_out(&clock_env), 0);
  failing_free(&clock_env);
}

static void pass_ms(uint64_t ms) { failing_pass(&clock_env, ms * 1000); }

static uint64_t now_ms(void) {
  return clock_env.env.now_us(&clock_env.env) / 1000;
}

/* All background work that is due now. */
static void step(emb_store *store) {
  int more = 1;
  while (more && CHECK_EQ_INT(emb_step(store, &more), EMB_OK))
    ;
}

static int64_t checkpoints(emb_store *store) {
  return help_stat(store, "checkpoints");
}

/* ---- a checkpoint a minute after the last one ---------------------------- */

/* The value in a copy of the files, as after the death of the process;
** INT32_MIN: no value. */
static int32_t saved(const char *dir, int64_t key) {
  const char *copy = help_path("copy");
  emb_config config = {.dim = DIM, .memory_bytes = 1, .flags = EMB_OPEN_STEP};
  emb_store *store;
  emb_session *s;
  int32_t value = INT32_MIN;
  if (CHECK(files_copy_dir(copy, dir)) &&
      help_open(copy, &config, &store, &s)) {
    value = help_peek(s, key);
    help_close(store, s);
  }
  CHECK_EQ_INT(emb_destroy(copy, NULL), EMB_OK);
  return value;
}

static void put_in_place(emb_session *s) { OK(s, help_put(s, 1, 5)); }

static void add_to_it(emb_session *s) {
  int64_t key = 1;
  float one[DIM];
  for (int i = 0; i < DIM; i++)
    one[i] = 1;
  OK(s, emb_rmw(s, &key, 1, one, NULL, NULL));
}

static void delete_it(emb_session *s) {
  int64_t key = 1;
  OK(s, emb_delete(s, &key, 1, NULL));
}

static void write_it_back(emb_session *s) {
  float vector[DIM];
  int64_t key = 1;
  uint64_t ticket;
  help_vector(vector, DIM, 1, 7);
  OK(s, emb_write_back(s, &key, 1, vector, &ticket));
  OK(s, emb_write_back_synchronize(s, ticket, NULL));
}

static void commit_put(emb_session *s) {
  float vector[DIM];
  int64_t key = 1;
  help_vector(vector, DIM, 1, 8);
  OK(s, emb_begin(s));
  OK(s, emb_txn_put(s, &key, 1, vector));
  OK(s, emb_commit(s));
}

static void commit_delete(emb_session *s) {
  int64_t key = 1;
  OK(s, emb_begin(s));
  OK(s, emb_txn_delete(s, &key, 1, NULL));
  OK(s, emb_commit(s));
}

/* The rows are in a checkpoint before it is known that they count. */
static void commit_after_checkpoint(emb_session *s) {
  float vector[DIM];
  int64_t key = 1;
  emb_session *other;
  emb_err err;
  help_vector(vector, DIM, 1, 9);
  OK(s, emb_begin(s));
  OK(s, emb_txn_put(s, &key, 1, vector));
  if (CHECK_EQ_INT(emb_session_open(emb_session_store(s), &other, &err), 0))
    OK(other, emb_checkpoint(other));
  emb_session_close(other);
  step(emb_session_store(s)); /* sees the checkpoint: its minute begins */
  OK(s, emb_commit(s));
}

static void only_read(emb_session *s) {
  OK(s, get_one(s, 1, NULL));
  CHECK_EQ_INT(emb_release(s), 1);
}

static void roll_back(emb_session *s) {
  OK(s, emb_begin(s));
  emb_rollback(s);
}

static const struct row_change {
  const char *name;
  void (*make)(emb_session *);
  int32_t value;   /* of key 1, which was 4, when it is saved */
  int checkpoints; /* taken for it a minute later */
} changes[] = {
    {"put", put_in_place, 5, 1},
    {"rmw", add_to_it, 5, 1},
    {"write-back", write_it_back, 7, 1},
    {"delete", delete_it, INT32_MIN, 1},
    {"commit of a put", commit_put, 8, 1},
    {"commit of a delete", commit_delete, INT32_MIN, 1},
    {"commit after a checkpoint", commit_after_checkpoint, 9, 2},
    {"reads", only_read, 4, 0},
    {"rollback", roll_back, 4, 0},
};

static void check_change(struct bounded *x, const struct row_change *change) {
  const char *dir = help_path("store");
  OK(x->a, help_put(x->a, 1, 4));
  OK(x->a, emb_checkpoint(x->a));
  step(x->store); /* sees it: its minute begins */
  CHECK_EQ_INT(saved(dir, 1), 4);
  pass_ms(20000);
  int64_t before = checkpoints(x->store);
  change->make(x->a);
  int by_hand = change->checkpoints > 1;
  int64_t begin = before + by_hand;
  step(x->store);
  pass_ms(by_hand ? 59999 : 39999);
  step(x->store);
  CHECK_EQ_INT(checkpoints(x->store), begin);
  pass_ms(2);
  step(x->store);
  CHECK_EQ_INT(checkpoints(x->store), before + change->checkpoints);
  CHECK_EQ_INT(saved(dir, 1), change->value);
  pass_ms(200000); /* nothing new */
  step(x->store);
  CHECK_EQ_INT(checkpoints(x->store), before + change->checkpoints);
}

TEST(checkpoint_a_minute_after_the_last) {
  struct bounded x;
  int n = sizeof changes / sizeof changes[0];
  stop_clock();
  if (bounded_open(&x, 1, 0, EMB_OPEN_STEP)) {
    for (int i = 0; i < n; i++) {
      unsigned before = atomic_load(&test_state.failures);
      check_change(&x, &changes[i]);
      if (atomic_load(&test_state.failures) > before)
        printf("(after: %s)\n", changes[i].name);
    }
    /* A write after a long rest need not wait. */
    OK(x.a, help_put(x.a, 1, 11));
    step(x.store);
    CHECK_EQ_INT(saved(help_path("store"), 1), 11);
    bounded_close(&x);
  }
  real_clock();
  printf("%d kinds of change\n", n);
}

/* A put that comes while a checkpoint is being taken is not in it. */
static struct {
  emb_session *s;
  int left; /* calls until it is put */
} meanwhile;

static int put_meanwhile(struct env *env, struct env_file *file) {
  if (meanwhile.s && meanwhile.left-- == 0)
    OK(meanwhile.s, help_put(meanwhile.s, 1, 77));
  return env_posix.sync(env, file);
}

TEST(put_during_a_checkpoint_is_saved_by_the_next) {
  static struct env below;
  struct bounded x;
  int runs = 0, in_first = 0;
  for (int left = 0; left < 3; left++, runs++) {
    failing_init(&clock_env, &below, 1);
    below = env_posix;
    below.sync = put_meanwhile;
    clock_env.still_us = START;
    env_set_default(&clock_env.env);
    if (bounded_open(&x, 1, 0, EMB_OPEN_STEP)) {
      const char *dir = help_path("store");
      OK(x.a, help_put(x.a, 1, 3));
      meanwhile.s = x.b;
      meanwhile.left = left; /* index file, log, manifest */
      OK(x.a, emb_checkpoint(x.a));
      meanwhile.s = NULL;
      CHECK_EQ_INT(help_peek(x.a, 1), 77);
      step(x.store);
      in_first += saved(dir, 1) == 77;
      pass_ms(60001);
      step(x.store);
      CHECK_EQ_INT(saved(dir, 1), 77);
      bounded_close(&x);
      CHECK_EQ_INT(emb_destroy(dir, NULL), EMB_OK);
    }
    real_clock();
  }
  CHECK(in_first < runs); /* else the test shows nothing */
}

/* ---- space is freed when nothing was put for a second -------------------- */

/* Waits until the store's thread has looked at the clock `n` times. */
static int looks(uint64_t n) {
  struct timespec pause = {0, 1000000};
  for (int i = 0; i < 30000; i++) {
    pthread_mutex_lock(&clock_env.lock);
    uint64_t now = clock_env.looks;
    pthread_mutex_unlock(&clock_env.lock);
    if (now >= n)
      return 1;
    (void)nanosleep(&pause, NULL);
  }
  return test_check(0, __FILE__, __LINE__, "the thread does not look");
}

/* Waits for two full rounds of the thread. */
static int let_it_look(void) {
  pthread_mutex_lock(&clock_env.lock);
  uint64_t now = clock_env.looks;
  pthread_mutex_unlock(&clock_env.lock);
  return looks(now + 8);
}

/* When the thread first saw the last write, once it has, in microseconds; 0: it
** has not yet. */
static uint64_t seen_us(emb_store *store) {
  struct tasks *tasks = &store->tasks;
  uint64_t us;
  pthread_mutex_lock(&store->core.ckpt_lock);
  us = tasks->seen_version == atomic_load(&store->core.version) ? tasks->seen_us
                                                                : 0;
  pthread_mutex_unlock(&store->core.ckpt_lock);
  return us;
}

/* Waits for that. */
static int let_it_see(emb_store *store) {
  struct timespec pause = {0, 1000000};
  for (int i = 0; i < 30000 && !seen_us(store); i++)
    (void)nanosleep(&pause, NULL);
  return CHECK(seen_us(store) != 0);
}

TEST(space_is_freed_after_a_quiet_second) {
  enum { TWICE = 12000 };
  struct bounded x;
  struct timespec pause = {0, 1000000};
  stop_clock();
  if (bounded_open(&x, 1, 0, 0)) {
    /* Every key twice: the first half of the log is dead. */
    help_put_rows(x.a, 0, 1, TWICE, 1);
    OK(x.a, emb_checkpoint(x.a));
    help_put_rows(x.a, 0, 1, TWICE, 2);
    int64_t before = checkpoints(x.store);
    for (int i = 0; i < 4 && let_it_see(x.store); i++) {
      pass_ms(999);
      if (!let_it_look())
        break;
      /* A sleep of the engine's own also moves the clock. */
      int64_t now = checkpoints(x.store);
      if (now_ms() < seen_us(x.store) / 1000 + 1000)
        CHECK_EQ_INT(now, before);
      before = now;
      OK(x.a, help_put(x.a, 1, 3 + i));
    }
    CHECK(let_it_see(x.store));
    CHECK(help_stat(x.store, "dead_bytes") > 0);
    pass_ms(1000);
    for (int i = 0; i < 30000 && checkpoints(x.store) == before; i++)
      (void)nanosleep(&pause, NULL);
    CHECK_EQ_INT(checkpoints(x.store), before + 1);
    CHECK_EQ_INT(help_stat(x.store, "dead_bytes"), 0);
    bounded_close(&x);
  }
  real_clock();
}

/* ---- look-ahead ---------------------------------------------------------- */

enum { PINNED = 300 };

static void far_keys(int64_t *keys, int64_t from) {
  for (int i = 0; i < PINNED; i++)
    keys[i] = from + (int64_t)i * 60;
}

/* Gets of all keys except these, several times: every row that may leave the
** cache does. */
static void crowd(emb_session *s, int64_t besides) {
  int64_t keys[CHUNK];
  float *vectors = malloc(sizeof(float[CHUNK][DIM]));
  for (int round = 0; CHECK(vectors != NULL) && round < 4; round++) {
    for (int64_t key = 0; key < MANY;) {
      int n = 0;
      for (; n < CHUNK && key < MANY; key++)
        if (key % 60 != besides)
          keys[n++] = key;
      OK(s, emb_get(s, keys, (size_t)n, vectors, NULL, NULL));
      CHECK_EQ_INT(emb_release(s), n);
    }
  }
  free(vectors);
}

/* How many of the keys a peek finds in the store's cache. */
static int64_t in_cache(struct bounded *x, const int64_t *keys) {
  float *vectors = malloc(sizeof(float[PINNED][DIM]));
  int64_t before = help_stat(x->store, "get_disk");
  if (CHECK(vectors != NULL))
    OK(x->c, emb_peek(x->c, keys, PINNED, vectors, NULL, NULL));
  free(vectors);
  return PINNED - (help_stat(x->store, "get_disk") - before);
}

static int open_many(struct bounded *x) {
  return bounded_open(x, 1, FOR_EVER, EMB_OPEN_STEP) &&
         help_put_rows(x->a, 0, 1, MANY, 1) && OK(x->a, emb_optimize(x->a));
}

/* The number of keys still in the cache after `ms` in which others crowd it. */
static int64_t left_after(struct bounded *x, int64_t from, uint64_t ms) {
  int64_t keys[PINNED];
  emb_ahead a = {0};
  far_keys(keys, from);
  if (!OK(x->b, emb_lookahead(x->b, keys, PINNED, EMB_AHEAD_BUFFER, &a)) ||
      !OK(x->b, emb_lookahead_wait(x->b, a.number)) ||
      !OK(x->b, emb_lookahead_progress(x->b, a.number, &a)))
    return -1;
  CHECK(a.to_read > PINNED / 2);
  CHECK_EQ_INT(a.refused, 0);
  pass_ms(ms);
  crowd(x->a, from);
  return in_cache(x, keys);
}

TEST(look_ahead_is_kept_for_a_minute) {
  struct bounded x;
  stop_clock();
  if (open_many(&x)) {
    CHECK_EQ_INT(left_after(&x, 1, 59999), PINNED);
    int64_t late = left_after(&x, 2, 61000); /* whole seconds are counted */
    CHECK(late < PINNED / 2);
    printf("a minute later %d of %d are left\n", (int)late, PINNED);
    bounded_close(&x);
  }
  real_clock();
}

/* The session's own cache has a limit; rows older than a minute make room for
** new rows. */
TEST(look_ahead_of_a_session_is_kept_for_a_minute) {
  enum { FULL = 3000 };
  struct bounded x;
  int64_t keys[FULL];
  emb_ahead a = {0};
  stop_clock();
  if (open_many(&x)) {
    uint64_t refused[3];
    for (int i = 0; i < 3; i++) {
      for (int k = 0; k < FULL; k++)
        keys[k] = i + (int64_t)k * 5;
      OK(x.b, emb_lookahead(x.b, keys, FULL, EMB_AHEAD_CACHE, &a));
      OK(x.b, emb_lookahead_wait(x.b, a.number));
      refused[i] = a.refused;
      pass_ms(i == 0 ? 60000 : 1);
    }
    CHECK(refused[0] < FULL / 2);
    CHECK(refused[1] > refused[0]);       /* the first ones are still kept */
    CHECK_EQ_INT(refused[2], refused[0]); /* and no longer */
    bounded_close(&x);
  }
  real_clock();
}

/* ---- waits that end with the timeout ------------------------------------- */

enum { TIMEOUT = 5000 };

static struct {
  uint64_t from, last; /* ms: when the call began, and when it last asked */
} waited;

static int note_time(void *arg) {
  (void)arg;
  waited.last = now_ms();
  return 0;
}

static void begin_wait(emb_session *s) {
  emb_session_interrupt(s, note_time, NULL);
  waited.from = waited.last = now_ms();
}

/* A session that waits asks at least this often whether it is interrupted. */
enum { ASKS_MS = 100 };

/* The call has just ended with EMB_BUSY: at the timeout or at most one round
** of waiting later, and it was still waiting one round, and the time between
** two questions, before the timeout. */
static void check_wait(emb_session *s, const char *text) {
  uint64_t round = 11 + clock_env.late_us / 1000;
  uint64_t took = now_ms() - waited.from;
  uint64_t patient = waited.last - waited.from;
  test_check(took >= TIMEOUT && took <= TIMEOUT + round, __FILE__, __LINE__,
             "%s: took %d ms", text, (int)took);
  test_check(patient + round + ASKS_MS >= TIMEOUT, __FILE__, __LINE__,
             "%s: waited until %d ms", text, (int)patient);
  test_check(strstr(emb_errmsg(s), text) != NULL, __FILE__, __LINE__, "%s",
             emb_errmsg(s));
}

static const char *const lease_text =
    "key 7 has 2 pending reads and the staleness bound is 1";
static const char *const held_text = "key 7 is held by another transaction";

/* c waits for keys that a and b have read. */
static void wait_for_leases(struct bounded *x) {
  float vectors[2][DIM];
  int64_t keys[2] = {7, 8};
  uint64_t ticket, clock = 2;
  OK(x->a, get_one(x->a, 7, NULL));
  OK(x->b, get_one(x->b, 7, NULL));
  begin_wait(x->c);
  GIVES(x->c, EMB_BUSY, get_one(x->c, 7, NULL));
  check_wait(x->c, lease_text);
  begin_wait(x->c);
  GIVES(x->c, EMB_BUSY, emb_get(x->c, keys, 2, vectors[0], NULL, NULL));
  check_wait(x->c, lease_text);
  CHECK_EQ_INT(pending_of(x->c, 8), 0);
  begin_wait(x->c);
  OK(x->c,
     emb_prefetch(x->c, keys, 2, &(emb_rows){.vectors = vectors[0]}, &ticket));
  CHECK_EQ_INT(now_ms() - waited.from, 0);
  GIVES(x->c, EMB_BUSY, emb_prefetch_synchronize(x->c, ticket, NULL));
  check_wait(x->c, lease_text);
  CHECK_EQ_INT(emb_leases(x->c), 0);
  CHECK_EQ_INT(pending_of(x->c, 7), clock);
  CHECK_EQ_INT(emb_tickets(x->c, NULL), 0);
  /* All leases are its own: it fails immediately. */
  OK(x->a, help_put(x->a, 7, 1));
  OK(x->b, get_one(x->b, 7, NULL));
  begin_wait(x->b);
  GIVES(x->b, EMB_BUSY, get_one(x->b, 7, NULL));
  CHECK_EQ_INT(now_ms() - waited.from, 0);
  CHECK_EQ_INT(emb_release(x->b), 2);
}

/* Waits for keys and the store, which a's transaction holds. */
static void wait_for_transaction(struct bounded *x) {
  float vector[DIM] = {0};
  int64_t key = 7;
  OK(x->a, emb_begin(x->a));
  OK(x->a, emb_txn_put(x->a, &key, 1, vector));
  begin_wait(x->c);
  GIVES(x->c, EMB_BUSY, help_put(x->c, 7, 1));
  check_wait(x->c, held_text);
  begin_wait(x->c);
  GIVES(x->c, EMB_BUSY, emb_rmw(x->c, &key, 1, vector, NULL, NULL));
  check_wait(x->c, held_text);
  begin_wait(x->c);
  GIVES(x->c, EMB_BUSY, emb_delete(x->c, &key, 1, NULL));
  check_wait(x->c, held_text);
  begin_wait(x->c);
  GIVES(x->c, EMB_BUSY, emb_begin(x->c));
  check_wait(x->c, "another connection has a transaction open on ");
  emb_rollback(x->a);
  OK(x->c, emb_begin(x->c));
  emb_rollback(x->c);
}

/* A wait is measured by the clock: sleeps that take longer than asked for do
** not make the wait longer. */
TEST(waits_end_at_the_timeout) {
  struct bounded x;
  for (int late = 0; late < 2; late++) {
    stop_clock();
    clock_env.jump = 1;
    clock_env.late_us = late ? 3000 : 0;
    if (bounded_open(&x, 1, TIMEOUT, EMB_OPEN_STEP)) {
      help_put_rows(x.a, 0, 1, 10, 1);
      wait_for_leases(&x);
      wait_for_transaction(&x);
      CHECK(help_verify(x.a));
      bounded_close(&x);
      CHECK_EQ_INT(emb_destroy(help_path("store"), NULL), EMB_OK);
    }
    real_clock();
  }
}

/* ---- another process ----------------------------------------------------- */

/* A process that owns the store "store" and obeys one-byte commands. */
static void own(int from, int to, void (*act)(emb_session *, char)) {
  struct bounded x;
  char order;
  ssize_t got = bounded_open(&x, 1, 0, EMB_OPEN_STEP) ? 1 : -1;
  for (order = 0; got == 1; got = read(from, &order, 1)) {
    act(x.a, order);
    if (write(to, &order, 1) != 1)
      break;
  }
  _exit(0);
}

static int owner_obeys(struct process *o, char order) {
  struct pollfd ready = {.fd = o->hear, .events = POLLIN};
  char back;
  return CHECK(order == 0 || write(o->say, &order, 1) == 1) &&
         CHECK(poll(&ready, 1, 30000) == 1 && read(o->hear, &back, 1) == 1);
}

static int owner_start(struct process *o, void (*act)(emb_session *, char)) {
  int hear, say;
  if (!CHECK(test_dir() != NULL))
    return 0;
  if (process_fork(o, &hear, &say)) {
    (void)alarm(60);
    own(hear, say, act);
  }
  return CHECK(o->pid > 0) && owner_obeys(o, 0);
}

static void owner_end(struct process *o) {
  (void)close(o->say);
  (void)close(o->hear);
  CHECK(waitpid(o->pid, NULL, 0) == o->pid);
}

/* Sets key 1 to the number of the order, and takes a checkpoint. */
static void put_and_save(emb_session *s, char order) {
  (void)help_put(s, 1, order);
  (void)emb_checkpoint(s);
}

TEST(a_reader_looks_every_5_ms) {
  struct process o;
  struct bounded x;
  if (!owner_start(&o, put_and_save))
    return;
  stop_clock();
  if (bounded_open(&x, 1, 0, EMB_OPEN_STEP)) {
    CHECK_EQ_INT(help_peek(x.a, 1), 0);
    for (int n = 1; n <= 3 && owner_obeys(&o, (char)n); n++) {
      CHECK_EQ_INT(help_peek(x.a, 1), n - 1);
      failing_pass(&clock_env, 4999);
      CHECK_EQ_INT(help_peek(x.a, 1), n - 1);
      failing_pass(&clock_env, 1);
      CHECK_EQ_INT(help_peek(x.a, 1), n);
    }
    bounded_close(&x);
  }
  real_clock();
  owner_end(&o);
}

static void own_put(struct bounded *x) {
  GIVES(x->c, EMB_BUSY, help_put(x->c, 1, 1));
}
static void own_begin(struct bounded *x) {
  GIVES(x->c, EMB_BUSY, emb_begin(x->c));
}
static void own_checkpoint(struct bounded *x) {
  GIVES(x->c, EMB_BUSY, emb_checkpoint(x->c));
}

static void (*const writes_of_c[])(struct bounded *) = {own_put, own_begin,
                                                        own_checkpoint};

TEST(writes_wait_for_the_owner_until_the_timeout) {
  struct process o;
  struct bounded x;
  char text[600];
  if (!owner_start(&o, put_and_save))
    return;
  stop_clock();
  clock_env.jump = 1;
  if (bounded_open(&x, 1, TIMEOUT, EMB_OPEN_STEP)) {
    (void)snprintf(text, sizeof text, "%s is owned by another process",
                   help_path("store"));
    for (size_t i = 0; i < sizeof writes_of_c / sizeof writes_of_c[0]; i++) {
      begin_wait(x.c);
      writes_of_c[i](&x);
      check_wait(x.c, text);
    }
    emb_session_interrupt(x.c, help_interrupt, NULL);
    GIVES(x.c, EMB_INTERRUPT, help_put(x.c, 1, 1));
    GIVES(x.c, EMB_INTERRUPT, emb_begin(x.c));
    emb_session_interrupt(x.c, NULL, NULL);
    owner_end(&o);
    OK(x.c, help_put(x.c, 1, 1)); /* it has died */
    CHECK(help_verify(x.c));
    bounded_close(&x);
  }
  real_clock();
}
