/* SPDX-License-Identifier: MIT
**
** bugs.h -- the bugs that an entry closes.
*/
#ifndef CHANGELOGS_BUGS_H
#define CHANGELOGS_BUGS_H

#include <stddef.h>

/* The number of bugs that a text closes by the Debian Policy (4.4):
**
**   /closes:\s*(?:bug)?\#?\s?\d+(?:,\s*(?:bug)?\#?\s?\d+)*+/i
**
** Matches are replaced by blanks, so that a model that predicts the label from
** the text does not find it there. */
size_t bugs_take(char *text);

#endif
