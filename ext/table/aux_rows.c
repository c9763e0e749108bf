/* SPDX-License-Identifier: MIT
**
** aux_rows.c -- reads and writes one row of the auxiliary columns.
**
** ATOMIC    SQLite does not bracket a single-row statement with a savepoint, so
**           the changes to the store and to the shadow table must be made
**           atomic here: the store's change comes first, within an engine
**           savepoint, and is undone if the shadow table's change fails.  The
**           latter is one statement, which SQLite undoes by itself.
** STATEMENTS  are prepared once per table object, and finalized before it is
**           renamed.  None is left active except a cursor's, which is reset
**           when the cursor leaves the row.
*/
#include "aux_columns.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

enum aux_kind { AUX_READ, AUX_PUT, AUX_MOVE, AUX_DELETE };
enum { AUX_KINDS = AUX_DELETE + 1 };

struct ext_aux {
  sqlite3_stmt *statements[AUX_KINDS]; /* NULL: not prepared yet */
};

/* ---- statements ---------------------------------------------------------- */

void ext_aux_forget(struct ext_table *table) {
  struct ext_aux *aux = ext_vtab(table)->aux;
  for (int i = 0; aux && i < AUX_KINDS; i++) {
    sqlite3_finalize(aux->statements[i]);
    aux->statements[i] = NULL;
  }
}

void ext_aux_free(struct ext_table *table) {
  ext_aux_forget(table);
  sqlite3_free(ext_vtab(table)->aux);
  ext_vtab(table)->aux = NULL;
}

static void add_columns(const struct ext_options *options, sqlite3_str *sql,
                        const char *format) {
  for (int i = 0; i < options->aux_count; i++)
    sqlite3_str_appendf(sql, format, options->aux[i].name);
}

/* ?1 is the key, followed by the columns' values; for AUX_MOVE, the row's old
** key comes last. */
static char *statement_text(struct ext_table *table, enum aux_kind kind) {
  const struct ext_options *options = &ext_vtab(table)->options;
  sqlite3_str *sql = sqlite3_str_new(table->conn->db);
  char *shadow =
      sqlite3_mprintf("\"%w\".\"%w_" EXT_AUX "\"", table->schema, table->name);
  switch (shadow ? kind : AUX_KINDS) {
  case AUX_READ:
    /* Without the `t.`, a missing column would read as a string literal. */
    sqlite3_str_appendall(sql, "SELECT t.id");
    add_columns(options, sql, ", t.\"%w\"");
    sqlite3_str_appendf(sql, " FROM %s AS t WHERE t.id = ?", shadow);
    break;
  case AUX_PUT:
    sqlite3_str_appendf(sql, "INSERT OR REPLACE INTO %s(id", shadow);
    add_columns(options, sql, ", \"%w\"");
    sqlite3_str_appendall(sql, ") VALUES(?");
    for (int i = 0; i < options->aux_count; i++)
      sqlite3_str_appendall(sql, ", ?");
    sqlite3_str_appendchar(sql, 1, ')');
    break;
  case AUX_MOVE:
    sqlite3_str_appendf(sql, "UPDATE OR REPLACE %s SET id = ?", shadow);
    add_columns(options, sql, ", \"%w\" = ?");
    sqlite3_str_appendall(sql, " WHERE id = ?");
    break;
  case AUX_DELETE:
    sqlite3_str_appendf(sql, "DELETE FROM %s WHERE id = ?", shadow);
    break;
  default:
    break;
  }
  sqlite3_free(shadow);
  return sqlite3_str_finish(sql);
}

static int aux_prepare(struct ext_table *table, enum aux_kind kind,
                       sqlite3_stmt **statement, char **err) {
  char *sql = statement_text(table, kind);
  int rc = sql ? sqlite3_prepare_v3(table->conn->db, sql, -1,
                                    SQLITE_PREPARE_PERSISTENT, statement, NULL)
               : SQLITE_NOMEM;
  sqlite3_free(sql);
  return rc == SQLITE_OK ? rc : ext_aux_error(table, rc, err);
}

/* Returns one of the table object's statements, preparing it on first use. */
static int aux_statement(struct ext_table *table, enum aux_kind kind,
                         sqlite3_stmt **statement, char **err) {
  struct ext_aux *aux = ext_vtab(table)->aux;
  int rc = SQLITE_OK;
  if (aux == NULL) {
    aux = sqlite3_malloc64(sizeof *aux);
    if (aux == NULL)
      return SQLITE_NOMEM;
    memset(aux, 0, sizeof *aux);
    ext_vtab(table)->aux = aux;
  }
  if (aux->statements[kind] == NULL)
    rc = aux_prepare(table, kind, &aux->statements[kind], err);
  *statement = aux->statements[kind];
  return rc;
}

