/* SPDX-License-Identifier: MIT
**
** event.c -- one event: a request, an action, or a time.
*/
#include "join_call.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Columns of the query. */
enum { EVENT_POSITION, EVENT_REQUEST, EVENT_TIME, EVENT_KIND, EVENT_FEATURES };

#define EVENT_TIME_MAX (INT64_C(1) << 62)

/* An action, from the input or from the table `actions`. */
struct event_action {
  const struct join_kind *kind;
  int64_t time;
  int waited; /* for its request */
};

static int event_bad(struct join_call *call, int code, const char *what,
                     const char *got) {
  return ext_error(call->err, code, "source %s, position %lld: %s, got %s",
                   call->source, (long long)call->position, what, got);
}

static const char *event_type(sqlite3_stmt *row, int i) {
  static const char *const names[] = {"",     "INTEGER", "REAL",
                                      "TEXT", "BLOB",    "NULL"};
  return names[sqlite3_column_type(row, i)];
}

/* ---- actions ------------------------------------------------------------- */

static const struct join_kind *event_kind(const struct join_call *call,
                                          const char *name, size_t n) {
  for (size_t i = 0; i < call->kinds_n; i++)
    if (call->kinds[i].n == n && memcmp(call->kinds[i].name, name, n) == 0)
      return &call->kinds[i];
  return NULL;
}

static int event_set_best(struct join_call *call, int64_t n,
                          const struct join_kind *kind) {
  sqlite3_stmt *set;
  int rc = ext_join_statement(call, JOIN_SET_BEST, &set);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(set, 1, n);
  sqlite3_bind_text(set, 2, kind->name, (int)kind->n, SQLITE_STATIC);
  sqlite3_bind_double(set, 3, kind->label);
  return ext_join_do(call, set);
}

static int event_best(struct join_call *call, int64_t n, int *has,
                      double *label) {
  sqlite3_stmt *best;
  int rc = SQLITE_OK;
  *has = 0;
  if (*join_number(call, JOIN_PENDING) == 0)
    return SQLITE_OK;
  rc = ext_join_statement(call, JOIN_BEST, &best);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(best, 1, n);
  rc = ext_join_step(call, best, has);
  if (*has)
    *label = sqlite3_column_double(best, 1);
  (void)sqlite3_reset(best);
  return rc;
}

static int event_end_pending(struct join_call *call, int64_t n) {
  sqlite3_stmt *remove;
  int rc = ext_join_statement(call, JOIN_REMOVE_BEST, &remove);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(remove, 1, n);
  --*join_number(call, JOIN_PENDING);
  return ext_join_do(call, remove);
}

/* The request is waiting.  An action that no other can beat makes the example
** now; any other action is kept if it is the best so far. */
static int event_label(struct join_call *call, const struct join_found *found,
                       const struct join_value *id,
                       const struct join_kind *kind) {
  double label = 0;
  int has;
  int rc = event_best(call, found->n, &has, &label);
  if (rc != SQLITE_OK)
    return rc;
  *join_number(call, JOIN_REPEATED) += has;
  if (call->options.highest && kind->label < call->label_max) {
    if (has && kind->label <= label)
      return SQLITE_OK;
    *join_number(call, JOIN_PENDING) += !has;
    return event_set_best(call, found->n, kind);
  }
  if (has)
    rc = event_end_pending(call, found->n);
  --*join_number(call, JOIN_WAITING);
  return rc == SQLITE_OK
             ? ext_join_give_positive(call, found, id, kind->name, kind->label)
             : rc;
}

/* The request became a negative, or was dropped as one. */
static int event_late(struct join_call *call, const struct join_found *found,
                      const struct join_value *id, const struct join_kind *kind,
                      enum join_state state) {
  int rc = SQLITE_OK;
  ++*join_number(call, JOIN_LATE);
  if (!call->options.correct)
    return SQLITE_OK;
  ++*join_number(call, JOIN_CORRECTED);
  if (state == JOIN_IS_NEGATIVE)
    rc = ext_join_take_back(call, found, id);
  return rc == SQLITE_OK
             ? ext_join_give_positive(call, found, id, kind->name, kind->label)
             : rc;
}

static int event_act(struct join_call *call, const struct join_found *found,
                     const struct join_value *id,
                     const struct event_action *action) {
  enum join_state state;
  int rc = ext_join_state(call, found->n, &state);
  if (rc != SQLITE_OK)
    return rc;
  if (action->time > join_sum(found->time, action->kind->window)) {
    ++*join_number(call, JOIN_OUTSIDE);
    return SQLITE_OK;
  }
  if (state == JOIN_IS_WAITING && !action->waited &&
      join_is_over(call, found->time, call->window)) {
    rc = ext_join_settle(call, found, id, NULL);
    if (rc == SQLITE_OK)
      rc = ext_join_state(call, found->n, &state);
    if (rc != SQLITE_OK)
      return rc;
  }
  if (state == JOIN_IS_WAITING)
    return event_label(call, found, id, action->kind);
  if (state != JOIN_IS_JOINED)
    return event_late(call, found, id, action->kind, state);
  ++*join_number(call, JOIN_REPEATED);
  return SQLITE_OK;
}

