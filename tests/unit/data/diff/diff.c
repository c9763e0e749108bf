/* SPDX-License-Identifier: MIT
**
** diff.c -- tests of engine/data/diff/: emb_patch restores exactly the bytes
** that emb_diff was given, for bytes of all kinds, in each form; the words are
** as engine/FORMAT.md defines them; damage, another base and hostile sizes are
** errors; lack of memory is an error and leaks nothing.
*/
#include "engine/data/emb_data.h"
#include "test.h"

#include "engine/data/diff/diff.h"
#include "failing.h"

#include <errno.h>

/* More than two blocks of the widest elements. */
enum { MOST = 8 * 65536 * 2 + 1000 };

static const uint32_t widths[] = {1, 2, 4, 8};

static emb_diff_how any_how(void) {
  static const int levels[] = {0, 1, 3, 19};
  return (emb_diff_how){.op = test_random() % 2 ? EMB_DIFF_SUB : EMB_DIFF_XOR,
                        .width = widths[test_random() % 4],
                        .split_exponent = test_random() % 2,
                        .rle = test_random() % 2,
                        .level = levels[test_random() % 4]};
}

static void fill_random(uint8_t *to, size_t n) {
  for (size_t i = 0; i < n; i++)
    to[i] = (uint8_t)(test_random() >> 17);
}

/* kind 0: random; 1: zeros; 2: runs; 3: floats near to each other. */
static void fill(uint8_t *to, size_t n, int kind) {
  if (kind == 0) {
    fill_random(to, n);
  } else if (kind == 1) {
    memset(to, 0, n);
  } else if (kind == 2) {
    for (size_t i = 0; i < n;) {
      size_t run = 1 + test_random() % (test_random() % 2 ? 9 : 300000);
      int byte = (int)(test_random() % 256);
      for (; run > 0 && i < n; run--)
        to[i++] = (uint8_t)byte;
    }
  } else {
    for (size_t i = 0; i + 4 <= n; i += 4) {
      float x = 0.05f + (float)(test_random() % 1000) * 1e-6f;
      memcpy(to + i, &x, 4);
    }
  }
}

/* Returns a difference and its size; free() it. */
static uint8_t *make(const emb_diff_how *how, emb_bytes base, emb_bytes result,
                     size_t *n) {
  emb_err err = {0, ""};
  size_t room = emb_diff_room(how, result.n);
  uint8_t *to = malloc(room);
  if (!CHECK(to != NULL))
    return NULL;
  CHECK_EQ_INT(emb_diff(how, &base, &result, to, n, &err), EMB_OK);
  CHECK(*n >= 64 && *n <= room);
  /* An exact copy, so that a sanitizer detects reads beyond its end. */
  uint8_t *exact = malloc(*n);
  if (exact)
    memcpy(exact, to, *n);
  free(to);
  return exact;
}

static void check_back(const emb_diff_how *how, emb_bytes base,
                       emb_bytes result) {
  emb_err err = {0, ""};
  emb_diff_head head;
  size_t n = 0;
  uint8_t *difference = make(how, base, result, &n);
  emb_bytes said = {difference, n};
  CHECK_EQ_INT(emb_diff_read(&said, &head, &err), EMB_OK);
  CHECK_EQ_INT(head.result_bytes, result.n);
  CHECK_EQ_INT(head.base_bytes, base.n);
  CHECK(head.op == how->op && head.width == how->width &&
        head.split_exponent == how->split_exponent);
  uint8_t *back = malloc(result.n ? result.n : 1);
  if (CHECK(back != NULL)) {
    int rc = emb_patch(&base, &said, back, NULL, NULL, &err);
    CHECK(rc == EMB_OK);
    CHECK(result.n == 0 || memcmp(back, result.at, result.n) == 0);
  }
  free(back);
  free(difference);
}

TEST(any_bytes_come_back) {
  uint8_t *base = malloc(MOST), *result = malloc(MOST);
  int rounds = SANITIZED ? 40 : 200;
  for (int i = 0; i < rounds && base && result; i++) {
    size_t most = i % 10 == 0 ? MOST : 3000;
    emb_diff_how how = any_how();
    if (most > 3000 && how.level > 3)
      how.level = 3;
    size_t n = test_random() % most,
           m = test_random() % 3 ? n : test_random() % most;
    fill(base, n, (int)(test_random() % 4));
    fill(result, m, (int)(test_random() % 4));
    if (test_random() % 2) /* only some bytes differ */
      memcpy(result, base, (n < m ? n : m) / (1 + test_random() % 3));
    check_back(&how, (emb_bytes){base, n}, (emb_bytes){result, m});
  }
  free(base);
  free(result);
}

