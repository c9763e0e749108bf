/* SPDX-License-Identifier: MIT
**
** guard_side.c -- one of guard.c's two processes: its tables and measurements.
** See guard.h.
*/
#include "guard.h"

#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "keys.h"
#include "sql.h"

enum { DIM = 64, TRACE = 1 << 20 };
#define ROW_BYTES ((long long)DIM * 4 + 32)

const char *const guard_names[GUARD_FIGURES] = {
    "load in order", "Get, uniform",    "Get, Zipf",       "Get and Put",
    "Adagrad",       "SELECT of a row", "UPDATE of a row", "Get, on disk"};
const char *const guard_units[GUARD_FIGURES] = {"rows/s", "rows/s", "rows/s",
                                                "rows/s", "rows/s", "rows/s",
                                                "rows/s", "rows/s"};

struct live {
  const struct guard_side *side;
  sqlite3 *db;
  sqlite3_stmt *get, *put, *apply, *select, *update, *cold, *begin, *commit;
  struct trace uniform, zipf;
  size_t at;      /* next key of the traces */
  float *vectors; /* BATCH */
};

/* ---- tables -------------------------------------------------------------- */

static void bind_keys(sqlite3_stmt *statement, const int64_t *keys) {
  sqlite3_bind_blob(statement, 1, keys, BATCH * (int)sizeof(*keys),
                    SQLITE_STATIC);
}

static void bind_both(struct live *l, sqlite3_stmt *statement,
                      const int64_t *keys) {
  bind_keys(statement, keys);
  sqlite3_bind_blob(statement, 2, l->vectors,
                    BATCH * DIM * (int)sizeof(*l->vectors), SQLITE_STATIC);
}

/* Returns the number of rows written. */
static size_t fill(struct live *l, const char *table) {
  char *sql = sqlite3_mprintf("SELECT emb_put(%Q, ?1, ?2)", table);
  sqlite3_stmt *put = sql_prepare(l->db, sql);
  size_t batches = l->side->keys / BATCH;
  int64_t keys[BATCH];
  for (size_t b = 0; b < batches; b++) {
    for (size_t i = 0; i < BATCH; i++) {
      keys[i] = (int64_t)(b * BATCH + i + 1);
      vector_rename(l->vectors + i * DIM, keys[i]);
    }
    bind_both(l, put, keys);
    sql_do(put);
  }
  sqlite3_finalize(put);
  sqlite3_free(sql);
  return batches * BATCH;
}

static void make_tables(struct live *l) {
  long long all = (long long)l->side->keys * ROW_BYTES;
  long long room = 2 * all + (256 << 20);
  sql_run(l->db,
          "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
          "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[64], memory=%lld);"
          "CREATE VIRTUAL TABLE trained USING emb(vector FLOAT[64], "
          "optimizer='adagrad(lr=0.01)', memory=%lld);"
          "CREATE VIRTUAL TABLE cold USING emb(vector FLOAT[64], memory=%lld)",
          room, 2 * room, all / 8 + (long long)l->side->keys * 24);
  fill(l, "items");
  fill(l, "trained");
  fill(l, "cold");
  sql_run(l->db, "INSERT INTO cold(cold) VALUES('checkpoint')");
}

static void open_side(struct live *l) {
  size_t highest = l->side->keys / BATCH * BATCH;
  l->db = sql_open(path("%s/guard.db", l->side->directory), l->side->extension);
  l->vectors = need(BATCH, DIM * sizeof(*l->vectors));
  for (size_t i = 0; i < BATCH; i++) {
    vector_fill(l->vectors + i * DIM, DIM, (int64_t)i + 1, 1);
  }
  make_tables(l);
  trace_uniform(&l->uniform, TRACE, highest);
  trace_zipf(&l->zipf, TRACE, highest);
  l->get = sql_prepare(l->db, "SELECT emb_get('items', ?1)");
  l->put = sql_prepare(l->db, "SELECT emb_put('items', ?1, ?2)");
  l->apply = sql_prepare(
      l->db, sql_number(l->db, "SELECT count(*) FROM pragma_function_list "
                               "WHERE name = 'emb_apply'")
                 ? "SELECT emb_apply('trained', ?1, ?2)"
                 : "SELECT emb_rmw('trained', ?1, ?2)"); /* as before */
  l->cold = sql_prepare(l->db, "SELECT emb_get('cold', ?1)");
  l->select = sql_prepare(l->db, "SELECT vector FROM items WHERE key = ?1");
  l->update = sql_prepare(l->db, "UPDATE items SET vector = ?2 WHERE key = ?1");
  l->begin = sql_prepare(l->db, "BEGIN");
  l->commit = sql_prepare(l->db, "COMMIT");
}

