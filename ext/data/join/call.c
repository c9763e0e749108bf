/* SPDX-License-Identifier: MIT
**
** call.c -- a call of emb_join, from the first SQL to the last.
**
**   1  SAVEPOINT; the write lock, so that nothing read below can change
**   2  reads counts, options, kinds, sources; memory too, if its stamp differs
**   3  each row of the user's query is an event
**   4  applies the watermark: windows that end, requests to forget
**   5  writes states, counts with a new stamp, the source's position and time
**   6  RELEASE; or, after an error, ROLLBACK TO, and memory is discarded
*/
#include "engine/base/seed.h"
#include "join_call.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* ---- the joiners of a connection ----------------------------------------- */

static void call_free_joiner(struct ext_joiner *joiner) {
  emb_assert(!joiner->in_use);
  ext_join_forget(joiner);
  ext_join_unname(joiner);
  sqlite3_free(joiner);
}

struct ext_joiners *ext_joiners_new(void) {
  struct ext_joiners *joiners = sqlite3_malloc64(sizeof *joiners);
  if (joiners)
    joiners->first = NULL;
  return joiners;
}

void ext_joiners_free(void *arg) {
  struct ext_joiners *joiners = arg;
  struct ext_joiner *next;
  for (struct ext_joiner *joiner = joiners->first; joiner; joiner = next) {
    next = joiner->next;
    call_free_joiner(joiner);
  }
  sqlite3_free(joiners);
}

/* Finds the joiner of that name, or creates it. */
static int call_joiner(struct ext_joiners *joiners, sqlite3_value *name,
                       struct ext_joiner **out, char **err) {
  struct ext_joiner *joiner = sqlite3_malloc64(sizeof *joiner);
  int rc;
  if (joiner == NULL)
    return SQLITE_NOMEM;
  memset(joiner, 0, sizeof *joiner);
  rc = ext_join_name(joiner, name, err);
  if (rc != SQLITE_OK) {
    call_free_joiner(joiner);
    return rc;
  }
  for (*out = joiners->first; *out; *out = (*out)->next)
    if (strcmp((*out)->schema, joiner->schema) == 0 &&
        strcmp((*out)->table, joiner->table) == 0) {
      call_free_joiner(joiner);
      return SQLITE_OK;
    }
  joiner->next = joiners->first;
  joiners->first = *out = joiner;
  return SQLITE_OK;
}

/* ---- state in the tables ------------------------------------------------- */

/* Passes one row to `take`; no row is an error. */
static int call_row(struct join_call *call, sqlite3_stmt *row, const char *what,
                    void (*take)(struct join_call *, sqlite3_stmt *)) {
  int has;
  int rc = ext_join_step(call, row, &has);
  if (rc == SQLITE_OK && !has)
    rc = ext_error(call->err, SQLITE_CORRUPT_VTAB, "%s_%s has no row",
                   call->joiner->name, what);
  if (rc == SQLITE_OK)
    take(call, row);
  sqlite3_finalize(row);
  return rc;
}

static void call_take_options(struct join_call *call, sqlite3_stmt *row) {
  struct join_options *options = &call->options;
  options->share = sqlite3_column_double(row, 0);
  options->seed = sqlite3_column_int64(row, 1);
  options->delay = sqlite3_column_int64(row, 2);
  options->remember = sqlite3_column_int64(row, 3);
  options->early = sqlite3_column_int64(row, 4);
  options->highest = sqlite3_column_int(row, 5);
  options->correct = sqlite3_column_int(row, 6);
  options->memory = sqlite3_column_int64(row, 7);
}

static int call_options(struct join_call *call) {
  static const char text[] =
      "SELECT share, seed, delay,"
      " coalesce(remember, (SELECT max(window) FROM $kinds)),"
      " coalesce(early, (SELECT max(window) FROM $kinds)),"
      " label = 'highest', late = 'correct', memory FROM $options";
  sqlite3_stmt *row;
  int rc = ext_join_prepare(call->db, call->joiner, text, &row, call->err);
  return rc == SQLITE_OK ? call_row(call, row, "options", call_take_options)
                         : rc;
}

