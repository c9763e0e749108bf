/* SPDX-License-Identifier: MIT
**
** power_sql.c -- SQL rows and vectors of one transaction, when the power goes
** or the process is killed.
**
** Every change of a vector comes with the same change of the ordinary table
** `rows`, and transaction n with the row n of `log`.  So what a crash left is
** good if
**   - log goes at least to the last COMMIT that returned, at most to the last
**     one that was called;
**   - rows is what it was after that transaction when nothing crashed;
**   - each emb table that the schema names holds what rows says of it.
** Then it is written to once more, after which no table is in doubt, each
** passes its integrity check, and each directory belongs to a table.
**
** POWER     on tests/lib/disk.h, where SQLite and the engine write to the same
**           disk: a crash at every event, as in tests/unit/power.c.
** KILL      with real files: a child kills itself at every call of the engine
**           or SQLite that changes a file.
**
** SEED repeats a run.  LONG=n records n times as many pieces of work.
*/
#include "../store_help.h"

#include "../../../engine/store/registry.h"
#include "../../lib/disk.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { TXNS = 40, KEYS = 30, NOTES = 400, SQL_MAX = 1000 };

int sqlite3_emb_init(sqlite3 *, char **, const void *);

/* ---- what ext/ asks of the file system itself ------------------------------
**
** These take the place of the C library's in this program: paths below /disk
** are on the simulated disk. */

static struct disk *mounted;

static int is_mounted(const char *path) {
  return mounted && strncmp(path, "/disk/", 6) == 0;
}

static int to_errno(int rc) {
  errno = rc;
  return rc ? -1 : 0;
}

