/* SPDX-License-Identifier: MIT
**
** words.c -- the collation emb_word, which compares words in SQL as
** engine/base/near.h does in C: without the case of ASCII letters, and with `-`
** as `_`.
**
** For the SQL of pipelines (data/pipeline/), whose policies and options
** are rows of tables.  emb never stores the collation in a schema.
*/
#include "value.h"
SQLITE_EXTENSION_INIT3

static int words_order(void *arg, int n, const void *a, int m, const void *b) {
  (void)arg;
  return near_order(a, (size_t)n, b, (size_t)m);
}

int ext_words_register(sqlite3 *db) {
  return sqlite3_create_collation_v2(db, "emb_word", SQLITE_UTF8, NULL,
                                     words_order, NULL);
}
