/* SPDX-License-Identifier: MIT
**
** debug.c -- tests of engine/base/debug.h: a production build evaluates no
** assertion, and in the variants that check themselves each validity function
** detects a broken structure.
*/
#include "test.h"
#include "death.h"
#include "layout_help.h"

#include "engine/storage/cache/cache.h"
#include "engine/emb.h"
#include "engine/storage/index/index.h"
#include "engine/storage/log/log.h"
#include "engine/table/session/lease.h"

static int calls;

static int called(void) {
  calls++;
  return 1;
}

TEST(an_assertion_is_evaluated_only_where_it_is_compiled_in) {
  int (*call)(void) = called;
  calls = 0;
  emb_assert(call());
  CHECK_EQ_INT(calls, EMB_DEBUG > 0);
  emb_check(call());
  CHECK_EQ_INT(calls, (EMB_DEBUG > 0) + (EMB_DEBUG > 1));
  for (int i = 0; i < 1000; i++)
    emb_check_some(10, call());
  CHECK(EMB_DEBUG > 1 ? calls > 20 : calls == (EMB_DEBUG > 0));
}

#if EMB_DEBUG > 0

/* broken() must end in an assertion with this text in its message. */
static void must_abort(void (*broken)(void), const char *text) {
  CHECK_FIRES(broken());
  test_check(strstr(death_text(), text) != NULL, __FILE__, __LINE__,
             "\"%s\" is not in: %s", text, death_text());
}

/* ---- index --------------------------------------------------------------- */

static struct index keys;

/* Makes an index of 1,000 keys; returns the entry of one. */
static struct entry *open_index(int64_t key) {
  uint64_t word;
  index_init(&keys, &env_posix, NULL, 1);
  for (int64_t i = 1; i <= 1000; i++) {
    struct index_new new = {.key = i, .hash = hash_key(i), .word = (uint64_t)i};
    index_insert(&keys, &new);
  }
  index_valid(&keys);
  return index_find(&keys, key, hash_key(key), &word);
}

static void key_in_a_wrong_bucket(void) {
  atomic_store(&open_index(7)->key, 100007);
  index_valid(&keys);
}

static void lost_entry(void) {
  atomic_store(&open_index(7)->word, 0);
  index_valid(&keys);
}

static void kept_latch(void) {
  atomic_fetch_or(&open_index(7)->word, WORD_LATCH);
  index_valid(&keys);
}

static void uncounted_key(void) {
  open_index(7);
  for (uint32_t p = 0; p < index_parts(&keys); p++) {
    atomic_fetch_sub(&keys.parts[p].count, 1);
    index_part_valid(&keys, &keys.parts[p]);
  }
}

TEST(the_index) {
  must_abort(key_in_a_wrong_bucket, "index_valid.c");
  must_abort(lost_entry, "index_valid.c");
  must_abort(kept_latch, "WORD_LATCH");
  must_abort(uncounted_key, "used <= count");
}

/* ---- log ----------------------------------------------------------------- */

static struct epoch epoch;
static struct frames frames;
static struct layout layout;
static struct log store_log;

static void open_log(void) {
  layout_plain(&layout, 64, EMB_F32);
  epoch_init(&epoch, &env_posix);
  frames_init(&frames, &env_posix, layout.extent_bytes, 4);
  log_init(&store_log, &env_posix, &epoch, &frames, &layout);
  log_file_slots_valid(&store_log);
}

static void more_synced_than_written(void) {
  open_log();
  atomic_fetch_add(&store_log.synced, 1);
  log_valid(&store_log);
}

static void place_without_a_bit(void) {
  open_log();
  log_adopt(&store_log, 1, 3);
  log_start_at(&store_log, 2);
  log_file_slots_valid(&store_log);
  store_log.phys_used[0] = 0;
  log_file_slots_valid(&store_log);
}

static void record_that_no_extent_has(void) {
  open_log();
  log_adopt(&store_log, 1, 3);
  log_live(&store_log, layout_address(&layout, layout.extent_pages, 0), -1);
}

static void frame_given_twice(void) {
  open_log();
  char *frame = frames_take(&frames, 0);
  frames_give(&frames, frame);
  frames_give(&frames, frame);
}

TEST(the_log) {
  must_abort(more_synced_than_written, "flushed");
  must_abort(place_without_a_bit, "log_valid.c");
  must_abort(record_that_no_extent_has, "was + change >= 0");
  must_abort(frame_given_twice, "frames.c");
}

/* ---- cache --------------------------------------------------------------- */

static struct cache cache;

static void open_cache(void) {
  layout_plain(&layout, 64, EMB_F32);
  cache_init(&cache, &env_posix, &layout, 4);
  cache_add_frame(&cache, env_posix.map(&env_posix, layout.extent_bytes, 0));
  cache_valid(&cache, 1);
}

static void slot_released_twice(void) {
  open_cache();
  uint64_t address = cache_next(&cache);
  atomic_store(&cache_at(&cache, address)->log_address, 4711);
  atomic_fetch_add(&cache.used, 1);
  cache_valid(&cache, 1);
  cache_release(&cache, address);
  cache_release(&cache, address);
}

static void slot_that_is_not_counted(void) {
  open_cache();
  atomic_store(&cache_at(&cache, cache_next(&cache))->log_address, 4711);
  cache_valid(&cache, 0);
}

TEST(the_cache) {
  must_abort(slot_released_twice, "cache.h");
  must_abort(slot_that_is_not_counted, "taken <= used");
}

/* ---- leases and epochs --------------------------------------------------- */

static void lease_out_of_its_place(void) {
  struct leases leases = {0};
  lease_reserve(&leases, &env_posix, 8);
  lease_append(&leases, 5, 1);
  (void)lease_find(&leases, 7, hash_key(7)); /* enters 5 into the table */
  lease_valid(&leases);
  size_t at = hash_key(5) & leases.table_mask;
  leases.table[at ^ 1] = leases.table[at];
  leases.table[at] = 0;
  lease_valid(&leases);
}

static void waiting_inside_the_epoch(void) {
  epoch_init(&epoch, &env_posix);
  epoch_enter(&epoch, epoch_join(&epoch));
  epoch_wait(&epoch);
}

TEST(leases_and_epochs) {
  must_abort(lease_out_of_its_place, "lease_valid.c");
  must_abort(waiting_inside_the_epoch, "epoch_outside()");
}

#endif
