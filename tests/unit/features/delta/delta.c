/* SPDX-License-Identifier: MIT
**
** delta.c -- deltas: single cases that random work (delta_model.c) seldom or
** never reaches.
*/
#include "store_help.h"

#include "files.h"

enum { DIM = 256, ROWS = 64 };

struct table {
  char dir[512];
  emb_config config;
  emb_store *store;
  emb_session *s;
};

static int open_again(struct table *t) {
  return help_open(t->dir, &t->config, &t->store, &t->s);
}

static int open_table(struct table *t) {
  (void)snprintf(t->dir, sizeof t->dir, "%s/store", test_dir());
  t->config.dim = DIM;
  t->config.flags = EMB_OPEN_CREATE | EMB_OPEN_STEP;
  t->config.memory_bytes = 1;
  return open_again(t);
}

/* Rows of the consumer's next delta; ops[key] for small keys. */
static size_t read_all(struct table *t, const char *name, uint8_t ops[ROWS],
                       uint64_t *from) {
  int64_t keys[32];
  uint8_t some[32];
  uint64_t since = 0;
  size_t n = 1, rows = 0;
  emb_delta *delta;
  memset(ops, 0, ROWS);
  if (!OK(t->s, emb_delta_open(t->s, name, &delta)))
    return 0;
  emb_delta_range(delta, from != NULL ? from : &since, NULL);
  while (n > 0 &&
         OK(t->s, emb_delta_next(delta, 32,
                                 &(emb_rows){.keys = keys, .ops = some}, &n))) {
    for (size_t i = 0; i < n; i++)
      if (keys[i] >= 0 && keys[i] < ROWS)
        ops[keys[i]] = some[i];
    rows += n;
  }
  emb_delta_close(delta);
  return rows;
}

/* The first delta of an empty table counts: after it the consumer is at a mark,
** and deltas have deletions. */
TEST(first_of_an_empty_table) {
  struct table t = {0};
  uint8_t ops[ROWS];
  uint64_t from;
  if (!open_table(&t))
    return;
  CHECK_EQ_INT(read_all(&t, "a", ops, &from), 0);
  CHECK_EQ_INT(from, 0);
  OK(t.s, emb_delta_ack(t.s, "a", 0));
  help_put_rows(t.s, 1, 1, 2, 1);
  help_delete_rows(t.s, 1, 1);
  CHECK_EQ_INT(read_all(&t, "a", ops, &from), 2);
  CHECK(from > 0);
  CHECK_EQ_INT(ops[1], EMB_DELTA_DELETE);
  CHECK_EQ_INT(ops[2], EMB_DELTA_PUT);
  help_close(t.store, t.s);
}

/* The first delta of a table with rows has all of them, wherever they are: in
** memory, on disk, in a separate extent after a restart. */
TEST(first_is_the_whole_table) {
  struct table t = {0};
  uint8_t ops[ROWS];
  uint64_t from;
  if (!open_table(&t))
    return;
  help_put_rows(t.s, 0, 1, 3000, 1);
  CHECK_EQ_INT(read_all(&t, "a", ops, &from), 3000);
  help_close(t.store, t.s);
  if (!open_again(&t))
    return;
  CHECK_EQ_INT(read_all(&t, "a", ops, &from), 3000);
  CHECK_EQ_INT(read_all(&t, "b", ops, &from), 3000);
  help_close(t.store, t.s);
}

/* The store gives up extents that a consumer needs while it reads: the read
** fails, and the consumer cannot acknowledge rows it did not get. */
TEST(lost_while_reading) {
  struct table t = {0};
  emb_session *other;
  emb_consumer about;
  emb_delta *delta;
  emb_err err;
  int64_t keys[8];
  uint8_t ops[ROWS];
  size_t n;
  if (!open_table(&t) ||
      !CHECK_EQ_INT(emb_session_open(t.store, &other, &err), EMB_OK))
    return;
  help_put_rows(t.s, 0, 1, 3000, 1);
  OK(t.s, emb_delta_begin(t.s, "a", EMB_DELTA_NOW, 400000));
  help_delete_rows(t.s, 0, 600);
  OK(t.s, emb_delta_open(t.s, "a", &delta));
  OK(t.s, emb_delta_next(delta, 8, &(emb_rows){.keys = keys, .ops = ops}, &n));
  CHECK_EQ_INT(n, 8);
  struct table too = t; /* another session of the same store */
  too.s = other;
  int state = EMB_CONSUMER_GOOD;
  for (int i = 0; i < 40 && state == EMB_CONSUMER_GOOD; i++) {
    help_put_rows(too.s, 1000, 1, 1000, i);
    help_delete_rows(too.s, 1000, 500);
    OK(other, emb_checkpoint(other));
    size_t count;
    OK(other, emb_delta_consumers(other, &about, 1, &count));
    state = about.state;
  }
  CHECK_EQ_INT(state, EMB_CONSUMER_LOST);
  int rc = EMB_OK;
  for (int i = 0; i < 1000 && rc == EMB_OK; i++) {
    rc = emb_delta_next(delta, 8, &(emb_rows){.keys = keys, .ops = ops}, &n);
    CHECK(rc != EMB_OK || n > 0); /* the delta never ends */
    if (n == 0)
      break;
  }
  CHECK_EQ_INT(rc, EMB_GAP);
  CHECK(strstr(emb_errmsg(t.s), "too far behind") != NULL);
  GIVES(t.s, EMB_GAP,
        emb_delta_next(delta, 8, &(emb_rows){.keys = keys, .ops = ops}, &n));
  GIVES(t.s, EMB_GAP, emb_delta_ack(t.s, "a", 0));
  emb_delta_close(delta);
  GIVES(t.s, EMB_GAP, emb_delta_open(t.s, "a", &delta));
  emb_session_close(other);
  help_close(t.store, t.s);
}

