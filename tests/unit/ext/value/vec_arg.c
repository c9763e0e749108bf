/* SPDX-License-Identifier: MIT
**
** vec_arg.c -- tests of ext/value/vec_arg.c, and of the vector functions at
** SQLite's limits, which no SQL can set.  The functions are linked in, not
** loaded (-DSQLITE_CORE).
*/
#include "test.h"
#include "ext/fn/fn.h"
#include "ext/value/value.h"

/* matrix(X, dim, rows): X's floats, or the error without its prefix. */
static void matrix(sqlite3_context *context, int argc, sqlite3_value **argv) {
  uint32_t dim = (uint32_t)sqlite3_value_int64(argv[1]);
  size_t rows = (size_t)sqlite3_value_int64(argv[2]);
  char *err = NULL, text[256] = "";
  struct ext_floats out;
  int rc;
  size_t i;
  (void)argc;
  rc = ext_matrix_from_value(argv[0], &(struct ext_arg){.what = "vectors"}, dim,
                             rows, &out, &err);
  if (rc != SQLITE_OK) {
    (void)snprintf(text, sizeof text, "%d: %s", rc, err ? err : "(none)");
    sqlite3_free(err);
  } else {
    for (i = 0; i < dim * rows; i++)
      (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%g",
                     i ? " " : "", (double)out.at[i]);
    ext_floats_free(&out);
  }
  sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static sqlite3 *open_memory(void) {
  sqlite3 *db = NULL;
  CHECK(sqlite3_open(":memory:", &db) == SQLITE_OK);
  CHECK(ext_register_vector_functions(db) == SQLITE_OK);
  CHECK(sqlite3_create_function(db, "matrix", 3, SQLITE_UTF8, NULL, matrix,
                                NULL, NULL) == SQLITE_OK);
  return db;
}

/* Checks that the first column of SQL's first row, or the error, is text. */
static void check_sql(sqlite3 *db, const char *sql, const char *text) {
  sqlite3_stmt *stmt = NULL;
  const char *got = NULL;
  if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
      sqlite3_step(stmt) == SQLITE_ROW)
    got = (const char *)sqlite3_column_text(stmt, 0);
  else
    got = sqlite3_errmsg(db);
  test_check(got && strcmp(got, text) == 0, __FILE__, __LINE__,
             "%s\n  gives %s\n  not   %s", sql, got ? got : "NULL", text);
  sqlite3_finalize(stmt);
}

