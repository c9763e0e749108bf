/* SPDX-License-Identifier: MIT
**
** vtab.c -- the module: creates, connects, drops and renames table objects.
**
** COLUMNS   A table is declared to SQLite with the key and the first vector
**           column as the user named them, then the hidden columns
**           (EXT_HIDDEN), the further vector columns, and the auxiliary
**           columns.  So the hidden columns have the same numbers in all
**           tables.  The command column has the table's name (after a rename
**           the new one), or "command" if another column has that name; and a
**           hidden column that yields to user columns gets the prefix emb_ on
**           a conflict.
** TEXT KEYS A table with a text key is WITHOUT ROWID: otherwise SQLite gives
**           the primary key an automatic index without pages, and PRAGMA
**           integrity_check looks for its pages.  The number of the text is
**           then one more hidden column, which is called rowid.
**
** xConnect does not touch the store: a table whose store is missing, damaged
** or newer can be connected, so that it can be dropped, and fails when used.
** xDestroy does not delete the store: the DROP may be rolled back
** (conn/orphan.c).
*/
#include "aux_columns.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Call when a table object is created, disconnected, dropped or renamed. */
static void vtab_changed(struct ext_conn *conn, int ddl) {
  conn->ddl |= ddl;
  ext_conn_forget_names(conn);
}

static void free_table(struct ext_table *table) {
  emb_assert(table->cursors == 0 && !table->held);
  ext_txn_leave(table);
  ext_link_put(table);
  ext_cursor_free_spare(table);
  ext_aux_free(table);
  ext_aux_sets_free(table);
  ext_options_clear(&ext_vtab(table)->options);
  sqlite3_free(table->schema);
  sqlite3_free(table->name);
  sqlite3_free(table->file);
  sqlite3_free(ext_vtab(table)->key_what);
  for (uint32_t i = 0; i < EMB_SEGMENTS_MAX; i++)
    sqlite3_free(ext_vtab(table)->vector_what[i]);
  sqlite3_free(table->base.zErrMsg);
  sqlite3_free(table);
}

/* Sets the table's name and the names derived from it; 0 if memory runs out. */
static int set_name(struct ext_table *table, const char *name) {
  const struct ext_options *options = &ext_vtab(table)->options;
  uint32_t n = ext_vectors(options);
  char *vectors[EMB_SEGMENTS_MAX] = {NULL};
  char *own = sqlite3_mprintf("%s", name);
  char *key = sqlite3_mprintf("%s.%s", name, options->key);
  int made = own && key;
  for (uint32_t i = 0; i < n; i++) {
    vectors[i] = sqlite3_mprintf("%s.%s", name, options->vectors[i]);
    made = made && vectors[i];
  }
  if (made) {
    sqlite3_free(table->name);
    sqlite3_free(ext_vtab(table)->key_what);
    table->name = own;
    ext_vtab(table)->key_what = key;
  } else {
    sqlite3_free(own);
    sqlite3_free(key);
  }
  for (uint32_t i = 0; i < n; i++) {
    sqlite3_free(made ? ext_vtab(table)->vector_what[i] : vectors[i]);
    if (made)
      ext_vtab(table)->vector_what[i] = vectors[i];
  }
  return made;
}

/* Does the key, a vector or an auxiliary column have this name? */
static int is_users_column(const struct ext_options *options,
                           const char *name) {
  for (uint32_t i = 0; i < ext_vectors(options); i++)
    if (sqlite3_stricmp(name, options->vectors[i]) == 0)
      return 1;
  return sqlite3_stricmp(name, options->key) == 0 ||
         ext_aux_named(options, name);
}

/* Adds the number of a text key as the last column.  Another column of the name
** rowid hides it, as in an ordinary table. */
static void declare_number(struct ext_table *table, sqlite3_str *sql,
                           const char *command) {
  const struct ext_options *options = &ext_vtab(table)->options;
  ext_vtab(table)->number_column = EXT_NO_COLUMN;
  if (!options->text_key || is_users_column(options, "rowid") ||
      sqlite3_stricmp(command, "rowid") == 0)
    return;
  sqlite3_str_appendall(sql, ", rowid INTEGER HIDDEN");
  ext_vtab(table)->number_column = ext_aux_at(options, options->aux_count);
}

