/* SPDX-License-Identifier: MIT
**
** date.h -- parses the dates of thirty years of change logs.
*/
#ifndef CHANGELOGS_DATE_H
#define CHANGELOGS_DATE_H

#include <stddef.h>
#include <stdint.h>

/* Reads a date in any of the forms that maintainers have used:
**
**   Tue, 20 Sep 2022 12:17:15 -0400      today's form, by the policy
**   Tue,  5 Nov 96 18:46:12 +0100 (MET)  with two digits, and a comment
**   Thu Jul 11 13:20:32 EDT 1996         as date(1) and ctime(3) write it
**
** Parts may be in any order.  The weekday is ignored, right or wrong.  A date
** without a zone, or with an unknown zone name, is taken as UTC.  Returns 0,
** and the seconds since 1970; 1 if a part is missing, occurs twice or is not in
** the calendar, and for years before Debian (1993) or of more than four digits.
*/
int date_read(const char *text, size_t length, int64_t *at);

#endif
