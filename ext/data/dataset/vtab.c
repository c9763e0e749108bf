/* SPDX-License-Identifier: MIT
**
** vtab.c -- the module emb_samples: creates, drops, renames and scans tables.
**
** There is no xBegin: all of a table's state is in its shadow tables.
*/
#include "engine/data/emb_data.h"
#include "samples.h"
SQLITE_EXTENSION_INIT3

#include <stdlib.h>
#include <string.h>

static void samples_free(struct ext_samples *table) {
  ext_samples_map_free(table->map);
  ext_samples_scan_free_spare(table);
  if (!ext_conn_is_inherited(table->client->conn))
    emb_samples_close(table->reader);
  ext_samples_options_clear(&table->options);
  sqlite3_free(table->schema);
  sqlite3_free(table->name);
  sqlite3_free(table->base.zErrMsg);
  sqlite3_free(table);
}

/* The command column has the table's name, unless another column has it. */
static int samples_declare(struct ext_samples *table, char **err) {
  static const char *const columns[] = {
      "key", "payload", "label", "timestamp", "dataset", "path", "options"};
  const char *command = table->name;
  char *sql;
  int rc;
  for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
    if (sqlite3_stricmp(columns[i], command) == 0)
      command = "command";
  sql = sqlite3_mprintf("CREATE TABLE x(key INTEGER PRIMARY KEY, payload, "
                        "label, timestamp INTEGER, dataset TEXT, path TEXT "
                        "HIDDEN, options TEXT HIDDEN, \"%w\" HIDDEN)",
                        command);
  rc = sql ? ext_declare_vtab(table->db, sql) : SQLITE_NOMEM;
  sqlite3_free(sql);
  if (rc == SQLITE_OK)
    rc = sqlite3_vtab_config(table->db, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1);
  if (rc == SQLITE_OK)
    rc = sqlite3_vtab_config(table->db, SQLITE_VTAB_DIRECTONLY);
  return ext_sql_error(err, table->db, rc);
}

/* The arguments may give a complete format, or a part of it. */
static int samples_options(struct ext_samples *table, int argc,
                           const char *const *argv, char **err) {
  struct ext_samples_options whole;
  int rc;
  ext_samples_options_init(&table->options);
  rc = ext_samples_options_arguments(&table->options, argc, argv, err);
  if (rc != SQLITE_OK ||
      (table->options.format.kind == 0 && table->options.format.record == 0))
    return rc;
  rc = ext_samples_options_copy(&whole, &table->options);
  if (rc == SQLITE_OK)
    rc = ext_samples_options_finish(&whole, err);
  ext_samples_options_clear(&whole);
  return rc;
}

static int samples_start(struct ext_samples_client *client, int create,
                         int argc, const char *const *argv, sqlite3_vtab **out,
                         char **message) {
  struct ext_samples *table = sqlite3_malloc64(sizeof *table);
  char *err = NULL;
  int rc;
  if (table == NULL)
    return SQLITE_NOMEM;
  memset(table, 0, sizeof *table);
  table->client = client;
  table->db = client->conn->db;
  table->schema = sqlite3_mprintf("%s", argv[1]);
  table->name = sqlite3_mprintf("%s", argv[2]);
  rc = table->schema && table->name ? ext_conn_check(client->conn, &err)
                                    : SQLITE_NOMEM;
  if (rc == SQLITE_OK)
    rc = samples_options(table, argc, argv, &err);
  if (rc == SQLITE_OK)
    rc = samples_declare(table, &err);
  if (rc == SQLITE_OK && create)
    rc = ext_samples_shadow_create(table, &err);
  if (rc == SQLITE_OK) {
    *out = &table->base;
  } else {
    *message = sqlite3_mprintf("emb: %s", err ? err : sqlite3_errstr(rc));
    samples_free(table);
  }
  sqlite3_free(err);
  return rc;
}

static int samples_create(sqlite3 *db, void *client, int argc,
                          const char *const *argv, sqlite3_vtab **out,
                          char **message) {
  (void)db;
  return samples_start(client, 1, argc, argv, out, message);
}

static int samples_connect(sqlite3 *db, void *client, int argc,
                           const char *const *argv, sqlite3_vtab **out,
                           char **message) {
  (void)db;
  return samples_start(client, 0, argc, argv, out, message);
}

static int samples_disconnect(sqlite3_vtab *vtab) {
  samples_free((struct ext_samples *)vtab);
  return SQLITE_OK;
}

