/* SPDX-License-Identifier: MIT
**
** fold.c -- maps ids to rows of a table; see fold.h.
*/
#include "fold.h"

#include <stdlib.h>

static void fold_field(struct fold *fold, int f, uint32_t ids, size_t slots) {
  int64_t *keys = need(ids, sizeof(*keys));
  fold->key[f] = keys;
  for (uint32_t n = 0; n < ids; n++) {
    keys[n] = click_key(n);
  }
  if (!slots) {
    return;
  }
  uint32_t *first = need(slots, sizeof(*first)); /* id of a slot, plus 1 */
  uint32_t *members = need(slots, sizeof(*members));
  size_t collided = 0;
  for (uint32_t n = 0; n < ids; n++) {
    size_t slot = (uint64_t)keys[n] % slots;
    members[slot]++;
    if (!first[slot]) {
      first[slot] = n + 1;
    }
    keys[n] = keys[first[slot] - 1];
  }
  for (size_t slot = 0; slot < slots; slot++) {
    collided += members[slot] > 1 ? members[slot] : 0;
  }
  fold->collided[f] = (double)collided / ids;
  free(first);
  free(members);
}

void fold_make(struct fold *fold, const struct stream_options *options,
               const size_t slots[FIELDS]) {
  *fold = (struct fold){0};
  fold_field(fold, 0, options->users, slots[0]);
  fold_field(fold, 1, options->items, slots[1]);
}

void fold_free(struct fold *fold) {
  for (int f = 0; f < FIELDS; f++) {
    free(fold->key[f]);
  }
}

void fold_batch(const struct fold *fold, const struct click *clicks,
                size_t count, struct batch *batch) {
  batch->count = count;
  for (size_t i = 0; i < count; i++) {
    batch->keys[0][i] = fold->key[0][clicks[i].user];
    batch->keys[1][i] = fold->key[1][clicks[i].item];
    batch->place[i] = clicks[i].place;
    batch->clicked[i] = clicks[i].clicked;
    batch->weight[i] = 1;
  }
}