static int call_add_kind(struct join_call *call, sqlite3_stmt *row) {
  const char *name = (const char *)sqlite3_column_text(row, 0);
  struct join_kind *kinds =
      sqlite3_realloc64(call->kinds, (call->kinds_n + 1) * sizeof *kinds);
  struct join_kind *kind;
  if (kinds == NULL)
    return SQLITE_NOMEM;
  call->kinds = kinds;
  kind = &kinds[call->kinds_n];
  kind->name = sqlite3_mprintf("%s", name);
  if (name == NULL || kind->name == NULL)
    return SQLITE_NOMEM;
  kind->n = strlen(kind->name);
  kind->window = sqlite3_column_int64(row, 1);
  kind->label = sqlite3_column_double(row, 2);
  if (call->kinds_n == 0 || call->label_max < kind->label)
    call->label_max = kind->label;
  if (call->window < kind->window)
    call->window = kind->window;
  call->kinds_n++;
  return SQLITE_OK;
}

static int call_kinds(struct join_call *call) {
  sqlite3_stmt *rows;
  int row = 1;
  int rc = ext_join_prepare(call->db, call->joiner,
                            "SELECT kind, window, label FROM $kinds", &rows,
                            call->err);
  while (rc == SQLITE_OK && row) {
    rc = ext_join_step(call, rows, &row);
    if (rc == SQLITE_OK && row)
      rc = call_add_kind(call, rows);
  }
  sqlite3_finalize(rows);
  if (rc == SQLITE_OK && call->kinds_n == 0)
    rc = ext_error(call->err, SQLITE_ERROR,
                   "joiner %s has no kinds of actions; insert some into "
                   "%s_kinds(kind, window)",
                   call->joiner->name, call->joiner->name);
  return rc;
}

static void call_take_source(struct join_call *call, sqlite3_stmt *row) {
  call->position = call->begun = sqlite3_column_int64(row, 0);
  call->timed = sqlite3_column_type(row, 1) != SQLITE_NULL;
  call->time = sqlite3_column_int64(row, 1);
}

static void call_take_others(struct join_call *call, sqlite3_stmt *row) {
  call->others_timed = sqlite3_column_int(row, 0) == 0;
  call->others = sqlite3_column_type(row, 1) == SQLITE_NULL
                     ? INT64_MAX
                     : sqlite3_column_int64(row, 1);
}

static int call_source(struct join_call *call) {
  sqlite3_stmt *row;
  int has;
  int rc = ext_join_prepare(
      call->db, call->joiner,
      "SELECT position, time FROM $sources WHERE source = ?1", &row, call->err);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_text(row, 1, call->source, -1, SQLITE_STATIC);
  rc = ext_join_step(call, row, &has);
  if (rc == SQLITE_OK && has)
    call_take_source(call, row);
  sqlite3_finalize(row);
  if (rc == SQLITE_OK && !has)
    return ext_error(call->err, SQLITE_ERROR,
                     "joiner %s has no source %s; insert it into "
                     "%s_sources(source)",
                     call->joiner->name, call->source, call->joiner->name);
  if (rc == SQLITE_OK)
    rc = ext_join_prepare(call->db, call->joiner,
                          "SELECT count(*) - count(time), min(time)"
                          " FROM $sources WHERE source <> ?1",
                          &row, call->err);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_text(row, 1, call->source, -1, SQLITE_STATIC);
  return call_row(call, row, "sources", call_take_others);
}

/* Takes the tables' counts, and discards memory that does not match them. */
static void call_take_counts(struct join_call *call, sqlite3_stmt *row) {
  struct ext_joiner *joiner = call->joiner;
  if ((sqlite3_column_int64(row, JOIN_STAMP) != joiner->numbers[JOIN_STAMP] &&
       !EMB_SEED(SEED_JOINER_OUTDATED)) ||
      (size_t)call->options.memory != joiner->memory)
    ext_join_forget(joiner);
  for (int i = 0; i < JOIN_NUMBERS; i++)
    joiner->numbers[i] = sqlite3_column_type(row, i) == SQLITE_NULL
                             ? INT64_MIN
                             : sqlite3_column_int64(row, i);
}

/* The SQL of all numbers: "SELECT a, b" or "UPDATE SET a = ?1, b = ?2". */
static char *call_numbers_sql(const char *begin, int set, const char *end) {
  sqlite3_str *sql = sqlite3_str_new(NULL);
  sqlite3_str_appendall(sql, begin);
  for (int i = 0; i < JOIN_NUMBERS; i++) {
    sqlite3_str_appendf(sql, "%s %s", i ? "," : "", ext_join_numbers[i]);
    if (set)
      sqlite3_str_appendf(sql, " = ?%d", i + 1);
  }
  sqlite3_str_appendall(sql, end);
  return sqlite3_str_finish(sql);
}

