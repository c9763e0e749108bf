/* SPDX-License-Identifier: MIT
**
** update.c -- xUpdate: applies a change (change.h).
**
** SQLite does not bracket a single-row statement with a savepoint, so each call
** here must be all or nothing: arguments are checked before the first write,
** and changes that need two writes (UPDATE of a key, a row with auxiliary
** columns) have a savepoint of their own.
**
** CONFLICT  A duplicate key returns plain SQLITE_CONSTRAINT (SQLite compares
**           with it to do IGNORE, FAIL and ROLLBACK), except under REPLACE,
**           where the old vector is overwritten.
** BATCH     INSERT INTO items(keys, vectors) replaces existing rows, as
**           emb_put does; if a key is repeated, its last row wins.
*/
#include "change.h"
SQLITE_EXTENSION_INIT3

static int is_replace(struct ext_table *table) {
  return sqlite3_vtab_on_conflict(table->conn->db) == SQLITE_REPLACE;
}

static int update_exists(struct ext_table *table, int64_t key, uint8_t *found,
                         char **err) {
  int rc = emb_exists(table->link->session, &key, 1, found);
  return rc ? ext_link_error(table->link, rc, err) : SQLITE_OK;
}

/* SQLITE_CONSTRAINT if the key is taken, except under REPLACE. */
static int check_free(struct ext_table *table, int64_t key, char **err) {
  uint8_t found = 0;
  int rc =
      is_replace(table) ? SQLITE_OK : update_exists(table, key, &found, err);
  return rc == SQLITE_OK && found ? ext_change_constraint(table, "UNIQUE") : rc;
}

static int update_put(struct ext_table *table, const struct ext_keys *keys,
                      const struct ext_floats *vectors, char **err) {
  int rc = emb_txn_put(table->link->session, keys->at, keys->n, vectors->at);
  return rc ? ext_link_error(table->link, rc, err) : SQLITE_OK;
}

/* Writes the row of a key only if it exists (present) or does not; *done: it
** was written. */
static int put_if(struct ext_table *table, const struct ext_change *change,
                  int present, int *done, char **err) {
  struct ext_link *link = table->link;
  int rc = emb_txn_put_if(link->session, change->keys.one, change->vectors.at,
                          change->parts, present, done);
  return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
}

/* ---- INSERT -------------------------------------------------------------- */

static int put_new(struct ext_table *table, const struct ext_change *change,
                   char **err) {
  int done, rc;
  if (is_replace(table))
    return update_put(table, &change->keys, &change->vectors, err);
  rc = put_if(table, change, 0, &done, err);
  return rc != SQLITE_OK || done ? rc : ext_change_constraint(table, "UNIQUE");
}

static int insert_row(struct ext_table *table, struct ext_change *change,
                      char **err) {
  int level = -1, rc = ext_txn_write(table, err);
  if (rc == SQLITE_OK)
    rc = ext_keys_add(table, &change->keys, err);
  if (rc == SQLITE_OK)
    rc = ext_aux_begin(table, &level, err);
  if (rc == SQLITE_OK)
    rc = put_new(table, change, err);
  if (rc == SQLITE_OK)
    rc = ext_aux_insert(table, &change->aux, change->keys.one, err);
  return ext_aux_end(table, level, rc, err);
}

static int insert_batch(struct ext_table *table, struct ext_change *change,
                        char **err) {
  struct ext_keys *keys = &change->keys;
  int rc;
  if (keys->n == 0)
    return SQLITE_OK;
  rc = ext_txn_write(table, err);
  if (rc == SQLITE_OK)
    rc = ext_keys_add(table, keys, err);
  if (rc == SQLITE_OK)
    rc = ext_aux_clean(table, keys->at, keys->n, err);
  if (rc == SQLITE_OK)
    rc = update_put(table, keys, &change->vectors, err);
  return rc;
}

/* ---- DELETE -------------------------------------------------------------- */

static int delete_row(struct ext_table *table, int64_t key, char **err) {
  int level = -1;
  int rc = ext_txn_write(table, err);
  if (rc == SQLITE_OK)
    rc = ext_aux_begin(table, &level, err);
  if (rc == SQLITE_OK) {
    rc = emb_txn_delete(table->link->session, &key, 1, NULL);
    if (rc)
      rc = ext_link_error(table->link, rc, err);
  }
  if (rc == SQLITE_OK)
    rc = ext_aux_delete(table, key, err);
  return ext_aux_end(table, level, rc, err);
}

/* ---- UPDATE -------------------------------------------------------------- */

