/* SPDX-License-Identifier: MIT
**
** model.c -- a classifier of synsets by the words of their glosses; see
** model.h.
*/
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "../../lib/neural/loss.h"

enum { WIDTH = 64, HIDDEN1 = 1024, HIDDEN2 = 256, AT_ONCE = 512 };

/* The rate of word embeddings, as a multiple of the layers' rate. */
static const double WORDS = 30;

void model_new(struct model *model, const struct data *data, uint64_t seed) {
  struct encoder_shape shape = {
      data->words, WIDTH, {HIDDEN1, HIDDEN2}, EMBEDDING};
  uint64_t random = seed;
  memset(model, 0, sizeof(*model));
  encoder_new(&model->encoder, &shape, &random);
  layer_new(&model->head, EMBEDDING, CLASSES, 0, &random);
}

void model_free(struct model *model) {
  encoder_free(&model->encoder);
  layer_free(&model->head);
  free(model->logits);
}

const float *model_embed(struct model *model, const struct data *data,
                         const uint32_t *nodes, size_t count) {
  return encoder_forward(&model->encoder, &data->gloss, nodes, count);
}

float *model_logits(struct model *model, const float *embedding, size_t rows) {
  if (rows > model->room) {
    free(model->logits);
    model->logits = need(rows * CLASSES, sizeof(float));
    model->room = rows;
  }
  layer_forward(&model->head, embedding, rows, model->logits);
  return model->logits;
}

double model_loss(struct model *model, const uint32_t *class, size_t rows,
                  float *gradient) {
  const float *embedding = model->encoder.embedding;
  float *logits = model_logits(model, embedding, rows);
  double loss = loss_classes(logits, rows, CLASSES, class);
  layer_backward(&model->head, embedding, NULL, rows, logits, gradient);
  return loss;
}

void model_step(struct model *model, const float *gradient, double rate) {
  encoder_backward(&model->encoder, gradient);
  encoder_step(&model->encoder, rate, WORDS * rate);
  block_step(&model->head.block, rate);
}

double model_accuracy(struct model *model, const struct data *data,
                      const uint32_t *nodes, size_t count) {
  size_t right = 0;
  for (size_t first = 0; first < count; first += AT_ONCE) {
    size_t rows = count - first < AT_ONCE ? count - first : AT_ONCE;
    const float *embedding = model_embed(model, data, nodes + first, rows);
    const float *logits = model_logits(model, embedding, rows);
    for (size_t i = 0; i < rows; i++) {
      right += loss_argmax(logits + i * CLASSES, CLASSES) ==
               data->class[nodes[first + i]];
    }
  }
  return (double)right / (double)count;
}

size_t model_floats(const struct model *model) {
  return encoder_floats(&model->encoder) + model->head.block.count;
}

void model_save(const struct model *model, float *to) {
  to = encoder_save(&model->encoder, to);
  memcpy(to, model->head.block.value, model->head.block.count * sizeof(float));
}

void model_load(struct model *model, const float *from) {
  from = encoder_load(&model->encoder, from);
  memcpy(model->head.block.value, from,
         model->head.block.count * sizeof(float));
}

void checkpoint_make(sqlite3 *db) {
  database_run(db, "CREATE TABLE checkpoint(only INTEGER PRIMARY KEY CHECK"
                   " (only = 1), step INTEGER, parameters BLOB)");
}

void checkpoint_write(sqlite3 *db, const struct model *model, int64_t step) {
  size_t floats = model_floats(model);
  float *parameters = need(floats, sizeof(float));
  model_save(model, parameters);
  sqlite3_stmt *statement =
      statement_new(db, "INSERT OR REPLACE INTO checkpoint VALUES (1, ?1, ?2)");
  sqlite3_bind_int64(statement, 1, step);
  sqlite3_bind_blob64(statement, 2, parameters, floats * sizeof(float),
                      SQLITE_STATIC);
  statement_step(statement);
  sqlite3_finalize(statement);
  free(parameters);
}

int64_t checkpoint_read(sqlite3 *db, struct model *model, int64_t have) {
  sqlite3_stmt *statement = statement_new(
      db, "SELECT step, parameters FROM checkpoint WHERE step <> ?1");
  sqlite3_bind_int64(statement, 1, have);
  if (statement_step(statement)) {
    have = sqlite3_column_int64(statement, 0);
    const float *parameters = sqlite3_column_blob(statement, 1);
    size_t bytes = (size_t)sqlite3_column_bytes(statement, 1);
    if (bytes != model_floats(model) * sizeof(float)) {
      die("a checkpoint of another model");
    }
    model_load(model, parameters);
  }
  sqlite3_finalize(statement);
  return have;
}
