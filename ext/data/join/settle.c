/* SPDX-License-Identifier: MIT
**
** settle.c -- turns requests into examples, and removes them when their time is
** over.
*/
#include "engine/data/emb_data.h"
#include "join_call.h"
SQLITE_EXTENSION_INIT3

#include <math.h>
#include <string.h>

/* The action, label and weight of an example. */
struct settle_as {
  const char *kind; /* NULL: no action */
  double label, weight;
};

/* Features from the current row, from memory, or from the table. */
static int settle_features(struct join_call *call,
                           const struct join_found *found, sqlite3_stmt *row,
                           struct join_value *features, sqlite3_stmt **read) {
  int has = 1, rc;
  *read = NULL;
  if (row)
    return ext_join_column(row, 3, features);
  if (found->record && found->record->whole) {
    *features = ext_join_record_features(found->record);
    return SQLITE_OK;
  }
  rc = ext_join_statement(call, JOIN_FEATURES, read);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(*read, 1, found->n);
  rc = ext_join_step(call, *read, &has);
  if (rc == SQLITE_OK && !has)
    rc = ext_error(call->err, SQLITE_CORRUPT_VTAB,
                   "%s_requests has no request number %lld", call->joiner->name,
                   (long long)found->n);
  return rc == SQLITE_OK ? ext_join_column(*read, 0, features) : rc;
}

static int settle_give(struct join_call *call, const struct join_found *found,
                       const struct join_value *id, sqlite3_stmt *row,
                       const struct settle_as *as) {
  struct join_value features;
  sqlite3_stmt *add, *read;
  double share = call->options.share;
  int rc = ext_join_statement(call, JOIN_ADD_EXAMPLE, &add);
  if (rc != SQLITE_OK)
    return rc;
  rc = settle_features(call, found, row, &features, &read);
  if (rc == SQLITE_OK) {
    sqlite3_bind_int64(add, 1, (*join_number(call, JOIN_NEXT_EXAMPLE))++);
    ext_join_bind(add, 2, id);
    sqlite3_bind_int64(add, 3, found->time);
    sqlite3_bind_text(add, 4, as->kind, -1, SQLITE_STATIC);
    sqlite3_bind_double(add, 5, as->label);
    sqlite3_bind_double(add, 6, as->weight);
    sqlite3_bind_double(add, 7, share < 1 ? -log(share) : 0);
    rc = ext_join_bind(add, 8, &features);
  }
  if (rc == SQLITE_OK)
    rc = ext_join_do(call, add);
  if (read)
    (void)sqlite3_reset(read);
  return rc;
}

static int settle_positive(struct join_call *call,
                           const struct join_found *found,
                           const struct join_value *id, sqlite3_stmt *row,
                           const char *kind, double label) {
  const struct settle_as as = {kind, label, 1};
  int rc = settle_give(call, found, id, row, &as);
  ++*join_number(call, JOIN_JOINED);
  return rc == SQLITE_OK ? ext_join_set_state(call, found->n, JOIN_IS_JOINED)
                         : rc;
}

int ext_join_give_positive(struct join_call *call,
                           const struct join_found *found,
                           const struct join_value *id, const char *kind,
                           double label) {
  return settle_positive(call, found, id, NULL, kind, label);
}

/* The weight is minus the negative's own, unless the share has changed
** since. */
int ext_join_take_back(struct join_call *call, const struct join_found *found,
                       const struct join_value *id) {
  const struct settle_as as = {NULL, 0, -1 / call->options.share};
  emb_assert(call->options.correct);
  return settle_give(call, found, id, NULL, &as);
}

/* Gives the same answer in each replay. */
static int settle_is_chosen(const struct join_call *call,
                            const struct join_value *id) {
  int is_bytes = id->type == SQLITE_TEXT || id->type == SQLITE_BLOB;
  int64_t integer = 0;
  uint64_t key;
  if (!is_bytes && id->n == sizeof integer)
    memcpy(&integer, join_bytes(id), sizeof integer);
  key = is_bytes
            ? emb_random_bytes(join_bytes(id), id->n, id->type == SQLITE_TEXT)
            : emb_random_integer(integer);
  return emb_random(emb_random_integer(call->options.seed),
                    emb_random_integer(0), key) < call->options.share;
}

/* Settles a request whose label is still open by its best action, if any. */
static int settle_best(struct join_call *call, const struct join_found *found,
                       const struct join_value *id, sqlite3_stmt *row,
                       int *given) {
  sqlite3_stmt *best, *remove;
  int rc = ext_join_statement(call, JOIN_BEST, &best);
  *given = 0;
  if (rc == SQLITE_OK)
    rc = ext_join_statement(call, JOIN_REMOVE_BEST, &remove);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(best, 1, found->n);
  rc = ext_join_step(call, best, given);
  if (rc == SQLITE_OK && *given)
    rc = settle_positive(call, found, id, row,
                         (const char *)sqlite3_column_text(best, 0),
                         sqlite3_column_double(best, 1));
  (void)sqlite3_reset(best);
  if (rc == SQLITE_OK && *given) {
    --*join_number(call, JOIN_PENDING);
    sqlite3_bind_int64(remove, 1, found->n);
    rc = ext_join_do(call, remove);
  }
  return rc;
}

