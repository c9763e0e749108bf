/* SPDX-License-Identifier: MIT
**
** load.c -- filling an empty table, in key order and in random order with keys
** scattered over 62 bits; opening it again, after a clean close and after the
** process was killed; and the disk space it takes.
**
** A load is timed twice: until the last row is in, and until the store is
** closed and everything is on disk.  Each round begins with an empty directory.
** INSERT ... SELECT reads from a virtual table over an array in memory, so the
** figure is the cost of the table's write path.
*/
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "keys.h"
#include "sql.h"
#include "store.h"
#include "trivial.h"

enum { DIM = 64 };
#define LIVE_BYTES (8 + DIM * 4.0) /* key and vector */

struct loader {
  const char *name;
  const struct store_kind *kind; /* NULL: INSERT ... SELECT */
};

static const struct loader loaders[] = {
    {"emb C", &store_emb},       {"emb SQL", &store_emb_sql},
    {"emb INSERT SELECT", NULL}, {"LMDB", &store_lmdb},
    {"RocksDB", &store_rocksdb},
};
enum { LOADERS = sizeof(loaders) / sizeof(loaders[0]) };

struct task {
  const struct options *options;
  const struct store_kind *kind;
  void *session;
  sqlite3 *db;
  size_t keys;
  int scattered;
  double loaded;
};

static int64_t key_of(const struct task *task, size_t i) {
  return task->scattered ? hashed_key(i) : (int64_t)i + 1;
}

/* ---- ways to load -------------------------------------------------------- */

static void load_batches(void *arg) {
  struct task *task = arg;
  int64_t keys[BATCH];
  float *vectors = need(BATCH * DIM, sizeof(float));
  for (size_t i = 0; i < BATCH; i++) {
    vector_fill(vectors + i * DIM, DIM, 1, 1);
  }
  double start = now();
  for (size_t first = 0; first < task->keys; first += BATCH) {
    size_t n = task->keys - first < BATCH ? task->keys - first : BATCH;
    for (size_t i = 0; i < n; i++) {
      keys[i] = key_of(task, first + i);
      vector_rename(vectors + i * DIM, keys[i]);
    }
    task->kind->put(task->session, keys, n, vectors);
  }
  task->loaded = now() - start;
  free(vectors);
}

static void check_some(struct task *task) {
  int64_t keys[BATCH];
  uint64_t seed = 7;
  float *buffer = need(BATCH * DIM, sizeof(float));
  for (size_t i = 0; i < BATCH; i++) {
    keys[i] = key_of(task, random_next(&seed) % task->keys);
  }
  const float *vectors = task->kind->get(task->session, keys, BATCH, buffer);
  for (size_t i = 0; i < BATCH; i++) {
    vector_check(vectors + i * DIM, DIM, keys[i], task->kind->name);
  }
  free(buffer);
}

static void load_select(void *arg) {
  struct task *task = arg;
  double start = now();
  sql_run(task->db, task->scattered
                        ? "INSERT INTO items SELECT scattered(key), vector"
                          " FROM source"
                        : "INSERT INTO items SELECT key, vector FROM source");
  task->loaded = now() - start;
}

static void scattered(sqlite3_context *context, int n, sqlite3_value **args) {
  (void)n;
  sqlite3_result_int64(context,
                       hashed_key((uint64_t)sqlite3_value_int64(args[0]) - 1));
}

/* The source's vectors carry the position, not the scattered key. */
static void run_select(struct task *task, const char *directory, float *array) {
  task->db = sql_open(path("%s/emb.db", directory), task->options->extension);
  trivial_register(task->db, array, DIM, task->keys);
  sqlite3_create_function(task->db, "scattered", 1, SQLITE_UTF8, NULL,
                          scattered, NULL, NULL);
  sql_run(task->db, "PRAGMA journal_mode = WAL;"
                    "CREATE VIRTUAL TABLE temp.source USING trivial;"
                    "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[64],"
                    " memory='256MiB')");
  run_pinned(load_select, task);
  if (sql_number(task->db,
                 "SELECT rows FROM emb_tables WHERE name = 'items'") !=
          (sqlite3_int64)task->keys ||
      sql_number(task->db,
                 "SELECT count(*) FROM source JOIN items ON items.key = %s"
                 " WHERE source.key = 77 AND source.vector = items.vector",
                 task->scattered ? "scattered(source.key)" : "source.key") !=
          1) {
    die("INSERT ... SELECT did not insert all");
  }
}

