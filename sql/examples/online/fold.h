/* SPDX-License-Identifier: MIT
**
** fold.h -- which row of a table an id has: one of its own, or a slot's.
**
** A hashed table has a fixed number of slots, and the ids with the same
** remainder share one.  The row's key is then that of the most frequent of
** them: a row begins with a vector that depends on its key, so an id that
** collides with none begins with the same as in the table without collisions,
** and the two differ in nothing but the collisions.
*/
#ifndef ONLINE_FOLD_H
#define ONLINE_FOLD_H

#include "model.h"

struct fold {
  int64_t *key[FIELDS];    /* of each user, of each item */
  double collided[FIELDS]; /* share of ids that share their row */
};

/* slots: of each table; 0: no collisions. */
void fold_make(struct fold *fold, const struct stream_options *options,
               const size_t slots[FIELDS]);
void fold_free(struct fold *fold);

/* The batch of `count` clicks, at most BATCH. */
void fold_batch(const struct fold *fold, const struct click *clicks,
                size_t count, struct batch *batch);

#endif
