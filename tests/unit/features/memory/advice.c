/* SPDX-License-Identifier: MIT
**
** advice.c -- does emb_stats predict the effect of twice the memory?  Its
** prediction is compared with the hit rate that is measured with twice the
** memory, for reads with several distributions and for training.
*/
#include "engine/base/hash.h"
#include "engine/storage/cache/ghost.h"
#include "engine/emb.h"
#include "store_help.h"

#include <math.h>

enum { DIM = 64, KEYS = 40000, BATCH = 256 }; /* 11 MB */

static int64_t keys[BATCH];
static float vectors[BATCH * DIM];
static double *upto; /* for each rank, the share of all reads up to it */

/* exponent 0: uniform. */
static void distribution(double exponent) {
  double sum = 0;
  for (int i = 0; i < KEYS; i++)
    upto[i] = sum += pow(i + 1, -exponent);
  for (int i = 0; i < KEYS; i++)
    upto[i] /= sum;
}

static int64_t draw(void) {
  double x = (double)(test_random() >> 11) * 0x1p-53;
  int low = 0, high = KEYS - 1;
  while (low < high) {
    int middle = (low + high) / 2;
    if (upto[middle] < x)
      low = middle + 1;
    else
      high = middle;
  }
  return (int64_t)low * 7919 % KEYS; /* the hot ones are not neighbours */
}

static int read_some(emb_session *s, int batches, int train) {
  for (int b = 0; b < batches; b++) {
    for (int i = 0; i < BATCH; i++)
      keys[i] = draw();
    if (!OK(s, emb_get(s, keys, BATCH, vectors, NULL, NULL)) ||
        (train && !OK(s, emb_put(s, keys, BATCH, vectors, NULL))))
      return 0;
  }
  return 1;
}

struct seen {
  int64_t hits, twice;
};

static struct seen look(emb_store *store) {
  return (struct seen){help_stat(store, "hit_permille_recent"),
                       help_stat(store, "hit_permille_twice_memory")};
}

/* Measures with `mib` of memory, then with twice that.  Returns 1 if the
** prediction holds within this many points. */
static int is_as_said(const char *what, double exponent, int mib, int train,
                      int points) {
  emb_config config = {.dim = DIM,
                       .flags = EMB_OPEN_CREATE,
                       .memory_bytes = (uint64_t)mib << 20};
  emb_store *store;
  emb_session *s;
  static int number;
  char name[32];
  (void)snprintf(name, sizeof name, "store%d", number++);
  distribution(exponent);
  if (!help_open(help_path(name), &config, &store, &s))
    return 0;
  for (int at = 0; at < KEYS; at += BATCH) {
    for (int i = 0; i < BATCH; i++)
      keys[i] = (at + i) % KEYS;
    if (!OK(s, emb_put(s, keys, BATCH, vectors, NULL)))
      return 0;
  }
  struct seen seen[2];
  for (int i = 0; i < 2; i++) {
    int batches = KEYS / BATCH;
    read_some(s, 5 * batches, train);
    /* The recent counts begin here; at first there are no ghosts. */
    OK(s, emb_set_memory(s, (uint64_t)mib << (20 + i)));
    read_some(s, 4 * batches, train);
    OK(s, emb_set_memory(s, (uint64_t)mib << (20 + i)));
    read_some(s, 2 * batches, train);
    seen[i] = look(store);
    if (i == 0)
      OK(s, emb_set_memory(s, (uint64_t)mib << 21));
  }
  printf("%-28s %2d MiB: %3d, with twice that said %3d, measured %3d\n", what,
         mib, (int)seen[0].hits, (int)seen[0].twice, (int)seen[1].hits);
  help_close(store, s);
  return llabs(seen[0].twice - seen[1].hits) <= points * 10;
}

/* The progress of the background threads depends on the other load of the
** machine, so it measures up to three times. */
static void compare(const char *what, double exponent, int mib, int train,
                    int points) {
  int good = 0;
  for (int i = 0; i < 3 && !good; i++)
    good = is_as_said(what, exponent, mib, train, points);
  CHECK(good);
}