/* Measures the seconds until all rows are in, and until all is closed. */
static void load(const struct options *options, const struct loader *loader,
                 size_t keys, int random, float *array, const char *directory,
                 double *loaded, double *closed) {
  struct task task = {.options = options,
                      .kind = loader->kind,
                      .keys = keys,
                      .scattered = random};
  remove_tree(directory);
  make_directory(directory);
  double start;
  touch_memory(keys * 2 * (size_t)LIVE_BYTES);
  if (!loader->kind) {
    run_select(&task, directory, array);
    start = now();
    sql_close(task.db);
  } else {
    struct store_options store = {
        .extension = options->extension, .dim = DIM, .keys = keys, .create = 1};
    if (loader->kind == &store_emb || loader->kind == &store_emb_sql) {
      store.budget_bytes = UINT64_C(256) << 20;
    }
    snprintf(store.directory, sizeof(store.directory), "%s", directory);
    void *handle = loader->kind->open(&store);
    task.session = loader->kind->session_open(handle);
    run_pinned(load_batches, &task);
    check_some(&task);
    start = now();
    loader->kind->session_close(task.session);
    loader->kind->close(handle);
  }
  *loaded = task.loaded;
  *closed = task.loaded + now() - start;
}

/* ---- opening and space --------------------------------------------------- */

static void *reopen(const struct loader *loader, const struct options *options,
                    size_t keys, const char *directory, double *took) {
  struct store_options store = {
      .extension = options->extension, .dim = DIM, .keys = keys};
  if (loader->kind == &store_emb) {
    store.budget_bytes = UINT64_C(256) << 20;
  }
  snprintf(store.directory, sizeof(store.directory), "%s", directory);
  forget_tree(directory);
  double start = now();
  void *handle = loader->kind->open(&store);
  *took = now() - start;
  return handle;
}

/* Puts random keys into a store until a count is reached, or without end. */
static void rewrite(const struct store_kind *kind, void *session, size_t keys,
                    size_t puts) {
  int64_t batch[BATCH];
  uint64_t seed = 99;
  float *vectors = need(BATCH * DIM, sizeof(float));
  for (size_t i = 0; i < BATCH; i++) {
    vector_fill(vectors + i * DIM, DIM, 1, 5);
  }
  for (size_t done = 0; done < puts; done += BATCH) {
    for (size_t i = 0; i < BATCH; i++) {
      batch[i] = (int64_t)(random_next(&seed) % keys) + 1;
      vector_rename(vectors + i * DIM, batch[i]);
    }
    kind->put(session, batch, BATCH, vectors);
  }
  free(vectors);
}

/* Runs a process that puts a quarter of the keys and is killed without
** warning. */
static void kill_writer(const struct loader *loader,
                        const struct options *options, size_t keys,
                        const char *directory) {
  int status;
  fflush(stdout);
  pid_t child = fork();
  if (child < 0) {
    die("no process");
  }
  if (!child) {
    double took;
    void *handle = reopen(loader, options, keys, directory, &took);
    void *session = loader->kind->session_open(handle);
    rewrite(loader->kind, session, keys, keys / 4);
    kill(getpid(), SIGKILL);
  }
  waitpid(child, &status, 0);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
    die("the process that was to be killed ended by itself");
  }
}

struct groups {
  struct group *clean, *killed, *space;
};