static void close_side(struct live *l) {
  sqlite3_stmt *all[] = {l->get,    l->put,    l->apply, l->cold,
                         l->select, l->update, l->begin, l->commit};
  for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
    sqlite3_finalize(all[i]);
  }
  sql_close(l->db);
  trace_free(&l->uniform);
  trace_free(&l->zipf);
  free(l->vectors);
}

/* ---- measurements -------------------------------------------------------- */

static void get(struct live *l, sqlite3_stmt *statement, const int64_t *keys) {
  bind_keys(statement, keys);
  if (!sql_step(statement) || sqlite3_column_bytes(statement, 0) !=
                                  BATCH * DIM * (int)sizeof(*l->vectors)) {
    die("%s gave no vectors", l->side->extension);
  }
  vector_check(sqlite3_column_blob(statement, 0), DIM, keys[0],
               l->side->extension);
  sqlite3_reset(statement);
}

/* Makes the vectors to write those of these keys. */
static void rename_all(struct live *l, const int64_t *keys) {
  for (size_t i = 0; i < BATCH; i++) {
    vector_rename(l->vectors + i * DIM, keys[i]);
  }
}

static void select_rows(struct live *l, const int64_t *keys) {
  for (size_t i = 0; i < BATCH; i++) {
    sqlite3_bind_int64(l->select, 1, keys[i]);
    if (!sql_step(l->select)) {
      die("key %lld is absent", (long long)keys[i]);
    }
    sqlite3_reset(l->select);
  }
}

static void update_rows(struct live *l, const int64_t *keys) {
  sql_do(l->begin);
  for (size_t i = 0; i < BATCH; i++) {
    sqlite3_bind_int64(l->update, 1, keys[i]);
    sqlite3_bind_blob(l->update, 2, l->vectors + i * DIM,
                      DIM * (int)sizeof(*l->vectors), SQLITE_STATIC);
    sql_do(l->update);
  }
  sql_do(l->commit);
}

/* Does one batch. */
static void step(struct live *l, int what, const int64_t *keys) {
  switch (what) {
  case GUARD_GET:
  case GUARD_ZIPF:
    get(l, l->get, keys);
    break;
  case GUARD_MIXED:
    get(l, l->get, keys);
    bind_both(l, l->put, keys);
    sql_do(l->put);
    break;
  case GUARD_APPLY:
    bind_both(l, l->apply, keys);
    sql_do(l->apply);
    break;
  case GUARD_SELECT:
    select_rows(l, keys);
    break;
  case GUARD_UPDATE:
    update_rows(l, keys);
    break;
  default:
    get(l, l->cold, keys);
  }
}

static double load(struct live *l) {
  sql_run(l->db,
          "CREATE VIRTUAL TABLE loaded USING emb(vector FLOAT[64], "
          "memory=%lld)",
          2 * (long long)l->side->keys * ROW_BYTES + (256 << 20));
  double start = now();
  double rows = (double)fill(l, "loaded");
  double seconds = now() - start;
  sql_run(l->db, "DROP TABLE loaded");
  return rows / seconds;
}

/* A tenth of the time passes unmeasured first: caches fill, pages are faulted
** in. */
static double measure(struct live *l, int what, double seconds) {
  const struct trace *trace = what == GUARD_ZIPF ? &l->zipf : &l->uniform;
  double spent = -seconds / 10;
  size_t batches = 0;
  while (spent < seconds) {
    const int64_t *keys = trace->keys + l->at;
    l->at = (l->at + BATCH) % trace->count;
    rename_all(l, keys);
    double start = now();
    step(l, what, keys);
    double end = now();
    batches += spent >= 0;
    spent += end - start;
    if (spent >= 0 && spent < end - start) {
      spent = 0; /* the unmeasured time ends here */
    }
  }
  return (double)(batches * BATCH) / spent;
}

static void live_pinned(void *arg) {
  struct ends *ends = ((void **)arg)[0];
  struct live *l = ((void **)arg)[1];
  struct answer answer = {{0}};
  struct order order;
  worker_say(ends, &answer);
  while (worker_next(ends, &order)) {
    answer.value[0] = order.what == GUARD_LOAD
                          ? load(l)
                          : measure(l, order.what, order.seconds);
    worker_say(ends, &answer);
  }
}

void guard_live(struct ends *ends, void *side) {
  struct live l = {.side = side};
  void *arg[] = {ends, &l};
  open_side(&l);
  run_pinned(live_pinned, arg);
  close_side(&l);
}
