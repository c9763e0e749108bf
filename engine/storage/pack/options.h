/* SPDX-License-Identifier: MIT
**
** options.h -- what a pack that is to be written is like, as text:
** "quantize=int8, level=3, state=0".
**
**   quantize=none|float16|int8|int4   of the vectors (vec/quant.h); none
**   level=0..19                       of zstd; 0 stores; 1
**   state=0|1                         the optimizers' state; 1
**   index=0|1                         of keys: the file can be looked into; 1
**   base=NAME                         an older snapshot: only what changed
*/
#ifndef EMB_PACK_OPTIONS_H
#define EMB_PACK_OPTIONS_H

#include "pack.h"

struct pack_options {
  uint32_t encoding; /* enum quant_type */
  uint32_t level, state, index;
  char base[PACK_NAME_BYTES]; /* "": none */
};

/* The number that the head of a file has for a name of quantize=; below 0: no
** name of it. */
int pack_encoding(const char *name);

/* Those that only a snapshot takes. */
enum { PACK_TAKES_INDEX = 1, PACK_TAKES_BASE = 2 };

/* text may be NULL.  EMB_RANGE names what is not understood. */
int pack_options_parse(struct pack_options *options, const char *text,
                       int takes, emb_err *err);

#endif
