/* SPDX-License-Identifier: MIT
**
** remote.c -- a store that another process owns: each call of emb.h, sent to
** the owner, does what it does in the owner.
**
** The owner is a child, forked before this process has opened anything.  A
** second client reads what the store must hold afterwards, or this process
** does when the owner has gone and this process has become the owner. */
#include "process_help.h"
#include "store_help.h"

#include "engine/table/owner/registry.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DIM = 16, N = 3000 };

static emb_config config = {.dim = DIM,
                            .flags = EMB_OPEN_CREATE,
                            .optimizer = "adagrad(lr=0.1)",
                            .track = EMB_TRACK_DATA,
                            .timeout_ms = 5000};

/* ---- an owner ------------------------------------------------------------ */

/* Owns the store, says so, and closes it when it is told to. */
static void own(const char *dir, int hear, int say) {
  emb_store *store;
  emb_session *s;
  emb_err err;
  char byte = 0;
  if (emb_open(dir, &config, &store, &err) ||
      emb_session_open(store, &s, &err) || emb_own(s))
    _exit(2);
  (void)!write(say, "o", 1);
  (void)!read(hear, &byte, 1);
  emb_session_close(s);
  _exit(emb_close(store, &err) ? 3 : 0);
}

static int owner_start_as(struct process *o, const char *dir,
                          void (*run)(const char *, int, int), char said) {
  int hear, say;
  char byte = 0;
  if (process_fork(o, &hear, &say)) {
    (void)alarm(SANITIZED ? 600 : 120);
    run(dir, hear, say);
  }
  return CHECK(read(o->hear, &byte, 1) == 1 && byte == said);
}

static int owner_start(struct process *o, const char *dir) {
  return owner_start_as(o, dir, own, 'o');
}

static void owner_wait(struct process *o, int is_good) {
  int status = -1;
  (void)close(o->say);
  (void)close(o->hear);
  CHECK_EQ_INT(waitpid(o->pid, &status, 0), o->pid);
  CHECK_EQ_INT(WIFEXITED(status) && WEXITSTATUS(status) == 0, is_good);
}

/* Makes the owner close the store. */
static void owner_leave(struct process *o) {
  CHECK(write(o->say, "x", 1) == 1);
  owner_wait(o, 1);
}

static void owner_kill(struct process *o) {
  CHECK(kill(o->pid, SIGKILL) == 0);
  owner_wait(o, 0);
}

/* ---- a second client ----------------------------------------------------- */

/* A child that opens the store as a client, does `work`, says so, and waits. */
static int other_start(struct process *o, const char *dir,
                       void (*work)(emb_session *s)) {
  int hear, say;
  char byte = 0;
  if (process_fork(o, &hear, &say)) {
    emb_store *store;
    emb_session *s;
    emb_err err;
    (void)alarm(SANITIZED ? 600 : 120);
    if (emb_open(dir, &config, &store, &err) ||
        emb_session_open(store, &s, &err))
      _exit(2);
    work(s);
    (void)!write(say, "o", 1);
    (void)!read(hear, &byte, 1);
    emb_session_close(s);
    _exit(emb_close(store, &err) ? 3 : 0);
  }
  return CHECK(read(o->hear, &byte, 1) == 1 && byte == 'o');
}

/* ---- a client ------------------------------------------------------------ */

struct client {
  struct process owner;
  char dir[512];
  emb_store *store;
  emb_session *s;
};

static int client_begin(struct client *c) {
  memset(c, 0, sizeof *c);
  (void)snprintf(c->dir, sizeof c->dir, "%s", help_path("store"));
  return owner_start(&c->owner, c->dir) &&
         help_open(c->dir, &config, &c->store, &c->s);
}

static void client_end(struct client *c) {
  (void)help_close(c->store, c->s);
  owner_leave(&c->owner);
}

static int64_t keys[N];
static float rows[N * DIM], back[N * DIM];
static uint8_t found[N];
static uint64_t versions[N];

static void fill(int32_t value) {
  for (int i = 0; i < N; i++) {
    keys[i] = i * 7 - 1000;
    help_vector(rows + i * DIM, DIM, keys[i], value);
  }
}

static void put_twos(emb_session *s) {
  fill(2);
  if (emb_put(s, keys, N, rows, NULL))
    _exit(4);
}

/* ---- rows ---------------------------------------------------------------- */

TEST(rows_of_a_client) {
  struct client c;
  if (!client_begin(&c))
    return;
  fill(1);
  OK(c.s, emb_put(c.s, keys, N, rows, versions));
  CHECK(versions[N - 1] > versions[0]);
  OK(c.s, emb_get(c.s, keys, N, back, found, versions));
  CHECK(memcmp(rows, back, sizeof rows) == 0);
  CHECK(memchr(found, 0, N) == NULL);
  CHECK_EQ_INT(emb_count(c.s), N);
  CHECK_EQ_INT(emb_is_owner(c.store), 1);
  OK(c.s, emb_rmw(c.s, keys, 2, rows, found, NULL));
  OK(c.s, emb_peek(c.s, keys, 2, back, NULL, NULL));
  CHECK(back[3] == 2 * rows[3] && back[DIM] == 2 * rows[DIM]);
  OK(c.s, emb_apply_gradients(c.s, keys, 10, rows, NULL, NULL));
  OK(c.s, emb_delete(c.s, keys + 5, 3, found));
  CHECK(found[0] && found[1] && found[2]);
  OK(c.s, emb_exists(c.s, keys + 4, 3, found));
  CHECK(found[0] && !found[1] && !found[2]);
  emb_track tracks[2];
  OK(c.s, emb_tracks(c.s, keys, 2, tracks, NULL));
  CHECK_EQ_INT(tracks[0].frequency, 3);
  rows[DIM * 2 + 1] = NAN;
  GIVES(c.s, EMB_NONFINITE, emb_put(c.s, keys, 3, rows, NULL));
  CHECK(strstr(emb_errmsg(c.s), "element 1") != NULL);
  client_end(&c);
}

/* More than a slot holds, in both directions. */
TEST(large_batch_of_a_client) {
  enum { MANY = 100000 };
  struct client c;
  if (!client_begin(&c))
    return;
  int64_t *many = malloc(MANY * sizeof *many);
  float *vectors = malloc((size_t)MANY * DIM * sizeof *vectors);
  float *read = calloc((size_t)MANY * DIM, sizeof *read);
  for (int64_t i = 0; i < MANY; i++) {
    many[i] = i * i;
    help_vector(vectors + i * DIM, DIM, many[i], 5);
  }
  OK(c.s, emb_put(c.s, many, MANY, vectors, NULL));
  OK(c.s, emb_get(c.s, many, MANY, read, NULL, NULL));
  CHECK(memcmp(vectors, read, (size_t)MANY * DIM * sizeof *read) == 0);
  OK(c.s, emb_begin(c.s));
  vectors[(MANY - 1) * (size_t)DIM] = INFINITY;
  GIVES(c.s, EMB_NONFINITE, emb_txn_put(c.s, many, MANY, vectors));
  emb_rollback(c.s);
  free(many);
  free(vectors);
  free(read);
  client_end(&c);
}

