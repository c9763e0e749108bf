/* SPDX-License-Identifier: MIT
**
** nearest_saved.c -- the file of a neighbour index.  The index loaded from it
** answers like the saved one, whatever has happened to the table since; an
** unusable file is treated like a missing one.
*/
#include "near_help.h"
#include "files.h"

#include "engine/features/nearest/index.h"

#include <sys/stat.h>
#include <unistd.h>

enum { KEYS = 3000 };
static struct near model;

static const char *saved_path(const char *dir) {
  static char path[1000];
  (void)snprintf(path, sizeof path, "%s/nearest", dir);
  return path;
}

/* A table whose index is built and saved. */
static int make(const char *dir, const char *index, emb_store **store,
                emb_session **s) {
  memset(&model, 0, sizeof model);
  if (!near_open(dir, index, 0, store, s) ||
      !near_put(*s, &model, 0, KEYS, 1) || !near_settle(*store) ||
      !OK(*s, emb_checkpoint(*s)))
    return 0;
  for (int i = 0, more; i < 1000 && !help_stat(*store, "nearest_saved"); i++)
    CHECK_EQ_INT(emb_step(*store, &more), EMB_OK);
  return CHECK_STR(help_stat_text(*store, "nearest_file"), "saved");
}

/* Copies the files as they would be after the owner died. */
static int copy_store(const char *from, const char *to) {
  char command[2200];
  (void)snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s'", to,
                 from, to);
  return CHECK_EQ_INT(system(command), 0);
}

static int reopen(const char *dir, int made, const char *file,
                  emb_store **store, emb_session **s) {
  int good = near_open(dir, NULL, 0, store, s) && near_settle(*store);
  return good && CHECK_EQ_INT(help_stat(*store, "nearest_made"), made) &&
         CHECK_STR(help_stat_text(*store, "nearest_file"), file);
}

/* ---- the same again ------------------------------------------------------ */

enum { ASKED = 100 };
struct answers {
  int64_t keys[ASKED * NEAR_K];
  double distances[ASKED * NEAR_K];
};

static void answer(emb_session *s, struct answers *to) {
  static float queries[ASKED * NEAR_DIM];
  static size_t counts[ASKED];
  for (int64_t i = 0; i < ASKED; i++)
    near_vector(queries + i * NEAR_DIM, 500000 + i, 1);
  OK(s, emb_nearest(
            s, queries, ASKED, NEAR_K, &(emb_nearest_how){.probes = 10},
            &(emb_neighbours){to->keys, to->distances, counts, NULL, NULL}));
}

static void same_after(const char *index) {
  static struct answers before, after;
  emb_store *store;
  emb_session *s;
  if (!make(help_path("s"), index, &store, &s))
    return;
  answer(s, &before);
  help_close(store, s);
  if (!reopen(help_path("s"), 0, "loaded", &store, &s))
    return;
  CHECK_EQ_INT(help_stat(store, "nearest_rows"), KEYS);
  answer(s, &after);
  CHECK(memcmp(&before, &after, sizeof before) == 0);
  CHECK_EQ_INT(help_stat(store, "nearest_queries"), ASKED);
  near_verifies(s, NULL);
  help_close(store, s);
}

TEST(same_answers) { same_after("ivf()"); }
TEST(same_answers_of_4_bits) { same_after("ivf(code=4, lists=30)"); }
TEST(same_answers_of_2_bits) { same_after("ivf(code=2)"); }
TEST(same_answers_of_1_bit) { same_after("ivf(code=1)"); }
TEST(same_answers_without_codes) { same_after("ivf(code=none)"); }

/* A table may have nothing besides one vector and an index. */
TEST(kept_of_a_plain_table) {
  emb_config config = {.dim = NEAR_DIM,
                       .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP,
                       .index = "ivf(lists=20)"};
  emb_store *store;
  emb_session *s;
  memset(&model, 0, sizeof model);
  if (!help_open(help_path("s"), &config, &store, &s) ||
      !near_put(s, &model, 0, KEYS, 1) || !near_settle(store))
    return;
  help_close(store, s);
  config.index = NULL;
  if (!help_open(help_path("s"), &config, &store, &s) || !near_settle(store))
    return;
  CHECK_EQ_INT(help_stat(store, "nearest_lists"), 20);
  CHECK_EQ_INT(help_stat(store, "nearest_made"), 0);
  help_close(store, s);
}

/* ---- changes since ------------------------------------------------------- */

