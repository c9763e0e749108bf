/* SPDX-License-Identifier: MIT
**
** scan.h -- a scan, moved by scan.c and read by column.c.
*/
#ifndef EMB_EXT_SAMPLES_SCAN_H
#define EMB_EXT_SAMPLES_SCAN_H

#include "engine/data/emb_data.h"
#include "engine/base/debug.h"
#include "samples.h"

#define SCAN_LOADS 4

struct samples_scan_load {
  emb_samples_batch *batch;
  struct ext_samples_entry *entries; /* ENTRIES */
  size_t n, records;
  size_t bytes; /* of the batch */
};

struct ext_samples_scan {
  struct ext_samples *table;
  struct ext_samples_map *map;
  struct ext_samples_range *range;
  struct samples_scan_load loads[SCAN_LOADS];
  int front, count; /* filled loads */
  size_t at;        /* sample of the front one */
  int is_waited;    /* its records have been read */
  size_t most;      /* samples of the next load */
  int ended;        /* nothing left to load */
  int eof;

  struct ext_samples_ask ask;
  /* A sample that a load had no room for. */
  int is_kept;
  struct ext_samples_entry kept;
  struct ext_samples_place kept_place;

  int is_list;
  int64_t *keys;
  size_t key_count, key_at; /* key_at: the next key to load */
  uint64_t position;

  int is_split; /* the current record is split */
  emb_samples_sample sample;
};

static inline struct samples_scan_load *
samples_scan_front(const struct ext_samples_scan *scan) {
  return (struct samples_scan_load *)&scan->loads[scan->front];
}

static inline const struct ext_samples_entry *
samples_scan_entry(const struct ext_samples_scan *scan) {
  return &samples_scan_front(scan)->entries[scan->at];
}

/* Only in self-checking builds [scan_valid.c].  For a scan that was moved
** without an error, or has ended. */
int ext_samples_scan_valid(const struct ext_samples_scan *scan);

/* Splits the current record into label, timestamp and payload. */
int ext_samples_scan_split(struct ext_samples_scan *scan, char **err);

#endif
