/* SPDX-License-Identifier: MIT
**
** pack_texts.c -- tests of the texts in a pack (engine/storage/pack/texts.c):
** they read back, across blocks and with any length; a file of integers gets
** texts and keeps its rows; damage, and forgery with right checksums, is an
** error.
*/
#include "test.h"

#include "engine/storage/pack/block.h"
#include "failing.h"
#include "files.h"

#include <errno.h>

enum { ROWS_MOST = 3000, WIDTH = 12, LONG_TEXT = 200000 };

static struct {
  uint32_t n;
  struct pack_text texts[ROWS_MOST];
  uint8_t *file;
  size_t size;
  emb_err err;
} t;

static const char *texts_path(void) {
  static char path[300];
  (void)snprintf(path, sizeof path, "%s/t", test_dir());
  return path;
}

/* ---- content ------------------------------------------------------------- */

static void free_texts(void) {
  for (uint32_t i = 0; i < t.n; i++)
    free((void *)(uintptr_t)t.texts[i].at);
  t.n = 0;
}

/* Characters of one to four bytes, surrogates among them, and zero bytes. */
static void make_text(struct pack_text *text, size_t n) {
  static const char *const some[] = {"a",
                                     "\xc3\xbc",
                                     "\xe2\x82\xac",
                                     "\xed\xa0\x80",
                                     "\xf0\x9f\x98\x80",
                                     "\xf4\x8f\xbf\xbf"};
  char *at = malloc(n + 1);
  size_t used = 0;
  while (used < n) {
    const char *c = some[test_below(6)];
    size_t bytes = test_below(9) ? strlen(c) : 1;
    if (bytes == 1)
      at[used++] = (char)test_below(128);
    else if (used + bytes <= n)
      memcpy(at + used, c, bytes), used += bytes;
  }
  *text = (struct pack_text){at, n};
}

static void make_texts(uint32_t n) {
  free_texts();
  for (; t.n < n; t.n++)
    make_text(&t.texts[t.n], test_below(300) == 0  ? test_below(LONG_TEXT)
                             : test_below(20) == 0 ? 0
                                                   : 1 + test_below(30));
}

static int is_put(uint32_t i) { return i % 5 != 3; }

static void make_row(uint32_t i, struct pack_row *row, char value[WIDTH]) {
  memset(value, (int)i, WIDTH);
  *row = (struct pack_row){(int64_t)i * 7 - 9, i,
                           is_put(i) ? PACK_PUT : PACK_DELETE + i % 3,
                           is_put(i) ? value : NULL};
}

static struct pack_head texts_head(uint32_t flags) {
  struct pack_head head = {.kind = PACK_DELTA, .flags = flags, .number = 3};
  head.column_count = 1;
  head.columns[0] = (struct pack_column){WIDTH, 4};
  memcpy(head.name, "some", 4);
  return head;
}

static int write_rows(struct pack_writer *w) {
  int rc = EMB_OK;
  for (uint32_t i = 0; rc == EMB_OK && i < t.n; i++) {
    char value[WIDTH];
    struct pack_row row;
    make_row(i, &row, value);
    rc = pack_add(w, &row, &t.err);
  }
  return rc;
}

static int end_texts(struct pack_writer *w, int rc) {
  for (uint32_t i = 0; rc == EMB_OK && i < t.n; i++)
    rc = pack_add_text(w, &t.texts[i], &t.err);
  if (rc == EMB_OK)
    return pack_finish(w, NULL, &t.err);
  pack_abandon(w);
  return rc;
}

static int write_texts_in(struct env *env, int level) {
  struct pack_head head = texts_head(PACK_TEXTS);
  struct pack_writer *w;
  int rc = pack_create(env, texts_path(), &head, level, &w, &t.err);
  return rc ? rc : end_texts(w, write_rows(w));
}

static int write_texts(int level) { return write_texts_in(&env_posix, level); }

/* ---- reading back -------------------------------------------------------- */

static int is_text(const struct pack_text *text, uint32_t i) {
  return text->n == t.texts[i].n &&
         memcmp(text->at, t.texts[i].at, text->n) == 0;
}

