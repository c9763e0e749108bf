/* SPDX-License-Identifier: MIT
**
** options.h -- the text that declares an index: ivf(lists=1000, code=8).
**
**   lists    number of lists; 0: derived from the size of the table
**   code     bits for each element: 8, 4, 2, 1, or 0 (also `none`): no codes,
**            all keys of a list are candidates
**   probes   lists that a query searches; 0: as many as the recall needs
**   memory   maximum MiB of the index; 0: as much as it needs
**   recall   share of the nearest rows that a query finds, on average; 0.95,
**            or 0: none is promised, because `probes` is given
*/
#ifndef EMB_IVF_OPTIONS_H
#define EMB_IVF_OPTIONS_H

#include <stddef.h>

#include "engine/base/err.h"

#define IVF_TEXT_MAX 128

struct ivf_options {
  double lists, code, probes, memory, recall;
};

/* EMB_RANGE: the error names the offending part. */
int ivf_parse(struct ivf_options *options, const char *text, emb_err *err);
/* Writes all parameters; returns the length, or 0 if size is too small. */
size_t ivf_print(const struct ivf_options *options, char *out, size_t size);

#endif
