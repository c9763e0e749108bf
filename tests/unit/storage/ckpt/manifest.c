/* SPDX-License-Identifier: MIT
**
** manifest.c -- tests of engine/storage/ckpt/manifest.c: the newer of the
** intact slots is used, whatever happens to the other slot.
*/
#include "test.h"

#include "engine/storage/ckpt/manifest.h"
#include "engine/emb.h"

#include <errno.h>

static struct env *const env = &env_posix;
static emb_err err;

static struct manifest sample(uint64_t generation) {
  struct manifest m;
  memset(&m, 0, sizeof m);
  for (int i = 0; i < 16; i++)
    m.uuid[i] = (uint8_t)(17 * i);
  m.generation = generation;
  m.clean = generation % 3 == 0;
  m.dim = 64;
  m.page_bytes = 4096;
  m.extent_bytes = 262144;
  m.index_generation = generation - 1;
  m.index_blocks = 3 * generation;
  m.keys = 1000 + generation;
  m.replay = 64 * generation;
  m.tail = 64 * generation + 7;
  m.version = UINT64_C(1) << 47;
  m.txn_last = 9 + generation;
  m.txn_committed = 8 + generation;
  return m;
}

static int read_back(struct manifest *m) {
  memset(&err, 0, sizeof err);
  return manifest_read(env, test_dir(), m, &err);
}

/* Compares everything except sum, magic and format, which the caller does not
** set. */
static int same(const struct manifest *m, uint64_t generation) {
  struct manifest want = sample(generation);
  return memcmp(&m->clean, &want.clean,
                sizeof want - offsetof(struct manifest, clean)) == 0;
}

static void path_of(char *to, size_t size) {
  (void)snprintf(to, size, "%s/manifest", test_dir());
}

/* Puts bytes at an offset of the file. */
static void poke(uint64_t offset, const void *bytes, size_t n) {
  char path[300];
  struct env_file *file = NULL;
  path_of(path, sizeof path);
  CHECK_EQ_INT(env->open(env, path, ENV_WRITE | ENV_CREATE, &file), 0);
  CHECK_EQ_INT(env->write(env, file, bytes, n, offset), 0);
  env->close(env, file);
}

static void peek(uint64_t offset, void *bytes, size_t n) {
  char path[300];
  struct env_file *file = NULL;
  path_of(path, sizeof path);
  CHECK_EQ_INT(env->open(env, path, ENV_READ, &file), 0);
  CHECK_EQ_INT(env->read(env, file, bytes, n, offset), 0);
  env->close(env, file);
}

/* Writes one slot, as after a write that did not reach the other slot. */
static void write_generation(uint64_t generation) {
  struct manifest m = sample(generation);
  memcpy(m.magic, "embstore", 8);
  m.format = MANIFEST_FORMAT;
  m.sum = hash_sum((char *)&m + 8, MANIFEST_SLOT - 8, 0, 0);
  poke(generation % 2 * MANIFEST_SLOT, &m, sizeof m);
}

TEST(newest_generation_is_read) {
  struct manifest m;
  for (uint64_t g = 1; g < 20; g++) {
    write_generation(g);
    CHECK_EQ_INT(read_back(&m), EMB_OK);
    CHECK(same(&m, g));
    CHECK(memcmp(m.magic, "embstore", 8) == 0);
    CHECK_EQ_INT(m.format, MANIFEST_FORMAT);
  }
}

/* Generations begin with 1, so a slot with 0 is invalid. */
TEST(generation_0_is_damage) {
  struct manifest m;
  write_generation(0);
  CHECK_EQ_INT(read_back(&m), EMB_CORRUPT);
}

/* A missing manifest was moved away, with all files that it names. */
TEST(a_missing_file_is_not_made) {
  struct manifest m = sample(5);
  CHECK_EQ_INT(manifest_write(env, test_dir(), &m, 1, &err), EMB_CANTOPEN);
  CHECK(manifest_is_missing(env, test_dir()));
}

