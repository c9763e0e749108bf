/* SPDX-License-Identifier: MIT
**
** field.h -- the stores that compete on disk: a table larger than the memory
** each store may use, page cache included.
*/
#ifndef BENCH_FIELD_H
#define BENCH_FIELD_H

#include "contest.h"

enum { FIELD_MAX = 8 };

struct field {
  size_t keys;
  int count;
  const struct store_kind *kinds[FIELD_MAX];
  struct contestant *players[FIELD_MAX];
};

/* Table size and memory for the requested size of run. */
size_t field_keys(const struct options *options);
uint64_t field_memory(const struct options *options, size_t keys);

/* Loads each kind (NULL ends the list) with `keys` keys of 64 floats, and opens
** it under the limit.  Adds notes about the setup.  Traces must exist. */
void field_open(struct field *field, const struct options *options,
                struct figure *figure, const struct store_kind *const *kinds,
                size_t keys, uint64_t memory_bytes);
/* Gives each store one turn that is not counted. */
void field_warm(struct field *field, const struct workload *workload);
/* Runs rounds of turns; each result is also passed to `each`, unless NULL. */
void field_compare(struct field *field, const struct options *options,
                   struct group *group, const struct workload *workload,
                   void (*each)(void *arg, int player, int round,
                                const struct result *result),
                   void *arg);
/* The contestant of that name; NULL: it is no longer there. */
struct contestant *field_find(struct field *field, const char *name);
void field_close(struct field *field, struct figure *figure);

#endif
