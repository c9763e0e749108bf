/* SPDX-License-Identifier: MIT
**
** admission_valid.c -- checks the counts of admission against admission.h.
** Only in self-checking builds (base/debug.h).
*/
#include "admission.h"
#include "engine/base/debug.h"

#if EMB_DEBUG > 0

/* A search for a key in the exact table ends at a free entry. */
static void check_exact(const struct admission *a) {
  uint64_t entries = a->bytes / sizeof(struct admission_seen);
  emb_assert((entries & (entries - 1)) == 0);
  emb_assert(a->limit < entries);
  emb_assert(atomic_load(&a->keys) <= a->limit);
}

int admission_valid(const struct admission *a) {
  int has_tables =
      a->rule.kind == ADMISSION_COUNT || a->rule.kind == ADMISSION_BLOOM;
  emb_assert((a->bytes != 0) == has_tables);
  emb_assert(!has_tables || (a->tables[0] && a->tables[1]));
  emb_assert(atomic_load(&a->young) <= 1);
  if (a->rule.kind == ADMISSION_COUNT) {
    check_exact(a);
  }
  return 1;
}

#endif
