/* SPDX-License-Identifier: MIT
**
** open.c -- finds a table's link: the store that the shadow table names.
**
** xConnect does not open the store; the first use does, so a table whose store
** is missing or damaged can still be dropped.
*/
#include "table.h"
SQLITE_EXTENSION_INIT3

#include <errno.h>
#include <string.h>
#include <unistd.h>

int ext_table_link(struct ext_table *table, emb_store *store, const char *path,
                   char **err) {
  const struct ext_options *options = &ext_vtab(table)->options;
  struct ext_dict *dict = options->text_key ? ext_dict_new() : NULL;
  int rc;
  emb_assert(table->link == NULL);
  if (options->text_key && dict == NULL) {
    emb_close(store, NULL);
    return SQLITE_NOMEM;
  }
  rc = ext_link_add(table, store, path, err);
  if (rc == SQLITE_OK) {
    table->link->atomic = path && !options->engine_commit;
    table->link->bounded = (options->config.flags & EMB_OPEN_BOUNDED) != 0;
    table->link->dict = dict;
  } else {
    ext_dict_free(dict);
  }
  return rc;
}

/* This statement reads an old state of the database in which the table still
** exists.  In autocommit mode SQLite reruns it, and it then finds no table. */
static int table_is_dropped(struct ext_table *table, char **err) {
  int rc = sqlite3_get_autocommit(table->conn->db) ? SQLITE_SCHEMA
                                                   : SQLITE_BUSY_SNAPSHOT;
  return ext_error(err, rc, "table %s was dropped since this transaction began",
                   table->name);
}

/* *moved = 1: the store was moved, so the next commit must record its place. It
** stays 0 if the row has no column for it.  An error must end the statement: if
** SQLite has no memory for this read, it rolls the transaction back. */
static int find_moved(struct ext_table *table, int *moved) {
  char *was = NULL, *now = ext_place_path(table->file, NULL);
  int rc = now ? ext_place_was(table, &was) : SQLITE_NOMEM;
  *moved = was && strcmp(was, now) != 0;
  sqlite3_free(was);
  sqlite3_free(now);
  return rc;
}

/* Opens the store that the row names. */
static int table_open_store(struct ext_table *table,
                            const struct ext_place *place, const char *path,
                            char **err) {
  struct ext_settings settings;
  emb_config config;
  emb_err engine_err;
  emb_store *store;
  char uuid[33];
  int moved = 0;
  int rc = ext_settings_open(table, &settings, err);
  if (rc == SQLITE_OK)
    rc = find_moved(table, &moved);
  if (rc != SQLITE_OK) {
    ext_settings_free(&settings);
    return rc;
  }
  config = settings.options.config;
  if (sqlite3_db_readonly(table->conn->db, table->schema) == 1)
    config.flags |= EMB_OPEN_READONLY;
  config.patience = &table->conn->patience;
  rc = emb_open(path, &config, &store, &engine_err);
  ext_settings_free(&settings);
  if (rc == EMB_OK)
    ext_link_uuid(store, uuid);
  /* Nothing is there, or a store that another table has created since. */
  if ((rc || strcmp(uuid, place->uuid) != 0) &&
      ext_orphan_is_dropped(table, place->uuid)) {
    if (rc == EMB_OK)
      emb_close(store, NULL);
    return table_is_dropped(table, err);
  }
  if (rc == EMB_CANTOPEN && access(path, F_OK) != 0)
    return errno == ENOENT
               ? ext_moved_text(table, place, err)
               : ext_error(err, SQLITE_CANTOPEN, "cannot open store \"%s\": %s",
                           path, strerror(errno));
  if (rc)
    return ext_store_error(err, rc, engine_err.text, table, path);
  if (strcmp(uuid, place->uuid) != 0) {
    emb_close(store, NULL);
    return ext_error(err, SQLITE_CORRUPT_VTAB,
                     "store in \"%s\" belongs to another table: its uuid is "
                     "%s, but %s_emb names %s",
                     path, uuid, table->name, place->uuid);
  }
  rc = ext_table_link(table, store, path, err);
  if (rc == SQLITE_OK)
    table->link->moved = moved;
  return rc;
}

/* A row of a shadow table, and another one with its uuid. */
struct same_place {
  const struct ext_table *table;
  const char *uuid;
  int is;      /* it was found: */
  char *other; /* its table */
};

static int is_same_place(void *arg, const char *shadow, const char *uuid,
                         const char *dir) {
  struct same_place *same = arg;
  size_t n = strlen(same->table->name);
  (void)dir;
  if (strcmp(uuid, same->uuid) != 0 ||
      (sqlite3_strnicmp(shadow, same->table->name, (int)n) == 0 &&
       strcmp(shadow + n, "_emb") == 0))
    return 0;
  same->other = sqlite3_mprintf("%.*s", (int)(strlen(shadow) - 4), shadow);
  same->is = 1;
  return 1;
}

