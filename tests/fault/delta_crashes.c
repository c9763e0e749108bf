/* SPDX-License-Identifier: MIT
**
** delta_crashes.c -- consumers of deltas of a store whose process dies
** repeatedly.
**
** MANY      Hundreds of lives, each ended by a crash: the directory is copied
**           as it stands, and the copy opened.  Two consumers: one takes
**           deltas and acknowledges most of them, the other takes none
**           during that time.  A consumer that takes a delta then has the
**           same rows as the store, and each key came once.  A consumer is
**           not lost, however many crashes there are.
** FILES     Content of a consumer's file: pages that were never written, for
**           all crashes; also a file in the old format, with room for 32 of
**           them.  A lost consumer learns the reason and the figures.
*/
#include "store_help.h"

#include "engine/base/hash.h"
#include "engine/table/session/session.h"
#include "files.h"

enum { DIM = 100, KEYS = 80, LIVES = 200 };

struct side {
  char name[16];
  int32_t copy[KEYS];
};

static struct {
  char dir[512];
  unsigned life;
  int32_t writes;
  emb_store *store;
  emb_session *s;
} at;

static int open_store(void) {
  emb_config config = {
      .dim = DIM, .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP, .memory_bytes = 1};
  return help_open(at.dir, &config, &at.store, &at.s);
}

static int begin_store(void) {
  memset(&at, 0, sizeof at);
  (void)snprintf(at.dir, sizeof at.dir, "%s/store-0", test_dir());
  return open_store();
}

