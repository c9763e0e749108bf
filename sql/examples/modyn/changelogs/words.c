/* SPDX-License-Identifier: MIT
**
** words.c -- the entries as bags of hashed words; see words.h.
*/
#include "words.h"

#include <stdlib.h>
#include <string.h>

/* FNV-1a.  Fowler, Noll and Vo, 1991. */
static const uint64_t HASH = 0xcbf29ce484222325, FACTOR = 0x100000001b3;

/* The words seen, by open addressing; twice as many places as words. */
struct seen {
  int64_t key[2 * WORDS_MAX];
  uint8_t used[2 * WORDS_MAX];
};

static int is_new(struct seen *seen, int64_t key) {
  size_t places = 2 * WORDS_MAX, at = (uint64_t)key % places;
  while (seen->used[at]) {
    if (seen->key[at] == key) {
      return 0;
    }
    at = (at + 1) % places;
  }
  seen->used[at] = 1;
  seen->key[at] = key;
  return 1;
}

/* The letter in lower case; 0: not a letter. */
static unsigned char letter(char c) {
  unsigned char u = (unsigned char)c;
  int large = u >= 'A' && u <= 'Z';
  return large ? (unsigned char)(u + 32)
               : ((u >= 'a' && u <= 'z') || u >= 0x80 ? u : 0);
}

size_t words_of(const char *text, int64_t keys[WORDS_MAX]) {
  struct seen seen;
  size_t count = 0;
  memset(&seen, 0, sizeof(seen));
  while (*text && count < WORDS_MAX) {
    uint64_t hash = HASH;
    size_t length = 0;
    for (unsigned char c; (c = letter(*text)) != 0; text++, length++) {
      hash = (hash ^ c) * FACTOR;
    }
    if (length >= 2 && is_new(&seen, (int64_t)hash)) {
      keys[count++] = (int64_t)hash;
    }
    text += length == 0;
  }
  return count;
}

static void *grown(void *memory, size_t bytes) {
  void *more = realloc(memory, bytes);
  if (!more) {
    die("out of memory");
  }
  return more;
}

void words_read(struct words *words, sqlite3 *db, const char *sql) {
  size_t room = 1 << 16, entries = 1 << 10, keys = 0;
  sqlite3_stmt *statement = statement_new(db, sql);
  words->count = 0;
  words->first = need(entries + 1, sizeof(size_t));
  words->key = need(room, sizeof(int64_t));
  while (statement_step(statement)) {
    if (keys + WORDS_MAX > room) {
      room *= 2;
      words->key = grown(words->key, room * sizeof(int64_t));
    }
    if (words->count == entries) {
      entries *= 2;
      words->first = grown(words->first, (entries + 1) * sizeof(size_t));
    }
    const unsigned char *text = sqlite3_column_text(statement, 0);
    keys += words_of(text ? (const char *)text : "", words->key + keys);
    words->first[++words->count] = keys;
  }
  sqlite3_finalize(statement);
}

void words_free(struct words *words) {
  free(words->first);
  free(words->key);
}
