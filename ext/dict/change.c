/* SPDX-License-Identifier: MIT
**
** change.c -- adds and removes texts; creates, renames and drops the shadow
** table.
**
** NOW       A call that acts at once adds its new texts in a transaction of its
**           own: BEGIN IMMEDIATE, the texts still missing, COMMIT.  It waits
**           for SQLite's write lock like any other statement.  If the
**           connection is in a transaction of the user, another connection to
**           the same file runs it, with a dictionary of its own for that time.
** UNDONE    The user's connection must not be left in that transaction.  But
**           when memory runs out there is no ROLLBACK: within a function,
**           SQLite runs no more statements once an allocation has failed.  Even
**           then it undoes the transaction when a reading statement ends,
**           because the result of that statement would be wrong.  So one such
**           statement, prepared beforehand, is in the middle of reading from
**           BEGIN to the end.  Neither is there a ROLLBACK while the user's
**           statement is interrupted: another statement prepared beforehand,
**           which writes, ends the transaction then (value/savepoint.c).
** ROWID     last_insert_rowid() keeps the user's value.
*/
#include "dict_sql.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Numbers checked in one step of ext_dict_clean. */
enum { DICT_CLEAN_STEP = 1024 };

/* ---- adding -------------------------------------------------------------- */

/* Assigns the next number, skipping numbers that have a row. */
static int next_number(struct ext_dict *dict, const struct ext_dict_rows *rows,
                       int64_t *id, char **err) {
  uint8_t taken = 1;
  int rc = SQLITE_OK;
  while (rc == SQLITE_OK && taken) {
    if (dict->newest == INT64_MAX)
      return ext_error(err, SQLITE_FULL, "%s_keys has no number left",
                       dict->table);
    *id = ++dict->newest;
    rc = rows->exist(rows->arg, id, 1, &taken, err);
  }
  return rc;
}

