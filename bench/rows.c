/* SPDX-License-Identifier: MIT
**
** rows.c -- SQL row by row: prepared SELECT by key, a join with a table of
** keys, and UPDATE, on an emb table, on a minimal virtual table, and on a plain
** SQLite table.  Everything is in memory, one thread.
**
** Reads run in transactions of one batch, for all tables alike: otherwise each
** statement locks and unlocks the database file, which costs more than
** everything else.  An UPDATE transaction is much longer, and its COMMIT is
** part of the time.  Durable commits are compared with durable commits: "emb"
** and "SQLite table" make COMMIT durable before it returns; "emb, engine" and
** "SQLite, no sync" do not, and the trivial table never does.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "keys.h"
#include "sql.h"
#include "trivial.h"

enum { DIM = 64, WANTED = 512 /* batches in the table of keys */ };

enum what { SELECT, JOIN, UPDATE };

struct table {
  const char *name;
  const char *create; /* %zu: bytes of memory, for everything */
  const char *pragmas;
  int reads;   /* takes part in SELECT and JOIN */
  int updates; /* takes part in UPDATE */
  sqlite3 *db;
  float *array;
  sqlite3_stmt *begin, *commit, *select, *join, *update;
};

#define WAL "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 16384;"

static struct table tables[] = {
    {.name = "trivial table",
     .create = "CREATE VIRTUAL TABLE items USING trivial",
     .pragmas = WAL,
     .reads = 1,
     .updates = 1},
    {.name = "trivial table, copied",
     .create = "CREATE VIRTUAL TABLE items USING trivial_copied",
     .pragmas = WAL,
     .reads = 1},
    {.name = "emb",
     .create = "CREATE VIRTUAL TABLE items USING emb("
               "vector FLOAT[64], memory=%lld)",
     .pragmas = WAL,
     .reads = 1,
     .updates = 1},
    {.name = "emb, engine",
     .create = "CREATE VIRTUAL TABLE items USING emb("
               "vector FLOAT[64], memory=%lld, commit='engine')",
     .pragmas = WAL,
     .updates = 1},
    {.name = "SQLite table",
     .create = "CREATE TABLE items(key INTEGER PRIMARY KEY, vector BLOB)",
     .pragmas = WAL "PRAGMA synchronous = FULL; PRAGMA mmap_size = 68719476736",
     .reads = 1,
     .updates = 1},
    {.name = "SQLite, no sync",
     .create = "CREATE TABLE items(key INTEGER PRIMARY KEY, vector BLOB)",
     .pragmas = WAL "PRAGMA synchronous = OFF; PRAGMA mmap_size = 68719476736",
     .updates = 1},
};
enum { TABLES = sizeof(tables) / sizeof(tables[0]) };

/* ---- tables -------------------------------------------------------------- */

static void fill(struct table *t, size_t keys) {
  sqlite3_stmt *insert = sql_prepare(t->db, "INSERT INTO items VALUES (?, ?)");
  float vector[DIM];
  sql_do(t->begin);
  for (size_t i = 1; i <= keys; i++) {
    vector_fill(vector, DIM, (int64_t)i, 1);
    sqlite3_bind_int64(insert, 1, (int64_t)i);
    sqlite3_bind_blob(insert, 2, vector, sizeof(vector), SQLITE_STATIC);
    sql_do(insert);
  }
  sql_do(t->commit);
  sqlite3_finalize(insert);
}

static void fill_array(struct table *t, size_t keys) {
  t->array = need_huge(keys * DIM * sizeof(float));
  for (size_t i = 0; i < keys; i++) {
    vector_fill(t->array + i * DIM, DIM, (int64_t)i + 1, 1);
  }
}

/* The keys to join with: the first WANTED batches of the trace. */
static void fill_wanted(struct table *t, const struct trace *trace) {
  sql_run(t->db, "CREATE TEMP TABLE wanted(place INTEGER PRIMARY KEY, key)");
  sqlite3_stmt *insert = sql_prepare(t->db, "INSERT INTO wanted VALUES (?, ?)");
  sql_do(t->begin);
  for (int i = 0; i < WANTED * BATCH; i++) {
    sqlite3_bind_int64(insert, 1, i);
    sqlite3_bind_int64(insert, 2, trace->keys[i]);
    sql_do(insert);
  }
  sql_do(t->commit);
  sqlite3_finalize(insert);
}

