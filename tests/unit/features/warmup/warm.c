/* SPDX-License-Identifier: MIT
**
** warm.c -- the warm-up after an open: it brings the right rows into memory and
** breaks nothing, and the file of the hot set is only advice.
*/
#include "engine/features/warmup/hot.h"
#include "engine/table/session/session.h"
#include "files.h"
#include "fork_help.h"
#include "store_help.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { DIM = 64, EXTENT_KEYS = 960, FRAME = 256 * 1024 };

struct table {
  emb_config config;
  emb_store *store;
  emb_session *s;
  int64_t n;       /* keys 0 .. */
  int32_t *values; /* of each; 0: it is absent */
};

static int open_table(struct table *t) {
  return help_open(help_path("store"), &t->config, &t->store, &t->s);
}

static int close_table(struct table *t) { return help_close(t->store, t->s); }

/* Puts keys from, from + step ... below end, not in key order. */
static int put(struct table *t, int64_t from, int64_t end, int64_t step,
               int32_t value) {
  enum { BATCH = 256 };
  int64_t keys[BATCH];
  static _Thread_local float vectors[BATCH * DIM];
  size_t m = 0;
  int good = 1;
  for (int64_t i = from; good && i < end; i += step) {
    keys[m] = i;
    help_vector(vectors + m * DIM, DIM, i, value);
    t->values[i] = value;
    if (++m == BATCH || i + step >= end) {
      good = OK(t->s, emb_put(t->s, keys, m, vectors, NULL));
      m = 0;
    }
  }
  return good;
}

/* Every key has its expected value. */
static int all_right(struct table *t) {
  enum { BATCH = 500 };
  int64_t keys[BATCH];
  uint8_t found[BATCH];
  static float vectors[BATCH * DIM];
  int good = 1;
  for (int64_t at = 0; good && at < t->n; at += BATCH) {
    size_t m = (size_t)(t->n - at < BATCH ? t->n - at : BATCH);
    for (size_t i = 0; i < m; i++)
      keys[i] = at + (int64_t)i;
    good = OK(t->s, emb_peek(t->s, keys, m, vectors, found, NULL));
    for (size_t i = 0; good && i < m; i++)
      good = CHECK_EQ_INT(found[i], t->values[keys[i]] != 0) &&
             (!found[i] ||
              CHECK_EQ_INT(help_value(vectors + i * DIM, DIM, keys[i]),
                           t->values[keys[i]]));
  }
  return good;
}

static const char *state(struct table *t) {
  emb_stat stats[128];
  size_t n = emb_stats(t->store, stats, 128);
  for (size_t i = 0; i < n; i++)
    if (strcmp(stats[i].name, "warm") == 0)
      return stats[i].text;
  return "no such metric";
}

static int64_t stat_of(struct table *t, const char *name) {
  return help_stat(t->store, name);
}

/* A new store of n keys with value 1 and this much memory, open. */
static int make_table(struct table *t, int64_t n, uint64_t frames,
                      uint32_t flags) {
  emb_err err;
  t->config = (emb_config){.dim = DIM,
                           .flags = EMB_OPEN_CREATE | flags,
                           .memory_bytes = frames * FRAME,
                           .timeout_ms = 10000};
  t->n = n;
  free(t->values);
  t->values = calloc((size_t)n, sizeof *t->values);
  (void)emb_destroy(help_path("store"), &err);
  return CHECK(t->values != NULL) && open_table(t) && put(t, 0, n, 1, 1);
}

static int reopen(struct table *t) { return close_table(t) && open_table(t); }

/* Runs background steps until the warm-up is over. */
static int step_through(struct table *t) {
  int more = 1;
  for (int i = 0; i < 100000 && strcmp(state(t), "running") == 0; i++)
    if (!CHECK_EQ_INT(emb_step(t->store, &more), EMB_OK))
      return 0;
  return CHECK(strcmp(state(t), "done") == 0);
}

/* Gets n keys from `from` on; returns how many came from disk. */
static int64_t from_disk(struct table *t, int64_t from, int64_t n,
                         int64_t stride) {
  float vector[DIM];
  int64_t before = stat_of(t, "get_disk");
  for (int64_t i = 0; i < n; i++) {
    int64_t key = from + i * stride;
    if (!OK(t->s, emb_get(t->s, &key, 1, vector, NULL, NULL)) ||
        !CHECK_EQ_INT(help_value(vector, DIM, key), t->values[key]))
      return n;
  }
  return stat_of(t, "get_disk") - before;
}

