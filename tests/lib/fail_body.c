/* SPDX-License-Identifier: MIT
**
** fail_body.c -- the bodies of fail_body.h, and their table.
*/
#include "fail_body.h"

void fail_txn_all(struct fail *w, int32_t value) {
  fail_txn_write(w, 0, FAIL_TXN, value);
}

static void body_create(struct fail *w) {
  if (!fail_open(w))
    return;
  fail_put(w, 0, 70, 1, 3);
  fail_step(w, 2);
  if (fail_begin(w)) {
    fail_txn_all(w, 4);
    fail_prepare(w);
    if (w->number)
      fail_commit(w);
    else
      fail_rollback(w);
  }
  fail_checkpoint(w);
  fail_put(w, 5, 10, 2, 5);
  fail_read(w, FAIL_GET, 0, 70, 1);
}

/* Growth beyond memory, cold reads and writes, deletion, a checkpoint. */
static void body_write(struct fail *w) {
  if (!fail_open(w))
    return;
  fail_read(w, FAIL_GET, 3, 12, 90);
  fail_put(w, 0, 400, 1, 7);
  fail_step(w, 3);
  fail_rmw(w, 1, 15, 71);
  fail_put(w, 300, 400, 1, 9);
  fail_delete(w, 2, 10, 91);
  fail_step(w, 3);
  fail_checkpoint(w);
  fail_put(w, 850, 300, 1, 11);
  fail_read(w, FAIL_GET, 7, 12, 89);
  fail_step(w, 3);
}

static void body_transaction(struct fail *w) {
  if (!fail_open(w))
    return;
  if (fail_begin(w)) { /* rolled back after a prepare */
    fail_txn_all(w, 20);
    fail_prepare(w);
    fail_rollback(w);
  }
  fail_put(w, 10, 10, 3, 21);
  if (fail_begin(w)) { /* the engine decides */
    fail_txn_all(w, 22);
    fail_savepoint(w, 0);
    fail_txn_write(w, 3, 10, 0);
    fail_txn_write(w, 8, 10, 23);
    fail_rollback_to(w, 0);
    fail_read(w, FAIL_PEEK, FAIL_KEYS, FAIL_TXN, 1);
    fail_commit(w);
  }
  if (fail_begin(w)) { /* prepared, continued, prepared again */
    fail_txn_write(w, 0, 5, 24);
    fail_prepare(w);
    fail_txn_all(w, 25);
    if (w->mine[FAIL_TXN - 1] >> 25 & 1)
      fail_prepare(w);
    else
      w->number = 0; /* part of the keys must not be committed */
    if (w->number)
      fail_commit(w);
    else
      fail_rollback(w);
  }
  if (fail_begin(w)) { /* deletes all */
    fail_txn_all(w, 0);
    fail_prepare(w);
    if (w->number)
      fail_commit(w);
    else
      fail_rollback(w);
  }
  if (fail_begin(w)) { /* and rolled back without a prepare */
    fail_txn_all(w, 26);
    fail_rollback(w);
  }
}

/* Rewrites most of the table, so that compaction, checkpoints and a shorter
** file are due. */
static void body_space(struct fail *w) {
  if (!fail_open(w))
    return;
  for (int round = 0; round < 3; round++) {
    fail_put(w, round, 380, 3, 30 + round);
    fail_step(w, 40);
  }
  fail_delete(w, 0, 550, 2);
  fail_step(w, 40);
  fail_optimize(w);
  fail_read(w, FAIL_PEEK, 11, 10, 70);
}

static void body_ahead(struct fail *w) {
  if (!fail_open(w))
    return;
  emb_ahead ahead = {0};
  fail_fill(w, 0, 20, 51, 0);
  if (FAIL_TRY(w, emb_lookahead(w->s, w->keys, 20, EMB_AHEAD_BUFFER, &ahead)))
    (void)fail_did(w, emb_lookahead_wait(w->s, ahead.number), emb_errmsg(w->s),
                   "emb_lookahead_wait");
  fail_read(w, FAIL_GET, 0, 20, 51);
  fail_fill(w, 5, 20, 51, 0);
  if (FAIL_TRY(w, emb_lookahead(w->s, w->keys, 20, EMB_AHEAD_CACHE, &ahead)))
    (void)fail_did(w, emb_lookahead_wait(w->s, ahead.number), emb_errmsg(w->s),
                   "emb_lookahead_wait");
  fail_read(w, FAIL_GET, 5, 20, 51);
  fail_read(w, FAIL_PREFETCH, 7, 20, 51);
  fail_write_back(w, 9, 20, 51, 40);
  fail_write_back(w, 0, FAIL_KEYS, 1, 41);
  fail_read(w, FAIL_PREFETCH, 9, 20, 51);
}

