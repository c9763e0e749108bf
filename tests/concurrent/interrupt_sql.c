/* SPDX-License-Identifier: MIT
**
** interrupt_sql.c -- sqlite3_interrupt from another thread, in every statement
** that can wait or work for long: SQLITE_INTERRUPT, nothing is left behind, and
** the next statement works.
**
** MOMENT    The env counts the calls of the thread under test: sleeps and
**           waits, reads, writes, syncs.  At the n-th call another thread
**           calls sqlite3_interrupt, and only then does the call go on.  So a
**           statement that waits is interrupted while it waits, on any
**           machine.
** HANG      A wait that no interrupt ends would last for an hour: an alarm ends
**           the program.
*/
#include "store_help.h"

#include "engine/table/owner/registry.h"

#include <pthread.h>
#include <semaphore.h>
#include <sqlite3.h>
#include <unistd.h>

int sqlite3_emb_init(sqlite3 *, char **, const void *);

/* ---- the moment ---------------------------------------------------------- */

static struct env env;

static struct {
  pthread_t tested; /* whose calls count */
  int nth, calls;   /* 0: never */
  int only_waits;
  int came;
  sqlite3 *db;
  sem_t go, gone;

  pthread_t held; /* stopped at its first read */
  _Atomic int hold;
  sem_t stopped, release;
} moment;

static void note(int waits) {
  if (atomic_load(&moment.hold) && pthread_equal(pthread_self(), moment.held)) {
    atomic_store(&moment.hold, 0);
    (void)sem_post(&moment.stopped);
    (void)sem_wait(&moment.release);
  }
  if (!pthread_equal(pthread_self(), moment.tested) || moment.nth == 0 ||
      (moment.only_waits && !waits) || ++moment.calls != moment.nth)
    return;
  moment.came = 1;
  (void)sem_post(&moment.go);
  (void)sem_wait(&moment.gone);
}

static void *interrupter(void *arg) {
  (void)arg;
  while (sem_wait(&moment.go) == 0 && moment.db) {
    sqlite3_interrupt(moment.db);
    (void)sem_post(&moment.gone);
  }
  return NULL;
}

static void note_sleep(struct env *e, uint64_t us) {
  note(1);
  env_posix.sleep_us(e, us);
}
static int note_wait(struct env *e, pthread_cond_t *condition,
                     pthread_mutex_t *mutex, uint64_t us) {
  note(1);
  return env_posix.wait_us(e, condition, mutex, us);
}
static int note_read(struct env *e, struct env_file *file, void *to, size_t n,
                     uint64_t offset) {
  note(0);
  return env_posix.read(e, file, to, n, offset);
}
static int note_write(struct env *e, struct env_file *file, const void *from,
                      size_t n, uint64_t offset) {
  note(0);
  return env_posix.write(e, file, from, n, offset);
}
static int note_sync(struct env *e, struct env_file *file) {
  note(0);
  return env_posix.sync(e, file);
}
static int note_submit(struct env *e, struct env_queue *queue,
                       struct env_io **ios, size_t n) {
  note(0);
  return env_posix.queue_submit(e, queue, ios, n);
}

/* ---- SQL ----------------------------------------------------------------- */

static sqlite3 *db, *other;
static char file[400];
static pthread_t thread;

static sqlite3 *connect_to_it(void) {
  sqlite3 *to = NULL;
  CHECK_EQ_INT(sqlite3_open(file, &to), SQLITE_OK);
  CHECK_EQ_INT(sqlite3_emb_init(to, NULL, NULL), SQLITE_OK);
  return to;
}

/* Runs it; *text (or NULL) is the first column of all rows. */
static int run(sqlite3 *on, const char *sql, char text[256]) {
  char *copy = sqlite3_mprintf("%s", sql);
  const char *rest = copy;
  int rc = SQLITE_OK;
  char all[256] = "";
  while (rc == SQLITE_OK && *rest) {
    sqlite3_stmt *statement = NULL;
    rc = sqlite3_prepare_v2(on, rest, -1, &statement, &rest);
    while (rc == SQLITE_OK && statement &&
           (rc = sqlite3_step(statement)) == SQLITE_ROW) {
      const char *value = (const char *)sqlite3_column_text(statement, 0);
      size_t at = strlen(all);
      (void)snprintf(all + at, sizeof all - at, "%s%s", at ? " " : "",
                     value ? value : "NULL");
      rc = SQLITE_OK;
    }
    rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
    int end = sqlite3_finalize(statement);
    rc = rc ? rc : end;
  }
  sqlite3_free(copy);
  if (text)
    memcpy(text, all, sizeof all);
  return rc & 0xff;
}

