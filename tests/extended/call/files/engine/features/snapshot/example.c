/* SPDX-License-Identifier: MIT
**
** example.c -- a call with most kinds of arguments: sums rows, then
** multiplies them by their weights; and a call of a snapshot.
**
** The arrays of a caller may be memory that a client can change: only copies
** kept here are read again.
*/
#include <string.h>

#include "snap.h"

/* Memory of a call: for each key its row, and whether it exists. */
struct example_rows {
  float *vectors;
  int64_t *keys;
  uint8_t *found;
};

static int example_allocate(emb_session *s, size_t n, struct example_rows *r) {
  struct env *env = s->core->env;
  size_t dim = s->core->layout.dim;
  r->vectors = env->allocate(env, (n + 1) * dim * sizeof(float));
  r->keys = env->allocate(env, (n + 1) * sizeof(int64_t));
  r->found = env->allocate(env, n + 1);
  return r->vectors && r->keys && r->found
             ? EMB_OK
             : session_error(s, EMB_NOMEM, "out of memory");
}

static void example_release(emb_session *s, struct example_rows *r) {
  struct env *env = s->core->env;
  env->release(env, r->vectors);
  env->release(env, r->keys);
  env->release(env, r->found);
}

/* Sums the existing rows; each is multiplied by its weight. */
static size_t example_sum(struct example_rows *r, size_t n, size_t dim,
                          const float *weights, double *sum) {
  size_t count = 0;
  *sum = 0;
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; r->found[i] && k < dim; k++) {
      r->vectors[i * dim + k] *= weights ? weights[i] : 1;
      *sum += r->vectors[i * dim + k];
    }
    count += r->found[i];
  }
  return count;
}

static int example_write(emb_session *s, struct example_rows *r, size_t n,
                         const int64_t *keys) {
  size_t dim = s->core->layout.dim, there = 0;
  for (size_t i = 0; i < n; i++) {
    if (r->found[i]) {
      r->keys[there] = keys[i];
      memmove(r->vectors + there * dim, r->vectors + i * dim,
              dim * sizeof(float));
      there++;
    }
  }
  return there ? local_put(s, r->keys, there, r->vectors, NULL) : EMB_OK;
}

int local_example(emb_session *session, const int64_t *keys, size_t n,
                  const float *weights, const emb_rows *to, const char *name,
                  double *sum, size_t *count) {
  emb_session *s = session;
  struct example_rows rows = {0};
  size_t dim = s->core->layout.dim, there = 0;
  double all = 0;
  int is_mean = name && strcmp(name, "mean") == 0;
  int rc = session_begin(s);
  if (!rc && name && !is_mean && strcmp(name, "sum") != 0) {
    rc = session_error(s, EMB_RANGE, "no such example: '%s'", name);
  }
  rc = rc ? rc : example_allocate(s, n, &rows);
  rc = rc ? rc : local_peek(s, keys, n, rows.vectors, rows.found, NULL);
  if (!rc && to && to->vectors) {
    memcpy(to->vectors, rows.vectors, n * dim * sizeof(float));
  }
  if (!rc && to && to->found) {
    memcpy(to->found, rows.found, n);
  }
  there = rc ? 0 : example_sum(&rows, n, dim, weights, &all);
  rc = rc ? rc : example_write(s, &rows, n, keys);
  if (!rc && sum) {
    *sum = is_mean && there ? all / (double)there : all;
  }
  if (!rc && count) {
    *count = there;
  }
  example_release(s, &rows);
  return rc;
}

int local_snapshot_example(emb_snap *snap, const int64_t *keys, size_t n,
                           double *sum, size_t *count) {
  emb_session *s = snap->s;
  struct example_rows rows = {0};
  double all = 0;
  int rc = example_allocate(s, n, &rows);
  rc = rc ? rc
          : local_snapshot_get(snap, keys, n, rows.vectors, rows.found, NULL);
  size_t there =
      rc ? 0 : example_sum(&rows, n, s->core->layout.dim, NULL, &all);
  if (!rc && sum) {
    *sum = all;
  }
  if (!rc && count) {
    *count = there;
  }
  example_release(s, &rows);
  return rc;
}
