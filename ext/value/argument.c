/* SPDX-License-Identifier: MIT
**
** argument.c -- single arguments of functions: texts, names and numbers.
*/
#include "value.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

int ext_arg_text(sqlite3_value *value, const char *what, const char **text,
                 char **err) {
  /* Check the type first: sqlite3_value_text() turns a BLOB into TEXT. */
  if (sqlite3_value_type(value) != SQLITE_TEXT)
    return ext_error(err, SQLITE_MISMATCH, "%s must be TEXT, got %s", what,
                     ext_value_type_name(value));
  *text = (const char *)sqlite3_value_text(value);
  if (*text == NULL)
    return SQLITE_NOMEM;
  return strlen(*text) == (size_t)sqlite3_value_bytes(value)
             ? SQLITE_OK
             : ext_error(err, SQLITE_MISMATCH, "%s has a zero byte", what);
}

int ext_arg_snapshot_name(sqlite3_value *value, const char **name, char **err) {
  *name = (const char *)sqlite3_value_text(value);
  return *name ? SQLITE_OK
               : ext_error(err, SQLITE_MISMATCH,
                           "a snapshot's name must be TEXT, got NULL");
}

int ext_arg_number(sqlite3_value *value, const char *what, uint64_t *number,
                   char **err) {
  int64_t signed_number = 0;
  int rc = SQLITE_OK;
  if (sqlite3_value_type(value) != SQLITE_INTEGER)
    rc = ext_error(err, SQLITE_MISMATCH, "%s must be an INTEGER, got %s", what,
                   ext_value_type_name(value));
  else
    signed_number = sqlite3_value_int64(value);
  *number = signed_number > 0 ? (uint64_t)signed_number : 0;
  return rc;
}

int ext_arg_from_one(sqlite3_value *value, const char *what, int64_t most,
                     int64_t *number, char **err) {
  int rc;
  emb_assert(most >= 1);
  sqlite3_value_numeric_type(value);
  rc = ext_key_from_value(value, what, number, err);
  if (rc == SQLITE_OK && (*number < 1 || *number > most))
    rc = ext_error(err, SQLITE_ERROR, "%s must be between 1 and %lld, got %lld",
                   what, (long long)most, (long long)*number);
  return rc;
}
