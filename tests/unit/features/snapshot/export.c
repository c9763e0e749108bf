/* SPDX-License-Identifier: MIT
**
** export.c -- snapshots as files: an export followed by a restore gives the
** exact state of the snapshot, whole or by increments; a file that cannot be
** restored leaves the receiver unchanged.
**
** Two stores are compared by their complete rows: vectors, optimizer state and
** tracked values.  SEED=n repeats a failure, LONG=n multiplies the number of
** rounds.
*/
#include "store_help.h"

#include <pthread.h>

#include "engine/storage/schema/form.h"
#include "engine/table/owner/registry.h"
#include "failing.h"

enum { DIM = 37, KEYS = 3000, BATCH = 64, STEPS = 6 };

struct table {
  char dir[400];
  emb_store *store;
  emb_session *s;
};

static struct table source, copy;
static emb_config config;
static char file[400];
static uint32_t step = EMB_OPEN_STEP; /* 0: with threads */

struct image { /* rows of a store, ordered by key */
  uint32_t n, bytes;
  char *rows; /* key, then bytes */
};

static int64_t key_of(uint32_t i) {
  return i % 3 ? (int64_t)i : (int64_t)(i * UINT64_C(0x9e3779b97f4a7c15));
}

/* ---- stores -------------------------------------------------------------- */

static int open_table(struct table *t, const char *name, const char *optimizer,
                      uint32_t track) {
  config = (emb_config){.dim = DIM,
                        .flags = EMB_OPEN_CREATE | step,
                        .memory_bytes = 1,
                        .io = EMB_IO_PREAD,
                        .timeout_ms = 100,
                        .optimizer = optimizer,
                        .track = track};
  snprintf(t->dir, sizeof t->dir, "%s/%s", test_dir(), name);
  snprintf(file, sizeof file, "%s/file", test_dir());
  return help_open(t->dir, &config, &t->store, &t->s);
}

static void close_table(struct table *t) { help_close(t->store, t->s); }

static void change(struct table *t, uint32_t calls) {
  static float rows[BATCH * DIM];
  int64_t keys[BATCH];
  for (uint32_t c = 0; c < calls; c++) {
    uint32_t n = 1 + test_below(BATCH - 1), first = test_below(KEYS);
    for (uint32_t i = 0; i < n; i++) {
      keys[i] = key_of((first + i * (1 + c % 7)) % KEYS);
      for (uint32_t k = 0; k < DIM; k++)
        rows[i * DIM + k] = (float)test_below(2000) / 1000 - 1;
    }
    uint32_t what = test_below(10);
    int more;
    if (what < 2)
      OK(t->s, emb_delete(t->s, keys, n, NULL));
    else if (what < 6 && config.optimizer)
      OK(t->s, emb_apply_gradients(t->s, keys, n, rows, NULL, NULL));
    else
      OK(t->s, emb_put(t->s, keys, n, rows, NULL));
    OK(NULL, emb_step(t->store, &more));
  }
}

/* ---- images -------------------------------------------------------------- */

static uint32_t row_bytes;

static int by_key(const void *a, const void *b) {
  int64_t x, y;
  memcpy(&x, a, 8);
  memcpy(&y, b, 8);
  return x < y ? -1 : x > y;
}

static void free_image(struct image *image) {
  free(image->rows);
  image->rows = NULL;
}

/* The rows of a file with a lossless encoding. */
static int read_image(const char *path, struct image *to) {
  struct pack_reader *r;
  const struct pack_row *row;
  emb_err err;
  memset(to, 0, sizeof *to);
  if (!CHECK_EQ_INT(pack_open(&env_posix, path, &r, &err), EMB_OK))
    return 0;
  to->bytes = pack_value_bytes(pack_reader_head(r));
  to->n = (uint32_t)pack_reader_end(r)->rows[PACK_PUT];
  row_bytes = to->bytes + 8;
  to->rows = malloc((size_t)row_bytes * (to->n + 1));
  for (uint32_t i = 0;; i++) {
    if (!CHECK_EQ_INT(pack_next(r, &row, &err), EMB_OK) || row == NULL)
      break;
    memcpy(to->rows + (size_t)row_bytes * i, &row->key, 8);
    memcpy(to->rows + (size_t)row_bytes * i + 8, row->value, to->bytes);
  }
  pack_close(r);
  qsort(to->rows, to->n, row_bytes, by_key);
  return 1;
}

