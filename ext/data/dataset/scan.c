/* SPDX-License-Identifier: MIT
**
** scan.c -- samples with their records, which are read ahead.
**
** A scan has a few loads: batches of records in flight, in the order in which
** they will be needed.  The front load is handed out, sample by sample, while
** the others are read.
**
**     range: the next samples in the order of keys fill a load until it has no
**            room, or is as large as it may be: the first few records, then
**            twice as many each time, so that a LIMIT 1 reads little
**     list:  LIST_KEYS keys are looked up in the order of keys, which is that
**            of their records, and handed out in the order in which they were
**            given; if their records do not fit, half as many keys
**
** FAILURE   An error ends the scan; ext_samples_scan_end waits for the loads in
**           flight.
*/
#include "engine/data/emb_data.h"
#include "scan.h"
SQLITE_EXTENSION_INIT3

#include <stdlib.h>
#include <string.h>

#define LOAD_BYTES ((size_t)4 << 20)
#define LIST_BYTES ((size_t)12 << 20)
#define LIST_KEYS 1024
#define ENTRIES 4096
#define FIRST_ENTRIES 16

int ext_samples_scan_new(struct ext_samples *table,
                         struct ext_samples_scan **out) {
  struct ext_samples_scan *scan;
  int rc;
  *out = table->spare;
  table->spare = NULL;
  emb_assert(!*out || ((*out)->eof && (*out)->table == table));
  if (*out)
    return SQLITE_OK;
  scan = sqlite3_malloc64(sizeof *scan);
  if (scan == NULL)
    return SQLITE_NOMEM;
  memset(scan, 0, sizeof *scan);
  scan->table = table;
  scan->eof = scan->ended = 1;
  rc = ext_samples_map_new(table, &scan->map);
  if (rc == SQLITE_OK)
    rc = ext_samples_range_new(table, scan->map, &scan->range);
  if (rc == SQLITE_OK)
    *out = scan;
  else
    ext_samples_scan_free(scan);
  return rc;
}

/* After fork(), reads in flight and their memory belong to the parent. */
static int samples_scan_is_inherited(const struct ext_samples_scan *scan) {
  return ext_conn_is_inherited(scan->table->client->conn);
}

static void samples_load_clear(struct ext_samples_scan *scan,
                               struct samples_scan_load *load) {
  for (size_t i = 0; i < load->n; i++)
    ext_samples_file_drop(load->entries[i].file);
  load->n = load->records = 0;
  if (load->batch && !samples_scan_is_inherited(scan))
    emb_samples_batch_clear(load->batch);
}

void ext_samples_scan_end(struct ext_samples_scan *scan) {
  struct ext_samples_ask none = {.reads = 0};
  for (int i = 0; i < SCAN_LOADS; i++)
    samples_load_clear(scan, &scan->loads[i]);
  if (scan->is_kept)
    ext_samples_file_drop(scan->kept.file);
  sqlite3_free(scan->keys);
  sqlite3_free(scan->ask.dataset);
  none.keys.lo = none.times.lo = 1;
  scan->ask = none;
  (void)ext_samples_range_begin(scan->range, &scan->ask, NULL);
  ext_samples_map_forget(scan->map);
  scan->keys = NULL;
  scan->front = scan->count = scan->is_kept = scan->is_list = 0;
  scan->is_waited = scan->is_split = 0;
  scan->at = scan->key_count = scan->key_at = 0;
  scan->position = 0;
  scan->eof = scan->ended = 1;
  emb_check(ext_samples_scan_valid(scan));
}

static void samples_scan_destroy(struct ext_samples_scan *scan) {
  if (scan->range)
    ext_samples_scan_end(scan);
  for (int i = 0; i < SCAN_LOADS; i++) {
    if (!samples_scan_is_inherited(scan))
      emb_samples_batch_free(scan->loads[i].batch);
    sqlite3_free(scan->loads[i].entries);
  }
  ext_samples_range_free(scan->range);
  ext_samples_map_free(scan->map);
  sqlite3_free(scan);
}

/* Keeps one scan as a spare: its memory has pages, and its statements are
** prepared.  A batch that begins without them takes a fifth longer. */
void ext_samples_scan_free(struct ext_samples_scan *scan) {
  if (scan && scan->range && scan->table->spare == NULL) {
    ext_samples_scan_end(scan);
    scan->table->spare = scan;
  } else if (scan) {
    samples_scan_destroy(scan);
  }
}

