/* SPDX-License-Identifier: MIT
**
** quantize.c -- emb_quantize and emb_dequantize: vectors in fewer bits, in the
** format of row files, and back.
**
** Each function has its name as user data.  The BLOBs may come from anywhere:
** the engine checks that they decode to finite numbers.
*/
#include "engine/storage/pack/emb_file.h"
#include "fn.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

#define FLAGS (SQLITE_UTF8 | SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC)

static const char *quantize_name(sqlite3_context *context) {
  return sqlite3_user_data(context);
}

static int any_null(int argc, sqlite3_value **argv) {
  int i = 0;
  while (i < argc && sqlite3_value_type(argv[i]) != SQLITE_NULL)
    i++;
  return i < argc;
}

/* ---- arguments ----------------------------------------------------------- */

static int fail_type(const char *name, sqlite3_value *value, char **err) {
  if (sqlite3_value_type(value) != SQLITE_TEXT)
    return ext_error(err, SQLITE_MISMATCH,
                     "argument 2 of %s must be 'float16', 'int8' or 'int4', "
                     "got %s",
                     name, ext_value_type_name(value));
  return ext_error(err, SQLITE_ERROR,
                   "argument 2 of %s must be 'float16', 'int8' or 'int4', "
                   "got '%.40s'",
                   name, sqlite3_value_text(value));
}

static int take_type(const char *name, sqlite3_value *value, int *type,
                     char **err) {
  const char *text = "";
  if (sqlite3_value_type(value) == SQLITE_TEXT) {
    text = (const char *)sqlite3_value_text(value);
    if (!text)
      return SQLITE_NOMEM;
  }
  *type = emb_quant_type(text);
  if (*type == 0 || strlen(text) != (size_t)sqlite3_value_bytes(value))
    return fail_type(name, value, err);
  return SQLITE_OK;
}

/* Argument 3, if given; argument 1, of `size` bytes, must match it. */
static int take_dim(const char *name, sqlite3_value *value, int type,
                    size_t size, uint32_t *dim, char **err) {
  sqlite3_int64 given = sqlite3_value_int64(value);
  if (sqlite3_value_type(value) != SQLITE_INTEGER || given < 1 ||
      given > INT32_MAX)
    return ext_error(err, SQLITE_MISMATCH,
                     "argument 3 of %s must be a number of dimensions", name);
  *dim = (uint32_t)given;
  if (emb_quant_bytes(type, *dim) == size)
    return SQLITE_OK;
  return ext_error(err, SQLITE_MISMATCH,
                   "argument 1 of %s needs %u dimensions (%llu bytes), got "
                   "%llu bytes",
                   name, *dim, (unsigned long long)emb_quant_bytes(type, *dim),
                   (unsigned long long)size);
}

/* Returns the dimension of a quantized BLOB. */
static int find_dim(const char *name, int argc, sqlite3_value **argv, int type,
                    uint32_t *dim, char **err) {
  size_t size;
  if (sqlite3_value_type(argv[0]) != SQLITE_BLOB)
    return ext_error(err, SQLITE_MISMATCH,
                     "argument 1 of %s must be a BLOB, got %s", name,
                     ext_value_type_name(argv[0]));
  size = (size_t)sqlite3_value_bytes(argv[0]);
  if (argc > 2)
    return take_dim(name, argv[2], type, size, dim, err);
  *dim = emb_quant_dim(type, size);
  if (*dim == 0)
    return ext_error(err, SQLITE_MISMATCH,
                     "argument 1 of %s is not a vector of type %s, got %llu "
                     "bytes",
                     name, sqlite3_value_text(argv[1]),
                     (unsigned long long)size);
  if (emb_quant_bytes(type, *dim - 1) == size)
    return ext_error(err, SQLITE_ERROR,
                     "argument 1 of %s has %u or %u dimensions; say which as "
                     "argument 3",
                     name, *dim - 1, *dim);
  return SQLITE_OK;
}

/* ---- there and back ------------------------------------------------------ */

static int fail_engine(const char *name, const emb_err *cause, char **err) {
  return ext_error(err, ext_code(cause->code), "argument 1 of %s: %s", name,
                   cause->text);
}

