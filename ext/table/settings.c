/* SPDX-License-Identifier: MIT
**
** settings.c -- options that can be changed after CREATE VIRTUAL TABLE.
**
**     INSERT INTO items(items, arg) VALUES('memory', '2GB')      now
**     INSERT INTO items(items, arg) VALUES('set memory', '2GB')  permanently
**     INSERT INTO items(items, arg) VALUES('set title.index', 'ivf')
**                                       permanently, for one vector column
**
** PERMANENT SQLite does not let a module change its CREATE statement, so these
**           values are stored in a shadow table, created by the first 'set':
**               CREATE TABLE items_emboptions(name TEXT PRIMARY KEY, value)
**           It is an ordinary table: included in transactions, savepoints,
**           copies of the database and dumps.  It is renamed and dropped with
**           the table.  A library that is too old to know it leaves it alone;
**           if CREATE finds one, such a library has dropped its table.
** PRIORITY  For the memory, the first of these applies:
**               'memory', until the next 'memory' or the store is closed
**               EMB_MEMORY in the environment
**               'set memory'
**               memory= in CREATE VIRTUAL TABLE, and its default
**           For a vector column: 'set title.index', the column's option in
**           CREATE, 'set index', the table's option in CREATE.
** EFFECT    Memory and timeout take effect in this process when the transaction
**           commits, because its connections share the store.  Other options,
**           and all options in other processes, take effect when the store is
**           next opened.
** HOSTILE   A database may come from anywhere: an unknown name is ignored, an
**           invalid value is an error.
*/
#include "table.h"
SQLITE_EXTENSION_INIT3

#include <stdlib.h>
#include <string.h>

#define VARIABLE "EMB_MEMORY"

struct ext_setting ext_setting_find(const struct ext_options *options,
                                    const char *name) {
  const struct ext_option *option = ext_option_find(name);
  const char *dot = strrchr(name, '.');
  if (option || dot == NULL)
    return (struct ext_setting){option, -1};
  option = ext_option_find(dot + 1);
  for (uint32_t i = 0; option && i < ext_vectors(options); i++)
    if (option->in_column &&
        strlen(options->vectors[i]) == (size_t)(dot - name) &&
        sqlite3_strnicmp(options->vectors[i], name, (int)(dot - name)) == 0)
      return (struct ext_setting){option, (int)i};
  return (struct ext_setting){NULL, -1};
}

char *ext_setting_name(const struct ext_options *options,
                       const struct ext_setting *setting) {
  int column = setting->column;
  return sqlite3_mprintf("%s%s%s", column < 0 ? "" : options->vectors[column],
                         column < 0 ? "" : ".", setting->option->name);
}

static const struct ext_option *memory_option(void) {
  return ext_option_find("memory");
}

/* ---- the shadow table ---------------------------------------------------- */