/* A crash takes back versions that were given out; later writes must still come
** after the mark. */
TEST(versions_after_a_crash) {
  struct table t = {0};
  char copy[512];
  uint8_t ops[ROWS];
  if (!open_table(&t))
    return;
  help_put_rows(t.s, 0, 1, 10, 1);
  OK(t.s, emb_checkpoint(t.s));
  /* Many versions; the log keeps none of them. */
  int64_t key = 5;
  uint64_t version;
  float vector[DIM];
  help_vector(vector, DIM, key, 7);
  OK(t.s, emb_begin(t.s));
  for (int i = 0; i < 500; i++)
    OK(t.s, emb_txn_put(t.s, &key, 1, vector));
  emb_rollback(t.s);
  help_delete_rows(t.s, 5, 1);
  read_all(&t, "a", ops, NULL);
  OK(t.s, emb_delta_ack(t.s, "a", 0));
  (void)snprintf(copy, sizeof copy, "%s/copy", test_dir());
  CHECK(files_copy_dir(copy, t.dir));
  help_close(t.store, t.s);
  memcpy(t.dir, copy, sizeof copy);
  if (!open_again(&t))
    return;
  help_put_rows(t.s, 3, 1, 1, 2);
  key = 3;
  OK(t.s, emb_get(t.s, &key, 1, vector, NULL, &version));
  CHECK(version > 500);
  CHECK_EQ_INT(read_all(&t, "a", ops, NULL), 1);
  CHECK_EQ_INT(ops[3], EMB_DELTA_PUT);
  help_close(t.store, t.s);
}

/* A transaction that is open at the mark is in the next delta. */
TEST(open_transaction) {
  struct table t = {0};
  emb_session *other;
  uint8_t ops[ROWS];
  float vector[DIM];
  int64_t key = 7;
  emb_err err;
  if (!open_table(&t) ||
      !CHECK_EQ_INT(emb_session_open(t.store, &other, &err), EMB_OK))
    return;
  help_put_rows(t.s, 0, 1, 10, 1);
  OK(t.s, emb_delta_begin(t.s, "a", EMB_DELTA_NOW, 0));
  OK(other, emb_begin(other));
  help_vector(vector, DIM, key, 2);
  OK(other, emb_txn_put(other, &key, 1, vector));
  key = 8;
  OK(other, emb_txn_delete(other, &key, 1, NULL));
  help_put_rows(t.s, 2, 1, 1, 3);
  CHECK_EQ_INT(read_all(&t, "a", ops, NULL), 1);
  OK(t.s, emb_delta_ack(t.s, "a", 0));
  OK(other, emb_commit(other));
  read_all(&t, "a", ops, NULL);
  CHECK_EQ_INT(ops[7], EMB_DELTA_PUT);
  CHECK_EQ_INT(ops[8], EMB_DELTA_DELETE);
  emb_session_close(other);
  help_close(t.store, t.s);
}

/* The cost of a delta depends on the changes, not on the size of the table. */
TEST(reads_what_changed) {
  struct table t = {0};
  uint8_t ops[ROWS];
  if (!open_table(&t))
    return;
  help_put_rows(t.s, 0, 1, 20000, 1);
  OK(t.s, emb_delta_begin(t.s, "a", EMB_DELTA_NOW, 0));
  help_put_rows(t.s, 0, 1, 200, 2);
  int64_t before = help_stat(t.store, "read_bytes");
  CHECK_EQ_INT(read_all(&t, "a", ops, NULL), 200);
  CHECK(help_stat(t.store, "read_bytes") - before <= 4 << 18);
  CHECK_EQ_INT(read_all(&t, "b", ops, NULL), 20000);
  CHECK(help_stat(t.store, "read_bytes") - before > 10 << 20);
  help_close(t.store, t.s);
}

