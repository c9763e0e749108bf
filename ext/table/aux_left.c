/* SPDX-License-Identifier: MIT
**
** aux_left.c -- deletes leftover columns of removed rows, before a function
** creates rows with their keys again.
**
** Rows that expire, are evicted or are removed by a function leave their shadow
** row behind (aux_columns.h).  A statement that creates a row with such a key
** deletes the leftover in its own transaction (ext_aux_clean).  The writes of a
** function persist even if the transaction is rolled back, so the leftover must
** be deleted at once, too, just as a new text key is added at once (keys.c):
** through the user's connection, or another one outside its transaction.
**
** WRITING   In a transaction that has written to the database neither is
**           possible.  There the leftover is deleted in the transaction, and
**           ROLLBACK restores it.
** COST      Keys that are rows cost one emb_exists, the others one lookup in
**           the shadow table each.  Only shadow rows that exist are deleted,
**           with one statement per LEFT_KEYS of them.
*/
#include "aux_columns.h"
SQLITE_EXTENSION_INIT3

enum { LEFT_KEYS = 512 };

struct aux_left {
  struct ext_table *table;
  sqlite3_stmt *look; /* looks up the shadow row of a key */
  sqlite3 *other;     /* connection that deletes; NULL: the user's */
  int is_open;        /* `other` has been chosen */
  int64_t keys[LEFT_KEYS];
  size_t n;
};

static int left_open(struct aux_left *left, char **err) {
  struct ext_table *table = left->table;
  int rc;
  if (left->is_open)
    return SQLITE_OK;
  rc = ext_keys_writer(table, &left->other, err);
  left->is_open = rc == SQLITE_OK || rc == SQLITE_LOCKED;
  if (rc != SQLITE_LOCKED)
    return rc;
  sqlite3_free(*err);
  *err = NULL;
  return SQLITE_OK;
}

/* Deletes the collected keys in one statement, which is a transaction of its
** own if none is open. */
static int left_delete(struct aux_left *left, char **err) {
  struct ext_table *table = left->table;
  sqlite3_str *sql;
  sqlite3 *db;
  char *text;
  int rc = left_open(left, err);
  if (rc != SQLITE_OK)
    return rc;
  db = left->other ? left->other : table->conn->db;
  sql = sqlite3_str_new(db);
  sqlite3_str_appendf(sql,
                      "DELETE FROM \"%w\".\"%w_" EXT_AUX "\" WHERE id IN (",
                      left->other ? "main" : table->schema, table->name);
  for (size_t i = 0; i < left->n; i++)
    sqlite3_str_appendf(sql, i ? ",%lld" : "%lld", (long long)left->keys[i]);
  sqlite3_str_appendchar(sql, 1, ')');
  text = sqlite3_str_finish(sql);
  rc = text ? ext_exec(db, err, "%s", text) : SQLITE_NOMEM;
  sqlite3_free(text);
  left->n = 0;
  return rc;
}

static int left_prepare(struct aux_left *left, char **err) {
  struct ext_table *table = left->table;
  char *sql;
  int rc;
  if (left->look)
    return SQLITE_OK;
  sql = sqlite3_mprintf("SELECT 1 FROM \"%w\".\"%w_" EXT_AUX "\" WHERE id = ?1",
                        table->schema, table->name);
  rc = sql ? sqlite3_prepare_v2(table->conn->db, sql, -1, &left->look, NULL)
           : SQLITE_NOMEM;
  sqlite3_free(sql);
  return rc == SQLITE_OK ? rc : ext_aux_error(table, rc, err);
}

/* Collects a key that is not a row, if it has a shadow row. */
static int left_look(struct aux_left *left, int64_t key, char **err) {
  int rc = left_prepare(left, err), is;
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(left->look, 1, key);
  is = sqlite3_step(left->look) == SQLITE_ROW;
  rc = sqlite3_reset(left->look);
  if (rc != SQLITE_OK)
    return ext_aux_error(left->table, rc, err);
  if (is)
    left->keys[left->n++] = key;
  return left->n == LEFT_KEYS ? left_delete(left, err) : SQLITE_OK;
}

int ext_aux_forget_left(struct ext_table *table, const int64_t *keys, size_t n,
                        char **err) {
  struct aux_left left = {.table = table};
  uint8_t are[LEFT_KEYS];
  int rc = SQLITE_OK;
  for (size_t at = 0; rc == SQLITE_OK && at < n; at += LEFT_KEYS) {
    if (EMB_SEED(SEED_COLUMNS_LEFT_OVER))
      break;
    size_t m = n - at < LEFT_KEYS ? n - at : LEFT_KEYS;
    rc = ext_keys_exist(table->link, keys + at, m, are, err);
    for (size_t i = 0; i < m && rc == SQLITE_OK; i++)
      if (!are[i])
        rc = left_look(&left, keys[at + i], err);
  }
  if (rc == SQLITE_OK && left.n)
    rc = left_delete(&left, err);
  sqlite3_finalize(left.look);
  return ext_keys_disconnect(table, left.other, rc, err);
}
