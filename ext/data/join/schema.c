/* SPDX-License-Identifier: MIT
**
** schema.c -- the tables of a joiner.
**
** For people: options (one row), kinds of actions, sources, examples, counts
** (one row).  For the joiner: requests that are known, actions before their
** request, states of requests, the best action so far of a request whose label
** is still open, and runs with their places.
*/
#include "join_call.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

#define SPAN(name)                                                             \
  " CHECK(typeof(" name ") = 'integer' AND " name                              \
  " BETWEEN 0 AND 1152921504606846976)"

static const char *const schema_tables[] = {
    "CREATE TABLE $options(id INTEGER PRIMARY KEY CHECK(id = 1),"
    " share REAL NOT NULL DEFAULT 1 CHECK(share > 0 AND share <= 1),"
    " seed INTEGER NOT NULL DEFAULT 0 CHECK(typeof(seed) = 'integer'),"
    " delay INTEGER NOT NULL DEFAULT 0" SPAN(
        "delay") ","
                 " remember INTEGER DEFAULT NULL"
                 "  CHECK(remember IS NULL OR (typeof(remember) = 'integer' AND"
                 "   remember BETWEEN 0 AND 1152921504606846976)),"
                 " early INTEGER DEFAULT NULL"
                 "  CHECK(early IS NULL OR (typeof(early) = 'integer' AND"
                 "   early BETWEEN 0 AND 1152921504606846976)),"
                 " label TEXT NOT NULL DEFAULT 'first' CHECK(label IN "
                 "('first', 'highest')),"
                 " late TEXT NOT NULL DEFAULT 'drop' CHECK(late IN ('drop', "
                 "'correct')),"
                 " memory INTEGER NOT NULL DEFAULT 67108864"
                 "  CHECK(memory BETWEEN 65536 AND 1099511627776))",
    "CREATE TABLE $kinds(kind TEXT PRIMARY KEY NOT NULL,"
    " window INTEGER NOT NULL" SPAN("window") ","
                                              " label REAL NOT NULL DEFAULT 1 "
                                              "CHECK(typeof(label) = 'real'))",
    "CREATE TABLE $sources(source TEXT PRIMARY KEY NOT NULL,"
    " position INTEGER NOT NULL DEFAULT -1 CHECK(typeof(position) = 'integer'),"
    " time INTEGER CHECK(time IS NULL OR (typeof(time) = 'integer' AND"
    "  abs(time) <= 4611686018427387904)))",
    "CREATE TABLE $requests(n INTEGER PRIMARY KEY, request NOT NULL,"
    " time INTEGER NOT NULL, features)",
    "CREATE INDEX $requests_time ON @requests(time)",
    "CREATE TABLE $actions(hash INTEGER, request, time INTEGER, kind TEXT,"
    " PRIMARY KEY(hash, request, time, kind)) WITHOUT ROWID",
    "CREATE INDEX $actions_time ON @actions(time)",
    "CREATE TABLE $states(chunk INTEGER PRIMARY KEY, states BLOB NOT NULL)",
    "CREATE TABLE $best(n INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
    " label REAL NOT NULL)",
    "CREATE TABLE $runs(run INTEGER PRIMARY KEY, newest INTEGER NOT NULL,"
    " filter BLOB NOT NULL)",
    "CREATE TABLE $places(run INTEGER, hash INTEGER, n INTEGER,"
    " PRIMARY KEY(run, hash, n)) WITHOUT ROWID",
    "CREATE TABLE $examples(number INTEGER PRIMARY KEY, request,"
    " time INTEGER, kind TEXT, label REAL, weight REAL, log_odds REAL,"
    " features)"};

static const char *const schema_names[] = {
    "options", "kinds", "sources", "requests", "actions", "states",
    "best",    "runs",  "places",  "examples", "counts"};

/* Names of the columns of `counts`. */
const char *const ext_join_numbers[JOIN_NUMBERS] = {
    [JOIN_STAMP] = "stamp",
    [JOIN_NEXT_REQUEST] = "next_request",
    [JOIN_NEXT_EXAMPLE] = "next_example",
    [JOIN_NEXT_RUN] = "next_run",
    [JOIN_SPILLED_TO] = "spilled_to",
    [JOIN_SWEPT] = "swept",
    [JOIN_FORGOTTEN] = "forgotten",
    [JOIN_WATERMARK] = "watermark",
    [JOIN_REQUESTS] = "requests",
    [JOIN_WAITING] = "waiting",
    [JOIN_DUPLICATE] = "duplicate",
    [JOIN_OLD] = "old",
    [JOIN_ACTIONS] = "actions",
    [JOIN_JOINED] = "joined",
    [JOIN_REPEATED] = "repeated",
    [JOIN_OUTSIDE] = "outside",
    [JOIN_OTHER] = "other",
    [JOIN_EARLY] = "early",
    [JOIN_UNMATCHED] = "unmatched",
    [JOIN_LATE] = "late",
    [JOIN_CORRECTED] = "corrected",
    [JOIN_NEGATIVES] = "negatives",
    [JOIN_DROPPED] = "dropped",
    [JOIN_PENDING] = "pending",
    [JOIN_RESENT] = "resent",
    [JOIN_SPILLED] = "spilled",
};

