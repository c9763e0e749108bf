/* SPDX-License-Identifier: MIT
**
** order.h -- the order in which a query probes the lists.
**
** A list has the rows of one shell of a centre (shells.h).  For a query q, a
** centre c at distance g, and rows c + o of a shell, |o| = r:
**
**   |q - c - o|^2 = g^2 + r^2 - 2 (q - c) o
**
** If residuals point in all directions, the product is distributed with a
** standard deviation of g r / sqrt(dim) around zero.  The rows of a list that
** may be neighbours are those in its tail, so a list is as near as
**
**   g^2 + r^2 - 2 m g r / sqrt(dim)
**
** for a margin of m standard deviations.  For a product it is
**
**   -q c - m |q| r / sqrt(dim)
**
** Where a centre has several clusters, residuals point in few directions, and
** the distance of the centre alone, g^2, is better.
**
** The list that a row equal to the query is in comes first (not for a product):
** whoever searches with a row's vector finds this row, and most that hardly
** differ from it.  A margin alone prefers lists with longer residuals: 0.67 of
** the rows with heavy tails, and 0.88 of clustered ones, found themselves.
**
** Which order needs the fewest lists depends on the table; it is chosen when
** recall is measured (recall.h).  README.md has figures.
*/
#ifndef EMB_IVF_ORDER_H
#define EMB_IVF_ORDER_H

#include "ivf.h"

/* Sets search->order[0..n) to the nonempty lists to probe, the nearest first,
** and search->positions to where each list is in it, UINT32_MAX: nowhere;
** returns n, at most `probes`. */
uint32_t ivf__choose_lists(struct ivf_search *search, uint32_t probes,
                           uint32_t order);

#endif
