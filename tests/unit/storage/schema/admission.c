/* SPDX-License-Identifier: MIT
**
** admission.c -- which new keys become rows: the counters alone, and in a
** store.
*/
#include "store_help.h"

#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "engine/base/hash.h"
#include "engine/storage/schema/admission.h"
#include "files.h"

enum { DIM = 4 };

static void start(struct admission *a, const char *text) {
  struct admission_rule rule;
  CHECK_EQ_INT(admission__parse(&rule, text, NULL), EMB_OK);
  CHECK_EQ_INT(admission_init(a, &env_posix, &rule), EMB_OK);
}

TEST(count_is_exact) {
  struct admission a;
  enum { KEYS = 1000, N = 5 };
  uint8_t times[KEYS] = {0};
  uint64_t random = 0, passed = 0;
  start(&a, "count(n=5, memory=65536)"); /* 1536 keys in a table */
  for (int i = 0; i < 20000; i++) {
    int key = (int)(test_random() % KEYS);
    uint32_t more = 1 + (uint32_t)(test_random() % 2);
    times[key] = (uint8_t)(times[key] + more > 200 ? 200 : times[key] + more);
    int pass = admission_pass(&a, hash_key(key), more, &random);
    CHECK_EQ_INT(pass, times[key] >= N);
    passed += (uint64_t)pass;
  }
  CHECK(passed > 0);
  admission_free(&a);
  test_count("keys counted", 20000);
}

/* Keys that come once are not admitted, however many keys come; keys that soon
** come again are admitted. */
static void check_window(const char *text, uint64_t wrong_most) {
  struct admission a;
  uint64_t random = 0, wrong = 0, missed = 0;
  int64_t total = 400000;
  start(&a, text);
  for (int64_t key = 0; key < total; key++) {
    wrong += (uint64_t)admission_pass(&a, hash_key(key), 1, &random);
    if (key % 100 == 0) {
      int64_t often = -1 - key / 100 % 10;
      missed += !admission_pass(&a, hash_key(often), 1, &random);
    }
  }
  test_check(wrong <= wrong_most, __FILE__, __LINE__,
             "%s: %llu of %lld keys that came once came in", text,
             (unsigned long long)wrong, (long long)total);
  test_check(missed < 200, __FILE__, __LINE__, "%s: %llu of %lld were missed",
             text, (unsigned long long)missed, (long long)total / 100);
  admission_free(&a);
}

TEST(count_slides) { check_window("count(n=3, memory=400000)", 0); }
TEST(bloom_slides) { check_window("bloom(n=3, memory=65536)", 4000); }

TEST(bloom_is_never_too_low) {
  struct admission a;
  uint64_t random = 0, early = 0;
  enum { KEYS = 6000 };
  start(&a, "bloom(n=4, memory=65536)"); /* room for 6553 in a table */
  for (int round = 1; round <= 4; round++)
    for (int64_t key = 0; key < KEYS; key++) {
      int pass = admission_pass(&a, hash_key(key), 1, &random);
      early += (uint64_t)(pass && round < 4);
      if (round == 4)
        CHECK(pass);
    }
  test_check(early < KEYS / 5, __FILE__, __LINE__, "%llu came in early",
             (unsigned long long)early);
  admission_free(&a);
  test_count("keys in a filter", KEYS);
}

/* 95 % are admitted within n, whether they come one by one or together. */
TEST(probability_is_equal) {
  struct admission a;
  uint64_t random = test_random(), one = 0, all = 0;
  enum { KEYS = 20000, N = 10 };
  start(&a, "probability(n=10)");
  for (int key = 0; key < KEYS; key++) {
    int in = 0;
    for (int i = 0; i < N && !in; i++)
      in = admission_pass(&a, hash_key(key), 1, &random);
    one += (uint64_t)in;
    all += (uint64_t)admission_pass(&a, hash_key(key), N, &random);
  }
  CHECK(fabs((double)one / KEYS - 0.95) < 0.012); /* 8 sigma */
  CHECK(fabs((double)all / KEYS - 0.95) < 0.012);
  admission_free(&a);
}

struct shared {
  struct admission a;
  _Atomic uint64_t passed;
};

static void *count_in_thread(void *arg) {
  struct shared *shared = arg;
  uint64_t random = 1;
  for (int round = 0; round < 2; round++)
    for (int64_t key = 0; key < 3000; key++)
      atomic_fetch_add(
          &shared->passed,
          (uint64_t)admission_pass(&shared->a, hash_key(key), 1, &random));
  return NULL;
}