/* The present rows of a store. */
static void take_image(struct table *t, struct image *to) {
  char path[400];
  uint64_t rows, bytes;
  snprintf(path, sizeof path, "%s/image", test_dir());
  OK(t->s, emb_snapshot(t->s, "image"));
  OK(t->s, emb_snapshot_export(t->s, "image", path, "level=0,index=0", &rows,
                               &bytes));
  OK(t->s, emb_snapshot_drop(t->s, "image"));
  read_image(path, to);
  CHECK_EQ_INT(rows, to->n);
  CHECK_EQ_INT(rows, emb_count(t->s));
  struct stat st;
  CHECK(stat(path, &st) == 0 && (uint64_t)st.st_size == bytes);
  CHECK(unlink(path) == 0);
}

static int same_image(const struct image *a, const struct image *b) {
  return a->n == b->n && a->bytes == b->bytes &&
         memcmp(a->rows, b->rows, (size_t)a->n * (a->bytes + 8)) == 0;
}

static void check_is(struct table *t, const struct image *want) {
  struct image is;
  take_image(t, &is);
  CHECK_EQ_INT(is.n, want->n);
  CHECK(same_image(&is, want));
  free_image(&is);
}

/* ---- whole and by increments --------------------------------------------- */

/* The model of a snapshot is the result of a plain scan of the table at that
** moment. */
static void check_scan(struct table *t, const struct image *image) {
  emb_scan *scan;
  int64_t keys[97];
  static float rows[97 * DIM];
  size_t n;
  uint32_t at = 0;
  OK(t->s, emb_scan_open(t->s, INT64_MIN, INT64_MAX, EMB_SCAN_ASC, &scan));
  do {
    if (!OK(t->s, emb_scan_next(scan, 97, keys, rows, NULL, &n)))
      break;
    for (size_t i = 0; i < n && at < image->n; i++, at++) {
      const char *row = image->rows + (size_t)at * (image->bytes + 8);
      CHECK(memcmp(row, &keys[i], 8) == 0 &&
            memcmp(row + 8, rows + i * DIM, DIM * 4) == 0);
    }
  } while (n > 0);
  CHECK_EQ_INT(at, image->n);
  emb_scan_close(scan);
}

static void run_chain(const char *optimizer, uint32_t track) {
  struct image images[STEPS];
  char names[STEPS][16], options[100];
  uint64_t restored = 0, rows;
  if (!open_table(&source, "source", optimizer, track))
    return;
  for (int i = 0; i < STEPS; i++) {
    change(&source, i ? 3 + test_below(20) : 120);
    if (test_below(3) == 0)
      OK(source.s, emb_optimize(source.s));
    snprintf(names[i], sizeof names[i], "s%d", i);
    OK(source.s, emb_snapshot(source.s, names[i]));
    take_image(&source, &images[i]);
    check_scan(&source, &images[i]);
  }
  change(&source, 30);
  if (!open_table(&copy, "copy", optimizer, track))
    return;
  change(&copy, 20);
  for (int round = 0; round < 6; round++) {
    int at = (int)test_below(STEPS), last = at;
    snprintf(options, sizeof options, "level=%u, index=%u", test_below(4),
             test_below(2));
    OK(source.s,
       emb_snapshot_export(source.s, names[at], file, options, NULL, NULL));
    OK(copy.s, emb_snapshot_restore(copy.s, file, &rows));
    CHECK_EQ_INT(rows, images[at].n);
    check_is(&copy, &images[at]);
    while ((at += 1 + (int)test_below(2)) < STEPS) {
      snprintf(options, sizeof options, "base=%s", names[last]);
      OK(source.s,
         emb_snapshot_export(source.s, names[at], file, options, NULL, NULL));
      OK(copy.s, emb_snapshot_restore(copy.s, file, NULL));
      if (test_below(3) == 0) /* a second restore changes nothing */
        OK(copy.s, emb_snapshot_restore(copy.s, file, NULL));
      check_is(&copy, &images[at]);
      if (test_below(3) == 0) {
        close_table(&copy);
        help_open(copy.dir, &config, &copy.store, &copy.s);
      }
      last = at;
      restored++;
    }
    restored++;
  }
  help_verify(copy.s);
  for (int i = 0; i < STEPS; i++)
    free_image(&images[i]);
  close_table(&copy);
  close_table(&source);
  test_count("files exported and restored", restored);
}

