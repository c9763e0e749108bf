/* SPDX-License-Identifier: MIT
**
** space.h -- how the bytes of the log are used: what is live, what compaction
** could give back, what the next checkpoint frees.
*/
#ifndef EMB_KERNEL_SPACE_H
#define EMB_KERNEL_SPACE_H

#include "core.h"

/* What may lie about in a small table, in extents. */
#define SPACE_SLACK 4

struct space {        /* without what is kept */
  uint64_t used;      /* bytes of extents in use */
  uint64_t live;      /* bytes that the live records fill */
  uint64_t dead;      /* bytes of extents that the next checkpoint frees */
  uint64_t kept;      /* bytes of extents that a keeper needs */
  uint64_t kept_live; /* and of live records in them */
  int first_kept;     /* the oldest extent is one of them */
};

/* replay: page from which the valid checkpoint would replay. */
void space_measure(struct core *core, struct space *space);
/* More space is wasted than compaction leaves. */
int space_wasted(const struct core *core, const struct space *space);
/* More is in use than may be, even while writes go on. */
int space_urgent(const struct core *core, const struct space *space);
/* Enough dead space for a checkpoint to be worth it. */
int space_freeable(const struct core *core, const struct space *space);

/* Extents from here on are not compacted: they are not written yet, or belong
** to an open transaction, whose records are not live before it commits. */
uint64_t space_limit(const struct core *core);
/* The log's table has an entry for every extent between the oldest and the
** tail: an old one that stays nearly full must not keep them for ever.  One
** that is kept does. */
int space_span_too_long(const struct core *core, uint64_t used_extents,
                        int first_kept);

#endif
