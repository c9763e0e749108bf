/* SPDX-License-Identifier: MIT
**
** eval.h -- filtered ranking, as published for WN18 (Bordes et al., 2013).
*/
#ifndef WN_EVAL_H
#define WN_EVAL_H

#include <stddef.h>
#include <stdint.h>

#include "../../lib/table.h"
#include "../../lib/team.h"
#include "graph.h"

struct eval_result {
  size_t ranks;                /* two per triple: of its tail and of its head */
  double mrr;                  /* mean of 1 / rank */
  double hits1, hits3, hits10; /* share of ranks of at most 1, 3, 10 */
};

struct eval_graph {
  int64_t *keys; /* of all entities, in order */
  size_t entities;
  struct triple *known; /* all triples, of every split */
  size_t known_count;
};

/* Ranks both ends of each test triple among all entities.  Other known right
** answers are left out ("filtered"); an entity with the same score as the
** right answer counts half.  Vectors are read from the table in blocks; only
** one block is in memory.  relations: rows of 2*dim floats. */
struct eval_result eval_run(const struct eval_graph *graph,
                            const struct triple *test, size_t count,
                            struct table *entities, const float *relations,
                            struct team *team);

#endif
