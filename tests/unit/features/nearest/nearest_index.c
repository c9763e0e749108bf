/* SPDX-License-Identifier: MIT
**
** nearest_index.c -- emb_nearest with an index, against an independent search
** of all rows: how many of the nearest it finds, that it finds nothing else
** while the table changes, and that it finds the latest writes.
*/
#include "nearest_help.h"

#include <math.h>
#include <pthread.h>

enum {
  KEYS = SANITIZED ? 6000 : 12000,
  DIM = 24,
  PARTS = 3, /* l2, cosine, dot */
  CLUSTERS = 60,
  SOME_LISTS = 22, /* a fifth */
  K = 10
};
static const uint32_t dims[PARTS] = {8, 10, 6}, firsts[PARTS] = {0, 8, 18};
static const char *const metrics[PARTS] = {"l2", "cosine", "dot"};

struct model {
  int there;
  float vector[DIM];
};
static struct model rows[KEYS];
static float centres[CLUSTERS][DIM];

static emb_config config_of(const char *index, uint32_t flags) {
  static emb_segment segments[PARTS];
  for (int i = 0; i < PARTS; i++)
    segments[i] = (emb_segment){.dim = dims[i],
                                .type = i == 1 ? EMB_F16 : EMB_F32,
                                .metric = metrics[i],
                                .index = index,
                                .optimizer = "sgd(lr=1)"};
  return (emb_config){.flags = EMB_OPEN_CREATE | flags,
                      .segments = segments,
                      .segment_count = PARTS};
}

static float random_float(void) {
  return (float)(test_random() % 4001) / 2000 - 1;
}

/* Near one of the centres, in steps of 1/64, which are exact in float16. */
static void clustered(float *to) {
  const float *centre = centres[test_random() % CLUSTERS];
  for (int i = 0; i < DIM; i++)
    to[i] = roundf((centre[i] + random_float() / 2) * 64) / 64;
}

static void new_centres(void) {
  for (int i = 0; i < CLUSTERS; i++)
    for (int j = 0; j < DIM; j++)
      centres[i][j] = random_float() * 4;
}

static int all_of(int a, int b, int c) { return a && b && c; }

/* ---- the index ----------------------------------------------------------- */

static const char *state_of(emb_store *store) {
  return help_stat_text(store, "nearest_index");
}

static void step(emb_store *store) {
  int more;
  CHECK_EQ_INT(emb_step(store, &more), EMB_OK);
}

/* Waits until the index is in this state and no work is left; with
** EMB_OPEN_STEP, does the work by steps. */
static int settle(emb_store *store, const char *state) {
  for (unsigned i = 0; i < 60000; i++) {
    if (strcmp(state_of(store), state) == 0 &&
        help_stat(store, "nearest_recent") == 0 &&
        help_stat(store, "nearest_behind") == 0)
      return 1;
    step(store);
    if (i > 5000)
      usleep(1000);
  }
  return CHECK_STR(state_of(store), state);
}

/* ---- the oracle ---------------------------------------------------------- */

struct want {
  double distance;
  int64_t key;
};

static int compare_want(const void *a, const void *b) {
  const struct want *x = a, *y = b;
  if (x->distance != y->distance)
    return x->distance < y->distance ? -1 : 1;
  return x->key < y->key ? -1 : x->key > y->key;
}

/* Returns 0 if there is no distance. */
static int want_distance(uint32_t segment, const float *query,
                         const struct model *row, double *to) {
  const float *b = row->vector + firsts[segment];
  double ab = 0, aa = 0, bb = 0, dd = 0;
  for (uint32_t i = 0; i < dims[segment]; i++) {
    double x = query[i], y = b[i];
    ab += x * y;
    aa += x * x;
    bb += y * y;
    dd += (x - y) * (x - y);
  }
  *to = segment == EMB_L2    ? sqrt(dd)
        : segment == EMB_DOT ? -ab
                             : 1 - ab / sqrt(aa * bb);
  return row->there && (segment != EMB_COSINE || (aa > 0 && bb > 0));
}

