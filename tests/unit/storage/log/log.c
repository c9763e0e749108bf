/* SPDX-License-Identifier: MIT
**
** log.c -- tests of engine/storage/log: handing out slots, closing, flushing,
** paging and dropping, and the contents of the file afterwards.
*/
#include "test.h"
#include "layout_help.h"

#include "engine/emb.h"
#include "engine/storage/log/log.h"

#include <errno.h>
#include <pthread.h>

static struct env env;
static struct epoch epoch;
static struct frames frames;
static struct layout layout;
static struct log log_;
static struct env_queue *queue;
static emb_err err;

static void open_file(int flags) {
  char path[300];
  (void)snprintf(path, sizeof path, "%s/log", test_dir());
  CHECK_EQ_INT(env.open(&env, path, flags | ENV_DIRECT, &log_.file), 0);
}

static void open_log(uint32_t dim, uint32_t frame_count) {
  env = env_posix;
  memset(&err, 0, sizeof err);
  epoch_init(&epoch, &env);
  layout_plain(&layout, dim, EMB_F32);
  CHECK_EQ_INT(frames_init(&frames, &env, layout.extent_bytes, frame_count), 0);
  CHECK_EQ_INT(log_init(&log_, &env, &epoch, &frames, &layout), 0);
  log_.salt = test_random();
  open_file(ENV_WRITE | ENV_CREATE);
  CHECK_EQ_INT(env.queue_open(&env, ENV_QUEUE_POOL, 16, &queue), 0);
}

static void close_log(void) {
  if (queue != NULL)
    env.queue_close(&env, queue);
  log_free(&log_);
  frames_free(&frames);
  epoch_free(&epoch);
}

static uint64_t first_page(void) { return layout.extent_pages; }
static uint64_t tail(void) { return atomic_load(&log_.tail); }

/* Gets a file slot for the next extent if it has none, and then returns 1. */
static int need_file_slot(void) {
  int none = !log_has_file_slot(&log_, 1) && !log_table_full(&log_);
  (void)pthread_mutex_lock(&log_.file_slot_lock);
  if (none)
    CHECK_EQ_INT(log_make_ready(&log_, 1), 0);
  (void)pthread_mutex_unlock(&log_.file_slot_lock);
  return none;
}

static int take(int stream, uint32_t kind, uint64_t txn, uint32_t want,
                uint64_t *page, uint32_t *slot, uint32_t *got) {
  struct log_run run = {.stream = stream, .txn = txn};
  int rc;
  do
    rc = log_take(&log_, &run, kind, want);
  while (rc == LOG_ROOM && need_file_slot());
  *page = run.page;
  *slot = run.slot;
  *got = run.left;
  return rc;
}

/* One record: its key is its address, its vector is made from it. */
static int put_record(int stream, uint64_t txn, uint64_t *address) {
  uint64_t page = 0, vector[4096];
  uint32_t slot = 0, got = 0;
  int rc = take(stream, PAGE_DATA, txn, 1, &page, &slot, &got);
  if (rc)
    return rc;
  *address = layout_address(&layout, page, slot);
  for (uint32_t i = 0; i < layout.vector_bytes / 8; i++)
    vector[i] = *address + i;
  rec_fill(log_rec(&log_, *address), (int64_t)*address, vector,
           layout.vector_bytes / 8 * 8, *address);
  return EMB_OK;
}

static void flush_to(uint64_t page) {
  uint64_t wrote;
  log_seal(&log_, page);
  CHECK_EQ_INT(log_flush(&log_, &queue, &wrote, &err), EMB_OK);
  CHECK(atomic_load(&log_.flushed) == page);
}

/* Pages out up to n extents; returns how many. */
static uint32_t page_out(uint32_t n) {
  uint64_t numbers[LOG_CHOOSE_MAX];
  n = log_choose(&log_, 0, numbers, n);
  log_page_out(&log_, numbers, n);
  return n;
}

