/* SPDX-License-Identifier: MIT
**
** vec_arg.c -- vectors and keys as SQL passes them.
**
** An aligned BLOB is used in place; a misaligned one (SQLite hands out pointers
** into its pages) is copied.  JSON is scanned in one pass, after a first pass
** has counted the commas, which bounds the number of elements.
*/
#include "value.h"

#include <math.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "a BLOB is used as float32 and int64 without conversion");
_Static_assert(sizeof(float) == 4, "float is IEEE float32");

/* The numbers of a JSON array: floats, or keys if `keys` is not NULL. */
struct vec_arg_list {
  float *floats;
  int64_t *keys;
  size_t n;
};

/* A JSON text and how far it has been read. */
struct scan {
  const char *text;
  size_t size;
  size_t at;
  const char *what; /* the argument's name */
  const struct ext_arg *arg;
  size_t polled; /* where it was last asked */
  char **err;
};

const char *ext_value_type_name(sqlite3_value *value) {
  switch (sqlite3_value_type(value)) {
  case SQLITE_INTEGER:
    return "INTEGER";
  case SQLITE_FLOAT:
    return "REAL";
  case SQLITE_TEXT:
    return "TEXT";
  case SQLITE_BLOB:
    return "BLOB";
  default:
    return "NULL";
  }
}

/* ---- JSON ---------------------------------------------------------------- */

/* Does an invalid JSON array look like packed numbers that a driver bound as
** TEXT (Perl's does)?  It has bytes that no JSON array of numbers has, and
** either no '[' in front or so many zeros that the '[' is a coincidence. */
static int is_packed(const char *text, size_t size) {
  size_t others = 0, zeros = 0;
  for (size_t i = 0; i < size; i++) {
    unsigned char c = (unsigned char)text[i];
    others += c < 9 || (c > 13 && c < 32) || c >= 127;
    zeros += c == 0;
  }
  return others && (text[0] != '[' || (size >= 8 && zeros * 4 >= size));
}

static int fail_scan(struct scan *s, const struct vec_arg_list *list) {
  if (is_packed(s->text, s->size))
    return ext_error(s->err, SQLITE_MISMATCH,
                     "%s is a TEXT of packed numbers; bind it as a BLOB",
                     s->what);
  return ext_error(s->err, SQLITE_ERROR, "invalid JSON %s at character %lld",
                   list->keys ? "keys" : "vector", (long long)s->at + 1);
}

/* The next byte that is not white space, or 0 at the end. */
static char json_peek(struct scan *s) {
  for (; s->at < s->size; s->at++) {
    char c = s->text[s->at];
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
      return c;
  }
  return 0;
}

/* Reads one number into the list. */
static int scan_number(struct scan *s, struct vec_arg_list *list) {
  struct decimal number;
  int valid;
  if (s->at - s->polled >= EXT_ARG_BYTES) {
    s->polled = s->at;
    if (ext_arg_stops(s->arg))
      return ext_error(s->err, SQLITE_INTERRUPT, "interrupted");
  }
  if (list->keys && s->at < s->size && s->text[s->at] == '"')
    return ext_error(s->err, SQLITE_MISMATCH,
                     "element %lld of %s is a text, not an integer key",
                     (long long)list->n, s->what);
  s->at += ext_decimal_scan(s->text + s->at, s->size - s->at, &number, &valid);
  if (!valid)
    return fail_scan(s, list);
  if (!list->keys) {
    list->floats[list->n] = ext_decimal_to_float(&number);
  } else if (!ext_decimal_to_int64(&number, &list->keys[list->n])) {
    return ext_error(s->err, SQLITE_MISMATCH,
                     "element %lld of %s is not a 64-bit integer",
                     (long long)list->n, s->what);
  }
  list->n++;
  return SQLITE_OK;
}

/* Reads '[' numbers ']' and appends the numbers to the list. */
static int scan_array(struct scan *s, struct vec_arg_list *list) {
  int rc;
  if (json_peek(s) != '[')
    return fail_scan(s, list);
  s->at++;
  if (json_peek(s) == ']') {
    s->at++;
    return SQLITE_OK;
  }
  for (;;) {
    json_peek(s);
    rc = scan_number(s, list);
    if (rc != SQLITE_OK)
      return rc;
    if (json_peek(s) == ']')
      break;
    if (json_peek(s) != ',')
      return fail_scan(s, list);
    s->at++;
  }
  s->at++;
  return SQLITE_OK;
}

