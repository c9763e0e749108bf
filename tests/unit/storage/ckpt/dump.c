/* SPDX-License-Identifier: MIT
**
** dump.c -- tests of engine/storage/ckpt/dump.c: a written index loads again,
** and a damaged index file never loads.
*/
#include "test.h"
#include "layout_help.h"

#include "engine/storage/ckpt/dump.h"
#include "engine/emb.h"

static emb_err err;

/* The parts of a core that the dump uses. */
static void open_core(struct core *core, uint32_t part_bits) {
  memset(core, 0, sizeof *core);
  memset(&err, 0, sizeof err);
  core->env = &env_posix;
  core->dir = (char *)(uintptr_t)test_dir();
  core->salt = 4711;
  layout_plain(&core->layout, 64, EMB_F32);
  epoch_init(&core->epoch, core->env);
  CHECK_EQ_INT(index_init(&core->index, core->env, &core->epoch, part_bits),
               EMB_OK);
  CHECK_EQ_INT(
      frames_init(&core->frames, core->env, core->layout.extent_bytes, 16),
      EMB_OK);
  CHECK_EQ_INT(log_init(&core->log, core->env, &core->epoch, &core->frames,
                        &core->layout),
               EMB_OK);
  char path[512];
  (void)snprintf(path, sizeof path, "%s/log", core->dir);
  CHECK_EQ_INT(
      core->env->open(core->env, path, ENV_WRITE | ENV_CREATE, &core->log.file),
      0);
  CHECK_EQ_INT(cache_init(&core->cache, core->env, &core->layout, 16), EMB_OK);
}

static void close_core(struct core *core) {
  index_free(&core->index);
  log_free(&core->log);
  cache_free(&core->cache);
  frames_free(&core->frames);
  epoch_free(&core->epoch);
}

static int64_t key_of(uint64_t i) {
  return i == 0   ? INT64_MIN
         : i == 1 ? INT64_MAX
                  : (int64_t)(i * UINT64_C(0x9E3779B97F4A7C15));
}

/* Extents 3, 4 and 6..24; key i in the i-th slot of them. */
static const uint64_t first_extent = 3;

static void add_extents(struct core *core) {
  core->log.first = first_extent;
  for (uint64_t e = first_extent; e < 25; e++)
    if (e != 5)
      CHECK_EQ_INT(log_adopt(&core->log, e, (uint32_t)(40 - e)), EMB_OK);
  log_start_at(&core->log, 25);
}

static uint64_t address_of(const struct core *core, uint64_t i) {
  const struct layout *l = &core->layout;
  uint64_t page = i / l->slots;
  uint64_t extent = first_extent + page / l->extent_pages;
  extent += extent >= 5;
  return layout_address(l, (extent << l->extent_bits) + page % l->extent_pages,
                        (uint32_t)(i % l->slots));
}

static struct entry *add_key(struct core *core, uint64_t i, uint64_t word) {
  struct index_new new = {
      .key = key_of(i), .hash = hash_key(key_of(i)), .word = word};
  CHECK_EQ_INT(index_insert(&core->index, &new), EMB_OK);
  return new.entry;
}

static int skip_none(void *arg, uint64_t extent) {
  (void)arg, (void)extent;
  return 0;
}
static int skip_one(void *arg, uint64_t extent) {
  return extent == *(uint64_t *)arg;
}

static int go_on(void *arg) {
  (void)arg;
  return 0;
}

static struct manifest dump(struct core *core, uint64_t generation) {
  struct manifest m;
  memset(&m, 0, sizeof m);
  struct epoch_slot *slot = epoch_join(&core->epoch);
  const struct dump_calls calls = {skip_none, go_on, NULL, NULL};
  CHECK_EQ_INT(dump__write(core, slot, generation, &calls, &m, &err), EMB_OK);
  epoch_part(slot);
  return m;
}

enum { KEYS = 18000 };

