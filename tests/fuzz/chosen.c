/* SPDX-License-Identifier: MIT
**
** chosen.c -- fuzzes coresets: from any bytes emb_chosen makes the rows that
** they encode, or an error; and with any text as its method emb_coreset
** chooses as many different rows as were asked for, which emb_chosen returns.
**
** INPUT     byte 0  bits 0-1: 0: a BLOB as it is; 1: one whose head is made
**                   right; 2, 3: rows, and the text of a method
**           a BLOB: the rest
**           rows:   a byte each: how many (to 32), dimension (to 8), how many
**                   to choose; bit 0: coordinates are float32 of any bits, else
**                   eighths of a signed byte; the coordinates; the text
*/
#include "fuzz.h"

#include "ext/data/choose/choose.h"

#include <math.h>

int sqlite3_emb_init(sqlite3 *db, char **message, const void *api);

enum { ROWS_MAX = 32, DIM_MAX = 8 };

static sqlite3 *db;

static void check_error(void) {
  int code = sqlite3_errcode(db);
  FUZZ_CHECK(code == SQLITE_MISMATCH || code == SQLITE_ERROR ||
             code == SQLITE_CONSTRAINT);
  FUZZ_CHECK(strncmp(sqlite3_errmsg(db), "emb: ", 5) == 0);
}

static struct ext_chosen row_of(const uint8_t *blob, size_t i) {
  struct ext_chosen row;
  memcpy(&row, blob + CHOSEN_HEAD + i * sizeof row, sizeof row);
  return row;
}

/* ---- emb_chosen ---------------------------------------------------------- */

static sqlite3_stmt *chosen;

static int is_coreset(const uint8_t *blob, size_t n) {
  uint64_t head[2];
  if (n < CHOSEN_HEAD)
    return 0;
  memcpy(head, blob, sizeof head);
  if (head[0] != CHOSEN_MAGIC || (n - CHOSEN_HEAD) % 24 != 0 ||
      head[1] != (n - CHOSEN_HEAD) / 24)
    return 0;
  for (size_t i = 0; i < head[1]; i++) {
    struct ext_chosen row = row_of(blob, i);
    if (!isfinite(row.weight) || row.weight < 0 || isinf(row.gain))
      return 0;
  }
  return 1;
}

static void check_row(const struct ext_chosen *row, size_t rank) {
  FUZZ_CHECK(sqlite3_column_int64(chosen, 0) == (int64_t)rank);
  FUZZ_CHECK(sqlite3_column_int64(chosen, 1) == row->key);
  FUZZ_CHECK(sqlite3_column_double(chosen, 2) == row->weight);
  FUZZ_CHECK(isnan(row->gain) ? sqlite3_column_type(chosen, 3) == SQLITE_NULL
                              : sqlite3_column_double(chosen, 3) == row->gain);
}

/* The rows are exactly those that the bytes encode. */
static void read_back(const uint8_t *blob, size_t n) {
  int rc, right = is_coreset(blob, n);
  size_t rows = 0;
  sqlite3_bind_blob64(chosen, 1, n ? (const void *)blob : "", n, SQLITE_STATIC);
  while ((rc = sqlite3_step(chosen)) == SQLITE_ROW) {
    FUZZ_CHECK(right && rows < (n - CHOSEN_HEAD) / 24);
    struct ext_chosen row = row_of(blob, rows);
    check_row(&row, ++rows);
  }
  if (right)
    FUZZ_CHECK(rc == SQLITE_DONE && rows == (n - CHOSEN_HEAD) / 24);
  else
    check_error();
  (void)sqlite3_reset(chosen);
  (void)sqlite3_clear_bindings(chosen);
}

static void a_blob(struct fuzz_input *in, int is_made_right) {
  uint8_t *blob = malloc(CHOSEN_HEAD + in->left);
  size_t n = in->left;
  FUZZ_CHECK(blob != NULL);
  if (is_made_right) {
    uint64_t head[] = {CHOSEN_MAGIC, n / sizeof(struct ext_chosen)};
    n = CHOSEN_HEAD + (size_t)head[1] * sizeof(struct ext_chosen);
    memcpy(blob, head, sizeof head);
    memcpy(blob + CHOSEN_HEAD, in->at, n - CHOSEN_HEAD);
  } else if (n > 0) {
    memcpy(blob, in->at, n);
  }
  read_back(blob, n);
  free(blob);
}

