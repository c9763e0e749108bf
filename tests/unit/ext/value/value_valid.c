/* SPDX-License-Identifier: MIT
**
** value_valid.c -- the assertions of values and their conversions fire.
*/
#include "death.h"
#include "sql_help.h"

#include "ext/value/value.h"

TEST(vectors) {
  float one = 1;
  struct ext_floats floats = {&one, 1, 0};
  CHECK(ext_floats_valid(&floats));
  CHECK_FIRES(floats = (struct ext_floats){NULL, 0, 1};
              ext_floats_valid(&floats));
  CHECK_FIRES(floats.at = NULL; ext_floats_valid(&floats));
  CHECK_FIRES(ext_result_vec(NULL, "emb_add", &one, 0));
}

TEST(texts) {
  struct ext_text one = {"one", 3};
  struct ext_texts texts = {&one, 1, NULL};
  CHECK(ext_texts_valid(&texts));
  CHECK_FIRES(texts.at = NULL; ext_texts_valid(&texts));
  CHECK_FIRES(one.at = NULL; ext_texts_keep(&texts));
}

TEST(numbers) {
  static const char text[] = "12345678901234567890123";
  struct decimal number;
  int valid;
  ext_decimal_scan(text, sizeof text - 1, &number, &valid);
  CHECK(valid && number.more && ext_decimal_valid(&number));
  CHECK_FIRES(number.digits = UINT64_MAX; ext_decimal_valid(&number));
  CHECK_FIRES(number.digits = 5; ext_decimal_valid(&number));
  CHECK_FIRES(number.text_size = 5; ext_decimal_valid(&number));
  CHECK_ALL_FIRED("ext/value/value_valid.c");
}

TEST(preconditions) {
  struct ext_value *value = ext_value_new(4);
  struct ext_pair_names names = {.n = 65};
  sqlite3 *db = sql_connect(":memory:", 0);
  struct ext_range range;
  struct ext_reals reals;
  char *err = NULL;
  int64_t number;
  ext_range_all(&range);
  ext_reals_all(&reals);
  CHECK_FIRES(value->refs = 0; ext_value_result(NULL, value));
  CHECK_FIRES(value->refs = 0; ext_value_drop(value));
  CHECK_FIRES(ext_pairs(NULL, &names, NULL, &err));
  CHECK_FIRES(ext_check_size(db, 1, 0, &err));
  CHECK_FIRES(ext_range_narrow(&range, '!', NULL));
  CHECK_FIRES(ext_reals_narrow(&reals, 0, NULL));
  CHECK_FIRES(ext_arg_from_one(NULL, "k", 0, &number, &err));
  ext_value_drop(value);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  CHECK_ALL_FIRED("ext/value/range.c");
  CHECK_ALL_FIRED("ext/value/pairs.c");
  CHECK_ALL_FIRED("ext/value/argument.c");
  CHECK_ALL_FIRED("ext/value/value.c");
}
