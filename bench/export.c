/* SPDX-License-Identifier: MIT
**
** export.c -- speed of exporting a table to a file: the whole table, and only
** the changes.
**
** LIMIT   The speed of zstd on the same vectors, in planes and blocks as in the
**         file but in one thread and from memory; and the speed at which the
**         disk takes the compressed bytes.  The slower of the two is the limit.
** DELTA   One key in a hundred is put again, at random; the store has a quarter
**         of the table in memory.  The time includes the snapshot and its
**         export.
*/
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "../engine/emb.h"
#include "bench.h"
#include "keys.h"

enum { DIM = 64, BLOCK = 256 << 10, LEVEL = 1, PIECE = 4 << 20 };

struct table {
  size_t keys;
  float *rows; /* BATCH of them */
  emb_store *store;
  emb_session *s;
  char directory[512];
  uint64_t random;
  char *planes; /* of all vectors */
  struct group *group, *times;
};

static void check(emb_session *s, int rc) {
  if (rc) {
    die("emb: %s", emb_errmsg(s));
  }
}

/* Approximately normal, as trained vectors are. */
static float draw(uint64_t *random) {
  float sum = 0;
  for (int i = 0; i < 4; i++) {
    sum += (float)(random_next(random) >> 40) * 0x1p-24f;
  }
  return (sum - 2) * 0.1f;
}

static void draw_rows(struct table *t) {
  for (size_t i = 0; i < (size_t)BATCH * DIM; i++) {
    t->rows[i] = draw(&t->random);
  }
}

/* Puts all keys, or one in a hundred of them. */
static void put(struct table *t, size_t n, int all) {
  int64_t keys[BATCH];
  for (size_t at = 0; at < n; at += BATCH) {
    size_t m = n - at < BATCH ? n - at : BATCH;
    draw_rows(t);
    for (size_t i = 0; i < m; i++) {
      keys[i] = all ? (int64_t)(at + i + 1)
                    : (int64_t)(random_next(&t->random) % t->keys + 1);
    }
    check(t->s, emb_put(t->s, keys, m, t->rows, NULL));
  }
}

/* ---- the limits ---------------------------------------------------------- */

static void make_planes(struct table *t) {
  const size_t floats = BLOCK / sizeof(float);
  for (size_t at = 0; at < t->keys * DIM; at += floats) {
    size_t n = t->keys * DIM - at < floats ? t->keys * DIM - at : floats;
    char *to = t->planes + at * sizeof(float);
    for (size_t i = 0; i < n; i++) {
      float x = draw(&t->random);
      char bytes[sizeof(x)];
      memcpy(bytes, &x, sizeof(x));
      for (size_t b = 0; b < sizeof(x); b++) {
        to[b * n + i] = bytes[b];
      }
    }
  }
}

/* Returns seconds; *out: compressed bytes. */
static double compress_all(struct table *t, size_t *out) {
  size_t all = t->keys * DIM * sizeof(float), room = ZSTD_compressBound(BLOCK);
  char *to = need(room, 1);
  ZSTD_CCtx *context = ZSTD_createCCtx();
  *out = 0;
  double start = now();
  for (size_t at = 0; at < all; at += BLOCK) {
    size_t n = all - at < BLOCK ? all - at : BLOCK;
    size_t got = ZSTD_compressCCtx(context, to, room, t->planes + at, n, LEVEL);
    if (ZSTD_isError(got)) {
      die("zstd: %s", ZSTD_getErrorName(got));
    }
    *out += got < n ? got : n;
  }
  double time = now() - start;
  ZSTD_freeCCtx(context);
  free(to);
  return time;
}

/* Seconds to write `bytes` bytes in order, bypassing the page cache, and
** sync. */
static double write_all(const struct table *t, uint64_t bytes) {
  const char *name = path("%s/disk", t->directory);
  char *from = need_huge(PIECE);
  memset(from, 0x5a, PIECE);
  int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT, 0600);
  double start = now();
  for (uint64_t at = 0; at < bytes; at += PIECE) {
    if (file < 0 || pwrite(file, from, PIECE, (off_t)at) != PIECE) {
      die("cannot write %s", name);
    }
  }
  if (fdatasync(file)) {
    die("cannot sync %s", name);
  }
  double time = now() - start;
  close(file);
  unlink(name);
  drop_huge(from, PIECE);
  return time;
}

