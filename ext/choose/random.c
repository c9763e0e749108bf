/* SPDX-License-Identifier: MIT
**
** random.c -- emb_random(seed, key [, stream]): a number from 0 up to 1, always
** the same for the same arguments.
*/
#include "choose.h"
SQLITE_EXTENSION_INIT3

/* 0 after the error is the result. */
static int random_word(sqlite3_context *context, sqlite3_value *value,
                       const char *what, uint64_t *word) {
  int type = sqlite3_value_type(value), rc;
  char *err = NULL;
  int64_t integer = 0;
  if (type == SQLITE_TEXT || type == SQLITE_BLOB) {
    const void *bytes = type == SQLITE_TEXT ? sqlite3_value_text(value)
                                            : sqlite3_value_blob(value);
    size_t n = (size_t)sqlite3_value_bytes(value);
    if (bytes || n == 0) {
      *word = emb_random_bytes(bytes ? bytes : "", n, type == SQLITE_TEXT);
      return 1;
    }
    sqlite3_result_error_nomem(context);
    return 0;
  }
  rc = ext_key_from_value(value, what, &integer, &err);
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
  *word = emb_random_integer(integer);
  return rc == SQLITE_OK;
}

static void call_random(sqlite3_context *context, int argc,
                        sqlite3_value **argv) {
  static const char *const names[] = {"argument 1 of emb_random",
                                      "argument 2 of emb_random",
                                      "argument 3 of emb_random"};
  uint64_t words[3] = {0, 0, emb_random_integer(0)};
  for (int i = 0; i < argc; i++)
    if (sqlite3_value_type(argv[i]) == SQLITE_NULL)
      return;
  for (int i = 0; i < argc; i++)
    if (!random_word(context, argv[i], names[i], &words[i]))
      return;
  sqlite3_result_double(context, emb_random(words[0], words[2], words[1]));
}

int ext_choose_random_register(sqlite3 *db) {
  int rc = SQLITE_OK;
  for (int argc = 2; argc <= 3 && rc == SQLITE_OK; argc++)
    rc = sqlite3_create_function_v2(db, "emb_random", argc, CHOOSE_FLAGS, NULL,
                                    call_random, NULL, NULL, NULL);
  return rc;
}
