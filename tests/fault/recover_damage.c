/* SPDX-License-Identifier: MIT
**
** recover_damage.c -- damage to the files of a store whose owner died: a torn
** tail is cut, damaged durable data is reported as corrupt, and no value is
** ever wrong.
**
** A forked writer leaves the store; a copy is damaged each time, and opened in
** this process.  Pages are found in the log by their checksums.
*/
#include "fork_help.h"
#include "store_help.h"
#include "layout_help.h"

#include "files.h"

#include <fcntl.h>
#include <sys/wait.h>

enum { DIM = 64, KEYS = 6000 };

static char origin[300], copy[300];
static struct layout layout;
static uint64_t salt;

static void make_vectors(float *v, int64_t first, size_t n, int round) {
  for (size_t i = 0; i < n; i++)
    for (int k = 0; k < DIM; k++)
      v[i * DIM + (size_t)k] = (float)((first + (int64_t)i) * 8 + round + k);
}

static const emb_config config = {.dim = DIM,
                                  .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP,
                                  .io = EMB_IO_PREAD,
                                  .timeout_ms = 1000};

/* ---- writers ------------------------------------------------------------- */

static float vectors[KEYS * DIM];
static int64_t keys[KEYS];

static void put(emb_session *s, int in_txn, int64_t first, size_t n,
                int round) {
  for (size_t i = 0; i < n; i++)
    keys[i] = first + (int64_t)i;
  make_vectors(vectors, first, n, round);
  OK(s, in_txn ? emb_txn_put(s, keys, n, vectors)
               : emb_put(s, keys, n, vectors, NULL));
}

static uint64_t prepared(emb_session *s, int64_t first, size_t n, int round) {
  uint64_t number = 0;
  OK(s, emb_begin(s));
  put(s, 1, first, n, round);
  OK(s, emb_prepare(s, &number));
  return number;
}

