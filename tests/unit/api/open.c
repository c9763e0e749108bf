/* SPDX-License-Identifier: MIT
**
** open.c -- opening, sharing, owning and closing; which calls are refused, and
** that a refused call leaves everything as it was.
**
** A second process runs this program again: with EMB_TEST_CHILD set to a
** directory it does not run tests, but opens that store and obeys the lines
** that it reads (child_main).
*/
#include "fork_help.h"
#include "store_help.h"
#include "files.h"

#include <fcntl.h>
#include <float.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "engine/base/env/env.h"

enum { DIM = 3 };

/* For what other processes may do where the owner does not serve; remote.c has
** the rest. */
static const emb_config plain = {.dim = DIM,
                                 .flags = EMB_OPEN_CREATE | EMB_OPEN_ALONE};

/* INT32_MIN: absent; INT32_MAX: an error. */
static int32_t get_one(emb_session *s, int64_t key) {
  float x[DIM];
  uint8_t found;
  if (!OK(s, emb_get(s, &key, 1, x, &found, NULL)))
    return INT32_MAX;
  return found ? help_value(x, DIM, key) : INT32_MIN;
}

#define IS(s_, key_, value_) CHECK_EQ_INT(get_one((s_), (key_)), (value_))

/* An open that must fail with this code and a text that holds `part`. */
static void refuses(const char *dir, const emb_config *config, int code,
                    const char *part) {
  emb_err err = {99, "untouched"};
  emb_store *store = (emb_store *)(void *)&err;
  int rc = emb_open(dir, config, &store, &err);
  (void)test_check(rc == code && err.code == code &&
                       strstr(err.text, part) != NULL && store == NULL,
                   __FILE__, __LINE__, "open gave %d \"%s\", not %d \"%s\"", rc,
                   err.text, code, part);
  if (rc == EMB_OK)
    (void)emb_close(store, NULL);
  CHECK_EQ_INT(emb_open(dir, config, &store, NULL), code);
}

/* ---- a second process ---------------------------------------------------- */

static int64_t obey(emb_store *store, emb_session *s, const char *line) {
  long long key = 0, value = 0;
  uint64_t number;
  if (sscanf(line, "get %lld", &key) == 1)
    return get_one(s, key);
  if (sscanf(line, "put %lld %lld", &key, &value) == 2)
    return help_put(s, key, (int32_t)value);
  if (sscanf(line, "txn put %lld %lld", &key, &value) == 2) {
    float x[DIM];
    int64_t k = key;
    help_vector(x, DIM, k, (int32_t)value);
    return emb_txn_put(s, &k, 1, x);
  }
  if (sscanf(line, "rewrite %lld %lld", &key, &value) == 2) {
    /* keys below `key` get `value`, then a checkpoint */
    for (int64_t k = 0; k < key; k++) {
      int rc = help_put(s, k, (int32_t)value);
      if (rc)
        return rc;
    }
    return emb_checkpoint(s);
  }
  if (strcmp(line, "begin") == 0)
    return emb_begin(s);
  if (strcmp(line, "prepare") == 0)
    return emb_prepare(s, &number) ? -1 : (int64_t)number;
  if (strcmp(line, "commit") == 0)
    return emb_commit(s);
  if (strcmp(line, "checkpoint") == 0)
    return emb_checkpoint(s);
  if (strcmp(line, "count") == 0)
    return emb_count(s);
  if (strcmp(line, "owner") == 0)
    return emb_is_owner(store);
  return -1000;
}

__attribute__((constructor)) static void child_main(void) {
  const char *dir = getenv("EMB_TEST_CHILD");
  if (dir == NULL)
    return;
  const char *flags = getenv("EMB_TEST_FLAGS");
  emb_config config = {.dim = DIM,
                       .memory_bytes = 1,
                       .flags =
                           (uint32_t)strtoul(flags ? flags : "1", NULL, 10)};
  emb_store *store;
  emb_session *s;
  emb_err err;
  char line[256];
  int rc = emb_open(dir, &config, &store, &err);
  rc = rc ? rc : emb_session_open(store, &s, &err);
  printf("%d\n", rc);
  (void)fflush(stdout);
  while (rc == 0 && fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = 0;
    if (strcmp(line, "close") == 0)
      break;
    printf("%" PRId64 "\n", obey(store, s, line));
    (void)fflush(stdout);
  }
  if (rc == 0) {
    emb_session_close(s);
    rc = emb_close(store, &err);
    printf("%d\n", rc);
    (void)fflush(stdout);
  }
  _exit(0);
}

struct child {
  pid_t pid;
  int to, from;
};

extern char **environ;

/* Reads one line of a child as a number; INT64_MIN when none comes. */
static int64_t answer(struct child *c) {
  char line[64];
  size_t n = 0;
  while (n < sizeof line - 1) {
    struct pollfd p = {.fd = c->from, .events = POLLIN};
    if (poll(&p, 1, 60000) <= 0 || read(c->from, line + n, 1) != 1) {
      (void)test_check(0, __FILE__, __LINE__, "the child does not answer");
      return INT64_MIN;
    }
    if (line[n] == '\n')
      break;
    n++;
  }
  line[n] = 0;
  return strtoll(line, NULL, 10);
}

static void tell(struct child *c, const char *line) {
  size_t n = strlen(line);
  CHECK(write(c->to, line, n) == (ssize_t)n && write(c->to, "\n", 1) == 1);
}

