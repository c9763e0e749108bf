/* SPDX-License-Identifier: MIT
**
** guard_side.c -- one of guard.c's two processes: its tables and measurements.
** See guard.h.  It has a child, which is a client of its tables.
*/
#include "guard.h"

#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "keys.h"
#include "sql.h"

enum { DIM = 64, TRACE = 1 << 20 };
#define STEP UINT64_C(2654435761)
#define ROW_BYTES ((long long)DIM * 4 + 32)

const char *const guard_names[GUARD_FIGURES] = {
    "load in order",   "load in random order",
    "Get, uniform",    "Get, Zipf",
    "Get and Put",     "Get and Put, after checkpoint",
    "Adagrad",         "SELECT of a row",
    "UPDATE of a row", "Get, on disk",
    "MATCH",           "Get of a client"};
const char *const guard_units[GUARD_FIGURES] = {
    "rows/s", "rows/s", "rows/s", "rows/s", "rows/s", "rows/s",
    "rows/s", "rows/s", "rows/s", "rows/s", "rows/s", "rows/s"};

struct live {
  const struct guard_side *side;
  sqlite3 *db;
  sqlite3_stmt *get, *put, *apply, *select, *update, *cold, *match, *begin,
      *commit;
  struct worker client;
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

/* Returns the number of rows written.  is_random: in an order that only looks
** random: STEP is a prime that does not divide their number. */
static size_t fill(struct live *l, const char *table, int is_random) {
  char *sql = sqlite3_mprintf("SELECT emb_put(%Q, ?1, ?2)", table);
  sqlite3_stmt *put = sql_prepare(l->db, sql);
  size_t batches = l->side->keys / BATCH;
  int64_t keys[BATCH];
  for (size_t b = 0; b < batches; b++) {
    for (size_t i = 0; i < BATCH; i++) {
      size_t at = b * BATCH + i;
      keys[i] = (int64_t)(is_random ? at * STEP % (batches * BATCH) : at) + 1;
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
  fill(l, "items", 0);
  fill(l, "trained", 0);
  fill(l, "cold", 0);
  sql_run(l->db, "INSERT INTO cold(cold) VALUES('checkpoint')");
}

static void open_database(struct live *l) {
  l->db = sql_open(path("%s/guard.db", l->side->directory), l->side->extension);
  l->vectors = need(BATCH, DIM * sizeof(*l->vectors));
  for (size_t i = 0; i < BATCH; i++) {
    vector_fill(l->vectors + i * DIM, DIM, (int64_t)i + 1, 1);
  }
}

static void open_client(struct live *l) {
  open_database(l);
  trace_uniform(&l->uniform, TRACE, l->side->keys / BATCH * BATCH);
  l->get = sql_prepare(l->db, "SELECT emb_get('items', ?1)");
}

static void open_side(struct live *l) {
  size_t highest = l->side->keys / BATCH * BATCH;
  open_database(l);
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
  l->match = sql_prepare(l->db, "SELECT count(*) FROM items WHERE vector MATCH "
                                "?1 AND k = 10");
  l->select = sql_prepare(l->db, "SELECT vector FROM items WHERE key = ?1");
  l->update = sql_prepare(l->db, "UPDATE items SET vector = ?2 WHERE key = ?1");
  l->begin = sql_prepare(l->db, "BEGIN");
  l->commit = sql_prepare(l->db, "COMMIT");
}

static void close_side(struct live *l) {
  sqlite3_stmt *all[] = {l->get,    l->put,   l->apply, l->cold,  l->select,
                         l->update, l->match, l->begin, l->commit};
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

static double load(struct live *l, int is_random) {
  sql_run(l->db,
          "CREATE VIRTUAL TABLE loaded USING emb(vector FLOAT[64], "
          "memory=%lld)",
          2 * (long long)l->side->keys * ROW_BYTES + (256 << 20));
  double start = now();
  double rows = (double)fill(l, "loaded", is_random);
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

/* Each row is written about once: the first Put of a row after a checkpoint is
** another path than the next ones. */
static double first(struct live *l) {
  double spent = 0;
  size_t batches = l->side->keys / BATCH;
  sql_run(l->db, "INSERT INTO items(items) VALUES('checkpoint')");
  for (size_t b = 0; b < batches; b++) {
    const int64_t *keys = l->uniform.keys + b * BATCH % l->uniform.count;
    rename_all(l, keys);
    double start = now();
    step(l, GUARD_MIXED, keys);
    spent += now() - start;
  }
  return (double)(batches * BATCH) / spent;
}

/* Rows compared per second. */
static double match(struct live *l, double seconds) {
  size_t n = 0;
  double start = now(), spent = 0;
  for (; spent < seconds; spent = now() - start, n++) {
    sqlite3_bind_blob(l->match, 1, l->vectors, DIM * (int)sizeof(*l->vectors),
                      SQLITE_STATIC);
    if (!sql_step(l->match) || sqlite3_column_int(l->match, 0) != 10) {
      die("%s gave no neighbours", l->side->extension);
    }
    sqlite3_reset(l->match);
  }
  return (double)(n * l->side->keys) / spent;
}

static double of_client(struct live *l, double seconds) {
  struct order order = {.what = GUARD_GET, .seconds = seconds};
  return worker_ask(&l->client, &order).value[0];
}

/* Does the measurement fill memory that the process has not touched yet? */
static int takes_memory(int what) {
  return what == GUARD_LOAD || what == GUARD_RANDOM || what == GUARD_MIXED ||
         what == GUARD_FIRST || what == GUARD_APPLY || what == GUARD_UPDATE;
}

static double figure_of(struct live *l, const struct order *order) {
  if (takes_memory(order->what)) {
    touch_memory(l->side->keys * 2 * ROW_BYTES);
  }
  switch (order->what) {
  case GUARD_LOAD:
  case GUARD_RANDOM:
    return load(l, order->what == GUARD_RANDOM);
  case GUARD_FIRST:
    return first(l);
  case GUARD_MATCH:
    return match(l, order->seconds);
  case GUARD_CLIENT:
    return of_client(l, order->seconds);
  default:
    return measure(l, order->what, order->seconds);
  }
}

static void live_pinned(void *arg) {
  struct ends *ends = ((void **)arg)[0];
  struct live *l = ((void **)arg)[1];
  struct answer answer = {{0}};
  struct order order;
  worker_say(ends, &answer);
  while (worker_next(ends, &order)) {
    answer.value[0] = figure_of(l, &order);
    worker_say(ends, &answer);
  }
}

/* The child: opens the tables with its first order. */
static void live_client(struct ends *ends, void *side) {
  struct live l = {.side = side};
  struct answer answer = {{0}};
  struct order order;
  worker_say(ends, &answer);
  while (worker_next(ends, &order)) {
    if (!l.db) {
      open_client(&l);
    }
    answer.value[0] = measure(&l, order.what, order.seconds);
    worker_say(ends, &answer);
  }
  if (l.db) {
    close_side(&l);
  }
}

void guard_live(struct ends *ends, void *side) {
  struct live l = {.side = side};
  void *arg[] = {ends, &l};
  worker_start(&l.client, live_client, side);
  open_side(&l);
  run_pinned(live_pinned, arg);
  worker_end(&l.client);
  close_side(&l);
}
