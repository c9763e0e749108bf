/* SPDX-License-Identifier: MIT
**
** utf8.h -- checks whether a text is UTF-8.
*/
#ifndef CHANGELOGS_UTF8_H
#define CHANGELOGS_UTF8_H

#include <stddef.h>

/* 1 if it is UTF-8 by RFC 3629: no overlong forms, no surrogates, nothing above
** U+10FFFF.  (SQLite accepts any bytes.) */
int utf8_valid(const char *text, size_t length);

#endif
