/* SPDX-License-Identifier: MIT
**
** fork_sql.c -- a child that after fork() keeps using its parent's
** connection, or its parent's C objects: every call gives a clear error and
** none waits, the parent does not notice, and the store is sound.  The
** child's own connection works.
**
** The child sends its findings down a pipe and leaves by _exit; an alarm
** kills a child that hangs.  The parent's threads work at the same time, so
** that a fork finds locks held and pages on their way to the disk.
*/
#include "fork_help.h"
#include "sql_help.h"
#include "store_help.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static char file[400];

/* ---- the child ----------------------------------------------------------- */

static int child_out;    /* pipe to the parent */
static unsigned answers; /* that were as expected */

/* One finding: a line for the parent if it is bad. */
__attribute__((format(printf, 2, 3))) static void
finds(int good, const char *format, ...) {
  char line[400];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(line, sizeof line - 1, format, args);
  va_end(args);
  n = n < (int)sizeof line - 2 ? n : (int)sizeof line - 2;
  line[n++] = '\n';
  answers += good != 0;
  if (!good && write(child_out, line, (size_t)n) < 0)
    _exit(3);
}

/* Forks; the parent prints what the child complains of.  Returns how many
** answers were good. */
static int in_child(void (*act)(void *), void *arg) {
  int pipes[2], status = -1;
  char text[8192];
  size_t n = 0;
  ssize_t got;
  if (!CHECK_EQ_INT(pipe(pipes), 0))
    return 0;
  (void)fflush(stdout);
  pid_t child = test_fork();
  if (child == 0) {
    (void)close(pipes[0]);
    (void)alarm(60);
    child_out = pipes[1];
    answers = 0;
    act(arg);
    (void)dprintf(child_out, "=%u\n", answers);
    _exit(0);
  }
  (void)close(pipes[1]);
  while (n < sizeof text - 1 &&
         (got = read(pipes[0], text + n, sizeof text - 1 - n)) > 0)
    n += (size_t)got;
  text[n] = '\0';
  (void)close(pipes[0]);
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  test_check(WIFEXITED(status) && WEXITSTATUS(status) == 0, __FILE__, __LINE__,
             "the child ended with status %d", status);
  char *count = strrchr(text, '=');
  if (!CHECK(count != NULL))
    count = text + n;
  test_check(count == text, __FILE__, __LINE__, "the child: %s", text);
  return *count ? atoi(count + 1) : 0;
}

/* ---- through SQL --------------------------------------------------------- */

static const char *const statements[] = {
    "SELECT key, vector FROM items WHERE key = 1",
    "SELECT key, vector FROM items WHERE key IN (1, 2)",
    "SELECT key FROM items WHERE key > 5 ORDER BY key",
    "SELECT count(*) FROM items",
    "SELECT vectors FROM items('[1,2]')",
    "INSERT INTO items VALUES(1000000, '[1,2]')",
    "INSERT OR REPLACE INTO items VALUES(1, '[1,2]')",
    "INSERT INTO items(keys, vectors) VALUES('[1]', '[1,2]')",
    "UPDATE items SET vector = '[9,9]' WHERE key = 1",
    "UPDATE items SET vector = '[9,9]'",
    "UPDATE items SET key = 7000 WHERE key = 1",
    "DELETE FROM items WHERE key = 1",
    "DELETE FROM items",
    "SELECT emb_get('items', '[1]')",
    "SELECT emb_peek('items', '[1]')",
    "SELECT emb_put('items', '[1]', '[9,9]')",
    "SELECT emb_rmw('items', '[1]', '[9,9]')",
    "SELECT emb_put_versions('items')",
    "SELECT emb_release('items')",
    "SELECT emb_prefetch('items', '[1]')",
    "SELECT emb_prefetch_synchronize('items')",
    "SELECT emb_write_back('items', '[1]', '[9,9]')",
    "SELECT emb_apply_async('items', '[1]', '[9,9]')",
    "SELECT emb_write_back_synchronize('items')",
    "SELECT * FROM emb_lookahead('items', '[1]')",
    "SELECT * FROM emb_lookahead('items')",
    "SELECT emb_lookahead_wait('items')",
    "SELECT * FROM emb_stats('items')",
    "SELECT emb_gc()",
    "INSERT INTO items(items) VALUES('checkpoint')",
    "INSERT INTO items(items) VALUES('optimize')",
    "INSERT INTO items(items) VALUES('integrity-check')",
    "INSERT INTO items(items) VALUES('adopt')",
    "SELECT * FROM unused",
    "INSERT INTO unused VALUES(1, '[1]')",
    "SELECT emb_get('unused', '[1]')",
    "SELECT * FROM temp.own",
    "INSERT INTO temp.own VALUES(5, '[1]')",
    "CREATE VIRTUAL TABLE more USING emb(vector FLOAT[2])",
    "ALTER TABLE items RENAME TO others",
    "DROP TABLE unused",
    "DROP TABLE items",
};
enum { STATEMENTS = sizeof statements / sizeof statements[0] };