/* Both slots have every state: if one slot is lost, the other has it. */
TEST(both_slots_are_written) {
  struct manifest m = sample(5), slots[2], back;
  write_generation(5);
  CHECK_EQ_INT(manifest_write(env, test_dir(), &m, 1, &err), EMB_OK);
  CHECK_EQ_INT(m.generation, 7);
  CHECK_EQ_INT(manifest_write(env, test_dir(), &m, 1, &err), EMB_OK);
  CHECK_EQ_INT(m.generation, 9);
  peek(0, slots, sizeof slots);
  for (int lost = 0; lost < 2; lost++) {
    int damaged = -1;
    char zeros[MANIFEST_SLOT] = "";
    poke((uint64_t)lost * MANIFEST_SLOT, zeros, sizeof zeros);
    CHECK_EQ_INT(read_back(&back), EMB_OK);
    CHECK_EQ_INT(back.generation, lost ? 8 : 9);
    back.generation = 5;
    CHECK(same(&back, 5));
    CHECK_EQ_INT(manifest_check(env, test_dir(), &damaged, &err), EMB_OK);
    CHECK_EQ_INT(damaged, lost);
    poke(0, slots, sizeof slots);
  }
}

TEST(first_manifest_has_both_slots) {
  struct manifest m = sample(0), slots[2];
  int damaged = 0;
  struct env_dir *names;
  if (!CHECK(env->open_dir(env, test_dir(), &names) == 0))
    return;
  CHECK_EQ_INT(manifest_create(env, test_dir(), names, &m, &err), EMB_OK);
  env->close_dir(env, names);
  peek(0, slots, sizeof slots);
  CHECK_EQ_INT(slots[1].generation, 1);
  CHECK_EQ_INT(slots[0].generation, 2);
  CHECK_EQ_INT(manifest_check(env, test_dir(), &damaged, &err), EMB_OK);
  CHECK_EQ_INT(damaged, -1);
}

/* Earlier versions wrote the second slot later. */
TEST(slot_that_was_never_written_is_no_damage) {
  int damaged = 0;
  write_generation(1);
  CHECK_EQ_INT(manifest_check(env, test_dir(), &damaged, &err), EMB_OK);
  CHECK_EQ_INT(damaged, -1);
}

TEST(torn_slot_falls_back_to_the_one_before) {
  char older[MANIFEST_SLOT], newer[MANIFEST_SLOT];
  struct manifest m;
  write_generation(3);
  write_generation(4);
  peek(MANIFEST_SLOT, older, sizeof older);
  write_generation(5);
  peek(MANIFEST_SLOT, newer, sizeof newer);
  for (size_t cut = 8; cut < 128; cut += 4) {
    /* The write stopped after `cut` bytes. */
    poke(MANIFEST_SLOT, older, sizeof older);
    poke(MANIFEST_SLOT, newer, cut);
    CHECK_EQ_INT(read_back(&m), EMB_OK);
    /* If the last bytes of both are equal, the slot is complete. */
    char now[MANIFEST_SLOT];
    peek(MANIFEST_SLOT, now, sizeof now);
    CHECK(same(&m, memcmp(now, newer, sizeof now) == 0 ? 5 : 4));
  }
}

TEST(every_flipped_bit_falls_back) {
  unsigned char slot[MANIFEST_SLOT];
  struct manifest m;
  write_generation(4);
  write_generation(5);
  peek(MANIFEST_SLOT, slot, sizeof slot);
  for (size_t bit = 0; bit < sizeof slot * 8; bit++) {
    unsigned char changed = (unsigned char)(slot[bit / 8] ^ 1u << bit % 8);
    poke(MANIFEST_SLOT + bit / 8, &changed, 1);
    CHECK_EQ_INT(read_back(&m), EMB_OK);
    if (!same(&m, 4))
      test_check(0, __FILE__, __LINE__, "bit %zu", bit);
    poke(MANIFEST_SLOT + bit / 8, &slot[bit / 8], 1);
  }
  CHECK_EQ_INT(read_back(&m), EMB_OK);
  CHECK(same(&m, 5));
}

TEST(flipped_bit_of_the_only_slot_is_an_error) {
  unsigned char slot[128];
  struct manifest m;
  write_generation(1);
  peek(MANIFEST_SLOT, slot, sizeof slot);
  for (size_t bit = 0; bit < sizeof slot * 8; bit++) {
    unsigned char changed = (unsigned char)(slot[bit / 8] ^ 1u << bit % 8);
    poke(MANIFEST_SLOT + bit / 8, &changed, 1);
    int rc = read_back(&m);
    int in_magic = bit / 8 >= 8 && bit / 8 < 16;
    CHECK_EQ_INT(rc, in_magic ? EMB_NOTADB : EMB_CORRUPT);
    CHECK(strstr(err.text, test_dir()) != NULL);
    poke(MANIFEST_SLOT + bit / 8, &slot[bit / 8], 1);
  }
}