static int64_t ask(struct child *c, const char *line) {
  tell(c, line);
  return answer(c);
}

/* Starts a child on a store; its first answer is the result of opening. */
static int64_t child_start(struct child *c, const char *dir, uint32_t flags) {
  int in[2], out[2];
  char text[16];
  char path[] = "/proc/self/exe";
  char *argv[] = {path, NULL};
  posix_spawn_file_actions_t actions;
  (void)snprintf(text, sizeof text, "%u", flags | EMB_OPEN_ALONE);
  if (!CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0))
    return -1;
  (void)posix_spawn_file_actions_init(&actions);
  (void)posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  (void)posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  (void)setenv("EMB_TEST_CHILD", dir, 1);
  (void)setenv("EMB_TEST_FLAGS", text, 1);
  int rc = posix_spawn(&c->pid, path, &actions, NULL, argv, environ);
  (void)unsetenv("EMB_TEST_CHILD");
  (void)posix_spawn_file_actions_destroy(&actions);
  (void)close(in[0]);
  (void)close(out[1]);
  c->to = in[1];
  c->from = out[0];
  return CHECK_EQ_INT(rc, 0) ? answer(c) : -1;
}

static void child_gone(struct child *c) {
  (void)close(c->to);
  (void)close(c->from);
  (void)waitpid(c->pid, NULL, 0);
}

static void child_close(struct child *c) {
  CHECK_EQ_INT(ask(c, "close"), 0);
  child_gone(c);
}

static void child_kill(struct child *c) {
  (void)kill(c->pid, SIGKILL);
  child_gone(c);
}

/* A reader looks for a newer checkpoint every few milliseconds. */
static void pause_ms(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  (void)nanosleep(&t, NULL);
}

/* ---- refused opens ------------------------------------------------------- */

TEST(open_refuses) {
  const char *dir = help_path("store");
  emb_config c = {.dim = DIM};
  refuses(dir, &c, EMB_CANTOPEN, dir);
  c.flags = EMB_OPEN_READONLY;
  refuses(dir, &c, EMB_CANTOPEN, dir);
  CHECK_EQ_INT(help_entries(dir), -1);
  c.flags = EMB_OPEN_CREATE;
  c.dim = 0;
  refuses(dir, &c, EMB_RANGE, "0");
  c.dim = EMB_DIM_MAX + 1;
  refuses(dir, &c, EMB_RANGE, "65537");
  c.dim = DIM;
  c.type = 2;
  refuses(dir, &c, EMB_RANGE, "2");
  c.type = EMB_F32;
  c.io = 3;
  refuses(dir, &c, EMB_RANGE, "3");
  c.io = 0;
  CHECK_EQ_INT(help_entries(dir), -1);
  refuses(help_path("a/b/c"), &c, EMB_CANTOPEN, "a/b/c");
  if (files_save(help_path("file"), "x", 1)) {
    refuses(help_path("file"), &c, EMB_CANTOPEN, "file");
    refuses(help_path("file/store"), &c, EMB_CANTOPEN, "file/store");
  }
  char text[8192];
  memset(text, 'x', sizeof text);
  (void)mkdir(dir, 0755);
  if (files_save(help_path("store/manifest"), text, sizeof text))
    refuses(dir, &c, EMB_NOTADB, "store");
  if (files_save(help_path("store/manifest"), text, 100))
    refuses(dir, &c, EMB_NOTADB, "store");
  CHECK_EQ_INT(help_entries(dir), 1);
}

/* A manifest without its log, and the log of another store. */
TEST(open_parts_missing) {
  emb_store *store;
  emb_session *s;
  char a[512], b[512];
  (void)snprintf(a, sizeof a, "%s", help_path("a"));
  (void)snprintf(b, sizeof b, "%s", help_path("b"));
  if (!help_open(a, &plain, &store, &s) || !OK(s, help_put(s, 1, 1)) ||
      !help_close(store, s) || !help_open(b, &plain, &store, &s) ||
      !OK(s, help_put(s, 1, 2)) || !help_close(store, s))
    return;
  CHECK_EQ_INT(rename(help_path("a/log"), help_path("a/old")), 0);
  refuses(a, &plain, EMB_CANTOPEN, "log");
  CHECK_EQ_INT(rename(help_path("b/log"), help_path("a/log")), 0);
  refuses(a, &plain, EMB_CORRUPT, "does not belong");
  CHECK_EQ_INT(rename(help_path("a/old"), help_path("a/log")), 0);
  if (help_open(a, &plain, &store, &s)) {
    IS(s, 1, 1);
    help_close(store, s);
  }
}

TEST(open_mismatch) {
  emb_store *store, *again;
  emb_session *s;
  emb_config other = plain;
  char text[600];
  for (int closed = 0; closed < 2; closed++) {
    const char *dir = help_path("store");
    if (!help_open(dir, &plain, &store, &s))
      return;
    if (closed && !help_close(store, s))
      return;
    other.dim = 4;
    other.type = EMB_F32;
    (void)snprintf(text, sizeof text, "%s has FLOAT[3], not FLOAT[4]", dir);
    refuses(dir, &other, EMB_MISMATCH, text);
    other.dim = 3;
    other.type = EMB_F16;
    (void)snprintf(text, sizeof text, "%s has FLOAT[3], not FLOAT16[3]", dir);
    refuses(dir, &other, EMB_MISMATCH, text);
    other.dim = 0; /* whatever the store has */
    if (CHECK_EQ_INT(emb_open(dir, &other, &again, NULL), 0)) {
      CHECK_EQ_INT(emb_dim(again), DIM);
      CHECK_EQ_INT(emb_type(again), EMB_F32);
      CHECK_EQ_INT(emb_close(again, NULL), 0);
    }
    if (!closed)
      help_close(store, s);
  }
}

