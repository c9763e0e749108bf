/* SPDX-License-Identifier: MIT
**
** takeover_work.c -- the work of a member of takeover.c on its tables: its
** transactions, reads, scans and batches, each with its checks.
*/
#include "takeover_help.h"

#include <ftw.h>
#include <unistd.h>

static const char *const peek[] = {"", " AND v.mode = 'peek'"};

/* ---- transactions -------------------------------------------------------- */

/* Where reads are counted, these are not. */
static const char *mode(void) {
  return peek[takeover->bound >= 0 || takeover_below(2)];
}

/* Commits a transaction that has added to both tables. */
static int commits(struct connection *c, unsigned key, int phase,
                   uint64_t least) {
  int64_t pair[2];
  int compares = takeover_below(4) != 0;
  if (!(compares
            ? takeover_pair(c, pair,
                            "SELECT n, vector FROM p JOIN v ON v.key = "
                            "p.key%s WHERE p.key = %u",
                            peek[1], key)
            : takeover_pair(c, pair, "SELECT n FROM p WHERE key = %u", key)))
    return 0;
  if (compares && pair[0] != pair[1])
    takeover_fail(
        c, "in a write transaction key %u has %" PRId64 " and vector %" PRId64,
        key, pair[0], pair[1]);
  if (pair[0] <= (int64_t)least)
    takeover_fail(c, "p of key %u is %" PRId64 ", acknowledged %" PRIu64, key,
                  pair[0], least);
  if (takeover_has(ROLLBACK) && takeover_below(8) == 0)
    return 0;
  takeover_begin_commit(key, (uint64_t)pair[0]);
  int done = takeover_run(c, "COMMIT");
  for (int i = 0; i < 3 && !done && (c->rc & 0xff) == SQLITE_BUSY &&
                  !sqlite3_get_autocommit(c->db);
       i++)
    done = takeover_run(c, "COMMIT");
  if (done)
    takeover_commit_done(key, (uint64_t)pair[0], phase);
  return done;
}

void takeover_write(struct connection *c) {
  unsigned key = (unsigned)takeover_below(KEYS);
  int phase = atomic_load(&takeover->phase),
      vector_first = takeover_below(4) != 0;
  uint64_t least = atomic_load(&takeover->done[key]);
  int good = takeover_run(c, takeover_below(2) ? "BEGIN" : "BEGIN IMMEDIATE");
  for (int i = 0; i < 2 && good; i++)
    good = (i == 0) == vector_first
               ? takeover_runs(c,
                               "UPDATE v SET vector = emb_add(vector, "
                               "'[1,1,1,1]') WHERE key = %u",
                               key)
               : takeover_runs(c, "UPDATE p SET n = n + 1 WHERE key = %u", key);
  if (good && sqlite3_changes(c->db) != 1)
    takeover_fail(c, "key %u is not there", key);
  if (good && takeover_below(16) == 0)
    (void)usleep((useconds_t)takeover_below(20000));
  if (good)
    good = commits(c, key, phase, least);
  if (!sqlite3_get_autocommit(c->db))
    (void)takeover_run(c, "ROLLBACK");
}

void takeover_trigger(struct connection *c) {
  int phase = atomic_load(&takeover->phase);
  if (takeover_runs(c, "INSERT INTO bump VALUES(%d)",
                    (int)takeover_below(KEYS)))
    takeover_commit_done(c->key, c->count, phase);
}

/* Number of others' commits that this connection has seen; -1: an error. */
static int64_t version_of(struct connection *c) {
  int64_t version[2];
  return takeover_pair(c, version, "PRAGMA data_version") ? version[0] : -1;
}