TEST(scans_of_a_client) {
  struct client c;
  emb_scan *scan;
  size_t n, all = 0;
  if (!client_begin(&c))
    return;
  fill(3);
  OK(c.s, emb_put(c.s, keys, N, rows, NULL));
  OK(c.s, emb_scan_open(c.s, -1000, 1000, EMB_SCAN_ASC, &scan));
  int64_t last = INT64_MIN;
  do {
    int64_t some[100];
    OK(c.s, emb_scan_next(scan, 100, some, back, versions, &n));
    for (size_t i = 0; i < n; i++) {
      CHECK(some[i] > last);
      CHECK(help_is(back + i * DIM, DIM, some[i], 3));
      last = some[i];
    }
    all += n;
  } while (n);
  CHECK_EQ_INT(all, 286);
  emb_scan_close(scan);
  client_end(&c);
}

static size_t scan_some(emb_session *s, emb_scan *scan, int with_rows,
                        size_t max, uint8_t *seen, int64_t *last) {
  static int64_t some[N];
  size_t n = 0;
  if (!OK(s, emb_scan_next(scan, max, some, with_rows ? back : NULL, NULL, &n)))
    return 0;
  for (size_t i = 0; i < n; i++) {
    int64_t at = (some[i] + 1000) / 7;
    if (!CHECK(at >= 0 && at < N && some[i] == at * 7 - 1000))
      return 0;
    test_check(!seen[at], __FILE__, __LINE__, "key %d came twice",
               (int)some[i]);
    seen[at] = 1;
    if (with_rows)
      CHECK(help_value(back + i * DIM, DIM, some[i]) > 0);
    *last = some[i];
  }
  return n;
}

/* A session that has nothing but a scan does not notice that the owner
** leaves.  The next owner, or this process without an owner, continues the
** scan and returns each row once, wherever the row is by then. */
static void scan_outlives(int order, int is_owned_again) {
  struct client c;
  struct process next;
  emb_scan *scan;
  uint8_t seen[N] = {0};
  int64_t last = 0;
  int with_rows = order != EMB_SCAN_KEYS;
  if (!client_begin(&c))
    return;
  fill(3);
  OK(c.s, emb_put(c.s, keys, N, rows, NULL));
  if (!OK(c.s, emb_scan_open(c.s, -1000, INT64_MAX, order, &scan)))
    return;
  for (int i = 0; i < 2; i++) {
    CHECK_EQ_INT(scan_some(c.s, scan, with_rows, N / 4, seen, &last), N / 4);
    owner_leave(&c.owner);
    if (is_owned_again) {
      CHECK(owner_start(&next, c.dir));
      c.owner = next;
      fill(4 + i); /* half of all rows move to the end of the log */
      OK(c.s,
         emb_put(c.s, keys + i * N / 4, N / 2, rows + i * N / 4 * DIM, NULL));
    } else {
      i = 2;
    }
  }
  while (scan_some(c.s, scan, with_rows, 100, seen, &last))
    ;
  CHECK(memchr(seen, 0, N) == NULL);
  CHECK(order != EMB_SCAN_ASC || last == keys[N - 1]);
  CHECK(order != EMB_SCAN_DESC || last == keys[0]);
  emb_scan_close(scan);
  if (is_owned_again)
    owner_leave(&c.owner);
  (void)help_close(c.store, c.s);
}

TEST(scan_outlives_owner) { scan_outlives(EMB_SCAN_ANY, 1); }
TEST(ascending_scan_outlives_owner) { scan_outlives(EMB_SCAN_ASC, 1); }
TEST(descending_scan_outlives_owner) { scan_outlives(EMB_SCAN_DESC, 1); }
TEST(scan_of_keys_outlives_owner) { scan_outlives(EMB_SCAN_KEYS, 1); }
TEST(scan_goes_on_without_owner) { scan_outlives(EMB_SCAN_ANY, 0); }
TEST(ascending_scan_goes_on_without_owner) { scan_outlives(EMB_SCAN_ASC, 0); }

/* Rows that the scan returned before its owner died may be lost. */
TEST(scan_ends_with_owner_that_is_killed) {
  struct client c;
  emb_scan *scan;
  uint8_t seen[N] = {0};
  int64_t last;
  size_t n;
  if (!client_begin(&c))
    return;
  fill(3);
  OK(c.s, emb_put(c.s, keys, N, rows, NULL));
  OK(c.s, emb_scan_open(c.s, -1000, INT64_MAX, EMB_SCAN_ANY, &scan));
  (void)scan_some(c.s, scan, 1, 100, seen, &last);
  owner_kill(&c.owner);
  GIVES(c.s, EMB_LOST, emb_peek(c.s, keys, 1, back, NULL, NULL));
  OK(c.s, emb_peek(c.s, keys, 1, back, NULL, NULL));
  GIVES(c.s, EMB_ABORT, emb_scan_next(scan, 100, keys, back, NULL, &n));
  emb_scan_close(scan);
  (void)help_close(c.store, c.s);
}

/* The leaving owner waits for a scan that has returned more than a client
** remembers, but not indefinitely. */
TEST(long_scan_ends_with_owner) {
  enum { MANY = (1 << 20) + 50000, PART = 50000 };
  struct client c;
  emb_scan *scan;
  size_t n = 0, came = 0;
  int64_t *many = malloc(MANY * sizeof *many);
  float *ones = calloc(PART, sizeof *ones);
  config.dim = 1;
  config.optimizer = NULL;
  config.track = 0;
  if (client_begin(&c)) {
    for (int64_t i = 0; i < MANY; i++)
      many[i] = i;
    for (size_t at = 0; at < MANY; at += PART)
      OK(c.s, emb_put(c.s, many + at, at + PART < MANY ? PART : MANY - at, ones,
                      NULL));
    OK(c.s, emb_scan_open(c.s, 0, MANY, EMB_SCAN_KEYS, &scan));
    for (n = 1; n && came < MANY - 10; came += n)
      OK(c.s,
         emb_scan_next(scan, came + PART < MANY - 5 ? PART : MANY - 5 - came,
                       many, NULL, NULL, &n));
    owner_leave(&c.owner);
    GIVES(c.s, EMB_LOST, emb_scan_next(scan, 100, many, NULL, NULL, &n));
    emb_scan_close(scan);
    CHECK_EQ_INT(emb_count(c.s), MANY);
    (void)help_close(c.store, c.s);
  }
  config.dim = DIM;
  config.optimizer = "adagrad(lr=0.1)";
  config.track = EMB_TRACK_DATA;
  free(many);
  free(ones);
}

/* ---- transactions -------------------------------------------------------- */

