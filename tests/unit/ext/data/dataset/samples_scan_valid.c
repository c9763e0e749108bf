/* SPDX-License-Identifier: MIT
**
** samples_scan_valid.c -- proofs that the assertions of ext/data/dataset fire.
** The scans are of a table with a file of 3,000 records.
*/
#include "sql_help.h"
#include "death.h"

#include "ext/data/dataset/scan.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static sqlite3 *db;
static char path[64];
static struct ext_conn conn;
static struct ext_samples_client client = {.conn = &conn};
static struct ext_samples table;
static struct ext_samples_scan *scan;

static int make_table(void) {
  char sql[200];
  FILE *file;
  snprintf(path, sizeof path, "/tmp/emb_samples_scan_valid.%d", (int)getpid());
  file = fopen(path, "w");
  if (!CHECK(file != NULL))
    return 0;
  for (int i = 0; i < 3000 * 12; i++)
    fputc(i % 100, file);
  fclose(file);
  db = sql_connect(":memory:", 0);
  snprintf(sql, sizeof sql,
           "CREATE VIRTUAL TABLE s USING emb_samples(record=12,"
           " label_offset=0); INSERT INTO s(path) VALUES('%s')",
           path);
  return CHECK(db != NULL) && CHECK(sql_runs(db, sql));
}

static int open_scan(void) {
  char *err = NULL;
  if (!make_table())
    return 0;
  conn.db = db;
  conn.process = getpid();
  table = (struct ext_samples){
      .client = &client, .db = db, .schema = "main", .name = "s"};
  ext_samples_options_init(&table.options);
  if (!CHECK_EQ_INT(ext_samples_scan_new(&table, &scan), SQLITE_OK) ||
      !CHECK(ext_samples_scan_valid(scan)))
    return 0;
  struct ext_samples_ask ask = {.reads = EXT_SAMPLES_BIT(EXT_SAMPLES_PAYLOAD)};
  ext_range_all(&ask.keys);
  ext_range_all(&ask.times);
  return CHECK_EQ_INT(ext_samples_scan_range(scan, &ask, &err), SQLITE_OK) &&
         CHECK(!ext_samples_scan_eof(scan));
}

static void close_scan(void) {
  ext_samples_scan_free(scan);
  ext_samples_scan_free_spare(&table);
  emb_samples_close(table.reader);
  ext_samples_options_clear(&table.options);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  (void)remove(path);
}

static struct ext_samples_entry *front(void) {
  return &samples_scan_front(scan)->entries[scan->at];
}

TEST(a_range) {
  char *err = NULL;
  if (!open_scan())
    return;
  CHECK_EQ_INT(ext_samples_scan_next(scan, &err), SQLITE_OK);
  CHECK(ext_samples_scan_valid(scan));
  CHECK_FIRES(scan->front = SCAN_LOADS; ext_samples_scan_valid(scan));
  CHECK_FIRES(scan->count = SCAN_LOADS + 1; ext_samples_scan_valid(scan));
  CHECK_FIRES(samples_scan_front(scan)->n = 0; ext_samples_scan_valid(scan));
  CHECK_FIRES(samples_scan_front(scan)->batch = NULL;
              ext_samples_scan_valid(scan));
  CHECK_FIRES(front()->record = 99999; ext_samples_scan_valid(scan));
  CHECK_FIRES(front()->is_read = 0; front()->is_timed = 1;
              ext_samples_scan_valid(scan));
  CHECK_FIRES(front()->file->refs = 0; ext_samples_scan_valid(scan));
  CHECK_FIRES(front()->is_there = 0; ext_samples_scan_valid(scan));
  CHECK_FIRES(scan->is_kept = 1; scan->kept.is_read = 0;
              ext_samples_scan_valid(scan));
  CHECK_FIRES(scan->eof = 1; ext_samples_scan_valid(scan));
  CHECK_FIRES(scan->at = samples_scan_front(scan)->n;
              ext_samples_scan_valid(scan));
  CHECK_FIRES(scan->is_waited = 0; ext_samples_scan_valid(scan));
  CHECK_FIRES(scan->is_split = 1; front()->is_read = 0;
              ext_samples_scan_valid(scan));
  close_scan();
}

TEST(a_list) {
  int64_t *keys = sqlite3_malloc64(20 * sizeof *keys);
  char *err = NULL;
  if (!CHECK(keys != NULL) || !open_scan())
    return;
  for (int i = 0; i < 20; i++)
    keys[i] = 7 * i;
  CHECK_EQ_INT(ext_samples_scan_list(scan, keys, 20, scan->ask.reads, &err),
               SQLITE_OK);
  CHECK(ext_samples_scan_valid(scan));
  CHECK_FIRES(scan->key_at = 21; ext_samples_scan_valid(scan));
  CHECK_FIRES(scan->position++; ext_samples_scan_valid(scan));
  CHECK_FIRES(scan->is_kept = 1; ext_samples_scan_valid(scan));
  CHECK_ALL_FIRED("ext/data/dataset/scan_valid.c");
  close_scan();
}

TEST(the_transitions) {
  struct ext_samples_file *file;
  struct ext_samples_scan *other;
  struct ext_samples *found;
  struct ext_samples_place place;
  sqlite3_stmt *row = NULL;
  char *err = NULL;
  int gone;
  if (!open_scan())
    return;
  file = front()->file;
  CHECK_FIRES(table.spare = scan; ext_samples_scan_new(&table, &other));
  CHECK_FIRES(scan->is_waited = 0; ext_samples_scan_split(scan, &err));
  CHECK_FIRES(scan->eof = 1; ext_samples_scan_next(scan, &err));
  CHECK_FIRES(scan->eof = 1; ext_samples_scan_key(scan));
  CHECK_FIRES(file->refs = 0; ext_samples_file_drop(file));
  CHECK_FIRES(ext_samples_map_place(scan->map, file, 3000, &place, &err));
  CHECK_FIRES(ext_samples_map_gone(scan->map, file, 3000, &gone, &err));
  CHECK_FIRES(ext_samples_map_delete(scan->map, file, 3000, &err));
  CHECK_FIRES(ext_samples_keys_taken(&table, INT64_MAX, 2, &err));
  CHECK_EQ_INT(sqlite3_prepare_v2(db, "SELECT 's'", -1, &row, NULL), SQLITE_OK);
  CHECK_EQ_INT(sqlite3_step(row), SQLITE_ROW);
  CHECK_FIRES(client.probing = 1; ext_samples_find(
                  &client, sqlite3_column_value(row, 0), &found, &row, &err));
  sqlite3_finalize(row);
  CHECK_FIRES(samples_scan_front(scan)->records = 99999;
              for (int i = 0; i < 15; i++) ext_samples_scan_next(scan, &err));
  close_scan();
}
