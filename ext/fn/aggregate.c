/* SPDX-License-Identifier: MIT
**
** aggregate.c -- emb_sum, emb_avg and emb_pack.
**
** SUMS      Each element is summed in double, and the rounding error of each
**           addition is kept separately (Knuth's TwoSum).  So the small values
**           of a window keep their precision after 3e38 has passed through it.
** MEMORY    SQLite calls the final function of every group it has begun, even
**           after errors; the final function frees the state.
*/
#include "fn_state.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

#define FLAGS (SQLITE_UTF8 | SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC)

/* ---- emb_sum, emb_avg ---------------------------------------------------- */

struct aggregate {
  const char *name;
  int is_mean;
};

static const struct aggregate *aggregate_of(sqlite3_context *context) {
  return sqlite3_user_data(context);
}

/* Prepares the state for vectors of dim elements; those of a new sum are
** undefined. */
static int sum_open(const char *name, struct sum *sum, uint32_t dim,
                    char **err) {
  size_t bytes = 2 * sizeof(double) * dim;
  if (dim == 0)
    return ext_error(err, SQLITE_MISMATCH,
                     "argument 1 of %s is an empty vector", name);
  if (sum->dim == dim)
    return SQLITE_OK;
  if (sum->dim)
    return ext_error(err, SQLITE_MISMATCH,
                     "%s needs vectors of one dimension, got %u and %u", name,
                     sum->dim, dim);
  sum->total = sqlite3_malloc64(bytes);
  if (!sum->total)
    return SQLITE_NOMEM;
  sum->error = sum->total + dim;
  sum->dim = dim;
  return SQLITE_OK;
}

/* Sets elements [at, at + n) to 0. */
static void sum_clear(struct sum *sum, uint32_t at, uint32_t n) {
  memset(sum->total + at, 0, n * sizeof *sum->total);
  memset(sum->error + at, 0, n * sizeof *sum->error);
}

/* Adds elements [at, at + n). */
static void sum_add(struct sum *sum, const float *vec, double sign, uint32_t at,
                    uint32_t n) {
  uint32_t i;
  for (i = at; i < at + n; i++) {
    double x = sign * (double)vec[i];
    double total = sum->total[i] + x;
    double part = total - sum->total[i];
    sum->error[i] += EMB_SEED(SEED_SUM_UNCOMPENSATED)
                         ? 0
                         : (sum->total[i] - (total - part)) + (x - part);
    sum->total[i] = total;
  }
}

/* Adds a row, or takes it away.  An interrupt leaves elements of a new sum
** undefined, but then no row is counted, and nothing reads them. */
static void sum_row(sqlite3_context *context, struct sum *sum, const float *vec,
                    int sign, int is_new) {
  struct ext_pieces piece = {.context = context, .all = sum->dim};
  while (ext_pieces_next(&piece)) {
    if (is_new)
      sum_clear(sum, piece.at, piece.n);
    sum_add(sum, vec, sign, piece.at, piece.n);
  }
  if (!piece.stopped)
    sum->rows += sign;
  emb_check(ext_sum_valid(sum));
}

static void sum_step_signed(sqlite3_context *context, sqlite3_value *value,
                            int sign) {
  const char *name = aggregate_of(context)->name;
  struct ext_conn asked = {.db = sqlite3_context_db_handle(context)};
  struct sum *sum;
  char what[64], *err = NULL;
  struct ext_floats vec;
  int rc;
  if (sqlite3_value_type(value) == SQLITE_NULL)
    return;
  sum = sqlite3_aggregate_context(context, sizeof *sum);
  if (!sum) {
    sqlite3_result_error_nomem(context);
    return;
  }
  sqlite3_snprintf(sizeof what, what, "argument 1 of %s", name);
  rc = ext_vec_from_value(value,
                          &(struct ext_arg){what, ext_link_interrupted, &asked},
                          0, &vec, &err);
  if (rc == SQLITE_OK) {
    int is_new = sum->dim == 0;
    rc = sum_open(name, sum, vec.n, &err);
    if (rc == SQLITE_OK)
      sum_row(context, sum, vec.at, sign, is_new);
    ext_floats_free(&vec);
  }
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
}

static void sum_step(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  sum_step_signed(context, argv[0], 1);
}