TEST(open_readonly) {
  emb_store *store;
  emb_session *s;
  emb_config c = plain;
  int64_t key = 1;
  float x[DIM] = {1, 2, 3};
  uint8_t found;
  const char *dir = help_path("store");
  if (!help_open(dir, &c, &store, &s) || !OK(s, help_put(s, 1, 5)) ||
      !help_close(store, s))
    return;
  c.flags = EMB_OPEN_READONLY;
  if (!help_open(dir, &c, &store, &s))
    return;
  IS(s, 1, 5);
  CHECK_EQ_INT(emb_count(s), 1);
  GIVES(s, EMB_READONLY, help_put(s, 1, 6));
  CHECK(strstr(emb_errmsg(s), "read-only") != NULL);
  CHECK_EQ_INT(emb_errcode(s), EMB_READONLY);
  GIVES(s, EMB_READONLY, emb_rmw(s, &key, 1, x, &found, NULL));
  GIVES(s, EMB_READONLY, emb_delete(s, &key, 1, &found));
  GIVES(s, EMB_READONLY, emb_begin(s));
  GIVES(s, EMB_READONLY, emb_checkpoint(s));
  GIVES(s, EMB_READONLY, emb_optimize(s));
  CHECK(help_verify(s));
  IS(s, 1, 5);
  CHECK_EQ_INT(emb_is_owner(store), 0);
  /* If another open in this process may write, all may. */
  emb_store *writer;
  if (CHECK_EQ_INT(emb_open(dir, &plain, &writer, NULL), 0)) {
    CHECK(writer == store);
    OK(s, help_put(s, 1, 6));
    CHECK_EQ_INT(emb_close(writer, NULL), 0);
  }
  help_close(store, s);
}

TEST(open_shared) {
  emb_store *first, *second;
  emb_session *s, *t;
  emb_err err;
  char dir[512], link[512], slash[514];
  (void)snprintf(dir, sizeof dir, "%s", help_path("store"));
  (void)snprintf(link, sizeof link, "%s", help_path("link"));
  (void)snprintf(slash, sizeof slash, "%s//", dir);
  CHECK_EQ_INT(symlink(dir, link), 0);
  if (!help_open(dir, &plain, &first, &s) || !OK(s, help_put(s, 1, 1)) ||
      !help_open(link, &plain, &second, &t))
    return;
  CHECK(first == second);
  IS(t, 1, 1);
  OK(t, help_put(t, 1, 2));
  IS(s, 1, 2);
  emb_config replace = plain;
  replace.flags |= EMB_OPEN_EXCLUSIVE;
  refuses(dir, &replace, EMB_LOCKED, "open");
  CHECK_EQ_INT(emb_destroy(dir, &err), EMB_LOCKED);
  CHECK_EQ_INT(emb_close(second, &err), 0); /* s and t stay open */
  IS(t, 1, 2);
  CHECK_EQ_INT(emb_close(first, &err), EMB_MISUSE);
  CHECK(strstr(err.text, "session") != NULL);
  OK(s, help_put(s, 1, 3)); /* nothing was closed */
  emb_session_close(t);
  CHECK_EQ_INT(emb_close(first, NULL), EMB_MISUSE);
  if (!help_close(first, s) || !help_open(slash, &plain, &first, &s))
    return;
  IS(s, 1, 3);
  help_close(first, s);
  CHECK_EQ_INT(emb_close(NULL, &err), 0);
  /* EXCLUSIVE replaces a closed one. */
  if (help_open(dir, &replace, &first, &s)) {
    CHECK_EQ_INT(emb_count(s), 0);
    help_close(first, s);
  }
}

TEST(open_destroy) {
  emb_store *store;
  emb_session *s;
  emb_err err;
  struct child c;
  char dir[512];
  (void)snprintf(dir, sizeof dir, "%s", help_path("store"));
  CHECK_EQ_INT(emb_destroy(dir, &err), 0);
  CHECK_EQ_INT(emb_destroy(help_path("a/b"), NULL), 0);
  if (!help_open(dir, &plain, &store, &s) || !OK(s, help_put(s, 1, 1)))
    return;
  CHECK_EQ_INT(emb_destroy(dir, &err), EMB_LOCKED);
  CHECK(strstr(err.text, dir) != NULL);
  IS(s, 1, 1);
  if (!help_close(store, s))
    return;
  CHECK_EQ_INT(child_start(&c, dir, EMB_OPEN_CREATE), 0);
  CHECK_EQ_INT(ask(&c, "put 1 2"), 0);
  CHECK_EQ_INT(emb_destroy(dir, &err), EMB_BUSY);
  CHECK_EQ_INT(ask(&c, "get 1"), 2);
  child_close(&c);
  if (files_save(help_path("store/mine.txt"), "x", 1)) {
    CHECK_EQ_INT(emb_destroy(dir, &err), 0);
    CHECK_EQ_INT(help_entries(dir), 1);
    CHECK_EQ_INT(unlink(help_path("store/mine.txt")), 0);
  }
  if (help_open(dir, &plain, &store, &s)) { /* made again */
    CHECK_EQ_INT(emb_count(s), 0);
    help_close(store, s);
  }
  CHECK_EQ_INT(emb_destroy(dir, &err), 0);
  CHECK_EQ_INT(help_entries(dir), -1);
}