/* ---- rows that go by themselves ------------------------------------------ */

/* A table that removes its oldest rows, and what its consumer's deltas must
** say. */
struct forgetful {
  struct table t;
  uint8_t op; /* EMB_DELTA_EVICT or EMB_DELTA_EXPIRE */
  uint32_t time;
  uint8_t there[ROWS], want[ROWS];
};

static int open_forgetful(struct forgetful *f, uint8_t op) {
  memset(f, 0, sizeof *f);
  f->op = op;
  f->t.config.track = EMB_TRACK_DATA;
  if (op == EMB_DELTA_EVICT)
    f->t.config.capacity = 24;
  else
    f->t.config.ttl = "1000s";
  return open_table(&f->t);
}

/* Writes rows, and evicts or expires others.  Returns how many. */
static int forget_round(struct forgetful *f, int64_t from, size_t n) {
  emb_session *s = f->t.s;
  int64_t keys[ROWS];
  uint8_t found[ROWS];
  int gone = 0;
  f->time += 600;
  emb_session_time(s, f->time);
  help_put_rows(f->t.s, from, 1, (int64_t)n, (int32_t)f->time);
  memset(f->there + from, 1, n);
  memset(f->want + from, EMB_DELTA_PUT, n);
  OK(s, f->op == EMB_DELTA_EVICT ? emb_evict(s, NULL) : emb_expire(s, NULL));
  for (int i = 0; i < ROWS; i++)
    keys[i] = i;
  OK(s, emb_exists(s, keys, ROWS, found));
  for (int i = 0; i < ROWS; i++)
    if (f->there[i] && !found[i]) {
      f->there[i] = 0;
      f->want[i] = f->op;
      gone++;
    }
  return gone;
}

/* The next delta has each expected key once, with its op, and no other key. */
static void shows(struct forgetful *f, const char *when) {
  uint8_t ops[ROWS];
  size_t rows = read_all(&f->t, "a", ops, NULL), wanted = 0;
  for (int i = 0; i < ROWS; i++) {
    wanted += f->want[i] != 0;
    (void)test_check(ops[i] == f->want[i], __FILE__, __LINE__,
                     "%s: row %d: op %d, not %d", when, i, ops[i], f->want[i]);
  }
  (void)test_check(rows == wanted, __FILE__, __LINE__, "%s: %zu rows, not %zu",
                   when, rows, wanted);
}

static void says_why(uint8_t op) {
  struct forgetful f;
  uint8_t ops[ROWS];
  char copy[512];
  if (!open_forgetful(&f, op))
    return;
  forget_round(&f, 0, 12);
  forget_round(&f, 12, 12);
  OK(f.t.s, emb_delta_begin(f.t.s, "a", EMB_DELTA_NOW, 0));
  memset(f.want, 0, sizeof f.want);
  CHECK(forget_round(&f, 24, 8) > 0);
  shows(&f, "gone");
  CHECK(f.want[0] == op);
  forget_round(&f, 0, 4);
  CHECK(f.want[0] == EMB_DELTA_PUT);
  shows(&f, "put again");
  /* After a complete delta, before it is acknowledged. */
  memset(f.want, 0, sizeof f.want);
  CHECK(forget_round(&f, 32, 8) > 0);
  OK(f.t.s, emb_delta_ack(f.t.s, "a", 0));
  shows(&f, "between two deltas");
  OK(f.t.s, emb_checkpoint(f.t.s));
  OK(f.t.s, emb_optimize(f.t.s));
  shows(&f, "compacted");
  (void)snprintf(copy, sizeof copy, "%s/copy", test_dir());
  CHECK(files_copy_dir(copy, f.t.dir));
  help_close(f.t.store, f.t.s);
  if (!open_again(&f.t))
    return;
  shows(&f, "closed and opened");
  help_close(f.t.store, f.t.s);
  memcpy(f.t.dir, copy, sizeof copy);
  if (!open_again(&f.t))
    return;
  shows(&f, "after a crash");
  /* A key that was removed twice comes once, with the last reason. */
  int64_t key = 0;
  while (key < ROWS - 1 && f.want[key] != op)
    key++;
  size_t rows = read_all(&f.t, "a", ops, NULL);
  for (int times = 0; times < 3; times++) {
    help_put_rows(f.t.s, key, 1, 1, 1);
    help_delete_rows(f.t.s, key, 1);
    CHECK_EQ_INT(read_all(&f.t, "a", ops, NULL), rows);
    CHECK_EQ_INT(ops[key], EMB_DELTA_DELETE);
  }
  help_verify(f.t.s);
  help_close(f.t.store, f.t.s);
}

