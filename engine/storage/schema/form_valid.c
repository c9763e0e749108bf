/* SPDX-License-Identifier: MIT
**
** form_valid.c -- checks the form of a file's rows against form.h.  Only in
** self-checking builds (base/debug.h).  What a file's head says was compared
** with its schema before.
*/
#include "form.h"

#if EMB_DEBUG > 0

/* Bytes of the columns of a row in the file. */
static uint64_t form_valid_bytes(const struct form *form) {
  uint64_t bytes = form->state ? form->file.state_floats * 4 : 0;
  for (uint32_t i = 0; i < form->file.count; i++) {
    const struct segment *segment = &form->file.segments[i];
    bytes += form->encoding == QUANT_F32
                 ? segment->dim * (segment->type == EMB_F16 ? 2 : 4)
                 : quant_bytes((enum quant_type)form->encoding, segment->dim);
  }
  return bytes + (form->track ? sizeof(emb_track) : 0);
}

int form_valid(const struct form *form) {
  emb_assert(form->encoding <= QUANT_INT4);
  emb_assert(schema__same_vectors(&form->file, form->table));
  emb_assert(!form->state || form->file.state_floats);
  emb_assert(!form->track || schema_tracks(&form->file));
  emb_assert(
      !form->keeps_state ||
      (form->state && form->file.state_floats == form->table->state_floats));
  emb_assert(form->value_bytes == form_valid_bytes(form));
  return 1;
}

#endif