/* Reads a scan to its end; all rows must be there and be right. */
static void scan(struct fail *w, int order, int64_t lo, int64_t hi) {
  emb_scan *scan;
  int came = 0, rc = EMB_OK;
  float *vectors = order == EMB_SCAN_KEYS ? NULL : w->vectors;
  if (!w->s || !FAIL_TRY(w, emb_scan_open(w->s, lo, hi, order, &scan)))
    return;
  for (size_t n = 1; rc == EMB_OK && n > 0;) {
    rc = emb_scan_next(scan, 200, w->keys, vectors, NULL, &n);
    if (rc && w->memory && !w->f.forever &&
        fail_did(w, rc, emb_errmsg(w->s), "emb_scan_next") == 0)
      rc = emb_scan_next(scan, 200, w->keys, vectors, NULL, &n);
    if (rc == EMB_OK && order != EMB_SCAN_KEYS) {
      memset(w->found, 1, n);
      fail_saw(w, (int)n);
    }
    came += rc == EMB_OK ? (int)n : 0;
  }
  if (fail_did(w, rc, emb_errmsg(w->s), "emb_scan_next"))
    FAIL_CHECK(w, came == (lo < 0 ? emb_count(w->s) : hi - lo + 1),
               "%d of the keys came", came);
  emb_scan_close(scan);
}

/* One query, which is compared in place, or several in a block. */
static void nearest(struct fail *w, size_t n) {
  enum { QUERIES = 5, K = 8 };
  static float queries[QUERIES * FAIL_DIM], vectors[QUERIES * K * FAIL_DIM];
  int64_t keys[QUERIES * K];
  uint64_t versions[QUERIES * K];
  double distances[QUERIES * K];
  size_t counts[QUERIES];
  if (w->s && FAIL_TRY(w, emb_nearest(w->s, queries, n, K, NULL,
                                      &(emb_neighbours){keys, distances, counts,
                                                        vectors, versions})))
    FAIL_CHECK(w, counts[0] == K && counts[n - 1] == K, "%d neighbours",
               (int)counts[0]);
}

/* From the index, from a list, and by a distribution that must find the
** highest key. */
static void samples(struct fail *w, size_t n, uint32_t distribution) {
  static float vectors[600 * FAIL_DIM];
  static int64_t keys[600];
  static double p[600];
  const emb_sample_how how = {.distribution = distribution,
                              .flags = EMB_SAMPLE_SEEDED};
  size_t count = 0;
  if (w->s &&
      FAIL_TRY(w, emb_sample(w->s, n, &how,
                             &(emb_samples){keys, vectors, p, NULL}, &count)))
    FAIL_CHECK(w, count == n, "%d rows came", (int)count);
}

static void count_problem(void *count, const char *line) {
  (void)line;
  ++*(int *)count;
}

static void body_scan(struct fail *w) {
  int problems = 0;
  emb_stat stats[128];
  if (!fail_open(w))
    return;
  scan(w, EMB_SCAN_ANY, INT64_MIN, INT64_MAX);
  fail_put(w, 0, 100, 1, 44); /* from here on it is the owner */
  scan(w, EMB_SCAN_ASC, 70, 84);
  scan(w, EMB_SCAN_DESC, 700, 714);
  scan(w, EMB_SCAN_KEYS, INT64_MIN, INT64_MAX);
  nearest(w, 1);
  nearest(w, 5);
  samples(w, 20, EMB_UNIFORM);
  samples(w, 600, EMB_UNIFORM);
  samples(w, 10, EMB_LOG_UNIFORM);
  if (w->s && FAIL_TRY(w, emb_verify(w->s, count_problem, &problems)))
    FAIL_CHECK(w, problems == 0 || w->f.error == ENOENT /* it is missing */,
               "%d problems", problems);
  if (w->store)
    FAIL_CHECK(w, emb_stats(w->store, stats, 128) > 20, "few metrics");
}

