/* SPDX-License-Identifier: MIT
**
** keep.c -- see keep.h.
*/
#include "keep.h"

void keep_begin(struct core *core, struct keeper *keeper) {
  pthread_mutex_lock(&core->log.lock);
  keeper->next = core->keepers;
  core->keepers = keeper;
  pthread_mutex_unlock(&core->log.lock);
}

void keep_end(struct core *core, struct keeper *keeper) {
  pthread_mutex_lock(&core->log.lock);
  for (struct keeper **at = &core->keepers; *at; at = &(*at)->next) {
    if (*at == keeper) {
      *at = keeper->next;
      break;
    }
  }
  pthread_mutex_unlock(&core->log.lock);
}

void keep_settle(struct core *core) {
  for (struct keeper *k = core->keepers; k; k = k->next) {
    if (k->settle) {
      k->settle(k);
    }
  }
}

uint64_t keep_floor(const struct core *core) {
  uint64_t floor = UINT64_MAX;
  for (const struct keeper *k = core->keepers; k; k = k->next) {
    uint64_t own = k->floor ? k->floor(k) : 0;
    floor = own < floor ? own : floor;
  }
  return floor;
}