static void sum_inverse(sqlite3_context *context, int argc,
                        sqlite3_value **argv) {
  (void)argc;
  sum_step_signed(context, argv[0], -1);
}

/* Writes elements [at, at + n) of the sum divided by `rows`. */
static void sum_round(const struct sum *sum, double rows, float *out,
                      uint32_t at, uint32_t n) {
  uint32_t i;
  for (i = at; i < at + n; i++)
    out[i] = (float)((sum->total[i] + sum->error[i]) / rows);
}

static void sum_value(sqlite3_context *context) {
  const struct aggregate *aggregate = aggregate_of(context);
  struct sum *sum = sqlite3_aggregate_context(context, 0);
  double rows;
  float *out;
  if (!sum || sum->rows == 0)
    return;
  out = sqlite3_malloc64(sum->dim * sizeof(float));
  if (!out) {
    sqlite3_result_error_nomem(context);
    return;
  }
  rows = aggregate->is_mean ? (double)sum->rows : 1;
  struct ext_pieces piece = {.context = context, .all = sum->dim};
  while (ext_pieces_next(&piece))
    sum_round(sum, rows, out, piece.at, piece.n);
  if (piece.stopped)
    sqlite3_free(out);
  else
    ext_result_vec(context, aggregate->name, out, sum->dim);
}

static void sum_final(sqlite3_context *context) {
  struct sum *sum = sqlite3_aggregate_context(context, 0);
  sum_value(context);
  if (sum)
    sqlite3_free(sum->total);
}

/* ---- emb_pack ------------------------------------------------------------ */

static int pack_grow(struct pack *pack) {
  uint64_t capacity = pack->capacity ? pack->capacity * 2 : 32;
  int64_t *keys = sqlite3_realloc64(pack->keys, capacity * sizeof *keys);
  if (!keys)
    return SQLITE_NOMEM;
  pack->keys = keys;
  pack->capacity = capacity;
  return SQLITE_OK;
}

static void pack_step(sqlite3_context *context, int argc,
                      sqlite3_value **argv) {
  struct pack *pack;
  char *err = NULL;
  int64_t key, limit;
  int rc;
  (void)argc;
  if (sqlite3_value_type(argv[0]) == SQLITE_NULL)
    return;
  pack = sqlite3_aggregate_context(context, sizeof *pack);
  if (!pack) {
    sqlite3_result_error_nomem(context);
    return;
  }
  rc = ext_key_from_value(argv[0], "argument 1 of emb_pack", &key, &err);
  limit = sqlite3_limit(sqlite3_context_db_handle(context), SQLITE_LIMIT_LENGTH,
                        -1);
  if (rc == SQLITE_OK && (int64_t)(pack->n + 1) * 8 > limit) {
    sqlite3_result_error_toobig(context);
    return;
  }
  if (rc == SQLITE_OK && pack->n == pack->capacity)
    rc = pack_grow(pack);
  if (rc != SQLITE_OK) {
    ext_result_error(context, rc, err);
    return;
  }
  pack->keys[pack->n++] = key;
  emb_check(ext_pack_valid(pack));
}

static void pack_final(sqlite3_context *context) {
  struct pack *pack = sqlite3_aggregate_context(context, 0);
  if (pack && pack->n > 0)
    sqlite3_result_blob64(context, pack->keys, pack->n * 8, sqlite3_free);
  else
    sqlite3_result_zeroblob(context, 0); /* an empty list, for emb_get */
}

/* ---- registration -------------------------------------------------------- */

int ext_register_vector_aggregates(sqlite3 *db) {
  static const struct aggregate aggregates[] = {{"emb_sum", 0}, {"emb_avg", 1}};
  size_t i;
  int rc = SQLITE_OK;
  for (i = 0; rc == SQLITE_OK && i < sizeof aggregates / sizeof *aggregates;
       i++)
    rc = sqlite3_create_window_function(
        db, aggregates[i].name, 1, FLAGS, (void *)(uintptr_t)&aggregates[i],
        sum_step, sum_final, sum_value, sum_inverse, NULL);
  if (rc == SQLITE_OK)
    rc = sqlite3_create_function_v2(db, "emb_pack", 1, FLAGS, NULL, NULL,
                                    pack_step, pack_final, NULL);
  return rc;
}
