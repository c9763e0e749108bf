/* SPDX-License-Identifier: MIT
**
** statement.c -- the SQL of a call.
**
** Statements live as long as the call: a statement that outlived it would keep
** the connection from being closed.
*/
#include "join_call.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

static const char *const join_texts[JOIN_STATEMENTS] = {
    [JOIN_ADD_REQUEST] = "INSERT INTO $requests(n, request, time, features)"
                         " VALUES(?1, ?2, ?3, ?4)",
    [JOIN_ROW] = "SELECT time, request FROM $requests WHERE n = ?1",
    [JOIN_FEATURES] = "SELECT features FROM $requests WHERE n = ?1",
    [JOIN_SINCE] = "SELECT n, request, time, features FROM $requests"
                   " WHERE n > ?1 ORDER BY n",
    [JOIN_DUE] = "SELECT n, request, time, features FROM $requests"
                 " WHERE time > ?1 AND time <= ?2 ORDER BY time, n",
    [JOIN_ADD_EXAMPLE] = "INSERT INTO $examples(number, request, time, kind,"
                         " label, weight, log_odds, features)"
                         " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [JOIN_CHUNK_READ] = "SELECT states FROM $states WHERE chunk = ?1",
    [JOIN_CHUNK_WRITE] = "INSERT OR REPLACE INTO $states(chunk, states)"
                         " VALUES(?1, ?2)",
    [JOIN_PLACE] = "SELECT n FROM $places WHERE run = ?1 AND hash = ?2",
    [JOIN_ADD_PLACE] = "INSERT INTO $places(run, hash, n) VALUES(?1, ?2, ?3)",
    [JOIN_ADD_RUN] = "INSERT INTO $runs(run, newest, filter)"
                     " VALUES(?1, ?2, ?3)",
    [JOIN_ADD_ACTION] = "INSERT OR IGNORE INTO $actions(hash, request, time,"
                        " kind) VALUES(?1, ?2, ?3, ?4)",
    [JOIN_ACTIONS_OF] = "SELECT time, kind FROM $actions"
                        " WHERE hash = ?1 AND request = ?2"
                        " ORDER BY time, kind",
    [JOIN_REMOVE_ACTIONS] = "DELETE FROM $actions"
                            " WHERE hash = ?1 AND request = ?2",
    [JOIN_BEST] = "SELECT kind, label FROM $best WHERE n = ?1",
    [JOIN_SET_BEST] = "INSERT OR REPLACE INTO $best(n, kind, label)"
                      " VALUES(?1, ?2, ?3)",
    [JOIN_REMOVE_BEST] = "DELETE FROM $best WHERE n = ?1",
    [JOIN_REMOVE_REQUESTS] = "DELETE FROM $requests WHERE time <= ?1",
    [JOIN_FIRST_REQUEST] = "SELECT min(n) FROM $requests",
    [JOIN_REMOVE_CHUNKS] = "DELETE FROM $states WHERE chunk < ?1",
    [JOIN_REMOVE_PLACES] = "DELETE FROM $places WHERE run = ?1",
    [JOIN_REMOVE_RUN] = "DELETE FROM $runs WHERE run = ?1",
    [JOIN_EXPIRE_ACTIONS] = "DELETE FROM $actions WHERE time <= ?1",
};

static int join_is_name(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }

char *ext_join_sql(const struct ext_joiner *joiner, const char *text) {
  sqlite3_str *sql = sqlite3_str_new(NULL);
  while (*text) {
    int n = 0;
    if (*text != '$' && *text != '@') {
      sqlite3_str_appendchar(sql, 1, *text++);
      continue;
    }
    while (join_is_name(text[1 + n]))
      n++;
    if (*text == '$')
      sqlite3_str_appendf(sql, "\"%w\".", joiner->schema);
    sqlite3_str_appendf(sql, "\"%w_%.*s\"", joiner->table, n, text + 1);
    text += 1 + n;
  }
  return sqlite3_str_finish(sql);
}

int ext_join_exec(sqlite3 *db, const struct ext_joiner *joiner,
                  const char *text, char **err) {
  char *sql = ext_join_sql(joiner, text);
  int rc = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  return ext_sql_error(err, db, rc);
}

int ext_join_prepare(sqlite3 *db, const struct ext_joiner *joiner,
                     const char *text, sqlite3_stmt **statement, char **err) {
  char *sql = ext_join_sql(joiner, text);
  int rc;
  *statement = NULL;
  rc = sql ? sqlite3_prepare_v2(db, sql, -1, statement, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  return ext_sql_error(err, db, rc);
}

int ext_join_statement(struct join_call *call, enum join_statement which,
                       sqlite3_stmt **statement) {
  int rc = SQLITE_OK;
  if (call->statements[which] == NULL)
    rc = ext_join_prepare(call->db, call->joiner, join_texts[which],
                          &call->statements[which], call->err);
  *statement = call->statements[which];
  return rc;
}

int ext_join_step(struct join_call *call, sqlite3_stmt *statement, int *row) {
  int rc = sqlite3_step(statement);
  *row = rc == SQLITE_ROW;
  if (rc == SQLITE_ROW || rc == SQLITE_DONE)
    return SQLITE_OK;
  return ext_sql_error(call->err, call->db, sqlite3_reset(statement));
}

int ext_join_do(struct join_call *call, sqlite3_stmt *statement) {
  int row;
  int rc = ext_join_step(call, statement, &row);
  (void)sqlite3_reset(statement);
  return rc;
}

void ext_join_finalize(struct join_call *call) {
  for (int i = 0; i < JOIN_STATEMENTS; i++)
    sqlite3_finalize(call->statements[i]);
  memset(call->statements, 0, sizeof call->statements);
}
