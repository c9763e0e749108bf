/* SPDX-License-Identifier: MIT
**
** chance_help.h -- does what was counted fit what should come?
**
** Pearson's chi-square test.  Its limit is the quantile of 1 - 1e-9 (Wilson and
** Hilferty's approximation, within 1 % from 10 degrees of freedom on): of a
** thousand such tests with random seeds one in a million would fail without
** reason.  The seeds are fixed, so one that passes does so always.
*/
#ifndef EMB_CHANCE_HELP_H
#define EMB_CHANCE_HELP_H

#include <stddef.h>
#include <stdint.h>

/* How far n counts are from what was expected, in units of the limit: above 1
** they do not fit.  Neighbouring cells of which less than 10 are expected are
** taken together.  The counts add up to what is expected: one degree of
** freedom less than there are cells. */
double chance_ratio(const uint64_t *counts, const double *expected, size_t n);

#endif
