/* SPDX-License-Identifier: MIT
**
** sql.c -- fuzzes the SQL surface: bytes become statements over emb tables.
**
** INPUT     byte 0  bit 0: the database is a file, else in memory; bits 1-3:
**                   the table's options
**           then a byte for each statement, and the bytes that its parts take
**
** CHECKED   Every error has a text and is neither SQLITE_CORRUPT nor
**           SQLITE_INTERNAL; a table that no statement has damaged passes its
**           integrity check.
*/
#include "fuzz.h"

#include "engine/base/env/env.h"
#include "engine/table/owner/registry.h"
#include "engine/base/process/process.h"
#include "env_sync.h"

#include <errno.h>
#include <ftw.h>
#include <sqlite3.h>
#include <unistd.h>

int sqlite3_emb_init(sqlite3 *db, char **message, const void *api);

/* ---- statements ---------------------------------------------------------- */

/* %t a table, %k a key, %v a vector, %K keys, %V vectors, %n a number,
** %q a type of quantised vectors, %e an expression of a row, %w a condition,
** %s a savepoint's name. */
static const char *const statements[] = {
    "INSERT INTO %t VALUES(%k, %v)",
    "INSERT INTO %t VALUES(%k, %v), (%k, %v), (%k, %v) RETURNING %e",
    "INSERT OR REPLACE INTO %t VALUES(%k, %v)",
    "INSERT OR IGNORE INTO %t SELECT value, %v FROM json_each(%K)",
    "INSERT INTO %t(keys, vectors) VALUES(%K, %V)",
    "UPDATE %t SET vector = %v WHERE %w",
    "UPDATE %t SET key = key + %n WHERE %w RETURNING %e",
    "UPDATE OR REPLACE %t SET key = %k, vector = %v WHERE key = %k",
    "DELETE FROM %t WHERE %w",
    "DELETE FROM %t",
    "SELECT %e, %e FROM %t WHERE %w ORDER BY %e LIMIT %n OFFSET %n",
    "SELECT count(*), sum(key), emb_sum(vector), emb_avg(vector) FROM %t",
    "SELECT %e FROM %t AS a JOIN %t AS b ON a.key = b.key WHERE a.key > %k",
    "SELECT vectors, found FROM %t(%K)",
    "SELECT hex(vectors) FROM %t(%K, %v)",
    "SELECT emb_get('%t', %K)",
    "SELECT emb_peek('%t', %K)",
    "SELECT emb_put('%t', %K, %V)",
    "SELECT emb_rmw('%t', %K, %V)",
    "SELECT emb_apply('%t', %K, %V)",
    "SELECT emb_put('%t', %K, %V, NULL, 'column=vector')",
    "SELECT emb_release('%t')",
    "SELECT emb_prefetch('%t', %K)",
    "SELECT emb_prefetch_synchronize('%t')",
    "SELECT emb_write_back('%t', %K, %V)",
    "SELECT emb_apply_async('%t', %K, %V)",
    "SELECT emb_write_back_synchronize('%t')",
    "SELECT * FROM emb_lookahead('%t', %K)",
    "SELECT * FROM emb_stats('%t')",
    "SELECT * FROM emb_tables",
    "SELECT emb_to_json(emb_add(%v, %v)), emb_dot(%v, %v), emb_length(%v)",
    "SELECT emb_distance_l2(%v, %v), emb_normalize(%v), emb_scale(%v, %n)",
    "SELECT emb_f32(%v), emb_sub(%v, %V), emb_mul(%V, %v), emb_pack(%k)",
    ("SELECT *, emb_quantize(%v, %q), emb_dequantize(%v, %q),"
     " emb_dequantize(emb_quantize(%v, %q), %q, %n) FROM emb_each(%V)"),
    "INSERT INTO %t(%t) VALUES('checkpoint')",
    "INSERT INTO %t(%t) VALUES('optimize')",
    "INSERT INTO %t(%t) VALUES('integrity-check')",
    "INSERT INTO %t(%t, arg) VALUES('adopt', %n)",
    "BEGIN",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT %s",
    "RELEASE %s",
    "ROLLBACK TO %s",
    "CREATE VIRTUAL TABLE %t USING emb(vector FLOAT[%n])",
    "CREATE VIRTUAL TABLE %t USING emb(vector FLOAT16[3], staleness=%n)",
    "CREATE TABLE plain(key INTEGER PRIMARY KEY, x)",
    "INSERT INTO plain SELECT key, vector FROM %t WHERE %w",
    "INSERT OR REPLACE INTO %t SELECT key, x FROM plain",
    "DROP TABLE %t",
    "ALTER TABLE %t RENAME TO %t",
    "PRAGMA integrity_check",
    "VACUUM",
    "EXPLAIN QUERY PLAN SELECT * FROM %t WHERE %w ORDER BY %e",
    "UPDATE %t_emb SET txn = txn",
    "SELECT * FROM %t WHERE vector MATCH %v",
    "SELECT key, distance FROM %t WHERE vector MATCH %v AND k = %k AND %w",
    "SELECT %e, k, vector FROM %t WHERE vector MATCH %v AND distance < %k "
    "ORDER BY distance LIMIT 3",
    "SELECT * FROM plain JOIN %t AS t ON t.vector MATCH plain.x AND t.k = 2 "
    "WHERE %w",
    "DELETE FROM %t WHERE vector MATCH %v AND k = 1 AND %w",
    "SELECT * FROM emb_nearest('%t', %v, %k)",
    "SELECT * FROM emb_nearest('%t', 'rows', 2, 'radius=2')",
    "CREATE VIRTUAL TABLE %t USING emb(vector FLOAT[3] "
    "index='ivf(lists=%n, code=4, probes=%n)')",
    "CREATE VIRTUAL TABLE %t USING emb(vector FLOAT16[3] metric=cosine, "
    "index=ivf(code=1))",
    "WITH n(i) AS (SELECT %k UNION ALL SELECT i + 1 FROM n LIMIT 1100) "
    "INSERT OR REPLACE INTO %t SELECT i, json_array(i % 7, i % 5, %n) FROM n",
    "INSERT INTO %t(%t, arg) VALUES('set vector.index', 'ivf(lists=%n)')",
    "SELECT key FROM %t WHERE vector MATCH %v AND k = 3 AND probes = %n "
    "AND %w",
    "SELECT * FROM emb_nearest('%t', %V, 2, 'probes=2')",
    "WITH k AS (SELECT %k AS v) SELECT %e FROM %t WHERE key IN k OR %w",
    "CREATE VIRTUAL TABLE %t USING emb(vector FLOAT[3] "
    "index='ivf(lists=%n, recall=0.%n)')",
    "INSERT INTO %t(%t, arg) VALUES('set vector.index', 'ivf(recall=0.%n)')",
    "SELECT %e, recall FROM %t WHERE vector MATCH %v AND k = %n AND "
    "recall = 0.%n AND %w",
    "SELECT * FROM emb_nearest('%t', %V, %n, 'recall=0.%n')",
    "SELECT * FROM emb_describe('%t')",
};

