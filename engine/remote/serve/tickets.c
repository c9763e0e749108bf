/* SPDX-License-Identifier: MIT
**
** tickets.c -- see tickets.h.
*/
#include "tickets.h"

#include "engine/table/jobs/job.h"

void tickets__free_one(emb_session *s, struct remote_ticket *t) {
  struct env *env = s->core->env;
  if (t->memory.base) {
    env->shared_free(env, &t->memory);
  }
  env->release(env, t);
}

void tickets__end(emb_session *s, struct remote_ticket *t) {
  struct remote_ticket **at = &s->tickets.remote;
  while (*at != t) {
    at = &(*at)->next;
  }
  *at = t->next;
  tickets__free_one(s, t);
  emb_check(tickets_valid(s));
}

void tickets__add(emb_session *s, struct remote_ticket *t) {
  struct remote_ticket **at = &s->tickets.remote;
  while (*at) {
    at = &(*at)->next;
  }
  *at = t;
}

struct remote_ticket *tickets_find(const emb_session *s, int kind,
                                   uint64_t number) {
  struct remote_ticket *t = s->tickets.remote;
  while (t && (t->kind != kind || (number && t->number != number))) {
    t = t->next;
  }
  return t;
}

void tickets__free(emb_session *s) {
  while (s->tickets.remote) {
    tickets__end(s, s->tickets.remote);
  }
}

/* Copies what the other end wrote before using it. */
static int ended_as(const struct link_slot *slot, uint64_t there, int *code) {
  uint32_t n = *(const volatile uint32_t *)&slot->ended_count;
  n = n < SLOT_TICKETS ? n : SLOT_TICKETS;
  for (uint32_t i = 0; i < n; i++) {
    struct slot_ticket ended = slot->ended[i];
    if (ended.ticket == there) {
      *code = ended.code;
      return *code >= 0;
    }
  }
  return 0;
}

void tickets__left(emb_session *s, const struct link *link, int in_peace) {
  for (struct remote_ticket *t = s->tickets.remote; t; t = t->next) {
    if (t->serial == link->serial && t->state == TICKET_FLYING) {
      t->state = (in_peace && ended_as(link->slot, t->there, &t->code)) ||
                         EMB_SEED(SEED_LOST_TICKET_IS_DONE)
                     ? TICKET_DONE
                     : TICKET_LOST;
      t->has_died = !in_peace;
    }
  }
  emb_check(tickets_valid(s));
}