static int fits(const emb_nearest_how *how, size_t query, int64_t key,
                double d) {
  return !(how->flags & EMB_NEAREST_RANGE &&
           (key < how->lo || key > how->hi)) &&
         help_wanted(how, key) &&
         !(how->flags & EMB_NEAREST_WITHIN &&
           (d < how->least || d > how->most)) &&
         !(how->apart && how->apart[query] == key);
}

static size_t want_all(const struct model *model, const emb_nearest_how *how,
                       size_t query, const float *vector, struct want *want) {
  size_t n = 0;
  double d;
  for (int64_t key = 0; key < KEYS; key++)
    if (want_distance(how->segment, vector, &model[key], &d) &&
        fits(how, query, key, d))
      want[n++] = (struct want){d, key};
  qsort(want, n, sizeof *want, compare_want);
  return n;
}

struct recall {
  size_t came, wanted;
};
static double recall_of(const struct recall *recall) {
  return recall->wanted ? (double)recall->came / (double)recall->wanted : 1;
}

/* Checks everything that must hold for an answer, and counts how many of the
** nearest it has. */
static void check_answer(const struct model *model, const emb_nearest_how *how,
                         size_t query, const float *vector, size_t k,
                         const int64_t *keys, const double *distances,
                         size_t count, struct recall *recall) {
  static struct want want[KEYS];
  size_t n = want_all(model, how, query, vector, want);
  n = n < k ? n : k;
  if (how->flags & EMB_NEAREST_WITHIN)
    CHECK(count <= n);
  else
    CHECK_EQ_INT(count, n);
  for (size_t i = 0; i < count; i++) {
    double d = 0;
    CHECK(want_distance(how->segment, vector, &model[keys[i]], &d));
    CHECK(fabs(d - distances[i]) < 1e-9);
    CHECK(fits(how, query, keys[i], distances[i]));
    CHECK(i == 0 || distances[i - 1] <= distances[i]);
    for (size_t j = 0; j < i; j++)
      CHECK(keys[j] != keys[i]);
    recall->came += i < n && d <= want[n - 1].distance + 1e-9;
  }
  recall->wanted += n;
}

/* ---- questions ----------------------------------------------------------- */

static void random_how(emb_nearest_how *how, int64_t *list, int64_t *apart,
                       size_t n) {
  *how = (emb_nearest_how){.segment = (uint32_t)(test_random() % PARTS)};
  if (test_random() % 3 == 0) {
    how->flags |= EMB_NEAREST_RANGE;
    how->lo = (int64_t)(test_random() % KEYS);
    how->hi = how->lo + (int64_t)(test_random() % KEYS);
  }
  if (test_random() % 4 == 0) {
    size_t at = 0;
    uint64_t most = 1 + test_random() % 16;
    for (int64_t key = 0; key < KEYS;
         key += 1 + (int64_t)(test_random() % most))
      list[at++] = key;
    qsort(list, at, sizeof *list, help_compare_keys);
    how->flags |= EMB_NEAREST_KEYS;
    how->keys = list;
    how->key_count = at;
  }
  if (test_random() % 3 == 0) {
    how->flags |= EMB_NEAREST_WITHIN;
    how->least = test_random() % 3 ? -INFINITY : 0.50000127;
    how->most = (double)(test_random() % 4) + 0.00000127;
  }
  if (test_random() % 3 == 0) {
    for (size_t i = 0; i < n; i++)
      apart[i] = (int64_t)(test_random() % KEYS);
    how->apart = apart;
  }
}

static void ask(emb_session *s, const struct model *model,
                const emb_nearest_how *how, size_t n, struct recall *recall) {
  static float queries[8 * DIM];
  static int64_t keys[8 * K];
  static double distances[8 * K];
  static float vectors[8 * K * DIM];
  static uint64_t versions[8 * K];
  size_t counts[8];
  uint32_t dim = dims[how->segment];
  for (size_t i = 0; i < n; i++) {
    float whole[DIM];
    clustered(whole);
    memcpy(queries + i * dim, whole + firsts[how->segment],
           dim * sizeof(float));
  }
  const emb_neighbours to = {keys, distances, counts,
                             test_random() % 2 ? vectors : NULL,
                             test_random() % 2 ? versions : NULL};
  if (!OK(s, emb_nearest(s, queries, n, K, how, &to)))
    return;
  for (size_t i = 0; i < n; i++)
    check_answer(model, how, i, queries + i * dim, K, keys + i * K,
                 distances + i * K, counts[i], recall);
  help_same_rows(s, NULL, &to, n, K);
}

