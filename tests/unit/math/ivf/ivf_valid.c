/* SPDX-License-Identifier: MIT
**
** ivf_valid.c -- each assertion of engine/math/ivf/ivf_valid.c fires, and the
** preconditions of the other files.
*/
#include "test.h"
#include "death.h"

#include "engine/emb.h"
#include "engine/math/ivf/ivf.h"

enum { DIM = 6, LISTS = 5, KEYS = 1000, SAMPLE = 700 };

static struct ivf ivf;
static struct ivf_writer writer;

/* Centres that are far apart, on one axis. */
static void begin(void) {
  const struct ivf_shape shape = {DIM, 8, EMB_L2, LISTS, 1, KEYS};
  CHECK(ivf_init(&ivf, &env_posix, &shape));
  for (uint32_t i = 0; i < LISTS; i++) {
    ivf.centres.rows[i * DIM] = (float)i * 10;
  }
  ivf__centres_measure(&ivf.centres);
  CHECK(ivf_writer_init(&writer, &ivf));
}

static void end(void) {
  ivf_writer_free(&writer);
  ivf_free(&ivf);
}

static void set(int64_t key, uint32_t list) {
  float vector[DIM] = {(float)list * 10};
  vector[1] = (float)(key % 10) / 10;
  CHECK_EQ_INT(ivf_set(&writer, &key, vector, 1), 0);
}

/* Keys in all lists, some moved, some removed, and blocks that are free. */
static void filled(void) {
  begin();
  for (int64_t key = 0; key < KEYS; key++) {
    set(key, (uint32_t)key % LISTS);
  }
  for (int64_t key = 0; key < KEYS; key += LISTS) {
    set(key, 1);
  }
  for (int64_t key = 1; key < KEYS / 2; key += 7) {
    CHECK(ivf_remove(&ivf, key));
  }
  for (uint32_t list = 0; list < LISTS; list++) {
    ivf_close(&ivf, list);
  }
  CHECK(ivf.lists.free != BLOCK_NONE);
  CHECK(ivf_valid(&ivf));
}

/* The part of the places that has this key, and its slot there. */
static struct places_part *part_of_key(int64_t key, uint32_t *slot) {
  struct places_part *part = &ivf.places.parts[hash_key(key) >> 56];
  uint32_t place = ivf__places_find(&ivf.places, key);
  *slot = 0;
  while (atomic_load(&part->slots[*slot]) != place + 1) {
    ++*slot;
  }
  return part;
}

static void *key_in_place(int64_t key) {
  uint32_t place = ivf__places_find(&ivf.places, key);
  return lists_keys(&ivf.lists, place / IVF_BLOCK) + place % IVF_BLOCK;
}

/* ---- lists --------------------------------------------------------------- */

TEST(lists) {
  struct lists *lists = &ivf.lists;
  filled();
  CHECK_FIRES(lists->count = LISTS_MAX + 1; ivf__lists_valid(lists));
  CHECK_FIRES(lists->chunk_count++; ivf__lists_valid(lists));
  CHECK_FIRES(atomic_fetch_or(&lists->all[1].gate, GATE_ALONE);
              ivf__lists_valid(lists));
  CHECK_FIRES(lists_head(lists, lists->all[1].first)->next = lists->blocks;
              ivf__lists_valid(lists));
  CHECK_FIRES(lists_head(lists, lists->all[1].first)->list = 2;
              ivf__lists_valid(lists));
  CHECK_FIRES(atomic_fetch_add(&lists->all[1].blocks, 1);
              ivf__lists_valid(lists));
  CHECK_FIRES(lists_head(lists, lists->free)->next = lists->free;
              ivf__lists_valid(lists));
  CHECK_FIRES(atomic_store(&lists_head(lists, lists->free)->live, 1);
              ivf__lists_valid(lists));
  CHECK_FIRES(lists->free = BLOCK_NONE; ivf__lists_valid(lists));
  end();
}

TEST(changes_of_lists) {
  const uint32_t words[DIM * IVF_BLOCK] = {0};
  const int64_t keys[IVF_BLOCK] = {KEYS};
  const uint8_t marks[IVF_BLOCK] = {0};
  const struct ivf_entry entry = {KEYS, words, marks};
  struct lists *lists = &ivf.lists;
  filled();
  uint32_t place = ivf__places_find(&ivf.places, 2);
  CHECK_FIRES(ivf__list_leave(&lists->all[0]));
  CHECK_FIRES(atomic_fetch_or(&lists->all[1].gate, GATE_ALONE);
              ivf__lists_append(lists, 1, &entry));
  CHECK_FIRES(ivf__lists_append(lists, LISTS, &entry));
  CHECK_FIRES(ivf__lists_restore(lists, 0, 0, keys, words, marks));
  CHECK_FIRES(ivf__lists_restore(lists, LISTS, 1, keys, words, marks));
  CHECK_FIRES(ivf__lists_replace(lists, place, &entry));
  CHECK_FIRES(ivf__lists_kill(lists, place); ivf__lists_kill(lists, place));
  CHECK_ALL_FIRED("engine/math/ivf/lists.c");
  end();
}

