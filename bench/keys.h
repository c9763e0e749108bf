/* SPDX-License-Identifier: MIT
**
** keys.h -- which keys are asked for, and what their vectors hold.
**
** TRACE   A long list of keys, drawn before anything is measured; the same one
**         is given to every contestant.  Batches are taken from it one after
**         the other, each thread from a start of its own.  Zipf's hot keys are
**         scattered over all keys.
** VECTOR  The first three floats name the key, the fourth is a stamp that the
**         writer chose, and all others follow from the stamp.  So a reader can
**         tell a wrong key's vector, and one mixed of two.
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

/* Each key once, in order: for touching all there is. */
void trace_all(struct trace *trace, size_t highest);
void trace_uniform(struct trace *trace, size_t count, size_t highest);
void trace_zipf(struct trace *trace, size_t count, size_t highest);
void trace_free(struct trace *trace);

/* The i-th of a sequence of distinct keys in random order, 62 bits each. */
int64_t hashed_key(uint64_t i);

/* dim >= 8 */
void vector_fill(float *vector, size_t dim, int64_t key, uint32_t stamp);
/* Makes a vector that was filled with some key that of another. */
void vector_rename(float *vector, int64_t key);
/* Ends the program unless the vector is one of this key and in one piece. */
void vector_check(const float *vector, size_t dim, int64_t key,
                  const char *store);

#endif
