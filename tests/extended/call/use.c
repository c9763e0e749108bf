/* SPDX-License-Identifier: MIT
**
** use.c -- the calls of files/, in the process that owns a store and in a
** client of it: both get the same results, using only the public interface.
*/
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emb.h"

/* A request of MANY keys is larger than a slot (4 MiB), and so is its
** answer. */
enum { DIM = 2, ROWS = 5, MANY = 700000 };

static const emb_config config = {.dim = DIM,
                                  .flags = EMB_OPEN_CREATE,
                                  .optimizer = "sgd(lr=1)",
                                  .gradients = "average(expire=1h)",
                                  .timeout_ms = 5000};

static int passed, failed;
static const char *where = "";

static void check(int good, const char *what) {
  passed += good;
  failed += !good;
  if (!good)
    printf("failed, %s: %s\n", where, what);
}

/* ---- the process that owns a store --------------------------------------- */

struct owner {
  pid_t pid;
  int say, hear;
};

/* Owns the store until told to leave. */
static void own(const char *dir, int hear, int say) {
  emb_store *store;
  emb_session *s;
  char byte = 0;
  (void)alarm(120);
  if (emb_open(dir, &config, &store, NULL) ||
      emb_session_open(store, &s, NULL) || emb_own(s))
    _exit(2);
  (void)!write(say, "o", 1);
  (void)!read(hear, &byte, 1);
  emb_session_close(s);
  _exit(emb_close(store, NULL) ? 3 : 0);
}

static void owner_start(struct owner *o, const char *dir) {
  int down[2], up[2];
  char byte = 0;
  check(pipe(down) == 0 && pipe(up) == 0, "pipes");
  (void)fflush(stdout);
  o->pid = fork();
  if (o->pid == 0) {
    (void)close(down[1]);
    (void)close(up[0]);
    own(dir, down[0], up[1]);
  }
  (void)close(down[0]);
  (void)close(up[1]);
  o->say = down[1];
  o->hear = up[0];
  check(read(o->hear, &byte, 1) == 1 && byte == 'o', "another process owns");
}

static void owner_leave(struct owner *o) {
  int status = -1;
  (void)close(o->say);
  check(waitpid(o->pid, &status, 0) == o->pid && status == 0, "it leaves");
  (void)close(o->hear);
}

static emb_store *open_store(const char *dir, uint32_t flags,
                             emb_session **session) {
  emb_config how = config;
  emb_store *store = NULL;
  how.flags = flags;
  int good = emb_open(dir, &how, &store, NULL) == EMB_OK &&
             emb_session_open(store, session, NULL) == EMB_OK;
  check(good, "open");
  if (!good)
    exit(1);
  return store;
}

static void close_store(emb_store *store, emb_session *session) {
  emb_session_close(session);
  check(emb_close(store, NULL) == EMB_OK, "close");
}

/* ---- the call of a session ----------------------------------------------- */

static int is_row(emb_session *s, int64_t key, float x, float y) {
  float row[DIM];
  return emb_peek(s, &key, 1, row, NULL, NULL) == EMB_OK && row[0] == x &&
         row[1] == y;
}

/* Keys 1 to ROWS: (1, 10), (2, 20), ... */
static void put_rows(emb_session *s) {
  int64_t keys[ROWS];
  float rows[ROWS * DIM];
  for (int i = 0; i < ROWS; i++) {
    keys[i] = i + 1;
    rows[i * DIM] = (float)(i + 1);
    rows[i * DIM + 1] = (float)(10 * (i + 1));
  }
  check(emb_put(s, keys, ROWS, rows, NULL) == EMB_OK, "put");
}

static void use_all_arguments(emb_session *s) {
  static const int64_t keys[] = {1, 3, 99};
  static const float weights[] = {2, 1, 1}, there[] = {1, 10, 3, 30, 0, 0};
  float rows[3 * DIM] = {7, 7, 7, 7, 7, 7};
  uint8_t found[] = {7, 7, 7};
  double sum = -1;
  size_t count = 7;
  const emb_rows to = {.vectors = rows, .found = found};
  check(emb_example(s, keys, 3, weights, &to, "mean", &sum, &count) == EMB_OK,
        "all arguments");
  check(sum == (2 * 11 + 33) / 2. && count == 2, "numbers of an answer");
  check(memcmp(rows, there, sizeof rows) == 0, "vectors of an answer");
  check(found[0] == 1 && found[1] == 1 && found[2] == 0, "which are there");
  check(is_row(s, 1, 2, 20) && is_row(s, 3, 3, 30), "what it has written");
}

