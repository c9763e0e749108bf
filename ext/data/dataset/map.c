/* SPDX-License-Identifier: MIT
**
** map.c -- finds the record of a key.
**
** Keys of a file are a range, and the ranges of files do not overlap, so the
** file of a key is the first whose last key is not below it: one search in an
** index.  The place of a fixed record is then computed, and other records are
** found through their block.  The file, block and part used last are kept, so
** keys requested in ascending order need one search of each.
**
** NUMBERS   The number of a block or part has its file's number in the upper
**           bits, so that a file's blocks and parts are stored together, and
**           deleted together.
*/
#include "engine/data/emb_data.h"
#include "engine/base/debug.h"
#include "engine/base/seed.h"
#include "samples.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

#define PART_RECORDS 4096

enum {
  SAMPLES_MAP_FILE,
  SAMPLES_MAP_BLOCK,
  SAMPLES_MAP_PART,
  SAMPLES_MAP_ROW,
  SAMPLES_MAP_SET,
  SAMPLES_MAP_COUNT,
  SAMPLES_MAP_SQL
};
static const char *const map_sql[SAMPLES_MAP_SQL] = {
    [SAMPLES_MAP_FILE] = "SELECT " EXT_SAMPLES_FILE
                         " FROM @files WHERE last >= ?1 ORDER BY last LIMIT 1",
    [SAMPLES_MAP_BLOCK] =
        "SELECT records, least, most, spans FROM @blocks WHERE block = ?1",
    [SAMPLES_MAP_PART] = "SELECT bits FROM @gone WHERE part = ?1",
    [SAMPLES_MAP_ROW] =
        "SELECT timestamp, label, dataset, payload FROM @rows WHERE key = ?1",
    [SAMPLES_MAP_SET] =
        "INSERT OR REPLACE INTO @gone(part, bits) VALUES(?1, ?2)",
    [SAMPLES_MAP_COUNT] = "UPDATE @files SET gone = gone + 1 WHERE file = ?1",
};

struct ext_samples_map {
  struct ext_samples *table;
  sqlite3_stmt *statements[SAMPLES_MAP_SQL];
  struct ext_samples_file *file; /* used last; NULL */
  sqlite3_int64 block;           /* that has these offsets; -1: none */
  uint32_t records;
  int64_t least, most;
  uint64_t offsets[EMB_SAMPLES_BLOCK + 1];
  sqlite3_int64 part; /* that has these bits; -1: none */
  uint8_t bits[PART_RECORDS / 8];
};

int ext_samples_map_new(struct ext_samples *table,
                        struct ext_samples_map **out) {
  struct ext_samples_map *map = sqlite3_malloc64(sizeof *map);
  if (map == NULL)
    return SQLITE_NOMEM;
  memset(map, 0, sizeof *map);
  map->table = table;
  map->block = map->part = -1;
  *out = map;
  return SQLITE_OK;
}

void ext_samples_map_forget(struct ext_samples_map *map) {
  ext_samples_file_drop(map->file);
  map->file = NULL;
  map->block = map->part = -1;
}

void ext_samples_map_free(struct ext_samples_map *map) {
  if (map == NULL)
    return;
  ext_samples_map_forget(map);
  for (int i = 0; i < SAMPLES_MAP_SQL; i++)
    sqlite3_finalize(map->statements[i]);
  sqlite3_free(map);
}

/* The prepared statement, with ?1 bound. */
static int samples_map_statement(struct ext_samples_map *map, int i,
                                 sqlite3_int64 number, sqlite3_stmt **statement,
                                 char **err) {
  int rc = SQLITE_OK;
  if (map->statements[i] == NULL)
    rc = ext_samples_prepare(map->table, map_sql[i], &map->statements[i], err);
  if (rc == SQLITE_OK)
    rc = sqlite3_bind_int64(map->statements[i], 1, number);
  *statement = map->statements[i];
  return rc;
}

