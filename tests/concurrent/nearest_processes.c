/* SPDX-License-Identifier: MIT
**
** nearest_processes.c -- an index of neighbours and several processes: its
** owner is killed at any moment, while it builds, saves or repairs the index;
** a process that asks the owner; and a child after fork.
*/
#include "fork_help.h"
#include "near_help.h"
#include "nearest_help.h"
#include "process_help.h"

#include <sys/wait.h>
#include <unistd.h>

enum { KEYS = 3000, WRITTEN = 500 };

static struct near model;

/* Rows [0, KEYS) of version 1 exist.  Writes the next versions of rows [0,
** WRITTEN), one by one, and says so when each version is durable. */
PROCESS(writer) {
  static struct near rows;
  emb_store *store;
  emb_session *s;
  if (!near_open(process_argument(0), "ivf()", EMB_OPEN_STEP, &store, &s))
    return;
  process_tell("owns");
  for (unsigned version = 2;; version++) {
    near_put(s, &rows, 0, WRITTEN, version % 3 + 1);
    if (version == 2)
      process_tell("writes"); /* so it owns the store, and serves it */
    OK(s, emb_checkpoint(s));
  }
}

static int make(const char *dir) {
  emb_store *store;
  emb_session *s;
  memset(&model, 0, sizeof model);
  return near_open(dir, "ivf()", 0, &store, &s) &&
         near_put(s, &model, 0, KEYS, 1) && help_close(store, s);
}

static void read_model(emb_session *s) {
  for (int64_t key = 0; key < KEYS; key++) {
    float vector[NEAR_DIM];
    uint8_t found;
    OK(s, emb_peek(s, &key, 1, vector, &found, NULL));
    model.version[key] = 0;
    for (unsigned v = 1; found && v <= 3; v++)
      if (near_row_is(vector, key, v))
        model.version[key] = v;
    CHECK(model.version[key] && (key < WRITTEN || model.version[key] == 1));
  }
}

TEST(owner_is_killed) {
  char dir[400];
  int loaded = 0;
  /* The first kill finds no file: the index was never complete before it. */
  unsigned kills = 2 + help_amount(THREAD_SANITIZED ? 3 : 10);
  (void)snprintf(dir, sizeof dir, "%s", help_path("s"));
  if (!make(dir))
    return;
  for (unsigned i = 0; i < kills && !atomic_load(&test_state.failures); i++) {
    struct process p;
    emb_store *store;
    emb_session *s;
    if (!process_start(&p, "writer", (const char *[]){dir, NULL}) ||
        !process_hear(&p, "owns"))
      return;
    usleep((unsigned)(test_random() % 300000));
    process_kill(&p);
    if (!near_open(dir, NULL, 0, &store, &s))
      return;
    read_model(s);
    if (near_settle(store)) {
      const char *file = help_stat_text(store, "nearest_file");
      loaded += help_stat(store, "nearest_made") == 0;
      CHECK(strcmp(file, "damaged") != 0 &&
            strcmp(file, "cannot be read") != 0);
      near_finds(s, &model, 0, 30);
      near_finds(s, &model, KEYS - 30, KEYS);
      CHECK(near_recall(s, &model, 20) >= 0.93);
      near_verifies(s, NULL);
    }
    help_close(store, s);
  }
  CHECK(loaded > 0);
  test_count("owners killed beside an index", kills);
}

/* ---- served -------------------------------------------------------------- */

PROCESS(client) {
  static struct near rows;
  emb_store *store;
  emb_session *s;
  if (!near_open(process_argument(0), NULL, EMB_OPEN_STEP, &store, &s))
    return;
  for (int64_t key = 0; key < KEYS; key++)
    rows.version[key] = 1;
  CHECK(near_recall(s, &rows, 40) >= 0.95);
  near_put(s, &rows, KEYS, KEYS + 50, 2);
  near_finds(s, &rows, KEYS, KEYS + 50);
  CHECK_EQ_INT(help_stat(store, "owner"), 0);
  help_close(store, s);
}

