/* SPDX-License-Identifier: MIT
**
** sample.h -- what others need of emb_sample besides local_sample
** (session/calls.h); see sample.c.
*/
#ifndef EMB_SAMPLE_SAMPLE_H
#define EMB_SAMPLE_SAMPLE_H

#include "../session/store.h"

/* EMB_RANGE: too many rows; before any array is looked at. */
int sample_check_size(emb_session *s, size_t n);

#endif
