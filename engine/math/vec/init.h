/* SPDX-License-Identifier: MIT
**
** init.h -- the initial vector of a key, at its first read or update.
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
**           is repeatable in any order of threads, and a row need not be stored
**           to be known.  The random word of elements 2i and 2i + 1 is number
**           i + 1 of SplitMix64 (Steele, Lea, Flood 2014) from the state
**           hash_key(key) ^ hash_mix(seed): a counter-based generator.  One
**           element uses 32 bits of it: u in (0, 1), the middle of one of 2^32
**           equal intervals.
** NORMAL    The quantile of u by Acklam's rational approximation (relative
**           error below 1.2e-9), in double, with operations that are the same
**           on every machine, except one logarithm in each tail of 2.4 %.
**           With 32 bits no element is beyond 6.4 std.
** FAILURE   None after parsing.
** THREADS   No state.
*/
#ifndef EMB_VEC_INIT_H
#define EMB_VEC_INIT_H

#include "engine/base/debug.h"
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

/* Set by init_parse; a plain value that can be copied. */
struct init {
  uint32_t kind; /* enum init_kind */
  double value, low, high, mean, std;
};

/* Maximum absolute value of a parameter: the sum and the difference of two such
** values also fit into float32. */
#define INIT_NUMBER_MAX 1e37

/* Maximum size of init_print's text, with the terminating zero. */
enum { INIT_TEXT_MAX = 128 };

/* Parses the syntax of base/param.h, such as uniform(low=-0.1, high=0.1). */
int init_parse(struct init *init, const char *text, emb_err *err);
/* Writes all parameters, so that init_parse restores the same value; returns
** the length, or 0 if size is too small. */
size_t init_print(const struct init *init, char *out, size_t size);

/* Are the parameters possible, and can the initializer have made this vector?
** Only in self-checking builds (vec_valid.c). */
int init_valid(const struct init *init);
int init_vector_valid(const struct init *init, uint32_t dim,
                      const float *vector);

/* The maximum absolute value of an element. */
double init_largest(const struct init *init);
/* Writes the initial vector of a key.  `vector` need not be aligned. */
void init_fill(const struct init *init, uint64_t seed, int64_t key,
               uint32_t dim, float *vector);

#endif