/* The owner's index answers, and is the only one. */
TEST(client_asks_the_owner) {
  char dir[400];
  struct process p;
  emb_store *store;
  emb_session *s;
  (void)snprintf(dir, sizeof dir, "%s", help_path("s"));
  if (!make(dir) || !near_open(dir, NULL, EMB_OPEN_STEP, &store, &s))
    return;
  near_put(s, &model, 0, 1, 1); /* it owns the store */
  near_settle(store);
  int64_t queries = help_stat(store, "nearest_queries");
  if (process_start(&p, "client", (const char *[]){dir, NULL}))
    process_end(&p);
  CHECK_EQ_INT(help_stat(store, "nearest_queries") - queries, 40 + 50);
  for (int64_t key = KEYS; key < KEYS + 50; key++)
    model.version[key] = 2;
  near_finds(s, &model, KEYS, KEYS + 50);
  near_verifies(s, NULL);
  help_close(store, s);
}

/* While the owner writes, a client gets each row as it was compared. */
TEST(client_gets_whole_rows) {
  enum { K = 40, QUERIES = 6 };
  static int64_t keys[QUERIES * K];
  static double distances[QUERIES * K];
  static float queries[QUERIES * NEAR_DIM], vectors[QUERIES * K * NEAR_DIM];
  static uint64_t versions[QUERIES * K];
  size_t counts[QUERIES];
  const emb_neighbours to = {keys, distances, counts, vectors, versions};
  char dir[400];
  struct process p;
  emb_store *store;
  emb_session *s;
  (void)snprintf(dir, sizeof dir, "%s", help_path("s"));
  if (!make(dir) || !process_start(&p, "writer", (const char *[]){dir, NULL}) ||
      !process_hear(&p, "owns") || !process_hear(&p, "writes") ||
      !near_open(dir, NULL, EMB_OPEN_STEP, &store, &s))
    return;
  for (unsigned round = 0; round < help_amount(THREAD_SANITIZED ? 20 : 200);
       round++) {
    const emb_nearest_how how = {.flags = round % 2 ? EMB_NEAREST_EXACT : 0};
    size_t n = round % 3 ? 1 : QUERIES;
    for (size_t i = 0; i < n; i++)
      near_vector(queries + i * NEAR_DIM, (int64_t)(test_random() % WRITTEN),
                  1 + round % 3);
    if (!OK(s, emb_nearest(s, queries, n, K, &how, &to)))
      break;
    help_whole_rows(s, queries, &to, EMB_L2, NEAR_DIM);
    for (size_t i = 0; i < n * K; i++)
      CHECK(near_row_is(vectors + i * NEAR_DIM, keys[i], 1) ||
            near_row_is(vectors + i * NEAR_DIM, keys[i], 2) ||
            near_row_is(vectors + i * NEAR_DIM, keys[i], 3));
  }
  CHECK_EQ_INT(help_stat(store, "owner"), 0);
  process_kill(&p);
  help_close(store, s);
}

/* ---- fork ---------------------------------------------------------------- */

TEST(child_after_fork) {
  emb_store *store;
  emb_session *s;
  float query[NEAR_DIM];
  int64_t key;
  double distance;
  size_t count;
  if (THREAD_SANITIZED || /* which does not support that */
      !make(help_path("s")) ||
      !near_open(help_path("s"), NULL, EMB_OPEN_STEP, &store, &s))
    return;
  near_put(s, &model, 0, 1, 1);
  near_settle(store);
  near_vector(query, 7, 1);
  const emb_neighbours to = {&key, &distance, &count, NULL, NULL};
  pid_t pid = test_fork();
  if (pid == 0)
    _exit(emb_nearest(s, query, 1, 1, NULL, &to) == EMB_MISUSE ? 0 : 1);
  int status = -1;
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  near_finds(s, &model, 0, 20);
  help_close(store, s);
}
