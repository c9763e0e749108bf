/* SPDX-License-Identifier: MIT
**
** chance_help.h -- do observed counts fit the expected ones?  And random
** numbers of a known distribution.
**
** Pearson's chi-square test.  Its limit is the quantile of 1 - 1e-9 (Wilson and
** Hilferty's approximation, within 1 % from 10 degrees of freedom on): of a
** million runs of a thousand such tests with random seeds, one would fail
** without reason.  The seeds are fixed, so a test that passes once always
** passes.
*/
#ifndef EMB_CHANCE_HELP_H
#define EMB_CHANCE_HELP_H

#include <stddef.h>
#include <stdint.h>

/* How far n counts are from the expected ones, in units of the limit: above 1
** they do not fit.  Neighbouring cells with fewer than 10 expected are
** merged.  The counts add up to the expected total, so there is one degree of
** freedom less than there are cells. */
double chance_ratio(const uint64_t *counts, const double *expected, size_t n);

/* A number of the normal distribution, from test_random. */
float chance_normal(void);

#endif
