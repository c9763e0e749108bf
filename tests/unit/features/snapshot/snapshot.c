/* SPDX-License-Identifier: MIT
**
** snapshot.c -- snapshots against a model: each must read back exactly the
** state of its moment, whatever happens at the same time and later.
**
** The store runs without threads (EMB_OPEN_STEP) in the minimum memory; the
** seed decides every call, so SEED=n repeats a failure.  LONG=n multiplies the
** number of calls.
**
** BESIDE     While the index is written, the interrupt callback, which is
**            called before each partition, does the work of other sessions:
**            puts, deletions, new keys, a commit or rollback of a transaction
**            that was open at the mark, and transactions that begin after it.
** CRASHES    Now and then the directory is copied as it is and the copy opened,
**            as after a kill: it has every snapshot that was taken.
*/
#include "store_help.h"

#include "engine/base/hash.h"
#include "engine/storage/ckpt/blocks.h"
#include "files.h"

#define ABSENT INT32_MIN

enum { DIM = 250, KEYS = 6000, BATCH = 64, SNAPS = 5 };

struct kept { /* a snapshot and what it must hold */
  char name[24];
  int there;
  int32_t *values;
  emb_snap *open; /* or NULL; may outlive the snapshot's drop */
};

static struct {
  emb_config config;
  char dir[400];
  emb_store *store;
  emb_session *s, *other; /* for snapshots, for all else */
  int32_t values[KEYS], mine[KEYS];
  int txn;
  uint8_t claimed[KEYS];
  int beside; /* percent of partitions before which others write */
  struct kept snaps[SNAPS];
  uint64_t taken, read, crashes, during, numbers;
  float rows[BATCH * DIM];
  int64_t keys[BATCH];
} m;

/* Keys spread over the range of hashes and of int64. */
static int64_t key_of(uint32_t i) {
  return i % 3 ? (int64_t)i : (int64_t)(i * UINT64_C(0x9e3779b97f4a7c15));
}

/* ---- other sessions ------------------------------------------------------ */

static uint32_t pick(uint32_t *picked, int free_only) {
  uint32_t n = 1 + test_below(BATCH - 1), first = test_below(KEYS), count = 0;
  int dense = test_chance(50);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t k = dense ? (first + i) % KEYS : test_below(KEYS);
    int repeated = free_only && m.txn && m.claimed[k];
    for (uint32_t j = 0; j < count; j++)
      repeated |= picked[j] == k;
    if (!repeated)
      picked[count++] = k;
  }
  for (uint32_t i = 0; i < count; i++)
    m.keys[i] = key_of(picked[i]);
  return count;
}

static void set_rows(const uint32_t *picked, uint32_t n, int32_t *values) {
  for (uint32_t i = 0; i < n; i++) {
    values[picked[i]] = (int32_t)test_below(1900);
    help_vector(m.rows + i * DIM, DIM, key_of(picked[i]), values[picked[i]]);
  }
}

static void put_some(void) {
  uint32_t picked[BATCH], n = pick(picked, 1);
  set_rows(picked, n, m.values);
  OK(m.other, emb_put(m.other, m.keys, n, m.rows, NULL));
  for (uint32_t i = 0; i < n; i++)
    m.mine[picked[i]] = m.values[picked[i]];
}

static void delete_some(void) {
  uint32_t picked[BATCH], n = pick(picked, 1);
  OK(m.other, emb_delete(m.other, m.keys, n, NULL));
  for (uint32_t i = 0; i < n; i++)
    m.mine[picked[i]] = m.values[picked[i]] = ABSENT;
}

static void change_in_txn(void) {
  uint32_t picked[BATCH], n = pick(picked, 0);
  if (test_chance(70)) {
    set_rows(picked, n, m.mine);
    OK(m.other, emb_txn_put(m.other, m.keys, n, m.rows));
  } else {
    OK(m.other, emb_txn_delete(m.other, m.keys, n, NULL));
    for (uint32_t i = 0; i < n; i++)
      m.mine[picked[i]] = ABSENT;
  }
  for (uint32_t i = 0; i < n; i++)
    m.claimed[picked[i]] = 1;
}

static void end_txn(int commit) {
  uint64_t number;
  if (!m.txn)
    return;
  if (commit) {
    if (test_chance(50))
      OK(m.other, emb_prepare(m.other, &number));
    OK(m.other, emb_commit(m.other));
    memcpy(m.values, m.mine, sizeof m.values);
  } else {
    emb_rollback(m.other);
    memcpy(m.mine, m.values, sizeof m.mine);
  }
  memset(m.claimed, 0, sizeof m.claimed);
  m.txn = 0;
}

