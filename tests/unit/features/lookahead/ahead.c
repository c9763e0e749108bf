/* SPDX-License-Identifier: MIT
**
** ahead.c -- look-ahead and asynchronous batches through emb.h, on stores three
** times their memory: with io_uring, with pread, and without threads.
*/
#include "staleness_help.h"

enum { N = 400 };

/* The keys of these tests: far apart and old, and therefore on disk. */
static void cold_keys(int64_t *keys, int64_t from) {
  for (int i = 0; i < N; i++)
    keys[i] = from + (int64_t)i * 60;
}

struct ways {
  const char *name;
  uint32_t io, flags;
};
static const struct ways ways[3] = {{"uring", EMB_IO_URING, 0},
                                    {"pread", EMB_IO_PREAD, 0},
                                    {"step", EMB_IO_AUTO, EMB_OPEN_STEP}};

/* A store of MANY keys with value 1, all on disk or written there, and no
** background work left.  Returns 0 if this machine has no io_uring. */
static int open_way(struct bounded *x, int way, uint32_t bound) {
  emb_err err = {0, ""};
  x->config = (emb_config){.dim = DIM,
                           .io = ways[way].io,
                           .flags = EMB_OPEN_CREATE | EMB_OPEN_BOUNDED |
                                    ways[way].flags,
                           .memory_bytes = 1,
                           .timeout_ms = FOR_EVER,
                           .staleness = bound};
  (void)emb_destroy(help_path("store"), &err);
  int rc = emb_open(help_path("store"), &x->config, &x->store, &err);
  if (rc == EMB_CANTOPEN && ways[way].io == EMB_IO_URING)
    return 0;
  return test_check(rc == EMB_OK, __FILE__, __LINE__, "%s: open gave %d: %s",
                    ways[way].name, rc, err.text) &&
         CHECK_EQ_INT(emb_session_open(x->store, &x->a, &err), EMB_OK) &&
         CHECK_EQ_INT(emb_session_open(x->store, &x->b, &err), EMB_OK) &&
         CHECK_EQ_INT(emb_session_open(x->store, &x->c, &err), EMB_OK) &&
         help_put_rows(x->a, 0, 1, MANY, 1) && OK(x->a, emb_optimize(x->a)) &&
         OK(x->a, emb_checkpoint(x->a));
}

/* Runs the test in each way, or with SHARE=n in some of them. */
static void each_way(void (*test)(struct bounded *x), uint32_t bound) {
  unsigned share = help_share() < 3 ? help_share() : 3;
  unsigned mine = (unsigned)(test_random() % share);
  for (int way = 0; way < 3; way++) {
    struct bounded x;
    unsigned before = atomic_load(&test_state.failures);
    if ((unsigned)way % share != mine || !open_way(&x, way, bound))
      continue;
    test(&x);
    bounded_close(&x);
    if (atomic_load(&test_state.failures) > before)
      printf("(with %s)\n", ways[way].name);
  }
}

/* Runs a look-ahead to its end; returns 1 if its metrics make sense. */
static int look(emb_session *s, const int64_t *keys, size_t n, int dest,
                emb_ahead *a) {
  emb_ahead first;
  if (!OK(s, emb_lookahead(s, keys, n, dest, &first)) ||
      !OK(s, emb_lookahead_wait(s, first.number)) ||
      !OK(s, emb_lookahead_progress(s, first.number, a)))
    return 0;
  return CHECK(first.read <= first.to_read && a->done) &&
         CHECK_EQ_INT(a->number, first.number) &&
         CHECK_EQ_INT(a->asked, first.asked) &&
         CHECK_EQ_INT(a->to_read, first.to_read) &&
         CHECK_EQ_INT(a->in_memory + a->absent + a->to_read, a->asked) &&
         CHECK_EQ_INT(a->read + a->refused, a->to_read);
}

/* Gets or peeks n keys, which must have this value. */
static int all_are(emb_session *s, const int64_t *keys, size_t n, int32_t value,
                   int counts) {
  float *vectors = malloc(n * sizeof(float[DIM]));
  int good =
      CHECK(vectors != NULL) &&
      OK(s, (counts ? emb_get : emb_peek)(s, keys, n, vectors, NULL, NULL));
  for (size_t i = 0; good && i < n; i++)
    good = CHECK_EQ_INT(help_value(vectors + i * DIM, DIM, keys[i]), value);
  free(vectors);
  return good;
}

