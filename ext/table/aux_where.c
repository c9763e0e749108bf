/* SPDX-License-Identifier: MIT
**
** aux_where.c -- conditions on auxiliary columns.
**
** They become a parameterized SELECT on the shadow table:
**     SELECT id FROM items_rows WHERE "label" = ? AND "price" < ?
** so SQLite does the comparisons and chooses among its indexes.
**
** HANDLED   = < <= > >= <> IS, IN (...), IS NULL and IS NOT NULL, with BINARY
**           collation; everything else is left to SQLite.  SQLite checks these
**           again (omit is not set), which is cheap for the rows returned.
** NULLS     A row of the table without a shadow row is a row of NULLs.  If such
**           a row matches, the rows that do not match are selected instead.
** AFFINITY  An SQLite comparison depends on the affinity of both sides, but a
**           virtual table gets only the value of the other side.  The value is
**           sufficient if the column is numeric, if column and value are TEXT,
**           or for NULL and BLOBs.  Otherwise the result may depend on whether
**           the other side is a column (text = 5 is text = '5', but not if the
**           5 comes from a numeric column).  A scan then reads the whole table,
**           and a search for neighbours uses the value as if it were a literal.
*/
#include "aux_columns.h"
SQLITE_EXTENSION_INIT3

#include <stdlib.h>
#include <string.h>

/* ---- plans --------------------------------------------------------------- */

static char aux_letter_of(int op) {
  static const struct {
    int op;
    char letter;
  } letters[] = {{SQLITE_INDEX_CONSTRAINT_EQ, '='},
                 {SQLITE_INDEX_CONSTRAINT_LT, '<'},
                 {SQLITE_INDEX_CONSTRAINT_LE, 'l'},
                 {SQLITE_INDEX_CONSTRAINT_GT, '>'},
                 {SQLITE_INDEX_CONSTRAINT_GE, 'g'},
                 {SQLITE_INDEX_CONSTRAINT_NE, '!'},
                 {SQLITE_INDEX_CONSTRAINT_IS, 's'},
                 {SQLITE_INDEX_CONSTRAINT_ISNULL, 'n'},
                 {SQLITE_INDEX_CONSTRAINT_ISNOTNULL, 'N'}};
  for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++)
    if (letters[i].op == op)
      return letters[i].letter;
  return 0;
}

char ext_aux_letter(const struct ext_options *options, sqlite3_index_info *info,
                    int i) {
  const struct sqlite3_index_constraint *constraint = &info->aConstraint[i];
  const char *collation;
  if (!constraint->usable || ext_aux_of(options, constraint->iColumn) < 0)
    return 0;
  collation = sqlite3_vtab_collation(info, i);
  return collation && sqlite3_stricmp(collation, "BINARY") == 0
             ? aux_letter_of(constraint->op)
             : 0;
}

/* Does a condition on the key, or a list of keys, determine the rows? */
static int is_by_plain_key(const sqlite3_index_info *info) {
  for (int i = 0; i < info->nConstraint; i++) {
    int column = info->aConstraint[i].iColumn;
    int op = info->aConstraint[i].op;
    if (info->aConstraint[i].usable &&
        (op == SQLITE_INDEX_CONSTRAINT_EQ ||
         op == SQLITE_INDEX_CONSTRAINT_IS) &&
        (column <= EXT_KEY || column == EXT_KEYS))
      return 1;
  }
  return 0;
}

int ext_aux_use(const struct ext_options *options, sqlite3_index_info *info) {
  int use = EXT_AUX_NONE;
  if (options->aux_count == 0 || is_by_plain_key(info))
    return use;
  for (int i = 0; i < info->nConstraint; i++) {
    char letter = ext_aux_letter(options, info, i);
    int column = ext_aux_of(options, info->aConstraint[i].iColumn);
    int best = letter == '=' && sqlite3_vtab_in(info, i, -1) ? EXT_AUX_IN
               : letter == '=' || letter == 's'              ? EXT_AUX_EQ
               : letter && strchr("<l>g", letter)            ? EXT_AUX_RANGE
                                                             : EXT_AUX_NONE;
    if (best > use && options->aux[column].indexed)
      use = best;
  }
  return use;
}

