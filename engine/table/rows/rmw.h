/* SPDX-License-Identifier: MIT
**
** rmw.h -- used by other calls: gradients, immediate or averaged (bank/), and
** rows created by their first Get.
*/
#ifndef EMB_ROWS_RMW_H
#define EMB_ROWS_RMW_H

#include "value.h"

/* Checks `how` and fills *change; the session's error says what is wrong. */
int rmw_step(emb_session *s, const float *gradients, const emb_update *how,
             struct row_change *change);
/* The arguments of emb_apply_gradients. */
struct rmw_ask {
  const int64_t *keys;
  size_t n;
  const float *gradients;
  const uint32_t *times; /* NULL, or for distinct keys: how many rows of a batch
                            each gradient is the sum of */
  const emb_update *how;
  const emb_rows *to;
};
/* Applies the gradients immediately. */
int rmw_gradients(emb_session *s, const struct rmw_ask *ask);

/* Gradients that were checked before: averaged ones, or a batch in the
** background (async.c). */
struct rmw_batch {
  const int64_t *keys;
  size_t n;
  const float *rows;
  const uint32_t *times; /* NULL, or for distinct keys: batch rows averaged into
                            each */
  uint64_t *versions;    /* set for each row that is done; 0: the key is absent
                            and was not added */
  emb_update how;
};
/* One step for each key.  Returns no lease.  After an error `versions` tells
** which rows were done; of a repeated key, its first row. */
int rmw_steps(emb_session *s, const struct rmw_batch *batch);

/* Does a lookup create missing rows? */
static inline int rmw_creates(const emb_session *s) {
  return s->core->schema.insert_on == EMB_INSERT_ON_LOOKUP;
}
/* Before a Get of such a store: adds the absent keys.  If this process may not
** write, they stay absent. */
int rmw_create(emb_session *s, const int64_t *keys, size_t n);

#endif