/* ---- look-ahead into the store's cache ----------------------------------- */

static void buffer_is_hit(struct bounded *x) {
  int64_t keys[N];
  uint64_t before[N], after[N];
  emb_ahead a;
  cold_keys(keys, 0);
  OK(x->a, get_one(x->a, keys[3], NULL)); /* pending, and already read */
  OK(x->a, emb_peek(x->a, keys, N, NULL, NULL, before));
  int64_t written = help_stat(x->store, "write_bytes");
  if (!look(x->b, keys, N, EMB_AHEAD_BUFFER, &a))
    return;
  CHECK_EQ_INT(a.asked, N);
  CHECK_EQ_INT(a.absent, 0);
  CHECK_EQ_INT(a.refused, 0);
  CHECK(a.to_read > N / 2);
  /* Look-ahead leaves no pending read and no version, and writes nothing. */
  CHECK_EQ_INT(pending_other_than(x->c, keys, N, 0), 1);
  CHECK_EQ_INT(pending_of(x->c, keys[3]), 1);
  CHECK_EQ_INT(emb_leases(x->b), 0);
  OK(x->a, emb_peek(x->a, keys, N, NULL, NULL, after));
  CHECK(memcmp(before, after, sizeof before) == 0);
  CHECK_EQ_INT(emb_count(x->a), MANY);
  /* Every session finds the rows in memory. */
  int64_t disk = help_stat(x->store, "get_disk");
  int64_t pages = help_stat(x->store, "read_pages");
  CHECK(all_are(x->a, keys, N, 1, 1));
  CHECK(all_are(x->c, keys, N, 1, 1));
  CHECK_EQ_INT(help_stat(x->store, "get_disk"), disk);
  CHECK_EQ_INT(help_stat(x->store, "read_pages"), pages);
  CHECK_EQ_INT(help_stat(x->store, "write_bytes"), written);
  CHECK_EQ_INT(pending_of(x->b, keys[3]), 3);
  CHECK_EQ_INT(pending_of(x->b, keys[4]), 2);
}

TEST(ahead_buffer_is_hit) { each_way(buffer_is_hit, 8); }

static void only_what_is_cold(struct bounded *x) {
  int64_t keys[3 * N];
  emb_ahead a;
  for (int dest = EMB_AHEAD_BUFFER; dest <= EMB_AHEAD_CACHE; dest++) {
    int64_t pages = help_stat(x->store, "read_pages");
    for (int i = 0; i < N; i++) {
      keys[i] = MANY + i;         /* absent */
      keys[N + i] = MANY - 1 - i; /* the newest */
      keys[2 * N + i] = keys[i];  /* repeated */
    }
    CHECK(all_are(x->a, keys + N, N, 1, 0)); /* of the existing keys */
    pages = help_stat(x->store, "read_pages");
    if (look(x->a, keys, N, dest, &a)) {
      CHECK_EQ_INT(a.absent, N);
      CHECK_EQ_INT(a.to_read, 0);
    }
    if (look(x->a, keys, 3 * N, dest, &a)) {
      CHECK_EQ_INT(a.asked, 2 * N);
      CHECK_EQ_INT(a.absent, N);
      CHECK_EQ_INT(a.in_memory, N);
    }
    CHECK_EQ_INT(help_stat(x->store, "read_pages"), pages);
    CHECK_EQ_INT(emb_count(x->a), MANY);
    CHECK(look(x->a, keys, 0, dest, &a));
    CHECK_EQ_INT(a.asked, 0);
  }
}

TEST(ahead_reads_only_what_is_cold) { each_way(only_what_is_cold, 8); }

