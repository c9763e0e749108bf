/* SPDX-License-Identifier: MIT
**
** table_valid.c -- checks that a table's options and its object are as table.h
** and conn.h say.  Only in builds with self-checks (engine/base/debug.h).
*/
#include "table_cursor.h"
SQLITE_EXTENSION_INIT3

#if EMB_DEBUG > 0

int ext_options_valid(const struct ext_options *options) {
  const emb_config *config = &options->config;
  uint32_t n = ext_vectors(options);
  emb_assert(n > 0 && n <= EMB_SEGMENTS_MAX);
  emb_assert(config->segments == options->segments);
  emb_assert(config->dim == ext_vector_first(options, n));
  emb_assert(config->type == options->segments[0].type);
  emb_assert(config->dim > 0 && config->dim <= EMB_DIM_MAX);
  emb_assert(options->key != NULL);
  for (uint32_t i = 0; i < EMB_SEGMENTS_MAX; i++)
    emb_assert(!options->vectors[i] == (i >= n));
  for (int i = 0; i < options->aux_count; i++)
    emb_assert(options->aux[i].name && options->aux[i].type);
  return 1;
}

int ext_table_valid(const struct ext_table *table) {
  const struct ext_vtab *vtab = ext_vtab(table);
  int times = 0;
  emb_assert(table->schema && table->name && table->file && vtab->key_what);
  for (uint32_t i = 0; i < EMB_SEGMENTS_MAX; i++)
    emb_assert(!vtab->vector_what[i] == (i >= ext_vectors(&vtab->options)));
  for (const struct ext_table *each = table->link ? table->link->tables : NULL;
       each; each = each->next_of_link)
    times += each == table;
  emb_assert(times == (table->link != NULL));
  emb_assert(!table->held || table->conn->calls > 0);
  emb_assert(table->conn->begun >= table->begun);
  emb_assert(!vtab->spare || ext_cursor_spare_valid(vtab->spare));
  return 1;
}

#endif