/* In WAL mode the transaction reads p as of its beginning, but not v. */
void takeover_read(struct connection *c) {
  unsigned key = (unsigned)takeover_below(KEYS);
  uint64_t least = takeover_least(c, key);
  int64_t p[2] = {-1, -1}, v[2] = {-1, -1}, version = version_of(c);
  int p_first = takeover_below(2) != 0, good = takeover_run(c, "BEGIN");
  for (int i = 0; i < 2 && good; i++)
    good = (i == 0) == p_first
               ? takeover_pair(c, p, "SELECT n FROM p WHERE key = %u", key)
               : takeover_pair(c, v, "SELECT vector FROM v WHERE key = %u%s",
                               key, mode());
  if (!sqlite3_get_autocommit(c->db))
    (void)takeover_run(c, "COMMIT");
  if (!sqlite3_get_autocommit(c->db))
    (void)takeover_run(c, "ROLLBACK");
  /* With a copy of an older state a read shows that state, and writes are
  ** refused. */
  if (!good || takeover->directory == REPLACED)
    return;
  int is_fresh = !takeover->is_wal || !c->scan;
  int is_same = !takeover->is_wal ||
                (is_fresh && version >= 0 && version_of(c) == version);
  if (v[0] < p[0] || (is_same && v[0] != p[0]))
    takeover_fail(c,
                  "in a read transaction key %u has %" PRId64
                  " and vector %" PRId64 " (%s first)",
                  key, p[0], v[0], p_first ? "row" : "vector");
  takeover_check(c, key, v[0], least, "a read transaction");
  if (is_fresh && takeover_pair(c, p, "SELECT n FROM p WHERE key = %u", key) &&
      p[0] < v[0])
    takeover_fail(c, "key %u has vector %" PRId64 " before its row %" PRId64,
                  key, v[0], p[0]);
  atomic_fetch_add(&takeover->reads, 1);
}

/* ---- states -------------------------------------------------------------- */

/* Where the directory is changed both may report it. */
void takeover_verify(struct connection *c) {
  int64_t same[2];
  if (takeover_below(2))
    (void)takeover_run(c, "INSERT INTO v(v) VALUES('integrity-check')");
  else if (takeover_pair(c, same,
                         "SELECT state NOT IN ('ahead', 'behind', 'missing'), "
                         "1 FROM emb_tables") &&
           same[0] != 1 && takeover->directory == STAYS)
    takeover_fail(c, "emb_tables takes the store for a copy");
}

/* ---- backups ------------------------------------------------------------- */

static void check_copy(struct connection *c, const char *path,
                       const uint64_t least[KEYS]) {
  struct connection copy = {.slot = c->slot};
  copy.db = sql_connect(path, 0);
  for (unsigned key = 0; key < KEYS; key++) {
    int64_t pair[2];
    if (!takeover_pair(&copy, pair,
                       "SELECT n, vector FROM p JOIN v ON v.key = p.key AND "
                       "v.mode = 'peek' WHERE p.key = %u",
                       key) ||
        pair[0] != pair[1])
      takeover_fail(c, "in a backup key %u has %" PRId64 " and vector %" PRId64,
                    key, pair[0], pair[1]);
    takeover_check(c, key, pair[1], least[key], "a backup");
  }
  CHECK_EQ_INT(sqlite3_close(copy.db), SQLITE_OK);
}

