/* SPDX-License-Identifier: MIT
**
** find.c -- finds a request by its id.
**
** Searches the halves in memory first, then the runs, newest first.  Each run
** has a filter that rules out most ids.  A place has only the hash and the
** number, so the id is compared in the request's row; if the row is gone, the
** request was forgotten.
*/
#include "join_call.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Finds it if the request of this number has the id. */
static int find_compare(struct join_call *call, int64_t n,
                        const struct join_value *id, struct join_found *found) {
  struct join_value other;
  sqlite3_stmt *read;
  int row = 0;
  int rc = ext_join_statement(call, JOIN_ROW, &read);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(read, 1, n);
  rc = ext_join_step(call, read, &row);
  if (rc == SQLITE_OK && row)
    rc = ext_join_column(read, 1, &other);
  if (rc == SQLITE_OK && row && other.type == id->type && other.n == id->n &&
      memcmp(join_bytes(&other), join_bytes(id), id->n) == 0 &&
      sqlite3_column_int64(read, 0) > join_forgotten(call)) {
    found->n = n;
    found->time = sqlite3_column_int64(read, 0);
  }
  (void)sqlite3_reset(read);
  return rc;
}

static int find_in_run(struct join_call *call, int64_t run,
                       const struct join_value *id, uint64_t hash,
                       struct join_found *found) {
  sqlite3_stmt *places;
  int row = 0;
  int rc = ext_join_statement(call, JOIN_PLACE, &places);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(places, 1, run);
  sqlite3_bind_int64(places, 2, (sqlite3_int64)hash);
  do {
    rc = ext_join_step(call, places, &row);
    if (rc == SQLITE_OK && row)
      rc = find_compare(call, sqlite3_column_int64(places, 0), id, found);
  } while (rc == SQLITE_OK && row && found->n == 0);
  (void)sqlite3_reset(places);
  return rc;
}

int ext_join_find(struct join_call *call, const struct join_value *id,
                  uint64_t hash, struct join_found *found) {
  const struct ext_joiner *joiner = call->joiner;
  int64_t forgotten = join_forgotten(call);
  const struct join_record *record =
      ext_join_half_find(&joiner->young, id, hash, forgotten);
  int rc = SQLITE_OK;
  *found = (struct join_found){0};
  if (record == NULL)
    record = ext_join_half_find(&joiner->old, id, hash, forgotten);
  if (record) {
    *found = (struct join_found){record->n, record->time, record};
    return SQLITE_OK;
  }
  for (size_t i = joiner->runs_n; i-- > 0 && rc == SQLITE_OK && found->n == 0;)
    if (joiner->runs[i].newest > forgotten &&
        ext_join_filter_may_have(&joiner->runs[i].filter, hash))
      rc = find_in_run(call, joiner->runs[i].run, id, hash, found);
  return rc;
}