static void ask_randomly(emb_session *s, const struct model *model,
                         struct recall *recall) {
  static int64_t list[KEYS + 1], apart[8];
  size_t n = 1 + test_random() % 4;
  emb_nearest_how how;
  random_how(&how, list, apart, n);
  emb_filter *filter = test_random() % 3 ? NULL : help_filter(s, KEYS);
  how.filter = filter;
  ask(s, model, &how, n, recall);
  emb_filter_free(filter);
}

/* ---- writes -------------------------------------------------------------- */

enum write { WRITE_PUT, WRITE_STEP, WRITE_DELETE };

static void write_keys(emb_session *s, enum write kind, const int64_t *keys,
                       size_t n) {
  static float vectors[KEYS * DIM];
  for (size_t i = 0; i < n; i++) {
    struct model *row = &rows[keys[i]];
    float *to = vectors + i * DIM;
    clustered(to);
    if (kind == WRITE_PUT) {
      memcpy(row->vector, to, sizeof row->vector);
    } else if (kind == WRITE_STEP && row->there) {
      for (int j = 0; j < DIM; j++) { /* half of the way, or all of it */
        float gradient = (row->vector[j] - to[j]) / (float)(1 + (keys[i] & 1));
        gradient = roundf(gradient * 64) / 64;
        row->vector[j] -= gradient;
        to[j] = gradient;
      }
    }
    row->there = kind == WRITE_PUT || (kind == WRITE_STEP && row->there);
  }
  if (emb_in_transaction(s)) {
    if (kind == WRITE_PUT)
      OK(s, emb_txn_put(s, keys, n, vectors));
    else
      OK(s, emb_txn_delete(s, keys, n, NULL));
  } else if (kind == WRITE_PUT) {
    OK(s, emb_put(s, keys, n, vectors, NULL));
  } else if (kind == WRITE_STEP) {
    OK(s, emb_apply_gradients(s, keys, n, vectors, NULL, NULL));
  } else {
    OK(s, emb_delete(s, keys, n, NULL));
  }
}

/* Each key once. */
static size_t random_keys(int64_t *keys, size_t most, int there_only) {
  size_t n = 0;
  int64_t key = (int64_t)(test_random() % 64);
  while (key < KEYS && n < most) {
    if (!there_only || rows[key].there)
      keys[n++] = key;
    key += 1 + (int64_t)(test_random() % (KEYS / 100));
  }
  return n;
}

static void write_some(emb_session *s, enum write kind) {
  int64_t keys[100];
  size_t n = random_keys(keys, 1 + test_random() % 100, kind == WRITE_STEP);
  if (n)
    write_keys(s, kind, keys, n);
}

static void fill(emb_session *s) {
  static int64_t keys[KEYS];
  memset(rows, 0, sizeof rows);
  new_centres();
  for (int64_t i = 0; i < KEYS; i++)
    keys[i] = i;
  write_keys(s, WRITE_PUT, keys, KEYS);
}

/* The row put last is the nearest to its own vector. */
static void found_at_once(emb_session *s, int64_t key) {
  for (uint32_t segment = 0; segment < PARTS - 1; segment++) {
    const emb_nearest_how how = {.segment = segment};
    const float *query = rows[key].vector + firsts[segment];
    int64_t keys[K];
    double distances[K], d;
    size_t count;
    if (!want_distance(segment, query, &rows[key], &d) ||
        !OK(s, emb_nearest(
                   s, query, 1, K, &how,
                   &(emb_neighbours){keys, distances, &count, NULL, NULL})))
      continue;
    size_t at = 0;
    while (at < count && keys[at] != key)
      at++;
    CHECK(at < count || (count && distances[count - 1] < 1e-9));
  }
}

/* ---- recall -------------------------------------------------------------- */