/* Returns 0 if the texts read as written, else the error, or -1. */
static int read_texts_in(struct env *env, const char *path) {
  struct pack_reader *r;
  struct pack_text text = {"", 0};
  const struct pack_row *row;
  uint32_t i = 0;
  int same = 1;
  int rc = pack_open(env, path, &r, &t.err);
  if (rc != EMB_OK)
    return rc;
  rc = pack_verify(r, NULL, NULL, &t.err);
  while (rc == EMB_OK && text.at) {
    char value[WIDTH];
    struct pack_row want;
    rc = pack_next_text(r, &text, &t.err);
    rc = rc ? rc : pack_next(r, &row, &t.err);
    if (rc || !text.at)
      break;
    make_row(i, &want, value);
    same &= i < t.n && is_text(&text, i) && row && row->key == want.key &&
            row->op == want.op &&
            (!want.value || memcmp(row->value, value, WIDTH) == 0);
    i++;
  }
  if (rc == EMB_OK)
    same &= i == t.n && row == NULL;
  pack_rewind_texts(r);
  if (rc == EMB_OK && t.n) {
    rc = pack_next_text(r, &text, &t.err);
    same &= rc || is_text(&text, 0);
  }
  pack_close(r);
  return rc ? rc : same ? 0 : -1;
}

static int read_texts(const char *path) {
  return read_texts_in(&env_posix, path);
}

TEST(texts_read_back) {
  uint64_t texts = 0;
  for (int i = 0; i < 60; i++) {
    make_texts(i < 3 ? (uint32_t)i : test_below(ROWS_MOST));
    if (!CHECK_EQ_INT(write_texts(i % 4), EMB_OK) ||
        !CHECK_EQ_INT(read_texts(texts_path()), 0))
      printf("%s\n", t.err.text);
    texts += t.n;
  }
  test_count("texts written and read back", texts);
}

TEST(a_file_of_integers_gets_texts) {
  struct pack_head head = texts_head(0), with = texts_head(PACK_TEXTS);
  struct pack_writer *w;
  struct pack_reader *r;
  char integers[310];
  (void)snprintf(integers, sizeof integers, "%s-integers", texts_path());
  for (int i = 0; i < 20; i++) {
    make_texts(test_below(ROWS_MOST));
    CHECK_EQ_INT(pack_create(&env_posix, integers, &head, i % 3, &w, &t.err),
                 EMB_OK);
    CHECK_EQ_INT(write_rows(w), EMB_OK);
    CHECK_EQ_INT(pack_finish(w, NULL, &t.err), EMB_OK);
    CHECK_EQ_INT(pack_open(&env_posix, integers, &r, &t.err), EMB_OK);
    CHECK_EQ_INT(pack_reader_head(r)->format, PACK_FORMAT);
    CHECK_EQ_INT(pack_create(&env_posix, texts_path(), &with, 1, &w, &t.err),
                 EMB_OK);
    CHECK_EQ_INT(end_texts(w, pack_copy_rows(w, r, NULL, NULL, &t.err)),
                 EMB_OK);
    pack_close(r);
    CHECK_EQ_INT(read_texts(texts_path()), 0);
    CHECK_EQ_INT(pack_open(&env_posix, texts_path(), &r, &t.err), EMB_OK);
    CHECK_EQ_INT(pack_reader_head(r)->format, PACK_FORMAT_TEXTS);
    CHECK_EQ_INT(pack_reader_head(r)->number, 3);
    pack_close(r);
  }
}

TEST(a_file_holds_no_other_texts) {
  static const struct pack_text bad[] = {{"\xff", 1},
                                         {"a\xc3", 2},
                                         {"\xc0\x80", 2},
                                         {"\xe0\x80\x80", 3},
                                         {"\xf5\x80\x80\x80", 4},
                                         {"\xf4\x90\x80\x80", 4},
                                         {"01234567\x80", 9},
                                         {"\xe2\x82", 2}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    make_texts(3);
    free((void *)(uintptr_t)t.texts[1].at);
    t.texts[1] = bad[i];
    CHECK_EQ_INT(write_texts(1), EMB_RANGE);
    CHECK(strstr(t.err.text, "not UTF-8") != NULL);
    t.texts[1].at = NULL;
  }
  make_texts(3);
  struct pack_head head = texts_head(PACK_TEXTS);
  struct pack_writer *w;
  CHECK_EQ_INT(pack_create(&env_posix, texts_path(), &head, 1, &w, &t.err),
               EMB_OK);
  CHECK_EQ_INT(write_rows(w), EMB_OK);
  CHECK_EQ_INT(pack_add_text(w, &t.texts[0], &t.err), EMB_OK);
  CHECK_EQ_INT(pack_complete(w, &t.err), EMB_MISUSE);
  pack_abandon(w);
}