TEST(plain_vectors) { run_chain(NULL, EMB_TRACK_NONE); }
TEST(with_state) { run_chain("adam", EMB_TRACK_NONE); }
TEST(with_state_and_tracks) { run_chain("adagrad", EMB_TRACK_WALL); }

/* Without EMB_OPEN_STEP for emb_open: the writer has a thread and a queue, and
** the scan reads ahead. */
TEST(with_threads) {
  step = 0;
  run_chain("adagrad", EMB_TRACK_WALL);
  step = EMB_OPEN_STEP;
}

/* ---- with a concurrent writer -------------------------------------------- */

static _Atomic int stopping;
static uint64_t puts_beside;

static void *write_on(void *arg) {
  struct table *t = arg;
  emb_session *s;
  emb_err err;
  float rows[16 * DIM];
  int64_t keys[16];
  uint64_t random = 7;
  if (emb_session_open(t->store, &s, &err) != EMB_OK)
    return NULL;
  for (uint32_t n = 0; !atomic_load(&stopping); n++) {
    for (uint32_t i = 0; i < 16; i++) {
      keys[i] = key_of((uint32_t)(test_random_from(&random) % KEYS));
      help_vector(rows + i * DIM, DIM, keys[i], (int32_t)(n % 1000));
    }
    if (emb_put(s, keys, 16, rows, NULL) != EMB_OK ||
        (n % 500 == 499 && emb_optimize(s) != EMB_OK))
      break;
    puts_beside += 16;
  }
  emb_session_close(s);
  return NULL;
}

/* The file has the state of the snapshot, whatever is written, moved and
** compacted while it is made. */
TEST(beside_a_writer) {
  struct image want, is;
  pthread_t writer;
  uint64_t exports = 0;
  step = 0;
  if (!open_table(&source, "source", "adagrad", 0))
    return;
  step = EMB_OPEN_STEP;
  change(&source, 150);
  OK(source.s, emb_snapshot(source.s, "a"));
  OK(source.s, emb_snapshot_export(source.s, "a", file, NULL, NULL, NULL));
  read_image(file, &want);
  atomic_store(&stopping, 0);
  puts_beside = 0;
  if (!CHECK_EQ_INT(pthread_create(&writer, NULL, write_on, &source), 0))
    return;
  for (unsigned i = 0; i < help_amount(40); i++, exports++) {
    OK(source.s, emb_snapshot_export(source.s, "a", file, NULL, NULL, NULL));
    if (read_image(file, &is)) {
      CHECK(same_image(&is, &want));
      free_image(&is);
    }
    usleep(2000);
  }
  atomic_store(&stopping, 1);
  (void)pthread_join(writer, NULL);
  CHECK(puts_beside > 0);
  free_image(&want);
  close_table(&source);
  test_count("exports beside a writer", exports);
  test_count("puts beside exports", puts_beside);
}

/* ---- increments ---------------------------------------------------------- */

