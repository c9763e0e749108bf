/* SPDX-License-Identifier: MIT
**
** fail_files.c -- each call of the operating system fails, once or from
** then on, while a snapshot or a delta is exported, or a file restored or read;
** among them each that takes a descriptor, when none are left.
**
** After a failed export the file is the old one, byte for byte, and a delta
** is not noted as sent; after a failed restore the table is the old one,
** unless it was already the new one; it is never anything in between.  All
** resources are given back, the store opens again, and the same call then
** succeeds.  SHARE=n tries one call in n.
*/
#include "moments_help.h"

#include "failing.h"
#include "files.h"

static struct failing f;
static char parent[300], copy[320], target[320];
static char files[3][320];
static uint64_t points;

/* Without LONG, lasting failures are tried for one call in STRIDE. */
enum { STRIDE = 5 };

/* The file as it was, to check that it is unchanged. */
static char *kept;
static size_t kept_bytes;

static int keep_file(const char *path) {
  free(kept);
  kept = files_load(path, 0, &kept_bytes);
  return kept != NULL;
}

static int is_kept(const char *path) {
  char *before = kept;
  size_t bytes = kept_bytes;
  kept = NULL;
  int same = keep_file(path) && kept_bytes == bytes &&
             memcmp(kept, before, bytes) == 0;
  free(before);
  return same;
}

static int make(void) {
  emb_store *store;
  emb_session *s;
  char dir[320];
  (void)snprintf(parent, sizeof parent, "%s", test_dir());
  (void)snprintf(dir, sizeof dir, "%s/source", parent);
  (void)snprintf(copy, sizeof copy, "%s/work", parent);
  (void)snprintf(target, sizeof target, "%s/file", parent);
  for (int m = 0; m < 3; m++)
    (void)snprintf(files[m], sizeof files[m], "%s/m%d", parent, m);
  failing_begin(&f);
  if (!moments_make(parent) || !moment_open(dir, &store, &s))
    return 0;
  OK(s, moment_export(s, 0, -1, files[0]));
  OK(s, moment_export(s, 1, 0, files[1]));
  OK(s, moment_export(s, 2, 1, files[2]));
  return help_close(store, s);
}

static void unmake(void) {
  failing_end(&f);
  free(kept);
  kept = NULL;
}

#define GOOD(holds_, n_, what_, is_)                                           \
  FAILING_CHECK(&f, (holds_), (n_), (what_), (is_))

static void fail_each(failing_try *try) {
  for (int i = 0; i < FAILING_CASES; i++)
    points += failing_each(&failing_cases[i], STRIDE, try);
}

/* ---- export -------------------------------------------------------------- */

static int try_export(uint64_t n, const struct failing_case *how, int forever) {
  emb_store *store;
  emb_session *s;
  emb_err err = {0, ""};
  char dir[320];
  (void)snprintf(dir, sizeof dir, "%s/source", parent);
  if (!moment_open(dir, &store, &s))
    return 0;
  OK(s, moment_export(s, 0, -1, target));
  (void)keep_file(target);
  failing_arm(&f, how->kinds, n, forever, how->error);
  int rc = moment_export(s, 2, -1, target);
  int fired = f.fired > 0;
  failing_disarm(&f);
  CHECK(rc == EMB_OK || emb_errmsg(s)[0] != 0);
  GOOD(fired || rc == EMB_OK, n, "nothing failed", rc);
  int m = moment_of_file(target, &err);
  GOOD(rc == EMB_OK ? m == 2
                    : m == 0 || (m == 2 && f.first == FAILING_SYNC_DIR),
       n, "the file is", m);
  GOOD(rc == EMB_OK || f.first == FAILING_SYNC_DIR || is_kept(target), n,
       "it is not as it was", rc);
  OK(s, moment_export(s, 1, -1, target)); /* over the files left */
  GOOD(moment_of_file(target, &err) == 1, n, "and then", 0);
  (void)help_close(store, s);
  FAILING_CHECK_OUT(&f, n);
  return fired;
}

TEST(export) {
  points = 0;
  if (make())
    fail_each(try_export);
  unmake();
  test_count("calls failed in an export", points);
}

/* ---- export of a delta --------------------------------------------------- */

/* Failures of the disk after everything else is done: then the file may be
** there without being noted as sent. */
static int is_last_step(void) {
  return f.first == FAILING_SYNC_DIR ||
         (f.first == FAILING_RENAME && strstr(f.first_path, "consumer-"));
}