/* Puts a record even if no frame is free: flushes and pages out as needed. */
static uint64_t put_always(int stream, uint64_t txn) {
  uint64_t address = 0;
  int rc;
  while ((rc = put_record(stream, txn, &address)) == LOG_ROOM) {
    if (log_table_full(&log_)) {
      CHECK_EQ_INT(log_grow_table(&log_), EMB_OK);
    } else {
      flush_to(tail());
      if (!CHECK(page_out(4) > 0))
        return 0;
    }
  }
  CHECK_EQ_INT(rc, EMB_OK);
  return address;
}

/* Reads a page from the file. */
static char *read_page(uint64_t page) {
  static _Alignas(4096) char bytes[1 << 20];
  uint64_t offset = log_offset(&log_, page);
  memset(bytes, 0, layout.page_bytes);
  if (CHECK(offset != UINT64_MAX))
    CHECK_EQ_INT(env.read(&env, log_.file, bytes, layout.page_bytes, offset),
                 0);
  return bytes;
}

static struct rec *rec_in(char *page, uint32_t slot) {
  return (struct rec *)(void *)(page + PAGE_HEAD_BYTES +
                                (size_t)slot * layout.rec_bytes);
}

/* The page in the file is valid and has the records of its addresses. */
static uint32_t check_page(uint64_t page) {
  char *bytes = read_page(page);
  if (!CHECK(page_valid(&layout, bytes, log_.salt, page)))
    return 0;
  uint32_t n = page_kind(bytes) == PAGE_DATA ? page_count(bytes) : 0;
  for (uint32_t slot = 0; slot < n; slot++) {
    struct rec *rec = rec_in(bytes, slot);
    uint64_t address = layout_address(&layout, page, slot), last;
    size_t words = layout.vector_bytes / 8;
    CHECK(atomic_load(&rec->key) == (int64_t)address);
    CHECK(rec_version(atomic_load(&rec->stamp)) == address);
    memcpy(&last, rec->vector + (words - 1) * 8, 8);
    CHECK(last == address + words - 1);
  }
  return n;
}

/* ---- the tail ------------------------------------------------------------ */

TEST(slots_follow_each_other) {
  open_log(64, 16);
  uint64_t last_page = 0;
  uint32_t last_end = 0;
  for (int i = 0; i < 3000; i++) {
    uint32_t want = 1 + (uint32_t)(test_random() % 40);
    uint64_t page = 0;
    uint32_t slot = 0, got = 0;
    CHECK_EQ_INT(take(LOG_IMMEDIATE, PAGE_DATA, 0, want, &page, &slot, &got),
                 EMB_OK);
    CHECK(got >= 1 && got <= want && slot + got <= layout.slots);
    CHECK(got == want || slot + got == layout.slots);
    if (i == 0)
      CHECK(page == first_page() && slot == 0);
    else if (last_end < layout.slots)
      CHECK(page == last_page && slot == last_end);
    else
      CHECK(page == last_page + 1 && slot == 0);
    CHECK(tail() == page + 1);
    last_page = page;
    last_end = slot + got;
    if (last_page >> layout.extent_bits == 15)
      break;
  }
  CHECK(last_page > first_page() + layout.extent_pages); /* more than one */
  close_log();
}

TEST(new_pages_are_zero) {
  open_log(64, 4);
  for (uint32_t i = 0; i < 4; i++)
    memset(frames.pool + (size_t)i * layout.extent_bytes, 0x5a,
           layout.extent_bytes);
  for (uint32_t i = 0; i < 3 * layout.extent_pages; i++) {
    uint64_t page = 0;
    uint32_t slot, got;
    CHECK_EQ_INT(
        take(LOG_IMMEDIATE, PAGE_DATA, 0, UINT32_MAX, &page, &slot, &got),
        EMB_OK);
    CHECK_EQ_INT(got, layout.slots);
    const char *bytes = log_page(&log_, page);
    for (uint32_t k = PAGE_HEAD_BYTES; k < layout.page_bytes; k++)
      if (bytes[k])
        CHECK_EQ_INT(k, -1);
  }
  close_log();
}

