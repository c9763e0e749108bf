/* SPDX-License-Identifier: MIT
**
** samples.c -- the module emb_samples: samples from files, read by 1, 4 and 16
** connections, and 1,024 random samples at a time, against reading the same
** bytes.
**
** IN ORDER  Eight files of records of 3,073 bytes, a label and an image, none
**           of it in the page cache.  "files": n threads, each of which reads
**           its share of each file in order, a megabyte at a time, as plain
**           programs do.  "direct" and "cached": n connections, each with the
**           samples of emb_samples_worker, payload and label, bypassing the
**           page cache and through it.
** RANDOM    "device": the blocks of 1,024 random records, submitted to an
**           io_uring, bypassing the page cache.  "direct": the same number of
**           random keys passed to emb_samples_get.  One thread.
*/
#include <fcntl.h>
#include <liburing.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "sql.h"

enum { FILES = 8, RECORD = 3073, PIECE = 1 << 20, KEYS = 1024, BLOCK = 4096 };
enum { THREADS_MAX = 16, DEPTH = 256 };
enum way { WAY_FILES, WAY_DIRECT, WAY_CACHED, WAYS };
static const char *const way_names[WAYS] = {"files", "direct", "cached"};

struct filed {
  const struct options *options;
  size_t records; /* per file */
  const char *db[WAYS];
  char names[FILES][256];
  enum way way;
  int threads;
};

struct reader {
  pthread_t thread;
  struct filed *f;
  int number;
  uint64_t bytes, sum;
};

static void filed_make(struct filed *f) {
  unsigned char *record = need(1, RECORD);
  for (int i = 0; i < FILES; i++) {
    (void)snprintf(f->names[i], sizeof f->names[i], "%s/part-%d.bin",
                   f->options->data, i);
    FILE *file = fopen(f->names[i], "w");
    if (!file) {
      die("cannot write %s", f->names[i]);
    }
    for (size_t r = 0; r < f->records; r++) {
      memset(record, (int)(r % 251), RECORD);
      record[0] = (unsigned char)(r % 10);
      fwrite(record, RECORD, 1, file);
    }
    if (fclose(file)) {
      die("cannot write %s", f->names[i]);
    }
  }
  free(record);
}

static void filed_register(struct filed *f, enum way way) {
  f->db[way] = strdup(path("%s/%s.db", f->options->data, way_names[way]));
  sqlite3 *db = sql_open(f->db[way], f->options->extension);
  sql_run(db,
          "CREATE VIRTUAL TABLE samples USING emb_samples(record=%d, "
          "label_offset=0, io=%s)",
          RECORD, way_names[way]);
  for (int i = 0; i < FILES; i++) {
    sql_run(db, "INSERT INTO samples(path) VALUES(%Q)", f->names[i]);
  }
  sql_close(db);
}

/* ---- in order ------------------------------------------------------------ */

static void read_share(struct reader *r, unsigned char *piece) {
  uint64_t all = (uint64_t)r->f->records * RECORD;
  uint64_t threads = (uint64_t)r->f->threads, number = (uint64_t)r->number;
  uint64_t from = all * number / threads, to = all * (number + 1) / threads;
  for (int i = 0; i < FILES; i++) {
    int fd = open(r->f->names[i], O_RDONLY);
    for (uint64_t at = from; at < to;) {
      size_t n = to - at < PIECE ? (size_t)(to - at) : PIECE;
      ssize_t got = pread(fd, piece, n, (off_t)at);
      if (got <= 0) {
        die("cannot read %s", r->f->names[i]);
      }
      for (ssize_t k = 0; k < got; k += BLOCK) {
        r->sum += piece[k];
      }
      at += (uint64_t)got;
      r->bytes += (uint64_t)got;
    }
    close(fd);
  }
}

static void select_share(struct reader *r) {
  sqlite3 *db = sql_open(r->f->db[r->f->way], r->f->options->extension);
  sqlite3_stmt *samples = sql_prepare(
      db, "SELECT payload, label FROM emb_samples_worker('samples', ?, ?)");
  sqlite3_bind_int(samples, 1, r->number);
  sqlite3_bind_int(samples, 2, r->f->threads);
  while (sql_step(samples)) {
    const unsigned char *payload = sqlite3_column_blob(samples, 0);
    r->sum += payload[7];
    r->bytes += (uint64_t)sqlite3_column_bytes(samples, 0) + 1;
    r->sum += (uint64_t)sqlite3_column_int(samples, 1);
  }
  sqlite3_finalize(samples);
  sql_close(db);
}

static void *reader_run(void *arg) {
  struct reader *r = arg;
  if (r->f->way == WAY_FILES) {
    unsigned char *piece = need(1, PIECE);
    read_share(r, piece);
    free(piece);
  } else {
    select_share(r);
  }
  return NULL;
}

/* Bytes per second, including the start of threads and connections. */
static double filed_measure(struct filed *f, enum way way, int threads) {
  struct reader readers[THREADS_MAX];
  uint64_t bytes = 0;
  f->way = way;
  f->threads = threads;
  forget_tree(f->options->data);
  double start = now();
  for (int i = 0; i < threads; i++) {
    readers[i] = (struct reader){.f = f, .number = i};
    if (pthread_create(&readers[i].thread, NULL, reader_run, &readers[i])) {
      die("no threads");
    }
  }
  for (int i = 0; i < threads; i++) {
    pthread_join(readers[i].thread, NULL);
    bytes += readers[i].bytes;
  }
  double end = now();
  if (bytes != (uint64_t)f->records * RECORD * FILES) {
    die("%s read %llu bytes", way_names[way], (unsigned long long)bytes);
  }
  return (double)bytes / (end - start);
}