/* Nothing but white space may follow. */
static int scan_end(struct scan *s, const struct vec_arg_list *list) {
  json_peek(s);
  return s->at == s->size ? SQLITE_OK : fail_scan(s, list);
}

/* Points s at a TEXT value's bytes and allocates *numbers, with room for as
** many numbers of `size` bytes as the text can hold.  The caller frees it. */
static int scan_open(struct scan *s, sqlite3_value *value,
                     const struct ext_arg *arg, char **err, size_t size,
                     void **numbers) {
  const char *comma;
  size_t most = 1;
  s->text = (const char *)sqlite3_value_text(value);
  if (!s->text)
    return SQLITE_NOMEM;
  s->size = (size_t)sqlite3_value_bytes(value);
  s->at = 0;
  s->polled = 0;
  s->arg = arg;
  s->what = arg->what;
  s->err = err;
  for (comma = s->text;
       (comma = memchr(comma, ',', s->size - (size_t)(comma - s->text)));
       comma++)
    most++;
  *numbers = sqlite3_malloc64(most * size);
  return *numbers ? SQLITE_OK : SQLITE_NOMEM;
}

/* ---- vectors ------------------------------------------------------------- */

#define BLOCK 16

/* Is any of BLOCK elements not finite (its exponent all ones)?  The loop has no
** branches, so that the compiler can vectorize it. */
static int block_is_bad(const float *vec) {
  uint32_t bad = 0;
  for (size_t i = 0; i < BLOCK; i++) {
    uint32_t bits;
    memcpy(&bits, vec + i, sizeof bits);
    bad |= (bits & 0x7f800000) == 0x7f800000;
  }
  return bad != 0;
}

/* Index of the first element that is not finite, or n. */
static size_t find_nonfinite(const float *vec, size_t n) {
  size_t i = 0;
  while (i + BLOCK <= n && !block_is_bad(vec + i))
    i += BLOCK;
  for (; i < n; i++) {
    if (!isfinite(vec[i]))
      break;
  }
  return i;
}

int ext_vec_check_finite(const float *vec, size_t n, const char *what,
                         char **err) {
  size_t i = find_nonfinite(vec, n);
  if (i == n)
    return SQLITE_OK;
  return ext_error(err, SQLITE_CONSTRAINT,
                   "non-finite value in element %lld of %s", (long long)i,
                   what);
}

/* Returns size bytes of a BLOB in place, or a copy if its address is not
** aligned to `align`. */
static int take_blob(sqlite3_value *value, size_t size, size_t align,
                     void **out, int *owned) {
  const void *blob = sqlite3_value_blob(value);
  *owned = 0;
  *out = NULL;
  if (size == 0)
    return SQLITE_OK; /* SQLite may return NULL or any address */
  if (!blob)
    return SQLITE_NOMEM; /* a zeroblob() that could not be expanded */
  if ((uintptr_t)blob % align == 0) {
    *out = (void *)(uintptr_t)blob;
    return SQLITE_OK;
  }
  *out = sqlite3_malloc64(size);
  if (!*out)
    return SQLITE_NOMEM;
  *owned = 1;
  memcpy(*out, blob, size);
  return SQLITE_OK;
}

/* The BLOB may hold float64, numpy's default. */
static const char *arg_hint(size_t needed, size_t got, int is_blob) {
  return is_blob && got == 2 * needed ? " (float64? make it float32)" : "";
}

static int fail_dim(const char *what, uint32_t dim, size_t n, int is_blob,
                    char **err) {
  return ext_error(
      err, SQLITE_MISMATCH,
      "%s needs %u dimensions (%llu bytes), got %llu (%llu bytes)%s", what, dim,
      (unsigned long long)dim * 4, (unsigned long long)n,
      (unsigned long long)n * 4, arg_hint(dim, n, is_blob));
}

void ext_floats_free(struct ext_floats *floats) {
  if (floats->owned)
    sqlite3_free(floats->at);
  *floats = (struct ext_floats){0};
}

