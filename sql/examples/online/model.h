/* SPDX-License-Identifier: MIT
**
** model.h -- a factorisation machine stored in a database.
**
** The score of a click of user u on item i at place p of the page is
**
**   weight[0] + weight[1 + p] + bias(u) + bias(i) + <vector(u), vector(i)>
**
** and 1 / (1 + exp(-score)) is the predicted probability (Rendle 2010, with
** two fields whose features interact).  Biases and vectors are rows of two
** embedding tables, `users` and `items`.  The weights are the dense part:
** rows of the ordinary table `dense`, kept in memory while the model is open.
**
** A model that trains has an optimizer in its tables, so that a step is
**
**   INSERT INTO users(keys, gradients) VALUES (:keys, :gradients)
**
** and the optimizer's state is stored with each vector.  A model that only
** serves has vectors and nothing else.  In both, a missing key reads as zeros
** or as the initial value of a new row.
*/
#ifndef ONLINE_MODEL_H
#define ONLINE_MODEL_H

#include <stdint.h>

#include "../../lib/database.h"
#include "click.h"

enum {
  DIM = 8,
  WIDTH = 1 + DIM,    /* floats of a row: bias, vector */
  DENSE = 1 + PLACES, /* weights */
  BATCH = 256,        /* clicks */
  FIELDS = 2,
};

extern const char *const FIELD[FIELDS]; /* "users", "items" */

struct batch {
  size_t count;
  int64_t keys[FIELDS][BATCH];
  uint8_t place[BATCH], clicked[BATCH];
  float weight[BATCH]; /* of each in the loss */
};

enum model_role { TRAINS, SERVES };

/* FOR_GOOD: a COMMIT makes rows and everything else durable together before it
** returns.  TO_TRY: a COMMIT does not wait for the disk; after a crash, start
** again. */
enum model_keep { FOR_GOOD, TO_TRY };

struct model {
  sqlite3 *db;
  enum model_role role;
  sqlite3_stmt *get[FIELDS], *train[FIELDS], *save;
  double weight[DENSE], sum[DENSE]; /* sum: of squared gradients (Adagrad) */
  float rows[FIELDS][BATCH * WIDTH], gradients[FIELDS][BATCH * WIDTH];
};

/* Makes the tables if the database does not have them, and reads the dense
** part.  seed: of the initial vectors of rows. */
void model_open(struct model *model, const char *file, const char *extension,
                enum model_role role, enum model_keep keep, uint64_t seed);
void model_close(struct model *model);

/* score: the model's current scores. */
void model_score(struct model *model, const struct batch *batch, float *score);

/* One training step on the batch; score: the model's scores before the step.
** The dense part changes in memory only, until it is saved. */
void model_train(struct model *model, const struct batch *batch, float *score);

/* Makes rows for keys of the batch that have none. */
void model_touch(struct model *model, const struct batch *batch);

void model_save_dense(struct model *model);
void model_load_dense(struct model *model);

#endif
