/* SPDX-License-Identifier: MIT
**
** vector.c -- the scalar functions of vector arithmetic.
**
** Each function is a row of a table that names a driver (how arguments and
** result are passed) and, where several functions share a driver, a kernel.
*/
#include "fn.h"

#include <math.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

#define FLAGS (SQLITE_UTF8 | SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC)

/* Since 3.45 a function that sets a subtype must say so; older versions
** ignore the bit. */
#ifdef SQLITE_RESULT_SUBTYPE
#define FLAG_SUBTYPE SQLITE_RESULT_SUBTYPE
#else
#define FLAG_SUBTYPE 0x001000000
#endif
#define SUBTYPE_JSON 'J' /* what SQLite's own JSON functions look for */

typedef void (*combine_fn)(float *out, const float *a, const float *b,
                           uint32_t n);
/* Returns 0 when the measure has no value. */
typedef int (*measure_fn)(const float *a, const float *b, uint32_t n,
                          double *out);

struct function {
  const char *name;
  int nargs;
  int flags;
  void (*call)(sqlite3_context *, int, sqlite3_value **);
  combine_fn combine;
  measure_fn measure;
};

static const struct function *function_of(sqlite3_context *context) {
  return sqlite3_user_data(context);
}

/* ---- arguments ----------------------------------------------------------- */

/* Reads argument i.  Returns 0 if it has set the error as the result. */
static int vector_take(sqlite3_context *context, sqlite3_value **argv, int i,
                       struct ext_floats *operand) {
  struct ext_conn asked = {.db = sqlite3_context_db_handle(context)};
  char what[64], *err = NULL;
  int rc;
  sqlite3_snprintf(sizeof what, what, "argument %d of %s", i + 1,
                   function_of(context)->name);
  rc = ext_vec_from_value(argv[i],
                          &(struct ext_arg){what, ext_link_interrupted, &asked},
                          0, operand, &err);
  if (rc == SQLITE_OK && operand->n == 0) {
    ext_floats_free(operand);
    rc = ext_error(&err, SQLITE_MISMATCH, "%s is an empty vector", what);
  }
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
  return rc == SQLITE_OK;
}

/* Reads two vectors of one dimension.  Returns 0 if it has set an error as the
** result, or left the result NULL for a NULL argument. */
static int take_pair(sqlite3_context *context, sqlite3_value **argv,
                     struct ext_floats *a, struct ext_floats *b) {
  char *err = NULL;
  int rc;
  if (sqlite3_value_type(argv[0]) == SQLITE_NULL ||
      sqlite3_value_type(argv[1]) == SQLITE_NULL)
    return 0;
  if (!vector_take(context, argv, 0, a))
    return 0;
  if (!vector_take(context, argv, 1, b)) {
    ext_floats_free(a);
    return 0;
  }
  if (a->n == b->n)
    return 1;
  rc = ext_error(&err, SQLITE_MISMATCH,
                 "%s needs vectors of one dimension, got %u and %u",
                 function_of(context)->name, a->n, b->n);
  ext_result_error(context, rc, err);
  ext_floats_free(a);
  ext_floats_free(b);
  return 0;
}

/* Returns a new vector of n elements, or NULL after setting the error. */
static float *vector_make(sqlite3_context *context, uint32_t n) {
  float *vec = sqlite3_malloc64(n * sizeof(float));
  if (!vec)
    sqlite3_result_error_nomem(context);
  return vec;
}

/* Makes the vector the result, or frees it if the loop was interrupted. */
static void vector_result(const struct ext_pieces *piece, float *vec) {
  if (piece->stopped)
    sqlite3_free(vec);
  else
    ext_result_vec(piece->context, function_of(piece->context)->name, vec,
                   piece->all);
}

/* ---- kernels ------------------------------------------------------------- */

static void element_add(float *out, const float *a, const float *b,
                        uint32_t n) {
  uint32_t i;
  for (i = 0; i < n; i++)
    out[i] = a[i] + b[i];
}

static void element_subtract(float *out, const float *a, const float *b,
                             uint32_t n) {
  uint32_t i;
  for (i = 0; i < n; i++)
    out[i] = a[i] - b[i];
}

static void element_multiply(float *out, const float *a, const float *b,
                             uint32_t n) {
  uint32_t i;
  for (i = 0; i < n; i++)
    out[i] = a[i] * b[i];
}

static void element_scale(float *out, const float *vec, uint32_t n,
                          double factor) {
  uint32_t i;
  for (i = 0; i < n; i++)
    out[i] = (float)((double)vec[i] * factor);
}

/* The distances are the engine's, the same as in a nearest-neighbour search. */
static int distance_l2(const float *a, const float *b, uint32_t n,
                       double *out) {
  return emb_distance(EMB_L2, a, b, n, out);
}

static int distance_cosine(const float *a, const float *b, uint32_t n,
                           double *out) {
  return emb_distance(EMB_COSINE, a, b, n, out);
}

