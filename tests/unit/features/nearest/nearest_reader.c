/* SPDX-License-Identifier: MIT
**
** nearest_reader.c -- exact searches in a process that only reads.  Pages it
** has read stay in its memory, even while an owner takes checkpoints, and its
** answers are right.
*/
#include "engine/table/session/session.h"
#include "files.h"
#include "fork_help.h"
#include "store_help.h"

#include <sys/wait.h>

enum { DIM = 64, EXTENT_KEYS = 960, FRAME = 256 * 1024, K = 10 };
/* The table ends within an extent. */
enum { KEYS = 20 * EXTENT_KEYS + 333, CHANGED = 2 * EXTENT_KEYS };
enum { COLD = EMB_OPEN_COLD | EMB_OPEN_STEP };

struct table {
  emb_config config;
  emb_store *store;
  emb_session *s;
  int32_t values[KEYS + EXTENT_KEYS]; /* of each key; 0: it is absent */
};

/* Small whole numbers: squares and their sums are exact. */
static void row_vector(float *to, int64_t key, int32_t value) {
  uint64_t state = (uint64_t)key * 1000003 + (uint64_t)value;
  for (int i = 0; i < DIM; i++)
    to[i] = (float)((int)(test_random_from(&state) >> 40 & 31) - 16);
}

static int open_table(struct table *t) {
  return help_open(help_path("store"), &t->config, &t->store, &t->s);
}

static int put(struct table *t, int64_t from, int64_t end, int32_t value) {
  static float vectors[100 * DIM];
  int64_t keys[100];
  int good = 1;
  for (int64_t at = from; good && at < end;) {
    size_t n = 0;
    for (; n < 100 && at < end; n++, at++) {
      keys[n] = at;
      row_vector(vectors + n * DIM, at, value);
      t->values[at] = value;
    }
    good = OK(t->s, emb_put(t->s, keys, n, vectors, NULL));
  }
  return good;
}

/* A new store with value 1 in all keys, closed. */
static int make_table(struct table *t, uint64_t frames) {
  memset(t, 0, sizeof *t);
  t->config = (emb_config){.dim = DIM,
                           .flags = EMB_OPEN_CREATE | COLD,
                           .memory_bytes = frames * FRAME,
                           .timeout_ms = 10000};
  return open_table(t) && put(t, 0, KEYS, 1) && help_close(t->store, t->s);
}

static void nearest_by_hand(const struct table *t, const float *query,
                            int64_t *keys) {
  double squares[K];
  size_t n = 0;
  for (int64_t key = 0; key < KEYS + EXTENT_KEYS; key++) {
    float vector[DIM];
    double square = 0;
    size_t at;
    if (!t->values[key])
      continue;
    row_vector(vector, key, t->values[key]);
    for (int i = 0; i < DIM; i++)
      square += ((double)vector[i] - query[i]) * ((double)vector[i] - query[i]);
    if (n == K && square >= squares[K - 1])
      continue;
    at = n < K ? n++ : K - 1;
    for (; at && squares[at - 1] > square; at--) {
      squares[at] = squares[at - 1];
      keys[at] = keys[at - 1];
    }
    squares[at] = square;
    keys[at] = key;
  }
}

static int64_t bytes_read(const struct table *t) {
  return help_stat(t->store, "read_bytes");
}

/* Checks a search.  Returns the bytes that it read, or -1 if it is wrong. */
static int64_t search(struct table *t, int64_t like) {
  float query[DIM];
  int64_t keys[K] = {0}, want[K] = {0};
  double distances[K];
  size_t count = 0;
  emb_neighbours found = {keys, distances, &count, NULL, NULL};
  int64_t before = bytes_read(t);
  row_vector(query, like, 7);
  nearest_by_hand(t, query, want);
  if (!OK(t->s, emb_nearest(t->s, query, 1, K, NULL, &found)) ||
      !CHECK_EQ_INT(count, K) || !CHECK(memcmp(keys, want, sizeof keys) == 0))
    return -1;
  return bytes_read(t) - before;
}

/* A scan finds all rows.  Returns the bytes that it read, or -1. */
static int64_t scan(struct table *t) {
  enum { BATCH = 500 };
  static float vectors[BATCH * DIM];
  int64_t keys[BATCH], before = bytes_read(t), rows = 0, bad = 0, want = 0;
  size_t n = 1;
  emb_scan *scan;
  if (!OK(t->s, emb_scan_open(t->s, INT64_MIN, INT64_MAX, EMB_SCAN_ANY, &scan)))
    return -1;
  while (n && OK(t->s, emb_scan_next(scan, BATCH, keys, vectors, NULL, &n))) {
    for (size_t i = 0; i < n; i++) {
      float is[DIM];
      row_vector(is, keys[i], t->values[keys[i]]);
      bad += memcmp(is, vectors + i * DIM, sizeof is) != 0;
    }
    rows += (int64_t)n;
  }
  emb_scan_close(scan);
  for (int64_t i = 0; i < KEYS + EXTENT_KEYS; i++)
    want += t->values[i] != 0;
  return CHECK_EQ_INT(bad, 0) && CHECK_EQ_INT(rows, want)
             ? bytes_read(t) - before
             : -1;
}

TEST(reader_reads_once) {
  static struct table t;
  for (int first_scan = 0; first_scan < 2; first_scan++) {
    if (!make_table(&t, 64) || !open_table(&t))
      return;
    CHECK_EQ_INT(help_stat(t.store, "owner"), 0);
    int64_t read = first_scan ? scan(&t) : search(&t, 1);
    CHECK(read >= 21 * FRAME && read < 23 * FRAME);
    for (int i = 2; i < 5; i++)
      CHECK_EQ_INT(search(&t, i), 0);
    CHECK_EQ_INT(scan(&t), 0);
    CHECK(help_close(t.store, t.s));
    emb_err err;
    CHECK_EQ_INT(emb_destroy(help_path("store"), &err), EMB_OK);
  }
}