/* ---- a table that fits --------------------------------------------------- */

static void whole_table(uint32_t flags) {
  struct table t = {.n = 0};
  if (!make_table(&t, 20 * EXTENT_KEYS + 100, 64, flags) || !reopen(&t))
    return;
  if (flags & EMB_OPEN_STEP)
    step_through(&t);
  else
    OK(t.s, emb_warm(t.s));
  CHECK(strcmp(state(&t), "done") == 0);
  /* The last extent, which was not full, is a few records in the cache. */
  CHECK_EQ_INT(stat_of(&t, "rows_in_memory"), t.n);
  CHECK_EQ_INT(stat_of(&t, "warm_rows"), t.n);
  CHECK(stat_of(&t, "warm_bytes") >= 20 * FRAME);
  CHECK_EQ_INT(stat_of(&t, "warm_errors"), 0);
  CHECK_EQ_INT(stat_of(&t, "warm_damaged"), 0);
  CHECK(all_right(&t));
  CHECK_EQ_INT(stat_of(&t, "get_disk"), 0);
  CHECK_EQ_INT(stat_of(&t, "read_pages"), 0);
  CHECK_EQ_INT(stat_of(&t, "evictions"), 0);
  CHECK(access(help_path("store/" HOT_NAME), F_OK) != 0);
  /* Rows that the warm-up brought back can be written as before. */
  CHECK(put(&t, 0, t.n, 3, 2) && all_right(&t) && help_verify(t.s));
  CHECK(reopen(&t) && OK(t.s, emb_warm(t.s)) && all_right(&t));
  CHECK_EQ_INT(stat_of(&t, "get_disk"), 0);
  CHECK(close_table(&t));
  free(t.values);
}

TEST(warm_whole_table) { whole_table(0); }
TEST_OF_ONE_THREAD(warm_by_steps) { whole_table(EMB_OPEN_STEP); }

/* The warm-up begins without a call of emb_warm. */
TEST(warm_begins_by_itself) {
  struct table t = {.n = 0};
  if (!make_table(&t, 12 * EXTENT_KEYS, 64, 0) || !reopen(&t))
    return;
  for (int i = 0; i < 3000 && strcmp(state(&t), "done") != 0; i++)
    usleep(10000);
  CHECK(strcmp(state(&t), "done") == 0);
  CHECK_EQ_INT(stat_of(&t, "rows_in_memory"), t.n);
  /* Opening the store again in this process does not restart it. */
  int64_t bytes = stat_of(&t, "warm_bytes");
  emb_store *again;
  emb_session *s;
  if (help_open(help_path("store"), &t.config, &again, &s)) {
    CHECK(again == t.store);
    usleep(200000);
    CHECK_EQ_INT(stat_of(&t, "warm_bytes"), bytes);
    CHECK(help_close(again, s));
  }
  CHECK(close_table(&t));
  free(t.values);
}

/* More extents than frames, but half of their records are dead. */
TEST_OF_ONE_THREAD(warm_sparse_extents) {
  struct table t = {.n = 0};
  int64_t absent = 0;
  if (!make_table(&t, 20 * EXTENT_KEYS, 20, EMB_OPEN_STEP))
    return;
  for (int64_t i = 0; i < t.n; i++)
    if (test_random() % 100 < 42) {
      t.values[i] = 0;
      absent++;
      OK(t.s, emb_delete(t.s, &i, 1, NULL));
    }
  if (!reopen(&t))
    return;
  CHECK(stat_of(&t, "log_bytes") > 18 * FRAME);
  step_through(&t);
  CHECK_EQ_INT(stat_of(&t, "rows_in_memory"), t.n - absent);
  CHECK(stat_of(&t, "cache_records") > (t.n - absent) / 2);
  CHECK(all_right(&t));
  CHECK_EQ_INT(stat_of(&t, "get_disk"), 0);
  CHECK_EQ_INT(stat_of(&t, "cache_evicted"), 0);
  CHECK_EQ_INT(stat_of(&t, "evictions"), 0);
  CHECK(close_table(&t));
  free(t.values);
}

