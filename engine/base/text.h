/* SPDX-License-Identifier: MIT
**
** text.h -- the pieces of which texts like `name = 12` are made.
**
** ROLE      Every text that names options, parameters, rules or times is read
**           with these, in the engine and in ext/: what a space, a name and a
**           number are is said once.
** POSITION  A function with `at` moves *at behind what it has read, and leaves
**           it where it was when that is not there.
** LOCALE    None: letters, digits and spaces are those of ASCII.
** FAILURE   0 is "not there"; the caller knows what it expected.  No memory.
** THREADS   No state.
*/
#ifndef EMB_BASE_TEXT_H
#define EMB_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

static inline int text_is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
static inline int text_is_digit(char c) { return c >= '0' && c <= '9'; }
/* Letters, digits and underscores. */
static inline int text_is_name(char c) {
  return text_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         c == '_';
}

/* Behind the spaces. */
const char *text_space(const char *at);
/* Length of the name that begins here; 0: none does. */
size_t text__name(const char *at);
/* Length without the spaces at the end. */
size_t text_trimmed(const char *at, size_t length);
/* Moves over a text that must be exactly there. */
int text_word(const char **at, const char *word);
/* Moves over the `=` between a name and its value, and the spaces around it. */
int text__equals(const char **at);
/* Decimal digits that are at most `most`. */
int text_digits(const char **at, uint64_t most, uint64_t *number);
/* The same, and nothing behind them. */
int text_whole(const char *text, uint64_t least, uint64_t most,
               uint64_t *number);
/* -digits.digits e-digits, of which sign, fraction and exponent may be absent:
** the nearest double.  Returns the length; 0: there is none, or it has more
** than 64 digits. */
size_t text_double(const char *text, double *value);

#endif
