/* SPDX-License-Identifier: MIT
**
** keys.c -- keys between SQL and the engine, both integers and texts.
**
** All code that takes keys from SQL uses ext_keys_read or ext_key_read, and all
** code that returns one uses ext_key_result, so a function works for both kinds
** of tables.  A batch write first reads its keys, then its vectors, and only
** then adds new texts, so a refused batch leaves nothing behind.
**
** AT ONCE   emb_put and others write rows that persist even if the transaction
**           is rolled back.  Their texts must persist, too, so they are
**           committed first (dict/dict.h): by the user's connection if it is in
**           no transaction, else by another one, unless the user's connection
**           holds a lock that blocks it.  If it does, a new text is an error;
**           known texts still work.
** SCHEMA    The table object lives only as long as something holds it, which
**           may be just the caller (fn/fn.c).
*/
#include "table.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Keys per step. */
enum { KEYS_STEP = 1024 };

/* ---- reading ------------------------------------------------------------- */

void ext_keys_free(struct ext_keys *keys) {
  if (keys->owned)
    sqlite3_free(keys->at);
  ext_texts_free(&keys->texts);
  keys->owned = 0;
  keys->n = 0;
}

static struct ext_dict_batch keys_batch(const struct ext_keys *keys) {
  return (struct ext_dict_batch){
      keys->texts.at ? keys->texts.at : &keys->one_text, keys->n, keys->at};
}

int ext_keys_parse(struct ext_table *table, sqlite3_value *value,
                   const char *what, struct ext_keys *keys, char **err) {
  int rc;
  emb_assert(!keys->owned && !keys->texts.at && !keys->absent);
  if (!ext_vtab(table)->options.text_key) {
    rc = ext_keys_from_value(
        value, &(struct ext_arg){what, ext_link_interrupted, table->conn},
        &keys->at, &keys->owned, &keys->n, err);
    if (rc != SQLITE_OK)
      keys->owned = 0;
    return rc;
  }
  rc = ext_texts_from_value(
      value, &(struct ext_arg){what, ext_link_interrupted, table->conn},
      &keys->texts, err);
  if (rc != SQLITE_OK)
    return rc;
  keys->n = keys->texts.n;
  keys->at = sqlite3_malloc64((keys->n ? keys->n : 1) * sizeof *keys->at);
  keys->owned = 1;
  return keys->at ? SQLITE_OK : SQLITE_NOMEM;
}

int ext_keys_find(struct ext_table *table, struct ext_keys *keys, char **err) {
  struct ext_dict *dict = table->link ? table->link->dict : NULL;
  struct ext_dict_batch batch = keys_batch(keys);
  if (!ext_vtab(table)->options.text_key)
    return SQLITE_OK;
  keys->removals = ext_dict_removals(dict);
  return ext_dict_find(dict, batch.texts, batch.n, batch.ids, &keys->absent,
                       err);
}

int ext_keys_read(struct ext_table *table, sqlite3_value *value,
                  const char *what, struct ext_keys *keys, char **err) {
  int rc = ext_keys_parse(table, value, what, keys, err);
  return rc == SQLITE_OK ? ext_keys_find(table, keys, err) : rc;
}

/* SQLite applies no affinity to a virtual table's values, so this applies the
** column's: '7' becomes 7 (Tcl binds numbers as text), or 7 becomes '7'. */
int ext_key_read(struct ext_table *table, sqlite3_value *value,
                 struct ext_keys *key, char **err) {
  const char *what = ext_vtab(table)->key_what;
  int rc;
  key->at = &key->one;
  key->n = 1;
  if (!ext_vtab(table)->options.text_key) {
    sqlite3_value_numeric_type(value);
    return ext_key_from_value(value, what, &key->one, err);
  }
  rc = ext_text_from_value(value, what, &key->one_text, err);
  return rc == SQLITE_OK ? ext_keys_find(table, key, err) : rc;
}

/* ---- adding -------------------------------------------------------------- */

int ext_keys_exist(void *arg, const int64_t *ids, size_t n, uint8_t *are,
                   char **err) {
  struct ext_link *link = arg;
  int rc = emb_exists(link->session, ids, n, are);
  return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
}