static void step_to(emb_session *s, int64_t from, int64_t end,
                    unsigned version) {
  for (int64_t key = from; key < end; key++) {
    float old[NEAR_DIM], to[NEAR_DIM], got[NEAR_DIM];
    near_vector(old, key, model.version[key]);
    near_vector(to, key, version);
    for (int i = 0; i < NEAR_DIM; i++)
      old[i] -= to[i];
    OK(s, emb_apply_gradients(s, &key, 1, old, NULL, NULL));
    OK(s, emb_peek(s, &key, 1, got, NULL, NULL));
    for (int i = 0; i < NEAR_DIM; i++)
      CHECK(got[i] - to[i] < 1e-5f && to[i] - got[i] < 1e-5f);
    /* Makes the row exactly equal to the model's. */
    model.version[key] = version;
  }
}

static void change(emb_session *s) {
  near_delete(s, &model, 0, 200);
  near_put(s, &model, KEYS, KEYS + 300, 1); /* new rows */
  near_put(s, &model, 1000, 1200, 2);       /* moved rows */
  near_delete(s, &model, 1300, 1400);
  near_put(s, &model, 1350, 1400, 3); /* put again */
}

static void look(emb_session *s) {
  near_finds(s, &model, KEYS, KEYS + 300);
  near_finds(s, &model, 1000, 1200);
  near_finds(s, &model, 1350, 1400);
  CHECK(near_recall(s, &model, 60) >= 0.95);
  near_verifies(s, NULL);
}

TEST(changes_before_a_close) {
  emb_store *store;
  emb_session *s;
  if (!make(help_path("s"), "ivf()", &store, &s))
    return;
  change(s);
  help_close(store, s);
  if (!reopen(help_path("s"), 0, "loaded", &store, &s))
    return;
  look(s);
  CHECK_EQ_INT(help_stat(store, "nearest_rows"), help_stat(store, "keys"));
  help_close(store, s);
}

TEST(changes_before_a_crash) {
  emb_store *store, *after;
  emb_session *s;
  char from[400], to[400];
  uint64_t number;
  (void)snprintf(from, sizeof from, "%s", help_path("s"));
  (void)snprintf(to, sizeof to, "%s", help_path("t"));
  if (!make(from, "ivf()", &store, &s))
    return;
  OK(s, emb_begin(s));
  change(s);
  OK(s, emb_prepare(s, &number)); /* now it is in the log */
  emb_commit(s);
  if (!copy_store(from, to))
    return;
  help_close(store, s);
  if (!near_open(to, NULL, 0, &after, &s))
    return;
  CHECK(emb_in_doubt(after) == number);
  OK(s, emb_resolve(after, emb_in_doubt(after), 1, NULL));
  if (!near_settle(after))
    return;
  CHECK_EQ_INT(help_stat(after, "nearest_made"), 0);
  look(s);
  help_close(after, s);
}

/* Rows that steps have moved far are found at their new places. */
TEST(steps_before_a_close) {
  emb_store *store;
  emb_session *s;
  if (!make(help_path("s"), "ivf(probes=3)", &store, &s))
    return;
  step_to(s, 0, KEYS / 10, 2);
  help_close(store, s);
  if (!near_open(help_path("s"), NULL, 0, &store, &s) || !near_settle(store))
    return;
  CHECK_EQ_INT(help_stat(store, "nearest_made"), 0);
  int found = 0;
  for (int64_t key = 0; key < KEYS / 10; key++) {
    float query[NEAR_DIM];
    int64_t got = -1;
    double distance;
    size_t count;
    near_vector(query, key, 2);
    OK(s, emb_nearest(s, query, 1, 1, NULL,
                      &(emb_neighbours){&got, &distance, &count, NULL, NULL}));
    found += got == key;
  }
  CHECK(found > KEYS / 10 - 3);
  help_close(store, s);
}

/* An index that has changed much is saved again at the close. */
TEST(saved_again) {
  emb_store *store;
  emb_session *s;
  if (!make(help_path("s"), "ivf()", &store, &s))
    return;
  CHECK_EQ_INT(help_stat(store, "nearest_saved"), 1);
  near_put(s, &model, 0, KEYS, 2);
  near_settle(store);
  help_close(store, s);
  if (!near_open(help_path("s"), NULL, 0, &store, &s))
    return;
  for (int i = 0, more;
       i < 5000 && strcmp(help_stat_text(store, "nearest_index"), "ready") != 0;
       i++)
    CHECK_EQ_INT(emb_step(store, &more), EMB_OK);
  CHECK_STR(help_stat_text(store, "nearest_file"), "loaded");
  CHECK_EQ_INT(help_stat(store, "nearest_recent"), 0);
  CHECK_EQ_INT(help_stat(store, "nearest_behind"), 0);
  CHECK(near_recall(s, &model, 60) >= 0.95);
  help_close(store, s);
}