TEST(ends_of_blocks) {
  uint8_t *base = calloc(1, MOST), *result = malloc(MOST);
  if (!base || !result)
    return;
  fill(result, MOST, 2);
  for (size_t w = 0; w < 4; w++)
    for (int d = -2; d <= 2; d++)
      for (int split = 0; split < 2; split++) {
        size_t n = (size_t)((int)(65536 * widths[w]) + d);
        emb_diff_how how = {EMB_DIFF_SUB, widths[w], split, 1, 1, NULL, NULL};
        check_back(&how, (emb_bytes){base, n + 1}, (emb_bytes){result, n});
        check_back(&how, (emb_bytes){base, n - 3}, (emb_bytes){result, n});
      }
  free(base);
  free(result);
}

TEST(nothing) {
  for (int i = 0; i < 20; i++) {
    emb_diff_how how = any_how();
    uint8_t some[5] = {1, 2, 3, 4, 5};
    check_back(&how, (emb_bytes){NULL, 0}, (emb_bytes){NULL, 0});
    check_back(&how, (emb_bytes){some, 5}, (emb_bytes){NULL, 0});
    check_back(&how, (emb_bytes){NULL, 0}, (emb_bytes){some, 5});
  }
}

/* The words as FORMAT.md defines them. */
static uint64_t plain_word(int op, uint32_t width, uint64_t b, uint64_t r) {
  unsigned bits = 8 * width;
  uint64_t all = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
  uint64_t high = UINT64_C(1) << (bits - 1);
  if (op == EMB_DIFF_XOR) {
    uint64_t x = b ^ r;
    return x & high ? (((x & ~high) * 2) | 1) : x * 2;
  }
  uint64_t d = (r - b) & all;
  if (d & high) { /* -2 d - 1, with d as a signed number */
    uint64_t size = (all - d) + 1;
    return (size - 1) * 2 + 1;
  }
  return d * 2;
}

TEST(words_are_the_formats) {
  for (size_t w = 0; w < 4; w++)
    for (int i = 0; i < 2000; i++) {
      uint32_t width = widths[w];
      uint64_t b = 0, r = 0, back = 0, word = 0;
      uint64_t x = test_random(), y = test_random() % 3
                                          ? x + test_random() % 5 - 2
                                          : test_random();
      memcpy(&b, &x, width);
      memcpy(&r, &y, width);
      for (int op = EMB_DIFF_SUB; op <= EMB_DIFF_XOR; op++) {
        struct diff_form form = diff__form(op, width, 1, 100);
        word = back = 0;
        diff__fold(&form, (char *)&b, (char *)&r, 1, (char *)&word);
        CHECK_EQ_INT(word, plain_word(op, width, b, r));
        diff__unfold(&form, (char *)&b, (char *)&word, 1, (char *)&back);
        CHECK_EQ_INT(back, r);
      }
    }
}

TEST(runs_are_counted) {
  char from[4000], packed[4000], back[4000];
  for (int i = 0; i < 3000; i++) {
    size_t n = 1 + test_random() % sizeof from;
    fill((uint8_t *)from, n, i % 2 ? 2 : 0);
    if (i % 4 == 1 && n > 10)
      fill_random((uint8_t *)from + n / 3, n / 5);
    size_t size = diff__runs(from, n, packed);
    if (i % 2 == 0)
      continue;
    CHECK(size < n);
    if (size == 0)
      continue;
    CHECK(diff__spread(packed, size, back, n));
    CHECK(memcmp(from, back, n) == 0);
    CHECK(!diff__spread(packed, size, back, n - 1));
    CHECK(!diff__spread(packed, size - 1, back, n));
  }
  memset(from, 7, sizeof from);
  CHECK_EQ_INT(diff__runs(from, sizeof from, packed), 3);
  CHECK(!diff__spread("\0", 1, back, 1));
  CHECK(!diff__spread("\x81\x80\x80\x80\x01", 5, back, 1));
}

