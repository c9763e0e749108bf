/* SPDX-License-Identifier: MIT
**
** keys.c -- checks a list of keys, and the number type of a BLOB.
**
**     CREATE TABLE emb_keys_check(keys, found, smallest, largest, looks_like,
**                                 message, "table" HIDDEN, list HIDDEN)
**
** A BLOB does not say its type: a list of int32 or float64 numbers, or one with
** the opposite byte order, is read as a list of other keys.  So the BLOB is
** looked up in the table as each of these types, and it looks like the type
** that finds the most keys, or like int64 on a tie.  "Most" is a share, because
** the same bytes hold twice as many int32.  Nothing is read from disk, and no
** read is counted.
*/
#include "tvf.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

enum {
  KEYS_KEYS = 0,
  KEYS_FOUND,
  KEYS_SMALLEST,
  KEYS_LARGEST,
  KEYS_LOOKS_LIKE,
  KEYS_MESSAGE,
  KEYS_TABLE,
  KEYS_LIST
};

#define CHUNK 1024 /* keys per lookup */

/* The number types to try, int64 first. */
enum {
  KEYS_INT64,
  KEYS_INT32,
  KEYS_FLOAT64,
  KEYS_FLOAT32,
  KEYS_SWAPPED,
  KEYS_READINGS
};
static const struct {
  const char *name;
  size_t bytes;
} readings[KEYS_READINGS] = {{"int64", 8},
                             {"int32", 4},
                             {"float64", 8},
                             {"float32", 4},
                             {"big-endian int64", 8}};

struct keys_cursor {
  struct ext_tvf_cursor base; /* must be first */
  size_t n, found;
  int64_t smallest, largest; /* not shown if ... */
  int texts;                 /* ... the keys are texts */
  int looks_like;            /* -1: no key was found */
  char *message;             /* NULL: all were found */
};

/* Converts a number to a key; 0: it is not an integer key. */
static int read_real(double real, int64_t *key) {
  if (!(real > -0x1p63 && real < 0x1p63) || (double)(int64_t)real != real)
    return 0;
  *key = (int64_t)real;
  return 1;
}

static int read_one(const unsigned char *at, int reading, int64_t *key) {
  uint64_t word;
  int32_t number;
  double real;
  float single;
  switch (reading) {
  case KEYS_INT32:
    memcpy(&number, at, sizeof number);
    *key = number;
    return 1;
  case KEYS_FLOAT64:
    memcpy(&real, at, sizeof real);
    return read_real(real, key);
  case KEYS_FLOAT32:
    memcpy(&single, at, sizeof single);
    return read_real((double)single, key);
  default:
    memcpy(&word, at, sizeof word);
    *key = (int64_t)(reading == KEYS_SWAPPED ? __builtin_bswap64(word) : word);
    return 1;
  }
}

/* Counts the keys in `size` bytes, read as the given type, that are in the
** table. */
static int keys_tvf_count(struct ext_link *link, const unsigned char *bytes,
                          size_t size, int reading, size_t *found, char **err) {
  size_t step = readings[reading].bytes;
  int64_t keys[CHUNK];
  uint8_t there[CHUNK];
  *found = 0;
  for (size_t at = 0; at < size;) {
    size_t n = 0;
    int rc;
    for (; at < size && n < CHUNK; at += step)
      n += read_one(bytes + at, reading, &keys[n]) ? 1 : 0;
    rc = emb_exists(link->session, keys, n, there);
    if (rc)
      return ext_link_error(link, rc, err);
    for (size_t i = 0; i < n; i++)
      *found += there[i];
    if (ext_link_interrupted(link->conn))
      return ext_error(err, SQLITE_INTERRUPT, "interrupted");
  }
  return SQLITE_OK;
}

static char *keys_tvf_describe(const struct keys_cursor *cursor,
                               const char *table, size_t others) {
  int reading = cursor->looks_like;
  long long n = (long long)cursor->n, missing = n - (long long)cursor->found;
  if (reading > KEYS_INT64)
    return sqlite3_mprintf(
        "%lld of %lld keys are in %s; read as %s, %lld of %lld are: make them "
        "int64, 8 bytes each",
        n - missing, n, table, readings[reading].name, (long long)others,
        n * 8 / (long long)readings[reading].bytes);
  if (cursor->found == 0 && !cursor->texts)
    return sqlite3_mprintf("none of %lld keys is in %s; keys are int64, 8 "
                           "bytes each",
                           n, table);
  return sqlite3_mprintf("%lld of %lld keys are not in %s", missing, n, table);
}

