/* SPDX-License-Identifier: MIT
**
** coreset.c -- emb_coreset(key, vector, n, method): rows that represent all.
**
** ORDER     SQLite gives rows to an aggregate in whatever order its plan finds
**           them.  They are sorted by key before anything is chosen, so that
**           the result does not depend on that order.
** MEMORY    A vector and a key for each row, until the end of the group; for
**           the method's own memory see engine/data/choose/.  SQLite calls the
**           final function after errors, too; our own errors are remembered,
**           so that nothing is computed then.
*/
#include "engine/data/emb_data.h"
#include "engine/base/seed.h"
#include "choose.h"
SQLITE_EXTENSION_INIT3

#include <stdlib.h>
#include <string.h>

static void coreset_free(struct ext_coreset *coreset) {
  ext_points_free(&coreset->points);
  sqlite3_free(coreset->keys);
  sqlite3_free(coreset->method);
  *coreset = (struct ext_coreset){.failed = coreset->failed};
}

/* Reads n and method from the first row; they are the same for all rows. */
static int coreset_ask(struct ext_coreset *coreset, sqlite3_value **argv,
                       char **err) {
  const char *method;
  emb_err cause;
  int rc = ext_arg_from_one(argv[2], "argument 3 of emb_coreset", INT64_MAX,
                            &coreset->k, err);
  if (rc == SQLITE_OK)
    rc = ext_arg_text(argv[3], "argument 4 of emb_coreset", &method, err);
  if (rc == SQLITE_OK && emb_coreset_check(method, &cause) != EMB_OK)
    rc = ext_error(err, ext_code(cause.code), "emb_coreset: %s", cause.text);
  if (rc == SQLITE_OK) {
    coreset->method = sqlite3_mprintf("%s", method);
    rc = coreset->method ? SQLITE_OK : SQLITE_NOMEM;
  }
  return rc;
}

static int coreset_add(struct ext_coreset *coreset, sqlite3_value **argv,
                       char **err) {
  int64_t key;
  int rc = coreset->k ? SQLITE_OK : coreset_ask(coreset, argv, err);
  if (rc == SQLITE_OK)
    rc = ext_key_from_value(argv[0], "argument 1 of emb_coreset", &key, err);
  if (rc == SQLITE_OK && coreset->points.n == coreset->capacity) {
    size_t capacity = coreset->capacity ? coreset->capacity * 2 : 16;
    int64_t *keys = sqlite3_realloc64(coreset->keys, capacity * sizeof *keys);
    if (keys == NULL)
      return SQLITE_NOMEM;
    coreset->keys = keys;
    coreset->capacity = capacity;
  }
  if (rc == SQLITE_OK)
    rc = ext_points_add(&coreset->points, argv[1], "emb_coreset", 2, err);
  if (rc == SQLITE_OK)
    coreset->keys[coreset->points.n - 1] = key;
  emb_check_some(16, rc != SQLITE_OK || ext_coreset_valid(coreset));
  return rc;
}

static void coreset_step(sqlite3_context *context, int argc,
                         sqlite3_value **argv) {
  struct ext_coreset *coreset =
      sqlite3_aggregate_context(context, sizeof *coreset);
  char *err = NULL;
  int rc;
  (void)argc;
  if (coreset == NULL) {
    sqlite3_result_error_nomem(context);
    return;
  }
  if (sqlite3_value_type(argv[0]) == SQLITE_NULL ||
      sqlite3_value_type(argv[1]) == SQLITE_NULL || coreset->failed)
    return;
  rc = coreset_add(coreset, argv, &err);
  if (rc != SQLITE_OK) {
    coreset->failed = 1;
    ext_result_error(context, rc, err);
  }
}

/* ---- in the order of the keys -------------------------------------------- */

struct place {
  int64_t key;
  size_t at;
};

static int place_compare(const void *a, const void *b) {
  const struct place *x = a, *y = b;
  return (x->key > y->key) - (x->key < y->key);
}

/* Bytes moved between two checks for an interrupt. */
enum { PERMUTE_STEP = 1 << 22 };

/* Moves each row to its place, along the cycles of the permutation.  After an
** interrupt the rows are undefined. */
static int coreset_permute(struct ext_coreset *coreset, struct place *places,
                           float *row, struct ext_conn *conn, char **err) {
  size_t dim = coreset->points.dim, bytes = dim * sizeof(float), moved = 0;
  float *vectors = coreset->points.vectors;
  for (size_t i = 0; i < coreset->points.n; i++) {
    size_t to = i;
    if (places[i].at == i)
      continue;
    memcpy(row, vectors + i * dim, bytes);
    while (places[to].at != i) {
      size_t from = places[to].at;
      moved += bytes;
      if (moved >= PERMUTE_STEP) {
        moved = 0;
        if (ext_link_interrupted(conn))
          return ext_error(err, SQLITE_INTERRUPT, "interrupted");
      }
      memcpy(vectors + to * dim, vectors + from * dim, bytes);
      places[to].at = to;
      to = from;
    }
    memcpy(vectors + to * dim, row, bytes);
    places[to].at = to;
  }
  return SQLITE_OK;
}