static int samples_destroy(sqlite3_vtab *vtab) {
  struct ext_samples *table = (struct ext_samples *)vtab;
  char *err = NULL;
  int rc;
  ext_samples_map_free(table->map);
  table->map = NULL;
  ext_samples_scan_free_spare(table);
  rc = ext_samples_shadow_drop(table, &err);
  if (rc == SQLITE_OK)
    samples_free(table);
  else
    return ext_vtab_error(vtab, rc, err);
  return SQLITE_OK;
}

static int samples_rename(sqlite3_vtab *vtab, const char *name) {
  struct ext_samples *table = (struct ext_samples *)vtab;
  char *err = NULL;
  char *own = sqlite3_mprintf("%s", name);
  int rc = own ? ext_samples_shadow_rename(table, name, &err) : SQLITE_NOMEM;
  ext_samples_map_free(table->map);
  table->map = NULL;
  ext_samples_scan_free_spare(table);
  if (rc == SQLITE_OK) {
    char *old = table->name;
    table->name = own;
    own = old;
  }
  sqlite3_free(own);
  return ext_vtab_error(vtab, rc, err);
}

/* ---- cursors ------------------------------------------------------------- */

struct samples_cursor {
  sqlite3_vtab_cursor base; /* must be first */
  struct ext_samples_scan *scan;
};

static int samples_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  struct samples_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
  int rc;
  if (cursor == NULL)
    return SQLITE_NOMEM;
  memset(cursor, 0, sizeof *cursor);
  rc = ext_samples_scan_new((struct ext_samples *)vtab, &cursor->scan);
  if (rc == SQLITE_OK)
    *out = &cursor->base;
  else
    sqlite3_free(cursor);
  return rc;
}

static int samples_close(sqlite3_vtab_cursor *base) {
  struct samples_cursor *cursor = (struct samples_cursor *)base;
  ext_samples_scan_free(cursor->scan);
  sqlite3_free(cursor);
  return SQLITE_OK;
}

/* Moves to a sample that was found: a list may have keys without one. */
static int samples_settle(struct samples_cursor *cursor, int rc, char *err) {
  while (rc == SQLITE_OK && !ext_samples_scan_eof(cursor->scan) &&
         !ext_samples_scan_found(cursor->scan))
    rc = ext_samples_scan_next(cursor->scan, &err);
  return ext_vtab_error(cursor->base.pVtab, rc, err);
}

static int samples_next(sqlite3_vtab_cursor *base) {
  struct samples_cursor *cursor = (struct samples_cursor *)base;
  char *err = NULL;
  int rc = ext_samples_scan_next(cursor->scan, &err);
  return samples_settle(cursor, rc, err);
}

static int samples_eof(sqlite3_vtab_cursor *base) {
  return ext_samples_scan_eof(((struct samples_cursor *)base)->scan);
}

static int samples_column(sqlite3_vtab_cursor *base, sqlite3_context *context,
                          int i) {
  struct samples_cursor *cursor = (struct samples_cursor *)base;
  char *err = NULL;
  int rc;
  if (i > EXT_SAMPLES_PATH)
    return SQLITE_OK;
  rc = ext_samples_scan_column(cursor->scan, context, i, &err);
  return ext_vtab_error(base->pVtab, rc, err);
}

static int samples_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out) {
  *out = ext_samples_scan_key(((struct samples_cursor *)base)->scan);
  return SQLITE_OK;
}

/* ---- arguments of a scan ------------------------------------------------- */

