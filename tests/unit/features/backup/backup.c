/* SPDX-License-Identifier: MIT
**
** backup.c -- copies that continue from an earlier copy, and of a source that
** changes.
*/
#include "files.h"
#include "store_help.h"

enum { DIM = 60, PIECE = 40, PIECES = 150, ROWS = PIECE * PIECES };

static int64_t keys[PIECE];
static float vectors[PIECE * DIM];

/* The next piece of rows: their keys from, from + 1, ... */
static void next_piece(int64_t from) {
  for (int i = 0; i < PIECE; i++) {
    keys[i] = from + i;
    help_vector(vectors + i * DIM, DIM, keys[i], 1);
  }
}

static int copy(emb_session *s, const char *dir, const char *base,
                emb_backup_info *info) {
  emb_backup *backup;
  if (!OK(s, emb_backup_begin(s, test_dir(), &backup)))
    return 0;
  int good = OK(s, emb_backup_freeze(backup)) &&
             OK(s, emb_backup_write(backup, dir, base, info));
  emb_backup_end(backup);
  return good;
}

/* The copy has the keys 0 to n - 1, with their vectors. */
static int has_rows(const char *dir, int64_t n) {
  const emb_config config = {.dim = DIM};
  emb_store *store;
  emb_session *s;
  int64_t good = 0;
  uint8_t found[PIECE];
  if (!help_open(dir, &config, &store, &s))
    return 0;
  CHECK_EQ_INT(emb_count(s), n);
  for (int64_t from = 0; from < n; from += PIECE) {
    next_piece(from);
    memset(vectors, 0, sizeof vectors);
    if (!OK(s, emb_peek(s, keys, PIECE, vectors, found, NULL)))
      break;
    for (int i = 0; i < PIECE; i++)
      good += found[i] && help_is(vectors + i * DIM, DIM, keys[i], 1);
  }
  CHECK_EQ_INT(good, n);
  help_verify(s);
  help_close(store, s);
  return good == n;
}

/* Each extent below the first copy's mark has rows that were there, and rows of
** the transaction that was open.  The second copy has both: it takes no such
** extent from the first. */
TEST(a_transaction_that_was_open) {
  const emb_config config = {.dim = DIM, .flags = EMB_OPEN_CREATE};
  emb_store *store;
  emb_session *s, *other;
  emb_backup_info info;
  emb_err err;
  uint64_t number;
  if (!help_open(help_path("store"), &config, &store, &s) ||
      !CHECK_EQ_INT(emb_session_open(store, &other, &err), EMB_OK))
    return;
  OK(s, emb_begin(s));
  for (int64_t from = 0; from < ROWS; from += PIECE) {
    next_piece(ROWS + from);
    OK(s, emb_txn_put(s, keys, PIECE, vectors));
    next_piece(from);
    OK(other, emb_put(other, keys, PIECE, vectors, NULL));
  }
  if (copy(other, help_path("first"), NULL, &info))
    CHECK_EQ_INT(info.rows, ROWS);
  OK(s, emb_prepare(s, &number));
  OK(s, emb_commit(s));
  if (copy(other, help_path("second"), help_path("first"), &info)) {
    CHECK_EQ_INT(info.rows, 2 * ROWS);
    CHECK(info.base_used);
  }
  emb_session_close(other);
  help_close(store, s);
  has_rows(help_path("first"), ROWS);
  has_rows(help_path("second"), 2 * ROWS);
}

/* Puts one row, with this value, and closes the store again. */
static int put_and_close(const char *dir, int32_t value) {
  const emb_config config = {.dim = DIM, .flags = EMB_OPEN_CREATE};
  emb_store *store;
  emb_session *s;
  keys[0] = 1;
  help_vector(vectors, DIM, keys[0], value);
  return help_open(dir, &config, &store, &s) &&
         OK(s, emb_put(s, keys, 1, vectors, NULL)) && help_close(store, s);
}

/* A read-only session copies a store only as it was when the backup began:
** another process has written to it, or its manifest cannot be read for a
** while.  Each attempt finds that. */
TEST(a_source_that_changes) {
  const emb_config config = {.dim = DIM, .flags = EMB_OPEN_READONLY};
  static struct files before, later;
  emb_store *store;
  emb_session *s;
  emb_backup *backup;
  emb_backup_info info;
  if (!put_and_close(help_path("store"), 1) ||
      !CHECK(files_copy_dir(help_path("later"), help_path("store"))) ||
      !put_and_close(help_path("later"), 2) ||
      !CHECK(files_read(&before, help_path("store")) &&
             files_read(&later, help_path("later"))))
    return;
  const struct file *present = files_find(&before, "manifest");
  const struct file *next = files_find(&later, "manifest");
  struct file none = {.size = 0};
  (void)snprintf(none.name, sizeof none.name, "%s", present->name);
  if (!help_open(help_path("store"), &config, &store, &s))
    return;
  if (OK(s, emb_backup_begin(s, test_dir(), &backup)) &&
      OK(s, emb_backup_freeze(backup))) {
    CHECK(files_write_one(&none, help_path("store")));
    for (int i = 0; i < 2; i++)
      CHECK(emb_backup_write(backup, help_path("copy"), NULL, &info) != EMB_OK);
    CHECK(files_write_one(next, help_path("store")));
    for (int i = 0; i < 2; i++)
      GIVES(s, EMB_BUSY,
            emb_backup_write(backup, help_path("copy"), NULL, &info));
    CHECK(files_write_one(present, help_path("store")));
    OK(s, emb_backup_write(backup, help_path("copy"), NULL, &info));
  }
  emb_backup_end(backup);
  files_free(&before);
  files_free(&later);
  help_close(store, s);
}