static int64_t schema_first(int i) {
  switch (i) {
  case JOIN_NEXT_REQUEST:
  case JOIN_NEXT_EXAMPLE:
  case JOIN_NEXT_RUN:
    return 1;
  case JOIN_SWEPT:
  case JOIN_FORGOTTEN:
  case JOIN_WATERMARK:
    return INT64_MIN;
  }
  return 0;
}

int ext_join_name(struct ext_joiner *joiner, sqlite3_value *name, char **err) {
  const char *text, *point;
  int rc = ext_arg_text(name, "joiner", &text, err);
  if (rc != SQLITE_OK)
    return rc;
  point = strchr(text, '.');
  if (*text == 0 || point == text || (point && point[1] == 0))
    return ext_error(err, SQLITE_ERROR,
                     "joiner must be a name or schema.name, got \"%s\"", text);
  joiner->name = sqlite3_mprintf("%s", text);
  joiner->schema = point ? sqlite3_mprintf("%.*s", (int)(point - text), text)
                         : sqlite3_mprintf("main");
  joiner->table = sqlite3_mprintf("%s", point ? point + 1 : text);
  if (joiner->name && joiner->schema && joiner->table)
    return SQLITE_OK;
  ext_join_unname(joiner);
  return SQLITE_NOMEM;
}

void ext_join_unname(struct ext_joiner *joiner) {
  sqlite3_free(joiner->name);
  sqlite3_free(joiner->schema);
  sqlite3_free(joiner->table);
  joiner->name = joiner->schema = joiner->table = NULL;
}

static int schema_make_counts(sqlite3 *db, const struct ext_joiner *joiner,
                              char **err) {
  sqlite3_str *sql = sqlite3_str_new(db);
  char *text;
  int rc;
  sqlite3_str_appendall(
      sql, "CREATE TABLE $counts(id INTEGER PRIMARY KEY CHECK(id = 1)");
  for (int i = 0; i < JOIN_NUMBERS; i++) {
    int64_t first = schema_first(i);
    sqlite3_str_appendf(sql, ", %s INTEGER", ext_join_numbers[i]);
    if (first != INT64_MIN)
      sqlite3_str_appendf(sql, " NOT NULL DEFAULT %lld", (long long)first);
  }
  sqlite3_str_appendall(sql, "); INSERT INTO $counts(id) VALUES(1);"
                             "INSERT INTO $options(id) VALUES(1)");
  text = sqlite3_str_finish(sql);
  rc = text ? ext_join_exec(db, joiner, text, err) : SQLITE_NOMEM;
  sqlite3_free(text);
  return rc;
}

static int schema_make(sqlite3 *db, const struct ext_joiner *joiner,
                       char **err) {
  int rc = SQLITE_OK;
  for (size_t i = 0; i < sizeof schema_tables / sizeof schema_tables[0]; i++)
    if (rc == SQLITE_OK)
      rc = ext_join_exec(db, joiner, schema_tables[i], err);
  return rc == SQLITE_OK ? schema_make_counts(db, joiner, err) : rc;
}

static int schema_drop(sqlite3 *db, const struct ext_joiner *joiner,
                       char **err) {
  int rc = SQLITE_OK;
  for (size_t i = 0; i < sizeof schema_names / sizeof schema_names[0]; i++) {
    char *text = sqlite3_mprintf("DROP TABLE $%s", schema_names[i]);
    if (rc == SQLITE_OK)
      rc = text ? ext_join_exec(db, joiner, text, err) : SQLITE_NOMEM;
    sqlite3_free(text);
  }
  return rc;
}

/* All or nothing. */
static int schema_change(sqlite3 *db, sqlite3_value *name,
                         int (*change)(sqlite3 *, const struct ext_joiner *,
                                       char **),
                         char **err) {
  struct ext_savepoint savepoint;
  struct ext_joiner joiner = {0};
  int rc = ext_join_name(&joiner, name, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = ext_savepoint_begin(&savepoint, db, "emb_join", err);
  if (rc == SQLITE_OK)
    rc = ext_savepoint_end(&savepoint, change(db, &joiner, err), err);
  ext_join_unname(&joiner);
  return rc;
}

int ext_join_create(sqlite3 *db, sqlite3_value *name, char **err) {
  return schema_change(db, name, schema_make, err);
}

int ext_join_drop(sqlite3 *db, sqlite3_value *name, char **err) {
  return schema_change(db, name, schema_drop, err);
}
