/* SPDX-License-Identifier: MIT
**
** processes.c -- a process that reads a store while others write to it, close
** it, are killed, and recover it, and none serves (remote.c has those that do).
**
** The others are children, forked before this process has opened anything; so
** the file locks are the real ones.  Each value written is the number of a
** round, the same for all keys, so a state that never existed shows
** immediately.
*/
#include "fork_help.h"
#include "store_help.h"

#include "engine/table/owner/registry.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DIM = 32, KEYS = 40000, BATCH = 1000 };

static const emb_config writer_config = {.dim = DIM,
                                         .memory_bytes = 1,
                                         .flags =
                                             EMB_OPEN_CREATE | EMB_OPEN_ALONE,
                                         .timeout_ms = 20000};
static const emb_config reader_config = {.dim = DIM,
                                         .memory_bytes = 1,
                                         .flags = EMB_OPEN_ALONE,
                                         .timeout_ms = 20000};

/* What the processes of one test share. */
static struct shared {
  _Atomic int64_t committed; /* the last round that is durable */
  _Atomic int64_t least;     /* no read that begins now may show less */
  _Atomic uint64_t reads;    /* of the children */
  _Atomic int stop;
  _Atomic int hold, held; /* recovery must wait; and is waiting */
} * shared;

static int share(void) {
  if (shared == NULL) {
    void *at = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared = at == MAP_FAILED ? NULL : at;
  }
  if (shared != NULL)
    memset((void *)shared, 0, sizeof *shared);
  return CHECK(shared != NULL);
}

static void wait_for(_Atomic int *flag) {
  for (int i = 0; i < 60000 && !atomic_load(flag); i++)
    (void)usleep(1000);
  CHECK(atomic_load(flag) != 0);
}

static pid_t start(void (*run)(const char *dir), const char *dir) {
  (void)fflush(stdout);
  pid_t child = test_fork();
  if (child == 0) {
    (void)alarm(SANITIZED ? 300 : 60);
    run(dir);
    _exit(0);
  }
  CHECK(child > 0);
  return child;
}

/* A child reports a failure in its exit status. */
static void end(pid_t child, int killed) {
  int status = -1;
  if (killed)
    (void)kill(child, SIGKILL);
  CHECK_EQ_INT(waitpid(child, &status, 0), child);
  test_check(killed ? WIFSIGNALED(status)
                    : WIFEXITED(status) && WEXITSTATUS(status) == 0,
             __FILE__, __LINE__, "a child ended with status %d", status);
}

#define MUST(call_)                                                            \
  do {                                                                         \
    if ((call_) != EMB_OK)                                                     \
      _exit(__LINE__ % 100 + 1);                                               \
  } while (0)

/* Resolves a transaction that a crash left in doubt: it was prepared, so it
** may count. */
static void decide(emb_store *store) {
  emb_err err;
  if (emb_in_doubt(store) && emb_is_owner(store))
    MUST(emb_resolve(store, emb_in_doubt(store), 1, &err));
}

/* ---- the writer ---------------------------------------------------------- */

/* All keys get this value, in one transaction. */
static int write_round(emb_session *s, int32_t value) {
  static float vectors[BATCH * DIM];
  static int64_t keys[BATCH];
  uint64_t number;
  int rc = emb_begin(s);
  for (int64_t first = 0; !rc && first < KEYS; first += BATCH) {
    for (int64_t i = 0; i < BATCH; i++) {
      keys[i] = first + i;
      help_vector(vectors + i * DIM, DIM, first + i, value);
    }
    rc = emb_txn_put(s, keys, BATCH, vectors);
  }
  rc = rc ? rc : emb_prepare(s, &number);
  return rc ? rc : emb_commit(s);
}

static emb_session *open_writer(const char *dir) {
  emb_store *store;
  emb_session *s;
  emb_err err;
  MUST(emb_open(dir, &writer_config, &store, &err));
  MUST(emb_session_open(store, &s, &err));
  return s;
}