TEST(keys_of_a_list) {
  int64_t keys[IVF_ROWS];
  uint32_t block = 0;
  filled();
  CHECK_FIRES(ivf_keys(&ivf, 1, &block, keys, IVF_BLOCK - 1));
  CHECK(ivf_keys(&ivf, 1, &block, keys, IVF_BLOCK) > 0 && block);
  CHECK_FIRES(ivf_keys(&ivf, 2, &block, keys, IVF_BLOCK));
  end();
}

/* ---- places -------------------------------------------------------------- */

static void part_valid(struct places_part *part) {
  ivf__places_part_valid(&ivf.places, part);
}

/* Enters the place in this slot again. */
static void entered_twice(struct places_part *part, uint32_t slot) {
  uint32_t other = 0;
  while (atomic_load(&part->slots[other])) {
    other++;
  }
  atomic_store(&part->slots[other], atomic_load(&part->slots[slot]));
  part->used++;
}

static void grow(void) {
  for (int64_t key = KEYS; key < 100 * KEYS; key++) {
    set(key, 3);
  }
}

TEST(places) {
  uint32_t slot;
  filled();
  struct places_part *part = part_of_key(2, &slot);
  part_valid(part);
  CHECK_FIRES(part->gone = part->used + 1; part_valid(part));
  CHECK_FIRES(part->used = part->size; part_valid(part));
  CHECK_FIRES(*(int64_t *)key_in_place(2) = KEYS + 1; part_valid(part));
  CHECK_FIRES(entered_twice(part, slot); part_valid(part));
  CHECK_FIRES(part->used++; part->gone++; part_valid(part));
  CHECK_FIRES(ivf__places_add(&ivf.places, 2, 0));
  /* It is also noticed when the part grows. */
  CHECK_FIRES(entered_twice(part, slot); grow());
  end();
}

/* ---- training ------------------------------------------------------------ */

static struct ivf_training training;
static float sample[SAMPLE * DIM];

static void train(size_t n) {
  for (size_t i = 0; i < SAMPLE * DIM; i++) {
    sample[i] = (float)(test_random() % 1000);
  }
  CHECK(ivf_train(&training, &ivf, sample, n));
}

TEST(training_of_centres) {
  struct training *t = &training.training;
  begin();
  CHECK_FIRES(train(LISTS - 1));
  train(SAMPLE);
  CHECK_FIRES(t->n = 1; ivf_train_step(&training));
  CHECK_EQ_INT(ivf_train_step(&training), 0);
  CHECK_FIRES(t->counts[1]++; ivf__training_valid(t));
  CHECK_FIRES(t->n = t->at - 1; ivf__training_valid(t));
  CHECK_FIRES(t->counts[1]++; ivf_train_step(&training));
  CHECK_FIRES(t->round = IVF_ROUNDS; ivf_train_step(&training));
  CHECK_FIRES(uint32_t list[NEARER_ROWS + 1];
              ivf__nearest(&training.nearer, &ivf.centres, sample,
                           NEARER_ROWS + 1, list));
  while (!ivf_train_step(&training)) {
  }
  CHECK_EQ_INT(ivf_train_end(&training, &ivf), 0);
  end();
}

/* ---- an index ------------------------------------------------------------ */

/* Nothing is kept, so that there is no room for the first candidate. */
static void search_for_nothing(void) {
  const float query[DIM] = {0};
  struct ivf_search search;
  CHECK(ivf_search_init(&search, &ivf));
  ivf_search(&search, &(struct ivf_asked){.query = query, .probes = LISTS});
}

TEST(an_index) {
  filled();
  CHECK_FIRES(ivf.centres.count--; ivf_valid(&ivf));
  CHECK_FIRES(ivf.shells.count = 2; ivf_valid(&ivf));
  CHECK_FIRES(const float query[DIM] = {0}; struct ivf_search search;
              ivf_search_init(&search, &ivf);
              ivf_search(&search, &(struct ivf_asked){.query = query,
                                                      .probes = 1,
                                                      .order = IVF_ORDERS}));
  CHECK_FIRES(struct shells shells;
              ivf__shells_init(&shells, &env_posix, 1, SHELLS_MAX + 1));
  CHECK_FIRES(struct ivf large;
              ivf_init(&large, &env_posix,
                       &(struct ivf_shape){DIM, 8, EMB_L2, LISTS_MAX / 2 + 1, 2,
                                           KEYS}));
  CHECK_FIRES(ivf.form.base++; ivf_valid(&ivf));
  CHECK_FIRES(ivf.lists.form.base++; ivf_free(&ivf));
  CHECK_FIRES(atomic_fetch_add(&ivf.rows, 1); ivf_valid(&ivf));
  CHECK_FIRES(ivf__lists_kill(&ivf.lists, ivf__places_find(&ivf.places, 2));
              ivf_valid(&ivf));
  CHECK_FIRES(set(KEYS, 4); uint32_t slot;
              struct places_part *part = part_of_key(KEYS, &slot);
              atomic_store(&part->slots[slot], PLACE_GONE); part->gone++;
              ivf_valid(&ivf));
  CHECK_FIRES(search_for_nothing());
  CHECK_ALL_FIRED("engine/math/ivf/ivf_valid.c");
  end();
}