int ext_settings_find_table(struct ext_table *table, int *there, char **err) {
  sqlite3 *db = table->conn->db;
  sqlite3_stmt *row = NULL;
  char *sql = sqlite3_mprintf("SELECT 1 FROM \"%w\".sqlite_schema WHERE type = "
                              "'table' AND rootpage > 0 "
                              "AND name = '%q_" EXT_SETTINGS "' COLLATE NOCASE",
                              table->schema, table->name);
  int rc = sql ? sqlite3_prepare_v2(db, sql, -1, &row, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  *there = 0;
  if (rc == SQLITE_OK) {
    *there = sqlite3_step(row) == SQLITE_ROW;
    rc = sqlite3_finalize(row);
  }
  return ext_sql_error(err, db, rc);
}

/* Calls visit for each row that names a settable option, in a fixed order. */
static int settings_each(struct ext_table *table,
                         int (*visit)(void *arg,
                                      const struct ext_setting *setting,
                                      const char *value, char **err),
                         void *arg, char **err) {
  sqlite3 *db = table->conn->db;
  sqlite3_stmt *rows = NULL;
  int there, rc = ext_settings_find_table(table, &there, err);
  char *sql;
  if (rc != SQLITE_OK || !there)
    return rc;
  sql = sqlite3_mprintf("SELECT name, value FROM \"%w\".\"%w_" EXT_SETTINGS
                        "\" ORDER BY name",
                        table->schema, table->name);
  rc = sql ? sqlite3_prepare_v2(db, sql, -1, &rows, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  if (rc != SQLITE_OK)
    return ext_sql_error(err, db, rc);
  while (rc == SQLITE_OK && sqlite3_step(rows) == SQLITE_ROW) {
    const char *name, *value;
    struct ext_setting setting;
    rc = ext_column_text(rows, 0, &name);
    if (rc == SQLITE_OK)
      rc = ext_column_text(rows, 1, &value);
    if (rc != SQLITE_OK)
      break;
    setting = ext_setting_find(&ext_vtab(table)->options, name ? name : "");
    if (setting.option && setting.option->change != EXT_FIXED && value)
      rc = visit(arg, &setting, value, err);
  }
  if (rc != SQLITE_OK) {
    sqlite3_finalize(rows);
    return rc;
  }
  return ext_sql_error(err, db, sqlite3_finalize(rows));
}

int ext_settings_rename(struct ext_table *table, const char *name, char **err) {
  int there, rc = ext_settings_find_table(table, &there, err);
  if (rc == SQLITE_OK && there)
    rc = ext_exec(table->conn->db, err,
                  "ALTER TABLE \"%w\".\"%w_" EXT_SETTINGS
                  "\" RENAME TO \"%w_" EXT_SETTINGS "\"",
                  table->schema, table->name, name);
  return rc;
}

int ext_settings_drop(struct ext_table *table, char **err) {
  int there, rc = ext_settings_find_table(table, &there, err);
  if (rc == SQLITE_OK && there)
    rc = ext_exec(table->conn->db, err,
                  "DROP TABLE \"%w\".\"%w_" EXT_SETTINGS "\"", table->schema,
                  table->name);
  return rc;
}

int ext_settings_empty(struct ext_table *table, char **err) {
  int there, rc = ext_settings_find_table(table, &there, err);
  if (rc == SQLITE_OK && there)
    rc = ext_exec(table->conn->db, err,
                  "DELETE FROM \"%w\".\"%w_" EXT_SETTINGS "\"", table->schema,
                  table->name);
  return rc;
}

/* ---- a table's current options ------------------------------------------- */

/* Prefixes an error with the source of the bad value. */
static int settings_blame(int rc, const char *whose, char **err) {
  if (rc != SQLITE_OK && rc != SQLITE_NOMEM && *err) {
    char *text = *err;
    *err = NULL;
    rc = ext_error(err, rc, "%s: %s", whose, text);
    sqlite3_free(text);
  }
  return rc;
}

/* A text from CREATE still belongs to the table; a text that replaces it is
** freed with the settings. */
static int settings_take(struct ext_settings *settings,
                         const struct ext_option *option, const char *value,
                         char **err) {
  char **text = option->kind == EXT_TEXT
                    ? ext_option_text(&settings->options, option)
                    : NULL;
  char **own = &settings->texts[option - ext_option_at(0)];
  int rc;
  if (text)
    *text = NULL;
  rc = ext_option_set(&settings->options, option, value, err);
  if (text) {
    sqlite3_free(*own);
    *own = *text;
  }
  return rc;
}

static int settings_take_column(struct ext_settings *settings,
                                const struct ext_setting *setting,
                                const char *value, char **err) {
  struct ext_options *options = &settings->options;
  const struct ext_option *option = setting->option;
  int i = setting->column;
  char **own = ext_option_column_text(&settings->columns[i], option);
  int rc = ext_option_check(option, options->vectors[i], value, err);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_free(*own);
  *own = sqlite3_mprintf("%s", value);
  *ext_option_column_text(&options->segments[i], option) = *own;
  return *own ? SQLITE_OK : SQLITE_NOMEM;
}

int ext_settings_take(struct ext_settings *settings,
                      const struct ext_setting *setting, const char *value,
                      char **err) {
  return setting->column < 0
             ? settings_take(settings, setting->option, value, err)
             : settings_take_column(settings, setting, value, err);
}

static int settings_take_row(void *arg, const struct ext_setting *setting,
                             const char *value, char **err) {
  return ext_settings_take(arg, setting, value, err);
}

/* Checks the memory option as far as possible without the store. */
static int check_memory(const struct ext_settings *settings, char **err) {
  emb_err engine_err;
  int rc = emb_check_memory(settings->options.config.memory_bytes, &engine_err);
  return rc ? ext_engine_error(err, rc, engine_err.text) : SQLITE_OK;
}

static int take_environment(struct ext_settings *settings, char **err) {
  const char *value = getenv(VARIABLE);
  int rc = SQLITE_OK;
  if (value && value[0]) {
    rc = settings_take(settings, memory_option(), value, err);
    if (rc == SQLITE_OK)
      rc = check_memory(settings, err);
    return settings_blame(rc, VARIABLE, err);
  }
  return rc;
}

void ext_settings_begin(struct ext_table *table,
                        struct ext_settings *settings) {
  settings->options = ext_vtab(table)->options;
  settings->options.config.segments = settings->options.segments;
  memset(settings->texts, 0, sizeof settings->texts);
  memset(settings->columns, 0, sizeof settings->columns);
}

int ext_settings_create(struct ext_table *table, struct ext_settings *settings,
                        char **err) {
  ext_settings_begin(table, settings);
  return take_environment(settings, err);
}

int ext_settings_take_rows(struct ext_table *table,
                           struct ext_settings *settings, char **err) {
  int rc = settings_each(table, settings_take_row, settings, err);
  if (rc == SQLITE_OK)
    rc = ext_options_check(&settings->options, err);
  if (rc != SQLITE_OK && rc != SQLITE_NOMEM && *err) {
    char *whose = sqlite3_mprintf("%s_" EXT_SETTINGS, table->name);
    rc = whose ? settings_blame(rc, whose, err) : SQLITE_NOMEM;
    sqlite3_free(whose);
  }
  return rc;
}

int ext_settings_read(struct ext_table *table, struct ext_settings *settings,
                      char **err) {
  int rc;
  ext_settings_begin(table, settings);
  rc = ext_settings_take_rows(table, settings, err);
  return rc == SQLITE_OK ? take_environment(settings, err) : rc;
}

int ext_settings_open(struct ext_table *table, struct ext_settings *settings,
                      char **err) {
  int rc = ext_settings_read(table, settings, err);
  if (rc == SQLITE_OK && (rc = check_memory(settings, err)) != SQLITE_OK &&
      rc != SQLITE_NOMEM && *err) {
    char *text = *err;
    *err = NULL;
    rc = ext_error(err, rc, "%s; " VARIABLE " in the environment overrides it",
                   text);
    sqlite3_free(text);
  }
  return rc;
}

void ext_settings_free(struct ext_settings *settings) {
  for (size_t i = 0; i < EXT_OPTIONS_MAX; i++) {
    const struct ext_option *option = ext_option_at(i);
    sqlite3_free(settings->texts[i]);
    settings->texts[i] = NULL;
    for (uint32_t c = 0; option && option->in_column && c < EMB_SEGMENTS_MAX;
         c++)
      sqlite3_free(*ext_option_column_text(&settings->columns[c], option));
  }
  memset(settings->columns, 0, sizeof settings->columns);
}

struct json {
  const struct ext_options *options;
  sqlite3_str *text;
};

static void add_quoted(sqlite3_str *json, const char *value) {
  sqlite3_str_appendchar(json, 1, '"');
  for (; *value; value++)
    if (*value == '"' || *value == '\\')
      sqlite3_str_appendf(json, "\\%c", *value);
    else if ((unsigned char)*value < ' ')
      sqlite3_str_appendf(json, "\\u%04x", (unsigned)*value);
    else
      sqlite3_str_appendchar(json, 1, *value);
  sqlite3_str_appendchar(json, 1, '"');
}

static int add_json(void *arg, const struct ext_setting *setting,
                    const char *value, char **err) {
  struct json *json = arg;
  char *name = ext_setting_name(json->options, setting);
  (void)err;
  if (name == NULL)
    return SQLITE_NOMEM;
  sqlite3_str_appendchar(json->text, 1,
                         sqlite3_str_length(json->text) ? ',' : '{');
  add_quoted(json->text, name);
  sqlite3_str_appendchar(json->text, 1, ':');
  add_quoted(json->text, value);
  sqlite3_free(name);
  return SQLITE_OK;
}

int ext_settings_json(struct ext_table *table, char **json, char **err) {
  sqlite3_str *text = sqlite3_str_new(table->conn->db);
  struct json to = {&ext_vtab(table)->options, text};
  int rc = settings_each(table, add_json, &to, err);
  if (sqlite3_str_length(text) > 0)
    sqlite3_str_appendchar(text, 1, '}');
  if (rc == SQLITE_OK) /* out of memory, text is as empty as with no options */
    rc = sqlite3_str_errcode(text);
  *json = sqlite3_str_finish(text);
  return rc;
}