static void recall_with(const char *index, double some_lists,
                        double all_lists) {
  emb_store *store;
  emb_session *s;
  emb_config config = config_of(index, EMB_OPEN_STEP);
  if (!help_open(help_path("s"), &config, &store, &s))
    return;
  fill(s);
  if (settle(store, "ready"))
    for (uint32_t segment = 0; segment < PARTS; segment++) {
      emb_nearest_how how = {.segment = segment};
      struct recall promised = {0}, some = {0}, all = {0}, exact = {0};
      for (int i = 0; i < 30; i++) /* with the index, or exact */
        ask(s, rows, &how, 4, &promised);
      int64_t queries = help_stat(store, "nearest_queries");
      how.probes = SOME_LISTS;
      for (int i = 0; i < 30; i++)
        ask(s, rows, &how, 4, &some);
      CHECK_EQ_INT(help_stat(store, "nearest_queries") - queries, 120);
      how.probes = 65535;
      for (int i = 0; i < 30; i++)
        ask(s, rows, &how, 4, &all);
      CHECK_EQ_INT(help_stat(store, "nearest_queries") - queries, 240);
      how.flags = EMB_NEAREST_EXACT;
      for (int i = 0; i < 5; i++)
        ask(s, rows, &how, 4, &exact);
      CHECK_EQ_INT(help_stat(store, "nearest_queries") - queries, 240);
      if (!all_of(CHECK(recall_of(&some) >= some_lists),
                  CHECK(recall_of(&all) >= all_lists),
                  CHECK(recall_of(&exact) == 1)) ||
          !CHECK(recall_of(&promised) >= 0.93))
        printf("%s %s: recall %.4f, of some lists %.4f, of all %.4f\n", index,
               metrics[segment], recall_of(&promised), recall_of(&some),
               recall_of(&all));
    }
  help_close(store, s);
}

TEST_OF_ONE_THREAD(recall_of_8_bits) { recall_with("ivf()", 0.95, 0.99); }
/* With vectors as short as these, fewer bits leave fewer of the nearest among
** the candidates. */
TEST_OF_ONE_THREAD(recall_of_4_bits) { recall_with("ivf(code=4)", 0.88, 0.88); }
TEST_OF_ONE_THREAD(recall_of_2_bits) { recall_with("ivf(code=2)", 0.85, 0.85); }
TEST_OF_ONE_THREAD(recall_of_1_bit) { recall_with("ivf(code=1)", 0.8, 0.8); }
TEST_OF_ONE_THREAD(recall_without_codes) {
  recall_with("ivf(code=none)", 0.95, 1);
}

/* ---- while the table changes --------------------------------------------- */

/* A session's own changes are visible, to that session alone, until they are
** rolled back. */
static void transaction(emb_session *s, emb_session *other,
                        struct recall *recall) {
  static struct model before[KEYS], after[KEYS];
  memcpy(before, rows, sizeof rows);
  if (!OK(s, emb_begin(s)))
    return;
  write_some(s, WRITE_PUT);
  write_some(s, WRITE_DELETE);
  int64_t key = (int64_t)(test_random() % KEYS);
  write_keys(s, WRITE_PUT, &key, 1);
  found_at_once(s, key);
  ask_randomly(s, rows, recall);
  ask_randomly(other, before, recall);
  memcpy(after, rows, sizeof rows);
  if (test_random() % 2) {
    OK(s, emb_commit(s));
    found_at_once(other, key);
  } else {
    emb_rollback(s);
    memcpy(rows, before, sizeof rows);
  }
  ask_randomly(s, rows, recall);
  ask_randomly(other, rows, recall);
}

static void change_and_ask(emb_store *store, emb_session *s, emb_session *other,
                           struct recall *recall) {
  for (uint64_t i = test_random() % 5; i; i--)
    write_some(s, (enum write)(test_random() % 3));
  for (uint64_t i = test_random() % 6; i; i--)
    step(store);
  int64_t key = (int64_t)(test_random() % KEYS);
  write_keys(s, WRITE_PUT, &key, 1);
  found_at_once(other, key);
  ask_randomly(other, rows, recall);
  if (test_random() % 4 == 0)
    transaction(s, other, recall);
  if (test_random() % 8 == 0)
    OK(s, emb_checkpoint(s));
}

