/* SPDX-License-Identifier: MIT
**
** plan.c -- xBestIndex: what the table does itself, and what that costs.
**
** DONE HERE  Every comparison of the key with = IS IN < <= > >=, any number
**            of them; ORDER BY key; the arguments of items(:keys, :mode);
**            OFFSET when nothing is left for SQLite to sort out.  All of it
**            exactly as SQLite would (range.c), so SQLite need not check
**            again (omit).
** LEFT       Everything else, to SQLite.
** PLAN       idxStr has a letter for each value that xFilter gets (table.h);
**            the values are taken in the order of the constraints.
*/
#include "table.h"
SQLITE_EXTENSION_INIT3

/* Guesses, in units of a row read in a scan. */
#define ROWS_UNKNOWN 1000000.0
#define COST_POINT 2.0
#define ROWS_IN 25.0
/* On a table with a bound only a search for keys counts.  Whether a read does
** must not depend on what is cheaper, so a scan is only for want of keys. */
#define COST_UNCOUNTED 1e12

struct plan {
  char letters[64]; /* SQLite gives far fewer constraints on one column */
  int n;
  int points;   /* an = or IN on the key */
  int is_in;    /* ... IN without = */
  int bounds;   /* < and > on the key */
  int batch;    /* keys = ? */
  int snapshot; /* snapshot = ? */
  int taken;    /* hidden columns that are arguments, a bit each */
  int left;     /* a constraint was left to SQLite */
  int offset;   /* index of the OFFSET constraint, -1 none */
};

static void plan_take(sqlite3_index_info *info, struct plan *plan, int i,
                      char letter) {
  plan->letters[plan->n++] = letter;
  info->aConstraintUsage[i].argvIndex = plan->n;
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
                         checks again whatever omit says */
    if (letter == '=') {
      plan->points = 1;
      plan->is_in = 0;
    } else {
      plan->bounds++;
    }
  }
}

/* `column = ?` for a hidden column that is an argument; 0: it is one too many.
 */
static int plan_argument(sqlite3_index_info *info, struct plan *plan, int i) {
  int column = info->aConstraint[i].iColumn;
  const struct ext_column *hidden = ext_column(column);
  if (hidden->rules & EXT_ONCE && plan->taken & ext_column_bit(column))
    return 0;
  plan->taken |= ext_column_bit(column);
  plan_take(info, plan, i, hidden->argument);
  plan->batch |= column == EXT_KEYS;
  plan->snapshot |= column == EXT_SNAPSHOT;
  return 1;
}

/* SQLITE_CONSTRAINT when this combination cannot be a plan at all. */
static int plan_constraint(struct ext_table *table, sqlite3_index_info *info,
                           struct plan *plan, int i) {
  const struct sqlite3_index_constraint *constraint = &info->aConstraint[i];
  int is_eq = constraint->op == SQLITE_INDEX_CONSTRAINT_EQ;
  char *err = NULL;
  if (constraint->op == SQLITE_INDEX_CONSTRAINT_MATCH) {
    int rc = ext_error(&err, SQLITE_ERROR,
                       "MATCH is not supported; use ORDER BY "
                       "emb_distance_cosine(%s, ?) LIMIT k",
                       ext_vtab(table)->options.vectors[0]);
    return ext_vtab_error(&table->base, rc, err);
  }
  if (constraint->op == SQLITE_INDEX_CONSTRAINT_LIMIT)
    return SQLITE_OK; /* SQLite stops by itself */
  if (constraint->op == SQLITE_INDEX_CONSTRAINT_OFFSET) {
    if (constraint->usable)
      plan->offset = i;
    return SQLITE_OK;
  }
  if (is_eq && ext_column_is_hidden(constraint->iColumn) &&
      ext_column(constraint->iColumn)->argument) {
    if (!constraint->usable || !plan_argument(info, plan, i))
      return SQLITE_CONSTRAINT;
  } else if (constraint->usable && constraint->iColumn <= EXT_KEY &&
             plan->n < (int)sizeof plan->letters - 2) {
    plan_key(info, plan, i);
  } else {
    plan->left = 1;
  }
  return SQLITE_OK;
}

/* A key is unique, so ORDER BY key, x is ORDER BY key. */
static int plan_order(sqlite3_index_info *info, const struct plan *plan) {
  int one_row = plan->batch || (plan->points && !plan->is_in);
  if (info->nOrderBy == 0)
    return 0;
  if (one_row) {
    info->orderByConsumed = 1;
    return 0;
  }
  if (info->aOrderBy[0].iColumn > EXT_KEY)
    return 0;
  if (plan->snapshot && !plan->points)
    return 0; /* its scans come in storage order */
  info->orderByConsumed = 1;
  return info->aOrderBy[0].desc ? EXT_PLAN_DESC : EXT_PLAN_ASC;
}

/* What must be read.  An UPDATE claims to use all columns, even the command,
** which nothing else asks for; which it does use shows only in xColumn. */
static int plan_columns(sqlite3_uint64 used) {
  sqlite3_uint64 one = 1;
  int flags = 0;
  if (used & one << EXT_COMMAND)
    return EXT_PLAN_LAZY;
  if (used & (one << EXT_VECTOR | ~(sqlite3_uint64)0 << EXT_MORE))
    flags |= EXT_PLAN_VECTORS;
  for (int i = EXT_FIRST_HIDDEN; i < EXT_MORE; i++)
    if (used & one << i)
      flags |= ext_column(i)->reads;
  return flags;
}

static void plan_estimate(struct ext_table *table, sqlite3_index_info *info,
                          const struct plan *plan, int order) {
  double total = ROWS_UNKNOWN;
  double rows, cost;
  if (table->link)
    total = (double)emb_count(table->link->session) + 1;
  if (plan->batch) {
    rows = 1;
    cost = 1;
  } else if (plan->points) {
    rows = plan->is_in ? ROWS_IN : 1;
    cost = rows * COST_POINT;
    if (!plan->is_in)
      info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
  } else {
    rows = total;
    for (int i = 0; i < plan->bounds && i < 2; i++)
      rows /= 4;
    /* Key order reads pages here and there, and storage order in sequence;
    ** with bounds the engine walks the keys anyway. */
    cost = rows * (order || plan->bounds ? 1.5 : 1);
    if (plan->bounds)
      cost += total / 100;
    if (ext_vtab(table)->options.config.flags & EMB_OPEN_BOUNDED &&
        plan_columns(info->colUsed) & (EXT_PLAN_VECTORS | EXT_PLAN_LAZY))
      cost += COST_UNCOUNTED;
  }
  info->estimatedRows = (sqlite3_int64)rows;
  info->estimatedCost = cost;
}

int ext_plan_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  struct ext_table *table = (struct ext_table *)vtab;
  struct plan plan = {.offset = -1};
  int rc = SQLITE_OK;
  int order;
  if (table->conn->probing)
    table->conn->probed = table;
  for (int i = 0; i < info->nConstraint && rc == SQLITE_OK; i++)
    rc = plan_constraint(table, info, &plan, i);
  if (rc != SQLITE_OK)
    return rc;
  order = plan_order(info, &plan);
  if (plan.offset >= 0 && !plan.left &&
      (info->nOrderBy == 0 || info->orderByConsumed))
    plan_take(info, &plan, plan.offset, 'o');
  plan_estimate(table, info, &plan, order);
  info->idxNum = order;
  info->idxNum |= plan_columns(info->colUsed);
  info->idxStr = sqlite3_mprintf("%.*s", plan.n, plan.letters);
  info->needToFreeIdxStr = 1;
  return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}
