/* SPDX-License-Identifier: MIT
**
** power_sql.c -- SQL rows and vectors of one transaction, when the power
** fails.
**
** SQLite and the engine write to the same disk (tests/lib/disk.h), whose events
** are in one order.  The work of sql_work.h is recorded there, and the power
** fails after each event, as in tests/fault/power.c.
**
** A second piece of work changes two database files in each transaction.
**
** SEED repeats a run.  LONG=n records n times as many pieces of work.
*/
#include "sql_work.h"

#include "engine/table/owner/registry.h"
#include "disk.h"
#include "hash_set.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>

enum { NOTES = 400 };

/* ---- file system calls of ext/ itself ---------------------------------------
**
** These functions replace the C library's in this program: paths below /disk
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
  env_set_default(disk ? disk_env(disk) : &env_posix);
}

static size_t events_read; /* of the examined disk, until it was read */

static void was_read(void) { events_read = disk_events(mounted); }

/* The work to record, and the examination of a disk that a crash left: it
** returns the last transaction found; -1 if the files differ in it. */
struct play {
  void (*work)(void);
  int (*examine)(int acked, int begun);
};

static void work_in_one(void) {
  struct work w = {test_random(), "/disk/app.db", "disk", 10,
                   note_begun,    note_acked};
  work_do(&w);
}

static int examine_one(int acked, int begun) {
  return work_examine("/disk/app.db", "disk", acked, begun, NULL, was_read);
}

static const struct play play_one = {work_in_one, examine_one};

static struct disk *record(const struct play *play) {
  struct disk *disk = disk_new(test_random());
  CHECK_EQ_INT(disk_make_dir(disk, "/disk"), 0);
  mount(disk);
  disk_record(disk);
  note_count = 0;
  add_note(0, 0);
  play->work();
  return disk;
}

struct count {
  size_t events, states, again, same;
  struct hash_set seen; /* disks and what must be on them */
};

static int examine_disk(const struct play *play, struct disk *disk, int acked,
                        int begun) {
  mount(disk);
  return play->examine(acked, begun);
}

/* One disk that the crash may have left; some lose power again. */
static void try_loss(const struct play *play, const struct disk *player,
                     enum disk_loss loss, int acked, int begun,
                     struct count *count) {
  struct disk *after = disk_crash(player, loss, test_random());
  uint64_t words[3] = {disk_sum(after), (uint64_t)acked, (uint64_t)begun};
  if (!hash_set_add(&count->seen,
                    hash_sum((const char *)words, sizeof words, 0, 0))) {
    count->same++;
    disk_free(after);
    return;
  }
  disk_record(after);
  int n = examine_disk(play, after, acked, begun);
  count->states++;
  if (!atomic_load(&test_state.failures) && test_random() % 8 == 0) {
    struct disk *second = disk_player(after);
    disk_play(second, after, test_random() % (events_read + 1));
    loss = (enum disk_loss)(test_random() % DISK_LOSSES);
    struct disk *twice = disk_crash(second, loss, test_random());
    (void)examine_disk(play, twice, n < 0 ? acked : n, n < 0 ? begun : n);
    count->states++;
    count->again++;
    disk_free(second);
    disk_free(twice);
  }
  disk_free(after);
}

/* The crash after this many events of the recording. */
static void crash(const struct play *play, const struct disk *player,
                  const struct disk *recording, size_t events, int acked,
                  int begun, struct count *count) {
  char event[200] = "";
  if (events)
    disk_describe(recording, events - 1, event, sizeof event);
  for (int loss = 0; loss < DISK_LOSSES; loss++) {
    if (loss == (int)(DISK_PREFIX + events % 3))
      continue;
    (void)snprintf(work_moment, sizeof work_moment, "loss %d after %s", loss,
                   event);
    try_loss(play, player, (enum disk_loss)loss, acked, begun, count);
    if (disk_unsynced(player) == 0)
      break;
  }
}

static void crash_everywhere(const struct play *play, const struct mode *mode,
                             struct count *count) {
  work_mode = mode;
  hash_set_free(&count->seen);
  struct disk *recording = record(play), *player = disk_player(recording);
  size_t at = 0, events = disk_events(recording);
  for (size_t e = 0; e <= events && !atomic_load(&test_state.failures); e++) {
    disk_play(player, recording, e);
    while (at + 1 < note_count && notes[at + 1].events <= e)
      at++;
    int acked = notes[at].acked - (mode->may_undo && notes[at].acked > 0);
    if ((e + test_state.seed) % help_share() == 0)
      crash(play, player, recording, e, acked, notes[at].begun, count);
  }
  count->events += events;
  mount(NULL);
  disk_free(player);
  disk_free(recording);
  work_forget();
}

static void crash_in_all_modes(const struct play *play) {
  static const struct mode modes[] = {{"DELETE", "EXTRA", 0},
                                      {"WAL", "FULL", 0},
                                      {"DELETE", "FULL", 1},
                                      {"TRUNCATE", "FULL", 0},
                                      {"PERSIST", "FULL", 0}};
  struct count count = {0};
  sqlite3_vfs_register(disk_vfs(), 0);
  for (unsigned i = 0; i < 5 * help_long(); i++) {
    sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, 1 + (int)i, NULL);
    crash_everywhere(play, &modes[i % 5], &count);
    if (atomic_load(&test_state.failures))
      break;
  }
  printf("%zu events, %zu states, of which %zu of a recovery that was cut "
         "off; %zu were known\n",
         count.events, count.states, count.again, count.same);
  test_count("states after power loss", count.states);
  hash_set_free(&count.seen);
}