static int runs(sqlite3 *on, const char *sql) {
  int rc = run(on, sql, NULL);
  return test_check(rc == SQLITE_OK, __FILE__, __LINE__, "%.80s gave %d: %s",
                    sql, rc, sqlite3_errmsg(on));
}

static int gives(sqlite3 *on, const char *sql, const char *wanted) {
  char text[256];
  int rc = run(on, sql, text);
  return test_check(rc == SQLITE_OK && strcmp(text, wanted) == 0, __FILE__,
                    __LINE__, "%.80s gave %d, %s, not %s: %s", sql, rc, text,
                    wanted, sqlite3_errmsg(on));
}

static void arm(int nth, int only_waits) {
  moment.calls = moment.came = 0;
  moment.only_waits = only_waits;
  moment.nth = nth;
}

static int start(const char *options) {
  char sql[300];
  if (!test_dir())
    return 0;
  (void)alarm(300);
  env = env_posix;
  env.sleep_us = note_sleep;
  env.wait_us = note_wait;
  env.read = note_read;
  env.write = note_write;
  env.sync = note_sync;
  env.queue_submit = note_submit;
  memset(&moment, 0, sizeof moment);
  moment.tested = pthread_self();
  (void)sem_init(&moment.go, 0, 0);
  (void)sem_init(&moment.gone, 0, 0);
  (void)sem_init(&moment.stopped, 0, 0);
  (void)sem_init(&moment.release, 0, 0);
  env_set_default(&env);
  (void)snprintf(file, sizeof file, "%s/app.db", test_dir());
  moment.db = db = connect_to_it();
  other = connect_to_it();
  (void)snprintf(
      sql, sizeof sql,
      "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[64], memory='4MB', "
      "timeout=3600000, %s); CREATE TABLE p(id INTEGER PRIMARY KEY, val)",
      options);
  return CHECK_EQ_INT(pthread_create(&thread, NULL, interrupter, NULL), 0) &&
         runs(db, sql);
}

static void finish(void) {
  moment.db = NULL;
  (void)sem_post(&moment.go);
  CHECK_EQ_INT(pthread_join(thread, NULL), 0);
  gives(other, "SELECT count(*) FROM items WHERE key = -1", "0");
  gives(db, "SELECT value FROM emb_stats('items') WHERE name = 'sessions'",
        "2");
  runs(db, "INSERT INTO items(items) VALUES('integrity-check')");
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  CHECK_EQ_INT(sqlite3_close(other), SQLITE_OK);
  env_set_default(&env_posix);
  (void)alarm(0);
}

#define ROWS(n_)                                                               \
  "WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM s WHERE "     \
  "i < " #n_ ") INSERT INTO items SELECT i, (SELECT one FROM one) FROM s"
#define ONE                                                                    \
  "CREATE TEMP TABLE one AS SELECT emb_f32('[' || (WITH RECURSIVE s(i) AS "    \
  "(VALUES(1) UNION ALL SELECT i + 1 FROM s WHERE i < 64) SELECT "             \
  "group_concat(1) FROM s) || ']') AS one"

/* ---- waits --------------------------------------------------------------- */

#define LEASES "SELECT coalesce(sum(clock), 0) FROM items"

/* Interrupted at its first, second and third round of waiting; then the
** obstacle goes away. */
static int waits(const char *sql, const char *clocks) {
  int n = 0;
  for (int nth = 1; nth <= 3; nth++) {
    arm(nth, 1);
    int rc = run(db, sql, NULL);
    n += test_check(rc == SQLITE_INTERRUPT && moment.came, __FILE__, __LINE__,
                    "%.80s gave %d at wait %d: %s", sql, rc, nth,
                    sqlite3_errmsg(db));
    arm(0, 0);
    if (clocks)
      gives(other, LEASES, clocks);
    CHECK(sqlite3_get_autocommit(db));
    gives(db, "SELECT count(*) FROM items", "9");
  }
  return n;
}

