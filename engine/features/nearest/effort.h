/* SPDX-License-Identifier: MIT
**
** effort.h -- how a search uses the index: the lists that it probes, the rows
** that it compares, or all rows, if that is faster or the recall asked for
** needs it.
**
** A search by a fixed number of lists (probes=) promises nothing.  Any other
** has a recall to reach: its own or the index's.  The index's curve
** (ivf/recall.h) says what that takes.
*/
#ifndef EMB_NEAREST_EFFORT_H
#define EMB_NEAREST_EFFORT_H

#include "index.h"

struct effort {
  int is_exact;    /* all rows are compared */
  uint32_t probes; /* lists, */
  uint32_t order;  /* in this order (ivf/order.h) */
  uint32_t rows;   /* candidates to compare; without codes, unlimited */
  double recall;   /* to reach; 0: none, the number of lists is fixed */
  struct recall_point point; /* of the curve; zeros: none */
};

/* Lists of the index for as many lists as the user counts, which have all the
** rows of a centre; and the reverse. */
uint32_t effort__lists(const struct ivf *ivf, uint32_t probes);
uint32_t effort__centres(const struct ivf *ivf, uint32_t lists);
/* Rows that a search for k neighbours compares beyond k to make up for its
** codes, unless the curve knows better (README.md has the figures). */
uint32_t effort__extra(uint32_t metric, uint32_t bits, size_t k);
/* The effort of a search for k neighbours of each of n queries, by one index of
** a set that is in use.  Takes x->use_lock. */
void effort__choose(struct nearest_index *x, struct index_set *set,
                    const emb_nearest_how *how, size_t n, size_t k,
                    struct effort *effort);

#endif
