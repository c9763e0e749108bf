/* SPDX-License-Identifier: MIT
**
** ivf_lists.c -- tests of engine/math/ivf: keys are added, moved and removed in
** any order, and compared with a table of the present keys, alone and during
** searches and removals by other threads; and lack of memory.
*/
#include "test.h"

#include "engine/emb.h"
#include "engine/math/ivf/ivf.h"

#include <pthread.h>

enum { DIM = 12, LISTS = 9, KEYS = 2000 };

/* Centres that are far apart, on one axis. */
static int begin(struct ivf *ivf, struct env *env, uint32_t bits) {
  const struct ivf_shape shape = {DIM, bits, EMB_L2, LISTS, 1, KEYS};
  if (!ivf_init(ivf, env, &shape)) {
    return 0;
  }
  for (uint32_t i = 0; i < LISTS; i++) {
    ivf->centres.rows[i * DIM] = (float)i * 10;
  }
  ivf__centres_measure(&ivf->centres);
  return 1;
}

static void vector_in(float *to, uint32_t list) {
  for (uint32_t i = 0; i < DIM; i++) {
    to[i] = (float)(test_random() % 1000) / 1000;
  }
  to[0] += (float)list * 10;
}

/* Each present key is in the right list, exactly once, and no other key. */
static void check_keys(struct ivf *ivf, const uint8_t *there) {
  static uint8_t seen[KEYS];
  uint64_t n = 0;
  memset(seen, 0, sizeof seen);
  for (uint32_t list = 0; list < LISTS; list++) {
    uint32_t block = 0;
    int64_t keys[64];
    do {
      size_t some = ivf_keys(ivf, list, &block, keys, 64);
      for (size_t i = 0; i < some; i++) {
        CHECK_EQ_INT(there[keys[i]], list + 1);
        seen[keys[i]]++;
      }
      n += some;
    } while (block);
  }
  for (int i = 0; i < KEYS; i++) {
    CHECK_EQ_INT(seen[i], there[i] != 0);
    CHECK_EQ_INT(ivf_has(ivf, i), there[i] != 0);
  }
  CHECK_EQ_INT(atomic_load(&ivf->rows), n);
}

TEST(any_order) {
  static const uint32_t bits[] = {8, 2, 1, 0};
  for (int b = 0; b < 3; b++) {
    struct ivf ivf;
    struct ivf_writer w;
    static uint8_t there[KEYS];
    memset(there, 0, sizeof there);
    CHECK(begin(&ivf, &env_posix, bits[b]));
    CHECK(ivf_writer_init(&w, &ivf));
    for (int step = 0; step < 3000; step++) {
      if (test_random() % 3) {
        int64_t keys[IVF_ROWS];
        float vectors[IVF_ROWS * DIM];
        size_t n = test_random() % 20 + 1;
        for (size_t i = 0; i < n; i++) {
          uint32_t list = (uint32_t)(test_random() % LISTS);
          keys[i] = (int64_t)(test_random() % KEYS);
          vector_in(vectors + i * DIM, list);
          there[keys[i]] = (uint8_t)(list + 1);
        }
        CHECK_EQ_INT(ivf_set(&w, keys, vectors, n), 0);
      } else {
        for (int i = 0; i < 20; i++) {
          int64_t key = (int64_t)(test_random() % KEYS);
          CHECK_EQ_INT(ivf_remove(&ivf, key), there[key] != 0);
          there[key] = 0;
        }
      }
      if (test_random() % 50 == 0) {
        for (uint32_t list = 0; list < LISTS; list++) {
          ivf_close(&ivf, list);
        }
        uint32_t blocks = 0;
        for (uint32_t list = 0; list < LISTS; list++) {
          blocks += lists_blocks(&ivf.lists, list);
        }
        CHECK(blocks <= atomic_load(&ivf.rows) / IVF_BLOCK + LISTS);
        check_keys(&ivf, there);
      }
    }
    check_keys(&ivf, there);
    ivf_writer_free(&w);
    ivf_free(&ivf);
  }
}

/* ---- at the same time ---------------------------------------------------- */

struct beside {
  struct ivf ivf;
  _Atomic int stop, found;
};

/* Keys below KEYS / 2 stay in list 0, and every search finds them. */
static void *searches(void *arg) {
  struct beside *b = arg;
  struct ivf_search search;
  CHECK(ivf_search_init(&search, &b->ivf));
  while (!atomic_load(&b->stop)) {
    float query[DIM] = {0};
    static const struct ivf_asked all = {.probes = LISTS, .most = KEYS * 2};
    struct ivf_asked asked = all;
    uint8_t seen[KEYS] = {0};
    int n = 0;
    asked.query = query;
    CHECK_EQ_INT(ivf_search(&search, &asked), 0);
    for (size_t i = 0; i < search.n; i++) {
      CHECK(search.found[i].key >= 0 && search.found[i].key < KEYS);
      n += !seen[search.found[i].key] && search.found[i].key < KEYS / 2;
      seen[search.found[i].key] = 1;
    }
    CHECK_EQ_INT(n, KEYS / 2);
    atomic_fetch_add(&b->found, 1);
  }
  ivf_search_free(&search);
  return NULL;
}

static void *removals(void *arg) {
  struct beside *b = arg;
  uint64_t x = 88172645463325252u;
  while (!atomic_load(&b->stop)) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    int64_t key = (int64_t)(KEYS / 2 + x % (KEYS / 2));
    (void)ivf_remove(&b->ivf, key);
  }
  return NULL;
}

TEST(searches_and_removals_beside_changes) {
  static struct beside b;
  struct ivf_writer w;
  pthread_t threads[2];
  int64_t keys[IVF_ROWS];
  float vectors[IVF_ROWS * DIM];
  CHECK(begin(&b.ivf, &env_posix, 8));
  CHECK(ivf_writer_init(&w, &b.ivf));
  for (int64_t key = 0; key < KEYS / 2; key++) {
    vector_in(vectors, 0);
    CHECK_EQ_INT(ivf_set(&w, &key, vectors, 1), 0);
  }
  pthread_create(&threads[0], NULL, searches, &b);
  pthread_create(&threads[1], NULL, removals, &b);
  for (int step = 0; step < 300 || atomic_load(&b.found) < 20; step++) {
    for (size_t i = 0; i < 100; i++) {
      keys[i] = (int64_t)(KEYS / 2 + test_random() % (KEYS / 2));
      vector_in(vectors, (uint32_t)(test_random() % LISTS));
      CHECK_EQ_INT(ivf_set(&w, &keys[i], vectors, 1), 0);
    }
    for (uint32_t list = 0; list < LISTS; list++) {
      ivf_close(&b.ivf, list);
    }
  }
  atomic_store(&b.stop, 1);
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
  uint64_t n = 0;
  for (uint32_t list = 0; list < LISTS; list++) {
    uint32_t block = 0;
    do {
      size_t some = ivf_keys(&b.ivf, list, &block, keys, IVF_ROWS);
      for (size_t i = 0; i < some; i++) {
        CHECK(ivf_has(&b.ivf, keys[i]));
      }
      n += some;
    } while (block);
  }
  CHECK_EQ_INT(n, atomic_load(&b.ivf.rows));
  ivf_writer_free(&w);
  ivf_free(&b.ivf);
}
