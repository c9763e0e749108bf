/* SPDX-License-Identifier: MIT
**
** points.c -- vectors gathered by an aggregate.
*/
#include "choose.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

void ext_points_free(struct ext_points *points) {
  sqlite3_free(points->vectors);
  *points = (struct ext_points){0};
}

static int points_grow(struct ext_points *points) {
  size_t capacity = points->capacity ? points->capacity * 2 : 16;
  float *vectors = sqlite3_realloc64(
      points->vectors, (sqlite3_uint64)capacity * points->dim * sizeof(float));
  if (vectors == NULL)
    return SQLITE_NOMEM;
  points->vectors = vectors;
  points->capacity = capacity;
  emb_check(ext_points_valid(points));
  return SQLITE_OK;
}

int ext_points_add(struct ext_points *points, sqlite3_value *value,
                   const char *name, int argument, char **err) {
  char what[64];
  struct ext_floats vec;
  int rc;
  sqlite3_snprintf(sizeof what, what, "argument %d of %s", argument, name);
  rc = ext_vec_from_value(value, &(struct ext_arg){.what = what}, 0, &vec, err);
  if (rc != SQLITE_OK)
    return rc;
  if (vec.n == 0 || vec.n > 65536)
    rc = ext_error(err, SQLITE_MISMATCH,
                   "%s needs 1 to 65536 dimensions, got %u", what, vec.n);
  else if (points->dim && points->dim != vec.n)
    rc = ext_error(err, SQLITE_MISMATCH,
                   "%s needs vectors of one dimension, got %u and %u", name,
                   points->dim, vec.n);
  else
    points->dim = vec.n;
  if (rc == SQLITE_OK && points->n == points->capacity)
    rc = points_grow(points);
  if (rc == SQLITE_OK)
    memcpy(points->vectors + points->n++ * points->dim, vec.at,
           vec.n * sizeof(float));
  ext_floats_free(&vec);
  return rc;
}

struct ext_conn ext_choose_asked(sqlite3_context *context) {
  return (struct ext_conn){.db = sqlite3_context_db_handle(context)};
}