void ext_samples_scan_free_spare(struct ext_samples *table) {
  if (table->spare)
    samples_scan_destroy(table->spare);
  table->spare = NULL;
}

/* ---- loads --------------------------------------------------------------- */

static int samples_scan_error(int rc, const emb_err *why, char **err) {
  return rc ? ext_engine_error(err, rc, why->text) : SQLITE_OK;
}

/* Finds a free load. */
static int samples_load_new(struct ext_samples_scan *scan,
                            struct samples_scan_load **out) {
  struct samples_scan_load *load =
      &scan->loads[(scan->front + scan->count) % SCAN_LOADS];
  if (load->entries == NULL)
    load->entries = sqlite3_malloc64(ENTRIES * sizeof *load->entries);
  *out = load;
  if (load->entries == NULL)
    return SQLITE_NOMEM;
  samples_load_clear(scan, load);
  return SQLITE_OK;
}

/* Opens the reader and the load's batch, when the first record is read. */
static int samples_load_batch(struct ext_samples_scan *scan,
                              struct samples_scan_load *load, char **err) {
  size_t bytes = scan->is_list ? LIST_BYTES : LOAD_BYTES;
  emb_err why;
  int rc = EMB_OK;
  if (load->batch && load->bytes != bytes) {
    emb_samples_batch_free(load->batch);
    load->batch = NULL;
  }
  if (scan->table->reader == NULL)
    rc = emb_samples_open(scan->table->options.is_cached, &scan->table->reader,
                          &why);
  if (!rc && load->batch == NULL)
    rc = emb_samples_batch_new(scan->table->reader, bytes, &load->batch, &why);
  load->bytes = bytes;
  return samples_scan_error(rc, &why, err);
}

/* *added = 0: the load is full. */
static int samples_load_add(struct ext_samples_scan *scan,
                            struct samples_scan_load *load,
                            struct ext_samples_entry *entry,
                            const struct ext_samples_place *place, int *added,
                            char **err) {
  emb_err why;
  int rc;
  *added = 1;
  if (!entry->is_read)
    return SQLITE_OK;
  if (load->records == 0) {
    rc = samples_load_batch(scan, load, err);
    if (rc != SQLITE_OK)
      return rc;
  }
  rc = emb_samples_batch_add(load->batch, &entry->file->as, place->offset,
                             place->bytes, added, &why);
  entry->record = (uint32_t)load->records;
  load->records += !rc && *added;
  return samples_scan_error(rc, &why, err);
}

static int samples_load_start(struct samples_scan_load *load, char **err) {
  emb_err why;
  return load->records
             ? samples_scan_error(emb_samples_batch_start(load->batch, &why),
                                  &why, err)
             : SQLITE_OK;
}

/* ---- range --------------------------------------------------------------- */

static int samples_range_take(struct ext_samples_scan *scan,
                              struct ext_samples_entry *entry,
                              struct ext_samples_place *place, char **err) {
  int found, rc;
  if (scan->is_kept) {
    *entry = scan->kept;
    *place = scan->kept_place;
    scan->is_kept = 0;
    return SQLITE_OK;
  }
  rc = ext_samples_range_next(scan->range, entry, place, &found, err);
  if (rc != SQLITE_OK && found) {
    ext_samples_file_drop(entry->file);
    entry->file = NULL;
  }
  scan->ended = rc == SQLITE_OK && !found;
  return rc;
}

static int samples_load_range(struct ext_samples_scan *scan, char **err) {
  struct samples_scan_load *load;
  int added = 1;
  int rc = samples_load_new(scan, &load);
  while (rc == SQLITE_OK && added && load->n < scan->most) {
    struct ext_samples_entry entry;
    struct ext_samples_place place;
    rc = samples_range_take(scan, &entry, &place, err);
    if (rc != SQLITE_OK || scan->ended)
      break;
    rc = samples_load_add(scan, load, &entry, &place, &added, err);
    if (rc == SQLITE_OK && added) {
      load->entries[load->n++] = entry;
    } else if (rc == SQLITE_OK) {
      scan->is_kept = 1;
      scan->kept = entry;
      scan->kept_place = place;
    } else {
      ext_samples_file_drop(entry.file);
    }
  }
  scan->most = scan->most * 2 < ENTRIES ? scan->most * 2 : ENTRIES;
  return rc;
}

/* ---- list ---------------------------------------------------------------- */

struct samples_listed {
  int64_t key;
  size_t at; /* in the load */
};

static int sampled_by_key(const void *a, const void *b) {
  int64_t x = ((const struct samples_listed *)a)->key;
  int64_t y = ((const struct samples_listed *)b)->key;
  return x < y ? -1 : x > y;
}