/* ---- conditions ---------------------------------------------------------- */

void ext_aux_where_free(struct ext_aux_where *where) {
  if (where == NULL)
    return;
  for (int i = 0; i < where->n; i++) {
    for (int v = 0; v < where->terms[i].n; v++)
      sqlite3_value_free(where->terms[i].values[v]);
    sqlite3_free(where->terms[i].values);
  }
  sqlite3_free(where->terms);
  sqlite3_free(where);
}

static int add_term_value(struct aux_term *term, sqlite3_value *value) {
  sqlite3_value *own = sqlite3_value_dup(value);
  if (own && term->n == term->room) {
    int room = term->room ? 2 * term->room : 1;
    sqlite3_value **more =
        sqlite3_realloc64(term->values, (size_t)room * sizeof(*more));
    if (more == NULL) {
      sqlite3_value_free(own);
      own = NULL;
    } else {
      term->values = more;
      term->room = room;
    }
  }
  if (own == NULL)
    return SQLITE_NOMEM;
  term->values[term->n++] = own;
  return SQLITE_OK;
}

static int add_term_list(struct aux_term *term, sqlite3_value *in) {
  sqlite3_value *value;
  int rc = sqlite3_vtab_in_first(in, &value);
  while (rc == SQLITE_OK) {
    rc = add_term_value(term, value);
    if (rc == SQLITE_OK)
      rc = sqlite3_vtab_in_next(in, &value);
  }
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static struct aux_term *add_aux_term(struct ext_aux_scan *scan) {
  struct ext_aux_where *where = scan->where;
  struct aux_term *more;
  if (where == NULL) {
    where = scan->where = sqlite3_malloc64(sizeof *where);
    if (where == NULL)
      return NULL;
    memset(where, 0, sizeof *where);
  }
  more = sqlite3_realloc64(where->terms,
                           ((size_t)where->n + 1) * sizeof *where->terms);
  if (more == NULL)
    return NULL;
  where->terms = more;
  memset(&more[where->n], 0, sizeof *more);
  return &more[where->n++];
}

/* *plan is at e.g. ";3=": number and letter. */
int ext_aux_ask(struct ext_aux_scan *scan, const char **plan,
                sqlite3_value *value, int in) {
  struct aux_term *term;
  uint64_t column = 0;
  emb_assert(*plan && **plan == ';'); /* one for each B and I */
  term = add_aux_term(scan);
  if (term == NULL)
    return SQLITE_NOMEM;
  ++*plan;
  (void)text_digits(plan, INT32_MAX, &column);
  term->column = (int)column;
  term->op = *(*plan)++;
  if (in) {
    term->op = 'i';
    return add_term_list(term, value);
  }
  return term->op == 'n' || term->op == 'N' ? SQLITE_OK
                                            : add_term_value(term, value);
}

static int values_equal(sqlite3_value *a, sqlite3_value *b) {
  int type = sqlite3_value_type(a), n;
  double x, y;
  if (type != sqlite3_value_type(b))
    return 0;
  switch (type) {
  case SQLITE_INTEGER:
    return sqlite3_value_int64(a) == sqlite3_value_int64(b);
  case SQLITE_FLOAT:
    x = sqlite3_value_double(a);
    y = sqlite3_value_double(b);
    return memcmp(&x, &y, sizeof x) == 0;
  case SQLITE_NULL:
    return 1;
  default:
    n = sqlite3_value_bytes(a);
    return n == sqlite3_value_bytes(b) &&
           (n == 0 || memcmp(sqlite3_value_blob(a), sqlite3_value_blob(b),
                             (size_t)n) == 0);
  }
}

int ext_aux_where_equal(const struct ext_aux_where *a,
                        const struct ext_aux_where *b) {
  int equal = a->n == b->n;
  for (int i = 0; equal && i < a->n; i++) {
    const struct aux_term *x = &a->terms[i], *y = &b->terms[i];
    equal = x->column == y->column && x->op == y->op && x->n == y->n;
    for (int v = 0; equal && v < x->n; v++)
      equal = values_equal(x->values[v], y->values[v]);
  }
  return equal;
}

/* ---- the statement ------------------------------------------------------- */

/* Does a row of NULLs match? */
static int fits_nulls(const struct ext_aux_where *where) {
  for (int i = 0; i < where->n; i++) {
    const struct aux_term *term = &where->terms[i];
    if (term->op != 'n' &&
        !(term->op == 's' &&
          sqlite3_value_type(term->values[0]) == SQLITE_NULL))
      return 0;
  }
  return 1;
}

/* Do the values determine the comparisons?  See AFFINITY. */
static int is_aux_exact(const struct ext_options *options,
                        const struct ext_aux_where *where) {
  for (int i = 0; i < where->n; i++) {
    const struct aux_term *term = &where->terms[i];
    enum ext_affinity affinity = options->aux[term->column].affinity;
    for (int v = 0; v < term->n; v++) {
      int type = sqlite3_value_type(term->values[v]);
      if (affinity != EXT_AFFINITY_NUMBER && type != SQLITE_NULL &&
          type != SQLITE_BLOB &&
          !(affinity == EXT_AFFINITY_TEXT && type == SQLITE_TEXT))
        return 0;
    }
  }
  return 1;
}

static void add_term_text(sqlite3_str *sql, const char *name,
                          const struct aux_term *term) {
  const char *op = term->op == 'l'   ? "<="
                   : term->op == 'g' ? ">="
                   : term->op == '!' ? "<>"
                   : term->op == 's' ? "IS"
                   : term->op == '<' ? "<"
                   : term->op == '>' ? ">"
                                     : "=";
  if (term->op == 'n' || term->op == 'N') {
    sqlite3_str_appendf(sql, "t.\"%w\" IS %sNULL", name,
                        term->op == 'N' ? "NOT " : "");
  } else if (term->op == 'i') {
    sqlite3_str_appendf(sql, "t.\"%w\" IN (", name);
    for (int v = 0; v < term->n; v++)
      sqlite3_str_appendall(sql, v ? ",?" : "?");
    sqlite3_str_appendchar(sql, 1, ')');
  } else {
    sqlite3_str_appendf(sql, "t.\"%w\" %s ?", name, op);
  }
}

static char *aux_select_text(struct ext_table *table,
                             const struct ext_aux_where *where, int without) {
  const struct ext_options *options = &ext_vtab(table)->options;
  sqlite3_str *sql = sqlite3_str_new(table->conn->db);
  sqlite3_str_appendf(
      sql, "SELECT t.id FROM \"%w\".\"%w_" EXT_AUX "\" AS t WHERE %s(",
      table->schema, table->name, without ? "NOT " : "");
  for (int i = 0; i < where->n; i++) {
    sqlite3_str_appendall(sql, i ? " AND " : "");
    add_term_text(sql, options->aux[where->terms[i].column].name,
                  &where->terms[i]);
  }
  sqlite3_str_appendchar(sql, 1, ')');
  return sqlite3_str_finish(sql);
}

struct ext_aux_sets *ext_aux_sets_of(struct ext_table *table) {
  struct ext_aux_sets *sets = ext_vtab(table)->sets;
  if (sets == NULL) {
    sets = ext_vtab(table)->sets = sqlite3_malloc64(sizeof *sets);
    if (sets)
      memset(sets, 0, sizeof *sets);
  }
  return sets;
}

/* Prepares the SELECT and binds its values; reuses the last statement if its
** SQL is the same. */
static int aux_select_prepare(struct ext_table *table,
                              const struct ext_aux_where *where, int without,
                              sqlite3_stmt **select, char **err) {
  struct ext_aux_sets *sets = ext_aux_sets_of(table);
  char *sql = aux_select_text(table, where, without);
  int rc = sql && sets ? SQLITE_OK : SQLITE_NOMEM, at = 0;
  if (rc == SQLITE_OK &&
      !(sets->select && strcmp(sqlite3_sql(sets->select), sql) == 0)) {
    sqlite3_finalize(sets->select);
    sets->select = NULL;
    rc = sqlite3_prepare_v3(table->conn->db, sql, -1, SQLITE_PREPARE_PERSISTENT,
                            &sets->select, NULL);
  }
  sqlite3_free(sql);
  for (int i = 0; rc == SQLITE_OK && i < where->n; i++)
    for (int v = 0; rc == SQLITE_OK && v < where->terms[i].n; v++)
      rc = sqlite3_bind_value(sets->select, ++at, where->terms[i].values[v]);
  *select = rc == SQLITE_OK ? sets->select : NULL;
  return rc == SQLITE_OK ? rc : ext_aux_error(table, rc, err);
}

static int aux_select_step(sqlite3_stmt *select, int64_t **keys, size_t *n) {
  size_t room = 0;
  while (sqlite3_step(select) == SQLITE_ROW) {
    if (*n == room) {
      int64_t *more;
      room = room ? 2 * room : 64;
      more = sqlite3_realloc64(*keys, room * sizeof *more);
      if (more == NULL)
        return SQLITE_NOMEM;
      *keys = more;
    }
    (*keys)[(*n)++] = sqlite3_column_int64(select, 0);
  }
  return SQLITE_OK;
}

static int64_t count_values(const struct ext_aux_where *where) {
  int64_t n = 0;
  for (int i = 0; i < where->n; i++)
    n += where->terms[i].n;
  return n;
}

/* The maximum number of parameters in a statement. */
static int values_max(struct ext_table *table) {
  return sqlite3_limit(table->conn->db, SQLITE_LIMIT_VARIABLE_NUMBER, -1);
}

int ext_aux_select(struct ext_table *table, const struct ext_aux_where *where,
                   int *without, int64_t **keys, size_t *n, char **err) {
  sqlite3_stmt *select;
  int rc, ended;
  emb_check(ext_aux_where_valid(&ext_vtab(table)->options, where));
  *keys = NULL;
  *n = 0;
  *without = fits_nulls(where);
  if (count_values(where) > values_max(table))
    return ext_error(err, SQLITE_ERROR,
                     "conditions on auxiliary columns have %lld "
                     "values; a search takes at most %d",
                     (long long)count_values(where), values_max(table));
  rc = aux_select_prepare(table, where, *without, &select, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = aux_select_step(select, keys, n);
  ended = sqlite3_reset(select);
  if (rc == SQLITE_OK && ended != SQLITE_OK)
    rc = ext_aux_error(table, ended, err);
  sqlite3_clear_bindings(select);
  if (rc != SQLITE_OK) {
    sqlite3_free(*keys);
    *keys = NULL;
  }
  return rc;
}

static int compare_aux_keys(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

int ext_aux_list(struct ext_table *table, struct ext_aux_scan *scan,
                 int64_t **keys, size_t *n, int *done, char **err) {
  const struct ext_aux_where *where = scan->where;
  int without, rc;
  *done = !fits_nulls(where) && count_values(where) <= values_max(table) &&
          is_aux_exact(&ext_vtab(table)->options, where);
  if (!*done)
    return SQLITE_OK;
  rc = ext_aux_select(table, where, &without, keys, n, err);
  if (rc == SQLITE_OK)
    rc = ext_link_sort(table->conn, *keys, *n, sizeof **keys, compare_aux_keys,
                       err);
  if (rc != SQLITE_OK) {
    sqlite3_free(*keys);
    *keys = NULL;
  }
  return rc;
}
