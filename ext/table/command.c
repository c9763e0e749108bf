/* SPDX-License-Identifier: MIT
**
** command.c -- INSERT INTO items(items) VALUES('checkpoint'), as in fts5.
**
**   'checkpoint'       everything written so far survives power loss
**   'warm'             reads in as many rows as fit into memory, synchronously
**   'optimize'         compacts the files until little but live data is left,
**                      and removes dictionary texts and auxiliary columns that
**                      no row uses
**   'expire'           removes the rows whose time to live has passed
**   'evict'            removes rows down to the capacity
**   'integrity-check'  SQLITE_CORRUPT_VTAB with a line for each problem
**   'memory'           sets the memory to arg until the store is closed
**   'set name'         sets the option to arg permanently (set.c)
**   'adopt'            records the store's transaction number in the database,
**                      after one of the two was restored from a copy
*/
#include "aux_columns.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

#define REPORT_BYTES_MAX 4000 /* enough to see what is wrong */

static int command_engine(struct ext_table *table, int (*run)(emb_session *),
                          char **err) {
  int rc, attempts = 0;
  do
    rc = run(table->link->session);
  while (ext_txn_again(table, &attempts, &rc, err));
  return rc;
}

/* Columns and texts are removed in SQLite's transaction; the store is optimized
** at once. */
static int command_optimize(struct ext_table *table, char **err) {
  int rc = ext_aux_optimize(table, err);
  if (rc == SQLITE_OK)
    rc = command_engine(table, emb_optimize, err);
  return rc == SQLITE_OK ? ext_keys_clean(table, err) : rc;
}

static int command_expire(emb_session *session) {
  return emb_expire(session, NULL);
}
static int command_evict(emb_session *session) {
  return emb_evict(session, NULL);
}

static void report_line(void *arg, const char *line) {
  sqlite3_str *report = arg;
  if (sqlite3_str_length(report) < REPORT_BYTES_MAX)
    sqlite3_str_appendf(report, "%s%s", sqlite3_str_length(report) ? "\n" : "",
                        line);
}

/* Compares the database's row with the store.  Skipped if only the store's last
** checkpoint is visible: another process may be committing to it. */
static int verify_marker(struct ext_table *table, sqlite3_str *report,
                         char **err) {
  struct ext_link *link = table->link;
  struct ext_txn_numbers numbers;
  char *line;
  int rc;
  if (!link->atomic || link->in_txn || emb_in_doubt(ext_link_store(link)) ||
      !emb_is_owner(link->store))
    return SQLITE_OK;
  rc = ext_txn_compare(table, &numbers, err);
  if (rc != SQLITE_OK || numbers.agree)
    return rc;
  line = sqlite3_mprintf("store is at transaction %lld but database \"%s\" "
                         "recorded %lld",
                         numbers.store, table->schema, numbers.row);
  if (line == NULL)
    return SQLITE_NOMEM;
  report_line(report, line);
  sqlite3_free(line);
  return SQLITE_OK;
}

int ext_command_verify(struct ext_table *table, int quick, sqlite3_str *report,
                       char **err) {
  int rc = ext_txn_read(table, err);
  if (rc == SQLITE_OK)
    rc = verify_marker(table, report, err);
  if (rc == SQLITE_OK)
    rc = ext_aux_verify(table, report_line, report, err);
  if (rc == SQLITE_OK && !quick) {
    rc = emb_verify(table->link->session, report_line, report);
    if (rc)
      rc = ext_link_error(table->link, rc, err);
    else
      rc = ext_keys_verify(table, report, err);
  }
  return rc;
}

static int integrity_check(struct ext_table *table, char **err) {
  sqlite3_str *report = sqlite3_str_new(table->conn->db);
  int rc = ext_command_verify(table, 0, report, err);
  char *text;
  if (rc == SQLITE_OK)
    rc = sqlite3_str_errcode(report);
  text = sqlite3_str_finish(report);
  if (rc == SQLITE_OK && text)
    rc = ext_error(err, SQLITE_CORRUPT_VTAB, "%s", text);
  sqlite3_free(text);
  return rc;
}

static int unknown_command(const char *name, char **err) {
  static const char *const names[] = {"checkpoint", "warm",   "optimize",
                                      "expire",     "evict",  "integrity-check",
                                      "adopt",      "memory", "set memory"};
  struct near near;
  near_start(&near, name, strlen(name));
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    near_offer(&near, names[i]);
  return ext_error(err, SQLITE_ERROR, "unknown command: '%s'%s", name,
                   near_text(&near));
}

int ext_command(struct ext_table *table, sqlite3_value *command,
                sqlite3_value *arg, char **err) {
  const char *name = (const char *)sqlite3_value_text(command);
  int rc = ext_txn_read(table, err);
  if (rc != SQLITE_OK)
    return rc;
  if (name == NULL)
    return SQLITE_NOMEM;
  if (near_is("memory", name))
    return ext_settings_memory(table, arg, err);
  if (strncmp(name, "set ", 4) == 0)
    return ext_settings_set(table, name + 4, arg, err);
  if (sqlite3_value_type(arg) != SQLITE_NULL)
    return ext_error(err, SQLITE_ERROR, "command '%s' takes no argument", name);
  if (near_is("checkpoint", name))
    return command_engine(table, emb_checkpoint, err);
  if (near_is("warm", name))
    return command_engine(table, emb_warm, err);
  if (near_is("optimize", name))
    return command_optimize(table, err);
  if (near_is("expire", name))
    return command_engine(table, command_expire, err);
  if (near_is("evict", name))
    return command_engine(table, command_evict, err);
  if (near_is("integrity-check", name))
    return integrity_check(table, err);
  if (near_is("adopt", name))
    return ext_txn_adopt(table, err);
  return unknown_command(name, err);
}