TEST(transaction_of_a_client) {
  struct client c;
  emb_session *other;
  emb_err err;
  uint64_t number = 0;
  if (!client_begin(&c))
    return;
  OK(NULL, emb_session_open(c.store, &other, &err));
  fill(1);
  OK(c.s, emb_begin(c.s));
  OK(c.s, emb_txn_put(c.s, keys, 100, rows));
  CHECK_EQ_INT(emb_in_transaction(c.s), 1);
  CHECK_EQ_INT(emb_count(c.s), 100);
  CHECK_EQ_INT(emb_count(other), 0);
  emb_set_timeout(c.store, 50);
  GIVES(other, EMB_BUSY, emb_begin(other));
  emb_set_timeout(c.store, 5000);
  OK(c.s, emb_savepoint(c.s, 0));
  OK(c.s, emb_txn_delete(c.s, keys, 50, NULL));
  CHECK_EQ_INT(emb_count(c.s), 50);
  OK(c.s, emb_rollback_to(c.s, 0));
  OK(c.s, emb_prepare(c.s, &number));
  CHECK(number > 0);
  OK(c.s, emb_commit(c.s));
  CHECK_EQ_INT(emb_in_transaction(c.s), 0);
  CHECK_EQ_INT(emb_count(other), 100);
  CHECK_EQ_INT(emb_committed(c.store), number);
  emb_session_close(other);
  client_end(&c);
}

/* ---- the owner goes ------------------------------------------------------ */

TEST(owner_leaves) {
  struct client c;
  struct process next;
  if (!client_begin(&c))
    return;
  fill(4);
  OK(c.s, emb_put(c.s, keys, N, rows, NULL));
  owner_leave(&c.owner);
  OK(c.s, emb_get(c.s, keys, N, back, NULL, NULL));
  CHECK(memcmp(rows, back, sizeof rows) == 0);
  /* Another process becomes the owner: this process only reads. */
  if (!owner_start(&next, c.dir))
    return;
  fill(5);
  OK(c.s, emb_put(c.s, keys, N, rows, NULL));
  OK(c.s, emb_get(c.s, keys, N, back, NULL, NULL));
  CHECK(memcmp(rows, back, sizeof rows) == 0);
  c.owner = next;
  owner_leave(&c.owner);
  OK(c.s, emb_put(c.s, keys, 1, rows, NULL));
  CHECK_EQ_INT(emb_is_owner(c.store), 1);
  CHECK(help_verify(c.s));
  (void)help_close(c.store, c.s);
}

TEST(owner_is_killed) {
  struct client c;
  emb_err err;
  uint64_t number;
  if (!client_begin(&c))
    return;
  fill(6);
  OK(c.s, emb_begin(c.s));
  OK(c.s, emb_txn_put(c.s, keys, N, rows));
  OK(c.s, emb_prepare(c.s, &number));
  OK(c.s, emb_commit(c.s));
  OK(c.s, emb_begin(c.s));
  OK(c.s, emb_txn_delete(c.s, keys, 10, NULL));
  owner_kill(&c.owner);
  GIVES(c.s, EMB_LOST, emb_txn_delete(c.s, keys, 20, NULL));
  GIVES(c.s, EMB_LOST, emb_prepare(c.s, &number));
  emb_rollback(c.s);
  OK(c.s, emb_peek(c.s, keys, 1, back, NULL, NULL)); /* recovers */
  CHECK_EQ_INT(emb_is_owner(c.store), 1);
  if (emb_in_doubt(c.store))
    OK(NULL, emb_resolve(c.store, emb_in_doubt(c.store), 1, &err));
  OK(c.s, emb_get(c.s, keys, N, back, NULL, NULL));
  CHECK(memcmp(rows, back, sizeof rows) == 0);
  (void)help_close(c.store, c.s);
}

/* Prepared, decided, and the owner dies before it is told. */
TEST(owner_is_killed_before_commit) {
  struct client c;
  uint64_t number;
  if (!client_begin(&c))
    return;
  fill(7);
  OK(c.s, emb_begin(c.s));
  OK(c.s, emb_txn_put(c.s, keys, N, rows));
  OK(c.s, emb_prepare(c.s, &number));
  owner_kill(&c.owner);
  OK(c.s, emb_commit(c.s));
  CHECK_EQ_INT(emb_committed(c.store), number);
  OK(c.s, emb_get(c.s, keys, N, back, NULL, NULL));
  CHECK(memcmp(rows, back, sizeof rows) == 0);
  (void)help_close(c.store, c.s);
}

/* Between two reads in quick succession, another process owns the store,
** writes, and leaves. */
TEST(owner_comes_and_goes) {
  struct client c;
  struct process other;
  if (!client_begin(&c))
    return;
  fill(1);
  OK(c.s, emb_put(c.s, keys, N, rows, NULL));
  owner_leave(&c.owner);
  OK(c.s, emb_peek(c.s, keys, N, back, NULL, NULL));
  CHECK(memcmp(rows, back, sizeof rows) == 0);
  if (other_start(&other, c.dir, put_twos)) {
    owner_leave(&other);
    struct env *env = c.store->core.env;
    atomic_store(&c.store->own.refreshed_us,
                 env->now_us(env)); /* it was as fast */
    fill(2);
    OK(c.s, emb_peek(c.s, keys, N, back, NULL, NULL));
    CHECK(memcmp(rows, back, sizeof rows) == 0);
  }
  (void)help_close(c.store, c.s);
}

/* An owner that takes its time between the lock and the socket. */
static struct env slow;
static int slow_hear, slow_say;

static int slow_port(struct env *env, struct env_dir *dir, const char *name,
                     struct env_port **port) {
  char byte;
  (void)!write(slow_say, "l", 1);
  (void)!read(slow_hear, &byte, 1);
  return env_posix.port_open(env, dir, name, port);
}

static void own_slowly(const char *dir, int hear, int say) {
  slow = env_posix;
  slow.port_open = slow_port;
  slow_hear = hear;
  slow_say = say;
  env_set_default(&slow);
  own(dir, hear, say);
}

/* A client cannot reach an owner whose socket has no name.  It does not show
** the last checkpoint instead. */
TEST(owner_without_a_socket) {
  struct client c;
  emb_config brief = config;
  char path[600];
  brief.timeout_ms = 100;
  if (!client_begin(&c))
    return;
  fill(1);
  OK(c.s, emb_put(c.s, keys, 3, rows, NULL));
  OK(c.s, emb_checkpoint(c.s));
  fill(2);
  OK(c.s, emb_put(c.s, keys, 3, rows, NULL));
  (void)help_close(c.store, c.s);
  (void)snprintf(path, sizeof path, "%s/socket", c.dir);
  CHECK(unlink(path) == 0);
  emb_err err;
  CHECK_EQ_INT(emb_open(c.dir, &brief, &c.store, &err), EMB_BUSY);
  CHECK(strstr(err.text, "which does not answer") != NULL);
  owner_leave(&c.owner);
  if (help_open(c.dir, &brief, &c.store, &c.s)) {
    OK(c.s, emb_peek(c.s, keys, 3, back, NULL, NULL));
    CHECK(memcmp(rows, back, 3 * DIM * sizeof *rows) == 0);
    (void)help_close(c.store, c.s);
  }
}