/* A slot in the place of the other slot was misdirected. */
TEST(misplaced_slot_does_not_count) {
  struct manifest slots[2], m;
  write_generation(4);
  write_generation(5);
  peek(0, slots, sizeof slots);
  poke(0, &slots[1], MANIFEST_SLOT); /* 5 in the even slot */
  CHECK_EQ_INT(read_back(&m), EMB_OK);
  CHECK(same(&m, 5));
  poke(MANIFEST_SLOT, &slots[0], MANIFEST_SLOT);
  CHECK_EQ_INT(read_back(&m), EMB_CORRUPT);
}

/* A later format is refused by its number, not reported as damage. */
TEST(unknown_format_is_named) {
  struct manifest slots[2], m;
  write_generation(4);
  write_generation(5);
  peek(0, slots, sizeof slots);
  slots[1].format = 7;
  memset(slots[1].zero, 1, sizeof slots[1].zero); /* it may use all bytes */
  slots[1].sum = hash_sum((char *)&slots[1] + 8, MANIFEST_SLOT - 8, 0, 0);
  poke(MANIFEST_SLOT, &slots[1], MANIFEST_SLOT);
  CHECK_EQ_INT(read_back(&m), EMB_NOTADB);
  CHECK(strstr(err.text, ": its files have format 7, and this emb " EMB_VERSION
                         " reads formats up to 4; use the newer emb that "
                         "wrote them") != NULL);
}

TEST(other_files_are_no_store) {
  struct manifest m;
  CHECK_EQ_INT(read_back(&m), EMB_CANTOPEN);
  poke(0, "SQLite format 3", 16);
  CHECK_EQ_INT(read_back(&m), EMB_NOTADB);
  char junk[3 * MANIFEST_SLOT];
  for (size_t i = 0; i < sizeof junk; i++)
    junk[i] = (char)test_random();
  poke(0, junk, sizeof junk);
  CHECK_EQ_INT(read_back(&m), EMB_NOTADB);
}

TEST(truncated_file_is_an_error) {
  char path[300];
  struct manifest m;
  write_generation(1);
  path_of(path, sizeof path);
  CHECK_EQ_INT(truncate(path, MANIFEST_SLOT + 100), 0);
  CHECK_EQ_INT(read_back(&m), EMB_CORRUPT);
  CHECK_EQ_INT(truncate(path, MANIFEST_SLOT), 0);
  CHECK_EQ_INT(read_back(&m), EMB_NOTADB);
  CHECK_EQ_INT(truncate(path, 0), 0);
  CHECK_EQ_INT(read_back(&m), EMB_NOTADB);
}

static int no_sync(struct env *e, struct env_file *file) {
  (void)e, (void)file;
  return EIO;
}
static int no_write(struct env *e, struct env_file *file, const void *bytes,
                    size_t n, uint64_t offset) {
  (void)e, (void)file, (void)bytes, (void)n, (void)offset;
  return ENOSPC;
}

TEST(errors_of_the_system_are_told) {
  struct env failing = env_posix;
  struct manifest m = sample(1);
  write_generation(1);
  failing.sync = no_sync;
  CHECK_EQ_INT(manifest_write(&failing, test_dir(), &m, 1, &err), EMB_IOERR);
  CHECK_EQ_INT(manifest_write(&failing, test_dir(), &m, 0, &err), EMB_OK);
  failing.write = no_write;
  CHECK_EQ_INT(manifest_write(&failing, test_dir(), &m, 0, &err), EMB_FULL);
  CHECK_EQ_INT(manifest_write(env, "/nowhere/at/all", &m, 0, &err),
               EMB_CANTOPEN);
}

TEST(long_paths_are_refused) {
  char name[PATH_BYTES], to[PATH_BYTES];
  memset(name, 'x', sizeof name);
  name[PATH_BYTES - 3] = '\0';
  CHECK_EQ_INT(path_join(to, sizeof to, name, "m", &err), EMB_OK);
  CHECK_EQ_INT(path_join(to, sizeof to, name, "mm", &err), EMB_CANTOPEN);
}
