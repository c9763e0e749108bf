/* SPDX-License-Identifier: MIT
**
** value.h -- ext/value/: SQL values and errors, the floor of the extension.
**
** ROLE      Turns an sqlite3_value into floats, keys and numbers, numbers of
**           JSON into floats and back, a comparison into a range of keys, an
**           engine's error into SQLite's.  Depends on SQLite and emb.h, not on
**           connections and tables.  Used by all other folders.
** ERRORS    A function with a `char **err` returns an SQLite code and leaves a
**           text from sqlite3_malloc there (NULL before the call), one line
**           without "emb: "; it stays NULL for SQLITE_NOMEM.  The callbacks
**           that SQLite calls put "emb: " in front and hand it over (error.c).
**           `what` names the argument in a text, e.g.
**           "items.vector".  Elements count from 0, as in emb_each and numpy;
**           characters from 1.
**             SQLITE_MISMATCH    wrong SQL type, length or dimension; a key
**                                that is no int64; packed numbers as TEXT
**             SQLITE_CONSTRAINT  NaN or an infinity, or a number in JSON that
**                                float32 cannot hold
**             SQLITE_ERROR       malformed JSON
**             SQLITE_NOMEM
** VECTORS   A BLOB of 4*n bytes, little-endian IEEE float32, at any address;
**           or TEXT, a JSON array of numbers.  Every element is finite.
** KEYS      A BLOB of 8*n bytes, little-endian int64, at any address; or
**           TEXT, a JSON array of numbers that are int64 in value (3, -7,
**           3.0 and 1e3 are; 1.5 and 9223372036854775808 are not).
** RESULTS   An array that is a copy (*owned = 1) is the caller's and goes to
**           sqlite3_free; one that points into the value (*owned = 0) is
**           read-only and lives as long as sqlite3_value_blob's result does.
**           The out-parameters are undefined after an error.
** DECIMALS  strtod and printf read and write a decimal comma where the host
**           process has set such a locale, and SQLite's own conversions round
**           twice on the way to float32; so this is our own.
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
#include "engine/base/seed.h"
#include <sqlite3ext.h>
#include <stddef.h>
#include <stdint.h>

/* ---- error.c ------------------------------------------------------------ */