/* ---- emb_coreset --------------------------------------------------------- */

static sqlite3_stmt *coreset;
static float points[ROWS_MAX][DIM_MAX];
static uint32_t dim;

/* point(i): the vector of row i. */
static void point(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  sqlite3_result_blob(context, points[sqlite3_value_int(argv[0])],
                      (int)(dim * sizeof(float)), SQLITE_STATIC);
}

/* Checks that k of the n rows are chosen, each once; keys are 100 - i. */
static void check_coreset(const uint8_t *blob, size_t size, size_t n,
                          size_t k) {
  uint8_t seen[ROWS_MAX] = {0};
  FUZZ_CHECK(is_coreset(blob, size));
  FUZZ_CHECK(size == CHOSEN_HEAD + (k < n ? k : n) * 24);
  for (size_t i = 0; i < (size - CHOSEN_HEAD) / 24; i++) {
    int64_t key = row_of(blob, i).key;
    FUZZ_CHECK(key <= 100 && key > 100 - (int64_t)n && !seen[100 - key]);
    seen[100 - key] = 1;
  }
}

static void rows(struct fuzz_input *in) {
  size_t n = 1 + fuzz_byte(in) % ROWS_MAX;
  dim = 1 + fuzz_byte(in) % DIM_MAX;
  size_t k = 1 + fuzz_byte(in) % (ROWS_MAX + 3);
  int any = fuzz_byte(in) & 1;
  for (size_t i = 0; i < n; i++)
    for (uint32_t d = 0; d < dim; d++) {
      uint32_t bits = any ? (uint32_t)fuzz_bytes(in, 4) : 0;
      if (any)
        memcpy(&points[i][d], &bits, sizeof bits);
      else
        points[i][d] = (float)(int8_t)fuzz_byte(in) / 8;
    }
  sqlite3_bind_int64(coreset, 1, (sqlite3_int64)n);
  sqlite3_bind_int64(coreset, 2, (sqlite3_int64)k);
  sqlite3_bind_text(coreset, 3, in->left ? (const char *)in->at : "",
                    (int)in->left, SQLITE_TRANSIENT);
  int rc = sqlite3_step(coreset);
  if (rc == SQLITE_ROW) {
    const uint8_t *blob = sqlite3_column_blob(coreset, 0);
    size_t size = (size_t)sqlite3_column_bytes(coreset, 0);
    check_coreset(blob, size, n, k);
    read_back(blob, size);
  } else {
    check_error();
  }
  (void)sqlite3_reset(coreset);
  (void)sqlite3_clear_bindings(coreset);
}

static void prepare(const char *sql, sqlite3_stmt **to) {
  FUZZ_CHECK(sqlite3_prepare_v2(db, sql, -1, to, NULL) == SQLITE_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input in = {data, size};
  if (db == NULL) {
    FUZZ_CHECK(sqlite3_open(":memory:", &db) == SQLITE_OK);
    FUZZ_CHECK((sqlite3_emb_init(db, NULL, NULL) & 0xff) == SQLITE_OK);
    FUZZ_CHECK(sqlite3_create_function(db, "point", 1, SQLITE_UTF8, NULL, point,
                                       NULL, NULL) == SQLITE_OK);
    prepare("SELECT rank, key, weight, gain FROM emb_chosen(?1)", &chosen);
    prepare("WITH RECURSIVE i(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM i "
            "WHERE i < ?1 - 1) "
            "SELECT emb_coreset(100 - i, point(i), ?2, ?3) FROM i",
            &coreset);
  }
  unsigned how = fuzz_byte(&in) & 3;
  if (how < 2)
    a_blob(&in, how == 1);
  else
    rows(&in);
  return 0;
}