/* Floats that are near take little space; equal bytes take almost none. */
TEST(a_small_change_is_small) {
  enum { N = 1 << 18 };
  float *base = malloc(N * 4), *result = malloc(N * 4);
  size_t n = 0, full = 0;
  emb_diff_how how = {EMB_DIFF_SUB, 4, 1, 1, 1, NULL, NULL};
  if (!base || !result)
    return;
  for (size_t i = 0; i < N; i++) {
    base[i] = (float)((double)(int64_t)test_random() * 0x1p-66);
    result[i] = base[i] * (1 + (float)(test_random() % 1000) * 1e-7f);
  }
  free(make(&how, (emb_bytes){base, N * 4}, (emb_bytes){base, N * 4}, &n));
  CHECK(n < N * 4 / 4000);
  free(make(&how, (emb_bytes){base, N * 4}, (emb_bytes){result, N * 4}, &n));
  free(make(&how, (emb_bytes){NULL, 0}, (emb_bytes){result, N * 4}, &full));
  CHECK(n < full * 6 / 10);
  for (int op = EMB_DIFF_SUB; op <= EMB_DIFF_XOR; op++) {
    how.op = op;
    check_back(&how, (emb_bytes){base, N * 4}, (emb_bytes){result, N * 4});
  }
  free(base);
  free(result);
}

/* ---- errors -------------------------------------------------------------- */

static void resum(uint8_t *difference, size_t n) {
  struct diff_head head;
  memcpy(&head, difference, sizeof head);
  head.bytes = n;
  head.sum = diff__sum(&head, difference + sizeof head, n - sizeof head);
  memcpy(difference, &head, sizeof head);
}

TEST(damage_is_seen) {
  uint8_t base[700], result[900], back[900];
  emb_err err;
  size_t n = 0;
  fill(base, sizeof base, 3);
  fill(result, sizeof result, 0);
  memcpy(result, base, 300);
  emb_diff_how how = {EMB_DIFF_SUB, 4, 1, 1, 1, NULL, NULL};
  uint8_t *difference =
      make(&how, (emb_bytes){base, 700}, (emb_bytes){result, 900}, &n);
  emb_bytes of = {base, sizeof base}, said = {difference, n};
  for (size_t i = 0; i < n * 8; i++) {
    difference[i / 8] ^= (uint8_t)(1 << i % 8);
    err.text[0] = 0;
    int rc = emb_patch(&of, &said, back, NULL, NULL, &err);
    CHECK(rc == (i < 64 ? EMB_NOTADB : EMB_CORRUPT) ||
          (i / 8 >= 8 && i / 8 < 12 && rc == EMB_NOTADB));
    CHECK(err.text[0] != 0);
    difference[i / 8] ^= (uint8_t)(1 << i % 8);
  }
  for (size_t i = 0; i < n; i++) {
    uint8_t *cut = malloc(i ? i : 1);
    memcpy(cut, difference, i);
    emb_bytes less = {cut, i};
    int rc = emb_patch(&of, &less, back, NULL, NULL, &err);
    CHECK_EQ_INT(rc, i < 8 ? EMB_NOTADB : EMB_CORRUPT);
    /* A head with a correct checksum, and a truncated block. */
    if (i >= 64) {
      resum(cut, i);
      CHECK_EQ_INT(emb_patch(&of, &less, back, NULL, NULL, &err), EMB_CORRUPT);
    }
    free(cut);
  }
  free(difference);
}

TEST(another_base_is_refused) {
  uint8_t base[100], result[100], back[100];
  emb_err err;
  size_t n = 0;
  fill(base, 100, 0);
  fill(result, 100, 0);
  emb_diff_how how = {EMB_DIFF_XOR, 1, 0, 0, 0, NULL, NULL};
  uint8_t *difference =
      make(&how, (emb_bytes){base, 100}, (emb_bytes){result, 100}, &n);
  emb_bytes said = {difference, n}, shorter = {base, 99}, of = {base, 100};
  CHECK_EQ_INT(emb_patch(&shorter, &said, back, NULL, NULL, &err),
               EMB_MISMATCH);
  CHECK(strcmp(err.text, "the base has 99 bytes, and the difference was made "
                         "from one of 100") == 0);
  base[50] ^= 1;
  CHECK_EQ_INT(emb_patch(&of, &said, back, NULL, NULL, &err), EMB_MISMATCH);
  free(difference);
}

/* A hostile difference has a correct checksum. */
TEST(hostile_sizes) {
  static const uint64_t sizes[] = {UINT64_MAX,
                                   UINT64_MAX - 7,
                                   UINT64_C(1) << 63,
                                   UINT64_C(1) << 40,
                                   262145,
                                   1048577,
                                   0,
                                   41};
  uint8_t result[40] = {1, 2, 3}, *back = malloc(1 << 20);
  size_t n = 0;
  emb_err err;
  emb_diff_head read;
  struct diff_head head;
  emb_diff_how how = {EMB_DIFF_XOR, 4, 1, 1, 1, NULL, NULL};
  uint8_t *difference =
      make(&how, (emb_bytes){NULL, 0}, (emb_bytes){result, 40}, &n);
  emb_bytes said = {difference, n}, of = {NULL, 0};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    memcpy(&head, difference, sizeof head);
    head.result_bytes = sizes[i];
    memcpy(difference, &head, sizeof head);
    resum(difference, n);
    int rc = emb_diff_read(&said, &read, &err);
    CHECK_EQ_INT(rc, sizes[i] > 262144 ? EMB_CORRUPT : EMB_OK);
    rc = emb_patch(&of, &said, back, NULL, NULL, &err);
    CHECK_EQ_INT(rc, EMB_CORRUPT);
  }
  free(difference);
  free(back);
}