/* Each argument that may be NULL is NULL alone, and then all are. */
static void use_nulls(emb_session *s) {
  static const int64_t keys[] = {2, 98};
  static const float one[] = {1, 1};
  float rows[2 * DIM] = {0};
  uint8_t found[2] = {7, 7};
  double sum = 0;
  size_t count = 7;
  emb_rows to = {.vectors = rows};
  check(emb_example(s, keys, 2, NULL, &to, "sum", &sum, &count) == EMB_OK &&
            sum == 22 && count == 1 && rows[1] == 20,
        "no weights");
  to = (emb_rows){.found = found};
  check(emb_example(s, keys, 2, one, &to, NULL, &sum, NULL) == EMB_OK &&
            sum == 22 && found[0] == 1 && found[1] == 0,
        "no vectors, no name, no count");
  count = 7;
  check(emb_example(s, keys, 2, one, NULL, NULL, NULL, &count) == EMB_OK &&
            count == 1,
        "no rows, no sum");
  check(emb_example(s, keys, 2, NULL, NULL, NULL, NULL, NULL) == EMB_OK,
        "keys alone");
  check(emb_example(s, NULL, 0, NULL, NULL, NULL, &sum, &count) == EMB_OK &&
            sum == 0 && count == 0,
        "nothing");
}

static void use_texts(emb_session *s) {
  static const int64_t key = 2;
  double sum = -1;
  check(emb_example(s, &key, 1, NULL, NULL, "median", &sum, NULL) ==
                EMB_RANGE &&
            sum == -1 && strstr(emb_errmsg(s), "no such example: 'median'"),
        "a text comes there, and that of an error back");
  check(emb_example(s, &key, 1, NULL, NULL, "", &sum, NULL) == EMB_RANGE &&
            strstr(emb_errmsg(s), "''"),
        "an empty text is not none");
}

static void use_many(emb_session *s) {
  int64_t *keys = malloc(MANY * sizeof *keys);
  float *weights = malloc(MANY * sizeof *weights);
  float *rows = malloc(MANY * sizeof *rows * DIM);
  uint8_t *found = malloc(MANY);
  const emb_rows to = {.vectors = rows, .found = found};
  double sum = 0;
  size_t count = 0, there = 0, zeros = 0;
  if (!keys || !weights || !rows || !found)
    exit(1);
  for (int i = 0; i < MANY; i++) {
    keys[i] = MANY - i;
    weights[i] = i == MANY - 5 ? 3 : 1;
  }
  check(emb_example(s, keys, MANY, weights, &to, "sum", &sum, &count) == EMB_OK,
        "many keys");
  for (int i = 0; i < MANY; i++) {
    there += found[i];
    zeros += rows[i * DIM] == 0 && rows[i * DIM + 1] == 0;
  }
  check(count == ROWS && there == ROWS && zeros == MANY - ROWS,
        "which of many are there");
  check(sum == 22 + 22 + 33 + 44 + 3 * 55, "their sum");
  check(rows[(MANY - 5) * DIM + 1] == 50 && is_row(s, 5, 15, 150),
        "the last ones, as they were and are");
  free(keys);
  free(weights);
  free(rows);
  free(found);
}

static size_t pending(emb_session *s) {
  emb_pending_key keys[ROWS];
  size_t n = 99;
  check(emb_pending(s, keys, ROWS, &n) == EMB_OK, "emb_pending");
  return n;
}

/* The rows of its keys have their gradients applied, the others wait. */
static void use_gradients(emb_session *s) {
  static const int64_t keys[] = {2, 4};
  static const float gradients[] = {1, 2, 1, 2};
  float row[DIM] = {0};
  const emb_rows to = {.vectors = row};
  double sum = 0;
  check(emb_apply_gradients(s, keys, 2, gradients, NULL, NULL) == EMB_OK &&
            pending(s) == 2,
        "gradients that are kept");
  check(emb_example(s, &keys[1], 1, NULL, &to, NULL, &sum, NULL) == EMB_OK &&
            row[0] == 3 && row[1] == 38 && sum == 41,
        "a gradient is applied before");
  check(pending(s) == 1, "that of another key is not");
  check(emb_flush_gradients(s, NULL) == EMB_OK && is_row(s, 2, 1, 18),
        "the other one afterwards");
}