/* Finds the sample's place, if the sample exists. */
static int samples_list_find(struct ext_samples_scan *scan,
                             struct ext_samples_entry *entry,
                             struct ext_samples_place *place, char **err) {
  struct ext_samples_file *file;
  sqlite3_stmt *row;
  uint64_t at;
  int gone = 1;
  int rc = ext_samples_map_file(scan->map, entry->key, &file, err);
  if (rc == SQLITE_OK && file) {
    at = (uint64_t)entry->key - (uint64_t)file->first;
    rc = ext_samples_map_gone(scan->map, file, at, &gone, err);
    if (rc == SQLITE_OK && !gone) {
      int is_time = file->format.timestamp.type != EMB_SAMPLES_NONE;
      entry->is_there = 1;
      entry->is_read =
          (scan->ask.reads &
           (EXT_SAMPLES_BIT(EXT_SAMPLES_PAYLOAD) |
            EXT_SAMPLES_BIT(EXT_SAMPLES_LABEL) |
            (is_time ? EXT_SAMPLES_BIT(EXT_SAMPLES_TIMESTAMP) : 0))) != 0;
      if (entry->is_read)
        rc = ext_samples_map_place(scan->map, file, at, place, err);
      if (rc == SQLITE_OK) {
        file->refs++;
        entry->file = file;
      }
    }
  }
  if (rc == SQLITE_OK && gone) {
    rc = ext_samples_map_row(scan->map, entry->key, &row, err);
    entry->is_there = row != NULL;
    if (row)
      sqlite3_reset(row);
  }
  return rc;
}

/* Loads the next n keys; *fits = 0: their records do not fit. */
static int samples_list_load(struct ext_samples_scan *scan, size_t n, int *fits,
                             char **err) {
  struct samples_listed *listed = sqlite3_malloc64(n * sizeof *listed);
  struct samples_scan_load *load;
  int rc = listed ? samples_load_new(scan, &load) : SQLITE_NOMEM;
  *fits = 1;
  for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
    listed[i] = (struct samples_listed){scan->keys[scan->key_at + i], i};
    memset(&load->entries[i], 0, sizeof load->entries[i]);
    load->entries[i].key = listed[i].key;
    load->n = i + 1;
  }
  if (rc == SQLITE_OK)
    qsort(listed, n, sizeof *listed, sampled_by_key);
  for (size_t i = 0; i < n && rc == SQLITE_OK && *fits; i++) {
    struct ext_samples_entry *entry = &load->entries[listed[i].at];
    struct ext_samples_place place;
    rc = samples_list_find(scan, entry, &place, err);
    if (rc == SQLITE_OK)
      rc = samples_load_add(scan, load, entry, &place, fits, err);
  }
  sqlite3_free(listed);
  return rc;
}

static int samples_load_list(struct ext_samples_scan *scan, char **err) {
  size_t left = scan->key_count - scan->key_at;
  size_t n = left < LIST_KEYS ? left : LIST_KEYS;
  int fits = 0, rc = SQLITE_OK;
  if (ext_link_interrupted(scan->table->client->conn))
    return ext_error(err, SQLITE_INTERRUPT, "interrupted");
  while (rc == SQLITE_OK && n > 0) {
    rc = samples_list_load(scan, n, &fits, err);
    if (rc != SQLITE_OK || fits)
      break;
    n = (n + 1) / 2; /* one record always fits */
  }
  scan->key_at += n;
  scan->ended = scan->key_at == scan->key_count;
  return rc;
}

/* ---- both ---------------------------------------------------------------- */

/* Fills as many loads as may be in flight. */
static int samples_scan_fill(struct ext_samples_scan *scan, char **err) {
  int most = scan->is_list ? 2 : SCAN_LOADS, rc = SQLITE_OK;
  while (rc == SQLITE_OK && !scan->ended && scan->count < most) {
    rc = scan->is_list ? samples_load_list(scan, err)
                       : samples_load_range(scan, err);
    if (rc == SQLITE_OK) {
      struct samples_scan_load *load =
          &scan->loads[(scan->front + scan->count) % SCAN_LOADS];
      rc = samples_load_start(load, err);
      scan->count += load->n > 0;
    }
  }
  return rc;
}