/* A process that was warm as a reader and then writes must give up the memory
** of the extents it had read in. */
TEST(warm_reader_becomes_owner) {
  struct table t = {.n = 0};
  if (!make_table(&t, 50 * EXTENT_KEYS, 56, 0) || !reopen(&t) ||
      !OK(t.s, emb_warm(t.s)))
    return;
  CHECK_EQ_INT(stat_of(&t, "owner"), 0);
  CHECK(stat_of(&t, "log_bytes_in_memory") >= 50 * FRAME);
  /* The old extents of the rows put have no live records any more.  Their
  ** memory is taken first, so the new rows stay. */
  CHECK(put(&t, 0, t.n / 2, 1, 2));
  CHECK(from_disk(&t, 0, t.n / 2, 1) < t.n / 20);
  for (int32_t round = 3; round < 6; round++)
    CHECK(put(&t, 0, t.n, 1, round));
  CHECK_EQ_INT(stat_of(&t, "owner"), 1);
  CHECK(all_right(&t) && help_verify(t.s) && close_table(&t));
  free(t.values);
}

TEST(warm_off) {
  struct table t = {.n = 0};
  if (!make_table(&t, 30 * EXTENT_KEYS, 16, EMB_OPEN_COLD) || !reopen(&t))
    return;
  CHECK(strcmp(state(&t), "off") == 0);
  CHECK(from_disk(&t, 0, 300, 7) > 0);
  usleep(150000);
  CHECK(strcmp(state(&t), "off") == 0);
  CHECK_EQ_INT(stat_of(&t, "warm_bytes"), 0);
  CHECK(reopen(&t));
  CHECK(access(help_path("store/" HOT_NAME), F_OK) != 0);
  /* A call of emb_warm runs the warm-up. */
  t.config.memory_bytes = 64 * FRAME;
  CHECK(reopen(&t) && OK(t.s, emb_warm(t.s)) && all_right(&t));
  CHECK_EQ_INT(stat_of(&t, "get_disk"), 0);
  CHECK(close_table(&t));
  t.config.flags = EMB_OPEN_TEMPORARY;
  if (help_open(test_dir(), &t.config, &t.store, &t.s)) {
    CHECK(strcmp(state(&t), "off") == 0);
    CHECK(put(&t, 0, t.n, 1, 3) && OK(t.s, emb_checkpoint(t.s)));
    CHECK(OK(t.s, emb_warm(t.s)) && all_right(&t) && close_table(&t));
  }
  free(t.values);
}

static int say_stop(void *calls) { return ++*(int *)calls > 0; }

TEST_OF_ONE_THREAD(warm_is_interrupted) {
  struct table t = {.n = 0};
  int calls = 0;
  if (!make_table(&t, 40 * EXTENT_KEYS, 64, EMB_OPEN_STEP) || !reopen(&t))
    return;
  emb_session_interrupt(t.s, say_stop, &calls);
  GIVES(t.s, EMB_INTERRUPT, emb_warm(t.s));
  CHECK_EQ_INT(calls, 1);
  emb_session_interrupt(t.s, NULL, NULL);
  CHECK(strcmp(state(&t), "running") == 0);
  CHECK(OK(t.s, emb_warm(t.s)) && close_table(&t));
  free(t.values);
}

/* ---- a table that does not fit ------------------------------------------- */

enum { HOT_KEYS = 2500, HOT_STRIDE = 37 };

/* A store of seven times its memory in which some keys are hot; closed. */
static int make_hot(struct table *t, uint32_t flags) {
  if (!make_table(t, 112 * EXTENT_KEYS, 16, flags) || !reopen(t))
    return 0;
  for (int i = 0; i < 12; i++)
    (void)from_disk(t, 5, HOT_KEYS, HOT_STRIDE);
  CHECK(from_disk(t, 5, HOT_KEYS, HOT_STRIDE) < HOT_KEYS / 20);
  return close_table(t);
}

