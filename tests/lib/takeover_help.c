/* SPDX-License-Identifier: MIT
**
** takeover_help.c -- notes, statements and checks: see takeover_help.h.
*/
#include "takeover_help.h"

#include <stdarg.h>
#include <sys/types.h>

struct takeover *takeover;

/* ---- settings ------------------------------------------------------------ */

static const char *const event_names[EVENTS] = {[LEAVE] = "leave",
                                                [KILL] = "kill",
                                                [STOP] = "stop",
                                                [FORK] = "fork",
                                                [CHILD] = "child",
                                                [EXEC] = "exec",
                                                [TOUCH] = "touch",
                                                [COPY] = "copy",
                                                [ROLLBACK] = "rollback",
                                                [TRIGGER] = "trigger",
                                                [CHECKPOINT] = "checkpoint",
                                                [VERIFY] = "verify",
                                                [BACKUP] = "backup",
                                                [READ] = "read",
                                                [SCAN] = "scan",
                                                [PUT] = "put",
                                                [PREFETCH] = "prefetch",
                                                [WRITE_BACK] = "write_back",
                                                [DIRECTORY] = "directory"};

int takeover_has(enum event event) {
  const char *list = getenv("TAKEOVER_EVENTS"), *name = event_names[event];
  size_t n = strlen(name);
  if (!list)
    return 1;
  for (const char *at = list; (at = strstr(at, name)) != NULL; at += n)
    if ((at == list || at[-1] == ',') && (at[n] == 0 || at[n] == ','))
      return 1;
  return 0;
}

const char *takeover_file(const char *dir) {
  static char path[600];
  (void)snprintf(path, sizeof path, "%s/app.db", dir);
  return path;
}

const char *takeover_share(const char *dir) {
  char path[600];
  (void)snprintf(path, sizeof path, "%s/shared", dir);
  takeover = process_memory(path, sizeof *takeover);
  return takeover ? dir : NULL;
}

int64_t takeover_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- failures and errors ------------------------------------------------- */

void takeover_fail(const struct connection *c, const char *format, ...) {
  char text[700];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  (void)test_check(0, __FILE__, __LINE__,
                   "round %d, member %d%s%s (pid %d): %s", takeover->round,
                   c->slot, c->is_copy ? ", copy" : "",
                   c->scan ? ", in a scan" : "", (int)getpid(), text);
  atomic_fetch_add(&takeover->failures, 1);
  atomic_store(&takeover->over, 1);
}

/* A connection whose owner has gone: the state it had there is unknown. */
static void note_loss(struct connection *c) {
  atomic_fetch_add(&takeover->told, 1);
  c->own = -1;
}

/* The errors that may come; more of them where the directory is changed. */
static int is_expected(int rc, const char *message) {
  static const struct {
    int code;
    const char *text;
    int needs_directory;
  } expected[] = {
      {SQLITE_BUSY, "", 0},
      {SQLITE_ABORT_ROLLBACK, "has died", 0},
      {SQLITE_ABORT_ROLLBACK, "has closed it", 0},
      {SQLITE_ABORT_ROLLBACK, "is gone, and everything open there was closed",
       0},
      {SQLITE_ABORT_ROLLBACK, "was lost with the process that owned", 0},
      {SQLITE_ABORT_ROLLBACK, "whether this call was executed", 0},
      {SQLITE_ABORT_ROLLBACK, "ended by a rollback", 0},
      {SQLITE_ABORT_ROLLBACK, "abort due to ROLLBACK", 0},
      {SQLITE_PROTOCOL, "locking protocol", 0}, /* SQLite's own, in WAL mode */
      {SQLITE_ABORT_ROLLBACK, "", 1},
      {SQLITE_CANTOPEN, "", 1},
      {SQLITE_CORRUPT, "", 1},
      {SQLITE_IOERR, "", 1},
      {SQLITE_READONLY, "", 1},
  };
  for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
    int code = expected[i].code > 0xff ? rc : rc & 0xff;
    if (code == expected[i].code && strstr(message, expected[i].text) &&
        (!expected[i].needs_directory || takeover->directory != STAYS))
      return 1;
  }
  return 0;
}

void takeover_begins(struct connection *c, const char *what) {
  struct takeover_place *place = &takeover->places[c->slot];
  (void)snprintf(place->doing, sizeof place->doing, "%s%s",
                 c->is_copy ? "copy: " : "", what);
  atomic_store(&place->since_ms, takeover_ms());
}

