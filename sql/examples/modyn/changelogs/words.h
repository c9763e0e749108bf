/* SPDX-License-Identifier: MIT
**
** words.h -- the entries as bags of hashed words.
*/
#ifndef CHANGELOGS_WORDS_H
#define CHANGELOGS_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "../../../lib/database.h"

/* The first so many different words of an entry count: the log of a kernel's
** update has thousands. */
enum { WORDS_MAX = 256 };

/* A word's number is a hash of it, and its row's key in the table of words: 64
** bits, so that two words do not share a row. */
struct words {
  size_t count;  /* of entries */
  size_t *first; /* entry i has key[first[i]] .. key[first[i + 1] - 1] */
  int64_t *key;
};

/* A word: letters, two or more, small ones for large ones; bytes that are not
** ASCII are letters.  Numbers say which bug or which version, and are left
** out.  Returns how many keys there are. */
size_t words_of(const char *text, int64_t keys[WORDS_MAX]);

/* From a SELECT of texts. */
void words_read(struct words *words, sqlite3 *db, const char *sql);
void words_free(struct words *words);

#endif