/* An increment of a few keys is short, and holds deletions. */
TEST(an_increment_holds_what_changed) {
  float row[DIM] = {1};
  uint64_t rows, whole, bytes;
  int64_t key = key_of(1), gone = key_of(2), none = 1 << 20;
  if (!open_table(&source, "source", NULL, 0))
    return;
  change(&source, 100);
  OK(source.s, emb_put(source.s, &gone, 1, row, NULL));
  OK(source.s, emb_snapshot(source.s, "a"));
  OK(source.s, emb_put(source.s, &key, 1, row, NULL));
  OK(source.s, emb_put(source.s, &none, 1, row, NULL));
  OK(source.s, emb_delete(source.s, &none, 1, NULL));
  OK(source.s, emb_delete(source.s, &gone, 1, NULL));
  OK(source.s, emb_optimize(source.s)); /* moves other rows */
  OK(source.s, emb_snapshot(source.s, "b"));
  OK(source.s, emb_snapshot_export(source.s, "b", file, NULL, &rows, &whole));
  CHECK_EQ_INT(rows, emb_count(source.s));
  OK(source.s,
     emb_snapshot_export(source.s, "b", file, "base=a", &rows, &bytes));
  CHECK_EQ_INT(rows, 2);
  CHECK(bytes < 6000 && bytes < whole / 10);
  GIVES(source.s, EMB_RANGE,
        emb_snapshot_export(source.s, "a", file, "base=b", NULL, NULL));
  OK(source.s, emb_snapshot_export(source.s, "b", file, "base=b", &rows, NULL));
  CHECK_EQ_INT(rows, 0);
  close_table(&source);
}

/* Rows that a transaction had written when the older snapshot was taken, and
** committed later, are below that snapshot's mark. */
TEST(an_increment_holds_what_was_open) {
  float row[DIM] = {1};
  uint64_t rows;
  int64_t keys[2] = {key_of(1), key_of(2)};
  emb_session *other;
  emb_err err;
  if (!open_table(&source, "source", NULL, 0))
    return;
  change(&source, 60);
  OK(source.s, emb_put(source.s, &keys[0], 1, row, NULL));
  OK(source.s, emb_delete(source.s, &keys[1], 1, NULL));
  CHECK_EQ_INT(emb_session_open(source.store, &other, &err), EMB_OK);
  OK(other, emb_begin(other));
  row[1] = 2;
  OK(other, emb_txn_put(other, &keys[0], 1, row));
  OK(other, emb_txn_put(other, &keys[1], 1, row));
  OK(source.s, emb_snapshot(source.s, "a"));
  OK(other, emb_commit(other));
  OK(source.s, emb_snapshot(source.s, "b"));
  OK(source.s, emb_snapshot_export(source.s, "b", file, "base=a", &rows, NULL));
  CHECK_EQ_INT(rows, 2);
  emb_session_close(other);
  close_table(&source);
}

/* ---- refused input ------------------------------------------------------- */

static void refused(int code, const char *path, const char *text,
                    const struct image *want) {
  GIVES(copy.s, code, emb_snapshot_restore(copy.s, path, NULL));
  test_check(strstr(emb_errmsg(copy.s), text) != NULL, __FILE__, __LINE__,
             "'%s' is not in: %s", text, emb_errmsg(copy.s));
  check_is(&copy, want);
}