static void random_run(const char *index, uint64_t memory) {
  emb_store *store;
  emb_session *s, *other;
  struct recall recall = {0}, at_last = {0};
  emb_config config = config_of(index, EMB_OPEN_STEP);
  config.memory_bytes = memory;
  if (!help_open(help_path("s"), &config, &store, &s) ||
      !OK(s, emb_session_open(store, &other, NULL)))
    return;
  fill(s);
  for (uint64_t i = test_random() % 40; i; i--)
    step(store); /* the changes may begin while the index is being built */
  for (unsigned i = 0; i < help_amount(60); i++) {
    change_and_ask(store, s, other, &recall);
    if (i == 30)
      settle(store, "ready");
  }
  settle(store, "ready");
  CHECK_EQ_INT(help_stat(store, "nearest_rows"),
               PARTS * help_stat(store, "keys"));
  int64_t queries = help_stat(store, "nearest_queries");
  for (uint32_t segment = 0; segment < PARTS; segment++)
    for (int i = 0; i < 20; i++)
      ask(s, rows, &(emb_nearest_how){.segment = segment, .probes = SOME_LISTS},
          4, &at_last);
  CHECK_EQ_INT(help_stat(store, "nearest_queries") - queries, 240);
  if (!all_of(CHECK(recall_of(&at_last) >= 0.95),
              CHECK(recall_of(&recall) >= 0.85), 1))
    printf("%s: recall %.4f, while it changed %.4f\n", index,
           recall_of(&at_last), recall_of(&recall));
  emb_session_close(other);
  help_close(store, s);
}

TEST(changes) { random_run("ivf()", 0); }
TEST(changes_without_codes) { random_run("ivf(code=none)", 0); }
TEST(changes_on_disk) { random_run("ivf(code=4)", 1); }

/* After steps have moved all rows, they are in the right lists. */
TEST_OF_ONE_THREAD(steps_are_followed) {
  emb_store *store;
  emb_session *s;
  struct recall recall = {0}, all = {0};
  static int64_t keys[KEYS];
  emb_config config = config_of("ivf()", EMB_OPEN_STEP);
  if (!help_open(help_path("s"), &config, &store, &s))
    return;
  fill(s);
  for (int64_t i = 0; i < KEYS; i++)
    keys[i] = i;
  if (settle(store, "ready")) {
    write_keys(s, WRITE_STEP, keys, KEYS);
    CHECK(help_stat(store, "nearest_behind") > KEYS / 4);
    settle(store, "ready");
    for (int i = 0; i < 40; i++)
      ask(s, rows, &(emb_nearest_how){.probes = SOME_LISTS}, 4, &recall);
    for (int i = 0; i < 40; i++)
      ask(s, rows, &(emb_nearest_how){.probes = 65535}, 4, &all);
    if (!all_of(CHECK(recall_of(&recall) >= 0.95),
                CHECK(recall_of(&all) >= 0.99), 1))
      printf("recall %.4f, of all lists %.4f\n", recall_of(&recall),
             recall_of(&all));
  }
  help_close(store, s);
}

/* The new index is built while the old one stays in use. */
TEST_OF_ONE_THREAD(grows) {
  emb_store *store;
  emb_session *s;
  enum { FIRST = KEYS / 6 };
  static int64_t keys[KEYS];
  struct recall recall = {0};
  emb_config config = config_of("ivf()", EMB_OPEN_STEP);
  if (!help_open(help_path("s"), &config, &store, &s))
    return;
  memset(rows, 0, sizeof rows);
  new_centres();
  for (int64_t i = 0; i < KEYS; i++)
    keys[i] = i;
  write_keys(s, WRITE_PUT, keys, FIRST > 1100 ? FIRST : 1100);
  settle(store, "ready");
  CHECK_EQ_INT(help_stat(store, "nearest_made"), 1);
  write_keys(s, WRITE_PUT, keys, KEYS);
  for (int i = 0; i < 20000 && help_stat(store, "nearest_made") < 2; i++) {
    step(store);
    CHECK_STR(state_of(store), "ready");
    if (i % 16 == 0)
      ask_randomly(s, rows, &recall);
  }
  CHECK_EQ_INT(help_stat(store, "nearest_made"), 2);
  CHECK(recall_of(&recall) > 0.9);
  help_close(store, s);
}