/* ---- the call of a snapshot ---------------------------------------------- */

static void use_snapshot(emb_session *s) {
  static const int64_t keys[] = {1, 2, 97};
  static const float ten[] = {10, 10, 10};
  emb_snap *snap = NULL;
  double sum = 0;
  size_t count = 7;
  check(emb_snapshot(s, "before") == EMB_OK &&
            emb_example(s, keys, 3, ten, NULL, NULL, &sum, NULL) == EMB_OK &&
            sum == 220 + 190,
        "a change after a snapshot");
  check(emb_snapshot_open(s, "before", &snap) == EMB_OK, "open it");
  if (!snap)
    exit(1);
  check(emb_snapshot_example(snap, keys, 3, &sum, &count) == EMB_OK &&
            sum == 22 + 19 && count == 2,
        "rows as of then");
  count = 7;
  check(emb_snapshot_example(snap, keys, 1, NULL, &count) == EMB_OK &&
            count == 1,
        "of one, no sum");
  check(emb_snapshot_example(snap, NULL, 0, &sum, NULL) == EMB_OK && sum == 0,
        "of nothing, no count");
  emb_snapshot_close(snap);
}

/* ---- in both processes --------------------------------------------------- */

static void use(emb_session *s) {
  put_rows(s);
  use_all_arguments(s);
  use_nulls(s);
  use_texts(s);
  use_many(s);
  use_gradients(s);
  use_snapshot(s);
  check(emb_count(s) == ROWS, "no row has come");
}

static void use_as_owner(const char *dir) {
  emb_session *s;
  emb_store *store = open_store(dir, config.flags, &s);
  where = "in the owner";
  use(s);
  check(emb_is_served(store, NULL) == EMB_OK, "this process owns it");
  close_store(store, s);
  check(emb_destroy(dir, NULL) == EMB_OK, "destroy");
}

/* Of the two calls one writes, as its row says. */
static void use_readonly(const char *dir) {
  static const int64_t key = 3;
  emb_session *s;
  emb_snap *snap = NULL;
  double sum = 0;
  emb_store *store = open_store(dir, EMB_OPEN_READONLY, &s);
  where = "in a client that only reads";
  check(emb_example(s, &key, 1, NULL, NULL, NULL, &sum, NULL) == EMB_READONLY,
        "a call that writes");
  check(emb_example(s, &key, 0, NULL, NULL, NULL, &sum, NULL) == EMB_READONLY,
        "also where it would write nothing");
  check(emb_snapshot_open(s, "before", &snap) == EMB_OK &&
            emb_snapshot_example(snap, &key, 1, &sum, NULL) == EMB_OK &&
            sum == 33,
        "one that reads");
  emb_snapshot_close(snap);
  close_store(store, s);
}

static void use_as_client(const char *dir) {
  struct owner owner;
  emb_session *s;
  where = "in a client";
  owner_start(&owner, dir);
  emb_store *store = open_store(dir, config.flags, &s);
  use(s);
  check(emb_owner_of(dir) == owner.pid, "the other process owns it");
  close_store(store, s);
  use_readonly(dir);
  owner_leave(&owner);
  check(emb_destroy(dir, NULL) == EMB_OK, "destroy");
}

int main(void) {
  const char *parent = getenv("TMPDIR");
  char dir[400], path[500];
  (void)alarm(120);
  (void)snprintf(dir, sizeof dir, "%s/emb-extended-XXXXXX",
                 parent ? parent : "/tmp");
  check(mkdtemp(dir) != NULL, "a directory");
  (void)snprintf(path, sizeof path, "%s/store", dir);
  use_as_client(path); /* it forks before this process has opened anything */
  use_as_owner(path);
  check(rmdir(dir) == 0, "the directory is empty");
  printf("%d passed, %d failed\n", passed, failed);
  return failed > 0;
}
