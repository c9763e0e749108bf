/* SPDX-License-Identifier: MIT
**
** create.c -- creates the store of a new table, and the shadow table that names
** it.
**
** TEMPORARY A table of an in-memory or temporary database has a store in
**           $SQLITE_TMPDIR, $TMPDIR, /var/tmp or /tmp that lives as long as
**           the connection.  It has the shadow table, too: the uuid there is
**           used to find the store again after SQLite has re-created the table
**           object, and its absence means that a DROP was committed.
*/
#include "table.h"
SQLITE_EXTENSION_INIT3

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Chooses a directory name that does not exist yet.  CREATE holds the
** database's write lock, so no other connection can choose the same one. */
static char *place_choose_name(const char *file, const char *table) {
  char *base = ext_place_encode(table);
  char *name = base ? sqlite3_mprintf("%s", base) : NULL;
  for (int i = 2; name; i++) {
    struct stat st;
    char *path = ext_place_path(file, name);
    int taken = path && lstat(path, &st) == 0;
    if (path == NULL || taken) {
      sqlite3_free(name);
      name = path ? sqlite3_mprintf("%s-%d", base, i) : NULL;
    }
    sqlite3_free(path);
    if (!taken)
      break;
  }
  sqlite3_free(base);
  return name;
}

static const char *temporary_parent(void) {
  const char *dirs[] = {getenv("SQLITE_TMPDIR"), getenv("TMPDIR"), "/var/tmp",
                        "/tmp"};
  for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
    struct stat st;
    if (dirs[i] && stat(dirs[i], &st) == 0 && S_ISDIR(st.st_mode) &&
        access(dirs[i], W_OK | X_OK) == 0)
      return dirs[i];
  }
  return ".";
}

/* Creates the store in dir, or a temporary one if dir is NULL. */
static int place_make_store(struct ext_table *table, char *dir, char **err) {
  struct ext_settings settings;
  emb_config config;
  emb_err engine_err;
  emb_store *store;
  char *path = NULL;
  int rc = ext_settings_create(table, &settings, err);
  config = settings.options.config;
  config.flags |= EMB_OPEN_CREATE;
  config.patience = &table->conn->patience;
  if (dir == NULL)
    config.flags |= EMB_OPEN_TEMPORARY;
  else if (rc == SQLITE_OK && (path = ext_place_path(table->file, dir)) == NULL)
    rc = SQLITE_NOMEM;
  if (rc == SQLITE_OK) {
    rc = emb_open(path ? path : temporary_parent(), &config, &store,
                  &engine_err);
    if (rc)
      rc = ext_store_error(err, rc, engine_err.text, table, path);
    else
      rc = ext_table_link(table, store, path, err);
  }
  if (rc == SQLITE_OK)
    rc = ext_orphan_add(table, table->link->uuid, path, err);
  if (rc == SQLITE_OK && table->link == NULL)
    rc = ext_error(err, SQLITE_ABORT, "the transaction was rolled back");
  if (rc == SQLITE_OK)
    rc = ext_settings_created(table, err);
  ext_settings_free(&settings);
  sqlite3_free(path);
  return rc;
}

int ext_table_create(struct ext_table *table, char **err) {
  sqlite3 *db = table->conn->db;
  char *dir = NULL, *place = NULL;
  int text_key = ext_vtab(table)->options.text_key;
  int rc;
  if (table->file[0]) {
    dir = place_choose_name(table->file, table->name);
    place = ext_place_path(table->file, NULL);
    if (dir == NULL || place == NULL) {
      sqlite3_free(dir);
      sqlite3_free(place);
      return SQLITE_NOMEM;
    }
  }
  rc = ext_settings_empty(table, err);
  if (rc == SQLITE_OK)
    rc =
        ext_exec(db, err,
                 "CREATE TABLE \"%w\".\"%w_emb\"(id INTEGER PRIMARY KEY "
                 "CHECK(id = 1), uuid TEXT, dir TEXT, txn INTEGER, "
                 "format INTEGER, place TEXT%s)",
                 table->schema, table->name, text_key ? EXT_DICT_REMOVALS : "");
  if (rc == SQLITE_OK && text_key)
    rc = ext_dict_create(db, table->schema, table->name, err);
  if (rc == SQLITE_OK)
    rc = place_make_store(table, dir, err);
  if (rc == SQLITE_OK)
    rc = ext_exec(db, err,
                  "INSERT INTO \"%w\".\"%w_emb\"(id, uuid, dir, txn, format, "
                  "place) VALUES(1, %Q, %Q, 0, %d, %Q)",
                  table->schema, table->name, table->link->uuid, dir,
                  EXT_PLACE_FORMAT, place);
  sqlite3_free(place);
  sqlite3_free(dir);
  return rc;
}