TEST(another_kind_or_transaction_gets_another_page) {
  open_log(64, 4);
  uint64_t page[6];
  uint32_t slot, got;
  CHECK_EQ_INT(take(0, PAGE_DATA, 0, 3, &page[0], &slot, &got), EMB_OK);
  CHECK_EQ_INT(take(0, PAGE_TOMB, 0, 2, &page[1], &slot, &got), EMB_OK);
  CHECK(atomic_load(&log_.last_tomb) == page[1]);
  CHECK_EQ_INT(take(0, PAGE_TOMB, 0, 2, &page[2], &slot, &got), EMB_OK);
  CHECK(page[2] == page[1] && slot == 2);
  CHECK_EQ_INT(take(1, PAGE_DATA, 7, 1, &page[3], &slot, &got), EMB_OK);
  CHECK_EQ_INT(take(1, PAGE_DATA, 8, 1, &page[4], &slot, &got), EMB_OK);
  CHECK_EQ_INT(take(0, PAGE_TOMB, 0, 1, &page[5], &slot, &got), EMB_OK);
  CHECK(page[5] == page[1] && slot == 4); /* streams are independent */
  CHECK(page[0] < page[1] && page[2] < page[3] && page[3] < page[4]);
  flush_to(tail());
  const uint32_t kinds[] = {PAGE_DATA, PAGE_TOMB, PAGE_TOMB, PAGE_DATA,
                            PAGE_DATA};
  const uint32_t counts[] = {3, 5, 5, 1, 1};
  const uint64_t txns[] = {0, 0, 0, 7, 8};
  for (int i = 0; i < 5; i++) {
    char *bytes = read_page(page[i]);
    CHECK(page_valid(&layout, bytes, log_.salt, page[i]));
    CHECK_EQ_INT(page_kind(bytes), kinds[i]);
    CHECK_EQ_INT(page_count(bytes), counts[i]);
    CHECK_EQ_INT(page_txn(bytes), txns[i]);
    CHECK_EQ_INT(page_flags(bytes), 0);
  }
  close_log();
}

TEST(two_streams_never_share_a_page) {
  open_log(64, 8);
  enum { N = 4000 };
  static uint64_t at[2][N];
  for (int i = 0; i < N; i++) {
    at[0][i] = put_always(LOG_IMMEDIATE, 0);
    if (test_random() % 3)
      at[1][i] = put_always(LOG_TXN, 5 + (uint64_t)i / 1000);
    else
      at[1][i] = 0;
  }
  flush_to(tail());
  for (int stream = 0; stream < 2; stream++) {
    uint64_t above = 0;
    for (int i = 0; i < N; i++) {
      if (!at[stream][i])
        continue;
      CHECK(at[stream][i] > above); /* addresses of a stream only grow */
      above = at[stream][i];
      uint64_t page = layout_page(&layout, above);
      char *bytes = read_page(page);
      CHECK_EQ_INT(page_txn(bytes), stream ? 5 + i / 1000 : 0);
      CHECK(atomic_load(&rec_in(bytes, layout_slot(&layout, above))->key) ==
            (int64_t)above);
    }
  }
  uint64_t records = 0, expected = N;
  for (int i = 0; i < N; i++)
    expected += at[1][i] != 0;
  for (uint64_t page = first_page(); page < tail(); page++)
    records += check_page(page);
  CHECK(records == expected);
  close_log();
}