TEST(open_identity) {
  emb_store *store;
  emb_session *s;
  uint8_t a[16], b[16], zero[16] = {0};
  if (!help_open(help_path("a"), &plain, &store, &s))
    return;
  emb_uuid(store, a);
  CHECK(memcmp(a, zero, 16) != 0);
  CHECK(emb_session_store(s) == store);
  CHECK_STR(emb_errmsg(s), "");
  CHECK_EQ_INT(emb_errcode(s), EMB_OK);
  if (!help_close(store, s) || !help_open(help_path("a"), &plain, &store, &s))
    return;
  emb_uuid(store, b);
  CHECK(memcmp(a, b, 16) == 0);
  if (!help_close(store, s) || !help_open(help_path("b"), &plain, &store, &s))
    return;
  emb_uuid(store, b);
  CHECK(memcmp(a, b, 16) != 0);
  help_close(store, s);
}

/* ---- two processes ------------------------------------------------------- */

TEST(process_reader) {
  emb_store *store;
  emb_session *s;
  struct child c;
  const char *dir = help_path("store");
  if (!help_open(dir, &plain, &store, &s) || !OK(s, help_put(s, 1, 1)) ||
      !OK(s, emb_checkpoint(s)))
    return;
  CHECK_EQ_INT(emb_is_owner(store), 1);
  CHECK_EQ_INT(child_start(&c, dir, 0), 0);
  CHECK_EQ_INT(ask(&c, "get 1"), 1);
  CHECK_EQ_INT(ask(&c, "owner"), 0);
  CHECK_EQ_INT(ask(&c, "put 1 9"), EMB_BUSY);
  CHECK_EQ_INT(ask(&c, "begin"), EMB_BUSY);
  OK(s, help_put(s, 1, 2));
  OK(s, help_put(s, 2, 2));
  pause_ms(20);
  CHECK_EQ_INT(ask(&c, "get 1"), 1);
  CHECK_EQ_INT(ask(&c, "get 2"), INT32_MIN);
  OK(s, emb_checkpoint(s));
  pause_ms(20);
  CHECK_EQ_INT(ask(&c, "get 1"), 2);
  CHECK_EQ_INT(ask(&c, "get 2"), 2);
  CHECK_EQ_INT(ask(&c, "count"), 2);
  OK(s, help_put(s, 3, 3));
  help_close(store, s);
  /* The owner has closed: its last rows are there, and the child may write. */
  pause_ms(20);
  CHECK_EQ_INT(ask(&c, "get 3"), 3);
  CHECK_EQ_INT(ask(&c, "put 3 4"), 0);
  CHECK_EQ_INT(ask(&c, "owner"), 1);
  if (help_open(dir, &plain, &store, &s)) {
    IS(s, 3, 3);
    CHECK_EQ_INT(emb_is_owner(store), 0);
    GIVES(s, EMB_BUSY, help_put(s, 3, 5));
    CHECK(strstr(emb_errmsg(s), "another process") != NULL);
    child_close(&c);
    OK(s, help_put(s, 4, 4)); /* now the store is free */
    IS(s, 3, 4);
    help_close(store, s);
  }
}

/* The writer is killed. Its durable commits are there, nothing else is, and
** nothing is torn. */
TEST(process_killed) {
  emb_store *store;
  emb_session *s;
  struct child c;
  char dir[512];
  (void)snprintf(dir, sizeof dir, "%s", help_path("store"));
  CHECK_EQ_INT(child_start(&c, dir, EMB_OPEN_CREATE), 0);
  CHECK_EQ_INT(ask(&c, "put 1 1"), 0);
  CHECK_EQ_INT(ask(&c, "put 2 1"), 0);
  CHECK_EQ_INT(ask(&c, "checkpoint"), 0);
  CHECK_EQ_INT(ask(&c, "begin"), 0);
  CHECK_EQ_INT(ask(&c, "txn put 1 2"), 0);
  CHECK_EQ_INT(ask(&c, "txn put 3 2"), 0);
  CHECK_EQ_INT(ask(&c, "commit"), 0);
  CHECK_EQ_INT(ask(&c, "checkpoint"), 0);
  CHECK_EQ_INT(ask(&c, "begin"), 0);
  CHECK_EQ_INT(ask(&c, "txn put 1 3"), 0);
  CHECK_EQ_INT(ask(&c, "put 5 5"), 0);
  int64_t number = ask(&c, "prepare");
  CHECK(number > 0);
  CHECK_EQ_INT(ask(&c, "commit"), 0);
  CHECK_EQ_INT(ask(&c, "get 1"), 3);
  if (!help_open(dir, &plain, &store, &s))
    return;
  IS(s, 1, 2); /* the last checkpoint */
  CHECK_EQ_INT(emb_in_doubt(store), 0);
  child_kill(&c);
  pause_ms(20);
  IS(s, 1, 2); /* before the transaction in doubt */
  IS(s, 5, 5); /* made durable by the prepare */
  CHECK_EQ_INT(emb_is_owner(store), 1);
  CHECK_EQ_INT(emb_in_doubt(store), number);
  GIVES(s, EMB_LOCKED, help_put(s, 1, 9));
  GIVES(s, EMB_LOCKED, emb_begin(s));
  CHECK_EQ_INT(emb_resolve(store, emb_in_doubt(store), 1, NULL), 0);
  CHECK_EQ_INT(emb_in_doubt(store), 0);
  CHECK_EQ_INT(emb_committed(store), number);
  IS(s, 1, 3);
  IS(s, 2, 1);
  IS(s, 3, 2);
  CHECK(help_verify(s));
  OK(s, help_put(s, 1, 4));
  help_close(store, s);

  CHECK_EQ_INT(child_start(&c, dir, EMB_OPEN_CREATE), 0);
  CHECK_EQ_INT(ask(&c, "get 1"), 4);
  CHECK_EQ_INT(ask(&c, "begin"), 0);
  CHECK_EQ_INT(ask(&c, "txn put 1 5"), 0);
  CHECK(ask(&c, "prepare") > 0);
  CHECK_EQ_INT(ask(&c, "txn put 2 5"), 0); /* voids the prepare */
  child_kill(&c);
  if (help_open(dir, &plain, &store, &s)) {
    if (emb_in_doubt(store))
      CHECK_EQ_INT(emb_resolve(store, emb_in_doubt(store), 0, NULL), 0);
    IS(s, 1, 4);
    IS(s, 2, 1);
    CHECK(help_verify(s));
    help_close(store, s);
  }
}