TEST(reads_matrices) {
  static const struct {
    const char *sql, *text;
  } cases[] = {
      {"SELECT matrix('[[1,2],[3,4],[5,6]]', 2, 3)", "1 2 3 4 5 6"},
      {"SELECT matrix(' [ [ 1 , 2 ] , [ 3 , 4 ] ] ', 2, 2)", "1 2 3 4"},
      {"SELECT matrix('[1,2,3,4]', 2, 2)", "1 2 3 4"},
      {"SELECT matrix('[1,2]', 2, 1)", "1 2"},
      {"SELECT matrix('[]', 2, 0)", ""},
      {"SELECT matrix(x'', 2, 0)", ""},
      {"SELECT matrix(x'0000803F00000040', 1, 2)", "1 2"},
      {"SELECT matrix(x'0000803F00', 1, 2)",
       "20: vectors needs 2 rows of 1 dimensions (8 bytes), got 5 bytes"},
      {"SELECT matrix(x'', 3, 2)",
       "20: vectors needs 2 rows of 3 dimensions (24 bytes), got 0 bytes"},
      {"SELECT matrix('[[1,2],[3]]', 2, 2)",
       "20: row 1 of vectors needs 2 dimensions, got 1"},
      {"SELECT matrix('[[1,2],[3,4]]', 2, 3)",
       "20: vectors needs 3 rows of 2 dimensions, got 2 rows"},
      {"SELECT matrix('[]', 2, 1)",
       "20: vectors needs 1 rows of 2 dimensions, got 0 rows"},
      {"SELECT matrix('[[]]', 2, 1)",
       "20: row 0 of vectors needs 2 dimensions, got 0"},
      {"SELECT matrix('[1,2,3]', 2, 2)",
       "20: vectors needs rows of 2 dimensions, got 3 numbers"},
      {"SELECT matrix(5, 2, 2)",
       "20: vectors must be a BLOB or a JSON array, got INTEGER"},
      {"SELECT matrix(NULL, 2, 2)",
       "20: vectors must be a BLOB or a JSON array, got NULL"},
      {"SELECT matrix('[[1,2],3]', 2, 2)",
       "1: invalid JSON vector at character 8"},
      {"SELECT matrix('[1,[2]]', 2, 1)",
       "1: invalid JSON vector at character 4"},
      {"SELECT matrix('[[[1]]]', 1, 1)",
       "1: invalid JSON vector at character 3"},
      {"SELECT matrix('[[1,2]', 2, 1)",
       "1: invalid JSON vector at character 7"},
      {"SELECT matrix('[[1,2]] x', 2, 1)",
       "1: invalid JSON vector at character 9"},
      {"SELECT matrix('[[1,2],]', 2, 1)",
       "1: invalid JSON vector at character 8"},
      {"SELECT matrix('[[1,2],[3,1e39]]', 2, 2)",
       "19: non-finite value in element 1 of row 1 of vectors"},
      {"SELECT matrix(x'000000000000C07F', 1, 2)",
       "19: non-finite value in element 0 of row 1 of vectors"},
  };
  sqlite3 *db = open_memory();
  size_t i;
  for (i = 0; i < sizeof cases / sizeof *cases; i++)
    check_sql(db, cases[i].sql, cases[i].text);
  sqlite3_close(db);
}

TEST(keeps_to_the_length_limit) {
  sqlite3 *db = open_memory();
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1000);
  check_sql(db, "SELECT length(emb_to_json(zeroblob(1996)))",
            "string or blob too big");
  check_sql(db, "SELECT length(emb_to_json(zeroblob(1000)))", "501");
  check_sql(db,
            "SELECT emb_to_json(emb_f32('[' || printf('%.*c', 400, '1')"
            " || ']'))",
            "emb: non-finite value in element 0 of argument 1 of emb_f32");
  check_sql(db,
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n "
            "WHERE i < 126) SELECT length(emb_pack(i)) FROM n",
            "string or blob too big");
  check_sql(db,
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n "
            "WHERE i < 125) SELECT length(emb_pack(i)) FROM n",
            "1000");
  sqlite3_close(db);
}

/* Random bytes in place of JSON give an answer or an error, never a crash.
** Text that is accepted prints as JSON that gives the same vector. */
TEST(survives_random_text) {
  static const char alphabet[] = "[[[]]],,,,0123456789..--+eE  \t\"n";
  sqlite3 *db = open_memory();
  sqlite3_stmt *stmt = NULL;
  int i, accepted = 0;
  CHECK(sqlite3_prepare_v2(db,
                           "SELECT emb_f32(emb_to_json(?1)) = emb_f32(?1), "
                           "matrix(?1, 2, 2), "
                           "(SELECT count(*) FROM emb_keys(?1))",
                           -1, &stmt, NULL) == SQLITE_OK);
  for (i = 0; i < 100000; i++) {
    char text[24];
    int n = (int)(test_random() % sizeof text), k;
    for (k = 0; k < n; k++)
      text[k] = alphabet[test_random() % (sizeof alphabet - 1)];
    if (n >= 2 && i % 2) {
      text[0] = '[';
      text[n - 1] = ']';
    }
    (void)sqlite3_bind_text(stmt, 1, text, n, SQLITE_TRANSIENT);
    if (sqlite3_step(stmt) == SQLITE_ROW) {
      accepted++;
      CHECK(sqlite3_column_int(stmt, 0) == 1);
    }
    (void)sqlite3_reset(stmt);
  }
  CHECK(accepted > 0);
  sqlite3_finalize(stmt);
  sqlite3_close(db);
}
