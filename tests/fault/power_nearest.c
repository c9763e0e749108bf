/* SPDX-License-Identifier: MIT
**
** power_nearest.c -- the power fails at every event of a life in which an
** index of neighbours is built, saved, and saved again during changes.
**
** The following must be found afterwards (tests/lib/disk.h says which disks
** are possible): the rows that were durable; and an index, loaded from an
** intact file or built again, never a damaged one, which finds every row.
*/
#include "engine/table/owner/registry.h"
#include "disk.h"
#include "near_help.h"

enum { KEYS = 1100, PUT = 200, CHANGES = 3, LOOKED = 8 };

static const char dir[] = "/store";
static struct near model;
static size_t durable[CHANGES + 1]; /* events when this change was */
static int loaded, made;

/* Reads the rows found: each has a version that it once had. */
static int read_model(emb_session *s, size_t events) {
  int at_least = 0;
  for (int i = 1; i <= CHANGES; i++)
    at_least = events >= durable[i] ? i : at_least;
  memset(&model, 0, sizeof model);
  for (int64_t key = 0; key < KEYS; key++) {
    float vector[NEAR_DIM];
    uint8_t found = 0;
    if (!OK(s, emb_peek(s, &key, 1, vector, &found, NULL)))
      return 0;
    for (unsigned v = 1; found && v <= CHANGES + 1; v++)
      if (near_row_is(vector, key, v))
        model.version[key] = v;
    int least = key < PUT ? at_least + 1 : 1;
    if (!test_check(events < durable[0] ||
                        model.version[key] >= (unsigned)least,
                    __FILE__, __LINE__, "%zu events: key %d has version %u",
                    events, (int)key, model.version[key]))
      return 0;
  }
  return 1;
}

static void look(size_t events) {
  emb_store *store;
  emb_session *s;
  if (!near_open(dir, "ivf()", 0, &store, &s))
    return;
  if (read_model(s, events) && events >= durable[0] && near_settle(store)) {
    const char *file = help_stat_text(store, "nearest_file");
    (void)test_check(strcmp(file, "loaded") == 0 || strcmp(file, "none") == 0 ||
                         strcmp(file, "saved") == 0,
                     __FILE__, __LINE__, "%zu events: the file is %s", events,
                     file);
    loaded += strcmp(file, "loaded") == 0;
    made += help_stat(store, "nearest_made") > 0;
    near_finds(s, &model, 0, LOOKED);
    near_finds(s, &model, KEYS - LOOKED, KEYS);
    near_verifies(s, NULL);
  }
  (void)help_close(store, s);
}

static void steps(emb_store *store, int64_t saved) {
  for (int i = 0, more; i < 2000 && help_stat(store, "nearest_saved") < saved;
       i++)
    CHECK_EQ_INT(emb_step(store, &more), EMB_OK);
  CHECK_EQ_INT(help_stat(store, "nearest_saved"), saved);
}

static void live(struct disk *disk) {
  emb_store *store;
  emb_session *s;
  if (!near_open(dir, "ivf()", 0, &store, &s) ||
      !near_put(s, &model, 0, KEYS, 1) || !OK(s, emb_checkpoint(s)))
    return;
  durable[0] = disk_events(disk);
  near_settle(store);
  steps(store, 1);
  for (int i = 1; i <= CHANGES; i++) {
    near_put(s, &model, 0, PUT, (unsigned)i + 1);
    OK(s, emb_checkpoint(s));
    durable[i] = disk_events(disk);
    near_settle(store);
    steps(store, i + 1);
  }
  (void)help_close(store, s);
}

TEST(crash_beside_an_index) {
  struct disk *disk = disk_new(test_random());
  size_t states = 0;
  env_set_default(disk_env(disk));
  disk_record(disk);
  live(disk);
  struct disk *player = disk_player(disk);
  size_t events = disk_events(disk);
  unsigned share = help_share() * (SANITIZED ? 7 : 1);
  for (size_t e = 0; e <= events && !atomic_load(&test_state.failures);
       e += share) {
    disk_play(player, disk, e);
    for (unsigned i = 0; i < help_amount(2); i++) {
      struct disk *after = disk_crash(
          player, (enum disk_loss)(test_random() % DISK_LOSSES), test_random());
      env_set_default(disk_env(after));
      look(e);
      disk_free(after);
      states++;
    }
  }
  HELP_CAME(loaded > 0 && made > 0);
  printf("%zu events, loaded %d, made %d\n", events, loaded, made);
  test_count("states after power loss", states);
  disk_free(player);
  disk_free(disk);
  env_set_default(&env_posix);
}