static void is_hot(struct table *t) {
  int64_t evicted = stat_of(t, "cache_evicted");
  CHECK_EQ_INT(evicted, 0);
  CHECK_EQ_INT(stat_of(t, "evictions"), 0);
  CHECK_EQ_INT(stat_of(t, "warm_damaged"), 0);
  CHECK(stat_of(t, "rows_in_memory") >= HOT_KEYS * 9 / 10);
  CHECK(stat_of(t, "memory_bytes") <= 16 * FRAME);
  int64_t disk = from_disk(t, 5, HOT_KEYS, HOT_STRIDE);
  (void)test_check(disk < HOT_KEYS / 10, __FILE__, __LINE__,
                   "%d of %d hot keys were on disk", (int)disk, HOT_KEYS);
}

/* Closed by a process that never wrote, and by an owner. */
TEST_OF_ONE_THREAD(warm_hot_set_at_close) {
  struct table t = {.n = 0};
  if (!make_hot(&t, EMB_OPEN_STEP))
    return;
  CHECK(access(help_path("store/" HOT_NAME), F_OK) == 0);
  for (int round = 0; round < 4 && open_table(&t); round++) {
    step_through(&t);
    is_hot(&t);
    if (round == 1)
      CHECK(put(&t, 1000, 1010, 1, 2));
    CHECK(close_table(&t));
  }
  /* The hottest rows take half of the memory; other keys do no harm. */
  CHECK(open_table(&t) && OK(t.s, emb_warm(t.s)) && all_right(&t));
  CHECK(close_table(&t));
  free(t.values);
}

/* The store is copied after a checkpoint, as a kill would leave it. */
TEST_OF_ONE_THREAD(warm_hot_set_after_kill) {
  struct table t = {.n = 0};
  if (!make_hot(&t, EMB_OPEN_STEP) || !open_table(&t))
    return;
  CHECK(put(&t, 0, 200, 1, 2) && OK(t.s, emb_checkpoint(t.s)));
  CHECK(put(&t, 5, 5 + 20 * HOT_STRIDE, HOT_STRIDE, 3));
  for (int i = 0; i < 12; i++)
    (void)from_disk(&t, 5, HOT_KEYS, HOT_STRIDE);
  CHECK(put(&t, 0, 100, 1, 4) && OK(t.s, emb_checkpoint(t.s)));
  CHECK(files_copy_dir(help_path("copy"), help_path("store")));
  CHECK(put(&t, 0, 100, 1, 5) && close_table(&t));
  for (int i = 0; i < 100; i++)
    t.values[i] = 4;
  if (help_open(help_path("copy"), &t.config, &t.store, &t.s)) {
    step_through(&t);
    is_hot(&t);
    CHECK(all_right(&t) && help_verify(t.s) && close_table(&t));
  }
  free(t.values);
}

/* While hot rows are still being read in, few of them are in memory: a close
** then does not forget the rest.  A long-lived store forgets rows that are not
** hot any more. */
TEST_OF_ONE_THREAD(warm_keeps_hot_set) {
  struct table t = {.n = 0};
  int more;
  if (!make_hot(&t, EMB_OPEN_STEP))
    return;
  for (int i = 0; i < 5 && open_table(&t); i++) {
    for (int j = 0; j < i; j++)
      (void)emb_step(t.store, &more);
    CHECK(i % 2 || put(&t, i * 10, i * 10 + 5, 1, i + 2));
    CHECK(close_table(&t));
  }
  if (open_table(&t) && step_through(&t))
    is_hot(&t);
  for (int i = 0; i < 30; i++)
    (void)from_disk(&t, 11, HOT_KEYS, HOT_STRIDE);
  CHECK(reopen(&t) && step_through(&t));
  CHECK(from_disk(&t, 11, HOT_KEYS, HOT_STRIDE) < HOT_KEYS / 5);
  CHECK(close_table(&t));
  free(t.values);
}

/* ---- bad advice ---------------------------------------------------------- */

static struct file *hot_file(struct files *files) {
  struct file *file = files_read(files, help_path("store"))
                          ? files_find(files, HOT_NAME)
                          : NULL;
  return CHECK(file != NULL && file->size >= 2 * BLOCK_BYTES) ? file : NULL;
}

