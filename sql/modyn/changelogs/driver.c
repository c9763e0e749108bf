/* SPDX-License-Identifier: MIT
**
** driver.c -- asks a pipeline's policies; see driver.h.
*/
#include "driver.h"

#include <string.h>

/* What a policy may ask for by name. */
struct state {
  sqlite3_int64 pipeline, trigger, now, position, trained, seed;
};

static struct state read_state(sqlite3 *db, int64_t pipeline,
                               sqlite3_int64 trigger, int64_t now) {
  sqlite3_int64 id = pipeline;
  struct state state = {.pipeline = id, .now = now, .trigger = trigger};
  state.seed = database_number(
      db, "SELECT seed FROM pipeline WHERE pipeline = %lld", id);
  state.position = database_number(
      db, "SELECT max(position) FROM sample_state WHERE pipeline = %lld", id);
  state.trained = database_number(db,
                                  "SELECT max(last_position) FROM trigger"
                                  " WHERE pipeline = %lld AND trigger < %lld",
                                  id, trigger);
  return state;
}

/* An option of a policy, from its JSON. */
static void bind_option(sqlite3_stmt *statement, int parameter,
                        const char *options, const char *name) {
  sqlite3_stmt *read = statement_new(sqlite3_db_handle(statement),
                                     "SELECT json_extract(?1, '$.' || ?2)");
  sqlite3_bind_text(read, 1, options, -1, SQLITE_STATIC);
  sqlite3_bind_text(read, 2, name, -1, SQLITE_STATIC);
  statement_step(read);
  if (sqlite3_column_type(read, 0) == SQLITE_NULL) {
    die("a policy wants the option %s, which is not in %s", name, options);
  }
  sqlite3_bind_value(statement, parameter, sqlite3_column_value(read, 0));
  sqlite3_finalize(read);
}

static void bind_all(sqlite3_stmt *statement, const char *options,
                     const struct state *state) {
  const struct {
    const char *name;
    sqlite3_int64 value;
  } known[] = {{"pipeline", state->pipeline}, {"trigger", state->trigger},
               {"now", state->now},           {"position", state->position},
               {"trained", state->trained},   {"seed", state->seed}};
  const size_t count = sizeof(known) / sizeof(*known);
  for (int i = 1; i <= sqlite3_bind_parameter_count(statement); i++) {
    const char *name = sqlite3_bind_parameter_name(statement, i) + 1;
    size_t k = 0;
    while (k < count && strcmp(known[k].name, name)) {
      k++;
    }
    if (k < count) {
      sqlite3_bind_int64(statement, i, known[k].value);
    } else {
      bind_option(statement, i, options, name);
    }
  }
}

/* The policy of a kind that a pipeline names, ready to run. */
static sqlite3_stmt *policy_new(sqlite3 *db, const char *kind,
                                const struct state *state) {
  char *sql = sqlite3_mprintf(
      "SELECT sql, options FROM"
      " (SELECT %s_policy AS options FROM pipeline WHERE pipeline = %lld)"
      "  JOIN policy ON kind = %Q AND name = json_extract(options, '$.policy')",
      kind, state->pipeline, kind);
  sqlite3_stmt *find = statement_new(db, sql);
  sqlite3_free(sql);
  if (!statement_step(find)) {
    die("pipeline %lld: there is no such %s policy", state->pipeline, kind);
  }
  sqlite3_stmt *policy =
      statement_new(db, (const char *)sqlite3_column_text(find, 0));
  bind_all(policy, (const char *)sqlite3_column_text(find, 1), state);
  sqlite3_finalize(find);
  return policy;
}

/* The samples of the pipeline that it has not seen. */
static void take_in(sqlite3 *db, int64_t pipeline, int64_t now) {
  sqlite3_stmt *find =
      statement_new(db, "SELECT samples FROM pipeline WHERE pipeline = ?1");
  sqlite3_bind_int64(find, 1, pipeline);
  if (!statement_step(find)) {
    die("there is no pipeline %lld", (long long)pipeline);
  }
  database_run(
      db,
      "INSERT INTO sample_state(pipeline, position, sample_key, timestamp,"
      "                         label)"
      " SELECT %lld, coalesce((SELECT max(position) FROM sample_state"
      "                         WHERE pipeline = %lld), 0)"
      "              + row_number() OVER (ORDER BY timestamp, key),"
      "        key, timestamp, label FROM (%s)"
      "  WHERE timestamp < %lld"
      "    AND timestamp > coalesce((SELECT max(timestamp) FROM sample_state"
      "                               WHERE pipeline = %lld), -9e18)",
      (sqlite3_int64)pipeline, (sqlite3_int64)pipeline,
      sqlite3_column_text(find, 0), (sqlite3_int64)now,
      (sqlite3_int64)pipeline);
  sqlite3_finalize(find);
}

