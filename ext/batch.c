/* SPDX-License-Identifier: MIT
**
** batch.c -- items(:keys): one row with all vectors.
*/
#include "cursor.h"
SQLITE_EXTENSION_INIT3

static struct ext_value *new_value(size_t size) {
  struct ext_value *value = sqlite3_malloc64(sizeof *value + size);
  if (value) {
    value->refs = 1;
    value->size = size;
  }
  return value;
}

static void drop(struct ext_value *value) {
  if (value && --value->refs == 0)
    sqlite3_free(value);
}

static void drop_data(void *data) { drop((struct ext_value *)data - 1); }

static void *data_of(struct ext_value *value) {
  return value ? value + 1 : NULL;
}

/* Room for what the statement asks for. */
static int make_room(struct ext_cursor *cursor, size_t n, char **err) {
  struct ext_table *table = ext_cursor_table(cursor);
  uint32_t dim = table->options.config.dim;
  if (cursor->flags & EXT_PLAN_VECTORS) {
    int rc = ext_check_size(table->conn->db, n, dim, err);
    if (rc != SQLITE_OK)
      return rc;
    cursor->batch_vectors = new_value(n * dim * sizeof(float));
    if (cursor->batch_vectors == NULL)
      return SQLITE_NOMEM;
  }
  if (cursor->flags & EXT_PLAN_FOUND &&
      (cursor->batch_found = new_value(n)) == NULL)
    return SQLITE_NOMEM;
  if (cursor->flags & EXT_PLAN_BATCH_VERSIONS &&
      (cursor->batch_versions = new_value(n * sizeof(uint64_t))) == NULL)
    return SQLITE_NOMEM;
  return SQLITE_OK;
}

int ext_batch_read(struct ext_cursor *cursor, sqlite3_value *value,
                   char **err) {
  int64_t *keys = NULL;
  int owned = 0;
  size_t n = 0;
  int rc = emb_keys_from_value(value, "keys", &keys, &owned, &n, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = make_room(cursor, n, err);
  if (rc == SQLITE_OK)
    rc = ext_cursor_read(cursor, keys, n, data_of(cursor->batch_vectors),
                         data_of(cursor->batch_found),
                         data_of(cursor->batch_versions), err);
  if (owned)
    sqlite3_free(keys);
  cursor->is_batch = 1;
  cursor->n = rc == SQLITE_OK;
  return rc;
}

void ext_batch_drop(struct ext_cursor *cursor) {
  drop(cursor->batch_vectors);
  drop(cursor->batch_found);
  drop(cursor->batch_versions);
  cursor->batch_vectors = cursor->batch_found = cursor->batch_versions = NULL;
  cursor->is_batch = 0;
}

void ext_batch_column(const struct ext_cursor *cursor, sqlite3_context *context,
                      int column) {
  struct ext_value *value = NULL;
  if (column == EXT_VECTORS)
    value = cursor->batch_vectors;
  else if (column == EXT_FOUND)
    value = cursor->batch_found;
  else if (column == EXT_VERSIONS)
    value = cursor->batch_versions;
  if (value == NULL)
    return;
  value->refs++;
  sqlite3_result_blob64(context, value + 1, value->size, drop_data);
}
