/* SPDX-License-Identifier: MIT
**
** sort.c -- tests of engine/base/sort.h: elements come in order, whatever their
** order, size and number, and a sort that is told to stop does so within a
** bounded number of comparisons; pairs come in the order of qsort.
*/
#include "test.h"

#include "engine/base/sort.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 200000 };

static size_t compared, stops, stop_at;

static int by_number(const void *a, const void *b) {
  uint32_t x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  compared++;
  return (x > y) - (x < y);
}

static int count_stops(void *arg) {
  size_t *last = arg;
  test_check(compared - *last < 400000, __FILE__, __LINE__,
             "%zu comparisons without a question", compared - *last);
  *last = compared;
  return ++stops == stop_at;
}

/* Orders made to hurt a sort. */
enum { EQUAL, UP, DOWN, TWO, ORGAN, SAW, RANDOM, ORDERS };

static uint32_t number_of(int order, uint32_t i, uint32_t n) {
  switch (order) {
  case EQUAL:
    return 7;
  case UP:
    return i;
  case DOWN:
    return n - i;
  case TWO:
    return i == n / 2;
  case ORGAN:
    return i < n / 2 ? i : n - i;
  case SAW:
    return i % 1000;
  default:
    return (uint32_t)test_random();
  }
}

/* Elements of `size` bytes: a number, then bytes made from it, so that an
** element torn apart is found.  Returns the sum of the numbers. */
static uint64_t fill(char *at, size_t n, size_t size, int order) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t x = number_of(order, (uint32_t)i, (uint32_t)n);
    memset(at + i * size, (int)(x * 31 % 251), size);
    memcpy(at + i * size, &x, sizeof x);
    sum += x;
  }
  return sum;
}

/* Returns the sum of the numbers, and checks that no element is torn. */
static uint64_t add_up(const char *at, size_t n, size_t size) {
  uint64_t sum = 0;
  size_t torn = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t x;
    memcpy(&x, at + i * size, sizeof x);
    for (size_t k = sizeof x; k < size; k++)
      torn += at[i * size + k] != (char)(x * 31 % 251);
    sum += x;
  }
  CHECK_EQ_INT(torn, 0);
  return sum;
}

TEST(every_order_is_sorted) {
  static const size_t sizes[] = {4, 8, 24, 100};
  static const size_t numbers[] = {0, 1, 2, 3, 8192, 8193, 20000, MOST};
  char *at = malloc((size_t)MOST * 100);
  for (int order = 0; order < ORDERS; order++)
    for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
      size_t n = numbers[k], size = sizes[(k + (size_t)order) % 4], last = 0;
      uint64_t sum = fill(at, n, size, order);
      size_t wrong = 0;
      compared = stops = stop_at = 0;
      CHECK_EQ_INT(sort_until(at, n, size, by_number,
                              order % 2 ? count_stops : NULL, &last),
                   0);
      CHECK(compared < 60 * n + 60);
      for (size_t i = 1; i < n; i++)
        wrong += by_number(at + (i - 1) * size, at + i * size) > 0;
      CHECK_EQ_INT(wrong, 0);
      CHECK(add_up(at, n, size) == sum);
    }
  free(at);
}

/* Told to stop at the first, second ... question: it stops, asks no more, and
** has neither lost nor torn an element. */
TEST(a_sort_stops_when_told) {
  char *at = malloc((size_t)MOST * 16);
  for (int order = 0; order < ORDERS; order++)
    for (stop_at = 1;; stop_at *= 3) {
      uint64_t sum = fill(at, MOST, 16, order);
      size_t last = 0;
      compared = stops = 0;
      int stopped = sort_until(at, MOST, 16, by_number, count_stops, &last);
      CHECK_EQ_INT(stopped, stops == stop_at);
      CHECK(stops <= stop_at);
      CHECK(add_up(at, MOST, 16) == sum);
      if (!stopped)
        break;
      CHECK(compared - last < 400000);
    }
  free(at);
}

/* ---- pairs --------------------------------------------------------------- */

static int by_first(const void *a, const void *b) {
  uint64_t x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  return (x > y) - (x < y);
}

/* Above the bits that differ, all numbers are the same. */
static uint64_t pair_number(int order, size_t i, size_t n, unsigned bits) {
  uint64_t mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
  uint64_t x = order == RANDOM
                   ? test_random()
                   : (uint64_t)number_of(order, (uint32_t)i, (uint32_t)n)
                         << (i % 2 ? 0 : bits / 2);
  return (x & mask) | (UINT64_C(0x5A5A5A5A5A5A5A5A) & ~mask);
}

TEST(pairs_are_sorted) {
  static const size_t numbers[] = {0, 1, 2, 24, 25, 26, 1000, 70000};
  static const unsigned bits[] = {0, 1, 7, 8, 9, 54, 64};
  uint64_t(*pairs)[2] = malloc(70000 * sizeof *pairs);
  uint64_t(*right)[2] = malloc(70000 * sizeof *pairs);
  for (int order = 0; order < ORDERS; order++)
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
      for (size_t b = 0; b < sizeof bits / sizeof *bits; b++) {
        size_t n = numbers[k], wrong = 0;
        for (size_t i = 0; i < n; i++) {
          pairs[i][0] = pair_number(order, i, n, bits[b]);
          pairs[i][1] = ~pairs[i][0]; /* a pair torn apart is found */
        }
        memcpy(right, pairs, n * sizeof *pairs);
        qsort(right, n, sizeof *right, by_first);
        sort_pairs(pairs, n, bits[b]);
        for (size_t i = 0; i < n; i++)
          wrong += pairs[i][0] != right[i][0] || pairs[i][1] != ~pairs[i][0];
        CHECK_EQ_INT(wrong, 0);
      }
  free(pairs);
  free(right);
}