TEST(what_does_not_fit_changes_nothing) {
  struct image want;
  char other[420], first[420];
  snprintf(other, sizeof other, "%s/other", test_dir());
  snprintf(first, sizeof first, "%s/first", test_dir());
  if (!open_table(&source, "source", "adagrad", 0))
    return;
  change(&source, 60);
  for (int i = 0; i < 3; i++) {
    char name[2] = {(char)('a' + i), 0};
    OK(source.s, emb_snapshot(source.s, name));
    change(&source, 5);
  }
  OK(source.s, emb_snapshot_export(source.s, "a", first, NULL, NULL, NULL));
  OK(source.s, emb_snapshot_export(source.s, "c", file, "base=b", NULL, NULL));
  open_table(&copy, "copy", "adagrad", 0);
  change(&copy, 20);
  take_image(&copy, &want);
  refused(EMB_GAP, file, "begins at 'b'", &want);
  OK(copy.s, emb_snapshot_restore(copy.s, first, NULL));
  free_image(&want);
  take_image(&copy, &want);
  refused(EMB_GAP, file, "table is at 'a'", &want);
  refused(EMB_CANTOPEN, other, "cannot open", &want);
  FILE *f = fopen(other, "wb");
  CHECK(f != NULL && fwrite("some other text", 1, 15, f) == 15);
  if (f != NULL)
    (void)fclose(f);
  refused(EMB_NOTADB, other, "not an emb file", &want);
  GIVES(source.s, EMB_CANTOPEN,
        emb_snapshot_export(source.s, "a", other, NULL, NULL, NULL));
  GIVES(source.s, EMB_RANGE,
        emb_snapshot_export(source.s, "none", file, NULL, NULL, NULL));
  GIVES(source.s, EMB_RANGE,
        emb_snapshot_export(source.s, "a", file, "levl=1", NULL, NULL));
  OK(copy.s, emb_begin(copy.s));
  GIVES(copy.s, EMB_LOCKED, emb_snapshot_restore(copy.s, first, NULL));
  emb_rollback(copy.s);
  /* with b in between it fits */
  OK(source.s, emb_snapshot_export(source.s, "b", first, "base=a", NULL, NULL));
  OK(copy.s, emb_snapshot_restore(copy.s, first, NULL));
  OK(copy.s, emb_snapshot_restore(copy.s, file, NULL));
  close_table(&copy);
  close_table(&source);
  free_image(&want);
}

static void count_chain(void *count, const char *line) {
  *(int *)count += strstr(line, "/chain is damaged") != NULL;
}

/* With a damaged chain it is unknown which increment fits; a whole snapshot
** always does. */
TEST(a_damaged_chain) {
  char first[420], path[420];
  emb_err err;
  snprintf(first, sizeof first, "%s/first", test_dir());
  open_table(&source, "source", NULL, 0);
  change(&source, 30);
  OK(source.s, emb_snapshot(source.s, "a"));
  change(&source, 5);
  OK(source.s, emb_snapshot(source.s, "b"));
  OK(source.s, emb_snapshot_export(source.s, "a", first, NULL, NULL, NULL));
  OK(source.s, emb_snapshot_export(source.s, "b", file, "base=a", NULL, NULL));
  open_table(&copy, "copy", NULL, 0);
  OK(copy.s, emb_snapshot_restore(copy.s, first, NULL));
  snprintf(path, sizeof path, "%s/chain", copy.dir);
  for (int i = 0; i < 256; i++) {
    int told = 0;
    FILE *f = fopen(path, "r+b");
    if (!CHECK(f != NULL) || fseek(f, i, SEEK_SET) != 0)
      return;
    int byte = fgetc(f);
    fseek(f, i, SEEK_SET);
    fputc(byte ^ 1 << test_below(8), f);
    fflush(f);
    GIVES(copy.s, EMB_CORRUPT, emb_snapshot_restore(copy.s, file, NULL));
    if (i % 16 == 0) {
      OK(copy.s, emb_verify(copy.s, count_chain, &told));
      CHECK_EQ_INT(told, 1);
    }
    fseek(f, i, SEEK_SET);
    fputc(byte, f);
    fclose(f);
  }
  CHECK_EQ_INT(truncate(path, 60), 0);
  GIVES(copy.s, EMB_CORRUPT, emb_snapshot_restore(copy.s, file, NULL));
  OK(copy.s, emb_snapshot_restore(copy.s, first, NULL));
  OK(copy.s, emb_snapshot_restore(copy.s, file, NULL));
  close_table(&copy);
  close_table(&source);
  CHECK_EQ_INT(emb_destroy(copy.dir, &err), EMB_OK);
  CHECK_EQ_INT(help_entries(copy.dir), -1);
  test_count("damaged bytes of a chain", 256);
}

