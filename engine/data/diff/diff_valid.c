/* SPDX-License-Identifier: MIT
**
** diff_valid.c -- checks that the form of a difference is as diff.h says.  Only
** in self-checking builds (base/debug.h).
*/
#include "engine/data/emb_data.h"
#include "diff.h"

#if EMB_DEBUG > 0

int diff__form_valid(const struct diff_form *form) {
  uint32_t width = form->width;
  emb_assert(width > 0 && width <= DIFF_WIDTH_MAX && !(width & (width - 1)));
  emb_assert(form->parts == 1 || form->parts == width);
  emb_assert(form->op == EMB_DIFF_SUB || form->op == EMB_DIFF_XOR);
  /* Only the last element, and the last block, may be padded. */
  emb_assert(form->elements * width >= form->bytes &&
             form->elements * width - form->bytes < width);
  emb_assert(form->blocks * DIFF_ELEMENTS >= form->elements &&
             form->blocks * DIFF_ELEMENTS - form->elements < DIFF_ELEMENTS);
  return 1;
}

#endif
