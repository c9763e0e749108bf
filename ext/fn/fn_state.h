/* SPDX-License-Identifier: MIT
**
** fn_state.h -- private to fn/: states that last from one call of SQLite to the
** next, and functions that check them, only in self-checking builds.
*/
#ifndef EMB_EXT_FN_STATE_H
#define EMB_EXT_FN_STATE_H

#include "fn.h"

/* ---- aggregate.c --------------------------------------------------------- */

/* All zeros, as SQLite allocates it, is the state before the first row. */
struct sum {
  double *total;
  double *error; /* of total, element by element; same allocation */
  int64_t rows;
  uint32_t dim; /* 0 before the first vector */
};

/* All zeros is the state before the first key. */
struct pack {
  int64_t *keys;
  uint64_t n;
  uint64_t capacity;
};

int ext_sum_valid(const struct sum *sum);
int ext_pack_valid(const struct pack *pack);

/* ---- each.c -------------------------------------------------------------- */

/* One of the two tables; a module's client data. */
struct list_kind {
  const char *name;
  const char *schema;
  int value_column;
  int argument_column;
  int is_keys;
};

struct list_table {
  sqlite3_vtab base; /* must be first: SQLite's part */
  const struct list_kind *kind;
  sqlite3 *db;
};

struct each_cursor {
  sqlite3_vtab_cursor base; /* must be first: SQLite's part */
  sqlite3_value *argument;  /* a copy: xFilter's is gone when it returns */
  float *floats;            /* emb_each's elements, or */
  int64_t *keys;            /* emb_keys's; */
  int owned;                /* a copy of the argument, not a view into it */
  size_t n;
  size_t row;
};

int ext_each_valid(const struct each_cursor *cursor);

/* ---- async.c, store.c ---------------------------------------------------- */

/* A link's tickets, and the versions of its last write. */
int ext_fn_link_valid(const struct ext_link *link);
/* Refuses gradients for a table without an optimizer. */
int ext_fn_has_optimizer(const struct ext_table *table, char **err);

/* ---- serve.c ------------------------------------------------------------- */

/* In the state `own`. */
int ext_serve_valid(const struct ext_serve *serve);

/* ---- sample.c ------------------------------------------------------------ */

/* The arguments that ext_sample_read has read. */
int ext_sample_valid(const struct ext_sample *ask);

#endif