int lstat(const char *path, struct stat *st) {
  uint32_t file;
  return is_mounted(path) ? to_errno(disk_find(mounted, path, &file))
                          : fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

int access(const char *path, int mode) {
  uint32_t file;
  return is_mounted(path) ? to_errno(disk_find(mounted, path, &file))
                          : faccessat(AT_FDCWD, path, mode, 0);
}

int mkdir(const char *path, mode_t mode) {
  return is_mounted(path) ? to_errno(disk_make_dir(mounted, path))
                          : mkdirat(AT_FDCWD, path, mode);
}

int rmdir(const char *path) {
  return is_mounted(path) ? to_errno(disk_remove_dir(mounted, path))
                          : unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

/* Descriptors of directories of the disk. */
enum { FD_BASE = 1 << 24 };

int open(const char *path, int flags, ...) {
  uint32_t file;
  va_list args;
  va_start(args, flags);
  mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
  va_end(args);
  if (!is_mounted(path))
    return openat(AT_FDCWD, path, flags, mode);
  if (to_errno(disk_find(mounted, path, &file)) != 0)
    return -1;
  return FD_BASE + (int)file;
}

int fsync(int fd) {
  if (fd < FD_BASE)
    return (int)syscall(SYS_fsync, fd);
  disk_sync(mounted, (uint32_t)(fd - FD_BASE));
  return 0;
}

int close(int fd) { return fd < FD_BASE ? (int)syscall(SYS_close, fd) : 0; }

static struct listing { /* the DIR of a directory of the disk */
  struct dirent entries[16];
  size_t count, at;
} listing;

static void *next_of(const char *name) { return dlsym(RTLD_NEXT, name); }

static void list_one(void *arg, const char *name) {
  struct listing *to = arg;
  if (to->count < 16)
    (void)snprintf(to->entries[to->count++].d_name, 256, "%s", name);
}

DIR *opendir(const char *path) {
  if (!is_mounted(path))
    return ((DIR * (*)(const char *)) next_of("opendir"))(path);
  listing.count = listing.at = 0;
  if (to_errno(disk_list(mounted, path, list_one, &listing)) != 0)
    return NULL;
  return (DIR *)(void *)&listing;
}

struct dirent *readdir(DIR *dir) {
  if ((void *)dir != &listing)
    return ((struct dirent * (*)(DIR *)) next_of("readdir"))(dir);
  return listing.at < listing.count ? &listing.entries[listing.at++] : NULL;
}

int closedir(DIR *dir) {
  return (void *)dir == &listing ? 0
                                 : ((int (*)(DIR *))next_of("closedir"))(dir);
}

/* ---- SQL ----------------------------------------------------------------- */

struct mode { /* how SQLite is set */
  const char *journal, *synchronous;
  /* The last COMMIT that was acknowledged may be undone if it was of ordinary
  ** tables alone: in mode DELETE with FULL, SQLite leaves it to the file system
  ** when the removal of its journal is durable. */
  int may_undo;
};

static struct {
  const struct mode *mode;
  size_t events;
  enum disk_loss loss;
  struct disk *disk; /* that recorded */
} moment;

static const char *when(void) {
  static char text[300];
  char event[200] = "";
  if (moment.disk && moment.events)
    disk_describe(moment.disk, moment.events - 1, event, sizeof event);
  (void)snprintf(text, sizeof text, "%s %s, loss %d, after %s",
                 moment.mode->journal, moment.mode->synchronous,
                 (int)moment.loss, event);
  return text;
}

#define HOLDS(expr, ...) holds((expr) ? 1 : 0, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 3, 4))) static int
holds(int it_does, int line, const char *format, ...) {
  char text[400];
  va_list args;
  if (it_does)
    return 1;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return test_check(0, __FILE__, line, "%s; %s", text, when());
}

static int run(sqlite3 *db, const char *format, ...) {
  va_list args;
  char *err = NULL;
  va_start(args, format);
  char *sql = sqlite3_vmprintf(format, args);
  va_end(args);
  int rc = sqlite3_exec(db, sql, NULL, NULL, &err);
  int good = HOLDS(rc == SQLITE_OK, "%.150s: %s", sql, err);
  sqlite3_free(sql);
  sqlite3_free(err);
  return good;
}

/* The first column of all rows, with a space after each; free it. */
static char *ask(sqlite3 *db, const char *format, ...) {
  sqlite3_stmt *statement = NULL;
  sqlite3_str *out = sqlite3_str_new(NULL);
  va_list args;
  va_start(args, format);
  char *sql = sqlite3_vmprintf(format, args);
  va_end(args);
  int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  while (rc == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
    sqlite3_str_appendf(out, "%s ", sqlite3_column_text(statement, 0));
  rc = sqlite3_finalize(statement);
  (void)HOLDS(rc == SQLITE_OK, "%.150s: %s", sql, sqlite3_errmsg(db));
  sqlite3_free(sql);
  char *text = sqlite3_str_finish(out);
  return text ? text : sqlite3_mprintf("");
}

static int ask_number(sqlite3 *db, const char *sql) {
  char *text = ask(db, "%s", sql);
  int n = atoi(text);
  sqlite3_free(text);
  return n;
}

static sqlite3 *open_db(const char *path, const char *vfs) {
  sqlite3 *db = NULL;
  int rc = sqlite3_open_v2(path, &db,
                           SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs);
  if (!HOLDS(rc == SQLITE_OK, "open: %s", sqlite3_errmsg(db)) ||
      !CHECK_EQ_INT(sqlite3_emb_init(db, NULL, NULL), SQLITE_OK)) {
    sqlite3_close(db);
    return NULL;
  }
  (void)run(db, "PRAGMA synchronous = %s; PRAGMA journal_mode = %s",
            moment.mode->synchronous, moment.mode->journal);
  return db;
}

/* A value of rows as its vector. */
#define VECTOR "printf('[%%d,%%d,7,%%d]', value, value + 1, key)"

static char *dump_rows(sqlite3 *db, const char *table) {
  return ask(db,
             "SELECT key || ':' || " VECTOR
             " FROM rows WHERE tbl = %Q ORDER BY key",
             table);
}

/* Each emb table against rows. */
static void compare(sqlite3 *db) {
  char *names = ask(db, "SELECT name FROM sqlite_schema "
                        "WHERE sql LIKE '%% USING emb(%%' ORDER BY name");
  for (char *name = strtok(names, " "); name; name = strtok(NULL, " ")) {
    char *rows = dump_rows(db, name);
    char *vectors = ask(db,
                        "SELECT key || ':' || emb_to_json(vector) FROM %s "
                        "ORDER BY key",
                        name);
    (void)HOLDS(strcmp(rows, vectors) == 0, "%s has %.60s, rows %.60s", name,
                vectors, rows);
    sqlite3_free(rows);
    sqlite3_free(vectors);
  }
  sqlite3_free(names);
}

/* ---- the work ------------------------------------------------------------ */

struct work {
  uint64_t random;
  const char *path, *vfs;
  int txns;
  void (*begun)(int n); /* told before a COMMIT is called, */
  void (*acked)(int n); /* and after it returned */
  char **dumps;         /* NULL, or where the state after each goes */
};

static int roll(struct work *w, int n) {
  return (int)(test_random_from(&w->random) % (uint64_t)n);
}

static void change(struct work *w, sqlite3 *db, int value) {
  const char *table = "a\0b\0c" + 2 * roll(w, 3);
  int lo = roll(w, KEYS), hi = lo + roll(w, 4) * roll(w, 4);
  char sql[100];
  (void)snprintf(sql, sizeof sql,
                 "SELECT count(*) FROM sqlite_schema WHERE name = '%s'", table);
  if (ask_number(db, sql) == 0)
    return;
  if (roll(w, 4) == 0) {
    (void)run(db, "DELETE FROM rows WHERE tbl = %Q AND key BETWEEN %d AND %d",
              table, lo, hi);
    (void)run(db, "DELETE FROM %s WHERE key BETWEEN %d AND %d", table, lo, hi);
    return;
  }
  (void)run(db,
            "WITH RECURSIVE r(k) AS (VALUES(%d) UNION ALL "
            "SELECT k + 1 FROM r WHERE k < %d) "
            "INSERT OR REPLACE INTO rows SELECT %Q, k, %d FROM r",
            lo, hi, table, value);
  (void)run(db,
            "INSERT OR REPLACE INTO %s(key, vector) SELECT key, " VECTOR
            " FROM rows WHERE tbl = %Q AND key BETWEEN %d AND %d",
            table, table, lo, hi);
}

/* Table c comes and goes. */
static void change_schema(sqlite3 *db) {
  if (ask_number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'c'")) {
    (void)run(db, "DELETE FROM rows WHERE tbl = 'c'");
    (void)run(db, "DROP TABLE c");
  } else {
    (void)run(db, "CREATE VIRTUAL TABLE c USING emb(vector FLOAT[4], "
                  "memory='4MB')");
  }
}

static void change_some(struct work *w, sqlite3 *db, int n) {
  int level = 0;
  for (int i = 1 + roll(w, 6); i > 0; i--)
    switch (roll(w, 8)) {
    case 0:
      (void)run(db, "SAVEPOINT s%d", ++level);
      break;
    case 1:
      if (level)
        (void)run(db, "ROLLBACK TO s%d", level);
      break;
    case 2:
      if (level)
        (void)run(db, "RELEASE s%d", level--);
      break;
    default:
      change(w, db, n * 100 + i);
    }
}

/* The first two transactions make the tables. */
static void make_tables(sqlite3 *db, int n) {
  if (n == 1)
    (void)run(db, "CREATE TABLE rows(tbl, key, value, PRIMARY KEY(tbl, key));"
                  "CREATE TABLE log(n INTEGER PRIMARY KEY)");
  else
    (void)run(db, "CREATE VIRTUAL TABLE a USING emb(vector FLOAT[4], "
                  "memory='4MB');"
                  "CREATE VIRTUAL TABLE b USING emb(vector FLOAT16[4], "
                  "memory='4MB')");
}

static void transaction(struct work *w, sqlite3 *db, int n) {
  (void)run(db, roll(w, 2) ? "BEGIN" : "BEGIN IMMEDIATE");
  if (n <= 2)
    make_tables(db, n);
  else if (roll(w, 4) == 0)
    change_schema(db);
  if (n > 1 && roll(w, 8))
    change_some(w, db, n);
  if (n > 2 && roll(w, 6) == 0) {
    (void)run(db, "ROLLBACK");
    return;
  }
  (void)run(db, "INSERT INTO log VALUES(%d)", n);
  w->begun(n);
  (void)run(db, "COMMIT");
  w->acked(n);
}

static void between(struct work *w, sqlite3 **db, int n) {
  int what = roll(w, 12);
  if (n < 2 || what > 5)
    return;
  if (what <= 1)
    (void)run(*db, "INSERT INTO %s(%s) VALUES('%s')", what ? "a" : "b",
              what ? "a" : "b", roll(w, 3) ? "checkpoint" : "optimize");
  else if (what == 2)
    (void)run(*db, "PRAGMA wal_checkpoint(%s)",
              roll(w, 2) ? "PASSIVE" : "TRUNCATE");
  else if (what == 3 && CHECK_EQ_INT(sqlite3_close(*db), SQLITE_OK)) /* clean */
    *db = open_db(w->path, w->vfs);
}

static void do_work(struct work *w) {
  sqlite3 *db = open_db(w->path, w->vfs);
  if (db == NULL)
    return;
  for (int n = 1; n <= w->txns && db; n++) {
    uint64_t before = w->random;
    transaction(w, db, n);
    if (ask_number(db, "SELECT max(n) FROM log") != n) {
      n--; /* it was rolled back: its number is the next one's */
      w->random += before == w->random;
    } else if (w->dumps) {
      w->dumps[n] = ask(db, "SELECT tbl || key || ':' || value FROM rows "
                            "ORDER BY tbl, key");
      compare(db);
    }
    between(w, &db, n);
    if (atomic_load(&test_state.failures))
      break;
  }
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

/* ---- the check ----------------------------------------------------------- */

static char *dumps[TXNS + 1];

static void free_dumps(void) {
  for (int n = 0; n <= TXNS; n++) {
    sqlite3_free(dumps[n]);
    dumps[n] = NULL;
  }
}

/* How far it came; every table is as it was then. */
static int check_state(sqlite3 *db, int acked, int begun) {
  int n = 0;
  if (ask_number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'log'"))
    n = ask_number(db, "SELECT max(n) FROM log");
  if (!HOLDS(n >= acked && n <= begun,
             "it came to transaction %d, %d was acknowledged, %d was begun", n,
             acked, begun) ||
      n == 0)
    return n;
  char *rows =
      ask(db, "SELECT tbl || key || ':' || value FROM rows ORDER BY tbl, key");
  (void)HOLDS(strcmp(rows, dumps[n]) == 0, "rows of %d: %.60s", n, rows);
  sqlite3_free(rows);
  compare(db);
  return n;
}

/* It takes transactions again, and nothing is left over. */
static void go_on(sqlite3 *db, int n) {
  if (n < 2)
    return;
  char *names = ask(db, "SELECT name FROM emb_tables ORDER BY name");
  (void)run(db, "BEGIN IMMEDIATE");
  for (const char *name = names; *name; name += 2) {
    (void)run(db, "INSERT OR REPLACE INTO rows VALUES('%c', 5, 77)", *name);
    (void)run(db,
              "INSERT OR REPLACE INTO %c(key, vector) SELECT key, " VECTOR
              " FROM rows WHERE tbl = '%c' AND key = 5",
              *name, *name);
  }
  (void)run(db, "COMMIT");
  compare(db);
  for (const char *name = names; *name; name += 2)
    (void)run(db, "INSERT INTO %c(%c) VALUES('integrity-check')", *name, *name);
  char *states = ask(db, "SELECT name || state FROM emb_tables "
                         "WHERE state <> 'ok'");
  (void)HOLDS(states[0] == 0, "states: %s", states);
  sqlite3_free(states);
  sqlite3_free(names);
  sqlite3_free(ask(db, "SELECT emb_gc()"));
}

/* *n: how far it came; *events: of the disk when that had been read. */
static void examine(const char *path, const char *vfs, int acked, int begun,
                    int *n, struct disk *disk, size_t *events) {
  sqlite3 *db = open_db(path, vfs);
  if (db == NULL)
    return;
  char *good = ask(db, "PRAGMA integrity_check");
  (void)HOLDS(strcmp(good, "ok ") == 0, "integrity_check: %.100s", good);
  sqlite3_free(good);
  *n = check_state(db, acked, begun);
  if (disk)
    *events = disk_events(disk);
  go_on(db, *n);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

/* ---- power --------------------------------------------------------------- */

static struct {
  size_t events;
  int begun, acked;
} notes[NOTES];
static size_t note_count;

static void add_note(int begun, int acked) {
  if (!CHECK(note_count < NOTES))
    return;
  notes[note_count].events = disk_events(mounted);
  notes[note_count].begun = begun;
  notes[note_count++].acked = acked;
}

static void note_begun(int n) { add_note(n, n - 1); }

static void note_acked(int n) { add_note(n, n); }

static void mount(struct disk *disk) {
  mounted = disk;
  disk_vfs_use(disk);
  registry_set_env(disk ? disk_env(disk) : &env_posix);
}

static struct disk *record(uint64_t random, int txns) {
  struct work w = {random,     "/disk/app.db", "disk", txns,
                   note_begun, note_acked,     dumps};
  struct disk *disk = disk_new(test_random());
  CHECK_EQ_INT(disk_make_dir(disk, "/disk"), 0);
  mount(disk);
  disk_record(disk);
  note_count = 0;
  add_note(0, 0);
  do_work(&w);
  return disk;
}

struct count {
  size_t events, states, again;
};

/* One disk that the crash may have left; some lose power again. */
static void try_loss(const struct disk *player, enum disk_loss loss, int acked,
                     int begun, struct count *count) {
  struct disk *after = disk_crash(player, loss, test_random());
  int n = 0, again = 0;
  size_t events = 0, ignored;
  moment.loss = loss;
  disk_record(after);
  mount(after);
  examine("/disk/app.db", "disk", acked, begun, &n, after, &events);
  count->states++;
  if (!atomic_load(&test_state.failures) && test_random() % 8 == 0) {
    struct disk *second = disk_player(after);
    disk_play(second, after, test_random() % (events + 1));
    struct disk *twice = disk_crash(
        second, (enum disk_loss)(test_random() % DISK_LOSSES), test_random());
    mount(twice);
    examine("/disk/app.db", "disk", n, n, &again, NULL, &ignored);
    count->states++;
    count->again++;
    disk_free(second);
    disk_free(twice);
  }
  mount(moment.disk);
  disk_free(after);
}

static void crash_everywhere(const struct mode *mode, struct count *count) {
  moment.mode = mode;
  moment.events = 0;
  moment.disk = record(test_random(), 10);
  struct disk *player = disk_player(moment.disk);
  size_t at = 0, events = disk_events(moment.disk);
  for (size_t e = 0; e <= events && !atomic_load(&test_state.failures); e++) {
    moment.events = e;
    disk_play(player, moment.disk, e);
    while (at + 1 < note_count && notes[at + 1].events <= e)
      at++;
    int begun = notes[at].begun;
    int acked = notes[at].acked - (mode->may_undo && notes[at].acked > 0);
    if (disk_unsynced(player) == 0) {
      try_loss(player, DISK_KEEP, acked, begun, count);
      continue;
    }
    for (int loss = 0; loss < DISK_LOSSES; loss++)
      if (loss != (int)(DISK_PREFIX + e % 3))
        try_loss(player, (enum disk_loss)loss, acked, begun, count);
  }
  count->events += events;
  disk_free(player);
  disk_free(moment.disk);
  moment.disk = NULL;
  mount(NULL);
  free_dumps();
}

TEST(power_loss) {
  static const struct mode modes[] = {{"DELETE", "EXTRA", 0},
                                      {"WAL", "FULL", 0},
                                      {"DELETE", "FULL", 1},
                                      {"TRUNCATE", "FULL", 0},
                                      {"PERSIST", "FULL", 0}};
  struct count count = {0, 0, 0};
  sqlite3_vfs_register(disk_vfs(), 0);
  for (unsigned i = 0; i < 5 * help_long(); i++) {
    sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, 1 + (int)i, NULL);
    crash_everywhere(&modes[i % 5], &count);
    if (atomic_load(&test_state.failures))
      break;
  }
  printf("%zu events, %zu states, of which %zu of a recovery that was cut "
         "off\n",
         count.events, count.states, count.again);
}

/* ---- kill ---------------------------------------------------------------- */

enum { CALLS = 4000 };

static struct shared { /* with the child */
  int begun, acked, calls;
  uint8_t in_commit[CALLS]; /* by call */
} * shared;

static int kill_at; /* this call; 0: none */

/* Before every call that changes a file. */
static void strike(void) {
  int call = ++shared->calls;
  if (call < CALLS)
    shared->in_commit[call] = shared->begun != shared->acked;
  if (call == kill_at)
    (void)raise(SIGKILL);
}

static void kill_begun(int n) { shared->begun = n; }
static void kill_acked(int n) { shared->acked = n; }

static int kill_open(struct env *env, const char *path, int flags,
                     struct env_file **file) {
  strike();
  return env_posix.open(env, path, flags, file);
}
static int kill_write(struct env *env, struct env_file *file, const void *from,
                      size_t bytes, uint64_t offset) {
  strike();
  return env_posix.write(env, file, from, bytes, offset);
}
static int kill_sync(struct env *env, struct env_file *file) {
  strike();
  return env_posix.sync(env, file);
}
static int kill_truncate(struct env *env, struct env_file *file,
                         uint64_t bytes) {
  strike();
  return env_posix.truncate(env, file, bytes);
}
static int kill_unlink(struct env *env, const char *path) {
  strike();
  return env_posix.unlink(env, path);
}
static int kill_rename(struct env *env, const char *from, const char *to) {
  strike();
  return env_posix.rename(env, from, to);
}
static int kill_make_dir(struct env *env, const char *path) {
  strike();
  return env_posix.make_dir(env, path);
}
static int kill_remove_dir(struct env *env, const char *path) {
  strike();
  return env_posix.remove_dir(env, path);
}
static int kill_submit(struct env *env, struct env_queue *queue,
                       struct env_io **ios, size_t n) {
  strike();
  return env_posix.queue_submit(env, queue, ios, n);
}
/* The calls are the same in every run: no thread makes some of its own. */
static int kill_thread(struct env *env, void (*body)(void *), void *arg,
                       void **thread) {
  (void)env, (void)body, (void)arg;
  *thread = shared;
  return 0;
}
static void kill_join(struct env *env, void *thread) {
  (void)env, (void)thread;
}

static ssize_t kill_pwrite(int fd, const void *from, size_t bytes, off_t at) {
  strike();
  return pwrite(fd, from, bytes, at);
}
static int kill_ftruncate(int fd, off_t bytes) {
  strike();
  return ftruncate(fd, bytes);
}
static int kill_unlink_path(const char *path) {
  strike();
  return unlink(path);
}

/* What SQLite's VFS calls, by the name it has there. */
static void take_call(const char *name, sqlite3_syscall_ptr call) {
  sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
  if (vfs->xGetSystemCall(vfs, name))
    (void)vfs->xSetSystemCall(vfs, name, call);
}

static void work_and_die(const char *path, uint64_t random, int txns) {
  static struct env env;
  struct work w = {random, path, NULL, txns, kill_begun, kill_acked, NULL};
  env = env_posix;
  env.open = kill_open;
  env.write = kill_write;
  env.sync = kill_sync;
  env.truncate = kill_truncate;
  env.unlink = kill_unlink;
  env.rename = kill_rename;
  env.make_dir = kill_make_dir;
  env.remove_dir = kill_remove_dir;
  env.queue_submit = kill_submit;
  env.thread_start = kill_thread;
  env.thread_join = kill_join;
  registry_set_env(&env);
  take_call("pwrite", (sqlite3_syscall_ptr)kill_pwrite);
  take_call("pwrite64", (sqlite3_syscall_ptr)kill_pwrite);
  take_call("ftruncate", (sqlite3_syscall_ptr)kill_ftruncate);
  take_call("unlink", (sqlite3_syscall_ptr)kill_unlink_path);
  do_work(&w);
}

/* 0 good, 1 failed, -1 killed. */
static int run_child(const char *path, uint64_t random, int txns) {
  int status = 0, n;
  size_t ignored;
  pid_t child = fork();
  if (child == 0) {
    if (txns)
      work_and_die(path, random, txns);
    else
      examine(path, NULL, shared->acked, shared->begun, &n, NULL, &ignored);
    _exit(atomic_load(&test_state.failures) ? 1 : 0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
    return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int kill_everywhere(const struct mode *mode, int txns) {
  static struct shared all;
  uint64_t random = test_random();
  int kills = 0;
  moment.mode = mode;
  disk_free(record(random, txns)); /* for the dumps */
  mount(NULL);
  for (int call = 0; call == 0 || call <= all.calls; call++) {
    char path[400];
    if (call && !all.in_commit[call] && (unsigned)call % 5 >= help_long())
      continue;
    (void)snprintf(path, sizeof path, "%s/%s-%d", test_dir(), mode->journal,
                   call);
    CHECK_EQ_INT(mkdir(path, 0755), 0);
    (void)strcat(path, "/app.db");
    memset(shared, 0, sizeof *shared);
    kill_at = call;
    int status = run_child(path, random, txns);
    if (call == 0) {
      all = *shared;
      if (!CHECK_EQ_INT(status, 0) || !CHECK(all.calls < CALLS))
        break;
    } else if (!CHECK_EQ_INT(status, -1)) {
      break;
    }
    status = run_child(path, 0, 0);
    if (!test_check(status == 0, __FILE__, __LINE__, "%s, killed at call %d",
                    mode->journal, call))
      break;
    kills += call > 0;
  }
  free_dumps();
  return kills;
}

TEST(killed_at_every_call) {
  static const struct mode modes[] = {{"DELETE", "FULL", 0},
                                      {"WAL", "FULL", 0}};
  int kills = 0;
  if (!test_dir())
    return;
  sqlite3_vfs_register(disk_vfs(), 0);
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (!CHECK(shared != MAP_FAILED))
    return;
  for (int i = 0; i < 2 && !atomic_load(&test_state.failures); i++)
    kills += kill_everywhere(&modes[i], 6);
  printf("%d kills\n", kills);
  munmap(shared, sizeof *shared);
}
