/* SPDX-License-Identifier: MIT
**
** plan.c -- xBestIndex: the constraints that the table handles, and their cost.
**
** HANDLED    Every comparison of the key with = IS IN < <= > >=, any number
**            of them; ORDER BY key; the arguments of items(:keys, :mode);
**            OFFSET if no condition and no sorting is left to SQLite.  All
**            results are exactly SQLite's (range.c), so SQLite need not check
**            again (omit).
**            The neighbours of a vector (vector MATCH ?), with conditions on
**            key and distance, and ORDER BY distance.
**            Conditions on auxiliary columns (aux_where.c): in a search for
**            neighbours, or if there is an index on one of them.
** LEFT       Everything else is left to SQLite.
** PLAN       idxStr has a letter for each argument of xFilter (table.h), in the
**            order of the constraints.
**
** NEIGHBOURS Which rows are the k nearest must not depend on SQLite's join
**            order.  With
**                FROM items JOIN names ON id = key
**                WHERE vector MATCH ? AND k = 10
**            SQLite could search for the neighbours first and then look up
**            their names, or take each name and search for the neighbours
**            within its one row.  The first is intended: a condition restricts
**            the rows before the choice of the k nearest if its other side is
**            known as soon as the vector is, and otherwise filters the result.
**            SQLite asks for plans with more and with fewer tables before this
**            one, and drops a plan that needs more of them and is not cheaper.
**            So all of these plans have the same cost and expected rows,
**            regardless of conditions on key and distance.
**            Without k, rows come nearest first until SQLite stops; it then
**            makes no difference when a condition is applied.
*/
#include "aux_columns.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Guesses, in units of a row read in a scan. */
#define ROWS_UNKNOWN 1000000.0
#define COST_POINT 2.0
#define ROWS_IN 25.0
/* Rows per value of an indexed auxiliary column, and the cost of the query for
** them. */
#define ROWS_OF_VALUE 50.0
#define COST_BESIDE 20.0
/* On a table with a bound only reads by key count.  Whether a read counts must
** not depend on cost, so a scan is chosen only if there are no keys. */
#define COST_UNCOUNTED 1e12
/* Maximum wait for the number of rows if the owner does not respond. */
#define PLAN_WAIT_US 100000
/* Expected neighbours if k is not a constant; the cost of a row; and the
** penalty factor for a plan without MATCH, one term of an OR, if the statement
** reads columns that only neighbours have. */
#define ROWS_NEAREST 10
#define COST_NEAREST 0.25
#define COST_NO_MATCH 1e9

struct plan {
  sqlite3_str *letters;
  int n;
  int text_key;
  int number;   /* the column with the number of a text key */
  int points;   /* an = or IN on the key */
  int is_in;    /* ... IN without = */
  int bounds;   /* < and > on the key */
  int batch;    /* keys = ? */
  int snapshot; /* snapshot = ? */
  int taken;    /* hidden columns that are arguments, a bit each */
  int left;     /* a constraint was left to SQLite */
  int offset;   /* index of the OFFSET constraint, -1 none */

  int match;   /* index of vector MATCH ?, -1 none */
  int segment; /* the number of the vector */
  int k;       /* index of k = ?, -1 none; as the next two */
  int probes, recall;
  int mode;    /* index of mode = ?, -1 none */
  int limit;   /* a LIMIT */
  int within;  /* < <= = on the distance */
  int keys;    /* a condition on the key */
  int ordered; /* by distance, as the statement requires */

  int aux;              /* EXT_AUX_*: the best condition with an index */
  sqlite3_str *columns; /* number and letter of those taken, or NULL */
};

/* Is this the column by which the engine orders rows: the key, which is also
** the rowid, or the number of a text key? */
static int plan_is_number(const struct plan *plan, int column) {
  return plan->text_key ? column == plan->number : column <= EXT_KEY;
}

static void plan_take(sqlite3_index_info *info, struct plan *plan, int i,
                      char letter) {
  sqlite3_str_appendchar(plan->letters, 1, letter);
  info->aConstraintUsage[i].argvIndex = ++plan->n;
  info->aConstraintUsage[i].omit = 1;
}

