/* SPDX-License-Identifier: MIT
**
** text.c -- the cost of text keys: emb_get of a batch by texts against one by
** integers, through SQL, all rows in memory.
**
** Two tables have the same vectors, one under integers and one under texts of 6
** to 12 bytes.  The same keys are requested as a BLOB, as a JSON array of
** integers, and as a JSON array of texts.  The texts' numbers
**
**   texts           are all in the connection's cache of the dictionary;
**   texts, first    are not yet cached: the connection has just been opened,
**   time            and requests all texts of the table, each once, in random
**                   order and batches of 1,024.  The figure is the mean from
**                   the first batch to the last, including the read-ahead;
**   texts, first    are not cached, and none is read ahead (ext/dict/ahead.c):
**   batch           each call is the first since the cache was emptied, outside
**                   the measured time, by counting a removal that did not
**                   happen (ext/dict/dict.h).
**
** The whole dictionary is in SQLite's page cache: a newly opened connection
** first reads the dictionary by SQL, outside the measured time.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "keys.h"
#include "sql.h"

enum { DIM = 64, LISTS = 256 };

enum kind { BLOB, INTEGERS, TEXTS, FIRST_TIME, FIRST_BATCH, KINDS };
static const char *const names[KINDS] = {"integers", "integers in JSON",
                                         "texts", "texts, first time",
                                         "texts, first batch"};

struct lists {
  const struct options *options;
  char path[4096];
  sqlite3 *db;
  sqlite3_stmt *get[KINDS], *forget;
  const int64_t *keys; /* LISTS batches */
  char *json[KINDS][LISTS];
  int64_t *order; /* all keys, in random order */
  size_t count;
  double seconds;
  struct figure *figure;
};

static void word_of(int64_t key, char word[32]) {
  snprintf(word, 32, "word%lld%s", (long long)key, key % 3 ? "" : "'s");
}

static void fill(struct lists *l, size_t keys) {
  sqlite3_stmt *items, *words;
  float vector[DIM];
  sql_run(l->db, "PRAGMA cache_size = -400000; PRAGMA synchronous = OFF;"
                 "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[64], "
                 "memory='2GB');"
                 "CREATE VIRTUAL TABLE words USING emb(word TEXT PRIMARY KEY, "
                 "vector FLOAT[64], memory='2GB'); BEGIN");
  items = sql_prepare(l->db, "INSERT INTO items VALUES(?1, ?2)");
  words = sql_prepare(l->db, "INSERT INTO words VALUES(?1, ?2)");
  for (size_t i = 1; i <= keys; i++) {
    char word[32];
    word_of((int64_t)i, word);
    vector_fill(vector, DIM, (int64_t)i, 1);
    sqlite3_bind_int64(items, 1, (sqlite3_int64)i);
    sqlite3_bind_blob(items, 2, vector, sizeof(vector), SQLITE_STATIC);
    sqlite3_bind_text(words, 1, word, -1, SQLITE_STATIC);
    sqlite3_bind_blob(words, 2, vector, sizeof(vector), SQLITE_STATIC);
    sql_do(items);
    sql_do(words);
  }
  sqlite3_finalize(items);
  sqlite3_finalize(words);
  sql_run(l->db, "COMMIT");
}

/* A JSON array of the texts of BATCH keys. */
static void texts_of(const int64_t *keys, char *to) {
  for (size_t i = 0; i < BATCH; i++) {
    char word[32];
    word_of(keys[i], word);
    to += sprintf(to, "%c\"%s\"", i ? ',' : '[', word);
  }
  strcpy(to, "]");
}

static void make_lists(struct lists *l) {
  for (size_t list = 0; list < LISTS; list++) {
    const int64_t *keys = l->keys + list * BATCH;
    char *integers = l->json[INTEGERS][list] = need(BATCH, 24);
    for (size_t i = 0; i < BATCH; i++) {
      integers +=
          sprintf(integers, "%c%lld", i ? ',' : '[', (long long)keys[i]);
    }
    strcpy(integers, "]");
    l->json[TEXTS][list] = need(BATCH, 36);
    texts_of(keys, l->json[TEXTS][list]);
    l->json[FIRST_BATCH][list] = l->json[TEXTS][list];
  }
}

/* All keys in random order. */
static void make_order(struct lists *l, size_t keys) {
  uint64_t random = 1;
  l->order = need(keys, sizeof *l->order);
  for (size_t i = 0; i < keys; i++) {
    size_t other = (size_t)(random_next(&random) % (i + 1));
    l->order[i] = l->order[other];
    l->order[other] = (int64_t)i + 1;
  }
  l->count = keys / BATCH * BATCH;
}

static void vectors_check(sqlite3_stmt *s, const int64_t *keys,
                          enum kind kind) {
  for (size_t i = 0; i < BATCH; i++) {
    vector_check((const float *)sqlite3_column_blob(s, 0) + i * DIM, DIM,
                 keys[i], names[kind]);
  }
}

