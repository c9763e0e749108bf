/* SPDX-License-Identifier: MIT
**
** dict.c -- looks up the number of a text, and the text of a number.
**
** LIMIT     A text added by this connection's open transaction may be undone.
**           Its number is above the largest that existed before the first such
**           text, and the text is read from SQLite each time.  This ends when
**           the transaction ends (ext_dict_end), or is seen to have ended.
**           Until then the limit may be lower than necessary, which is
**           harmless.
*/
#include "dict_sql.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

struct ext_dict *ext_dict_new(void) {
  struct ext_dict *dict = sqlite3_malloc64(sizeof *dict);
  if (dict == NULL)
    return NULL;
  memset(dict, 0, sizeof *dict);
  dict->limit = INT64_MAX;
  dict->cache = ext_cache_new();
  if (dict->cache == NULL) {
    sqlite3_free(dict);
    dict = NULL;
  }
  return dict;
}

void ext_dict_idle(struct ext_dict *dict) {
  if (dict == NULL)
    return;
  for (int i = 0; i < DICT_STATEMENTS; i++) {
    sqlite3_finalize(dict->statements[i]);
    dict->statements[i] = NULL;
  }
  dict->keeps = 0;
}

void ext_dict_free(struct ext_dict *dict) {
  if (dict == NULL)
    return;
  emb_check(ext_dict_valid(dict));
  ext_dict_idle(dict);
  ext_cache_free(dict->cache);
  sqlite3_free(dict->schema);
  sqlite3_free(dict->table);
  sqlite3_free(dict->text);
  sqlite3_free(dict);
}

/* ---- a call begins ------------------------------------------------------- */

/* Sets the names, and finalizes statements prepared for other names.  Two
** tables that name one store, because a shadow table was edited, have each
** their own texts, so what was cached for one is not used for the other. */
static int dict_name(struct ext_dict *dict, sqlite3 *db, const char *schema,
                     const char *table) {
  emb_assert(!dict->db || dict->db == db); /* as its statements */
  dict->db = db;
  if (dict->table && strcmp(dict->table, table) == 0 &&
      strcmp(dict->schema, schema) == 0)
    return SQLITE_OK;
  ext_dict_idle(dict);
  ext_dict_forget(dict);
  sqlite3_free(dict->schema);
  sqlite3_free(dict->table);
  dict->schema = sqlite3_mprintf("%s", schema);
  dict->table = sqlite3_mprintf("%s", table);
  if (dict->schema && dict->table)
    return SQLITE_OK;
  sqlite3_free(dict->table);
  dict->table = NULL;
  return SQLITE_NOMEM;
}

