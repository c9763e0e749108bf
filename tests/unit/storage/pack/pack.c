/* SPDX-License-Identifier: MIT
**
** pack.c -- tests of engine/storage/pack: a written file reads back bit by bit;
** data that is damaged, truncated, forged, swapped or from another file never
** does; and a failed write leaves the old file.
*/
#include "test.h"

#include "engine/storage/pack/block.h"
#include "engine/storage/pack/options.h"
#include "failing.h"
#include "files.h"

#include <errno.h>

enum { ROWS_MAX = 9000 };

static struct {
  struct pack_head head;
  uint32_t n, value_bytes;
  int64_t keys[ROWS_MAX];
  uint64_t versions[ROWS_MAX];
  uint8_t ops[ROWS_MAX];
  char *values;
  uint8_t *file; /* as it is on disk */
  size_t size;
  int hurry; /* with a thread and a queue */
  emb_err err;
} m;

static unsigned long_runs(void) {
  const char *text = getenv("LONG");
  unsigned long n = text != NULL ? strtoul(text, NULL, 10) : 1;
  return n < 1 ? 1 : (unsigned)n;
}

/* Paths in the test's directory. */
struct paths {
  char pack[300], made[300];
};

static struct paths get_paths(void) {
  struct paths p;
  (void)snprintf(p.pack, sizeof p.pack, "%s/p", test_dir());
  (void)snprintf(p.made, sizeof p.made, "%s/p-new", test_dir());
  return p;
}

/* ---- content ------------------------------------------------------------- */

static char value_byte(uint32_t row, uint32_t i) {
  return (char)(i % 4 == 3 ? 0x3f : (row * 2654435761u + i * 40503u) >> 9);
}

static void make_rows(uint32_t n, int puts_only, uint32_t columns) {
  static const uint32_t widths[] = {1, 2, 4, 8};
  memset(&m.head, 0, sizeof m.head);
  m.head.kind = 1 + test_below(3);
  m.head.column_count = columns;
  for (uint32_t i = 0; i < columns; i++) {
    uint32_t width = widths[test_below(4)];
    m.head.columns[i] = (struct pack_column){width * test_below(20), width};
  }
  (void)snprintf(m.head.name, sizeof m.head.name, "name-%u", test_below(1000));
  (void)snprintf(m.head.schema, sizeof m.head.schema, "any text");
  m.head.end.version = test_random();
  m.head.flags = puts_only ? PACK_INDEX : 0;
  m.n = n;
  m.value_bytes = pack_value_bytes(&m.head);
  free(m.values);
  m.values = malloc((size_t)n * m.value_bytes + 1);
  for (uint32_t i = 0; i < n; i++) {
    m.keys[i] = (int64_t)(i % 3 ? i : i * UINT64_C(0x9e3779b97f4a7c15));
    m.versions[i] = i * 3u;
    m.ops[i] =
        puts_only || test_below(4) ? PACK_PUT : (uint8_t)(1 + test_below(3));
    for (uint32_t k = 0; k < m.value_bytes; k++)
      m.values[(size_t)i * m.value_bytes + k] = value_byte(i, k);
  }
}

static int by_hash(const void *a, const void *b) {
  uint64_t x = hash_key(m.keys[*(const uint32_t *)a]);
  uint64_t y = hash_key(m.keys[*(const uint32_t *)b]);
  return x < y ? -1 : x > y;
}

static int add_entries(struct pack_writer *w) {
  static uint32_t order[ROWS_MAX];
  int rc = EMB_OK;
  for (uint32_t i = 0; i < m.n; i++)
    order[i] = i;
  qsort(order, m.n, sizeof *order, by_hash);
  for (uint32_t i = 0; rc == EMB_OK && i < m.n; i++)
    rc = pack_add_entry(w, m.keys[order[i]], order[i], &m.err);
  return rc;
}

static int write_pack(struct env *env, const char *path, int level) {
  struct pack_writer *w;
  uint64_t bytes;
  int rc = pack_create(env, path, &m.head, level, &w, &m.err);
  if (rc != EMB_OK)
    return rc;
  if (m.hurry)
    pack_hurry(w, ENV_QUEUE_POOL);
  for (uint32_t i = 0; rc == EMB_OK && i < m.n; i++) {
    struct pack_row row = {m.keys[i], m.versions[i], m.ops[i],
                           m.values + (size_t)i * m.value_bytes};
    rc = pack_add(w, &row, &m.err);
  }
  if (rc == EMB_OK && (m.head.flags & PACK_INDEX) != 0)
    rc = add_entries(w);
  if (rc == EMB_OK)
    return pack_finish(w, &bytes, &m.err);
  pack_abandon(w);
  return rc;
}