/* Adds a hidden column to the declaration. */
static void declare_hidden(const struct ext_table *table, sqlite3_str *sql,
                           const struct ext_column *column,
                           const char *command) {
  const struct ext_options *options = &ext_vtab(table)->options;
  const char *prefix = column->name ? ext_column_prefix(options) : "";
  const char *name = column->name ? column->name : command;
  int yields = column->rules & EXT_YIELDS && !prefix[0] &&
               (sqlite3_stricmp(name, table->name) == 0 ||
                is_users_column(options, name));
  sqlite3_str_appendf(sql, ", \"%s%s%w\" %s HIDDEN", yields ? "emb_" : "",
                      prefix, name, column->type);
}

static int vtab_declare(struct ext_table *table, char **err) {
  const struct ext_options *options = &ext_vtab(table)->options;
  const char *command = table->name;
  sqlite3 *db = table->conn->db;
  sqlite3_str *sql = sqlite3_str_new(db);
  char *text;
  int rc;
  if (ext_column_is_reserved(options, command) ||
      is_users_column(options, command))
    command = "command";
  sqlite3_str_appendf(sql, "CREATE TABLE x(\"%w\" %s PRIMARY KEY, \"%w\" BLOB",
                      options->key, options->text_key ? "TEXT" : "INTEGER",
                      options->vectors[0]);
  for (int i = EXT_FIRST_HIDDEN; i < EXT_MORE; i++)
    declare_hidden(table, sql, ext_column(i), command);
  for (uint32_t i = 1; i < ext_vectors(options); i++)
    sqlite3_str_appendf(sql, ", \"%w\" BLOB", options->vectors[i]);
  ext_aux_declare(options, sql);
  declare_number(table, sql, command);
  sqlite3_str_appendall(sql, options->text_key ? ") WITHOUT ROWID" : ")");
  text = sqlite3_str_finish(sql);
  rc = text ? ext_declare_vtab(db, text) : SQLITE_NOMEM;
  sqlite3_free(text);
  if (rc == SQLITE_OK)
    rc = sqlite3_vtab_config(db, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1);
  /* A statement can make the table access only its own store, whose place no
  ** SQL chooses.  So triggers and views may use it, as with fts5, also where
  ** the schema is not trusted. */
  if (rc == SQLITE_OK)
    rc = sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
  return ext_sql_error(err, db, rc);
}

static int new_table(struct ext_conn *conn, int argc, const char *const *argv,
                     struct ext_table **out, char **err) {
  struct ext_vtab *whole = sqlite3_malloc64(sizeof *whole);
  struct ext_table *table = whole ? &whole->table : NULL;
  int rc;
  *out = table;
  if (table == NULL)
    return SQLITE_NOMEM;
  memset(whole, 0, sizeof *whole);
  table->conn = conn;
  table->level = -1;
  rc = ext_arguments_parse(&ext_vtab(table)->options, argc, argv, err);
  if (rc != SQLITE_OK)
    return rc;
  table->schema = sqlite3_mprintf("%s", argv[1]);
  table->file = sqlite3_mprintf("%s", ext_place_file(conn->db, argv[1]));
  if (!table->schema || !table->file || !set_name(table, argv[2]))
    return SQLITE_NOMEM;
  return vtab_declare(table, err);
}

static int vtab_start(struct ext_conn *conn, int create, int argc,
                      const char *const *argv, sqlite3_vtab **vtab,
                      char **message) {
  struct ext_table *table = NULL;
  char *err = NULL;
  int rc = ext_conn_check(conn, &err);
  vtab_changed(conn, create);
  if (conn->orphans)
    ext_orphan_settle(conn);
  ext_link_close_detached(conn);
  if (rc == SQLITE_OK)
    rc = new_table(conn, argc, argv, &table, &err);
  if (rc == SQLITE_OK && create)
    rc = ext_table_create(table, &err);
  if (rc == SQLITE_OK && create)
    rc = ext_aux_create(table, &err);
  if (rc == SQLITE_OK && create)
    ext_txn_enter(table);
  if (rc == SQLITE_OK) {
    emb_check(ext_table_valid(table));
    *vtab = &table->base;
  } else {
    *message = sqlite3_mprintf("emb: %s", err ? err : sqlite3_errstr(rc));
    if (table)
      free_table(table);
  }
  sqlite3_free(err);
  return rc;
}