void takeover_backup(struct connection *c, const char *dir) {
  char path[700];
  uint64_t least[KEYS];
  if (c->scan || takeover->directory != STAYS)
    return;
  (void)snprintf(path, sizeof path, "%s/copy-%d.db", dir, (int)getpid());
  for (unsigned key = 0; key < KEYS; key++)
    least[key] = takeover_least(c, key);
  if (!takeover_runs(c, "SELECT count(*) FROM emb_backup('%s')", path))
    return;
  check_copy(c, path, least);
  atomic_fetch_add(&takeover->backups, 1);
  (void)unlink(path);
  (void)snprintf(path, sizeof path, "%s/copy-%d.db-emb", dir, (int)getpid());
  (void)nftw(path, test_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- scans --------------------------------------------------------------- */

static void scan_begin(struct connection *c) {
  static const char *const scans[] = {"SELECT key, vector FROM v",
                                      "SELECT key, vector FROM v ORDER BY key"};
  const char *sql = scans[takeover_below(2)];
  c->scan_seen = 0;
  for (int i = 0; i < KEYS; i++)
    c->scan_least[i] = takeover_least(c, (unsigned)i);
  takeover_begins(c, sql);
  if (!takeover_ended(c, sqlite3_prepare_v2(c->db, sql, -1, &c->scan, NULL),
                      sql))
    c->scan = NULL;
}

static void scan_row(struct connection *c) {
  int64_t key = sqlite3_column_int64(c->scan, 0);
  int64_t value = takeover_whole(c, sqlite3_column_blob(c->scan, 1),
                                 sqlite3_column_bytes(c->scan, 1));
  if (key >= KEYS)
    return;
  if (c->scan_seen >> key & 1)
    takeover_fail(c, "a scan has key %" PRId64 " twice", key);
  c->scan_seen |= UINT32_C(1) << key;
  takeover_check(c, (unsigned)key, value, c->scan_least[key], "a scan");
}

/* Reads some more rows; the connection does other things before the next
** ones. */
static void scan_on(struct connection *c) {
  int rc = SQLITE_ROW;
  takeover_begins(c, "rows of a scan");
  for (uint64_t n = takeover_below(FILL); n > 0 && rc == SQLITE_ROW; n--)
    if ((rc = sqlite3_step(c->scan)) == SQLITE_ROW)
      scan_row(c);
  (void)takeover_ended(c, rc, "a scan");
  if (rc == SQLITE_ROW && takeover_below(8))
    return;
  if (rc == SQLITE_DONE && c->scan_seen != (UINT32_C(1) << KEYS) - 1)
    takeover_fail(c, "a scan has not all keys: %x", (unsigned)c->scan_seen);
  (void)sqlite3_finalize(c->scan);
  c->scan = NULL;
}

void takeover_scan(struct connection *c) {
  (c->scan ? scan_on : scan_begin)(c);
}

/* ---- immediate functions and batches ------------------------------------- */

static int has_write_back(const struct connection *c) {
  for (int i = 0; i < TICKETS; i++)
    if (c->tickets[i].number && c->tickets[i].is_write)
      return 1;
  return 0;
}

static void put_own(struct connection *c) {
  int64_t value = (int64_t)takeover_below(1000000);
  if (has_write_back(c))
    return;
  c->own = -1;
  if (takeover_runs(c,
                    "SELECT emb_put('v', '[%" PRId64 "]', '[%" PRId64
                    ",%" PRId64 ",%" PRId64 ",%" PRId64 "]')",
                    c->own_key, value, value, value, value))
    c->own = value;
}

/* Checks that the connection's row is there, unless an error said that it is
** not. */
static void read_own(struct connection *c) {
  int64_t found[2], want = c->own;
  if (want < 0 || has_write_back(c) ||
      !takeover_pair(c, found, "SELECT emb_peek('v', '[%" PRId64 "]')",
                     c->own_key))
    return;
  if (found[0] != want)
    takeover_fail(c, "emb_put wrote %" PRId64 ", and %" PRId64 " is there",
                  want, found[0]);
}

void takeover_put(struct connection *c) {
  (takeover_below(2) ? put_own : read_own)(c);
}

static void prefetch(struct connection *c, struct ticket *t) {
  int64_t number[2];
  for (int i = 0; i < TICKET_KEYS; i++) {
    t->keys[i] =
        (int)(takeover_below(2) + (uint64_t)i * 2); /* different keys */
    t->least[i] = takeover_least(c, (unsigned)t->keys[i]);
  }
  if (takeover_pair(c, number, "SELECT emb_prefetch('v', '[%d,%d,%d]')",
                    t->keys[0], t->keys[1], t->keys[2]))
    *t = (struct ticket){.number = (uint64_t)number[0],
                         .keys = {t->keys[0], t->keys[1], t->keys[2]},
                         .least = {t->least[0], t->least[1], t->least[2]}};
}

static void write_back(struct connection *c, struct ticket *t) {
  int64_t number[2], x = (int64_t)takeover_below(1000000);
  if (has_write_back(c))
    return;
  c->own = -1;
  if (takeover_pair(c, number,
                    "SELECT emb_write_back('v', '[%" PRId64 "]', '[%" PRId64
                    ",%" PRId64 ",%" PRId64 ",%" PRId64 "]')",
                    c->own_key, x, x, x, x))
    *t = (struct ticket){
        .number = (uint64_t)number[0], .is_write = 1, .value = x};
}

static void check_batch(struct connection *c, struct ticket *t,
                        sqlite3_stmt *statement) {
  const char *rows = sqlite3_column_blob(statement, 0);
  int bytes = sqlite3_column_bytes(statement, 0);
  const int row = DIM * (int)sizeof(float);
  if (t->is_write) {
    if (sqlite3_column_int64(statement, 0) != 1)
      takeover_fail(c, "a write-back of one row gave %s",
                    (const char *)sqlite3_column_text(statement, 0));
    c->own = t->value;
  } else if (bytes != TICKET_KEYS * row)
    takeover_fail(c, "a prefetch of %d rows gave %d bytes", TICKET_KEYS, bytes);
  else
    for (int i = 0; i < TICKET_KEYS; i++)
      takeover_check(c, (unsigned)t->keys[i],
                     takeover_whole(c, rows + i * row, row), t->least[i],
                     "a prefetch");
}

/* A ticket that gave its rows, or an error, is no longer known; nor is the
** store, where its directory has gone. */
static void check_over(struct connection *c, const struct ticket *t,
                       const char *sql) {
  if (takeover->directory != STAYS)
    return;
  for (int i = 0; i < TICKETS; i++)
    if (&c->tickets[i] != t && c->tickets[i].number == t->number)
      return; /* a ticket of a later owner, or of the other kind */
  takeover_begins(c, sql);
  int rc = sqlite3_exec(c->db, sql, NULL, NULL, NULL);
  (void)takeover_ended(c, SQLITE_OK, sql);
  if ((rc & 0xff) == SQLITE_BUSY ||
      strstr(sqlite3_errmsg(c->db), "in flight has the ticket"))
    return;
  takeover_fail(c, "ticket %" PRIu64 " was over, and gave %d: %s", t->number,
                sqlite3_extended_errcode(c->db), sqlite3_errmsg(c->db));
}

static void synchronize(struct connection *c, struct ticket *t) {
  sqlite3_stmt *statement = NULL;
  char sql[100];
  (void)snprintf(sql, sizeof sql, "SELECT emb_%s_synchronize('v', %" PRIu64 ")",
                 t->is_write ? "write_back" : "prefetch", t->number);
  takeover_begins(c, sql);
  int rc = sqlite3_prepare_v2(c->db, sql, -1, &statement, NULL);
  rc = rc ? rc : sqlite3_step(statement);
  if (rc == SQLITE_ROW)
    check_batch(c, t, statement);
  /* After SQLITE_BUSY it may be over, or not. */
  int is_lost = rc != SQLITE_ROW && t->is_unsure &&
                strstr(sqlite3_errmsg(c->db), "in flight has the ticket");
  (void)takeover_ended(c, is_lost ? SQLITE_OK : rc, sql);
  (void)sqlite3_finalize(statement);
  if (rc != SQLITE_ROW && (c->rc & 0xff) == SQLITE_BUSY && t->tries++ < 10) {
    t->is_unsure = 1;
    return;
  }
  /* The error may have told of the connection's loss while the ticket is
  ** still there, because it was begun in this process before another process
  ** owned the store. */
  if (rc != SQLITE_ROW && (c->rc & 0xff) == SQLITE_ABORT && !t->is_told) {
    t->is_unsure = t->is_told = 1;
    return;
  }
  if (!is_lost && (c->rc & 0xff) != SQLITE_BUSY && takeover_below(4) == 0)
    check_over(c, t, sql);
  t->number = 0;
  atomic_fetch_add(&takeover->tickets, 1);
  if (takeover->bound >= 0)
    (void)takeover_run(c, "SELECT emb_release('v')");
}

void takeover_batch(struct connection *c, enum event event) {
  struct ticket *t = &c->tickets[takeover_below(TICKETS)];
  if (t->number)
    synchronize(c, t);
  else if (event == PREFETCH)
    prefetch(c, t);
  else
    write_back(c, t);
}