static int distance_dot(const float *a, const float *b, uint32_t n,
                        double *out) {
  return emb_distance(EMB_DOT, a, b, n, out);
}

static int vector_dot(const float *a, const float *b, uint32_t n, double *out) {
  int has = distance_dot(a, b, n, out);
  *out = -*out;
  return has;
}

/* ---- drivers ------------------------------------------------------------- */

static void call_combine(sqlite3_context *context, int argc,
                         sqlite3_value **argv) {
  struct ext_floats a, b;
  float *out;
  (void)argc;
  if (!take_pair(context, argv, &a, &b))
    return;
  out = vector_make(context, a.n);
  if (out) {
    struct ext_pieces piece = {.context = context, .all = a.n};
    while (ext_pieces_next(&piece))
      function_of(context)->combine(out + piece.at, a.at + piece.at,
                                    b.at + piece.at, piece.n);
    vector_result(&piece, out);
  }
  ext_floats_free(&a);
  ext_floats_free(&b);
}

static void call_measure(sqlite3_context *context, int argc,
                         sqlite3_value **argv) {
  struct ext_floats a, b;
  double out;
  (void)argc;
  if (!take_pair(context, argv, &a, &b))
    return;
  if (function_of(context)->measure(a.at, b.at, a.n, &out))
    sqlite3_result_double(context, out);
  ext_floats_free(&a);
  ext_floats_free(&b);
}

/* Makes vec * factor the result. */
static void result_scaled(sqlite3_context *context, const struct ext_floats *v,
                          double factor) {
  struct ext_pieces piece = {.context = context, .all = v->n};
  float *out = vector_make(context, v->n);
  if (!out)
    return;
  while (ext_pieces_next(&piece))
    element_scale(out + piece.at, v->at + piece.at, piece.n, factor);
  vector_result(&piece, out);
}

static void call_scale(sqlite3_context *context, int argc,
                       sqlite3_value **argv) {
  int type = sqlite3_value_type(argv[1]);
  struct ext_floats v;
  char *err = NULL;
  int rc;
  (void)argc;
  if (sqlite3_value_type(argv[0]) == SQLITE_NULL || type == SQLITE_NULL)
    return;
  if (type != SQLITE_INTEGER && type != SQLITE_FLOAT) {
    rc = ext_error(&err, SQLITE_MISMATCH,
                   "argument 2 of emb_scale must be a number, got %s",
                   ext_value_type_name(argv[1]));
    ext_result_error(context, rc, err);
    return;
  }
  if (!vector_take(context, argv, 0, &v))
    return;
  result_scaled(context, &v, sqlite3_value_double(argv[1]));
  ext_floats_free(&v);
}

static void call_normalize(sqlite3_context *context, int argc,
                           sqlite3_value **argv) {
  struct ext_floats v;
  double length;
  (void)argc;
  if (sqlite3_value_type(argv[0]) == SQLITE_NULL ||
      !vector_take(context, argv, 0, &v))
    return;
  vector_dot(v.at, v.at, v.n, &length);
  length = sqrt(length);
  result_scaled(context, &v, length == 0 ? 1 : 1 / length);
  ext_floats_free(&v);
}

static void call_f32(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct ext_floats v;
  (void)argc;
  if (sqlite3_value_type(argv[0]) == SQLITE_NULL ||
      !vector_take(context, argv, 0, &v))
    return;
  sqlite3_result_blob64(context, v.at, v.n * sizeof(float),
                        v.owned ? sqlite3_free : SQLITE_TRANSIENT);
}

static void call_length(sqlite3_context *context, int argc,
                        sqlite3_value **argv) {
  struct ext_floats v;
  (void)argc;
  if (sqlite3_value_type(argv[0]) == SQLITE_NULL ||
      !vector_take(context, argv, 0, &v))
    return;
  sqlite3_result_int64(context, v.n);
  ext_floats_free(&v);
}

/* Writes the array; returns its length, or 0 if it was interrupted. */
static size_t json_print(sqlite3_context *context, const struct ext_floats *v,
                         char *text) {
  struct ext_pieces piece = {.context = context, .all = v->n};
  size_t at = 0;
  uint32_t i;
  while (ext_pieces_next(&piece)) {
    for (i = piece.at; i < piece.at + piece.n; i++) {
      text[at++] = i ? ',' : '[';
      at += ext_decimal_print(v->at[i], text + at);
    }
  }
  text[at++] = ']';
  return piece.stopped ? 0 : at;
}

static void call_to_json(sqlite3_context *context, int argc,
                         sqlite3_value **argv) {
  struct ext_floats v;
  char *text;
  size_t size;
  (void)argc;
  if (sqlite3_value_type(argv[0]) == SQLITE_NULL ||
      !vector_take(context, argv, 0, &v))
    return;
  text = sqlite3_malloc64((uint64_t)v.n * (DECIMAL_PRINT_MAX + 1) + 1);
  size = text ? json_print(context, &v, text) : 0;
  if (size) {
    sqlite3_result_text64(context, text, size, sqlite3_free, SQLITE_UTF8);
    sqlite3_result_subtype(context, SUBTYPE_JSON);
  } else if (text) {
    sqlite3_free(text);
  } else {
    sqlite3_result_error_nomem(context);
  }
  ext_floats_free(&v);
}