/* Resets a statement that returned no row, or whose row was read. */
static int samples_map_end(struct ext_samples_map *map, sqlite3_stmt *statement,
                           int rc, char **err) {
  int end = sqlite3_reset(statement);
  return rc == SQLITE_OK ? ext_sql_error(err, map->table->db, end) : rc;
}

static int samples_map_damaged(struct ext_samples_map *map, const char *what,
                               char **err) {
  return ext_error(err, SQLITE_CORRUPT_VTAB, "%s_%s is damaged",
                   map->table->name, what);
}

/* ---- files --------------------------------------------------------------- */

void ext_samples_file_drop(struct ext_samples_file *file) {
  emb_assert(!file || file->refs > 0);
  if (file && --file->refs == 0)
    sqlite3_free(file);
}

static int samples_file_format(struct ext_samples_file *file,
                               sqlite3_value *text, char **err) {
  struct ext_samples_options options;
  int rc;
  ext_samples_options_init(&options);
  rc = ext_samples_options_pairs(&options, text, err);
  if (rc == SQLITE_OK)
    rc = ext_samples_options_finish(&options, err);
  file->format = options.format;
  ext_samples_options_clear(&options);
  return rc;
}

static int samples_file_is_valid(const struct ext_samples_file *file) {
  uint64_t record = file->format.record, header = file->format.header;
  uint64_t records = (uint64_t)file->last - (uint64_t)file->first + 1;
  return file->id >= 0 && file->id < INT64_C(1) << (62 - EXT_SAMPLES_SHIFT) &&
         file->first <= file->last &&
         records < UINT64_C(1) << EXT_SAMPLES_SHIFT &&
         file->as.bytes <= INT64_MAX &&
         (file->format.kind != EMB_SAMPLES_FIXED ||
          (header <= file->as.bytes &&
           (file->as.bytes - header) / record >= records));
}

int ext_samples_file_read(struct ext_samples *table, sqlite3_stmt *row,
                          struct ext_samples_file **out, char **err) {
  const char *path = (const char *)sqlite3_column_text(row, 10);
  const char *dataset = (const char *)sqlite3_column_text(row, 11);
  struct ext_samples_file *file;
  size_t path_size = path ? strlen(path) + 1 : 1;
  size_t dataset_size = dataset ? strlen(dataset) + 1 : 1;
  int rc;
  *out = NULL;
  file = sqlite3_malloc64(sizeof *file + path_size + dataset_size);
  if (file == NULL)
    return SQLITE_NOMEM;
  memset(file, 0, sizeof *file);
  file->refs = 1;
  file->path = (char *)(file + 1);
  file->dataset = file->path + path_size;
  memcpy(file->path, path ? path : "", path_size);
  memcpy(file->dataset, dataset ? dataset : "", dataset_size);
  file->id = sqlite3_column_int64(row, 0);
  file->first = sqlite3_column_int64(row, 1);
  file->last = sqlite3_column_int64(row, 2);
  file->gone = sqlite3_column_int64(row, 3);
  file->least = sqlite3_column_int64(row, 4);
  file->most = sqlite3_column_int64(row, 5);
  file->whole = sqlite3_column_int64(row, 9);
  file->as = (emb_samples_file){.path = file->path,
                                .id = file->id,
                                .bytes = (uint64_t)sqlite3_column_int64(row, 6),
                                .changed_ns = sqlite3_column_int64(row, 7),
                                .sum = (uint64_t)sqlite3_column_int64(row, 8)};
  rc = samples_file_format(file, sqlite3_column_value(row, 12), err);
  if (rc == SQLITE_OK && sqlite3_column_type(row, 2) != SQLITE_NULL &&
      !samples_file_is_valid(file))
    rc =
        ext_error(err, SQLITE_CORRUPT_VTAB, "%s_files is damaged", table->name);
  if (rc == SQLITE_OK)
    *out = file;
  else
    ext_samples_file_drop(file);
  return rc;
}

