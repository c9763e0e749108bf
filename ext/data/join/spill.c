/* SPDX-License-Identifier: MIT
**
** spill.c -- when memory is full, the older half becomes a run.
**
** A run is written once, in the order of its table's key and after all existing
** rows, and is removed as a whole when its newest request is forgotten.  It
** holds hash and number; features and id have been in `requests` since the
** request came.
*/
#include "join_call.h"
SQLITE_EXTENSION_INIT3

#include <stdlib.h>
#include <string.h>

/* Part of the joiner's memory for all filters.  Beyond it, the oldest runs have
** none. */
#define SPILL_FILTERS_PART 4

struct spill_place {
  uint64_t hash;
  int64_t n;
};

/* By hash, as SQLite compares it, then by number. */
static int spill_order(const void *left, const void *right) {
  const struct spill_place *a = left, *b = right;
  int64_t x = (int64_t)a->hash, y = (int64_t)b->hash;
  if (x != y)
    return x < y ? -1 : 1;
  return a->n < b->n ? -1 : a->n > b->n;
}

/* Collects the places of the requests that are not forgotten. */
static size_t spill_collect(struct join_call *call,
                            const struct join_half *half,
                            struct spill_place *places, int64_t *newest) {
  const struct join_record *record;
  int64_t forgotten = join_forgotten(call);
  size_t n = 0, place = 0;
  while ((record = ext_join_half_next(half, &place))) {
    if (record->time <= forgotten)
      continue;
    places[n++] = (struct spill_place){record->hash, record->n};
    if (*newest < record->time)
      *newest = record->time;
  }
  return n;
}

static int spill_places(struct join_call *call, int64_t run,
                        const struct spill_place *places, size_t n) {
  sqlite3_stmt *add;
  int rc = ext_join_statement(call, JOIN_ADD_PLACE, &add);
  for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
    sqlite3_bind_int64(add, 1, run);
    sqlite3_bind_int64(add, 2, (sqlite3_int64)places[i].hash);
    sqlite3_bind_int64(add, 3, places[i].n);
    rc = ext_join_do(call, add);
  }
  return rc;
}

static int spill_row(struct join_call *call, const struct join_run *run) {
  sqlite3_stmt *add;
  int rc = ext_join_statement(call, JOIN_ADD_RUN, &add);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(add, 1, run->run);
  sqlite3_bind_int64(add, 2, run->newest);
  rc = sqlite3_bind_blob64(add, 3, run->filter.words,
                           run->filter.n * sizeof *run->filter.words,
                           SQLITE_STATIC);
  if (rc == SQLITE_OK)
    rc = ext_join_do(call, add);
  return rc;
}

static int spill_run(struct join_call *call, const struct spill_place *places,
                     size_t n, int64_t newest) {
  struct join_run run = {.run = (*join_number(call, JOIN_NEXT_RUN))++,
                         .newest = newest};
  int rc = ext_join_filter_new(&run.filter, ext_join_filter_words(n));
  if (rc != SQLITE_OK)
    return rc;
  for (size_t i = 0; i < n; i++)
    ext_join_filter_add(&run.filter, places[i].hash);
  rc = spill_places(call, run.run, places, n);
  if (rc == SQLITE_OK)
    rc = spill_row(call, &run);
  if (rc != SQLITE_OK) {
    ext_join_filter_free(&run.filter);
    return rc;
  }
  *join_number(call, JOIN_SPILLED) += (int64_t)n;
  return ext_join_runs_add(call->joiner, run.run, newest, &run.filter);
}

/* The older half becomes a run, the younger one the older. */
static int spill_turn(struct join_call *call) {
  struct ext_joiner *joiner = call->joiner;
  struct spill_place *places;
  struct join_half empty;
  int64_t newest = INT64_MIN, last = 0;
  size_t n, place = 0;
  const struct join_record *record;
  int rc = SQLITE_OK;
  if (joiner->old.records) {
    places = sqlite3_malloc64(joiner->old.records * sizeof *places);
    if (places == NULL)
      return SQLITE_NOMEM;
    n = spill_collect(call, &joiner->old, places, &newest);
    qsort(places, n, sizeof *places, spill_order);
    if (n)
      rc = spill_run(call, places, n, newest);
    sqlite3_free(places);
    while ((record = ext_join_half_next(&joiner->old, &place)))
      last = record->n;
    *join_number(call, JOIN_SPILLED_TO) = last;
  }
  ext_join_half_free(&joiner->old);
  empty = joiner->old;
  joiner->old = joiner->young;
  joiner->young = empty;
  emb_check(ext_join_half_valid(&joiner->old));
  emb_check(ext_join_half_valid(&joiner->young));
  return rc;
}

int ext_join_remember(struct join_call *call, const struct join_record *head,
                      const struct join_value *id,
                      const struct join_value *features) {
  struct join_half *young = &call->joiner->young;
  int added;
  int rc = ext_join_half_add(young, id, features, head, &added);
  if (rc == SQLITE_OK && !added) {
    rc = spill_turn(call);
    if (rc == SQLITE_OK)
      rc = ext_join_half_add(young, id, features, head, &added);
    if (rc == SQLITE_OK && !added)
      rc = ext_error(call->err, SQLITE_CORRUPT_VTAB,
                     "%s_requests has an id of %lld bytes in request %lld",
                     call->joiner->name, (long long)id->n, (long long)head->n);
  }
  return rc;
}

/* Takes ownership of the filter, also after an error. */
int ext_join_runs_add(struct ext_joiner *joiner, int64_t run, int64_t newest,
                      struct join_filter *filter) {
  size_t most = joiner->memory / SPILL_FILTERS_PART / sizeof *filter->words;
  emb_assert(filter->words && filter->n);
  if (joiner->runs_n == joiner->runs_room) {
    size_t room = joiner->runs_room * 2 + 16;
    struct join_run *runs =
        sqlite3_realloc64(joiner->runs, room * sizeof *runs);
    if (runs == NULL) {
      ext_join_filter_free(filter);
      return SQLITE_NOMEM;
    }
    joiner->runs = runs;
    joiner->runs_room = room;
  }
  joiner->runs[joiner->runs_n++] = (struct join_run){run, newest, *filter};
  joiner->filter_words += filter->n;
  for (size_t i = 0; i < joiner->runs_n && joiner->filter_words > most; i++) {
    joiner->filter_words -= joiner->runs[i].filter.n;
    ext_join_filter_free(&joiner->runs[i].filter);
  }
  return SQLITE_OK;
}

void ext_join_run_remove(struct ext_joiner *joiner, size_t i) {
  emb_assert(i < joiner->runs_n);
  emb_assert(joiner->filter_words >= joiner->runs[i].filter.n);
  joiner->filter_words -= joiner->runs[i].filter.n;
  ext_join_filter_free(&joiner->runs[i].filter);
  memmove(joiner->runs + i, joiner->runs + i + 1,
          (joiner->runs_n - i - 1) * sizeof *joiner->runs);
  joiner->runs_n--;
}
