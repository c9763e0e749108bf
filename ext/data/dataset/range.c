/* SPDX-License-Identifier: MIT
**
** range.c -- the samples of a range of keys, in key order, merged from files
** and rows, without reading a record.
**
** LEFT OUT  Files and blocks without a wanted timestamp, deleted records, and
**           samples of other workers.  If only some timestamps of a block are
**           wanted, the record itself decides, when it has been read
**           (is_timed).
**
** WORKERS   A file's records are dealt to n workers in stripes, and rows by
**           their keys.  The length and owner of a stripe follow from the file
**           as it was registered, and from nothing else: not from other files,
**           from deletions, or from the time when a worker looks.  So workers
**           that begin at different times, each seeing its own state of a
**           changing table, still get each key exactly once.  A stripe is an
**           eighth of a worker's share of the file, but not more than about a
**           megabyte, which is read in one piece.  So an interval of time, too,
**           is divided evenly.
*/
#include "engine/data/emb_data.h"
#include "samples.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

#define STRIPES 8
#define STRIPE_BYTES (UINT64_C(1) << 20)
#define STRIPE_KEYS 64 /* of rows */
/* Records between two checks for an interrupt. */
#define LOOK_EVERY 16384

enum { SAMPLES_RANGE_FILES, SAMPLES_RANGE_ROWS, SAMPLES_RANGE_SQL };
static const char *const range_sql[SAMPLES_RANGE_SQL] = {
    [SAMPLES_RANGE_FILES] =
        "SELECT " EXT_SAMPLES_FILE
        " FROM @files WHERE last >= ?1 AND most >= ?3 AND least <= "
        "?4 AND (?5 IS NULL OR dataset = ?5) ORDER BY last",
    [SAMPLES_RANGE_ROWS] =
        "SELECT key FROM @rows WHERE key BETWEEN ?1 AND ?2 AND "
        "timestamp BETWEEN ?3 AND ?4 AND (?5 IS NULL OR dataset = "
        "?5) ORDER BY key",
};

struct ext_samples_range {
  struct ext_samples *table;
  struct ext_samples_map *map;
  const struct ext_samples_ask *ask;
  sqlite3_stmt *statements[SAMPLES_RANGE_SQL];
  struct ext_samples_file *file; /* NULL: no more files */
  uint64_t at, end;              /* its records */
  uint64_t stripe;               /* records in one */
  int is_placed;                 /* place is that of `at` */
  struct ext_samples_place place;
  int is_row; /* there is a next row: */
  sqlite3_int64 row;
  uint32_t looks;
};

int ext_samples_range_new(struct ext_samples *table,
                          struct ext_samples_map *map,
                          struct ext_samples_range **out) {
  struct ext_samples_range *range = sqlite3_malloc64(sizeof *range);
  if (range == NULL)
    return SQLITE_NOMEM;
  memset(range, 0, sizeof *range);
  range->table = table;
  range->map = map;
  *out = range;
  return SQLITE_OK;
}

static void samples_range_reset(struct ext_samples_range *range) {
  for (int i = 0; i < SAMPLES_RANGE_SQL; i++)
    if (range->statements[i])
      sqlite3_reset(range->statements[i]);
  ext_samples_file_drop(range->file);
  range->file = NULL;
  range->is_row = range->is_placed = 0;
}

void ext_samples_range_free(struct ext_samples_range *range) {
  if (range == NULL)
    return;
  samples_range_reset(range);
  for (int i = 0; i < SAMPLES_RANGE_SQL; i++)
    sqlite3_finalize(range->statements[i]);
  sqlite3_free(range);
}

/* ---- workers ------------------------------------------------------------- */

/* The worker that owns the number, 0 to n - 1. */
static int64_t samples_range_owner(int64_t number, int64_t n) {
  int64_t rest = number % n;
  return rest < 0 ? rest + n : rest;
}

static uint64_t samples_range_stripe(const struct ext_samples_file *file,
                                     int64_t workers) {
  uint64_t records = (uint64_t)file->last - (uint64_t)file->first + 1;
  uint64_t bytes = file->as.bytes / records + 1;
  uint64_t most = STRIPE_BYTES / bytes;
  uint64_t parts = (uint64_t)workers * STRIPES;
  uint64_t stripe = (records + parts - 1) / parts;
  most = most > EMB_SAMPLES_BLOCK ? most : EMB_SAMPLES_BLOCK;
  return stripe < most ? stripe : most;
}