/* Runs `write` on the store in a process that dies without closing it. */
static void run_and_die(void (*write)(emb_session *)) {
  pid_t child = test_fork();
  if (child == 0) {
    emb_store *store;
    emb_session *s;
    if (help_open(origin, &config, &store, &s))
      write(s);
    _exit(atomic_load(&test_state.failures) ? 1 : 0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK_EQ_INT(status, 0);
}

static void leave_store(void (*write)(emb_session *)) {
  struct manifest m;
  (void)snprintf(origin, sizeof origin, "%s/origin", test_dir());
  (void)snprintf(copy, sizeof copy, "%s/copy", test_dir());
  run_and_die(write);
  CHECK_EQ_INT(manifest_read(&env_posix, origin, &m, NULL), EMB_OK);
  layout_plain(&layout, m.dim, m.type);
  salt = hash_salt(m.uuid);
}

/* ---- copies -------------------------------------------------------------- */

static void copy_store(void) { CHECK(files_copy_dir(copy, origin)); }

enum { PAGES_MAX = 4000 };
static struct file_page places[PAGES_MAX];
static size_t place_count;

/* Every valid page of the store's log, in order of their numbers. */
static void find_pages(const char *dir) {
  struct files files;
  place_count = 0;
  if (CHECK(files_read(&files, dir)))
    place_count = files_pages(files_find(&files, "log"), &layout, salt, places,
                              PAGES_MAX);
  files_free(&files);
}

/* Zeros the page in the copy, or flips one bit of it. */
static void damage(const struct file_page *place, int zero) {
  char path[400], page[1 << 16];
  (void)snprintf(path, sizeof path, "%s/log", copy);
  int fd = open(path, O_RDWR);
  CHECK(pread(fd, page, layout.page_bytes, (off_t)place->offset) > 0);
  if (zero)
    memset(page, 0, layout.page_bytes);
  else
    page[test_random() % layout.page_bytes] ^= 0x10;
  CHECK(pwrite(fd, page, layout.page_bytes, (off_t)place->offset) > 0);
  close(fd);
}

/* ---- reading ------------------------------------------------------------- */

/* How many of the keys [first, first + n) have the value of this round; a row
** with any value except those of the rounds written is a failure. */
static size_t count_rows(emb_session *s, int64_t first, size_t n, int round) {
  static float got[KEYS * DIM], want[DIM];
  static uint8_t found[KEYS];
  size_t count = 0;
  for (size_t i = 0; i < n; i++)
    keys[i] = first + (int64_t)i;
  OK(s, emb_get(s, keys, n, got, found, NULL));
  for (size_t i = 0; i < n; i++) {
    if (!found[i])
      continue;
    int is = (int)(got[i * DIM] - (float)(keys[i] * 8));
    CHECK(is >= 1 && is <= 4);
    make_vectors(want, keys[i], 1, is);
    CHECK(memcmp(want, got + i * DIM, sizeof want) == 0);
    count += is == round;
  }
  return count;
}

static int open_copy(emb_store **store, emb_session **s) {
  emb_err err = {0, ""};
  int rc = emb_open(copy, &config, store, &err);
  if (rc == EMB_OK)
    rc = emb_session_open(*store, s, &err);
  else
    CHECK(err.code == rc && strstr(err.text, copy) != NULL);
  return rc;
}

static void close_copy(emb_store *store, emb_session *s) {
  emb_err err = {0, ""};
  emb_session_close(s);
  int rc = emb_close(store, &err);
  test_check(rc == EMB_OK, __FILE__, __LINE__, "close: %s", err.text);
}

/* ---- tests --------------------------------------------------------------- */

/* 1000 keys in a checkpoint (round 1); transactions 1 and 2 committed, 500 keys
** each (round 2, round 3); transaction 3 prepared, 300 keys (round 4). */
static void write_transactions(emb_session *s) {
  put(s, 0, 0, 1000, 1);
  OK(s, emb_checkpoint(s));
  CHECK_EQ_INT(prepared(s, 0, 500, 2), 1);
  OK(s, emb_commit(s));
  CHECK_EQ_INT(prepared(s, 500, 500, 3), 2);
  OK(s, emb_commit(s));
  CHECK_EQ_INT(prepared(s, 0, 300, 4), 3);
}

/* Is the copy readable, is it in doubt, and does each answer work? */
static void check_copy(const struct file_page *damaged, int commit) {
  emb_store *store = NULL;
  emb_session *s = NULL;
  emb_err err = {0, ""};
  struct manifest m;
  CHECK_EQ_INT(manifest_read(&env_posix, copy, &m, NULL), EMB_OK);
  int rc = open_copy(&store, &s);
  int end_of_2 = damaged && damaged->txn == 2 && damaged->flags & PAGE_SYNCED;
  if (damaged && damaged->number >= m.replay && damaged->txn < 3 && !end_of_2) {
    CHECK_EQ_INT(rc, EMB_CORRUPT); /* transaction 3 shows it was durable */
    return;
  }
  if (!CHECK_EQ_INT(rc, EMB_OK))
    return;
  if (end_of_2) {
    /* Only the coordinator's records show that 2 was prepared: emb_committed
    ** differs from them. */
    CHECK_EQ_INT(emb_in_doubt(store), 3);
    CHECK_EQ_INT(emb_resolve(store, emb_in_doubt(store), 1, &err), EMB_CORRUPT);
    CHECK_EQ_INT(emb_resolve(store, emb_in_doubt(store), 0, &err), EMB_OK);
    CHECK_EQ_INT(emb_committed(store), 1);
  }
  if (damaged && damaged->txn == 3 && damaged[-1].txn == 2) {
    /* No earlier page of 3 is left, not even the note that it followed a
    ** decision. */
    CHECK_EQ_INT(emb_in_doubt(store), 2);
    CHECK_EQ_INT(emb_resolve(store, emb_in_doubt(store), 1, &err), EMB_OK);
    CHECK_EQ_INT(emb_committed(store), 2);
    CHECK_EQ_INT(count_rows(s, 500, 500, 3), 500);
    CHECK_EQ_INT(count_rows(s, 0, 300, 4), 0);
  } else if (!damaged || damaged->txn == 3) {
    int last = damaged && damaged->flags & PAGE_SYNCED;
    /* Without its end, 3 is not complete. */
    CHECK_EQ_INT(emb_in_doubt(store), last ? 0 : 3);
    CHECK_EQ_INT(count_rows(s, 0, 500, 2), 500);
    rc = emb_resolve(store, emb_in_doubt(store), commit, &err);
    if (damaged && !last && commit) {
      CHECK_EQ_INT(rc, EMB_CORRUPT);
      CHECK(strstr(err.text, "transaction 3") != NULL);
      CHECK_EQ_INT(emb_in_doubt(store), 3);
      CHECK_EQ_INT(emb_resolve(store, emb_in_doubt(store), 0, &err), EMB_OK);
    } else {
      CHECK_EQ_INT(rc, EMB_OK);
      CHECK_EQ_INT(count_rows(s, 0, 300, 4), !last && commit ? 300 : 0);
    }
    CHECK_EQ_INT(count_rows(s, 500, 500, 3), 500);
    put(s, 0, 2000, 100, 1);
  }
  close_copy(store, s);
  if (!damaged || (damaged->txn == 3 &&
                   damaged[-1].txn == 3)) { /* and again after a clean close */
    CHECK_EQ_INT(open_copy(&store, &s), EMB_OK);
    CHECK_EQ_INT(count_rows(s, 500, 500, 3), 500);
    CHECK_EQ_INT(count_rows(s, 2000, 100, 1), 100);
    CHECK_EQ_INT(emb_count(s), 1100);
    close_copy(store, s);
  }
}

TEST(damaged_page_of_each_transaction) {
  leave_store(write_transactions);
  find_pages(origin);
  CHECK(place_count > 100);
  uint64_t txns = 0;
  for (int commit = 0; commit < 2; commit++) {
    copy_store();
    check_copy(NULL, commit);
  }
  for (size_t i = 0; i < place_count; i++) {
    txns |= UINT64_C(1) << places[i].txn;
    if (i % 9 && !(places[i].flags & PAGE_SYNCED) &&
        places[i].txn == places[i ? i - 1 : 0].txn)
      continue;
    copy_store();
    damage(&places[i], (int)(test_random() % 2));
    check_copy(&places[i], (int)(test_random() % 2));
  }
  CHECK_EQ_INT(txns, 15);
}

/* Recovery does not read rows of a checkpoint; a damaged page with such rows
** is found when it is read, and its rows give an error, not wrong values. */
TEST(damaged_page_below_the_checkpoint) {
  leave_store(write_transactions);
  find_pages(origin);
  copy_store();
  damage(&places[60], 0); /* keys 900 .. 914, not changed later */
  CHECK_EQ_INT(places[60].txn, 0);
  emb_store *store = NULL;
  emb_session *s = NULL;
  emb_err err;
  float got[DIM];
  int errors = 0;
  if (!CHECK_EQ_INT(open_copy(&store, &s), EMB_OK))
    return;
  CHECK_EQ_INT(emb_resolve(store, emb_in_doubt(store), 0, &err), EMB_OK);
  for (int64_t key = 0; key < 1000; key++) {
    int rc = emb_get(s, &key, 1, got, NULL, NULL);
    CHECK(rc == EMB_OK || rc == EMB_CORRUPT);
    errors += rc != EMB_OK;
    if (rc == EMB_OK)
      CHECK(got[0] == (float)(key * 8 + (key < 500 ? 2 : 3)));
  }
  CHECK_EQ_INT(errors, 0); /* all rows of the page had been replaced */
  emb_session_close(s);
  (void)emb_close(store, &err);
}

static void no_report(void *arg, const char *text) { (void)arg, (void)text; }

/* 600 rows that are in the file, but not durable. */
static void write_tail(emb_session *s) {
  put(s, 0, 0, 1000, 1);
  OK(s, emb_checkpoint(s));
  put(s, 0, 1000, 600, 2);
  OK(s, emb_verify(s, no_report, NULL)); /* flushes, and syncs nothing */
}

TEST(torn_tail_is_cut) {
  leave_store(write_tail);
  find_pages(origin);
  size_t first = place_count;
  while (first > 0 &&
         places[first - 1].number >= places[place_count - 1].number - 39)
    first--;
  size_t rows = 600;
  for (size_t i = first; i < place_count; i += 5) {
    emb_store *store = NULL;
    emb_session *s = NULL;
    copy_store();
    damage(&places[i], (int)(test_random() % 2));
    if (!CHECK_EQ_INT(open_copy(&store, &s), EMB_OK))
      return;
    CHECK_EQ_INT(count_rows(s, 0, 1000, 1), 1000);
    /* All pages before the damaged one are kept, none after it. */
    size_t kept = count_rows(s, 1000, 600, 2);
    CHECK_EQ_INT(kept, rows - (place_count - i) * layout.slots);
    CHECK_EQ_INT(emb_count(s), 1000 + kept);
    put(s, 0, 1000, 600, 3);
    OK(s, emb_checkpoint(s));
    CHECK_EQ_INT(count_rows(s, 1000, 600, 3), 600);
    close_copy(store, s);
  }
}

TEST(truncated_log) {
  leave_store(write_tail);
  find_pages(origin);
  struct manifest m;
  CHECK_EQ_INT(manifest_read(&env_posix, origin, &m, NULL), EMB_OK);
  char path[400];
  (void)snprintf(path, sizeof path, "%s/log", copy);
  for (size_t i = 0; i < place_count; i += 7) {
    emb_store *store = NULL;
    emb_session *s = NULL;
    copy_store();
    CHECK_EQ_INT(truncate(path, (off_t)places[i].offset + 1000), 0);
    int rc = open_copy(&store, &s);
    CHECK(rc == EMB_OK || (rc == EMB_CORRUPT && places[i].number < m.tail));
    if (rc)
      continue;
    float got[DIM];
    for (int64_t key = 0; key < 1600; key += 3) {
      uint8_t found = 0;
      rc = emb_get(s, &key, 1, got, &found, NULL);
      if (rc == EMB_OK && found)
        CHECK(got[0] == (float)(key * 8 + (key < 1000 ? 1 : 2)));
      else
        CHECK(rc == EMB_OK ? key >= 1000 : places[i].number < m.tail);
    }
    emb_session_close(s);
    emb_err err;
    (void)emb_close(store, &err);
  }
}

/* ---- lives --------------------------------------------------------------- */

/* Places 0 to 2 of the file become free and are taken by rows that never
** become durable. */
static void write_into_freed_places(emb_session *s) {
  put(s, 0, 0, 3000, 1);
  OK(s, emb_checkpoint(s));
  put(s, 0, 0, 3000, 2);
  OK(s, emb_checkpoint(s));
  put(s, 0, 10000, 3000, 3);
  OK(s, emb_verify(s, no_report, NULL));
}

static void write_a_little(emb_session *s) {
  CHECK_EQ_INT(count_rows(s, 10000, 3000, 3), 0);
  put(s, 0, 5000, 20, 4);
  OK(s, emb_verify(s, no_report, NULL));
}

/* The power failed when the first pages of some extents had not reached the
** disk but other pages of them had.  Those must not become part of a later
** life. */
TEST(leftovers_of_an_earlier_life_stay_dead) {
  struct manifest m;
  leave_store(write_into_freed_places);
  find_pages(origin);
  CHECK_EQ_INT(manifest_read(&env_posix, origin, &m, NULL), EMB_OK);
  (void)snprintf(copy, sizeof copy, "%s", origin); /* in place */
  int left = 0;
  for (size_t i = 0; i < place_count; i++) {
    if (places[i].number < m.tail)
      continue;
    if (places[i].number == m.tail ||
        places[i].number % layout.extent_pages == 0)
      damage(&places[i], 1);
    else
      left++;
  }
  CHECK(left > 100);
  run_and_die(write_a_little);
  emb_store *store = NULL;
  emb_session *s = NULL;
  if (!CHECK_EQ_INT(open_copy(&store, &s), EMB_OK))
    return;
  CHECK_EQ_INT(count_rows(s, 0, 3000, 2), 3000);
  CHECK_EQ_INT(count_rows(s, 10000, 3000, 3), 0);
  CHECK_EQ_INT(count_rows(s, 5000, 20, 4), 20);
  CHECK_EQ_INT(emb_count(s), 3020);
  close_copy(store, s);
}

/* ---- a damaged last extent ----------------------------------------------- */

static void commit_more(emb_session *s) {
  CHECK(prepared(s, 4000, 200, 4) > 0);
  OK(s, emb_commit(s));
}

/* A clean log whose last extent is damaged is not continued; later writes are
** recovered nevertheless. */
TEST(commits_after_a_damaged_last_extent_survive) {
  emb_store *store = NULL;
  emb_session *s = NULL;
  emb_err err = {0, ""};
  leave_store(write_tail);
  (void)snprintf(copy, sizeof copy, "%s", origin);
  if (!CHECK_EQ_INT(open_copy(&store, &s), EMB_OK))
    return;
  put(s, 0, 3000, 50, 2);
  close_copy(store, s);
  find_pages(origin);
  CHECK((places[place_count - 1].number + 1) % layout.extent_pages != 0);
  damage(&places[place_count - 1], 0);
  run_and_die(commit_more);
  if (!CHECK_EQ_INT(open_copy(&store, &s), EMB_OK))
    return;
  CHECK_EQ_INT(emb_in_doubt(store), 1);
  CHECK_EQ_INT(emb_resolve(store, emb_in_doubt(store), 1, &err), EMB_OK);
  CHECK_EQ_INT(count_rows(s, 4000, 200, 4), 200);
  emb_session_close(s);
  (void)emb_close(store, &err);
}

/* ---- forged files -------------------------------------------------------- */

static void seal(char *bytes, size_t size, uint64_t with, uint64_t position) {
  uint64_t sum = hash_sum(bytes + 8, size - 8, with, position);
  memcpy(bytes, &sum, sizeof sum);
}

/* Gives the copy another replay and tail, and raises its last extent's number
** by `more`; every checksum is right. */
static void forge(uint64_t replay, uint64_t tail, uint64_t more) {
  struct files files;
  if (!CHECK(files_read(&files, origin)))
    return;
  struct manifest *slots = (void *)files_find(&files, "manifest")->bytes;
  for (int i = 0; i < 2; i++) {
    slots[i].replay = replay;
    slots[i].tail = tail;
    seal((char *)&slots[i], MANIFEST_SLOT, 0, 0);
  }
  struct file *index = files_find(&files, "index-0");
  uint64_t last = index->size / 65536 - 1, number;
  uint32_t count;
  char *block = index->bytes + last * 65536;
  memcpy(&count, block + 12, sizeof count);
  char *pair = block + 16 + (size_t)(count - 1) * 16;
  memcpy(&number, pair, sizeof number);
  number += more;
  memcpy(pair, &number, sizeof number);
  seal(block, 65536, salt + slots[0].index_generation, last);
  CHECK(files_write(&files, copy));
  files_free(&files);
}

/* The peak resident memory since the last call, in MiB. */
static long peak_mib(void) {
  char line[200];
  long kib = 0;
  FILE *status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status))
    (void)sscanf(line, "VmHWM: %ld", &kib);
  if (status)
    (void)fclose(status);
  FILE *reset = fopen("/proc/self/clear_refs", "w");
  if (reset) {
    (void)fputs("5", reset);
    (void)fclose(reset);
  }
  return kib / 1024;
}