/* Of n concurrent counts of a key, only counts at the same instant are lost. */
static void check_threads(const char *text) {
  struct shared shared = {.passed = 0};
  pthread_t threads[4];
  uint64_t random = 1, in = 0;
  start(&shared.a, text);
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, count_in_thread, &shared);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  for (int64_t key = 0; key < 3000; key++)
    in += (uint64_t)admission_pass(&shared.a, hash_key(key), 2, &random);
  CHECK(in > 2990);
  admission_free(&shared.a);
}

TEST(threads_count_exactly) { check_threads("count(n=8, memory=1000000)"); }
TEST(threads_share_cells) { check_threads("bloom(n=4, memory=1000000)"); }

/* ---- in a store ---------------------------------------------------------- */

static emb_config config(const char *admission, uint32_t insert_on) {
  return (emb_config){.dim = DIM,
                      .admission = admission,
                      .insert_on = insert_on,
                      .optimizer = "sgd(lr=1)",
                      .memory_bytes = 1,
                      .timeout_ms = 1000,
                      .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
}

TEST(a_store_lets_in_what_comes_again) {
  emb_config c = config("count(n=3)", 0);
  emb_store *store;
  emb_session *s;
  float g[4 * DIM];
  int64_t keys[4] = {1, 2, 2, 2}, put = 9, one = 1;
  uint8_t found[4];
  emb_track t[4];
  for (int i = 0; i < 4 * DIM; i++)
    g[i] = 1;
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  OK(s, emb_apply_gradients(s, keys, 4, g, NULL, &(emb_rows){.found = found}));
  OK(s, emb_tracks(s, keys, 4, t, found));
  CHECK_EQ_INT(found[0], 0);
  CHECK_EQ_INT(found[1], 1); /* three in one call; its gradient counts */
  CHECK_EQ_INT(t[1].frequency, 3);
  CHECK_EQ_INT(help_stat(store, "filtered_keys"), 1);
  CHECK_EQ_INT(help_stat(store, "filtered_updates"), 1);
  OK(s, emb_put(s, &put, 1, g, NULL)); /* explicitly */
  CHECK_EQ_INT(emb_count(s), 2);
  OK(s, emb_begin(s));
  OK(s, emb_txn_apply_gradients(s, &one, 1, g, NULL, found));
  CHECK_EQ_INT(emb_count(s), 2);
  OK(s, emb_txn_apply_gradients(s, &one, 1, g, NULL, found));
  CHECK_EQ_INT(emb_count(s), 3);
  OK(s, emb_commit(s));
  OK(s, emb_rmw(s, &one, 1, g, found, NULL));
  CHECK_EQ_INT(found[0], 1);
  OK(s, emb_tracks(s, &one, 1, t, NULL));
  CHECK_EQ_INT(t[0].frequency, 2); /* counted by the row */
  help_verify(s);
  help_close(store, s);
}

TEST(lookups_count_too) {
  const char *dir = help_path("store");
  emb_config c = config("bloom(n=2)", EMB_INSERT_ON_LOOKUP);
  emb_store *store;
  emb_session *s;
  float v[3 * DIM];
  int64_t keys[3] = {1, 2, 2};
  emb_track t;
  if (!help_open(dir, &c, &store, &s))
    return;
  OK(s, emb_get(s, keys, 3, v, NULL, NULL));
  CHECK_EQ_INT(emb_count(s), 1);
  OK(s, emb_peek(s, keys, 3, v, NULL, NULL));
  CHECK_EQ_INT(emb_count(s), 1);
  CHECK_EQ_INT(help_stat(store, "filtered_updates"), 0);
  help_close(store, s);
  /* The new process continues to count. */
  c.admission = NULL;
  if (!help_open(dir, &c, &store, &s))
    return;
  OK(s, emb_get(s, keys, 1, v, NULL, NULL));
  CHECK_EQ_INT(emb_count(s), 2);
  OK(s, emb_tracks(s, keys, 1, &t, NULL));
  CHECK_EQ_INT(t.frequency, 0);
  help_close(store, s);
  /* Another rule, or none. */
  c.admission = "none";
  keys[0] = 7;
  if (!help_open(dir, &c, &store, &s))
    return;
  OK(s, emb_get(s, keys, 1, v, NULL, NULL));
  CHECK_EQ_INT(emb_count(s), 3);
  help_close(store, s);
}

/* ---- the file of counts -------------------------------------------------- */

/* How many of the keys 0 to n - 1 are admitted after one more gradient. */
static int64_t let_in(emb_session *s, int n) {
  float g[DIM] = {1, 1, 1, 1};
  for (int64_t key = 0; key < n; key++)
    OK(s, emb_apply_gradients(s, &key, 1, g, NULL, NULL));
  return emb_count(s);
}

static void note_report(void *arg, const char *line) {
  (void)snprintf(arg, 300, "%s", line);
}

static void change_file(const char *path, long at, int flip) {
  FILE *file = fopen(path, "r+b");
  if (!CHECK(file != NULL))
    return;
  if (flip) {
    CHECK_EQ_INT(fseek(file, at, SEEK_SET), 0);
    int c = fgetc(file);
    CHECK_EQ_INT(fseek(file, at, SEEK_SET), 0);
    CHECK_EQ_INT(fputc(c ^ flip, file), c ^ flip);
  } else {
    CHECK_EQ_INT(ftruncate(fileno(file), at), 0);
  }
  CHECK_EQ_INT(fclose(file), 0);
}

/* The same keys come twice, and once more after the store is reopened.
** damage: what happens to the file. */
static void reopen(const char *rule, const char *damage, int kept) {
  enum { KEYS = 500 };
  char path[400], line[300] = "";
  emb_config c = config(rule, 0);
  emb_store *store;
  emb_session *s;
  emb_err err;
  (void)emb_destroy(help_path("store"), &err);
  (void)snprintf(path, sizeof path, "%s/admission", help_path("store"));
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  CHECK_EQ_INT(let_in(s, KEYS), 0);
  CHECK_EQ_INT(let_in(s, KEYS), 0);
  if (strcmp(damage, "crash") == 0) {
    OK(s, emb_checkpoint(s));
    CHECK(files_copy_dir(help_path("copy"), help_path("store")));
    help_close(store, s);
    (void)emb_destroy(help_path("store"), &err);
    CHECK(files_copy_dir(help_path("store"), help_path("copy")));
  } else {
    help_close(store, s);
  }
  if (strcmp(damage, "flip") == 0)
    change_file(path, (long)(test_random() % (3 * 65536)), 16);
  else if (strcmp(damage, "cut") == 0)
    change_file(path, 65536 + 100, 0);
  else if (strcmp(damage, "remove") == 0)
    CHECK_EQ_INT(unlink(path), 0);
  c.admission = NULL;
  c.flags = EMB_OPEN_STEP;
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  OK(s, emb_verify(s, note_report, line));
  int named = strstr(line, "/admission: block ") != NULL;
  CHECK_EQ_INT(named, !kept && strcmp(damage, "remove") != 0);
  int64_t came = let_in(s, KEYS);
  CHECK_EQ_INT(help_stat(store, "admission_damaged"), named);
  test_check(came == (kept ? KEYS : 0), __FILE__, __LINE__,
             "%s, %s: %d keys came in", rule, damage, (int)emb_count(s));
  help_close(store, s);
}

TEST(counts_are_kept) {
  static const char *const rules[] = {"count(n=3, memory=200000)",
                                      "bloom(n=3, memory=200000)"};
  for (int i = 0; i < 2; i++) {
    reopen(rules[i], "", 1);
    reopen(rules[i], "crash", 1);
    reopen(rules[i], "flip", 0);
    reopen(rules[i], "cut", 0);
    reopen(rules[i], "remove", 0);
  }
}

/* A search of a table without a free entry would never end, so the table is
** refused although its checksums are good. */
TEST(full_tables_are_refused) {
  struct admission a;
  uint64_t random = 0, pair[2] = {1, 1};
  start(&a, "count(n=3, memory=65536)");
  for (size_t at = 0; at < 2 * a.bytes / 16; at++)
    admission_load(&a, at, 1, pair);
  CHECK_EQ_INT(admission_resume(&a, 0, 0), 0);
  admission_clear(&a);
  CHECK_EQ_INT(admission_pass(&a, 1, 1, &random), 0);
  admission_free(&a);
}

TEST(texts) {
  static const char *const bad[] = {"",
                                    "some",
                                    "count(n=0)",
                                    "bloom(n=16)",
                                    "count(p=1)",
                                    "bloom(memory=1)",
                                    "probability(n=0.5)"};
  struct admission_rule rule;
  char text[ADMISSION_TEXT_MAX];
  CHECK_EQ_INT(admission__parse(&rule, "bloom", NULL), EMB_OK);
  admission_print(&rule, text, sizeof text);
  CHECK_STR(text, "bloom(n=3, memory=16000000)");
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    test_check(admission__parse(&rule, bad[i], NULL) == EMB_RANGE, __FILE__,
               __LINE__, "\"%s\" was accepted", bad[i]);
}
