/* SPDX-License-Identifier: MIT
**
** parked.c -- a client's session that was idle for a while has no thread at the
** owner.  With the next call it goes on unchanged: its leases, its transaction,
** its pending calls.  Each of two clients is parked before each step; the
** number of the owner's threads is read from the system.
*/
#include "process_help.h"
#include "store_help.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

enum { DIM = 8, KEYS = 100, CLIENTS = 40, GIVE_UP_MS = 25000 };

static emb_config config = {.dim = DIM,
                            .flags = EMB_OPEN_CREATE | EMB_OPEN_BOUNDED,
                            .staleness = 2,
                            .timeout_ms = 20000};

static int64_t keys[KEYS];
static float rows[KEYS * DIM], back[KEYS * DIM];
static uint8_t found[KEYS];

static void fill(int salt) {
  for (int i = 0; i < KEYS; i++) {
    keys[i] = i + 1;
    help_vector(rows + i * DIM, DIM, keys[i], salt);
  }
}

/* Owns the store of its argument until it is told to leave. */
PROCESS(owner) {
  emb_store *store;
  emb_session *s;
  if (!help_open(process_argument(0), &config, &store, &s))
    return;
  fill(1);
  OK(s, emb_put(s, keys, KEYS, rows, NULL));
  process_tell("owns");
  while (process_told("go on"))
    process_tell("goes on");
  help_close(store, s);
}

static int threads_of(pid_t pid) {
  char path[64];
  int n = 0;
  (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR *dir = opendir(path);
  while (dir && readdir(dir))
    n++;
  if (dir)
    (void)closedir(dir);
  return n - 2;
}

/* Waits until no session of a client has a thread there. */
static void await_parked(pid_t pid, int threads) {
  for (int ms = 0; ms < GIVE_UP_MS && threads_of(pid) > threads; ms++)
    (void)usleep(1000);
  CHECK(threads_of(pid) <= threads);
}

struct parked {
  struct process owner;
  int threads; /* of the owner without clients */
  char dir[512];
};

static int begin(struct parked *p) {
  (void)snprintf(p->dir, sizeof p->dir, "%s", help_path("store"));
  if (!process_start(&p->owner, "owner", (const char *[]){p->dir, NULL}) ||
      !process_hear(&p->owner, "owns"))
    return 0;
  p->threads = threads_of(p->owner.pid);
  fill(1);
  return 1;
}

TEST(a_session_goes_on_where_it_was) {
  struct parked p;
  emb_store *store;
  emb_session *a, *b;
  uint32_t pending[2];
  uint64_t ticket, number;
  emb_err err;
  if (!begin(&p) || !help_open(p.dir, &config, &store, &a))
    return;
  CHECK_EQ_INT(emb_session_open(store, &b, &err), 0);
  OK(a, emb_get(a, keys, 2, back, found, NULL));
  await_parked(p.owner.pid, p.threads);
  OK(b, emb_clocks(b, keys, 2, pending)); /* a's leases are there */
  CHECK_EQ_INT(pending[0], 1);
  await_parked(p.owner.pid, p.threads);
  CHECK_EQ_INT(emb_leases(a), 2);
  CHECK_EQ_INT(emb_release(a), 2);
  const emb_rows to = {.vectors = back, .found = found};
  memset(back, 0, sizeof back);
  OK(a, emb_prefetch(a, keys, KEYS, &to, &ticket));
  await_parked(p.owner.pid, p.threads);
  OK(a, emb_prefetch_synchronize(a, ticket, NULL));
  CHECK(memcmp(back, rows, sizeof rows) == 0);
  CHECK_EQ_INT(emb_release(a), KEYS);
  fill(2);
  OK(a, emb_begin(a));
  OK(a, emb_txn_put(a, keys, KEYS, rows));
  await_parked(p.owner.pid, p.threads);
  OK(a, emb_prepare(a, &number));
  await_parked(p.owner.pid, p.threads);
  OK(a, emb_commit(a));
  await_parked(p.owner.pid, p.threads);
  OK(b, emb_peek(b, keys, KEYS, back, found, NULL));
  CHECK(memcmp(back, rows, sizeof rows) == 0);
  await_parked(p.owner.pid, p.threads);
  emb_session_close(b);
  help_close(store, a);
  process_end(&p.owner);
}

/* A client that is killed, or closes, while it is parked gives back all that
** it holds. */
TEST(a_parked_session_ends) {
  struct parked p;
  emb_store *store;
  emb_session *a, *b;
  uint32_t pending[2];
  emb_err err;
  if (!begin(&p) || !help_open(p.dir, &config, &store, &a))
    return;
  for (int i = 0; i < 3; i++) {
    CHECK_EQ_INT(emb_session_open(store, &b, &err), 0);
    OK(b, emb_get(b, keys, 2, back, found, NULL));
    OK(a, emb_clocks(a, keys, 2, pending));
    CHECK_EQ_INT(pending[1], 1);
    await_parked(p.owner.pid, p.threads);
    emb_session_close(b);
    OK(a, emb_clocks(a, keys, 2, pending));
    CHECK_EQ_INT(pending[1], 0);
  }
  help_close(store, a);
  process_end(&p.owner);
}

/* An owner that leaves ends the parked sessions; the next call runs in this
** process. */
TEST(an_owner_leaves_parked_sessions) {
  struct parked p;
  emb_store *store;
  emb_session *sessions[CLIENTS];
  emb_err err;
  if (!begin(&p) || !help_open(p.dir, &config, &store, &sessions[0]))
    return;
  for (int i = 1; i < CLIENTS; i++)
    CHECK_EQ_INT(emb_session_open(store, &sessions[i], &err), 0);
  for (int i = 0; i < CLIENTS; i++)
    OK(sessions[i], emb_peek(sessions[i], keys, 1, back, found, NULL));
  await_parked(p.owner.pid, p.threads);
  process_end(&p.owner);
  for (int i = 0; i < CLIENTS; i++) {
    OK(sessions[i], emb_peek(sessions[i], keys, KEYS, back, found, NULL));
    CHECK(memcmp(back, rows, sizeof rows) == 0);
  }
  for (int i = 1; i < CLIENTS; i++)
    emb_session_close(sessions[i]);
  help_close(store, sessions[0]);
}
