/* SPDX-License-Identifier: MIT
**
** value.h -- ext/value/: SQL values and errors, the extension's lowest layer.
**
** ROLE      Converts an sqlite3_value to floats, keys and numbers, JSON numbers
**           to floats and back, a comparison to a range of keys, an engine
**           error to an SQLite error.  Depends on SQLite and emb.h, not on
**           connections and tables.  Used by all other folders.
** ERRORS    A function with a `char **err` returns an SQLite code and sets *err
**           (NULL before the call) to a message from sqlite3_malloc, one line
**           without "emb: "; it stays NULL for SQLITE_NOMEM.  The callbacks
**           that SQLite calls prepend "emb: " and pass it on (error.c).
**           `what` names the argument in a message, e.g. "items.vector".
**           Elements count from 0, as in emb_each and numpy; characters
**           from 1.
**             SQLITE_MISMATCH    wrong SQL type, length or dimension; a key
**                                that is not an int64; packed numbers as TEXT
**             SQLITE_CONSTRAINT  NaN or an infinity, or a number in JSON that
**                                float32 cannot hold
**             SQLITE_ERROR       malformed JSON
**             SQLITE_NOMEM
** VECTORS   A BLOB of 4*n bytes, little-endian IEEE float32, at any address;
**           or TEXT, a JSON array of numbers.  Every element is finite.
** KEYS      A BLOB of 8*n bytes, little-endian int64, at any address; or
**           TEXT, a JSON array of numbers that are int64 in value (3, -7,
**           3.0 and 1e3 are; 1.5 and 9223372036854775808 are not).
** RESULTS   An array that is a copy (*owned = 1) belongs to the caller, who
**           frees it with sqlite3_free; one that points into the value
**           (*owned = 0) is read-only and lives as long as the result of
**           sqlite3_value_blob.  Out-parameters are undefined after an error.
** DECIMALS  Conversions are our own: strtod and printf use a decimal comma if
**           the host process has set such a locale, and SQLite's conversions
**           round twice on the way to float32.
** EXACT     ext_decimal_to_float gives the float nearest to the text, ties to
**           even, for any number of digits.  ext_decimal_print gives the fewest
**           digits that ext_decimal_to_float turns back into the same float.
** THREADS   No state.
*/
#ifndef EMB_EXT_VALUE_H
#define EMB_EXT_VALUE_H

#include "engine/emb.h"
#include "engine/base/debug.h"
#include "engine/base/near.h"
#include "engine/base/text.h"
#include "engine/base/unit.h"
#include "engine/base/seed.h"
#include <sqlite3ext.h>
#include <stddef.h>
#include <stdint.h>

/* ---- error.c ------------------------------------------------------------- */