int ext_keys_add(struct ext_table *table, struct ext_keys *keys, char **err) {
  struct ext_link *link = table->link;
  const struct ext_dict_rows rows = {ext_keys_exist, link};
  const struct ext_dict_batch batch = keys_batch(keys);
  int rc;
  if (keys->absent == 0)
    return SQLITE_OK;
  rc = ext_dict_add(link->dict, &batch, &rows, err);
  if (rc == SQLITE_OK)
    keys->absent = 0;
  return rc;
}

int ext_keys_locked(const struct ext_table *table, char **err) {
  return ext_error(err, SQLITE_LOCKED,
                   "a new text cannot be added to %s immediately within a "
                   "transaction that uses its database; INSERT the row, or add "
                   "the text before the transaction",
                   table->name);
}

int ext_keys_connect(struct ext_table *table, sqlite3 **other, char **err) {
  int rc = ext_place_connect(table, other);
  if (rc != SQLITE_OK)
    return ext_error(err, rc, "cannot open the database a second time: %s",
                     sqlite3_errstr(rc));
  ext_wait_for_locks(&table->conn->wait, table->conn, *other,
                     ext_vtab(table)->options.config.timeout_ms);
  return SQLITE_OK;
}

int ext_keys_disconnect(struct ext_table *table, sqlite3 *other, int rc,
                        char **err) {
  if (other == NULL)
    return rc;
  sqlite3_close(other);
  return ext_wait_result(&table->conn->wait, rc, err);
}

/* *past: is this connection reading in WAL mode?  Within such a statement it
** cannot write once another connection has, and SQLite does not wait for
** locks. */
static int keys_read_the_past(const struct ext_table *table, int *past,
                              char **err) {
  sqlite3 *db = table->conn->db;
  int is_exclusive = 0, rc = SQLITE_OK;
  *past = 0;
  if (table->file[0] && sqlite3_txn_state(db, table->schema) == SQLITE_TXN_READ)
    rc = ext_place_is_wal(db, table->schema, past);
  if (rc == SQLITE_OK && *past)
    rc = ext_place_is_exclusive(db, table->schema, &is_exclusive);
  *past = *past && !is_exclusive;
  return rc == SQLITE_OK ? rc : ext_sql_error(err, db, rc);
}

/* The same for a statement within a transaction. */
static int keys_writer_within(struct ext_table *table, sqlite3 **other,
                              char **err) {
  sqlite3 *db = table->conn->db;
  int state = sqlite3_txn_state(db, table->schema);
  int is_wal = 1, is_exclusive = 0, rc = SQLITE_OK;
  if (table->file[0] == 0 || state == SQLITE_TXN_WRITE)
    return ext_keys_locked(table, err);
  if (state == SQLITE_TXN_READ)
    rc = ext_place_is_wal(db, table->schema, &is_wal);
  if (rc == SQLITE_OK && !is_wal)
    return ext_keys_locked(table, err);
  if (rc == SQLITE_OK)
    rc = ext_place_is_exclusive(db, table->schema, &is_exclusive);
  if (rc != SQLITE_OK)
    return ext_sql_error(err, db, rc);
  if (is_exclusive)
    return ext_error(err, SQLITE_LOCKED,
                     "a new text cannot be added to %s immediately within a "
                     "transaction with locking_mode=EXCLUSIVE; INSERT the row, "
                     "or add the text before the transaction",
                     table->name);
  return ext_keys_connect(table, other, err);
}

int ext_keys_writer(struct ext_table *table, sqlite3 **other, char **err) {
  sqlite3 *db = table->conn->db;
  int past, rc;
  *other = NULL;
  if (!sqlite3_get_autocommit(db) ||
      sqlite3_txn_state(db, NULL) == SQLITE_TXN_WRITE)
    return keys_writer_within(table, other, err);
  rc = keys_read_the_past(table, &past, err);
  return rc == SQLITE_OK && past ? ext_keys_connect(table, other, err) : rc;
}

int ext_keys_add_now(struct ext_table *table, struct ext_keys *keys,
                     char **err) {
  struct ext_dict *dict = table->link->dict;
  for (size_t i = 0; dict && i < keys->n; i++)
    if (!ext_dict_is_committed(dict, keys->at[i]))
      return ext_keys_locked(table, err);
  return ext_keys_commit(table, keys, err);
}