static int add_one(struct ext_dict *dict, const struct ext_text *text,
                   int64_t *id, const struct ext_dict_rows *rows, char **err) {
  sqlite3_stmt *statement;
  int64_t number = 0;
  int rc = next_number(dict, rows, &number, err);
  if (rc == SQLITE_OK)
    rc = ext_dict_statement(dict, DICT_ADD, &statement, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = sqlite3_bind_int64(statement, 1, number);
  if (rc == SQLITE_OK)
    rc = ext_dict_bind(statement, 2, text);
  if (rc == SQLITE_OK)
    rc = sqlite3_step(statement);
  rc = ext_dict_done(dict, DICT_ADD, statement, rc, err);
  if (rc == SQLITE_OK)
    *id = number;
  return rc;
}

/* Removes the mark of a text, if it has one. */
static int add_marked(struct ext_dict *dict, int64_t id, char **err) {
  sqlite3_stmt *statement;
  int rc = ext_dict_statement(dict, DICT_UNMARK, &statement, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = sqlite3_bind_int64(statement, 1, id);
  if (rc == SQLITE_OK)
    rc = sqlite3_step(statement);
  return ext_dict_done(dict, DICT_UNMARK, statement, rc, err);
}

/* look: look each text up first. */
static int add_all(struct ext_dict *dict, const struct ext_dict_batch *batch,
                   int look, const struct ext_dict_rows *rows, char **err) {
  const struct ext_text *texts = batch->texts;
  int64_t *ids = batch->ids;
  size_t n = batch->n;
  sqlite3_int64 last = sqlite3_last_insert_rowid(dict->db);
  int rc = SQLITE_OK;
  for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
    size_t absent = 1;
    if (look && ids[i] == 0)
      rc = ext_dict_find(dict, &texts[i], 1, &ids[i], &absent, err);
    if (rc == SQLITE_OK && ids[i] == 0)
      rc = add_one(dict, &texts[i], &ids[i], rows, err);
    else if (rc == SQLITE_OK && dict->removals)
      rc = add_marked(dict, ids[i], err);
  }
  sqlite3_set_last_insert_rowid(dict->db, last);
  return rc;
}

int ext_dict_add(struct ext_dict *dict, const struct ext_dict_batch *batch,
                 const struct ext_dict_rows *rows, char **err) {
  emb_assert(sqlite3_txn_state(dict->db, dict->schema) == SQLITE_TXN_WRITE);
  if (dict->limit == INT64_MAX)
    dict->limit = dict->newest;
  return add_all(dict, batch, batch->n > 1, rows, err); /* look for repeats */
}

/* ---- at once ------------------------------------------------------------- */

/* A transaction that acts at once. */
struct dict_now {
  struct ext_dict *dict;   /* the caller's */
  struct ext_dict *writer; /* does the writing: the same, or one for `other` */
  struct ext_dict_held at;
};

/* Prepares the reading statement of UNDONE.  A separate connection needs none,
** because closing it undoes its transaction. */
static int now_prepare(struct dict_now *now, sqlite3 *other) {
  struct ext_dict *dict = now->dict;
  char *sql;
  int rc;
  if (other || EMB_SEED(SEED_TEXTS_WITHOUT_ROLLBACK))
    return SQLITE_OK;
  sql = sqlite3_mprintf("SELECT id FROM \"%w\".\"%w_emb\"", dict->schema,
                        dict->table);
  rc = sql ? sqlite3_prepare_v2(dict->db, sql, -1, &now->at.reads, NULL)
           : SQLITE_NOMEM;
  sqlite3_free(sql);
  return rc ? rc
            : sqlite3_prepare_v2(dict->db, "BEGIN IMMEDIATE", -1,
                                 &now->at.refused, NULL);
}

/* Undoes the transaction, if it is open. */
static void now_undo(struct ext_dict_held *held) {
  sqlite3_exec(held->db, "ROLLBACK", NULL, NULL, NULL);
  if (held->refused && !sqlite3_get_autocommit(held->db)) {
    (void)sqlite3_step(held->refused);
    (void)sqlite3_reset(held->refused);
  }
}

static int now_read(struct dict_now *now, char **err) {
  int rc;
  if (now->at.reads == NULL || sqlite3_step(now->at.reads) == SQLITE_ROW)
    return SQLITE_OK;
  rc = sqlite3_reset(now->at.reads);
  return rc == SQLITE_OK ? ext_error(err, SQLITE_CORRUPT_VTAB,
                                     "%s_emb has no row", now->dict->table)
                         : ext_sql_error(err, now->at.db, rc);
}

void ext_dict_let_go(struct ext_dict_held *held) {
  if (held->db && sqlite3_exec(held->db, "COMMIT", NULL, NULL, NULL))
    now_undo(held);
  sqlite3_finalize(held->reads);
  sqlite3_finalize(held->refused);
  *held = (struct ext_dict_held){NULL, NULL, NULL};
}

/* rc: the result so far.  After an error the transaction is undone. */
static int now_end(struct dict_now *now, int rc, char **err) {
  if (rc == SQLITE_OK)
    rc = ext_exec(now->at.db, err, "COMMIT");
  if (rc != SQLITE_OK)
    now_undo(&now->at);
  sqlite3_finalize(now->at.reads);
  sqlite3_finalize(now->at.refused);
  if (now->writer != now->dict)
    ext_dict_free(now->writer);
  now->writer = NULL;
  return rc;
}

/* Begins with copies of the caller's names, because they may be the strings
** that the dictionary itself owns. */
static int now_names(struct dict_now *now, sqlite3 *other, char **err) {
  char *schema = sqlite3_mprintf("%s", other ? "main" : now->dict->schema);
  char *table = sqlite3_mprintf("%s", now->dict->table);
  int rc = schema && table
               ? ext_dict_begin(now->writer, now->at.db, schema, table, err)
               : SQLITE_NOMEM;
  sqlite3_free(schema);
  sqlite3_free(table);
  return rc;
}

/* On error no transaction is open, and there is no writer. */
static int now_begin(struct dict_now *now, struct ext_dict *dict,
                     sqlite3 *other, char **err) {
  int rc;
  emb_assert(other != dict->db);
  emb_assert(other || sqlite3_txn_state(dict->db, NULL) != SQLITE_TXN_WRITE);
  *now = (struct dict_now){dict,
                           other ? ext_dict_new() : dict,
                           {other ? other : dict->db, NULL, NULL}};
  if (now->writer == NULL)
    return SQLITE_NOMEM;
  rc = ext_sql_error(err, now->at.db, now_prepare(now, other));
  if (rc == SQLITE_OK)
    rc = ext_exec(now->at.db, err, "BEGIN IMMEDIATE");
  if (rc == SQLITE_OK) {
    rc = now_read(now, err);
    if (rc == SQLITE_OK)
      rc = now_names(now, other, err);
    return rc == SQLITE_OK ? rc : now_end(now, rc, err);
  }
  /* A progress handler may report an interrupt of a BEGIN that was done. */
  if (now->at.refused && !sqlite3_get_autocommit(now->at.db))
    now_undo(&now->at);
  sqlite3_finalize(now->at.reads);
  sqlite3_finalize(now->at.refused);
  if (other)
    ext_dict_free(now->writer);
  now->writer = NULL;
  return rc;
}

/* Returns an array with 1 for each text that had no number before. */
static uint8_t *now_new(const struct ext_dict_batch *batch) {
  uint8_t *is_new = sqlite3_malloc64(batch->n + 1);
  for (size_t i = 0; is_new && i < batch->n; i++)
    is_new[i] = batch->ids[i] == 0;
  return is_new;
}

int ext_dict_add_now(struct ext_dict *dict, sqlite3 *other,
                     const struct ext_dict_batch *batch,
                     const struct ext_dict_rows *rows, char **err) {
  int64_t removals = dict->removals;
  uint8_t *is_new = now_new(batch);
  struct dict_now now;
  int same, rc = is_new ? now_begin(&now, dict, other, err) : SQLITE_NOMEM;
  if (rc != SQLITE_OK) {
    sqlite3_free(is_new);
    return rc;
  }
  same = now.writer->removals == removals;
  now.writer->limit = now.writer->newest;
  rc = add_all(now.writer, batch, 1, rows, err);
  rc = now_end(&now, rc, err);
  if (other == NULL)
    ext_dict_end(dict);
  /* The connection must find the new texts even if what it reads is older.
  ** Numbers known before may be out of date if texts were removed. */
  for (size_t i = 0; i < batch->n && rc == SQLITE_OK; i++)
    if (same || is_new[i])
      ext_cache_add(dict->cache, &batch->texts[i], batch->ids[i]);
  sqlite3_free(is_new);
  return rc;
}

static int restore_one(struct ext_dict *dict, const struct ext_text *text,
                       int64_t id, uint8_t *taken, char **err) {
  sqlite3_stmt *statement;
  size_t absent;
  int64_t now;
  int rc = ext_dict_find(dict, text, 1, &now, &absent, err);
  *taken = rc == SQLITE_OK && now && now != id;
  if (rc == SQLITE_OK && now == id && absent)
    return add_marked(dict, id, err);
  if (rc != SQLITE_OK || now)
    return rc;
  rc = ext_dict_statement(dict, DICT_ADD, &statement, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = sqlite3_bind_int64(statement, 1, id);
  if (rc == SQLITE_OK)
    rc = ext_dict_bind(statement, 2, text);
  if (rc == SQLITE_OK)
    rc = sqlite3_step(statement);
  return ext_dict_done(dict, DICT_ADD, statement, rc, err);
}

int ext_dict_restore(struct ext_dict *dict, sqlite3 *other,
                     const struct ext_dict_batch *batch, uint8_t *taken,
                     char **err) {
  sqlite3_int64 last = sqlite3_last_insert_rowid(dict->db);
  struct dict_now now;
  int rc = now_begin(&now, dict, other, err);
  ext_dict_forget(dict); /* the cache may still have these texts */
  if (rc != SQLITE_OK)
    return rc;
  now.writer->limit = 0; /* not committed before the end: do not cache */
  for (size_t i = 0; i < batch->n && rc == SQLITE_OK; i++)
    rc = restore_one(now.writer, &batch->texts[i], batch->ids[i], &taken[i],
                     err);
  rc = now_end(&now, rc, err);
  ext_dict_end(dict);
  sqlite3_set_last_insert_rowid(dict->db, last);
  return rc;
}

int ext_dict_hold(struct ext_dict *dict, sqlite3 *other, int64_t *removals,
                  struct ext_dict_held *held, char **err) {
  struct dict_now now;
  int rc = now_begin(&now, dict, other, err);
  if (rc != SQLITE_OK)
    return rc;
  *removals = now.writer->removals;
  *held = now.at;
  if (now.writer != dict)
    ext_dict_free(now.writer);
  return SQLITE_OK;
}

/* ---- removing ------------------------------------------------------------ */

/* The action on a number. */
enum clean_what { CLEAN_NOTHING, CLEAN_MARK, CLEAN_UNMARK, CLEAN_REMOVE };

struct clean {
  struct ext_dict *dict;
  sqlite3_stmt *list, *change[4]; /* by clean_what; NULL: nothing to do */
  int64_t ids[DICT_CLEAN_STEP];
  uint8_t marked[DICT_CLEAN_STEP], are[DICT_CLEAN_STEP];
  size_t n;
  int64_t changed;
};

/* Reads the next numbers after `after`, except the largest of all. */
static int clean_read(struct clean *clean, int64_t after) {
  int rc = sqlite3_bind_int64(clean->list, 1, after);
  clean->n = 0;
  while (rc == SQLITE_OK && (rc = sqlite3_step(clean->list)) == SQLITE_ROW) {
    clean->ids[clean->n] = sqlite3_column_int64(clean->list, 0);
    clean->marked[clean->n++] = sqlite3_column_int(clean->list, 1) != 0;
    rc = SQLITE_OK;
  }
  return rc == SQLITE_DONE ? sqlite3_reset(clean->list) : rc;
}

static enum clean_what clean_decide(const struct clean *clean, size_t i) {
  if (clean->are[i])
    return clean->marked[i] ? CLEAN_UNMARK : CLEAN_NOTHING;
  if (!clean->marked[i] && !EMB_SEED(SEED_TEXT_REMOVED_UNMARKED))
    return CLEAN_MARK;
  return clean->dict->marks ? CLEAN_NOTHING : CLEAN_REMOVE;
}

static int clean_change(struct clean *clean) {
  int rc = SQLITE_OK;
  for (size_t i = 0; i < clean->n && rc == SQLITE_OK; i++) {
    sqlite3_stmt *change = clean->change[clean_decide(clean, i)];
    if (change == NULL)
      continue;
    rc = sqlite3_bind_int64(change, 1, clean->ids[i]);
    if (rc == SQLITE_OK)
      rc = sqlite3_step(change);
    rc = rc == SQLITE_DONE ? sqlite3_reset(change) : rc;
    clean->changed += rc == SQLITE_OK;
  }
  return rc;
}

static int clean_prepare(struct ext_dict *dict, const char *format,
                         sqlite3_stmt **statement) {
  char *sql = sqlite3_mprintf(format, dict->schema, dict->table, dict->schema,
                              dict->table);
  int rc = sql ? sqlite3_prepare_v2(dict->db, sql, -1, statement, NULL)
               : SQLITE_NOMEM;
  sqlite3_free(sql);
  return rc;
}

static int clean_begin(struct clean *clean, struct ext_dict *dict) {
  static const char *const changes[] = {
      [CLEAN_MARK] = "UPDATE \"%w\".\"%w_keys\" SET key = CAST(key AS BLOB) "
                     "WHERE id = ?1",
      [CLEAN_UNMARK] = "UPDATE \"%w\".\"%w_keys\" SET key = CAST(key AS TEXT) "
                       "WHERE id = ?1",
      [CLEAN_REMOVE] = "DELETE FROM \"%w\".\"%w_keys\" WHERE id = ?1"};
  int rc = clean_prepare(dict,
                         "SELECT id, typeof(key) = 'blob' FROM "
                         "\"%w\".\"%w_keys\" WHERE id > ?1 AND id < (SELECT "
                         "max(id) FROM \"%w\".\"%w_keys\") ORDER BY id LIMIT "
                         "1024",
                         &clean->list);
  clean->dict = dict;
  for (int what = CLEAN_MARK; what <= CLEAN_REMOVE && rc == SQLITE_OK; what++)
    rc = clean_prepare(dict, changes[what], &clean->change[what]);
  return rc;
}

static void clean_end(struct clean *clean) {
  sqlite3_finalize(clean->list);
  for (int what = CLEAN_MARK; what <= CLEAN_REMOVE; what++)
    sqlite3_finalize(clean->change[what]);
  sqlite3_free(clean);
}

static int clean_all(struct clean *clean, const struct ext_dict_rows *rows,
                     char **err) {
  int64_t after = INT64_MIN;
  int rc;
  do {
    rc = clean_read(clean, after);
    if (rc == SQLITE_OK && clean->n) {
      after = clean->ids[clean->n - 1];
      rc = rows->exist(rows->arg, clean->ids, clean->n, clean->are, err);
      if (rc == SQLITE_OK)
        rc = clean_change(clean);
    }
  } while (rc == SQLITE_OK && clean->n);
  return rc;
}

int ext_dict_clean(struct ext_dict *dict, const struct ext_dict_rows *rows,
                   char **err) {
  struct clean *clean = sqlite3_malloc64(sizeof *clean);
  int64_t changed;
  int rc;
  emb_assert(sqlite3_txn_state(dict->db, dict->schema) == SQLITE_TXN_WRITE);
  if (clean == NULL)
    return SQLITE_NOMEM;
  memset(clean, 0, sizeof *clean);
  rc = clean_begin(clean, dict);
  if (rc == SQLITE_OK)
    rc = clean_all(clean, rows, err);
  if (rc != SQLITE_OK && *err == NULL)
    rc = ext_sql_error(err, dict->db, rc);
  changed = clean->changed;
  clean_end(clean);
  ext_dict_forget(dict);
  dict->marks |= changed != 0;
  if (rc == SQLITE_OK && changed)
    rc = ext_exec(dict->db, err,
                  "UPDATE \"%w\".\"%w_emb\" SET removals = removals + 1",
                  dict->schema, dict->table);
  return rc;
}

/* ---- the shadow table ---------------------------------------------------- */

int ext_dict_create(sqlite3 *db, const char *schema, const char *table,
                    char **err) {
  return ext_exec(db, err,
                  "CREATE TABLE \"%w\".\"%w_keys\"(id INTEGER PRIMARY KEY, key "
                  "TEXT UNIQUE NOT NULL)",
                  schema, table);
}

int ext_dict_rename(sqlite3 *db, const char *schema, const char *table,
                    const char *name, char **err) {
  return ext_exec(db, err,
                  "ALTER TABLE \"%w\".\"%w_keys\" RENAME TO \"%w_keys\"",
                  schema, table, name);
}

int ext_dict_drop(sqlite3 *db, const char *schema, const char *table,
                  char **err) {
  return ext_exec(db, err, "DROP TABLE IF EXISTS \"%w\".\"%w_keys\"", schema,
                  table);
}
