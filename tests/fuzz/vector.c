/* SPDX-License-Identifier: MIT
**
** vector.c -- fuzzes vectors and matrices as SQL passes them, and decimal
** numbers, which are compared with strtof.
**
** INPUT     byte 0  bit 0 BLOB, else TEXT; bit 1 a matrix
**           byte 1  dimension, byte 2 rows
**           then the value
*/
#include "fuzz.h"

#include "ext/value/value.h"

#include <math.h>

/* The number at the start of text, read twice. */
static void check_decimal(const char *text, size_t size) {
  struct decimal number;
  char printed[DECIMAL_PRINT_MAX + 1], *copy;
  int valid = 0;
  size_t n = ext_decimal_scan(text, size, &number, &valid);
  FUZZ_CHECK(n <= size);
  if (!valid || (copy = malloc(n + 1)) == NULL)
    return;
  memcpy(copy, text, n);
  copy[n] = 0;
  float ours = ext_decimal_to_float(&number), theirs = strtof(copy, NULL);
  FUZZ_CHECK(memcmp(&ours, &theirs, sizeof ours) == 0);
  free(copy);
  if (!isfinite(ours))
    return;
  n = ext_decimal_print(ours, printed);
  FUZZ_CHECK(n > 0 && n <= DECIMAL_PRINT_MAX);
  printed[n] = 0;
  theirs = strtof(printed, NULL);
  FUZZ_CHECK(memcmp(&ours, &theirs, sizeof ours) == 0);
}

static void check_error(int rc, char *err) {
  FUZZ_CHECK(rc == SQLITE_MISMATCH || rc == SQLITE_CONSTRAINT ||
             rc == SQLITE_ERROR);
  FUZZ_CHECK(err && err[0]);
  sqlite3_free(err);
}

static void read_value(sqlite3_context *context, int argc,
                       sqlite3_value **argv) {
  const uint8_t *head = sqlite3_user_data(context);
  uint32_t dim = head[1] % 32;
  struct ext_floats out;
  char *err = NULL;
  int rc;
  (void)argc;
  if (head[0] & 2) {
    rc = ext_matrix_from_value(argv[0], &(struct ext_arg){.what = "m"},
                               dim ? dim : 1, head[2] % 32, &out, &err);
    if (rc == SQLITE_OK)
      FUZZ_CHECK(out.n == head[2] % 32 * (dim ? dim : 1));
  } else {
    rc = ext_vec_from_value(argv[0], &(struct ext_arg){.what = "v"}, dim, &out,
                            &err);
  }
  if (rc == SQLITE_OK) {
    for (uint32_t i = 0; i < out.n; i++) {
      float x;
      memcpy(&x, (const char *)out.at + i * sizeof x, sizeof x);
      FUZZ_CHECK(isfinite(x));
    }
    FUZZ_CHECK(err == NULL && (head[0] & 2 || dim == 0 || out.n == dim));
    ext_floats_free(&out);
  } else {
    check_error(rc, err);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static sqlite3 *db;
  static sqlite3_stmt *call;
  static uint8_t head[3];
  if (db == NULL) {
    FUZZ_CHECK(sqlite3_open(":memory:", &db) == SQLITE_OK);
    FUZZ_CHECK(sqlite3_create_function(db, "f", 1, SQLITE_UTF8, head,
                                       read_value, NULL, NULL) == SQLITE_OK);
    FUZZ_CHECK(sqlite3_prepare_v2(db, "SELECT f(?1)", -1, &call, NULL) ==
               SQLITE_OK);
  }
  if (size < 3)
    return 0;
  memcpy(head, data, 3);
  data += 3;
  size -= 3;
  check_decimal((const char *)data, size);
  if (head[0] & 1)
    sqlite3_bind_blob(call, 1, data, (int)size, SQLITE_STATIC);
  else
    sqlite3_bind_text(call, 1, (const char *)data, (int)size, SQLITE_STATIC);
  (void)sqlite3_step(call);
  (void)sqlite3_reset(call);
  return 0;
}
