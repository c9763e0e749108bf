/* SPDX-License-Identifier: MIT
**
** long_processes.c -- one table used by many processes for a long time: two
** train rows under a bound, two recompute other rows, one reads all rows, one
** exports changes to a copy, one serves.
**
** Every second or so the owner process closes the store and ends, and another
** process takes over; then it comes back.  No process is killed, so nothing
** that was acknowledged may be lost.
**
** A trained row counts its updates in each element.  A made row has its maker
** and the maker's count.  The begun and the acknowledged counts of each row
** are in memory that all processes share.
**
** MUST HOLD A process that reads all rows finds each once and whole, not
**           older than the count acknowledged before, not newer than the one
**           begun; and never fails, whichever owner ends.  Others may learn
**           (SQLITE_ABORT) that a lease, a snapshot or a call was lost with
**           an owner, and then retry.  At the end each trained row has
**           exactly the acknowledged updates, and the copy equals the table.
** AMOUNT    LIFE_SECONDS=n, else 20, LONG=n times as long.
*/
#include "process_help.h"
#include "sql_help.h"
#include "store_help.h"

enum {
  DIM = 16,
  TRAINED = 256, /* keys 0 .. */
  TRAINERS = 2,
  MAKERS = 2,
  MADE_AT = 1000,
  MADE = 20000, /* of each maker */
  KEYS = TRAINED + MAKERS * MADE,
  BATCH = 16,
  SECONDS = 20,
};

enum role {
  TRAINER,
  MAKER = TRAINER + TRAINERS,
  SCANNER = MAKER + MAKERS,
  EXPORTER,
  SERVER,
  ROLES
};

/* `begun` is written before a call, `done` after it; all relaxed, except over
** and leave, which order nothing either. */
static struct shared {
  _Atomic int over;
  _Atomic int leave[ROLES];
  _Atomic uint32_t begun[KEYS], done[KEYS]; /* by place */
  _Atomic uint64_t updates, puts, scans, deltas, snapshots, served;
  _Atomic uint64_t longest_us; /* of the scans */
  _Atomic uint64_t lost;       /* calls lost with an owner */
  _Atomic uint64_t locked;     /* calls that waited in vain for SQLite's lock */
} * shared;

static struct shared *share(const char *dir) {
  char path[600];
  (void)snprintf(path, sizeof path, "%s/shared", dir);
  return process_memory(path, sizeof *shared);
}

/* ---- rows ---------------------------------------------------------------- */

/* The place of the key's row; -1: there is no such key. */
static int place_of(int64_t key) {
  if (key >= 0 && key < TRAINED)
    return (int)key;
  if (key >= MADE_AT && key < MADE_AT + MAKERS * MADE)
    return (int)(key - MADE_AT + TRAINED);
  return -1;
}

static int64_t made_key(int maker, uint32_t i) {
  return MADE_AT + maker * MADE + (int64_t)i;
}

static void make_row(float *row, int64_t key, uint32_t n) {
  for (int i = 0; i < DIM; i++)
    row[i] = i & 1        ? (float)key
             : i % 4 == 2 ? (float)(((uint32_t)key * 7 + n * 13) % 4093)
                          : (float)n;
}

/* The count of a row; UINT32_MAX: it is torn, or another key's. */
static uint32_t count_of(int64_t key, const float *row) {
  int made = key >= MADE_AT;
  uint32_t n = (uint32_t)row[0];
  float whole[DIM];
  make_row(whole, key, n);
  for (int i = 0; i < DIM && !made; i++)
    whole[i] = (float)n;
  if (memcmp(whole, row, sizeof whole) != 0)
    return UINT32_MAX;
  return n;
}

static double seconds_of(const struct timespec *from) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - from->tv_sec) +
         (double)(now.tv_nsec - from->tv_nsec) / 1e9;
}

/* ---- statements ---------------------------------------------------------- */

struct connection {
  sqlite3 *db;
  enum role role;
  char dir[512];
};

static sqlite3 *connect_to(const char *dir, const char *name) {
  char path[600];
  (void)snprintf(path, sizeof path, "%s/%s", dir, name);
  sqlite3 *db = sql_connect(path, 0);
  (void)sqlite3_busy_timeout(db, 60000);
  return db;
}