/* ---- reading back -------------------------------------------------------- */

static int is_row(const struct pack_row *row, uint32_t i) {
  return row->key == m.keys[i] && row->version == m.versions[i] &&
         row->op == m.ops[i] && (row->value != NULL) == (row->op == PACK_PUT) &&
         (row->value == NULL ||
          memcmp(row->value, m.values + (size_t)i * m.value_bytes,
                 m.value_bytes) == 0);
}

/* Returns 0 if the file reads as written, -1 if it reads differently, or the
** error. */
static int read_pack(struct env *env, const char *path) {
  struct pack_reader *r;
  const struct pack_row *row;
  uint32_t i = 0;
  int same = 1;
  int rc = pack_open(env, path, &r, &m.err);
  if (rc != EMB_OK)
    return rc;
  rc = pack_verify(r, NULL, NULL, &m.err);
  while (rc == EMB_OK && (rc = pack_next(r, &row, &m.err)) == EMB_OK && row)
    same &= i < m.n && is_row(row, i++);
  if (rc == EMB_OK)
    same &= i == m.n && memcmp(pack_reader_head(r)->name, m.head.name,
                               sizeof m.head.name) == 0;
  pack_close(r);
  return rc ? rc : same ? 0 : -1;
}

static void load_file(const char *path) {
  free(m.file);
  m.file = files_load(path, 64, &m.size);
}

static void store_file(const char *path, size_t size) {
  files_save(path, m.file, size);
}

TEST(reads_back_what_was_written) {
  uint64_t rows = 0;
  struct paths p = get_paths();
  const char *path = p.pack;
  for (unsigned i = 0; i < 60 * long_runs(); i++) {
    make_rows(test_below(4) ? test_below(ROWS_MAX) : test_below(3),
              test_below(2) == 0, test_below(7));
    m.hurry = (int)test_below(2);
    if (!CHECK_EQ_INT(write_pack(&env_posix, path, (int)test_below(5)), EMB_OK))
      printf("%s\n", m.err.text);
    if (!CHECK_EQ_INT(read_pack(&env_posix, path), 0))
      printf("%s\n", m.err.text);
    rows += m.n;
  }
  m.hurry = 0;
  test_count("rows written and read back", rows);
}

/* As described in pack.h, for any width and any form of the loop. */
TEST(planes_by_hand) {
  enum { N = 5, MOST = 40 };
  static char rows[N][8 * MOST + 3], planes[N * 8 * MOST], back[sizeof rows];
  for (uint32_t width = 1; width <= 8; width *= 2)
    for (size_t elements = 0; elements <= MOST; elements++) {
      size_t n = elements * N, bad = 0;
      for (size_t i = 0; i < sizeof rows; i++)
        ((char *)rows)[i] = (char)test_random();
      CHECK(block_planes(rows[0], sizeof rows[0], N, elements, width, planes) ==
            planes + n * width);
      for (size_t b = 0; b < width; b++)
        for (size_t e = 0; e < n; e++)
          bad += planes[b * n + e] !=
                 rows[e / (elements ? elements : 1)]
                     [e % (elements ? elements : 1) * width + b];
      CHECK_EQ_INT(bad, 0);
      CHECK(block_rows(planes, N, elements, width, back, sizeof rows[0]) ==
            planes + n * width);
      for (size_t r = 0; r < N; r++)
        CHECK(memcmp(back + r * sizeof rows[0], rows[r], elements * width) ==
              0);
    }
}

TEST(finds_keys) {
  struct pack_reader *r;
  const struct pack_row *row;
  uint64_t at, found = 0;
  struct paths p = get_paths();
  const char *path = p.pack;
  for (int round = 0; round < 4; round++) {
    make_rows(round ? ROWS_MAX - test_below(9) : 1, 1, 3);
    CHECK_EQ_INT(write_pack(&env_posix, path, 1), EMB_OK);
    if (!CHECK_EQ_INT(pack_open(&env_posix, path, &r, &m.err), EMB_OK))
      return;
    for (uint32_t i = 0; i < m.n; i++) {
      uint32_t k = test_below(m.n);
      CHECK_EQ_INT(pack_find(r, m.keys[k], &at, &m.err), EMB_OK);
      CHECK_EQ_INT(at, k);
      if (i % 50 == 0) {
        pack_seek(r, at);
        CHECK_EQ_INT(pack_next(r, &row, &m.err), EMB_OK);
        CHECK(row != NULL && is_row(row, k));
      }
      found++;
      CHECK_EQ_INT(pack_find(r, (int64_t)test_random() | 1 << 30, &at, &m.err),
                   EMB_OK);
      CHECK_EQ_INT(at, UINT64_MAX);
    }
    pack_close(r);
  }
  test_count("keys found through the index", found);
}