static const char *const tables[] = {"items", "other", "plain"};
static const char *const vectors[] = {"'[1,2,3]'",
                                      "'[0.5,-0.25,1e3]'",
                                      "x'0000803F0000803F0000803F'",
                                      "NULL",
                                      "'[1,2]'",
                                      "'[1e39,0,0]'",
                                      "zeroblob(12)",
                                      "x'0000C07F0000C07F0000C07F'",
                                      "randomblob(12)",
                                      "'[[1,2,3]]'",
                                      "'['",
                                      "emb_add('[1,1,1]','[1,1,1]')",
                                      "7",
                                      "''",
                                      "(SELECT vector FROM items LIMIT 1)",
                                      "'[1,2,3,4,5,6]'"};
static const char *const types[] = {"'int8'", "'int4'", "'float16'", "'none'"};
static const char *const conditions[] = {
    "1",
    "key = %k",
    "key IN (%k, %k, %k)",
    "key > %k",
    "key BETWEEN %k AND %k",
    "key < %k AND key >= %k",
    "key IS NULL",
    "key <> %k",
    "key IN (SELECT value FROM json_each(%K))",
    "vector = %v",
    "emb_length(vector) = %n",
    "key = %k OR key = %k",
    "rowid = %k"};
static const char *const expressions[] = {"key",
                                          "vector",
                                          "emb_to_json(vector)",
                                          "version",
                                          "clock",
                                          "rowid",
                                          "hex(vector)",
                                          "-key",
                                          "key % 7",
                                          "emb_dot(vector, %v)",
                                          "found",
                                          "keys"};

#define PICK(list) list[fuzz_byte(in) % (sizeof list / sizeof list[0])]

static void add(sqlite3_str *sql, const char *pattern, struct fuzz_input *in);

static void add_keys(sqlite3_str *sql, struct fuzz_input *in) {
  unsigned n = fuzz_byte(in) % 12, json = fuzz_byte(in);
  sqlite3_str_appendall(sql, json % 8 ? "'[" : "x'");
  for (unsigned i = 0; i < n; i++)
    if (json % 8)
      sqlite3_str_appendf(sql, "%s%lld", i ? "," : "",
                          (long long)fuzz_number(in));
    else
      sqlite3_str_appendf(sql, "%02x00000000000000", fuzz_byte(in));
  sqlite3_str_appendall(sql, json % 8 ? "]'" : "'");
}