/* A reader works while an owner rewrites and checkpoints all the time: files
** and places in them are reused while it reads them. */
TEST(process_reader_busy) {
  enum { KEYS = 3000, ROUNDS = 60, EACH = 500 };
  emb_store *store;
  emb_session *s;
  struct child c;
  char dir[512], line[64];
  emb_config config = {.dim = DIM, .memory_bytes = 1, .flags = EMB_OPEN_ALONE};
  int64_t keys[EACH];
  float x[EACH * DIM];
  uint8_t found[EACH];
  int32_t seen = 0;
  (void)snprintf(dir, sizeof dir, "%s", help_path("store"));
  CHECK_EQ_INT(child_start(&c, dir, EMB_OPEN_CREATE), 0);
  (void)snprintf(line, sizeof line, "rewrite %d 1", KEYS);
  CHECK_EQ_INT(ask(&c, line), 0);
  if (!help_open(dir, &config, &store, &s))
    return;
  for (int round = 2; round < ROUNDS; round++) {
    (void)snprintf(line, sizeof line, "rewrite %d %d", KEYS, round);
    tell(&c, line);
    for (int done = 0; !done;) {
      struct pollfd p = {.fd = c.from, .events = POLLIN};
      done = poll(&p, 1, 0) != 0;
      for (int i = 0; i < EACH; i++)
        keys[i] = (int64_t)(test_random() % KEYS);
      if (!OK(s, emb_get(s, keys, EACH, x, found, NULL)))
        goto out;
      for (int i = 0; i < EACH; i++) {
        int32_t value = help_value(x + i * DIM, DIM, keys[i]);
        if (!CHECK(found[i]) || !CHECK(value >= seen) || !CHECK(value <= round))
          goto out;
      }
      /* A batch sees one checkpoint, at least as new as the last batch's. */
      seen = help_value(x, DIM, keys[0]);
      emb_scan *scan;
      size_t n, all = 0;
      if (round % 4 ||
          !OK(s, emb_scan_open(s, INT64_MIN, INT64_MAX, EMB_SCAN_ANY, &scan)))
        continue;
      int rc;
      while ((rc = emb_scan_next(scan, EACH, keys, x, NULL, &n)) == 0 && n > 0)
        all += n;
      emb_scan_close(scan);
      if (rc != EMB_BUSY && (!OK(s, rc) || !CHECK_EQ_INT(all, KEYS)))
        goto out;
    }
    if (!CHECK_EQ_INT(answer(&c), 0))
      goto out;
  }
out:
  child_close(&c);
  help_close(store, s);
}

/* Several processes open a store at the same time where there is none: one
** makes it, the others find it. */
enum { MAKERS = 6 };

static int make_and_put(const char *dir, int64_t key, int64_t start_us) {
  emb_config config = {.dim = 4, .flags = EMB_OPEN_CREATE, .timeout_ms = 60000};
  float row[4];
  emb_store *store;
  emb_session *s;
  while ((int64_t)env_posix.now_us(&env_posix) < start_us) {
  }
  if (!help_open(dir, &config, &store, &s))
    return 1;
  help_vector(row, 4, key, 7);
  int good = OK(s, emb_put(s, &key, 1, row, NULL));
  good = help_close(store, s) && good;
  return !good;
}

