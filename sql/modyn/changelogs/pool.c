/* SPDX-License-Identifier: MIT
**
** pool.c -- pooled lookups in the table of words; see pool.h.
*/
#include "pool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void pool_open(struct pool *pool, sqlite3 *db, size_t width) {
  memset(pool, 0, sizeof(*pool));
  pool->width = width;
  pool->get = statement_new(db, "SELECT emb_get('word', ?1)");
  pool->apply = statement_new(db, "SELECT emb_rmw('word', ?1, ?2)");
}

void pool_close(struct pool *pool) {
  sqlite3_finalize(pool->get);
  sqlite3_finalize(pool->apply);
  free(pool->key);
  free(pool->gradient);
  free(pool->first);
}

/* Puts the keys of these entries one behind the other; how many. */
static size_t gather(struct pool *pool, const struct words *words,
                     const uint32_t *which, size_t count) {
  size_t keys = 0;
  if (count > pool->bags || !pool->first) {
    free(pool->first);
    pool->first = need(count + 1, sizeof(size_t));
  }
  pool->bags = count;
  for (size_t i = 0; i < count; i++) {
    pool->first[i] = keys;
    keys += words->first[which[i] + 1] - words->first[which[i]];
  }
  pool->first[count] = keys;
  if (keys > pool->room) {
    free(pool->key);
    free(pool->gradient);
    pool->room = 2 * keys;
    pool->key = need(pool->room, sizeof(int64_t));
    pool->gradient = need(pool->room * pool->width, sizeof(float));
  }
  for (size_t i = 0; i < count; i++) {
    size_t length = pool->first[i + 1] - pool->first[i];
    if (length > 0) {
      memcpy(pool->key + pool->first[i], words->key + words->first[which[i]],
             length * sizeof(int64_t));
    }
  }
  return keys;
}

static float share_of(const struct pool *pool, size_t bag) {
  size_t length = pool->first[bag + 1] - pool->first[bag];
  return 1 / sqrtf((float)(length ? length : 1));
}

void pool_forward(struct pool *pool, const struct words *words,
                  const uint32_t *which, size_t count, float *y) {
  size_t width = pool->width, keys = gather(pool, words, which, count);
  memset(y, 0, count * width * sizeof(float));
  if (keys == 0) {
    return;
  }
  sqlite3_bind_blob64(pool->get, 1, pool->key, keys * sizeof(int64_t),
                      SQLITE_STATIC);
  const float *row =
      statement_step(pool->get) ? sqlite3_column_blob(pool->get, 0) : NULL;
  if (!row || (size_t)sqlite3_column_bytes(pool->get, 0) !=
                  keys * width * sizeof(float)) {
    die("emb_get gave a result of the wrong size");
  }
  for (size_t i = 0; i < count; i++, y += width) {
    float share = share_of(pool, i);
    for (size_t k = pool->first[i]; k < pool->first[i + 1]; k++) {
      for (size_t j = 0; j < width; j++) {
        y[j] += share * *row++;
      }
    }
  }
  statement_end(pool->get);
}

void pool_backward(struct pool *pool, const float *y_gradient) {
  size_t width = pool->width, keys = pool->first[pool->bags];
  float *to = pool->gradient;
  if (keys == 0) {
    return;
  }
  for (size_t i = 0; i < pool->bags; i++, y_gradient += width) {
    float share = share_of(pool, i);
    for (size_t k = pool->first[i]; k < pool->first[i + 1]; k++) {
      for (size_t j = 0; j < width; j++) {
        *to++ = share * y_gradient[j];
      }
    }
  }
  sqlite3_bind_blob64(pool->apply, 1, pool->key, keys * sizeof(int64_t),
                      SQLITE_STATIC);
  sqlite3_bind_blob64(pool->apply, 2, pool->gradient,
                      keys * width * sizeof(float), SQLITE_STATIC);
  statement_step(pool->apply);
  statement_end(pool->apply);
}
