/* SPDX-License-Identifier: MIT
**
** value_valid.c -- checks vectors, texts and numbers that were read from SQL
** without an error.  Only in builds with self-checks (engine/base/debug.h).
*/
#include "value.h"
SQLITE_EXTENSION_INIT3

#if EMB_DEBUG > 0

int ext_floats_valid(const struct ext_floats *floats) {
  emb_assert(!floats->owned || floats->at);
  emb_assert(!floats->n || floats->at);
  return 1;
}

int ext_texts_valid(const struct ext_texts *texts) {
  emb_assert(!texts->n || texts->at);
  for (size_t i = 0; i < texts->n; i++)
    emb_assert(texts->at[i].at != NULL); /* also where it is empty */
  return 1;
}

int ext_decimal_valid(const struct decimal *number) {
  const uint64_t ten_18 = UINT64_C(1000000000000000000);
  emb_assert(number->digits / 10 < ten_18);
  /* Digits were left over only after all 19 were taken. */
  emb_assert(!number->more || number->digits >= ten_18);
  emb_assert(!number->more || number->text_size > 19);
  return 1;
}

#endif
