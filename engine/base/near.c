/* SPDX-License-Identifier: MIT
**
** near.c -- see near.h.
*/
#include "near.h"

#include "debug.h"
#include "seed.h"

#include <stdio.h>
#include <string.h>

/* A character as names compare it: in lower case, and `-` as `_`. */
static int near_lower(char c) {
  return c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c == '-' ? '_' : c;
}

static size_t near_least(size_t a, size_t b) { return a < b ? a : b; }

/* Row i holds the distances from the first i letters of a to every prefix of b.
** It needs only the two rows before it. */
static size_t edit_distance(const char *a, size_t n, const char *b, size_t m) {
  size_t rows[3][NEAR_MAX + 1];
  for (size_t j = 0; j <= m; j++) {
    rows[0][j] = j;
  }
  for (size_t i = 1; i <= n; i++) {
    size_t *row = rows[i % 3];
    const size_t *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= m; j++) {
      int same = near_lower(a[i - 1]) == near_lower(b[j - 1]);
      row[j] = near_least(last[j], row[j - 1]) + 1;
      row[j] = near_least(row[j], last[j - 1] + (same ? 0 : 1));
      if (!EMB_SEED(SEED_SWAPPED_LETTERS_FAR) && i > 1 && j > 1 &&
          near_lower(a[i - 1]) == near_lower(b[j - 2]) &&
          near_lower(a[i - 2]) == near_lower(b[j - 1])) {
        row[j] = near_least(row[j], before[j - 2] + 1);
      }
    }
  }
  return rows[n % 3][m];
}

void near_start(struct near *near, const char *text, size_t length) {
  *near = (struct near){.text = text, .length = length};
  near->distance = NEAR_MAX + 1;
}

static void near_append(struct near *near, const char *format,
                        const char *name) {
  emb_assert(near->used < NEAR_TEXT);
  int n =
      snprintf(near->list + near->used, NEAR_TEXT - near->used, format, name);
  near->used += n > 0 ? (size_t)n : 0;
  near->used = near->used < NEAR_TEXT ? near->used : NEAR_TEXT - 1;
}

void near_offer(struct near *near, const char *name) {
  size_t n = strlen(name), m = near->length, far, longer;
  emb_assert(!near->best == (near->distance > NEAR_MAX));
  if (near->last) {
    near_append(near, near->used ? ", %s" : "; expected %s", near->last);
  }
  near->last = name;
  if (n > NEAR_MAX || m > NEAR_MAX) {
    return;
  }
  far = edit_distance(near->text, m, name, n);
  longer = n > m ? n : m;
  if (far < longer && (far <= 1 || far * 3 <= longer) && far < near->distance) {
    near->best = name;
    near->distance = far;
  }
}

const char *near_text(struct near *near) {
  if (near->last) {
    near_append(near, near->used ? " or %s" : "; expected %s", near->last);
  }
  if (near->best) {
    near_append(near, "; did you mean %s?", near->best);
  }
  near->last = NULL;
  return near->list;
}

int near_same(const char *name, const char *text, size_t length) {
  size_t i = 0;
  while (i < length && name[i] && near_lower(name[i]) == near_lower(text[i])) {
    i++;
  }
  return i == length && name[i] == 0;
}

int near_is(const char *name, const char *text) {
  return near_same(name, text, strlen(text));
}

int near_order(const char *a, size_t n, const char *b, size_t m) {
  for (size_t i = 0; i < n && i < m; i++) {
    int order = near_lower(a[i]) - near_lower(b[i]);
    if (order) {
      return order;
    }
  }
  return (n > m) - (n < m);
}
