/* SPDX-License-Identifier: MIT
**
** vec_arg.c -- vectors and keys as SQL passes them.
**
** A BLOB at a fitting address is used where it is; at another one (SQLite
** hands out pointers into its pages) it is copied.  JSON is scanned in one
** pass after its commas have been counted, which bounds its numbers.
*/
#include "vec_arg.h"
#include "decimal.h"
#include "ext.h"

#include <assert.h>
#include <math.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "a BLOB is used as float32 and int64 without conversion");
static_assert(sizeof(float) == 4, "float is IEEE float32");

/* The numbers of a JSON array: floats, or keys where keys is not NULL. */
struct list {
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
  char **err;
};

const char *emb_value_type_name(sqlite3_value *value) {
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

/* ---- JSON --------------------------------------------------------------- */

static int fail_scan(struct scan *s, const struct list *list) {
  return ext_error(s->err, SQLITE_ERROR, "invalid JSON %s at character %lld",
                   list->keys ? "keys" : "vector", (long long)s->at + 1);
}

/* The next byte that is not white space, or 0 at the end. */
static char peek(struct scan *s) {
  while (s->at < s->size && s->text[s->at] != 0 &&
         strchr(" \t\n\r", s->text[s->at]))
    s->at++;
  return s->at < s->size ? s->text[s->at] : 0;
}

/* Reads one number into the list. */
static int scan_number(struct scan *s, struct list *list) {
  struct decimal number;
  int valid;
  s->at += decimal_scan(s->text + s->at, s->size - s->at, &number, &valid);
  if (!valid)
    return fail_scan(s, list);
  if (!list->keys) {
    list->floats[list->n] = decimal_to_float(&number);
  } else if (!decimal_to_int64(&number, &list->keys[list->n])) {
    return ext_error(s->err, SQLITE_MISMATCH,
                     "element %lld of %s is not a 64-bit integer",
                     (long long)list->n, s->what);
  }
  list->n++;
  return SQLITE_OK;
}

/* Reads '[' numbers ']' and appends the numbers to the list. */
static int scan_array(struct scan *s, struct list *list) {
  int rc;
  if (peek(s) != '[')
    return fail_scan(s, list);
  s->at++;
  if (peek(s) == ']') {
    s->at++;
    return SQLITE_OK;
  }
  for (;;) {
    peek(s);
    rc = scan_number(s, list);
    if (rc != SQLITE_OK)
      return rc;
    if (peek(s) == ']')
      break;
    if (peek(s) != ',')
      return fail_scan(s, list);
    s->at++;
  }
  s->at++;
  return SQLITE_OK;
}

/* Nothing but white space may follow. */
static int scan_end(struct scan *s, const struct list *list) {
  peek(s);
  return s->at == s->size ? SQLITE_OK : fail_scan(s, list);
}

/* Points s at a TEXT value's bytes; *numbers is room for the most numbers of
** `size` bytes that it can hold, for the caller to free. */
static int scan_open(struct scan *s, sqlite3_value *value, const char *what,
                     char **err, size_t size, void **numbers) {
  const char *comma;
  size_t most = 1;
  s->text = (const char *)sqlite3_value_text(value);
  if (!s->text)
    return SQLITE_NOMEM;
  s->size = (size_t)sqlite3_value_bytes(value);
  s->at = 0;
  s->what = what;
  s->err = err;
  for (comma = s->text;
       (comma = memchr(comma, ',', s->size - (size_t)(comma - s->text)));
       comma++)
    most++;
  *numbers = sqlite3_malloc64(most * size);
  return *numbers ? SQLITE_OK : SQLITE_NOMEM;
}

/* ---- vectors ------------------------------------------------------------ */

#define BLOCK 16

/* Whether one of BLOCK elements is not finite: its exponent is all ones.  No
** branch for each, so that the compiler can take several at once. */
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

int emb_vec_check_finite(const float *vec, size_t n, const char *what,
                         char **err) {
  size_t i = find_nonfinite(vec, n);
  if (i == n)
    return SQLITE_OK;
  return ext_error(err, SQLITE_CONSTRAINT,
                   "non-finite value in element %lld of %s", (long long)i,
                   what);
}

/* Takes size bytes of a BLOB as they are, or a copy where its address does
** not fit `align`. */
static int take_blob(sqlite3_value *value, size_t size, size_t align,
                     void **out, int *owned) {
  const void *blob = sqlite3_value_blob(value);
  *owned = 0;
  *out = NULL;
  if (size == 0)
    return SQLITE_OK; /* SQLite gives NULL for it, or any address */
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

static int fail_dim(const char *what, uint32_t dim, size_t n, char **err) {
  return ext_error(err, SQLITE_MISMATCH,
                   "%s needs %u dimensions (%llu bytes), got %llu (%llu bytes)",
                   what, dim, (unsigned long long)dim * 4,
                   (unsigned long long)n, (unsigned long long)n * 4);
}

static int vec_from_blob(sqlite3_value *value, const char *what, uint32_t dim,
                         float **out, int *owned, size_t *n, char **err) {
  size_t size = (size_t)sqlite3_value_bytes(value);
  void *data;
  int rc;
  *n = size / 4;
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
  if (dim && *n != dim)
    return fail_dim(what, dim, *n, err);
  rc = take_blob(value, size, _Alignof(float), &data, owned);
  *out = data;
  return rc;
}

static int vec_from_json(sqlite3_value *value, const char *what, uint32_t dim,
                         float **out, size_t *n, char **err) {
  struct list list = {0};
  struct scan s;
  void *numbers;
  int rc = scan_open(&s, value, what, err, sizeof(float), &numbers);
  if (rc != SQLITE_OK)
    return rc;
  list.floats = numbers;
  rc = scan_array(&s, &list);
  if (rc == SQLITE_OK)
    rc = scan_end(&s, &list);
  if (rc == SQLITE_OK && dim && list.n != dim)
    rc = fail_dim(what, dim, list.n, err);
  if (rc != SQLITE_OK) {
    sqlite3_free(list.floats);
    return rc;
  }
  *out = list.floats;
  *n = list.n;
  return SQLITE_OK;
}

int emb_vec_from_value(sqlite3_value *value, const char *what, uint32_t dim,
                       float **out, int *owned, uint32_t *n, char **err) {
  int type = sqlite3_value_type(value);
  size_t count = 0;
  int rc;
  if (type == SQLITE_BLOB) {
    rc = vec_from_blob(value, what, dim, out, owned, &count, err);
  } else if (type == SQLITE_TEXT) {
    *owned = 1;
    rc = vec_from_json(value, what, dim, out, &count, err);
  } else {
    rc = ext_error(err, SQLITE_MISMATCH,
                   "%s must be a BLOB or a JSON array, got %s", what,
                   emb_value_type_name(value));
  }
  if (rc != SQLITE_OK)
    return rc;
  *n = (uint32_t)count; /* a value has less than 2^31 bytes */
  rc = emb_vec_check_finite(*out, count, what, err);
  if (rc != SQLITE_OK && *owned)
    sqlite3_free(*out);
  return rc;
}

/* ---- matrices ----------------------------------------------------------- */

static int matrix_from_blob(sqlite3_value *value, const char *what,
                            uint32_t dim, size_t rows, float **out, int *owned,
                            char **err) {
  size_t size = (size_t)sqlite3_value_bytes(value);
  void *data;
  int rc;
  if (size != rows * dim * sizeof(float))
    return ext_error(
        err, SQLITE_MISMATCH,
        "%s needs %llu rows of %u dimensions (%llu bytes), got %llu "
        "bytes",
        what, (unsigned long long)rows, dim,
        (unsigned long long)rows * dim * sizeof(float),
        (unsigned long long)size);
  rc = take_blob(value, size, _Alignof(float), &data, owned);
  *out = data;
  return rc;
}

/* Reads '[' arrays ']', each of dim numbers; *rows: how many. */
static int scan_rows(struct scan *s, struct list *list, uint32_t dim,
                     size_t *rows) {
  int rc;
  peek(s);
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
    if (peek(s) == ']')
      break;
    if (peek(s) != ',')
      return fail_scan(s, list);
  }
  ++*rows;
  s->at++;
  return SQLITE_OK;
}

/* Reads an array of arrays, or a flat one; *rows: how many rows of dim. */
static int scan_matrix(struct scan *s, struct list *list, uint32_t dim,
                       size_t *rows) {
  int nested = 0, rc;
  if (peek(s) == '[') {
    s->at++;
    nested = peek(s) == '[';
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

static int matrix_from_json(sqlite3_value *value, const char *what,
                            uint32_t dim, size_t rows, float **out,
                            char **err) {
  struct list list = {0};
  struct scan s;
  size_t got;
  void *numbers;
  int rc = scan_open(&s, value, what, err, sizeof(float), &numbers);
  if (rc != SQLITE_OK)
    return rc;
  list.floats = numbers;
  rc = scan_matrix(&s, &list, dim, &got);
  if (rc == SQLITE_OK && got != rows)
    rc = ext_error(err, SQLITE_MISMATCH,
                   "%s needs %llu rows of %u dimensions, got %llu rows", what,
                   (unsigned long long)rows, dim, (unsigned long long)got);
  if (rc != SQLITE_OK)
    sqlite3_free(list.floats);
  *out = list.floats;
  return rc;
}

int emb_matrix_from_value(sqlite3_value *value, const char *what, uint32_t dim,
                          size_t rows, float **out, int *owned, char **err) {
  int type = sqlite3_value_type(value);
  size_t bad;
  int rc;
  assert(dim > 0);
  if (type == SQLITE_BLOB) {
    rc = matrix_from_blob(value, what, dim, rows, out, owned, err);
  } else if (type == SQLITE_TEXT) {
    *owned = 1;
    rc = matrix_from_json(value, what, dim, rows, out, err);
  } else {
    rc = ext_error(err, SQLITE_MISMATCH,
                   "%s must be a BLOB or a JSON array, got %s", what,
                   emb_value_type_name(value));
  }
  if (rc != SQLITE_OK)
    return rc;
  bad = find_nonfinite(*out, rows * dim);
  if (bad == rows * dim)
    return SQLITE_OK;
  if (*owned)
    sqlite3_free(*out);
  return ext_error(err, SQLITE_CONSTRAINT,
                   "non-finite value in element %llu of row %llu of %s",
                   (unsigned long long)(bad % dim),
                   (unsigned long long)(bad / dim), what);
}

/* ---- keys --------------------------------------------------------------- */

static int keys_from_json(sqlite3_value *value, const char *what, int64_t **out,
                          size_t *n, char **err) {
  struct list list = {0};
  struct scan s;
  void *numbers;
  int rc = scan_open(&s, value, what, err, sizeof(int64_t), &numbers);
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

int emb_keys_from_value(sqlite3_value *value, const char *what, int64_t **out,
                        int *owned, size_t *n, char **err) {
  int type = sqlite3_value_type(value);
  if (type == SQLITE_TEXT) {
    *owned = 1;
    return keys_from_json(value, what, out, n, err);
  }
  if (type == SQLITE_BLOB) {
    size_t size = (size_t)sqlite3_value_bytes(value);
    void *data;
    int rc;
    if (size % 8 != 0)
      return ext_error(
          err, SQLITE_MISMATCH,
          "%s must be a BLOB of 8-byte integers or a JSON array, got "
          "%llu bytes",
          what, (unsigned long long)size);
    rc = take_blob(value, size, _Alignof(int64_t), &data, owned);
    *out = data;
    *n = size / 8;
    return rc;
  }
  return ext_error(
      err, SQLITE_MISMATCH,
      "%s must be a BLOB of 8-byte integers or a JSON array, got %s", what,
      emb_value_type_name(value));
}

int emb_key_from_value(sqlite3_value *value, const char *what, int64_t *key,
                       char **err) {
  int type = sqlite3_value_type(value);
  if (type == SQLITE_INTEGER) {
    *key = sqlite3_value_int64(value);
    return SQLITE_OK;
  }
  if (type == SQLITE_FLOAT) {
    double real = sqlite3_value_double(value);
    /* Not -2^63, as in SQLite: it may be a sum that has overflowed. */
    if (real > -0x1p63 && real < 0x1p63 && real == floor(real)) {
      *key = (int64_t)real;
      return SQLITE_OK;
    }
    return ext_error(err, SQLITE_MISMATCH, "%s must be an INTEGER, got %.15g",
                     what, real);
  }
  if (type == SQLITE_BLOB && sqlite3_value_bytes(value) == 8)
    return ext_error(
        err, SQLITE_MISMATCH,
        "%s must be an INTEGER, got an 8-byte BLOB (numpy.int64? bind "
        "int(x))",
        what);
  return ext_error(err, SQLITE_MISMATCH, "%s must be an INTEGER, got %s", what,
                   emb_value_type_name(value));
}