/* Serves nobody; its checkpoint holds ones.  When told to, it commits twos
** and then threes.  Whether the threes count is not known. */
static void own_alone(const char *dir, int hear, int say) {
  emb_config alone = config;
  emb_store *store;
  emb_session *s;
  emb_err err;
  char byte;
  alone.flags |= EMB_OPEN_ALONE;
  fill(1);
  if (emb_open(dir, &alone, &store, &err) ||
      emb_session_open(store, &s, &err) || emb_put(s, keys, N, rows, NULL) ||
      emb_checkpoint(s))
    _exit(2);
  (void)!write(say, "o", 1);
  (void)!read(hear, &byte, 1);
  for (int value = 2; value <= 3; value++) {
    uint64_t number;
    fill(value);
    if (emb_begin(s) || emb_txn_put(s, keys, N, rows) ||
        emb_prepare(s, &number) || emb_commit(s))
      _exit(3);
  }
  (void)!write(say, "c", 1);
  (void)!read(hear, &byte, 1);
  _exit(4);
}

/* A scan keeps its checkpoint, but another session of the process may no
** longer use that checkpoint once its owner has died. */
TEST(checkpoint_of_an_owner_that_is_alone) {
  struct process o;
  emb_store *store;
  emb_session *s, *other;
  emb_scan *scan = NULL;
  emb_err err;
  char byte = 0;
  const char *dir = help_path("store");
  if (!owner_start_as(&o, dir, own_alone, 'o') ||
      !help_open(dir, &config, &store, &s))
    return;
  fill(1);
  OK(s, emb_peek(s, keys, N, back, NULL, NULL));
  CHECK(memcmp(rows, back, sizeof rows) == 0);
  OK(s, emb_scan_open(s, INT64_MIN, INT64_MAX, EMB_SCAN_ASC, &scan));
  CHECK(write(o.say, "x", 1) == 1);
  CHECK(read(o.hear, &byte, 1) == 1 && byte == 'c');
  owner_kill(&o);
  CHECK_EQ_INT(emb_session_open(store, &other, &err), EMB_OK);
  fill(2);
  OK(other, emb_peek(other, keys, N, back, NULL, NULL));
  CHECK(memcmp(rows, back, sizeof rows) == 0);
  OK(other, emb_resolve(store, emb_in_doubt(store), 1, &err));
  fill(3);
  OK(other, emb_peek(other, keys, N, back, NULL, NULL));
  CHECK(memcmp(rows, back, sizeof rows) == 0);
  emb_scan_close(scan);
  emb_session_close(other);
  (void)help_close(store, s);
}

/* Once the owner serves, a client no longer reads the rows it read before.
** While the owner holds the lock but does not answer yet, reads show
** nothing. */
TEST(owner_begins_to_serve) {
  struct client c;
  struct process o;
  emb_config brief = config;
  char byte = 0;
  brief.timeout_ms = 100;
  memset(&c, 0, sizeof c);
  (void)snprintf(c.dir, sizeof c.dir, "%s", help_path("store"));
  if (!owner_start(&o, c.dir))
    return;
  fill(1);
  if (help_open(c.dir, &config, &c.store, &c.s)) {
    OK(c.s, emb_put(c.s, keys, N, rows, NULL));
    (void)help_close(c.store, c.s);
  }
  owner_leave(&o);
  if (!help_open(c.dir, &brief, &c.store, &c.s))
    return;
  OK(c.s, emb_peek(c.s, keys, N, back, NULL, NULL));
  CHECK(memcmp(rows, back, sizeof rows) == 0);
  if (!owner_start_as(&o, c.dir, own_slowly, 'l'))
    return;
  CHECK_EQ_INT(emb_peek(c.s, keys, N, back, NULL, NULL), EMB_BUSY);
  CHECK(write(o.say, "x", 1) == 1);
  CHECK(read(o.hear, &byte, 1) == 1 && byte == 'o');
  OK(c.s, emb_peek(c.s, keys, N, back, NULL, NULL));
  CHECK(memcmp(rows, back, sizeof rows) == 0);
  struct process other;
  if (other_start(&other, c.dir, put_twos)) { /* acknowledged */
    fill(2);
    for (int i = 0; i < 3; i++) {
      OK(c.s, emb_peek(c.s, keys, N, back, NULL, NULL));
      CHECK(memcmp(rows, back, sizeof rows) == 0);
    }
    owner_leave(&other);
  }
  (void)help_close(c.store, c.s);
  owner_leave(&o);
}

/* ---- a client goes ------------------------------------------------------- */

static void take_leases(emb_session *s) {
  float vectors[2 * DIM];
  const int64_t some[2] = {1, 2};
  for (int i = 0; i < 2; i++)
    if (emb_get(s, some, 2, vectors, NULL, NULL))
      _exit(4);
}

static void write_unfinished(emb_session *s) {
  float vectors[2 * DIM] = {0};
  const int64_t some[2] = {1, 2};
  if (emb_begin(s) || emb_txn_put(s, some, 2, vectors))
    _exit(4);
}

static void write_prepared(emb_session *s) {
  uint64_t number;
  write_unfinished(s);
  if (emb_prepare(s, &number))
    _exit(5);
}

static void start_bounded(struct client *c) {
  config.flags |= EMB_OPEN_BOUNDED;
  config.staleness = 1;
  c->owner.pid = 0;
  if (client_begin(c)) {
    fill(1);
    for (int i = 0; i < 2; i++)
      keys[i] = i + 1;
    OK(c->s, emb_put(c->s, keys, 2, rows, NULL));
  }
}

/* Its leases are returned immediately. */
TEST(killed_client_has_no_leases) {
  struct client c;
  struct process other;
  uint32_t clocks[2];
  start_bounded(&c);
  if (c.owner.pid && other_start(&other, c.dir, take_leases)) {
    OK(c.s, emb_clocks(c.s, keys, 2, clocks));
    CHECK_EQ_INT(clocks[0], 2);
    emb_set_timeout(c.store, 20);
    GIVES(c.s, EMB_BUSY, emb_get(c.s, keys, 1, back, NULL, NULL));
    CHECK(strstr(emb_errmsg(c.s), "key 1 has 2 pending reads") != NULL);
    emb_set_timeout(c.store, 5000);
    owner_kill(&other);
    OK(c.s, emb_get(c.s, keys, 2, back, NULL, NULL)); /* waits for that */
    OK(c.s, emb_clocks(c.s, keys, 2, clocks));
    CHECK_EQ_INT(clocks[0], 1);
    CHECK_EQ_INT(emb_leases(c.s), 2);
    CHECK_EQ_INT(emb_release(c.s), 2);
    client_end(&c);
  }
  config.flags &= ~(uint32_t)EMB_OPEN_BOUNDED;
}