static void open_table(struct table *t, const struct options *options,
                       const struct trace *trace) {
  const char *directory = path("%s/%s", options->data, t->name);
  size_t keys = trace->highest;
  make_directory(directory);
  int is_emb = !strncmp(t->name, "emb", 3), is_array = t->name[0] == 't';
  t->db = sql_open(path("%s/rows.db", directory),
                   is_emb ? options->extension : NULL);
  sql_run(t->db, "%s", t->pragmas);
  if (is_array) {
    fill_array(t, keys);
    trivial_register(t->db, t->array, DIM, keys);
  }
  sql_run(t->db, t->create, (long long)keys * 600 + (256 << 20));
  t->begin = sql_prepare(t->db, "BEGIN");
  t->commit = sql_prepare(t->db, "COMMIT");
  if (!is_array) {
    fill(t, keys);
  }
  fill_wanted(t, trace);
  t->select = sql_prepare(t->db, "SELECT vector FROM items WHERE key = ?");
  t->join = sql_prepare(
      t->db, "SELECT vector FROM wanted CROSS JOIN items ON"
             " items.key = wanted.key WHERE wanted.place BETWEEN ? AND ?");
  t->update = sql_prepare(t->db, "UPDATE items SET vector = ? WHERE key = ?");
}

static void close_table(struct table *t, size_t keys) {
  sqlite3_finalize(t->begin);
  sqlite3_finalize(t->commit);
  sqlite3_finalize(t->select);
  sqlite3_finalize(t->join);
  sqlite3_finalize(t->update);
  sql_close(t->db);
  drop_huge(t->array, keys * DIM * sizeof(float));
}

/* ---- work ---------------------------------------------------------------- */

static void take(struct table *t, sqlite3_stmt *statement, int64_t key,
                 float *to) {
  if (sqlite3_column_bytes(statement, 0) != DIM * (int)sizeof(float)) {
    die("%s: key %lld has no vector", t->name, (long long)key);
  }
  memcpy(to, sqlite3_column_blob(statement, 0), DIM * sizeof(float));
}

static void select_batch(struct table *t, const int64_t *keys, float *to) {
  sql_do(t->begin);
  for (int i = 0; i < BATCH; i++) {
    sqlite3_bind_int64(t->select, 1, keys[i]);
    if (!sql_step(t->select)) {
      die("%s: key %lld is absent", t->name, (long long)keys[i]);
    }
    take(t, t->select, keys[i], to + (size_t)i * DIM);
    sqlite3_reset(t->select);
  }
  sql_do(t->commit);
}

static void join_batch(struct table *t, size_t place, const int64_t *keys,
                       float *to) {
  int n = 0;
  sql_do(t->begin);
  sqlite3_bind_int64(t->join, 1, (int64_t)place);
  sqlite3_bind_int64(t->join, 2, (int64_t)place + BATCH - 1);
  for (; sql_step(t->join); n++) {
    take(t, t->join, keys[n], to + (size_t)n * DIM);
  }
  sqlite3_reset(t->join);
  sql_do(t->commit);
  if (n != BATCH) {
    die("%s: the join gave %d rows", t->name, n);
  }
}

static void update_keys(struct table *t, const int64_t *keys, size_t n,
                        float *vectors) {
  sql_do(t->begin);
  for (size_t i = 0; i < n; i++) {
    float *vector = vectors + i % BATCH * DIM;
    vector_rename(vector, keys[i]);
    sqlite3_bind_blob(t->update, 1, vector, DIM * (int)sizeof(float),
                      SQLITE_STATIC);
    sqlite3_bind_int64(t->update, 2, keys[i]);
    sql_do(t->update);
  }
  sql_do(t->commit);
}