struct parent {
  sqlite3 *db;
  sqlite3_stmt *scan; /* has given a row */
};

static void refused_in_sql(void *arg) {
  struct parent *p = arg;
  for (int i = 0; i < STATEMENTS; i++) {
    int rc = sqlite3_exec(p->db, statements[i], NULL, NULL, NULL);
    const char *text = sqlite3_errmsg(p->db);
    /* For DROP, SQLite shows the code's own text. */
    int says =
        strstr(text, "fork") != NULL || strncmp(statements[i], "DROP", 4) == 0;
    finds(rc == SQLITE_MISUSE && says && strstr(text, "emb: emb:") == NULL,
          "%s gave %d: %s", statements[i], rc, text);
    finds(sqlite3_get_autocommit(p->db), "%s: a transaction is open",
          statements[i]);
  }
  int rc = SQLITE_ROW;
  while (rc == SQLITE_ROW)
    rc = sqlite3_step(p->scan);
  finds((rc & 0xff) == SQLITE_MISUSE, "the scan gave %d: %s", rc,
        sqlite3_errmsg(p->db));
  (void)sqlite3_finalize(p->scan);
  /* Statements that need no store work. */
  rc =
      sqlite3_exec(p->db, "SELECT emb_dot('[1]', '[2]'), state FROM emb_tables",
                   NULL, NULL, NULL);
  finds(rc == SQLITE_OK, "emb_tables gave %d", rc);
  rc = sqlite3_close(p->db);
  finds(rc == SQLITE_OK, "close gave %d", rc);
  /* The child's own connection is another process's. */
  sqlite3 *own = sql_connect(file, 0);
  rc = sqlite3_exec(own, "SELECT vector FROM items WHERE key = 1", NULL, NULL,
                    NULL);
  finds(rc == SQLITE_OK, "its own SELECT gave %d: %s", rc, sqlite3_errmsg(own));
  rc = sqlite3_exec(own, "INSERT OR REPLACE INTO items VALUES(30000, '[1,2]')",
                    NULL, NULL, NULL);
  /* The parent's scan may hold a lock of SQLite. */
  finds(rc == SQLITE_OK ||
            strcmp(sqlite3_errmsg(own), "database is locked") == 0,
        "its own INSERT gave %d: %s", rc, sqlite3_errmsg(own));
  finds(sqlite3_close(own) == SQLITE_OK, "its own close");
}

/* It only closes; a table that the parent dropped is not its own. */
static void closes(void *arg) {
  struct parent *p = arg;
  (void)sqlite3_finalize(p->scan);
  finds(sqlite3_close(p->db) == SQLITE_OK, "close");
}

static void leaves(void *arg) {
  (void)arg;
  _exit(write(child_out, "=0\n", 3) == 3 ? 0 : 1);
}

/* Threads of the parent that open, read, write, and close all the time.  They
** use emb.h, because SQLite has its own mutexes, which a child may find
** held. */
static _Atomic int stop_work;

static void *work(void *arg) {
  enum { BATCH = 200 };
  emb_config config = {.dim = 2};
  int64_t keys[BATCH];
  float x[BATCH * 2] = {0};
  uint64_t random = *(uint64_t *)arg;
  emb_stat stats[96];
  char dir[500];
  (void)snprintf(dir, sizeof dir, "%s-emb/items", file);
  while (!atomic_load(&stop_work)) {
    emb_store *store;
    emb_session *s;
    if (!help_open(dir, &config, &store, &s))
      break;
    for (int round = 0; round < 20; round++) {
      for (int i = 0; i < BATCH; i++)
        keys[i] = 10 + (int64_t)(test_random_from(&random) % 19000);
      OK(s, emb_put(s, keys, BATCH / 4, x, NULL));
      OK(s, emb_get(s, keys, BATCH, x, NULL, NULL));
      CHECK(emb_release(s) > 0);
      CHECK(emb_stats(store, stats, 96) > 50);
    }
    if (!help_close(store, s))
      break;
  }
  return NULL;
}

