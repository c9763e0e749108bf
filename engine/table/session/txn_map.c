/* SPDX-License-Identifier: MIT
**
** txn_map.c -- a session's view of its own open transaction; see txn_map.h.
*/
#include "txn_map.h"

uint64_t session_txn_find(struct txn *txn, int64_t key, uint64_t hash,
                          int *own) {
  uint64_t word;
  if (!index_find(txn->map, key, hash, &word) || (word & MAP_SAME)) {
    *own = 0;
    return 0;
  }
  *own = 1;
  return word & MAP_GONE ? 0 : word_address(word);
}
