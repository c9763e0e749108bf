/* SPDX-License-Identifier: MIT
**
** graph.h -- the graph, read from SQL.
*/
#ifndef WN_GRAPH_H
#define WN_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "../../lib/database.h"

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

#endif