/* Reads a snapshot: it has as many rows as there were when it was taken. */
static void read_snapshot(struct fail *w, const char *name, int64_t count) {
  emb_snap *snap;
  size_t n = 1;
  int64_t came = 0;
  if (!w->s)
    return;
  int rc = emb_snapshot_open(w->s, name, &snap);
  if (rc == EMB_RANGE && w->f.fired && w->f.error == ENOENT) {
    w->refused = 1; /* without its file there is no snapshot */
    return;
  }
  if (!fail_did(w, rc, emb_errmsg(w->s), "emb_snapshot_open") &&
      (!w->memory || w->f.forever ||
       !FAIL_TRY(w, emb_snapshot_open(w->s, name, &snap))))
    return;
  rc = EMB_OK;
  while (rc == EMB_OK && n > 0) {
    rc = emb_snapshot_scan(snap, 200, w->keys, w->vectors, NULL, &n);
    came += rc == EMB_OK ? (int64_t)n : 0;
  }
  if (fail_did(w, rc, emb_errmsg(w->s), "emb_snapshot_scan"))
    FAIL_CHECK(w, came == count, "%d of the keys came", (int)came);
  fail_fill(w, 0, 30, 40, 0);
  (void)FAIL_TRY(
      w, emb_snapshot_get(snap, w->keys, 30, w->vectors, w->found, NULL));
  emb_snapshot_close(snap);
}

static void body_snapshot(struct fail *w) {
  emb_snapshot_info infos[4];
  size_t n = 0;
  if (!fail_open(w))
    return;
  fail_put(w, 0, 300, 1, 60);
  int64_t count = w->s ? emb_count(w->s) : 0;
  int taken = w->s && FAIL_TRY(w, emb_snapshot(w->s, "one"));
  fail_put(w, 0, 400, 1, 61);
  fail_step(w, 5);
  fail_checkpoint(w);
  if (taken)
    read_snapshot(w, "one", count);
  if (w->s && FAIL_TRY(w, emb_snapshot(w->s, "two")))
    (void)FAIL_TRY(w, emb_snapshot_drop(w->s, "two"));
  fail_close(w);
  if (!fail_open(w))
    return;
  if (taken)
    read_snapshot(w, "one", count);
  fail_put(w, 0, 5, 1, 62);
  if (taken && w->s && FAIL_TRY(w, emb_snapshots(w->s, infos, 4, &n)))
    FAIL_CHECK(w,
               (n >= 1 && !infos[0].damaged) ||
                   (w->f.fired && w->f.error == ENOENT),
               "the snapshot is lost");
  if (taken)
    read_snapshot(w, "one", count);
}

/* Reads a delta row by row: it has as many rows as were put and deleted. */
static void read_delta(struct fail *w, int puts, int deletions) {
  static uint8_t ops[200];
  emb_delta *delta;
  int rc = EMB_OK, refused = w->refused;
  if (!w->s || !FAIL_TRY(w, emb_delta_open(w->s, "reader", &delta)))
    return;
  for (size_t n = 1; rc == EMB_OK && n > 0;) {
    rc = emb_delta_next(
        delta, 200,
        &(emb_rows){.keys = w->keys, .ops = ops, .vectors = w->vectors}, &n);
    for (size_t i = 0; rc == EMB_OK && i < n; i++) {
      puts -= ops[i] == EMB_DELTA_PUT;
      deletions -= ops[i] != EMB_DELTA_PUT;
    }
  }
  int came = fail_did(w, rc, emb_errmsg(w->s), "emb_delta_next");
  emb_delta_close(delta);
  if (came && !refused)
    FAIL_CHECK(w, puts <= 0 && deletions <= 0, "%d puts, %d deletions missing",
               puts, deletions);
  if (came)
    (void)FAIL_TRY(w, emb_delta_ack(w->s, "reader", 0));
}