static void begin_txn(void) {
  if (!m.txn && OK(m.other, emb_begin(m.other)))
    m.txn = 1;
}

static void write_something(void) {
  switch (test_below(12)) {
  case 0:
  case 1:
    delete_some();
    break;
  case 2:
    begin_txn();
    break;
  case 3:
    end_txn(test_chance(70));
    break;
  case 4:
  case 5:
  case 6:
    if (m.txn) {
      change_in_txn();
      break;
    }
    put_some();
    break;
  default:
    put_some();
  }
}

static int ask(void *arg) {
  (void)arg;
  if (test_chance((uint32_t)m.beside)) {
    write_something();
    m.during++;
  }
  return 0;
}

/* ---- snapshots ----------------------------------------------------------- */

static int is_row(const struct kept *k, int64_t key, const float *row) {
  for (uint32_t i = 0; i < KEYS; i++)
    if (key_of(i) == key)
      return help_is(row, DIM, key, k->values[i]);
  return 0;
}

/* Every key by scan and by lookup. */
static void read_back(struct kept *k, emb_session *s, emb_snap *snap) {
  static float rows[97 * DIM];
  static int64_t keys[97];
  static uint8_t seen[KEYS], found[97];
  uint64_t versions[97];
  size_t n;
  int64_t count = 0, want = 0;
  memset(seen, 0, sizeof seen);
  for (uint32_t i = 0; i < KEYS; i++)
    want += k->values[i] != ABSENT;
  emb_snapshot_rewind(snap);
  do {
    if (!OK(s, emb_snapshot_scan(snap, 97, keys, rows, versions, &n)))
      return;
    for (size_t i = 0; i < n; i++) {
      count++;
      if (i % 16 == 0)
        CHECK(is_row(k, keys[i], rows + i * DIM));
      CHECK(versions[i] > 0);
    }
  } while (n > 0);
  CHECK_EQ_INT(count, want);
  CHECK_EQ_INT(emb_snapshot_count(snap), want);
  for (uint32_t at = 0; at < KEYS; at += 97) {
    uint32_t rest = KEYS - at < 97 ? KEYS - at : 97;
    for (uint32_t i = 0; i < rest; i++)
      keys[i] = key_of(at + i);
    if (!OK(s, emb_snapshot_get(snap, keys, rest, rows, found, versions)))
      return;
    for (uint32_t i = 0; i < rest; i++) {
      int32_t value = k->values[at + i];
      CHECK_EQ_INT(found[i], value != ABSENT);
      CHECK_EQ_INT(versions[i] != 0, value != ABSENT);
      if (value != ABSENT)
        CHECK(help_is(rows + i * DIM, DIM, keys[i], value));
      else
        CHECK(rows[i * DIM] == 0 && rows[i * DIM + DIM - 1] == 0);
      m.read++;
    }
  }
}

static void take(struct kept *k) {
  snprintf(k->name, sizeof k->name, "s%" PRIu64, ++m.numbers);
  k->values = k->values ? k->values : malloc(sizeof m.values);
  memcpy(k->values, m.values, sizeof m.values);
  m.beside = test_chance(30) ? 0 : (int)test_below(12);
  emb_session_interrupt(m.s, ask, NULL);
  k->there = OK(m.s, emb_snapshot(m.s, k->name));
  emb_session_interrupt(m.s, NULL, NULL);
  m.taken++;
}

static void close_snap(struct kept *k) {
  emb_snapshot_close(k->open);
  k->open = NULL;
}

static void drop(struct kept *k) {
  OK(m.s, emb_snapshot_drop(m.s, k->name));
  k->there = 0;
}

static void look_at(struct kept *k) {
  if (k->open == NULL && k->there)
    OK(m.s, emb_snapshot_open(m.s, k->name, &k->open));
  if (k->open != NULL)
    read_back(k, m.s, k->open);
  if (test_chance(60) || !k->there)
    close_snap(k);
}

static void use_snapshots(void) {
  struct kept *k = &m.snaps[test_below(SNAPS)];
  if (k->open != NULL || (k->there && test_chance(60)))
    look_at(k);
  else if (k->there)
    drop(k);
  else
    take(k);
}

