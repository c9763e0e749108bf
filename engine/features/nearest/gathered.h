/* SPDX-License-Identifier: MIT
**
** gathered.h -- private to an exact search: rows copied out of their pages, to
** be compared with many queries at once.
**
** Rows that were never trained are all equal, and each is as near as the k-th.
** Equal rows are therefore gathered as one, with a list of their records: the
** products with the queries, and each distance, are computed once for all of
** them.  The list is in order of the keys if possible; the first record that is
** too far for its key then ends it.
**
** THREADS   None: each thread of a search gathers its own rows.
*/
#ifndef EMB_NEAREST_GATHERED_H
#define EMB_NEAREST_GATHERED_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/env/env.h"

/* Places of the table that finds an equal row; a power of two. */
#define GATHER_SEEN 512

/* A row: a list of records, of which the first has the lowest key. */
struct gathered_row {
  uint32_t first, last; /* the number of the record, plus 1 */
  int is_sorted;        /* by key */
};

enum { GATHER_LIVE = 1, GATHER_DEAD };

struct gathered_order {
  int64_t key;
  uint32_t record;
};

struct gathered {
  uint32_t rows, row_room;
  struct gathered_row *list;
  float *vectors; /* of the rows: `dim` elements of each */
  size_t dim;
  uint32_t records, record_room;
  int64_t *keys; /* of the records, as the next */
  uint64_t *addresses;
  uint64_t *versions;
  char *values; /* as stored, with a stride of `value` bytes or 0 */
  size_t value;
  uint8_t *is_live; /* GATHER_LIVE, ..., or 0: not looked up yet */
  uint32_t *row_of;
  uint32_t *next;               /* in the list of the row, plus 1; 0: none */
  uint32_t seen[GATHER_SEEN];   /* a row with this hash, plus 1 */
  struct gathered_order *order; /* scratch */
};

/* What to make room for. */
struct gathered_form {
  uint32_t rows, records;
  size_t dim;
  size_t value, values; /* stride and size of the values in bytes */
};

/* EMB_NOMEM.  gathered__free must follow even then. */
int gathered__init(struct gathered *g, struct env *env,
                   const struct gathered_form *form);
void gathered__free(struct gathered *g, struct env *env);
/* Is it in order?  Only in self-checking builds. */
int gathered_valid(const struct gathered *g);

/* Where the next record is copied to. */
static inline char *gathered_value(struct gathered *g) {
  return g->values + g->records * g->value;
}
static inline float *gathered_vector(struct gathered *g) {
  return g->vectors + (size_t)g->rows * g->dim;
}
/* Adds the record whose vector, value and version have been copied. */
void gathered__add(struct gathered *g, int64_t key, uint64_t address);
/* Adds a record of the first row. */
void gathered__again(struct gathered *g, int64_t key, uint64_t address);
/* Removes all records.  The rows stay, without records. */
void gathered__empty(struct gathered *g);
/* Sorts a row's records by key. */
void gathered__sort(struct gathered *g, uint32_t row);
/* Removes the first rows and their records. */
void gathered__drop(struct gathered *g, uint32_t rows);

#endif
