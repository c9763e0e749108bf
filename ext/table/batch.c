/* SPDX-License-Identifier: MIT
**
** batch.c -- items(:keys): one row with all vectors.
*/
#include "table_cursor.h"
SQLITE_EXTENSION_INIT3

/* Allocates the columns that the statement reads. */
static int batch_make_room(struct ext_cursor *cursor, size_t n, char **err) {
  struct ext_table *table = ext_cursor_table(cursor);
  uint32_t dim = ext_vtab(table)->options.config.dim;
  if (cursor->flags & EXT_PLAN_VECTORS) {
    int rc = ext_check_size(table->conn->db, n, dim, err);
    if (rc != SQLITE_OK)
      return rc;
    cursor->batch_vectors = ext_value_new(n * dim * sizeof(float));
    if (cursor->batch_vectors == NULL)
      return SQLITE_NOMEM;
  }
  if (cursor->flags & EXT_PLAN_FOUND &&
      (cursor->batch_found = ext_value_new(n)) == NULL)
    return SQLITE_NOMEM;
  if (cursor->flags & EXT_PLAN_BATCH_VERSIONS &&
      (cursor->batch_versions = ext_value_new(n * sizeof(uint64_t))) == NULL)
    return SQLITE_NOMEM;
  return SQLITE_OK;
}

int ext_batch_read(struct ext_cursor *cursor, sqlite3_value *value,
                   char **err) {
  struct ext_keys keys = {0};
  struct ext_table *table = ext_cursor_table(cursor);
  emb_assert(!cursor->is_batch && !cursor->scan);
  int rc = ext_keys_read(table, value, "keys", &keys, err);
  if (rc == SQLITE_OK)
    rc = batch_make_room(cursor, keys.n, err);
  if (rc == SQLITE_OK && !cursor->peek && cursor->flags & EXT_PLAN_VECTORS)
    rc = ext_keys_look(table, &keys, err);
  cursor->peek |= keys.peeks;
  if (rc == SQLITE_OK)
    rc = ext_cursor_read(
        cursor, keys.at, keys.n,
        &(emb_rows){.vectors = ext_value_data(cursor->batch_vectors),
                    .found = ext_value_data(cursor->batch_found),
                    .versions = ext_value_data(cursor->batch_versions)},
        err);
  if (rc == SQLITE_OK && keys.settles)
    rc = ext_keys_settle(table, &keys, err);
  ext_keys_free(&keys);
  cursor->is_batch = cursor->is_one = 1;
  cursor->n = rc == SQLITE_OK;
  return rc;
}

void ext_batch_drop(struct ext_cursor *cursor) {
  ext_value_drop(cursor->batch_vectors);
  ext_value_drop(cursor->batch_found);
  ext_value_drop(cursor->batch_versions);
  cursor->batch_vectors = cursor->batch_found = cursor->batch_versions = NULL;
  cursor->is_batch = 0;
}

void ext_batch_column(const struct ext_cursor *cursor, sqlite3_context *context,
                      int column) {
  struct ext_value *value = NULL;
  emb_assert(cursor->is_batch);
  if (column == EXT_VECTORS)
    value = cursor->batch_vectors;
  else if (column == EXT_FOUND)
    value = cursor->batch_found;
  else if (column == EXT_VERSIONS)
    value = cursor->batch_versions;
  if (value)
    ext_value_result(context, value);
}
