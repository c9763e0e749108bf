/* SPDX-License-Identifier: MIT
**
** delta_file.c -- files of deltas: one store exports them, another applies
** them.
**
** A copy that takes a file must never differ from the source as it was when the
** file was written.  So both are read completely after each file that the copy
** takes; after each file that it refuses, the copy must be unchanged.
*/
#include "store_help.h"

#include <fcntl.h>

#include "engine/storage/consumer/position.h"
#include "engine/storage/pack/pack.h"
#include "engine/math/vec/quant.h"
#include "quant_help.h"
#include "files.h"

enum { DIM = 64, MANY = 20000, BATCH = 256 };

struct side {
  char dir[512];
  emb_config config;
  emb_store *store;
  emb_session *s;
};

static int open_again(struct side *side) {
  return help_open(side->dir, &side->config, &side->store, &side->s);
}

static int open_side(struct side *side, const char *name) {
  (void)snprintf(side->dir, sizeof side->dir, "%s/%s", test_dir(), name);
  side->config.flags |= EMB_OPEN_CREATE | EMB_OPEN_STEP;
  if (side->config.dim == 0 && side->config.segment_count == 0)
    side->config.dim = DIM;
  return open_again(side);
}

static void close_side(struct side *side) {
  if (side->s != NULL)
    (void)help_close(side->store, side->s);
  side->s = NULL;
}

/* ---- work ---------------------------------------------------------------- */

static int export(struct side *side, const char *consumer, const char *path,
                  emb_delta_file *about) {
  return OK(side->s, emb_delta_export(side->s, consumer, path, NULL, about));
}

static int apply(struct side *side, const char *path, int applied) {
  emb_delta_file about;
  return OK(side->s, emb_delta_apply(side->s, path, NULL, &about)) &&
         CHECK_EQ_INT(about.applied, applied);
}

static int ack(struct side *side, const char *consumer, uint64_t upto) {
  return OK(side->s, emb_delta_ack(side->s, consumer, upto));
}

/* The row matches, except for the loss of this encoding. */
static int is_row(const float *row, const float *got, enum quant_type type) {
  float low = row[0], high = row[0];
  for (int i = 1; i < DIM; i++) {
    low = row[i] < low ? row[i] : low;
    high = row[i] > high ? row[i] : high;
  }
  double error = type ? quant_error_max(type, low, high) : 0;
  for (int i = 0; i < DIM; i++) {
    double gap = (double)row[i] - (double)got[i];
    if (gap > error || gap < -error)
      return 0;
  }
  return 1;
}

/* Both sides have the same rows, except for the loss of the encoding. */
static int same_rows(struct side *a, struct side *b, enum quant_type type) {
  static float left[BATCH * DIM], right[BATCH * DIM];
  int64_t keys[BATCH];
  uint8_t found[BATCH];
  emb_scan *scan;
  size_t n, rows = 0, wrong = 0;
  if (!OK(a->s, emb_scan_open(a->s, INT64_MIN, INT64_MAX, EMB_SCAN_ANY, &scan)))
    return 0;
  while (OK(a->s, emb_scan_next(scan, BATCH, keys, left, NULL, &n)) && n > 0) {
    rows += n;
    if (!OK(b->s, emb_peek(b->s, keys, n, right, found, NULL)))
      break;
    for (size_t i = 0; i < n; i++) {
      wrong += !found[i] || !is_row(left + i * DIM, right + i * DIM, type);
    }
  }
  emb_scan_close(scan);
  return CHECK_EQ_INT(wrong, 0) && CHECK_EQ_INT(rows, emb_count(b->s)) &&
         CHECK_EQ_INT(emb_count(a->s), emb_count(b->s));
}

static int same(struct side *a, struct side *b) {
  return same_rows(a, b, QUANT_F32);
}

