/* SPDX-License-Identifier: MIT
**
** column.c -- the column values of a scan's current sample.
*/
#include "engine/data/emb_data.h"
#include "scan.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Returns the parts of a record's payload as one value. */
static int samples_result_payload(struct ext_samples_scan *scan,
                                  sqlite3_context *context) {
  const emb_samples_sample *sample = &scan->sample;
  int is_text = samples_scan_entry(scan)->file->format.kind == EMB_SAMPLES_CSV;
  size_t n = 0;
  char *to = NULL;
  const char *at = sample->parts ? (const char *)sample->payload[0].at : "";
  for (uint32_t i = 0; i < sample->parts; i++)
    n += sample->payload[i].bytes;
  if (sample->parts > 1) {
    size_t done = 0;
    at = to = sqlite3_malloc64(n);
    if (to == NULL)
      return SQLITE_NOMEM;
    for (uint32_t i = 0; i < sample->parts; i++) {
      memcpy(to + done, sample->payload[i].at, sample->payload[i].bytes);
      done += sample->payload[i].bytes;
    }
  }
  if (is_text)
    sqlite3_result_text64(context, at, n, to ? sqlite3_free : SQLITE_TRANSIENT,
                          SQLITE_UTF8);
  else
    sqlite3_result_blob64(context, at, n, to ? sqlite3_free : SQLITE_TRANSIENT);
  return SQLITE_OK;
}

/* A CSV field written as an integer is an integer. */
static int samples_result_text_label(const emb_samples_sample *sample,
                                     sqlite3_context *context) {
  const emb_samples_part *part = &sample->label_part;
  int64_t number;
  char *to;
  if (!sample->label_quoted && emb_samples_integer(part, &number)) {
    sqlite3_result_int64(context, number);
    return SQLITE_OK;
  }
  to = sqlite3_malloc64(part->bytes + 1);
  if (to == NULL)
    return SQLITE_NOMEM;
  sqlite3_result_text64(context, to, emb_samples_unquote(part, to),
                        sqlite3_free, SQLITE_UTF8);
  return SQLITE_OK;
}

static int samples_result_label(struct ext_samples_scan *scan,
                                sqlite3_context *context) {
  const emb_samples_sample *sample = &scan->sample;
  switch (sample->label_type) {
  case EMB_SAMPLES_UINT:
  case EMB_SAMPLES_INT:
    sqlite3_result_int64(context, sample->label);
    return SQLITE_OK;
  case EMB_SAMPLES_FLOAT:
    sqlite3_result_double(context, sample->label_real);
    return SQLITE_OK;
  case EMB_SAMPLES_BYTES:
    if (samples_scan_entry(scan)->file->format.kind == EMB_SAMPLES_CSV)
      return samples_result_text_label(sample, context);
    sqlite3_result_blob64(context, sample->label_part.at,
                          sample->label_part.bytes, SQLITE_TRANSIENT);
    return SQLITE_OK;
  default:
    return SQLITE_OK;
  }
}

static int samples_column_of_row(struct ext_samples_scan *scan,
                                 sqlite3_context *context, int column,
                                 char **err) {
  static const int at[EXT_SAMPLES_COLUMNS] = {[EXT_SAMPLES_TIMESTAMP] = 0,
                                              [EXT_SAMPLES_LABEL] = 1,
                                              [EXT_SAMPLES_DATASET] = 2,
                                              [EXT_SAMPLES_PAYLOAD] = 3};
  sqlite3_stmt *row;
  int rc = column == EXT_SAMPLES_PATH
               ? SQLITE_OK
               : ext_samples_map_row(scan->map, ext_samples_scan_key(scan),
                                     &row, err);
  if (rc == SQLITE_OK && column != EXT_SAMPLES_PATH && row) {
    sqlite3_result_value(context, sqlite3_column_value(row, at[column]));
    sqlite3_reset(row);
  }
  return rc;
}

int ext_samples_scan_column(struct ext_samples_scan *scan,
                            sqlite3_context *context, int column, char **err) {
  const struct ext_samples_entry *entry = samples_scan_entry(scan);
  const struct ext_samples_file *file = entry->file;
  int rc = SQLITE_OK;
  if (column == EXT_SAMPLES_KEY) {
    sqlite3_result_int64(context, entry->key);
    return SQLITE_OK;
  }
  if (file == NULL)
    return entry->is_there ? samples_column_of_row(scan, context, column, err)
                           : SQLITE_OK;
  if (column == EXT_SAMPLES_DATASET || column == EXT_SAMPLES_PATH) {
    sqlite3_result_text(context,
                        column == EXT_SAMPLES_PATH ? file->path : file->dataset,
                        -1, SQLITE_TRANSIENT);
    return SQLITE_OK;
  }
  if (column == EXT_SAMPLES_TIMESTAMP &&
      file->format.timestamp.type == EMB_SAMPLES_NONE) {
    sqlite3_result_int64(context, file->least);
    return SQLITE_OK;
  }
  emb_assert(entry->is_read);
  rc = ext_samples_scan_split(scan, err);
  if (rc != SQLITE_OK)
    return rc;
  if (column == EXT_SAMPLES_TIMESTAMP)
    sqlite3_result_int64(context, scan->sample.timestamp);
  else
    rc = column == EXT_SAMPLES_LABEL ? samples_result_label(scan, context)
                                     : samples_result_payload(scan, context);
  return rc;
}