/* Writes rounds until the test has enough, every `every`-th with a
** checkpoint; then closes the store. */
static void write_rounds(emb_session *s, int32_t round, int32_t every) {
  emb_store *store = emb_session_store(s);
  emb_err err;
  for (; !atomic_load(&shared->stop); round++) {
    MUST(write_round(s, round));
    atomic_store(&shared->committed, round);
    if (round % every == 0)
      MUST(emb_checkpoint(s));
  }
  emb_session_close(s);
  MUST(emb_close(store, &err));
}

/* Writes rounds as fast as it can, with checkpoints that free places for
** reuse. */
static void train(const char *dir) {
  emb_session *s = open_writer(dir);
  write_rounds(s, 1, 2);
}

/* Continues where the last writer was killed, and leaves no transaction
** undecided. */
static void train_on(const char *dir) {
  emb_session *s = open_writer(dir);
  for (int32_t round = (int32_t)atomic_load(&shared->committed) + 2;; round++) {
    int rc = write_round(s, round);
    if (rc == EMB_LOCKED) {
      emb_rollback(s);
      decide(emb_session_store(s));
      rc = write_round(s, round);
    }
    MUST(rc);
    atomic_store(&shared->committed, round);
    if (round % 3 == 0)
      MUST(emb_checkpoint(s));
  }
}

/* One round in a checkpoint, one only in the log. */
static void leave_a_log(const char *dir) {
  emb_session *s = open_writer(dir);
  MUST(write_round(s, 1));
  MUST(emb_checkpoint(s));
  MUST(write_round(s, 2));
  atomic_store(&shared->committed, 2);
  for (;;)
    (void)pause();
}

/* ---- a slow recovery ----------------------------------------------------- */

static struct env slow;

/* A new owner lists the directory when it has read the log. */
static int slow_list(struct env *env, const char *path,
                     void (*each)(void *arg, const char *name), void *arg) {
  atomic_store(&shared->held, 1);
  while (atomic_load(&shared->hold))
    (void)usleep(200);
  return env_posix.list_dir(env, path, each, arg);
}

static void recover_slowly(const char *dir) {
  emb_store *store;
  emb_err err;
  slow = env_posix;
  slow.list_dir = slow_list;
  env_set_default(&slow);
  MUST(emb_open(dir, &reader_config, &store, &err));
  decide(store);
  while (!atomic_load(&shared->stop))
    (void)usleep(200);
  MUST(emb_close(store, &err));
}

/* ---- reading ------------------------------------------------------------- */

/* A scan finds one value in all rows, each key once; *value: that value. */
static int scan_once(emb_session *s, int order, int64_t *value) {
  static uint8_t seen[KEYS];
  static float vectors[256 * DIM];
  int64_t keys[256];
  uint64_t rows = 0;
  uint64_t again = 0, others = 0;
  int64_t other = -1;
  size_t n;
  emb_scan *scan;
  memset(seen, 0, sizeof seen);
  *value = -1;
  if (!OK(s, emb_scan_open(s, INT64_MIN, INT64_MAX, order, &scan)))
    return 0;
  int rc;
  while ((rc = emb_scan_next(scan, 256, keys, vectors, NULL, &n)) == EMB_OK &&
         n > 0)
    for (size_t i = 0; i < n; i++, rows++) {
      int64_t key = keys[i];
      int32_t is = help_value(vectors + i * DIM, DIM, key);
      *value = *value < 0 ? is : *value;
      if (key < 0 || key >= KEYS || seen[key]++)
        again++;
      if (is != *value) {
        others++;
        other = is;
      }
    }
  emb_scan_close(scan);
  return OK(s, rc) & test_check(!again && !others && rows == KEYS, __FILE__,
                                __LINE__,
                                "order %d: %" PRIu64 " rows, %" PRIu64
                                " of no key or again, round %" PRId64
                                " and %" PRIu64 " rows of round %" PRId64,
                                order, rows, again, *value, others, other);
}