static int keys_tvf_look(struct keys_cursor *cursor, struct ext_table *table,
                         const int64_t *keys, int is_blob, char **err) {
  const unsigned char *bytes = (const unsigned char *)keys;
  size_t size = cursor->n * sizeof *keys, others = 0;
  struct ext_link *link = table->link;
  double best;
  int rc = keys_tvf_count(link, bytes, size, KEYS_INT64, &cursor->found, err);
  cursor->looks_like = cursor->found ? KEYS_INT64 : -1;
  best = (double)cursor->found;
  for (int i = KEYS_INT32; is_blob && i < KEYS_READINGS && rc == SQLITE_OK;
       i++) {
    size_t found;
    double share;
    rc = keys_tvf_count(link, bytes, size, i, &found, err);
    share = (double)found * (double)readings[i].bytes / 8;
    if (rc == SQLITE_OK && share > best) {
      best = share;
      others = found;
      cursor->looks_like = i;
    }
  }
  if (rc != SQLITE_OK || cursor->found == cursor->n)
    return rc;
  cursor->message = keys_tvf_describe(cursor, table->name, others);
  return cursor->message ? SQLITE_OK : SQLITE_NOMEM;
}

static int keys_tvf_begin(struct ext_tvf_cursor *base,
                          sqlite3_value **arguments, char **err) {
  struct keys_cursor *cursor = (struct keys_cursor *)base;
  struct ext_table *table;
  struct ext_keys keys = {0};
  int rc = ext_fn_table(base->conn, arguments[0], &table, err);
  cursor->looks_like = -1;
  if (rc == SQLITE_OK)
    rc = ext_fn_keys(table, arguments[1], "keys", &keys, err);
  cursor->n = keys.n;
  cursor->texts = keys.texts.at != NULL;
  for (size_t i = 0; i < cursor->n && rc == SQLITE_OK; i++) {
    if (i == 0 || keys.at[i] < cursor->smallest)
      cursor->smallest = keys.at[i];
    if (i == 0 || keys.at[i] > cursor->largest)
      cursor->largest = keys.at[i];
  }
  if (rc == SQLITE_OK)
    rc = keys_tvf_look(cursor, table, keys.at,
                       sqlite3_value_type(arguments[1]) == SQLITE_BLOB, err);
  ext_keys_free(&keys);
  base->n = rc == SQLITE_OK;
  return rc;
}

static void keys_tvf_end(struct ext_tvf_cursor *base) {
  struct keys_cursor *cursor = (struct keys_cursor *)base;
  sqlite3_free(cursor->message);
  cursor->message = NULL;
}

static void keys_tvf_column(struct ext_tvf_cursor *base,
                            sqlite3_context *context, int i) {
  const struct keys_cursor *cursor = (const struct keys_cursor *)base;
  if (i == KEYS_KEYS)
    sqlite3_result_int64(context, (sqlite3_int64)cursor->n);
  else if (i == KEYS_FOUND)
    sqlite3_result_int64(context, (sqlite3_int64)cursor->found);
  else if (i == KEYS_SMALLEST && cursor->n && !cursor->texts)
    sqlite3_result_int64(context, cursor->smallest);
  else if (i == KEYS_LARGEST && cursor->n && !cursor->texts)
    sqlite3_result_int64(context, cursor->largest);
  else if (i == KEYS_LOOKS_LIKE && cursor->looks_like >= 0 && !cursor->texts)
    sqlite3_result_text(context, readings[cursor->looks_like].name, -1,
                        SQLITE_STATIC);
  else if (i == KEYS_MESSAGE && cursor->message)
    sqlite3_result_text(context, cursor->message, -1, SQLITE_TRANSIENT);
}

static const struct ext_tvf keys_check = {
    .name = "emb_keys_check",
    .declaration = "CREATE TABLE x(keys INTEGER, found INTEGER, smallest "
                   "INTEGER, largest INTEGER, looks_like TEXT, message TEXT, "
                   "\"table\" HIDDEN, list HIDDEN)",
    .argument = KEYS_TABLE,
    .arguments = 2,
    .needed = 2,
    .needs = "a table name and keys",
    .cost = 100,
    .rows = 1,
    .cursor_size = sizeof(struct keys_cursor),
    .begin = keys_tvf_begin,
    .column = keys_tvf_column,
    .end = keys_tvf_end,
};

int ext_tvf_keys_register(struct ext_conn *conn) {
  return ext_tvf_register(conn, &keys_check);
}
