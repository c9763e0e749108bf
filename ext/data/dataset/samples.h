/* SPDX-License-Identifier: MIT
**
** samples.h -- ext/data/dataset/: the module emb_samples, samples with unique
** keys in files written by others and in its own rows.
**
** ROLE      Shadow tables record which file has which keys; the records
**           themselves are read by engine/data/dataset.  All changes are made
**           in the shadow tables, so SQLite's transactions, savepoints and
**           recovery cover registrations, deletions and inserted rows, and no
**           code here deals with transactions.
** SHADOWS   NAME_files    a row for each file: its keys, first to last, and its
**                         identity
**           NAME_blocks   a row for each 256 records: least and most timestamp,
**                         and their places (engine/data/dataset/spans.c).  None
**                         for fixed records without timestamps: their places
**                         are computed
**           NAME_gone     a row for each 4,096 records with a deleted one: one
**                         bit a record
**           NAME_rows     the inserted samples
**           NAME_config   next: the lowest key that was never assigned
** THE MAP   from keys to records is these tables themselves: the last key of
**           each file is indexed, and a cursor keeps the file, the block and
**           the bits that it used last.  Opening a table builds nothing,
**           nothing can go stale, and no memory grows with the samples.
** FILES     options.c (options of a format, datasets and timestamps), shadow.c
**           (these tables), map.c (from a key to a record), range.c (which keys
**           come next), scan.c, scan.h (their records, read ahead), column.c
**           (their column values), add.c (registers a file), command.c,
**           update.c (rows), vtab.c and plan.c (SQLite's callbacks), tvf.c
**           (batches and workers), directory.c (lists files), scan_valid.c
**           (self-checks of a scan).
** ERRORS    As ext/value/value.h.  A file that has changed gives
**           SQLITE_MISMATCH; a missing file gives SQLITE_CANTOPEN.
*/
#ifndef EMB_EXT_SAMPLES_H
#define EMB_EXT_SAMPLES_H

#include "engine/data/emb_data.h"
#include "ext/tvf/tvf.h"

/* The number of a block, or of a part of deleted records, has the file's number
** in the bits from here on. */
#define EXT_SAMPLES_SHIFT 40

/* Columns of the table. */
enum {
  EXT_SAMPLES_KEY = 0,
  EXT_SAMPLES_PAYLOAD,
  EXT_SAMPLES_LABEL,
  EXT_SAMPLES_TIMESTAMP,
  EXT_SAMPLES_DATASET,
  EXT_SAMPLES_PATH,    /* hidden: the file that has it, or is registered */
  EXT_SAMPLES_OPTIONS, /* hidden: options of that file */
  EXT_SAMPLES_COMMAND, /* hidden */
  EXT_SAMPLES_COLUMNS
};
/* Columns that a scan reads, one bit each. */
#define EXT_SAMPLES_BIT(column) (1 << (column))

/* ---- directory.c --------------------------------------------------------- */

/* emb_samples_directory. */
int ext_samples_directory_register(struct ext_conn *conn);

/* ---- options.c ----------------------------------------------------------- */

struct ext_samples_options {
  emb_samples_format format;
  char *index;      /* suffix of the offset file's name */
  char *label_name; /* of CSV columns, until their numbers are known */
  char *timestamp_name;
  int label_sized, timestamp_sized; /* given, not assumed */
  int header_has_unit;              /* so it is in bytes */
  int is_cached;
};
void ext_samples_options_init(struct ext_samples_options *options);
void ext_samples_options_clear(struct ext_samples_options *options);
int ext_samples_options_copy(struct ext_samples_options *to,
                             const struct ext_samples_options *from);
/* The arguments of CREATE VIRTUAL TABLE, from the third on. */
int ext_samples_options_arguments(struct ext_samples_options *options, int argc,
                                  const char *const *argv, char **err);
/* Applies a text of pairs on top of the options already there. */
int ext_samples_options_pairs(struct ext_samples_options *options,
                              sqlite3_value *value, char **err);
/* Completes the options, and checks that they are possible together. */
int ext_samples_options_finish(struct ext_samples_options *options, char **err);
/* In the format of the column in NAME_files; NULL if out of memory. */
char *ext_samples_options_text(const struct ext_samples_options *options);

