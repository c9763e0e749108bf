/* SPDX-License-Identifier: MIT
**
** layout_help.h -- the layout of records that hold only a vector.
*/
#ifndef EMB_TEST_LAYOUT_HELP_H
#define EMB_TEST_LAYOUT_HELP_H

#include "engine/emb.h"
#include "engine/storage/rec/layout.h"

static inline void layout_plain(struct layout *layout, uint32_t dim,
                                uint32_t type) {
  uint32_t bytes = dim * (type == EMB_F16 ? 2 : 4);
  layout_init(layout, dim, type, bytes, bytes);
}

#endif
