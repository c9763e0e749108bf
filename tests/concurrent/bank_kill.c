/* SPDX-License-Identifier: MIT
**
** bank_kill.c -- a process that owns a store is killed while gradients are
** pending there: its own, and those of a client.
**
** All gradients are 1, and a row counts them (track).  No gradient sent
** before the last checkpoint is lost, none counts twice, and the client is
** told once that the owner has gone.
*/
#include "fork_help.h"
#include "store_help.h"

#include <signal.h>
#include <sys/wait.h>

enum { DIM = 4, KEYS = 16 };

static const emb_config *config(void) {
  static const emb_config c = {.dim = DIM,
                               .flags = EMB_OPEN_CREATE,
                               .timeout_ms = 20000,
                               .optimizer = "sgd(lr=1)",
                               .track = EMB_TRACK_WALL,
                               .gradients = "average(max=7, expire=50ms)"};
  return &c;
}

static int send_all(emb_session *s) {
  int64_t keys[KEYS];
  float rows[KEYS * DIM];
  for (int k = 0; k < KEYS; k++)
    keys[k] = k;
  for (int i = 0; i < KEYS * DIM; i++)
    rows[i] = 1;
  return emb_apply_gradients(s, keys, KEYS, rows, NULL, NULL);
}

/* Sends until it is killed; says after each checkpoint how many are durable. */
static void own_and_send(const char *dir, int say) {
  emb_store *store;
  emb_session *s;
  emb_err err;
  uint32_t sent = 0;
  if (emb_open(dir, config(), &store, &err) ||
      emb_session_open(store, &s, &err))
    _exit(2);
  for (;;) {
    for (int i = 0; i < 5; i++, sent++)
      if (send_all(s))
        _exit(3);
    if (emb_checkpoint(s))
      _exit(4);
    if (write(say, &sent, sizeof sent) != (ssize_t)sizeof sent)
      _exit(5);
  }
}

static pid_t start(const char *dir, int *hear) {
  int ends[2];
  if (!CHECK(pipe(ends) == 0))
    return -1;
  (void)fflush(stdout);
  pid_t pid = test_fork();
  if (pid == 0) {
    (void)close(ends[0]);
    own_and_send(dir, ends[1]);
  }
  (void)close(ends[1]);
  *hear = ends[0];
  return pid;
}

static uint32_t hear_one(int hear) {
  uint32_t n = 0;
  CHECK(read(hear, &n, sizeof n) == (ssize_t)sizeof n);
  return n;
}

/* Reads what is still in the pipe, up to its end. */
static uint32_t hear_last(int hear, uint32_t last) {
  uint32_t n;
  while (read(hear, &n, sizeof n) == (ssize_t)sizeof n)
    last = n;
  (void)close(hear);
  return last;
}

static void stop(pid_t pid) {
  int status;
  (void)kill(pid, SIGKILL);
  CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
}

/* The owner sends without end, so a key has a few more gradients than it last
** said. */
static void check_rows(emb_session *s, uint32_t least, uint32_t most) {
  uint32_t first = 0;
  for (int64_t key = 0; key < KEYS; key++) {
    emb_track track = {0, 0};
    OK(s, emb_tracks(s, &key, 1, &track, NULL));
    first = key ? first : track.frequency;
    test_check(track.frequency >= least && track.frequency <= most, __FILE__,
               __LINE__, "key %d has %u of %u to %u", (int)key, track.frequency,
               least, most);
  }
}

TEST(owner_is_killed) {
  for (unsigned round = 0; round < help_amount(8); round++) {
    const char *dir = help_path(round % 2 ? "odd" : "even");
    emb_store *store;
    emb_session *s;
    emb_err err;
    int hear;
    CHECK_EQ_INT(emb_destroy(dir, &err), EMB_OK);
    pid_t pid = start(dir, &hear);
    if (pid < 0)
      return;
    (void)hear_one(hear);
    struct timespec nap = {0, (long)(test_random() % 30000000)};
    (void)nanosleep(&nap, NULL);
    stop(pid);
    uint32_t durable = hear_last(hear, 0);
    if (!help_open(dir, config(), &store, &s))
      return;
    check_rows(s, durable, durable + 10);
    CHECK(help_verify(s));
    OK(s, send_all(s));
    help_close(store, s);
  }
}

TEST(owner_of_a_client_is_killed) {
  const char *dir = help_path("store");
  emb_store *store;
  emb_session *s;
  int hear;
  pid_t pid = start(dir, &hear);
  if (pid < 0)
    return;
  uint32_t before = hear_one(hear), mine = 0;
  if (!help_open(dir, config(), &store, &s)) {
    stop(pid);
    return;
  }
  for (int i = 0; i < 20; i++) {
    OK(s, send_all(s));
    mine++;
  }
  OK(s, emb_checkpoint(s)); /* the owner makes mine durable, too */
  uint32_t durable = mine;
  OK(s, send_all(s));
  mine++;
  stop(pid);
  before = hear_last(hear, before);
  int rc = send_all(s);
  CHECK(rc == EMB_LOST || rc == EMB_OK);
  OK(s, send_all(s));
  mine += 2;
  check_rows(s, before + durable + 1, before + 10 + mine);
  CHECK(help_verify(s));
  help_close(store, s);
}