static void write_trigger(sqlite3 *db, const struct state *state) {
  database_run(
      db,
      "INSERT INTO trigger SELECT %lld, %lld, min(position), max(position),"
      " min(timestamp), max(timestamp), (julianday('now') - 2440587.5) * 86400,"
      " %lld, 0 FROM sample_state"
      " WHERE pipeline = %lld AND position > %lld",
      state->pipeline, state->trigger, state->position, state->pipeline,
      state->trained);
}

/* What was decided, and of what numbers. */
static void write_decision(sqlite3 *db, const struct state *state,
                           int triggered, double value, double threshold) {
  char *trigger = triggered ? sqlite3_mprintf("%lld", state->trigger)
                            : sqlite3_mprintf("NULL");
  const char *name = state->trigger == 0
                         ? "'the first'"
                         : "json_extract(trigger_policy, '$.policy')";
  database_run(
      db,
      "INSERT OR REPLACE INTO decision SELECT %lld, %lld, %d, %s, %s,"
      " (julianday('now') - 2440587.5) * 86400"
      "  FROM pipeline WHERE pipeline = %lld;"
      "INSERT INTO decision_part SELECT %lld, %lld, '', %s, %d, %.17g, %.17g,"
      " printf('%%.4g against %%.4g', %.17g, %.17g)"
      "  FROM pipeline WHERE pipeline = %lld",
      state->pipeline, state->position, triggered, trigger, name,
      state->pipeline, state->pipeline, state->position, name, triggered, value,
      threshold, value, threshold, state->pipeline);
  sqlite3_free(trigger);
}

int64_t driver_ask(sqlite3 *db, int64_t pipeline, int64_t now) {
  sqlite3_int64 trigger =
      database_number(db, "SELECT count(*) FROM trigger WHERE pipeline = %lld",
                      (sqlite3_int64)pipeline);
  take_in(db, pipeline, now);
  struct state state = read_state(db, pipeline, trigger, now);
  if (state.position == state.trained) {
    return -1;
  }
  int triggered = trigger == 0;
  double value = 0, threshold = 0;
  if (!triggered) {
    sqlite3_stmt *policy = policy_new(db, "trigger", &state);
    if (!statement_step(policy)) {
      die("a trigger policy gave no row");
    }
    value = sqlite3_column_double(policy, 0);
    threshold = sqlite3_column_double(policy, 1);
    triggered = sqlite3_column_int(policy, 2) != 0;
    sqlite3_finalize(policy);
  }
  if (triggered) {
    write_trigger(db, &state);
  }
  write_decision(db, &state, triggered, value, threshold);
  return triggered ? trigger : -1;
}

int64_t driver_select(sqlite3 *db, int64_t pipeline, int64_t trigger) {
  struct state state = read_state(db, pipeline, trigger, 0);
  sqlite3_stmt *policy = policy_new(db, "selection", &state);
  sqlite3_stmt *insert =
      statement_new(db, "INSERT INTO selection VALUES (?1, ?2, ?3, ?4, ?5)");
  sqlite3_int64 place = 0;
  while (statement_step(policy)) {
    sqlite3_bind_int64(insert, 1, pipeline);
    sqlite3_bind_int64(insert, 2, trigger);
    sqlite3_bind_int64(insert, 3, place++);
    sqlite3_bind_value(insert, 4, sqlite3_column_value(policy, 0));
    sqlite3_bind_double(insert, 5, sqlite3_column_double(policy, 1));
    statement_step(insert);
    statement_end(insert);
  }
  sqlite3_finalize(insert);
  sqlite3_finalize(policy);
  database_run(db,
               "UPDATE trigger SET selected = %lld"
               " WHERE (pipeline, trigger) = (%lld, %lld)",
               place, state.pipeline, state.trigger);
  return place;
}

int driver_wants_scores(sqlite3 *db, int64_t pipeline) {
  return database_number(db,
                         "SELECT json_extract(selection_policy, '$.policy')"
                         " = 'loss' FROM pipeline WHERE pipeline = %lld",
                         (sqlite3_int64)pipeline) != 0;
}