TEST(close_marks_the_last_page) {
  open_log(64, 4);
  uint64_t address, page;
  CHECK_EQ_INT(put_record(LOG_TXN, 9, &address), EMB_OK);
  CHECK_EQ_INT(log_end_txn(&log_, PAGE_LAST | PAGE_SYNCED, 9), EMB_OK);
  CHECK(tail() == layout_page(&layout, address) + 1);
  log_close(&log_, LOG_TXN); /* none is open */
  CHECK(tail() == layout_page(&layout, address) + 1);
  /* With no page open, an empty page is made for the flags. */
  page = tail();
  CHECK_EQ_INT(log_end_txn(&log_, PAGE_LAST, 9), EMB_OK);
  CHECK(tail() == page + 1);
  /* A page closed by a seal has no flags, so again an empty page is made. */
  CHECK_EQ_INT(put_record(LOG_TXN, 10, &address), EMB_OK);
  log_seal(&log_, tail());
  CHECK_EQ_INT(log_end_txn(&log_, PAGE_LAST, 10), EMB_OK);
  CHECK(tail() == layout_page(&layout, address) + 2);
  flush_to(tail());
  const uint32_t kinds[] = {PAGE_DATA, PAGE_VOID, PAGE_DATA, PAGE_VOID};
  const uint32_t flags[] = {PAGE_LAST | PAGE_SYNCED, PAGE_LAST, 0, PAGE_LAST};
  const uint32_t counts[] = {1, 0, 1, 0};
  const uint64_t txns[] = {9, 9, 10, 10};
  for (uint64_t i = 0; i < 4; i++) {
    char *bytes = read_page(first_page() + i);
    CHECK(page_valid(&layout, bytes, log_.salt, first_page() + i));
    CHECK_EQ_INT(page_kind(bytes), kinds[i]);
    CHECK_EQ_INT(page_flags(bytes), flags[i]);
    CHECK_EQ_INT(page_count(bytes), counts[i]);
    CHECK_EQ_INT(page_txn(bytes), txns[i]);
  }
  close_log();
}

TEST(position_is_a_lower_bound_of_the_next_address) {
  open_log(64, 8);
  for (int i = 0; i < 2000; i++) {
    int stream = (int)(test_random() % 2);
    uint64_t position = log_position(&log_, stream);
    if (test_random() % 20 == 0)
      log_close(&log_, stream);
    if (test_random() % 50 == 0)
      log_seal(&log_, tail());
    uint64_t address = put_always(stream, stream ? 3 : 0);
    CHECK(address >= position);
    CHECK(log_position(&log_, stream) > address);
  }
  close_log();
}

TEST(sealed_pages_take_no_more) {
  open_log(64, 4);
  uint64_t a, b;
  CHECK_EQ_INT(put_record(LOG_IMMEDIATE, 0, &a), EMB_OK);
  CHECK(log_mutable(&log_, a));
  log_seal(&log_, layout_page(&layout, a)); /* below it */
  CHECK(log_mutable(&log_, a));
  CHECK_EQ_INT(put_record(LOG_IMMEDIATE, 0, &b), EMB_OK);
  CHECK(layout_page(&layout, b) == layout_page(&layout, a));
  log_seal(&log_, tail());
  CHECK(!log_mutable(&log_, a) && !log_mutable(&log_, b));
  CHECK_EQ_INT(put_record(LOG_IMMEDIATE, 0, &b), EMB_OK);
  CHECK(layout_page(&layout, b) == layout_page(&layout, a) + 1);
  CHECK(log_mutable(&log_, b));
  CHECK(log_rec(&log_, a) != NULL); /* still in memory */
  close_log();
}

/* ---- room ---------------------------------------------------------------- */

TEST(room_runs_out_and_comes_back) {
  open_log(1000, 3);
  uint64_t address, n = 0;
  int rc;
  while ((rc = put_record(LOG_IMMEDIATE, 0, &address)) == EMB_OK)
    n++;
  CHECK_EQ_INT(rc, LOG_ROOM);
  CHECK_EQ_INT(n, 3 * layout.extent_pages * layout.slots);
  CHECK_EQ_INT(frames_left(&frames), 0);
  uint64_t at = tail();
  CHECK_EQ_INT(put_record(LOG_IMMEDIATE, 0, &address), LOG_ROOM);
  CHECK_EQ_INT(log_end_txn(&log_, PAGE_LAST, 4), LOG_ROOM);
  CHECK(tail() == at);          /* nothing was handed out */
  CHECK_EQ_INT(page_out(3), 0); /* nothing is written yet */
  flush_to(tail());
  CHECK_EQ_INT(page_out(1), 1);
  CHECK_EQ_INT(frames_left(&frames), 1);
  CHECK_EQ_INT(atomic_load(&log_.resident), 2);
  CHECK_EQ_INT(put_record(LOG_IMMEDIATE, 0, &address), EMB_OK);
  CHECK(layout_page(&layout, address) == at);
  /* The oldest extent is gone, the others are still there. */
  uint64_t old = layout_address(&layout, first_page(), 0);
  CHECK(log_rec(&log_, old) == NULL);
  old = layout_address(&layout, first_page() + layout.extent_pages, 0);
  CHECK(log_rec(&log_, old) != NULL);
  close_log();
}