static void add_part(sqlite3_str *sql, char part, struct fuzz_input *in) {
  switch (part) {
  case 't':
    sqlite3_str_appendall(sql, PICK(tables));
    break;
  case 'k':
  case 'n':
    sqlite3_str_appendf(sql, "%lld", (long long)fuzz_number(in));
    break;
  case 'v':
    sqlite3_str_appendall(sql, PICK(vectors));
    break;
  case 'V':
    sqlite3_str_appendf(sql, "zeroblob(%d)", fuzz_byte(in) % 16 * 12);
    break;
  case 'K':
    add_keys(sql, in);
    break;
  case 'q':
    sqlite3_str_appendall(sql, PICK(types));
    break;
  case 'e':
    add(sql, PICK(expressions), in);
    break;
  case 'w':
    add(sql, PICK(conditions), in);
    break;
  default:
    sqlite3_str_appendf(sql, "s%d", fuzz_byte(in) % 3);
  }
}

static void add(sqlite3_str *sql, const char *pattern, struct fuzz_input *in) {
  for (; *pattern; pattern++)
    if (*pattern == '%' && pattern[1] && strchr("tkvKVnqews", pattern[1]))
      add_part(sql, *++pattern, in);
    else
      sqlite3_str_appendchar(sql, 1, *pattern);
}

/* ---- the environment ----------------------------------------------------- */

/* The threads that all stores share are kept from one input to the next:
** starting them would take half of the time. */
static struct env *environment(void) {
  static struct env table;
  static struct process *kept;
  if (!kept) {
    table = *env_sync();
    FUZZ_CHECK(process_join(&table, &kept) == 0);
  }
  return &table;
}

/* ---- running ------------------------------------------------------------- */

enum { ROWS_MAX = 300, STEPS_MAX = 40 };

static int stop(void *rows, int n, char **values, char **names) {
  (void)n, (void)values, (void)names;
  return ++*(int *)rows > ROWS_MAX;
}

static void check_error(sqlite3 *db, int rc, const char *sql) {
  const char *text = sqlite3_errmsg(db);
  if (rc == SQLITE_OK || rc == SQLITE_ABORT)
    return;
  FUZZ_CHECK(text && text[0]);
  if ((rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_INTERNAL)
    printf("%s\n%s\n", sql, text);
  FUZZ_CHECK((rc & 0xff) != SQLITE_CORRUPT && (rc & 0xff) != SQLITE_INTERNAL);
}

static void run(sqlite3 *db, const char *pattern, struct fuzz_input *in) {
  sqlite3_str *text = sqlite3_str_new(db);
  int rows = 0;
  add(text, pattern, in);
  char *sql = sqlite3_str_finish(text);
  if (sql) {
    if (getenv("FUZZ_SHOW"))
      printf("%s;\n", sql);
    int rc = sqlite3_exec(db, sql, stop, &rows, NULL);
    check_error(db, rc, sql);
  }
  sqlite3_free(sql);
}

static const char *const options[] = {
    "",
    ", staleness=0",
    ", staleness=2, timeout=1",
    ", commit='engine'",
    ", memory='4MB'",
    ", staleness=1, timeout=0, commit='engine'",
    ", io='pread'",
    ", staleness=none"};

static int is_slow(void *steps) { return ++*(int *)steps > 20000; }

static sqlite3 *open_database(const char *path, unsigned how, int *steps) {
  sqlite3 *db = NULL;
  FUZZ_CHECK(sqlite3_open(path, &db) == SQLITE_OK);
  FUZZ_CHECK((sqlite3_emb_init(db, NULL, NULL) & 0xff) == SQLITE_OK);
  sqlite3_progress_handler(db, 100, is_slow, steps);
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1000000);
  char *sql = sqlite3_mprintf(
      "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY; CREATE VIRTUAL "
      "TABLE items USING emb(vector FLOAT[3]%s)",
      options[how >> 1 & 7]);
  int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
  if (rc != SQLITE_OK)
    printf("%s: %s\n", sql, sqlite3_errmsg(db));
  FUZZ_CHECK(rc == SQLITE_OK);
  sqlite3_free(sql);
  return db;
}

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *ftw) {
  (void)st, (void)type, (void)ftw;
  return remove(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input in = {data, size};
  char dir[] = "/tmp/emb-fuzz-XXXXXX", shm[] = "/dev/shm/emb-fuzz-XXXXXX";
  char path[64] = ":memory:";
  unsigned how = fuzz_byte(&in);
  char *where = NULL;
  int steps = 0;
  env_set_default(environment());
  (void)setenv("SQLITE_TMPDIR", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm",
               0);
  if (how & 1) {
    where = mkdtemp(access("/dev/shm", W_OK) == 0 ? shm : dir);
    FUZZ_CHECK(where != NULL);
    (void)snprintf(path, sizeof path, "%s/a.db", where);
  }
  sqlite3 *db = open_database(path, how, &steps);
  for (int i = 0; in.left && i < STEPS_MAX; i++) {
    steps = 0;
    const char *pattern =
        statements[fuzz_byte(&in) % (sizeof statements / sizeof *statements)];
    run(db, pattern, &in);
  }
  steps = 0;
  (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  (void)sqlite3_close(db);
  if (where)
    (void)nftw(where, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
  return 0;
}