/* Extents that do not fit are read each time. */
TEST(reader_larger_than_memory) {
  static struct table t;
  if (!make_table(&t, 16) || !open_table(&t))
    return;
  for (int i = 0; i < 4; i++)
    CHECK(search(&t, i) > 4 * FRAME && scan(&t) > 4 * FRAME);
  CHECK(help_stat(t.store, "log_bytes_in_memory") <= 16 * FRAME);
  CHECK_EQ_INT(help_stat(t.store, "owner"), 0);
  CHECK(help_close(t.store, t.s));
}

/* The new owner continues the half-full extent in its memory. */
TEST(reader_becomes_owner) {
  static struct table t;
  if (!make_table(&t, 64) || !open_table(&t))
    return;
  CHECK(search(&t, 1) > 0);
  for (int64_t at = KEYS; at < KEYS + EXTENT_KEYS; at += 100) {
    int64_t end = at + 100 < KEYS + EXTENT_KEYS ? at + 100 : KEYS + EXTENT_KEYS;
    CHECK(put(&t, at, end, 3) && search(&t, at) == 0);
  }
  CHECK_EQ_INT(help_stat(t.store, "owner"), 1);
  CHECK_EQ_INT(scan(&t), 0);
  CHECK(OK(t.s, emb_checkpoint(t.s)) && help_close(t.store, t.s));
  if (open_table(&t)) {
    CHECK(search(&t, 5) > 0 && search(&t, 6) == 0 && scan(&t) == 0);
    CHECK(help_close(t.store, t.s));
  }
}

/* ---- another process owns the store -------------------------------------- */

/* For each value it reads from the pipe, changes the first rows and one of the
** last, takes a checkpoint, and answers. */
static void own_and_write(struct table *t, int in, int out) {
  char value;
  if (!open_table(t))
    _exit(1);
  while (read(in, &value, 1) == 1) {
    if (!put(t, 0, CHANGED, value) ||
        !put(t, KEYS + value, KEYS + value + 1, value) ||
        emb_checkpoint(t->s) || write(out, &value, 1) != 1)
      _exit(2);
  }
  _exit(help_close(t->store, t->s) ? 0 : 3);
}

TEST(reader_reads_what_changed) {
  static struct table t;
  int to[2], from[2], status = 0;
  if (!make_table(&t, 64) || !CHECK(pipe(to) == 0 && pipe(from) == 0))
    return;
  pid_t child = test_fork();
  if (child == 0) {
    (void)close(to[1]);
    (void)close(from[0]);
    own_and_write(&t, to[0], from[1]);
  }
  (void)close(to[0]);
  (void)close(from[1]);
  for (char value = 2; value < 9; value++) {
    char answer = 0;
    CHECK(write(to[1], &value, 1) == 1 && read(from[0], &answer, 1) == 1);
    for (int64_t i = 0; i < CHANGED; i++)
      t.values[i] = value;
    t.values[KEYS + value] = value;
    if (value == 2 && !open_table(&t))
      break;
    emb_look(t.store);
    int64_t read = search(&t, value);
    CHECK(value == 2 ? read > 18 * FRAME : read > 0);
    /* Two extents and a little, plus those in which they begin and end. */
    CHECK(value == 2 || read <= 5 * FRAME);
    CHECK_EQ_INT(search(&t, value + 100), 0);
    CHECK_EQ_INT(scan(&t), 0);
    CHECK_EQ_INT(help_stat(t.store, "owner"), 0);
  }
  (void)close(to[1]);
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) &&
        WEXITSTATUS(status) == 0);
  (void)close(from[0]);
  CHECK(search(&t, 1) >= 0 && scan(&t) >= 0 && help_close(t.store, t.s));
}

/* ---- damage -------------------------------------------------------------- */

/* An unusable page is never brought into memory. */
TEST(reader_finds_damage) {
  static struct table t;
  struct files files = {.n = 0};
  struct file_page *pages = calloc(4096, sizeof *pages);
  if (!CHECK(pages != NULL) || !make_table(&t, 64) || !open_table(&t))
    return;
  struct layout l = t.store->core.layout;
  uint64_t salt = t.store->core.salt;
  CHECK(help_close(t.store, t.s));
  if (!CHECK(files_read(&files, help_path("store"))))
    return;
  struct file *log = files_find(&files, "log");
  size_t n = files_pages(log, &l, salt, pages, 4096);
  /* A page in the middle, and the last page before the end. */
  for (int last = 0; last < 2; last++) {
    struct file_page *page = &pages[last ? n - 1 : n / 2];
    size_t at = page->offset + 100 + test_random() % 3000;
    log->bytes[at] ^= 4;
    CHECK(files_write_byte(log, help_path("store"), at));
    if (open_table(&t)) {
      for (int i = 0; i < 3; i++) {
        float query[DIM] = {0};
        int64_t keys[K];
        double distances[K];
        size_t count;
        emb_neighbours found = {keys, distances, &count, NULL, NULL};
        GIVES(t.s, EMB_CORRUPT, emb_nearest(t.s, query, 1, K, NULL, &found));
      }
      CHECK(help_close(t.store, t.s));
    }
    log->bytes[at] ^= 4;
    CHECK(files_write_byte(log, help_path("store"), at));
  }
  if (open_table(&t)) {
    CHECK(search(&t, 1) > 0 && search(&t, 2) == 0);
    CHECK(help_close(t.store, t.s));
  }
  files_free(&files);
  free(pages);
}