static int open_parent(struct parent *p) {
  if (!test_dir())
    return 0;
  (void)snprintf(file, sizeof file, "%s/app.db", test_dir());
  p->db = sql_connect(file, 0);
  p->scan = NULL;
  return sql_runs(
      p->db, "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[2], "
             "memory='4MB', timeout=100, staleness=9);"
             "CREATE VIRTUAL TABLE unused USING emb(vector FLOAT[1]);"
             "CREATE VIRTUAL TABLE temp.own USING emb(vector FLOAT[1]);"
             "INSERT INTO temp.own VALUES(1, '[1]');"
             "WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM s "
             "WHERE i < 20000) INSERT INTO items SELECT i, '[1,2]' FROM s;"
             "INSERT INTO items(items) VALUES('checkpoint');"
             "SELECT emb_get('items', '[3]');"
             "SELECT emb_prefetch('items', '[1]');"
             "SELECT * FROM emb_lookahead('items', '[5,6]')");
}

/* The parent continues where it was. */
static void parent_works(struct parent *p) {
  if (p->scan) {
    CHECK_EQ_INT(sqlite3_step(p->scan), SQLITE_ROW);
    CHECK_EQ_INT(sqlite3_finalize(p->scan), SQLITE_OK);
  }
  sql_runs(p->db, "SELECT emb_prefetch_synchronize('items');"
                  "UPDATE items SET vector = '[4,4]' WHERE key = 2;"
                  "SELECT emb_put('items', '[3]', '[5,5]');"
                  "INSERT INTO unused VALUES(1, '[1]');"
                  "UPDATE temp.own SET vector = '[3]';"
                  "INSERT INTO items(items) VALUES('integrity-check');"
                  "INSERT INTO items(items) VALUES('checkpoint')");
  CHECK_EQ_INT(sqlite3_close(p->db), SQLITE_OK);
  p->db = sql_connect(file, 0);
  sql_runs(p->db,
           "INSERT INTO items(items) VALUES('integrity-check');"
           "CREATE TEMP TABLE t(x CHECK (x));"
           "INSERT INTO t SELECT vector = emb_f32('[4,4]') FROM items WHERE "
           "key = 2;"
           "INSERT INTO t SELECT count(*) >= 20000 FROM items;"
           "INSERT INTO t SELECT count(*) = 0 FROM items WHERE key < 1");
  CHECK_EQ_INT(sqlite3_close(p->db), SQLITE_OK);
}

TEST(child_with_its_parents_connection) {
  struct parent p;
  if (!open_parent(&p))
    return;
  CHECK_EQ_INT(
      sqlite3_prepare_v2(p.db, "SELECT vector FROM items", -1, &p.scan, NULL),
      SQLITE_OK);
  CHECK_EQ_INT(sqlite3_step(p.scan), SQLITE_ROW);
  int n = in_child(refused_in_sql, &p);
  CHECK_EQ_INT(n, 2 * STATEMENTS + 6);
  CHECK_EQ_INT(in_child(closes, &p), 1);
  CHECK_EQ_INT(in_child(leaves, &p), 0);
  parent_works(&p);
  printf("%d answers of a child\n", n);
}

/* Forks repeatedly while threads of the parent are at work. */
TEST(children_of_a_busy_parent) {
  enum { THREADS = 2 };
  int forks = (int)(20 * help_long());
  uint64_t seeds[THREADS];
  pthread_t threads[THREADS];
  struct parent p;
  /* Its allocator's locks stay locked in a child if a thread held them. */
  if (SANITIZED)
    SKIP("a sanitizer's allocator does not survive fork beside threads");
  if (!open_parent(&p))
    return;
  atomic_store(&stop_work, 0);
  for (int i = 0; i < THREADS; i++) {
    seeds[i] = test_random();
    CHECK_EQ_INT(pthread_create(&threads[i], NULL, work, &seeds[i]), 0);
  }
  for (int i = 0; i < forks && !atomic_load(&test_state.failures); i++)
    in_child(i % 4 ? closes : refused_in_sql, &p);
  atomic_store(&stop_work, 1);
  for (int i = 0; i < THREADS; i++)
    CHECK_EQ_INT(pthread_join(threads[i], NULL), 0);
  parent_works(&p);
  printf("%d forks\n", forks);
}