/* Keeps an action that has no request yet. */
static int event_keep(struct join_call *call, const struct join_value *id,
                      uint64_t hash, const struct event_action *action) {
  struct ext_joiner *joiner = call->joiner;
  sqlite3_stmt *add;
  int rc;
  if (join_is_over(call, action->time, call->options.early)) {
    ++*join_number(call, JOIN_UNMATCHED);
    return SQLITE_OK;
  }
  rc = ext_join_statement(call, JOIN_ADD_ACTION, &add);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(add, 1, (sqlite3_int64)hash);
  ext_join_bind(add, 2, id);
  sqlite3_bind_int64(add, 3, action->time);
  sqlite3_bind_text(add, 4, action->kind->name, (int)action->kind->n,
                    SQLITE_STATIC);
  rc = ext_join_do(call, add);
  if (rc != SQLITE_OK)
    return rc;
  if (sqlite3_changes(call->db) == 0) {
    ++*join_number(call, JOIN_REPEATED);
    return SQLITE_OK;
  }
  ++*join_number(call, JOIN_EARLY);
  joiner->early_n++;
  if (joiner->early.words)
    ext_join_filter_add(&joiner->early, hash);
  return SQLITE_OK;
}

static int event_action(struct join_call *call, sqlite3_stmt *row,
                        const struct join_value *id, uint64_t hash,
                        int64_t time) {
  struct event_action action = {NULL, time, 0};
  struct join_found found;
  const char *name = (const char *)sqlite3_column_text(row, EVENT_KIND);
  int rc;
  if (name == NULL)
    return SQLITE_NOMEM;
  action.kind =
      event_kind(call, name, (size_t)sqlite3_column_bytes(row, EVENT_KIND));
  if (action.kind == NULL) {
    ++*join_number(call, JOIN_OTHER);
    return SQLITE_OK;
  }
  ++*join_number(call, JOIN_ACTIONS);
  rc = ext_join_find(call, id, hash, &found);
  if (rc != SQLITE_OK)
    return rc;
  return found.n ? event_act(call, &found, id, &action)
                 : event_keep(call, id, hash, &action);
}

/* ---- requests ------------------------------------------------------------ */

static int event_add(struct join_call *call, sqlite3_stmt *row,
                     const struct join_value *id,
                     const struct join_record *head) {
  struct join_value features;
  sqlite3_stmt *add;
  int rc = ext_join_column(row, EVENT_FEATURES, &features);
  if (rc == SQLITE_OK)
    rc = ext_join_statement(call, JOIN_ADD_REQUEST, &add);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(add, 1, head->n);
  ext_join_bind(add, 2, id);
  sqlite3_bind_int64(add, 3, head->time);
  rc = ext_join_bind(add, 4, &features);
  if (rc == SQLITE_OK)
    rc = ext_join_do(call, add);
  if (rc == SQLITE_OK)
    rc = ext_join_remember(call, head, id, &features);
  return rc;
}

/* An action that waited for its request. */
static int event_waited(struct join_call *call, sqlite3_stmt *rows,
                        const struct join_found *found,
                        const struct join_value *id) {
  struct event_action action = {NULL, sqlite3_column_int64(rows, 0), 1};
  const char *name = (const char *)sqlite3_column_text(rows, 1);
  if (name == NULL)
    return SQLITE_NOMEM;
  --*join_number(call, JOIN_EARLY);
  if (join_is_over(call, action.time, call->options.early)) {
    ++*join_number(call, JOIN_UNMATCHED);
    return SQLITE_OK;
  }
  action.kind = event_kind(call, name, (size_t)sqlite3_column_bytes(rows, 1));
  if (action.kind)
    return event_act(call, found, id, &action);
  ++*join_number(call, JOIN_OTHER);
  return SQLITE_OK;
}

/* Applies the actions that came before their request. */
static int event_apply_early(struct join_call *call,
                             const struct join_found *found,
                             const struct join_value *id, uint64_t hash) {
  sqlite3_stmt *rows, *remove;
  int row = 1, any = 0;
  int rc = ext_join_statement(call, JOIN_ACTIONS_OF, &rows);
  if (rc == SQLITE_OK)
    rc = ext_join_statement(call, JOIN_REMOVE_ACTIONS, &remove);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(rows, 1, (sqlite3_int64)hash);
  ext_join_bind(rows, 2, id);
  while (rc == SQLITE_OK && row) {
    rc = ext_join_step(call, rows, &row);
    any |= row;
    if (rc == SQLITE_OK && row)
      rc = event_waited(call, rows, found, id);
  }
  (void)sqlite3_reset(rows);
  if (rc != SQLITE_OK || !any)
    return rc;
  sqlite3_bind_int64(remove, 1, (sqlite3_int64)hash);
  ext_join_bind(remove, 2, id);
  return ext_join_do(call, remove);
}

