/* SPDX-License-Identifier: MIT
**
** fail_texts_sql.c -- SQLite's own files fail while a function commits new
** texts of a table with text keys (ext/dict/change.c): every write, sync, lock
** of a file and deletion in turn, once and from there on.  (For locks of a WAL
** SQLite would wait ten seconds.)
**
** AFTER     a failure the statement has failed with SQLite's error or has
**           worked; the connection is in no transaction; every row has its
**           text, and rows that existed before are unchanged.
*/
#include "sql_help.h"
#include "stacks.h"

#include <stdlib.h>

/* ---- a VFS that fails ---------------------------------------------------- */

struct shim {
  sqlite3_file base; /* must be first */
  sqlite3_file *real;
};

static struct {
  sqlite3_vfs vfs, *below;
  int64_t countdown; /* the call that brings it to 0 fails */
  int forever, code, fired;
} disk;

static int disk_fails(void) {
  if (disk.countdown > 0)
    stacks_note();
  int64_t left = disk.countdown--;
  int fails = left == 1 || (left < 1 && disk.forever);
  disk.fired |= fails;
  return fails;
}

static void disk_arm(int64_t n, int forever, int code) {
  disk.countdown = n;
  disk.forever = n > 0 && forever;
  disk.code = code;
  disk.fired = 0;
}

#define REAL(file) (((struct shim *)(file))->real)
#define CALL(file, method, ...)                                                \
  REAL(file)->pMethods->method(REAL(file), ##__VA_ARGS__)

static int shim_close(sqlite3_file *f) { return CALL(f, xClose); }
static int shim_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at) {
  return CALL(f, xRead, to, n, at);
}
static int shim_write(sqlite3_file *f, const void *from, int n,
                      sqlite3_int64 at) {
  return disk_fails() ? disk.code : CALL(f, xWrite, from, n, at);
}
static int shim_truncate(sqlite3_file *f, sqlite3_int64 size) {
  return disk_fails() ? disk.code : CALL(f, xTruncate, size);
}
static int shim_sync(sqlite3_file *f, int flags) {
  return disk_fails() ? disk.code : CALL(f, xSync, flags);
}
static int shim_size(sqlite3_file *f, sqlite3_int64 *size) {
  return CALL(f, xFileSize, size);
}
static int shim_lock(sqlite3_file *f, int level) {
  return disk_fails() ? SQLITE_BUSY : CALL(f, xLock, level);
}
static int shim_unlock(sqlite3_file *f, int level) {
  return CALL(f, xUnlock, level);
}
static int shim_reserved(sqlite3_file *f, int *is) {
  return CALL(f, xCheckReservedLock, is);
}
static int shim_control(sqlite3_file *f, int what, void *arg) {
  return CALL(f, xFileControl, what, arg);
}
static int shim_sector(sqlite3_file *f) { return CALL(f, xSectorSize); }
static int shim_device(sqlite3_file *f) {
  return CALL(f, xDeviceCharacteristics);
}
static int shim_shm_map(sqlite3_file *f, int page, int size, int extend,
                        void volatile **at) {
  return CALL(f, xShmMap, page, size, extend, at);
}
static int shim_shm_lock(sqlite3_file *f, int from, int n, int flags) {
  return CALL(f, xShmLock, from, n, flags);
}
static void shim_shm_barrier(sqlite3_file *f) { CALL(f, xShmBarrier); }
static int shim_shm_unmap(sqlite3_file *f, int flag) {
  return CALL(f, xShmUnmap, flag);
}

static const sqlite3_io_methods shim_methods = {
    .iVersion = 2,
    .xClose = shim_close,
    .xRead = shim_read,
    .xWrite = shim_write,
    .xTruncate = shim_truncate,
    .xSync = shim_sync,
    .xFileSize = shim_size,
    .xLock = shim_lock,
    .xUnlock = shim_unlock,
    .xCheckReservedLock = shim_reserved,
    .xFileControl = shim_control,
    .xSectorSize = shim_sector,
    .xDeviceCharacteristics = shim_device,
    .xShmMap = shim_shm_map,
    .xShmLock = shim_shm_lock,
    .xShmBarrier = shim_shm_barrier,
    .xShmUnmap = shim_shm_unmap};

static int shim_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f,
                     int flags, int *out) {
  struct shim *file = (struct shim *)f;
  (void)vfs;
  file->real = (sqlite3_file *)(void *)(file + 1);
  int rc = disk.below->xOpen(disk.below, name, file->real, flags, out);
  file->base.pMethods = file->real->pMethods ? &shim_methods : NULL;
  return rc;
}

static int shim_delete(sqlite3_vfs *vfs, const char *name, int sync) {
  (void)vfs;
  return disk_fails() ? SQLITE_IOERR_DELETE
                      : disk.below->xDelete(disk.below, name, sync);
}

__attribute__((constructor)) static void shim_register(void) {
  (void)sqlite3_initialize();
  disk.below = sqlite3_vfs_find(NULL);
  disk.vfs = *disk.below;
  disk.vfs.zName = "failing";
  disk.vfs.szOsFile += (int)sizeof(struct shim);
  disk.vfs.xOpen = shim_open;
  disk.vfs.xDelete = shim_delete;
  (void)sqlite3_vfs_register(&disk.vfs, 0);
}