/* The store stays open, and each warm-up reads the file.  Damages all bytes of
** the heads and a sample of the rest; with LONG, every byte. */
TEST_OF_ONE_THREAD(warm_damaged_file) {
  struct table t = {.n = 0};
  struct files files = {.n = 0};
  struct file *file;
  uint64_t tried = 0;
  int good = 1;
  if (!make_hot(&t, EMB_OPEN_STEP) || (file = hot_file(&files)) == NULL ||
      !open_table(&t))
    return;
  size_t stride = help_long() > 1 ? 1 : 61 * help_share();
  for (size_t at = 0; good && at < file->size;
       at += at % BLOCK_BYTES < 96 ? 1 : 1 + test_random() % (2 * stride)) {
    int64_t damaged = stat_of(&t, "warm_damaged");
    char bit = (char)(1 << test_random() % 8);
    file->bytes[at] ^= bit;
    good = CHECK(files_write_byte(file, help_path("store"), at)) &&
           OK(t.s, emb_warm(t.s)) &&
           test_check(stat_of(&t, "warm_damaged") == damaged + 1, __FILE__,
                      __LINE__, "byte %zu: %d damages were counted", at,
                      (int)(stat_of(&t, "warm_damaged") - damaged));
    file->bytes[at] ^= bit;
    good = good && CHECK(files_write_byte(file, help_path("store"), at)) &&
           (++tried % 500 != 0 || all_right(&t));
  }
  test_count("bytes of a hot set changed", tried);
  CHECK_EQ_INT(stat_of(&t, "warm_errors"), 0);
  CHECK(all_right(&t) && close_table(&t));
  files_free(&files);
  free(t.values);
}

static uint64_t *block_words(struct file *file, size_t block) {
  return (uint64_t *)(void *)(file->bytes + block * BLOCK_BYTES + 16);
}

static void sign(struct table *t, struct file *file) {
  uint8_t uuid[16];
  emb_uuid(t->store, uuid);
  for (size_t block = 0; block < file->size / BLOCK_BYTES; block++) {
    char *bytes = file->bytes + block * BLOCK_BYTES;
    uint64_t sum = hash_sum(bytes + 8, BLOCK_BYTES - 8, hash_salt(uuid), block);
    memcpy(bytes, &sum, sizeof sum);
  }
}

/* A possible word of a forged hot set. */
static uint64_t any_word(void) {
  uint64_t r = test_random();
  switch (r % 8) {
  case 0:
    return test_random();
  case 1: /* an extent that may exist */
    return test_random() % 200;
  case 2:
    return test_random() % 200 | test_random() % 80 << HOT_WORDS_SHIFT;
  case 3:
    return test_random() % 200 | UINT64_C(30) << HOT_WORDS_SHIFT;
  case 4:
    return 0;
  case 5:
    return WORD_ADDRESS_MASK - test_random() % 3;
  default: /* a record that may exist, or of no slot */
    return (1 + test_random() % 3) << HOT_KIND_SHIFT |
           test_random() % (UINT64_C(130) << 10);
  }
}

/* Correct checksums over wrong words. */
TEST_OF_ONE_THREAD(warm_hostile_file) {
  struct table t = {.n = 0};
  struct files files = {.n = 0}, was = {.n = 0};
  struct file *file, *old;
  if (!make_hot(&t, EMB_OPEN_STEP) || (file = hot_file(&files)) == NULL ||
      !CHECK(files_copy(&was, &files)) ||
      (old = files_find(&was, HOT_NAME)) == NULL || !open_table(&t))
    return;
  for (unsigned i = 0; i < help_amount(60); i++) {
    struct hot_head *head = (struct hot_head *)(void *)block_words(file, 0);
    uint64_t n = test_random() % 400;
    memcpy(file->bytes, old->bytes, file->size);
    for (uint64_t j = 0; j < n; j++)
      block_words(file, 1)[test_random() % (i % 2 ? 400 : HOT_BLOCK_WORDS)] =
          any_word();
    if (test_random() % 3 == 0)
      head->extents = test_random() % 2 ? test_random() : 3;
    if (test_random() % 3 == 0)
      head->rows[test_random() % 3] = test_random() >> test_random() % 64;
    if (test_random() % 8 == 0)
      ((struct block *)(void *)(file->bytes + BLOCK_BYTES))->count =
          (uint32_t)test_random();
    sign(&t, file);
    if (!CHECK(files_write_one(file, help_path("store"))) ||
        (i % 4 == 0 && !CHECK(reopen(&t))) || !OK(t.s, emb_warm(t.s)) ||
        !all_right(&t))
      break;
  }
  CHECK(help_verify(t.s) && close_table(&t));
  files_free(&files);
  files_free(&was);
  free(t.values);
}