/* All keys in one batch, out of order. */
static int get_once(emb_session *s) {
  static float vectors[BATCH * DIM];
  int64_t keys[BATCH];
  uint8_t found[BATCH];
  int good = 1;
  for (int64_t i = 0; i < BATCH; i++)
    keys[i] = (int64_t)(test_random() % KEYS);
  if (!OK(s, emb_peek(s, keys, BATCH, vectors, found, NULL)))
    return 0;
  for (int64_t i = 0; i < BATCH; i++)
    good = good && found[i] &&
           help_value(vectors + i * DIM, DIM, keys[i]) != INT32_MIN;
  return CHECK(good);
}

static void await_rounds(int64_t n) {
  for (int i = 0; i < 60000 && atomic_load(&shared->committed) < n; i++)
    (void)usleep(1000);
  CHECK(atomic_load(&shared->committed) >= n);
}

TEST(scans_beside_a_writer) {
  const char *dir = help_path("beside");
  emb_store *store;
  emb_session *s;
  int64_t last = 0, value;
  uint64_t scans = 0;
  if (!share())
    return;
  pid_t child = start(train, dir);
  await_rounds(3);
  if (help_open(dir, &reader_config, &store, &s)) {
    for (int i = 0; i < 40; i++) {
      static const int orders[] = {EMB_SCAN_ANY, EMB_SCAN_ASC, EMB_SCAN_DESC};
      if (!scan_once(s, orders[i % 3], &value) ||
          !test_check(value >= last, __FILE__, __LINE__,
                      "scan %d shows round %" PRId64 " after %" PRId64, i,
                      value, last) ||
          !get_once(s))
        break;
      last = value;
      scans++;
    }
    test_count("scans", scans);
    atomic_store(&shared->stop, 1);
    end(child, 0);
    help_close(store, s);
  }
}

/* A second and a third reader, each at its own pace: what they hold overlaps.
 */
static void scan_all_the_time(const char *dir) {
  emb_store *store;
  emb_session *s;
  emb_err err;
  int64_t value;
  MUST(emb_open(dir, &reader_config, &store, &err));
  MUST(emb_session_open(store, &s, &err));
  while (!atomic_load(&shared->stop)) {
    if (!scan_once(s, EMB_SCAN_ANY, &value))
      _exit(3);
    atomic_fetch_add(&shared->reads, 1);
  }
  emb_session_close(s);
  MUST(emb_close(store, &err));
}

