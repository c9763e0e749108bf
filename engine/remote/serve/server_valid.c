/* SPDX-License-Identifier: MIT
**
** server_valid.c -- checks an owner's clients, as serving.h describes them.
** Only in self-checking builds (base/debug.h).
**
** Called in the hub's thread, which writes all of this but the atomic fields,
** and under server.lock for a client that has a server.  Nothing in the shared
** memory is looked at: it is the client's, too.
*/
#include "serving.h"

#if EMB_DEBUG > 0

static void check_serving_memory(const struct serving *v) {
  emb_assert(!v->slot == !v->s);
  emb_assert(!v->slot || (v->copy && v->number));
  emb_assert(!v->slot || v->memory.base == (void *)v->slot);
  emb_assert(!v->is_lent == !v->lent[0].base);
  emb_assert(v->is_lent || !v->lent[1].base);
  emb_assert(!v->is_lent || v->slot);
}

/* The hub's thread alone sets CLAIMED, and leaves that state before it does
** anything else. */
static void check_serving_thread(const struct serving *v) {
  int ended = atomic_load_explicit(&v->ended, memory_order_acquire);
  int parked = atomic_load(&v->parked);
  uint32_t holds = atomic_load_explicit(&v->holds, memory_order_relaxed);
  emb_assert(!v->thread || v->slot);
  emb_assert(!v->slot || v->thread || ended);
  emb_assert(parked == SERVING_RUNS || parked == SERVING_PARKED);
  emb_assert(!ended || parked == SERVING_RUNS);
  emb_assert(!(holds & SLOT_HAS_PREPARED) || (holds & SLOT_HAS_TXN));
  emb_assert(!ended || !holds);
  emb_assert(!ended || !atomic_load_explicit(&v->call, memory_order_relaxed));
}

static void check_serving(const struct serving *v) {
  check_serving_memory(v);
  check_serving_thread(v);
}

int strangers_valid(const struct serving *first) {
  for (const struct serving *v = first; v; v = v->next) {
    check_serving(v);
    emb_assert(!v->server && !v->slot);
  }
  return 1;
}

int server_valid(const struct server *server) {
  int leaving = atomic_load_explicit(&server->leaving, memory_order_relaxed);
  uint64_t newer = UINT64_MAX; /* the list has the newest first */
  for (const struct serving *v = server->clients; v; v = v->next) {
    check_serving(v);
    emb_assert(v->server == server && v->hub == server->hub.hub);
    emb_assert(v->number <= server->last);
    if (v->number) { /* it was admitted */
      emb_assert(v->number < newer);
      newer = v->number;
    }
  }
  emb_assert(leaving >= 0 && leaving <= 3);
  emb_assert(leaving ||
             (!server->left_us && !server->is_quiet && !server->end));
  emb_assert(!server->end || server->is_quiet);
  emb_assert(!server->is_over || (server->end && !server->clients));
  return 1;
}

#endif