/* Runs a statement that writes, and clears its bindings.  Restores
** last_insert_rowid(), which belongs to the outer statement. */
static int aux_run(struct ext_table *table, sqlite3_stmt *statement,
                   char **err) {
  sqlite3 *db = table->conn->db;
  sqlite3_int64 last = sqlite3_last_insert_rowid(db);
  int rc;
  sqlite3_step(statement);
  rc = sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  sqlite3_set_last_insert_rowid(db, last);
  return rc == SQLITE_OK ? rc : ext_aux_error(table, rc, err);
}

/* ---- reading ------------------------------------------------------------- */

void ext_aux_reset(struct ext_aux_scan *scan) {
  sqlite3_reset(scan->row);
  scan->state = 0;
}

/* Positions the scan on the row of a key. */
static int aux_seek(struct ext_table *table, struct ext_aux_scan *scan,
                    int64_t key, char **err) {
  int rc;
  ext_aux_leave(scan);
  if (scan->row == NULL) {
    rc = aux_prepare(table, AUX_READ, &scan->row, err);
    if (rc != SQLITE_OK)
      return rc;
  }
  sqlite3_bind_int64(scan->row, 1, key);
  rc = sqlite3_step(scan->row);
  if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
    rc = sqlite3_reset(scan->row);
    return ext_aux_error(table, rc, err);
  }
  scan->state = rc;
  scan->key = key;
  return SQLITE_OK;
}

int ext_aux_column(struct ext_table *table, struct ext_aux_scan *scan,
                   int64_t key, int i, sqlite3_context *context) {
  char *err = NULL;
  int rc = SQLITE_OK;
  if (scan->state == 0 || scan->key != key)
    rc = aux_seek(table, scan, key, &err);
  if (rc == SQLITE_OK && scan->state == SQLITE_ROW)
    sqlite3_result_value(context, sqlite3_column_value(scan->row, i + 1));
  return ext_vtab_error(&table->base, rc, err);
}

/* ---- writing ------------------------------------------------------------- */

int ext_aux_begin(struct ext_table *table, int *level, char **err) {
  struct ext_link *link = table->link;
  int rc;
  *level = -1;
  if (!ext_aux_is(table))
    return SQLITE_OK;
  rc = emb_savepoint(link->session, ext_txn_level(link) + 1);
  if (rc)
    return ext_link_error(link, rc, err);
  *level = ext_txn_level(link) + 1;
  return SQLITE_OK;
}

int ext_aux_end(struct ext_table *table, int level, int rc, char **err) {
  struct ext_link *link = table->link;
  int ended;
  if (level < 0)
    return rc;
  if (rc != SQLITE_OK && !EMB_SEED(SEED_COLUMNS_WITHOUT_ROW))
    emb_rollback_to(link->session, level);
  ended = emb_savepoint_release(link->session, level);
  return rc == SQLITE_OK && ended ? ext_link_error(link, ended, err) : rc;
}

struct ext_aux_values ext_aux_values(struct ext_table *table,
                                     sqlite3_value **argv, int is_insert) {
  const struct ext_options *options = &ext_vtab(table)->options;
  struct ext_aux_values values = {argv + 2 + ext_aux_at(options, 0), !is_insert,
                                  0};
  for (int i = 0; i < options->aux_count && !values.given; i++)
    values.given = is_insert ? sqlite3_value_type(values.at[i]) != SQLITE_NULL
                             : !sqlite3_value_nochange(values.at[i]);
  return values;
}

int ext_aux_refuse(struct ext_table *table, const struct ext_aux_values *values,
                   const char *what, char **err) {
  return values->given
             ? ext_error(err, SQLITE_ERROR, "either %s or %s, not both",
                         ext_vtab(table)->options.aux[0].name, what)
             : SQLITE_OK;
}

/* Binds the given values; for other columns the value in `old`, or nothing if
** `old` is NULL.  *some: not all are NULL. */
static int aux_bind(struct ext_table *table, sqlite3_stmt *statement,
                    const struct ext_aux_values *values, sqlite3_stmt *old,
                    int *some) {
  const struct ext_options *options = &ext_vtab(table)->options;
  int rc = SQLITE_OK;
  *some = 0;
  for (int i = 0; i < options->aux_count && rc == SQLITE_OK; i++) {
    sqlite3_value *value = values->at[i];
    if (values->updates && sqlite3_value_nochange(value)) {
      if (old == NULL)
        continue;
      value = sqlite3_column_value(old, i + 1);
    }
    *some |= sqlite3_value_type(value) != SQLITE_NULL;
    rc = sqlite3_bind_value(statement, i + 2, value);
  }
  return rc;
}