static int vtab_create(sqlite3 *db, void *conn, int argc,
                       const char *const *argv, sqlite3_vtab **vtab,
                       char **message) {
  (void)db;
  return vtab_start(conn, 1, argc, argv, vtab, message);
}

static int vtab_connect(sqlite3 *db, void *conn, int argc,
                        const char *const *argv, sqlite3_vtab **vtab,
                        char **message) {
  (void)db;
  return vtab_start(conn, 0, argc, argv, vtab, message);
}

static int vtab_disconnect(sqlite3_vtab *vtab) {
  struct ext_table *table = (struct ext_table *)vtab;
  struct ext_conn *conn = table->conn;
  vtab_changed(conn, 0);
  emb_check(ext_table_valid(table));
  if (table->held) {
    table->gone = 1; /* ext_call_end frees it */
    return SQLITE_OK;
  }
  free_table(table);
  ext_link_close_detached(conn);
  return SQLITE_OK;
}

/* Refuses to drop a table with uncommitted writes: if the DROP were undone by
** ROLLBACK TO, SQLite would no longer call xSync for them. */
static int end_writes(struct ext_table *table, struct ext_link *link,
                      char **err) {
  if (link && link->in_txn && link->dirty)
    return ext_error(err, SQLITE_LOCKED,
                     "cannot drop %s: it was modified in this transaction",
                     table->name);
  if (link)
    ext_txn_abandon(link);
  return SQLITE_OK;
}

/* Adds the store of a table being dropped to the list of orphans. */
static int give_up_store(struct ext_table *table, char **err) {
  struct ext_place place;
  char *path = NULL;
  int rc = ext_place_read(table, &place, err);
  if (rc != SQLITE_OK) {
    sqlite3_free(*err); /* the row names no store */
    *err = NULL;
    return rc == SQLITE_NOMEM ? rc : end_writes(table, table->link, err);
  }
  if (place.dir && table->file[0])
    path = ext_place_path(table->file, place.dir);
  rc = end_writes(table, ext_link_find(table->conn, place.uuid, path), err);
  if (rc == SQLITE_OK && table->link) /* the row may name another store now */
    rc = end_writes(table, table->link, err);
  if (rc == SQLITE_OK && (path || place.dir == NULL))
    rc = ext_orphan_add(table, place.uuid, path, err);
  sqlite3_free(path);
  sqlite3_free(place.dir);
  return rc;
}

static int vtab_destroy(sqlite3_vtab *vtab) {
  struct ext_table *table = (struct ext_table *)vtab;
  char *err = NULL;
  int rc = ext_conn_check(table->conn, &err);
  if (rc == SQLITE_OK)
    rc = give_up_store(table, &err);
  if (rc == SQLITE_OK)
    rc = ext_exec(table->conn->db, &err,
                  "DROP TABLE IF EXISTS \"%w\".\"%w_emb\"", table->schema,
                  table->name);
  if (rc == SQLITE_OK && ext_vtab(table)->options.text_key)
    rc = ext_dict_drop(table->conn->db, table->schema, table->name, &err);
  if (rc == SQLITE_OK)
    rc = ext_settings_drop(table, &err);
  if (rc == SQLITE_OK)
    rc = ext_aux_drop(table, &err);
  if (rc != SQLITE_OK) {
    /* SQLite reports only the code's generic text, so log this one. */
    sqlite3_log(rc, "emb: %s", err ? err : "out of memory");
    return ext_vtab_error(&table->base, rc, err);
  }
  vtab_changed(table->conn, 1);
  if (table->held)
    table->gone = 1; /* ext_call_end frees it */
  else
    free_table(table);
  return SQLITE_OK;
}

static int rename_table(sqlite3_vtab *vtab, const char *name) {
  struct ext_table *table = (struct ext_table *)vtab;
  char *err = NULL;
  int rc = ext_conn_check(table->conn, &err);
  if (rc == SQLITE_OK)
    rc = ext_exec(table->conn->db, &err,
                  "ALTER TABLE \"%w\".\"%w_emb\" RENAME TO \"%w_emb\"",
                  table->schema, table->name, name);
  if (rc == SQLITE_OK && ext_vtab(table)->options.text_key)
    rc = ext_dict_rename(table->conn->db, table->schema, table->name, name,
                         &err);
  if (rc == SQLITE_OK)
    rc = ext_settings_rename(table, name, &err);
  if (rc == SQLITE_OK)
    rc = ext_aux_rename(table, name, &err);
  ext_cursor_free_spare(table);
  if (rc == SQLITE_OK && !set_name(table, name))
    rc = SQLITE_NOMEM;
  emb_check(ext_table_valid(table));
  vtab_changed(table->conn, 1);
  return ext_vtab_error(&table->base, rc, err);
}

