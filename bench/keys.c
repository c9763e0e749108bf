/* SPDX-License-Identifier: MIT
**
** keys.c -- uniform and Zipf-distributed keys, and vectors; see keys.h.
*/
#include "keys.h"

#include <math.h>
#include <stdlib.h>

#include "harness.h"

uint64_t random_next(uint64_t *state) {
  uint64_t x = *state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  *state = x;
  return x * UINT64_C(0x2545f4914f6cdd1d);
}

static double random_unit(uint64_t *state) {
  return ((double)(random_next(state) >> 11) + 0.5) * 0x1p-53;
}

static size_t random_below(uint64_t *state, size_t n) {
  return (size_t)(((unsigned __int128)random_next(state) * n) >> 64);
}

static void trace_new(struct trace *trace, const char *name, size_t count,
                      size_t highest) {
  trace->name = name;
  trace->count = (count + BATCH - 1) / BATCH * BATCH;
  trace->highest = highest;
  trace->keys = need(trace->count, sizeof(int64_t));
}

void trace_all(struct trace *trace, size_t highest) {
  trace_new(trace, "all", highest, highest);
  for (size_t i = 0; i < trace->count; i++) {
    trace->keys[i] = (int64_t)(i % highest) + 1;
  }
}

void trace_uniform(struct trace *trace, size_t count, size_t highest) {
  uint64_t seed = 42;
  trace_new(trace, "uniform", count, highest);
  for (size_t i = 0; i < trace->count; i++) {
    trace->keys[i] = (int64_t)random_below(&seed, highest) + 1;
  }
}

/* ---- Zipf ---------------------------------------------------------------- */

/* Rejection-inversion (Hoermann and Derflinger 1996): exact, without a table,
** in constant time for any number of keys. */
struct zipf {
  double n, exponent, low, high, skip;
};

/* The integral of x^-exponent, its inverse, and the function itself. */
static double integral(const struct zipf *z, double x) {
  return (pow(x, 1 - z->exponent) - 1) / (1 - z->exponent);
}
static double inverse(const struct zipf *z, double y) {
  return pow(1 + y * (1 - z->exponent), 1 / (1 - z->exponent));
}
static double weight(const struct zipf *z, double x) {
  return pow(x, -z->exponent);
}

static void zipf_init(struct zipf *z, size_t n) {
  z->n = (double)n;
  z->exponent = ZIPF_EXPONENT;
  z->low = integral(z, 1.5) - 1;
  z->high = integral(z, z->n + 0.5);
  z->skip = 2 - inverse(z, integral(z, 2.5) - weight(z, 2));
}

static size_t zipf_rank(const struct zipf *z, uint64_t *seed) {
  for (;;) {
    double u = z->high + random_unit(seed) * (z->low - z->high);
    double x = inverse(z, u);
    double k = floor(x + 0.5);
    k = k < 1 ? 1 : k > z->n ? z->n : k;
    if (k - x <= z->skip || u >= integral(z, k + 0.5) - weight(z, k)) {
      return (size_t)k;
    }
  }
}

void trace_zipf(struct trace *trace, size_t count, size_t highest) {
  uint64_t seed = 43;
  trace_new(trace, "Zipf", count, highest);
  uint32_t *key_of_rank = need(highest, sizeof(uint32_t));
  for (size_t i = 0; i < highest; i++) {
    size_t j = random_below(&seed, i + 1); /* Fisher and Yates, inside out */
    key_of_rank[i] = key_of_rank[j];
    key_of_rank[j] = (uint32_t)i + 1;
  }
  struct zipf z;
  zipf_init(&z, highest);
  for (size_t i = 0; i < trace->count; i++) {
    trace->keys[i] = (int64_t)key_of_rank[zipf_rank(&z, &seed) - 1];
  }
  free(key_of_rank);
}

void trace_free(struct trace *trace) {
  free(trace->keys);
  trace->keys = NULL;
}

/* Only invertible steps (multiplication by an odd number, xor with a shift), so
** distinct 62-bit numbers stay distinct. */
int64_t hashed_key(uint64_t i) {
  const uint64_t mask = (UINT64_C(1) << 62) - 1;
  uint64_t x = i & mask;
  for (int round = 0; round < 3; round++) {
    x = x * UINT64_C(0xd6e8feb86659fd93) & mask;
    x ^= x >> 31;
  }
  return (int64_t)x;
}

/* ---- vectors ------------------------------------------------------------- */

static float element(uint32_t stamp, size_t j) {
  return (float)((stamp * 2654435761u + (uint32_t)j * 40503u) >> 12 & 0xfffff);
}

void vector_rename(float *vector, int64_t key) {
  vector[0] = (float)(key & 0xfffff);
  vector[1] = (float)(key >> 20 & 0xfffff);
  vector[2] = (float)(key >> 40 & 0xfffff) + 0.5f;
}

void vector_fill(float *vector, size_t dim, int64_t key, uint32_t stamp) {
  vector_rename(vector, key);
  vector[3] = (float)(stamp & 0xfffff);
  for (size_t j = 4; j < dim; j++) {
    vector[j] = element(stamp & 0xfffff, j);
  }
}

void vector_check(const float *vector, size_t dim, int64_t key,
                  const char *store) {
  float name[3];
  vector_rename(name, key);
  for (size_t j = 0; j < 3; j++) {
    if (vector[j] != name[j]) {
      die("%s: key %lld has element %zu = %g, not %g", store, (long long)key, j,
          (double)vector[j], (double)name[j]);
    }
  }
  for (size_t j = 4; j < dim; j++) {
    if (vector[j] != element((uint32_t)vector[3], j)) {
      die("%s: key %lld has a mixed vector: stamp %g, element %zu = %g", store,
          (long long)key, (double)vector[3], j, (double)vector[j]);
    }
  }
}
