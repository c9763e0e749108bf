/* SPDX-License-Identifier: MIT
**
** options.h -- the text that asks for an index: ivf(lists=1000, code=8).
**
**   lists    how many; 0: as many as the table asks for
**   code     bits for each element: 8, 4, 1, or 0 (also `none`): no codes, all
**            keys of a list are candidates
**   probes   lists that a search looks into; 0: as many as the lists ask for
**   memory   the most MiB that the index may take; 0: what it needs
*/
#ifndef EMB_IVF_OPTIONS_H
#define EMB_IVF_OPTIONS_H

#include <stddef.h>

#include "engine/base/err.h"

#define IVF_TEXT_MAX 96

struct ivf_options {
  double lists, code, probes, memory;
};

/* EMB_RANGE names what is wrong. */
int ivf_parse(struct ivf_options *options, const char *text, emb_err *err);
/* With all parameters; the length, 0 if size is not enough. */
size_t ivf_print(const struct ivf_options *options, char *out, size_t size);

#endif