TEST(extents_that_are_not_written_stay) {
  open_log(1000, 8);
  uint32_t per_extent = layout.extent_pages * layout.slots;
  for (uint32_t i = 0; i < 4 * per_extent + 1; i++)
    (void)put_always(LOG_IMMEDIATE, 0);
  /* Two extents and a page of the third. */
  flush_to(first_page() + 2 * layout.extent_pages + 1);
  CHECK_EQ_INT(page_out(8), 2);
  CHECK_EQ_INT(page_out(8), 0);
  for (uint64_t e = 1; e <= 5; e++)
    CHECK_EQ_INT(atomic_load(&log_extent(&log_, e)->frame) != NULL, e > 2);
  flush_to(tail());
  CHECK_EQ_INT(page_out(8), 2); /* the last extent is being filled */
  for (uint64_t page = first_page(); page < tail(); page++)
    (void)check_page(page);
  close_log();
}

/* Many more extents than frames and than the table has room for at first: every
** record is found again in the file. */
TEST(table_grows) {
  open_log(4096, 4);
  uint64_t n = 0;
  while (tail() >> layout.extent_bits < 600) {
    (void)put_always(n % 5 == 0 ? LOG_TXN : LOG_IMMEDIATE, n % 5 == 0 ? 1 : 0);
    n++;
  }
  CHECK(log_.table_mask >= 600);
  flush_to(tail());
  uint64_t records = 0;
  for (uint64_t page = first_page(); page < tail(); page++)
    records += check_page(page);
  CHECK(records == n);
  CHECK_EQ_INT(log_extents_used(&log_), (tail() - 1) >> layout.extent_bits);
  close_log();
}

/* ---- giving back --------------------------------------------------------- */

static uint64_t fill_extents(uint64_t upto) {
  while (tail() >> layout.extent_bits < upto)
    (void)put_always(LOG_IMMEDIATE, 0);
  flush_to(tail());
  return tail();
}

static uint32_t phys_of(uint64_t number) {
  return extent_phys(log_extent(&log_, number));
}

TEST(dropped_file_slots_are_used_again_lowest_first) {
  open_log(1000, 4);
  (void)fill_extents(20);
  CHECK_EQ_INT(phys_of(1), 0);
  const uint64_t drop[] = {7, 3, 12};
  for (int i = 0; i < 3; i++) {
    log_drop(&log_, drop[i]);
    CHECK_EQ_INT(phys_of(drop[i]), EXTENT_NOWHERE);
    CHECK(log_offset(&log_, drop[i] << layout.extent_bits) == UINT64_MAX);
  }
  CHECK_EQ_INT(log_.first, 1);
  CHECK_EQ_INT(log_.phys_free, 3);
  uint64_t used = log_extents_used(&log_);
  uint32_t end = log_.phys_end;
  uint64_t next = (tail() - 1) >> layout.extent_bits;
  (void)fill_extents(next + 5);
  CHECK_EQ_INT(phys_of(next + 1), 2);
  CHECK_EQ_INT(phys_of(next + 2), 6);
  CHECK_EQ_INT(phys_of(next + 3), 11);
  CHECK_EQ_INT(phys_of(next + 4), end);
  CHECK_EQ_INT(log_extents_used(&log_), used + 4);
  for (uint64_t e = 1; e <= next + 4; e++) {
    if (e != 7 && e != 3 && e != 12)
      for (uint32_t i = 0; i < layout.extent_pages; i++)
        (void)check_page((e << layout.extent_bits) + i);
  }
  log_drop(&log_, 2);
  CHECK_EQ_INT(log_.first, 1);
  log_drop(&log_, 1); /* 1, 2 and 3 are gone now */
  CHECK_EQ_INT(log_.first, 4);
  log_drop(&log_, 1); /* again: nothing happens */
  CHECK_EQ_INT(log_.first, 4);
  close_log();
}

