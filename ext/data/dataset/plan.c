/* SPDX-License-Identifier: MIT
**
** plan.c -- xBestIndex: constraints that a scan applies itself.
**
** = < <= > >= of key and timestamp, = of the dataset, IN of the key; and ORDER
** BY key.  SQLite always compares again, since the other side may be a number
** as text.  idxStr has two letters for each value that xFilter gets, one for
** the column and one for the comparison (ext_range_narrow).  idxNum has the
** columns that are read, so that no file is read only for keys.
*/
#include "samples.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

#define ROWS_UNKNOWN 1000000.0
#define COST_KEY 20.0
#define ROWS_IN 25.0

struct samples_plan {
  sqlite3_str *letters;
  int n;
  int points; /* 1: key = ?, 2: key IN ? */
  int bounds;
};

static char samples_plan_letter(int op) {
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

static void samples_plan_take(sqlite3_index_info *info,
                              struct samples_plan *plan, int i, char column,
                              char letter) {
  sqlite3_str_appendchar(plan->letters, 1, column);
  sqlite3_str_appendchar(plan->letters, 1, letter);
  info->aConstraintUsage[i].argvIndex = ++plan->n;
}

static void samples_plan_one(sqlite3_index_info *info,
                             struct samples_plan *plan, int i) {
  const struct sqlite3_index_constraint *c = &info->aConstraint[i];
  char letter = samples_plan_letter(c->op);
  if (!c->usable || letter == 0)
    return;
  switch (c->iColumn) {
  case -1:
  case EXT_SAMPLES_KEY:
    if (letter == '=' && sqlite3_vtab_in(info, i, -1)) {
      if (plan->points)
        return;
      sqlite3_vtab_in(info, i, 1);
      plan->points = 2;
      letter = 'i';
    } else if (letter == '=') {
      plan->points = plan->points ? plan->points : 1;
    }
    plan->bounds += letter != '=' && letter != 'i';
    samples_plan_take(info, plan, i, 'k', letter);
    return;
  case EXT_SAMPLES_TIMESTAMP:
    /* A list of times is compared by SQLite. */
    if (letter != '=' || !sqlite3_vtab_in(info, i, -1)) {
      plan->bounds++;
      samples_plan_take(info, plan, i, 't', letter);
    }
    return;
  case EXT_SAMPLES_DATASET:
    if (letter == '=' && !sqlite3_vtab_in(info, i, -1) &&
        sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY") == 0) {
      plan->bounds++;
      samples_plan_take(info, plan, i, 'd', letter);
    }
    return;
  default:
    return;
  }
}

int ext_samples_plan(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  struct ext_samples *table = (struct ext_samples *)vtab;
  struct samples_plan plan = {0};
  double rows;
  if (table->client->probing)
    table->client->probed = table;
  plan.letters = sqlite3_str_new(table->db);
  for (int i = 0; i < info->nConstraint; i++)
    samples_plan_one(info, &plan, i);
  rows = plan.points == 1 ? 1 : plan.points ? ROWS_IN : ROWS_UNKNOWN;
  for (int i = 0; i < plan.bounds && !plan.points; i++)
    rows /= 4;
  info->estimatedRows = (sqlite3_int64)rows + 1;
  info->estimatedCost = plan.points ? COST_KEY * rows : COST_KEY + rows;
  if (plan.points == 1)
    info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
  info->orderByConsumed = info->nOrderBy == 1 && !info->aOrderBy[0].desc &&
                          info->aOrderBy[0].iColumn <= EXT_SAMPLES_KEY;
  info->idxNum = (int)(info->colUsed & ((1 << EXT_SAMPLES_COLUMNS) - 1));
  info->idxStr = sqlite3_str_finish(plan.letters);
  info->needToFreeIdxStr = 1;
  return info->idxStr || plan.n == 0 ? SQLITE_OK : SQLITE_NOMEM;
}
