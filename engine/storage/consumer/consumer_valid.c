/* SPDX-License-Identifier: MIT
**
** consumer_valid.c -- checks that the consumers are as consumer.h says.  Only
** in self-checking builds (base/debug.h).  A file's contents were checked when
** it was read: a consumer whose file fails that check is CONSUMER_DAMAGED.
*/
#include "consumer.h"

#if EMB_DEBUG > 0

static void check_mark(const struct core *core, const struct mark *mark) {
  emb_assert(mark->page <= mark->end);
  emb_assert((mark->page == 0) == (mark->end == 0));
  emb_assert(mark->version <= atomic_load(&core->version)); /* D3 */
}

static void check_consumer(const struct consumers *c,
                           const struct consumer *each) {
  emb_assert(each->state <= CONSUMER_DAMAGED);
  emb_assert(!each->reason || each->state == CONSUMER_LOST);
  check_mark(c->core, &each->acked);
  check_mark(c->core, &each->sent);
  /* D1: `oldest` covers what it needs. */
  uint64_t page = consumer_needs_from(each);
  emb_assert(!page ||
             page >> c->core->layout.extent_bits >= atomic_load(&c->oldest));
  for (const struct consumer *other = each->next; other; other = other->next) {
    emb_assert(other->number != each->number);
  }
}

int consumers_valid(const struct consumers *c) {
  for (const struct consumer *each = c->first; each; each = each->next) {
    check_consumer(c, each);
  }
  for (const struct hold *hold = c->holds; hold; hold = hold->next) {
    emb_assert(hold->page >> c->core->layout.extent_bits >=
               atomic_load(&c->oldest));
  }
  for (size_t i = 0; i < c->holes.count; i++) {
    emb_assert(c->holes.list[i].from < c->holes.list[i].to);
    emb_assert(!i || c->holes.list[i - 1].to < c->holes.list[i].from);
  }
  return 1;
}

int consumer_follows(const struct consumer *old, const struct consumer *next) {
  int anew = next->acks == 0;
  emb_assert(old->number == next->number);
  emb_assert(anew || next->acked.end >= old->acked.end);
  emb_assert(anew || old->state == CONSUMER_GOOD || next->state == old->state);
  return 1;
}

#endif