TEST(drop_gives_the_frame_back) {
  open_log(1000, 8);
  (void)fill_extents(4);
  uint32_t left = frames_left(&frames), resident = atomic_load(&log_.resident);
  CHECK(atomic_load(&log_extent(&log_, 2)->frame) != NULL);
  log_drop(&log_, 2);
  CHECK_EQ_INT(frames_left(&frames), left + 1);
  CHECK_EQ_INT(atomic_load(&log_.resident), resident - 1);
  close_log();
}

TEST(trim_shortens_the_file) {
  open_log(1000, 4);
  (void)fill_extents(20);
  uint64_t last = (tail() - 1) >> layout.extent_bits, bytes = 0;
  for (uint64_t e = 10; e <= last; e++)
    log_drop(&log_, e);
  log_drop(&log_, 4);
  CHECK_EQ_INT(log_trim(&log_, 1, &err), EMB_OK);
  CHECK_EQ_INT(env.size(&env, log_.file, &bytes), 0);
  CHECK_EQ_INT(bytes, LOG_FILE_HEAD + 9 * (uint64_t)layout.extent_bytes);
  CHECK_EQ_INT(log_.phys_end, 9);
  CHECK_EQ_INT(log_.phys_free, 1);
  for (uint64_t e = 1; e < 10; e++)
    if (e != 4)
      (void)check_page(e << layout.extent_bits);
  close_log();
}

/* A log that is full and not written to any more must become short. */
TEST(extents_move_in_a_full_table) {
  open_log(1000, 4);
  for (uint64_t i = 2; !log__numbers_full(&log_); i++)
    (void)fill_extents(i);
  uint64_t last = (tail() - 1) >> layout.extent_bits, from, to;
  CHECK_EQ_INT(log_reserve_lower(&log_, last, &from, &to), 0);
  log_drop(&log_, 4);
  CHECK(log__numbers_full(&log_));
  if (CHECK(log_reserve_lower(&log_, last, &from, &to))) {
    CHECK_EQ_INT(to, LOG_FILE_HEAD + 3 * (uint64_t)layout.extent_bytes);
    CHECK_EQ_INT(log_move(&log_, last, to), EMB_OK);
    CHECK_EQ_INT(phys_of(last), 3);
    CHECK_EQ_INT(log_free_left(&log_, 1, UINT64_MAX), 1);
  }
  close_log();
}

TEST(random_dropping_keeps_every_other_page) {
  enum { MOST = 700 };
  static uint8_t dropped[MOST];
  memset(dropped, 0, sizeof dropped);
  open_log(8192, 4);
  while (tail() >> layout.extent_bits < MOST - 2) {
    (void)put_always(LOG_IMMEDIATE, 0);
    uint64_t end = tail() >> layout.extent_bits;
    if (test_random() % 8 == 0 && end > log_.first + 3) {
      flush_to(tail());
      uint64_t e = log_.first + test_random() % (end - log_.first - 1);
      log_drop(&log_, e);
      dropped[e] = 1;
      if (test_random() % 16 == 0)
        CHECK_EQ_INT(log_trim(&log_, test_random() % 2, &err), EMB_OK);
    }
  }
  flush_to(tail());
  static uint8_t used[MOST * 2];
  memset(used, 0, sizeof used);
  for (uint64_t e = 1; e <= (tail() - 1) >> layout.extent_bits; e++) {
    if (dropped[e])
      continue;
    CHECK_EQ_INT(used[phys_of(e)]++, 0);
    for (uint32_t i = 0; i < layout.extent_pages; i++)
      if ((e << layout.extent_bits) + i < tail())
        (void)check_page((e << layout.extent_bits) + i);
  }
  close_log();
}

/* ---- recovery's part ----------------------------------------------------- */

