/* SPDX-License-Identifier: MIT
**
** fold.h -- maps ids to rows of a table: a row per id, or a row per slot.
**
** A hashed table has a fixed number of slots, and ids with the same remainder
** share a slot.  The key of the slot's row is that of the most frequent of
** these ids.  The initial vector of a row depends on its key, so an id
** without collisions starts with the same vector as in the table without
** collisions, and the two tables differ only in the collisions.
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