/* A file of another store, an outdated file, or a truncated one. */
TEST_OF_ONE_THREAD(warm_stale_file) {
  struct table t = {.n = 0};
  struct files files = {.n = 0};
  struct file *file;
  if (!make_hot(&t, EMB_OPEN_STEP) || (file = hot_file(&files)) == NULL)
    return;
  /* Every row has moved since. */
  CHECK(open_table(&t) && put(&t, 0, t.n, 1, 2) && OK(t.s, emb_optimize(t.s)));
  CHECK(close_table(&t) && files_write_one(file, help_path("store")));
  CHECK(open_table(&t) && step_through(&t));
  CHECK_EQ_INT(stat_of(&t, "warm_damaged"), 0);
  CHECK(all_right(&t) && close_table(&t));
  file->size -= BLOCK_BYTES;
  CHECK(files_write_one(file, help_path("store")));
  CHECK(open_table(&t) && step_through(&t));
  CHECK_EQ_INT(stat_of(&t, "warm_damaged"), 1);
  CHECK(all_right(&t) && close_table(&t));
  file->size += BLOCK_BYTES;
  if (make_hot(&t, EMB_OPEN_STEP)) {
    CHECK(files_write_one(file, help_path("store")));
    CHECK(open_table(&t) && step_through(&t));
    CHECK_EQ_INT(stat_of(&t, "warm_damaged"), 1);
    CHECK_EQ_INT(stat_of(&t, "warm_rows"), 0);
    CHECK(all_right(&t) && close_table(&t));
  }
  CHECK(unlink(help_path("store/" HOT_NAME)) == 0);
  CHECK(open_table(&t) && step_through(&t));
  CHECK_EQ_INT(stat_of(&t, "warm_damaged"), 0);
  CHECK(all_right(&t) && close_table(&t));
  files_free(&files);
  free(t.values);
}

/* The file is removed with the store, and so is one that a kill has left
** unfinished. */
TEST_OF_ONE_THREAD(warm_files_go) {
  struct table t = {.n = 0};
  emb_err err = {0, ""};
  char left[300];
  (void)snprintf(left, sizeof left, "%s/%s0123456789abcdef", help_path("store"),
                 HOT_NEW_PREFIX);
  if (!make_hot(&t, EMB_OPEN_STEP))
    return;
  FILE *f = fopen(left, "we");
  CHECK(f != NULL && fclose(f) == 0);
  CHECK(open_table(&t) && put(&t, 0, 1, 1, 2));
  CHECK(access(left, F_OK) != 0);
  CHECK(close_table(&t));
  CHECK(access(help_path("store/" HOT_NAME), F_OK) == 0);
  /* The table now fits into memory and needs no file. */
  t.config.memory_bytes = 200 * FRAME;
  CHECK(open_table(&t) && put(&t, 0, 1, 1, 3) && close_table(&t));
  CHECK(access(help_path("store/" HOT_NAME), F_OK) != 0);
  if (make_hot(&t, EMB_OPEN_STEP)) {
    f = fopen(left, "we");
    CHECK(f != NULL && fclose(f) == 0);
    CHECK_EQ_INT(emb_destroy(help_path("store"), &err), EMB_OK);
    CHECK(access(help_path("store"), F_OK) != 0);
  }
  free(t.values);
}

