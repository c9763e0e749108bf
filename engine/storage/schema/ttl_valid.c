/* SPDX-License-Identifier: MIT
**
** ttl_valid.c -- checks times to live against ttl.h.  Only in self-checking
** builds (base/debug.h).
*/
#include "engine/base/debug.h"
#include "ttl.h"

#if EMB_DEBUG > 0

int ttl_valid(const struct ttl *ttl) {
  emb_assert(ttl->count <= TTL_SLOTS_MAX);
  for (uint32_t i = 0; i < ttl->count; i++) {
    const struct ttl_slots *slots = &ttl->slots[i];
    emb_assert(slots->low <= slots->high && slots->high <= 0x7fff);
    emb_assert(!i || slots[-1].high < slots->low); /* a search by halves */
  }
  return 1;
}

#endif
