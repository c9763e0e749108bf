/* SPDX-License-Identifier: MIT
**
** snapshot_threads.c -- snapshots while other threads never stop writing.
**
** TRANSFERS  Transactions move amounts between keys, so that the sum of all
**            vectors stays the same: in every snapshot it must be the same.
** ORDER      Each writer puts the numbers 1, 2, 3 ... into its keys in turn,
**            one call for each, and now and then deletes a key and puts it
**            again.  A snapshot that has one of its writes has all earlier
**            ones.
** AGAIN      A snapshot that is read twice, with writes and compaction in
**            between, is the same.
*/
#include "store_help.h"

#include <pthread.h>

enum { DIM = 60, ACCOUNTS = 1000, WRITERS = 3, OWN = 200, START = 1000 };

static emb_store *store;
static _Atomic int stop;
static _Atomic uint64_t transfers, writes;

static void *transfer(void *arg) {
  uint64_t random = (uint64_t)(uintptr_t)arg;
  emb_session *s;
  emb_err err;
  CHECK_EQ_INT(emb_session_open(store, &s, &err), EMB_OK);
  while (!atomic_load(&stop)) {
    int64_t keys[8];
    float rows[8 * DIM];
    if (!OK(s, emb_begin(s)))
      break;
    for (int i = 0; i < 8; i++) {
      uint64_t a = test_random_from(&random) % ACCOUNTS;
      keys[i] = -1 - (int64_t)a;
    }
    for (int i = 0; i + 1 < 8; i += 2) {
      OK(s, emb_peek(s, keys + i, 2, rows, NULL, NULL));
      if (keys[i] == keys[i + 1])
        continue;
      for (int k = 0; k < DIM; k++) {
        rows[k] -= 1;
        rows[DIM + k] += 1;
      }
      OK(s, emb_txn_put(s, keys + i, 2, rows));
    }
    if (test_random_from(&random) % 8 == 0) {
      emb_rollback(s);
    } else {
      OK(s, emb_commit(s));
      atomic_fetch_add(&transfers, 1);
    }
  }
  emb_session_close(s);
  return NULL;
}

static int64_t own_key(int64_t writer, uint64_t number) {
  return writer * 1000000 + (int64_t)(number % OWN);
}

static void *count_up(void *arg) {
  int64_t writer = (int64_t)(intptr_t)arg;
  emb_session *s;
  emb_err err;
  float row[DIM];
  CHECK_EQ_INT(emb_session_open(store, &s, &err), EMB_OK);
  for (uint64_t number = 1; !atomic_load(&stop); number++) {
    int64_t key = own_key(writer, number);
    if (number % 7 == 0)
      OK(s, emb_delete(s, &key, 1, NULL));
    help_vector(row, DIM, key, (int32_t)number);
    if (!OK(s, emb_put(s, &key, 1, row, NULL)))
      break;
    atomic_fetch_add(&writes, 1);
  }
  emb_session_close(s);
  return NULL;
}

/* The numbers of a writer's keys in a snapshot: consecutive, except for one
** that may have been deleted and not put again yet. */
static void check_writer(emb_session *s, emb_snap *snap, int64_t writer) {
  int64_t keys[OWN];
  static float rows[OWN * DIM];
  uint8_t found[OWN];
  int32_t highest = 0, values[OWN];
  for (int i = 0; i < OWN; i++)
    keys[i] = own_key(writer, (uint64_t)i);
  OK(s, emb_snapshot_get(snap, keys, OWN, rows, found, NULL));
  for (int i = 0; i < OWN; i++) {
    values[i] = found[i] ? help_value(rows + i * DIM, DIM, keys[i]) : 0;
    CHECK(values[i] >= 0);
    highest = values[i] > highest ? values[i] : highest;
  }
  for (int32_t n = highest; n > highest - OWN && n > 0; n--) {
    int32_t value = values[n % OWN];
    int next = n == highest - OWN + 1; /* its place is taken by the next one */
    test_check(value == n || (next && value == 0), __FILE__, __LINE__,
               "writer %d came to %d, but instead of %d there is %d",
               (int)writer, highest, n, value);
  }
}

static uint64_t check_sum(emb_session *s, emb_snap *snap) {
  static float rows[64 * DIM];
  int64_t keys[64];
  uint64_t versions[64], hash = 0;
  size_t n;
  double sum = 0;
  int64_t accounts = 0;
  emb_snapshot_rewind(snap);
  do {
    if (!OK(s, emb_snapshot_scan(snap, 64, keys, rows, versions, &n)))
      return 0;
    for (size_t i = 0; i < n; i++) {
      hash += ((uint64_t)keys[i] * 31 + versions[i]) * 0x9e3779b97f4a7c15u;
      for (size_t k = 0; keys[i] < 0 && k < DIM; k++)
        sum += (double)rows[i * DIM + k];
      accounts += keys[i] < 0;
    }
  } while (n);
  CHECK_EQ_INT(accounts, ACCOUNTS);
  CHECK(sum == (double)START * ACCOUNTS * DIM);
  return hash;
}

TEST(writers_never_stop) {
  emb_config config = {.dim = DIM,
                       .flags = EMB_OPEN_CREATE,
                       .memory_bytes = 1,
                       .timeout_ms = 20000};
  emb_session *s;
  pthread_t threads[WRITERS + 1];
  unsigned rounds = help_amount(12);
  static float rows[ACCOUNTS * DIM];
  static int64_t keys[ACCOUNTS];
  if (!help_open(help_path("store"), &config, &store, &s))
    return;
  for (int i = 0; i < ACCOUNTS; i++) {
    keys[i] = -1 - i;
    for (int k = 0; k < DIM; k++)
      rows[i * DIM + k] = START;
  }
  OK(s, emb_put(s, keys, ACCOUNTS, rows, NULL));
  atomic_store(&stop, 0);
  pthread_create(&threads[0], NULL, transfer,
                 (void *)(uintptr_t)(test_random() | 1));
  for (intptr_t i = 1; i <= WRITERS; i++)
    pthread_create(&threads[i], NULL, count_up, (void *)i);
  uint64_t before[3] = {0};
  for (unsigned i = 0; i < rounds; i++) {
    char name[20];
    emb_snap *snap;
    snprintf(name, sizeof name, "s%u", i);
    if (!OK(s, emb_snapshot(s, name)))
      break;
    OK(s, emb_snapshot_open(s, name, &snap));
    before[i % 3] = check_sum(s, snap);
    for (int64_t w = 1; w <= WRITERS; w++)
      check_writer(s, snap, w);
    emb_snapshot_close(snap);
    if (i % 3 == 2)
      OK(s, emb_checkpoint(s));
    if (i < 2)
      continue;
    snprintf(name, sizeof name, "s%u", i - 2);
    OK(s, emb_snapshot_open(s, name, &snap));
    OK(s, emb_snapshot_drop(s, name));
    CHECK(check_sum(s, snap) == before[(i - 2) % 3]);
    emb_snapshot_close(snap);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i <= WRITERS; i++)
    pthread_join(threads[i], NULL);
  help_verify(s);
  help_close(store, s);
  test_count("snapshots beside threads that write", rounds);
  test_count("transfers beside snapshots", transfers);
  test_count("puts beside snapshots", writes);
}