TEST(killed_client_is_rolled_back) {
  struct client c;
  struct process other;
  if (!client_begin(&c))
    return;
  fill(1);
  if (other_start(&other, c.dir, write_unfinished)) {
    owner_kill(&other);
    OK(c.s, emb_begin(c.s));
    OK(c.s, emb_txn_put(c.s, keys, 3, rows));
    OK(c.s, emb_commit(c.s));
    CHECK_EQ_INT(emb_count(c.s), 3);
  }
  client_end(&c);
}

/* Another client prepares a transaction of the keys 1 and 2 and is killed;
** returns once the transaction is in doubt here. */
static int other_leaves_doubt(struct client *c) {
  struct process other;
  if (!other_start(&other, c->dir, write_prepared))
    return 0;
  owner_kill(&other);
  for (int i = 0; i < 1000 && !emb_in_doubt(c->store); i++)
    (void)usleep(1000);
  return CHECK(emb_in_doubt(c->store) != 0);
}

/* Only a process that knows the coordinator's decision may end the
** transaction. */
static void decide(int commit) {
  struct client c;
  emb_err err;
  if (!client_begin(&c))
    return;
  fill(1);
  OK(c.s, emb_put(c.s, keys, 3, rows, NULL));
  if (other_leaves_doubt(&c)) {
    CHECK_EQ_INT(emb_count(c.s), 3);
    GIVES(c.s, EMB_LOCKED, emb_begin(c.s));
    OK(c.s, emb_resolve(c.store, emb_in_doubt(c.store), commit, &err));
    CHECK_EQ_INT(emb_in_doubt(c.store), 0);
    CHECK_EQ_INT(emb_count(c.s), commit ? 5 : 3);
    OK(c.s, emb_begin(c.s));
    OK(c.s, emb_txn_put(c.s, keys, 3, rows));
    OK(c.s, emb_commit(c.s));
  }
  client_end(&c);
}

TEST(killed_client_was_prepared_and_committed) { decide(1); }
TEST(killed_client_was_prepared_and_undone) { decide(0); }

/* A coordinator's answer about a transaction that a call meets. */
struct coordinator {
  emb_store *store;
  uint64_t number;
  int says, asked, was_in_doubt;
};

static int asked_of(void *arg, uint64_t number, int in_doubt) {
  struct coordinator *c = arg;
  c->asked++;
  c->was_in_doubt = in_doubt;
  CHECK(number > 0 && (!c->number || number == c->number));
  c->number = number;
  if (in_doubt && c->says == EMB_DECIDE_AGAIN)
    CHECK_EQ_INT(emb_resolve(c->store, number, 1, NULL), EMB_OK);
  return c->says;
}

/* Whether the keys 1 and 2 exist, given the coordinator's answer. */
static int get_as(emb_session *s, struct coordinator *c, int says, int *rc) {
  const int64_t some[2] = {1, 2};
  c->says = says;
  c->asked = 0;
  emb_session_decides(s, asked_of, c);
  *rc = emb_get(s, some, 2, back, found, NULL);
  return *rc ? -1 : found[0] + found[1];
}

/* Another client's transaction is prepared, and `s` reads.  Then that client
** is gone, and the coordinator decides. */
static void ask_while_prepared(emb_store *store, emb_session *s,
                               struct process *other) {
  struct coordinator c = {.store = store};
  int rc;
  emb_set_timeout(store, 50);
  CHECK_EQ_INT(get_as(s, &c, EMB_DECIDE_PAST, &rc), 0);
  CHECK_EQ_INT(c.asked, 1);
  CHECK_EQ_INT(c.was_in_doubt, 0);
  OK(s, emb_get(s, keys, 3, back, NULL, NULL)); /* answered already */
  CHECK_EQ_INT(c.asked, 1);
  CHECK_EQ_INT(get_as(s, &c, EMB_DECIDE_FAIL, &rc), -1);
  CHECK_EQ_INT(rc, EMB_LOCKED);
  CHECK_EQ_INT(emb_undecided(s), c.number);
  CHECK_EQ_INT(get_as(s, &c, EMB_DECIDE_AGAIN, &rc), -1);
  CHECK_EQ_INT(rc, EMB_BUSY); /* nothing was resolved */
  CHECK(c.asked > 1 && strstr(emb_errmsg(s), "try again") != NULL);
  c.says = EMB_DECIDE_FAIL;
  emb_session_decides(s, asked_of, &c);
  CHECK_EQ_INT(emb_count(s), -1);
  CHECK_EQ_INT(emb_errcode(s), EMB_LOCKED);
  emb_set_timeout(store, 5000);
  owner_kill(other);
  for (int i = 0; i < 1000 && !emb_in_doubt(store); i++)
    (void)usleep(1000);
  CHECK_EQ_INT(get_as(s, &c, EMB_DECIDE_PAST, &rc), 0);
  CHECK_EQ_INT(c.was_in_doubt, 1);
  CHECK_EQ_INT(emb_resolve(store, c.number + 1, 0, NULL), EMB_OK); /* another */
  CHECK_EQ_INT(emb_in_doubt(store), c.number);
  CHECK_EQ_INT(get_as(s, &c, EMB_DECIDE_AGAIN, &rc), 2);
  CHECK_EQ_INT(emb_in_doubt(store), 0);
}

TEST(prepared_transaction_is_asked_for_by_a_client) {
  struct client c;
  struct process other;
  if (!client_begin(&c))
    return;
  fill(1);
  OK(c.s, emb_put(c.s, keys, 3, rows, NULL));
  if (other_start(&other, c.dir, write_prepared))
    ask_while_prepared(c.store, c.s, &other);
  client_end(&c);
}

TEST(prepared_transaction_is_asked_for_by_the_owner) {
  struct client c;
  struct process other;
  if (!client_begin(&c))
    return;
  owner_leave(&c.owner);
  fill(1);
  OK(c.s, emb_put(c.s, keys, 3, rows, NULL));
  if (other_start(&other, c.dir, write_prepared))
    ask_while_prepared(c.store, c.s, &other);
  (void)help_close(c.store, c.s);
}

/* A call that makes this process the owner finds the transaction in doubt,
** and does not read past it. */
TEST(doubt_is_found_within_a_call) {
  struct client c;
  struct process other;
  struct coordinator coordinator = {.says = EMB_DECIDE_FAIL};
  int rc;
  if (!client_begin(&c))
    return;
  fill(1);
  coordinator.store = c.store;
  OK(c.s, emb_put(c.s, keys, 3, rows, NULL));
  OK(c.s, emb_checkpoint(c.s));
  if (other_start(&other, c.dir, write_prepared)) {
    CHECK_EQ_INT(get_as(c.s, &coordinator, EMB_DECIDE_PAST, &rc), 0);
    owner_kill(&other);
    owner_kill(&c.owner);
    emb_session_decides(c.s, asked_of, &coordinator);
    GIVES(c.s, EMB_LOST, emb_get(c.s, keys, 3, back, NULL, NULL));
    CHECK_EQ_INT(get_as(c.s, &coordinator, EMB_DECIDE_FAIL, &rc), -1);
    CHECK_EQ_INT(rc, EMB_LOCKED);
    CHECK_EQ_INT(coordinator.was_in_doubt, 1);
    CHECK_EQ_INT(get_as(c.s, &coordinator, EMB_DECIDE_AGAIN, &rc), 2);
  }
  (void)help_close(c.store, c.s);
}