static void check_list(emb_session *s) {
  emb_snapshot_info infos[SNAPS + 1];
  size_t n, there = 0;
  OK(s, emb_snapshots(s, infos, SNAPS + 1, &n));
  for (int i = 0; i < SNAPS; i++)
    there += m.snaps[i].there != 0;
  CHECK_EQ_INT(n, there);
  for (size_t i = 1; i < n; i++)
    CHECK(infos[i - 1].version <= infos[i].version);
}

/* ---- the store ----------------------------------------------------------- */

static void work(void) {
  int more = 1;
  for (uint32_t i = test_below(6); more && i > 0; i--)
    OK(NULL, emb_step(m.store, &more));
}

static void open_store(void) {
  emb_err err;
  if (help_open(m.dir, &m.config, &m.store, &m.s))
    CHECK_EQ_INT(emb_session_open(m.store, &m.other, &err), EMB_OK);
}

static void reopen(void) {
  end_txn(1);
  for (int i = 0; i < SNAPS; i++)
    close_snap(&m.snaps[i]);
  emb_session_close(m.other);
  help_close(m.store, m.s);
  open_store();
  check_list(m.s);
}

static void crash(void) {
  const char *copy = help_path("copy");
  emb_store *store;
  emb_session *s;
  emb_err err;
  if (!CHECK(files_copy_dir(copy, m.dir)) ||
      !help_open(copy, &m.config, &store, &s))
    return;
  if (emb_in_doubt(store))
    emb_resolve(store, emb_in_doubt(store), 1, &err);
  /* The new owner's work must keep the snapshots as well. */
  OK(s, emb_put(s, m.keys, 1, m.rows, NULL));
  if (test_chance(30))
    OK(s, emb_optimize(s));
  check_list(s);
  for (int i = 0; i < SNAPS; i++) {
    emb_snap *snap;
    if (m.snaps[i].there &&
        OK(s, emb_snapshot_open(s, m.snaps[i].name, &snap))) {
      read_back(&m.snaps[i], s, snap);
      emb_snapshot_close(snap);
    }
  }
  help_verify(s);
  help_close(store, s);
  CHECK_EQ_INT(emb_destroy(copy, &err), EMB_OK);
  CHECK_EQ_INT(help_entries(copy), -1);
  m.crashes++;
}

static void start(uint32_t flags, uint32_t type) {
  for (int i = 0; i < SNAPS; i++)
    free(m.snaps[i].values);
  memset(&m, 0, sizeof m);
  m.config = (emb_config){.dim = DIM,
                          .type = type,
                          .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP | flags,
                          .memory_bytes = 1,
                          .io = EMB_IO_PREAD,
                          .timeout_ms = 1000};
  snprintf(m.dir, sizeof m.dir, "%s",
           flags & EMB_OPEN_TEMPORARY ? test_dir() : help_path("store"));
  open_store();
  for (uint32_t i = 0; i < KEYS; i++)
    m.values[i] = m.mine[i] = ABSENT;
  for (uint32_t i = 0; i < KEYS / 20; i++)
    put_some();
}

static void finish(void) {
  end_txn(0);
  for (int i = 0; i < SNAPS; i++) {
    if (m.snaps[i].there || m.snaps[i].open)
      look_at(&m.snaps[i]);
    close_snap(&m.snaps[i]);
  }
  help_verify(m.s);
  emb_session_close(m.other);
  help_close(m.store, m.s);
}

static void run_model(uint32_t flags, uint32_t type, unsigned calls) {
  start(flags, type);
  for (unsigned i = 0; i < help_amount(calls); i++) {
    uint32_t what = test_below(100);
    if (what < 70)
      write_something();
    else if (what < 80)
      work();
    else if (what < 94)
      use_snapshots();
    else if (what < 96 && !m.txn)
      OK(m.s, emb_checkpoint(m.s));
    else if (what < 97 && !m.txn)
      OK(m.s, emb_optimize(m.s));
    else if (!(flags & EMB_OPEN_TEMPORARY) && what < 98)
      reopen();
    else if (!(flags & EMB_OPEN_TEMPORARY))
      crash();
  }
  finish();
  test_count("snapshots taken", m.taken);
  test_count("writes beside a snapshot being taken", m.during);
  test_count("keys read back from snapshots", m.read);
}

TEST(each_reads_back_its_moment) {
  run_model(0, EMB_F32, 300);
  test_count("copies opened as after a kill", m.crashes);
}

TEST(so_does_a_temporary_one) { run_model(EMB_OPEN_TEMPORARY, EMB_F16, 200); }

/* ---- one thing at a time ------------------------------------------------- */

