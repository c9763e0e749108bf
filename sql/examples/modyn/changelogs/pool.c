/* SPDX-License-Identifier: MIT
**
** pool.c -- pooled lookups in the table of words; see pool.h.
*/
#include "pool.h"

#include <stdlib.h>
#include <string.h>

void pool_open(struct pool *pool, sqlite3 *db, size_t width) {
  memset(pool, 0, sizeof(*pool));
  pool->width = width;
  pool->get = statement_new(db, "SELECT emb_bag('word', ?1, ?2, 'sqrtn')");
  pool->apply =
      statement_new(db, "SELECT emb_bag_apply('word', ?1, ?2, 'sqrtn', ?3)");
}

void pool_close(struct pool *pool) {
  sqlite3_finalize(pool->get);
  sqlite3_finalize(pool->apply);
  free(pool->key);
  free(pool->first);
}

static void make_room(struct pool *pool, size_t bags, size_t keys) {
  if (bags > pool->bags_room) {
    free(pool->first);
    pool->bags_room = 2 * bags;
    pool->first = need(pool->bags_room, sizeof(int64_t));
  }
  if (keys > pool->room) {
    free(pool->key);
    pool->room = 2 * keys;
    pool->key = need(pool->room, sizeof(int64_t));
  }
}

static size_t length_of(const struct words *words, uint32_t entry) {
  return words->first[entry + 1] - words->first[entry];
}

/* Concatenates the keys of these entries. */
static void gather(struct pool *pool, const struct words *words,
                   const uint32_t *which, size_t count) {
  size_t keys = 0;
  for (size_t i = 0; i < count; i++) {
    keys += length_of(words, which[i]);
  }
  make_room(pool, count, keys);
  pool->bags = count;
  pool->keys = 0;
  for (size_t i = 0; i < count; i++) {
    size_t length = length_of(words, which[i]);
    pool->first[i] = (int64_t)pool->keys;
    if (length > 0) {
      memcpy(pool->key + pool->keys, words->key + words->first[which[i]],
             length * sizeof(int64_t));
    }
    pool->keys += length;
  }
}

/* Binds the first two arguments. */
static void bind_bags(struct pool *pool, sqlite3_stmt *statement) {
  sqlite3_bind_blob64(statement, 1, pool->key, pool->keys * sizeof(int64_t),
                      SQLITE_STATIC);
  sqlite3_bind_blob64(statement, 2, pool->first, pool->bags * sizeof(int64_t),
                      SQLITE_STATIC);
}

void pool_forward(struct pool *pool, const struct words *words,
                  const uint32_t *which, size_t count, float *y) {
  size_t bytes = count * pool->width * sizeof(float);
  gather(pool, words, which, count);
  if (pool->keys == 0) {
    memset(y, 0, bytes);
    return;
  }
  bind_bags(pool, pool->get);
  if (!statement_step(pool->get) ||
      (size_t)sqlite3_column_bytes(pool->get, 0) != bytes) {
    die("emb_bag gave a result of the wrong size");
  }
  memcpy(y, sqlite3_column_blob(pool->get, 0), bytes);
  statement_end(pool->get);
}

void pool_backward(struct pool *pool, const float *y_gradient) {
  if (pool->keys == 0) {
    return;
  }
  bind_bags(pool, pool->apply);
  sqlite3_bind_blob64(pool->apply, 3, y_gradient,
                      pool->bags * pool->width * sizeof(float), SQLITE_STATIC);
  statement_step(pool->apply);
  statement_end(pool->apply);
}