/* The owner closes the store before the transaction is decided. */
TEST(doubt_outlives_owner) {
  struct client c;
  emb_err err;
  if (!client_begin(&c))
    return;
  fill(1);
  OK(c.s, emb_put(c.s, keys, 3, rows, NULL));
  if (other_leaves_doubt(&c)) {
    owner_leave(&c.owner);
    CHECK_EQ_INT(emb_count(c.s), 3);
    CHECK(emb_in_doubt(c.store) != 0);
    OK(c.s, emb_resolve(c.store, emb_in_doubt(c.store), 1, &err));
    CHECK_EQ_INT(emb_count(c.s), 5);
  }
  (void)help_close(c.store, c.s);
}

/* Writes that the owner acknowledged outside that transaction survive in any
** case. */
static void leave_in_doubt(int commit) {
  struct client c;
  emb_err err;
  if (!client_begin(&c))
    return;
  for (int value = 1; value <= 6; value++) {
    fill(value);
    OK(c.s, emb_put(c.s, keys, N, rows, NULL));
    if (value < 4) /* reused places, then rows that only the log has */
      OK(c.s, emb_checkpoint(c.s));
  }
  if (other_leaves_doubt(&c)) {
    owner_leave(&c.owner);
    OK(c.s, emb_peek(c.s, keys, N, back, NULL, NULL));
    CHECK(memcmp(rows, back, sizeof rows) == 0);
    OK(c.s, emb_resolve(c.store, emb_in_doubt(c.store), commit, &err));
    OK(c.s, emb_peek(c.s, keys, N, back, NULL, NULL));
    for (int i = 0; commit && i < N; i++)
      if (keys[i] == 1)
        memset(rows + i * DIM, 0, DIM * sizeof *rows);
    CHECK(memcmp(rows, back, sizeof rows) == 0);
    CHECK_EQ_INT(emb_count(c.s), N + commit);
  }
  (void)help_close(c.store, c.s);
}

static void commit_when_told(const char *dir, int hear, int say) {
  emb_store *store;
  emb_session *s;
  emb_err err;
  char byte = 0;
  if (emb_open(dir, &config, &store, &err) || emb_session_open(store, &s, &err))
    _exit(2);
  write_prepared(s); /* keys 1 and 2 */
  (void)!write(say, "p", 1);
  (void)!read(hear, &byte, 1);
  if (emb_commit(s))
    _exit(4);
  emb_session_close(s);
  _exit(emb_close(store, &err) ? 3 : 0);
}

/* A COMMIT may wait for the end of a statement in another process that has
** yet to open its session.  As long as the owner waits for that COMMIT, it
** serves new clients. */
TEST(leaving_owner_serves_who_comes) {
  struct client c;
  struct process other;
  emb_session *late;
  emb_err err;
  if (!client_begin(&c))
    return;
  fill(1);
  OK(c.s, emb_put(c.s, keys, N, rows, NULL));
  if (owner_start_as(&other, c.dir, commit_when_told, 'p')) {
    CHECK(write(c.owner.say, "x", 1) == 1);
    (void)usleep(100000);
    if (CHECK_EQ_INT(emb_session_open(c.store, &late, &err), EMB_OK)) {
      OK(late, emb_peek(late, keys, N, back, NULL, NULL));
      CHECK(memcmp(rows, back, sizeof rows) == 0);
      emb_session_close(late);
    }
    CHECK_EQ_INT(waitpid(c.owner.pid, NULL, WNOHANG), 0); /* still waiting */
    owner_leave(&other);
    owner_wait(&c.owner, 1);
    CHECK_EQ_INT(emb_count(c.s), N + 1); /* key 2 is new */
  }
  (void)help_close(c.store, c.s);
}

/* Takes the lock like a process that is about to become the owner, then
** exits. */
static void lock_and_leave(const char *dir, int hear, int say) {
  struct flock whole = {
      .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = (off_t)1 << 40};
  char path[600];
  (void)hear;
  (void)snprintf(path, sizeof path, "%s/lock", dir);
  int fd = open(path, O_RDWR);
  if (fd < 0 || fcntl(fd, F_SETLK, &whole) != 0)
    _exit(2);
  (void)!write(say, "l", 1);
  (void)usleep(50000);
  _exit(0);
}

/* The store says that nobody owns it, and a moment later it has an owner.
** That owner must carry out a Get that counts or creates rows. */
TEST(get_while_another_becomes_the_owner) {
  struct process other;
  emb_config appears = config;
  emb_store *store;
  emb_session *s;
  char dir[512];
  uint8_t is[2];
  (void)snprintf(dir, sizeof dir, "%s", help_path("store"));
  fill(1);
  appears.insert_on = EMB_INSERT_ON_LOOKUP;
  if (!help_open(dir, &appears, &store, &s) || !OK(s, emb_checkpoint(s)) ||
      !help_close(store, s) || !help_open(dir, &appears, &store, &s))
    return;
  if (owner_start_as(&other, dir, lock_and_leave, 'l')) {
    OK(s, emb_get(s, keys, 2, back, NULL, NULL));
    OK(s, emb_exists(s, keys, 2, is));
    CHECK_EQ_INT(is[0] + is[1], 2);
    owner_wait(&other, 1);
  }
  (void)help_close(store, s);
}

static void recover_and_wait(const char *dir, int hear, int say) {
  emb_store *store;
  emb_err err;
  char byte = 0;
  if (emb_open(dir, &config, &store, &err) || !emb_in_doubt(store))
    _exit(2);
  (void)!write(say, "r", 1);
  (void)!read(hear, &byte, 1);
  _exit(emb_close(store, &err) ? 3 : 0);
}

/* The process that opens the store may know how the transaction ends, or
** nobody may ask the owner for hours. */
TEST(opened_beside_an_owner_in_doubt) {
  struct client c;
  struct process other;
  emb_err err;
  memset(&c, 0, sizeof c);
  (void)snprintf(c.dir, sizeof c.dir, "%s", help_path("store"));
  fill(1);
  if (!owner_start_as(&other, c.dir, commit_when_told, 'p'))
    return;
  owner_kill(&other);
  if (!owner_start_as(&c.owner, c.dir, recover_and_wait, 'r'))
    return;
  if (help_open(c.dir, &config, &c.store, &c.s)) {
    CHECK(emb_in_doubt(c.store) != 0);
    CHECK_EQ_INT(emb_count(c.s), 0);
    OK(c.s, emb_resolve(c.store, emb_in_doubt(c.store), 1, &err));
    CHECK_EQ_INT(emb_count(c.s), 2);
  }
  client_end(&c);
}