/* ---- one round ----------------------------------------------------------- */

static void measure(struct table *t, int round) {
  char whole[600], delta[600];
  size_t raw = t->keys * DIM * sizeof(float), stored;
  uint64_t rows, bytes;
  emb_delta_file about;
  (void)snprintf(whole, sizeof(whole), "%s/whole", t->directory);
  (void)snprintf(delta, sizeof(delta), "%s/delta", t->directory);
  check(t->s, emb_delta_begin(t->s, "bench", EMB_DELTA_NOW, 0));
  put(t, t->keys / 100, 0);
  check(t->s, emb_checkpoint(t->s));
  settle();

  double start = now();
  check(t->s, emb_delta_export(t->s, "bench", delta, NULL, &about));
  double changed = now() - start;
  check(t->s, emb_delta_ack(t->s, "bench", about.to));

  start = now();
  check(t->s, emb_snapshot(t->s, "bench"));
  double taking = now() - start;
  check(t->s,
        emb_snapshot_export(t->s, "bench", whole, "index=0", &rows, &bytes));
  double all = now() - start;
  check(t->s, emb_snapshot_drop(t->s, "bench"));
  if (rows != t->keys) {
    die("%llu rows were exported", (unsigned long long)rows);
  }

  double zstd = compress_all(t, &stored);
  double disk = write_all(t, bytes);
  double slower = zstd > disk ? zstd : disk;
  group_add(t->group, "export", round, (double)raw / (all - taking), NULL);
  group_add(t->group, "zstd", round, (double)raw / zstd, NULL);
  group_add(t->group, "disk", round, (double)raw / disk, NULL);
  group_add(t->group, "limit", round, (double)raw / slower, NULL);
  group_add(t->times, "all", round, all * 1e3, NULL);
  group_add(t->times, "1 % of the keys", round, changed * 1e3, NULL);
}

void bench_export(const struct options *options) {
  struct figure *figure =
      figure_new(options, "export", "Files: a snapshot, and a delta");
  struct table t = {.keys = options->keys    ? options->keys
                            : options->quick ? 200000
                                             : 2000000,
                    .random = 7};
  emb_err err;
  emb_config config = {.dim = DIM, .flags = EMB_OPEN_CREATE};
  config.memory_bytes = t.keys * DIM;
  (void)snprintf(t.directory, sizeof(t.directory), "%s/export", options->data);
  figure_note(figure,
              "files: %zu keys, 64 floats, a quarter of them in memory; zstd "
              "level %d; bytes are those of the vectors",
              t.keys, LEVEL);
  make_directory(options->data);
  remove_tree(t.directory);
  make_directory(t.directory);
  t.rows = need((size_t)BATCH * DIM, sizeof(float));
  t.planes = need_huge(t.keys * DIM * sizeof(float));
  make_planes(&t);
  if (emb_open(path("%s/store", t.directory), &config, &t.store, &err) ||
      emb_session_open(t.store, &t.s, &err)) {
    die("emb: %s", err.text);
  }
  put(&t, t.keys, 1);
  t.group = figure_group(figure, "a snapshot as a file", "bytes/s", NAN);
  t.times = figure_group(figure, "time of a file", "ms", NAN);
  for (int round = 0; round < options->rounds; round++) {
    measure(&t, round);
  }
  group_ratio(t.group, "export", "limit", AT_LEAST, 0.8);
  group_ratio(t.times, "1 % of the keys", "all", AT_MOST, 0.02);
  figure_done(figure);
  emb_session_close(t.s);
  if (emb_close(t.store, &err)) {
    die("emb: %s", err.text);
  }
  remove_tree(t.directory);
  drop_huge(t.planes, t.keys * DIM * sizeof(float));
  free(t.rows);
}