/* The SQLite code for an engine code. */
int ext_code(int emb_code);
/* Sets the text and returns code. */
int ext_error(char **err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same from an engine error; returns the SQLite code. */
int ext_engine_error(char **err, int emb_code, const char *text);
/* Hand an error to SQLite; frees err; return code. */
int ext_vtab_error(sqlite3_vtab *vtab, int code, char *err);
void ext_result_error(sqlite3_context *context, int code, char *err);
/* sqlite3_declare_vtab, which gives SQLITE_ERROR when it is interrupted: this
** gives SQLITE_INTERRUPT. */
int ext_declare_vtab(sqlite3 *db, const char *sql);
/* SQLITE_TOOBIG when n vectors of dim floats do not fit in one BLOB. */
int ext_check_size(sqlite3 *db, size_t n, uint32_t dim, char **err);

/* ---- sql.c -------------------------------------------------------------- */

/* The text of the connection's last SQL error. */
int ext_sql_error(char **err, sqlite3 *db, int code);
/* A column's text, NULL if the column is; SQLITE_NOMEM where there is no
** memory for it, which SQLite's own call does not distinguish from NULL. */
int ext_column_text(sqlite3_stmt *row, int i, const char **text);
/* Runs SQL that returns no rows. */
int ext_exec(sqlite3 *db, char **err, const char *format, ...);

/* ---- vec_arg.c: vectors and keys ---------------------------------------- */

/* The elements of an argument, until ext_floats_free. */
struct ext_floats {
  float *at;  /* in the value, or a copy */
  uint32_t n; /* a value has less than 2^31 bytes */
  int owned;  /* a copy */
};
void ext_floats_free(struct ext_floats *floats);

/* One vector.  dim: the dimension it must have, or 0 for any, an empty one
** (n = 0) included.  After an error there is nothing to free. */
int ext_vec_from_value(sqlite3_value *value, const char *what, uint32_t dim,
                       struct ext_floats *out, char **err);

/* rows vectors of dim elements, row after row.  In JSON either an array of
** rows arrays, or one flat array of rows*dim numbers.  Else as for one. */
int ext_matrix_from_value(sqlite3_value *value, const char *what, uint32_t dim,
                          size_t rows, struct ext_floats *out, char **err);

/* The same of however many rows there are: *rows. */
int ext_rows_from_value(sqlite3_value *value, const char *what, uint32_t dim,
                        size_t *rows, struct ext_floats *out, char **err);

/* A list of keys; it may be empty. */
int ext_keys_from_value(sqlite3_value *value, const char *what, int64_t **out,
                        int *owned, size_t *n, char **err);

/* One key: an INTEGER, or a REAL that is an int64 in value (JavaScript binds
** every number so). */
int ext_key_from_value(sqlite3_value *value, const char *what, int64_t *key,
                       char **err);

/* 0, or SQLITE_CONSTRAINT and the text when one of n elements is not finite. */
int ext_vec_check_finite(const float *vec, size_t n, const char *what,
                         char **err);

/* ---- texts.c: lists of texts -------------------------------------------- */

/* A text, which may have zero bytes in it and need not end with one. */
struct ext_text {
  const char *at;
  size_t n;
};

/* Texts until ext_texts_free; zeros: none. */
struct ext_texts {
  struct ext_text *at; /* each in the value, or in `memory` */
  size_t n;
  char *memory;
};
void ext_texts_free(struct ext_texts *texts);
/* They outlive the value; without memory they are as they were. */
int ext_texts_keep(struct ext_texts *texts);
/* A JSON array of strings; it may be empty.  After an error there is nothing to
** free. */
int ext_texts_from_value(sqlite3_value *value, const char *what,
                         struct ext_texts *out, char **err);
/* What SQLite would make of it in a column of affinity TEXT, which must be no
** BLOB and not NULL. */
int ext_text_from_value(sqlite3_value *value, const char *what,
                        struct ext_text *out, char **err);
/* Appends it as a string of JSON. */
void ext_text_to_json(sqlite3_str *to, const struct ext_text *text);

/* ---- vec_arg.c ----------------------------------------------------------- */

/* "INTEGER", "REAL", "TEXT", "BLOB" or "NULL". */
const char *ext_value_type_name(sqlite3_value *value);

/* Makes a vector the result of an SQL function and gives it to SQLite, which
** frees it.  name: the function, for the error if an element is not finite. */
void ext_result_vec(sqlite3_context *context, const char *name, float *vec,
                    uint32_t n);

/* ---- argument.c --------------------------------------------------------- */

/* A TEXT without a zero byte in it. */
int ext_arg_text(sqlite3_value *value, const char *what, const char **text,
                 char **err);
int ext_arg_snapshot_name(sqlite3_value *value, const char **name, char **err);
/* A number of something; 0 for what none can be. */
int ext_arg_number(sqlite3_value *value, const char *what, uint64_t *number,
                   char **err);

/* A number from 1 to most.  A text that looks like one is one. */
int ext_arg_from_one(sqlite3_value *value, const char *what, int64_t most,
                     int64_t *number, char **err);

/* ---- pairs.c ------------------------------------------------------------ */

/* What is done with the value of the option names[i]. */
typedef int ext_pair_take(void *arg, int i, const char *value, char **err);
/* Which options there are. */
struct ext_pair_names {
  const char *const *names;
  int n; /* at most 64 */
  const char *example;
  ext_pair_take *take;
};
/* Reads an argument `options`, which may be absent (NULL) or SQL's NULL. */
int ext_pairs(sqlite3_value *value, const struct ext_pair_names *names,
              void *arg, char **err);

/* ---- range.c ------------------------------------------------------------ */

/* The keys that comparisons with any SQL value let through. */
struct ext_range {
  sqlite3_int64 lo, hi; /* empty when lo > hi */
};
void ext_range_all(struct ext_range *range);
/* Narrows the range by `key op value`, exactly as SQLite compares an INTEGER
** PRIMARY KEY; op is a letter of the plan. */
void ext_range_narrow(struct ext_range *range, char op, sqlite3_value *value);
/* The key for which `key = value` is true; 0: there is none. */
int ext_range_key(sqlite3_value *value, int64_t *key);

/* The same of a REAL that is finite. */
struct ext_reals {
  double least, most; /* none when least > most */
};
void ext_reals_all(struct ext_reals *reals);
void ext_reals_narrow(struct ext_reals *reals, char op, sqlite3_value *value);

/* ---- value.c ------------------------------------------------------------ */

/* A column's value that SQLite gets without a copy.  It may keep it longer than
** the row, in a register of the statement, so the memory is counted. */
struct ext_value {
  size_t refs;
  size_t size; /* of data */
  /* data follows */
};

/* One with a single reference; NULL without memory. */
struct ext_value *ext_value_new(size_t size);
/* Gives a reference back; value may be NULL. */
void ext_value_drop(struct ext_value *value);
/* A result that keeps a reference of its own. */
void ext_value_result(sqlite3_context *context, struct ext_value *value);

static inline void *ext_value_data(struct ext_value *value) {
  return value ? value + 1 : NULL;
}

/* ---- decimal.c: numbers as JSON writes them ----------------------------- */

/* A scanned number: digits * 10^exponent, and a rest that matters only for
** rounding when `more` is set. */
struct decimal {
  uint64_t digits;  /* the first 19 significant digits */
  int64_t exponent; /* power of ten of the last of them */
  int negative;
  int more;         /* a digit after the 19th is not 0 */
  const char *text; /* the mantissa without its sign, borrowed; read only when
                       `more` is set */
  size_t text_size;
};

/* Scans a number of JSON's grammar at the start of text.  Returns how many
** bytes belong to it; *valid is 0 when the grammar breaks after them. */
size_t ext_decimal_scan(const char *text, size_t size, struct decimal *number,
                        int *valid);

/* Infinite when float32 is too small, a signed zero when too coarse. */
float ext_decimal_to_float(const struct decimal *number);

/* 1 and *out when the number is an integer that int64 holds, else 0. */
int ext_decimal_to_int64(const struct decimal *number, int64_t *out);

/* "-0.000123456789" and "-1.23456789e-45" have 15. */
#define DECIMAL_PRINT_MAX 16

/* Writes a finite x as a JSON number, not terminated; returns its length. */
size_t ext_decimal_print(float x, char out[DECIMAL_PRINT_MAX]);

#endif
