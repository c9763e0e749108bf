/* SPDX-License-Identifier: MIT
**
** delta_texts.c -- files with texts: a store's rows are written to a file in
** two steps, and are read from it with other keys; parts that do not belong
** together are refused and change nothing.
*/
#include "engine/storage/pack/emb_file.h"
#include "store_help.h"

#include "files.h"

enum { DIM = 4, ROWS = 500, SHIFT = 100000 };

static struct {
  emb_store *store, *copy_store;
  emb_session *s, *copy;
  emb_err err;
  int fails_at; /* the row whose text is missing; below 0: none */
} d;

static int open_one(const char *name, emb_store **store, emb_session **s) {
  static const emb_config config = {.dim = DIM,
                                    .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  return help_open(help_path(name), &config, store, s);
}

static void put_one(emb_session *s, int64_t key, float value) {
  float vector[DIM];
  for (int i = 0; i < DIM; i++)
    vector[i] = value + (float)i;
  (void)OK(s, emb_put(s, &key, 1, vector, NULL));
}

static int start(void) {
  d.fails_at = -1;
  int good = open_one("from", &d.store, &d.s) &&
             open_one("to", &d.copy_store, &d.copy);
  for (int64_t key = 1; good && key <= ROWS; key++)
    put_one(d.s, key, (float)key);
  for (int64_t key = 1; good && key <= 3; key++)
    put_one(d.copy, key, 0);
  return good;
}

static void end(void) {
  (void)help_close(d.store, d.s);
  (void)help_close(d.copy_store, d.copy);
}

/* ---- the two steps ------------------------------------------------------- */

static int text_of(void *arg, const emb_file_row *row, const char **text,
                   size_t *bytes, emb_err *err) {
  static char name[40];
  int *n = arg;
  if ((*n)++ == d.fails_at) {
    err->code = EMB_CORRUPT;
    return err->code;
  }
  *bytes = (size_t)snprintf(name, sizeof name, "text %" PRId64, row->key);
  *text = name;
  return EMB_OK;
}

static int give_texts(const char *rows, const char *path) {
  emb_file_writer *writer;
  emb_file *file;
  int n = 0;
  const emb_file_texts how = {.text = text_of, .arg = &n};
  int rc = emb_file_open(rows, &file, &d.err);
  if (rc)
    return rc;
  rc = emb_file_add_texts(file, path, &how, &writer, &d.err);
  emb_file_close(file);
  return rc ? rc : emb_file_finish(writer, NULL, &d.err);
}

/* One delta, as the file "d". */
static int write_delta(int ends) {
  emb_delta *delta;
  emb_delta_file about;
  int64_t key;
  uint8_t op;
  size_t n = 1;
  if (!OK(d.s, emb_delta_open(d.s, "c", &delta)))
    return 0;
  int good =
      OK(d.s, emb_delta_write(delta, help_path("rows"), NULL, &about)) &&
      CHECK_EQ_INT(give_texts(help_path("rows"), help_path("d")), EMB_OK);
  if (good && ends)
    good = OK(d.s, emb_delta_next(delta, 1,
                                  &(emb_rows){.keys = &key, .ops = &op}, &n)) &&
           CHECK_EQ_INT(n, 0);
  emb_delta_close(delta);
  return good;
}

/* Maps each text to a separate key: its number plus SHIFT. */
static size_t read_keys(const char *path, int64_t *keys, emb_file_keys *to) {
  emb_file *file;
  emb_file_info info;
  emb_file_row row;
  size_t n = 0;
  int found = 1;
  if (!CHECK_EQ_INT(emb_file_open(path, &file, &d.err), EMB_OK))
    return 0;
  emb_file_about(file, &info);
  CHECK(info.has_texts && !info.has_index);
  CHECK_EQ_INT(emb_file_verify(file, NULL, NULL, &d.err), EMB_OK);
  while (CHECK_EQ_INT(emb_file_next_key(file, &row, &found, &d.err), EMB_OK) &&
         found && n < ROWS + 10) {
    long number = 0;
    char text[40] = "";
    if (CHECK(row.text_bytes < sizeof text))
      memcpy(text, row.text, row.text_bytes);
    CHECK(sscanf(text, "text %ld", &number) == 1);
    CHECK_EQ_INT(number, row.key);
    keys[n++] = number + SHIFT;
  }
  CHECK_EQ_INT(n, info.rows);
  emb_file_close(file);
  *to = (emb_file_keys){info.id, keys, n};
  return n;
}

static int is_copy(void) {
  float a[DIM], b[DIM];
  uint8_t in_a, in_b;
  int wrong = 0;
  for (int64_t key = 1; key <= ROWS + 10; key++) {
    int64_t other = key + SHIFT;
    (void)OK(d.s, emb_peek(d.s, &key, 1, a, &in_a, NULL));
    (void)OK(d.copy, emb_peek(d.copy, &other, 1, b, &in_b, NULL));
    wrong += in_a != in_b || (in_a && memcmp(a, b, sizeof a) != 0);
  }
  return CHECK_EQ_INT(wrong, 0) &&
         CHECK_EQ_INT(emb_count(d.s), emb_count(d.copy));
}

TEST(rows_get_other_keys) {
  int64_t keys[ROWS + 10];
  emb_file_keys of;
  emb_delta_options how = {.keys = &of};
  if (!start() || !write_delta(1))
    return;
  CHECK_EQ_INT(read_keys(help_path("d"), keys, &of), ROWS);
  OK(d.copy, emb_delta_apply(d.copy, help_path("d"), &how, NULL));
  is_copy();
  OK(d.s, emb_delta_ack(d.s, "c", 0));
  for (int64_t key = 5; key < 50; key++)
    OK(d.s, emb_delete(d.s, &key, 1, NULL));
  put_one(d.s, ROWS + 1, 9);
  put_one(d.s, 100, 9);
  if (write_delta(1)) {
    CHECK_EQ_INT(read_keys(help_path("d"), keys, &of), 47);
    OK(d.copy, emb_delta_apply(d.copy, help_path("d"), &how, NULL));
    is_copy();
  }
  end();
}

TEST(a_delta_that_is_only_written_is_not_sent) {
  emb_consumer consumer;
  size_t n;
  if (!start() || !write_delta(0))
    return;
  OK(d.s, emb_delta_consumers(d.s, &consumer, 1, &n));
  CHECK(n == 1 && consumer.sent == 0);
  GIVES(d.s, EMB_RANGE, emb_delta_ack(d.s, "c", 0));
  if (write_delta(1)) {
    OK(d.s, emb_delta_consumers(d.s, &consumer, 1, &n));
    CHECK(n == 1 && consumer.sent != 0);
    OK(d.s, emb_delta_ack(d.s, "c", 0));
  }
  end();
}

TEST(a_snapshot_too) {
  int64_t keys[ROWS + 10];
  uint64_t rows = 0;
  emb_file_keys of;
  if (!start())
    return;
  OK(d.s, emb_snapshot(d.s, "s"));
  OK(d.s, emb_snapshot_export(d.s, "s", help_path("rows"), NULL, NULL, NULL));
  CHECK_EQ_INT(give_texts(help_path("rows"), help_path("d")), EMB_OK);
  read_keys(help_path("d"), keys, &of);
  OK(d.copy, emb_snapshot_restore_keys(d.copy, help_path("d"), &of, &rows));
  CHECK_EQ_INT(rows, ROWS);
  is_copy();
  end();
}

static void refuses_keys(const emb_file_keys *keys, int code) {
  emb_delta_options how = {.keys = keys};
  GIVES(d.copy, code, emb_delta_apply(d.copy, help_path("d"), &how, NULL));
  CHECK(emb_errmsg(d.copy)[0]);
  CHECK_EQ_INT(emb_count(d.copy), 3);
}

TEST(keys_and_file_belong_together) {
  int64_t keys[ROWS + 10];
  emb_file_keys of;
  if (!start() || !write_delta(1))
    return;
  read_keys(help_path("d"), keys, &of);
  refuses_keys(NULL, EMB_MISMATCH);
  refuses_keys(&(emb_file_keys){of.file + 1, keys, of.n}, EMB_BUSY);
  refuses_keys(&(emb_file_keys){of.file, keys, of.n - 1}, EMB_BUSY);
  keys[7] = keys[300];
  refuses_keys(&of, EMB_CORRUPT);
  OK(d.s, emb_snapshot(d.s, "s"));
  OK(d.s, emb_snapshot_export(d.s, "s", help_path("rows"), NULL, NULL, NULL));
  GIVES(d.copy, EMB_MISMATCH,
        emb_snapshot_restore_keys(d.copy, help_path("rows"), &of, NULL));
  GIVES(d.copy, EMB_MISMATCH,
        emb_snapshot_restore(d.copy, help_path("d"), NULL));
  CHECK_EQ_INT(emb_count(d.copy), 3);
  end();
}

/* After an error there is no new file, and the old file is unchanged. */
TEST(a_text_that_is_missing) {
  int64_t keys[ROWS + 10];
  emb_file_keys of, again;
  if (!start() || !write_delta(1))
    return;
  read_keys(help_path("d"), keys, &of);
  d.fails_at = 20;
  OK(d.s, emb_delta_export(d.s, "c", help_path("rows"), NULL, NULL));
  CHECK_EQ_INT(give_texts(help_path("rows"), help_path("d")), EMB_CORRUPT);
  CHECK_EQ_INT(give_texts(help_path("rows"), help_path("e")), EMB_CORRUPT);
  CHECK(access(help_path("e"), F_OK) != 0);
  CHECK(access(help_path("d-new"), F_OK) != 0);
  read_keys(help_path("d"), keys, &again);
  CHECK_EQ_INT(of.file, again.file);
  end();
}
