/* SPDX-License-Identifier: MIT
**
** model.h -- ComplEx: scores, loss, gradients and the Adagrad step.
**
** ComplEx (Trouillon et al., ICML 2016) gives each entity e and relation r a
** complex vector and scores a triple with Re(sum_i h_i r_i conj(t_i)).  In
** real numbers this is a dot product of the tail with the query h*r, and also
** of the head with the query t*conj(r): predicting either end of a triple is
** a matrix product of queries with candidates.
**
** A vector of dim floats holds dim/2 real parts, then dim/2 imaginary parts.
** A row of the table holds 2*dim floats: the vector, then for each of its
** elements Adagrad's sum of squared gradients.
*/
#ifndef WN_MODEL_H
#define WN_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "../../lib/team.h"
#include "graph.h"

enum model_side { PREDICT_TAIL, PREDICT_HEAD };

/* query = entity * relation (for the tail) or entity * conj(relation). */
void model_query(enum model_side side, const float *entity,
                 const float *relation, size_t dim, float *query);

/* One batch in memory.  The triples' entities are positions in `rows`. */
struct batch {
  const struct triple *triples;
  size_t triple_count;
  float *rows; /* row_count * 2*dim: entities, each once */
  size_t row_count;
  float *relations; /* relation_count * 2*dim */
};

struct model_options {
  size_t dim;
  size_t relation_count;
  size_t batch_max; /* triples in a batch */
  size_t group;     /* triples that share their candidates */
  size_t negatives; /* candidates of a group besides its own entities */
  float rate;       /* Adagrad's learning rate */
  float decay;      /* weight of the N3 regulariser */
};

struct model;
struct model *model_new(const struct model_options *options, struct team *team);
void model_free(struct model *model);

/* Trains on one batch: changes rows and relations in place, and returns the
** sum over triples of both directions' cross entropy. */
double model_step(struct model *model, struct batch *batch, uint64_t seed);

#endif