/* ---- options ------------------------------------------------------------- */

TEST_OF_ONE_THREAD(is_kept) {
  emb_store *store;
  emb_session *s;
  emb_config config = config_of("ivf(lists=20, code=4)", EMB_OPEN_STEP);
  struct recall recall = {0};
  if (!help_open(help_path("s"), &config, &store, &s))
    return;
  fill(s);
  settle(store, "ready");
  CHECK_EQ_INT(help_stat(store, "nearest_lists"), 20 * PARTS);
  help_close(store, s);
  config = (emb_config){.flags = EMB_OPEN_STEP};
  if (!help_open(help_path("s"), &config, &store, &s))
    return;
  ask_randomly(s, rows, &recall); /* not built yet */
  settle(store, "ready");
  CHECK_EQ_INT(help_stat(store, "nearest_lists"), 20 * PARTS);
  ask(s, rows, &(emb_nearest_how){0}, 4, &recall);
  help_close(store, s);
  config.index = "ivf(lists=30)";
  if (!help_open(help_path("s"), &config, &store, &s))
    return;
  settle(store, "ready");
  CHECK_EQ_INT(help_stat(store, "nearest_made"), 1);
  CHECK_STR(help_stat_text(store, "nearest_file"), "another");
  CHECK_EQ_INT(help_stat(store, "nearest_lists"), 30 * PARTS);
  help_close(store, s);
  config.index = "none";
  if (!help_open(help_path("s"), &config, &store, &s))
    return;
  CHECK_STR(state_of(store), "off");
  help_close(store, s);
}

