/* SPDX-License-Identifier: MIT
**
** bound_leases.c -- what counts a read, what gives a lease back, and that a
** pending count stays exact wherever its key moves.
*/
#include "staleness_help.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "engine/table/session/session.h"

/* ---- calls that give back ------------------------------------------------ */

TEST(put_rmw_and_delete_give_one_back) {
  struct bounded x;
  float zeros[DIM] = {0};
  int64_t key = 4;
  if (!bounded_open(&x, 8, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, 10, 1);
  for (int i = 0; i < 4; i++)
    OK(x.a, get_one(x.a, key, NULL));
  OK(x.b, get_one(x.b, key, NULL));
  CHECK_EQ_INT(pending_of(x.c, key), 5);
  OK(x.a, help_put(x.a, key, 2));
  CHECK_EQ_INT(pending_of(x.c, key), 4);
  OK(x.a, emb_rmw(x.a, &key, 1, zeros, NULL, NULL));
  CHECK_EQ_INT(pending_of(x.c, key), 3);
  OK(x.a, emb_delete(x.a, &key, 1, NULL));
  CHECK_EQ_INT(emb_leases(x.a), 1);
  OK(x.c, help_put(x.c, key, 3)); /* the key is back; c has no lease */
  CHECK_EQ_INT(pending_of(x.c, key), 2);
  CHECK_EQ_INT(emb_release(x.a), 1);
  CHECK_EQ_INT(pending_of(x.c, key), 1);
  emb_session_close(x.b);
  CHECK_EQ_INT(pending_of(x.c, key), 0);
  emb_err err;
  CHECK_EQ_INT(emb_session_open(x.store, &x.b, &err), EMB_OK);
  CHECK_EQ_INT(emb_release(x.b), 0);
  bounded_close(&x);
}

/* A commit gives back at most LEASE_DEFERRED_MAX leases of a key; the others
** stay until the next Put or release. */
TEST(many_puts_of_a_key_in_a_transaction) {
  enum { HELD = 140, KEPT = HELD - (int)LEASE_DEFERRED_MAX };
  struct bounded x;
  float vector[DIM];
  int64_t key = 4;
  if (!bounded_open(&x, 400, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, 10, 1);
  for (int i = 0; i < HELD; i++)
    OK(x.a, get_one(x.a, key, NULL));
  CHECK_EQ_INT(pending_of(x.c, key), HELD);
  help_vector(vector, DIM, key, 2);
  OK(x.a, emb_begin(x.a));
  for (int i = 0; i < HELD; i++)
    OK(x.a, emb_txn_put(x.a, &key, 1, vector));
  OK(x.a, emb_commit(x.a));
  CHECK_EQ_INT(pending_of(x.c, key), KEPT);
  OK(x.a, help_put(x.a, key, 3));
  CHECK_EQ_INT(pending_of(x.c, key), KEPT - 1);
  CHECK_EQ_INT(emb_release(x.a), KEPT - 1);
  CHECK_EQ_INT(pending_of(x.c, key), 0);
  bounded_close(&x);
}

/* A lease is held for thousands of millions of calls, until their numbers wrap
** around: at any number a Get counts again, and a Put gives a lease back. */
TEST(numbers_of_calls_go_round) {
  struct bounded x;
  int64_t key = 4;
  unsigned counted = 1;
  if (!bounded_open(&x, 40, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, 10, 1);
  OK(x.a, get_one(x.a, key, NULL));
  struct leases *leases = &x.a->leases;
  for (uint32_t quarter = 1; quarter <= 9; quarter++) {
    /* The test skips the calls between two quarters of the cycle. */
    leases->calls = quarter * UINT32_C(0x40000000) - 3;
    for (int i = 0; i < 6; i++)
      lease_next_call(leases);
    if (quarter % 3)
      continue; /* the lease gets older than half a cycle */
    OK(x.a, get_one(x.a, key, NULL));
    CHECK_EQ_INT(pending_of(x.c, key), ++counted);
    emb_statement(x.a, quarter);
    OK(x.a, get_one(x.a, key, NULL));
    OK(x.a, get_one(x.a, key, NULL)); /* once in a statement */
    CHECK_EQ_INT(pending_of(x.c, key), ++counted);
    emb_statement(x.a, 0);
    OK(x.a, help_put(x.a, key, 2));
    CHECK_EQ_INT(pending_of(x.c, key), --counted);
  }
  CHECK_EQ_INT(emb_leases(x.a), counted);
  CHECK_EQ_INT(emb_release(x.a), counted);
  CHECK_EQ_INT(pending_of(x.c, key), 0);
  bounded_close(&x);
}

/* The vector that a transaction puts can be read once it commits. */
static void txn_gives_back(int prepare) {
  struct bounded x;
  uint64_t number;
  if (!bounded_open(&x, 0, 1, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, 10, 1);
  for (int64_t key = 0; key < 4; key++)
    OK(x.a, get_one(x.a, key, NULL));
  float vector[DIM];
  int64_t keys[3] = {0, 1, 2};
  help_vector(vector, DIM, 0, 7);
  OK(x.a, emb_begin(x.a));
  OK(x.a, emb_txn_put(x.a, keys, 1, vector));
  OK(x.a, emb_txn_put(x.a, keys, 1, vector)); /* counts as one Put */
  OK(x.a, emb_txn_delete(x.a, keys + 1, 1, NULL));
  if (prepare)
    OK(x.a, emb_prepare(x.a, &number));
  CHECK_EQ_INT(pending_of(x.b, 0), 1);
  CHECK_EQ_INT(pending_of(x.b, 1), 1);
  GIVES(x.b, EMB_BUSY, get_one(x.b, 0, NULL));
  OK(x.a, emb_commit(x.a));
  CHECK_EQ_INT(pending_of(x.b, 0), 0);
  CHECK_EQ_INT(pending_of(x.b, 2), 1); /* was not put */
  CHECK_EQ_INT(emb_leases(x.a), 2);
  int32_t value = 0;
  OK(x.b, get_one(x.b, 0, &value));
  CHECK_EQ_INT(value, 7);
  OK(x.b, help_put(x.b, 1, 5));
  CHECK_EQ_INT(pending_of(x.b, 1), 0);
  CHECK_EQ_INT(emb_release(x.a), 2);
  CHECK(help_verify(x.c));
  bounded_close(&x);
}

TEST(commit_gives_back) { txn_gives_back(0); }
TEST(commit_of_a_prepared_transaction_gives_back) { txn_gives_back(1); }

TEST(rollback_undoes_the_put_and_not_the_get) {
  struct bounded x;
  float vector[DIM];
  int64_t key = 3;
  if (!bounded_open(&x, 0, 1, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, 10, 1);
  help_vector(vector, DIM, key, 7);
  OK(x.a, get_one(x.a, key, NULL));
  OK(x.a, emb_begin(x.a));
  OK(x.a, emb_txn_put(x.a, &key, 1, vector));
  emb_rollback(x.a);
  CHECK_EQ_INT(pending_of(x.b, key), 1);
  CHECK_EQ_INT(emb_leases(x.a), 1);
  OK(x.a, help_put(x.a, key, 2));
  CHECK_EQ_INT(pending_of(x.b, key), 0);
  /* The same with a savepoint. */
  OK(x.a, get_one(x.a, key, NULL));
  OK(x.a, emb_begin(x.a));
  OK(x.a, emb_savepoint(x.a, 1));
  OK(x.a, emb_txn_put(x.a, &key, 1, vector));
  OK(x.a, emb_rollback_to(x.a, 1));
  OK(x.a, emb_commit(x.a));
  CHECK_EQ_INT(help_peek(x.b, key), 2);
  CHECK_EQ_INT(pending_of(x.b, key), 1);
  CHECK_EQ_INT(emb_release(x.a), 1);
  CHECK_EQ_INT(pending_of(x.b, key), 0);
  bounded_close(&x);
}

TEST(marked_leases_are_given_back_alone) {
  struct bounded x;
  if (!bounded_open(&x, 8, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, 10, 1);
  OK(x.a, get_one(x.a, 1, NULL));
  OK(x.a, get_one(x.a, 2, NULL));
  emb_lease_mark(x.a, 1);
  OK(x.a, get_one(x.a, 2, NULL));
  OK(x.a, get_one(x.a, 3, NULL));
  CHECK_EQ_INT(emb_release_marked(x.a), 2);
  CHECK_EQ_INT(pending_of(x.a, 1), 1);
  CHECK_EQ_INT(pending_of(x.a, 2), 1);
  CHECK_EQ_INT(pending_of(x.a, 3), 0);
  OK(x.a, get_one(x.a, 4, NULL));
  emb_lease_mark(x.a, 0);
  CHECK_EQ_INT(emb_release_marked(x.a), 0);
  CHECK_EQ_INT(emb_leases(x.a), 3);
  CHECK_EQ_INT(emb_release(x.a), 3);
  bounded_close(&x);
}

/* ---- calls that count ---------------------------------------------------- */

TEST(a_call_counts_a_key_once) {
  struct bounded x;
  int64_t keys[5] = {5, 6, 5, 5, 6};
  float vectors[5 * DIM];
  uint8_t found[5];
  if (!bounded_open(&x, 8, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, 10, 1);
  OK(x.a, emb_get(x.a, keys, 5, vectors, found, NULL));
  for (int i = 0; i < 5; i++)
    CHECK(found[i] && help_is(vectors + i * DIM, DIM, keys[i], 1));
  CHECK_EQ_INT(pending_of(x.a, 5), 1);
  CHECK_EQ_INT(pending_of(x.a, 6), 1);
  OK(x.a, emb_get(x.a, keys, 5, vectors, NULL, NULL));
  CHECK_EQ_INT(pending_of(x.a, 5), 2);
  OK(x.a, emb_put(x.a, keys, 5, vectors, NULL));
  CHECK_EQ_INT(pending_of(x.a, 5), 1);
  memset(vectors, 0, sizeof vectors);
  OK(x.a, emb_rmw(x.a, keys, 3, vectors, NULL, NULL));
  CHECK_EQ_INT(pending_of(x.a, 5), 0);
  CHECK_EQ_INT(pending_of(x.a, 6), 0);
  CHECK_EQ_INT(emb_leases(x.a), 0);
  bounded_close(&x);
}

/* A key counts once even where the engine splits the batch. The bound is 0, so
** counting a key twice would be refused. */
TEST(a_large_batch_counts_a_key_once) {
  enum { N = 5000 };
  struct bounded x;
  static int64_t keys[2 * N];
  float *vectors = malloc(sizeof(float[2 * N][DIM]));
  if (!vectors || !bounded_open(&x, 0, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, MANY, 1);
  for (int i = 0; i < 2 * N; i++)
    keys[i] = (int64_t)((uint64_t)i * 7919 % N) * 3;
  OK(x.a, emb_get(x.a, keys, 2 * N, vectors, NULL, NULL));
  CHECK_EQ_INT(emb_leases(x.a), N);
  CHECK_EQ_INT(pending_other_than(x.b, keys, 2 * N, 1), 0);
  for (int i = 0; i < 2 * N; i++)
    if (!CHECK(help_is(vectors + (size_t)i * DIM, DIM, keys[i], 1)))
      break;
  OK(x.a, emb_put(x.a, keys, 2 * N, vectors, NULL));
  CHECK_EQ_INT(emb_leases(x.a), 0);
  CHECK_EQ_INT(pending_other_than(x.b, keys, 2 * N, 0), 0);
  free(vectors);
  bounded_close(&x);
}

TEST(a_statement_counts_a_key_once) {
  struct bounded x;
  if (!bounded_open(&x, 8, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, 10, 1);
  emb_statement(x.a, 71);
  for (int i = 0; i < 20; i++)
    OK(x.a, get_one(x.a, 5, NULL));
  OK(x.a, get_one(x.a, 6, NULL));
  OK(x.b, get_one(x.b, 5, NULL));
  CHECK_EQ_INT(pending_of(x.a, 5), 2);
  emb_statement(x.a, 72);
  OK(x.a, get_one(x.a, 5, NULL));
  OK(x.a, get_one(x.a, 5, NULL));
  CHECK_EQ_INT(pending_of(x.a, 5), 3);
  emb_statement(x.a, 0);
  OK(x.a, get_one(x.a, 5, NULL));
  OK(x.a, get_one(x.a, 5, NULL));
  CHECK_EQ_INT(pending_of(x.a, 5), 5);
  CHECK_EQ_INT(emb_leases(x.a), 5);
  bounded_close(&x);
}

/* Calls outside the statement come in between. The keys they count are read
** for the statement, too. */
TEST(a_statement_goes_on_after_other_calls) {
  struct bounded x;
  int64_t key = 5;
  float vector[DIM];
  uint64_t ticket;
  if (!bounded_open(&x, 8, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, 10, 1);
  emb_statement(x.a, 71);
  OK(x.a, get_one(x.a, 5, NULL));
  emb_statement(x.a, 0);
  OK(x.a, get_one(x.a, 6, NULL));
  OK(x.a, emb_prefetch(x.a, &key, 1, &(emb_rows){.vectors = vector}, &ticket));
  OK(x.a, emb_prefetch_synchronize(x.a, ticket, NULL));
  CHECK_EQ_INT(pending_of(x.a, 5), 2);
  emb_statement(x.a, 71);
  OK(x.a, get_one(x.a, 5, NULL));
  OK(x.a, get_one(x.a, 6, NULL));
  CHECK_EQ_INT(pending_of(x.a, 5), 2);
  CHECK_EQ_INT(pending_of(x.a, 6), 1);
  emb_statement(x.a, 0);
  emb_statement(x.a, 72);
  OK(x.a, get_one(x.a, 5, NULL));
  CHECK_EQ_INT(pending_of(x.a, 5), 3);
  bounded_close(&x);
}

/* The marks of a finished attempt are gone, whatever touches the lease next. */
TEST(marks_end_with_their_attempt) {
  struct bounded x;
  if (!bounded_open(&x, 8, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, 10, 1);
  emb_lease_mark(x.a, 1);
  OK(x.a, get_one(x.a, 5, NULL));
  OK(x.a, get_one(x.a, 6, NULL));
  OK(x.a, get_one(x.a, 6, NULL));
  emb_lease_mark(x.a, 0);
  CHECK_EQ_INT(emb_release_marked(x.a), 0);
  OK(x.a, get_one(x.a, 5, NULL));
  CHECK_EQ_INT(emb_release_marked(x.a), 0);
  emb_lease_mark(x.a, 1);
  OK(x.a, get_one(x.a, 6, NULL));
  OK(x.a, help_put(x.a, 5, 2));
  CHECK_EQ_INT(pending_of(x.a, 5), 1);
  CHECK_EQ_INT(pending_of(x.a, 6), 3);
  CHECK_EQ_INT(emb_release_marked(x.a), 1);
  CHECK_EQ_INT(pending_of(x.a, 5), 1);
  CHECK_EQ_INT(pending_of(x.a, 6), 2);
  CHECK_EQ_INT(emb_release(x.a), 3);
  bounded_close(&x);
}

/* A prefetch belongs to the statement in which it began, even if it waits for
** a key until another statement. */
TEST(a_prefetch_counts_in_its_statement) {
  struct bounded x;
  int64_t keys[3] = {5, 6, 7};
  float vectors[3 * DIM];
  uint64_t ticket;
  for (int other = 0; other < 2; other++) {
    if (!bounded_open(&x, 0, FOR_EVER, EMB_OPEN_TEMPORARY))
      return;
    help_put_rows(x.a, 0, 1, 10, 1);
    emb_statement(x.a, 71);
    OK(x.a, get_one(x.a, 5, NULL));
    OK(x.a,
       emb_prefetch(x.a, keys, 1, &(emb_rows){.vectors = vectors}, &ticket));
    OK(x.a, emb_prefetch_synchronize(x.a, ticket, NULL));
    CHECK_EQ_INT(pending_of(x.a, 5), 1);
    OK(x.b, get_one(x.b, 6, NULL));
    OK(x.a,
       emb_prefetch(x.a, keys, 3, &(emb_rows){.vectors = vectors}, &ticket));
    emb_statement(x.a, other ? 72 : 0);
    OK(x.b, help_put(x.b, 6, 2));
    OK(x.a, emb_prefetch_synchronize(x.a, ticket, NULL));
    CHECK_EQ_INT(pending_other_than(x.a, keys, 3, 1), 0);
    /* The current statement has not changed. */
    GIVES(x.a, EMB_BUSY, get_one(x.a, 5, NULL));
    emb_statement(x.a, 71);
    bounded_close(&x);
  }
}

/* When a later call of a statement is refused, the earlier call's count stays:
** its vector was read and will be put. */
TEST(a_refused_call_keeps_what_its_statement_counted) {
  struct bounded x;
  int64_t keys[3] = {5, 6, 7};
  float vectors[3 * DIM];
  if (!bounded_open(&x, 0, 1, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, 10, 1);
  OK(x.b, get_one(x.b, 6, NULL));
  emb_statement(x.a, 71);
  OK(x.a, get_one(x.a, 5, NULL));
  GIVES(x.a, EMB_BUSY, emb_get(x.a, keys, 3, vectors, NULL, NULL));
  CHECK_EQ_INT(pending_of(x.a, 5), 1);
  CHECK_EQ_INT(pending_of(x.a, 7), 0);
  CHECK_EQ_INT(emb_leases(x.a), 1);
  GIVES(x.b, EMB_BUSY, get_one(x.b, 5, NULL));
  bounded_close(&x);
}

TEST(what_does_not_count) {
  struct bounded x;
  int64_t keys[64];
  float vectors[64 * DIM];
  uint64_t versions[64];
  uint8_t found[64];
  emb_scan *scan;
  size_t n;
  if (!bounded_open(&x, 0, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, 64, 1);
  for (int i = 0; i < 64; i++)
    keys[i] = i;
  OK(x.b, get_one(x.b, 7, NULL)); /* at its bound; nothing waits for it */
  OK(x.a, emb_peek(x.a, keys, 64, vectors, found, versions));
  CHECK(help_is(vectors + 7 * DIM, DIM, 7, 1));
  OK(x.a, emb_exists(x.a, keys, 64, found));
  OK(x.a, emb_get(x.a, keys, 64, NULL, found, versions));
  CHECK(found[7] && versions[7] > 0);
  for (int order = EMB_SCAN_ANY; order <= EMB_SCAN_DESC; order++) {
    size_t rows = 0;
    OK(x.a, emb_scan_open(x.a, INT64_MIN, INT64_MAX, order, &scan));
    do {
      OK(x.a, emb_scan_next(scan, 64, keys, vectors, versions, &n));
      rows += n;
    } while (n);
    emb_scan_close(scan);
    CHECK_EQ_INT(rows, 64);
  }
  for (int i = 0; i < 64; i++)
    keys[i] = i;
  OK(x.a, emb_lookahead(x.a, keys, 64, EMB_AHEAD_BUFFER, NULL));
  OK(x.a, emb_lookahead(x.a, keys, 64, EMB_AHEAD_CACHE, NULL));
  CHECK_EQ_INT(emb_leases(x.a), 0);
  CHECK_EQ_INT(pending_of(x.a, 7), 1);
  CHECK_EQ_INT(emb_release(x.b), 1);
  CHECK_EQ_INT(pending_other_than(x.a, keys, 64, 0), 0);
  bounded_close(&x);
}

TEST(without_a_bound_nothing_counts) {
  struct bounded x;
  emb_config config = {.dim = DIM, .flags = EMB_OPEN_CREATE};
  if (!help_open(help_path("store"), &config, &x.store, &x.a))
    return;
  OK(x.a, help_put(x.a, 5, 1));
  for (int i = 0; i < 10000; i++)
    if (!OK(x.a, get_one(x.a, 5, NULL)))
      break;
  CHECK_EQ_INT(pending_of(x.a, 5), 0);
  CHECK_EQ_INT(emb_leases(x.a), 0);
  CHECK_EQ_INT(emb_release(x.a), 0);
  help_close(x.store, x.a);
}

/* ---- waiting ------------------------------------------------------------- */

TEST(a_refused_batch_gives_back_what_it_took) {
  struct bounded x;
  struct waiting w = {0, 3};
  int64_t keys[40];
  float vectors[40 * DIM];
  uint64_t ticket;
  if (!bounded_open(&x, 0, 5, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, 40, 1);
  for (int i = 0; i < 40; i++)
    keys[i] = i;
  OK(x.b, get_one(x.b, 23, NULL));
  OK(x.a, get_one(x.a, 3, NULL)); /* an earlier call's lease is kept */
  for (int round = 0; round < 3; round++) {
    if (round == 0) {
      GIVES(x.a, EMB_BUSY, emb_get(x.a, keys + 4, 36, vectors, NULL, NULL));
      CHECK(strstr(emb_errmsg(x.a), "23") != NULL);
    } else if (round == 1) {
      OK(x.a, emb_prefetch(x.a, keys + 4, 36, &(emb_rows){.vectors = vectors},
                           &ticket));
      GIVES(x.a, EMB_BUSY, emb_prefetch_synchronize(x.a, ticket, NULL));
    } else {
      x.c = (emb_session_close(x.c), NULL); /* now with a long timeout */
      bounded_close(&x);
      if (!bounded_open(&x, 0, FOR_EVER, EMB_OPEN_TEMPORARY))
        return;
      help_put_rows(x.a, 0, 1, 40, 1);
      OK(x.b, get_one(x.b, 23, NULL));
      OK(x.a, get_one(x.a, 3, NULL));
      emb_session_interrupt(x.a, waiting_ask, &w);
      GIVES(x.a, EMB_INTERRUPT,
            emb_get(x.a, keys + 4, 36, vectors, NULL, NULL));
    }
    CHECK_EQ_INT(emb_leases(x.a), 1);
    CHECK_EQ_INT(pending_other_than(x.c, keys, 3, 0), 0);
    CHECK_EQ_INT(pending_of(x.c, 3), 1);
    CHECK_EQ_INT(pending_other_than(x.c, keys + 4, 19, 0), 0);
    CHECK_EQ_INT(pending_of(x.c, 23), 1);
    CHECK_EQ_INT(pending_other_than(x.c, keys + 24, 16, 0), 0);
  }
  bounded_close(&x);
}

/* Makes everything written so far unreadable. */
static void spoil_log(void) {
  char path[600], junk[4096];
  memset(junk, 0xa5, sizeof junk);
  (void)snprintf(path, sizeof path, "%s/log", help_path("store"));
  int fd = open(path, O_WRONLY);
  off_t end = lseek(fd, 0, SEEK_END);
  for (off_t at = 0; at < end; at += (off_t)sizeof junk)
    CHECK(pwrite(fd, junk, sizeof junk, at) == (ssize_t)sizeof junk);
  (void)close(fd);
}

/* A batch that fails gives back the reads it counted. It does not touch the
** keys that the session got and put in between. */
TEST(a_failed_prefetch_gives_back_its_own) {
  enum { COLD, LAST, GOT, WRITTEN, N };
  struct bounded x;
  int64_t keys[N] = {0, MANY + 1, MANY + 2, MANY + 3};
  float vectors[N * DIM];
  uint64_t ticket;
  if (!bounded_open(&x, 4, FOR_EVER, EMB_OPEN_ALONE))
    return;
  help_put_rows(x.a, 0, 1, MANY, 1);
  help_put_rows(x.a, MANY + 1, 1, 10, 1); /* in memory */
  OK(x.a, get_one(x.a, keys[WRITTEN], NULL));
  spoil_log();
  OK(x.a, emb_prefetch(x.a, keys, N, &(emb_rows){.vectors = vectors}, &ticket));
  CHECK_EQ_INT(emb_leases(x.a), N + 1);
  OK(x.a, get_one(x.a, keys[GOT], NULL));
  OK(x.a, help_put(x.a, keys[WRITTEN], 2));
  CHECK_EQ_INT(emb_leases(x.a), N + 1);
  GIVES(x.a, EMB_CORRUPT, emb_prefetch_synchronize(x.a, ticket, NULL));
  CHECK_EQ_INT(pending_of(x.c, keys[COLD]), 0);
  CHECK_EQ_INT(pending_of(x.c, keys[LAST]), 0);
  CHECK_EQ_INT(pending_of(x.c, keys[GOT]), 1);
  CHECK_EQ_INT(pending_of(x.c, keys[WRITTEN]), 0);
  CHECK_EQ_INT(emb_leases(x.a), 1);
  emb_err err;
  emb_session_close(x.b);
  emb_session_close(x.c);
  emb_session_close(x.a);
  (void)emb_close(x.store, &err); /* it may report the damage */
}

enum { CROSS_KEYS = 48, CROSS_ROUNDS = 1000, CROSS_THREADS = 4 };

struct crossing {
  emb_session *s;
  uint64_t random;
  uint64_t keys;
  int kind;
};

enum { GETS, PREFETCHES, ERASES };

static int get_or_prefetch(struct crossing *k, const int64_t *keys, size_t n,
                           float *vectors) {
  uint64_t ticket;
  if (k->kind != PREFETCHES)
    return OK(k->s, emb_get(k->s, keys, n, vectors, NULL, NULL));
  if (!OK(k->s, emb_prefetch(k->s, keys, n, &(emb_rows){.vectors = vectors},
                             &ticket)))
    return 0;
  (void)sched_yield();
  return OK(k->s, emb_prefetch_synchronize(k->s, ticket, NULL));
}

/* ERASES: deletes a third of the keys instead of putting them back. */
static int put_or_erase(struct crossing *k, const int64_t *keys, size_t n,
                        const float *vectors) {
  if (k->kind != ERASES)
    return OK(k->s, emb_put(k->s, keys, n, vectors, NULL));
  for (size_t i = 0; i < n; i++) {
    int rc = test_random_from(&k->random) % 3
                 ? emb_put(k->s, keys + i, 1, vectors + i * DIM, NULL)
                 : emb_delete(k->s, keys + i, 1, NULL);
    if (!OK(k->s, rc))
      return 0;
  }
  (void)emb_release(k->s); /* of keys that another thread deleted */
  return 1;
}

/* Gets overlapping batches, ascending and descending, and puts each back. */
static void *cross(void *arg) {
  struct crossing *k = arg;
  int64_t keys[CROSS_KEYS];
  float vectors[CROSS_KEYS * DIM];
  for (unsigned round = 0; round < CROSS_ROUNDS * help_long(); round++) {
    size_t n = 2 + test_random_from(&k->random) % (k->keys - 2);
    uint64_t from = test_random_from(&k->random);
    int down = (int)(test_random_from(&k->random) & 1);
    for (size_t i = 0; i < n; i++)
      keys[down ? n - 1 - i : i] = (int64_t)((from + i) % k->keys);
    if (!get_or_prefetch(k, keys, n, vectors))
      break;
    (void)sched_yield();
    if (!put_or_erase(k, keys, n, vectors) ||
        !CHECK_EQ_INT(emb_leases(k->s), 0))
      break;
  }
  return NULL;
}

/* No Get is ever refused: the timeout is only there to end a deadlock. */
static void cross_all(uint64_t keys, int kind) {
  struct bounded x;
  pthread_t threads[CROSS_THREADS];
  struct crossing crossings[CROSS_THREADS];
  emb_err err;
  if (!bounded_open(&x, 0, 10000, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, (int)keys, 1);
  for (int i = 0; i < CROSS_THREADS; i++) {
    crossings[i] = (struct crossing){NULL, test_random(), keys, kind};
    if (!CHECK_EQ_INT(emb_session_open(x.store, &crossings[i].s, &err), 0) ||
        !CHECK_EQ_INT(pthread_create(&threads[i], NULL, cross, &crossings[i]),
                      0))
      abort();
  }
  for (int i = 0; i < CROSS_THREADS; i++) {
    (void)pthread_join(threads[i], NULL);
    emb_session_close(crossings[i].s);
  }
  for (int64_t key = 0; key < (int64_t)keys; key++)
    CHECK_EQ_INT(pending_of(x.c, key), 0);
  /* On a busy machine the other kinds may happen not to wait. */
  CHECK(kind != GETS || help_stat(x.store, "staleness_waits") > 0);
  CHECK_EQ_INT(help_stat(x.store, "staleness_busy"), 0);
  bounded_close(&x);
}

TEST(overlapping_batches_do_not_deadlock) { cross_all(CROSS_KEYS, GETS); }
TEST(overlapping_prefetches_do_not_deadlock) {
  cross_all(CROSS_KEYS, PREFETCHES);
}
/* A key that was absent when a batch counted the others may be present when it
** reads them. While the batch waits for that key, it must hold no others. */
TEST(overlapping_batches_of_keys_that_come_and_go) { cross_all(8, ERASES); }

/* ---- keys that go and come ----------------------------------------------- */

static int count_scanned(emb_session *s) {
  emb_scan *scan;
  int64_t keys[64];
  size_t n;
  int rows = 0;
  if (!OK(s, emb_scan_open(s, INT64_MIN, INT64_MAX, EMB_SCAN_ANY, &scan)))
    return -1;
  do {
    OK(s, emb_scan_next(scan, 64, keys, NULL, NULL, &n));
    rows += (int)n;
  } while (n);
  emb_scan_close(scan);
  return rows;
}

/* The key is gone for all sessions, whatever leases on it are held. */
static void check_gone(struct bounded *x, int64_t key, int64_t rest) {
  uint8_t found = 1;
  float vector[DIM];
  OK(x->a, emb_exists(x->a, &key, 1, &found));
  CHECK_EQ_INT(found, 0);
  OK(x->a, emb_get(x->a, &key, 1, vector, &found, NULL));
  CHECK_EQ_INT(found, 0);
  CHECK_EQ_INT(help_peek(x->b, key), INT32_MIN);
  CHECK_EQ_INT(emb_leases(x->a), 0);
  CHECK_EQ_INT(emb_count(x->a), rest);
  CHECK_EQ_INT(count_scanned(x->a), rest);
  CHECK(help_verify(x->a));
}

TEST(a_key_deleted_under_leases) {
  struct bounded x;
  int64_t key = 5;
  uint8_t found;
  if (!bounded_open(&x, 2, 1, 0))
    return;
  help_put_rows(x.a, 0, 1, 10, 1);
  OK(x.b, get_one(x.b, key, NULL));
  OK(x.c, get_one(x.c, key, NULL));
  for (int round = 0; round < 3; round++) {
    OK(x.a, emb_delete(x.a, &key, 1, &found));
    CHECK_EQ_INT(found, 1);
    check_gone(&x, key, 9);
    OK(x.a, emb_delete(x.a, &key, 1, &found));
    CHECK_EQ_INT(found, 0);
    if (round == 1)
      OK(x.a, emb_checkpoint(x.a));
    if (round == 2)
      help_put_rows(x.a, 1000, 1, MANY, 3); /* the index grows */
    /* When it is added again, the key still has its pending reads. */
    OK(x.a, help_put(x.a, key, 10 + round));
    CHECK_EQ_INT(pending_of(x.a, key), 2);
    CHECK_EQ_INT(help_peek(x.b, key), 10 + round);
    OK(x.a, get_one(x.a, key, NULL));
    GIVES(x.a, EMB_BUSY, get_one(x.a, key, NULL));
    CHECK_EQ_INT(emb_release(x.a), 1);
  }
  OK(x.b, help_put(x.b, key, 20));
  CHECK_EQ_INT(pending_of(x.a, key), 1);
  OK(x.a, emb_delete(x.a, &key, 1, NULL));
  CHECK_EQ_INT(emb_release(x.c), 1); /* the last lease: now it is really gone */
  check_gone(&x, key, 9 + MANY);
  OK(x.a, help_put(x.a, key, 21));
  CHECK_EQ_INT(pending_of(x.a, key), 0);
  CHECK_EQ_INT(emb_count(x.a), 10 + MANY);
  bounded_close(&x);
}

/* The holder of the lease puts the key again, or deletes it itself. */
TEST(a_deleted_key_is_given_back_by_its_reader) {
  struct bounded x;
  int64_t key = 5;
  if (!bounded_open(&x, 2, 1, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, 10, 1);
  OK(x.b, get_one(x.b, key, NULL));
  OK(x.c, get_one(x.c, key, NULL));
  OK(x.a, emb_delete(x.a, &key, 1, NULL));
  OK(x.b, help_put(x.b, key, 2));
  CHECK_EQ_INT(pending_of(x.a, key), 1);
  CHECK_EQ_INT(emb_leases(x.b), 0);
  OK(x.c, emb_delete(x.c, &key, 1, NULL));
  CHECK_EQ_INT(emb_leases(x.c), 0);
  check_gone(&x, key, 9);
  OK(x.a, help_put(x.a, key, 3));
  CHECK_EQ_INT(pending_of(x.a, key), 0);
  bounded_close(&x);
}

TEST(a_transaction_deletes_and_adds_under_leases) {
  struct bounded x;
  int64_t key = 5;
  float vector[DIM];
  if (!bounded_open(&x, 2, 1, 0))
    return;
  help_put_rows(x.a, 0, 1, 10, 1);
  help_vector(vector, DIM, key, 9);
  OK(x.b, get_one(x.b, key, NULL));
  for (int commit = 0; commit < 2; commit++) {
    OK(x.a, emb_begin(x.a));
    OK(x.a, emb_txn_delete(x.a, &key, 1, NULL));
    commit ? (void)OK(x.a, emb_commit(x.a)) : emb_rollback(x.a);
    CHECK_EQ_INT(emb_count(x.a), 10 - commit);
  }
  check_gone(&x, key, 9);
  for (int commit = 0; commit < 2; commit++) {
    OK(x.a, emb_begin(x.a));
    OK(x.a, emb_txn_put(x.a, &key, 1, vector));
    CHECK_EQ_INT(emb_count(x.a), 10);
    commit ? (void)OK(x.a, emb_commit(x.a)) : emb_rollback(x.a);
    CHECK_EQ_INT(emb_count(x.a), 9 + commit);
    CHECK(help_verify(x.a));
  }
  CHECK_EQ_INT(help_peek(x.c, key), 9);
  CHECK_EQ_INT(pending_of(x.a, key), 1);
  /* The last lease is given back while a transaction holds the empty entry. */
  OK(x.a, emb_delete(x.a, &key, 1, NULL));
  OK(x.a, emb_begin(x.a));
  OK(x.a, emb_txn_put(x.a, &key, 1, vector));
  CHECK_EQ_INT(emb_release(x.b), 1);
  emb_rollback(x.a);
  check_gone(&x, key, 9);
  OK(x.a, help_put(x.a, key, 1));
  CHECK_EQ_INT(pending_of(x.a, key), 0);
  bounded_close(&x);
}

TEST(nothing_is_pending_after_reopen) {
  struct bounded x;
  int64_t keys[100];
  for (int i = 0; i < 100; i++)
    keys[i] = i;
  if (!bounded_open(&x, 3, 1, 0))
    return;
  help_put_rows(x.a, 0, 1, 100, 1);
  for (int i = 0; i < 50; i++)
    OK(x.a, get_one(x.a, i, NULL));
  int64_t gone = 20;
  OK(x.b, emb_delete(x.b, &gone, 1, NULL));
  OK(x.b, emb_checkpoint(x.b)); /* while leases are held */
  CHECK_EQ_INT(pending_of(x.b, 7), 1);
  bounded_close(&x);
  if (!bounded_open(&x, 3, 1, 0))
    return;
  CHECK_EQ_INT(pending_other_than(x.a, keys, 100, 0), 0);
  CHECK_EQ_INT(emb_count(x.a), 99);
  for (int i = 0; i < 4; i++)
    OK(x.a, get_one(x.a, 7, NULL));
  GIVES(x.a, EMB_BUSY, get_one(x.a, 7, NULL));
  CHECK(help_verify(x.a));
  bounded_close(&x);
}

/* ---- records that move --------------------------------------------------- */

enum { STEP = 30, LEASED = MANY / STEP };

/* Each of these keys has as many pending reads as were taken: 1, 2 or 3. */
static void check_leased(struct bounded *x, const char *after) {
  for (int i = 0; i < LEASED; i++) {
    int pending = pending_of(x->c, (int64_t)i * STEP);
    if (!test_check(pending == 1 + i % 3, __FILE__, __LINE__,
                    "after %s key %d has %d pending, not %d", after, i * STEP,
                    pending, 1 + i % 3))
      return;
  }
}

static void grew(struct bounded *x, const char *metric, int64_t before) {
  (void)test_check(help_stat(x->store, metric) > before, __FILE__, __LINE__,
                   "%s did not grow", metric);
}

TEST(pending_reads_move_with_the_records) {
  struct bounded x;
  if (!bounded_open(&x, EMB_STALENESS_MAX, 1, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, MANY, 1);
  if (!get_until_cached(&x, 1))
    goto out;
  int64_t admitted = help_stat(x.store, "cache_admitted");
  for (int round = 0; round < 3; round++) /* from disk, and into the cache */
    for (int i = round; i < LEASED; i++)
      if (i % 3 >= round && !OK(x.a, get_one(x.a, (int64_t)i * STEP, NULL)))
        goto out;
  check_leased(&x, "admission");
  grew(&x, "cache_admitted", admitted);
  int64_t reclaimed = help_stat(x.store, "cache_evicted");
  for (int64_t key = 1; key < MANY; key += 2) /* read other keys twice: */
    if (key % STEP && (!OK(x.b, get_one(x.b, key, NULL)) ||
                       !OK(x.b, get_one(x.b, key, NULL))))
      goto out; /* a full cache admits nothing the first time */
  check_leased(&x, "reclaim of its slot");
  grew(&x, "cache_evicted", reclaimed);
  help_put_rows(x.c, 0, STEP, LEASED, 2); /* blind Puts, to the tail */
  check_leased(&x, "a copy to the tail");
  int64_t in_place = help_stat(x.store, "put_in_place");
  /* The second Put is in place, unless the log is sealed in between; its
  ** mutable part may have no room for all of them. */
  for (int i = 0; i < LEASED; i++)
    for (int32_t value = 2; value <= 3; value++)
      help_put_rows(x.c, (int64_t)i * STEP, 1, 1, value);
  check_leased(&x, "a change in place");
  grew(&x, "put_in_place", in_place);
  int64_t evictions = help_stat(x.store, "evictions");
  help_put_rows(x.c, MANY, 1, 3 * MANY, 1);
  check_leased(&x, "growth of the index");
  grew(&x, "evictions", evictions);
  help_put_rows(x.c, 0, 1, MANY, 3);
  for (int i = 1; i < STEP; i++) /* of those, only the leased keys stay */
    help_put_rows(x.c, i, STEP, LEASED, 4);
  int64_t compacted = help_stat(x.store, "compacted_records");
  OK(x.c, emb_optimize(x.c));
  check_leased(&x, "compaction");
  (void)test_check(help_stat(x.store, "compacted_records") >=
                       compacted + LEASED / 2,
                   __FILE__, __LINE__, "compaction moved too little");
  CHECK(help_verify(x.b));
  int leases = 0;
  for (int i = 0; i < LEASED; i++)
    leases += 1 + i % 3;
  CHECK_EQ_INT(emb_release(x.a), leases);
  for (int i = 0; i < LEASED; i++)
    if (!CHECK_EQ_INT(pending_of(x.c, (int64_t)i * STEP), 0) ||
        !CHECK_EQ_INT(help_peek(x.c, (int64_t)i * STEP), 3))
      break;
out:
  bounded_close(&x);
}

/* ---- everything at the same time ----------------------------------------- */

enum { MIX_KEYS = 12, MIX_THREADS = 4 };

struct mixing {
  emb_store *store;
  emb_session *s;
  uint64_t random;
  _Atomic int *over;
};

static int mix_txn(struct mixing *k, const int64_t *keys, size_t n,
                   const float *vectors) {
  int rc = emb_begin(k->s);
  if (rc)
    return rc == EMB_BUSY ? EMB_OK : rc;
  uint64_t r = test_random_from(&k->random);
  rc = r & 1 ? emb_txn_put(k->s, keys, n, vectors)
             : emb_txn_delete(k->s, keys, n, NULL);
  if (rc == EMB_OK && r & 2)
    return emb_commit(k->s);
  emb_rollback(k->s);
  return rc;
}

static void *mix(void *arg) {
  struct mixing *k = arg;
  int64_t keys[4];
  float vectors[4 * DIM];
  while (!atomic_load(k->over)) {
    size_t n = 1 + test_random_from(&k->random) % 4;
    for (size_t i = 0; i < n; i++) {
      keys[i] = (int64_t)(test_random_from(&k->random) % MIX_KEYS);
      help_vector(vectors + i * DIM, DIM, keys[i], 1);
    }
    int rc;
    switch (test_random_from(&k->random) % 8) {
    case 0:
      rc = emb_delete(k->s, keys, n, NULL);
      break;
    case 1:
      memset(vectors, 0, sizeof vectors);
      rc = emb_rmw(k->s, keys, n, vectors, NULL, NULL);
      break;
    case 2:
      rc = mix_txn(k, keys, n, vectors);
      break;
    case 3:
      rc = emb_put(k->s, keys, n, vectors, NULL);
      break;
    default:
      rc = emb_get(k->s, keys, n, vectors, NULL, NULL);
    }
    if (rc == EMB_BUSY)
      (void)emb_release(k->s);
    else if (!OK(k->s, rc))
      break;
  }
  return NULL;
}

/* Whatever the calls did, each lease is in one pending count. */
TEST(pending_reads_are_the_sum_of_the_leases) {
  struct bounded x;
  _Atomic int over = 0;
  pthread_t threads[MIX_THREADS];
  struct mixing mixings[MIX_THREADS];
  emb_err err;
  if (!bounded_open(&x, 5, 1, EMB_OPEN_TEMPORARY))
    return;
  for (int i = 0; i < MIX_THREADS; i++) {
    mixings[i] = (struct mixing){x.store, NULL, test_random(), &over};
    if (!CHECK_EQ_INT(emb_session_open(x.store, &mixings[i].s, &err), 0) ||
        !CHECK_EQ_INT(pthread_create(&threads[i], NULL, mix, &mixings[i]), 0))
      abort();
  }
  for (unsigned i = 0; i < 60 * help_long(); i++) {
    struct timespec pause = {0, 5000000};
    (void)nanosleep(&pause, NULL);
    help_put_rows(x.a, 1000 + 1000 * (int64_t)i, 1, 1000, 1);
  }
  atomic_store(&over, 1);
  size_t leases = 0, pending = 0;
  for (int i = 0; i < MIX_THREADS; i++) {
    (void)pthread_join(threads[i], NULL);
    leases += emb_leases(mixings[i].s);
  }
  CHECK(help_verify(x.a));
  help_put_rows(x.b, 0, 1, MIX_KEYS,
                1); /* an absent key's count is not shown */
  for (int64_t key = 0; key < MIX_KEYS; key++)
    pending += (size_t)pending_of(x.a, key);
  CHECK_EQ_INT(pending, leases);
  for (int i = 0; i < MIX_THREADS; i++)
    emb_session_close(mixings[i].s);
  for (int64_t key = 0; key < MIX_KEYS; key++)
    CHECK_EQ_INT(pending_of(x.a, key), 0);
  CHECK(help_verify(x.a));
  bounded_close(&x);
}
