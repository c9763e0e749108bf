/* SPDX-License-Identifier: MIT
**
** vec_arg.h -- vectors and keys as SQL passes them.
**
** ROLE      Turns an sqlite3_value into floats, keys, or one key.  Used by
**           the vector functions and by the virtual table.
** VECTORS   A BLOB of 4*n bytes, little-endian IEEE float32, at any address;
**           or TEXT, a JSON array of numbers.  Every element is finite.
** KEYS      A BLOB of 8*n bytes, little-endian int64, at any address; or
**           TEXT, a JSON array of numbers that are int64 in value (3, -7,
**           3.0 and 1e3 are; 1.5 and 9223372036854775808 are not).
** RESULTS   An array that is a copy (*owned = 1) is the caller's and goes to
**           sqlite3_free; one that points into the value (*owned = 0) is
**           read-only and lives as long as sqlite3_value_blob's result does.
**           Nothing of what the out-parameters say holds after an error.
** ERRORS    As ext.h says: the result is an SQLite code, and *err (NULL before
**           the call) gets a text from sqlite3_malloc without "emb: ".  `what`
**           names the argument in it, e.g. "items.vector".  Elements count
**           from 0, as in emb_each and numpy; characters from 1.
**             SQLITE_MISMATCH    wrong SQL type, length or dimension; a key
**                                that is no int64
**             SQLITE_CONSTRAINT  NaN or an infinity, or a number in JSON that
**                                float32 cannot hold
**             SQLITE_ERROR       malformed JSON
**             SQLITE_NOMEM
*/
#ifndef EMB_EXT_VEC_ARG_H
#define EMB_EXT_VEC_ARG_H

#include <sqlite3ext.h>
#include <stddef.h>
#include <stdint.h>

/* One vector.  dim: the dimension it must have, or 0 for any, an empty one
** (*n = 0) included. */
int emb_vec_from_value(sqlite3_value *value, const char *what, uint32_t dim,
                       float **out, int *owned, uint32_t *n, char **err);

/* rows vectors of dim elements, row after row.  In JSON either an array of
** rows arrays, or one flat array of rows*dim numbers. */
int emb_matrix_from_value(sqlite3_value *value, const char *what, uint32_t dim,
                          size_t rows, float **out, int *owned, char **err);

/* A list of keys; it may be empty. */
int emb_keys_from_value(sqlite3_value *value, const char *what, int64_t **out,
                        int *owned, size_t *n, char **err);

/* One key: an INTEGER, or a REAL that is an int64 in value (JavaScript binds
** every number so). */
int emb_key_from_value(sqlite3_value *value, const char *what, int64_t *key,
                       char **err);

/* 0, or SQLITE_CONSTRAINT and the text when one of n elements is not finite. */
int emb_vec_check_finite(const float *vec, size_t n, const char *what,
                         char **err);

/* "INTEGER", "REAL", "TEXT", "BLOB" or "NULL". */
const char *emb_value_type_name(sqlite3_value *value);

#endif
