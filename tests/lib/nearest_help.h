/* SPDX-License-Identifier: MIT
**
** nearest_help.h -- the keys that a random search of a test leaves out, as
** chosen by the test, and checks that the rows found are whole.
*/
#ifndef EMB_NEAREST_HELP_H
#define EMB_NEAREST_HELP_H

#include "store_help.h"

/* A filter of some of the keys 0 .. keys - 1, perhaps with one far away, so
** that it is not a bitmap.  The caller frees it.  Its content is remembered
** until the next filter is made. */
emb_filter *help_filter(emb_session *session, int64_t keys);

/* Checks that the rows found by a search of n queries, with or without
** vectors and versions, are those that the session sees now, or the
** snapshot's. */
void help_same_rows(emb_session *s, emb_snap *snap, const emb_neighbours *found,
                    size_t n, size_t k);
/* Checks that each row has the distance of its vector, and a version no later
** than now. */
void help_whole_rows(emb_session *s, const float *query,
                     const emb_neighbours *found, int metric, uint32_t dim);

/* Do the list and the last filter of this search admit this key? */
int help_wanted(const emb_nearest_how *how, int64_t key);

#endif