/* Extents with gaps between their numbers, across every size of the table. */
TEST(adopted_extents_are_where_they_were_said_to_be) {
  enum { COUNT = 300 };
  uint64_t numbers[COUNT], number = 1 + test_random() % 1000;
  open_log(1000, 4);
  log_.first = number;
  for (uint32_t i = 0; i < COUNT; i++) {
    numbers[i] = number;
    CHECK_EQ_INT(log_adopt(&log_, number, COUNT - 1 - i), EMB_OK);
    atomic_store(&log_extent(&log_, number)->live, (int)i);
    number += 1 + (test_random() % 3 ? 0 : test_random() % 400);
  }
  CHECK_EQ_INT(log_extents_used(&log_), COUNT);
  CHECK_EQ_INT(log_.phys_free, 0);
  uint32_t i = 0;
  for (uint64_t e = numbers[0]; e <= numbers[COUNT - 1]; e++) {
    int there = e == numbers[i];
    if (phys_of(e) != (there ? COUNT - 1 - i : EXTENT_NOWHERE))
      test_check(0, __FILE__, __LINE__, "extent %" PRIu64 " is at %u", e,
                 phys_of(e));
    if (there)
      CHECK_EQ_INT(atomic_load(&log_extent(&log_, e)->live), i++);
  }
  /* Recovery works with the epoch closed; no thread may have entered it. */
  log_reset(&log_);
  epoch_close(&epoch);
  log_.first = 1;
  CHECK_EQ_INT(log_adopt(&log_, 1, 0), EMB_OK);
  CHECK_EQ_INT(log_adopt(&log_, 5 * (log_.table_mask + 1), 1), EMB_OK);
  CHECK_EQ_INT(atomic_load(&epoch.closed), 1);
  epoch_open(&epoch);
  close_log();
}

/* A cleanly closed log continues in its last extent. */
static void resume(int damage) {
  open_log(64, 4);
  uint64_t upto = first_page() + 2 * layout.extent_pages + 5, bytes;
  while (tail() < upto)
    (void)put_always(LOG_IMMEDIATE, 0);
  flush_to(tail());
  upto = tail();
  uint64_t start = upto & ~(uint64_t)(layout.extent_pages - 1);
  if (damage) {
    char *page = read_page(start + 1);
    page[1000] ^= 1;
    CHECK_EQ_INT(env.write(&env, log_.file, page, layout.page_bytes,
                           log_offset(&log_, start + 1)),
                 0);
  }
  uint32_t slots[4];
  for (uint64_t e = 1; e <= 3; e++)
    slots[e] = phys_of(e);
  log_reset(&log_);
  CHECK_EQ_INT(frames_left(&frames), 4);
  for (uint64_t e = 1; e <= 3; e++)
    CHECK_EQ_INT(log_adopt(&log_, e, slots[e]), EMB_OK);
  log_start_at(&log_, 4);
  CHECK_EQ_INT(log_resume(&log_, upto, &err), EMB_OK);
  CHECK(tail() == (damage ? start + layout.extent_pages : upto));
  uint64_t address = put_always(LOG_IMMEDIATE, 0);
  CHECK(layout_page(&layout, address) ==
        (damage ? start + layout.extent_pages : upto));
  flush_to(tail());
  for (uint64_t page = first_page(); page < upto; page++)
    if (!damage || page != start + 1)
      (void)check_page(page);
  (void)check_page(layout_page(&layout, address));
  CHECK_EQ_INT(env.size(&env, log_.file, &bytes), 0);
  close_log();
}

TEST(clean_log_goes_on_in_its_last_extent) { resume(0); }
TEST(damaged_last_extent_is_left_alone) { resume(1); }

TEST(reset_log_is_empty) {
  open_log(1000, 4);
  (void)fill_extents(30);
  log_reset(&log_);
  CHECK_EQ_INT(frames_left(&frames), 4);
  CHECK_EQ_INT(atomic_load(&log_.resident), 0);
  CHECK_EQ_INT(log_extents_used(&log_), 0);
  CHECK(tail() == first_page());
  (void)fill_extents(10);
  for (uint64_t page = first_page(); page < tail(); page++)
    (void)check_page(page);
  close_log();
}

/* ---- errors -------------------------------------------------------------- */