/* Refused with this code and text, and nothing changes. */
static int refuses(struct side *side, const char *path, int code,
                   const char *text) {
  emb_delta_place before, after;
  int64_t count = emb_count(side->s);
  (void)emb_delta_position(side->s, &before);
  int good = GIVES(side->s, code, emb_delta_apply(side->s, path, NULL, NULL)) &&
             CHECK(strstr(emb_errmsg(side->s), text) != NULL) &&
             CHECK_EQ_INT(emb_count(side->s), count);
  if (!good)
    printf("it says: %s\n", emb_errmsg(side->s));
  return good && OK(side->s, emb_delta_position(side->s, &after)) &&
         CHECK(memcmp(&before, &after, sizeof before) == 0);
}

/* ---- chains -------------------------------------------------------------- */

TEST(chain) {
  struct side a = {0}, b = {0};
  emb_delta_file d[5];
  const char *paths[5];
  if (!open_side(&a, "a") || !open_side(&b, "b"))
    return;
  help_put_rows(b.s, 9000, 1, 10,
                5); /* not in the source: the first delta removes them */
  help_put_rows(a.s, 0, 1, 500, 1);
  for (int i = 0; i < 5; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "d%d", i);
    paths[i] = help_path(name);
    if (!export(&a, "copy", paths[i], &d[i]))
      return;
    CHECK_EQ_INT(d[i].number, i + 1);
    CHECK_EQ_INT(d[i].from, i ? d[i - 1].to : 0);
    if (i != 3) {
      apply(&b, paths[i], 1);
      same(&a, &b);
    }
    ack(&a, "copy", d[i].to);
    if (i == 2) { /* skip the fourth */
      help_put_rows(a.s, 450, 1, 100, 7);
      help_delete_rows(a.s, 0, 10);
      continue;
    }
    if (i == 3) {
      help_put_rows(a.s, 100, 1, 3, 9);
      if (!export(&a, "copy", help_path("d4"), &d[4]))
        return;
      refuses(&b, help_path("d4"), EMB_GAP, "delta 4, from mark");
      apply(&b, paths[3], 1);
      continue;
    }
    if (i == 4)
      break;
    help_put_rows(a.s, 100 + 50 * i, 1, 200, 2 + i);
    help_delete_rows(a.s, 20 + 5 * i, 5);
    emb_step(a.store, &(int){0});
  }
  CHECK_EQ_INT(d[0].puts, 500);
  CHECK_EQ_INT(d[1].puts, 200);
  CHECK_EQ_INT(d[1].deletions, 5);
  CHECK_EQ_INT(d[4].puts, 3);
  /* All files again, in reverse order, after a restart: no effect. */
  close_side(&b);
  if (!open_again(&b))
    return;
  for (int i = 4; i >= 0; i--)
    apply(&b, paths[i], 0);
  same(&a, &b);
  help_verify(b.s);
  close_side(&a);
  close_side(&b);
}

/* A delta that was not acknowledged is exported again with the same number: the
** copy may have the older form or the newer. */
TEST(exported_again) {
  struct side a = {0}, b = {0};
  emb_delta_file one, old, new, next;
  if (!open_side(&a, "a") || !open_side(&b, "b"))
    return;
  help_put_rows(a.s, 0, 1, 100, 1);
  export(&a, "copy", help_path("d1"), &one);
  apply(&b, help_path("d1"), 1);
  ack(&a, "copy", one.to);
  help_put_rows(a.s, 50, 1, 100, 2);
  export(&a, "copy", help_path("old"), &old);
  help_delete_rows(a.s, 60, 5);
  help_put_rows(a.s, 10, 1, 5, 3);
  export(&a, "copy", help_path("new"), &new);
  CHECK_EQ_INT(old.number, 2);
  CHECK_EQ_INT(new.number, 2);
  CHECK(old.to < new.to &&old.from == new.from);
  apply(&b, help_path("old"), 1);
  help_put_rows(a.s, 200, 1, 10, 4);
  ack(&a, "copy", 0);
  export(&a, "copy", help_path("next"), &next);
  CHECK_EQ_INT(next.number, 3);
  /* The copy has a delta 2, but not all of the acknowledged one. */
  refuses(&b, help_path("next"), EMB_GAP, "delta 2, from mark");
  apply(&b, help_path("new"), 1);
  apply(&b, help_path("old"), 0);
  apply(&b, help_path("next"), 1);
  same(&a, &b);
  close_side(&a);
  close_side(&b);
}