/* Moves the row with all its data and writes the vectors that are set, both or
** neither. */
static int move_row(struct ext_table *table, const struct ext_change *change,
                    char **err) {
  struct ext_link *link = table->link;
  int64_t to = change->keys.one;
  int level = ext_txn_level(link) + 1, found;
  int rc = check_free(table, to, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = emb_savepoint(link->session, level);
  if (rc)
    return ext_link_error(link, rc, err);
  rc = emb_txn_move(link->session, change->from, to, &found);
  if (rc == EMB_OK && found && change->vectors.at)
    rc = emb_txn_put_parts(link->session, &to, 1, change->vectors.at,
                           change->parts);
  if (rc != EMB_OK) {
    rc = ext_link_error(link, rc, err);
    emb_rollback_to(link->session, level);
    emb_savepoint_release(link->session, level);
    return rc;
  }
  rc = emb_savepoint_release(link->session, level);
  return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
}

/* Applies an UPDATE to the store. */
static int update_store(struct ext_table *table,
                        const struct ext_change *change, char **err) {
  int done;
  if (change->moves)
    return move_row(table, change, err);
  return change->vectors.at ? put_if(table, change, 1, &done, err) : SQLITE_OK;
}

/* Applies an UPDATE to the store and to the auxiliary columns, both or
** neither. */
static int update_both(struct ext_table *table, const struct ext_change *change,
                       char **err) {
  int level = -1;
  int rc = ext_aux_begin(table, &level, err);
  if (rc == SQLITE_OK)
    rc = update_store(table, change, err);
  if (rc == SQLITE_OK)
    rc = ext_aux_update(table, &change->aux, change->from, change->keys.one,
                        err);
  return ext_aux_end(table, level, rc, err);
}

/* A new text is added to the dictionary even if the row no longer exists: an
** UPDATE ... FROM may visit a row again after moving it. */
static int update_row(struct ext_table *table, struct ext_change *change,
                      char **err) {
  int aux = ext_aux_is(table) && (change->moves || change->aux.given);
  uint8_t found = 1;
  int rc;
  if (!change->moves && !change->vectors.at && !aux)
    return SQLITE_OK;
  rc = ext_txn_write(table, err);
  if (rc == SQLITE_OK)
    rc = ext_keys_add(table, &change->keys, err);
  if (rc == SQLITE_OK && (change->moves || aux))
    rc = update_exists(table, change->from, &found, err);
  if (rc != SQLITE_OK || !found)
    return rc;
  return aux ? update_both(table, change, err)
             : update_store(table, change, err);
}

/* ---- xUpdate ------------------------------------------------------------- */

static int change_apply(struct ext_table *table, struct ext_change *change,
                        char **err) {
  switch (change->kind) {
  case EXT_CHANGE_NOTHING:
    return SQLITE_OK;
  case EXT_CHANGE_COMMAND:
    return ext_command(table, change->command, change->arg, err);
  case EXT_CHANGE_INSERT:
    return insert_row(table, change, err);
  case EXT_CHANGE_INSERT_BATCH:
    return insert_batch(table, change, err);
  case EXT_CHANGE_UPDATE:
    return update_row(table, change, err);
  case EXT_CHANGE_DELETE:
    return delete_row(table, change->from, err);
  case EXT_CHANGE_GRADIENT:
    return ext_gradient_apply(table, change, err);
  }
  return SQLITE_INTERNAL;
}

/* Applies a change, with the session's writes timestamped as it says. */
static int apply_timed(struct ext_table *table, struct ext_change *change,
                       char **err) {
  int rc;
  if (change->time == 0)
    return change_apply(table, change, err);
  emb_session_time(table->link->session, change->time);
  rc = change_apply(table, change, err);
  emb_session_time(table->link->session, 0);
  return rc;
}

int ext_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv,
               sqlite3_int64 *rowid) {
  struct ext_table *table = (struct ext_table *)vtab;
  struct ext_change change;
  char *err = NULL;
  int rc;
  emb_assert(ext_txn_may(table, EXT_CALL_UPDATE, 0));
  table->synced = 0;
  rc = ext_keys_begin(table, &err);
  if (rc != SQLITE_OK)
    return ext_vtab_error(vtab, rc, err);
  rc = ext_change_parse(table, argc, argv, &change, &err);
  emb_check(rc != SQLITE_OK || ext_change_valid(table, &change));
  if (rc == SQLITE_OK)
    rc = apply_timed(table, &change, &err);
  if (rc == SQLITE_OK && change.inserts && change.keys.n)
    *rowid = change.keys.at[change.keys.n - 1];
  ext_change_free(&change);
  return err ? ext_vtab_error(&table->base, rc, err) : rc;
}
