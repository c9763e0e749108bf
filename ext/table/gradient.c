/* SPDX-License-Identifier: MIT
**
** gradient.c -- writing through optimizers:
**
**   UPDATE items SET gradient = :g [, lr = :lr] [, step = :t] [, vectors = :r]
**   INSERT INTO items(keys, gradients [, lr] [, step] [, vectors]) VALUES ...
**   INSERT INTO items(key, gradient ...) VALUES ...
**
** A gradient is as long as a row: all vector columns, one after the other.
** `vectors` are the vectors it was computed from, for an optimizer with dc=.
** In a table that averages gradients (gradients=), a statement outside of a
** transaction passes them on as emb_apply does: they take effect immediately,
** even if the statement fails later, and are durable with the next checkpoint
** or commit.  Within BEGIN they belong to the transaction, and each makes a
** step of its own.
** An INSERT need not insert rows: missing keys become rows if insert_on allows
** it, and existing rows are updated.
*/
#include "change.h"
SQLITE_EXTENSION_INIT3

int ext_update_time(struct ext_table *table, sqlite3_value *value, char **err) {
  uint32_t time;
  int rc = ext_update_time_read(table, value, &time, err);
  if (rc == SQLITE_OK && time)
    emb_session_time(table->link->session, time);
  return rc;
}

void ext_update_time_end(struct ext_table *table) {
  if (table->link)
    emb_session_time(table->link->session, 0);
}

static int is_averaged(const struct ext_table *table) {
  return sqlite3_get_autocommit(table->conn->db) && !table->link->in_txn &&
         emb_averages(table->link->store);
}

static int gradient_keep(struct ext_table *table, struct ext_change *change,
                         char **err) {
  struct ext_keys *keys = &change->keys;
  int attempts = 0, rc = ext_txn_read(table, err);
  if (rc == SQLITE_OK)
    rc = ext_txn_immediate(table, err);
  if (rc != SQLITE_OK)
    return rc;
  do
    rc = emb_apply_gradients(table->link->session, keys->at, keys->n,
                             change->gradients.at, &change->how, NULL);
  while (ext_txn_again(table, &attempts, &rc, err));
  return rc == SQLITE_OK ? ext_keys_settle(table, keys, err) : rc;
}

static int gradient_in_txn(struct ext_table *table, struct ext_change *change,
                           char **err) {
  struct ext_keys *keys = &change->keys;
  int rc = ext_txn_write(table, err);
  if (rc == SQLITE_OK && ext_keys_grow(table))
    rc = ext_keys_add(table, keys, err);
  if (rc == SQLITE_OK) /* new rows start without leftover columns */
    rc = ext_aux_clean(table, keys->at, keys->n, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = emb_txn_apply_gradients(table->link->session, keys->at, keys->n,
                               change->gradients.at, &change->how, NULL);
  return rc ? ext_link_error(table->link, rc, err) : SQLITE_OK;
}

int ext_gradient_apply(struct ext_table *table, struct ext_change *change,
                       char **err) {
  int rc;
  if (change->keys.n == 0)
    return SQLITE_OK;
  rc = ext_table_open(table, err);
  if (rc != SQLITE_OK)
    return rc;
  return is_averaged(table) && change->keys.absent == 0
             ? gradient_keep(table, change, err)
             : gradient_in_txn(table, change, err);
}