TEST(bad_options) {
  static const struct {
    const char *text, *error;
  } bad[] = {{"ivf(code=3)", "code must be 8, 4, 2, 1 or none"},
             {"ivf(lists=70000)", "lists"},
             {"ivf(colour=1)", "colour"},
             {"ivf(", "expected a parameter"},
             {"hnsw()", "hnsw"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    emb_config config = config_of(bad[i].text, 0);
    emb_store *store;
    emb_err err;
    CHECK_EQ_INT(emb_open(help_path("t"), &config, &store, &err), EMB_RANGE);
    if (!CHECK(strstr(err.text, bad[i].error) != NULL))
      printf("%s: %s\n", bad[i].text, err.text);
  }
}

/* Without an index all rows are compared. */
TEST_OF_ONE_THREAD(no_memory_for_it) {
  emb_config config = {.flags = EMB_OPEN_CREATE | EMB_OPEN_STEP,
                       .dim = 512,
                       .index = "ivf(memory=1)"};
  emb_store *store;
  emb_session *s;
  enum { N = 3000 };
  static float vector[512];
  if (!help_open(help_path("s"), &config, &store, &s))
    return;
  for (int64_t key = 0; key < N; key++) {
    vector[key % 512] += 1;
    OK(s, emb_put(s, &key, 1, vector, NULL));
  }
  for (int i = 0; i < 20; i++)
    step(store);
  CHECK_STR(state_of(store), "more than memory=");
  int64_t key;
  double distance;
  size_t count;
  OK(s, emb_nearest(s, vector, 1, 1, NULL,
                    &(emb_neighbours){&key, &distance, &count, NULL, NULL}));
  CHECK_EQ_INT(key, N - 1);
  CHECK_EQ_INT(help_stat(store, "nearest_queries"), 0);
  help_close(store, s);
}

/* ---- with concurrent writers --------------------------------------------- */

enum { STILL = 3000, MOVING = 3000, WIDE = 16, MOVERS = 3 };

struct mover {
  emb_store *store;
  int number, looked;
  _Atomic int *stop;
};

/* Puts and deletes its own keys, far from the origin.  It finds the rows it has
** put, and not those it has deleted. */
static void *move_rows(void *arg) {
  struct mover *m = arg;
  emb_session *s;
  uint64_t random = (uint64_t)m->number + 1;
  if (!CHECK_EQ_INT(emb_session_open(m->store, &s, NULL), EMB_OK))
    return NULL;
  for (unsigned round = 0;
       !atomic_load(m->stop) || (!m->looked && round < 100000); round++) {
    float vector[WIDE];
    int64_t keys[4];
    double distances[4];
    size_t count;
    random = random * 6364136223846793005u + 1442695040888963407u;
    int64_t key =
        STILL + m->number + MOVERS * ((int64_t)(random >> 33) % MOVING);
    for (int i = 0; i < WIDE; i++)
      vector[i] = 100 + (float)(random >> (i + 20) & 255);
    /* A row put while very many rows are recent stays where it was. */
    int looked_at =
        round % 8 == 1 && help_stat(m->store, "nearest_recent") < 60000;
    OK(s, emb_put(s, &key, 1, vector, NULL));
    if (round % 8 == 0)
      OK(s, emb_apply_gradients(s, &key, 1, vector, NULL, NULL));
    if (looked_at) {
      m->looked++;
      OK(s,
         emb_nearest(s, vector, 1, 1, NULL,
                     &(emb_neighbours){keys, distances, &count, NULL, NULL}));
      CHECK(count == 1 && distances[0] == 0);
    }
    if (round % 3 == 0) {
      OK(s, emb_delete(s, &key, 1, NULL));
      if (round % 24 == 0) {
        OK(s,
           emb_nearest(s, vector, 1, 4, NULL,
                       &(emb_neighbours){keys, distances, &count, NULL, NULL}));
        for (size_t i = 0; i < count; i++)
          CHECK(keys[i] != key);
      }
    }
    if (round % 1024 == 0)
      OK(s, emb_checkpoint(s));
  }
  emb_session_close(s);
  return NULL;
}

/* The rows near the origin do not change.  They are always found, while the
** index is built, used, and built again because the table has grown. */
TEST(beside_writers) {
  emb_config config = {.flags = EMB_OPEN_CREATE,
                       .dim = WIDE,
                       .memory_bytes = 1,
                       .optimizer = "sgd(lr=0.1)",
                       .index = "ivf(probes=6)"};
  emb_store *store;
  emb_session *s;
  static float vectors[STILL * WIDE];
  static int64_t keys[STILL];
  for (int i = 0; i < STILL; i++) {
    keys[i] = i;
    for (int j = 0; j < WIDE; j++)
      vectors[i * WIDE + j] = random_float();
  }
  if (!help_open(help_path("s"), &config, &store, &s) ||
      !OK(s, emb_put(s, keys, STILL, vectors, NULL)))
    return;
  _Atomic int stop = 0;
  struct mover movers[MOVERS];
  pthread_t threads[MOVERS];
  for (int i = 0; i < MOVERS; i++) {
    movers[i] = (struct mover){store, i, 0, &stop};
    pthread_create(&threads[i], NULL, move_rows, &movers[i]);
  }
  for (unsigned round = 0;
       round < help_amount(THREAD_SANITIZED ? 300 : 3000) ||
       (round < 100000 && (help_stat(store, "nearest_made") < 1 ||
                           help_stat(store, "nearest_queries") < 1));
       round++) {
    int64_t got[K], key = (int64_t)(test_random() % STILL);
    double distances[K];
    size_t count;
    if (!OK(s,
            emb_nearest(s, vectors + key * WIDE, 1, K, NULL,
                        &(emb_neighbours){got, distances, &count, NULL, NULL})))
      break;
    CHECK_EQ_INT(count, K);
    CHECK(got[0] == key && distances[0] == 0);
    for (size_t i = 0; i < count; i++)
      for (size_t j = 0; j < i; j++)
        CHECK(got[i] != got[j]);
  }
  CHECK(help_stat(store, "nearest_queries") > 0);
  atomic_store(&stop, 1);
  for (int i = 0; i < MOVERS; i++) {
    pthread_join(threads[i], NULL);
    CHECK(movers[i].looked > 0);
  }
  help_close(store, s);
}