/* ---- failure ------------------------------------------------------------- */

/* Each call fails once; the old file stays until the new one is complete. */
TEST(a_failed_call_is_told_and_leaves_the_old_file) {
  static const uint32_t kinds[] = {FAILING_MEMORY, FAILING_IO};
  uint64_t points = 0;
  struct failing f;
  failing_init(&f, &env_posix, test_state.seed);
  make_texts(300);
  CHECK_EQ_INT(write_texts(1), EMB_OK);
  for (int kind = 0; kind < 2; kind++)
    for (int reads = 0; reads < 2; reads++)
      for (uint64_t n = 1; n < 10000; n++, points++) {
        failing_arm(&f, kinds[kind], n, 0, kind ? EIO : ENOMEM);
        int rc = reads ? read_texts_in(&f.env, texts_path())
                       : write_texts_in(&f.env, 1);
        uint64_t fired = f.fired;
        failing_disarm(&f);
        CHECK_EQ_INT(failing_out(&f), 0);
        test_check(fired ? rc == EMB_NOMEM || rc == EMB_IOERR ||
                               rc == EMB_CANTOPEN || rc == EMB_OK
                         : rc == 0,
                   __FILE__, __LINE__, "call %" PRIu64 ": %d", n, rc);
        if (!reads)
          CHECK_EQ_INT(read_texts(texts_path()), 0);
        if (!fired)
          break;
      }
  failing_free(&f);
  test_count("calls failed while texts were written or read", points);
}

/* ---- damage -------------------------------------------------------------- */

static void load_texts(void) {
  free(t.file);
  t.file = files_load(texts_path(), 0, &t.size);
}

static void store_texts(size_t size) { files_save(texts_path(), t.file, size); }

static int is_refused(int rc) { return rc == EMB_CORRUPT || rc == EMB_NOTADB; }

TEST(a_changed_byte_is_missed_nowhere) {
  uint64_t n = 0;
  make_texts(40);
  CHECK_EQ_INT(write_texts(1), EMB_OK);
  load_texts();
  for (size_t at = test_below(3); at < t.size;
       at += at < 512 ? 1 : 1 + test_below(5)) {
    uint8_t was = t.file[at];
    t.file[at] ^= (uint8_t)(1 << test_below(8));
    store_texts(t.size);
    if (!CHECK(is_refused(read_texts(texts_path()))))
      printf("byte %zu\n", at);
    t.file[at] = was;
    n++;
  }
  for (int i = 0; i < 50; i++) {
    store_texts(test_below((uint32_t)t.size));
    CHECK(is_refused(read_texts(texts_path())));
  }
  test_count("damaged files of texts refused", n);
}

/* ---- forgery: the checksums are right ------------------------------------ */

static void sum_at(size_t at, uint64_t position) {
  struct pack_block block;
  uint64_t salt;
  memcpy(&salt, t.file, sizeof salt);
  memcpy(&block, t.file + at, sizeof block);
  block.sum = block_sum(&block, t.file + at + sizeof block, salt, position);
  memcpy(t.file + at, &block.sum, sizeof block.sum);
}

static struct pack_end end_of_file(void) {
  struct pack_end end;
  memcpy(&end, t.file + t.size - sizeof end, sizeof end);
  return end;
}

static void forge_end(const struct pack_end *end) {
  memcpy(t.file + t.size - sizeof *end, end, sizeof *end);
  sum_at(t.size - PACK_END_BYTES, PACK_END_POSITION);
  store_texts(t.size);
}

