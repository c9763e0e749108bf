/* SPDX-License-Identifier: MIT
**
** bugs.c -- the bugs that an entry closes; see bugs.h.
*/
#include "bugs.h"

#include <string.h>
#include <strings.h>

static int is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* The end of \s*(?:bug)?\#?\s?\d+ at s, or NULL. */
static char *number_end(char *s) {
  while (is_blank(*s)) {
    s++;
  }
  s += strncasecmp(s, "bug", 3) ? 0 : 3;
  s += *s == '#';
  s += is_blank(*s);
  if (!is_digit(*s)) {
    return NULL;
  }
  while (is_digit(*s)) {
    s++;
  }
  return s;
}

size_t bugs_take(char *text) {
  static const char CLOSES[] = "closes:";
  const size_t length = sizeof(CLOSES) - 1;
  size_t bugs = 0;
  for (char *s = text; (s = strcasestr(s, CLOSES)) != NULL; s += length) {
    char *end = s + length;
    size_t before = bugs;
    char *next = number_end(end);
    while (next) {
      bugs++;
      end = next;
      next = *end == ',' ? number_end(end + 1) : NULL;
    }
    if (bugs > before) {
      memset(s, ' ', (size_t)(end - s));
      s = end - length; /* the loop continues after it */
    }
  }
  return bugs;
}
