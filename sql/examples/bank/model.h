/* SPDX-License-Identifier: MIT
**
** model.h -- a classifier of synsets by the words of their glosses.
**
**   words of the gloss -> encoder -> embedding -> dense -> 45 classes
**
** The trainer owns the parameters.  Knowledge makers read them from the table
** `checkpoint`, in which each checkpoint replaces the previous one.
*/
#ifndef BANK_MODEL_H
#define BANK_MODEL_H

#include "../../lib/neural/encoder.h"
#include "data.h"

enum { EMBEDDING = 32 }; /* floats */

struct model {
  struct encoder encoder;
  struct layer head;
  float *logits, *gradient; /* room for a batch */
  size_t room;
};

void model_new(struct model *model, const struct data *data, uint64_t seed);
void model_free(struct model *model);

/* Embeddings of these nodes, valid until the next call. */
const float *model_embed(struct model *model, const struct data *data,
                         const uint32_t *nodes, size_t count);

/* The logits of embeddings, rows * CLASSES; valid until the next call. */
float *model_logits(struct model *model, const float *embedding, size_t rows);

/* Mean loss of the first `rows` embeddings of the last model_embed.  The
** head's gradients add up; the embeddings' gradient is written to
** `gradient`. */
double model_loss(struct model *model, const uint32_t *class, size_t rows,
                  float *gradient);

/* A step of all parameters; `gradient` is that of the embeddings of the last
** model_embed. */
void model_step(struct model *model, const float *gradient, double rate);

/* Share of the nodes whose class is predicted correctly. */
double model_accuracy(struct model *model, const struct data *data,
                      const uint32_t *nodes, size_t count);

/* ---- parameters, handed over through the database ------------------------ */

void checkpoint_make(sqlite3 *db);
void checkpoint_write(sqlite3 *db, const struct model *model, int64_t step);

/* Reads the checkpoint unless it is of step `have`.  Returns the step of the
** model's parameters. */
int64_t checkpoint_read(sqlite3 *db, struct model *model, int64_t have);

/* The parameters in memory, to keep those of the best epoch. */
size_t model_floats(const struct model *model);
void model_save(const struct model *model, float *to);
void model_load(struct model *model, const float *from);

#endif
