/* SPDX-License-Identifier: MIT
**
** bag.c -- pooled lookups and their gradients.
**
**   emb_bag(table, keys, offsets, mode [, weights [, options]])
**                                    one vector per bag, in order of the bags:
**                                    n * 4 * dim bytes
**   emb_bag_apply(table, keys, offsets, mode, gradients
**                 [, weights [, lr [, step [, updated_at [, options]]]]])
**                                    applies one gradient per bag to its
**                                    keys; number of keys found
**
** keys are as for emb_get.  offsets says where each bag begins in them: a BLOB
** of int64 or a JSON array, as emb.h requires.  mode is 'sum', 'mean' or
** 'sqrtn'; a following (include_last_offset=1) means that there is one more
** offset, the number of keys.  weights has one number per key, or is NULL for 1
** each: a BLOB of float32 or a JSON array.  Both functions act on the engine at
** once, like emb_get and emb_apply.
*/
#include "fn.h"
SQLITE_EXTENSION_INIT3

/* The arguments of a call. */
struct bag_call {
  struct ext_table *table;
  struct ext_keys keys;
  int64_t *offsets;
  int offsets_owned;
  struct ext_floats weights;
  emb_bags bags;
  uint32_t column; /* or EXT_FN_ALL_COLUMNS */
};

static int bag_engine_error(int code, const emb_err *cause, char **err) {
  return code ? ext_engine_error(err, code, cause->text) : SQLITE_OK;
}

/* Reads mode and offsets; drops the last offset if it is only the end. */
static int bag_offsets(sqlite3_value *mode, struct bag_call *call, char **err) {
  const char *text;
  int last;
  emb_err cause;
  int rc = ext_arg_text(mode, "mode", &text, err);
  if (rc == SQLITE_OK)
    rc = bag_engine_error(emb_bag_mode(text, &call->bags.mode, &last, &cause),
                          &cause, err);
  if (rc != SQLITE_OK || !last)
    return rc;
  if (call->bags.count == 0)
    return ext_error(err, SQLITE_ERROR,
                     "include_last_offset needs at least one offset");
  if (call->offsets[--call->bags.count] != (int64_t)call->keys.n)
    return ext_error(err, SQLITE_ERROR,
                     "the last offset must be the number of keys, %lld, got "
                     "%lld",
                     (long long)call->keys.n,
                     (long long)call->offsets[call->bags.count]);
  return SQLITE_OK;
}

/* Reads the arguments table, keys, offsets, mode, and weights, which may be
** absent (NULL).  The caller must call bag_free in any case. */
static int bag_read(struct ext_conn *conn, sqlite3_value **argv,
                    sqlite3_value *weights, int writes, struct bag_call *call,
                    char **err) {
  emb_err cause;
  int rc = writes ? ext_fn_table_to_write(conn, argv[0], &call->table, err)
                  : ext_fn_table(conn, argv[0], &call->table, err);
  if (rc == SQLITE_OK)
    rc = ext_fn_keys(call->table, argv[1], "keys", &call->keys, err);
  if (rc == SQLITE_OK)
    rc = ext_keys_from_value(
        argv[2], &(struct ext_arg){"offsets", ext_link_interrupted, conn},
        &call->offsets, &call->offsets_owned, &call->bags.count, err);
  if (rc == SQLITE_OK)
    rc = bag_offsets(argv[3], call, err);
  if (rc == SQLITE_OK && weights && sqlite3_value_type(weights) != SQLITE_NULL)
    rc = ext_matrix_from_value(
        weights, &(struct ext_arg){"weights", ext_link_interrupted, conn}, 1,
        call->keys.n, &call->weights, err);
  call->bags.offsets = call->offsets;
  call->bags.weights = call->weights.at;
  return rc == SQLITE_OK
             ? bag_engine_error(
                   emb_check_bags(&call->bags, call->keys.n, &cause), &cause,
                   err)
             : rc;
}

static void bag_free(struct bag_call *call) {
  if (call->offsets_owned)
    sqlite3_free(call->offsets);
  ext_floats_free(&call->weights);
  ext_keys_free(&call->keys);
}

static int bag_get(struct bag_call *call, float *pooled, char **err) {
  struct ext_link *link = call->table->link;
  int rc;
  call->bags.peek = call->keys.peeks;
  call->bags.parts = ext_fn_column_parts(call->table, call->column);
  if (!call->bags.peek)
    ext_lease_begin(link, 0);
  rc = emb_bag(link->session, call->keys.at, call->keys.n, &call->bags, pooled);
  return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
}

