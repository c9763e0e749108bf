/* SPDX-License-Identifier: MIT
**
** tomb.c -- what is removed at once leaves a tombstone in the log, from which
** recovery learns of it.
*/
#include <string.h>

#include "../emb.h"
#include "core.h"

int tomb_write(struct core *core, int64_t key, uint64_t above,
               uint32_t reason) {
  uint32_t kind = PAGE_TOMB | reason << PAGE_FLAG_SHIFT;
  if (core->temporary || EMB_SEED(20)) {
    return EMB_OK; /* never recovered */
  }
  if (reason) {
    log_close_older(&core->log, LOG_IMMEDIATE,
                    layout_page(&core->layout, above));
  }
  for (;;) {
    uint64_t page;
    uint32_t item, got;
    int rc =
        log_take(&core->log, LOG_IMMEDIATE, kind, 0, 1, &page, &item, &got);
    if (rc) {
      return rc;
    }
    memcpy(log_page(&core->log, page) + PAGE_HEAD_BYTES + (size_t)item * 8,
           &key, 8);
    if (page > layout_page(&core->layout, above)) {
      return EMB_OK;
    }
    /* In the older page it says nothing new, but is read as an eviction of its
    ** own (store/evicted.c): so that is avoided above. */
    log_close(&core->log, LOG_IMMEDIATE, 0, 0, 0);
  }
}
