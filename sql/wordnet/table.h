/* SPDX-License-Identifier: MIT
**
** table.h -- the demo's side of SQL: the graph, and the embedding tables.
*/
#ifndef WN_TABLE_H
#define WN_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "../lib/database.h"

/* A triple whose entities are given by their position in `keys`, and whose
** relation by relation id - 1. */
struct triple {
  uint32_t head, relation, tail;
};

/* The ids of a table or view, ascending. */
int64_t *graph_keys(sqlite3 *db, const char *from, size_t *count);

/* The triples of a split, or all (split NULL), in key order. */
struct triple *graph_triples(sqlite3 *db, const char *split,
                             const int64_t *keys, size_t entities,
                             size_t *count);

/* An embedding table opened for batches. */
struct table {
  sqlite3 *db;
  sqlite3_stmt *get, *put, *statistic;
  const char *name;
  size_t width; /* floats in a row */
};

void table_open(struct table *table, sqlite3 *db, const char *name,
                size_t width);
void table_close(struct table *table);

/* rows: count * width floats.  A key that the table lacks reads as zeros. */
void table_get(struct table *table, const int64_t *keys, size_t count,
               float *rows);
/* From now on table_get does not count against a staleness bound. */
void table_peek_only(struct table *table);
void table_put(struct table *table, const int64_t *keys, size_t count,
               const float *rows);

/* A counter of emb_stats by name. */
int64_t table_statistic(struct table *table, const char *counter);

#endif