int ext_samples_map_file(struct ext_samples_map *map, sqlite3_int64 key,
                         struct ext_samples_file **file, char **err) {
  sqlite3_stmt *row;
  int rc = SQLITE_OK;
  *file = NULL;
  if (map->file == NULL || key < map->file->first || key > map->file->last) {
    ext_samples_map_forget(map);
    rc = samples_map_statement(map, SAMPLES_MAP_FILE, key, &row, err);
    if (rc != SQLITE_OK)
      return rc;
    if (sqlite3_step(row) == SQLITE_ROW)
      rc = ext_samples_file_read(map->table, row, &map->file, err);
    rc = samples_map_end(map, row, rc, err);
  }
  if (rc == SQLITE_OK && map->file && key >= map->file->first)
    *file = map->file;
  return rc;
}

/* Does the file have a record `at`? */
static int samples_file_has(const struct ext_samples_file *file, uint64_t at) {
  return at <= (uint64_t)file->last - (uint64_t)file->first;
}

/* ---- blocks -------------------------------------------------------------- */

static int samples_block_take(struct ext_samples_map *map,
                              const struct ext_samples_file *file,
                              uint64_t number, sqlite3_stmt *row, char **err) {
  emb_samples_block block = {.number = number};
  uint64_t all = (uint64_t)file->last - (uint64_t)file->first + 1;
  uint64_t left = all - number * EMB_SAMPLES_BLOCK;
  emb_err why;
  int rc;
  block.records = (uint32_t)sqlite3_column_int64(row, 0);
  if (block.records !=
      (left < EMB_SAMPLES_BLOCK ? left : (uint64_t)EMB_SAMPLES_BLOCK))
    return samples_map_damaged(map, "blocks", err);
  map->least = sqlite3_column_int64(row, 1);
  map->most = sqlite3_column_int64(row, 2);
  if (file->format.kind == EMB_SAMPLES_FIXED)
    return SQLITE_OK;
  block.spans = sqlite3_column_blob(row, 3);
  block.bytes = (size_t)sqlite3_column_bytes(row, 3);
  rc = emb_samples_offsets(&block, file->as.bytes, map->offsets, &why);
  return rc ? ext_engine_error(err, rc, why.text) : SQLITE_OK;
}

static int samples_map_block(struct ext_samples_map *map,
                             const struct ext_samples_file *file,
                             uint64_t number, char **err) {
  sqlite3_int64 block = file->id << EXT_SAMPLES_SHIFT | (sqlite3_int64)number;
  sqlite3_stmt *row;
  int rc;
  if (map->block == block)
    return SQLITE_OK;
  map->block = -1;
  rc = samples_map_statement(map, SAMPLES_MAP_BLOCK, block, &row, err);
  if (rc != SQLITE_OK)
    return rc;
  if (sqlite3_step(row) == SQLITE_ROW) {
    rc = samples_block_take(map, file, number, row, err);
    rc = samples_map_end(map, row, rc, err);
    if (rc == SQLITE_OK)
      map->block = block;
    return rc;
  }
  rc = samples_map_end(map, row, rc, err);
  return rc == SQLITE_OK ? samples_map_damaged(map, "blocks", err) : rc;
}

int ext_samples_map_place(struct ext_samples_map *map,
                          const struct ext_samples_file *file, uint64_t at,
                          struct ext_samples_place *place, char **err) {
  int is_fixed = file->format.kind == EMB_SAMPLES_FIXED;
  int is_timed = file->format.timestamp.type != EMB_SAMPLES_NONE;
  uint32_t i = (uint32_t)(at % EMB_SAMPLES_BLOCK);
  int rc = is_fixed && !is_timed
               ? SQLITE_OK
               : samples_map_block(map, file, at / EMB_SAMPLES_BLOCK, err);
  emb_assert(samples_file_has(file, at));
  if (rc != SQLITE_OK)
    return rc;
  place->offset = is_fixed ? file->format.header + at * file->format.record
                           : map->offsets[i];
  place->bytes =
      is_fixed ? file->format.record : map->offsets[i + 1] - map->offsets[i];
  place->least = is_timed ? map->least : file->least;
  place->most = is_timed ? map->most : file->most;
  return SQLITE_OK;
}