TEST(evicted_rows) { says_why(EMB_DELTA_EVICT); }
TEST(expired_rows) { says_why(EMB_DELTA_EXPIRE); }

/* ---- a consumer's file that rots ----------------------------------------- */

static int find_consumer(const char *dir, char *path, size_t size) {
  DIR *d = opendir(dir);
  int found = 0;
  for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
    if (strncmp(e->d_name, "consumer-", 9) == 0) {
      (void)snprintf(path, size, "%s/%s", dir, e->d_name);
      found++;
    }
  if (d != NULL)
    (void)closedir(d);
  return found == 1;
}

/* Whichever byte rots, the consumer is damaged, and nothing else. */
TEST(rotten_consumer) {
  struct table t = {0};
  char path[800];
  emb_delta *delta;
  emb_consumer about;
  uint8_t ops[ROWS];
  size_t n, tried = 0;
  if (!open_table(&t))
    return;
  help_put_rows(t.s, 0, 1, 10, 1);
  read_all(&t, "a", ops, NULL);
  OK(t.s, emb_delta_ack(t.s, "a", 0));
  help_close(t.store, t.s);
  if (!CHECK(find_consumer(t.dir, path, sizeof path)))
    return;
  for (long at = 0; at < 4096; at += at < 120 ? 1 : 41, tried++) {
    int problems = 0;
    files_flip(path, at, 1 << at % 8);
    if (!open_again(&t))
      return;
    (void)emb_verify(t.s, help_report, &problems);
    help_put_rows(t.s, 1, 1, 1, 2); /* this process becomes the owner */
    int rc = emb_delta_open(t.s, "a", &delta);
    OK(t.s, emb_delta_consumers(t.s, &about, 1, &n));
    (void)test_check(rc == EMB_CORRUPT && problems == 1 && n == 1 &&
                         about.state == EMB_CONSUMER_DAMAGED,
                     __FILE__, __LINE__, "byte %ld: %d, %d problems, state %d",
                     at, rc, problems, about.state);
    help_close(t.store, t.s);
    files_flip(path, at, 1 << at % 8);
  }
  /* The damaged consumer can begin again. */
  files_flip(path, 300, 1);
  if (!open_again(&t))
    return;
  OK(t.s, emb_delta_begin(t.s, "a", EMB_DELTA_ALL, 0));
  CHECK_EQ_INT(read_all(&t, "a", ops, NULL), 10);
  help_verify(t.s);
  help_close(t.store, t.s);
  test_count("damaged bytes of a consumer", tried);
}

/* A rolled-back deletion follows the row in the log.  The row is deleted
** after it was delivered, and the next delta has the deletion. */
TEST(deleted_behind_a_rolled_back_deletion) {
  struct table t = {0};
  emb_delta *delta;
  int64_t key = 1;
  uint64_t number;
  int forgotten = 0;
  uint8_t op;
  float row[DIM];
  size_t n = 1, puts = 0, deletions = 0;
  if (!open_table(&t))
    return;
  help_put_rows(t.s, 1, 1, 1, 1);
  CHECK(OK(t.s, emb_delta_begin(t.s, "c", EMB_DELTA_NOW, 0)));
  help_put_rows(t.s, 1, 1, 1, 2);
  CHECK(OK(t.s, emb_begin(t.s)) &&
        OK(t.s, emb_txn_delete(t.s, &key, 1, NULL)) &&
        OK(t.s, emb_prepare(t.s, &number)));
  emb_rollback(t.s);
  for (int round = 0; round < 2; round++) {
    puts = deletions = 0;
    n = 1;
    if (!OK(t.s, emb_delta_open(t.s, "c", &delta)))
      break;
    while (OK(t.s,
              emb_delta_next(
                  delta, 1,
                  &(emb_rows){.keys = &key, .ops = &op, .vectors = row}, &n)) &&
           n) {
      if (key != 1)
        continue;
      puts += op == EMB_DELTA_PUT;
      deletions += op == EMB_DELTA_DELETE;
      if (op == EMB_DELTA_PUT && !forgotten++)
        help_delete_rows(t.s, 1, 1);
    }
    CHECK_EQ_INT(puts, round == 0);
    CHECK_EQ_INT(deletions, round == 1);
    emb_delta_close(delta);
    CHECK(OK(t.s, emb_delta_ack(t.s, "c", 0)));
  }
  help_close(t.store, t.s);
}
