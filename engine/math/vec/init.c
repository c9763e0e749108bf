/* SPDX-License-Identifier: MIT
**
** init.c -- the vector of a new key; see init.h.
*/
#include "init.h"

#include "engine/base/hash.h"
#include "engine/base/param.h"

#include <math.h>
#include <string.h>

/* ---- text ---------------------------------------------------------------- */

#define P(name_, value_, low_)                                                 \
  {                                                                            \
    .name = #name_, .at = offsetof(struct init, name_), .value = (value_),     \
    .low = (low_), .high = INIT_NUMBER_MAX                                     \
  }
#define END                                                                    \
  { .name = NULL }

static const struct param no_params[] = {END};
static const struct param constant[] = {P(value, 0, -INIT_NUMBER_MAX), END};
static const struct param uniform[] = {P(low, -0.05, -INIT_NUMBER_MAX),
                                       P(high, 0.05, -INIT_NUMBER_MAX), END};
static const struct param normal[] = {P(mean, 0, -INIT_NUMBER_MAX),
                                      P(std, 0.05, 0), END};
static const struct param init_common[] = {END};

static const struct param_kind init_kinds[] = {
    [INIT_ZEROS] = {"zeros", no_params},
    [INIT_CONSTANT] = {"constant", constant},
    [INIT_UNIFORM] = {"uniform", uniform},
    [INIT_NORMAL] = {"normal", normal},
    [INIT_TRUNCATED_NORMAL] = {"truncated_normal", normal},
    {NULL, NULL}};

static const struct param_list init_list = {"initializer", init_kinds,
                                            init_common};

int init_parse(struct init *init, const char *text, emb_err *err) {
  int rc;
  memset(init, 0, sizeof *init);
  rc = param_parse(&init_list, text, init, &init->kind, err);
  if (rc == EMB_OK && init->low > init->high) {
    rc = err_set(err, EMB_RANGE, "uniform: low is greater than high");
  }
  emb_check(rc || init_valid(init));
  return rc;
}

size_t init_print(const struct init *init, char *out, size_t size) {
  return param_print(&init_list, init->kind, init, out, size);
}

double init_largest(const struct init *init) {
  double low = fabs(init->low), high = fabs(init->high);
  switch (init->kind) {
  case INIT_CONSTANT:
    return fabs(init->value);
  case INIT_UNIFORM:
    return low > high ? low : high;
  case INIT_NORMAL:
    return fabs(init->mean) + 6.4 * init->std;
  case INIT_TRUNCATED_NORMAL:
    return fabs(init->mean) + 2 * init->std;
  default:
    return 0;
  }
}

/* ---- random numbers ------------------------------------------------------ */

/* SplitMix64's output for a state. */
static uint64_t splitmix_output(uint64_t z) {
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

enum { init_BLOCK = 16 };

/* The random words of elements first .. first + BLOCK, first being even. */
static void fill_bits(uint64_t state, uint32_t first,
                      uint32_t bits[init_BLOCK]) {
  uint64_t at = state + (first / 2 + 1) * UINT64_C(0x9e3779b97f4a7c15);
  for (int i = 0; i < init_BLOCK; i += 2) {
    uint64_t random = splitmix_output(at);
    bits[i] = (uint32_t)random;
    bits[i + 1] = (uint32_t)(random >> 32);
    at += UINT64_C(0x9e3779b97f4a7c15);
  }
}

/* The middle of interval `bits` of 2^32 equal intervals from 0 to 1, by way of
** int32, which processors convert faster.  Exact. */
static double unit_interval(uint32_t bits) {
  return ((double)(int32_t)(bits ^ 0x80000000u) + (0x1p31 + 0.5)) * 0x1p-32;
}

/* The u-quantile of the standard normal distribution, by the algorithm of P. J.
** Acklam (2003). */
static double normal_quantile(double u) {
  static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,
                             -2.759285104469687e+02, 1.383577518672690e+02,
                             -3.066479806614716e+01, 2.506628277459239e+00};
  static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02,
                             -1.556989798598866e+02, 6.680131188771972e+01,
                             -1.328068155288572e+01};
  static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01,
                             -2.400758277161838e+00, -2.549732539343734e+00,
                             4.374664141464968e+00,  2.938163982698783e+00};
  static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01,
                             2.445134137142996e+00, 3.754408661907416e+00};
  double tail = u < 0.5 ? u : 1 - u, q, r;
  if (tail >= 0.02425) {
    q = u - 0.5;
    r = q * q;
    return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r +
            a[5]) *
           q /
           (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
  }
  q = sqrt(-2 * log(tail));
  r = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
      ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
  return u < 0.5 ? r : -r;
}

/* ---- a row --------------------------------------------------------------- */

/* The probability that a standard normal number is below -2. */
#define BELOW_TWO 0.022750131948179207

/* Converts an element's random word to its value. */
static float uniform_of(const struct init *init, uint32_t bits) {
  float low = (float)init->low, high = (float)init->high;
  float x = (float)(init->low + (init->high - init->low) * unit_interval(bits));
  x = x < low ? low : x; /* rounding to float32 may cross a limit */
  return x > high ? high : x;
}
static float normal_of(const struct init *init, uint32_t bits) {
  return (float)(init->mean + init->std * normal_quantile(unit_interval(bits)));
}
static float truncated_of(const struct init *init, uint32_t bits) {
  double u = BELOW_TWO + (1 - 2 * BELOW_TWO) * unit_interval(bits);
  return (float)(init->mean + init->std * normal_quantile(u));
}

static inline __attribute__((always_inline)) void
fill_random(const struct init *init, uint64_t state, uint32_t dim,
            float *vector,
            float (*value)(const struct init *init, uint32_t bits)) {
  const struct init fixed = *init; /* its fields stay in registers */
  for (uint32_t i = 0; i < dim; i += init_BLOCK) {
    uint32_t bits[init_BLOCK], n = dim - i < init_BLOCK ? dim - i : init_BLOCK;
    float x[init_BLOCK];
    fill_bits(state, i, bits);
    for (int j = 0; j < init_BLOCK; j++) {
      x[j] = value(&fixed, bits[j]);
    }
    memcpy(vector + i, x, n * sizeof x[0]);
  }
}

static void fill_same(float x, uint32_t dim, float *vector) {
  for (uint32_t i = 0; i < dim; i++) {
    memcpy(vector + i, &x, sizeof x);
  }
}

void init_fill(const struct init *init, uint64_t seed, int64_t key,
               uint32_t dim, float *vector) {
  uint64_t state = hash_key(key) ^ hash_mix(seed);
  switch (init->kind) {
  case INIT_UNIFORM:
    fill_random(init, state, dim, vector, uniform_of);
    break;
  case INIT_NORMAL:
    fill_random(init, state, dim, vector, normal_of);
    break;
  case INIT_TRUNCATED_NORMAL:
    fill_random(init, state, dim, vector, truncated_of);
    break;
  default: /* zeros have the value 0 */
    fill_same((float)init->value, dim, vector);
  }
  emb_check_some(64, init_vector_valid(init, dim, vector));
}