TEST(made_by_several_processes) {
  emb_config config = {.dim = 4};
  emb_store *store;
  emb_session *s;
  unsigned rounds = help_amount(30);
  for (unsigned round = 0; round < rounds; round++) {
    char dir[512];
    pid_t makers[MAKERS];
    int64_t start = (int64_t)env_posix.now_us(&env_posix) + 10000;
    (void)snprintf(dir, sizeof dir, "%s/made-%u", test_dir(), round);
    for (int i = 0; i < MAKERS; i++) {
      makers[i] = test_fork();
      if (makers[i] == 0)
        _exit(make_and_put(dir, i, start));
    }
    for (int i = 0; i < MAKERS; i++) {
      int status = -1;
      CHECK(makers[i] > 0 && waitpid(makers[i], &status, 0) == makers[i]);
      CHECK_EQ_INT(status, 0);
    }
    if (!help_open(dir, &config, &store, &s))
      return;
    CHECK_EQ_INT(emb_count(s), MAKERS);
    help_verify(s);
    help_close(store, s);
    if (atomic_load(&test_state.failures))
      return;
  }
  test_count("stores made by several processes", rounds);
}

TEST(process_fork) {
  emb_store *store;
  emb_session *s, *t;
  emb_err err;
  emb_scan *scan;
  int64_t key = 1;
  float x[DIM] = {1, 2, 3};
  uint64_t number;
  const char *dir = help_path("store");
  if (!help_open(dir, &plain, &store, &s) || !OK(s, help_put(s, 1, 1)) ||
      !OK(s, emb_begin(s)) || !OK(s, emb_txn_put(s, &key, 1, x)))
    return;
  pid_t pid = test_fork();
  if (pid == 0) {
    int step, done, good = 1;
    good &= emb_get(s, &key, 1, x, NULL, NULL) == EMB_MISUSE;
    good &= strstr(emb_errmsg(s), "fork") != NULL;
    good &= emb_put(s, &key, 1, x, NULL) == EMB_MISUSE;
    good &= emb_txn_put(s, &key, 1, x) == EMB_MISUSE;
    good &= emb_txn_put_if(s, 1, x, 0, 1, &done) == EMB_MISUSE;
    good &= emb_prepare(s, &number) == EMB_MISUSE;
    good &= emb_commit(s) == EMB_MISUSE;
    good &= emb_savepoint(s, 1) == EMB_MISUSE;
    good &= emb_begin(s) == EMB_MISUSE;
    good &= emb_checkpoint(s) == EMB_MISUSE;
    good &= emb_scan_open(s, 0, 9, EMB_SCAN_ANY, &scan) == EMB_MISUSE;
    good &= emb_session_open(store, &t, &err) == EMB_MISUSE;
    good &= emb_step(store, &step) == EMB_MISUSE;
    good &= emb_resolve(store, emb_in_doubt(store), 0, &err) == EMB_MISUSE;
    emb_rollback(s);
    emb_session_close(s);
    good &= emb_close(store, &err) == EMB_OK;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
  CHECK_EQ_INT(status, 0);
  OK(s, emb_commit(s)); /* the parent did not notice */
  OK(s, emb_get(s, &key, 1, x, NULL, NULL));
  CHECK(x[0] == 1 && x[1] == 2 && x[2] == 3);
  help_close(store, s);
}

TEST(process_temporary) {
  emb_store *a, *b;
  emb_session *s, *t;
  struct child c;
  const char *dir = test_dir();
  emb_config config = {
      .dim = DIM, .memory_bytes = 1, .flags = EMB_OPEN_TEMPORARY};
  if (!help_open(dir, &config, &a, &s) || !help_open(dir, &config, &b, &t))
    return;
  CHECK(a != b);
  CHECK_EQ_INT(emb_is_owner(a), 1);
  OK(s, help_put(s, 1, 1));
  OK(t, help_put(t, 1, 2));
  IS(s, 1, 1);
  IS(t, 1, 2);
  OK(s, emb_begin(s));
  for (int64_t key = 0; key < 20000; key++) {
    float x[DIM];
    help_vector(x, DIM, key, 3);
    if (!OK(s, emb_txn_put(s, &key, 1, x)))
      break;
  }
  OK(s, emb_savepoint(s, 1));
  OK(s, emb_commit(s));
  OK(s, emb_checkpoint(s));
  OK(s, emb_optimize(s));
  CHECK(help_verify(s));
  IS(s, 19999, 3);
  CHECK_EQ_INT(emb_count(s), 20000);
  help_close(a, s);
  help_close(b, t);
  CHECK_EQ_INT(help_entries(dir), 0);
  CHECK_EQ_INT(child_start(&c, dir, EMB_OPEN_TEMPORARY), 0);
  CHECK_EQ_INT(ask(&c, "put 1 1"), 0);
  child_kill(&c);
  CHECK_EQ_INT(help_entries(dir), 0);
}

/* ---- refused writes ------------------------------------------------------ */

static void refuses_value(emb_session *s, float bad, const char *part) {
  int64_t keys[] = {1, 2, 3};
  float x[3 * DIM];
  for (int what = 0; what < 4; what++) {
    for (size_t i = 0; i < 3 * DIM; i++)
      x[i] = 1;
    x[2 * DIM + 1] = bad;
    if (what == 3 && !OK(s, emb_begin(s)))
      return;
    GIVES(s, EMB_NONFINITE,
          what == 0   ? emb_put(s, keys, 3, x, NULL)
          : what == 1 ? emb_rmw(s, keys, 3, x, NULL, NULL)
          : what == 2 ? emb_put(s, keys + 2, 1, x + 2 * DIM, NULL)
                      : emb_txn_put(s, keys, 3, x));
    (void)test_check(strstr(emb_errmsg(s), part) != NULL &&
                         strstr(emb_errmsg(s), "element 1") != NULL &&
                         strstr(emb_errmsg(s), "key 3") != NULL,
                     __FILE__, __LINE__, "text: %s", emb_errmsg(s));
    IS(s, 1, 10);
    IS(s, 2, INT32_MIN);
    IS(s, 3, INT32_MIN);
    CHECK_EQ_INT(emb_count(s), 1);
    if (what == 3)
      OK(s, emb_commit(s));
  }
}

TEST(write_refuses_values) {
  emb_store *store;
  emb_session *s;
  emb_config c = plain;
  for (uint32_t type = 0; type < 2; type++) {
    c.type = type;
    if (!help_open(help_path(type ? "half" : "single"), &c, &store, &s) ||
        !OK(s, help_put(s, 1, 10)))
      return;
    refuses_value(s, __builtin_nanf(""), "non-finite");
    refuses_value(s, __builtin_inff(), "non-finite");
    refuses_value(s, -__builtin_inff(), "non-finite");
    if (type == EMB_F16) {
      refuses_value(s, 65520.0f, "float16");
      refuses_value(s, -FLT_MAX, "float16");
    }
    /* Values that fit are stored; a sum that does not leaves its key alone. */
    float most = type == EMB_F16 ? 65504.0f : FLT_MAX;
    float x[2 * DIM] = {1, 1, 1, most, -most, most};
    int64_t keys[] = {1, 2};
    uint8_t found[2] = {9, 9};
    OK(s, emb_put(s, keys + 1, 1, x + DIM, NULL));
    GIVES(s, EMB_NONFINITE, emb_rmw(s, keys, 2, x, found, NULL));
    CHECK(strstr(emb_errmsg(s), "key 2") != NULL);
    IS(s, 1, 11); /* rows before it stay applied */
    float got[DIM];
    OK(s, emb_get(s, keys + 1, 1, got, NULL, NULL));
    CHECK(got[0] == most && got[1] == -most && got[2] == most);
    help_close(store, s);
  }
}

TEST(write_nothing) {
  emb_store *store;
  emb_session *s;
  emb_scan *scan;
  size_t n = 1;
  uint64_t number = 1;
  if (!help_open(help_path("store"), &plain, &store, &s))
    return;
  OK(s, emb_get(s, NULL, 0, NULL, NULL, NULL));
  OK(s, emb_peek(s, NULL, 0, NULL, NULL, NULL));
  OK(s, emb_refresh(s));
  OK(s, emb_put(s, NULL, 0, NULL, NULL));
  OK(s, emb_rmw(s, NULL, 0, NULL, NULL, NULL));
  OK(s, emb_delete(s, NULL, 0, NULL));
  OK(s, emb_begin(s));
  OK(s, emb_txn_put(s, NULL, 0, NULL));
  OK(s, emb_txn_delete(s, NULL, 0, NULL));
  OK(s, emb_prepare(s, &number));
  CHECK_EQ_INT(number, 0);
  OK(s, emb_commit(s));
  for (int order = 0; order < 3; order++) {
    if (OK(s, emb_scan_open(s, 5, 4, order, &scan))) {
      int64_t key;
      OK(s, emb_scan_next(scan, 1, &key, NULL, NULL, &n));
      CHECK_EQ_INT(n, 0);
      OK(s, emb_scan_next(scan, 0, NULL, NULL, NULL, &n));
      CHECK_EQ_INT(n, 0);
      emb_scan_close(scan);
    }
  }
  emb_scan_close(NULL);
  CHECK_EQ_INT(emb_count(s), 0);
  OK(s, emb_checkpoint(s));
  OK(s, emb_optimize(s));
  CHECK(help_verify(s));
  help_close(store, s);
}

TEST(write_repeated_keys) {
  emb_store *store;
  emb_session *s;
  if (!help_open(help_path("store"), &plain, &store, &s))
    return;
  int64_t keys[] = {7, 8, 7, 9, 7, 8};
  float x[6 * DIM];
  uint8_t found[6];
  for (int in_txn = 0; in_txn < 2; in_txn++) {
    for (int i = 0; i < 6; i++)
      help_vector(x + i * DIM, DIM, keys[i], 10 * in_txn + i);
    if (in_txn)
      OK(s, emb_begin(s));
    OK(s, in_txn ? emb_txn_put(s, keys, 6, x) : emb_put(s, keys, 6, x, NULL));
    IS(s, 7, 10 * in_txn + 4);
    IS(s, 8, 10 * in_txn + 5);
    IS(s, 9, 10 * in_txn + 3);
    CHECK_EQ_INT(emb_count(s), 3);
    if (in_txn)
      OK(s, emb_commit(s));
  }
  for (int i = 0; i < 6 * DIM; i++)
    x[i] = (float)(1 << (i / DIM));
  OK(s, emb_rmw(s, keys, 6, x, found, NULL));
  IS(s, 7, 14 + 1 + 4 + 16);
  IS(s, 8, 15 + 2 + 32);
  IS(s, 9, 13 + 8);
  OK(s, emb_delete(s, keys, 6, found));
  CHECK(found[0] && found[1] && !found[2] && found[3] && !found[4]);
  OK(s, emb_rmw(s, keys, 6, x, found, NULL));
  for (int i = 0; i < 6; i++)
    CHECK_EQ_INT(found[i], 0);
  CHECK_EQ_INT(emb_count(s), 0);
  help_close(store, s);
}

TEST(write_misuse) {
  emb_store *store;
  emb_session *s, *t;
  emb_err err;
  uint64_t number;
  int64_t key = 1;
  float x[DIM] = {0};
  emb_config c = plain;
  c.timeout_ms = 50;
  if (!help_open(help_path("store"), &c, &store, &s) ||
      !CHECK_EQ_INT(emb_session_open(store, &t, &err), 0))
    return;
  GIVES(s, EMB_MISUSE, emb_txn_put(s, &key, 1, x));
  GIVES(s, EMB_MISUSE, emb_txn_delete(s, &key, 1, NULL));
  GIVES(s, EMB_MISUSE, emb_savepoint(s, 0));
  GIVES(s, EMB_MISUSE, emb_rollback_to(s, 0));
  GIVES(s, EMB_MISUSE, emb_savepoint_release(s, 0));
  GIVES(s, EMB_MISUSE, emb_prepare(s, &number));
  GIVES(s, EMB_MISUSE, emb_commit(s));
  emb_rollback(s); /* no transaction: no effect */
  OK(s, emb_begin(s));
  GIVES(s, EMB_MISUSE, emb_begin(s));
  GIVES(t, EMB_BUSY, emb_begin(t));
  OK(s, emb_txn_put(s, &key, 1, x));
  GIVES(t, EMB_BUSY, emb_put(t, &key, 1, x, NULL));
  CHECK(strstr(emb_errmsg(t), "key 1") != NULL);
  GIVES(t, EMB_BUSY, emb_rmw(t, &key, 1, x, NULL, NULL));
  GIVES(t, EMB_BUSY, emb_delete(t, &key, 1, NULL));
  GIVES(s, EMB_LOCKED, emb_put(s, &key, 1, x, NULL));
  GIVES(s, EMB_LOCKED, emb_rmw(s, &key, 1, x, NULL, NULL));
  GIVES(s, EMB_LOCKED, emb_delete(s, &key, 1, NULL));
  GIVES(s, EMB_LOCKED, emb_checkpoint(s));
  GIVES(s, EMB_LOCKED, emb_optimize(s));
  OK(t, emb_checkpoint(t));
  OK(t, emb_optimize(t));
  emb_session_close(s); /* rolls back */
  CHECK_EQ_INT(emb_count(t), 0);
  OK(t, emb_put(t, &key, 1, x, NULL));
  help_close(store, t);
}

/* ---- interrupts ---------------------------------------------------------- */

static int yes(void *calls) {
  ++*(int *)calls;
  return 1;
}

TEST(interrupts) {
  enum { KEYS = 40000, WIDE = 64 };
  emb_store *store;
  emb_session *s, *t;
  emb_err err;
  emb_scan *scan;
  size_t n;
  int calls = 0;
  int64_t *keys = malloc(KEYS * sizeof *keys);
  float *x = calloc(KEYS, WIDE * sizeof *x);
  emb_config c = {.dim = WIDE,
                  .memory_bytes = 1,
                  .flags = EMB_OPEN_CREATE,
                  .timeout_ms = 60000};
  if (keys == NULL || x == NULL ||
      !help_open(help_path("store"), &c, &store, &s) ||
      !CHECK_EQ_INT(emb_session_open(store, &t, &err), 0))
    goto out;
  for (int64_t i = 0; i < KEYS; i++)
    keys[i] = i;
  if (!OK(s, emb_put(s, keys, KEYS, x, NULL)) || !OK(t, emb_begin(t)) ||
      !OK(t, emb_txn_put(t, keys, 1, x)))
    goto out;
  emb_session_interrupt(s, yes, &calls);
  GIVES(s, EMB_INTERRUPT, emb_begin(s)); /* waits for t's transaction */
  GIVES(s, EMB_INTERRUPT, emb_put(s, keys, 1, x, NULL));
  GIVES(s, EMB_INTERRUPT, emb_delete(s, keys, 1, NULL));
  emb_rollback(t);
  GIVES(s, EMB_INTERRUPT, emb_get(s, keys, KEYS, x, NULL, NULL));
  if (OK(s, emb_begin(s))) {
    GIVES(s, EMB_INTERRUPT, emb_txn_put(s, keys, KEYS, x));
    CHECK_EQ_INT(emb_count(s), KEYS);
    emb_rollback(s);
  }
  emb_session_interrupt(s, NULL, NULL);
  if (OK(s, emb_scan_open(s, INT64_MIN, INT64_MAX, EMB_SCAN_ANY, &scan))) {
    emb_session_interrupt(s, yes, &calls);
    GIVES(s, EMB_INTERRUPT, emb_scan_next(scan, 10, keys, x, NULL, &n));
    emb_session_interrupt(s, NULL, NULL);
    OK(s, emb_scan_next(scan, 10, keys, x, NULL, &n));
    CHECK_EQ_INT(n, 10);
    emb_scan_close(scan);
  }
  emb_session_interrupt(s, yes, &calls);
  int problems = 0;
  GIVES(s, EMB_INTERRUPT, emb_verify(s, help_report, &problems));
  emb_session_interrupt(s, NULL, NULL);
  CHECK(calls >= 6);
  CHECK(help_verify(s));
  OK(s, emb_put(s, keys, 1, x, NULL));
  emb_session_close(t);
  help_close(store, s);
out:
  free(keys);
  free(x);
}
