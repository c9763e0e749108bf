/* SPDX-License-Identifier: MIT
**
** env_life_valid.c -- checks a life as env_peer.h describes it.  Only in
** self-checking builds (base/debug.h).
*/
#include "engine/base/debug.h"
#include "env_peer.h"

#if EMB_DEBUG > 0

int env__life_valid(const struct env__life *life) {
  uint64_t watched = 0;
  struct env_peer *const *at = &life->watched;
  emb_assert(life->peers > 0);
  emb_assert(life->process || life->peers == 1);
  emb_assert(life->fd >= 0);
  emb_assert(life->in_watch.is_life && life->in_watch.tag == life);
  for (const struct env_peer *peer = life->watched; peer;
       peer = peer->next_watched) {
    emb_assert(peer->life == life);
    emb_assert(peer->at_watched == at);
    at = &peer->next_watched;
    watched++;
  }
  emb_assert(watched <= life->peers);
  return 1;
}

#endif