/* ---- readers ------------------------------------------------------------- */

/* Without steps, the reading process does not become the owner. */
TEST(loaded_to_read) {
  emb_store *store;
  emb_session *s;
  if (!make(help_path("s"), "ivf()", &store, &s))
    return;
  help_close(store, s);
  for (int with_file = 1; with_file >= 0; with_file--) {
    if (!near_open(help_path("s"), NULL, EMB_OPEN_STEP, &store, &s) ||
        !near_settle(store))
      return;
    CHECK(near_recall(s, &model, 60) >= 0.95);
    CHECK_EQ_INT(help_stat(store, "nearest_queries"), 60);
    CHECK_EQ_INT(help_stat(store, "owner"), 0);
    CHECK_EQ_INT(help_stat(store, "nearest_made"), !with_file);
    near_verifies(s, NULL);
    /* After the first write the index stays and is updated. */
    near_put(s, &model, 10, 11, 5u + (unsigned)with_file);
    near_finds(s, &model, 10, 11);
    CHECK_EQ_INT(help_stat(store, "owner"), 1);
    CHECK_EQ_INT(help_stat(store, "nearest_made"), !with_file);
    CHECK_EQ_INT(help_stat(store, "nearest_queries"), 61);
    help_close(store, s);
    CHECK_EQ_INT(unlink(saved_path(help_path("s"))), 0);
  }
}

/* ---- of no use ----------------------------------------------------------- */

static long size_of(const char *path) {
  struct stat about;
  return stat(path, &about) == 0 ? (long)about.st_size : -1;
}

/* The index is built again, and a new file replaces this one. */
static void of_no_use(const char *dir, const char *says, const char *report) {
  emb_store *store;
  emb_session *s;
  if (!near_open(dir, NULL, 0, &store, &s))
    return;
  near_verifies(s, report);
  if (near_settle(store)) {
    CHECK_STR(help_stat_text(store, "nearest_file"), says);
    CHECK_EQ_INT(help_stat(store, "nearest_made"), 1);
    CHECK(near_recall(s, &model, 10) >= 0.9);
    near_put(s, &model, 0, 1, 1); /* only an owner writes a new file */
    near_settle(store);
  }
  help_close(store, s);
  if (reopen(dir, 0, "loaded", &store, &s)) {
    near_verifies(s, NULL);
    help_close(store, s);
  }
}

TEST(damaged) {
  emb_store *store;
  emb_session *s;
  char dir[400], copy[400];
  (void)snprintf(dir, sizeof dir, "%s", help_path("s"));
  (void)snprintf(copy, sizeof copy, "%s", help_path("t"));
  if (!make(dir, "ivf()", &store, &s))
    return;
  help_close(store, s);
  long bytes = size_of(saved_path(dir));
  CHECK(bytes >= 3 * 65536 && bytes % 65536 == 0);
  /* Every part of the head, and some bytes of each block; with a share fewer,
  ** each time other ones. */
  long share = ((long)help_share() + 3) / 4;
  long step = (SANITIZED ? 20011 : 4099) * share;
  unsigned tried = 0;
  for (long at = (long)test_below(8 * (uint64_t)share); at < bytes;
       at += at < 700 ? 8 * share : step) {
    if (!copy_store(dir, copy))
      return;
    files_flip(saved_path(copy), at, 1 << test_random() % 8);
    of_no_use(copy, "damaged", "nearest: block ");
    tried++;
    if (atomic_load(&test_state.failures)) {
      printf("byte %ld\n", at);
      return;
    }
  }
  const long lengths[] = {0, 1, 65535, 65536, 65537, bytes - 65536, bytes - 1};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    if (!copy_store(dir, copy))
      return;
    CHECK_EQ_INT(truncate(saved_path(copy), lengths[i]), 0);
    of_no_use(copy, "damaged", "nearest: block ");
  }
  test_count("damaged files", tried);
  copy_store(dir, copy);
  CHECK_EQ_INT(unlink(saved_path(copy)), 0);
  of_no_use(copy, "none", NULL);
}

