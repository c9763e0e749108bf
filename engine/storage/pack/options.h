/* SPDX-License-Identifier: MIT
**
** options.h -- the options for writing a pack, as text: "quantize=int8,
** level=3, state=0".
**
**   quantize=none|float16|int8|int4   of vectors (vec/quant.h); default none
**   level=0..19                       of zstd; 0: uncompressed; default 1
**   state=0|1                         with the optimizers' state; default 1
**   index=0|1                         of keys, for lookups; default 1
**   base=NAME                         an older snapshot: only changes since
*/
#ifndef EMB_PACK_OPTIONS_H
#define EMB_PACK_OPTIONS_H

#include "pack.h"

struct pack_options {
  uint32_t encoding; /* enum quant_type */
  uint32_t level, state, index;
  char base[PACK_NAME_BYTES]; /* "": none */
};

/* Returns the encoding in a file's head for a quantize= name; negative: unknown
** name. */
int pack_encoding(const char *name);

/* Options that only a snapshot takes. */
enum { PACK_TAKES_INDEX = 1, PACK_TAKES_BASE = 2 };

/* text may be NULL.  The text of EMB_RANGE names what is not understood. */
int pack_options_parse(struct pack_options *options, const char *text,
                       int takes, emb_err *err);

#endif