/* Read the name of a dataset, "" if there is none, and a timestamp. */
int ext_samples_dataset(sqlite3_value *value, const char **dataset, char **err);
int ext_samples_time(sqlite3_value *value, int64_t *timestamp, char **err);

/* ---- the table ----------------------------------------------------------- */

struct ext_samples_client {
  struct ext_conn *conn;
  int probing; /* xBestIndex reports its table in probed */
  struct ext_samples *probed;
};

struct ext_samples {
  sqlite3_vtab base; /* must be first */
  struct ext_samples_client *client;
  sqlite3 *db;
  char *schema, *name;
  struct ext_samples_options options; /* of a file, unless it has its own */
  struct ext_samples_map *map;        /* of writes; NULL before the first */
  emb_samples_reader *reader;         /* of its scans; NULL before the first */
  struct ext_samples_scan *spare;     /* an unused scan, with its memory */
};

/* ---- shadow.c ------------------------------------------------------------ */

int ext_samples_shadow_create(struct ext_samples *table, char **err);
int ext_samples_shadow_drop(struct ext_samples *table, char **err);
int ext_samples_shadow_rename(struct ext_samples *table, const char *name,
                              char **err);
int ext_samples_shadow_is(const char *suffix);
/* Prepares a statement on the shadow tables; @files in it is replaced by the
** name of the table of files, and the other names likewise. */
int ext_samples_prepare(struct ext_samples *table, const char *format,
                        sqlite3_stmt **statement, char **err);
/* Runs a statement that returns no row, and resets it. */
int ext_samples_run(struct ext_samples *table, sqlite3_stmt *statement,
                    char **err);
/* As above, for a statement that returns at most one number, *found. */
int ext_samples_number(struct ext_samples *table, sqlite3_stmt *statement,
                       int *found, sqlite3_int64 *number, char **err);

/* ---- map.c: from a key to its record ------------------------------------- */

/* A registered file, as a scan keeps it. */
struct ext_samples_file {
  int refs;
  sqlite3_int64 id, first, last, gone;
  sqlite3_int64 least, most; /* timestamps */
  char *path, *dataset;      /* stored behind the struct */
  emb_samples_format format;
  emb_samples_file as;
  sqlite3_int64 whole; /* checksum of the whole file; 0: it was not read */
};
void ext_samples_file_drop(struct ext_samples_file *file);
/* The columns of NAME_files in the order in which ext_samples_file_read takes
** them from a row. */
#define EXT_SAMPLES_FILE                                                       \
  "file, first, last, gone, least, most, bytes, changed, checksum, whole, "    \
  "path, dataset, format"
int ext_samples_file_read(struct ext_samples *table, sqlite3_stmt *row,
                          struct ext_samples_file **file, char **err);

/* Where a record is, and what is known about it without reading it. */
struct ext_samples_place {
  uint64_t offset, bytes;
  int64_t least, most; /* timestamps of its block, or of its file */
};

struct ext_samples_map;
/* Creates the map of a cursor, or of the table's writes. */
int ext_samples_map_new(struct ext_samples *table,
                        struct ext_samples_map **map);
void ext_samples_map_free(struct ext_samples_map *map);
/* Discards everything the map has cached. */
void ext_samples_map_forget(struct ext_samples_map *map);
/* Finds the file whose key range contains the key; the map owns it, until the
** next call.  NULL if there is none. */
int ext_samples_map_file(struct ext_samples_map *map, sqlite3_int64 key,
                         struct ext_samples_file **file, char **err);
/* Record `at` of a file, from 0. */
int ext_samples_map_place(struct ext_samples_map *map,
                          const struct ext_samples_file *file, uint64_t at,
                          struct ext_samples_place *place, char **err);
/* Is the record deleted? */
int ext_samples_map_gone(struct ext_samples_map *map,
                         const struct ext_samples_file *file, uint64_t at,
                         int *gone, char **err);
/* Deletes the record. */
int ext_samples_map_delete(struct ext_samples_map *map,
                           const struct ext_samples_file *file, uint64_t at,
                           char **err);
/* The inserted sample with that key: NULL, or a row of timestamp, label,
** dataset, payload, which the caller resets. */
int ext_samples_map_row(struct ext_samples_map *map, sqlite3_int64 key,
                        sqlite3_stmt **row, char **err);

/* ---- range.c: which keys come next --------------------------------------- */