static char key_letter(int op) {
  switch (op) {
  case SQLITE_INDEX_CONSTRAINT_EQ:
  case SQLITE_INDEX_CONSTRAINT_IS:
    return '=';
  case SQLITE_INDEX_CONSTRAINT_LT:
    return '<';
  case SQLITE_INDEX_CONSTRAINT_LE:
    return 'l';
  case SQLITE_INDEX_CONSTRAINT_GT:
    return '>';
  case SQLITE_INDEX_CONSTRAINT_GE:
    return 'g';
  default:
    return 0;
  }
}

static void plan_key(sqlite3_index_info *info, struct plan *plan, int i) {
  char letter = key_letter(info->aConstraint[i].op);
  plan->keys |= letter != 0;
  if (letter == 0) {
    plan->left = 1;
  } else if (letter == '=' && sqlite3_vtab_in(info, i, -1)) {
    sqlite3_vtab_in(info, i, 1);
    plan_take(info, plan, i, 'i');
    plan->is_in |= !plan->points;
    plan->points = 1;
  } else {
    plan_take(info, plan, i, letter);
    if (letter == 'l' || letter == 'g')
      plan->left = 1; /* (key, x) > (?, ?) comes as key >= ?, and SQLite then
                         checks again regardless of omit */
    if (letter == '=') {
      plan->points = 1;
      plan->is_in = 0;
    } else {
      plan->bounds++;
    }
  }
}

