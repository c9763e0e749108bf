/* SPDX-License-Identifier: MIT
**
** evict_valid.c -- checks that a round of eviction is as evict.h says.  Only in
** self-checking builds (base/debug.h).
*/
#include "evict.h"

#if EMB_DEBUG > 0

static void check_stratum(const struct evict *round, uint32_t i) {
  const struct evict_stratum *this = &round->strata[i], *next = this + 1;
  emb_assert(this->from <= this->end);
  emb_assert(this->seen && this->low <= this->seen);
  /* The largest share of low rows comes first. */
  emb_assert(i + 1 == round->count || (uint64_t)this->low * next->seen >=
                                          (uint64_t)next->low * this->seen);
}

int evict_valid(const struct core *core, const struct evict *round) {
  if (!round->count) {
    return 1;
  }
  emb_assert(round->count <= EVICT_STRATA);
  emb_assert(round->at < round->count);
  const struct evict_stratum *present = &round->strata[round->at];
  emb_assert(present->from <= round->next && round->next <= present->end);
  emb_assert(round->most && round->most <= core->schema.capacity);
  emb_assert(round->strata[0].low); /* some row of the sample is to go */
  for (uint32_t i = 0; i < round->count; i++) {
    check_stratum(round, i);
  }
  return 1;
}

#endif