TEST(numbers_of_the_end_are_compared) {
  make_texts(40);
  CHECK_EQ_INT(write_texts(0), EMB_OK);
  load_texts();
  const struct pack_end good = end_of_file();
  for (int field = 0; field < 3; field++)
    for (int i = 0; i < 6; i++) {
      static const uint64_t by[] = {
          1, 4, UINT64_MAX, UINT64_MAX - 3, 1u << 20, UINT64_MAX / 2};
      struct pack_end end = good;
      uint64_t *number = field == 0   ? &end.texts_offset
                         : field == 1 ? &end.text_blocks
                                      : &end.text_bytes;
      *number += by[i];
      forge_end(&end);
      CHECK_EQ_INT(read_texts(texts_path()), EMB_CORRUPT);
    }
  forge_end(&good);
  CHECK_EQ_INT(read_texts(texts_path()), 0);
}

/* Forges a block of texts: its bytes, and how many texts begin in it. */
static int forge_block(size_t from, const void *bytes, size_t n,
                       uint32_t count) {
  const struct pack_end end = end_of_file();
  uint8_t *before = malloc(t.size);
  struct pack_block block;
  memcpy(before, t.file, t.size);
  memcpy(&block, t.file + end.texts_offset, sizeof block);
  block.count = count;
  memcpy(t.file + end.texts_offset, &block, sizeof block);
  memcpy(t.file + end.texts_offset + sizeof block + from, bytes, n);
  sum_at(end.texts_offset, end.row_blocks);
  store_texts(t.size);
  int rc = read_texts(texts_path());
  memcpy(t.file, before, t.size);
  free(before);
  return rc;
}

TEST(lengths_are_not_believed) {
  static const uint32_t lengths[] = {0, 2, 4, 5, 1000, INT32_MAX, UINT32_MAX};
  free_texts();
  for (; t.n < 4; t.n++) {
    char *at = malloc(3);
    memcpy(at, "abc", 3);
    t.texts[t.n] = (struct pack_text){at, 3};
  }
  CHECK_EQ_INT(write_texts(0), EMB_OK);
  load_texts();
  CHECK_EQ_INT(forge_block(0, "", 0, 4), 0);
  CHECK_EQ_INT(forge_block(0, "", 0, 3), EMB_CORRUPT);
  CHECK_EQ_INT(forge_block(0, "", 0, 5), EMB_CORRUPT);
  CHECK_EQ_INT(forge_block(5, "\xff", 1, 4), EMB_CORRUPT);
  CHECK(strstr(t.err.text, "not UTF-8") != NULL);
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
    CHECK_EQ_INT(forge_block(7, &lengths[i], 4, 4), EMB_CORRUPT);
}

/* A file that an older reader would not understand has a format that the reader
** refuses. */
TEST(format_and_flag_belong_together) {
  struct pack_head head;
  make_texts(2);
  CHECK_EQ_INT(write_texts(0), EMB_OK);
  load_texts();
  memcpy(&head, t.file, sizeof head);
  for (uint32_t format = 0; format < 4; format++)
    for (uint32_t flags = 0; flags < 16; flags++) {
      int texts = (flags & PACK_TEXTS) != 0;
      int legal = texts == (format == PACK_FORMAT_TEXTS) &&
                  !(texts && flags & PACK_INDEX);
      struct pack_head forged = head;
      struct pack_reader *r = NULL;
      forged.format = format;
      forged.flags = flags;
      forged.sum = hash_sum((char *)&forged + 8, sizeof forged - 8, 0, 0);
      memcpy(t.file, &forged, sizeof forged);
      sum_at(t.size - PACK_END_BYTES, PACK_END_POSITION);
      store_texts(t.size);
      int rc = pack_open(&env_posix, texts_path(), &r, &t.err);
      if (format == 0 || format == 3)
        CHECK_EQ_INT(rc, EMB_NOTADB);
      else if (!legal)
        CHECK(rc == EMB_CORRUPT && strstr(t.err.text, "numbers in its head"));
      else if (texts)
        CHECK_EQ_INT(rc, EMB_OK);
      else
        CHECK(rc == EMB_CORRUPT && strstr(t.err.text, "numbers at its end"));
      pack_close(r);
    }
}
