/* SPDX-License-Identifier: MIT
**
** init.h -- the vector of a key that is read or updated for the first time.
**
** INITIALIZERS
**   zeros
**   constant(value=0)
**   uniform(low=-0.05, high=0.05)           low <= x <= high; Monolith
**   normal(mean=0, std=0.05)                Keras
**   truncated_normal(mean=0, std=0.05)      normal, given that x is within two
**                                           std of mean; Keras and TensorFlow
**
** PURE      An element is a function of seed, key and its index, so that a run
**           repeats whatever threads do in which order, and a row need not be
**           stored to be known.  The random word of elements 2i and 2i + 1 is
**           SplitMix64's (Steele, Lea, Flood 2014) number i + 1 from the state
**           hash_key(key) ^ hash_mix(seed): a counter-based generator.  One
**           element takes 32 bits of it: u in (0, 1), the middle of one of
**           2^32 equal intervals.
** NORMAL    The quantile of u by Acklam's rational approximation (relative
**           error below 1.2e-9), in double with operations that are the same
**           on every machine, but for one logarithm in each tail of 2.4 %.
**           With 32 bits no element is beyond 6.4 std.
** FAILURE   None after parsing.
** THREADS   No state.
*/
#ifndef EMB_VEC_INIT_H
#define EMB_VEC_INIT_H

#include "engine/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum init_kind {
  INIT_ZEROS,
  INIT_CONSTANT,
  INIT_UNIFORM,
  INIT_NORMAL,
  INIT_TRUNCATED_NORMAL,
};

/* Made by init_parse; a value, to be copied freely. */
struct init {
  uint32_t kind; /* enum init_kind */
  double value, low, high, mean, std;
};

/* The longest text of init_print, with its end. */
enum { INIT_TEXT_MAX = 128 };

/* Reads what base/param.h describes, as uniform(low=-0.1, high=0.1). */
int init_parse(struct init *init, const char *text, emb_err *err);
/* Writes all parameters; returns the length, or 0 when size is not enough.
** init_parse of it gives the same again. */
size_t init_print(const struct init *init, char *out, size_t size);

/* No element is larger than that, whatever its sign. */
double init_largest(const struct init *init);
/* The vector of a key.  It need not be aligned. */
void init_fill(const struct init *init, uint64_t seed, int64_t key,
               uint32_t dim, float *vector);

#endif