TEST(failed_write_fails_the_log_for_good) {
  open_log(64, 8);
  uint64_t address, wrote;
  CHECK_EQ_INT(put_record(LOG_IMMEDIATE, 0, &address), EMB_OK);
  flush_to(tail());
  uint64_t flushed = atomic_load(&log_.flushed);
  env.close(&env, log_.file);
  open_file(ENV_READ);
  CHECK_EQ_INT(put_record(LOG_IMMEDIATE, 0, &address), EMB_OK);
  log_seal(&log_, tail());
  CHECK_EQ_INT(log_flush(&log_, &queue, &wrote, &err), EMB_IOERR);
  CHECK(strstr(err.text, "cannot write the log") != NULL);
  CHECK_EQ_INT(atomic_load(&log_.failed), EMB_IOERR);
  CHECK(atomic_load(&log_.flushed) == flushed);
  env.close(&env, log_.file);
  open_file(ENV_WRITE);
  CHECK_EQ_INT(log_flush(&log_, &queue, &wrote, &err), EMB_FAILED);
  CHECK_EQ_INT(log_sync(&log_, &err), EMB_FAILED);
  CHECK(log_rec(&log_, address) != NULL); /* reads go on */
  close_log();
}

static int syncs;
static int failing_sync(struct env *e, struct env_file *file) {
  (void)e, (void)file;
  syncs++;
  return EIO;
}

TEST(failed_sync_is_never_tried_again) {
  open_log(64, 4);
  uint64_t address, synced = atomic_load(&log_.synced);
  CHECK_EQ_INT(put_record(LOG_IMMEDIATE, 0, &address), EMB_OK);
  flush_to(tail());
  env.sync = failing_sync;
  syncs = 0;
  CHECK_EQ_INT(log_sync(&log_, &err), EMB_IOERR);
  CHECK(atomic_load(&log_.synced) == synced);
  CHECK_EQ_INT(log_sync(&log_, &err), EMB_FAILED);
  CHECK_EQ_INT(syncs, 1);
  close_log();
}

/* ---- threads ------------------------------------------------------------- */

enum { WRITERS = 2, EACH = 4000 };
static uint64_t written[WRITERS][EACH];
static _Atomic int running;

static void *write_many(void *arg) {
  int self = (int)(uintptr_t)arg;
  struct epoch_slot *slot = epoch_join(&epoch);
  for (int i = 0; i < EACH; i++) {
    int rc;
    do {
      epoch_enter(&epoch, slot);
      rc = put_record(self, (uint64_t)self, &written[self][i]);
      epoch_leave(slot);
      if (rc == LOG_ROOM)
        sched_yield();
    } while (rc == LOG_ROOM);
    CHECK_EQ_INT(rc, EMB_OK);
  }
  epoch_part(slot);
  atomic_fetch_sub(&running, 1);
  return NULL;
}

/* Two streams are filled while pages are sealed, written and paged out: every
** record reaches the file unchanged. */
TEST(writers_beside_the_flusher) {
  pthread_t threads[WRITERS];
  open_log(256, 5);
  atomic_store(&running, WRITERS);
  for (uintptr_t i = 0; i < WRITERS; i++)
    CHECK_EQ_INT(pthread_create(&threads[i], NULL, write_many, (void *)i), 0);
  while (atomic_load(&running)) {
    uint64_t to = tail();
    if (test_random() % 4) /* whole extents, mostly */
      to &= ~(uint64_t)(layout.extent_pages - 1);
    if (to > atomic_load(&log_.flushed))
      flush_to(to);
    (void)page_out(2);
    if (log_table_full(&log_))
      CHECK_EQ_INT(log_grow_table(&log_), EMB_OK);
    sched_yield();
  }
  for (int i = 0; i < WRITERS; i++)
    pthread_join(threads[i], NULL);
  flush_to(tail());
  uint64_t records = 0;
  for (uint64_t page = first_page(); page < tail(); page++)
    records += check_page(page);
  CHECK_EQ_INT(records, WRITERS * EACH);
  for (int w = 0; w < WRITERS; w++)
    for (int i = 1; i < EACH; i++)
      CHECK(written[w][i] > written[w][i - 1]);
  close_log();
}