static int goes_on(const struct connection *c) {
  return !atomic_load(&shared->over) && !atomic_load(&shared->leave[c->role]) &&
         !atomic_load(&test_state.failures);
}

/* A statement with keys and vectors as ?1 and ?2.  1: it was done.  0: its
** owner ended, and it must be retried. */
static int apply(sqlite3 *db, const char *sql, const int64_t *keys, size_t n,
                 const float *rows) {
  sqlite3_stmt *statement = NULL;
  int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  if (rc == SQLITE_OK && keys)
    (void)sqlite3_bind_blob(statement, 1, keys, (int)(n * sizeof *keys),
                            SQLITE_STATIC);
  if (rc == SQLITE_OK && rows)
    (void)sqlite3_bind_blob(statement, 2, rows, (int)(n * DIM * sizeof *rows),
                            SQLITE_STATIC);
  while (rc == SQLITE_OK || rc == SQLITE_ROW)
    rc = sqlite3_step(statement);
  if ((rc & 0xff) == SQLITE_ABORT)
    atomic_fetch_add(&shared->lost, 1);
  else if (rc == SQLITE_BUSY &&
           strcmp(sqlite3_errmsg(db), "database is locked") == 0)
    atomic_fetch_add(&shared->locked, 1);
  else
    (void)test_check(rc == SQLITE_DONE, __FILE__, __LINE__, "%s gave %d: %s",
                     sql, sqlite3_extended_errcode(db), sqlite3_errmsg(db));
  (void)sqlite3_finalize(statement);
  return rc == SQLITE_DONE;
}

/* ---- trainers and makers ------------------------------------------------- */

static size_t choose(int64_t *keys, int64_t from, uint32_t range) {
  size_t n = 1 + test_random() % BATCH;
  for (size_t i = 0; i < n; i++) {
    keys[i] = from + (int64_t)(test_random() % range);
    for (size_t k = 0; k < i; k++)
      if (keys[k] == keys[i])
        return i;
  }
  return n;
}

static void note(_Atomic uint32_t *counts, const int64_t *keys, size_t n) {
  for (size_t i = 0; i < n; i++)
    atomic_fetch_add(&counts[place_of(keys[i])], 1);
}

/* Counted reads, then the gradients for them, which give the leases back.  A
** failed statement leaves nothing behind. */
static void train(struct connection *c) {
  int64_t keys[BATCH];
  float gradients[BATCH * DIM];
  for (int i = 0; i < BATCH * DIM; i++)
    gradients[i] = -1;
  while (goes_on(c)) {
    size_t n = choose(keys, 0, TRAINED);
    if (!apply(c->db, "SELECT emb_get('items', ?1)", keys, n, NULL))
      continue;
    note(shared->begun, keys, n);
    while (!apply(c->db, "INSERT INTO items(keys, gradients) VALUES(?1, ?2)",
                  keys, n, gradients) &&
           !atomic_load(&test_state.failures))
      ;
    note(shared->done, keys, n);
    atomic_fetch_add(&shared->updates, n);
    (void)usleep(
        1000); /* SQLite's lock goes to a process polling at the right time */
  }
}

static void make(struct connection *c) {
  int64_t keys[BATCH];
  float rows[BATCH * DIM];
  int maker = (int)c->role - MAKER;
  while (goes_on(c)) {
    size_t n = choose(keys, made_key(maker, 0), MADE);
    note(shared->begun, keys, n);
    for (size_t i = 0; i < n; i++)
      make_row(rows + i * DIM, keys[i],
               atomic_load(&shared->begun[place_of(keys[i])]));
    /* A call that perhaps was carried out is retried with the same rows. */
    while (!apply(c->db, "SELECT emb_put('items', ?1, ?2)", keys, n, rows) &&
           !atomic_load(&test_state.failures))
      ;
    note(shared->done, keys, n);
    atomic_fetch_add(&shared->puts, n);
  }
}

/* ---- readers ------------------------------------------------------------- */

