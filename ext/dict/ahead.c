/* SPDX-License-Identifier: MIT
**
** ahead.c -- texts are read into the cache before they are asked for.
**
** WHY       A text that is looked up by a seek in SQLite's b-tree takes 0.4 us
**           of 100,000 texts, and 1.2 us of a million, or 7 where the seek's
**           pages were not used lately; one of many that are read in the order
**           of their numbers, and put into the cache, takes 0.14.
** WHEN      For each text that SQLite had and the cache did not, AHEAD_TEXTS
**           more are read.  So a connection that asks for many different texts
**           soon has all, and no call takes longer than some of its own seeks:
**           all of a million texts at once took 0.2 s.  Who asked for each of a
**           million texts once, at random, took 0.45 us a text with 32 for
**           each, and 0.35 with 64.
**           Who asks for few texts pays nothing: it begins behind AHEAD_FIRST
**           texts and one in AHEAD_BEGIN, which are worth the memory, too.
** WHERE     From the smallest number on, up to the largest that is committed
**           (dict->limit).  What other connections add is behind that, and is
**           read in the same way.  The cache being emptied, it begins anew.
** UNLESS    the rest of the dictionary has no room in the cache, by the mean of
**           the texts that were looked up: then what was asked for stays.
** RIGHT     What is read ahead is remembered as what was looked up is, and a
**           text that it does not have is looked up.
*/
#include "dict_sql.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

enum {
  AHEAD_TEXTS = 64,
  AHEAD_BEGIN = 256,
  AHEAD_FIRST = 1500,
  AHEAD_LEAST = 2048, /* no statement for fewer */
  AHEAD_BLOCK = 64,   /* texts that the cache gets together */
  AHEAD_TEXT_BYTES = 2048,
};

/* Texts on their way to the cache: SQLite's own memory is gone with the next
** one. */
struct ahead_block {
  struct ext_text texts[AHEAD_BLOCK];
  int64_t ids[AHEAD_BLOCK];
  size_t n, used;
  char bytes[AHEAD_TEXT_BYTES];
};

static void block_end(struct ahead_block *block, struct ext_cache *cache) {
  ext_cache_add_many(cache, block->texts, block->ids, block->n);
  block->n = block->used = 0;
}

static void block_add(struct ahead_block *block, struct ext_cache *cache,
                      const struct ext_text *text, int64_t id) {
  if (block->n == AHEAD_BLOCK || text->n > AHEAD_TEXT_BYTES - block->used)
    block_end(block, cache);
  if (text->n > AHEAD_TEXT_BYTES) {
    ext_cache_add(cache, text, id);
    return;
  }
  block->texts[block->n] =
      (struct ext_text){block->bytes + block->used, text->n};
  block->ids[block->n++] = id;
  memcpy(block->bytes + block->used, text->at, text->n);
  block->used += text->n;
}

/* At most n texts, up to the number `to`. */
static int dict_ahead_read(struct ext_dict *dict, sqlite3_stmt *statement,
                           size_t n, int64_t to) {
  struct ahead_block block = {.n = 0};
  int64_t last = to;
  int rc = sqlite3_bind_int64(statement, 1, dict->ahead);
  if (rc == SQLITE_OK)
    rc = sqlite3_bind_int64(statement, 2, to);
  if (rc == SQLITE_OK)
    rc = sqlite3_bind_int64(statement, 3, (int64_t)n);
  while (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
    struct ext_text text = {(const char *)sqlite3_column_text(statement, 1),
                            (size_t)sqlite3_column_bytes(statement, 1)};
    rc = text.at ? SQLITE_OK : SQLITE_NOMEM;
    if (rc == SQLITE_OK) {
      last = sqlite3_column_int64(statement, 0);
      block_add(&block, dict->cache, &text, last);
      n--;
    }
  }
  block_end(&block, dict->cache);
  if (rc == SQLITE_DONE)
    dict->ahead = n ? to : last;
  return rc;
}

/* Have so many texts been looked up that the rest is worth its memory? */
static int ahead_begins(const struct ext_dict *dict, uint64_t left) {
  size_t found = dict->owed / AHEAD_TEXTS;
  return dict->ahead || (found >= AHEAD_FIRST && found >= left / AHEAD_BEGIN);
}

int ext_dict_ahead(struct ext_dict *dict, size_t found, char **err) {
  int64_t to = dict->newest < dict->limit ? dict->newest : dict->limit;
  size_t n = AHEAD_TEXTS * found;
  uint64_t left;
  sqlite3_stmt *statement;
  int rc;
  dict->owed += n;
  if (found == 0 || dict->owed < AHEAD_LEAST || dict->ahead >= to)
    return SQLITE_OK;
  left = (uint64_t)(to - dict->ahead);
  if (!ahead_begins(dict, left) || !ext_cache_reserve(dict->cache, left))
    return SQLITE_OK;
  rc = ext_dict_statement(dict, DICT_AHEAD, &statement, err);
  if (rc != SQLITE_OK)
    return rc;
  dict->owed = 0;
  rc = dict_ahead_read(dict, statement, n < AHEAD_LEAST ? AHEAD_LEAST : n, to);
  return ext_dict_done(dict, DICT_AHEAD, statement, rc, err);
}
