/* SPDX-License-Identifier: MIT
**
** fold.c -- the operators, on integers of the element's width: see diff.h.
**
** Each loop is compiled once per width, so that an element is a single load.
** Elements and results are the low bytes of 64 bits; the bits above them are
** not stored.  (Machines are little-endian here.)
*/
#include "engine/data/emb_data.h"
#include "diff.h"

#define FOLD_ALWAYS static inline __attribute__((always_inline))

FOLD_ALWAYS uint64_t fold_load(const char *at, uint32_t width) {
  uint64_t x = 0;
  memcpy(&x, at, width);
  return x;
}

FOLD_ALWAYS void fold_xor(const char *base, const char *result, size_t n,
                          char *words, uint32_t width) {
  uint32_t top = 8 * width - 1;
  for (size_t i = 0; i < n * width; i += width) {
    uint64_t d = fold_load(base + i, width) ^ fold_load(result + i, width);
    uint64_t word = d << 1 | d >> top;
    memcpy(words + i, &word, width);
  }
}

FOLD_ALWAYS void unfold_xor(const char *base, const char *words, size_t n,
                            char *result, uint32_t width) {
  uint32_t top = 8 * width - 1;
  for (size_t i = 0; i < n * width; i += width) {
    uint64_t word = fold_load(words + i, width);
    uint64_t r = fold_load(base + i, width) ^ (word >> 1 | word << top);
    memcpy(result + i, &r, width);
  }
}

FOLD_ALWAYS void fold_sub(const char *base, const char *result, size_t n,
                          char *words, uint32_t width) {
  uint32_t top = 8 * width - 1;
  for (size_t i = 0; i < n * width; i += width) {
    uint64_t d = fold_load(result + i, width) - fold_load(base + i, width);
    uint64_t word = d << 1 ^ (0 - (d >> top & 1));
    memcpy(words + i, &word, width);
  }
}

FOLD_ALWAYS void unfold_sub(const char *base, const char *words, size_t n,
                            char *result, uint32_t width) {
  for (size_t i = 0; i < n * width; i += width) {
    uint64_t word = fold_load(words + i, width);
    uint64_t r = fold_load(base + i, width) + (word >> 1 ^ (0 - (word & 1)));
    memcpy(result + i, &r, width);
  }
}

#define FOLD_EACH_WIDTH(form, name, ...)                                       \
  switch ((form)->width) {                                                     \
  case 1:                                                                      \
    name(__VA_ARGS__, 1);                                                      \
    break;                                                                     \
  case 2:                                                                      \
    name(__VA_ARGS__, 2);                                                      \
    break;                                                                     \
  case 4:                                                                      \
    name(__VA_ARGS__, 4);                                                      \
    break;                                                                     \
  default:                                                                     \
    name(__VA_ARGS__, 8);                                                      \
  }

void diff__fold(const struct diff_form *form, const char *base,
                const char *result, size_t n, char *words) {
  if (form->op == EMB_DIFF_XOR) {
    FOLD_EACH_WIDTH(form, fold_xor, base, result, n, words)
  } else {
    FOLD_EACH_WIDTH(form, fold_sub, base, result, n, words)
  }
}

void diff__unfold(const struct diff_form *form, const char *base,
                  const char *words, size_t n, char *result) {
  if (form->op == EMB_DIFF_XOR) {
    FOLD_EACH_WIDTH(form, unfold_xor, base, words, n, result)
  } else {
    FOLD_EACH_WIDTH(form, unfold_sub, base, words, n, result)
  }
}