static void check_loaded(const struct core *core, uint64_t keys) {
  struct index *index = (struct index *)(uintptr_t)&core->index;
  CHECK_EQ_INT(index_count(index), keys);
  CHECK_EQ_INT(atomic_load(&core->count), keys);
  for (uint64_t i = 0; i < keys; i++) {
    uint64_t word;
    (void)index_find(index, key_of(i), hash_key(key_of(i)), &word);
    if (word != address_of(core, i))
      CHECK_EQ_INT(i, -1);
  }
  int64_t live = 0;
  for (uint64_t e = first_extent; e < 25; e++) {
    struct extent *extent = log_extent(&core->log, e);
    CHECK_EQ_INT(extent_phys(extent), e == 5 ? EXTENT_NOWHERE : 40 - e);
    live += e == 5 ? 0 : atomic_load(&extent->live);
  }
  CHECK_EQ_INT(live, keys);
  CHECK_EQ_INT(core->log.first, first_extent);
}

static void round_trip(uint32_t write_bits, uint32_t load_bits, uint64_t keys) {
  struct core core;
  open_core(&core, write_bits);
  add_extents(&core);
  for (uint64_t i = 0; i < keys; i++)
    (void)add_key(&core, i, address_of(&core, i));
  struct manifest m = dump(&core, 9);
  CHECK_EQ_INT(m.index_generation, 9);
  CHECK_EQ_INT(m.keys, keys);
  close_core(&core);
  open_core(&core, load_bits);
  CHECK_EQ_INT(dump__load(&core, &m, &err), EMB_OK);
  check_loaded(&core, keys);
  close_core(&core);
}

TEST(round_trip_of_nothing) { round_trip(10, 10, 0); }
TEST(round_trip_of_one_key) { round_trip(10, 10, 1); }
TEST(round_trip_of_many_keys) { round_trip(10, 10, KEYS); }
/* The block of sizes is only a hint. */
TEST(round_trip_into_other_partitions) { round_trip(3, 10, KEYS); }

/* A cached record's key is dumped with its log address, and an uncommitted
** change with its committed address; an uncommitted insert is not dumped. */
TEST(words_of_every_state) {
  struct core core;
  enum { CACHED = 500 };
  open_core(&core, 6);
  add_extents(&core);
  CHECK(cache_add_frame(&core.cache, frames_take(&core.frames, 0)));
  for (uint64_t i = 0; i < KEYS; i++) {
    uint64_t word = address_of(&core, i);
    if (i < CACHED) {
      uint64_t at = cache_next(&core.cache);
      atomic_store(&cache_at(&core.cache, at)->log_address, word);
      atomic_store(&cache_at(&core.cache, at)->rec.key, key_of(i));
      word = word_move(word, at, 1) | UINT64_C(2) << WORD_FREQ_SHIFT;
    } else if (i % 3 == 0) {
      word |= WORD_INTENT;
    } else if (i % 3 == 1) {
      word |= UINT64_C(5) << WORD_PENDING_SHIFT;
    }
    (void)add_key(&core, i, word);
  }
  for (uint64_t i = KEYS; i < KEYS + 100; i++)
    (void)add_key(&core, i, WORD_INTENT);
  struct manifest m = dump(&core, 1);
  CHECK_EQ_INT(m.keys, KEYS);
  close_core(&core);
  open_core(&core, 6);
  CHECK_EQ_INT(dump__load(&core, &m, &err), EMB_OK);
  check_loaded(&core, KEYS);
  close_core(&core);
}

TEST(skipped_extents_are_not_written) {
  struct core core;
  uint64_t gone = 24;
  const struct dump_calls calls = {skip_one, go_on, NULL, &gone};
  struct manifest m;
  memset(&m, 0, sizeof m);
  open_core(&core, 4);
  add_extents(&core);
  (void)add_key(&core, 0, address_of(&core, 0));
  struct epoch_slot *slot = epoch_join(&core.epoch);
  CHECK_EQ_INT(dump__write(&core, slot, 2, &calls, &m, &err), EMB_OK);
  close_core(&core);
  open_core(&core, 4);
  CHECK_EQ_INT(dump__load(&core, &m, &err), EMB_OK);
  CHECK_EQ_INT(extent_phys(log_extent(&core.log, 24)), EXTENT_NOWHERE);
  CHECK_EQ_INT(extent_phys(log_extent(&core.log, 23)), 17);
  close_core(&core);
  /* A dump with a key that points into the skipped extent is corrupt. */
  open_core(&core, 4);
  add_extents(&core);
  gone = first_extent;
  (void)add_key(&core, 0, address_of(&core, 0));
  slot = epoch_join(&core.epoch);
  CHECK_EQ_INT(dump__write(&core, slot, 3, &calls, &m, &err), EMB_OK);
  close_core(&core);
  open_core(&core, 4);
  CHECK_EQ_INT(dump__load(&core, &m, &err), EMB_CORRUPT);
  close_core(&core);
}

