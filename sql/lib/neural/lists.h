/* SPDX-License-Identifier: MIT
**
** lists.h -- many lists of numbers: the words of each gloss, or the
** neighbours of each synset.
*/
#ifndef NEURAL_LISTS_H
#define NEURAL_LISTS_H

#include <stddef.h>
#include <stdint.h>

#include "../database.h"

struct lists {
  size_t count;  /* of lists */
  size_t *first; /* list i is item[first[i]] .. item[first[i + 1] - 1] */
  uint32_t *item;
};

/* Reads lists from a SELECT of (list, item), ordered by the list. */
void lists_read(struct lists *lists, sqlite3 *db, const char *sql,
                size_t count);
void lists_free(struct lists *lists);

static inline size_t lists_length(const struct lists *lists, size_t list) {
  return lists->first[list + 1] - lists->first[list];
}

static inline const uint32_t *lists_items(const struct lists *lists,
                                          size_t list) {
  return lists->item + lists->first[list];
}

#endif