/* Key 1 is read by the other connection. */
TEST(waits_for_a_lease) {
  static const struct {
    const char *sql, *result;
  } reads[] = {
      {"SELECT key, vector FROM items WHERE key = 1", "1"},
      {"SELECT key, vector FROM items WHERE key IN (3, 1, 2)", "1 2 3"},
      {"SELECT key, vector FROM p JOIN items ON key = id", "3 2 1"},
      {"SELECT length(vectors) FROM items('[2,1]')", "512"},
      {"SELECT length(emb_get('items', '[1,2,3]'))", "768"},
      {"UPDATE items SET vector = emb_add(vector, vector) WHERE key = 1", ""},
      {"INSERT INTO p SELECT 10 + key, length(vector) FROM items WHERE key = 1",
       ""},
  };
  int n = 0;
  if (!start("staleness=0") || !runs(db, ONE) || !runs(db, ROWS(9)))
    return;
  runs(db, "INSERT INTO p VALUES(-3, 1), (-2, 1), (-1, 1)");
  runs(db, "UPDATE p SET id = -id");
  runs(db, "PRAGMA reverse_unordered_selects = 1");
  for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++) {
    runs(other, "SELECT emb_get('items', '[1]')");
    n += waits(reads[i].sql, "1");
    runs(other, "SELECT emb_release('items')");
    gives(db, reads[i].sql, reads[i].result);
    runs(db, "SELECT emb_release('items')");
    gives(db, "SELECT count(*) FROM p WHERE id > 10 AND id <> 11", "0");
  }
  /* A prefetch that is interrupted can still be collected. */
  runs(other, "SELECT emb_get('items', '[1]')");
  gives(db, "SELECT emb_prefetch('items', '[4,1,2]')", "1");
  n += waits("SELECT emb_prefetch_synchronize('items', 1)", "1");
  runs(other, "SELECT emb_release('items')");
  gives(db, "SELECT length(emb_prefetch_synchronize('items'))", "768");
  gives(other, LEASES, "3");
  gives(db, "SELECT emb_prefetch_synchronize('items')", "NULL");
  gives(db, "SELECT emb_release('items')", "3");
  finish();
  printf("%d waits interrupted\n", n);
}

/* Key 1 is changed by the other connection's transaction. */
TEST(waits_for_a_transaction) {
  static const char *const writes[] = {
      "SELECT emb_put('items', '[2,1]', emb_f32(zeroblob(512)))",
      "SELECT emb_rmw('items', '[1]', emb_f32(zeroblob(256)))",
  };
  int n = 0;
  if (!start("staleness=none") || !runs(db, ONE) || !runs(db, ROWS(9)))
    return;
  runs(other, "PRAGMA journal_mode = WAL; BEGIN; DELETE FROM items WHERE key = "
              "1; INSERT INTO items VALUES(1, zeroblob(256))");
  for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++)
    n += waits(writes[i], NULL);
  /* A write-back goes on, and other writes come after it. */
  gives(db, "SELECT emb_write_back('items', '[1]', zeroblob(256))", "1");
  n += waits("SELECT emb_write_back_synchronize('items', 1)", NULL);
  n += waits("SELECT emb_put('items', '[5]', zeroblob(256))", NULL);
  n += waits("SELECT emb_rmw('items', '[5]', zeroblob(256))", NULL);
  runs(other, "COMMIT");
  gives(db, "SELECT emb_write_back_synchronize('items')", "1");
  for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++)
    runs(db, writes[i]);
  runs(db, "INSERT INTO items(items) VALUES('checkpoint')");
  finish();
  printf("%d waits interrupted\n", n);
}

/* A thread checks the store and stops in the middle.  It does not use SQL,
** where a command takes SQLite's write lock. */
static void *check_it(void *arg) {
  emb_session *s = arg;
  moment.held = pthread_self();
  atomic_store(&moment.hold, 1);
  CHECK(help_verify(s));
  return NULL;
}