static void check_row(int64_t key, const float *row, const uint32_t *least,
                      uint8_t *seen) {
  int place = place_of(key);
  uint32_t n = place < 0 ? UINT32_MAX : count_of(key, row);
  if (!test_check(n != UINT32_MAX, __FILE__, __LINE__,
                  "key %" PRId64 " is torn, or not there", key))
    return;
  uint32_t most = atomic_load(&shared->begun[place]);
  (void)test_check(n >= least[place] && n <= most && !seen[place], __FILE__,
                   __LINE__,
                   "key %" PRId64 ": %u, seen %d times, acknowledged %u, "
                   "begun %u",
                   key, n, seen[place], least[place], most);
  seen[place] = 1;
}

static void scan(sqlite3 *db, const char *sql) {
  static uint32_t least[KEYS];
  static uint8_t seen[KEYS];
  sqlite3_stmt *statement = NULL;
  int rows = 0;
  memset(seen, 0, sizeof seen);
  for (int i = 0; i < KEYS; i++)
    least[i] = atomic_load(&shared->done[i]);
  int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  while (!rc && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
    float row[DIM];
    if (CHECK_EQ_INT(sqlite3_column_bytes(statement, 1), sizeof row)) {
      memcpy(row, sqlite3_column_blob(statement, 1), sizeof row);
      check_row(sqlite3_column_int64(statement, 0), row, least, seen);
    }
    rows++;
    rc = SQLITE_OK;
  }
  (void)test_check(rc == SQLITE_DONE, __FILE__, __LINE__,
                   "%s gave %d after %d rows: %s", sql,
                   sqlite3_extended_errcode(db), rows, sqlite3_errmsg(db));
  CHECK_EQ_INT(rows, KEYS);
  (void)sqlite3_finalize(statement);
}

static void scan_all(struct connection *c) {
  static const char *const orders[] = {
      "SELECT key, vector FROM items",
      "SELECT key, vector FROM items ORDER BY key",
      "SELECT key, vector FROM items ORDER BY key DESC"};
  for (unsigned i = 0; goes_on(c); i++) {
    struct timespec start;
    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    scan(c->db, orders[i % 3]);
    uint64_t us = (uint64_t)(seconds_of(&start) * 1e6);
    if (us > atomic_load(&shared->longest_us))
      atomic_store(&shared->longest_us, us); /* there is one scanner */
    CHECK_EQ_INT(sql_integer(c->db, "SELECT count(*) FROM items"), KEYS);
    CHECK_EQ_INT(
        sql_integer(c->db, "SELECT count(vector) FROM items WHERE key < 1000"),
        TRAINED);
    atomic_fetch_add(&shared->scans, 1);
  }
}

/* ---- exporters ----------------------------------------------------------- */

/* An older file may be applied once more, without any effect. */
static int ship(struct connection *c, sqlite3 *copy) {
  char sql[700], apply_sql[700];
  (void)snprintf(sql, sizeof sql,
                 "SELECT emb_delta_export('items', 'copier', '%s/delta', "
                 "'state=0')",
                 c->dir);
  (void)snprintf(apply_sql, sizeof apply_sql,
                 "SELECT emb_delta_apply('items', '%s/delta')", c->dir);
  int good =
      apply(c->db, sql, NULL, 0, NULL) &&
      apply(copy, apply_sql, NULL, 0, NULL) &&
      apply(c->db, "SELECT emb_delta_ack('items', 'copier')", NULL, 0, NULL);
  atomic_fetch_add(&shared->deltas, (uint64_t)good);
  return good;
}

static int has_snapshot(sqlite3 *db) {
  return sql_integer(db, "SELECT count(*) FROM emb_snapshots('items')") > 0;
}

/* A snapshot has all rows, however long it is read. */
static void look_back(struct connection *c) {
  sqlite3_stmt *statement = NULL;
  int n = 0;
  if (!has_snapshot(c->db)) /* it may have been taken even if its owner ended */
    (void)apply(c->db, "SELECT emb_snapshot('items', 'now')", NULL, 0, NULL);
  if (!has_snapshot(c->db))
    return;
  int rc = sqlite3_prepare_v2(
      c->db, "SELECT count(vector) FROM emb_snapshot('items', 'now')", -1,
      &statement, NULL);
  rc = rc ? rc : sqlite3_step(statement);
  if (rc == SQLITE_ROW) {
    n = sqlite3_column_int(statement, 0);
    CHECK_EQ_INT(n, KEYS);
    atomic_fetch_add(&shared->snapshots, 1);
  } else {
    (void)test_check((rc & 0xff) == SQLITE_ABORT, __FILE__, __LINE__,
                     "a snapshot gave %d: %s", sqlite3_extended_errcode(c->db),
                     sqlite3_errmsg(c->db));
    atomic_fetch_add(&shared->lost, 1);
  }
  (void)sqlite3_finalize(statement);
}