static int quantize_encode(const char *name, int type, const float *vec,
                           uint32_t n, void **out, char **err) {
  emb_err cause;
  *out = sqlite3_malloc64(emb_quant_bytes(type, n));
  if (!*out)
    return SQLITE_NOMEM;
  if (emb_quantize(type, n, vec, *out, &cause) == EMB_OK)
    return SQLITE_OK;
  sqlite3_free(*out);
  return fail_engine(name, &cause, err);
}

static void call_quantize(sqlite3_context *context, int argc,
                          sqlite3_value **argv) {
  const char *name = quantize_name(context);
  struct ext_conn asked = {.db = sqlite3_context_db_handle(context)};
  char what[64], *err = NULL;
  void *out = NULL;
  struct ext_floats vec = {0};
  int type = 0, rc;
  if (any_null(argc, argv))
    return;
  sqlite3_snprintf(sizeof what, what, "argument 1 of %s", name);
  rc = take_type(name, argv[1], &type, &err);
  if (rc == SQLITE_OK)
    rc = ext_vec_from_value(
        argv[0], &(struct ext_arg){what, ext_link_interrupted, &asked}, 0, &vec,
        &err);
  uint32_t n = vec.n;
  if (rc == SQLITE_OK)
    rc = n ? quantize_encode(name, type, vec.at, n, &out, &err)
           : ext_error(&err, SQLITE_MISMATCH, "%s is an empty vector", what);
  ext_floats_free(&vec);
  if (rc == SQLITE_OK)
    sqlite3_result_blob64(context, out, emb_quant_bytes(type, n), sqlite3_free);
  else
    ext_result_error(context, rc, err);
}

static int quantize_decode(const char *name, int type, sqlite3_value *value,
                           uint32_t dim, float **out, char **err) {
  const void *blob = sqlite3_value_blob(value);
  emb_err cause;
  *out = blob ? sqlite3_malloc64(dim * sizeof(float)) : NULL;
  if (!*out)
    return SQLITE_NOMEM;
  if (emb_dequantize(type, dim, blob, *out, &cause) == EMB_OK)
    return SQLITE_OK;
  sqlite3_free(*out);
  return fail_engine(name, &cause, err);
}

static void call_dequantize(sqlite3_context *context, int argc,
                            sqlite3_value **argv) {
  sqlite3 *db = sqlite3_context_db_handle(context);
  const char *name = quantize_name(context);
  char *err = NULL;
  float *out = NULL;
  uint32_t dim = 0;
  int type = 0, rc;
  if (any_null(argc, argv))
    return;
  rc = take_type(name, argv[1], &type, &err);
  if (rc == SQLITE_OK)
    rc = find_dim(name, argc, argv, type, &dim, &err);
  if (rc == SQLITE_OK &&
      dim > (uint32_t)sqlite3_limit(db, SQLITE_LIMIT_LENGTH, -1) / 4) {
    sqlite3_result_error_toobig(context);
    return;
  }
  if (rc == SQLITE_OK)
    rc = quantize_decode(name, type, argv[0], dim, &out, &err);
  if (rc == SQLITE_OK)
    sqlite3_result_blob64(context, out, dim * sizeof(float), sqlite3_free);
  else
    ext_result_error(context, rc, err);
}

/* ---- registration -------------------------------------------------------- */

static const struct ext_function quantize_functions[] = {
    {"emb_quantize", 2, call_quantize},
    {"emb_dequantize", 2, call_dequantize},
    {"emb_dequantize", 3, call_dequantize},
};

int ext_register_vector_quantizers(sqlite3 *db) {
  size_t i;
  int rc = SQLITE_OK;
  for (i = 0; rc == SQLITE_OK &&
              i < sizeof quantize_functions / sizeof *quantize_functions;
       i++)
    rc = sqlite3_create_function_v2(
        db, quantize_functions[i].name, quantize_functions[i].argc, FLAGS,
        (void *)(uintptr_t)quantize_functions[i].name,
        quantize_functions[i].call, NULL, NULL, NULL);
  return rc;
}
