/* SPDX-License-Identifier: MIT
**
** sort.c -- see sort.h.
**
** Quicksort down to pieces of SORT_PIECE elements, and the C library's qsort
** for these.  Both scans of a split stop at elements equal to the pivot, so
** equal elements are shared evenly.  The pivot is the median of three elements
** at random places, so no order of the elements is worse than others.  The
** longer side of a split is done in the loop: the calls nest at most log2(n)
** deep.
*/
#include "sort.h"

#include "debug.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Elements that qsort sorts in a millisecond or two, and comparisons between
** two calls of stop. */
enum { SORT_PIECE = 8192, SORT_STEPS = 65536 };

struct sort {
  size_t size;
  int (*compare)(const void *, const void *);
  int (*stop)(void *);
  void *arg;
  size_t steps; /* since the last call of stop */
  uint64_t random;
  int stopped;
};

static void sort_swap(char *a, char *b, size_t size) {
  char part[64];
  for (size_t n; size > 0; a += n, b += n, size -= n) {
    n = size < sizeof part ? size : sizeof part;
    memcpy(part, a, n);
    memmove(a, b, n);
    memcpy(b, part, n);
  }
}

static void sort_poll(struct sort *s, size_t steps) {
  s->steps += steps;
  if (s->steps >= SORT_STEPS) {
    s->steps = 0;
    s->stopped = s->stopped || (s->stop && s->stop(s->arg));
  }
}

/* Is x before y?  Nothing is, once the sort is stopped. */
static int sort_before(struct sort *s, const char *x, const char *y) {
  sort_poll(s, 1);
  return !s->stopped && s->compare(x, y) < 0;
}

static char *sort_any(struct sort *s, char *at, size_t n) {
  s->random = s->random * UINT64_C(6364136223846793005) + 1;
  return at + (size_t)(s->random >> 33) % n * s->size;
}

static char *sort_pivot(struct sort *s, char *at, size_t n) {
  char *a = sort_any(s, at, n), *b = sort_any(s, at, n), *c;
  c = sort_any(s, at, n);
  if (s->compare(b, a) < 0) {
    char *lower = b;
    b = a;
    a = lower;
  }
  return s->compare(c, a) < 0 ? a : s->compare(c, b) < 0 ? c : b;
}

/* Moves a pivot to its place, the elements before it to its left and those
** after it to its right; returns its place. */
static size_t sort_split(struct sort *s, char *at, size_t n) {
  size_t i = 0, j = n;
  sort_swap(at, sort_pivot(s, at, n), s->size);
  while (!s->stopped) {
    do {
      i++;
    } while (i < n && sort_before(s, at + i * s->size, at));
    do {
      j--;
    } while (sort_before(s, at, at + j * s->size));
    if (i >= j) {
      break;
    }
    sort_swap(at + i * s->size, at + j * s->size, s->size);
  }
  sort_swap(at, at + j * s->size, s->size);
  return j;
}

static void sort_part(struct sort *s, char *at, size_t n) {
  while (n > SORT_PIECE && !s->stopped) {
    size_t left = sort_split(s, at, n), right = n - left - 1;
    char *after = at + (left + 1) * s->size;
    if (s->stopped) {
      return;
    }
    emb_assert(left < n);
    if (left < right) {
      sort_part(s, at, left);
      at = after;
      n = right;
    } else {
      sort_part(s, after, right);
      n = left;
    }
  }
  if (n > 1 && !s->stopped) {
    qsort(at, n, s->size, s->compare);
    sort_poll(s, n);
  }
}

int sort_until(void *at, size_t n, size_t size,
               int (*compare)(const void *, const void *), int (*stop)(void *),
               void *arg) {
  struct sort s = {
      .size = size, .compare = compare, .stop = stop, .arg = arg, .random = n};
  sort_part(&s, at, n);
  return s.stopped;
}

/* ---- pairs --------------------------------------------------------------- */

enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS, FEW_PAIRS = 24 };

static void insert_pairs(uint64_t (*pairs)[2], size_t n) {
  for (size_t i = 1; i < n; i++) {
    uint64_t first = pairs[i][0], second = pairs[i][1];
    size_t at = i;
    for (; at > 0 && pairs[at - 1][0] > first; at--) {
      pairs[at][0] = pairs[at - 1][0];
      pairs[at][1] = pairs[at - 1][1];
    }
    pairs[at][0] = first;
    pairs[at][1] = second;
  }
}

static size_t digit_of(const uint64_t pair[2], unsigned shift) {
  return pair[0] >> shift & (DIGITS - 1);
}

/* Moves each pair to the piece of its digit; ends[d]: the end of piece d. */
static void split_pairs(uint64_t (*pairs)[2], size_t n, unsigned shift,
                        size_t ends[DIGITS]) {
  size_t at[DIGITS], sum = 0;
  memset(ends, 0, DIGITS * sizeof *ends);
  for (size_t i = 0; i < n; i++) {
    ends[digit_of(pairs[i], shift)]++;
  }
  for (size_t d = 0; d < DIGITS; d++) {
    at[d] = sum;
    sum += ends[d];
    ends[d] = sum;
  }
  for (size_t d = 0; d < DIGITS; d++) {
    while (at[d] < ends[d]) {
      uint64_t *pair = pairs[at[d]];
      size_t to = digit_of(pair, shift);
      uint64_t *other = pairs[at[to]++], first = other[0], second = other[1];
      other[0] = pair[0];
      other[1] = pair[1];
      if (to != d) {
        pair[0] = first;
        pair[1] = second;
      }
    }
  }
}

void sort_pairs(uint64_t (*pairs)[2], size_t n, unsigned bits) {
  size_t ends[DIGITS], from = 0;
  if (bits == 0) {
    return; /* all are equal */
  }
  if (n <= FEW_PAIRS) {
    insert_pairs(pairs, n);
    return;
  }
  unsigned shift = bits > DIGIT_BITS ? bits - DIGIT_BITS : 0;
  split_pairs(pairs, n, shift, ends);
  for (size_t d = 0; d < DIGITS; from = ends[d++]) {
    sort_pairs(pairs + from, ends[d] - from, shift);
  }
}