/* Accepted keys stay in memory until they are read, whatever follows. */
static void stays_until_used(struct bounded *x) {
  static int64_t keys[MANY];
  emb_ahead first, second, third;
  for (int i = 0; i < MANY; i++)
    keys[i] = i;
  if (!look(x->a, keys, MANY / 4, EMB_AHEAD_BUFFER, &first) ||
      !look(x->b, keys + MANY / 2, MANY / 8, EMB_AHEAD_BUFFER, &second))
    return;
  CHECK(first.read > 0);
  CHECK(second.refused > 0);
  int64_t disk = help_stat(x->store, "get_disk");
  CHECK(all_are(x->c, keys, MANY / 4, 1, 1));
  disk = help_stat(x->store, "get_disk") - disk;
  (void)test_check(disk <= (int64_t)first.refused, __FILE__, __LINE__,
                   "%" PRId64 " of %" PRIu64 " were read again, %" PRIu64
                   " were refused",
                   disk, first.to_read, first.refused);
  /* Now there is room again. */
  if (look(x->b, keys + MANY / 3, N, EMB_AHEAD_BUFFER, &third))
    CHECK_EQ_INT(third.refused, 0);
}

TEST(ahead_stays_until_it_is_used) {
  each_way(stays_until_used, EMB_STALENESS_MAX);
}

/* ---- look-ahead into the session's cache --------------------------------- */

static void cache_serves_its_session(struct bounded *x) {
  int64_t keys[N];
  emb_ahead a;
  cold_keys(keys, 7);
  int64_t written = help_stat(x->store, "write_bytes");
  if (!look(x->a, keys, N, EMB_AHEAD_CACHE, &a))
    return;
  CHECK(a.to_read > N / 2);
  CHECK_EQ_INT(a.refused, 0);
  CHECK_EQ_INT(pending_other_than(x->c, keys, N, 0), 0);
  int64_t disk = help_stat(x->store, "get_disk");
  CHECK(all_are(x->a, keys, N, 1, 1));
  CHECK_EQ_INT(help_stat(x->store, "get_disk"), disk);
  CHECK_EQ_INT(pending_other_than(x->c, keys, N, 1), 0);
  CHECK_EQ_INT(help_stat(x->store, "write_bytes"), written);
  CHECK(all_are(x->b, keys, N, 1, 1));
  CHECK(help_stat(x->store, "get_disk") > disk);
}

TEST(ahead_cache_serves_its_session) { each_way(cache_serves_its_session, 8); }

/* Kept records that become outdated, in each way in turn. */
static void cache_is_never_outdated(struct bounded *x) {
  int64_t keys[N];
  emb_ahead a;
  uint8_t found[N];
  cold_keys(keys, 11);
  for (int round = 0; round < 4; round++) {
    if (!look(x->a, keys, N, EMB_AHEAD_CACHE, &a))
      return;
    if (round == 0) {
      help_put_rows(x->b, 11, 60, N, 20);
    } else if (round == 1) { /* and written to disk again */
      help_put_rows(x->b, 11, 60, N, 21);
      help_put_rows(x->b, MANY, 1, MANY, 1);
    } else if (round == 2) { /* moved by compaction */
      help_put_rows(x->b, 11, 60, N, 22);
      help_put_rows(x->b, 11, 60, N / 2, 22);
      help_put_rows(x->b, MANY, 1, MANY, 2);
      OK(x->b, emb_optimize(x->b));
    } else {
      OK(x->b, emb_delete(x->b, keys, N, NULL));
      OK(x->a, emb_exists(x->a, keys, N, found));
      float *vectors = malloc(sizeof(float[N][DIM]));
      OK(x->a, emb_get(x->a, keys, N, vectors, found, NULL));
      free(vectors);
      for (int i = 0; i < N; i++)
        if (!CHECK_EQ_INT(found[i], 0))
          break;
      return;
    }
    CHECK(all_are(x->a, keys, N, 20 + round, 1));
    (void)emb_release(x->a);
  }
}

TEST(ahead_cache_is_never_outdated) { each_way(cache_is_never_outdated, 0); }

