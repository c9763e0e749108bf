/* SPDX-License-Identifier: MIT
**
** retention.c -- see retention.h.
*/
#include "retention.h"

void retention_begin(struct core *core, struct retention *hold) {
  pthread_mutex_lock(&core->log.lock);
  hold->next = core->retentions;
  core->retentions = hold;
  pthread_mutex_unlock(&core->log.lock);
}

void retention_end(struct core *core, struct retention *hold) {
  pthread_mutex_lock(&core->log.lock);
  for (struct retention **at = &core->retentions; *at; at = &(*at)->next) {
    if (*at == hold) {
      *at = hold->next;
      break;
    }
  }
  pthread_mutex_unlock(&core->log.lock);
}

void retention_settle(struct core *core) {
  for (struct retention *k = core->retentions; k; k = k->next) {
    if (k->settle) {
      k->settle(k);
    }
  }
}

#if EMB_DEBUG > 0
int retention_allows(const struct core *core, uint64_t extent) {
  for (const struct retention *k = core->retentions; k; k = k->next) {
    if (k->needs(k, extent)) {
      return 0;
    }
  }
  return 1;
}
#endif

uint64_t retention__floor(const struct core *core) {
  uint64_t floor = UINT64_MAX;
  for (const struct retention *k = core->retentions; k; k = k->next) {
    uint64_t own = k->floor ? k->floor(k) : 0;
    floor = own < floor ? own : floor;
  }
  return floor;
}