int takeover_ended(struct connection *c, int rc, const char *what) {
  atomic_store(&takeover->places[c->slot].since_ms, 0);
  c->rc = SQLITE_OK;
  if (rc == SQLITE_OK || rc == SQLITE_ROW || rc == SQLITE_DONE)
    return 1;
  c->rc = c->db ? sqlite3_extended_errcode(c->db) : rc;
  (void)snprintf(c->message, sizeof c->message, "%s",
                 c->db ? sqlite3_errmsg(c->db) : sqlite3_errstr(rc));
  if (!is_expected(c->rc, c->message))
    takeover_fail(c, "%s gave %d: %s", what, c->rc, c->message);
  if (c->rc == SQLITE_ABORT_ROLLBACK)
    note_loss(c);
  else
    atomic_fetch_add((c->rc & 0xff) == SQLITE_BUSY ? &takeover->busy
                                                   : &takeover->refused,
                     1);
  return 0;
}

/* ---- statements ---------------------------------------------------------- */

int takeover_run(struct connection *c, const char *sql) {
  takeover_begins(c, sql);
  return takeover_ended(c, sqlite3_exec(c->db, sql, NULL, NULL, NULL), sql);
}

int takeover_runs(struct connection *c, const char *format, ...) {
  char sql[400];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(sql, sizeof sql, format, args);
  va_end(args);
  return takeover_run(c, sql);
}

static int64_t count_in(const struct connection *c, sqlite3_stmt *statement,
                        int column) {
  switch (sqlite3_column_type(statement, column)) {
  case SQLITE_INTEGER:
    return sqlite3_column_int64(statement, column);
  case SQLITE_BLOB:
    return takeover_whole(c, sqlite3_column_blob(statement, column),
                          sqlite3_column_bytes(statement, column));
  default:
    return -1;
  }
}

int takeover_pair(struct connection *c, int64_t pair[2], const char *format,
                  ...) {
  char sql[400];
  sqlite3_stmt *statement = NULL;
  va_list args;
  va_start(args, format);
  (void)vsnprintf(sql, sizeof sql, format, args);
  va_end(args);
  pair[0] = pair[1] = -1;
  takeover_begins(c, sql);
  int rc = sqlite3_prepare_v2(c->db, sql, -1, &statement, NULL);
  rc = rc ? rc : sqlite3_step(statement);
  if (rc == SQLITE_ROW) {
    for (int i = 0; i < 2 && i < sqlite3_column_count(statement); i++)
      pair[i] = count_in(c, statement, i);
    rc = sqlite3_step(statement);
  }
  int done = takeover_ended(c, rc, sql);
  (void)sqlite3_finalize(statement);
  return done;
}

/* ---- connections --------------------------------------------------------- */

/* takeover_commit(key, n, vector): the trigger has added to both. */
static void trigger_commits(sqlite3_context *context, int argc,
                            sqlite3_value **argv) {
  struct connection *c = sqlite3_user_data(context);
  (void)argc;
  c->key = (unsigned)sqlite3_value_int(argv[0]);
  c->count = (uint64_t)sqlite3_value_int64(argv[1]);
  int bytes = sqlite3_value_bytes(argv[2]);
  int64_t vector = takeover_whole(c, sqlite3_value_blob(argv[2]), bytes);
  if (vector != (int64_t)c->count)
    takeover_fail(c, "in a trigger key %u has %" PRIu64 " and vector %" PRId64,
                  c->key, c->count, vector);
  takeover_begin_commit(c->key, c->count);
}

static int load_copy(struct connection *c, const char *dir) {
  char path[600], *message = NULL;
  (void)snprintf(path, sizeof path, "%s/copy.so", dir);
  int rc = sqlite3_enable_load_extension(c->db, 1);
  rc = rc ? rc
          : sqlite3_load_extension(c->db, path, "sqlite3_emb_init", &message);
  if (rc && message && strstr(message, "locked"))
    rc = SQLITE_BUSY; /* SQLite makes any error SQLITE_ERROR */
  else if (rc)
    takeover_fail(c, "%s: %s", path, message ? message : "cannot be loaded");
  sqlite3_free(message);
  return rc;
}