static int coreset_sort(struct ext_coreset *coreset, struct ext_conn *conn,
                        char **err) {
  size_t n = coreset->points.n;
  struct place *places = sqlite3_malloc64(n * sizeof *places);
  float *row = sqlite3_malloc64(coreset->points.dim * sizeof *row);
  int rc = places && row ? SQLITE_OK : SQLITE_NOMEM;
  for (size_t i = 0; i < n && rc == SQLITE_OK; i++)
    places[i] = (struct place){coreset->keys[i], i};
  if (rc == SQLITE_OK)
    rc = ext_link_sort(conn, places, n, sizeof *places, place_compare, err);
  for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
    coreset->keys[i] = places[i].key;
    if (i > 0 && places[i].key == places[i - 1].key)
      rc = ext_error(err, SQLITE_CONSTRAINT,
                     "emb_coreset has key %lld more than once",
                     (long long)places[i].key);
  }
  if (rc == SQLITE_OK && !EMB_SEED(SEED_CORESET_ROWS_UNSORTED))
    rc = coreset_permute(coreset, places, row, conn, err);
  sqlite3_free(places);
  sqlite3_free(row);
  return rc;
}

/* ---- the result ---------------------------------------------------------- */

static int coreset_choose(const struct ext_coreset *coreset,
                          struct ext_conn *conn, emb_chosen *chosen, size_t k,
                          char **err) {
  emb_points points = {.keys = coreset->keys,
                       .vectors = coreset->points.vectors,
                       .n = coreset->points.n,
                       .dim = coreset->points.dim,
                       .interrupted = ext_link_interrupted,
                       .arg = conn};
  emb_err cause;
  int rc = emb_coreset(&points, k, coreset->method, chosen, &cause);
  return rc == EMB_OK ? SQLITE_OK : ext_engine_error(err, rc, cause.text);
}

static void coreset_give(sqlite3_context *context,
                         const struct ext_coreset *coreset,
                         const emb_chosen *chosen, size_t k) {
  uint64_t head[] = {CHOSEN_MAGIC, k};
  size_t size = CHOSEN_HEAD + k * sizeof(struct ext_chosen);
  unsigned char *blob = sqlite3_malloc64(size);
  if (blob == NULL) {
    sqlite3_result_error_nomem(context);
    return;
  }
  memcpy(blob, head, CHOSEN_HEAD);
  for (size_t i = 0; i < k; i++) {
    struct ext_chosen row = {coreset->keys[chosen[i].row], chosen[i].weight,
                             chosen[i].gain};
    memcpy(blob + CHOSEN_HEAD + i * sizeof row, &row, sizeof row);
  }
  sqlite3_result_blob64(context, blob, size, sqlite3_free);
}

static void coreset_final(sqlite3_context *context) {
  struct ext_coreset *coreset = sqlite3_aggregate_context(context, 0);
  struct ext_conn conn = ext_choose_asked(context);
  emb_chosen *chosen = NULL;
  char *err = NULL;
  size_t k;
  int rc;
  if (coreset == NULL)
    return;
  if (coreset->failed || coreset->points.n == 0) {
    coreset_free(coreset);
    return;
  }
  emb_check(ext_coreset_valid(coreset));
  k = (uint64_t)coreset->k < coreset->points.n ? (size_t)coreset->k
                                               : coreset->points.n;
  rc = coreset_sort(coreset, &conn, &err);
  if (rc == SQLITE_OK) {
    chosen = sqlite3_malloc64(k * sizeof *chosen);
    rc =
        chosen ? coreset_choose(coreset, &conn, chosen, k, &err) : SQLITE_NOMEM;
  }
  if (rc == SQLITE_OK)
    coreset_give(context, coreset, chosen, k);
  else
    ext_result_error(context, rc, err);
  sqlite3_free(chosen);
  coreset_free(coreset);
}

int ext_choose_coreset_register(sqlite3 *db) {
  return sqlite3_create_function_v2(db, "emb_coreset", 4, CHOOSE_FLAGS, NULL,
                                    NULL, coreset_step, coreset_final, NULL);
}