static int vec_from_blob(sqlite3_value *value, const char *what, uint32_t dim,
                         struct ext_floats *out, char **err) {
  size_t size = (size_t)sqlite3_value_bytes(value);
  void *data;
  int rc;
  out->n = (uint32_t)(size / 4);
  if (size % 4 != 0 && dim)
    return ext_error(err, SQLITE_MISMATCH,
                     "%s needs %u dimensions (%llu bytes), got %llu bytes",
                     what, dim, (unsigned long long)dim * 4,
                     (unsigned long long)size);
  if (size % 4 != 0)
    return ext_error(
        err, SQLITE_MISMATCH,
        "%s must be a BLOB of 4-byte floats or a JSON array, got %llu "
        "bytes",
        what, (unsigned long long)size);
  if (dim && out->n != dim)
    return fail_dim(what, dim, out->n, 1, err);
  rc = take_blob(value, size, _Alignof(float), &data, &out->owned);
  out->at = data;
  return rc;
}

static int vec_from_json(sqlite3_value *value, const struct ext_arg *arg,
                         uint32_t dim, struct ext_floats *out, char **err) {
  const char *what = arg->what;
  struct vec_arg_list list = {0};
  struct scan s;
  void *numbers;
  int rc = scan_open(&s, value, arg, err, sizeof(float), &numbers);
  if (rc != SQLITE_OK)
    return rc;
  list.floats = numbers;
  rc = scan_array(&s, &list);
  if (rc == SQLITE_OK)
    rc = scan_end(&s, &list);
  if (rc == SQLITE_OK && dim && list.n != dim)
    rc = fail_dim(what, dim, list.n, 0, err);
  if (rc != SQLITE_OK) {
    sqlite3_free(list.floats);
    return rc;
  }
  *out = (struct ext_floats){list.floats, (uint32_t)list.n, 1};
  return SQLITE_OK;
}

int ext_vec_from_value(sqlite3_value *value, const struct ext_arg *arg,
                       uint32_t dim, struct ext_floats *out, char **err) {
  const char *what = arg->what;
  int type = sqlite3_value_type(value);
  int rc;
  *out = (struct ext_floats){0};
  if (type == SQLITE_BLOB) {
    rc = vec_from_blob(value, what, dim, out, err);
  } else if (type == SQLITE_TEXT) {
    rc = vec_from_json(value, arg, dim, out, err);
  } else {
    rc = ext_error(err, SQLITE_MISMATCH,
                   "%s must be a BLOB or a JSON array, got %s", what,
                   ext_value_type_name(value));
  }
  if (rc != SQLITE_OK)
    return rc;
  emb_check(ext_floats_valid(out));
  rc = ext_vec_check_finite(out->at, out->n, what, err);
  if (rc != SQLITE_OK)
    ext_floats_free(out);
  return rc;
}

/* ---- matrices ------------------------------------------------------------ */

static int matrix_from_blob(sqlite3_value *value, const char *what,
                            uint32_t dim, size_t rows, struct ext_floats *out,
                            char **err) {
  size_t size = (size_t)sqlite3_value_bytes(value);
  void *data;
  int rc;
  if (size != rows * dim * sizeof(float))
    return ext_error(
        err, SQLITE_MISMATCH,
        "%s needs %llu rows of %u dimensions (%llu bytes), got %llu "
        "bytes%s",
        what, (unsigned long long)rows, dim,
        (unsigned long long)rows * dim * sizeof(float),
        (unsigned long long)size,
        arg_hint(rows * dim * sizeof(float), size, 1));
  rc = take_blob(value, size, _Alignof(float), &data, &out->owned);
  out->at = data;
  out->n = (uint32_t)(size / 4);
  return rc;
}

/* Reads '[' arrays ']', each of dim numbers; *rows: the number of arrays. */
static int scan_rows(struct scan *s, struct vec_arg_list *list, uint32_t dim,
                     size_t *rows) {
  int rc;
  json_peek(s);
  for (*rows = 0;; ++*rows) {
    size_t before = list->n;
    s->at++; /* '[' or ',' */
    rc = scan_array(s, list);
    if (rc != SQLITE_OK)
      return rc;
    if (list->n - before != dim)
      return ext_error(s->err, SQLITE_MISMATCH,
                       "row %llu of %s needs %u dimensions, got %llu",
                       (unsigned long long)*rows, s->what, dim,
                       (unsigned long long)(list->n - before));
    if (json_peek(s) == ']')
      break;
    if (json_peek(s) != ',')
      return fail_scan(s, list);
  }
  ++*rows;
  s->at++;
  return SQLITE_OK;
}

