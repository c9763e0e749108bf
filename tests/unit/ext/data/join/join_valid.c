/* SPDX-License-Identifier: MIT
**
** join_valid.c -- proofs that the assertions of ext/data/join fire.  The joiner
** is made by calls of emb_join: it has records in both halves, a run, states
** and early actions.
*/
#include "sql_help.h"
#include "death.h"

#include "ext/data/join/join_call.h"

static const char setup[] =
    "SELECT emb_join_create('j');"
    "INSERT INTO j_kinds VALUES('click', 100, 1), ('buy', 200, 2);"
    "INSERT INTO j_sources(source) VALUES('s');"
    "UPDATE j_options SET memory = 65536, late = 'correct';"
    "CREATE TABLE log(id INTEGER PRIMARY KEY, request, time, kind, features);"
    "INSERT INTO log"
    " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
    "  WHERE i < 600)"
    " SELECT 10 * i, i, i, NULL, zeroblob(100) FROM n;"
    "INSERT INTO log VALUES(9000, 'early', 600, 'click', NULL)";

static const char select_log[] =
    "SELECT * FROM log WHERE id > ?1 ORDER BY id LIMIT 601";

static sqlite3 *db;
static struct ext_joiners *joiners;
static struct ext_joiner *joiner;

/* A copy of an SQL value. */
static sqlite3_value *value_of(const char *text) {
  sqlite3_stmt *statement = NULL;
  sqlite3_value *value = NULL;
  CHECK_EQ_INT(sqlite3_prepare_v2(db, "SELECT ?1", -1, &statement, NULL),
               SQLITE_OK);
  sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC);
  if (CHECK_EQ_INT(sqlite3_step(statement), SQLITE_ROW))
    value = sqlite3_value_dup(sqlite3_column_value(statement, 0));
  sqlite3_finalize(statement);
  return value;
}

static int run(const char *query) {
  struct ext_join_ask ask = {value_of("j"), value_of("s"), value_of(query),
                             NULL};
  sqlite3_stmt *examples = NULL;
  char *err = NULL;
  int rc = ext_join_run(joiners, db, &ask, &examples, &err);
  sqlite3_finalize(examples);
  sqlite3_free(err);
  sqlite3_value_free(ask.joiner);
  sqlite3_value_free(ask.source);
  sqlite3_value_free(ask.query);
  return rc;
}

static int open_joiner(void) {
  db = sql_connect(":memory:", 0);
  joiners = ext_joiners_new();
  if (!CHECK(db && joiners) || !CHECK(sql_runs(db, setup)) ||
      !CHECK_EQ_INT(run(select_log), SQLITE_OK))
    return 0;
  joiner = joiners->first;
  return CHECK(joiner && joiner->runs_n && joiner->chunks_loaded &&
               joiner->early.n && joiner->young.records && joiner->old.records);
}

static void close_joiner(void) {
  ext_joiners_free(joiners);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

/* A call between its begin and its end. */
static struct join_call call_of(struct join_kind *kind) {
  *kind = (struct join_kind){.name = "click", .n = 5, .window = 1, .label = 1};
  joiner->in_use = 1;
  return (struct join_call){.db = db,
                            .joiner = joiner,
                            .kinds = kind,
                            .kinds_n = 1,
                            .window = 1,
                            .label_max = 1,
                            .begun = 4,
                            .position = 7};
}

TEST(the_halves) {
  struct join_half *half;
  if (!open_joiner())
    return;
  half = &joiner->young;
  CHECK(ext_join_half_valid(half));
  CHECK_FIRES(half->room = half->used - 8; ext_join_half_valid(half));
  CHECK_FIRES(half->arena = NULL; ext_join_half_valid(half));
  CHECK_FIRES(half->slots = NULL; ext_join_half_valid(half));
  CHECK_FIRES(half->slots_n--; ext_join_half_valid(half));
  CHECK_FIRES(half->slots_most = half->slots_n / 2; ext_join_half_valid(half));
  CHECK_FIRES(half->records = half->slots_n; ext_join_half_valid(half));
  CHECK_FIRES(half->records--; ext_join_half_valid(half));
  CHECK_FIRES(half->used -= 8; ext_join_half_valid(half));
  close_joiner();
}

TEST(the_joiner) {
  if (!open_joiner())
    return;
  CHECK(ext_joiner_valid(joiner));
  CHECK_FIRES(joiner->schema = NULL; ext_joiner_valid(joiner));
  CHECK_FIRES(joiner->current = 0; ext_joiner_valid(joiner));
  CHECK_FIRES(joiner->old.room += 8; ext_joiner_valid(joiner));
  CHECK_FIRES(joiner->young.slots_most *= 2; ext_joiner_valid(joiner));
  CHECK_FIRES(joiner->runs_room = 0; ext_joiner_valid(joiner));
  CHECK_FIRES(joiner->runs[0].filter.n = 0; ext_joiner_valid(joiner));
  CHECK_FIRES(joiner->filter_words++; ext_joiner_valid(joiner));
  CHECK_FIRES(joiner->chunks[0]->changed = 1; ext_joiner_valid(joiner));
  CHECK_FIRES(joiner->chunks_loaded++; ext_joiner_valid(joiner));
  CHECK_FIRES(joiner->early.n = 0; ext_joiner_valid(joiner));
  close_joiner();
}

TEST(the_call) {
  struct join_kind kind;
  struct join_call call;
  if (!open_joiner())
    return;
  call = call_of(&kind);
  CHECK(ext_join_call_valid(&call));
  CHECK_FIRES(joiner->in_use = 0; ext_join_call_valid(&call));
  CHECK_FIRES(call.kinds_n = 0; ext_join_call_valid(&call));
  CHECK_FIRES(kind.n++; ext_join_call_valid(&call));
  CHECK_FIRES(call.window = 0; ext_join_call_valid(&call));
  CHECK_FIRES(call.label_max = 0; ext_join_call_valid(&call));
  CHECK_FIRES(call.position = 3; ext_join_call_valid(&call));
  CHECK_ALL_FIRED("ext/data/join/join_valid.c");
  joiner->in_use = 0;
  close_joiner();
}

/* The checks at the transitions see what a call must not leave. */
TEST(the_transitions) {
  struct join_value id = {.type = SQLITE_INTEGER, .n = 8, .bits = 700};
  struct join_record head = {.n = 700, .time = 700};
  struct join_found found = {.n = 1};
  struct join_filter filter = {0};
  struct join_kind kind;
  struct join_call call;
  int added;
  if (!open_joiner())
    return;
  call = call_of(&kind);
  CHECK_FIRES(ext_joiners_free(joiners)); /* during a call */
  CHECK_FIRES(ext_join_half_limit(&joiner->young, 65536));
  CHECK_FIRES(joiner->young.slots_n = 32; joiner->young.records = 16;
              joiner->young.used = 0;
              ext_join_half_add(&joiner->young, &id, &id, &head, &added));
  CHECK_FIRES(ext_join_filter_new(&filter, 0));
  CHECK_FIRES(ext_join_runs_add(joiner, 9, 9, &filter));
  CHECK_FIRES(ext_join_run_remove(joiner, joiner->runs_n));
  CHECK_FIRES(joiner->filter_words = 0; ext_join_run_remove(joiner, 0));
  CHECK_FIRES(ext_join_set_state(&call, 1, JOIN_IS_WAITING));
  CHECK_FIRES(ext_join_take_back(&call, &found, &id));
  joiner->in_use = 0;
  CHECK_FIRES(joiner->filter_words++; run(select_log));
  close_joiner();
}