static int try_delta(uint64_t n, const struct failing_case *how, int forever) {
  static int32_t change = 7000;
  emb_store *store;
  emb_session *s;
  emb_delta_file old, about;
  float row[MOMENT_DIM];
  char dir[320], made[340];
  int64_t key = moment_key(5);
  (void)snprintf(dir, sizeof dir, "%s/source", parent);
  (void)snprintf(made, sizeof made, "%s-new", target);
  if (!moment_open(dir, &store, &s))
    return 0;
  OK(s, emb_delta_export(s, "c", target, NULL, &old));
  (void)keep_file(target);
  help_vector(row, MOMENT_DIM, key, ++change);
  OK(s, emb_put(s, &key, 1, row, NULL));
  failing_arm(&f, how->kinds, n, forever, how->error);
  int rc = emb_delta_export(s, "c", target, NULL, &about);
  int fired = f.fired > 0;
  failing_disarm(&f);
  CHECK(rc == EMB_OK || emb_errmsg(s)[0] != 0);
  GOOD(fired || rc == EMB_OK, n, "nothing failed", rc);
  int new_file = !is_kept(target);
  GOOD(new_file == (rc == EMB_OK) || is_last_step(), n, "the file is new",
       new_file);
  GOOD(access(made, F_OK) != 0 || f.first == FAILING_UNLINK || forever, n,
       "half a file is left", rc);
  (void)unlink(made);
  /* The store may have failed permanently. */
  int ack = emb_delta_ack(s, "c", rc == EMB_OK ? about.to : old.to);
  GOOD(ack == EMB_OK || ack == EMB_FAILED || ack == EMB_FULL || is_last_step(),
       n, "the acknowledgement gives", ack);
  emb_session_close(s);
  emb_err err;
  (void)emb_close(store, &err);
  FAILING_CHECK_OUT(&f, n);
  return fired;
}

TEST(export_of_a_delta) {
  points = 0;
  if (make())
    fail_each(try_delta);
  unmake();
  test_count("calls failed in the export of a delta", points);
}

/* ---- restore ------------------------------------------------------------- */

static const char *steps[2]; /* the second one may fail */
static int before, after;    /* moments */

static int try_restore(uint64_t n, const struct failing_case *how,
                       int forever) {
  emb_store *store;
  emb_session *s;
  char from[320];
  (void)snprintf(from, sizeof from, "%s/copy", parent);
  if (!CHECK(files_copy_dir(copy, from)) || !moment_open(copy, &store, &s))
    return 0;
  if (steps[0] != NULL)
    OK(s, emb_snapshot_restore(s, steps[0], NULL));
  failing_arm(&f, how->kinds, n, forever, how->error);
  int rc = emb_snapshot_restore(s, steps[1], NULL);
  int fired = f.fired > 0;
  failing_disarm(&f);
  CHECK(rc == EMB_OK || emb_errmsg(s)[0] != 0);
  GOOD(fired || rc == EMB_OK, n, "nothing failed", rc);
  int m = moment_of(s);
  /* A store that failed while becoming owned no longer answers. */
  int code = emb_errcode(s);
  if (m == -1 && rc != EMB_OK && (code == EMB_FAILED || code == EMB_FULL))
    m = before;
  GOOD(m == after || (rc != EMB_OK && m == before), n, "the table shows", m);
  emb_session_close(s);
  emb_err err;
  (void)emb_close(store, &err); /* it may have failed permanently */
  FAILING_CHECK_OUT(&f, n);
  if (!moment_open(copy, &store, &s))
    return 0;
  int now = moment_of(s);
  GOOD(now == m || now == before || now == after, n, "and later", now);
  GOOD(rc != EMB_OK || now == after, n, "it was done, and later shows", now);
  OK(s, emb_verify(s, NULL, NULL));
  OK(s, emb_snapshot_restore(s, steps[1], NULL));
  GOOD(moment_of(s) == after, n, "again", after);
  (void)help_close(store, s);
  return fired;
}

TEST(restore_of_a_snapshot) {
  points = 0;
  if (make()) {
    steps[0] = NULL;
    steps[1] = files[0];
    before = MOMENT_OTHER;
    after = 0;
    fail_each(try_restore);
  }
  unmake();
  test_count("calls failed in a restore", points);
}

TEST(restore_of_an_increment) {
  points = 0;
  if (make()) {
    steps[0] = files[0];
    steps[1] = files[1];
    before = 0;
    after = 1;
    fail_each(try_restore);
  }
  unmake();
  test_count("calls failed in a restore", points);
}

/* ---- reading ------------------------------------------------------------- */

static int try_read(uint64_t n, const struct failing_case *how, int forever) {
  emb_err err = {0, ""};
  failing_arm(&f, how->kinds, n, forever, how->error);
  int m = moment_of_file(files[0], &err);
  int fired = f.fired > 0;
  failing_disarm(&f);
  GOOD(fired ? m == -1 && err.text[0] != 0 : m == 0, n, "it reads", m);
  FAILING_CHECK_OUT(&f, n);
  return fired;
}

TEST(reading_a_file) {
  points = 0;
  if (make())
    fail_each(try_read);
  unmake();
  test_count("calls failed in reading a file", points);
}