static void remove_dir(const char *dir) {
  CHECK_EQ_INT(nftw(dir, test_remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* Only rows that are not durable are lost. */
static int crash(void) {
  char to[512];
  (void)snprintf(to, sizeof to, "%s/store-%u", test_dir(), ++at.life);
  int good = CHECK(files_copy_dir(to, at.dir));
  help_close(at.store, at.s);
  remove_dir(at.dir);
  memcpy(at.dir, to, sizeof to);
  return good && open_store();
}

static void write_some(uint64_t most) {
  float vector[DIM];
  for (uint64_t n = test_below(most + 1); n > 0; n--) {
    int64_t key = (int64_t)test_below(KEYS);
    if (test_below(3)) {
      help_vector(vector, DIM, key, 1 + ++at.writes % 1900);
      OK(at.s, emb_put(at.s, &key, 1, vector, NULL));
    } else {
      OK(at.s, emb_delete(at.s, &key, 1, NULL));
    }
  }
}

static void read_table(int32_t values[KEYS]) {
  static float vectors[KEYS * DIM];
  int64_t keys[KEYS];
  uint8_t found[KEYS];
  for (int i = 0; i < KEYS; i++)
    keys[i] = i;
  OK(at.s, emb_peek(at.s, keys, KEYS, vectors, found, NULL));
  for (int i = 0; i < KEYS; i++)
    values[i] = found[i] ? help_value(vectors + i * DIM, DIM, i) : 0;
}

/* Takes the consumer's next delta to its end; then it equals the table. */
static int take(struct side *side) {
  float vectors[16 * DIM];
  int64_t keys[16];
  uint8_t ops[16], times[KEYS] = {0};
  int32_t want[KEYS];
  emb_delta *delta;
  size_t n = 1;
  uint64_t from;
  int good = 1;
  if (!OK(at.s, emb_delta_open(at.s, side->name, &delta)))
    return 0;
  emb_delta_range(delta, &from, NULL);
  if (from == 0)
    memset(side->copy, 0, sizeof side->copy);
  while (n > 0 && good) {
    good =
        OK(at.s,
           emb_delta_next(
               delta, 16,
               &(emb_rows){.keys = keys, .ops = ops, .vectors = vectors}, &n));
    for (size_t i = 0; good && i < n; i++) {
      good = CHECK(keys[i] >= 0 && keys[i] < KEYS) &&
             test_check(times[keys[i]]++ == 0, __FILE__, __LINE__,
                        "key %d comes twice", (int)keys[i]);
      if (good)
        side->copy[keys[i]] = ops[i] == EMB_DELTA_PUT
                                  ? help_value(vectors + i * DIM, DIM, keys[i])
                                  : 0;
    }
  }
  emb_delta_close(delta);
  read_table(want);
  for (int i = 0; good && i < KEYS; i++)
    good = test_check(side->copy[i] == want[i], __FILE__, __LINE__,
                      "life %u, %s: key %d is %d, not %d", at.life, side->name,
                      i, side->copy[i], want[i]);
  return good;
}

/* Work that is durable in part, so that its crash leaves pages between the
** durable part and the next writes. */
static void work(void) {
  write_some(50);
  OK(at.s, emb_checkpoint(at.s));
  write_some(50);
}

static void upkeep(void) {
  int more = 1;
  if (test_below(3))
    OK(at.s, emb_checkpoint(at.s));
  if (test_below(20) == 0)
    OK(at.s, emb_optimize(at.s));
  for (uint64_t n = test_below(4); n > 0 && more; n--)
    CHECK_EQ_INT(emb_step(at.store, &more), EMB_OK);
}

/* ---- a consumer's file, as FORMAT.md has it ------------------------------ */

struct image {
  char path[800];
  char *bytes;
  size_t size;
};

static int load_file(struct image *f, const char *consumer) {
  (void)snprintf(f->path, sizeof f->path, "%s/consumer-%016" PRIx64, at.dir,
                 (uint64_t)XXH3_64bits(consumer, strlen(consumer)));
  f->bytes = files_load(f->path, 4096, &f->size);
  return f->bytes != NULL;
}

static uint32_t u32(const struct image *f, size_t offset) {
  uint32_t x;
  memcpy(&x, f->bytes + offset, sizeof x);
  return x;
}

static void set(struct image *f, size_t offset, const void *from, size_t n) {
  memcpy(f->bytes + offset, from, n);
}

/* Writes the file with a correct checksum. */
static void store_file(struct image *f, uint64_t salt) {
  uint64_t number, sum;
  memcpy(&number, f->bytes + 40, sizeof number);
  sum = hash_sum(f->bytes + 8, f->size - 8, salt, number);
  memcpy(f->bytes, &sum, sizeof sum);
  files_save(f->path, f->bytes, f->size);
  free(f->bytes);
}

static int state_of(const char *consumer) {
  emb_consumer all[4];
  size_t n;
  OK(at.s, emb_delta_consumers(at.s, all, 4, &n));
  for (size_t i = 0; i < n && i < 4; i++)
    if (strcmp(all[i].name, consumer) == 0)
      return all[i].state;
  return -1;
}

/* ---- many ---------------------------------------------------------------- */

TEST(many_crashes) {
  struct side often = {.name = "often"}, never = {.name = "never"};
  unsigned lives = LIVES / help_share() * help_long(), taken = 0;
  struct image file;
  if (!begin_store())
    return;
  write_some(200);
  OK(at.s, emb_delta_begin(at.s, "never", EMB_DELTA_NOW, 0));
  read_table(never.copy);
  for (unsigned i = 0; i < lives; i++) {
    write_some(i % 5 ? 40 : 0);
    upkeep();
    if (test_below(6) == 0) {
      if (!take(&often))
        break;
      taken++;
      if (test_below(4))
        OK(at.s, emb_delta_ack(at.s, "often", 0));
      write_some(10);
    }
    if (!crash())
      return;
  }
  CHECK_EQ_INT(state_of("never"), EMB_CONSUMER_GOOD);
  CHECK_EQ_INT(state_of("often"), taken ? EMB_CONSUMER_GOOD : -1);
  if (load_file(&file, "never")) {
    HELP_CAME(u32(&file, 16) == 2 && u32(&file, 104) > 60);
    /* Lives that wrote nothing add none. */
    CHECK(u32(&file, 104) <= lives);
    CHECK_EQ_INT(file.size % 4096, 0);
    free(file.bytes);
  }
  take(&never);
  take(&often);
  OK(at.s, emb_delta_ack(at.s, "never", 0));
  write_some(100);
  take(&never);
  help_verify(at.s);
  help_close(at.store, at.s);
  if (!open_store())
    return;
  take(&never);
  /* Entries below its mark are forgotten. */
  if (load_file(&file, "never")) {
    CHECK_EQ_INT(u32(&file, 16), 1);
    CHECK_EQ_INT(u32(&file, 104), 0);
    free(file.bytes);
  }
  help_close(at.store, at.s);
  test_count("crashes of a store with consumers", lives);
  test_count("deltas between crashes", taken);
}

/* Lives that write nothing leave one hole together. */
TEST(crashes_without_work) {
  struct side side = {.name = "a"};
  struct image file;
  if (!begin_store())
    return;
  write_some(100);
  OK(at.s, emb_delta_begin(at.s, "a", EMB_DELTA_NOW, 0));
  read_table(side.copy);
  write_some(100);
  for (int i = 0; i < 50; i++) {
    if (!crash())
      return;
    OK(at.s, emb_checkpoint(at.s));
    CHECK_EQ_INT(state_of("a"), EMB_CONSUMER_GOOD);
  }
  if (load_file(&file, "a")) {
    CHECK(u32(&file, 104) <= 2);
    free(file.bytes);
  }
  write_some(100);
  take(&side);
  help_close(at.store, at.s);
}

/* ---- files --------------------------------------------------------------- */

/* A full file as older libraries wrote it: it is read, and the next crash
** does not lose the consumer. */
TEST(file_of_format_1) {
  struct side side = {.name = "a"};
  struct image file;
  uint32_t format = 1, count = 0;
  if (!begin_store())
    return;
  write_some(100);
  OK(at.s, emb_delta_begin(at.s, "a", EMB_DELTA_NOW, 0));
  read_table(side.copy);
  for (int i = 0; count < 32 && i < 100; i++) {
    work();
    if (!crash() || !load_file(&file, "a"))
      return;
    count = u32(&file, 104);
    CHECK_EQ_INT(u32(&file, 16), 1);
    CHECK_EQ_INT(file.size, 4096);
    if (count < 32)
      free(file.bytes);
  }
  if (!CHECK_EQ_INT(count, 32))
    return;
  uint64_t salt = emb_session_store(at.s)->core.salt;
  help_close(at.store, at.s);
  set(&file, 16, &format, 4);
  store_file(&file, salt);
  if (!open_store())
    return;
  for (int i = 0; i < 5; i++) {
    work();
    if (!crash())
      return;
  }
  if (load_file(&file, "a")) {
    CHECK_EQ_INT(u32(&file, 16), 2);
    CHECK(u32(&file, 104) > 32);
    free(file.bytes);
  }
  take(&side);
  help_verify(at.s);
  help_close(at.store, at.s);
}

/* The error of a lost consumer gives the reason and the figures in its file. */
static void is_told(uint32_t format, uint32_t reason, uint64_t bytes,
                    const char *text) {
  const uint32_t lost = 1;
  struct image file;
  emb_delta *delta;
  if (!begin_store())
    return;
  write_some(50);
  OK(at.s, emb_delta_begin(at.s, "a", EMB_DELTA_NOW, 12345678));
  uint64_t salt = emb_session_store(at.s)->core.salt;
  help_close(at.store, at.s);
  if (!load_file(&file, "a"))
    return;
  set(&file, 16, &format, 4);
  set(&file, 20, &lost, 4);
  set(&file, 368, &reason, 4);
  set(&file, 376, &bytes, 8);
  store_file(&file, salt);
  if (!open_store())
    return;
  write_some(5);
  GIVES(at.s, EMB_GAP, emb_delta_open(at.s, "a", &delta));
  (void)test_check(strstr(emb_errmsg(at.s), text) != NULL, __FILE__, __LINE__,
                   "it says: %s", emb_errmsg(at.s));
  help_verify(at.s);
  OK(at.s, emb_delta_begin(at.s, "a", EMB_DELTA_NOW, 0));
  OK(at.s, emb_delta_open(at.s, "a", &delta));
  emb_delta_close(delta);
  help_close(at.store, at.s);
  remove_dir(at.dir);
}

TEST(lost_for_a_reason) {
  is_told(1, 0, 0,
          "too far behind: the data it needs could not be kept any longer");
  is_told(2, 0, 0,
          "too far behind: the data it needs could not be kept any longer");
  is_told(2, 1, 98765432,
          "98765432 bytes would be kept for it, and keep_bytes is 12345678");
  is_told(2, 2, UINT64_C(3) << 41,
          "6597069766656 bytes of log were written since, and ");
}

/* The figures are those of the moment at which the consumer was given up. */
TEST(lost_for_what_is_kept) {
  enum { KEEP = 400000 };
  emb_delta *delta;
  unsigned long long kept = 0, keep = 0;
  if (!begin_store())
    return;
  write_some(100);
  OK(at.s, emb_delta_begin(at.s, "a", EMB_DELTA_NOW, KEEP));
  for (int i = 0; i < 100 && state_of("a") == EMB_CONSUMER_GOOD; i++) {
    write_some(2000);
    OK(at.s, emb_checkpoint(at.s));
  }
  GIVES(at.s, EMB_GAP, emb_delta_open(at.s, "a", &delta));
  const char *why = strstr(emb_errmsg(at.s), "too far behind: ");
  CHECK(why != NULL &&
        sscanf(why,
               "too far behind: %llu bytes would be kept for it, and "
               "keep_bytes is %llu",
               &kept, &keep) == 2);
  CHECK_EQ_INT(keep, KEEP);
  CHECK(kept > KEEP && kept < 100 * KEEP);
  help_close(at.store, at.s);
}

/* Any byte of a long file is damaged: only the consumer is lost. */
TEST(rotten_long_file) {
  struct image file;
  emb_delta *delta;
  unsigned tried = 0;
  if (!begin_store())
    return;
  write_some(100);
  OK(at.s, emb_delta_begin(at.s, "a", EMB_DELTA_NOW, 0));
  for (uint32_t i = 0; i < 40; i++) {
    work();
    if (!crash())
      return;
  }
  help_close(at.store, at.s);
  if (!load_file(&file, "a"))
    return;
  CHECK_EQ_INT(u32(&file, 16), 2);
  for (size_t byte = 0; byte <= file.size; byte += byte < 16 ? 1 : 97) {
    size_t size = byte < file.size ? file.size : file.size - 1;
    file.bytes[byte] ^= 4; /* or it is cut off */
    files_save(file.path, file.bytes, size);
    file.bytes[byte] ^= 4;
    if (!open_store())
      break;
    write_some(1);
    int rc = emb_delta_open(at.s, "a", &delta);
    (void)test_check(rc == EMB_CORRUPT, __FILE__, __LINE__, "byte %zu: %d",
                     byte, rc);
    help_close(at.store, at.s);
    tried++;
  }
  free(file.bytes);
  test_count("damaged bytes of a long file of a consumer", tried);
}