/* Reads a nested or a flat array; *rows: the number of rows of dim elements. */
static int scan_matrix(struct scan *s, struct vec_arg_list *list, uint32_t dim,
                       size_t *rows) {
  int nested = 0, rc;
  if (json_peek(s) == '[') {
    s->at++;
    nested = json_peek(s) == '[';
    s->at = 0;
  }
  if (nested) {
    rc = scan_rows(s, list, dim, rows);
  } else {
    rc = scan_array(s, list);
    *rows = list->n / dim;
    if (rc == SQLITE_OK && list->n % dim != 0)
      rc = ext_error(s->err, SQLITE_MISMATCH,
                     "%s needs rows of %u dimensions, got %llu numbers",
                     s->what, dim, (unsigned long long)list->n);
  }
  return rc == SQLITE_OK ? scan_end(s, list) : rc;
}

/* *rows: the number of rows read. */
static int matrix_from_json(sqlite3_value *value, const struct ext_arg *arg,
                            uint32_t dim, size_t *rows, struct ext_floats *out,
                            char **err) {
  struct vec_arg_list list = {0};
  struct scan s;
  void *numbers;
  int rc = scan_open(&s, value, arg, err, sizeof(float), &numbers);
  if (rc != SQLITE_OK)
    return rc;
  list.floats = numbers;
  rc = scan_matrix(&s, &list, dim, rows);
  if (rc != SQLITE_OK)
    sqlite3_free(list.floats);
  else
    *out = (struct ext_floats){list.floats, (uint32_t)list.n, 1};
  return rc;
}

/* dim: elements per row. */
static int matrix_check(struct ext_floats *out, const char *what, uint32_t dim,
                        char **err) {
  size_t bad, n = out->n;
  emb_check(ext_floats_valid(out));
  bad = find_nonfinite(out->at, out->n);
  if (bad == n)
    return SQLITE_OK;
  ext_floats_free(out);
  return ext_error(err, SQLITE_CONSTRAINT,
                   "non-finite value in element %llu of row %llu of %s",
                   (unsigned long long)(bad % dim),
                   (unsigned long long)(bad / dim), what);
}

static int matrix_type_error(sqlite3_value *value, const char *what,
                             char **err) {
  return ext_error(err, SQLITE_MISMATCH,
                   "%s must be a BLOB or a JSON array, got %s", what,
                   ext_value_type_name(value));
}

int ext_matrix_from_value(sqlite3_value *value, const struct ext_arg *arg,
                          uint32_t dim, size_t rows, struct ext_floats *out,
                          char **err) {
  const char *what = arg->what;
  int type = sqlite3_value_type(value);
  size_t got = 0;
  int rc;
  emb_assert(dim > 0);
  *out = (struct ext_floats){0};
  if (type == SQLITE_BLOB) {
    rc = matrix_from_blob(value, what, dim, rows, out, err);
  } else if (type == SQLITE_TEXT) {
    rc = matrix_from_json(value, arg, dim, &got, out, err);
    if (rc == SQLITE_OK && got != rows) {
      ext_floats_free(out);
      rc = ext_error(err, SQLITE_MISMATCH,
                     "%s needs %llu rows of %u dimensions, got %llu rows", what,
                     (unsigned long long)rows, dim, (unsigned long long)got);
    }
  } else {
    rc = matrix_type_error(value, what, err);
  }
  return rc == SQLITE_OK ? matrix_check(out, what, dim, err) : rc;
}

int ext_rows_from_value(sqlite3_value *value, const struct ext_arg *arg,
                        uint32_t dim, size_t *rows, struct ext_floats *out,
                        char **err) {
  const char *what = arg->what;
  int type = sqlite3_value_type(value);
  int rc;
  emb_assert(dim > 0);
  *out = (struct ext_floats){0};
  if (type == SQLITE_BLOB) {
    size_t size = (size_t)sqlite3_value_bytes(value), row = dim * sizeof(float);
    *rows = size / row;
    rc = size % row == 0
             ? matrix_from_blob(value, what, dim, *rows, out, err)
             : ext_error(err, SQLITE_MISMATCH,
                         "%s needs rows of %u dimensions (%llu bytes), got "
                         "%llu bytes",
                         what, dim, (unsigned long long)row,
                         (unsigned long long)size);
  } else if (type == SQLITE_TEXT) {
    rc = matrix_from_json(value, arg, dim, rows, out, err);
  } else {
    rc = matrix_type_error(value, what, err);
  }
  return rc == SQLITE_OK ? matrix_check(out, what, dim, err) : rc;
}