int ext_samples_scan_split(struct ext_samples_scan *scan, char **err) {
  const struct ext_samples_entry *entry = samples_scan_entry(scan);
  const void *record;
  size_t bytes;
  emb_err why;
  int rc;
  if (scan->is_split)
    return SQLITE_OK;
  emb_assert(entry->is_read && scan->is_waited);
  record = emb_samples_batch_record(samples_scan_front(scan)->batch,
                                    entry->record, &bytes);
  rc = emb_samples_split(&entry->file->format, record, bytes, &scan->sample,
                         &why);
  if (rc) {
    rc = ext_engine_error(err, rc, why.text);
    return rc == SQLITE_NOMEM
               ? rc
               : ext_error(err, rc, "the file %s, sample %lld: %s",
                           entry->file->path, (long long)entry->key, why.text);
  }
  scan->is_split = 1;
  return SQLITE_OK;
}

/* Waits for the records of the front load. */
static int samples_scan_wait(struct ext_samples_scan *scan, char **err) {
  struct samples_scan_load *load = samples_scan_front(scan);
  emb_err why;
  int rc = EMB_OK;
  if (!scan->is_waited && load->records)
    rc = emb_samples_batch_wait(load->batch, &why);
  scan->is_waited = 1;
  return samples_scan_error(rc, &why, err);
}

/* Is the current sample wanted?  If is_timed, its record decides. */
static int samples_scan_is_wanted(struct ext_samples_scan *scan, int *wanted,
                                  char **err) {
  int rc = SQLITE_OK;
  *wanted = 1;
  if (samples_scan_entry(scan)->is_timed) {
    rc = ext_samples_scan_split(scan, err);
    *wanted = rc == SQLITE_OK && scan->sample.timestamp >= scan->ask.times.lo &&
              scan->sample.timestamp <= scan->ask.times.hi;
  }
  return rc;
}

/* Skips the front load if it is done, then moves to a wanted sample. */
static int samples_scan_settle(struct ext_samples_scan *scan, char **err) {
  int rc = SQLITE_OK, wanted = 0;
  while (rc == SQLITE_OK && !wanted) {
    scan->is_split = 0;
    if (scan->count > 0 && scan->at == samples_scan_front(scan)->n) {
      samples_load_clear(scan, samples_scan_front(scan));
      scan->front = (scan->front + 1) % SCAN_LOADS;
      scan->count--;
      scan->at = 0;
      scan->is_waited = 0;
    }
    rc = scan->is_waited ? SQLITE_OK : samples_scan_fill(scan, err);
    if (rc != SQLITE_OK)
      break;
    if (scan->count == 0) {
      scan->eof = 1;
      emb_check(ext_samples_scan_valid(scan));
      return SQLITE_OK;
    }
    rc = samples_scan_wait(scan, err);
    if (rc == SQLITE_OK)
      rc = samples_scan_is_wanted(scan, &wanted, err);
    if (rc == SQLITE_OK && !wanted)
      scan->at++;
  }
  emb_check_some(16, rc != SQLITE_OK || ext_samples_scan_valid(scan));
  return rc;
}

int ext_samples_scan_next(struct ext_samples_scan *scan, char **err) {
  emb_assert(!scan->eof);
  scan->at++;
  scan->position++;
  return samples_scan_settle(scan, err);
}

int ext_samples_scan_range(struct ext_samples_scan *scan,
                           struct ext_samples_ask *ask, char **err) {
  int rc;
  ext_samples_scan_end(scan);
  scan->ask = *ask;
  ask->dataset = NULL;
  scan->most = FIRST_ENTRIES;
  scan->eof = scan->ended = 0;
  rc = ext_samples_range_begin(scan->range, &scan->ask, err);
  return rc == SQLITE_OK ? samples_scan_settle(scan, err) : rc;
}

int ext_samples_scan_list(struct ext_samples_scan *scan, int64_t *keys,
                          size_t n, int reads, char **err) {
  ext_samples_scan_end(scan);
  scan->is_list = 1;
  scan->keys = keys;
  scan->key_count = n;
  scan->ask.reads = reads;
  scan->ended = n == 0;
  scan->eof = 0;
  return samples_scan_settle(scan, err);
}

int ext_samples_scan_eof(const struct ext_samples_scan *scan) {
  return scan->eof;
}

int64_t ext_samples_scan_key(const struct ext_samples_scan *scan) {
  emb_assert(!scan->eof);
  return samples_scan_entry(scan)->key;
}

uint64_t ext_samples_scan_position(const struct ext_samples_scan *scan) {
  return scan->position;
}

int ext_samples_scan_found(const struct ext_samples_scan *scan) {
  return samples_scan_entry(scan)->is_there;
}