/* ---- damage -------------------------------------------------------------- */

TEST(any_flip_and_any_cut_is_told) {
  uint64_t flips = 0, cuts = 0;
  struct paths p = get_paths();
  const char *path = p.pack;
  make_rows(4500, 1, 4);
  CHECK_EQ_INT(write_pack(&env_posix, path, 1), EMB_OK);
  load_file(path);
  for (unsigned i = 0; i < 700 * long_runs(); i++, flips++) {
    size_t at = i < 128   ? i
                : i < 256 ? m.size - 1 - (i - 128)
                          : test_random() % m.size;
    uint8_t bit = (uint8_t)(1u << test_below(8));
    m.file[at] ^= bit;
    store_file(path, m.size);
    int rc = read_pack(&env_posix, path);
    test_check(rc == EMB_CORRUPT || (at < 20 && rc == EMB_NOTADB), __FILE__,
               __LINE__, "byte %zu flipped: %d", at, rc);
    CHECK(strstr(m.err.text, path) != NULL);
    m.file[at] ^= bit;
  }
  for (unsigned i = 0; i < 200 * long_runs(); i++, cuts++) {
    size_t size = i < 40 ? m.size - 1 - i : test_random() % m.size;
    store_file(path, size);
    int rc = read_pack(&env_posix, path);
    test_check(rc == EMB_CORRUPT || (size < 16 && rc == EMB_NOTADB), __FILE__,
               __LINE__, "cut at %zu: %d", size, rc);
  }
  memset(m.file + m.size, 0, 64);
  store_file(path, m.size + 64);
  CHECK_EQ_INT(read_pack(&env_posix, path), EMB_CORRUPT);
  store_file(path, m.size);
  CHECK_EQ_INT(read_pack(&env_posix, path), 0);
  test_count("bits of a pack flipped", flips);
  test_count("packs cut off", cuts);
}

/* Offsets of the blocks of rows, from the directory. */
static size_t block_places(uint64_t *to, size_t max) {
  struct pack_end end;
  memcpy(&end, m.file + m.size - sizeof end, sizeof end);
  size_t n = end.row_blocks < max ? end.row_blocks : max;
  memcpy(to, m.file + end.directory_offset + sizeof(struct pack_block), n * 8);
  return n;
}

TEST(blocks_of_other_places_and_files_are_told) {
  struct paths p = get_paths();
  const char *path = p.pack;
  uint64_t at[16];
  make_rows(ROWS_MAX, 1, 0);
  m.head.column_count = 1;
  m.head.columns[0] = (struct pack_column){64, 4};
  m.value_bytes = 64;
  m.values = realloc(m.values, (size_t)m.n * 64);
  memset(m.values, 7, (size_t)m.n * 64);
  CHECK_EQ_INT(write_pack(&env_posix, path, 0), EMB_OK);
  load_file(path);
  uint8_t *first = malloc(m.size);
  memcpy(first, m.file, m.size);
  CHECK_EQ_INT(write_pack(&env_posix, path, 0), EMB_OK);
  load_file(path);
  size_t n = block_places(at, 16), bytes = at[1] - at[0];
  CHECK(n >= 3 && at[2] - at[1] == bytes);
  /* swapped within the file */
  uint8_t *other = malloc(bytes);
  memcpy(other, m.file + at[0], bytes);
  memcpy(m.file + at[0], m.file + at[1], bytes);
  memcpy(m.file + at[1], other, bytes);
  store_file(path, m.size);
  CHECK_EQ_INT(read_pack(&env_posix, path), EMB_CORRUPT);
  /* the same block of the same rows, from another file */
  memcpy(m.file + at[1], m.file + at[0], bytes);
  memcpy(m.file + at[0], other, bytes);
  store_file(path, m.size);
  CHECK_EQ_INT(read_pack(&env_posix, path), 0);
  memcpy(m.file + at[1], first + at[1], bytes);
  store_file(path, m.size);
  CHECK_EQ_INT(read_pack(&env_posix, path), EMB_CORRUPT);
  /* the complete other file is right */
  memcpy(m.file, first, m.size);
  store_file(path, m.size);
  CHECK_EQ_INT(read_pack(&env_posix, path), 0);
  free(first);
  free(other);
}

/* ---- forgery ------------------------------------------------------------- */