static int dict_check(struct ext_dict *dict, int64_t *removals,
                      int64_t *largest, char **err) {
  sqlite3_stmt *statement;
  int rc = ext_dict_statement(dict, DICT_CHECK, &statement, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = sqlite3_step(statement);
  if (rc == SQLITE_ROW) {
    *removals = sqlite3_column_int64(statement, 0);
    *largest = sqlite3_column_int64(statement, 1);
  } else if (rc == SQLITE_DONE) {
    rc = SQLITE_CORRUPT_VTAB;
    ext_error(err, rc, "%s_emb has no row", dict->table);
    ext_dict_done(dict, DICT_CHECK, statement, SQLITE_OK, err);
    return rc;
  }
  return ext_dict_done(dict, DICT_CHECK, statement, rc, err);
}

int ext_dict_begin(struct ext_dict *dict, sqlite3 *db, const char *schema,
                   const char *table, char **err) {
  int64_t removals = 0, largest = 0;
  int rc = dict_name(dict, db, schema, table);
  if (rc != SQLITE_OK)
    return rc;
  dict->keeps = 1;
  if (sqlite3_txn_state(db, schema) != SQLITE_TXN_WRITE)
    ext_dict_end(dict);
  rc = dict_check(dict, &removals, &largest, err);
  if (rc != SQLITE_OK)
    return rc;
  if (removals != dict->removals && !EMB_SEED(SEED_REMOVED_TEXT_REMEMBERED))
    ext_dict_forget(dict);
  dict->removals = removals;
  dict->newest = largest;
  emb_check(ext_dict_valid(dict));
  return SQLITE_OK;
}

void ext_dict_forget(struct ext_dict *dict) {
  ext_cache_clear(dict->cache);
  dict->ahead = 0;
  dict->owed = 0;
}

void ext_dict_end(struct ext_dict *dict) {
  if (dict == NULL)
    return;
  dict->limit = INT64_MAX;
  dict->marks = 0;
}

int ext_dict_is_committed(const struct ext_dict *dict, int64_t id) {
  return id <= dict->limit;
}

int64_t ext_dict_removals(const struct ext_dict *dict) {
  return dict->removals;
}

/* ---- looking up ---------------------------------------------------------- */

static int dict_look(sqlite3_stmt *find, const struct ext_text *text,
                     int64_t *id) {
  int rc = ext_dict_bind(find, 1, text);
  *id = 0;
  if (rc != SQLITE_OK)
    return rc;
  rc = sqlite3_step(find);
  if (rc == SQLITE_ROW)
    *id = sqlite3_column_int64(find, 0);
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? sqlite3_reset(find) : rc;
}

/* Keeps SQLite reading until the statement is reset, so that the lookups of a
** batch do not each lock and unlock the file.  NULL: it does not. */
static sqlite3_stmt *dict_stay(struct ext_dict *dict) {
  sqlite3_stmt *check = dict->statements[DICT_CHECK];
  if (check && sqlite3_step(check) != SQLITE_ROW) {
    sqlite3_reset(check);
    check = NULL;
  }
  return check;
}

void ext_dict_stay(struct ext_dict *dict) { (void)dict_stay(dict); }

void ext_dict_leave(struct ext_dict *dict) {
  sqlite3_reset(dict->statements[DICT_CHECK]);
}

/* Looks up the texts whose ids[i] is 0. */
static int dict_look_each(struct ext_dict *dict, const struct ext_text *texts,
                          size_t n, int64_t *ids, char **err) {
  sqlite3_stmt *statement;
  int rc = ext_dict_statement(dict, DICT_FIND, &statement, err);
  if (rc != SQLITE_OK)
    return rc;
  for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
    if (ids[i])
      continue;
    rc = dict_look(statement, &texts[i], &ids[i]);
    if (rc == SQLITE_OK && ids[i])
      ext_dict_remember(dict, &texts[i], ids[i]);
  }
  return ext_dict_done(dict, DICT_FIND, statement, rc, err);
}

/* As above, for many texts.  If the limits of the connection do not allow a
** statement with many parameters, looks them up one by one. */
static int dict_look_all(struct ext_dict *dict, const struct ext_text *texts,
                         size_t n, int64_t *ids, char **err) {
  sqlite3_stmt *statement;
  int rc = ext_dict_statement(dict, DICT_MANY, &statement, err);
  if (rc == SQLITE_ERROR || rc == SQLITE_TOOBIG) {
    sqlite3_free(*err);
    *err = NULL;
    return dict_look_each(dict, texts, n, ids, err);
  }
  if (rc != SQLITE_OK)
    return rc;
  rc = ext_dict_look_many(dict, statement, texts, n, ids);
  return ext_dict_done(dict, DICT_MANY, statement, rc, err);
}

/* Looks up marked texts among those whose ids[i] is 0.  They are not cached: a
** writer of a row must clear the mark first. */
static int dict_look_marked(struct ext_dict *dict, const struct ext_text *texts,
                            size_t n, int64_t *ids, char **err) {
  sqlite3_stmt *statement;
  int rc = ext_dict_statement(dict, DICT_FIND_MARKED, &statement, err);
  if (rc != SQLITE_OK)
    return rc;
  for (size_t i = 0; i < n && rc == SQLITE_OK; i++)
    if (ids[i] == 0)
      rc = dict_look(statement, &texts[i], &ids[i]);
  return ext_dict_done(dict, DICT_FIND_MARKED, statement, rc, err);
}

