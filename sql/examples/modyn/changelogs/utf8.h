/* SPDX-License-Identifier: MIT
**
** utf8.h -- whether a text is UTF-8.
*/
#ifndef CHANGELOGS_UTF8_H
#define CHANGELOGS_UTF8_H

#include <stddef.h>

/* 1 if it is, as RFC 3629 has it: no overlong forms, no surrogates, nothing
** above U+10FFFF.  (SQLite takes whatever it is given.) */
int utf8_valid(const char *text, size_t length);

#endif