static void sum_block(size_t at, uint64_t position) {
  struct pack_block block;
  uint64_t salt;
  memcpy(&salt, m.file, 8);
  memcpy(&block, m.file + at, sizeof block);
  if (block.stored_bytes > m.size - at - sizeof block)
    block.stored_bytes = 0;
  block.sum = block_sum(&block, m.file + at + sizeof block, salt, position);
  memcpy(m.file + at, &block.sum, 8);
}

/* Corrects all checksums; at: offsets of the n blocks of rows. */
static void sum_all(const uint64_t *at, size_t n) {
  uint64_t sum = hash_sum(m.file + 8, sizeof(struct pack_head) - 8, 0, 0);
  memcpy(m.file, &sum, 8);
  for (size_t i = 0; i < n; i++)
    sum_block(at[i], i);
  sum_block(m.size - PACK_END_BYTES, PACK_END_POSITION);
}

TEST(forged_numbers_are_told_or_harmless) {
  uint64_t refused = 0, tried = 0, at[64];
  struct paths p = get_paths();
  const char *path = p.pack;
  make_rows(3000, 1, 4);
  CHECK_EQ_INT(write_pack(&env_posix, path, 1), EMB_OK);
  load_file(path);
  uint8_t *whole = malloc(m.size);
  memcpy(whole, m.file, m.size);
  for (unsigned i = 0; i < 600 * long_runs(); i++, tried++) {
    memcpy(m.file, whole, m.size);
    size_t n = block_places(at, 64), place;
    uint64_t number =
        test_below(3) ? test_random() >> test_below(64) : test_below(5000);
    switch (test_below(3)) {
    case 0: /* the numbers of the head, not its name or text */
      place = 16 + test_below(26) * 4;
      place = test_below(3) ? place : 272 + test_below(24) * 8;
      break;
    case 1: /* of a block */
      place = at[test_below((uint32_t)n)] + 8 + test_below(6) * 4;
      break;
    default:
      place = m.size - sizeof(struct pack_end) + test_below(12) * 8;
    }
    memcpy(m.file + place, &number, test_below(2) ? 4 : 8);
    sum_all(at, n);
    store_file(path, m.size);
    int rc = read_pack(&env_posix, path);
    refused += rc != 0;
    /* Marks and similar numbers do not matter here. */
    test_check(rc == EMB_CORRUPT || rc == EMB_NOTADB || rc == 0, __FILE__,
               __LINE__, "number at %zu: %d %s", place, rc, m.err.text);
  }
  free(whole);
  CHECK(refused > tried / 3);
  test_count("numbers forged", tried);
}

/* ---- the file that was there --------------------------------------------- */

static void check_is_old(const char *path) {
  char text[8] = "";
  FILE *f = fopen(path, "rb");
  CHECK(f != NULL && fread(text, 1, 7, f) == 7);
  CHECK_STR(text, "not emb");
  if (f != NULL)
    (void)fclose(f);
}

TEST(what_is_no_pack_is_not_replaced) {
  struct paths p = get_paths();
  const char *path = p.pack, *made = p.made;
  char link[300], none[300];
  (void)snprintf(link, sizeof link, "%s/link", test_dir());
  (void)snprintf(none, sizeof none, "%s/none/p", test_dir());
  make_rows(10, 1, 1);
  m.file = realloc(m.file, 64);
  memcpy(m.file, "not emb", 8);
  store_file(path, 8);
  CHECK_EQ_INT(write_pack(&env_posix, path, 1), EMB_CANTOPEN);
  check_is_old(path);
  CHECK(unlink(path) == 0);
  store_file(made, 8);
  CHECK_EQ_INT(write_pack(&env_posix, path, 1), EMB_CANTOPEN);
  check_is_old(made);
  store_file(made, 0); /* left by a write that was cut off early */
  CHECK_EQ_INT(write_pack(&env_posix, path, 1), EMB_OK);
  CHECK(access(made, F_OK) != 0);
  CHECK(symlink("p", link) == 0);
  CHECK_EQ_INT(read_pack(&env_posix, link), EMB_CANTOPEN);
  CHECK_EQ_INT(write_pack(&env_posix, link, 1), EMB_CANTOPEN);
  CHECK_EQ_INT(read_pack(&env_posix, test_dir()), EMB_CANTOPEN);
  CHECK_EQ_INT(read_pack(&env_posix, none), EMB_CANTOPEN);
  CHECK_EQ_INT(write_pack(&env_posix, none, 1), EMB_CANTOPEN);
  CHECK_EQ_INT(read_pack(&env_posix, path), 0);
}