/* ---- the tests ----------------------------------------------------------- */

static const char *const calls[] = {
    "SELECT emb_put('words', json_array(hex(randomblob(4)), 'dog'), "
    "'[[1,1],[3,4]]')",
    "SELECT (SELECT emb_put('words', json_array(hex(randomblob(4)), key), "
    "'[[1,1],[3,4]]')) FROM words_keys WHERE key = 'dog'",
    "SELECT emb_lookup('words', json_array(hex(randomblob(4)), 'dog'), 1)",
    "SELECT emb_get('words', json_array(hex(randomblob(4)), 'dog'))",
    "SELECT emb_bag('words', json_array(hex(randomblob(4)), 'dog'), '[0]', "
    "'mean')",
    "SELECT vector FROM words WHERE word = 'new' || abs(random())",
    "SELECT emb_write_back('words', json_array(hex(randomblob(4))), '[1,1]'); "
    "SELECT emb_write_back_synchronize('words')",
    "SELECT emb_put('other', json_array(abs(random() % 3)), '[[1,1]]')",
};

static sqlite3 *texts_open(const char *file, const char *journal) {
  char sql[100];
  sqlite3 *db = NULL;
  (void)snprintf(sql, sizeof sql, "PRAGMA journal_mode = %s", journal);
  CHECK_EQ_INT(sqlite3_open_v2(file, &db,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                               "failing"),
               SQLITE_OK);
  CHECK_EQ_INT(sqlite3_emb_init(db, NULL, NULL), SQLITE_OK);
  CHECK(sql_runs(db, sql));
  return db;
}

static int is_disk_code(int code) {
  code &= 0xff;
  return code == SQLITE_IOERR || code == SQLITE_FULL || code == SQLITE_BUSY ||
         code == SQLITE_CANTOPEN;
}

struct text_call {
  sqlite3 *db;
  const char *sql;
  int code; /* of what fails */
};

/* Restores the rows of `other` for the last of the calls; one text too many
** does no harm. */
static int fail_a_call(void *arg, uint64_t n, int forever) {
  const struct text_call *call = arg;
  sqlite3 *db = call->db;
  const char *sql = call->sql;
  disk_arm((int64_t)n, forever, call->code);
  int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
  int came = disk.fired;
  disk_arm(0, 0, 0);
  if (rc != SQLITE_OK && !(came && is_disk_code(rc)))
    test_check(0, __FILE__, __LINE__, "%s, call %d: %d, %s", sql, (int)n, rc,
               sqlite3_errmsg(db));
  if (!sqlite3_get_autocommit(db)) {
    test_check(0, __FILE__, __LINE__, "%s, call %d%s: left in a transaction",
               sql, (int)n, forever ? " and later" : "");
    (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  }
  CHECK(sql_runs(db, "INSERT INTO words(words) VALUES('integrity-check')"));
  CHECK_EQ_INT(sql_integer(db, "SELECT emb_to_json(vector) = '[3,4]' FROM "
                               "words WHERE word = 'dog'"),
               1);
  CHECK_EQ_INT(sql_integer(db, "SELECT count(*) FROM other WHERE label IS NOT "
                               "NULL"),
               0);
  CHECK(sql_runs(db, "DELETE FROM other; "
                     "INSERT OR IGNORE INTO other_rows VALUES(0, 'x'), "
                     "(1, 'x'), (2, 'x')"));
  return came;
}

static void fail_all(const char *journal) {
  char dir[300], file[320];
  uint64_t runs = 0;
  (void)snprintf(dir, sizeof dir, "%s", test_dir_in("/dev/shm"));
  (void)snprintf(file, sizeof file, "%s/texts.db", dir);
  sqlite3 *db = texts_open(file, journal);
  CHECK(sql_runs(db, "CREATE VIRTUAL TABLE words USING emb(word TEXT PRIMARY "
                     "KEY, vector FLOAT[2], memory='4MB', insert_on=lookup, "
                     "timeout=20, commit='engine'); "
                     "CREATE VIRTUAL TABLE other USING emb(vector FLOAT[2], "
                     "+label TEXT, memory='4MB', timeout=20, commit='engine'); "
                     "INSERT INTO words VALUES('dog', '[3,4]'); "
                     "INSERT INTO other_rows VALUES(0, 'x'), (1, 'x'), "
                     "(2, 'x')"));
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
    for (int full = 0; full < 2; full++) {
      struct text_call call = {db, calls[i],
                               full ? SQLITE_FULL : SQLITE_IOERR_WRITE};
      char group[20];
      (void)snprintf(group, sizeof group, "%d %d", (int)i, full);
      runs += stacks_each(group, 1, 1, fail_a_call, &call);
    }
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  test_count("SQLite's I/O calls failed", runs);
}

TEST(texts_with_a_journal) { fail_all("DELETE"); }
TEST(texts_with_a_log) { fail_all("WAL"); }
