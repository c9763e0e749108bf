/* SPDX-License-Identifier: MIT
**
** bugs.h -- the bugs that an entry closes.
*/
#ifndef CHANGELOGS_BUGS_H
#define CHANGELOGS_BUGS_H

#include <stddef.h>

/* How many bugs a text closes by the Debian Policy (4.4), which has for it
**
**   /closes:\s*(?:bug)?\#?\s?\d+(?:,\s*(?:bug)?\#?\s?\d+)*+/i
**
** What matches is replaced by blanks: who is to guess it from the text must not
** find it there. */
size_t bugs_take(char *text);

#endif