/* The SQLite code for an engine code. */
int ext_code(int emb_code);
/* Formats the message into *err and returns code. */
int ext_error(char **err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* As above for an engine error; returns the SQLite code. */
int ext_engine_error(char **err, int emb_code, const char *text);
/* Pass an error to SQLite and free err; the first returns code. */
int ext_vtab_error(sqlite3_vtab *vtab, int code, char *err);
void ext_result_error(sqlite3_context *context, int code, char *err);
/* sqlite3_declare_vtab, except that an interrupt returns SQLITE_INTERRUPT
** instead of SQLITE_ERROR. */
int ext_declare_vtab(sqlite3 *db, const char *sql);
/* SQLITE_TOOBIG when n vectors of dim floats do not fit in one BLOB. */
int ext_check_size(sqlite3 *db, size_t n, uint32_t dim, char **err);

/* ---- sql.c --------------------------------------------------------------- */

/* Sets *err to the connection's last error message; returns code. */
int ext_sql_error(char **err, sqlite3 *db, int code);
/* A column's text, NULL if the column is NULL; SQLITE_NOMEM if memory runs out,
** which sqlite3_column_text() does not distinguish from NULL. */
int ext_column_text(sqlite3_stmt *row, int i, const char **text);
/* Runs SQL that returns no rows. */
int ext_exec(sqlite3 *db, char **err, const char *format, ...);

/* ---- savepoint.c --------------------------------------------------------- */

/* From ext_savepoint_begin to ext_savepoint_end. */
struct ext_savepoint {
  sqlite3 *db;
  sqlite3_stmt *back, *release; /* ROLLBACK TO, RELEASE */
  sqlite3_stmt *refused;        /* ends the transaction if interrupted */
};
int ext_savepoint_begin(struct ext_savepoint *savepoint, sqlite3 *db,
                        const char *name, char **err);
/* Keeps what was written since then if rc is SQLITE_OK, and undoes it
** otherwise.  Returns rc, or the error of keeping it. */
int ext_savepoint_end(struct ext_savepoint *savepoint, int rc, char **err);

/* ---- an argument that is read -------------------------------------------- */

/* Its name, for errors.  The reading of a long value asks after each
** EXT_ARG_BYTES of it; a nonzero answer ends it with SQLITE_INTERRUPT. */
struct ext_arg {
  const char *what;
  int (*interrupted)(void *); /* ext_link_interrupted; NULL: never */
  void *conn;
};
#define EXT_ARG_BYTES ((size_t)1 << 20)
static inline int ext_arg_stops(const struct ext_arg *arg) {
  return arg->interrupted && arg->interrupted(arg->conn);
}

/* ---- vec_arg.c: vectors and keys ----------------------------------------- */

/* The elements of an argument, until ext_floats_free. */
struct ext_floats {
  float *at;  /* inside the value, or a copy */
  uint32_t n; /* a value has less than 2^31 bytes */
  int owned;  /* `at` is a copy */
};
void ext_floats_free(struct ext_floats *floats);
/* Only in self-checking builds (value_valid.c), like the other two of its
** functions below. */
int ext_floats_valid(const struct ext_floats *floats);

/* One vector.  dim: the required dimension, or 0 for any, including an empty
** vector (n = 0).  After an error there is nothing to free. */
int ext_vec_from_value(sqlite3_value *value, const struct ext_arg *arg,
                       uint32_t dim, struct ext_floats *out, char **err);

/* `rows` vectors of dim elements, row by row.  JSON may be an array of `rows`
** arrays, or one flat array of rows*dim numbers.  Otherwise as for one
** vector. */
int ext_matrix_from_value(sqlite3_value *value, const struct ext_arg *arg,
                          uint32_t dim, size_t rows, struct ext_floats *out,
                          char **err);

/* As above, for any number of rows, returned in *rows. */
int ext_rows_from_value(sqlite3_value *value, const struct ext_arg *arg,
                        uint32_t dim, size_t *rows, struct ext_floats *out,
                        char **err);

/* A list of keys; it may be empty. */
int ext_keys_from_value(sqlite3_value *value, const struct ext_arg *arg,
                        int64_t **out, int *owned, size_t *n, char **err);

/* Refuses to compare an INTEGER key with what is probably a number of numpy,
** which Python's sqlite3 binds as a BLOB of 1, 2, 4 or 8 bytes: key = ? would
** silently find nothing, and key < ? everything. */
int ext_key_comparable(sqlite3_value *value, const char *what, char **err);
/* One key: an INTEGER, or a REAL that is an int64 in value (JavaScript binds
** every number as REAL). */
int ext_key_from_value(sqlite3_value *value, const char *what, int64_t *key,
                       char **err);

/* 0, or SQLITE_CONSTRAINT with a message if one of n elements is not finite. */
int ext_vec_check_finite(const float *vec, size_t n, const char *what,
                         char **err);

/* ---- texts.c: lists of texts --------------------------------------------- */

/* A text; it may contain zero bytes and need not be terminated by one. */
struct ext_text {
  const char *at;
  size_t n;
};

/* Texts, valid until ext_texts_free; all zeros: none. */
struct ext_texts {
  struct ext_text *at; /* each points into the value or into `memory` */
  size_t n;
  char *memory;
};
void ext_texts_free(struct ext_texts *texts);
int ext_texts_valid(const struct ext_texts *texts);
/* Copies the texts, so that they outlive the value.  Unchanged after an
** error. */
int ext_texts_keep(struct ext_texts *texts);
/* A JSON array of strings; it may be empty.  After an error there is nothing to
** free. */
int ext_texts_from_value(sqlite3_value *value, const struct ext_arg *arg,
                         struct ext_texts *out, char **err);
/* The value as a column of affinity TEXT would store it; SQLITE_MISMATCH for a
** BLOB or NULL. */
int ext_text_from_value(sqlite3_value *value, const char *what,
                        struct ext_text *out, char **err);
/* Appends the text as a JSON string. */
void ext_text_to_json(sqlite3_str *to, const struct ext_text *text);

/* ---- vec_arg.c ----------------------------------------------------------- */

/* "INTEGER", "REAL", "TEXT", "BLOB" or "NULL". */
const char *ext_value_type_name(sqlite3_value *value);

/* Returns a vector from an SQL function; SQLite takes ownership and frees it.
** name: the function, for the error if an element is not finite. */
void ext_result_vec(sqlite3_context *context, const char *name, float *vec,
                    uint32_t n);

/* ---- argument.c ---------------------------------------------------------- */

/* A TEXT without a zero byte in it. */
int ext_arg_text(sqlite3_value *value, const char *what, const char **text,
                 char **err);
int ext_arg_snapshot_name(sqlite3_value *value, const char **name, char **err);
/* A positive INTEGER; *number is 0 for zero and negative values. */
int ext_arg_number(sqlite3_value *value, const char *what, uint64_t *number,
                   char **err);

/* A number from 1 to most.  Text that looks like a number is accepted. */
int ext_arg_from_one(sqlite3_value *value, const char *what, int64_t most,
                     int64_t *number, char **err);

/* ---- words.c ------------------------------------------------------------- */

int ext_words_register(sqlite3 *db);

/* ---- pairs.c ------------------------------------------------------------- */

/* Called with the value of the option names[i]. */
typedef int ext_pair_take(void *arg, int i, const char *value, char **err);
/* The options of a function. */
struct ext_pair_names {
  const char *const *names;
  int n; /* at most 64 */
  const char *example;
  ext_pair_take *take;
};
/* Reads an argument `options`, which may be absent (NULL) or SQL NULL. */
int ext_pairs(sqlite3_value *value, const struct ext_pair_names *names,
              void *arg, char **err);

/* ---- range.c ------------------------------------------------------------- */

/* The keys that satisfy comparisons with arbitrary SQL values. */
struct ext_range {
  sqlite3_int64 lo, hi; /* empty when lo > hi */
};
void ext_range_all(struct ext_range *range);
/* Narrows the range by `key op value`, exactly as SQLite compares an INTEGER
** PRIMARY KEY; op is a letter of the plan. */
void ext_range_narrow(struct ext_range *range, char op, sqlite3_value *value);
/* *key: the key for which `key = value` is true; returns 0 if there is none. */
int ext_range_key(sqlite3_value *value, int64_t *key);

/* The same for finite REAL values. */
struct ext_reals {
  double least, most; /* none when least > most */
};
void ext_reals_all(struct ext_reals *reals);
void ext_reals_narrow(struct ext_reals *reals, char op, sqlite3_value *value);

/* ---- value.c ------------------------------------------------------------- */

/* A column value passed to SQLite without copying.  SQLite may keep it in a
** register of the statement beyond the row, so it is reference-counted. */
struct ext_value {
  size_t refs;
  size_t size; /* of the data */
  /* data follows */
};

/* A new value with one reference, or NULL if memory runs out. */
struct ext_value *ext_value_new(size_t size);
/* Drops a reference; value may be NULL. */
void ext_value_drop(struct ext_value *value);
/* Sets the value as a result, which holds a reference of its own. */
void ext_value_result(sqlite3_context *context, struct ext_value *value);

static inline void *ext_value_data(struct ext_value *value) {
  return value ? value + 1 : NULL;
}

/* ---- decimal.c: numbers as JSON writes them ------------------------------ */

/* A scanned number: digits * 10^exponent.  If `more` is set, a remainder
** follows that matters only for rounding. */
struct decimal {
  uint64_t digits;  /* the first 19 significant digits */
  int64_t exponent; /* power of ten of the last digit */
  int negative;
  int more;         /* a digit after the 19th is not 0 */
  const char *text; /* the mantissa without its sign, borrowed; read only when
                       `more` is set */
  size_t text_size;
};

int ext_decimal_valid(const struct decimal *number);

/* Scans a JSON number at the start of text.  Returns its length in bytes;
** *valid is 0 if the text violates the grammar after them. */
size_t ext_decimal_scan(const char *text, size_t size, struct decimal *number,
                        int *valid);

/* Returns infinity on overflow of float32, a signed zero on underflow. */
float ext_decimal_to_float(const struct decimal *number);

/* Returns 1 and sets *out if the number is an integer that fits int64, else
** 0. */
int ext_decimal_to_int64(const struct decimal *number, int64_t *out);

/* "-0.000123456789" and "-1.23456789e-45" have 15 characters. */
#define DECIMAL_PRINT_MAX 16

/* Writes a finite x as an unterminated JSON number; returns its length. */
size_t ext_decimal_print(float x, char out[DECIMAL_PRINT_MAX]);

#endif
