/* SPDX-License-Identifier: MIT
**
** rmw.h -- for other calls: gradients, at once or averaged (bank/), and rows
** that appear at their first Get.
*/
#ifndef EMB_ROWS_RMW_H
#define EMB_ROWS_RMW_H

#include "value.h"

/* Checks it; the session's error says what is wrong. */
int rmw_step(emb_session *s, const float *gradients, const emb_update *how,
             struct row_change *change);
/* What emb_apply_gradients is asked. */
struct rmw_ask {
  const int64_t *keys;
  size_t n;
  const float *gradients;
  const uint32_t *times; /* NULL, or of keys that differ: how many rows of a
                            batch each gradient is the sum of */
  const emb_update *how;
  const emb_rows *to;
};
/* It, at once. */
int rmw_gradients(emb_session *s, const struct rmw_ask *ask);

/* Averages of several gradients each, of keys that differ. */
struct rmw_batch {
  const int64_t *keys;
  size_t n;
  const float *rows;
  const uint32_t *times; /* rows of batches that are in each */
  uint64_t *versions;    /* set where a row was done: 0, it is not there and
                            was not added */
  emb_update how;
};
/* One step for each.  Gives no lease back.  After an error what was not done
** shows in `versions`. */
int rmw_averages(emb_session *s, const struct rmw_batch *batch);

/* Do rows appear when they are looked up? */
static inline int rmw_creates(const emb_session *s) {
  return s->core->schema.insert_on == EMB_INSERT_ON_LOOKUP;
}
/* Before a Get of such a store: adds the keys that are not there.  What this
** process may not write stays absent. */
int rmw_create(emb_session *s, const int64_t *keys, size_t n);

#endif