static void get(struct lists *l, enum kind kind, size_t list, int check) {
  sqlite3_stmt *s = l->get[kind];
  const int64_t *keys = l->keys + list * BATCH;
  if (kind == BLOB) {
    sqlite3_bind_blob(s, 1, keys, BATCH * sizeof(*keys), SQLITE_STATIC);
  } else {
    sqlite3_bind_text(s, 1, l->json[kind][list], -1, SQLITE_STATIC);
  }
  sql_step(s);
  if (check) {
    vectors_check(s, keys, kind);
  }
  sqlite3_reset(s);
}

/* Keys per second. */
static double measure(struct lists *l, enum kind kind) {
  double sum = 0;
  size_t done = 0;
  for (size_t list = 0; list < LISTS; list++) {
    get(l, kind, list, list % 8 == 0); /* fills the caches */
  }
  while (sum < l->seconds) {
    if (kind == FIRST_BATCH) {
      sql_do(l->forget);
    }
    double start = now();
    get(l, kind, done % LISTS, 0);
    sum += now() - start;
    done++;
  }
  return (double)(done * BATCH) / sum;
}

/* Keys per second of newly opened connections. */
static double measure_first_time(struct lists *l) {
  char *json = need(BATCH, 36);
  double sum = 0;
  size_t done = 0;
  while (sum < l->seconds) {
    sqlite3 *db = sql_open(l->path, l->options->extension);
    sql_run(db, "PRAGMA cache_size = -400000");
    sql_number(db, "SELECT count(key) FROM words_keys WHERE key >= ''");
    sql_number(db, "SELECT sum(length(key)) FROM words_keys NOT INDEXED");
    sqlite3_stmt *s = sql_prepare(db, "SELECT emb_get('words', ?1)");
    sqlite3_bind_text(s, 1, "[]", -1, SQLITE_STATIC);
    sql_do(s); /* opens the table */
    for (size_t at = 0; at < l->count; at += BATCH) {
      texts_of(l->order + at, json);
      sqlite3_bind_text(s, 1, json, -1, SQLITE_STATIC);
      double start = now();
      sql_step(s);
      sum += now() - start;
      if (at / BATCH % 8 == 0) {
        vectors_check(s, l->order + at, FIRST_TIME);
      }
      sqlite3_reset(s);
    }
    done += l->count;
    sqlite3_finalize(s);
    sql_close(db);
  }
  free(json);
  return (double)done / sum;
}

static void work(void *arg) {
  struct lists *l = arg;
  struct group *group =
      figure_group(l->figure, "emb_get, batches of 1,024", "keys/s", NAN);
  for (int round = 0; round < l->options->rounds; round++) {
    for (int i = 0; i < KINDS; i++) {
      enum kind kind = (enum kind)((i + round) % KINDS);
      group_add(group, names[kind], round,
                kind == FIRST_TIME ? measure_first_time(l) : measure(l, kind),
                NULL);
    }
  }
  group_ratio(group, "texts", "integers", AT_LEAST, 0.5);
  group_ratio(group, "texts", "integers in JSON", AT_LEAST, 0);
  group_ratio(group, "texts, first time", "integers", AT_LEAST, 0.1);
  group_ratio(group, "texts, first batch", "integers", AT_LEAST, 0);
}

void bench_text(const struct options *options) {
  size_t keys = options->keys    ? options->keys
                : options->quick ? 100000
                                 : 1000000;
  struct trace trace;
  struct lists l = {.options = options,
                    .seconds = options->seconds > 0 ? options->seconds
                               : options->quick     ? 0.1
                                                    : 1};
  l.figure = figure_new(options, "text", "Text keys, all in memory");
  figure_note(l.figure, "%zu keys, 64 floats, one thread", keys);
  make_directory(options->data);
  (void)snprintf(l.path, sizeof l.path, "%s/text.db", options->data);
  l.db = sql_open(l.path, options->extension);
  fill(&l, keys);
  trace_uniform(&trace, LISTS * BATCH, keys);
  l.keys = trace.keys;
  make_lists(&l);
  make_order(&l, keys);
  for (int kind = 0; kind < KINDS; kind++) {
    l.get[kind] =
        sql_prepare(l.db, kind < TEXTS ? "SELECT emb_get('items', ?1)"
                                       : "SELECT emb_get('words', ?1)");
  }
  l.forget = sql_prepare(l.db, "UPDATE words_emb SET removals = removals + 1");
  run_pinned(work, &l);
  for (int kind = 0; kind < KINDS; kind++) {
    sqlite3_finalize(l.get[kind]);
  }
  sqlite3_finalize(l.forget);
  sql_close(l.db);
  for (size_t list = 0; list < LISTS; list++) {
    free(l.json[INTEGERS][list]);
    free(l.json[TEXTS][list]);
  }
  free(l.order);
  trace_free(&trace);
  figure_done(l.figure);
}