/* A sample to be returned. */
struct ext_samples_entry {
  int64_t key;
  struct ext_samples_file *file; /* a reference; NULL: a row, or none */
  uint32_t record;               /* in its batch */
  uint8_t is_read;               /* its record is read */
  uint8_t is_there;
  uint8_t is_timed; /* the record's timestamp decides if it is wanted */
};

/* The conditions and columns of a scan. */
struct ext_samples_ask {
  struct ext_range keys, times;
  char *dataset;           /* NULL: all */
  int reads;               /* EXT_SAMPLES_BIT of columns */
  int64_t worker, workers; /* 0: no workers */
};

struct ext_samples_range;
int ext_samples_range_new(struct ext_samples *table,
                          struct ext_samples_map *map,
                          struct ext_samples_range **range);
void ext_samples_range_free(struct ext_samples_range *range);
/* Begins the range; the caller keeps ask. */
int ext_samples_range_begin(struct ext_samples_range *range,
                            const struct ext_samples_ask *ask, char **err);
/* The next sample, in key order; *found = 0: no more.  The entry holds a
** reference to its file, and needs its record exactly if is_read. */
int ext_samples_range_next(struct ext_samples_range *range,
                           struct ext_samples_entry *entry,
                           struct ext_samples_place *place, int *found,
                           char **err);

/* ---- scan.c -------------------------------------------------------------- */

struct ext_samples_scan;
int ext_samples_scan_new(struct ext_samples *table,
                         struct ext_samples_scan **scan);
void ext_samples_scan_free(struct ext_samples_scan *scan);
/* Frees the spare scan: the table is going away or is being renamed. */
void ext_samples_scan_free_spare(struct ext_samples *table);
/* Scans in key order.  Takes over ask->dataset, also after an error. */
int ext_samples_scan_range(struct ext_samples_scan *scan,
                           struct ext_samples_ask *ask, char **err);
/* Scans these keys in this order, all of them, found or not; takes over the
** array (sqlite3_free), also after an error. */
int ext_samples_scan_list(struct ext_samples_scan *scan, int64_t *keys,
                          size_t n, int reads, char **err);
/* Moves to the first sample after either call, then to the next. */
int ext_samples_scan_next(struct ext_samples_scan *scan, char **err);
int ext_samples_scan_eof(const struct ext_samples_scan *scan);
/* Ends the scan; nothing is left in flight or cached. */
void ext_samples_scan_end(struct ext_samples_scan *scan);
int64_t ext_samples_scan_key(const struct ext_samples_scan *scan);
/* In a list: the number of keys before this one, and whether it was found. */
uint64_t ext_samples_scan_position(const struct ext_samples_scan *scan);
int ext_samples_scan_found(const struct ext_samples_scan *scan);
/* Returns a column of the current sample, EXT_SAMPLES_KEY to _PATH. */
int ext_samples_scan_column(struct ext_samples_scan *scan,
                            sqlite3_context *context, int column, char **err);

/* ---- add.c, command.c, update.c, plan.c ---------------------------------- */

struct ext_samples_new {
  sqlite3_value *key, *timestamp, *dataset, *path, *options;
};
int ext_samples_add(struct ext_samples *table,
                    const struct ext_samples_new *file, char **err);
/* Takes n keys from *key on: the given keys, which the caller has checked to be
** free, or the next keys. */
int ext_samples_keys(struct ext_samples *table, sqlite3_value *given,
                     uint64_t n, int64_t *key, char **err);
/* Moves the next key to be assigned past the last of these. */
int ext_samples_keys_taken(struct ext_samples *table, int64_t key, uint64_t n,
                           char **err);
int ext_samples_command(struct ext_samples *table, sqlite3_value *command,
                        const struct ext_samples_new *with, char **err);

int ext_samples_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv,
                       sqlite3_int64 *key);
int ext_samples_plan(sqlite3_vtab *vtab, sqlite3_index_info *info);

/* ---- vtab.c, tvf.c ------------------------------------------------------- */

int ext_samples_register(struct ext_conn *conn);
const sqlite3_module *ext_samples_module(void);
/* Finds the table that the argument names; *hold keeps the table, and its
** database attached, until it is finalized. */
int ext_samples_find(struct ext_samples_client *client, sqlite3_value *name,
                     struct ext_samples **table, sqlite3_stmt **hold,
                     char **err);
struct ext_samples_client *ext_samples_client(struct ext_conn *conn);

#endif