static uint64_t log_bytes(const char *dir) {
  char path[600];
  struct stat st;
  (void)snprintf(path, sizeof path, "%s/log", dir);
  return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

TEST(several_readers_hold_no_more_than_they_need) {
  const char *dir = help_path("several");
  pid_t readers[2];
  if (!share())
    return;
  pid_t writer = start(train, dir);
  await_rounds(3);
  for (int i = 0; i < 2; i++)
    readers[i] = start(scan_all_the_time, dir);
  int64_t from = atomic_load(&shared->committed);
  int64_t rounds = SANITIZED ? 30 : 150;
  uint64_t most = 0;
  while ((atomic_load(&shared->committed) < from + rounds ||
          atomic_load(&shared->reads) == 0) &&
         test_state.failures == 0) {
    await_rounds(atomic_load(&shared->committed) + 1);
    uint64_t bytes = log_bytes(dir);
    most = most > bytes ? most : bytes;
  }
  atomic_store(&shared->stop, 1);
  for (int i = 0; i < 2; i++)
    end(readers[i], 0);
  end(writer, 0);
  CHECK(atomic_load(&shared->reads) > 0);
  /* 150 rounds write 900 MB.  A scan holds the data written while it is
  ** open. */
  CHECK(most < 600u << 20);
  /* When the readers are gone, all the space that they held is free. */
  emb_store *store;
  emb_session *s;
  if (help_open(dir, &writer_config, &store, &s)) {
    CHECK_EQ_INT(write_round(s, 1000000), EMB_OK);
    OK(s, emb_checkpoint(s));
    help_close(store, s);
  }
  CHECK(log_bytes(dir) < 2u * KEYS * (DIM * 4 + 16) + (4u << 20));
  test_count("scans", atomic_load(&shared->reads));
}

/* A scan stays open while the owner is killed, another owner recovers the
** store, goes on and closes it, and a third opens it.  Each finds places free
** that this process still reads.
*/
TEST(a_scan_outlives_its_owners) {
  const char *dir = help_path("outlives");
  static float vectors[64 * DIM];
  int64_t keys[64], value = -1;
  uint64_t rows = 0;
  emb_store *store;
  emb_session *s;
  emb_scan *scan;
  size_t n;
  int rc = EMB_OK;
  if (!share())
    return;
  pid_t writer = start(train_on, dir);
  await_rounds(4);
  if (!help_open(dir, &reader_config, &store, &s) ||
      !OK(s, emb_scan_open(s, INT64_MIN, INT64_MAX, EMB_SCAN_ANY, &scan)))
    return;
  for (int step = 0; step < 8; step++) {
    for (uint64_t upto = rows + KEYS / 10; rc == EMB_OK && rows < upto;) {
      rc = emb_scan_next(scan, 64, keys, vectors, NULL, &n);
      for (size_t i = 0; rc == EMB_OK && i < n; i++, rows++) {
        int32_t is = help_value(vectors + i * DIM, DIM, keys[i]);
        value = value < 0 ? is : value;
        CHECK_EQ_INT(is, value);
      }
    }
    await_rounds(atomic_load(&shared->committed) + 7);
    end(writer, 1);
    writer = start(train_on, dir);
  }
  while (rc == EMB_OK &&
         (rc = emb_scan_next(scan, 64, keys, vectors, NULL, &n)) == EMB_OK &&
         n > 0)
    for (size_t i = 0; i < n; i++, rows++)
      CHECK_EQ_INT(help_value(vectors + i * DIM, DIM, keys[i]), value);
  OK(s, rc);
  CHECK_EQ_INT(rows, KEYS);
  emb_scan_close(scan);
  end(writer, 1);
  help_close(store, s);
}

/* Beyond the limit the owner takes its space back; the scan fails. */
static void train_with_a_limit(const char *dir) {
  emb_session *s = open_writer(dir);
  emb_session_store(s)->core.readers.bytes_min = 1;
  write_rounds(s, 1, 1);
}

TEST(there_is_a_limit) {
  const char *dir = help_path("limit");
  static float vectors[64 * DIM];
  int64_t keys[64];
  emb_store *store;
  emb_session *s;
  emb_scan *scan;
  size_t n;
  int64_t value;
  if (!share())
    return;
  pid_t writer = start(train_with_a_limit, dir);
  await_rounds(3);
  if (help_open(dir, &reader_config, &store, &s)) {
    OK(s, emb_scan_open(s, INT64_MIN, INT64_MAX, EMB_SCAN_ANY, &scan));
    OK(s, emb_scan_next(scan, 64, keys, vectors, NULL, &n));
    uint64_t before = log_bytes(dir);
    await_rounds(atomic_load(&shared->committed) + 30);
    CHECK(log_bytes(dir) < before + 8u * KEYS * (DIM * 4 + 16));
    int rc = EMB_OK;
    while (rc == EMB_OK && n > 0)
      rc = emb_scan_next(scan, 64, keys, vectors, NULL, &n);
    CHECK_EQ_INT(rc, EMB_BUSY);
    CHECK(strstr(emb_errmsg(s), "replaced the data being read") != NULL);
    emb_scan_close(scan);
    /* In key order, a read finds the row's current place, but in another
    ** state. */
    OK(s, emb_scan_open(s, INT64_MIN, INT64_MAX, EMB_SCAN_ASC, &scan));
    rc = emb_scan_next(scan, 64, keys, vectors, NULL, &n);
    await_rounds(atomic_load(&shared->committed) + 30);
    while (rc == EMB_OK && n > 0)
      rc = emb_scan_next(scan, 64, keys, vectors, NULL, &n);
    CHECK_EQ_INT(rc, EMB_BUSY);
    emb_scan_close(scan);
    atomic_store(&shared->stop, 1);
    end(writer, 0);
    scan_once(s, EMB_SCAN_ASC, &value); /* the next scan works again */
    help_close(store, s);
  }
}

/* A snapshot is read in another process, while the owner writes. */
static void train_with_a_snapshot(const char *dir) {
  emb_session *s = open_writer(dir);
  MUST(write_round(s, 1));
  MUST(emb_snapshot(s, "now"));
  MUST(emb_checkpoint(s));
  write_rounds(s, 2, 2);
}

TEST(snapshots_beside_a_writer) {
  const char *dir = help_path("snapshots");
  static float vectors[256 * DIM];
  int64_t keys[256];
  emb_store *store;
  emb_session *s;
  size_t n;
  if (!share())
    return;
  pid_t writer = start(train_with_a_snapshot, dir);
  await_rounds(3);
  if (help_open(dir, &reader_config, &store, &s)) {
    for (int i = 0; i < 20 && test_state.failures == 0; i++) {
      emb_snap *snap;
      uint64_t rows = 0;
      int good = 1, rc;
      if (!OK(s, emb_snapshot_open(s, "now", &snap)))
        break;
      while ((rc = emb_snapshot_scan(snap, 256, keys, vectors, NULL, &n)) ==
                 EMB_OK &&
             n > 0)
        for (size_t k = 0; k < n; k++, rows++)
          good = good && help_is(vectors + k * DIM, DIM, keys[k], 1);
      OK(s, rc);
      emb_snapshot_close(snap);
      CHECK(good);
      CHECK_EQ_INT(rows, KEYS);
      get_once(s); /* a newer checkpoint may be loaded */
    }
    help_close(store, s);
  }
  atomic_store(&shared->stop, 1);
  end(writer, 0);
}

/* ---- nothing goes back in time ------------------------------------------- */

/* The value of a key, which all keys have; below 0: an error. */
static int64_t get_value(emb_session *s) {
  float x[DIM];
  uint8_t found = 0;
  int64_t key = (int64_t)(test_random() % KEYS);
  int rc = emb_peek(s, &key, 1, x, &found, NULL);
  return rc ? -rc : found ? help_value(x, DIM, key) : 0;
}

TEST(a_reader_waits_for_who_recovers) {
  const char *dir = help_path("waits");
  emb_config config = reader_config;
  emb_store *before, *after;
  emb_session *old, *s;
  emb_err err;
  if (!share())
    return;
  pid_t writer = start(leave_a_log, dir);
  await_rounds(2);
  config.timeout_ms = 100;
  if (!help_open(dir, &config, &before, &old))
    return;
  CHECK_EQ_INT(get_value(old), 1); /* next to the owner: its checkpoint */
  end(writer, 1);
  atomic_store(&shared->hold, 1);
  pid_t owner = start(recover_slowly, dir);
  wait_for(&shared->held);
  /* Whether round 2 was shown to a reader cannot be known. */
  CHECK_EQ_INT(get_value(old), -EMB_BUSY);
  CHECK_STR(emb_errmsg(old) + strlen(dir),
            " is being recovered by another process");
  CHECK_EQ_INT(get_value(old), -EMB_BUSY); /* nor later, from memory */
  atomic_store(&shared->hold, 0);
  while (get_value(old) == -EMB_BUSY)
    (void)usleep(1000);
  CHECK_EQ_INT(get_value(old), 2);
  CHECK(!emb_is_owner(before));
  atomic_store(&shared->stop, 1);
  end(owner, 0);
  help_close(before, old);

  /* The same for a store opened during the recovery. */
  dir = help_path("opened");
  if (!share())
    return;
  writer = start(leave_a_log, dir);
  await_rounds(2);
  end(writer, 1);
  atomic_store(&shared->hold, 1);
  owner = start(recover_slowly, dir);
  wait_for(&shared->held);
  CHECK_EQ_INT(emb_open(dir, &config, &after, &err), EMB_BUSY);
  config.flags = EMB_OPEN_READONLY;
  CHECK_EQ_INT(emb_open(dir, &config, &after, &err), EMB_BUSY);
  CHECK(strstr(err.text, "is being recovered") != NULL);
  atomic_store(&shared->hold, 0);
  if (help_open(dir, &reader_config, &after, &s)) {
    CHECK_EQ_INT(get_value(s), 2);
    help_close(after, s);
  }
  atomic_store(&shared->stop, 1);
  end(owner, 0);
}

/* A user that may read the files but not write them waits no longer than
** needed: for a process that recovers the store, but not when the owner is
** merely dead. */
static void read_as_nobody(const char *dir) {
  emb_config config = reader_config;
  emb_store *store;
  emb_session *s;
  emb_err err;
  config.timeout_ms = 30000;
  if (setgid(65534) || setuid(65534))
    _exit(4);
  MUST(emb_open(dir, &config, &store, &err));
  MUST(emb_session_open(store, &s, &err));
  int64_t value = get_value(s);
  emb_session_close(s);
  MUST(emb_close(store, &err));
  if (value != 1)
    _exit(5);
}

TEST(another_user_reads_what_is_left) {
  const char *dir = help_path("nobody");
  char path[600];
  if (geteuid() != 0)
    SKIP("only root can be another user");
  if (!share())
    return;
  pid_t writer = start(leave_a_log, dir);
  await_rounds(2);
  end(writer, 1);
  CHECK_EQ_INT(chmod(test_dir(), 0755), 0);
  end(start(read_as_nobody, dir), 0);
  /* The log may be written, the lock not. */
  (void)snprintf(path, sizeof path, "%s/log", dir);
  CHECK_EQ_INT(chmod(path, 0666), 0);
  end(start(read_as_nobody, dir), 0);
  /* Nor may the lock be read. */
  (void)snprintf(path, sizeof path, "%s/lock", dir);
  CHECK_EQ_INT(chmod(path, 0600), 0);
  end(start(read_as_nobody, dir), 0);
}

/* ---- another user, while the owner goes on ------------------------------- */

/* Does everything that frees files and places in them, as fast as it can. */
static void go_on_fast(const char *dir) {
  emb_session *s = open_writer(dir);
  emb_store *store = emb_session_store(s);
  emb_err err;
  char name[32];
  for (int32_t round = 1; !atomic_load(&shared->stop); round++) {
    MUST(write_round(s, round % 1900 + 1));
    MUST(emb_checkpoint(s));
    atomic_store(&shared->committed, round);
    (void)snprintf(name, sizeof name, "s%d", round % 3);
    if (round > 3)
      MUST(emb_snapshot_drop(s, name));
    MUST(emb_snapshot(s, name));
    MUST(round % 4 ? emb_checkpoint(s) : emb_optimize(s));
    for (int64_t key = 0; key < 5; key++) { /* the same value again */
      float row[DIM];
      help_vector(row, DIM, key, round % 1900 + 1);
      MUST(emb_put(s, &key, 1, row, NULL));
      MUST(emb_checkpoint(s));
    }
  }
  emb_session_close(s);
  MUST(emb_close(store, &err));
}

/* Scans of one state each, by a process that opens the store now and then.
** Each scan takes a while: the owner has replaced all files by then. */
static void scan_as_nobody(const char *dir) {
  static const int orders[] = {EMB_SCAN_ANY, EMB_SCAN_ASC, EMB_SCAN_DESC};
  emb_config config = reader_config;
  emb_store *store;
  emb_session *s;
  emb_err err;
  int64_t value;
  if (setgid(65534) || setuid(65534))
    _exit(4);
  for (unsigned i = 0; !atomic_load(&shared->stop); i++) {
    int rc = emb_open(dir, &config, &store, &err);
    if (rc) {
      printf("open gave %d: %s\n", rc, err.text);
      _exit(5);
    }
    MUST(emb_session_open(store, &s, &err));
    for (int k = 0; k < 3; k++) {
      if (!scan_once(s, orders[(i + (unsigned)k) % 3], &value) || !get_once(s))
        _exit(3);
      atomic_fetch_add(&shared->reads, 1);
    }
    emb_session_close(s);
    MUST(emb_close(store, &err));
  }
}

TEST(another_user_scans_beside_an_owner) {
  const char *dir = help_path("fast");
  pid_t readers[2];
  if (geteuid() != 0)
    SKIP("only root can be another user");
  if (!share())
    return;
  CHECK_EQ_INT(chmod(test_dir(), 0755), 0);
  pid_t writer = start(go_on_fast, dir);
  await_rounds(3);
  for (int i = 0; i < 2; i++)
    readers[i] = start(scan_as_nobody, dir);
  int64_t rounds = 3 + (int64_t)help_amount(SANITIZED ? 8 : 20);
  do /* readers may get less processor time than the writer */
    await_rounds(rounds++);
  while (atomic_load(&shared->reads) <= 10 && rounds < 300 &&
         !atomic_load(&test_state.failures));
  atomic_store(&shared->stop, 1);
  for (int i = 0; i < 2; i++)
    end(readers[i], 0);
  end(writer, 0);
  test_count("scans", atomic_load(&shared->reads));
  CHECK(atomic_load(&shared->reads) > 10);
}

/* Opens, reads and closes, over and over: so it is sometimes a reader and
** sometimes the process that recovers. */
static void watch(const char *dir) {
  test_state.random ^= (uint64_t)getpid();
  while (!atomic_load(&shared->stop)) {
    emb_store *store;
    emb_session *s;
    emb_err err;
    int64_t least = atomic_load(&shared->least);
    MUST(emb_open(dir, &reader_config, &store, &err));
    MUST(emb_session_open(store, &s, &err));
    for (int i = 0; i < 20 && !atomic_load(&shared->stop); i++) {
      int64_t value = get_value(s), most = atomic_load(&shared->least);
      if (emb_in_doubt(store)) {
        decide(store);
        value = get_value(s);
      }
      if (value < least) {
        printf("round %" PRId64 " (%s) was read after round %" PRId64
               " was seen\n",
               value, value < 0 ? emb_errmsg(s) : "", least);
        _exit(2);
      }
      while (most < value &&
             !atomic_compare_exchange_weak(&shared->least, &most, value))
        ;
      atomic_fetch_add(&shared->reads, 1);
      least = atomic_load(&shared->least);
      /* A reader looks for the newest state every 5 ms. */
      (void)usleep(6000 + (unsigned)(test_random() % 4000));
    }
    emb_session_close(s);
    MUST(emb_close(store, &err));
  }
}

TEST(what_was_shown_stays) {
  const char *dir = help_path("shown");
  uint64_t kills = SANITIZED ? 6 : 25;
  pid_t readers[2];
  if (!share())
    return;
  pid_t writer = start(train_on, dir);
  await_rounds(3);
  for (int i = 0; i < 2; i++)
    readers[i] = start(watch, dir);
  for (uint64_t k = 0; k < kills && test_state.failures == 0; k++) {
    int64_t before = atomic_load(&shared->committed);
    await_rounds(before + 1 + (int64_t)(test_random() % 4));
    (void)usleep((unsigned)(test_random() % 20000));
    end(writer, 1);
    /* Now that the owner is dead, readers must see all that it had
    ** acknowledged. */
    int64_t least = atomic_load(&shared->least);
    int64_t committed = atomic_load(&shared->committed);
    while (least < committed &&
           !atomic_compare_exchange_weak(&shared->least, &least, committed))
      ;
    (void)usleep((unsigned)(test_random() % 40000));
    writer = start(train_on, dir);
  }
  end(writer, 1);
  atomic_store(&shared->stop, 1);
  for (int i = 0; i < 2; i++)
    end(readers[i], 0);
  test_count("kill points", kills);
  test_count("reads", atomic_load(&shared->reads));
}