TEST(what_cannot_be_asked) {
  uint8_t one = 1;
  emb_bytes bytes = {&one, 1};
  char to[200];
  size_t n;
  emb_err err;
  static const emb_diff_how wrong[] = {
      {0, 4, 1, 1, 1, NULL, NULL},  {3, 4, 1, 1, 1, NULL, NULL},
      {1, 0, 1, 1, 1, NULL, NULL},  {1, 3, 1, 1, 1, NULL, NULL},
      {1, 16, 1, 1, 1, NULL, NULL}, {1, 4, 1, 1, 20, NULL, NULL},
      {1, 4, 1, 1, -1, NULL, NULL}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    CHECK_EQ_INT(emb_diff_room(&wrong[i], 1), 0);
    CHECK_EQ_INT(emb_diff(&wrong[i], &bytes, &bytes, to, &n, &err), EMB_RANGE);
  }
}

static int after_two(void *arg) { return ++*(int *)arg > 2; }

TEST(interrupted) {
  size_t n = 0, size = 65536 * 4 * 4;
  uint8_t *bytes = calloc(1, size), *back = malloc(size);
  int asked = 0;
  emb_err err;
  emb_diff_how how = {EMB_DIFF_SUB, 4, 1, 1, 1, NULL, NULL};
  emb_bytes some = {bytes, size};
  uint8_t *difference = make(&how, (emb_bytes){NULL, 0}, some, &n);
  emb_bytes none = {NULL, 0}, said = {difference, n};
  CHECK_EQ_INT(emb_patch(&none, &said, back, after_two, &asked, &err),
               EMB_INTERRUPT);
  CHECK_EQ_INT(asked, 3);
  asked = 0;
  how.interrupted = after_two;
  how.arg = &asked;
  uint8_t *to = malloc(emb_diff_room(&how, size));
  CHECK_EQ_INT(emb_diff(&how, &none, &some, to, &n, &err), EMB_INTERRUPT);
  free(to);
  free(difference);
  free(bytes);
  free(back);
}

/* ---- no memory ----------------------------------------------------------- */

TEST(no_memory) {
  enum { SIZE = 3000 };
  static uint8_t base[SIZE], result[SIZE], back[SIZE];
  struct failing f;
  emb_err err;
  size_t n = 0;
  int failed = 0;
  emb_diff_how how = {EMB_DIFF_SUB, 4, 1, 1, 3, NULL, NULL};
  emb_bytes of = {base, SIZE}, to = {result, SIZE}, said;
  fill(base, SIZE, 3);
  fill(result, SIZE, 3);
  uint8_t *difference = malloc(emb_diff_room(&how, SIZE));
  if (!CHECK(difference != NULL))
    return;
  failing_init(&f, &env_posix, test_random());
  for (int patches = 0; patches < 2; patches++) {
    int rc = EMB_NOMEM;
    for (uint64_t i = 1; rc == EMB_NOMEM && i < 100; i++) {
      struct diff_work w = {.env = &f.env, .err = &err};
      err.code = EMB_OK;
      failing_arm(&f, FAILING_MEMORY, i, 0, ENOMEM);
      rc = patches ? diff__apply(&w, &of, &said, (char *)back, NULL, NULL)
                   : diff__make(&w, &how, &of, &to, (char *)difference, &n);
      diff__close(&w);
      CHECK(rc == EMB_OK || (rc == EMB_NOMEM && f.fired > 0));
      CHECK(rc == EMB_OK || err.code == EMB_NOMEM);
      failed += rc != EMB_OK;
      failing_disarm(&f);
    }
    CHECK_EQ_INT(rc, EMB_OK);
    said = (emb_bytes){difference, n};
  }
  CHECK_EQ_INT(failing_out(&f), 0);
  failing_free(&f);
  CHECK(memcmp(back, result, SIZE) == 0);
  CHECK(failed >= 12);
  test_count("allocations failed", (uint64_t)failed);
  free(difference);
}