TEST(owner_leaves_in_doubt_and_committed) { leave_in_doubt(1); }
TEST(owner_leaves_in_doubt_and_undone) { leave_in_doubt(0); }

/* ---- waiting ------------------------------------------------------------- */

static int stop_soon(void *arg) { return ++*(int *)arg > 3; }

TEST(interrupt_of_a_client) {
  struct client c;
  struct process other;
  int asked = 0;
  if (!client_begin(&c))
    return;
  if (other_start(&other, c.dir, write_unfinished)) {
    emb_session_interrupt(c.s, stop_soon, &asked);
    emb_set_timeout(c.store, 600000);
    GIVES(c.s, EMB_INTERRUPT, emb_begin(c.s));
    emb_session_interrupt(c.s, NULL, NULL);
    emb_set_timeout(c.store, 5000);
    owner_leave(&other);
    OK(c.s, emb_begin(c.s));
    emb_rollback(c.s);
  }
  client_end(&c);
}

static int blocks_write(void *arg, int what) {
  *(int *)arg |= 1 << what;
  return 0;
}

/* The owner asks the client what it holds, while the client waits. */
TEST(question_of_the_owner) {
  struct client c;
  struct process other;
  int asked = 0;
  start_bounded(&c);
  if (c.owner.pid && other_start(&other, c.dir, take_leases)) {
    emb_session_blocks(c.s, blocks_write, &asked);
    emb_set_timeout(c.store, 300);
    GIVES(c.s, EMB_BUSY, emb_get(c.s, keys, 1, back, NULL, NULL));
    owner_leave(&other);
    client_end(&c);
  }
  config.flags &= ~(uint32_t)EMB_OPEN_BOUNDED;
}

TEST(owner_is_stopped) {
  struct client c;
  char pid[32];
  if (!client_begin(&c))
    return;
  fill(1);
  OK(c.s, emb_put(c.s, keys, 3, rows, NULL));
  (void)snprintf(pid, sizeof pid, "process %d", (int)c.owner.pid);
  int status;
  CHECK(kill(c.owner.pid, SIGSTOP) == 0);
  CHECK_EQ_INT(waitpid(c.owner.pid, &status, WUNTRACED), c.owner.pid);
  emb_set_timeout(c.store, 100);
  GIVES(c.s, EMB_BUSY, emb_put(c.s, keys, 1, rows + DIM, NULL));
  CHECK(strstr(emb_errmsg(c.s), pid) != NULL);
  emb_session *second;
  emb_err err;
  OK(NULL, emb_session_open(c.store, &second, &err));
  GIVES(second, EMB_BUSY, emb_put(second, keys, 1, rows + DIM, NULL));
  CHECK(strstr(emb_errmsg(second), pid) != NULL);
  CHECK(kill(c.owner.pid, SIGCONT) == 0);
  emb_set_timeout(c.store, 5000);
  OK(c.s, emb_get(c.s, keys, 1, back, NULL, NULL));
  CHECK(help_is(back, DIM, keys[0], 1)); /* the put was withdrawn */
  OK(second, emb_put(second, keys, 1, rows, NULL));
  emb_session_close(second);
  client_end(&c);
}

/* ---- many ---------------------------------------------------------------- */

static void add_one(emb_session *s) {
  float one[DIM];
  const int64_t key = 1;
  for (int i = 0; i < DIM; i++)
    one[i] = 1;
  if (emb_rmw(s, &key, 1, one, NULL, NULL))
    _exit(4);
}

/* Processes that come and go, also while the owner changes. */
TEST(short_lived_processes) {
  enum { PROCESSES = 200, AT_ONCE = 8 };
  struct client c;
  struct process others[AT_ONCE];
  if (!client_begin(&c))
    return;
  memset(rows, 0, sizeof *rows * DIM);
  keys[0] = 1;
  OK(c.s, emb_put(c.s, keys, 1, rows, NULL));
  int n = (int)help_amount(PROCESSES), left = 0;
  for (int i = 0; i < n; i += AT_ONCE) {
    for (int k = 0; k < AT_ONCE; k++)
      CHECK(other_start(&others[k], c.dir, add_one));
    if (i > n / 2 && !left++)
      owner_leave(&c.owner);
    for (int k = 0; k < AT_ONCE; k++)
      owner_leave(&others[k]);
  }
  OK(c.s, emb_get(c.s, keys, 1, back, NULL, NULL));
  CHECK_EQ_INT((int)back[0], (n + AT_ONCE - 1) / AT_ONCE * AT_ONCE);
  if (!left)
    owner_leave(&c.owner);
  (void)help_close(c.store, c.s);
}

/* A child of the owner is its client. */
TEST(child_of_the_owner) {
  emb_store *store;
  emb_session *s;
  struct process other;
  if (!help_open(help_path("store"), &config, &store, &s))
    return;
  memset(rows, 0, sizeof *rows * DIM);
  keys[0] = 1;
  OK(s, emb_put(s, keys, 1, rows, NULL));
  if (other_start(&other, help_path("store"), add_one))
    owner_leave(&other);
  OK(s, emb_get(s, keys, 1, back, NULL, NULL));
  CHECK_EQ_INT((int)back[0], 1);
  (void)help_close(store, s);
}

/* Batches are under way when their owner goes.  Afterwards each has its own
** result. */
static void tickets_outlive(int in_peace) {
  struct client c;
  uint64_t ticket[3], ended = 0;
  static float some[3 * DIM];
  const emb_rows first = {.vectors = some, .found = found};
  if (!client_begin(&c))
    return;
  fill(1);
  OK(c.s, emb_put(c.s, keys, N, rows, NULL));
  OK(c.s, emb_checkpoint(c.s));
  memset(some, 0x55, sizeof some);
  OK(c.s, emb_prefetch(c.s, keys, 3, &first, &ticket[0]));
  OK(c.s, emb_write_back(c.s, keys + 5, 1, rows, &ticket[1]));
  if (in_peace)
    owner_leave(&c.owner);
  else
    owner_kill(&c.owner);
  GIVES(c.s, in_peace ? EMB_OK : EMB_LOST,
        emb_write_back_synchronize(c.s, 0, &ended));
  CHECK_EQ_INT(ended, ticket[1]);
  GIVES(c.s, EMB_RANGE, emb_write_back_synchronize(c.s, 0, NULL));
  OK(c.s,
     emb_prefetch(c.s, keys + 7, 1, &(emb_rows){.vectors = back}, &ticket[2]));
  CHECK(ticket[2] > ticket[1] && ticket[1] > ticket[0]);
  size_t backs;
  CHECK_EQ_INT(emb_tickets(c.s, &backs), 2);
  CHECK_EQ_INT(backs, 0);
  OK(c.s, emb_prefetch_synchronize(c.s, ticket[2], NULL));
  CHECK(memcmp(back, rows + 7 * DIM, DIM * sizeof *rows) == 0);
  GIVES(c.s, in_peace ? EMB_OK : EMB_LOST,
        emb_prefetch_synchronize(c.s, 0, &ended));
  CHECK_EQ_INT(ended, ticket[0]);
  if (in_peace)
    CHECK(memcmp(some, rows, sizeof some) == 0);
  else
    CHECK(((unsigned char *)some)[0] == 0x55); /* nothing was written */
  GIVES(c.s, EMB_RANGE, emb_prefetch_synchronize(c.s, ticket[0], NULL));
  OK(c.s, emb_peek(c.s, keys + 5, 1, back, NULL, NULL));
  CHECK_EQ_INT(memcmp(back, rows, DIM * sizeof *rows) == 0, in_peace);
  (void)help_close(c.store, c.s);
}

