/* SPDX-License-Identifier: MIT
**
** runs.c -- run-length encoding.
**
** FORM      Pieces.  Each begins with a varint: seven bits to a byte, low bits
**           first, the highest bit of a byte set if another byte follows.
**           2 * n + 1 means the next byte, n times; 2 * n means the next n
**           bytes verbatim.  n is at least 1.
** LIMIT     A part has at most DIFF_ELEMENTS * DIFF_WIDTH_MAX bytes, so a
**           number has at most three bytes: 21 bits.
*/
#include "diff.h"

/* Shorter runs cost more than they save: two numbers and a byte. */
enum { RUN_LEAST = 4, RUN_NUMBER_MAX = 3 };
_Static_assert(DIFF_ELEMENTS *DIFF_WIDTH_MAX * 2 + 1 < 1u << 21, "three bytes");

static char *run_number(char *to, size_t number) {
  for (; number > 127; number >>= 7) {
    *to++ = (char)(number | 128);
  }
  *to++ = (char)number;
  return to;
}

/* The end of the run of bytes equal to the one at `at`. */
static const char *run_end(const char *at, const char *end) {
  uint64_t same = (uint8_t)*at * UINT64_C(0x0101010101010101), word;
  const char *p = at + 1;
  for (; end - p >= 8; p += 8) {
    memcpy(&word, p, 8);
    if (word != same) {
      break;
    }
  }
  while (p < end && *p == *at) {
    p++;
  }
  return p;
}

/* Appends [from, to) verbatim; NULL: it does not fit. */
static char *run_plain(char *at, const char *room, const char *from,
                       const char *to) {
  size_t n = (size_t)(to - from);
  if (n == 0) {
    return at;
  }
  if ((size_t)(room - at) < n + RUN_NUMBER_MAX) {
    return NULL;
  }
  at = run_number(at, 2 * n);
  memcpy(at, from, n);
  return at + n;
}

size_t diff__runs(const char *from, size_t n, char *to) {
  const char *end = from + n, *plain = from, *room = to + n;
  char *at = to;
  while (from < end) {
    const char *stop = run_end(from, end);
    if (stop - from >= RUN_LEAST) {
      at = run_plain(at, room, plain, from);
      if (at == NULL || room - at < RUN_NUMBER_MAX + 1) {
        return 0;
      }
      at = run_number(at, 2 * (size_t)(stop - from) + 1);
      *at++ = *from;
      plain = stop;
    }
    from = stop;
  }
  at = run_plain(at, room, plain, end);
  return at && (size_t)(at - to) < n ? (size_t)(at - to) : 0;
}

/* The number at *from, which ends before `end`; 0: there is none. */
static size_t run_read(const char **from, const char *end) {
  size_t number = 0;
  for (unsigned i = 0; i < RUN_NUMBER_MAX && *from < end; i++) {
    uint8_t byte = (uint8_t) * (*from)++;
    number |= (size_t)(byte & 127) << 7 * i;
    if (byte < 128) {
      return number;
    }
  }
  return 0;
}

int diff__spread(const char *from, size_t n, char *to, size_t room) {
  const char *end = from + n, *stop = to + room;
  while (from < end) {
    size_t number = run_read(&from, end), count = number >> 1;
    size_t taken = number & 1 ? 1 : count;
    if (count == 0 || count > (size_t)(stop - to) ||
        taken > (size_t)(end - from)) {
      return 0;
    }
    if (number & 1) {
      memset(to, *from, count);
    } else {
      memcpy(to, from, count);
    }
    from += taken;
    to += count;
  }
  return to == stop;
}
