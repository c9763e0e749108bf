/* SPDX-License-Identifier: MIT
**
** identity.c -- tests of engine/storage/ckpt/identity.c: an owner whose files
** were moved away, replaced, or written by another process stops writing and
** says why; all acknowledged rows are there when the files are back.
*/
#include "forget_help.h"

#include "engine/base/hash.h"
#include "engine/storage/ckpt/manifest.h"

#include <unistd.h>

enum { DIM = 8, ROWS = 100 };

static char dir[300], away[300], older[300];

static const char *in(const char *where, const char *name) {
  static char paths[4][400];
  static int next;
  char *path = paths[next++ % 4];
  (void)snprintf(path, sizeof paths[0], "%s/%s", where, name);
  return path;
}

static int copy_file(const char *from, const char *to) {
  char buffer[65536];
  FILE *in_file = fopen(from, "rb"), *out_file = fopen(to, "wb");
  size_t n = 1;
  while (in_file && out_file && n > 0) {
    n = fread(buffer, 1, sizeof buffer, in_file);
    (void)fwrite(buffer, 1, n, out_file);
  }
  int ok = in_file && out_file;
  if (in_file)
    (void)fclose(in_file);
  if (out_file)
    ok &= fclose(out_file) == 0;
  return CHECK(ok);
}

/* Commits one row with a prepare. */
static int commit_row(emb_session *s, int64_t key) {
  float vector[DIM];
  uint64_t number;
  help_vector(vector, DIM, key, 1);
  int rc = emb_begin(s);
  rc = rc ? rc : emb_txn_put(s, &key, 1, vector);
  rc = rc ? rc : emb_prepare(s, &number);
  rc = rc ? rc : emb_commit(s);
  emb_rollback(s);
  return rc;
}

/* A store with rows 0..ROWS-1 in a checkpoint, and one more since. */
static int begin(emb_store **store, emb_session **s) {
  emb_config c = forget_config(DIM);
  forget_begin();
  static int stores;
  (void)snprintf(dir, sizeof dir, "%s%d", help_path("store"), ++stores);
  (void)snprintf(away, sizeof away, "%s%d", help_path("away"), stores);
  (void)snprintf(older, sizeof older, "%s%d", help_path("older"), stores);
  if (!help_open(dir, &c, store, s))
    return 0;
  help_put_rows(*s, 0, 1, ROWS, 1);
  OK(*s, emb_checkpoint(*s));
  CHECK(files_copy_dir(older, dir));
  OK(*s, commit_row(*s, ROWS));
  OK(*s, emb_checkpoint(*s));
  return OK(*s, commit_row(*s, ROWS + 1));
}

static void finish(emb_store *store, emb_session *s, int close_rc) {
  emb_err err;
  emb_session_close(s);
  CHECK_EQ_INT(emb_close(store, &err), close_rc);
}

/* All acknowledged rows are there. */
static void reopen(void) {
  emb_config c = forget_config(DIM);
  emb_store *store;
  emb_session *s;
  if (help_open(dir, &c, &store, &s)) {
    if (emb_in_doubt(store))
      CHECK_EQ_INT(emb_resolve(store, emb_in_doubt(store), 1, NULL), EMB_OK);
    CHECK_EQ_INT(emb_count(s), ROWS + 2);
    OK(s, commit_row(s, ROWS + 2));
    help_verify(s);
    help_close(store, s);
  }
  forget_end();
}

enum harm {
  MOVED,
  OLDER,
  SAME, /* the same bytes in other files */
  MANIFEST,
  LOG,
  LOCK,
  NEWER, /* the manifest in place */
  STRANGER,
  RUBBISH,
  HARMS
};

/* Overwrites the store's manifest, as another process would. */
static void write_manifest(uint64_t more, int change_uuid) {
  struct manifest m;
  emb_err err;
  OK(NULL, manifest_read(&env_posix, dir, &m, &err));
  m.generation += more;
  m.uuid[0] ^= (uint8_t)change_uuid;
  OK(NULL, manifest_write(&env_posix, dir, &m, 1, &err));
}

