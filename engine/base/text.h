/* SPDX-License-Identifier: MIT
**
** text.h -- parses the parts of texts like `name = 12`.
**
** ROLE      The engine and ext/ parse every text of options, parameters, rules
**           or times with these functions, so that spaces, names and numbers
**           are defined once.
** POSITION  A function with `const char **at` advances *at past the text that
**           it has read, and leaves *at unchanged if the text is not there.
** LOCALE    None: letters, digits and spaces are those of ASCII.
** FAILURE   0 means "not there"; the caller knows what it expected.  Allocates
**           nothing.
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

/* Returns the first character after the spaces. */
const char *text_space(const char *at);
/* Length of the name that begins here; 0: none. */
size_t text_name(const char *at);
/* Length of the word that begins here: a name that may have dashes inside, as
** in k-center; 0: none. */
size_t text__dashed(const char *at);
/* Length without trailing spaces. */
size_t text_trimmed(const char *at, size_t length);
/* Skips `word`, which must match exactly. */
int text_word(const char **at, const char *word);
/* Skips the `=` between a name and its value, and the spaces around it. */
int text__equals(const char **at);
/* Parses a decimal number of at most `most`. */
int text_digits(const char **at, uint64_t most, uint64_t *number);
/* Parses a whole text as a decimal number from `least` to `most`. */
int text_whole(const char *text, uint64_t least, uint64_t most,
               uint64_t *number);
/* Parses -digits.digits e-digits, where sign, fraction and exponent are
** optional, to the nearest double.  Returns the length; 0: there is no number,
** or it has more than 64 digits. */
size_t text__double(const char *text, double *value);

#endif
