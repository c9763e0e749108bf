/* SPDX-License-Identifier: MIT
**
** models_valid.c -- checks that the classes of emb_f1 are as models.h says.
** Only in self-checking builds (engine/base/debug.h).
*/
#include "models.h"
SQLITE_EXTENSION_INIT3

#if EMB_DEBUG > 0

int ext_f1_valid(const struct f1 *f1) {
  size_t used = 0;
  int64_t labels = 0, predicted = 0, right = 0;
  emb_assert(!f1->capacity == !f1->slots);
  emb_assert((f1->capacity & (f1->capacity - 1)) == 0);
  emb_assert(2 * f1->n <= f1->capacity);
  for (size_t i = 0; i < f1->capacity; i++) {
    const struct class_count *class = &f1->slots[i];
    used += class->used != 0;
    emb_assert(class->right <= class->labels &&
               class->right <= class->predicted);
    labels += class->labels;
    predicted += class->predicted;
    right += class->right;
  }
  emb_assert(used == f1->n);
  /* Each row has one label and one prediction. */
  emb_assert(labels == f1->rows && predicted == f1->rows);
  emb_assert(right == f1->right);
  return 1;
}

#endif
