/* SPDX-License-Identifier: MIT
**
** sample.h -- emb_sample's interface besides local_sample (calls.def); see
** sample.c.
*/
#ifndef EMB_NEGATIVES_SAMPLE_H
#define EMB_NEGATIVES_SAMPLE_H

#include "engine/table/session/session.h"

/* EMB_RANGE: too many rows.  Called before any array is accessed. */
int sample_check_size(emb_session *s, size_t n);

#endif