/* ---- keys ---------------------------------------------------------------- */

static int keys_from_json(sqlite3_value *value, const struct ext_arg *arg,
                          int64_t **out, size_t *n, char **err) {
  struct vec_arg_list list = {0};
  struct scan s;
  void *numbers;
  int rc = scan_open(&s, value, arg, err, sizeof(int64_t), &numbers);
  if (rc != SQLITE_OK)
    return rc;
  list.keys = numbers;
  rc = scan_array(&s, &list);
  if (rc == SQLITE_OK)
    rc = scan_end(&s, &list);
  if (rc != SQLITE_OK)
    sqlite3_free(list.keys);
  *out = list.keys;
  *n = list.n;
  return rc;
}

int ext_keys_from_value(sqlite3_value *value, const struct ext_arg *arg,
                        int64_t **out, int *owned, size_t *n, char **err) {
  const char *what = arg->what;
  int type = sqlite3_value_type(value);
  if (type == SQLITE_TEXT) {
    *owned = 1;
    return keys_from_json(value, arg, out, n, err);
  }
  if (type == SQLITE_BLOB) {
    size_t size = (size_t)sqlite3_value_bytes(value);
    void *data;
    int rc;
    if (size % 8 != 0 && !EMB_SEED(SEED_KEY_LIST_CUT))
      return ext_error(
          err, SQLITE_MISMATCH,
          "%s must be a BLOB of 8-byte integers or a JSON array, got "
          "%llu bytes%s",
          what, (unsigned long long)size,
          size % 4 ? "" : " (int32 or float32? make it int64)");
    rc = take_blob(value, size, _Alignof(int64_t), &data, owned);
    *out = data;
    *n = size / 8;
    return rc;
  }
  return ext_error(
      err, SQLITE_MISMATCH,
      "%s must be a BLOB of 8-byte integers or a JSON array, got %s", what,
      ext_value_type_name(value));
}

static int is_scalar_blob(sqlite3_value *value) {
  int bytes;
  if (sqlite3_value_type(value) != SQLITE_BLOB)
    return 0;
  bytes = sqlite3_value_bytes(value);
  return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

int ext_key_comparable(sqlite3_value *value, const char *what, char **err) {
  int64_t key;
  return is_scalar_blob(value) && !EMB_SEED(SEED_NUMPY_KEY_COMPARED)
             ? ext_key_from_value(value, what, &key, err)
             : SQLITE_OK;
}

int ext_key_from_value(sqlite3_value *value, const char *what, int64_t *key,
                       char **err) {
  int type = sqlite3_value_type(value);
  if (type == SQLITE_INTEGER) {
    *key = sqlite3_value_int64(value);
    return SQLITE_OK;
  }
  if (type == SQLITE_FLOAT) {
    double real = sqlite3_value_double(value);
    /* Excludes -2^63, as SQLite does: it may be the result of an overflow. */
    if (real > -0x1p63 && real < 0x1p63 && real == floor(real)) {
      *key = (int64_t)real;
      return SQLITE_OK;
    }
    return ext_error(err, SQLITE_MISMATCH, "%s must be an INTEGER, got %.15g",
                     what, real);
  }
  if (is_scalar_blob(value)) {
    int bytes = sqlite3_value_bytes(value);
    return ext_error(err, SQLITE_MISMATCH,
                     "%s must be an INTEGER, got %s %d-byte BLOB (numpy.%s? "
                     "bind int(x))",
                     what, bytes == 8 ? "an" : "a", bytes,
                     bytes == 1   ? "uint8 or bool_"
                     : bytes == 2 ? "int16"
                     : bytes == 4 ? "int32"
                                  : "int64");
  }
  return ext_error(err, SQLITE_MISMATCH, "%s must be an INTEGER, got %s", what,
                   ext_value_type_name(value));
}

void ext_result_vec(sqlite3_context *context, const char *name, float *vec,
                    uint32_t n) {
  char what[64], *err = NULL;
  int rc;
  emb_assert(vec && n > 0); /* no function returns an empty vector */
  sqlite3_snprintf(sizeof what, what, "the result of %s", name);
  rc = ext_vec_check_finite(vec, n, what, &err);
  if (rc == SQLITE_OK) {
    sqlite3_result_blob64(context, vec, n * sizeof(float), sqlite3_free);
  } else {
    sqlite3_free(vec);
    ext_result_error(context, rc, err);
  }
}
