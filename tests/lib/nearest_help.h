/* SPDX-License-Identifier: MIT
**
** nearest_help.h -- which keys a random search of a test leaves out, as the
** test itself has chosen them, and whether the rows that it found are whole.
*/
#ifndef EMB_NEAREST_HELP_H
#define EMB_NEAREST_HELP_H

#include "store_help.h"

/* A filter of a part of the keys 0 .. keys - 1, perhaps with one far away, so
** that it is no set of bits.  The caller frees it.  What is in it is remembered
** until the next one. */
emb_filter *help_filter(emb_session *session, int64_t keys);

/* The rows that a search of n queries has found, with vectors and versions or
** without, are those that the session sees now, or the snapshot's. */
void help_same_rows(emb_session *s, emb_snap *snap, const emb_neighbours *found,
                    size_t n, size_t k);
/* Each has the distance of its vector, and its version is no later than now. */
void help_whole_rows(emb_session *s, const float *query,
                     const emb_neighbours *found, int metric, uint32_t dim);

/* Do the list and the last filter of this search leave this key in? */
int help_wanted(const emb_nearest_how *how, int64_t key);

#endif