static void filed_compare(struct filed *f, struct figure *figure) {
  static const struct {
    int threads;
    double target;
    const char *name;
  } crowds[] = {{1, 0.92, "in order, 1 connection"},
                {4, 0.90, "in order, 4 connections"},
                {16, 0.87, "in order, 16 connections"}};
  for (size_t c = 0; c < sizeof crowds / sizeof crowds[0]; c++) {
    struct group *group = figure_group(figure, crowds[c].name, "bytes/s", NAN);
    for (int round = 0; round < f->options->rounds; round++) {
      for (int i = 0; i < WAYS; i++) {
        enum way way = (enum way)((i + round) % WAYS);
        double cpu = cpu_of_process(), start = now();
        double value = filed_measure(f, way, crowds[c].threads);
        struct usage usage = {.cores =
                                  (cpu_of_process() - cpu) / (now() - start)};
        group_add(group, way_names[way], round, value, &usage);
      }
    }
    group_ratio(group, "direct", "files", AT_LEAST, crowds[c].target);
    group_ratio(group, "cached", "files", AT_LEAST, 0);
  }
}

/* ---- random -------------------------------------------------------------- */

struct asked {
  struct filed *f;
  int64_t keys[KEYS];
  int fds[FILES];
  struct io_uring ring;
  unsigned char *memory; /* two blocks per key */
  sqlite3 *db;
  sqlite3_stmt *get;
  uint64_t state;
};

static void asked_draw(struct asked *a) {
  for (int i = 0; i < KEYS; i++) {
    a->state = a->state * UINT64_C(6364136223846793005) +
               UINT64_C(1442695040888963407);
    a->keys[i] = (int64_t)((a->state >> 20) % (a->f->records * FILES)) + 1;
  }
}

static void asked_device(struct asked *a) {
  int started = 0, done = 0;
  while (done < KEYS) {
    struct io_uring_cqe *cqe;
    while (started < KEYS && started - done < DEPTH) {
      struct io_uring_sqe *sqe = io_uring_get_sqe(&a->ring);
      size_t at = (size_t)(a->keys[started] - 1);
      uint64_t offset = at % a->f->records * RECORD;
      uint64_t from = offset / BLOCK * BLOCK;
      uint64_t to = (offset + RECORD + BLOCK - 1) / BLOCK * BLOCK;
      io_uring_prep_read(sqe, a->fds[at / a->f->records],
                         a->memory + (size_t)started * 2 * BLOCK,
                         (unsigned)(to - from), from);
      started++;
    }
    io_uring_submit_and_wait(&a->ring, 1);
    while (io_uring_peek_cqe(&a->ring, &cqe) == 0) {
      if (cqe->res <= 0) {
        die("the device: %s", strerror(-cqe->res));
      }
      io_uring_cqe_seen(&a->ring, cqe);
      done++;
    }
  }
}

static void asked_sql(struct asked *a) {
  int n = 0;
  sqlite3_reset(a->get);
  sqlite3_bind_blob(a->get, 1, a->keys, sizeof a->keys, SQLITE_STATIC);
  while (sql_step(a->get)) {
    if (sqlite3_column_bytes(a->get, 0) != RECORD - 1) {
      die("a sample has %d bytes", sqlite3_column_bytes(a->get, 0));
    }
    n++;
  }
  if (n != KEYS) {
    die("%d samples", n);
  }
}

/* Keys per second. */
static double asked_measure(struct asked *a, int is_sql, double seconds) {
  size_t batches = 0;
  double start = now(), time;
  do {
    asked_draw(a);
    if (is_sql) {
      asked_sql(a);
    } else {
      asked_device(a);
    }
    batches++;
    time = now();
  } while (time < start + seconds);
  return (double)batches * KEYS / (time - start);
}

static void asked_compare(struct filed *f, struct figure *figure) {
  struct asked a = {.f = f, .state = 1};
  struct group *group =
      figure_group(figure, "1,024 random keys", "keys/s", NAN);
  double seconds = f->options->seconds > 0 ? f->options->seconds
                   : f->options->quick     ? 0.3
                                           : 2;
  a.memory = need_huge((size_t)KEYS * 2 * BLOCK);
  if (io_uring_queue_init(DEPTH, &a.ring, 0)) {
    die("no io_uring");
  }
  for (int i = 0; i < FILES; i++) {
    a.fds[i] = open(f->names[i], O_RDONLY | O_DIRECT);
  }
  a.db = sql_open(f->db[WAY_DIRECT], f->options->extension);
  a.get =
      sql_prepare(a.db, "SELECT payload, label FROM emb_samples_get('samples', "
                        "?)");
  for (int round = 0; round < f->options->rounds; round++) {
    for (int i = 0; i < 2; i++) {
      int is_sql = (i + round) % 2;
      forget_tree(f->options->data);
      group_add(group, is_sql ? "direct" : "device", round,
                asked_measure(&a, is_sql, seconds), NULL);
    }
  }
  group_ratio(group, "direct", "device", AT_LEAST, 0.8);
  sqlite3_finalize(a.get);
  sql_close(a.db);
  for (int i = 0; i < FILES; i++) {
    close(a.fds[i]);
  }
  io_uring_queue_exit(&a.ring);
}

void bench_samples(const struct options *options) {
  struct filed f = {.options = options,
                    .records = (options->keys    ? options->keys
                                : options->quick ? 80000
                                                 : 640000) /
                               FILES};
  struct figure *figure =
      figure_new(options, "samples", "Samples in files, read through SQL");
  figure_note(figure, "%d files of %zu records of %d bytes", FILES, f.records,
              RECORD);
  make_directory(options->data);
  filed_make(&f);
  filed_register(&f, WAY_DIRECT);
  filed_register(&f, WAY_CACHED);
  filed_compare(&f, figure);
  asked_compare(&f, figure);
  figure_done(figure);
}