/* A damaged page of the log: its extent does not come back as a whole.  The
** rows of its other pages are warm, and its own rows give an error as before.
*/
TEST_OF_ONE_THREAD(warm_leaves_damage) {
  struct table t = {.n = 0};
  struct files files = {.n = 0};
  struct file_page *pages = calloc(4096, sizeof *pages);
  int64_t bad = 0;
  if (!CHECK(pages != NULL) ||
      !make_table(&t, 20 * EXTENT_KEYS, 64, EMB_OPEN_STEP))
    return;
  struct layout l = t.store->core.layout;
  uint64_t salt = t.store->core.salt;
  if (!close_table(&t) || !CHECK(files_read(&files, help_path("store"))))
    return;
  struct file *log = files_find(&files, "log");
  size_t n = files_pages(log, &l, salt, pages, 4096);
  struct file_page *page = &pages[n / 2];
  size_t at = page->offset + 100 + test_random() % 3000;
  log->bytes[at] ^= 4;
  CHECK(files_write_byte(log, help_path("store"), at));
  if (open_table(&t) && step_through(&t)) {
    CHECK_EQ_INT(stat_of(&t, "rows_in_memory"), t.n - page->count);
    for (int64_t key = 0; key < t.n; key++) {
      float vector[DIM];
      int rc = emb_get(t.s, &key, 1, vector, NULL, NULL);
      bad += rc != EMB_OK;
      if (!CHECK(rc == EMB_OK || rc == EMB_CORRUPT) ||
          (!rc && !CHECK_EQ_INT(help_value(vector, DIM, key), 1)))
        break;
    }
    CHECK_EQ_INT(bad, page->count);
    CHECK(close_table(&t));
  }
  files_free(&files);
  free(pages);
  free(t.values);
}

/* ---- with everything else ------------------------------------------------ */

struct crowd {
  struct table *t;
  _Atomic int over;
  _Atomic int failed;
  uint64_t seed;
};

struct member {
  struct crowd *c;
  pthread_t thread;
  int number; /* remainder of its keys */
  uint64_t random;
};

enum { WRITERS = 3 };

/* Puts, deletes and reads its own keys only, so it knows each value. */
static void *write_own(void *arg) {
  struct member *m = arg;
  struct table *t = m->c->t;
  emb_session *s;
  emb_err err;
  float vector[DIM];
  uint8_t found;
  if (!CHECK_EQ_INT(emb_session_open(t->store, &s, &err), EMB_OK))
    return NULL;
  while (!atomic_load(&m->c->over) && !atomic_load(&m->c->failed)) {
    uint64_t r = test_random_from(&m->random);
    int64_t key =
        (int64_t)(r % (uint64_t)(t->n / WRITERS)) * WRITERS + m->number;
    int32_t value = (int32_t)(r >> 40 & 1023) + 1;
    int good = 1;
    if (r >> 32 & 3) {
      good = OK(s, emb_get(s, &key, 1, vector, &found, NULL)) &&
             CHECK_EQ_INT(found, t->values[key] != 0) &&
             (!found ||
              CHECK_EQ_INT(help_value(vector, DIM, key), t->values[key]));
    } else if (r >> 34 & 3) {
      help_vector(vector, DIM, key, value);
      good = OK(s, emb_put(s, &key, 1, vector, NULL));
      t->values[key] = value;
    } else {
      good = OK(s, emb_delete(s, &key, 1, NULL));
      t->values[key] = 0;
    }
    if (!good)
      atomic_store(&m->c->failed, 1);
  }
  emb_session_close(s);
  return NULL;
}

static void *maintain(void *arg) {
  struct member *m = arg;
  struct table *t = m->c->t;
  emb_session *s;
  emb_err err;
  if (!CHECK_EQ_INT(emb_session_open(t->store, &s, &err), EMB_OK))
    return NULL;
  while (!atomic_load(&m->c->over)) {
    switch (test_random_from(&m->random) % 4) {
    case 0:
      OK(s, emb_optimize(s));
      break;
    case 1:
      OK(s, emb_checkpoint(s));
      break;
    default:
      OK(s, emb_warm(s));
    }
  }
  emb_session_close(s);
  return NULL;
}

static void crowd(uint64_t frames, unsigned rounds) {
  struct table t = {.n = 0};
  struct crowd c = {.t = &t};
  struct member members[WRITERS + 1];
  if (!make_table(&t, 30 * EXTENT_KEYS, frames, 0) || !close_table(&t))
    return;
  for (unsigned round = 0; round < rounds && !atomic_load(&c.failed); round++) {
    if (!open_table(&t))
      break;
    atomic_store(&c.over, 0);
    for (int i = 0; i <= WRITERS; i++) {
      members[i] = (struct member){&c, 0, i, test_random()};
      CHECK(pthread_create(&members[i].thread, NULL,
                           i < WRITERS ? write_own : maintain,
                           &members[i]) == 0);
    }
    usleep(60000 + (unsigned)(test_random() % 60000));
    atomic_store(&c.over, 1);
    for (int i = 0; i <= WRITERS; i++)
      (void)pthread_join(members[i].thread, NULL);
    if (round % 4 == 0)
      CHECK(all_right(&t) && help_verify(t.s));
    CHECK(close_table(&t));
  }
  CHECK(open_table(&t) && OK(t.s, emb_warm(t.s)) && all_right(&t) &&
        help_verify(t.s) && close_table(&t));
  free(t.values);
}