/* A text without a row may be removed before its row is written, and a
** statement that reads an old state would not see that (ext_keys_settle). */
static int keys_look_for_rowless(struct ext_table *table, struct ext_keys *keys,
                                 char **err) {
  uint8_t are[KEYS_STEP];
  int past, rc = keys_read_the_past(table, &past, err);
  if (rc != SQLITE_OK || !past)
    return rc;
  for (size_t at = 0; at < keys->n && rc == SQLITE_OK && !keys->rowless;
       at += KEYS_STEP) {
    size_t n = keys->n - at < KEYS_STEP ? keys->n - at : KEYS_STEP;
    rc = ext_keys_exist(table->link, keys->at + at, n, are, err);
    keys->rowless = rc == SQLITE_OK && memchr(are, 0, n) != NULL;
  }
  return rc;
}

int ext_keys_commit(struct ext_table *table, struct ext_keys *keys,
                    char **err) {
  struct ext_link *link = table->link;
  const struct ext_dict_rows rows = {ext_keys_exist, link};
  const struct ext_dict_batch batch = keys_batch(keys);
  sqlite3 *other;
  int rc;
  if (keys->absent == 0)
    return keys_look_for_rowless(table, keys, err);
  rc = ext_keys_writer(table, &other, err);
  if (rc == SQLITE_OK)
    rc = ext_dict_add_now(link->dict, other, &batch, &rows, err);
  rc = ext_keys_disconnect(table, other, rc, err);
  if (rc == SQLITE_OK) {
    keys->absent = 0;
    keys->rowless = 1;
  }
  return rc;
}

/* Texts were removed since the lookup, perhaps some of these, which had no rows
** yet: restores them.  If another connection has given a text a new number, the
** row of the new number is the newer one, and the row written here is
** deleted. */
static int keys_restore(struct ext_table *table, struct ext_keys *keys,
                        char **err) {
  struct ext_link *link = table->link;
  const struct ext_dict_batch batch = keys_batch(keys);
  uint8_t *taken = sqlite3_malloc64(keys->n);
  sqlite3 *other = NULL;
  int rc = taken ? ext_keys_writer(table, &other, err) : SQLITE_NOMEM;
  if (rc == SQLITE_OK)
    rc = ext_dict_restore(link->dict, other, &batch, taken, err);
  for (size_t i = 0; i < keys->n && rc == SQLITE_OK; i++)
    if (taken[i]) {
      rc = emb_delete(link->session, &keys->at[i], 1, NULL);
      rc = rc ? ext_link_error(link, rc, err) : SQLITE_OK;
    }
  sqlite3_free(taken);
  return ext_keys_disconnect(table, other, rc, err);
}

/* Reads the current count of text removals, through another connection: a
** transaction that reads in WAL mode sees the count as of its start. */
static int keys_removals_now(struct ext_table *table, int64_t *removals,
                             char **err) {
  sqlite3_stmt *select = NULL;
  sqlite3 *other;
  char *sql;
  int rc = ext_keys_connect(table, &other, err);
  if (rc != SQLITE_OK)
    return rc;
  sql = sqlite3_mprintf("SELECT removals FROM main.\"%w_emb\"", table->name);
  rc = sql ? sqlite3_prepare_v2(other, sql, -1, &select, NULL) : SQLITE_NOMEM;
  if (rc == SQLITE_OK && sqlite3_step(select) == SQLITE_ROW)
    *removals = sqlite3_column_int64(select, 0);
  if (rc == SQLITE_OK)
    rc = sqlite3_reset(select);
  rc = ext_sql_error(err, other, rc);
  sqlite3_finalize(select);
  sqlite3_free(sql);
  return ext_keys_disconnect(table, other, rc, err);
}

int ext_keys_settle(struct ext_table *table, struct ext_keys *keys,
                    char **err) {
  int64_t removals = keys->removals;
  int past = 0, rc;
  emb_assert(keys->absent == 0); /* else a text could get the number 0 */
  if (!ext_vtab(table)->options.text_key || keys->n == 0 ||
      EMB_SEED(SEED_REMOVED_TEXT_NOT_RESTORED))
    return SQLITE_OK;
  rc = ext_keys_begin(table, err);
  if (rc == SQLITE_OK && keys->rowless)
    rc = keys_read_the_past(table, &past, err);
  if (rc == SQLITE_OK && past)
    rc = keys_removals_now(table, &removals, err);
  else if (rc == SQLITE_OK)
    removals = ext_dict_removals(table->link->dict);
  if (rc == SQLITE_OK && removals != keys->removals)
    rc = keys_restore(table, keys, err);
  return rc;
}