static void call_version(sqlite3_context *context, int argc,
                         sqlite3_value **argv) {
  (void)argc;
  (void)argv;
  sqlite3_result_text(context, EMB_VERSION, -1, SQLITE_STATIC);
}

static void call_debug(sqlite3_context *context, int argc,
                       sqlite3_value **argv) {
  (void)argc;
  (void)argv;
  sqlite3_result_text(
      context,
      sqlite3_mprintf("emb %s (%.12s), SQLite %s (built for %s), compiler %s",
                      EMB_VERSION, emb_source_id(), sqlite3_libversion(),
                      SQLITE_VERSION, __VERSION__),
      -1, sqlite3_free);
}

/* ---- slots of keys ------------------------------------------------------- */

#define SLOT_SHIFT 48
#define SLOT_MAX 32767

static int vector_take_number(sqlite3_context *context, sqlite3_value *value,
                              const char *what, sqlite3_int64 most,
                              sqlite3_int64 *number) {
  char *text;
  *number = sqlite3_value_int64(value);
  if (sqlite3_value_numeric_type(value) == SQLITE_INTEGER && *number >= 0 &&
      *number <= most)
    return 1;
  text = sqlite3_mprintf("emb: %s must be an integer between 0 and %lld", what,
                         most);
  if (text)
    sqlite3_result_error(context, text, -1);
  else
    sqlite3_result_error_nomem(context);
  sqlite3_free(text);
  return 0;
}

static void call_slot_key(sqlite3_context *context, int argc,
                          sqlite3_value **argv) {
  sqlite3_int64 slot, id;
  (void)argc;
  if (sqlite3_value_type(argv[0]) == SQLITE_NULL ||
      sqlite3_value_type(argv[1]) == SQLITE_NULL)
    return;
  if (vector_take_number(context, argv[0], "slot", SLOT_MAX, &slot) &&
      vector_take_number(context, argv[1], "id",
                         ((sqlite3_int64)1 << SLOT_SHIFT) - 1, &id))
    sqlite3_result_int64(context, slot << SLOT_SHIFT | id);
}

static void call_slot(sqlite3_context *context, int argc,
                      sqlite3_value **argv) {
  uint64_t key = (uint64_t)sqlite3_value_int64(argv[0]);
  (void)argc;
  if (sqlite3_value_type(argv[0]) != SQLITE_NULL)
    sqlite3_result_int64(context,
                         (sqlite3_int64)(key >> SLOT_SHIFT & SLOT_MAX));
}

/* ---- registration -------------------------------------------------------- */

static const struct function vector_functions[] = {
    {"emb_f32", 1, FLAGS, call_f32, NULL, NULL},
    {"emb_to_json", 1, FLAGS | FLAG_SUBTYPE, call_to_json, NULL, NULL},
    {"emb_length", 1, FLAGS, call_length, NULL, NULL},
    {"emb_add", 2, FLAGS, call_combine, element_add, NULL},
    {"emb_sub", 2, FLAGS, call_combine, element_subtract, NULL},
    {"emb_mul", 2, FLAGS, call_combine, element_multiply, NULL},
    {"emb_scale", 2, FLAGS, call_scale, NULL, NULL},
    {"emb_dot", 2, FLAGS, call_measure, NULL, vector_dot},
    {"emb_distance_l2", 2, FLAGS, call_measure, NULL, distance_l2},
    {"emb_distance_cosine", 2, FLAGS, call_measure, NULL, distance_cosine},
    {"emb_distance_dot", 2, FLAGS, call_measure, NULL, distance_dot},
    {"emb_normalize", 1, FLAGS, call_normalize, NULL, NULL},
    {"emb_slot_key", 2, FLAGS, call_slot_key, NULL, NULL},
    {"emb_slot", 1, FLAGS, call_slot, NULL, NULL},
    {"emb_version", 0, FLAGS, call_version, NULL, NULL},
    {"emb_debug", 0, FLAGS, call_debug, NULL, NULL},
};

int ext_register_vector_functions(sqlite3 *db) {
  size_t i;
  int rc = SQLITE_OK;
  for (i = 0; rc == SQLITE_OK &&
              i < sizeof vector_functions / sizeof *vector_functions;
       i++) {
    const struct function *f = &vector_functions[i];
    rc = sqlite3_create_function_v2(db, f->name, f->nargs, f->flags,
                                    (void *)(uintptr_t)f, f->call, NULL, NULL,
                                    NULL);
  }
  if (rc == SQLITE_OK)
    rc = ext_register_vector_aggregates(db);
  if (rc == SQLITE_OK)
    rc = ext_register_vector_tables(db);
  if (rc == SQLITE_OK)
    rc = ext_register_vector_quantizers(db);
  return rc;
}
