/* SPDX-License-Identifier: MIT
**
** words.h -- the entries as bags of hashed words.
*/
#ifndef CHANGELOGS_WORDS_H
#define CHANGELOGS_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "../../../lib/database.h"

/* Only this many different words of an entry are used, the first ones: the
** log of a kernel update has thousands. */
enum { WORDS_MAX = 256 };

/* A word's number is its hash, and the key of its row in the table of words:
** 64 bits, so that two words do not share a row. */
struct words {
  size_t count;  /* of entries */
  size_t *first; /* entry i has key[first[i]] .. key[first[i + 1] - 1] */
  int64_t *key;
};

/* A word is two or more letters, in lower case; bytes that are not ASCII are
** letters.  Numbers only name bugs or versions, and are left out.  Returns
** the number of keys. */
size_t words_of(const char *text, int64_t keys[WORDS_MAX]);

/* Reads the words of the texts that a SELECT returns. */
void words_read(struct words *words, sqlite3 *db, const char *sql);
void words_free(struct words *words);

#endif