/* Rows per second, measured over `seconds`. */
static double run(struct table *t, enum what what, const struct trace *trace,
                  double seconds, float *buffer) {
  double busy = 0, end = now() + seconds;
  uint64_t rows = 0, pick = 1;
  size_t long_one = trace->count < 65536 ? trace->count : 65536;
  do {
    size_t n = what == UPDATE ? long_one : BATCH;
    size_t batches = what == JOIN ? WANTED : (trace->count - n) / BATCH + 1;
    size_t place = random_next(&pick) % batches * BATCH;
    const int64_t *keys = trace->keys + place;
    if (what == UPDATE) { /* new values */
      for (size_t i = 0; i < BATCH; i++) {
        vector_fill(buffer + i * DIM, DIM, 1, (uint32_t)random_next(&pick));
      }
    }
    double start = now();
    if (what == SELECT) {
      select_batch(t, keys, buffer);
    } else if (what == JOIN) {
      join_batch(t, place, keys, buffer);
    } else {
      update_keys(t, keys, n, buffer);
    }
    busy += now() - start;
    rows += n;
    if (what == UPDATE) {
      select_batch(t, keys + n - BATCH, buffer);
    }
    for (size_t i = 0; i < BATCH; i += 64) {
      vector_check(buffer + i * DIM, DIM,
                   what == UPDATE ? keys[n - BATCH + i] : keys[i], t->name);
    }
  } while (now() < end);
  return (double)rows / busy;
}

static void compare(const struct options *options, struct figure *figure,
                    enum what what, const struct trace *trace, double seconds,
                    float *buffer) {
  static const char *const names[] = {
      "SELECT vector FROM items WHERE key = ?", "keys JOIN items",
      "UPDATE items SET vector = ? WHERE key = ?"};
  struct group *group = figure_group(figure, names[what], "rows/s", NAN);
  for (int round = 0; round < options->rounds; round++) {
    for (int i = 0; i < TABLES; i++) {
      struct table *t = &tables[(i + round) % TABLES];
      if (t->db && (what == UPDATE ? t->updates : t->reads)) {
        run(t, what, trace, seconds / 5, buffer);
        group_add(group, t->name, round, run(t, what, trace, seconds, buffer),
                  NULL);
        settle();
      }
    }
  }
  static const double targets[] = {0.85, 0.75, 0.50};
  group_ratio(group, "emb", "trivial table", AT_LEAST, targets[what]);
  if (what == UPDATE) {
    group_ratio(group, "emb, engine", "trivial table", AT_LEAST, targets[what]);
    group_ratio(group, "emb", "SQLite table", AT_LEAST, 5);
    group_ratio(group, "emb, engine", "SQLite, no sync", AT_LEAST, 5);
  } else {
    group_ratio(group, "emb", "trivial table, copied", AT_LEAST, 0);
    group_ratio(group, "emb", "SQLite table", AT_LEAST, 0);
  }
}

void bench_rows(const struct options *options) {
  size_t keys = options->keys    ? options->keys
                : options->quick ? 100000
                                 : 2000000;
  double seconds = options->seconds > 0 ? options->seconds
                   : options->quick     ? 0.05
                                        : 1;
  struct figure *figure =
      figure_new(options, "rows", "SQL, a row at a time, all in memory");
  figure_note(figure, "%zu keys, 64 floats, uniform, one thread", keys);
  figure_note(figure,
              "the trivial table has two columns; SQLite asks emb's for "
              "each of its hidden ones in an UPDATE, so that 0.72 is "
              "the most there");
  struct trace trace;
  trace_uniform(&trace, 1 << 20, keys);
  float *buffer = need_huge(BATCH * DIM * sizeof(float));
  for (int i = 0; i < TABLES; i++) {
    if (!options->only || strstr(tables[i].name, options->only)) {
      open_table(&tables[i], options, &trace);
    }
  }
  pin(0);
  for (int what = SELECT; what <= UPDATE; what++) {
    compare(options, figure, (enum what)what, &trace, seconds, buffer);
  }
  for (int i = 0; i < TABLES; i++) {
    if (tables[i].db) {
      close_table(&tables[i], keys);
    }
  }
  trace_free(&trace);
  drop_huge(buffer, BATCH * DIM * sizeof(float));
  figure_done(figure);
}