TEST(names_and_limits) {
  start(0, EMB_F32);
  char name[80];
  emb_snap *snap;
  emb_snapshot_info info;
  size_t n;
  memset(name, 'x', sizeof name);
  name[65] = 0;
  GIVES(m.s, EMB_RANGE, emb_snapshot(m.s, name));
  name[64] = 0;
  OK(m.s, emb_snapshot(m.s, name));
  GIVES(m.s, EMB_RANGE, emb_snapshot(m.s, name));
  CHECK(strstr(emb_errmsg(m.s), "already") != NULL);
  GIVES(m.s, EMB_RANGE, emb_snapshot(m.s, ""));
  GIVES(m.s, EMB_RANGE, emb_snapshot(m.s, "../x"));
  GIVES(m.s, EMB_RANGE, emb_snapshot_open(m.s, "none", &snap));
  GIVES(m.s, EMB_RANGE, emb_snapshot_drop(m.s, "none"));
  for (int i = 1; i < EMB_SNAPSHOTS_MAX; i++) {
    snprintf(name, sizeof name, "n%d", i);
    OK(m.s, emb_snapshot(m.s, name));
  }
  GIVES(m.s, EMB_RANGE, emb_snapshot(m.s, "one-too-many"));
  OK(m.s, emb_snapshots(m.s, &info, 1, &n)); /* equal times: sorted by name */
  CHECK_EQ_INT(n, EMB_SNAPSHOTS_MAX);
  CHECK_STR(info.name, "n1");
  for (int i = 1; i < EMB_SNAPSHOTS_MAX; i++) {
    snprintf(name, sizeof name, "n%d", i);
    OK(m.s, emb_snapshot_drop(m.s, name));
  }
  finish();
}

TEST(of_an_empty_table) {
  emb_snap *snap;
  size_t n;
  int64_t key = 1;
  uint8_t found = 1;
  start(0, EMB_F32);
  for (uint32_t i = 0; i < KEYS; i++) {
    key = key_of(i);
    OK(m.other, emb_delete(m.other, &key, 1, NULL));
  }
  OK(m.s, emb_snapshot(m.s, "empty"));
  OK(m.s, emb_snapshot_open(m.s, "empty", &snap));
  OK(m.s, emb_snapshot_scan(snap, 1, &key, m.rows, NULL, &n));
  CHECK_EQ_INT(n, 0);
  OK(m.s, emb_snapshot_get(snap, &key, 1, m.rows, &found, NULL));
  CHECK_EQ_INT(found, 0);
  emb_snapshot_close(snap);
  finish();
}

/* A snapshot keeps its extents, and dropping it releases them; the other
** extents are compacted in the meantime. */
TEST(space_is_kept_and_given_back) {
  uint64_t before, with;
  int more;
  start(0, EMB_F32);
  OK(m.s, emb_optimize(m.s));
  before = help_disk_bytes(m.dir);
  OK(m.s, emb_snapshot(m.s, "old"));
  for (int i = 0; i < 2000; i++) {
    put_some();
    if (i % 8 == 0)
      OK(NULL, emb_step(m.store, &more));
  }
  OK(m.s, emb_optimize(m.s));
  with = help_disk_bytes(m.dir);
  CHECK(help_stat(m.store, "kept_bytes") > 0);
  CHECK(with > before * 3 / 2 && with < before * 3);
  OK(m.s, emb_snapshot_drop(m.s, "old"));
  CHECK_EQ_INT(help_stat(m.store, "kept_bytes"), 0);
  for (more = 1; more;)
    OK(NULL, emb_step(m.store, &more));
  OK(m.s, emb_optimize(m.s));
  CHECK(help_disk_bytes(m.dir) < before * 4 / 3);
  finish();
}

/* An interrupt, and leftover files. */
static int stop(void *left) { return (*(int *)left)-- <= 0; }

TEST(one_that_was_not_finished_is_gone) {
  size_t n;
  emb_snapshot_info info;
  start(0, EMB_F32);
  int entries = help_entries(m.dir), left = 700;
  emb_session_interrupt(m.s, stop, &left);
  GIVES(m.s, EMB_INTERRUPT, emb_snapshot(m.s, "half"));
  emb_session_interrupt(m.s, NULL, NULL);
  CHECK_EQ_INT(help_entries(m.dir), entries);
  OK(m.s, emb_snapshot(m.s, "whole"));
  char from[500], to[500];
  snprintf(from, sizeof from, "%s/snap-whole", m.dir);
  snprintf(to, sizeof to, "%s/snapnew-half", m.dir);
  CHECK_EQ_INT(link(from, to), 0);
  emb_session_close(m.other);
  help_close(m.store, m.s);
  open_store();
  put_some();
  CHECK(access(to, F_OK) != 0);
  OK(m.s, emb_snapshots(m.s, &info, 1, &n));
  CHECK_EQ_INT(n, 1);
  finish();
}