static void cache_has_a_limit(struct bounded *x) {
  static int64_t keys[MANY];
  emb_ahead first, second;
  for (int i = 0; i < MANY; i++)
    keys[i] = i;
  if (!look(x->a, keys, MANY / 4, EMB_AHEAD_CACHE, &first) ||
      !look(x->a, keys + MANY / 2, N, EMB_AHEAD_CACHE, &second))
    return;
  /* At most a quarter of the store's 4 MiB, and that is used up. */
  CHECK(first.read > 0 && first.read * DIM * sizeof(float) <= 1 << 20);
  CHECK(second.refused > 0);
  int64_t disk = help_stat(x->store, "get_disk");
  CHECK(all_are(x->a, keys, MANY / 4, 1, 1));
  CHECK(help_stat(x->store, "get_disk") - disk <= (int64_t)first.refused);
  if (look(x->a, keys + MANY / 2, N, EMB_AHEAD_CACHE, &second))
    CHECK_EQ_INT(second.refused, 0);
}

TEST(ahead_cache_has_a_limit) {
  each_way(cache_has_a_limit, EMB_STALENESS_MAX);
}

TEST(ahead_numbers) {
  struct bounded x;
  emb_ahead a;
  int64_t key = 5;
  if (!bounded_open(&x, 0, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  OK(x.a, help_put(x.a, key, 1));
  GIVES(x.a, EMB_RANGE, emb_lookahead_progress(x.a, 1, &a));
  GIVES(x.a, EMB_RANGE, emb_lookahead_wait(x.a, 1));
  GIVES(x.a, EMB_RANGE, emb_lookahead(x.a, &key, 1, 2, &a));
  GIVES(x.a, EMB_RANGE, emb_lookahead(x.a, &key, 1, -1, &a));
  for (uint64_t i = 1; i <= 100; i++) {
    OK(x.a, emb_lookahead(x.a, &key, 1, (int)(i % 2), &a));
    CHECK_EQ_INT(a.number, i);
  }
  OK(x.a, emb_lookahead_progress(x.a, 100, &a));
  OK(x.a, emb_lookahead_progress(x.a, 37, &a));
  CHECK_EQ_INT(a.number, 37);
  GIVES(x.a, EMB_RANGE, emb_lookahead_progress(x.a, 36, &a));
  GIVES(x.a, EMB_RANGE, emb_lookahead_progress(x.a, 0, &a));
  GIVES(x.a, EMB_RANGE, emb_lookahead_progress(x.a, 101, &a));
  GIVES(x.b, EMB_RANGE, emb_lookahead_progress(x.b, 100, &a));
  bounded_close(&x);
}

/* ---- tickets ------------------------------------------------------------- */

enum { FLYING = 6 };

static void several_tickets(struct bounded *x) {
  int64_t keys[N];
  uint64_t tickets[FLYING], ended;
  float *vectors = malloc(FLYING * sizeof(float[N][DIM]));
  uint8_t found[FLYING][N];
  size_t writes = 9;
  static const int order[FLYING] = {2, 0, 1, 5, 3, 4};
  if (!CHECK(vectors != NULL))
    return;
  for (int i = 0; i < FLYING; i++) {
    cold_keys(keys, i);
    OK(x->a, emb_prefetch(x->a, keys, N,
                          &(emb_rows){.vectors = vectors + i * N * DIM,
                                      .found = found[i]},
                          &tickets[i]));
    CHECK(tickets[i] > 0 && (i == 0 || tickets[i] > tickets[i - 1]));
    memset(keys, -1, sizeof keys); /* they were copied */
  }
  CHECK_EQ_INT(emb_tickets(x->a, &writes), FLYING);
  CHECK_EQ_INT(writes, 0);
  GIVES(x->a, EMB_RANGE,
        emb_prefetch_synchronize(x->a, tickets[FLYING - 1] + 1, NULL));
  GIVES(x->a, EMB_RANGE, emb_write_back_synchronize(x->a, tickets[0], NULL));
  GIVES(x->b, EMB_RANGE, emb_prefetch_synchronize(x->b, tickets[0], NULL));
  for (int i = 0; i < FLYING; i++) { /* ticket 0: the oldest one */
    OK(x->a,
       emb_prefetch_synchronize(x->a, i == 1 ? 0 : tickets[order[i]], &ended));
    CHECK_EQ_INT(ended, tickets[order[i]]);
    cold_keys(keys, order[i]);
    for (int k = 0; k < N; k++)
      if (!CHECK(found[order[i]][k]) ||
          !CHECK(help_is(vectors + (order[i] * N + k) * DIM, DIM, keys[k], 1)))
        break;
    GIVES(x->a, EMB_RANGE,
          emb_prefetch_synchronize(x->a, tickets[order[i]], NULL));
  }
  GIVES(x->a, EMB_RANGE, emb_prefetch_synchronize(x->a, 0, NULL));
  CHECK_EQ_INT(emb_tickets(x->a, NULL), 0);
  CHECK_EQ_INT(emb_leases(x->a), FLYING * N);
  free(vectors);
}

TEST(tickets_of_prefetches) { each_way(several_tickets, 0); }

/* A session is closed while all of its batches are under way. */
static void close_with_tickets(struct bounded *x) {
  int64_t keys[N], other[N];
  uint64_t ticket;
  emb_err err;
  float *vectors = calloc(2, sizeof(float[N][DIM]));
  cold_keys(keys, 0);
  cold_keys(other, 1);
  for (int i = 0; i < N; i++)
    help_vector(vectors + i * DIM, DIM, other[i], 5);
  OK(x->a, emb_lookahead(x->a, other, N, EMB_AHEAD_CACHE, NULL));
  OK(x->a, emb_lookahead(x->a, keys, N, EMB_AHEAD_BUFFER, NULL));
  OK(x->a, emb_prefetch(x->a, keys, N,
                        &(emb_rows){.vectors = vectors + N * DIM}, &ticket));
  OK(x->a, get_one(x->a, other[3], NULL));
  OK(x->a, emb_write_back(x->a, other, N, vectors, &ticket));
  emb_session_close(x->a);
  free(vectors); /* nothing is written there any more */
  CHECK(all_are(x->b, other, N, 5, 0));
  CHECK_EQ_INT(pending_other_than(x->b, keys, N, 0), 0);
  CHECK_EQ_INT(pending_other_than(x->b, other, N, 0), 0);
  CHECK_EQ_INT(emb_session_open(x->store, &x->a, &err), EMB_OK);
}

TEST(session_closed_with_tickets) { each_way(close_with_tickets, 0); }

/* ---- write-back ---------------------------------------------------------- */

/* The last write of a key wins, whichever way each write was made. */
static void order_of_writes(struct bounded *x) {
  int64_t keys[N];
  uint64_t ticket;
  size_t writes;
  float *vectors = malloc(sizeof(float[N][DIM]));
  int32_t value = 1;
  cold_keys(keys, 2);
  for (int round = 0; round < 40; round++) {
    value++;
    for (int i = 0; i < N; i++)
      help_vector(vectors + i * DIM, DIM, keys[i], value);
    if (round % 5 == 4)
      OK(x->a, emb_put(x->a, keys, N, vectors, NULL));
    else
      OK(x->a, emb_write_back(x->a, keys, N, vectors, &ticket));
    memset(vectors, 0x45, sizeof(float[N][DIM]));
    if (round % 3 == 2 && round % 5 != 4) { /* newest: all before it, too */
      OK(x->a, emb_write_back_synchronize(x->a, ticket, NULL));
      CHECK(all_are(x->b, keys, N, value, 0));
    }
    help_put_rows(x->b, MANY, 1, 2000, round); /* uses up the log's memory */
  }
  (void)emb_tickets(x->a, &writes);
  for (; writes > 0; writes--)
    OK(x->a, emb_write_back_synchronize(x->a, 0, NULL));
  CHECK_EQ_INT(emb_tickets(x->a, NULL), 0);
  CHECK(all_are(x->a, keys, N, value, 0));
  CHECK(all_are(x->b, keys, N, value, 0));
  free(vectors);
}

TEST(write_backs_keep_their_order) { each_way(order_of_writes, 0); }

static void write_back_gives_back(struct bounded *x) {
  static int64_t keys[MANY / 2];
  static const size_t n = MANY / 2; /* more than the log's memory holds */
  uint64_t ticket;
  float *vectors = malloc(n * sizeof(float[DIM]));
  for (size_t i = 0; i < n; i++)
    keys[i] = (int64_t)i;
  OK(x->a, emb_get(x->a, keys, n, vectors, NULL, NULL));
  CHECK_EQ_INT(emb_leases(x->a), n);
  for (size_t i = 0; i < n; i++)
    help_vector(vectors + i * DIM, DIM, keys[i], 8);
  OK(x->a, emb_write_back(x->a, keys, n, vectors, &ticket));
  OK(x->a, emb_write_back_synchronize(x->a, ticket, NULL));
  CHECK_EQ_INT(pending_other_than(x->b, keys, n, 0), 0);
  CHECK_EQ_INT(emb_leases(x->a), 0);
  CHECK(all_are(x->b, keys, n, 8, 1));
  free(vectors);
}

TEST(write_back_gives_back_its_leases) { each_way(write_back_gives_back, 0); }

TEST(write_back_checks_at_the_start) {
  struct bounded x;
  int64_t keys[3] = {1, 2, 50};
  float vectors[3 * DIM];
  uint64_t ticket;
  if (!bounded_open(&x, 0, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, 10, 1);
  for (int i = 0; i < 3; i++)
    help_vector(vectors + i * DIM, DIM, keys[i], 2);
  uint32_t infinity = 0x7f800000;
  memcpy(&vectors[2 * DIM + 5], &infinity, sizeof infinity);
  GIVES(x.a, EMB_NONFINITE, emb_write_back(x.a, keys, 3, vectors, &ticket));
  CHECK(strstr(emb_errmsg(x.a), "50") != NULL);
  CHECK_EQ_INT(emb_tickets(x.a, NULL), 0);
  CHECK_EQ_INT(emb_count(x.a), 10);
  CHECK_EQ_INT(help_peek(x.a, 1), 1);
  bounded_close(&x);
}

/* A write-back that fails after its start: the session's leases on the rows it
** did not write match the pending reads, and none stays counted. */
TEST(failed_write_back_keeps_what_is_pending) {
  struct bounded x;
  int64_t keys[3] = {1, 2, 3};
  float vectors[3 * DIM];
  uint64_t ticket;
  if (!bounded_open(&x, 0, 5, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, 10, 1);
  OK(x.a, emb_get(x.a, keys, 3, vectors, NULL, NULL));
  for (int i = 0; i < 3; i++)
    help_vector(vectors + i * DIM, DIM, keys[i], 2);
  OK(x.b, emb_begin(x.b)); /* holds key 2 until the timeout is over */
  OK(x.b, emb_txn_delete(x.b, keys + 1, 1, NULL));
  OK(x.a, emb_write_back(x.a, keys, 3, vectors, &ticket));
  GIVES(x.a, EMB_BUSY, emb_write_back_synchronize(x.a, ticket, NULL));
  emb_rollback(x.b);
  int64_t out = 0;
  for (int i = 0; i < 3; i++)
    out += pending_of(x.c, keys[i]);
  CHECK_EQ_INT(out, emb_leases(x.a));
  (void)emb_release(x.a);
  for (int i = 0; i < 3; i++)
    CHECK_EQ_INT(pending_of(x.c, keys[i]), 0);
  bounded_close(&x);
}

/* A prefetch that was refused a key at its start gets the whole row later. */
static void prefetch_waits(struct bounded *x) {
  int64_t keys[N];
  uint64_t ticket, versions[N];
  uint8_t found[N];
  float *vectors = malloc(sizeof(float[N][DIM]));
  cold_keys(keys, 3);
  OK(x->b, get_one(x->b, keys[10], NULL));
  OK(x->b, get_one(x->b, keys[200], NULL));
  OK(x->a,
     emb_prefetch(
         x->a, keys, N,
         &(emb_rows){.vectors = vectors, .found = found, .versions = versions},
         &ticket));
  OK(x->b, help_put(x->b, keys[10], 4));
  OK(x->b, help_put(x->b, keys[200], 4));
  OK(x->a, emb_prefetch_synchronize(x->a, ticket, NULL));
  for (int i = 0; i < N; i++)
    if (!CHECK(found[i] && versions[i] > 0) ||
        !CHECK_EQ_INT(help_value(vectors + i * DIM, DIM, keys[i]),
                      i == 10 || i == 200 ? 4 : 1))
      break;
  CHECK_EQ_INT(pending_other_than(x->b, keys, N, 1), 0);
  CHECK_EQ_INT(emb_leases(x->a), N);
  free(vectors);
}

TEST(prefetch_waits_for_its_keys) { each_way(prefetch_waits, 0); }
