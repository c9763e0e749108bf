/* SPDX-License-Identifier: MIT
**
** random.c -- emb_random(seed, key [, stream]): a number from 0 up to 1, always
** the same for the same arguments.  emb_exponential takes the same arguments
** and returns -ln(1 - emb_random(...)).  Divide it by each row's weight: the
** rows with the least quotients are a draw in proportion to the weights.
*/
#include "engine/data/emb_data.h"
#include "choose.h"
SQLITE_EXTENSION_INIT3

#include <math.h>

/* Returns 0 after an error, which is then the result. */
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

static const char random_uniform[] = "emb_random";
static const char random_exponential[] = "emb_exponential";

static void call_random(sqlite3_context *context, int argc,
                        sqlite3_value **argv) {
  const char *name = sqlite3_user_data(context);
  uint64_t words[3] = {0, 0, emb_random_integer(0)};
  for (int i = 0; i < argc; i++)
    if (sqlite3_value_type(argv[i]) == SQLITE_NULL)
      return;
  for (int i = 0; i < argc; i++) {
    char what[48];
    sqlite3_snprintf(sizeof what, what, "argument %d of %s", i + 1, name);
    if (!random_word(context, argv[i], what, &words[i]))
      return;
  }
  double x = emb_random(words[0], words[2], words[1]);
  sqlite3_result_double(context,
                        name == random_exponential ? 0 - log(1 - x) : x);
}

int ext_choose_random_register(sqlite3 *db) {
  static const char *const names[] = {random_uniform, random_exponential};
  int rc = SQLITE_OK;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    for (int argc = 2; argc <= 3 && rc == SQLITE_OK; argc++)
      rc = sqlite3_create_function_v2(db, names[i], argc, CHOOSE_FLAGS,
                                      (void *)(uintptr_t)names[i], call_random,
                                      NULL, NULL, NULL);
  return rc;
}
