/* SPDX-License-Identifier: MIT
**
** space.h -- how the log's bytes are used: which are live, which compaction
** could free, which the next checkpoint frees.
*/
#ifndef EMB_KERNEL_SPACE_H
#define EMB_KERNEL_SPACE_H

#include "core.h"

/* Waste allowed in a small table, in extents. */
#define SPACE_SLACK 4

struct space {        /* `used`, `live`, `dead`: without kept extents */
  uint64_t used;      /* bytes of extents in use */
  uint64_t live;      /* bytes of live records */
  uint64_t dead;      /* bytes of extents that the next checkpoint frees */
  uint64_t kept;      /* bytes of extents that a retention hold needs */
  uint64_t kept_live; /* bytes of live records in kept extents */
  int first_kept;     /* the oldest extent is a kept one */
};

/* Measures the space of the log. */
void space_measure(struct core *core, struct space *space);
/* Is more space wasted than compaction leaves?  is_quiet: writes pause, and
** compaction leaves less. */
int space_wasted(const struct core *core, const struct space *space,
                 int is_quiet);
/* Is more space in use than is allowed even while writes go on? */
int space_urgent(const struct core *core, const struct space *space);
/* Is there enough dead space to make a checkpoint worthwhile? */
int space_freeable(const struct core *core, const struct space *space);

/* Returns the first extent that may not be compacted: from there on extents are
** not written yet, or belong to an open transaction, whose records are not live
** until it commits. */
uint64_t space_limit(const struct core *core);
/* Is the span of extent numbers too long?  The log's table has an entry for
** every extent between the oldest and the tail, so an old extent that stays
** nearly full must not keep these entries permanently.  A kept extent may. */
int space_span_too_long(const struct core *core, uint64_t used_extents,
                        int first_kept);

#endif
