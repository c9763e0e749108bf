/* SPDX-License-Identifier: MIT
**
** readers_valid.c -- checks what is held for readers against readers.h.  Only
** in self-checking builds (base/debug.h); under ckpt_lock.
*/
#include "readers.h"

#if EMB_DEBUG > 0

int readers_valid(const struct core *core) {
  const struct readers *r = &core->readers;
  uint64_t count = atomic_load(&r->count);
  emb_assert(!count || r->held);
  for (uint64_t i = 0; i < count; i++) {
    emb_assert(!i || r->held[i - 1].extent < r->held[i].extent);
    emb_assert(r->held[i].gone > 0);
  }
  return 1;
}

#endif