static void export_all(struct connection *c) {
  sqlite3 *copy = connect_to(c->dir, "copy.db");
  while (goes_on(c)) {
    look_back(c);
    (void)ship(c, copy);
    if (has_snapshot(c->db))
      (void)apply(c->db, "SELECT emb_snapshot_drop('items', 'now')", NULL, 0,
                  NULL);
  }
  CHECK_EQ_INT(sqlite3_close(copy), SQLITE_OK);
}

/* ---- servers ------------------------------------------------------------- */

static int has_to_leave(void *arg) { return !goes_on(arg); }

/* Serves until told to leave; waits for the store while another process owns
** it. */
static void serve(struct connection *c) {
  char sql[700];
  sqlite3_stmt *statement = NULL;
  (void)snprintf(sql, sizeof sql, "ATTACH '%s/test.db' AS app", c->dir);
  sql_runs(c->db, sql);
  sqlite3_progress_handler(c->db, 100, has_to_leave, c);
  int rc =
      sqlite3_prepare_v2(c->db, "SELECT state FROM emb_serve('app.items', 0.1)",
                         -1, &statement, NULL);
  while (!rc && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
    atomic_fetch_add(&shared->served, 1);
    rc = SQLITE_OK;
  }
  (void)test_check(rc == SQLITE_INTERRUPT || rc == SQLITE_BUSY, __FILE__,
                   __LINE__, "emb_serve gave %d: %s",
                   sqlite3_extended_errcode(c->db), sqlite3_errmsg(c->db));
  (void)sqlite3_finalize(statement);
  sqlite3_progress_handler(c->db, 0, NULL, NULL);
}

/* Arguments: directory, role. */
PROCESS(member) {
  struct connection c = {.role = (enum role)process_number(1)};
  (void)snprintf(c.dir, sizeof c.dir, "%s", process_argument(0));
  shared = share(c.dir);
  if (!shared)
    return;
  c.db = c.role == SERVER ? sql_connect(":memory:", 0)
                          : connect_to(c.dir, "test.db");
  if (c.role < MAKER)
    train(&c);
  else if (c.role < SCANNER)
    make(&c);
  else if (c.role == SCANNER)
    scan_all(&c);
  else if (c.role == EXPORTER)
    export_all(&c);
  else
    serve(&c);
  CHECK_EQ_INT(sqlite3_close(c.db), SQLITE_OK);
  if (atomic_load(&test_state.failures))
    atomic_store(&shared->over, 1); /* a failing member ends all */
}

/* ---- the test ------------------------------------------------------------ */

