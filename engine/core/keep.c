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