void takeover_connect(struct connection *c, const char *dir, int slot,
                      int is_copy) {
  struct connection old = *c;
  *c = (struct connection){.slot = slot, .is_copy = is_copy, .own = -1};
  memcpy(c->seen, old.seen, sizeof c->seen);
  c->own_key = OWN_AT + atomic_fetch_add(&takeover->serial, 1);
  takeover_begins(c, "open");
  int rc = sqlite3_open(takeover_file(dir), &c->db);
  (void)sqlite3_extended_result_codes(c->db, 1);
  (void)sqlite3_busy_timeout(c->db, 1000);
  /* The library reads the schema while another process may be committing. */
  for (int i = 0; !rc || (rc & 0xff) == SQLITE_BUSY; i++) {
    rc = is_copy ? load_copy(c, dir) : sqlite3_emb_init(c->db, NULL, NULL);
    if ((rc & 0xff) != SQLITE_BUSY || i == 20)
      break;
  }
  rc = rc ? rc
          : sqlite3_create_function(c->db, "takeover_commit", 3, SQLITE_UTF8, c,
                                    trigger_commits, NULL, NULL);
  if (!takeover_ended(c, rc, "open") && takeover->directory == STAYS)
    takeover_fail(c, "a connection gave %d: %s", c->rc, c->message);
  (void)takeover_run(c, takeover->is_synced ? "PRAGMA synchronous = FULL"
                                            : "PRAGMA synchronous = OFF");
}

void takeover_leave(struct connection *c) {
  (void)sqlite3_finalize(c->scan);
  c->scan = NULL;
  takeover_begins(c, "close");
  int rc = sqlite3_close(c->db);
  atomic_store(&takeover->places[c->slot].since_ms, 0);
  if (rc != SQLITE_OK)
    takeover_fail(c, "close gave %d", rc);
  c->db = NULL;
}

/* ---- notes --------------------------------------------------------------- */

int64_t takeover_whole(const struct connection *c, const void *vector,
                       int bytes) {
  float x[DIM];
  if (bytes != (int)sizeof x) {
    takeover_fail(c, "a vector of %d bytes", bytes);
    return -1;
  }
  memcpy(x, vector, sizeof x);
  int64_t n = x[0] >= 0 && x[0] < 1e9f ? (int64_t)x[0] : -1;
  for (int i = 0; i < DIM; i++)
    if (n < 0 || x[i] != (float)n) {
      takeover_fail(c, "a vector is [%g,%g,%g,%g]", (double)x[0], (double)x[1],
                    (double)x[2], (double)x[3]);
      return -1;
    }
  return n;
}

static void raise_to(_Atomic uint64_t *at, uint64_t n) {
  uint64_t old = atomic_load(at);
  while (old < n && !atomic_compare_exchange_weak(at, &old, n))
    ;
}

void takeover_begin_commit(unsigned key, uint64_t n) {
  raise_to(&takeover->begun[key], n);
}

void takeover_commit_done(unsigned key, uint64_t n, int phase) {
  raise_to(&takeover->done[key], n);
  if (phase == AFTER)
    raise_to(&takeover->after[key], n);
  atomic_fetch_add(&takeover->commits, 1);
}

uint64_t takeover_least(const struct connection *c, unsigned key) {
  uint64_t done = atomic_load(&takeover->done[key]);
  return done > c->seen[key] ? done : c->seen[key];
}

void takeover_check(struct connection *c, unsigned key, int64_t value,
                    uint64_t least, const char *how) {
  uint64_t most = atomic_load(&takeover->begun[key]);
  if (takeover->directory == REPLACED)
    return; /* an older copy has older values */
  if (value < (int64_t)least || value > (int64_t)most)
    takeover_fail(c,
                  "%s of key %u gave %" PRId64
                  ", acknowledged or seen before %" PRIu64 ", begun %" PRIu64,
                  how, key, value, least, most);
  else if (c->seen[key] < (uint64_t)value)
    c->seen[key] = (uint64_t)value;
}

/* ---- hanging ------------------------------------------------------------- */

static void show_stacks(pid_t pid) {
  char command[200];
  (void)snprintf(command, sizeof command,
                 "timeout 30 gdb -p %d -batch -ex 'thread apply all bt 12' "
                 "2>/dev/null | grep -E '^(Thread|#)' || "
                 "head /proc/%d/task/*/wchan",
                 (int)pid, (int)pid);
  (void)!system(command);
}

int takeover_watch(const struct process *members, int n) {
  int64_t now = takeover_ms();
  for (int i = 0; i < n; i++) {
    int64_t since = atomic_load(&takeover->places[i].since_ms);
    if (members[i].pid == 0 || since == 0 || now - since < HANG_MS)
      continue;
    (void)test_check(0, __FILE__, __LINE__,
                     "round %d, member %d (pid %d) is in \"%s\" for %d ms",
                     takeover->round, i, (int)members[i].pid,
                     takeover->places[i].doing, (int)(now - since));
    show_stacks(members[i].pid);
    atomic_store(&takeover->over, 1);
    return 0;
  }
  return 1;
}