/* Tables with other vectors, another optimizer, or none. */
TEST(tables_of_another_kind) {
  struct image want;
  open_table(&source, "source", "adagrad", 0);
  change(&source, 60);
  OK(source.s, emb_snapshot(source.s, "a"));
  OK(source.s, emb_snapshot_export(source.s, "a", file, NULL, NULL, NULL));
  open_table(&copy, "adam", "adam", 0);
  change(&copy, 10);
  take_image(&copy, &want);
  refused(EMB_MISMATCH, file, "adagrad", &want);
  OK(source.s, emb_snapshot_export(source.s, "a", file, "state=0,quantize=int8",
                                   NULL, NULL));
  OK(copy.s, emb_snapshot_restore(copy.s, file, NULL));
  CHECK_EQ_INT(emb_count(copy.s), emb_count(source.s));
  change(&copy, 10);
  close_table(&copy);
  free_image(&want);
  open_table(&copy, "serving", NULL, 0);
  OK(source.s, emb_snapshot_export(source.s, "a", file, NULL, NULL, NULL));
  OK(copy.s, emb_snapshot_restore(copy.s, file, NULL));
  for (uint32_t i = 0; i < KEYS; i += 7) {
    float a[DIM], b[DIM];
    uint8_t fa, fb;
    int64_t key = key_of(i);
    OK(source.s, emb_peek(source.s, &key, 1, a, &fa, NULL));
    OK(copy.s, emb_peek(copy.s, &key, 1, b, &fb, NULL));
    CHECK(fa == fb && memcmp(a, b, sizeof a) == 0);
  }
  close_table(&copy);
  config.dim = DIM + 1;
  config.optimizer = NULL;
  snprintf(copy.dir, sizeof copy.dir, "%s/wider", test_dir());
  help_open(copy.dir, &config, &copy.store, &copy.s);
  GIVES(copy.s, EMB_MISMATCH, emb_snapshot_restore(copy.s, file, NULL));
  CHECK(strstr(emb_errmsg(copy.s), "FLOAT[37]") != NULL);
  close_table(&copy);
  close_table(&source);
}

/* Bits of the file flip, or it is truncated: the table is unchanged. */
TEST(a_damaged_file_changes_nothing) {
  struct image want;
  uint64_t tried = 0;
  struct stat st;
  open_table(&source, "source", "adagrad", 0);
  change(&source, 60);
  OK(source.s, emb_snapshot(source.s, "a"));
  OK(source.s, emb_snapshot_export(source.s, "a", file, NULL, NULL, NULL));
  open_table(&copy, "copy", "adagrad", 0);
  change(&copy, 10);
  take_image(&copy, &want);
  CHECK_EQ_INT(stat(file, &st), 0);
  for (unsigned i = 0; i < help_amount(60); i++, tried++) {
    FILE *f = fopen(file, "r+b");
    long at = (long)(test_random() % (uint64_t)st.st_size);
    if (!CHECK(f != NULL) || fseek(f, at, SEEK_SET) != 0)
      return;
    int byte = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(byte ^ 1 << test_below(8), f);
    fflush(f);
    int rc = emb_snapshot_restore(copy.s, file, NULL);
    test_check(rc == EMB_CORRUPT || (at < 20 && rc == EMB_NOTADB), __FILE__,
               __LINE__, "byte %ld: %d", at, rc);
    fseek(f, at, SEEK_SET);
    fputc(byte, f);
    fclose(f);
    if (i % 10 == 0)
      check_is(&copy, &want);
  }
  for (unsigned i = 0; i < 20; i++, tried++) {
    CHECK_EQ_INT(truncate(file, st.st_size - 1 - (off_t)(i * i * 50)), 0);
    GIVES(copy.s, EMB_CORRUPT, emb_snapshot_restore(copy.s, file, NULL));
    OK(source.s, emb_snapshot_export(source.s, "a", file, NULL, NULL, NULL));
  }
  check_is(&copy, &want);
  OK(copy.s, emb_snapshot_restore(copy.s, file, NULL));
  free_image(&want);
  close_table(&copy);
  close_table(&source);
  test_count("damaged files refused", tried);
}
