/* SPDX-License-Identifier: MIT
**
** table.h -- an embedding table, read and written in batches through SQL.
*/
#ifndef LIB_TABLE_H
#define LIB_TABLE_H

#include <stdint.h>

#include "database.h"

/* An embedding table opened for batches. */
struct table {
  sqlite3 *db;
  sqlite3_stmt *get, *find, *put, *statistic;
  const char *name;
  size_t width; /* floats in a row */
};

void table_open(struct table *table, sqlite3 *db, const char *name,
                size_t width);
void table_close(struct table *table);

/* rows: count * width floats.  A key that the table lacks reads as zeros. */
void table_get(struct table *table, const int64_t *keys, size_t count,
               float *rows);
/* The same without a copy; found[i] is 1 if there is a row for keys[i], else 0.
** The results are valid until table_find_end; do nothing else with the table
** before that call. */
const float *table_find(struct table *table, const int64_t *keys, size_t count,
                        const uint8_t **found);
void table_find_end(struct table *table);
/* From now on table_get does not count against a staleness bound. */
void table_peek_only(struct table *table);
void table_put(struct table *table, const int64_t *keys, size_t count,
               const float *rows);

/* A counter of emb_stats by name. */
int64_t table_statistic(struct table *table, const char *counter);

#endif