/* ---- deleted records ----------------------------------------------------- */

static int samples_map_part(struct ext_samples_map *map,
                            const struct ext_samples_file *file,
                            uint64_t number, char **err) {
  sqlite3_int64 part = file->id << EXT_SAMPLES_SHIFT | (sqlite3_int64)number;
  sqlite3_stmt *row;
  int rc;
  if (map->part == part)
    return SQLITE_OK;
  map->part = -1;
  memset(map->bits, 0, sizeof map->bits);
  rc = samples_map_statement(map, SAMPLES_MAP_PART, part, &row, err);
  if (rc != SQLITE_OK)
    return rc;
  if (sqlite3_step(row) == SQLITE_ROW) {
    const void *bits = sqlite3_column_blob(row, 0);
    if (sqlite3_column_bytes(row, 0) == (int)sizeof map->bits && bits)
      memcpy(map->bits, bits, sizeof map->bits);
    else
      rc = samples_map_damaged(map, "gone", err);
  }
  rc = samples_map_end(map, row, rc, err);
  if (rc == SQLITE_OK)
    map->part = part;
  return rc;
}

int ext_samples_map_gone(struct ext_samples_map *map,
                         const struct ext_samples_file *file, uint64_t at,
                         int *gone, char **err) {
  int rc;
  emb_assert(samples_file_has(file, at));
  *gone = 0;
  if (file->gone == 0 || EMB_SEED(SEED_DELETED_SAMPLE_RETURNED))
    return SQLITE_OK;
  rc = samples_map_part(map, file, at / PART_RECORDS, err);
  if (rc == SQLITE_OK)
    *gone = map->bits[at % PART_RECORDS / 8] >> (at % 8) & 1;
  return rc;
}

int ext_samples_map_delete(struct ext_samples_map *map,
                           const struct ext_samples_file *file, uint64_t at,
                           char **err) {
  sqlite3_stmt *statement;
  int rc = samples_map_part(map, file, at / PART_RECORDS, err);
  emb_assert(samples_file_has(file, at));
  if (rc != SQLITE_OK)
    return rc;
  map->bits[at % PART_RECORDS / 8] |= (uint8_t)(1 << (at % 8));
  rc = samples_map_statement(map, SAMPLES_MAP_SET, map->part, &statement, err);
  if (rc == SQLITE_OK)
    rc = sqlite3_bind_blob(statement, 2, map->bits, (int)sizeof map->bits,
                           SQLITE_STATIC);
  if (rc == SQLITE_OK)
    rc = ext_samples_run(map->table, statement, err);
  if (rc == SQLITE_OK)
    rc = samples_map_statement(map, SAMPLES_MAP_COUNT, file->id, &statement,
                               err);
  if (rc == SQLITE_OK)
    rc = ext_samples_run(map->table, statement, err);
  /* The file's count has changed, and after an error so may the bits. */
  ext_samples_map_forget(map);
  return rc;
}

/* ---- rows ---------------------------------------------------------------- */

int ext_samples_map_row(struct ext_samples_map *map, sqlite3_int64 key,
                        sqlite3_stmt **row, char **err) {
  sqlite3_stmt *statement;
  int rc = samples_map_statement(map, SAMPLES_MAP_ROW, key, &statement, err);
  *row = NULL;
  if (rc != SQLITE_OK)
    return rc;
  if (sqlite3_step(statement) == SQLITE_ROW) {
    *row = statement;
    return SQLITE_OK;
  }
  return samples_map_end(map, statement, SQLITE_OK, err);
}
