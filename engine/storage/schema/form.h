/* SPDX-License-Identifier: MIT
**
** form.h -- converts a record's value to a row of a file (pack/pack.h), and
** back.
**
**   columns  one per segment, as stored or quantised (vec/quant.h); then the
**            optimizers' state, if the file has it; then the emb_track of a
**            table that tracks
**
** LOSS      Without quantisation a value is restored bit for bit.  float16,
**           int8 and int4 apply only to vectors: an element is restored to the
**           precision given at emb_quantize, plus the rounding to float16 if
**           the column is FLOAT16.  State and track are always exact.
** READING   A table accepts a file whose vectors have the same dimensions and
**           types.  State: the file's, if both have the same optimizers; a
**           table without optimizers drops it; if the file has none, each row
**           starts with initial state.  Track: the file's, or zeros if it has
**           none.
*/
#ifndef EMB_SCHEMA_FORM_H
#define EMB_SCHEMA_FORM_H

#include "engine/storage/pack/options.h"
#include "engine/storage/pack/pack.h"
#include "engine/math/vec/quant.h"
#include "schema.h"

struct form {
  const struct schema *table; /* whose values are encoded or decoded */
  const struct vec_ops *vec;
  struct schema file; /* from the file's head */
  uint32_t encoding;  /* enum quant_type */
  int state, track;   /* the file has them */
  int keeps_state;    /* and the table keeps it */
  uint32_t value_bytes;
};

/* Only in self-checking builds. */
int form_valid(const struct form *form);

/* For writing a file: sets the head's fields for values.  Uses encoding and
** state of options. */
int form_write(struct form *form, const struct schema *table,
               const struct vec_ops *vec, const struct pack_options *options,
               struct pack_head *head, emb_err *err);
/* For reading a file.  The text of EMB_MISMATCH says what does not fit the
** table.  table NULL: use the file's own schema, then in form->file. */
int form_read(struct form *form, const struct schema *table,
              const struct vec_ops *vec, const struct pack_head *head,
              const char *path, emb_err *err);

/* value as in a record; row: form->value_bytes; scratch: a row of floats.
** EMB_NONFINITE: an element is out of range for float16. */
int form_encode(const struct form *form, const void *value, char *row,
                float *scratch);
/* value must be zeroed.  scratch receives the vectors as float32.  EMB_CORRUPT:
** an element is not finite. */
int form_decode(const struct form *form, const char *row, void *value,
                float *scratch);
/* Decodes only the vectors and the track. */
int form_vectors(const struct form *form, const char *row, float *vectors,
                 emb_track *track);

#endif