TEST(warm_beside_writers) { crowd(48, help_amount(12)); }
TEST(warm_beside_writers_large) { crowd(18, help_amount(12)); }

/* The child is closed or killed at any moment of the warm-up, even while it
** writes the file of the hot set. */
TEST(warm_is_cut_off) {
  struct table t = {.n = 0};
  unsigned kills = help_amount(30);
  if (!make_hot(&t, 0))
    return;
  for (unsigned i = 0; i < kills; i++) {
    pid_t child = test_fork();
    if (child == 0) {
      for (;;) {
        emb_err err;
        float vector[DIM];
        if (emb_open(help_path("store"), &t.config, &t.store, &err) ||
            emb_session_open(t.store, &t.s, &err))
          _exit(1);
        for (int64_t key = 0; key < 50; key++)
          (void)emb_get(t.s, &key, 1, vector, NULL, NULL);
        if (i % 2 && emb_warm(t.s))
          _exit(2);
        emb_session_close(t.s);
        if (emb_close(t.store, &err))
          _exit(3);
      }
    }
    int status = 0;
    usleep((unsigned)(test_random() % 40000));
    CHECK(child > 0 && kill(child, SIGKILL) == 0 &&
          waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    if (i % 5 == 4)
      CHECK(open_table(&t) && OK(t.s, emb_warm(t.s)) &&
            CHECK_EQ_INT(stat_of(&t, "warm_damaged"), 0) && all_right(&t) &&
            close_table(&t));
  }
  test_count("kills of a process that warms up", kills);
  free(t.values);
}

/* ---- another process owns the store -------------------------------------- */

/* For each value it reads from the pipe, puts the value to all keys, takes a
** checkpoint, and answers. */
static void own_and_write(struct table *t, int in, int out) {
  char value;
  emb_err err;
  if (emb_open(help_path("store"), &t->config, &t->store, &err) ||
      emb_session_open(t->store, &t->s, &err))
    _exit(1);
  while (read(in, &value, 1) == 1) {
    if (!put(t, 0, t->n, 1, value) || emb_checkpoint(t->s) ||
        write(out, &value, 1) != 1)
      _exit(2);
  }
  emb_session_close(t->s);
  _exit(emb_close(t->store, &err) ? 3 : 0);
}

TEST(warm_reader_of_an_owner) {
  struct table t = {.n = 0};
  int to[2], from[2], status = 0, more;
  if (!make_table(&t, 20 * EXTENT_KEYS, 80, EMB_OPEN_STEP) ||
      !close_table(&t) || !CHECK(pipe(to) == 0 && pipe(from) == 0))
    return;
  pid_t child = test_fork();
  if (child == 0) {
    (void)close(to[1]);
    (void)close(from[0]);
    own_and_write(&t, to[0], from[1]);
  }
  (void)close(to[0]);
  (void)close(from[1]);
  for (char value = 2; value < 6; value++) {
    char answer = 0;
    CHECK(write(to[1], &value, 1) == 1 && read(from[0], &answer, 1) == 1);
    for (int64_t i = 0; i < t.n; i++)
      t.values[i] = value;
    if (value == 2 && !open_table(&t))
      break;
    usleep(10000); /* a reader looks for a newer checkpoint now and then */
    CHECK(all_right(&t));
    CHECK(emb_step(t.store, &more) == EMB_OK);
    CHECK(OK(t.s, emb_warm(t.s)) && all_right(&t));
    CHECK_EQ_INT(stat_of(&t, "owner"), 0);
    CHECK(stat_of(&t, "rows_in_memory") == t.n);
  }
  (void)close(to[1]);
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) &&
        WEXITSTATUS(status) == 0);
  (void)close(from[0]);
  CHECK(all_right(&t) && OK(t.s, emb_warm(t.s)) && all_right(&t) &&
        close_table(&t));
  free(t.values);
}
