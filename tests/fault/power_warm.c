/* SPDX-License-Identifier: MIT
**
** power_warm.c -- the power fails at every event of a life in which the hot
** set is written and read: by checkpoints, by the close of an owner, and by
** the close of a process that only read.
**
** The following must be found afterwards (tests/lib/disk.h says which disks
** are possible): the rows that were durable, and an intact file of the hot
** set, or none.
*/
#include "engine/features/warmup/hot.h"
#include "engine/table/owner/registry.h"
#include "disk.h"
#include "store_help.h"

/* A record fills a page; 1024 fit into the least memory. */
enum { DIM = 1000, KEYS = 1150, HOT = 40, WRITTEN = 30 };

static const char dir[] = "/store";
static size_t durable; /* events when the writes were */
static int hot_files;

static int open_store(emb_store **store, emb_session **s) {
  const emb_config config = {
      .dim = DIM, .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP, .memory_bytes = 1};
  return help_open(dir, &config, store, s);
}

static int put(emb_session *s, int64_t from, int64_t end, int32_t value) {
  static float vector[DIM];
  int good = 1;
  for (int64_t key = from; good && key < end; key++) {
    help_vector(vector, DIM, key, value);
    good = OK(s, emb_put(s, &key, 1, vector, NULL));
  }
  return good;
}

static int32_t get(emb_session *s, int64_t key) {
  static float vector[DIM];
  uint8_t found = 0;
  return OK(s, emb_get(s, &key, 1, vector, &found, NULL)) && found
             ? help_value(vector, DIM, key)
             : 0;
}

static void read_hot(emb_session *s) {
  for (int i = 0; i < 4 * HOT; i++)
    CHECK(get(s, 100 + i % HOT * 20) == 1);
}

static void look(struct disk *after, size_t events, enum disk_loss loss) {
  (void)after;
  emb_store *store;
  emb_session *s;
  int more = 1;
  if (!open_store(&store, &s))
    return;
  for (int i = 0; i < 1000 && more; i++)
    CHECK_EQ_INT(emb_step(store, &more), EMB_OK);
  (void)test_check(help_stat(store, "warm_damaged") == 0 &&
                       help_stat(store, "warm_errors") == 0,
                   __FILE__, __LINE__, "%zu events, loss %d: damaged", events,
                   (int)loss);
  hot_files += help_stat(store, "warm_rows") > 0;
  for (int64_t key = 0; key < KEYS; key += key < 100 ? 1 : 20) {
    int32_t value = get(s, key);
    (void)test_check(value == (key < WRITTEN && events >= durable ? 2 : 1) ||
                         (value == 2 && key < WRITTEN),
                     __FILE__, __LINE__, "%zu events, loss %d: key %d has %d",
                     events, (int)loss, (int)key, value);
  }
  (void)help_close(store, s);
}

TEST(crash_beside_a_hot_set) {
  struct disk *disk = disk_new(test_random());
  emb_store *store;
  emb_session *s;
  env_set_default(disk_env(disk));
  if (!open_store(&store, &s) || !put(s, 0, KEYS, 1) || !help_close(store, s))
    return;
  disk_record(disk);
  if (!open_store(&store, &s))
    return;
  read_hot(s); /* never writes */
  if (!help_close(store, s) || !open_store(&store, &s))
    return;
  OK(s, emb_warm(s));
  put(s, 0, WRITTEN, 2);
  read_hot(s);
  OK(s, emb_checkpoint(s));
  durable = disk_events(disk);
  read_hot(s);
  put(s, 0, WRITTEN, 2);
  if (!help_close(store, s) || !open_store(&store, &s))
    return;
  OK(s, emb_warm(s));
  read_hot(s);
  (void)help_close(store, s);
  size_t states = disk_crash_each(disk, 5, look);
  HELP_CAME(hot_files > 0);
  printf("%zu events, %d of the states had a hot set\n", disk_events(disk),
         hot_files);
  test_count("states after power loss", states);
  disk_free(disk);
  env_set_default(&env_posix);
}