/* Every call fails once: the old pack is there, or the complete new one. */
static void fail_writes(uint32_t kinds, int error) {
  struct failing f;
  struct paths p = get_paths();
  const char *path = p.pack;
  uint64_t n, points = 0;
  failing_init(&f, &env_posix, test_state.seed);
  for (n = 1;; n++, points++) {
    make_rows(2000, 1, 2);
    CHECK_EQ_INT(write_pack(&env_posix, path, 1), EMB_OK);
    uint32_t old = m.n;
    m.n = 1500 + (uint32_t)(n % 7);
    failing_arm(&f, kinds, n, 0, error);
    int rc = write_pack(&f.env, path, 1);
    uint64_t fired = f.fired;
    failing_disarm(&f);
    CHECK_EQ_INT(failing_out(&f), 0);
    CHECK(access(p.made, F_OK) != 0 || f.first == FAILING_UNLINK);
    if (fired == 0) {
      CHECK_EQ_INT(rc, EMB_OK);
      break;
    }
    if (rc != EMB_OK && f.first != FAILING_SYNC_DIR)
      m.n = old;
    CHECK(rc == EMB_OK || m.err.text[0] != 0);
    CHECK_EQ_INT(read_pack(&env_posix, path), 0);
    if (!CHECK(n < 10000))
      break;
  }
  failing_free(&f);
  test_count("calls failed while a pack was written", points);
}

TEST(a_failed_write_leaves_the_old_one) {
  fail_writes(FAILING_IO, EIO);
  fail_writes(FAILING_WRITES, ENOSPC);
  fail_writes(FAILING_MEMORY, ENOMEM);
  m.hurry = 1;
  fail_writes(FAILING_IO, EIO);
  fail_writes(FAILING_WRITES, ENOSPC);
  fail_writes(FAILING_MEMORY | FAILING_BIT(FAILING_THREAD_START), ENOMEM);
  m.hurry = 0;
}

TEST(a_failed_read_is_told) {
  struct failing f;
  struct paths p = get_paths();
  const char *path = p.pack;
  uint64_t points = 0;
  failing_init(&f, &env_posix, test_state.seed);
  make_rows(3000, 1, 2);
  CHECK_EQ_INT(write_pack(&env_posix, path, 1), EMB_OK);
  for (uint64_t n = 1; n < 10000; n++, points++) {
    int memory = (int)(n % 2);
    failing_arm(&f, memory ? FAILING_MEMORY : FAILING_IO, (n + 1) / 2, 0,
                memory ? ENOMEM : EIO);
    int rc = read_pack(&f.env, path);
    uint64_t fired = f.fired;
    failing_disarm(&f);
    CHECK_EQ_INT(failing_out(&f), 0);
    test_check(fired ? rc == EMB_NOMEM || rc == EMB_IOERR || rc == EMB_CANTOPEN
                     : rc == 0,
               __FILE__, __LINE__, "call %" PRIu64 ": %d", n, rc);
    if (!fired && memory == 0)
      break;
  }
  failing_free(&f);
  test_count("calls failed while a pack was read", points);
}

/* ---- options ------------------------------------------------------------- */

TEST(options_as_text) {
  static const char *const wrong[] = {"level",
                                      "level=",
                                      "level=20",
                                      "level=-1",
                                      "quantize=int",
                                      "state=2",
                                      "colour=red",
                                      "level=1 2",
                                      "base=",
                                      "level=1,=2",
                                      "level=99999999999999999999",
                                      ",level=1",
                                      "level==1",
                                      "quantize"};
  struct pack_options o;
  int all = PACK_TAKES_INDEX | PACK_TAKES_BASE;
  CHECK_EQ_INT(pack_options_parse(&o, NULL, all, &m.err), EMB_OK);
  CHECK(o.level == 1 && o.state == 1 && o.index == 1 && o.encoding == 0);
  CHECK_EQ_INT(pack_options_parse(&o,
                                  " quantize = int4 ,level=19,state=0, "
                                  "index=0 , base=x.y-1 ",
                                  all, &m.err),
               EMB_OK);
  CHECK(o.level == 19 && o.state == 0 && o.index == 0 && o.encoding == 3);
  CHECK_STR(o.base, "x.y-1");
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    test_check(pack_options_parse(&o, wrong[i], all, &m.err) == EMB_RANGE,
               __FILE__, __LINE__, "'%s' was taken", wrong[i]);
  CHECK_EQ_INT(pack_options_parse(&o, "base=x", PACK_TAKES_INDEX, &m.err),
               EMB_RANGE);
  CHECK(strstr(m.err.text, "'base'") != NULL);
  CHECK_EQ_INT(pack_options_parse(&o, "index=1", 0, &m.err), EMB_RANGE);
}
