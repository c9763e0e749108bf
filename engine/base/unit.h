/* SPDX-License-Identifier: MIT
**
** unit.h -- parses booleans, and numbers with a unit: yes, 64MB, 30 days, 25%.
**
** ROLE      Every option, parameter and argument of a text that is one of
**           these is parsed here, so that all accept the same.  The manual has
**           the grammar (sql/manual/options.md, Words and numbers).
** GRAMMAR   boolean   yes on true 1, no off false 0
**           size      a whole number and B KB MB GB TB KiB MiB GiB TiB;
**                     no unit: bytes
**           time      a whole number and us ms s min h d w, or milliseconds,
**                     seconds, sec, minutes, hours, days, weeks, with
**                     or without the s
**           share     a number, or a number and %: 0.25 is 25%
**           Case does not matter, and spaces may precede a unit.
** POSITION  As in text.h: *at moves past what was read, and stays if it is not
**           there.  A word or number that goes on is not there: 1day5.
** FAILURE   0 means "not there", or too large.  Allocates nothing.
** THREADS   No state.
*/
#ifndef EMB_BASE_UNIT_H
#define EMB_BASE_UNIT_H

#include <stdint.h>

int unit__bool(const char **at, int *is);
/* A whole text that is a boolean. */
int unit_is_bool(const char *text, int *is);
/* Skips a unit of size; *bytes: how many it is, 1 if there is none. */
int unit__of_size(const char **at, uint64_t *bytes);
/* At most INT64_MAX. */
int unit_size(const char **at, uint64_t *bytes);
/* plain: the unit of a number without one, in microseconds; 0: it needs one. */
int unit_time(const char **at, uint64_t plain, uint64_t *us);
int unit__share(const char **at, double *share);

#endif
