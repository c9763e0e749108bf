/* SPDX-License-Identifier: MIT
**
** tomb.c -- a row removed outside a transaction leaves a tombstone in the log,
** from which recovery learns of the removal.
*/
#include <string.h>

#include "engine/emb.h"
#include "core.h"

int tomb_write(struct core *core, int64_t key, uint64_t above,
               uint32_t reason) {
  uint32_t kind = PAGE_TOMB | reason << PAGE_FLAG_SHIFT;
  if (core->temporary || EMB_SEED(SEED_TOMBSTONE_NOT_WRITTEN)) {
    return EMB_OK; /* never recovered */
  }
  if (reason) {
    log_close_older(&core->log, LOG_IMMEDIATE,
                    layout_page(&core->layout, above));
  }
  for (;;) {
    struct log_run run = {.stream = LOG_IMMEDIATE};
    int rc = log_take(&core->log, &run, kind, 1);
    if (rc) {
      return rc;
    }
    memcpy(log_page(&core->log, run.page) + PAGE_HEAD_BYTES +
               (size_t)run.slot * 8,
           &key, 8);
    emb_assert(run.page <= atomic_load(&core->log.last_tomb));
    if (run.page > layout_page(&core->layout, above)) {
      return EMB_OK;
    }
    /* In the older page the tombstone has no effect, but is read as a separate
    ** eviction (retention/evicted.c); the code above avoids that. */
    log_close(&core->log, LOG_IMMEDIATE);
  }
}