/* A forger who computes the checksum can choose any number.  It is refused,
** or it takes no memory. */
TEST(forged_numbers_take_no_memory) {
  struct manifest m;
  emb_store *store;
  emb_session *s;
  leave_store(write_transactions);
  CHECK_EQ_INT(manifest_read(&env_posix, origin, &m, NULL), EMB_OK);
  const uint64_t pages = layout.extent_pages, huge = UINT64_C(1) << 40;
  const struct {
    uint64_t replay, tail, more;
    int refused;
  } forged[] = {
      {m.replay, m.tail, 0, 0},
      {m.replay, 0, 0, 1},
      {0, 0, 0, 1},
      {0, m.tail, 0, 1},
      {m.tail + 1, m.tail, 0, 1},
      {m.replay, huge, 0, 1},
      {huge, huge, 0, 1},
      {UINT64_MAX, UINT64_MAX, 0, 1},
      {m.replay, pages * (LOG_SPAN_MAX + 9), 0, 1},
      {pages * LOG_SPAN_MAX / 2, pages * LOG_SPAN_MAX / 2, 0, 0},
      {m.replay, m.tail, LOG_SPAN_MAX + 9, 1},
      {m.replay, m.tail, huge / pages, 1},
      {m.replay, m.tail, UINT64_MAX / 2, 1},
      {m.replay, pages * (LOG_SPAN_MAX / 2), LOG_SPAN_MAX / 2 - 9, 1},
  };
  long before = (peak_mib(), peak_mib());
  for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++) {
    forge(forged[i].replay, forged[i].tail, forged[i].more);
    int rc = open_copy(&store, &s);
    test_check(rc == (forged[i].refused ? EMB_CORRUPT : EMB_OK), __FILE__,
               __LINE__, "forgery %zu gives %d", i, rc);
    if (rc == EMB_OK) {
      emb_session_close(s);
      (void)emb_close(store, NULL);
    }
  }
  long after = peak_mib();
  test_check(SANITIZED || after < before + 100, __FILE__, __LINE__,
             "%ld MiB were resident, before %ld", after, before);
}
