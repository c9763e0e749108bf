/* SPDX-License-Identifier: MIT
**
** form.h -- a record's value as a row of a file (pack/pack.h), and back.
**
**   columns  one for each segment: as it is stored, or quantised (vec/quant.h);
**            then the optimizers' state, if the file has it; then the emb_track
**            of a table that tracks
**
** LOSS      Without quantising a value comes back bit for bit.  float16, int8
**           and int4 are for the vectors only: an element comes back as near as
**           emb_quantize says, plus the rounding to float16 where the column is
**           FLOAT16.  State and track are always exact.
** READING   A file is taken by a table whose vectors have the same dimensions
**           and types.  State: the file's, if both have the same optimizers; a
**           table without any drops it; one whose file has none begins anew
**           with each row.  Track: the file's; zeros where it has none.
*/
#ifndef EMB_SCHEMA_FORM_H
#define EMB_SCHEMA_FORM_H

#include "engine/storage/pack/options.h"
#include "engine/storage/pack/pack.h"
#include "engine/math/vec/quant.h"
#include "schema.h"

struct form {
  const struct schema *table; /* whose values are encoded or made */
  const struct vec_ops *vec;
  struct schema file; /* as the file's head says */
  uint32_t encoding;  /* enum quant_type */
  int state, track;   /* the file has them */
  int keeps_state;    /* and the table takes it */
  uint32_t value_bytes;
};

/* A file that is to be written: sets what the head says of values.  options:
** encoding and state. */
int form_write(struct form *form, const struct schema *table,
               const struct vec_ops *vec, const struct pack_options *options,
               struct pack_head *head, emb_err *err);
/* A file that is to be read.  EMB_MISMATCH names what does not fit the table;
** table NULL: for its own schema, which then is form->file. */
int form_read(struct form *form, const struct schema *table,
              const struct vec_ops *vec, const struct pack_head *head,
              const char *path, emb_err *err);

/* value as in a record; row: form->value_bytes; scratch: a row of floats.
** EMB_NONFINITE: float16 does not hold an element. */
int form_encode(const struct form *form, const void *value, char *row,
                float *scratch);
/* value: zeros before.  scratch receives the vectors as float32.  EMB_CORRUPT:
** an element is not finite. */
int form_decode(const struct form *form, const char *row, void *value,
                float *scratch);
/* The vectors and what the row tracks only. */
int form_vectors(const struct form *form, const char *row, float *vectors,
                 emb_track *track);

#endif