TEST(waits_for_a_check) {
  static const char *const commands[] = {
      "INSERT INTO items(items) VALUES('checkpoint')",
      "INSERT INTO items(items) VALUES('optimize')",
      "INSERT INTO items(items) VALUES('integrity-check')"};
  emb_config config = {.dim = 64};
  emb_store *store;
  emb_session *s;
  pthread_t checker;
  char dir[500];
  int n = 0;
  if (!start("staleness=none") || !runs(db, ONE) || !runs(db, ROWS(9)))
    return;
  (void)snprintf(dir, sizeof dir, "%s-emb/items", file);
  if (!help_open(dir, &config, &store, &s))
    return;
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
    if (!CHECK_EQ_INT(pthread_create(&checker, NULL, check_it, s), 0))
      break;
    (void)sem_wait(&moment.stopped);
    n += waits(commands[i], NULL);
    (void)sem_post(&moment.release);
    CHECK_EQ_INT(pthread_join(checker, NULL), 0);
    runs(db, commands[i]);
  }
  help_close(store, s);
  finish();
  printf("%d waits interrupted\n", n);
}

/* SQLite looks for an interrupt at a space and at the end, and forgets it
** where no statement is active.  A statement without a space gets as far as a
** table's declaration, for which SQLite returns SQLITE_ERROR.  It returns
** that code for every error of a table-valued function, too: there only the
** text tells. */
TEST(while_a_table_is_declared) {
  static const struct {
    const char *sql;
    int is_function;
  } statements[] = {
      {"SELECT\"key\"FROM\"items\";", 0},
#ifndef EMB_OMIT_DATA
      {"SELECT\"key\"FROM\"samples\";", 0},
#endif
      {"SELECT(1)FROM\"emb_tables\";", 1},
      {"SELECT(1)FROM\"emb_stats\"('items');", 1},
      {"SELECT(1)FROM\"emb_each\"('[1]');", 1},
  };
  int n = 0;
  if (!start("staleness=none"))
    return;
#ifndef EMB_OMIT_DATA
  runs(db, "CREATE VIRTUAL TABLE samples USING emb_samples");
#endif
  for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
    sqlite3 *fresh = connect_to_it();
    sqlite3_stmt *active = NULL;
    (void)sqlite3_prepare_v2(fresh, "SELECT 1 FROM sqlite_schema", -1, &active,
                             NULL);
    CHECK_EQ_INT(sqlite3_step(active), SQLITE_ROW);
    sqlite3_interrupt(fresh);
    int rc = run(fresh, statements[i].sql, NULL);
    const char *text = sqlite3_errmsg(fresh);
    n += test_check((rc == SQLITE_INTERRUPT ||
                     (statements[i].is_function && rc == SQLITE_ERROR)) &&
                        (strcmp(text, "emb: interrupted") == 0),
                    __FILE__, __LINE__, "%.80s gave %d: %s", statements[i].sql,
                    rc, text);
    (void)sqlite3_finalize(active);
    runs(fresh, statements[i].sql);
    CHECK_EQ_INT(sqlite3_close(fresh), SQLITE_OK);
  }
  finish();
  printf("%d declarations interrupted\n", n);
}

/* ---- work ---------------------------------------------------------------- */

/* Files of a store that are not among those it may have at rest: log, manifest,
** lock, one index, the space kept for the next one, the hot set, and the
** socket.  -1: the directory could not be read. */
static int leftovers(const char *dir) {
  static const char *const rest[] = {"log",         "manifest", "lock",
                                     "index-spare", "hot",      "socket"};
  DIR *d = opendir(dir);
  int found = 0, indexes = 0;
  if (!d)
    return -1;
  for (struct dirent *e; (e = readdir(d)) != NULL;) {
    int known = e->d_name[0] == '.';
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++)
      known |= strcmp(e->d_name, rest[i]) == 0;
    if (!known && strncmp(e->d_name, "index-", 6) == 0)
      known = indexes++ == 0;
    found += !known;
  }
  (void)closedir(d);
  return found;
}

/* Interrupted work has left no file.  A checkpoint in the background has a
** second index, or a new hot set, for a moment. */
static int no_file_is_left(void) {
  struct timespec pause = {0, 1000000};
  char dir[500];
  int left = -1;
  (void)snprintf(dir, sizeof dir, "%s-emb/items", file);
  for (int i = 0; i < 30000 && (left = leftovers(dir)) != 0; i++)
    (void)nanosleep(&pause, NULL);
  return CHECK_EQ_INT(left, 0);
}

/* The step to the next call that is tried: later calls are more alike. */
static int step(int nth) { return (int)help_share() * (1 + nth / 8); }

