/* SPDX-License-Identifier: MIT
**
** sample.h -- what others need of emb_sample besides local_sample
** (calls.def); see sample.c.
*/
#ifndef EMB_NEGATIVES_SAMPLE_H
#define EMB_NEGATIVES_SAMPLE_H

#include "engine/table/session/session.h"

/* EMB_RANGE: too many rows; before any array is looked at. */
int sample_check_size(emb_session *s, size_t n);

#endif
