/* SPDX-License-Identifier: MIT
**
** rmw.h -- for other calls: what emb_apply_gradients asks for, and rows that
** appear at their first Get.
*/
#ifndef EMB_TABLE_RMW_H
#define EMB_TABLE_RMW_H

#include "value.h"

/* Checks it; the session's error says what is wrong. */
int rmw_step(emb_session *s, const float *gradients, const emb_update *how,
             struct change *change);

/* Do rows appear when they are looked up? */
static inline int rmw_creates(const emb_session *s) {
  return s->core->schema.insert_on == EMB_INSERT_ON_LOOKUP;
}
/* Before a Get of such a store: adds the keys that are not there.  What this
** process may not write stays absent. */
int rmw_create(emb_session *s, const int64_t *keys, size_t n);

#endif