static void make_tables(const char *dir) {
  static float rows[256 * DIM];
  int64_t keys[256];
  sqlite3 *db = connect_to(dir, "test.db");
  sql_runs(db, test_random() % 2 ? "PRAGMA journal_mode = WAL"
                                 : "PRAGMA journal_mode = DELETE");
  sql_runs(db, "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[16], "
               "staleness=1, optimizer='sgd(lr=1)', timeout=60000)");
  for (int at = 0; at < KEYS; at += 256) {
    size_t n = KEYS - at < 256 ? (size_t)(KEYS - at) : 256;
    for (size_t i = 0; i < n; i++) {
      int place = at + (int)i;
      keys[i] = place < TRAINED ? place : place - TRAINED + MADE_AT;
      if (place < TRAINED)
        memset(rows + i * DIM, 0, DIM * sizeof *rows);
      else
        make_row(rows + i * DIM, keys[i], 0);
    }
    (void)apply(db, "SELECT emb_put('items', ?1, ?2)", keys, n, rows);
  }
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  db = connect_to(dir, "copy.db");
  sql_runs(db, "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[16])");
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

static int member_start(struct process *p, int role) {
  char text[16];
  (void)snprintf(text, sizeof text, "%d", role);
  atomic_store(&shared->leave[role], 0);
  return process_start(p, "member", (const char *[]){test_dir(), text, NULL});
}

/* The store's owner closes it and comes back; sometimes another member does. */
static int replace(sqlite3 *db, struct process *p) {
  int64_t owner = sql_integer(
      db, "SELECT coalesce(owner_pid, 0) FROM emb_tables WHERE name = 'items'");
  int role = (int)(test_random() % ROLES), was_owner = 0;
  for (int i = 0; i < ROLES; i++)
    if (p[i].pid == (pid_t)owner && test_random() % 8) {
      role = i;
      was_owner = 1;
    }
  atomic_store(&shared->leave[role], 1);
  if (!process_end(&p[role]))
    return 0;
  (void)member_start(&p[role], role);
  return was_owner;
}

static void compare(sqlite3 *db) {
  char sql[700];
  (void)snprintf(sql, sizeof sql, "ATTACH '%s/copy.db' AS other", test_dir());
  sql_runs(db, sql);
  scan(db, "SELECT key, vector FROM items");
  for (int i = 0; i < KEYS; i++)
    if (!CHECK_EQ_INT(atomic_load(&shared->done[i]),
                      atomic_load(&shared->begun[i])))
      break;
  CHECK_EQ_INT(sql_integer(db, "SELECT count(*) FROM other.items"), KEYS);
  CHECK_EQ_INT(sql_integer(db, "SELECT count(*) FROM main.items i JOIN "
                               "other.items o ON i.key = o.key "
                               "WHERE i.vector = o.vector AND "
                               "i.mode = 'peek'"),
               KEYS);
  CHECK_EQ_INT(
      sql_integer(db, "SELECT count(*) FROM main.items WHERE clock > 0"), 0);
  sql_runs(db, "INSERT INTO items(items) VALUES('integrity-check')");
}

static void report(int owners) {
  printf("%" PRIu64 " updates, %" PRIu64 " puts, %" PRIu64 " scans, %" PRIu64
         " deltas, %" PRIu64 " snapshots, %" PRIu64 " rows of emb_serve\n",
         atomic_load(&shared->updates), atomic_load(&shared->puts),
         atomic_load(&shared->scans), atomic_load(&shared->deltas),
         atomic_load(&shared->snapshots), atomic_load(&shared->served));
  printf("%" PRIu64 " calls that went with an owner, %" PRIu64
         " that waited in vain for SQLite's lock\n",
         atomic_load(&shared->lost), atomic_load(&shared->locked));
  printf("longest scan %.1f s\n",
         (double)atomic_load(&shared->longest_us) / 1e6);
  test_count("owners replaced", (uint64_t)owners);
  CHECK(owners > 0 && atomic_load(&shared->updates) &&
        atomic_load(&shared->puts) && atomic_load(&shared->scans) &&
        atomic_load(&shared->deltas) && atomic_load(&shared->snapshots));
}

static void live(double seconds) {
  struct process p[ROLES];
  struct timespec start;
  int started = 0, owners = 0;
  (void)clock_gettime(CLOCK_MONOTONIC, &start);
  while (started < ROLES && member_start(&p[started], started))
    started++;
  sqlite3 *db = connect_to(test_dir(), "test.db");
  while (started == ROLES && seconds_of(&start) < seconds &&
         !atomic_load(&shared->over) && !atomic_load(&test_state.failures)) {
    (void)usleep(200000 + (useconds_t)(test_random() % 800000));
    owners += replace(db, p);
  }
  atomic_store(&shared->over, 1);
  int good = started == ROLES;
  for (int i = 0; i < started; i++)
    good &= process_end(&p[i]);
  if (good) { /* changes since the exporter's last delta */
    struct connection c = {.db = db, .role = EXPORTER};
    (void)snprintf(c.dir, sizeof c.dir, "%s", test_dir());
    sqlite3 *copy = connect_to(test_dir(), "copy.db");
    for (int i = 0; i < 3 && !ship(&c, copy); i++)
      ;
    CHECK_EQ_INT(sqlite3_close(copy), SQLITE_OK);
    compare(db);
    report(owners);
  }
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

TEST(long_processes) {
  const char *text = getenv("LIFE_SECONDS");
  shared = share(test_dir());
  if (!shared)
    return;
  make_tables(test_dir());
  live(text ? strtod(text, NULL) : help_amount(SECONDS));
  process_memory_end(shared, sizeof *shared);
}