TEST(power_loss) { crash_in_all_modes(&play_one); }

/* ---- two database files ---------------------------------------------------
**
** One transaction changes both, each with an emb table and rows that describe
** its content.  In a rollback mode SQLite commits both or neither (by a
** super-journal); in mode WAL each separately.  The files are examined one
** after the other, by connections that do not attach the other file. */

enum { PAIR_TXNS = 2 };

static const struct half {
  const char *path, *schema, *table;
} halves[2] = {{"/disk/app.db", "main", "a"}, {"/disk/other.db", "other", "b"}};

/* rows after transaction n */
static char *half_dumps[2][PAIR_TXNS + 1];

static void change_half(sqlite3 *db, const struct half *half, int n) {
  int lo = (int)(test_random() % KEYS), hi = lo + (int)(test_random() % 8);
  if (test_random() % 4 == 0) {
    (void)work_run(db, "DELETE FROM %s.rows WHERE key BETWEEN %d AND %d",
                   half->schema, lo, hi);
    (void)work_run(db, "DELETE FROM %s WHERE key BETWEEN %d AND %d",
                   half->table, lo, hi);
  } else {
    (void)work_run(db,
                   "WITH RECURSIVE r(k) AS (VALUES(%d) UNION ALL "
                   "SELECT k + 1 FROM r WHERE k < %d) "
                   "INSERT OR REPLACE INTO %s.rows SELECT %Q, k, %d FROM r",
                   lo, hi, half->schema, half->table, n);
    (void)work_run(db,
                   "INSERT OR REPLACE INTO %s(key, vector) SELECT key, " VECTOR
                   " FROM %s.rows WHERE key BETWEEN %d AND %d",
                   half->table, half->schema, lo, hi);
  }
  (void)work_run(db, "INSERT INTO %s.log VALUES(%d)", half->schema, n);
}

static void make_half(sqlite3 *db, const struct half *half) {
  (void)work_run(db,
                 "CREATE TABLE %s.rows(tbl, key INTEGER, value INTEGER, "
                 "PRIMARY KEY(tbl, key));"
                 "CREATE TABLE %s.log(n INTEGER PRIMARY KEY);"
                 "CREATE VIRTUAL TABLE %s.%s USING emb(vector FLOAT[4], "
                 "memory='4MB')",
                 half->schema, half->schema, half->schema, half->table);
}

static void work_in_two(void) {
  sqlite3 *db = work_open(halves[0].path, "disk");
  if (db == NULL)
    return;
  (void)work_run(db,
                 "ATTACH %Q AS other; PRAGMA other.synchronous = %s;"
                 "PRAGMA other.journal_mode = %s",
                 halves[1].path, work_mode->synchronous, work_mode->journal);
  for (int i = 0; i < 2; i++)
    make_half(db, &halves[i]);
  disk_record(mounted); /* the tested work begins here */
  note_count = 0;
  add_note(0, 0);
  for (int n = 1; n <= PAIR_TXNS; n++) {
    (void)work_run(db, "BEGIN");
    for (int i = 0; i < 2; i++)
      change_half(db, &halves[i], n);
    note_begun(n);
    (void)work_run(db, "COMMIT");
    note_acked(n);
    for (int i = 0; i < 2; i++) {
      sqlite3_free(half_dumps[i][n]);
      half_dumps[i][n] = work_ask(db,
                                  "SELECT tbl || key || ':' || value FROM "
                                  "%s.rows ORDER BY tbl, key",
                                  halves[i].schema);
    }
  }
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

static int examine_half(int i, int acked, int begun) {
  sqlite3 *db = work_open(halves[i].path, "disk");
  if (db == NULL)
    return 0;
  int n = work_number(db, "SELECT coalesce(max(n), 0) FROM log");
  (void)HOLDS(n >= acked && n <= begun,
              "%s came to transaction %d, %d was acknowledged, %d was begun",
              halves[i].schema, n, acked, begun);
  char *rows = work_ask(db, ALL_ROWS);
  (void)HOLDS(strcmp(rows, n ? half_dumps[i][n] : "") == 0,
              "rows of %s after %d: %.60s", halves[i].schema, n, rows);
  sqlite3_free(rows);
  work_compare(db);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  return n;
}

static int examine_two(int acked, int begun) {
  int first = (int)(test_random() % 2), n[2];
  n[first] = examine_half(first, acked, begun);
  n[1 - first] = examine_half(1 - first, acked, begun);
  was_read();
  int apart = strcmp(work_mode->journal, "WAL") == 0;
  (void)HOLDS(apart || n[0] == n[1], "main is at transaction %d, other at %d",
              n[0], n[1]);
  for (int i = 0; i < 2; i++) {
    sqlite3 *db = work_open(halves[i].path, "disk");
    if (db) {
      work_go_on(db, PAIR_TXNS);
      CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
    }
  }
  return apart ? -1 : n[0];
}

TEST(power_loss_of_two_files) {
  static const struct play play = {work_in_two, examine_two};
  crash_in_all_modes(&play);
  for (int i = 0; i < 2 * (PAIR_TXNS + 1); i++)
    sqlite3_free(half_dumps[i / (PAIR_TXNS + 1)][i % (PAIR_TXNS + 1)]);
}