static void count_problem(void *count, const char *line) {
  *(int *)count += strstr(line, "snap-s") != NULL;
}

/* Damage to any byte of a snapshot's file is an error when it is read; nothing
** else changes. */
TEST(a_damaged_file_is_told) {
  uint64_t tried = 0;
  start(0, EMB_F32);
  OK(m.s, emb_snapshot(m.s, "s"));
  end_txn(0);
  emb_session_close(m.other);
  help_close(m.store, m.s);
  char path[500];
  snprintf(path, sizeof path, "%s/snap-s", m.dir);
  struct stat st;
  CHECK_EQ_INT(stat(path, &st), 0);
  for (int i = 0; i < 60; i++, tried++) {
    FILE *file = fopen(path, "r+b");
    long at = (long)(i < 30 ? test_below(120) + (uint32_t)(i % 2) * 65536u
                            : test_below((uint32_t)st.st_size));
    fseek(file, at, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, at, SEEK_SET);
    fputc(byte ^ (1 << test_below(8)), file);
    fclose(file);
    open_store();
    if (i % 2) /* as the owner, else as a reader */
      put_some();
    emb_snap *snap;
    int problems = 0;
    int rc = emb_snapshot_open(m.s, "s", &snap);
    if (!rc) {
      size_t n = 1;
      while (!rc && n)
        rc = emb_snapshot_scan(snap, BATCH, m.keys, m.rows, NULL, &n);
      emb_snapshot_close(snap);
    }
    CHECK_EQ_INT(rc, EMB_CORRUPT);
    OK(m.s, emb_verify(m.s, count_problem, &problems));
    CHECK(problems > 0);
    emb_session_close(m.other);
    help_close(m.store, m.s);
    file = fopen(path, "r+b");
    fseek(file, at, SEEK_SET);
    fputc(byte, file);
    fclose(file);
  }
  test_count("damaged bytes of a snapshot", tried);
  open_store();
  finish();
}

/* ---- one damaged block --------------------------------------------------- */

enum { BLOCKS = 8, MANY = BLOCKS * BLOCK_PAIRS - 100 };

static int by_hash(const void *a, const void *b) {
  int64_t x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  uint64_t first = hash_key(x), second = hash_key(y);
  return (first > second) - (first < second);
}

/* Keys in the order of the file: so blocks are read several at a time.  Those
** of the other blocks are found. */
TEST(damage_hides_only_its_block) {
  static int64_t keys[MANY];
  static float vectors[MANY];
  const emb_config c = {.dim = 1, .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  const char *dir = help_path("store");
  char path[500];
  emb_store *store;
  emb_session *s;
  emb_snap *snap;
  for (int64_t i = 0; i < MANY; i++) {
    keys[i] = i;
    vectors[i] = (float)i;
  }
  if (!help_open(dir, &c, &store, &s))
    return;
  OK(s, emb_put(s, keys, MANY, vectors, NULL));
  OK(s, emb_snapshot(s, "s"));
  help_close(store, s);
  (void)snprintf(path, sizeof path, "%s/snap-s", dir);
  /* Two blocks precede the entries. */
  (void)files_flip(path, (2 + BLOCKS / 2) * (long)BLOCK_BYTES + 1000, 1);
  qsort(keys, MANY, sizeof *keys, by_hash);
  if (!help_open(dir, &c, &store, &s) ||
      !OK(s, emb_snapshot_open(s, "s", &snap)))
    return;
  int64_t hidden = 0, wrong = 0;
  for (int i = 0; i < MANY; i++) {
    float vector = -1;
    uint8_t found = 0;
    int rc = emb_snapshot_get(snap, &keys[i], 1, &vector, &found, NULL);
    hidden += rc == EMB_CORRUPT;
    wrong += rc ? rc != EMB_CORRUPT : !found || vector != (float)keys[i];
  }
  CHECK_EQ_INT(wrong, 0);
  CHECK_EQ_INT(hidden, BLOCK_PAIRS);
  emb_snapshot_close(snap);
  help_close(store, s);
}
