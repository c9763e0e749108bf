/* SPDX-License-Identifier: MIT
**
** utf8.c -- checks whether a text is UTF-8; see utf8.h.
*/
#include "utf8.h"

/* Bytes of the character at s; 0: there is none. */
static size_t character(const unsigned char *s, size_t left) {
  size_t n = *s < 0x80    ? 1
             : *s < 0xc2  ? 0
             : *s < 0xe0  ? 2
             : *s < 0xf0  ? 3
             : *s <= 0xf4 ? 4
                          : 0;
  if (n > left || n < 2) {
    return n > left ? 0 : n;
  }
  for (size_t i = 1; i < n; i++) {
    if ((s[i] & 0xc0) != 0x80) {
      return 0;
    }
  }
  int wrong = (*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] > 0x9f) ||
              (*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] > 0x8f);
  return wrong ? 0 : n;
}

int utf8_valid(const char *text, size_t length) {
  const unsigned char *s = (const unsigned char *)text, *end = s + length;
  while (s < end) {
    size_t n = character(s, (size_t)(end - s));
    if (n == 0) {
      return 0;
    }
    s += n;
  }
  return 1;
}