static int event_request(struct join_call *call, sqlite3_stmt *row,
                         const struct join_value *id, uint64_t hash,
                         int64_t time) {
  struct join_record head = {.time = time, .hash = hash};
  struct join_found found;
  enum join_state state;
  int rc;
  ++*join_number(call, JOIN_REQUESTS);
  if (time <= join_forgotten(call)) {
    ++*join_number(call, JOIN_OLD);
    return SQLITE_OK;
  }
  rc = ext_join_find(call, id, hash, &found);
  if (rc != SQLITE_OK)
    return rc;
  if (found.n) {
    ++*join_number(call, JOIN_DUPLICATE);
    return SQLITE_OK;
  }
  head.n = (*join_number(call, JOIN_NEXT_REQUEST))++;
  ++*join_number(call, JOIN_WAITING);
  rc = event_add(call, row, id, &head);
  found = (struct join_found){head.n, time, NULL};
  if (rc == SQLITE_OK && *join_number(call, JOIN_EARLY) &&
      ext_join_filter_may_have(&call->joiner->early, hash))
    rc = event_apply_early(call, &found, id, hash);
  if (rc != SQLITE_OK || !join_is_over(call, time, call->window))
    return rc;
  rc = ext_join_state(call, head.n, &state);
  if (rc == SQLITE_OK && state == JOIN_IS_WAITING)
    rc = ext_join_settle(call, &found, id, NULL);
  return rc;
}

/* ---- a row --------------------------------------------------------------- */

/* *taken = 0: the event was taken in by an earlier call. */
static int event_position(struct join_call *call, sqlite3_stmt *row,
                          int *taken) {
  int64_t position = sqlite3_column_int64(row, EVENT_POSITION);
  *taken = 0;
  if (sqlite3_column_type(row, EVENT_POSITION) != SQLITE_INTEGER)
    return ext_error(call->err, SQLITE_MISMATCH,
                     "source %s: position must be INTEGER, got %s",
                     call->source, event_type(row, EVENT_POSITION));
  if (position <= call->begun) {
    ++*join_number(call, JOIN_RESENT);
    return SQLITE_OK;
  }
  if (position <= call->position)
    return ext_error(call->err, SQLITE_ERROR,
                     "source %s: position %lld comes after %lld; order the "
                     "query by position",
                     call->source, (long long)position,
                     (long long)call->position);
  call->position = position;
  *taken = 1;
  return SQLITE_OK;
}

static int event_time(struct join_call *call, sqlite3_stmt *row,
                      int64_t *time) {
  char got[32];
  if (sqlite3_column_type(row, EVENT_TIME) != SQLITE_INTEGER)
    return event_bad(call, SQLITE_MISMATCH, "time must be INTEGER",
                     event_type(row, EVENT_TIME));
  *time = sqlite3_column_int64(row, EVENT_TIME);
  if (*time > EVENT_TIME_MAX || *time < -EVENT_TIME_MAX) {
    sqlite3_snprintf(sizeof got, got, "%lld", (long long)*time);
    return event_bad(call, SQLITE_ERROR, "time must be within 2^62", got);
  }
  if (!call->timed || *time > call->time)
    call->time = *time;
  call->timed = 1;
  return SQLITE_OK;
}

static int event_id(struct join_call *call, sqlite3_stmt *row,
                    struct join_value *id) {
  char got[32];
  int rc = ext_join_column(row, EVENT_REQUEST, id);
  if (rc != SQLITE_OK)
    return rc;
  if (id->type == SQLITE_FLOAT)
    return event_bad(call, SQLITE_MISMATCH,
                     "request must be INTEGER, TEXT or BLOB", "REAL");
  if (id->n <= JOIN_ID_MAX)
    return SQLITE_OK;
  sqlite3_snprintf(sizeof got, got, "%lld", (long long)id->n);
  return event_bad(call, SQLITE_TOOBIG, "request must be at most 1024 bytes",
                   got);
}

int ext_join_event(struct join_call *call, sqlite3_stmt *row) {
  struct join_value id;
  uint64_t hash;
  int64_t time = 0;
  int taken, kind = sqlite3_column_type(row, EVENT_KIND);
  int rc = event_position(call, row, &taken);
  if (rc != SQLITE_OK || !taken)
    return rc;
  rc = event_time(call, row, &time);
  if (rc == SQLITE_OK)
    rc = event_id(call, row, &id);
  if (rc != SQLITE_OK || id.type == SQLITE_NULL)
    return rc;
  if (kind != SQLITE_NULL && kind != SQLITE_TEXT)
    return event_bad(call, SQLITE_MISMATCH, "kind must be TEXT or NULL",
                     event_type(row, EVENT_KIND));
  hash = ext_join_hash(&id);
  return kind == SQLITE_NULL ? event_request(call, row, &id, hash, time)
                             : event_action(call, row, &id, hash, time);
}
