/* SPDX-License-Identifier: MIT
**
** statement.c -- the prepared statements of a dictionary.
*/
#include "dict_sql.h"
SQLITE_EXTENSION_INIT3

static const char *const statement_texts[DICT_STATEMENTS] = {
    [DICT_CHECK] = ("SELECT removals, (SELECT max(id) FROM \"%w\".\"%w_keys\") "
                    "FROM \"%w\".\"%w_emb\" WHERE id = 1"),
    [DICT_FIND] = "SELECT id FROM \"%w\".\"%w_keys\" WHERE key = ?1",
    [DICT_FIND_MARKED] = ("SELECT id FROM \"%w\".\"%w_keys\" WHERE key = "
                          "CAST(?1 AS BLOB)"),
    [DICT_TEXT] = ("SELECT CAST(key AS TEXT), typeof(key) = 'text' FROM "
                   "\"%w\".\"%w_keys\" WHERE id = ?1"),
    [DICT_AHEAD] = ("SELECT id, key FROM \"%w\".\"%w_keys\" WHERE id > ?1 AND "
                    "id <= ?2 AND typeof(key) = 'text' ORDER BY id LIMIT ?3"),
    [DICT_UNMARK] = ("UPDATE \"%w\".\"%w_keys\" SET key = CAST(key AS TEXT) "
                     "WHERE id = ?1 AND typeof(key) = 'blob'"),
    [DICT_ADD] = "INSERT INTO \"%w\".\"%w_keys\"(id, key) VALUES(?1, ?2)",
};

/* The SQL of DICT_MANY: many values joined to the index of words_keys
** (many.c). */
static char *statement_of_many(const struct ext_dict *dict) {
  sqlite3_str *sql = sqlite3_str_new(dict->db);
  sqlite3_str_appendall(sql, "SELECT column1, id FROM (VALUES(0, ?1)");
  for (int i = 1; i < DICT_MANY_STEP; i++)
    sqlite3_str_appendf(sql, ",(%d,?%d)", i, i + 1);
  sqlite3_str_appendf(sql, ") CROSS JOIN \"%w\".\"%w_keys\" ON key = column2",
                      dict->schema, dict->table);
  return sqlite3_str_finish(sql);
}

int ext_dict_statement(struct ext_dict *dict, enum dict_statement which,
                       sqlite3_stmt **statement, char **err) {
  char *sql;
  int rc;
  *statement = dict->statements[which];
  if (*statement)
    return SQLITE_OK;
  sql = which == DICT_MANY
            ? statement_of_many(dict)
            : sqlite3_mprintf(statement_texts[which], dict->schema, dict->table,
                              dict->schema, dict->table);
  rc = sql ? sqlite3_prepare_v3(dict->db, sql, -1, SQLITE_PREPARE_PERSISTENT,
                                statement, NULL)
           : SQLITE_NOMEM;
  sqlite3_free(sql);
  if (rc == SQLITE_OK && dict->keeps)
    dict->statements[which] = *statement;
  return ext_sql_error(err, dict->db, rc);
}

int ext_dict_done(struct ext_dict *dict, enum dict_statement which,
                  sqlite3_stmt *statement, int rc, char **err) {
  if (rc == SQLITE_ROW || rc == SQLITE_DONE || rc == SQLITE_OK)
    rc = SQLITE_OK;
  else
    rc = ext_sql_error(err, dict->db, rc);
  if (statement == dict->statements[which]) {
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement); /* they point into the caller's memory */
  } else {
    sqlite3_finalize(statement);
  }
  return rc;
}

int ext_dict_bind(sqlite3_stmt *statement, int i, const struct ext_text *text) {
  return sqlite3_bind_text64(statement, i, text->n ? text->at : "", text->n,
                             SQLITE_STATIC, SQLITE_UTF8);
}

void ext_dict_remember(struct ext_dict *dict, const struct ext_text *text,
                       int64_t id) {
  if (id <= dict->limit || EMB_SEED(SEED_UNCOMMITTED_TEXT_REMEMBERED))
    ext_cache_add(dict->cache, text, id);
}