int ext_dict_find(struct ext_dict *dict, const struct ext_text *texts, size_t n,
                  int64_t *ids, size_t *absent, char **err) {
  size_t looked = ext_cache_find(dict->cache, texts, n, ids);
  sqlite3_stmt *reads;
  int rc;
  *absent = 0;
  if (looked == 0)
    return SQLITE_OK;
  reads = looked > 1 ? dict_stay(dict) : NULL;
  rc = looked < DICT_MANY_MIN ? dict_look_each(dict, texts, n, ids, err)
                              : dict_look_all(dict, texts, n, ids, err);
  for (size_t i = 0; i < n; i++)
    *absent += ids[i] == 0;
  if (rc == SQLITE_OK && *absent && dict->removals)
    rc = dict_look_marked(dict, texts, n, ids, err);
  if (rc == SQLITE_OK)
    rc = ext_dict_ahead(dict, looked - *absent, err);
  sqlite3_reset(reads);
  return rc;
}

int ext_dict_equal(struct ext_dict *dict, sqlite3_value *number,
                   int (*visit)(void *arg, int64_t id), void *arg, char **err) {
  sqlite3_stmt *statement = NULL;
  char *sql = sqlite3_mprintf(
      "SELECT id FROM (SELECT id, CAST(key AS TEXT) AS key FROM "
      "\"%w\".\"%w_keys\") WHERE key = CAST(?1 AS NUMERIC)",
      dict->schema, dict->table);
  int rc = sql ? sqlite3_prepare_v2(dict->db, sql, -1, &statement, NULL)
               : SQLITE_NOMEM;
  sqlite3_free(sql);
  if (rc == SQLITE_OK)
    rc = sqlite3_bind_value(statement, 1, number);
  while (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW)
    rc = visit(arg, sqlite3_column_int64(statement, 0));
  if (rc == SQLITE_DONE)
    rc = SQLITE_OK;
  rc = ext_sql_error(err, dict->db, rc);
  sqlite3_finalize(statement);
  return rc;
}

/* Copies the text of the current row; the copy is valid until the next call. */
static int dict_copy(struct ext_dict *dict, sqlite3_stmt *row,
                     struct ext_text *text) {
  const char *at = (const char *)sqlite3_column_text(row, 0);
  size_t n = (size_t)sqlite3_column_bytes(row, 0);
  if (at == NULL)
    return SQLITE_NOMEM;
  if (n >= dict->room) {
    sqlite3_free(dict->text);
    dict->text = sqlite3_malloc64(2 * n + 64);
    dict->room = dict->text ? 2 * n + 64 : 0;
  }
  if (dict->text == NULL)
    return SQLITE_NOMEM;
  memcpy(dict->text, at, n + 1);
  *text = (struct ext_text){dict->text, n};
  return SQLITE_OK;
}

int ext_dict_text(struct ext_dict *dict, int64_t id, struct ext_text *text,
                  char **err) {
  sqlite3_stmt *statement;
  int rc;
  *text = (struct ext_text){NULL, 0};
  if (ext_cache_text(dict->cache, id, text))
    return SQLITE_OK;
  rc = ext_dict_statement(dict, DICT_TEXT, &statement, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = sqlite3_bind_int64(statement, 1, id);
  if (rc == SQLITE_OK)
    rc = sqlite3_step(statement);
  if (rc == SQLITE_ROW) {
    rc = dict_copy(dict, statement, text);
    if (rc == SQLITE_OK && sqlite3_column_int(statement, 1))
      ext_dict_remember(dict, text, id);
  }
  rc = ext_dict_done(dict, DICT_TEXT, statement, rc, err);
  return rc == SQLITE_OK && text->at ? ext_dict_ahead(dict, 1, err) : rc;
}