/* A table dropped while its store is being written waits on a list to be
** deleted: by the parent. */
TEST(child_deletes_nothing) {
  struct parent p;
  char dir[500];
  emb_config config = {.dim = 1};
  emb_store *store;
  emb_session *s;
  if (!open_parent(&p))
    return;
  (void)snprintf(dir, sizeof dir, "%s-emb/unused", file);
  if (!help_open(dir, &config, &store, &s) || !OK(s, emb_begin(s)))
    return;
  sql_runs(p.db, "DROP TABLE unused");
  emb_rollback(s);
  CHECK(help_entries(dir) > 0);
  CHECK_EQ_INT(in_child(closes, &p), 1);
  CHECK(help_entries(dir) > 0);
  CHECK_EQ_INT(sqlite3_close(p.db), SQLITE_OK);
  CHECK(emb_is_dropped(store));
  help_close(store, s);
  CHECK_EQ_INT(help_entries(dir), -1);
}

/* ---- through emb.h ------------------------------------------------------- */

enum { DIM = 2 };

struct objects {
  emb_store *store;
  emb_session *s, *t; /* s has a transaction, t a lease, tickets, a scan */
  emb_scan *scan;
  uint64_t prefetch, write_back;
  float into[DIM];
};

#define REFUSED(call_) refused((call_), #call_)
static void refused(int rc, const char *call) {
  finds(rc == EMB_MISUSE, "%s gave %d", call, rc);
}

static void refused_in_c(void *arg) {
  struct objects *o = arg;
  int64_t key = 1;
  float x[DIM] = {1, 2};
  uint8_t found[1];
  uint64_t number, versions[1];
  uint32_t clocks[1];
  emb_session *session = NULL;
  emb_scan *scan;
  emb_ahead ahead;
  emb_stat stats[4];
  emb_err err = {0, ""};
  size_t n;
  int more, done;
  emb_session *both[] = {o->s, o->t};
  for (int i = 0; i < 2; i++) {
    emb_session *s = both[i];
    REFUSED(emb_get(s, &key, 1, x, found, versions));
    finds(strstr(emb_errmsg(s), "fork") != NULL, "%s", emb_errmsg(s));
    finds(emb_errcode(s) == EMB_MISUSE, "errcode");
    REFUSED(emb_peek(s, &key, 1, x, found, versions));
    REFUSED(emb_exists(s, &key, 1, found));
    REFUSED(emb_put(s, &key, 1, x, versions));
    REFUSED(emb_rmw(s, &key, 1, x, found, versions));
    REFUSED(emb_delete(s, &key, 1, found));
    REFUSED(emb_clocks(s, &key, 1, clocks));
    REFUSED(emb_lookahead(s, &key, 1, EMB_AHEAD_BUFFER, &ahead));
    REFUSED(emb_lookahead(s, &key, 1, EMB_AHEAD_CACHE, &ahead));
    REFUSED(emb_lookahead_progress(s, 1, &ahead));
    REFUSED(emb_lookahead_wait(s, 1));
    REFUSED(emb_prefetch(
        s, &key, 1,
        &(emb_rows){.vectors = x, .found = found, .versions = versions},
        &number));
    REFUSED(emb_prefetch_synchronize(s, 0, &number));
    REFUSED(emb_write_back(s, &key, 1, x, &number));
    REFUSED(emb_write_back_synchronize(s, 0, &number));
    REFUSED(emb_begin(s));
    REFUSED(emb_txn_put(s, &key, 1, x));
    REFUSED(emb_txn_put_if(s, key, x, 0, 1, &done));
    REFUSED(emb_txn_delete(s, &key, 1, found));
    REFUSED(emb_savepoint(s, 1));
    REFUSED(emb_rollback_to(s, 1));
    REFUSED(emb_savepoint_release(s, 1));
    REFUSED(emb_prepare(s, &number));
    REFUSED(emb_commit(s));
    REFUSED(emb_scan_open(s, 0, 9, EMB_SCAN_ANY, &scan));
    REFUSED(emb_checkpoint(s));
    REFUSED(emb_optimize(s));
    REFUSED(emb_verify(s, help_report, &more));
    finds(emb_release(s) == 0, "emb_release");
    finds(emb_release_marked(s) == 0, "emb_release_marked");
    emb_statement(s, 7);
    finds(emb_release_statement(s) == 0, "emb_release_statement");
    emb_lease_mark(s, 1);
    emb_lease_mark(s, 0);
    finds(emb_count(s) == -1, "emb_count");
    finds(emb_leases(s) == (size_t)(i * 2), "emb_leases");
    finds(emb_tickets(s, &n) <= 1, "emb_tickets");
    emb_rollback(s);
  }
  REFUSED(emb_scan_next(o->scan, 1, &key, x, versions, &n));
  REFUSED(emb_session_open(o->store, &session, &err));
  finds(strstr(err.text, "fork") != NULL, "%s", err.text);
  REFUSED(emb_step(o->store, &more));
  REFUSED(emb_resolve(o->store, emb_in_doubt(o->store), 1, &err));
  finds(emb_is_owner(o->store) == 0, "emb_is_owner");
  finds(emb_stats(o->store, stats, 4) == 0, "emb_stats");
  finds(emb_dim(o->store) == DIM, "emb_dim");
  emb_scan_close(o->scan);
  emb_session_close(o->t);
  emb_session_close(o->s);
  finds(emb_close(o->store, &err) == EMB_OK, "emb_close: %s", err.text);
  /* It opens the store again, as another process: a client of its parent. */
  emb_config config = {.dim = DIM, .timeout_ms = 5000};
  const char *dir = help_path("store");
  int rc = emb_open(dir, &config, &o->store, &err);
  finds(rc == EMB_OK, "emb_open: %s", err.text);
  rc = emb_session_open(o->store, &session, &err);
  finds(rc == EMB_OK, "emb_session_open: %s", err.text);
  finds(emb_get(session, &key, 1, x, found, NULL) == EMB_OK, "its own Get");
  const int64_t other = 77; /* the parent's transaction has the key */
  finds(emb_put(session, &other, 1, x, NULL) == EMB_OK, "its own Put");
  emb_session_close(session);
  finds(emb_close(o->store, &err) == EMB_OK, "its own close");
  finds(emb_destroy(dir, &err) == EMB_BUSY, "emb_destroy");
}