/* Interrupts the statement at its calls, until it makes fewer of them.
** Counts how often the interrupt was reported. */
static int works(const char *sql, int *told) {
  int calls = 0;
  for (int nth = 1, came = 1; came && nth < 10000; nth += step(nth)) {
    arm(nth, 0);
    int rc = run(db, sql, NULL);
    came = moment.came;
    arm(0, 0);
    calls += came;
    *told += rc == SQLITE_INTERRUPT;
    if (!test_check(rc == SQLITE_INTERRUPT || rc == SQLITE_OK, __FILE__,
                    __LINE__, "%.80s gave %d at call %d: %s", sql, rc, nth,
                    sqlite3_errmsg(db)) ||
        !CHECK(came || rc == SQLITE_OK) || !CHECK(sqlite3_get_autocommit(db)) ||
        !no_file_is_left())
      break;
  }
  return calls;
}

TEST(long_work) {
  static const struct {
    const char *sql;
    int must; /* an interrupt at some call must end it */
  } list[] = {
      {"SELECT count(*), sum(length(vector)) FROM items", 1},
      {"SELECT sum(length(vector)) FROM items WHERE key > 5 ORDER BY key", 1},
      {"SELECT sum(length(vector)) FROM (SELECT * FROM items ORDER BY key "
       "DESC)",
       1},
      {"SELECT sum(length(vector)) FROM items WHERE key IN "
       "(SELECT key FROM items)",
       1},
      {"SELECT length(emb_get('items', (SELECT emb_pack(key) FROM items)))", 1},
      {"SELECT length(emb_prefetch_synchronize('items', emb_prefetch('items', "
       "(SELECT emb_pack(key) FROM items))))",
       0},
      {"INSERT INTO items(items) VALUES('checkpoint')", 1},
      {"INSERT INTO items(items) VALUES('integrity-check')", 1},
      {"SELECT emb_rmw('items', (SELECT emb_pack(key) FROM items), (SELECT "
       "zeroblob(256 * count(*)) FROM items)); "
       "INSERT INTO items(items) VALUES('optimize')",
       1},
  };
  int calls = 0, all = 0;
  if (!start("staleness=none") || !runs(db, ONE) ||
      !runs(db, SANITIZED ? ROWS(20000) : ROWS(40000)))
    return;
  runs(db, "INSERT INTO items(items) VALUES('checkpoint')");
  for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
    int told = 0;
    calls += works(list[i].sql, &told);
    test_check(told > 0 || !list[i].must, __FILE__, __LINE__,
               "%.80s never heard it", list[i].sql);
    all += told;
    runs(db, list[i].sql);
  }
  gives(db, "SELECT count(*) FROM items", SANITIZED ? "20000" : "40000");
  finish();
  printf("%d of %d interrupts were heard\n", all, calls);
}

/* A transaction larger than memory: its COMMIT does all or nothing in both
** tables, and says which. */
static void commits(const char *options) {
  static const char *const both =
      "SELECT (SELECT coalesce(sum(val), 0) FROM p) || ' ' || "
      "(SELECT coalesce(sum(emb_dot(vector, (SELECT one FROM one))), 0) / 64 "
      "FROM items)";
  int told = 0, calls = 0;
  int64_t value = 0;
  char want[100];
  if (!start(options) || !runs(db, ONE) || !runs(db, ROWS(20000)))
    return;
  runs(db, "INSERT INTO p SELECT key, 1 FROM items");
  value = 20000;
  for (int nth = 1, came = 1; came; nth += step(nth)) {
    runs(db, "BEGIN; UPDATE p SET val = val + 1; UPDATE items SET vector = "
             "emb_add(vector, (SELECT one FROM one))");
    arm(nth, 0);
    int rc = run(db, "COMMIT", NULL);
    came = moment.came;
    arm(0, 0);
    calls += came;
    told += rc == SQLITE_INTERRUPT;
    value += rc == SQLITE_OK ? 20000 : 0;
    CHECK(rc == SQLITE_OK || rc == SQLITE_INTERRUPT);
    CHECK(sqlite3_get_autocommit(db));
    (void)snprintf(want, sizeof want, "%d %d.0", (int)value, (int)value);
    if (!gives(db, both, want))
      break;
  }
  finish();
  printf("%d of %d interrupts were heard in COMMIT\n", told, calls);
}

TEST(commit_atomic) { commits("commit='atomic'"); }
TEST(commit_engine) { commits("commit='engine'"); }
