/* SPDX-License-Identifier: MIT
**
** keys.c -- fuzzes lists of keys and single keys as SQL passes them.
**
** INPUT     byte 0  0 BLOB, 1 TEXT, 2 a REAL, 3 an INTEGER; then the value
*/
#include "fuzz.h"

#include "ext/value/value.h"

static void check(int rc, char *err) {
  if (rc != SQLITE_OK)
    FUZZ_CHECK(err && err[0] &&
               (rc == SQLITE_MISMATCH || rc == SQLITE_ERROR ||
                rc == SQLITE_CONSTRAINT));
  sqlite3_free(err);
}

static void read_value(sqlite3_context *context, int argc,
                       sqlite3_value **argv) {
  int64_t *keys = NULL, key = 0, sum = 0;
  char *err = NULL;
  int owned = 0;
  size_t n = 0;
  (void)argc, (void)context;
  int rc = ext_keys_from_value(argv[0], &(struct ext_arg){.what = "k"}, &keys,
                               &owned, &n, &err);
  for (size_t i = 0; rc == SQLITE_OK && i < n; i++) {
    memcpy(&key, (const char *)keys + i * sizeof key, sizeof key);
    sum ^= key; /* every key can be read */
  }
  check(rc, err);
  if (rc == SQLITE_OK && owned)
    sqlite3_free(keys);
  err = NULL;
  rc = ext_key_from_value(argv[0], "k", &key, &err);
  if (rc == SQLITE_OK)
    FUZZ_CHECK(sqlite3_value_type(argv[0]) == SQLITE_INTEGER
                   ? key == sqlite3_value_int64(argv[0])
                   : (double)key == sqlite3_value_double(argv[0]));
  check(rc, err);
  sqlite3_result_int64(context, sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static sqlite3 *db;
  static sqlite3_stmt *call;
  double real = 0;
  int64_t integer = 0;
  if (db == NULL) {
    FUZZ_CHECK(sqlite3_open(":memory:", &db) == SQLITE_OK);
    FUZZ_CHECK(sqlite3_create_function(db, "f", 1, SQLITE_UTF8, NULL,
                                       read_value, NULL, NULL) == SQLITE_OK);
    FUZZ_CHECK(sqlite3_prepare_v2(db, "SELECT f(?1)", -1, &call, NULL) ==
               SQLITE_OK);
  }
  if (size == 0)
    return 0;
  const uint8_t *value = data + 1;
  size--;
  memcpy(&real, value, size < sizeof real ? size : sizeof real);
  memcpy(&integer, value, size < sizeof integer ? size : sizeof integer);
  switch (data[0] % 4) {
  case 0:
    sqlite3_bind_blob(call, 1, value, (int)size, SQLITE_STATIC);
    break;
  case 1:
    sqlite3_bind_text(call, 1, (const char *)value, (int)size, SQLITE_STATIC);
    break;
  case 2:
    sqlite3_bind_double(call, 1, real);
    break;
  default:
    sqlite3_bind_int64(call, 1, integer);
  }
  (void)sqlite3_step(call);
  (void)sqlite3_reset(call);
  return 0;
}
