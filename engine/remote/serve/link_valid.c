/* SPDX-License-Identifier: MIT
**
** link_valid.c -- checks a session's link, as link.h describes it.  Only in
** self-checking builds (base/debug.h).  What the slot contains is not looked
** at: the owner writes it, too.
*/
#include "link.h"

#if EMB_DEBUG > 0

int link_valid(const emb_session *s) {
  const struct link *link = s->link;
  if (!link) {
    return 1;
  }
  emb_assert(link->peer != NULL);
  emb_assert(link->serial != 0);
  emb_assert(link->slot && link->slot == link->memory.base);
  emb_assert(link->memory.bytes == sizeof(struct link_slot));
  emb_assert(link->units.vector && link->units.schema == &s->core->schema);
  /* The commit whose answer is owed has ended the transaction. */
  emb_assert(!link->owes ||
             !(link->holds & (SLOT_HAS_TXN | SLOT_HAS_PREPARED)));
  return 1;
}

#endif
