/* SPDX-License-Identifier: MIT
**
** keys.h -- the requested keys, and the contents of their vectors.
**
** TRACE   A long list of keys, drawn before any measurement; every contestant
**         gets the same one.  Batches are taken from it one after the other,
**         each thread starting at a different point.  Zipf's hot keys are
**         scattered over all keys.
** VECTOR  The first three floats encode the key, the fourth is a stamp chosen
**         by the writer, and all others follow from the stamp.  A reader can
**         therefore detect a vector of the wrong key, and a mix of two vectors.
*/
#ifndef BENCH_KEYS_H
#define BENCH_KEYS_H

#include <stddef.h>
#include <stdint.h>

struct trace {
  const char *name; /* "uniform", "Zipf" */
  int64_t *keys;
  size_t count;   /* a multiple of BATCH */
  size_t highest; /* keys are 1 .. highest */
};

enum { BATCH = 1024 };
#define ZIPF_EXPONENT 0.99

/* A generator (xorshift64*): seed it with anything but 0. */
uint64_t random_next(uint64_t *state);

/* Each key once, in order: to touch the whole table. */
void trace_all(struct trace *trace, size_t highest);
void trace_uniform(struct trace *trace, size_t count, size_t highest);
void trace_zipf(struct trace *trace, size_t count, size_t highest);
void trace_free(struct trace *trace);

/* The i-th of a sequence of distinct keys in random order, 62 bits each. */
int64_t hashed_key(uint64_t i);

/* dim >= 8 */
void vector_fill(float *vector, size_t dim, int64_t key, uint32_t stamp);
/* Turns a vector filled for some key into that of another. */
void vector_rename(float *vector, int64_t key);
/* Ends the program unless the vector belongs to this key and is in one
** piece. */
void vector_check(const float *vector, size_t dim, int64_t key,
                  const char *store);

#endif