/* A constraint on a text key.  SQLite compares again, because the other side
** may be a number.  < and > are left to SQLite, as are other collations. */
static void plan_text(sqlite3_index_info *info, struct plan *plan, int i) {
  int is_eq = key_letter(info->aConstraint[i].op) == '=';
  plan->left = 1;
  if (!is_eq || sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY") != 0)
    return;
  plan->keys = 1;
  if (sqlite3_vtab_in(info, i, -1)) {
    sqlite3_vtab_in(info, i, 1);
    plan_take(info, plan, i, 'T');
    plan->is_in |= !plan->points;
  } else {
    plan_take(info, plan, i, 't');
    plan->is_in = 0;
  }
  plan->points = 1;
  info->aConstraintUsage[i].omit = 0;
}

/* `column = ?` for a hidden column that is an argument; 0: given twice. */
static int plan_argument(sqlite3_index_info *info, struct plan *plan, int i) {
  int column = info->aConstraint[i].iColumn;
  const struct ext_column *hidden = ext_column(column);
  if (hidden->rules & EXT_ONCE && plan->taken & ext_column_bit(column))
    return 0;
  plan->taken |= ext_column_bit(column);
  plan_take(info, plan, i, hidden->argument);
  plan->batch |= column == EXT_KEYS;
  plan->snapshot |= column == EXT_SNAPSHOT;
  if (column == EXT_K)
    plan->k = i;
  if (column == EXT_PROBES)
    plan->probes = i;
  if (column == EXT_RECALL)
    plan->recall = i;
  if (column == EXT_MODE)
    plan->mode = i;
  return 1;
}

/* A constraint on the distance, in a search for neighbours. */
static void plan_distance(sqlite3_index_info *info, struct plan *plan, int i) {
  int op = info->aConstraint[i].op;
  const char *letters = "<l>g=";
  const char *at = key_letter(op) ? strchr(letters, key_letter(op)) : NULL;
  if (at == NULL || (*at == '=' && sqlite3_vtab_in(info, i, -1))) {
    plan->left = 1;
    return;
  }
  plan_take(info, plan, i, "abcde"[at - letters]);
  plan->within |= *at != '>' && *at != 'g';
}

/* A condition on an auxiliary column; 0: it is left to SQLite. */
static int plan_aux(struct ext_table *table, sqlite3_index_info *info,
                    struct plan *plan, int i) {
  const struct ext_options *options = &ext_vtab(table)->options;
  char letter =
      plan->match >= 0 || plan->aux ? ext_aux_letter(options, info, i) : 0;
  int in = letter == '=' && sqlite3_vtab_in(info, i, 1);
  if (letter == 0)
    return 0;
  if (plan->columns == NULL)
    plan->columns = sqlite3_str_new(table->conn->db);
  plan_take(info, plan, i, in ? 'I' : 'B');
  info->aConstraintUsage[i].omit = 0;
  sqlite3_str_appendf(plan->columns, ";%d%c",
                      ext_aux_of(options, info->aConstraint[i].iColumn),
                      letter);
  return 1;
}

/* Finds vector MATCH ?, on which the rest depends. */
static int plan_match(struct ext_table *table, const sqlite3_index_info *info,
                      struct plan *plan) {
  const struct ext_options *options = &ext_vtab(table)->options;
  char *err = NULL;
  int rc = SQLITE_OK;
  for (int i = 0; i < info->nConstraint && rc == SQLITE_OK; i++) {
    int column = info->aConstraint[i].iColumn;
    if (info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_MATCH)
      continue;
    if (ext_vector_of(options, column) < 0)
      rc =
          ext_error(&err, SQLITE_ERROR,
                    "MATCH is for a vector column: write %s MATCH ? AND k = 10",
                    options->vectors[0]);
    else if (plan->match >= 0)
      rc =
          ext_error(&err, SQLITE_ERROR,
                    "%s can be searched with one MATCH at a time", table->name);
    else if (!info->aConstraint[i].usable)
      rc = SQLITE_CONSTRAINT; /* another join order */
    plan->match = i;
    plan->segment = ext_vector_of(options, column);
  }
  return ext_vtab_error(&table->base, rc, err);
}

/* LIMIT and OFFSET.  SQLite stops and skips by itself, but a search for
** neighbours needs to know the number of rows. */
static void plan_limit(sqlite3_index_info *info, struct plan *plan, int i) {
  int is_limit = info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_LIMIT;
  if (!info->aConstraint[i].usable)
    return;
  if (plan->match >= 0) {
    plan_take(info, plan, i, is_limit ? 'L' : 'O');
    info->aConstraintUsage[i].omit = 0;
    plan->limit |= is_limit;
  } else if (!is_limit) {
    plan->offset = i;
  }
}

/* SQLITE_CONSTRAINT if this combination cannot be a plan. */
static int plan_constraint(struct ext_table *table, sqlite3_index_info *info,
                           struct plan *plan, int i) {
  const struct sqlite3_index_constraint *constraint = &info->aConstraint[i];
  int is_eq = constraint->op == SQLITE_INDEX_CONSTRAINT_EQ ||
              constraint->op == SQLITE_INDEX_CONSTRAINT_IS;
  if (constraint->op == SQLITE_INDEX_CONSTRAINT_MATCH) {
    plan_take(info, plan, i, 'v');
  } else if (constraint->op == SQLITE_INDEX_CONSTRAINT_LIMIT ||
             constraint->op == SQLITE_INDEX_CONSTRAINT_OFFSET) {
    plan_limit(info, plan, i);
  } else if (is_eq && ext_column_is_hidden(constraint->iColumn) &&
             ext_column(constraint->iColumn)->argument) {
    if (!constraint->usable || !plan_argument(info, plan, i))
      return SQLITE_CONSTRAINT;
  } else if (constraint->usable && constraint->iColumn == EXT_KEY &&
             plan->text_key) {
    plan_text(info, plan, i);
  } else if (constraint->usable && plan_is_number(plan, constraint->iColumn)) {
    plan_key(info, plan, i);
  } else if (constraint->usable && constraint->iColumn == EXT_DISTANCE &&
             plan->match >= 0) {
    plan_distance(info, plan, i);
  } else {
    (void)plan_aux(table, info, plan, i);
    plan->left = 1; /* SQLite checks it again */
  }
  return SQLITE_OK;
}

/* Neighbours come nearest first, and by key at the same distance.  A key is
** unique, so ORDER BY distance, key, x is ORDER BY distance, key. */
static void plan_order_nearest(sqlite3_index_info *info, struct plan *plan) {
  const struct sqlite3_index_orderby *by = info->aOrderBy;
  if (info->nOrderBy == 0 || by[0].iColumn != EXT_DISTANCE || by[0].desc)
    return;
  if (info->nOrderBy > 1 &&
      (!plan_is_number(plan, by[1].iColumn) || by[1].desc))
    return;
  info->orderByConsumed = 1;
  plan->ordered = 1;
}

/* A key is unique, so ORDER BY key, x is ORDER BY key. */
static int plan_order(sqlite3_index_info *info, struct plan *plan) {
  int one_row =
      plan->batch || (plan->points && !plan->is_in && !plan->text_key);
  if (plan->match >= 0) {
    plan_order_nearest(info, plan);
    return 0;
  }
  if (info->nOrderBy == 0)
    return 0;
  if (one_row) {
    info->orderByConsumed = 1;
    return 0;
  }
  if (!plan_is_number(plan, info->aOrderBy[0].iColumn))
    return 0;
  if (plan->snapshot && !plan->points)
    return 0; /* snapshot scans are in storage order */
  info->orderByConsumed = 1;
  return info->aOrderBy[0].desc ? EXT_PLAN_DESC : EXT_PLAN_ASC;
}

/* The columns that must be read.  An UPDATE claims to use all columns, even the
** command, which no other statement reads; the columns it really uses show only
** in xColumn. */
static int plan_columns(const struct ext_table *table, sqlite3_uint64 used,
                        const struct plan *plan) {
  sqlite3_uint64 one = 1;
  uint32_t more = ext_vectors(&ext_vtab(table)->options) - 1;
  int flags = 0;
  if (used & one << EXT_COMMAND)
    return EXT_PLAN_LAZY;
  if (plan->match >= 0) /* unknown whether it is also shown */
    used &= ~(one << ext_vector_column((uint32_t)plan->segment));
  if (used & (one << EXT_VECTOR | ((one << more) - 1) << EXT_MORE))
    flags |= EXT_PLAN_VECTORS;
  for (int i = EXT_FIRST_HIDDEN; i < EXT_MORE; i++)
    if (used & one << i)
      flags |= ext_column(i)->reads;
  return flags;
}

/* The expected number of neighbours. */
static double plan_nearest_rows(sqlite3_index_info *info,
                                const struct plan *plan) {
  sqlite3_value *k = NULL;
  sqlite3_int64 rows = 0;
  if (plan->k >= 0 && sqlite3_vtab_rhs_value(info, plan->k, &k) == SQLITE_OK)
    rows = sqlite3_value_int64(k);
  if (rows > EMB_NEAREST_MAX) /* xFilter reports the error */
    rows = EMB_NEAREST_MAX;
  return rows > 0 ? (double)rows : ROWS_NEAREST;
}

/* Does the statement read columns that only neighbours have?  Unknown for an
** UPDATE. */
static int plan_is_neighbours(sqlite3_uint64 used) {
  sqlite3_uint64 one = 1;
  return !(used & one << EXT_COMMAND) &&
         used & (one << EXT_DISTANCE | one << EXT_K | one << EXT_PROBES |
                 one << EXT_RECALL);
}

/* The penalty for a plan whose reads do not count, on a table with a bound. */
static double plan_count_cost(const struct ext_table *table,
                              const sqlite3_index_info *info,
                              const struct plan *plan) {
  return ext_vtab(table)->options.config.flags & EMB_OPEN_BOUNDED &&
                 plan_columns(table, info->colUsed, plan) &
                     (EXT_PLAN_VECTORS | EXT_PLAN_LAZY)
             ? COST_UNCOUNTED
             : 0;
}

static void plan_estimate(struct ext_table *table, sqlite3_index_info *info,
                          const struct plan *plan, int order) {
  double total = ROWS_UNKNOWN;
  double rows, cost;
  if (table->link) {
    emb_patience *patience = &table->conn->patience;
    uint64_t limit_us = patience->limit_us;
    patience->limit_us = limit_us ? limit_us : PLAN_WAIT_US;
    sqlite3_int64 count = ext_link_count(table->link);
    patience->limit_us = limit_us;
    total = count < 0 ? total : (double)count + 1;
  }
  if (plan->match >= 0) {
    rows = plan_nearest_rows(info, plan);
    cost = ROWS_NEAREST + total * COST_NEAREST;
  } else if (plan->batch) {
    rows = 1;
    cost = 1;
  } else if (plan->points) {
    rows = plan->is_in ? ROWS_IN : 1;
    cost = rows * COST_POINT;
    if (!plan->is_in && !plan->text_key) /* 5 equals '5' and '5.0' */
      info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
  } else if (plan->aux) {
    rows = plan->aux == EXT_AUX_RANGE ? total / 4
           : plan->aux == EXT_AUX_IN  ? ROWS_IN * ROWS_OF_VALUE
                                      : ROWS_OF_VALUE;
    rows = rows < total ? rows : total;
    cost = plan_count_cost(table, info, plan) + COST_BESIDE + rows * COST_POINT;
  } else {
    rows = total;
    for (int i = 0; i < plan->bounds && i < 2; i++)
      rows /= 4;
    /* Key order reads pages at random, storage order reads them in sequence;
    ** with bounds the engine walks the keys anyway. */
    cost = rows * (order || plan->bounds ? 1.5 : 1);
    if (plan->bounds)
      cost += total / 100;
    cost += plan_count_cost(table, info, plan);
  }
  if (plan->match < 0 && plan_is_neighbours(info->colUsed))
    cost *= COST_NO_MATCH;
  info->estimatedRows = (sqlite3_int64)rows;
  info->estimatedCost = cost;
}

/* Is the search exact?  A mode not known yet is taken as 'exact', the only mode
** that affects a search. */
static int plan_is_exact(sqlite3_index_info *info, const struct plan *plan) {
  sqlite3_value *mode = NULL;
  const char *text;
  if (plan->snapshot)
    return 1;
  if (plan->mode < 0)
    return 0;
  if (sqlite3_vtab_rhs_value(info, plan->mode, &mode) != SQLITE_OK)
    return 1;
  text = (const char *)sqlite3_value_text(mode);
  return text && sqlite3_stricmp(text, "exact") == 0;
}

/* Does the vector have an index?  Only the store knows the current settings.
** If it cannot be opened, xFilter reports the error. */
static int plan_has_index(struct ext_table *table, int segment) {
  char *err = NULL;
  if (table->link == NULL)
    (void)ext_table_open(table, &err);
  sqlite3_free(err);
  return table->link && emb_has_index(table->link->store, (uint32_t)segment);
}

/* The value of a constraint, if it is known already. */
static double plan_value(sqlite3_index_info *info, int i) {
  sqlite3_value *value = NULL;
  return i >= 0 && sqlite3_vtab_rhs_value(info, i, &value) == SQLITE_OK
             ? sqlite3_value_double(value)
             : 0;
}

/* How the engine would search now, into text: `index recall=0.95`, or `exact`
** with the recall for which all rows must be compared. */
static void plan_search(struct ext_table *table, sqlite3_index_info *info,
                        const struct plan *plan, size_t size, char *text) {
  double recall = plan_value(info, plan->recall);
  double probes = plan_value(info, plan->probes);
  emb_search_plan search;
  if (plan_is_exact(info, plan) || !plan_has_index(table, plan->segment))
    sqlite3_snprintf((int)size, text, "exact");
  else if (emb_nearest_plan(
               table->link->session, (uint32_t)plan->segment,
               (size_t)plan_nearest_rows(info, plan),
               recall > 0 && recall <= 1 ? recall : 0,
               probes >= 1 && probes <= INT32_MAX ? (uint32_t)probes : 0,
               &search) != EMB_OK)
    sqlite3_snprintf((int)size, text, "index");
  else if (search.recall > 0)
    sqlite3_snprintf((int)size, text, "%s recall=%!g",
                     search.is_exact ? "exact" : "index", search.recall);
  else
    sqlite3_snprintf((int)size, text, search.is_exact ? "exact" : "index");
}

/* EXT_PLAN_DESC for ORDER BY distance DESC, which has a text of its own. */
static int plan_farthest(const sqlite3_index_info *info) {
  return info->nOrderBy > 0 && info->aOrderBy[0].iColumn == EXT_DISTANCE &&
                 info->aOrderBy[0].desc
             ? EXT_PLAN_DESC
             : 0;
}

/* Describes a search for neighbours.  Without k, something must end it: ORDER
** BY distance, a LIMIT without another order, or a bound on the distance. */
static char *plan_nearest(struct ext_table *table, sqlite3_index_info *info,
                          const struct plan *plan, const char *letters,
                          const char *columns) {
  const char *end = plan->k >= 0                         ? "k"
                    : plan->ordered                      ? "order"
                    : plan->limit && info->nOrderBy == 0 ? "limit"
                    : plan->within                       ? "distance"
                                                         : NULL;
  char search[48];
  info->idxNum |= EXT_PLAN_NEAREST | EXT_PLAN_SEGMENT * plan->segment;
  if (end == NULL)
    info->idxNum |= EXT_PLAN_ENDLESS | plan_farthest(info);
  plan_search(table, info, plan, sizeof search, search);
  return sqlite3_mprintf(
      "nearest %s %s%s%s%s of %s:%s%s", search, end ? end : "endless",
      plan->keys ? " keys" : "", columns[0] ? " columns" : "",
      plan->snapshot ? " snapshot" : "",
      ext_vtab(table)->options.vectors[plan->segment], letters, columns);
}

static int plan_finish(struct ext_table *table, sqlite3_index_info *info,
                       struct plan *plan) {
  int order = plan_order(info, plan), rc;
  const char *columns = "";
  char *letters;
  if (plan->offset >= 0 && !plan->left &&
      (info->nOrderBy == 0 || info->orderByConsumed))
    plan_take(info, plan, plan->offset, 'o');
  plan_estimate(table, info, plan, order);
  info->idxNum = order | plan_columns(table, info->colUsed, plan);
  rc = sqlite3_str_errcode(plan->letters);
  letters = sqlite3_str_finish(plan->letters); /* NULL where there are none */
  if (rc == SQLITE_OK && plan->columns) {
    rc = sqlite3_str_errcode(plan->columns);
    columns = rc == SQLITE_OK ? sqlite3_str_value(plan->columns) : columns;
  }
  if (rc == SQLITE_OK && plan->match >= 0)
    info->idxStr = plan_nearest(table, info, plan, letters, columns);
  else if (rc == SQLITE_OK)
    info->idxStr = sqlite3_mprintf("%s%s", letters ? letters : "", columns);
  sqlite3_free(letters);
  info->needToFreeIdxStr = 1;
  return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

int ext_plan_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  struct ext_table *table = (struct ext_table *)vtab;
  int text_key = ext_vtab(table)->options.text_key;
  struct plan plan = {.text_key = text_key,
                      .number = ext_vtab(table)->number_column,
                      .offset = -1,
                      .match = -1,
                      .k = -1,
                      .probes = -1,
                      .recall = -1,
                      .mode = -1};
  int rc = plan_match(table, info, &plan);
  if (table->conn->probing)
    table->conn->probed = table;
  if (rc == SQLITE_OK && plan.match < 0)
    plan.aux = ext_aux_use(&ext_vtab(table)->options, info);
  plan.letters = sqlite3_str_new(table->conn->db);
  for (int i = 0; i < info->nConstraint && rc == SQLITE_OK; i++)
    rc = plan_constraint(table, info, &plan, i);
  if (rc == SQLITE_OK)
    rc = plan_finish(table, info, &plan);
  else
    sqlite3_free(sqlite3_str_finish(plan.letters));
  if (plan.columns)
    sqlite3_free(sqlite3_str_finish(plan.columns));
  return rc;
}