/* Moves `at` to the first record that belongs to this worker. */
static void samples_range_to_own(struct ext_samples_range *range) {
  int64_t workers = range->ask->workers, owner;
  uint64_t number;
  if (workers <= 1)
    return;
  number = range->at / range->stripe;
  owner = samples_range_owner((int64_t)number + range->file->id, workers);
  if (owner != range->ask->worker)
    range->at = (number + (uint64_t)samples_range_owner(
                              range->ask->worker - owner, workers)) *
                range->stripe;
}

/* ---- rows ---------------------------------------------------------------- */

static int samples_range_row(struct ext_samples_range *range, char **err) {
  const struct ext_samples_ask *ask = range->ask;
  sqlite3_stmt *rows = range->statements[SAMPLES_RANGE_ROWS];
  range->is_row = 0;
  while (sqlite3_step(rows) == SQLITE_ROW) {
    range->row = sqlite3_column_int64(rows, 0);
    if (ask->workers <= 1 ||
        samples_range_owner(range->row >> 6, ask->workers) == ask->worker) {
      range->is_row = 1;
      return SQLITE_OK;
    }
  }
  return ext_sql_error(err, range->table->db, sqlite3_reset(rows));
}

_Static_assert(STRIPE_KEYS == 1 << 6, "as samples_range_row shifts");

/* ---- files --------------------------------------------------------------- */

/* Moves to the next file, and to the place where the range begins in it. */
static int samples_range_next_file(struct ext_samples_range *range,
                                   char **err) {
  const struct ext_samples_ask *ask = range->ask;
  sqlite3_stmt *files = range->statements[SAMPLES_RANGE_FILES];
  struct ext_samples_file *file;
  int rc;
  ext_samples_file_drop(range->file);
  range->file = NULL;
  range->is_placed = 0;
  if (sqlite3_step(files) != SQLITE_ROW)
    return ext_sql_error(err, range->table->db, sqlite3_reset(files));
  rc = ext_samples_file_read(range->table, files, &file, err);
  if (rc != SQLITE_OK)
    return rc;
  if (file->first > ask->keys.hi) {
    ext_samples_file_drop(file);
    return ext_sql_error(err, range->table->db, sqlite3_reset(files));
  }
  range->file = file;
  range->at = ask->keys.lo > file->first
                  ? (uint64_t)ask->keys.lo - (uint64_t)file->first
                  : 0;
  range->end =
      (uint64_t)(ask->keys.hi < file->last ? ask->keys.hi : file->last) -
      (uint64_t)file->first;
  range->stripe =
      ask->workers > 1 ? samples_range_stripe(file, ask->workers) : 0;
  return SQLITE_OK;
}

/* Is record `at` wanted?  If not, `at` moves on. */
static int samples_range_look(struct ext_samples_range *range, int *wanted,
                              char **err) {
  const struct ext_samples_ask *ask = range->ask;
  const struct ext_samples_file *file = range->file;
  uint64_t at = range->at;
  int gone, rc = SQLITE_OK;
  *wanted = 0;
  if (file->format.timestamp.type != EMB_SAMPLES_NONE ||
      ask->reads & (EXT_SAMPLES_BIT(EXT_SAMPLES_PAYLOAD) |
                    EXT_SAMPLES_BIT(EXT_SAMPLES_LABEL))) {
    rc = ext_samples_map_place(range->map, file, at, &range->place, err);
    if (rc != SQLITE_OK)
      return rc;
    if (range->place.least > ask->times.hi ||
        range->place.most < ask->times.lo) {
      range->at = (at / EMB_SAMPLES_BLOCK + 1) * EMB_SAMPLES_BLOCK;
      return SQLITE_OK;
    }
  } else {
    range->place.least = file->least;
    range->place.most = file->most;
  }
  rc = ext_samples_map_gone(range->map, file, at, &gone, err);
  *wanted = rc == SQLITE_OK && !gone;
  range->at += rc == SQLITE_OK && gone;
  return rc;
}