static int shadow_name(const char *suffix) {
  return sqlite3_stricmp(suffix, "emb") == 0 ||
         sqlite3_stricmp(suffix, EXT_DICT_TABLE) == 0 ||
         sqlite3_stricmp(suffix, EXT_SETTINGS) == 0 ||
         sqlite3_stricmp(suffix, EXT_AUX) == 0;
}

/* MATCH outside of a search: under OR or NOT, after an outer join, or as one of
** more conditions than SQLite passes to xBestIndex. */
static void vtab_match(sqlite3_context *context, int argc,
                       sqlite3_value **argv) {
  (void)argc, (void)argv;
  sqlite3_result_error(context,
                       "emb: MATCH cannot be used here; write it as a term of "
                       "AND in WHERE, or in ON, for the table it searches",
                       -1);
}

static int vtab_function(sqlite3_vtab *vtab, int argc, const char *name,
                         void (**call)(sqlite3_context *, int,
                                       sqlite3_value **),
                         void **data) {
  (void)vtab;
  if (argc != 2 || sqlite3_stricmp(name, "match") != 0)
    return 0;
  *call = vtab_match;
  *data = NULL;
  return 1;
}

/* PRAGMA integrity_check, since SQLite 3.44.  Bit 0 of flags: quick_check. */
static int vtab_integrity(sqlite3_vtab *vtab, const char *schema,
                          const char *name, int flags, char **message) {
  struct ext_table *table = (struct ext_table *)vtab;
  sqlite3_str *report = sqlite3_str_new(table->conn->db);
  char *err = NULL;
  int rc = ext_command_verify(table, flags & 1, report, &err);
  char *text;
  if (rc == SQLITE_OK)
    rc = sqlite3_str_errcode(report);
  text = sqlite3_str_finish(report);
  if (rc == SQLITE_NOMEM) {
    sqlite3_free(text);
    return rc;
  }
  if (rc != SQLITE_OK)
    *message = sqlite3_mprintf("emb: in %s.%s: %s", schema, name, err);
  else if (text)
    *message = sqlite3_mprintf("emb: in %s.%s: %s", schema, name, text);
  sqlite3_free(err);
  sqlite3_free(text);
  return SQLITE_OK;
}

/* sqlite3_module as of 3.44.  Older headers end before xIntegrity, and older
** libraries do not read it. */
#define VTAB_MODULE                                                            \
  .iVersion = 4, .xCreate = vtab_create, .xConnect = vtab_connect,             \
  .xBestIndex = ext_plan_best_index, .xDisconnect = vtab_disconnect,           \
  .xDestroy = vtab_destroy, .xOpen = ext_cursor_open,                          \
  .xClose = ext_cursor_close, .xFilter = ext_cursor_filter,                    \
  .xNext = ext_cursor_next, .xEof = ext_cursor_eof,                            \
  .xColumn = ext_cursor_column, .xRowid = ext_cursor_rowid,                    \
  .xUpdate = ext_update, .xBegin = ext_txn_begin, .xSync = ext_txn_sync,       \
  .xCommit = ext_txn_commit, .xRollback = ext_txn_rollback,                    \
  .xFindFunction = vtab_function, .xRename = rename_table,                     \
  .xSavepoint = ext_txn_savepoint, .xRelease = ext_txn_release,                \
  .xRollbackTo = ext_txn_rollback_to, .xShadowName = shadow_name

#if SQLITE_VERSION_NUMBER >= 3044000
static const sqlite3_module vtab_module = {VTAB_MODULE,
                                           .xIntegrity = vtab_integrity};

const sqlite3_module *ext_vtab_module(void) { return &vtab_module; }
#else
static const struct {
  sqlite3_module base;
  int (*xIntegrity)(sqlite3_vtab *, const char *, const char *, int, char **);
} vtab_module = {{VTAB_MODULE}, vtab_integrity};

const sqlite3_module *ext_vtab_module(void) { return &vtab_module.base; }
#endif