/* A delta changes nothing when it is applied to its own store. */
static void body_delta(struct fail *w) {
  char path[600], made[620];
  emb_delta_file about;
  (void)snprintf(path, sizeof path, "%s-delta", w->dir);
  (void)snprintf(made, sizeof made, "%s-new", path);
  (void)unlink(path);
  (void)unlink(made);
  if (!fail_open(w))
    return;
  fail_put(w, 0, 300, 1, 60);
  read_delta(w, 300, 0);
  fail_put(w, 0, 40, 1, 61);
  fail_delete(w, 50, 10, 1);
  read_delta(w, 40, 10);
  int wrote =
      w->s && FAIL_TRY(w, emb_delta_export(w->s, "file", path, NULL, &about));
  if (w->f.error == ENOSPC) {
    FAIL_CHECK(w, access(made, F_OK) != 0, "half a file is left");
    FAIL_CHECK(w, wrote || w->refused, "no reason");
  }
  if (wrote && w->s)
    (void)FAIL_TRY(w, emb_delta_apply(w->s, path, NULL, &about));
  fail_read(w, FAIL_GET, 0, 30, 40);
  fail_step(w, 5);
  fail_checkpoint(w);
  fail_close(w);
  if (!fail_open(w))
    return;
  if (wrote && w->s)
    (void)FAIL_TRY(w, emb_delta_apply(w->s, path, NULL, &about));
  fail_put(w, 3, 5, 1, 62);
  read_delta(w, 5, 0);
  if (w->s)
    (void)FAIL_TRY(w, emb_delta_begin(w->s, "reader", EMB_DELTA_NOW, 0));
  fail_read(w, FAIL_GET, 0, 30, 40);
}

/* More rows than the capacity, some of them old: they expire and are evicted,
** from memory and from disk, by the writer, by steps and on request.  In
** addition a key that is not admitted is counted. */
static void body_forget(struct fail *w) {
  uint8_t ops[100];
  uint64_t positions[100];
  size_t n;
  w->forgets = 1;
  if (!fail_open(w))
    return;
  fail_put(w, 0, 500, 2, 3);
  fail_count(w, 3);
  emb_session_time(w->s, 1000); /* long ago */
  fail_put(w, 1, 100, 4, 4);
  emb_session_time(w->s, 0);
  fail_step(w, 3);
  fail_put(w, 3, 280, 4, 5);
  (void)FAIL_TRY(w, emb_expire(w->s, NULL));
  fail_put(w, 1, 100, 4, 6);
  fail_put(w, 1000, 150, 1, 7);
  fail_step(w, 3);
  (void)FAIL_TRY(w, emb_evict(w->s, NULL));
  (void)FAIL_TRY(
      w, emb_evicted(
             w->s, 0, 100,
             &(emb_rows){.keys = w->keys, .ops = ops, .positions = positions},
             &n));
  fail_checkpoint(w);
  fail_count(w, 2);
  fail_put(w, 400, 150, 1, 8);
  fail_read(w, FAIL_GET, 7, 12, 89);
  fail_step(w, 3);
  fail_close(w);
  if (!fail_open(w))
    return;
  fail_put(w, 5, 5, 1, 9);
  if (emb_is_owner(w->store))
    fail_counts(w);
  fail_count(w, 1);
}

/* The budget becomes the requested one, or stays as it was. */
static void resize(struct fail *w, uint64_t mib) {
  if (!w->s)
    return;
  int64_t before = help_stat(w->store, "memory_bytes");
  int did = FAIL_TRY(w, emb_set_memory(w->s, mib << 20));
  int64_t after = help_stat(w->store, "memory_bytes");
  FAIL_CHECK(w,
             did ? after <= (int64_t)(mib << 20) &&
                       after > (int64_t)((mib - 1) << 20)
                 : after == before,
             "memory is %d now", (int)after);
}

/* More memory and less, while rows are in the log and in the cache. */
static void body_memory(struct fail *w) {
  if (!fail_open(w))
    return;
  resize(w, 9);
  fail_put(w, 0, 400, 1, 10);
  fail_read(w, FAIL_GET, 3, 40, 25);
  fail_step(w, 2);
  resize(w, 4);
  fail_read(w, FAIL_GET, 3, 40, 25);
  resize(w, 30);
  fail_put(w, 300, 400, 1, 11);
  fail_read(w, FAIL_GET, 0, 90, 11);
  if (fail_begin(w)) { /* with a transaction open */
    fail_txn_all(w, 12);
    resize(w, 5);
    fail_commit(w);
  }
  fail_rmw(w, 1, 15, 71);
  fail_checkpoint(w);
  resize(w, 12);
  fail_read(w, FAIL_GET, 7, 12, 89);
}