int ext_join_settle(struct join_call *call, const struct join_found *found,
                    const struct join_value *id, sqlite3_stmt *row) {
  const struct settle_as as = {NULL, 0, 1 / call->options.share};
  int given = 0, rc = SQLITE_OK;
  --*join_number(call, JOIN_WAITING);
  if (*join_number(call, JOIN_PENDING))
    rc = settle_best(call, found, id, row, &given);
  if (rc != SQLITE_OK || given)
    return rc;
  if (!settle_is_chosen(call, id)) {
    ++*join_number(call, JOIN_DROPPED);
    return ext_join_set_state(call, found->n, JOIN_IS_DROPPED);
  }
  ++*join_number(call, JOIN_NEGATIVES);
  rc = settle_give(call, found, id, row, &as);
  return rc == SQLITE_OK ? ext_join_set_state(call, found->n, JOIN_IS_NEGATIVE)
                         : rc;
}

/* ---- at the end of a call ------------------------------------------------ */

static int settle_due_row(struct join_call *call, sqlite3_stmt *row) {
  struct join_found found = {sqlite3_column_int64(row, 0),
                             sqlite3_column_int64(row, 2), NULL};
  struct join_value id;
  enum join_state state;
  int rc = ext_join_state(call, found.n, &state);
  if (rc != SQLITE_OK || state != JOIN_IS_WAITING)
    return rc;
  rc = ext_join_column(row, 1, &id);
  return rc == SQLITE_OK ? ext_join_settle(call, &found, &id, row) : rc;
}

static int settle_due(struct join_call *call, int64_t from, int64_t to) {
  sqlite3_stmt *due;
  int row = 1;
  int rc = ext_join_statement(call, JOIN_DUE, &due);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(due, 1, from);
  sqlite3_bind_int64(due, 2, to);
  while (rc == SQLITE_OK && row) {
    rc = ext_join_step(call, due, &row);
    if (rc == SQLITE_OK && row)
      rc = settle_due_row(call, due);
  }
  (void)sqlite3_reset(due);
  return rc;
}

/* Runs a statement that binds one number. */
static int settle_with(struct join_call *call, enum join_statement which,
                       int64_t number) {
  sqlite3_stmt *statement;
  int rc = ext_join_statement(call, which, &statement);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(statement, 1, number);
  return ext_join_do(call, statement);
}

static int settle_remove_runs(struct join_call *call, int64_t forgotten) {
  struct ext_joiner *joiner = call->joiner;
  int rc = SQLITE_OK;
  for (size_t i = 0; i < joiner->runs_n && rc == SQLITE_OK;) {
    if (joiner->runs[i].newest > forgotten) {
      i++;
      continue;
    }
    rc = settle_with(call, JOIN_REMOVE_PLACES, joiner->runs[i].run);
    if (rc == SQLITE_OK)
      rc = settle_with(call, JOIN_REMOVE_RUN, joiner->runs[i].run);
    if (rc == SQLITE_OK)
      ext_join_run_remove(joiner, i);
  }
  return rc;
}

static int settle_remove_chunks(struct join_call *call) {
  int64_t first = *join_number(call, JOIN_NEXT_REQUEST);
  sqlite3_stmt *least;
  int row;
  int rc = ext_join_statement(call, JOIN_FIRST_REQUEST, &least);
  if (rc != SQLITE_OK)
    return rc;
  rc = ext_join_step(call, least, &row);
  if (rc == SQLITE_OK && sqlite3_column_type(least, 0) != SQLITE_NULL)
    first = sqlite3_column_int64(least, 0);
  (void)sqlite3_reset(least);
  return rc == SQLITE_OK
             ? settle_with(call, JOIN_REMOVE_CHUNKS, first / JOIN_CHUNK)
             : rc;
}

static int settle_forget(struct join_call *call) {
  int64_t forgotten = join_forgotten(call);
  int rc;
  if (forgotten <= *join_number(call, JOIN_FORGOTTEN))
    return SQLITE_OK;
  *join_number(call, JOIN_FORGOTTEN) = forgotten;
  rc = settle_with(call, JOIN_REMOVE_REQUESTS, forgotten);
  if (rc == SQLITE_OK)
    rc = settle_remove_runs(call, forgotten);
  if (rc == SQLITE_OK)
    rc = settle_remove_chunks(call);
  return rc;
}

static int settle_expire_actions(struct join_call *call) {
  int64_t *early = join_number(call, JOIN_EARLY);
  int rc;
  if (*early == 0)
    return SQLITE_OK;
  rc = settle_with(call, JOIN_EXPIRE_ACTIONS,
                   join_sum(join_watermark(call), -call->options.early));
  if (rc == SQLITE_OK) {
    int n = sqlite3_changes(call->db);
    *join_number(call, JOIN_UNMATCHED) += n;
    *early -= n;
  }
  return rc;
}

int ext_join_sweep(struct join_call *call) {
  int64_t *swept = join_number(call, JOIN_SWEPT);
  int64_t due = join_watermark(call);
  int rc = SQLITE_OK;
  *join_number(call, JOIN_WATERMARK) = due;
  if (due == INT64_MIN)
    return SQLITE_OK;
  due = join_sum(due, -call->window);
  if (due > *swept)
    rc = settle_due(call, *swept, due);
  *swept = due;
  if (rc == SQLITE_OK)
    rc = settle_forget(call);
  if (rc == SQLITE_OK)
    rc = settle_expire_actions(call);
  return rc;
}