int ext_keys_grow(const struct ext_table *table) {
  const struct ext_options *options = &ext_vtab(table)->options;
  return options->config.insert_on == EMB_INSERT_ON_DEFAULT
             ? options->optimized
             : options->config.insert_on != EMB_INSERT_ON_PUT;
}

/* ---- results ------------------------------------------------------------- */

void ext_key_result(sqlite3_context *context, struct ext_link *link,
                    int64_t key) {
  struct ext_text text;
  char *err = NULL;
  int rc;
  if (link->dict == NULL) {
    sqlite3_result_int64(context, key);
    return;
  }
  rc = ext_dict_text(link->dict, key, &text, &err);
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
  else if (text.at)
    sqlite3_result_text64(context, text.at, text.n, SQLITE_TRANSIENT,
                          SQLITE_UTF8);
}

int ext_keys_json(struct ext_link *link, const int64_t *keys, size_t n,
                  char **json, char **err) {
  sqlite3_str *to = sqlite3_str_new(link->conn->db);
  int rc = SQLITE_OK, any = 0;
  sqlite3_str_appendchar(to, 1, '[');
  for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
    struct ext_text text;
    rc = ext_dict_text(link->dict, keys[i], &text, err);
    if (rc != SQLITE_OK || text.at == NULL)
      continue;
    if (any++)
      sqlite3_str_appendchar(to, 1, ',');
    ext_text_to_json(to, &text);
  }
  sqlite3_str_appendchar(to, 1, ']');
  if (rc == SQLITE_OK)
    rc = sqlite3_str_errcode(to);
  *json = sqlite3_str_finish(to);
  if (rc != SQLITE_OK) {
    sqlite3_free(*json);
    *json = NULL;
  }
  return rc;
}

/* ---- the whole table ----------------------------------------------------- */

/* *are: may something other than rows refer to a number: a snapshot, or changes
** that a consumer has not received? */
static int keys_are_named(struct ext_link *link, int *are, char **err) {
  size_t snapshots = 0, consumers = 0;
  int rc = emb_snapshots(link->session, NULL, 0, &snapshots);
  if (rc == EMB_OK && link->path)
    rc = emb_delta_consumers(link->session, NULL, 0, &consumers);
  *are = snapshots || consumers;
  return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
}

int ext_keys_clean(struct ext_table *table, char **err) {
  struct ext_link *link = table->link;
  const struct ext_dict_rows rows = {ext_keys_exist, link};
  int are, rc;
  if (!ext_vtab(table)->options.text_key)
    return SQLITE_OK;
  rc = keys_are_named(link, &are, err);
  if (rc == SQLITE_OK && !are)
    rc = ext_keys_begin(table, err);
  if (rc == SQLITE_OK && !are)
    rc = ext_dict_clean(link->dict, &rows, err);
  return rc;
}

int ext_keys_verify(struct ext_table *table, sqlite3_str *report, char **err) {
  struct ext_link *link = table->link;
  int64_t keys[KEYS_STEP], first = 0;
  long long missing = 0;
  emb_scan *scan = NULL;
  size_t n = 1;
  int rc = ext_keys_begin(table, err);
  if (rc != SQLITE_OK || !ext_vtab(table)->options.text_key)
    return rc;
  ext_dict_forget(link->dict);
  rc = emb_scan_open(link->session, INT64_MIN, INT64_MAX, EMB_SCAN_KEYS, &scan);
  if (rc)
    return ext_link_error(link, rc, err);
  while (rc == SQLITE_OK && n) {
    rc = emb_scan_next_rows(scan, KEYS_STEP, &(emb_rows){.keys = keys}, &n);
    rc = rc ? ext_link_error(link, rc, err) : SQLITE_OK;
    for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
      struct ext_text text;
      rc = ext_dict_text(link->dict, keys[i], &text, err);
      if (rc == SQLITE_OK && text.at == NULL && missing++ == 0)
        first = keys[i];
    }
  }
  emb_scan_close(scan);
  if (rc == SQLITE_OK && missing)
    sqlite3_str_appendf(
        report,
        "%s%lld rows have no text in %s_keys; one of them has the id %lld",
        sqlite3_str_length(report) ? "\n" : "", missing, table->name,
        (long long)first);
  return rc;
}
