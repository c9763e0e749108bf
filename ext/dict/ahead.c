/* SPDX-License-Identifier: MIT
**
** ahead.c -- reads texts into the cache before they are looked up.
**
** WHY       Looking up a text by a seek in SQLite's b-tree takes 0.4 us among
**           100,000 texts and 1.2 us among a million, or 7 us if the pages of
**           the seek were not used recently.  Reading a text together with many
**           others in the order of their numbers, and putting it into the
**           cache, takes 0.14 us.
** WHEN      For each text found in SQLite and not in the cache, AHEAD_TEXTS
**           more are read.  So a connection that looks up many different texts
**           soon has all of them, and no call takes longer than some of its own
**           seeks, whereas all of a million texts at once took 0.2 s.  Looking
**           up each of a million texts once, at random, took 0.45 us a text
**           when 32 were read for each, and 0.35 us with 64.
**           A connection that looks up few texts pays nothing: reading ahead
**           begins after AHEAD_FIRST lookups that are also at least
**           1/AHEAD_BEGIN of the texts left, enough to justify the memory.
** WHERE     From the smallest number up to the largest committed number
**           (dict->limit).  Texts added by other connections come after it, and
**           are read in the same way.  When the cache is emptied, reading ahead
**           starts again.
** UNLESS    the rest of the dictionary does not fit into the cache, judging by
**           the mean size of the texts looked up.  The cache then keeps the
**           texts that were looked up.
** RIGHT     Texts read ahead are cached under the same rules as texts looked
**           up, and a text that the cache does not have is looked up.
*/
#include "dict_sql.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

enum {
  AHEAD_TEXTS = 64,
  AHEAD_BEGIN = 256,
  AHEAD_FIRST = 1500,
  AHEAD_LEAST = 2048, /* fewer are not worth a statement */
  AHEAD_BLOCK = 64,   /* texts added to the cache together */
  AHEAD_TEXT_BYTES = 2048,
};

/* Texts on their way to the cache, copied because the next row of the statement
** invalidates the text of the last. */
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

/* Reads at most n texts, up to the number `to`. */
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

/* Have enough texts been looked up to make the rest worth its memory? */
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
