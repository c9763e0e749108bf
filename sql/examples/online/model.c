/* SPDX-License-Identifier: MIT
**
** model.c -- a factorisation machine stored in a database; see model.h.
*/
#include "model.h"

#include <math.h>
#include <string.h>

const char *const FIELD[FIELDS] = {"users", "items"};

static const double DENSE_RATE = 0.02, EPSILON = 1e-10;

/* ---- tables -------------------------------------------------------------- */

static void make_tables(struct model *model, enum model_keep keep,
                        uint64_t seed) {
  const char *commit = keep == FOR_GOOD ? "atomic" : "engine";
  database_run(model->db, "CREATE TABLE IF NOT EXISTS dense("
                          "  id INTEGER PRIMARY KEY, weight REAL, sum REAL)");
  for (int f = 0; f < FIELDS; f++) {
    if (model->role == TRAINS) {
      database_run(
          model->db,
          "CREATE VIRTUAL TABLE IF NOT EXISTS %w USING emb("
          "  key INTEGER PRIMARY KEY,"
          "  bias FLOAT[1],"
          "  vector FLOAT[%d] initializer='normal(std=0.1)',"
          "  optimizer='rowwise_adagrad(lr=0.1)', seed=%lld, commit=%s)",
          FIELD[f], DIM, (sqlite3_int64)seed, commit);
    } else {
      database_run(model->db,
                   "CREATE VIRTUAL TABLE IF NOT EXISTS %w USING emb("
                   "  key INTEGER PRIMARY KEY,"
                   "  bias FLOAT[1], vector FLOAT[%d], commit=%s)",
                   FIELD[f], DIM, commit);
    }
  }
}

static sqlite3_stmt *prepare(struct model *model, const char *format, int f) {
  char *sql = sqlite3_mprintf(format, FIELD[f]);
  if (!sql) {
    die("out of memory");
  }
  sqlite3_stmt *statement = statement_new(model->db, sql);
  sqlite3_free(sql);
  return statement;
}

void model_open(struct model *model, const char *file, const char *extension,
                enum model_role role, enum model_keep keep, uint64_t seed) {
  memset(model, 0, sizeof(*model));
  model->db = database_open(file, extension);
  model->role = role;
  if (keep == TO_TRY) {
    database_run(model->db, "PRAGMA synchronous = OFF");
  }
  make_tables(model, keep, seed);
  for (int f = 0; f < FIELDS; f++) {
    model->get[f] = prepare(model, "SELECT vectors FROM %w(?1)", f);
    if (role == TRAINS) {
      model->train[f] =
          prepare(model, "INSERT INTO %w(keys, gradients) VALUES(?1, ?2)", f);
    }
  }
  model->save = statement_new(
      model->db, "INSERT OR REPLACE INTO dense VALUES(?1, ?2, ?3)");
  model_load_dense(model);
}

void model_close(struct model *model) {
  for (int f = 0; f < FIELDS; f++) {
    sqlite3_finalize(model->get[f]);
    sqlite3_finalize(model->train[f]);
  }
  sqlite3_finalize(model->save);
  database_close(model->db);
}

static void get_rows(struct model *model, const struct batch *batch, int f) {
  sqlite3_stmt *get = model->get[f];
  size_t bytes = batch->count * WIDTH * sizeof(float);
  sqlite3_bind_blob64(get, 1, batch->keys[f], batch->count * sizeof(int64_t),
                      SQLITE_STATIC);
  if (!statement_step(get) || (size_t)sqlite3_column_bytes(get, 0) != bytes) {
    die("%s gave vectors of the wrong size", FIELD[f]);
  }
  memcpy(model->rows[f], sqlite3_column_blob(get, 0), bytes);
  statement_end(get);
}

static void put_gradients(struct model *model, const struct batch *batch,
                          int f) {
  sqlite3_stmt *train = model->train[f];
  sqlite3_bind_blob64(train, 1, batch->keys[f], batch->count * sizeof(int64_t),
                      SQLITE_STATIC);
  sqlite3_bind_blob64(train, 2, model->gradients[f],
                      batch->count * WIDTH * sizeof(float), SQLITE_STATIC);
  statement_step(train);
  statement_end(train);
}

/* ---- dense --------------------------------------------------------------- */

void model_save_dense(struct model *model) {
  for (int i = 0; i < DENSE; i++) {
    sqlite3_bind_int(model->save, 1, i);
    sqlite3_bind_double(model->save, 2, model->weight[i]);
    sqlite3_bind_double(model->save, 3, model->sum[i]);
    statement_step(model->save);
    statement_end(model->save);
  }
}

void model_load_dense(struct model *model) {
  sqlite3_stmt *load =
      statement_new(model->db, "SELECT weight, sum FROM dense WHERE id = ?1");
  for (int i = 0; i < DENSE; i++) {
    sqlite3_bind_int(load, 1, i);
    if (statement_step(load)) {
      model->weight[i] = sqlite3_column_double(load, 0);
      model->sum[i] = sqlite3_column_double(load, 1);
    }
    statement_end(load);
  }
  sqlite3_finalize(load);
}

static void train_dense(struct model *model, const double *gradient) {
  for (int i = 0; i < DENSE; i++) {
    model->sum[i] += gradient[i] * gradient[i];
    model->weight[i] -=
        DENSE_RATE * gradient[i] / (sqrt(model->sum[i]) + EPSILON);
  }
}

/* ---- the model ----------------------------------------------------------- */

void model_score(struct model *model, const struct batch *batch, float *score) {
  for (int f = 0; f < FIELDS; f++) {
    get_rows(model, batch, f);
  }
  for (size_t n = 0; n < batch->count; n++) {
    const float *user = model->rows[0] + n * WIDTH;
    const float *item = model->rows[1] + n * WIDTH;
    float sum = (float)(model->weight[0] + model->weight[1 + batch->place[n]]) +
                user[0] + item[0];
    for (int i = 1; i < WIDTH; i++) {
      sum += user[i] * item[i];
    }
    score[n] = sum;
  }
}

void model_train(struct model *model, const struct batch *batch, float *score) {
  model_score(model, batch, score);
  double dense[DENSE] = {0};
  for (size_t n = 0; n < batch->count; n++) {
    /* The derivative of the weighted cross entropy by the score. */
    float error = 1 / (1 + expf(-score[n])) - (float)batch->clicked[n];
    error *= batch->weight[n];
    const float *row[FIELDS] = {model->rows[0] + n * WIDTH,
                                model->rows[1] + n * WIDTH};
    for (int f = 0; f < FIELDS; f++) {
      float *gradient = model->gradients[f] + n * WIDTH;
      gradient[0] = error;
      for (int i = 1; i < WIDTH; i++) {
        gradient[i] = error * row[!f][i];
      }
    }
    dense[0] += error;
    dense[1 + batch->place[n]] += error;
  }
  for (int f = 0; f < FIELDS; f++) {
    put_gradients(model, batch, f);
  }
  train_dense(model, dense);
}

void model_touch(struct model *model, const struct batch *batch) {
  memset(model->gradients, 0, sizeof(model->gradients));
  for (int f = 0; f < FIELDS; f++) {
    put_gradients(model, batch, f);
  }
}