/* More than fits: the list of hot rows is written and read in again.  A
** failure there costs only the warmth: no call reports it except those that
** would do so without it. */
static void body_warm(struct fail *w) {
  if (!fail_open(w))
    return;
  for (int i = 0; i < 3; i++)
    fail_read(w, FAIL_GET, 3, 30, 20);
  fail_close(w);
  if (!fail_open(w))
    return;
  fail_step(w, 6);
  fail_read(w, FAIL_GET, 3, 12, 40);
  fail_put(w, 0, 5, 1, 46);
  fail_checkpoint(w);
  if (w->s)
    (void)FAIL_TRY(w, emb_warm(w->s));
  fail_read(w, FAIL_GET, 2, 30, 20);
  fail_put(w, 0, 20, 9, 47);
  fail_close(w);
  if (!fail_open(w))
    return;
  if (w->s)
    (void)FAIL_TRY(w, emb_warm(w->s));
  fail_read(w, FAIL_GET, 3, 30, 20);
}

/* From a clean close, and from a kill with a transaction in doubt. */
static void body_reopen(struct fail *w) {
  if (!fail_open(w))
    return;
  fail_read(w, FAIL_PEEK, 0, 8, 70);
  fail_put(w, 0, 5, 1, 46);
  fail_close(w);
  if (!fail_open(w))
    return;
  fail_read(w, FAIL_GET, FAIL_KEYS, FAIL_TXN, 1);
}

static void body_destroy(struct fail *w) {
  emb_err err = {0, ""};
  w->destroyed = 1;
  if (fail_did(w, emb_destroy(w->dir, &err), err.text, "emb_destroy"))
    FAIL_CHECK(w, access(w->dir, F_OK) != 0, "it is still there");
  if (fail_open(w) && FAIL_TRY(w, emb_refresh(w->s)) && emb_count(w->s) == 0)
    fail_is_empty(w);
}

static void body_replace(struct fail *w) {
  w->destroyed = 1;
  if (!fail_open(w))
    return;
  fail_is_empty(w);
  fail_put(w, 0, 50, 1, 48);
  fail_checkpoint(w);
}

static void body_temporary(struct fail *w) {
  (void)mkdir(w->dir, 0777); /* the parent of the private one */
  if (!fail_open(w))
    return;
  fail_put(w, 0, FAIL_KEYS, 1, 50);
  if (fail_begin(w)) {
    fail_txn_all(w, 51);
    fail_commit(w);
  }
  fail_put(w, 0, 380, 3, 52);
  fail_step(w, 10);
  fail_checkpoint(w);
  fail_read(w, FAIL_GET, 0, 12, 90);
}

const struct fail_body_case fail_cases[] = {
    {{"create", body_create, EMB_OPEN_STEP}, BASE_NONE},
    {{"write", body_write, EMB_OPEN_STEP}, BASE_CLEAN},
    {{"write bounded", body_write, EMB_OPEN_STEP | EMB_OPEN_BOUNDED},
     BASE_CLEAN},
    {{"transaction", body_transaction, EMB_OPEN_STEP}, BASE_CLEAN},
    {{"space", body_space, EMB_OPEN_STEP}, BASE_CLEAN},
    {{"memory", body_memory, EMB_OPEN_STEP}, BASE_CLEAN},
    {{"ahead", body_ahead, EMB_OPEN_STEP}, BASE_CLEAN},
    {{"ahead bounded", body_ahead, EMB_OPEN_STEP | EMB_OPEN_BOUNDED},
     BASE_CLEAN},
    {{"scan", body_scan, EMB_OPEN_STEP}, BASE_CLEAN},
    {{"snapshot", body_snapshot, EMB_OPEN_STEP}, BASE_CLEAN},
    {{"delta", body_delta, EMB_OPEN_STEP}, BASE_CLEAN},
    {{"forget", body_forget, EMB_OPEN_STEP}, BASE_NONE},
    {{"warm", body_warm, EMB_OPEN_STEP}, BASE_CLEAN},
    {{"reopen", body_reopen, EMB_OPEN_STEP}, BASE_CLEAN},
    {{"reopen killed", body_reopen, EMB_OPEN_STEP}, BASE_KILLED},
    {{"reopen in doubt", body_reopen, EMB_OPEN_STEP}, BASE_DOUBT},
    {{"destroy", body_destroy, EMB_OPEN_STEP}, BASE_CLEAN},
    {{"replace", body_replace, EMB_OPEN_STEP | EMB_OPEN_EXCLUSIVE}, BASE_CLEAN},
    {{"temporary", body_temporary, EMB_OPEN_STEP | EMB_OPEN_TEMPORARY},
     BASE_NONE},
};

const int fail_case_count = sizeof fail_cases / sizeof fail_cases[0];