static const char *do_harm(enum harm harm) {
  struct env_file *file;
  static char rubbish[2 * MANIFEST_SLOT];
  if (harm <= SAME)
    CHECK(rename(dir, away) == 0);
  switch (harm) {
  case MOVED:
    return "directory was moved away or deleted; put it back";
  case OLDER:
    CHECK(files_copy_dir(dir, older));
    return "directory was replaced";
  case SAME:
    CHECK(files_copy_dir(dir, away));
    return "directory was replaced";
  case MANIFEST:
  case LOG: {
    const char *name = harm == LOG ? "log" : "manifest";
    CHECK(rename(in(dir, name), away) == 0);
    copy_file(away, in(dir, name));
    return harm == LOG ? "file log was replaced" : "file manifest was replaced";
  }
  case LOCK:
    CHECK(rename(in(dir, "lock"), away) == 0);
    return "file lock was moved away or deleted";
  default:
    copy_file(in(dir, "manifest"), away);
    if (harm == NEWER)
      write_manifest(2, 0);
    else if (harm == STRANGER)
      write_manifest(0, 1);
    else if (CHECK(env_posix.open(&env_posix, in(dir, "manifest"), ENV_WRITE,
                                  &file) == 0)) {
      CHECK(env_posix.write(&env_posix, file, rubbish, sizeof rubbish, 0) == 0);
      env_posix.close(&env_posix, file);
    }
    return "file manifest was written by another process";
  }
}

static void undo_harm(enum harm harm) {
  if (harm <= SAME) {
    if (harm != MOVED)
      CHECK(files_write(&(struct files){0}, dir) && rmdir(dir) == 0);
    CHECK(rename(away, dir) == 0);
  } else if (harm <= LOCK) {
    CHECK(rename(away, in(dir, harm == LOCK  ? "lock"
                               : harm == LOG ? "log"
                                             : "manifest")) == 0);
  } else {
    copy_file(away, in(dir, "manifest"));
  }
}

/* One hash of all bytes of the present directory. */
static uint64_t state(void) {
  struct files files = {0};
  uint64_t sum = 0;
  if (access(dir, F_OK) != 0 || !files_read(&files, dir))
    return 0;
  for (size_t i = 0; i < files.n; i++)
    sum += hash_sum(files.list[i].bytes, files.list[i].size, i, 7);
  files_free(&files);
  return sum + files.n;
}

enum finder { PREPARE, CHECKPOINT, STEP, CLOSE, FINDERS };

static void find(enum harm harm, enum finder finder) {
  emb_store *store;
  emb_session *s;
  int more;
  float vector[DIM];
  int64_t key = 3;
  if (!begin(&store, &s))
    return;
  const char *why = do_harm(harm);
  uint64_t before = state();
  switch (finder) {
  case PREPARE:
    CHECK_EQ_INT(commit_row(s, 7000), EMB_FAILED);
    break;
  case CHECKPOINT:
    CHECK_EQ_INT(emb_checkpoint(s), EMB_FAILED);
    break;
  case STEP:
    CHECK_EQ_INT(emb_step(store, &more), EMB_FAILED);
    break;
  default:
    break;
  }
  if (finder != CLOSE) {
    help_vector(vector, DIM, key, 5);
    GIVES(s, EMB_FAILED, emb_put(s, &key, 1, vector, NULL));
    CHECK(strstr(emb_errmsg(s), why) != NULL);
    CHECK(strncmp(emb_errmsg(s), dir, strlen(dir)) == 0);
    GIVES(s, EMB_FAILED, emb_begin(s));
    GIVES(s, EMB_FAILED, emb_checkpoint(s));
    GIVES(s, EMB_FAILED, emb_snapshot(s, "a"));
    CHECK_EQ_INT(help_stat(store, "failed"), EMB_FAILED);
    CHECK(strstr(help_stat_text(store, "failed_reason"), why) != NULL);
    /* Background work has stopped. */
    CHECK_EQ_INT(emb_step(store, &more), EMB_OK);
    CHECK_EQ_INT(more, 0);
  }
  CHECK_EQ_INT(emb_count(s), ROWS + 2);
  OK(s, emb_peek(s, &key, 1, vector, NULL, NULL));
  CHECK(help_is(vector, DIM, key, 1));
  finish(store, s, EMB_FAILED);
  if (!CHECK(state() == before))
    printf("harm %d, finder %d\n", (int)harm, (int)finder);
  undo_harm(harm);
  reopen();
}