static int load(const struct manifest *m) {
  struct core core;
  open_core(&core, 6);
  int rc = dump__load(&core, m, &err);
  if (rc)
    CHECK(err.code == rc && strstr(err.text, test_dir()) != NULL);
  close_core(&core);
  return rc;
}

TEST(damage_is_detected) {
  struct core core;
  char path[PATH_BYTES];
  open_core(&core, 6);
  add_extents(&core);
  for (uint64_t i = 0; i < KEYS; i++)
    (void)add_key(&core, i, address_of(&core, i));
  struct manifest m = dump(&core, 9);
  dump_path(path, sizeof path, core.dir, 9);
  close_core(&core);
  CHECK_EQ_INT(load(&m), EMB_OK);
  FILE *file = fopen(path, "r+b");
  if (!CHECK(file != NULL))
    return;
  /* A random bit in each block. */
  for (uint64_t block = 0; block < m.index_blocks; block++) {
    for (int i = 0; i < 12; i++) {
      long at =
          (long)(block * DUMP_BLOCK + (i ? test_random() % DUMP_BLOCK : 0));
      fseek(file, at, SEEK_SET);
      int byte = fgetc(file);
      fseek(file, at, SEEK_SET);
      fputc(byte ^ 1 << test_random() % 8, file);
      fflush(file);
      CHECK_EQ_INT(load(&m), EMB_CORRUPT);
      fseek(file, at, SEEK_SET);
      fputc(byte, file);
      fflush(file);
    }
  }
  CHECK_EQ_INT(load(&m), EMB_OK);
  /* Two blocks exchanged. */
  static char a[DUMP_BLOCK], b[DUMP_BLOCK];
  fseek(file, DUMP_BLOCK, SEEK_SET);
  CHECK_EQ_INT(fread(a, 1, sizeof a, file), sizeof a);
  CHECK_EQ_INT(fread(b, 1, sizeof b, file), sizeof b);
  fseek(file, DUMP_BLOCK, SEEK_SET);
  CHECK_EQ_INT(fwrite(b, 1, sizeof b, file), sizeof b);
  CHECK_EQ_INT(fwrite(a, 1, sizeof a, file), sizeof a);
  fflush(file);
  CHECK_EQ_INT(load(&m), EMB_CORRUPT);
  fclose(file);
}

TEST(file_must_fit_its_manifest) {
  struct core core;
  char path[PATH_BYTES];
  open_core(&core, 6);
  add_extents(&core);
  for (uint64_t i = 0; i < KEYS; i++)
    (void)add_key(&core, i, address_of(&core, i));
  struct manifest m = dump(&core, 9), wrong = m;
  dump_path(path, sizeof path, core.dir, 9);
  close_core(&core);
  wrong.keys++;
  CHECK_EQ_INT(load(&wrong), EMB_CORRUPT);
  wrong = m;
  wrong.index_blocks--;
  CHECK_EQ_INT(load(&wrong), EMB_CORRUPT);
  wrong = m;
  wrong.index_blocks++; /* reads zeros beyond the end */
  CHECK_EQ_INT(load(&wrong), EMB_CORRUPT);
  CHECK_EQ_INT(truncate(path, DUMP_BLOCK * 2), 0);
  CHECK_EQ_INT(load(&m), EMB_CORRUPT);
  wrong = m;
  wrong.index_generation++; /* no such file */
  CHECK_EQ_INT(load(&wrong), EMB_CORRUPT);
  /* A file of another generation under the name of this one. */
  char other[PATH_BYTES];
  dump_path(other, sizeof other, test_dir(), 10);
  CHECK_EQ_INT(rename(path, other), 0);
  CHECK_EQ_INT(load(&wrong), EMB_CORRUPT);
  memset(&m, 0, sizeof m); /* never checkpointed: nothing to load */
  CHECK_EQ_INT(load(&m), EMB_OK);
}
