/* SPDX-License-Identifier: MIT
**
** value.c -- memory shared by SQLite and a cursor.
*/
#include "value.h"
SQLITE_EXTENSION_INIT3

struct ext_value *ext_value_new(size_t size) {
  struct ext_value *value = sqlite3_malloc64(sizeof *value + size);
  if (value) {
    value->refs = 1;
    value->size = size;
  }
  return value;
}

void ext_value_drop(struct ext_value *value) {
  emb_assert(!value || value->refs > 0);
  if (value && --value->refs == 0)
    sqlite3_free(value);
}

static void drop_data(void *data) {
  ext_value_drop((struct ext_value *)data - 1);
}

void ext_value_result(sqlite3_context *context, struct ext_value *value) {
  emb_assert(value->refs > 0);
  value->refs++;
  sqlite3_result_blob64(context, ext_value_data(value), value->size, drop_data);
}