/* Is the directory named after the table, as CREATE names it? */
static int is_own_name(const struct ext_table *table, const char *dir) {
  char *name = ext_place_encode(table->name);
  int is = name && strcmp(name, dir) == 0;
  sqlite3_free(name);
  return is;
}

/* Does the link belong to a table of another name? */
static int is_of_another(const struct ext_table *table,
                         const struct ext_link *link) {
  return link && link->tables &&
         sqlite3_stricmp(link->tables->name, table->name) != 0;
}

/* Refuses a row that was edited to name the store of another table.  All rows
** are compared only if this one looks like it: its directory has another name,
** which it also has after a rename. */
static int check_place(struct ext_table *table, const struct ext_place *place,
                       char **err) {
  struct same_place same = {table, place->uuid, 0, NULL};
  int rc;
  if (place->dir && table->file[0]
          ? is_own_name(table, place->dir)
          : !is_of_another(table,
                           ext_link_find(table->conn, place->uuid, NULL)))
    return SQLITE_OK;
  rc =
      ext_place_each(table->conn->db, table->schema, is_same_place, &same, err);
  if (rc == SQLITE_OK && same.is && same.other == NULL)
    rc = SQLITE_NOMEM;
  if (rc == SQLITE_OK && same.is && !EMB_SEED(SEED_STORE_OF_TWO_TABLES))
    rc = ext_error(
        err, SQLITE_CORRUPT_VTAB,
        "%s_emb and %s_emb name the same store: restore the row of %s_emb, "
        "or DROP TABLE %s, which leaves %s as it is",
        table->name, same.other, table->name, table->name, same.other);
  sqlite3_free(same.other);
  return rc;
}

/* Uses a link that another table object has opened.  Both are of one table,
** unless a row of a shadow table was edited: then the keys of one may be the
** numbers of the other's texts. */
static int open_attach(struct ext_table *table, struct ext_link *link,
                       char **err) {
  int is_text = ext_vtab(table)->options.text_key;
  if (is_text != (link->dict != NULL))
    return ext_error(err, SQLITE_CORRUPT_VTAB,
                     "the keys of %s are %s, but %s_emb names the store of a "
                     "table whose keys are %s",
                     table->name, is_text ? "texts" : "integers", table->name,
                     is_text ? "integers" : "texts");
  ext_link_attach(table, link);
  return SQLITE_OK;
}

int ext_table_open(struct ext_table *table, char **err) {
  struct ext_place place;
  struct ext_link *link;
  char *path = NULL;
  int rc;
  if (table->link)
    return SQLITE_OK;
  rc = ext_conn_check(table->conn, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = ext_place_read(table, &place, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = check_place(table, &place, err);
  if (rc == SQLITE_OK && place.dir && table->file[0]) {
    path = ext_place_path(table->file, place.dir);
    rc = path ? SQLITE_OK : SQLITE_NOMEM;
  }
  if (rc == SQLITE_OK && path)
    rc = ext_moved_find(table, &place, &path, err);
  if (rc == SQLITE_OK) {
    link = ext_link_find(table->conn, place.uuid, path);
    if (link)
      rc = open_attach(table, link, err);
    else if (path)
      rc = table_open_store(table, &place, path, err);
    else if (place.dir)
      rc = ext_moved_text(table, &place, err);
    else
      rc = ext_error(
          err, SQLITE_CANTOPEN,
          "the store of %s is not part of this database: it was temporary and "
          "belonged to another connection; make copies with emb_backup()",
          table->name);
  }
  sqlite3_free(path);
  sqlite3_free(place.dir);
  return rc;
}

int ext_table_owner(struct ext_table *table, int64_t *process, char **err) {
  struct ext_place place;
  int rc = ext_place_read(table, &place, err);
  *process = 0;
  if (rc == SQLITE_OK && place.dir && table->file[0]) {
    char *path = ext_place_path(table->file, place.dir);
    rc = path ? SQLITE_OK : SQLITE_NOMEM;
    if (path)
      *process = emb_owner_of(path);
    sqlite3_free(path);
  }
  if (rc == SQLITE_OK)
    sqlite3_free(place.dir);
  return rc;
}

int ext_keys_begin(struct ext_table *table, char **err) {
  int rc = SQLITE_OK;
  if (!ext_vtab(table)->options.text_key)
    return SQLITE_OK;
  if (table->link == NULL)
    rc = ext_table_open(table, err);
  if (rc == SQLITE_OK)
    rc = ext_dict_begin(table->link->dict, table->conn->db, table->schema,
                        table->name, err);
  return rc;
}