static uint64_t spared(const struct ghosts *g) {
  return atomic_load(&g->spared);
}

TEST(ghosts_are_those_that_left_last) {
  struct ghosts g;
  CHECK_EQ_INT(ghosts_init(&g, &env_posix), 0);
  CHECK(!ghosts_sample(&g, 1)); /* it has no size yet */
  ghosts_size(&g, 100);
  CHECK(ghosts_sample(&g, 12345));
  for (uint64_t hash = 0; hash < 150; hash++)
    ghosts_add(&g, hash << 32, 100);
  CHECK_EQ_INT(g.count, 100);
  ghosts_read(&g, UINT64_C(49) << 32, 0, 0, 100); /* already gone */
  CHECK_EQ_INT(spared(&g), 0);
  ghosts_read(&g, UINT64_C(50) << 32, 0, 0, 100); /* oldest: second chance */
  ghosts_read(&g, UINT64_C(51) << 32, 1, 0, 100); /* into the cache */
  CHECK_EQ_INT(spared(&g), 2);
  CHECK_EQ_INT(g.count, 99);
  for (uint64_t hash = 200; hash < 230; hash++)
    ghosts_add(&g, hash << 32, 100);
  ghosts_read(&g, UINT64_C(52) << 32, 0, 0, 100);
  CHECK_EQ_INT(spared(&g), 2);
  ghosts_read(&g, UINT64_C(50) << 32, 0, 0, 100);
  CHECK_EQ_INT(spared(&g), 3);
  /* Its extent has just left memory: a hit with twice the memory, and so it
  ** becomes a ghost. */
  ghosts_read(&g, UINT64_C(999) << 32, 0, 1, 100);
  ghosts_read(&g, UINT64_C(999) << 32, 0, 0, 100);
  CHECK_EQ_INT(spared(&g), 5);
  /* With less room ghosts are dropped. */
  ghosts_add(&g, UINT64_C(1000) << 32, 10);
  CHECK_EQ_INT(g.count, 10);
  ghosts_add(&g, UINT64_C(1001) << 32, 0);
  CHECK_EQ_INT(g.count, 0);
  ghosts_free(&g);
}

TEST(ghosts_of_a_large_memory_are_a_sample) {
  struct ghosts g;
  CHECK_EQ_INT(ghosts_init(&g, &env_posix), 0);
  ghosts_size(&g, 128 * GHOSTS_MAX);
  int sampled = 0;
  for (int64_t key = 0; key < 128000; key++)
    sampled += ghosts_sample(&g, hash_key(key));
  CHECK(sampled > 800 && sampled < 1200);
  for (uint64_t i = 0; i < 100000; i++) {
    uint64_t hash = test_random() % 20000 << 7;
    if (i % 3)
      ghosts_add(&g, hash, 128 * GHOSTS_MAX);
    else
      ghosts_read(&g, hash, i % 2, i % 5 == 0, 128 * GHOSTS_MAX);
    if (i % 1000 == 0) { /* the lists have as many ghosts as counted */
      uint32_t n = 0, chained = 0;
      for (uint32_t at = g.oldest; at; at = g.entries[at - 1].newer)
        n++;
      for (uint32_t b = 0; b < GHOST_BUCKETS; b++)
        for (uint32_t at = g.buckets[b]; at; at = g.entries[at - 1].chain)
          chained++;
      if (!CHECK_EQ_INT(n, g.count) || !CHECK_EQ_INT(chained, g.count))
        break;
    }
  }
  CHECK(g.count <= GHOSTS_MAX);
  CHECK(spared(&g) > 0 && spared(&g) % 128 == 0);
  ghosts_free(&g);
}

TEST(twice_the_memory) {
  upto = malloc(KEYS * sizeof *upto);
  compare("uniform", 0, 4, 0, 6);
  compare("Zipf 0.99", 0.99, 4, 0, 6);
  compare("training, Zipf 0.8", 0.8, 4, 1, 6);
  free(upto);
}