/* Moves to the next wanted record; range->file is NULL if there is none. */
static int samples_range_place(struct ext_samples_range *range, char **err) {
  int rc = SQLITE_OK;
  while (rc == SQLITE_OK && range->file && !range->is_placed) {
    int wanted;
    samples_range_to_own(range);
    if (++range->looks % LOOK_EVERY == 0 &&
        ext_link_interrupted(range->table->client->conn))
      return ext_error(err, SQLITE_INTERRUPT, "interrupted");
    if (range->at > range->end) {
      rc = samples_range_next_file(range, err);
    } else {
      rc = samples_range_look(range, &wanted, err);
      range->is_placed = rc == SQLITE_OK && wanted;
    }
  }
  return rc;
}

static void samples_range_bind(sqlite3_stmt *statement,
                               const struct ext_samples_ask *ask) {
  sqlite3_bind_int64(statement, 1, ask->keys.lo);
  sqlite3_bind_int64(statement, 2, ask->keys.hi);
  sqlite3_bind_int64(statement, 3, ask->times.lo);
  sqlite3_bind_int64(statement, 4, ask->times.hi);
  if (ask->dataset)
    sqlite3_bind_text(statement, 5, ask->dataset, -1, SQLITE_STATIC);
  else
    sqlite3_bind_null(statement, 5);
}

int ext_samples_range_begin(struct ext_samples_range *range,
                            const struct ext_samples_ask *ask, char **err) {
  int rc = SQLITE_OK;
  samples_range_reset(range);
  range->ask = ask;
  if (ask->keys.lo > ask->keys.hi || ask->times.lo > ask->times.hi)
    return SQLITE_OK;
  for (int i = 0; i < SAMPLES_RANGE_SQL && rc == SQLITE_OK; i++) {
    if (range->statements[i] == NULL)
      rc = ext_samples_prepare(range->table, range_sql[i],
                               &range->statements[i], err);
    if (rc == SQLITE_OK)
      samples_range_bind(range->statements[i], ask);
  }
  if (rc == SQLITE_OK)
    rc = samples_range_row(range, err);
  if (rc == SQLITE_OK)
    rc = samples_range_next_file(range, err);
  return rc == SQLITE_OK ? samples_range_place(range, err) : rc;
}

/* ---- both ---------------------------------------------------------------- */

static int samples_range_take_row(struct ext_samples_range *range,
                                  struct ext_samples_entry *entry, char **err) {
  entry->key = range->row;
  entry->is_there = 1;
  return samples_range_row(range, err);
}

static int samples_range_take_record(struct ext_samples_range *range,
                                     struct ext_samples_entry *entry,
                                     struct ext_samples_place *place,
                                     char **err) {
  const struct ext_samples_ask *ask = range->ask;
  int is_time = range->file->format.timestamp.type != EMB_SAMPLES_NONE;
  entry->key = (int64_t)((uint64_t)range->file->first + range->at);
  entry->file = range->file;
  entry->file->refs++;
  entry->is_there = 1;
  entry->is_timed =
      range->place.least < ask->times.lo || range->place.most > ask->times.hi;
  entry->is_read =
      entry->is_timed ||
      (ask->reads & (EXT_SAMPLES_BIT(EXT_SAMPLES_PAYLOAD) |
                     EXT_SAMPLES_BIT(EXT_SAMPLES_LABEL))) != 0 ||
      (is_time && ask->reads & EXT_SAMPLES_BIT(EXT_SAMPLES_TIMESTAMP));
  *place = range->place;
  range->at++;
  range->is_placed = 0;
  return samples_range_place(range, err);
}

int ext_samples_range_next(struct ext_samples_range *range,
                           struct ext_samples_entry *entry,
                           struct ext_samples_place *place, int *found,
                           char **err) {
  memset(entry, 0, sizeof *entry);
  *found = range->is_row || range->file;
  if (!*found)
    return SQLITE_OK;
  if (range->is_row &&
      (range->file == NULL ||
       range->row < (int64_t)((uint64_t)range->file->first + range->at)))
    return samples_range_take_row(range, entry, err);
  return samples_range_take_record(range, entry, place, err);
}
