/* SPDX-License-Identifier: MIT
**
** code.h -- codes, which the lists store in place of vectors.
**
** A code has 8, 4, 2 or 1 bits for each element of a residual o, which is the
** vector minus the centre of its list; or there is no code (0 bits).  The value
** of a code:
**
**   8   x = s * (c - 128) / 127       c in 1..255
**   4   x = s * (2c - 15) / 15        c in 0..15
**   2   x = s * (2c - 3) / 3          c in 0..3
**   1   x = f * (2c - 1)              c in 0, 1
**
** s is one of 256 values, stored as a byte (the mark).  The code is computed
** with that value, so its rounding costs little accuracy.  With 8 and 4 bits, s
** is at least the largest |element|, so that no element is clamped.  With 2
** bits, s is 1.5 |o| / sqrt(dim): if elements are normally distributed, no four
** evenly spaced values have a smaller error (Max, "Quantizing for Minimum
** Distortion", IRE Transactions on Information Theory, 1960).  With 1 bit, the
** code is the estimator of RaBitQ (Gao, Long, "RaBitQ: Quantizing
** High-Dimensional Vectors with a Theoretical Error Bound", SIGMOD 2024): f =
** |o|^2 / sum |o_i|, which makes the product with any other vector correct on
** average, and a second byte for |o|.
**
** With 4, 2 and 1 bits, vectors are rotated first (ivf_turn), so that no
** element is much larger than the others: a product with random signs and a
** fast Hadamard transform, which preserves distances and products.
**
** ERROR    8, 4: |o - x| <= s * sqrt(dim) / 254, or / 15.  2: |o - x|^2 is
**          about 0.12 |o|^2.  1: the error of the product of x with q is at
**          most e * sqrt((1 - r^2) / r^2 / (dim - 1)) * |q| |o|, r = sum |o_i|
**          / (|o| sqrt(dim)), with a probability of 1 - 2 exp(-e^2 / 2).  The
**          query is rounded to 7 or 8 bits, by at most 1/128 or 1/254 of its
**          largest element.
** LAYOUT   of 16 entries, IVF_BLOCK: words of 32 bits, [word][entry].  A word
**          holds 32 / bits elements, in 8 / bits planes of four: byte b of
**          plane p, at bits p * bits to p * bits + bits - 1 of the byte, is
**          element 4 * p + b of the word.  So one load has four elements of 16
**          entries, which one instruction multiplies and sums.
** MARK     one of the 256 values: float32 bits base + (mark << 20), 32 powers
**          of two in steps of an eighth.  The range is this wide because larger
**          values would be clamped: vectors that training has made a thousand
**          times as long are still found until there are new centres.
*/
#ifndef EMB_IVF_CODE_H
#define EMB_IVF_CODE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define IVF_BLOCK 16
#define IVF_MARK_SHIFT 20

struct ivf_form {
  uint32_t dim;
  uint32_t bits;   /* 8, 4, 2, 1 or 0 */
  uint32_t words;  /* of an entry's code */
  uint32_t marks;  /* bytes of an entry's marks */
  uint32_t metric; /* EMB_L2, ... */
  uint32_t base;   /* of the marks */
};

static inline size_t ivf_code_bytes(const struct ivf_form *form) {
  return (size_t)form->words * 4;
}
/* base: for marks of about this size. */
void ivf_form_make(struct ivf_form *form, uint32_t dim, uint32_t bits,
                   uint32_t metric);
void ivf__form_base(struct ivf_form *form, float typical);
static inline float ivf_mark(const struct ivf_form *form, uint8_t mark) {
  uint32_t bits = form->base + ((uint32_t)mark << IVF_MARK_SHIFT);
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Converts a vector to the form that the index compares: of length 1 for
** EMB_COSINE, and rotated.  0: under EMB_COSINE, the vector is zero. */
int ivf__prepare(const struct ivf_form *form, float *vector);
/* The value that the residual's mark must represent. */
float ivf__mark_size(const struct ivf_form *form, const float *residual);
/* Encodes a residual: form->words words, and form->marks bytes. */
void ivf__encode(const struct ivf_form *form, const float *residual,
                 uint32_t *words, uint8_t *marks);

/* A query against the entries of one list: to[i] = a + m_i * b * (d_i - k) + c
** * square_i, where d_i is the sum of code * query, m_i the first mark, and
** square_i the square of x_i, times 127^2, 15^2 or 3^2, for 8, 4 or 2 bits,
** and of the second mark for 1. */
struct ivf_probe {
  const int8_t *query; /* in the order of the elements; words * 32 / bits */
  uint32_t words, bits, base;
  int32_t pad; /* contribution of the padding to an entry's square */
  float a, b, k, c;
};

struct ivf_ops {
  const char *name;
  /* Scores 16 entries.  Returns a bit for each one below the limit. */
  uint32_t (*scan)(const struct ivf_probe *probe, const uint32_t *codes,
                   const uint8_t *marks, float limit, float *to);
  /* best[j], at[j] = half - products[j], i where that is less than best[j]. */
  void (*minimum)(float *best, uint32_t *at, const float *products, size_t n,
                  float half, uint32_t i);
};

/* Returns the i-th form that this processor can run, form 0 being the scalar
** one; NULL at the end. */
const struct ivf_ops *ivf__ops(int i);
/* The widest form that this processor can run. */
const struct ivf_ops *ivf__ops_best(void);

/* Rounds a query's elements to 7 or 8 bits.  q: dim floats; to: room for
** 32 / bits * words elements, which are q's divided by *step.  Returns their
** sum. */
int32_t ivf__round_query(const struct ivf_form *form, const float *q,
                         int8_t *to, float *step);
/* Sets a probe for a query rounded by ivf__round_query.  a: the query's squared
** distance from the list's centre (l2, cosine), or its score for that centre
** (product). */
void ivf__probe(struct ivf_probe *probe, const struct ivf_form *form, float a,
                float step, int32_t sum);

#endif