int ext_aux_delete(struct ext_table *table, int64_t key, char **err) {
  sqlite3_stmt *statement;
  int rc;
  if (!ext_aux_is(table))
    return SQLITE_OK;
  rc = aux_statement(table, AUX_DELETE, &statement, err);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(statement, 1, key);
  return aux_run(table, statement, err);
}

int ext_aux_insert(struct ext_table *table, const struct ext_aux_values *values,
                   int64_t key, char **err) {
  sqlite3_stmt *statement;
  int some, rc;
  if (!ext_aux_is(table))
    return SQLITE_OK;
  if (!values->given)
    return ext_aux_delete(table, key, err);
  rc = aux_statement(table, AUX_PUT, &statement, err);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(statement, 1, key);
  rc = aux_bind(table, statement, values, NULL, &some);
  if (rc == SQLITE_OK)
    return aux_run(table, statement, err);
  sqlite3_clear_bindings(statement);
  return ext_aux_error(table, rc, err);
}

struct merged {
  int there; /* the row existed */
  int some;  /* not all are NULL */
};

/* Binds the row at `from`, merged with the UPDATE's values, to a statement. */
static int merge_row(struct ext_table *table, sqlite3_stmt *statement,
                     const struct ext_aux_values *values, int64_t from,
                     struct merged *row, char **err) {
  sqlite3_stmt *old;
  int rc = aux_statement(table, AUX_READ, &old, err);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(old, 1, from);
  row->there = sqlite3_step(old) == SQLITE_ROW;
  rc = aux_bind(table, statement, values, row->there ? old : NULL, &row->some);
  if (sqlite3_reset(old) != SQLITE_OK || rc != SQLITE_OK) {
    rc = rc == SQLITE_OK ? sqlite3_errcode(table->conn->db) : rc;
    sqlite3_clear_bindings(statement);
    return ext_aux_error(table, rc, err);
  }
  return SQLITE_OK;
}

/* Applies an UPDATE to a row that keeps its key, or has no shadow row at
** `from`. */
static int put_merged(struct ext_table *table,
                      const struct ext_aux_values *values, int64_t from,
                      int64_t to, char **err) {
  sqlite3_stmt *statement;
  struct merged row;
  int rc = aux_statement(table, AUX_PUT, &statement, err);
  if (rc == SQLITE_OK)
    rc = merge_row(table, statement, values, from, &row, err);
  if (rc != SQLITE_OK)
    return rc;
  if (row.some) {
    sqlite3_bind_int64(statement, 1, to);
    return aux_run(table, statement, err);
  }
  sqlite3_clear_bindings(statement);
  return row.there || from != to ? ext_aux_delete(table, to, err) : SQLITE_OK;
}

int ext_aux_update(struct ext_table *table, const struct ext_aux_values *values,
                   int64_t from, int64_t to, char **err) {
  sqlite3_stmt *statement;
  struct merged row;
  int rc;
  if (!ext_aux_is(table))
    return SQLITE_OK;
  if (from == to)
    return values->given ? put_merged(table, values, from, to, err) : SQLITE_OK;
  rc = aux_statement(table, AUX_MOVE, &statement, err);
  if (rc == SQLITE_OK)
    rc = merge_row(table, statement, values, from, &row, err);
  if (rc != SQLITE_OK)
    return rc;
  if (!row.there) {
    sqlite3_clear_bindings(statement);
    return put_merged(table, values, from, to, err);
  }
  sqlite3_bind_int64(statement, 1, to);
  sqlite3_bind_int64(statement, ext_vtab(table)->options.aux_count + 2, from);
  return aux_run(table, statement, err);
}

/* A row removed by a function, expiry or eviction may have left its shadow
** row. */
int ext_aux_clean(struct ext_table *table, const int64_t *keys, size_t n,
                  char **err) {
  enum { AT_ONCE = 512 };
  uint8_t found[AT_ONCE];
  int rc = SQLITE_OK;
  for (size_t at = 0; ext_aux_is(table) && rc == SQLITE_OK && at < n;
       at += AT_ONCE) {
    size_t m = n - at < AT_ONCE ? n - at : AT_ONCE;
    int asked = emb_exists(table->link->session, keys + at, m, found);
    rc = asked ? ext_link_error(table->link, asked, err) : SQLITE_OK;
    for (size_t i = 0; i < m && rc == SQLITE_OK; i++)
      if (!found[i])
        rc = ext_aux_delete(table, keys[at + i], err);
  }
  return rc;
}
