/* SPDX-License-Identifier: MIT
**
** hash_set.h -- a set of 64-bit hashes.
*/
#ifndef EMB_TEST_HASH_SET_H
#define EMB_TEST_HASH_SET_H

#include <stddef.h>
#include <stdint.h>

/* Open addressing, at most half full; starts as zeros. */
struct hash_set {
  uint64_t *slots; /* 0: free */
  size_t room, used;
};

/* 1: it is new.  Ends the program if memory runs out. */
int hash_set_add(struct hash_set *set, uint64_t hash);
void hash_set_free(struct hash_set *set);

#endif