TEST(what_a_prepare_finds) {
  for (enum harm harm = 0; harm < HARMS; harm++)
    find(harm, PREPARE);
}
TEST(what_a_checkpoint_finds) {
  for (enum harm harm = 0; harm < HARMS; harm++)
    find(harm, CHECKPOINT);
}
TEST(what_background_work_finds) {
  for (enum harm harm = 0; harm < HARMS; harm++)
    find(harm, STEP);
}
TEST(what_a_close_finds) {
  for (enum harm harm = 0; harm < HARMS; harm++)
    find(harm, CLOSE);
}

/* A damaged slot of the manifest is not taken for another process's write. */
TEST(a_damaged_slot_is_forgiven) {
  emb_store *store;
  emb_session *s;
  struct files files = {0};
  if (!begin(&store, &s))
    return;
  for (size_t slot = 0; slot < 2; slot++)
    for (size_t at = 0; at < 64; at++) {
      files_free(&files);
      if (!CHECK(files_read(&files, dir)))
        return;
      struct file *manifest = files_find(&files, "manifest");
      manifest->bytes[slot * MANIFEST_SLOT + at] ^= 0x5a;
      CHECK(files_write_byte(manifest, dir, slot * MANIFEST_SLOT + at));
      OK(s, commit_row(s, ROWS));
      OK(s, emb_checkpoint(s)); /* repairs it */
    }
  files_free(&files);
  help_close(store, s);
  reopen();
}

/* A system error during the check says nothing about the store. */
TEST(an_error_while_looking_is_one_of_io) {
  emb_store *store;
  emb_session *s;
  if (!begin(&store, &s))
    return;
  for (uint64_t n = 1; n <= 3; n++) {
    failing_arm(&forget_env, FAILING_BIT(FAILING_IDENTITY), n, 0, EIO);
    CHECK_EQ_INT(commit_row(s, 7000), EMB_IOERR);
    failing_arm(&forget_env, FAILING_BIT(FAILING_IDENTITY), n, 0, EACCES);
    CHECK_EQ_INT(emb_checkpoint(s), EMB_IOERR);
    failing_disarm(&forget_env);
    OK(s, commit_row(s, ROWS));
    OK(s, emb_checkpoint(s));
  }
  failing_arm(&forget_env, FAILING_BIT(FAILING_READ), 1, 0, EIO);
  CHECK_EQ_INT(commit_row(s, 7000), EMB_IOERR);
  failing_disarm(&forget_env);
  OK(s, commit_row(s, ROWS));
  help_close(store, s);
  reopen();
}

/* A temporary store cannot be opened again, so its files are not checked. */
TEST(a_temporary_store_has_no_files) {
  emb_config c = forget_config(DIM);
  emb_store *store;
  emb_session *s;
  forget_begin();
  c.flags |= EMB_OPEN_TEMPORARY;
  if (!help_open(test_dir(), &c, &store, &s))
    return;
  help_put_rows(s, 0, 1, ROWS, 1);
  OK(s, emb_checkpoint(s));
  OK(s, commit_row(s, ROWS));
  help_close(store, s);
  forget_end();
}