/* The emb-only part of a round: the store is loaded in key order. */
static void open_and_space(struct groups *g, const struct options *options,
                           const struct loader *loader, size_t keys,
                           const char *directory, int round) {
  double took, live = (double)keys * LIVE_BYTES;
  group_add(g->space, "emb C, loaded", round,
            (double)tree_bytes(directory) / live, NULL);
  void *handle = reopen(loader, options, keys, directory, &took);
  group_add(g->clean, "emb C", round, took, NULL);
  loader->kind->close(handle);
  kill_writer(loader, options, keys, directory);
  handle = reopen(loader, options, keys, directory, &took);
  group_add(g->killed, "emb C", round, took, NULL);
  void *session = loader->kind->session_open(handle);
  struct task task = {.kind = loader->kind, .session = session, .keys = keys};
  check_some(&task);
  rewrite(loader->kind, session, keys, keys * 3);
  nap(1.5); /* background work starts after a second without writes */
  settle();
  group_add(g->space, "emb C, rewritten, open", round,
            (double)tree_bytes(directory) / live, NULL);
  loader->kind->session_close(session);
  loader->kind->close(handle);
  group_add(g->space, "emb C, rewritten, closed", round,
            (double)tree_bytes(directory) / live, NULL);
}

void bench_load(const struct options *options) {
  size_t keys = options->keys    ? options->keys
                : options->quick ? 100000
                                 : 2000000;
  struct figure *figure = figure_new(
      options, "load", "Loading an empty table, opening it, disk space");
  figure_note(figure,
              "%zu keys, 64 floats, batches of 1,024; emb's budget"
              " 256 MiB",
              keys);
  figure_note(figure, "of emb's disk space, about 0.1 bytes per live byte are "
                      "reserved, so that rows can be deleted on a full disk");
  float *array = need_huge(keys * DIM * sizeof(float));
  for (size_t i = 0; i < keys; i++) {
    vector_fill(array + i * DIM, DIM, (int64_t)i + 1, 1);
  }
  struct groups g = {
      figure_group(figure, "open after a clean close", "s", NAN),
      figure_group(figure, "open after a kill", "s", NAN),
      figure_group(figure, "disk space", "bytes per live byte", NAN)};
  for (int random = 0; random < 2; random++) {
    const char *order = random ? "random order" : "key order";
    struct group *in =
        figure_group(figure, path("load, %s", order), "keys/s", NAN);
    struct group *down =
        figure_group(figure, path("load and close, %s", order), "keys/s", NAN);
    for (int round = 0; round < options->rounds; round++) {
      for (int i = 0; i < LOADERS; i++) {
        const struct loader *loader = &loaders[(i + round) % LOADERS];
        char directory[400];
        double loaded, closed;
        if (options->only && !strstr(loader->name, options->only)) {
          continue;
        }
        snprintf(directory, sizeof(directory), "%s/%s", options->data,
                 loader->name);
        load(options, loader, keys, random, array, directory, &loaded, &closed);
        group_add(in, loader->name, round, (double)keys / loaded, NULL);
        group_add(down, loader->name, round, (double)keys / closed, NULL);
        if (loader->kind == &store_emb && !random) {
          open_and_space(&g, options, loader, keys, directory, round);
        } else if (loader->kind && !random && loader->kind != &store_emb_sql) {
          double took;
          loader->kind->close(reopen(loader, options, keys, directory, &took));
          group_add(g.clean, loader->name, round, took, NULL);
          group_add(g.space, path("%s, loaded", loader->name), round,
                    (double)tree_bytes(directory) / ((double)keys * LIVE_BYTES),
                    NULL);
        }
        remove_tree(directory);
        settle();
      }
    }
    group_ratio(in, "emb C", "LMDB", AT_LEAST, 1);
    group_ratio(in, "emb C", "RocksDB", AT_LEAST, 0);
    group_ratio(down, "emb C", "LMDB", AT_LEAST, 0);
    group_ratio(down, "emb C", "RocksDB", AT_LEAST, 0);
  }
  group_bound(g.clean, "emb C", AT_MOST, 0.2);
  group_bound(g.space, "emb C, loaded", AT_MOST, 1.1);
  group_bound(g.space, "emb C, rewritten, open", AT_MOST, 2);
  group_bound(g.space, "emb C, rewritten, closed", AT_MOST, 2);
  drop_huge(array, keys * DIM * sizeof(float));
  figure_done(figure);
}