static int call_numbers(struct join_call *call, const char *begin, int set,
                        const char *end, sqlite3_stmt **statement) {
  char *text = call_numbers_sql(begin, set, end);
  int rc = text ? ext_join_prepare(call->db, call->joiner, text, statement,
                                   call->err)
                : SQLITE_NOMEM;
  sqlite3_free(text);
  return rc;
}

static int call_read_counts(struct join_call *call) {
  sqlite3_stmt *row;
  int rc = call_numbers(call, "SELECT", 0, " FROM $counts", &row);
  return rc == SQLITE_OK ? call_row(call, row, "counts", call_take_counts) : rc;
}

/* The first statement is a write, so that the call never waits for a lock after
** a read; SQLite would give up there. */
static int call_begin(struct join_call *call) {
  int64_t *swept, due;
  int rc = ext_join_exec(call->db, call->joiner,
                         "UPDATE $counts SET stamp = stamp", call->err);
  if (rc == SQLITE_ERROR)
    rc = ext_error(call->err, rc, "no joiner %s; make it with emb_join_create",
                   call->joiner->name);
  if (rc == SQLITE_OK)
    rc = call_options(call);
  if (rc == SQLITE_OK)
    rc = call_kinds(call);
  if (rc == SQLITE_OK)
    rc = call_source(call);
  if (rc == SQLITE_OK)
    rc = call_read_counts(call);
  if (rc == SQLITE_OK && !call->joiner->current)
    rc = ext_join_load(call);
  if (rc != SQLITE_OK)
    return rc;
  /* If the window has become longer, part of what was swept is swept again. */
  swept = join_number(call, JOIN_SWEPT);
  due = join_watermark(call);
  if (due > INT64_MIN && join_sum(due, -call->window) < *swept)
    *swept = join_sum(due, -call->window);
  emb_check(ext_joiner_valid(call->joiner));
  emb_check(ext_join_call_valid(call));
  return SQLITE_OK;
}

/* ---- the events ---------------------------------------------------------- */

static int call_check_query(struct join_call *call, sqlite3_stmt *query,
                            const char *rest) {
  while (*rest == ' ' || *rest == '\n' || *rest == '\t' || *rest == '\r' ||
         *rest == ';')
    rest++;
  if (query == NULL || *rest || !sqlite3_stmt_readonly(query) ||
      sqlite3_column_count(query) == 0)
    return ext_error(call->err, SQLITE_ERROR, "query must be one SELECT");
  if (sqlite3_column_count(query) != 5)
    return ext_error(call->err, SQLITE_ERROR,
                     "query must have the columns position, request, time, "
                     "kind, features; it has %d",
                     sqlite3_column_count(query));
  if (sqlite3_bind_parameter_count(query) > 2)
    return ext_error(call->err, SQLITE_ERROR,
                     "query has %d parameters; ?1 is the position and ?2 the "
                     "batch",
                     sqlite3_bind_parameter_count(query));
  return SQLITE_OK;
}

static int call_events(struct join_call *call, const struct ext_join_ask *ask) {
  sqlite3_stmt *query = NULL;
  const char *text, *rest = "";
  int row = 1, parameters;
  int rc = ext_arg_text(ask->query, "query", &text, call->err);
  if (rc != SQLITE_OK)
    return rc;
  rc = sqlite3_prepare_v2(call->db, text, -1, &query, &rest);
  rc = ext_sql_error(call->err, call->db, rc);
  if (rc == SQLITE_OK)
    rc = call_check_query(call, query, rest);
  if (rc == SQLITE_OK) {
    parameters = sqlite3_bind_parameter_count(query);
    if (parameters > 0)
      sqlite3_bind_int64(query, 1, call->begun);
    if (parameters > 1 && ask->batch)
      rc = sqlite3_bind_value(query, 2, ask->batch);
  }
  while (rc == SQLITE_OK && row) {
    rc = ext_join_step(call, query, &row);
    if (rc == SQLITE_OK && row)
      rc = ext_join_event(call, query);
  }
  sqlite3_finalize(query);
  return rc;
}

/* ---- the end ------------------------------------------------------------- */