TEST(child_with_its_parents_store) {
  emb_config config = {.dim = DIM,
                       .flags = EMB_OPEN_CREATE | EMB_OPEN_BOUNDED,
                       .memory_bytes = 1,
                       .staleness = 5};
  struct objects o;
  emb_err err;
  int64_t keys[2] = {1, 2}, key;
  float x[4] = {1, 2, 3, 4};
  size_t n;
  if (!help_open(help_path("store"), &config, &o.store, &o.s) ||
      !CHECK_EQ_INT(emb_session_open(o.store, &o.t, &err), EMB_OK))
    return;
  OK(o.s, emb_put(o.s, keys, 2, x, NULL));
  OK(o.s, emb_begin(o.s));
  OK(o.s, emb_txn_put(o.s, keys, 1, x + 2));
  OK(o.s, emb_savepoint(o.s, 1));
  OK(o.t, emb_get(o.t, keys, 1, x, NULL, NULL));
  OK(o.t, emb_lookahead(o.t, keys, 2, EMB_AHEAD_CACHE, NULL));
  OK(o.t,
     emb_prefetch(o.t, keys, 1, &(emb_rows){.vectors = o.into}, &o.prefetch));
  OK(o.t, emb_write_back(o.t, keys + 1, 1, x + 2, &o.write_back));
  OK(o.t, emb_scan_open(o.t, 0, 9, EMB_SCAN_ANY, &o.scan));
  int answered = in_child(refused_in_c, &o);
  CHECK(answered > 70);
  OK(o.t, emb_scan_next(o.scan, 1, &key, x, NULL, &n));
  CHECK_EQ_INT(n, 1);
  emb_scan_close(o.scan);
  OK(o.t, emb_prefetch_synchronize(o.t, o.prefetch, NULL));
  CHECK(o.into[0] == 1 && o.into[1] == 2);
  OK(o.t, emb_write_back_synchronize(o.t, o.write_back, NULL));
  CHECK_EQ_INT(emb_release(o.t), 2);
  OK(o.s, emb_commit(o.s));
  OK(o.s, emb_peek(o.s, keys, 1, x, NULL, NULL));
  CHECK(x[0] == 3 && x[1] == 4);
  CHECK(help_verify(o.s));
  emb_session_close(o.t);
  help_close(o.store, o.s);
  printf("%d answers of a child\n", answered);
}
