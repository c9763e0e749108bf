/* SPDX-License-Identifier: MIT
**
** set.c -- the commands that change options, 'memory' and 'set name', and the
** effect of a change when the transaction ends.  For storage see settings.c.
*/
#include "table.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* ---- commands ------------------------------------------------------------ */

/* Raises a memory size to the store's minimum, as for CREATE's option. */
static uint64_t settings_at_least(const struct ext_link *link, uint64_t bytes) {
  uint64_t least = emb_memory_least(ext_link_store(link));
  return bytes > least ? bytes : least;
}

static int is_value(sqlite3_value *arg) {
  int type = sqlite3_value_type(arg);
  return type == SQLITE_TEXT || type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

static int refuse_value(const char *command, char **err) {
  return ext_error(err, SQLITE_MISMATCH,
                   "the argument of '%s' must be TEXT or INTEGER", command);
}

int ext_settings_memory(struct ext_table *table, sqlite3_value *arg,
                        char **err) {
  struct ext_settings settings;
  int rc;
  ext_settings_begin(table, &settings);
  if (sqlite3_value_type(arg) == SQLITE_NULL)
    rc = ext_settings_read(table, &settings, err);
  else if (!is_value(arg))
    rc = refuse_value("memory", err);
  else
    rc = sqlite3_value_text(arg)
             ? ext_settings_take(
                   &settings,
                   &(struct ext_setting){ext_option_find("memory"), -1},
                   (const char *)sqlite3_value_text(arg), err)
             : SQLITE_NOMEM;
  if (rc == SQLITE_OK) {
    uint64_t bytes = settings.options.config.memory_bytes;
    if (sqlite3_value_type(arg) == SQLITE_NULL)
      bytes = settings_at_least(table->link, bytes);
    rc = emb_set_memory(table->link->session, bytes);
    rc = rc ? ext_link_error(table->link, rc, err) : SQLITE_OK;
  }
  ext_settings_free(&settings);
  return rc;
}

/* Finds the option to set, or returns why it cannot be set. */
static int settings_choose(struct ext_table *table, const char *name,
                           struct ext_setting *setting, char **err) {
  const struct ext_option *option;
  *setting = ext_setting_find(&ext_vtab(table)->options, name);
  option = setting->option;
  if (option == NULL)
    return ext_option_unknown(name, err);
  if (option->change == EXT_FIXED)
    return ext_error(err, SQLITE_ERROR,
                     "%s is fixed with the table%s; make another table with "
                     "it and copy the rows: INSERT INTO other SELECT * FROM "
                     "%s",
                     option->name, option->note ? option->note : "",
                     table->name);
  if (option->change == EXT_AT_OPEN && !table->file[0])
    return ext_error(err, SQLITE_ERROR,
                     "%s cannot be changed in a temporary table: the change "
                     "takes effect when a table is next opened",
                     name);
  return SQLITE_OK;
}

/* SQLITE_ERROR if CREATE sets the option for each vector column: setting it for
** the table would have no effect. */
static int settings_reaches(const struct ext_options *options,
                            const struct ext_setting *setting, char **err) {
  const struct ext_option *option = setting->option;
  uint32_t i = 0, n = ext_vectors(options);
  emb_segment segment;
  for (; setting->column < 0 && option->in_column && i < n; i++) {
    segment = options->segments[i];
    if (*ext_option_column_text(&segment, option) == NULL)
      return SQLITE_OK;
  }
  return i == 0 ? SQLITE_OK
                : ext_error(err, SQLITE_ERROR,
                            "each vector column has its own %s; write 'set "
                            "%s.%s'",
                            option->name, options->vectors[0], option->name);
}

static int memory_too_small(struct ext_table *table, uint64_t bytes,
                            char **err) {
  return ext_error(
      err, SQLITE_ERROR,
      "memory of %llu bytes is too small for %s, which needs at least %llu",
      (unsigned long long)bytes, table->name,
      (unsigned long long)emb_memory_least(ext_link_store(table->link)));
}

int ext_settings_created(struct ext_table *table, char **err) {
  uint64_t bytes = ext_vtab(table)->options.config.memory_bytes;
  return bytes < emb_memory_least(ext_link_store(table->link)) / 2
             ? memory_too_small(table, bytes, err)
             : SQLITE_OK;
}

/* Makes the same checks as opening the store with the new value, so that no
** setting can make the table unusable. */
static int settings_check(struct ext_table *table,
                          const struct ext_setting *setting, const char *value,
                          char **err) {
  struct ext_settings settings;
  emb_err engine_err;
  int rc;
  ext_settings_begin(table, &settings);
  rc = ext_settings_take_rows(table, &settings, err);
  if (rc == SQLITE_OK)
    rc = ext_settings_take(&settings, setting, value, err);
  if (rc == SQLITE_OK)
    rc = ext_options_check(&settings.options, err);
  if (rc == SQLITE_OK) {
    uint64_t bytes = settings.options.config.memory_bytes;
    if (setting->option == ext_option_find("memory") &&
        bytes < emb_memory_least(ext_link_store(table->link)))
      rc = memory_too_small(table, bytes, err);
  }
  if (rc == SQLITE_OK) {
    rc = emb_check_config(table->link->store, &settings.options.config,
                          &engine_err);
    rc = rc ? ext_engine_error(err, rc, engine_err.text) : SQLITE_OK;
  }
  ext_settings_free(&settings);
  return rc;
}

static int store_row(struct ext_table *table, const char *name,
                     const char *value, char **err) {
  sqlite3 *db = table->conn->db;
  int rc = ext_exec(db, err,
                    "CREATE TABLE IF NOT EXISTS \"%w\".\"%w_" EXT_SETTINGS
                    "\"(name TEXT PRIMARY KEY, value) WITHOUT ROWID",
                    table->schema, table->name);
  if (rc == SQLITE_OK)
    rc = ext_exec(db, err,
                  "INSERT OR REPLACE INTO \"%w\".\"%w_" EXT_SETTINGS
                  "\" VALUES(%Q, %Q)",
                  table->schema, table->name, name, value);
  return rc;
}

/* If CREATE sets the option neither for the column nor for the table, stores
** option->unset for the table, unless a value is stored already. */
static int unset_column(struct ext_table *table,
                        const struct ext_setting *setting, char **err) {
  const struct ext_option *option = setting->option;
  struct ext_options *options = &ext_vtab(table)->options;
  emb_segment *segment = &options->segments[setting->column];
  if (*ext_option_column_text(segment, option) ||
      ext_option_is_set(options, option))
    return SQLITE_OK;
  return ext_exec(table->conn->db, err,
                  "INSERT OR IGNORE INTO \"%w\".\"%w_" EXT_SETTINGS
                  "\" VALUES(%Q, %Q)",
                  table->schema, table->name, option->name, option->unset);
}

/* Restores CREATE's value. */
static int remove_row(struct ext_table *table,
                      const struct ext_setting *setting, const char *name,
                      char **err) {
  const struct ext_option *option = setting->option;
  int there, rc = ext_settings_find_table(table, &there, err);
  if (rc != SQLITE_OK || !there)
    return rc;
  if (setting->column < 0 && option->unset &&
      !ext_option_is_set(&ext_vtab(table)->options, option))
    return ext_exec(table->conn->db, err,
                    "UPDATE \"%w\".\"%w_" EXT_SETTINGS
                    "\" SET value = %Q WHERE name = %Q",
                    table->schema, table->name, option->unset, name);
  rc = ext_exec(table->conn->db, err,
                "DELETE FROM \"%w\".\"%w_" EXT_SETTINGS "\" WHERE name = %Q",
                table->schema, table->name, name);
  return rc == SQLITE_OK && setting->column >= 0
             ? unset_column(table, setting, err)
             : rc;
}

/* Notes the current values before the first change of a transaction, so that
** its end can tell what it has changed. */
static int note_before(struct ext_table *table, char **err) {
  struct ext_link *link = table->link;
  struct ext_settings settings;
  int rc;
  if (link->settings_pending)
    return SQLITE_OK;
  rc = ext_settings_read(table, &settings, err);
  if (rc == SQLITE_OK) {
    link->settings_pending = 1;
    link->memory = link->memory_before = settings.options.config.memory_bytes;
    link->timeout = link->timeout_before = settings.options.config.timeout_ms;
  }
  ext_settings_free(&settings);
  return rc;
}

int ext_settings_set(struct ext_table *table, const char *name,
                     sqlite3_value *arg, char **err) {
  const char *value = NULL;
  struct ext_setting setting;
  char *own = NULL;
  int rc = settings_choose(table, name, &setting, err);
  if (rc == SQLITE_OK && sqlite3_value_type(arg) != SQLITE_NULL) {
    if (!is_value(arg))
      return refuse_value("set", err);
    value = (const char *)sqlite3_value_text(arg);
    rc = value ? settings_reaches(&ext_vtab(table)->options, &setting, err)
               : SQLITE_NOMEM;
    if (rc == SQLITE_OK)
      rc = settings_check(table, &setting, value, err);
  }
  if (rc == SQLITE_OK)
    rc = note_before(table, err);
  if (rc == SQLITE_OK)
    rc = (own = ext_setting_name(&ext_vtab(table)->options, &setting))
             ? SQLITE_OK
             : SQLITE_NOMEM;
  if (rc == SQLITE_OK)
    rc = value ? store_row(table, own, value, err)
               : remove_row(table, &setting, own, err);
  sqlite3_free(own);
  return rc;
}

/* ---- the end of the transaction ------------------------------------------ */

int ext_settings_sync(struct ext_table *table, char **err) {
  struct ext_link *link = table->link;
  struct ext_settings settings;
  int rc;
  emb_assert(link->settings_pending && table->begun);
  rc = ext_settings_read(table, &settings, err);
  if (rc == SQLITE_OK) {
    link->memory = settings.options.config.memory_bytes;
    link->timeout = settings.options.config.timeout_ms;
  }
  ext_settings_free(&settings);
  return rc;
}

void ext_settings_commit(struct ext_link *link) {
  int rc = EMB_OK;
  emb_assert(link->settings_pending);
  link->settings_pending = 0;
  if (link->timeout != link->timeout_before)
    emb_set_timeout(link->store, link->timeout);
  if (link->memory != link->memory_before)
    rc = emb_set_memory(link->session, settings_at_least(link, link->memory));
  if (rc)
    sqlite3_log(SQLITE_WARNING, "emb: %s", emb_errmsg(link->session));
}