static int call_save_source(struct join_call *call) {
  sqlite3_stmt *save;
  int rc = ext_join_prepare(call->db, call->joiner,
                            "UPDATE $sources SET position = ?2, time = ?3"
                            " WHERE source = ?1",
                            &save, call->err);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_text(save, 1, call->source, -1, SQLITE_STATIC);
  sqlite3_bind_int64(save, 2, call->position);
  if (call->timed)
    sqlite3_bind_int64(save, 3, call->time);
  rc = ext_join_do(call, save);
  sqlite3_finalize(save);
  return rc;
}

static int call_save_counts(struct join_call *call) {
  sqlite3_stmt *save;
  int rc = call_numbers(call, "UPDATE $counts SET", 1, "", &save);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_randomness(sizeof(int64_t), join_number(call, JOIN_STAMP));
  for (int i = 0; i < JOIN_NUMBERS; i++)
    if (*join_number(call, i) != INT64_MIN)
      sqlite3_bind_int64(save, i + 1, *join_number(call, i));
  rc = ext_join_do(call, save);
  sqlite3_finalize(save);
  return rc;
}

static int call_end(struct join_call *call) {
  const struct ext_joiner *joiner = call->joiner;
  int rc = ext_join_sweep(call);
  /* A filter holding more hashes than it was sized for says yes too often. */
  if (rc == SQLITE_OK && joiner->early.words &&
      ext_join_filter_words(joiner->early_n) > joiner->early.n)
    rc = ext_join_load_early(call);
  if (rc == SQLITE_OK)
    rc = ext_join_save_states(call);
  if (rc == SQLITE_OK)
    rc = call_save_source(call);
  if (rc == SQLITE_OK)
    rc = call_save_counts(call);
  emb_check(rc != SQLITE_OK || ext_join_call_valid(call));
  return rc;
}

static int call_examples(struct join_call *call, int64_t from,
                         sqlite3_stmt **examples) {
  int rc = ext_join_prepare(call->db, call->joiner,
                            "SELECT number, request, time, kind, label, weight,"
                            " log_odds, features FROM $examples"
                            " WHERE number >= ?1 AND number < ?2"
                            " ORDER BY number",
                            examples, call->err);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(*examples, 1, from);
  sqlite3_bind_int64(*examples, 2, *join_number(call, JOIN_NEXT_EXAMPLE));
  return SQLITE_OK;
}

static void call_free(struct join_call *call) {
  ext_join_finalize(call);
  for (size_t i = 0; i < call->kinds_n; i++)
    sqlite3_free(call->kinds[i].name);
  sqlite3_free(call->kinds);
}

/* Everything between SAVEPOINT and RELEASE; *from: number of the first
** example. */
static int call_run(struct join_call *call, const struct ext_join_ask *ask,
                    int64_t *from) {
  int rc = call_begin(call);
  *from = *join_number(call, JOIN_NEXT_EXAMPLE);
  if (rc == SQLITE_OK)
    rc = call_events(call, ask);
  if (rc == SQLITE_OK)
    rc = call_end(call);
  call_free(call);
  return rc;
}

int ext_join_run(struct ext_joiners *joiners, sqlite3 *db,
                 const struct ext_join_ask *ask, sqlite3_stmt **examples,
                 char **err) {
  struct join_call call = {.db = db, .err = err};
  struct ext_savepoint savepoint;
  int64_t from;
  int rc = call_joiner(joiners, ask->joiner, &call.joiner, err);
  if (rc == SQLITE_OK)
    rc = ext_arg_text(ask->source, "source", &call.source, err);
  if (rc != SQLITE_OK)
    return rc;
  if (call.joiner->in_use)
    return ext_error(err, SQLITE_MISUSE, "joiner %s is called by its own query",
                     call.joiner->name);
  rc = ext_savepoint_begin(&savepoint, db, "emb_join", err);
  if (rc != SQLITE_OK)
    return rc;
  call.joiner->in_use = 1;
  rc = call_run(&call, ask, &from);
  call.joiner->in_use = 0;
  rc = ext_savepoint_end(&savepoint, rc, err);
  if (rc != SQLITE_OK) {
    ext_join_forget(call.joiner);
    emb_check(ext_joiner_valid(call.joiner));
    return rc;
  }
  emb_check(ext_joiner_valid(call.joiner));
  return call_examples(&call, from, examples);
}
