/* SPDX-License-Identifier: MIT
**
** load.c -- reloads memory from the tables when the two differ.
**
** It reads at most what fits in memory, and the runs' filters.
*/
#include "join_call.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Parts of the joiner's memory: each half, and the filter of early actions. */
enum { LOAD_HALF_PART = 4, LOAD_EARLY_PART = 16, LOAD_EARLY_LEAST = 1024 };

void ext_join_forget(struct ext_joiner *joiner) {
  ext_join_half_free(&joiner->young);
  ext_join_half_free(&joiner->old);
  while (joiner->runs_n)
    ext_join_run_remove(joiner, joiner->runs_n - 1);
  sqlite3_free(joiner->runs);
  joiner->runs = NULL;
  joiner->runs_room = 0;
  ext_join_free_states(joiner);
  ext_join_filter_free(&joiner->early);
  joiner->current = 0;
}

static int load_run(struct join_call *call, sqlite3_stmt *rows) {
  size_t bytes = (size_t)sqlite3_column_bytes(rows, 2);
  struct join_filter filter;
  int rc;
  if (bytes == 0 || bytes % sizeof *filter.words)
    return ext_error(call->err, SQLITE_CORRUPT_VTAB,
                     "%s_runs has no filter of run %lld", call->joiner->name,
                     (long long)sqlite3_column_int64(rows, 0));
  rc = ext_join_filter_new(&filter, bytes / sizeof *filter.words);
  if (rc != SQLITE_OK)
    return rc;
  if (sqlite3_column_blob(rows, 2) == NULL) {
    ext_join_filter_free(&filter);
    return SQLITE_NOMEM;
  }
  memcpy(filter.words, sqlite3_column_blob(rows, 2), bytes);
  return ext_join_runs_add(call->joiner, sqlite3_column_int64(rows, 0),
                           sqlite3_column_int64(rows, 1), &filter);
}

/* Runs visit for each row. */
static int load_each(struct join_call *call, const char *text,
                     int (*visit)(struct join_call *, sqlite3_stmt *)) {
  sqlite3_stmt *rows = NULL;
  int row = 1;
  int rc = ext_join_prepare(call->db, call->joiner, text, &rows, call->err);
  while (rc == SQLITE_OK && row) {
    rc = ext_join_step(call, rows, &row);
    if (rc == SQLITE_OK && row)
      rc = visit(call, rows);
  }
  sqlite3_finalize(rows);
  return rc;
}

static int load_requests(struct join_call *call) {
  struct join_value id, features;
  struct join_record head;
  sqlite3_stmt *rows;
  int row = 1;
  int rc = ext_join_statement(call, JOIN_SINCE, &rows);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(rows, 1, *join_number(call, JOIN_SPILLED_TO));
  while (rc == SQLITE_OK && row) {
    rc = ext_join_step(call, rows, &row);
    if (rc == SQLITE_OK && row)
      rc = ext_join_column(rows, 1, &id);
    if (rc == SQLITE_OK && row)
      rc = ext_join_column(rows, 3, &features);
    if (rc != SQLITE_OK || !row)
      break;
    head = (struct join_record){.n = sqlite3_column_int64(rows, 0),
                                .time = sqlite3_column_int64(rows, 2),
                                .hash = ext_join_hash(&id)};
    rc = ext_join_remember(call, &head, &id, &features);
  }
  (void)sqlite3_reset(rows);
  return rc;
}

static int load_hash(struct join_call *call, sqlite3_stmt *rows) {
  ext_join_filter_add(&call->joiner->early,
                      (uint64_t)sqlite3_column_int64(rows, 0));
  call->joiner->early_n++;
  return SQLITE_OK;
}

/* Sized for twice as many hashes as there are.  If that exceeds the memory
** allowed, there is no filter, and each request queries the table. */
int ext_join_load_early(struct join_call *call) {
  struct ext_joiner *joiner = call->joiner;
  size_t n = (size_t)*join_number(call, JOIN_EARLY);
  size_t words = ext_join_filter_words(2 * n + LOAD_EARLY_LEAST);
  int rc;
  ext_join_filter_free(&joiner->early);
  joiner->early_n = 0;
  if (words > joiner->memory / LOAD_EARLY_PART / sizeof(uint64_t))
    return SQLITE_OK;
  rc = ext_join_filter_new(&joiner->early, words);
  if (rc == SQLITE_OK)
    rc = load_each(call, "SELECT hash FROM $actions", load_hash);
  return rc;
}

int ext_join_load(struct join_call *call) {
  struct ext_joiner *joiner = call->joiner;
  int rc;
  joiner->memory = (size_t)call->options.memory;
  ext_join_half_limit(&joiner->young, joiner->memory / LOAD_HALF_PART);
  ext_join_half_limit(&joiner->old, joiner->memory / LOAD_HALF_PART);
  rc = load_each(call, "SELECT run, newest, filter FROM $runs ORDER BY run",
                 load_run);
  if (rc == SQLITE_OK)
    rc = load_requests(call);
  if (rc == SQLITE_OK)
    rc = ext_join_load_early(call);
  joiner->current = rc == SQLITE_OK;
  return rc;
}