/* An acknowledged delta must be in a file: an acknowledgement without a mark
** does not refer to a delta that could not be written. */
TEST(failed_export_is_not_sent) {
  struct side a = {0}, b = {0};
  emb_delta_file one, two;
  if (!open_side(&a, "a") || !open_side(&b, "b"))
    return;
  help_put_rows(a.s, 0, 1, 100, 1);
  export(&a, "copy", help_path("d1"), &one);
  help_put_rows(a.s, 50, 1, 100, 2);
  GIVES(a.s, EMB_CANTOPEN,
        emb_delta_export(a.s, "copy", help_path("no/dir"), NULL, &two));
  int fd = open(help_path("mine"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  CHECK(fd >= 0 && write(fd, "precious", 8) == 8 && close(fd) == 0);
  GIVES(a.s, EMB_CANTOPEN,
        emb_delta_export(a.s, "copy", help_path("mine"), NULL, &two));
  ack(&a, "copy", 0);
  apply(&b, help_path("d1"), 1);
  export(&a, "copy", help_path("d2"), &two);
  CHECK_EQ_INT(two.from, one.to);
  apply(&b, help_path("d2"), 1);
  same(&a, &b);
  close_side(&a);
  close_side(&b);
}

/* A copy of a copy; and the first delta of a consumer that began again. */
TEST(copy_of_a_copy) {
  struct side a = {0}, b = {0}, c = {0};
  emb_delta_file about;
  if (!open_side(&a, "a") || !open_side(&b, "b") || !open_side(&c, "c"))
    return;
  for (int i = 0; i < 4; i++) {
    help_put_rows(a.s, i * 100, 1, 300, i);
    help_delete_rows(a.s, i * 50, 20);
    if (i == 3)
      OK(a.s, emb_delta_begin(a.s, "b", EMB_DELTA_ALL, 0));
    export(&a, "b", help_path("ab"), &about);
    CHECK_EQ_INT(about.number, i == 3 ? 1 : i + 1);
    apply(&b, help_path("ab"), 1);
    ack(&a, "b", about.to);
    export(&b, "c", help_path("bc"), &about);
    CHECK_EQ_INT(about.number, i + 1);
    apply(&c, help_path("bc"), 1);
    ack(&b, "c", about.to);
    same(&a, &c);
  }
  OK(b.s, emb_snapshot(b.s, "kept"));
  help_verify(b.s);
  close_side(&a);
  close_side(&b);
  close_side(&c);
}

/* Rows that were evicted or have expired are deleted in the copy, which has
** neither capacity nor ttl. */
static void forgotten(const char *ttl, uint64_t capacity) {
  struct side a = {
      .config = {.track = EMB_TRACK_DATA, .ttl = ttl, .capacity = capacity}};
  struct side b = {0};
  emb_delta *delta;
  emb_delta_file about;
  int64_t keys[BATCH];
  uint8_t ops[BATCH];
  uint64_t deleted = 0;
  size_t n = 1;
  if (!open_side(&a, "a") || !open_side(&b, "b"))
    return;
  emb_session_time(a.s, 1000);
  help_put_rows(a.s, 0, 1, 350, 1);
  export(&a, "copy", help_path("d1"), &about);
  apply(&b, help_path("d1"), 1);
  ack(&a, "copy", 0);
  OK(b.s, emb_delta_begin(b.s, "next", EMB_DELTA_NOW, 0));
  emb_session_time(a.s, 2000);
  help_put_rows(a.s, 350, 1, 100, 1);
  OK(a.s, ttl ? emb_expire(a.s, NULL) : emb_evict(a.s, NULL));
  uint64_t gone = 450 - (uint64_t)emb_count(a.s);
  CHECK(gone > 50);
  help_put_rows(a.s, 0, 1, 10, 2); /* put again */
  close_side(&a);
  if (!open_again(&a))
    return;
  export(&a, "copy", help_path("d2"), &about);
  CHECK_EQ_INT(about.puts, 110);
  CHECK_EQ_INT(about.deletions, gone - 10);
  apply(&b, help_path("d2"), 1);
  same(&a, &b);
  if (!OK(b.s, emb_delta_open(b.s, "next", &delta)))
    return;
  while (n > 0 &&
         OK(b.s, emb_delta_next(delta, BATCH,
                                &(emb_rows){.keys = keys, .ops = ops}, &n)))
    for (size_t i = 0; i < n; i++) {
      CHECK(ops[i] == EMB_DELTA_PUT || ops[i] == EMB_DELTA_DELETE);
      deleted += ops[i] == EMB_DELTA_DELETE;
    }
  emb_delta_close(delta);
  CHECK_EQ_INT(deleted, about.deletions);
  help_verify(b.s);
  close_side(&a);
  close_side(&b);
}

TEST(rows_that_expired) { forgotten("1000s", 0); }
TEST(rows_that_were_evicted) { forgotten(NULL, 400); }

/* A consumer that is too far behind, or a new copy of a large table, takes a
** snapshot and from then on deltas. */
TEST(after_a_snapshot) {
  struct side a = {0}, b = {0};
  emb_delta_file about;
  if (!open_side(&a, "a") || !open_side(&b, "b"))
    return;
  help_put_rows(a.s, 0, 1, 500, 1);
  OK(a.s, emb_delta_begin(a.s, "copy", EMB_DELTA_NOW, 0));
  help_put_rows(a.s, 100, 1, 50, 2);
  export(&a, "copy", help_path("old"), &about);
  OK(a.s, emb_snapshot(a.s, "one"));
  help_put_rows(a.s, 120, 1, 50, 3);
  help_delete_rows(a.s, 0, 10);
  OK(a.s, emb_snapshot_export(a.s, "one", help_path("s"), NULL, NULL, NULL));
  export(&a, "copy", help_path("d1"), &about);
  refuses(&b, help_path("d1"), EMB_GAP, "delta 1, from the beginning");
  refuses(&b, help_path("s"), EMB_MISMATCH, "is a snapshot");
  OK(b.s, emb_snapshot_restore(b.s, help_path("s"), NULL));
  apply(&b, help_path("old"), 0);
  apply(&b, help_path("d1"), 1);
  same(&a, &b);
  /* An increment of that snapshot no longer fits. */
  ack(&a, "copy", 0);
  OK(a.s, emb_snapshot(a.s, "two"));
  OK(a.s,
     emb_snapshot_export(a.s, "two", help_path("i"), "base=one", NULL, NULL));
  GIVES(b.s, EMB_GAP, emb_snapshot_restore(b.s, help_path("i"), NULL));
  help_put_rows(a.s, 300, 1, 50, 4);
  export(&a, "copy", help_path("d2"), &about);
  apply(&b, help_path("d2"), 1);
  same(&a, &b);
  /* A snapshot again: the deltas that it contains have no effect. */
  OK(a.s, emb_snapshot(a.s, "three"));
  OK(a.s, emb_snapshot_export(a.s, "three", help_path("s"), NULL, NULL, NULL));
  OK(b.s, emb_snapshot_restore(b.s, help_path("s"), NULL));
  apply(&b, help_path("d1"), 0);
  apply(&b, help_path("d2"), 0);
  same(&a, &b);
  close_side(&a);
  close_side(&b);
}

/* Larger than memory on both sides, and into an empty store. */
TEST(larger_than_memory) {
  struct side a = {.config.memory_bytes = 1}, b = {.config.memory_bytes = 1};
  emb_delta_file about;
  if (!open_side(&a, "a") || !open_side(&b, "b"))
    return;
  help_put_rows(a.s, 0, 1, MANY, 1);
  export(&a, "copy", help_path("d"), &about);
  apply(&b, help_path("d"), 1);
  same(&a, &b);
  ack(&a, "copy", about.to);
  help_put_rows(a.s, 500, 1, 50, 2);
  help_delete_rows(a.s, 9000, 9);
  export(&a, "copy", help_path("e"), &about);
  CHECK_EQ_INT(about.puts, 50);
  CHECK_EQ_INT(about.deletions, 9);
  apply(&b, help_path("e"), 1);
  same(&a, &b);
  help_verify(b.s);
  close_side(&a);
  close_side(&b);
}

TEST(temporary_copy) {
  struct side a = {0}, t = {.config.flags = EMB_OPEN_TEMPORARY};
  emb_delta_file about;
  if (!open_side(&a, "a"))
    return;
  (void)mkdir(help_path("tmp"), 0755);
  if (!open_side(&t, "tmp"))
    return;
  help_put_rows(a.s, 0, 1, 100, 1);
  export(&a, "copy", help_path("d"), &about);
  apply(&t, help_path("d"), 1);
  apply(&t, help_path("d"), 0);
  same(&a, &t);
  close_side(&a);
  close_side(&t);
}

/* ---- one transaction ----------------------------------------------------- */

struct watch {
  struct side *side;
  emb_session *reader;
  int calls, stop_at;
  int torn; /* the reader saw something of the delta */
};

static int look(void *arg) {
  struct watch *w = arg;
  float vector[DIM];
  uint8_t found;
  int64_t key = (int64_t)(test_random() % 5000);
  (void)OK(w->reader, emb_peek(w->reader, &key, 1, vector, &found, NULL));
  w->torn += !found || !help_is(vector, DIM, key, 1);
  return ++w->calls == w->stop_at;
}

/* Readers see the old rows until the end; an interrupt keeps all old rows. */
TEST(readers_go_on) {
  struct side a = {0}, b = {0};
  struct watch w = {.side = &b};
  emb_delta_file about;
  emb_err err;
  if (!open_side(&a, "a") || !open_side(&b, "b") ||
      !CHECK_EQ_INT(emb_session_open(b.store, &w.reader, &err), EMB_OK))
    return;
  help_put_rows(a.s, 0, 1, 5000, 1);
  export(&a, "copy", help_path("d1"), &about);
  apply(&b, help_path("d1"), 1);
  ack(&a, "copy", about.to);
  help_put_rows(a.s, 0, 1, 4000, 2);
  help_delete_rows(a.s, 4000, 1000);
  export(&a, "copy", help_path("d2"), &about);
  emb_session_interrupt(b.s, look, &w);
  int all = 0;
  for (w.stop_at = 1;; w.stop_at++) {
    w.calls = 0;
    int rc = emb_delta_apply(b.s, help_path("d2"), NULL, NULL);
    if (rc == EMB_OK)
      break;
    all++;
    CHECK_EQ_INT(rc, EMB_INTERRUPT);
    CHECK_EQ_INT(emb_count(b.s), 5000);
  }
  CHECK(all > 4);
  CHECK_EQ_INT(w.torn, 0);
  emb_session_interrupt(b.s, NULL, NULL);
  same(&a, &b);
  test_count("interrupted applications", (uint64_t)all);
  emb_session_close(w.reader);
  close_side(&a);
  close_side(&b);
}

TEST(in_a_transaction) {
  struct side a = {0}, b = {0};
  emb_session *other;
  emb_delta_file about;
  emb_err err;
  b.config.timeout_ms = 1;
  if (!open_side(&a, "a") || !open_side(&b, "b"))
    return;
  help_put_rows(a.s, 0, 1, 10, 1);
  export(&a, "copy", help_path("d"), &about);
  OK(b.s, emb_begin(b.s));
  refuses(&b, help_path("d"), EMB_LOCKED, "inside a transaction");
  CHECK_EQ_INT(emb_session_open(b.store, &other, &err), EMB_OK);
  GIVES(other, EMB_BUSY, emb_delta_apply(other, help_path("d"), NULL, NULL));
  emb_rollback(b.s);
  OK(other, emb_delta_apply(other, help_path("d"), NULL, NULL));
  emb_session_close(other);
  same(&a, &b);
  close_side(&a);
  close_side(&b);
}

/* The process dies when the rows are durable but the position is not. */
TEST(crash_before_the_position) {
  struct side a = {0}, b = {0};
  emb_delta_file about;
  if (!open_side(&a, "a") || !open_side(&b, "b"))
    return;
  help_put_rows(a.s, 0, 1, 500, 1);
  export(&a, "copy", help_path("d1"), &about);
  apply(&b, help_path("d1"), 1);
  ack(&a, "copy", about.to);
  CHECK(files_copy_dir(help_path("before"), b.dir));
  help_put_rows(a.s, 100, 1, 100, 2);
  help_delete_rows(a.s, 0, 50);
  export(&a, "copy", help_path("d2"), &about);
  apply(&b, help_path("d2"), 1);
  /* As after a kill: the newer log with the older position. */
  CHECK(files_copy_dir(help_path("after"), b.dir));
  close_side(&b);
  char old[600], lost[600];
  (void)snprintf(old, sizeof old, "%s/" POSITION_FILE, help_path("before"));
  (void)snprintf(lost, sizeof lost, "%s/" POSITION_FILE, help_path("after"));
  CHECK(rename(old, lost) == 0);
  (void)snprintf(b.dir, sizeof b.dir, "%s", help_path("after"));
  if (!open_again(&b))
    return;
  same(&a, &b);
  apply(&b, help_path("d2"), 1);
  apply(&b, help_path("d2"), 0);
  same(&a, &b);
  close_side(&a);
  close_side(&b);
}

/* ---- refused input ------------------------------------------------------- */

TEST(refused) {
  struct side a = {0}, b = {0}, other = {0}, small = {.config.dim = 8};
  emb_delta_file about;
  emb_delta_options names = {.columns = "bias, vector"};
  if (!open_side(&a, "a") || !open_side(&b, "b") || !open_side(&other, "o") ||
      !open_side(&small, "s"))
    return;
  help_put_rows(a.s, 0, 1, 100, 1);
  help_put_rows(other.s, 0, 1, 100, 1);
  export(&a, "copy", help_path("d1"), &about);
  refuses(&small, help_path("d1"), EMB_MISMATCH, "FLOAT[64]");
  apply(&b, help_path("d1"), 1);
  help_put_rows(a.s, 5, 1, 1, 2);
  help_put_rows(other.s, 5, 1, 1, 2);
  export(&other, "copy", help_path("foreign"), &about);
  refuses(&b, help_path("foreign"), EMB_MISMATCH, "from the store");
  export(&a, "copy2", help_path("consumer"), &about);
  refuses(&b, help_path("consumer"), EMB_MISMATCH, "for the consumer copy2");
  /* With join the file is taken, and the chain continues from there. */
  emb_delta_options join = {.join = 1};
  OK(b.s, emb_delta_apply(b.s, help_path("consumer"), &join, NULL));
  same(&a, &b);
  refuses(&b, help_path("d1"), EMB_MISMATCH, "for the consumer copy");
  OK(b.s, emb_delta_apply(b.s, help_path("d1"), &join, NULL));
  ack(&a, "copy", 0);
  help_put_rows(a.s, 7, 1, 1, 3);
  OK(a.s, emb_delta_export(a.s, "copy", help_path("d2"), &names, &about));
  refuses(&other, help_path("d2"), EMB_GAP, "delta 1, from the beginning");
  names.columns = "a, b";
  GIVES(b.s, EMB_MISMATCH, emb_delta_apply(b.s, help_path("d2"), &names, NULL));
  CHECK(strstr(emb_errmsg(b.s), "holds the columns bias, vector") != NULL);
  apply(&b, help_path("d2"), 1);
  refuses(&b, help_path("none"), EMB_CANTOPEN, "none");
  refuses(&b, help_path("a/log"), EMB_NOTADB, "log");
  GIVES(a.s, EMB_RANGE,
        emb_delta_export(a.s, "copy", help_path("x"),
                         &(emb_delta_options){.text = "quantize=int3"}, NULL));
  GIVES(a.s, EMB_RANGE,
        emb_delta_export(a.s, "copy", help_path("x"),
                         &(emb_delta_options){.text = "level=99"}, NULL));
  CHECK(access(help_path("x"), F_OK) != 0);
  close_side(&a);
  close_side(&b);
  close_side(&other);
  close_side(&small);
}

static int write_bytes(const char *path, const char *bytes, size_t n) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  int good = fd >= 0 && write(fd, bytes, n) == (ssize_t)n;
  return close(fd) == 0 && good;
}

/* A file with any byte wrong, or any shorter length, is never taken. */
TEST(damaged) {
  struct side a = {0}, b = {0};
  emb_delta_file about;
  if (!open_side(&a, "a") || !open_side(&b, "b"))
    return;
  help_put_rows(a.s, 0, 1, 20, 1);
  export(&a, "copy", help_path("d1"), &about);
  apply(&b, help_path("d1"), 1);
  ack(&a, "copy", about.to);
  help_put_rows(a.s, 5, 1, 10, 2);
  help_delete_rows(a.s, 15, 3);
  export(&a, "copy", help_path("d2"), &about);
  size_t n = (size_t)about.bytes, tried = 0;
  char *bytes = malloc(n);
  int fd = open(help_path("d2"), O_RDONLY | O_CLOEXEC);
  if (!CHECK(bytes != NULL && fd >= 0 && read(fd, bytes, n) == (ssize_t)n))
    return;
  (void)close(fd);
  char path[512];
  (void)snprintf(path, sizeof path, "%s", help_path("bad"));
  for (size_t i = 0; i<n; i += i> 600 && i < 4000 ? 97u : 1u, tried++) {
    bytes[i] ^= (char)(1u << (i & 7));
    int rc = write_bytes(path, bytes, n)
                 ? emb_delta_apply(b.s, path, NULL, NULL)
                 : EMB_OK;
    bytes[i] ^= (char)(1u << (i & 7));
    if (!test_check(rc == EMB_CORRUPT || rc == EMB_NOTADB, __FILE__, __LINE__,
                    "byte %zu wrong: %d %s", i, rc, emb_errmsg(b.s)))
      break;
  }
  for (size_t i = 0; i < n; i += 1 + i / 50, tried++) {
    int rc = write_bytes(path, bytes, i)
                 ? emb_delta_apply(b.s, path, NULL, NULL)
                 : EMB_OK;
    if (!test_check(rc == EMB_CORRUPT || rc == EMB_NOTADB, __FILE__, __LINE__,
                    "%zu bytes: %d %s", i, rc, emb_errmsg(b.s)))
      break;
  }
  CHECK_EQ_INT(emb_count(b.s), 20);
  apply(&b, help_path("d2"), 1);
  same(&a, &b);
  test_count("damaged files of deltas", tried);
  free(bytes);
  close_side(&a);
  close_side(&b);
}

/* If the position cannot be read, nothing is guessed. */
TEST(damaged_position) {
  struct side a = {0}, b = {0};
  emb_delta_file about;
  char path[600], bytes[512];
  if (!open_side(&a, "a") || !open_side(&b, "b"))
    return;
  help_put_rows(a.s, 0, 1, 20, 1);
  export(&a, "copy", help_path("d1"), &about);
  apply(&b, help_path("d1"), 1);
  (void)snprintf(path, sizeof path, "%s/" POSITION_FILE, b.dir);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  CHECK(fd >= 0 && read(fd, bytes, sizeof bytes) == sizeof bytes);
  (void)close(fd);
  for (size_t i = 0; i < sizeof bytes; i++) {
    bytes[i] ^= 1;
    CHECK(write_bytes(path, bytes, sizeof bytes));
    if (!GIVES(b.s, EMB_CORRUPT,
               emb_delta_apply(b.s, help_path("d1"), NULL, NULL)))
      break;
    bytes[i] ^= 1;
  }
  int problems = 0;
  OK(b.s, emb_verify(b.s, help_report, &problems));
  CHECK(problems == 1);
  OK(b.s, emb_delta_apply(b.s, help_path("d1"), &(emb_delta_options){.join = 1},
                          NULL));
  apply(&b, help_path("d1"), 0);
  help_verify(b.s);
  close_side(&a);
  close_side(&b);
}

/* ---- optimizers, quantising ---------------------------------------------- */

static void train(struct side *side, int64_t from, size_t n, uint64_t seed) {
  static float gradients[BATCH * DIM];
  int64_t keys[BATCH];
  for (size_t i = 0; i < n * DIM; i++) {
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    gradients[i] = (float)((int64_t)(seed >> 40) - (1 << 23)) * 1e-7f;
  }
  for (size_t i = 0; i < n; i++)
    keys[i] = from + (int64_t)i;
  (void)OK(side->s,
           emb_apply_gradients(side->s, keys, n, gradients, NULL, NULL));
}

TEST(optimizers) {
  const emb_segment parts[] = {
      {16, EMB_F32, "adam(lr=0.1)", "zeros", NULL, NULL},
      {48, EMB_F32, "adagrad(lr=0.1)", NULL, NULL, NULL}};
  const emb_segment bare[] = {{16, EMB_F32, NULL, NULL, NULL, NULL},
                              {48, EMB_F32, NULL, NULL, NULL, NULL}};
  const emb_segment others[] = {
      {16, EMB_F32, "sgd(lr=0.1)", NULL, NULL, NULL},
      {48, EMB_F32, "momentum(lr=0.1)", NULL, NULL, NULL}};
  struct side a = {.config = {.segments = parts,
                              .segment_count = 2,
                              .initializer = "uniform(low=-1, high=1)",
                              .track = EMB_TRACK_WALL}};
  struct side b = a;
  struct side c = {.config = {.segments = bare, .segment_count = 2}};
  struct side d = {.config = {.segments = others, .segment_count = 2}};
  emb_delta_options vectors = {.text = "state=0"};
  emb_delta_file about;
  if (!open_side(&a, "a") || !open_side(&b, "b") || !open_side(&c, "c") ||
      !open_side(&d, "d"))
    return;
  for (uint64_t i = 0; i < 3; i++) {
    train(&a, 10 * (int64_t)i, 200, i);
    export(&a, "all", help_path("all"), &about);
    apply(&b, help_path("all"), 1); /* with the optimizer state */
    apply(&c, help_path("all"), 1); /* which c has no room for */
    refuses(&d, help_path("all"), EMB_MISMATCH, "optimizer");
    ack(&a, "all", about.to);
    OK(a.s, emb_delta_export(a.s, "vectors", help_path("v"), &vectors, &about));
    apply(&d, help_path("v"), 1);
    ack(&a, "vectors", about.to);
    same(&a, &b);
    same(&a, &c);
    same(&a, &d);
  }
  /* The optimizer state came along: both train identically. */
  train(&a, 100, 100, 9);
  train(&b, 100, 100, 9);
  same(&a, &b);
  emb_track ours[200], theirs[200];
  int64_t keys[200];
  for (int64_t i = 0; i < 200; i++)
    keys[i] = i;
  OK(a.s, emb_tracks(a.s, keys, 200, ours, NULL));
  OK(b.s, emb_tracks(b.s, keys, 200, theirs, NULL));
  for (int i = 0; i < 200; i++)
    CHECK_EQ_INT(ours[i].frequency, theirs[i].frequency);
  close_side(&a);
  close_side(&b);
  close_side(&c);
  close_side(&d);
}

TEST(quantised) {
  static const char *const names[] = {"none", "float16", "int8", "int4"};
  struct side a = {.config = {.dim = DIM,
                              .optimizer = "adagrad(lr=0.5)",
                              .initializer = "uniform(low=-1, high=1)"}};
  if (!open_side(&a, "a"))
    return;
  train(&a, 0, 200, 1);
  uint64_t before = UINT64_MAX;
  for (int i = 0; i < 4; i++) {
    struct side b = {0};
    char text[64];
    emb_delta_options how = {.text = text};
    emb_delta_file about;
    (void)snprintf(text, sizeof text, "state=0, quantize=%s", names[i]);
    if (!open_side(&b, names[i]))
      return;
    OK(a.s, emb_delta_export(a.s, "copy", help_path("d"), &how, &about));
    CHECK(about.bytes < before);
    before = about.bytes;
    apply(&b, help_path("d"), 1);
    same_rows(&a, &b, (enum quant_type)i);
    close_side(&b);
  }
  close_side(&a);
}