static void fn_bag(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct bag_call call = {0};
  float *pooled = NULL;
  size_t size = 0;
  char *err = NULL;
  int rc = bag_read(ext_fn_conn(context), argv, argc > 4 ? argv[4] : NULL, 0,
                    &call, &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_column_option(call.table, argc > 5 ? argv[5] : NULL,
                              &call.column, &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_new_vectors(call.table, call.bags.count, &pooled, &size, &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_keys_look(call.table, &call.keys, &err);
  if (rc == SQLITE_OK && ext_keys_come(call.table))
    rc = ext_fn_rows_begin(call.table, call.keys.at, call.keys.n, &err);
  if (rc == SQLITE_OK)
    rc = bag_get(&call, pooled, &err);
  if (rc == SQLITE_OK && call.keys.settles)
    rc = ext_keys_settle(call.table, &call.keys, &err);
  if (rc == SQLITE_OK)
    size = ext_fn_column_keep(call.table, call.column, pooled, call.bags.count);
  bag_free(&call);
  if (rc == SQLITE_OK) {
    sqlite3_result_blob64(context, pooled, size, sqlite3_free);
  } else {
    sqlite3_free(pooled);
    ext_result_error(context, rc, err);
  }
}

static int bag_step(struct bag_call *call, const float *gradients,
                    const emb_update *how, int64_t *count, char **err) {
  size_t n = call->keys.n;
  uint8_t *found = sqlite3_malloc64(n ? n : 1);
  int rc, attempts = 0;
  call->bags.found = found;
  do
    rc = found ? emb_bag_apply(call->table->link->session, call->keys.at, n,
                               &call->bags, gradients, how)
               : EMB_NOMEM;
  while (ext_txn_again(call->table, &attempts, &rc, err));
  *count = 0;
  for (size_t i = 0; rc == SQLITE_OK && i < n; i++)
    *count += found[i];
  sqlite3_free(found);
  return rc;
}

static int bag_apply(struct bag_call *call, const float *gradients,
                     const emb_update *how, int64_t *count, char **err) {
  int rc = SQLITE_OK;
  if (ext_keys_grow(call->table)) {
    rc = ext_fn_keys_add(call->table, &call->keys, err);
    if (rc == SQLITE_OK)
      rc = ext_fn_rows_begin(call->table, call->keys.at, call->keys.n, err);
  }
  if (rc == SQLITE_OK)
    rc = bag_step(call, gradients, how, count, err);
  if (rc == SQLITE_OK && call->keys.absent == 0)
    rc = ext_keys_settle(call->table, &call->keys, err);
  return rc;
}

static void fn_bag_apply(sqlite3_context *context, int argc,
                         sqlite3_value **argv) {
  struct bag_call call = {0};
  struct ext_floats gradients = {0};
  emb_update how = {0};
  int64_t count = 0;
  char *err = NULL;
  int rc = bag_read(ext_fn_conn(context), argv, argc > 5 ? argv[5] : NULL, 1,
                    &call, &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_column_option(call.table, argc > 9 ? argv[9] : NULL,
                              &call.column, &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_column_steps(call.table, call.column, &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_column_read(call.table, argv[4],
                            &(struct ext_fn_column_rows){
                                "gradients", call.column, call.bags.count, 0},
                            &gradients, &err);
  if (rc == SQLITE_OK)
    rc = ext_update_how(argc > 6 ? argv[6] : NULL, argc > 7 ? argv[7] : NULL,
                        &how, &err);
  if (rc == SQLITE_OK && argc > 8)
    rc = ext_update_time(call.table, argv[8], &err);
  if (rc == SQLITE_OK) {
    how.parts = ext_fn_column_parts(call.table, call.column);
    rc = bag_apply(&call, gradients.at, &how, &count, &err);
    ext_update_time_end(call.table);
  }
  ext_floats_free(&gradients);
  bag_free(&call);
  if (rc == SQLITE_OK)
    sqlite3_result_int64(context, count);
  else
    ext_result_error(context, rc, err);
}

int ext_fn_bag_register(struct ext_conn *conn) {
  static const struct ext_function functions[] = {
      {"emb_bag", 4, fn_bag},
      {"emb_bag", 5, fn_bag},
      {"emb_bag", 6, fn_bag},
      {"emb_bag_apply", 5, fn_bag_apply},
      {"emb_bag_apply", 6, fn_bag_apply},
      {"emb_bag_apply", 7, fn_bag_apply},
      {"emb_bag_apply", 8, fn_bag_apply},
      {"emb_bag_apply", 9, fn_bag_apply},
      {"emb_bag_apply", 10, fn_bag_apply}};
  return ext_fn_register(conn, functions,
                         sizeof functions / sizeof functions[0]);
}