static int samples_by_key(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

/* The keys of an IN list, each once, in ascending order. */
static int samples_in(struct ext_conn *conn, sqlite3_value *list,
                      const struct ext_range *range, int64_t **out,
                      size_t *count, char **err) {
  int64_t *keys = NULL;
  size_t n = 0, capacity = 0, kept = 0;
  sqlite3_value *value;
  int rc;
  for (rc = sqlite3_vtab_in_first(list, &value); rc == SQLITE_OK && value;
       rc = sqlite3_vtab_in_next(list, &value)) {
    int64_t key;
    rc = ext_key_comparable(value, "key", err);
    if (rc != SQLITE_OK)
      break;
    if (n == capacity) {
      int64_t *more;
      capacity = capacity ? 2 * capacity : 64;
      more = sqlite3_realloc64(keys, capacity * sizeof *keys);
      if (more == NULL) {
        rc = SQLITE_NOMEM;
        break;
      }
      keys = more;
    }
    if (ext_range_key(value, &key) && key >= range->lo && key <= range->hi)
      keys[n++] = key;
  }
  *out = keys;
  if (rc != SQLITE_OK && rc != SQLITE_DONE)
    return rc;
  rc = ext_link_sort(conn, keys, n, sizeof *keys, samples_by_key, err);
  if (rc != SQLITE_OK)
    return rc;
  for (size_t i = 0; i < n; i++)
    if (kept == 0 || keys[kept - 1] != keys[i])
      keys[kept++] = keys[i];
  *count = kept;
  return SQLITE_OK;
}

/* Applies one value of the plan. */
static int samples_narrow(struct ext_samples_ask *ask, const char *letters,
                          sqlite3_value *value, char **err) {
  const char *text;
  if (letters[0] == 'k' && letters[1] != 'i') {
    ext_range_narrow(&ask->keys, letters[1], value);
    return ext_key_comparable(value, "key", err);
  } else if (letters[0] == 't') {
    ext_range_narrow(&ask->times, letters[1], value);
    return ext_key_comparable(value, "timestamp", err);
  } else if (letters[0] == 'd' && ask->dataset == NULL &&
             sqlite3_value_type(value) == SQLITE_TEXT) {
    text = (const char *)sqlite3_value_text(value);
    ask->dataset = text ? sqlite3_mprintf("%s", text) : NULL;
    return ask->dataset ? SQLITE_OK : SQLITE_NOMEM;
  }
  return SQLITE_OK;
}

static int samples_begin(struct samples_cursor *cursor,
                         struct ext_samples_ask *ask, sqlite3_value *in,
                         char **err) {
  struct ext_samples *table = (struct ext_samples *)cursor->base.pVtab;
  int64_t *keys = NULL;
  size_t n = 1;
  int rc = SQLITE_OK;
  if (in) {
    rc = samples_in(table->client->conn, in, &ask->keys, &keys, &n, err);
  } else if (ask->keys.lo == ask->keys.hi) {
    keys = sqlite3_malloc64(sizeof *keys);
    if (keys == NULL)
      rc = SQLITE_NOMEM;
    else
      keys[0] = ask->keys.lo;
  } else {
    return ext_samples_scan_range(cursor->scan, ask, err);
  }
  if (rc == SQLITE_OK)
    return ext_samples_scan_list(cursor->scan, keys, n, ask->reads, err);
  sqlite3_free(keys);
  return rc;
}

static int samples_filter(sqlite3_vtab_cursor *base, int columns,
                          const char *letters, int argc, sqlite3_value **argv) {
  struct samples_cursor *cursor = (struct samples_cursor *)base;
  struct ext_samples *table = (struct ext_samples *)base->pVtab;
  struct ext_samples_ask ask = {.reads = columns};
  sqlite3_value *in = NULL;
  char *err = NULL;
  int rc = ext_conn_check(table->client->conn, &err);
  ext_range_all(&ask.keys);
  ext_range_all(&ask.times);
  for (int i = 0; i < argc && rc == SQLITE_OK; i++) {
    if (letters[2 * i + 1] == 'i')
      in = argv[i];
    rc = samples_narrow(&ask, letters + (size_t)2 * (size_t)i, argv[i], &err);
  }
  if (rc == SQLITE_OK)
    rc = samples_begin(cursor, &ask, in, &err);
  sqlite3_free(ask.dataset);
  return samples_settle(cursor, rc, err);
}

/* ---- the module ---------------------------------------------------------- */

static int samples_shadow_name(const char *suffix) {
  return ext_samples_shadow_is(suffix);
}

static const sqlite3_module samples_module = {
    .iVersion = 3,
    .xCreate = samples_create,
    .xConnect = samples_connect,
    .xBestIndex = ext_samples_plan,
    .xDisconnect = samples_disconnect,
    .xDestroy = samples_destroy,
    .xOpen = samples_open,
    .xClose = samples_close,
    .xFilter = samples_filter,
    .xNext = samples_next,
    .xEof = samples_eof,
    .xColumn = samples_column,
    .xRowid = samples_rowid,
    .xUpdate = ext_samples_update,
    .xRename = samples_rename,
    .xShadowName = samples_shadow_name,
};

const sqlite3_module *ext_samples_module(void) { return &samples_module; }
