/* SPDX-License-Identifier: MIT
**
** points_valid.c -- proofs that the assertions of ext/data/choose fire.
*/
#include "sql_help.h"
#include "death.h"

#include "ext/data/choose/choose.h"

TEST(the_rows) {
  struct ext_coreset coreset = {.k = 2, .method = "craig"};
  struct ext_points *points = &coreset.points;
  sqlite3 *db = sql_connect(":memory:", 0);
  sqlite3_stmt *row = NULL;
  int64_t keys[1] = {7};
  char *err = NULL;
  if (!CHECK(db != NULL) ||
      !CHECK_EQ_INT(
          sqlite3_prepare_v2(db, "SELECT x'0000803f0000003f'", -1, &row, NULL),
          SQLITE_OK))
    return;
  CHECK_EQ_INT(sqlite3_step(row), SQLITE_ROW);
  CHECK_EQ_INT(
      ext_points_add(points, sqlite3_column_value(row, 0), "f", 2, &err),
      SQLITE_OK);
  coreset.keys = keys;
  coreset.capacity = 1;
  CHECK(ext_coreset_valid(&coreset));
  CHECK_FIRES(points->n = points->capacity + 1; ext_points_valid(points));
  CHECK_FIRES(points->vectors = NULL; ext_points_valid(points));
  CHECK_FIRES(points->dim = 0; ext_points_valid(points));
  CHECK_FIRES(coreset.method = NULL; ext_coreset_valid(&coreset));
  CHECK_FIRES(coreset.failed = 1; ext_coreset_valid(&coreset));
  CHECK_FIRES(coreset.points.n = 2; ext_coreset_valid(&coreset));
  CHECK_FIRES(coreset.keys = NULL; ext_coreset_valid(&coreset));
  CHECK_ALL_FIRED("ext/data/choose/points_valid.c");
  ext_points_free(points);
  sqlite3_finalize(row);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}
