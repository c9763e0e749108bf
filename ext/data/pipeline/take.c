/* SPDX-License-Identifier: MIT
**
** take.c -- shared by select.c and downsample.c: how many samples are taken,
** and where they are written.
*/
#include "pipeline.h"
SQLITE_EXTENSION_INIT3

/* The share rounded down, but at least one sample.  The share of a hundred is
** the number that was written, whatever 0.29 is in binary: the computation errs
** by less than 1e-15 of its result. */
static const char take_size_sql[] =
    "SELECT min(:n, coalesce(:limit, :n), CASE WHEN :share IS NULL THEN :n"
    " ELSE max(:n > 0, CAST(:n * (:share / (:share_max * 1.0))"
    "   * (1 + 1e-15) AS INTEGER)) END)";

int ext_take_size(const struct ext_scope *scope, sqlite3_int64 n,
                  sqlite3_int64 *size, char **err) {
  struct ext_scope with = *scope;
  ext_scope_integer(&with, "n", n);
  return ext_scope_number(&with, take_size_sql, size, err);
}

/* Where a row's values go. */
struct take {
  sqlite3_stmt *insert;
  int place, key, weight; /* its parameters */
  int key_at, weight_at;  /* columns of the rows */
};

/* A weight that a trainer can multiply by. */
static int take_weight(sqlite3_stmt *rows, const struct take *take,
                       double *weight, char **err) {
  int at = take->weight_at;
  int type = at < 0 ? SQLITE_INTEGER : sqlite3_column_type(rows, at);
  *weight = at < 0 ? 1 : sqlite3_column_double(rows, at);
  if ((type == SQLITE_INTEGER || type == SQLITE_FLOAT) && *weight >= 0 &&
      *weight <= 1e300)
    return SQLITE_OK;
  return ext_error(err, SQLITE_ERROR, "sample %s has no usable weight or score",
                   sqlite3_column_text(rows, take->key_at));
}

static int take_sample(struct ext_pipeline *pipeline, const struct take *take,
                       sqlite3_stmt *rows, sqlite3_int64 place, char **err) {
  double weight;
  int rc = take_weight(rows, take, &weight, err);
  if (rc == SQLITE_OK)
    rc = sqlite3_bind_int64(take->insert, take->place, place);
  if (rc == SQLITE_OK)
    rc = sqlite3_bind_double(take->insert, take->weight, weight);
  if (rc == SQLITE_OK)
    rc = sqlite3_bind_value(take->insert, take->key,
                            sqlite3_column_value(rows, take->key_at));
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_step(take->insert);
  return ext_sql_error(err, pipeline->db, sqlite3_reset(take->insert));
}

int ext_take_rows(struct ext_pipeline *pipeline, sqlite3_stmt *rows,
                  const char *insert, sqlite3_int64 *place, char **err) {
  struct take take = {.key_at = ext_policy_column(rows, "sample_key"),
                      .weight_at = ext_policy_column(rows, "weight")};
  int rc;
  if (take.key_at < 0)
    return ext_error(err, SQLITE_ERROR, "there is no column sample_key");
  rc = ext_scope_prepare(&pipeline->scope, insert, &take.insert, NULL, err);
  if (rc == SQLITE_OK) {
    take.place = sqlite3_bind_parameter_index(take.insert, ":place");
    take.key = sqlite3_bind_parameter_index(take.insert, ":key");
    take.weight = sqlite3_bind_parameter_index(take.insert, ":weight");
    emb_assert(take.place > 0 && take.key > 0 && take.weight > 0);
  }
  while (rc == SQLITE_OK && (rc = sqlite3_step(rows)) == SQLITE_ROW)
    rc = take_sample(pipeline, &take, rows, (*place)++, err);
  if (rc != SQLITE_DONE && rc != SQLITE_OK && *err == NULL)
    rc = ext_sql_error(err, pipeline->db, rc);
  sqlite3_finalize(take.insert);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}