TEST(tickets_outlive_an_owner_that_leaves) { tickets_outlive(1); }
TEST(tickets_are_lost_with_an_owner_that_dies) { tickets_outlive(0); }

TEST(prefetch_of_a_client) {
  struct client c;
  uint64_t ticket = 0, ended = 0;
  if (!client_begin(&c))
    return;
  fill(1);
  OK(c.s, emb_put(c.s, keys, N, rows, NULL));
  const emb_rows to = {.vectors = back, .found = found, .versions = versions};
  memset(back, 0, sizeof back);
  OK(c.s, emb_prefetch(c.s, keys, N, &to, &ticket));
  CHECK(ticket > 0);
  CHECK_EQ_INT(emb_tickets(c.s, NULL), 1);
  OK(c.s, emb_prefetch_synchronize(c.s, 0, &ended));
  CHECK_EQ_INT(ended, ticket);
  CHECK(memcmp(rows, back, sizeof rows) == 0);
  OK(c.s, emb_write_back(c.s, keys, 10, rows + DIM, &ticket));
  OK(c.s, emb_write_back_synchronize(c.s, ticket, &ended));
  OK(c.s, emb_get(c.s, keys, 10, back, NULL, NULL));
  CHECK(memcmp(rows + DIM, back, 10 * DIM * sizeof *rows) == 0);
  emb_ahead ahead;
  OK(c.s, emb_lookahead(c.s, keys, N, EMB_AHEAD_BUFFER, &ahead));
  CHECK_EQ_INT(ahead.asked, N);
  OK(c.s, emb_lookahead_wait(c.s, ahead.number));
  client_end(&c);
}

static void count_lines(void *arg, const char *line) {
  (void)line;
  ++*(int *)arg;
}

/* Snapshots, deltas, files, a backup, the check. */
TEST(files_of_a_client) {
  struct client c;
  emb_snap *snap;
  emb_snapshot_info infos[4];
  emb_consumer consumers[4];
  emb_delta *delta;
  emb_delta_file about;
  emb_backup *backup;
  emb_backup_info info;
  emb_stat stats[400];
  uint64_t wrote, bytes;
  size_t n;
  int lines = 0;
  if (!client_begin(&c))
    return;
  fill(1);
  OK(c.s, emb_put(c.s, keys, N, rows, NULL));
  OK(c.s, emb_snapshot(c.s, "one"));
  OK(c.s, emb_delete(c.s, keys, 100, NULL));
  OK(c.s, emb_snapshots(c.s, infos, 4, &n));
  CHECK(n == 1 && infos[0].keys == N && strcmp(infos[0].name, "one") == 0);
  OK(c.s, emb_snapshot_open(c.s, "one", &snap));
  CHECK_EQ_INT(emb_snapshot_count(snap), N);
  OK(c.s, emb_snapshot_get(snap, keys, 100, back, found, NULL));
  CHECK(memcmp(rows, back, 100 * DIM * sizeof *rows) == 0);
  emb_snapshot_close(snap);
  OK(c.s, emb_snapshot_export(c.s, "one", help_path("one.pack"), NULL, &wrote,
                              &bytes));
  CHECK_EQ_INT(wrote, N);
  OK(c.s, emb_snapshot_restore(c.s, help_path("one.pack"), &wrote));
  CHECK_EQ_INT(emb_count(c.s), N);
  OK(c.s, emb_delta_open(c.s, "copy", &delta));
  const emb_rows to = {
      .keys = (int64_t *)versions, .ops = found, .vectors = back};
  int64_t all = 0;
  do {
    OK(c.s, emb_delta_next(delta, 500, &to, &n));
    all += (int64_t)n;
  } while (n);
  CHECK_EQ_INT(all, N);
  emb_delta_close(delta);
  OK(c.s, emb_delta_ack(c.s, "copy", 0));
  OK(c.s, emb_delta_consumers(c.s, consumers, 4, &n));
  CHECK(n == 1 && strcmp(consumers[0].name, "copy") == 0);
  OK(c.s, emb_delta_export(c.s, "copy", help_path("delta"), NULL, &about));
  OK(c.s, emb_backup_begin(c.s, test_state.dir, &backup));
  OK(c.s, emb_backup_freeze(backup));
  OK(c.s, emb_backup_write(backup, help_path("copy"), NULL, &info));
  CHECK_EQ_INT(info.rows, N);
  emb_backup_end(backup);
  OK(c.s, emb_checkpoint(c.s));
  OK(c.s, emb_optimize(c.s));
  OK(c.s, emb_verify(c.s, count_lines, &lines));
  CHECK_EQ_INT(lines, 0);
  n = emb_stats(c.store, stats, 400);
  CHECK(n > 100);
  for (size_t i = 0; i < n; i++)
    if (strcmp(stats[i].name, "keys") == 0)
      CHECK_EQ_INT(stats[i].value, N);
  client_end(&c);
}

/* ---- a test of emb.h as a client ----------------------------------------- */

/* Runs another test program of this build with SERVED=1: its stores are owned
** by children (store_help.c).  `source` is its file, which lint.sh looks for: a
** program of another name would be skipped for ever. */
static void as_a_client(const char *source) {
  char path[500], command[600];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  if (!CHECK(n > 0))
    return;
  path[n] = 0;
  *strrchr(path, '/') = 0;
  const char *name = strrchr(source, '/') + 1;
  int length = (int)strcspn(name, ".");
  (void)snprintf(command, sizeof command, "%s/%.*s", path, length, name);
  if (access(command, X_OK) != 0)
    SKIP("the other program is not built");
  (void)snprintf(command, sizeof command, "SERVED=1 %s/%.*s", path, length,
                 name);
  (void)fflush(stdout);
  CHECK_EQ_INT(system(command), 0);
}

TEST(model_as_a_client) { as_a_client("tests/fault/store_model.c"); }
TEST(leases_as_a_client) {
  as_a_client("tests/unit/table/bound/bound_leases.c");
}
TEST(pending_reads_as_a_client) {
  as_a_client("tests/unit/table/bound/bound_model.c");
}
TEST(history_as_a_client) {
  as_a_client("tests/concurrent/staleness_history.c");
}