TEST(of_other_options) {
  static const char *const others[] = {"ivf(code=4)", "ivf(lists=7)"};
  emb_store *store;
  emb_session *s;
  if (!make(help_path("s"), "ivf()", &store, &s))
    return;
  help_close(store, s);
  for (size_t i = 0; i < 2; i++) {
    if (!near_open(help_path("s"), others[i], 0, &store, &s))
      return;
    near_settle(store);
    CHECK_STR(help_stat_text(store, "nearest_file"), "another");
    CHECK_EQ_INT(help_stat(store, "nearest_made"), 1);
    near_put(s, &model, 0, 1, 1);
    help_close(store, s);
  }
  /* Each list starts with partly filled blocks. */
  const emb_config small = {.flags = EMB_OPEN_STEP,
                            .index = "ivf(memory=1, lists=4000)"};
  if (!help_open(help_path("s"), &small, &store, &s))
    return;
  near_put(s, &model, KEYS, NEAR_KEYS, 1);
  for (int i = 0, more; i < 100; i++)
    emb_step(store, &more);
  CHECK_STR(help_stat_text(store, "nearest_index"), "more than memory=");
  CHECK(near_recall(s, &model, 5) == 1);
  CHECK_EQ_INT(help_stat(store, "nearest_queries"), 0);
  help_close(store, s);
}

/* ---- a life -------------------------------------------------------------- */

/* Nearly all rows are deleted: the index is rebuilt with few lists. */
TEST(shrinks) {
  emb_store *store;
  emb_session *s;
  memset(&model, 0, sizeof model);
  if (!near_open(help_path("s"), "ivf()", 0, &store, &s))
    return;
  static float vectors[NEAR_KEYS * NEAR_DIM];
  static int64_t keys[NEAR_KEYS];
  for (int64_t at = 10000; at < 22000; at += NEAR_KEYS) {
    for (int64_t i = 0; i < NEAR_KEYS; i++) {
      keys[i] = at + i;
      near_vector(vectors + i * NEAR_DIM, keys[i], 1);
    }
    OK(s, emb_put(s, keys, NEAR_KEYS, vectors, NULL));
  }
  near_settle(store);
  int64_t lists = help_stat(store, "nearest_lists");
  near_put(s, &model, 0, 1300, 1);
  for (int64_t at = 10000; at < 22000; at += NEAR_KEYS) {
    for (int64_t i = 0; i < NEAR_KEYS; i++)
      keys[i] = at + i;
    OK(s, emb_delete(s, keys, NEAR_KEYS, NULL));
  }
  near_settle(store);
  for (int i = 0, more; i < 5000 && help_stat(store, "nearest_made") < 2; i++)
    CHECK_EQ_INT(emb_step(store, &more), EMB_OK);
  CHECK_EQ_INT(help_stat(store, "nearest_made"), 2);
  CHECK_EQ_INT(help_stat(store, "nearest_rows"), 1300);
  CHECK(help_stat(store, "nearest_lists") < lists);
  CHECK(near_recall(s, &model, 60) >= 0.95);
  near_delete(s, &model, 1, 1300);
  near_settle(store);
  near_finds(s, &model, 0, 1);
  CHECK(near_recall(s, &model, 5) == 1);
  near_verifies(s, NULL);
  help_close(store, s);
}

/* ---- rows that cannot be read -------------------------------------------- */

/* Overwrites a file with zeros. */
static void erase(const char *path) {
  static const char zeros[65536];
  struct stat info;
  FILE *file = fopen(path, "r+");
  if (!CHECK(file != NULL) || !CHECK(fstat(fileno(file), &info) == 0))
    return;
  for (off_t at = 0; at < info.st_size; at += (off_t)sizeof zeros) {
    size_t left = (size_t)(info.st_size - at);
    CHECK(fwrite(zeros, 1, left < sizeof zeros ? left : sizeof zeros, file));
  }
  CHECK(fclose(file) == 0);
}

/* The load of the file ends, too: the next index is not taken for the saved
** one. */
TEST(an_unreadable_row_ends_the_load) {
  emb_store *store;
  emb_session *s;
  char log[1000];
  if (!make(help_path("s"), "ivf()", &store, &s))
    return;
  help_close(store, s);
  if (!near_open(help_path("s"), NULL, 0, &store, &s))
    return;
  (void)snprintf(log, sizeof log, "%s/log", help_path("s"));
  erase(log);
  struct nearest_index *x = nearest_of(store);
  for (int i = 0, more; i < 1000 && !index_set_at(x, SET_MADE); i++)
    CHECK_EQ_INT(emb_step(store, &more), EMB_OK);
  CHECK_STR(help_stat_text(store, "nearest_index"), "loading");
  nearest_observe__add(x, 7); /* its row will be read */
  for (int i = 0, more; i < 100 && x->loading.is_on; i++)
    (void)emb_step(store, &more);
  CHECK_STR(help_stat_text(store, "nearest_index"), "failed");
  CHECK(!x->loading.is_on && !x->making.set);
  emb_session_close(s);
  (void)emb_close(store, NULL);
}
