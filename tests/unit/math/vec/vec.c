/* SPDX-License-Identifier: MIT
**
** vec.c -- tests of engine/math/vec: the scalar forms against an oracle in
** double arithmetic, and every wider form of this processor against the scalar
** form.
*/
#include "test.h"

#include "engine/math/vec/vec.h"

#include <math.h>

/* The value of a half by its definition; NaN for NaNs. */
static double half_value(uint16_t half) {
  int exponent = half >> 10 & 31, mantissa = half & 1023;
  double value;
  if (exponent == 31)
    value = mantissa ? (double)NAN : (double)INFINITY;
  else if (exponent)
    value = ldexp(1024 + mantissa, exponent - 25);
  else
    value = ldexp(mantissa, -24);
  return half & 0x8000 ? -value : value;
}

/* The nearest half, ties to even: found by comparing the two neighbours.
** Halves of one sign are ordered like their bits. */
static uint16_t nearest_half(float from) {
  uint16_t sign = signbit(from) ? 0x8000 : 0;
  double x = fabs((double)from);
  if (x >= 65520) /* halfway from 65504 to 65536, which is not a half */
    return (uint16_t)(sign | 0x7c00);
  uint16_t low = 0, high = 0x7c00;
  while (high - low > 1) {
    uint16_t middle = (uint16_t)((low + high) / 2);
    if (half_value(middle) <= x)
      low = middle;
    else
      high = middle;
  }
  double below = x - half_value(low);
  double above = (high == 0x7c00 ? 65536 : half_value(high)) - x;
  uint16_t best =
      below < above || (below == above && low % 2 == 0) ? low : high;
  return (uint16_t)(sign | best);
}

static float float_from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}

TEST(every_half_to_float) {
  static uint16_t halves[65536];
  static float got[65536];
  for (uint32_t i = 0; i < 65536; i++)
    halves[i] = (uint16_t)i;
  for (int f = 0; vec__form(f); f++) {
    vec__form(f)->from_f16(got, halves, 65536);
    for (uint32_t i = 0; i < 65536; i++) {
      double want = half_value((uint16_t)i);
      if (isnan(want))
        CHECK(isnan(got[i]));
      else
        CHECK((double)got[i] == want && !signbit(got[i]) == !(i & 0x8000));
    }
  }
}

TEST(every_half_survives_the_round_trip) {
  static uint16_t halves[65536], back[65536];
  static float wide[65536];
  for (uint32_t i = 0; i < 65536; i++)
    halves[i] = (uint16_t)i;
  for (int f = 0; vec__form(f); f++) {
    vec__form(f)->from_f16(wide, halves, 65536);
    vec__form(f)->to_f16(back, wide, 65536);
    for (uint32_t i = 0; i < 65536; i++) {
      if (isnan(half_value((uint16_t)i)))
        CHECK(isnan(half_value(back[i])));
      else
        CHECK_EQ_INT(back[i], i);
    }
  }
}

static void check_to_half(const float *from, size_t n) {
  static uint16_t got[4096];
  for (int f = 0; vec__form(f); f++) {
    vec__form(f)->to_f16(got, from, n);
    for (size_t i = 0; i < n; i++) {
      int good = isnan(from[i]) ? isnan(half_value(got[i]))
                                : got[i] == nearest_half(from[i]);
      if (!good)
        test_check(0, __FILE__, __LINE__, "%s: 0x%08x gives 0x%04x",
                   vec__form(f)->name, bits_of(from[i]), got[i]);
    }
  }
}

/* Each half, the middle between it and the next, and their neighbours: all the
** places where rounding changes direction. */
TEST(halves_and_their_middles_round_to_nearest_even) {
  static float from[4096];
  size_t n = 0;
  for (uint32_t i = 0; i < 0x7c00; i++) {
    uint32_t a = bits_of((float)half_value((uint16_t)i));
    double next = i == 0x7bff ? 65536 : half_value((uint16_t)(i + 1));
    uint32_t middle = bits_of((float)((half_value((uint16_t)i) + next) / 2));
    for (uint32_t sign = 0; sign <= 1; sign++) {
      for (int off = -1; off <= 1; off++) {
        if (a || off >= 0)
          from[n++] = float_from_bits((a + (uint32_t)off) | sign << 31);
        from[n++] = float_from_bits((middle + (uint32_t)off) | sign << 31);
      }
    }
    if (n > 4000 || i == 0x7bff) {
      check_to_half(from, n);
      n = 0;
    }
  }
}

TEST(random_floats_round_to_nearest_even) {
  static float from[4096];
  for (int round = 0; round < 60; round++) {
    for (int i = 0; i < 4096; i++) {
      uint32_t bits = (uint32_t)test_random();
      if (round % 3 == 1) /* near the range of halves */
        bits = (bits & 0x807fffff) | (90 + bits % 60) << 23;
      if (round % 3 == 2) /* subnormal halves, and values that round to zero */
        bits = (bits & 0x807fffff) | (100 + bits % 14) << 23;
      from[i] = float_from_bits(bits);
    }
    check_to_half(from, 4096);
  }
}

TEST(special_floats_to_half) {
  const float from[] = {
      0.0f,       -0.0f,        INFINITY,    -INFINITY,    NAN,       65504.0f,
      65519.996f, 65520.0f,     -65520.0f,   3.4e38f,      -3.4e38f,  0x1p-24f,
      0x1p-25f,   0x1.8p-25f,   0x1p-14f,    0x1.ffcp-15f, 0x1p-126f, 0x1p-149f,
      -0x1p-149f, 0x1.ffep-15f, 0x1.fffp-15f};
  check_to_half(from, sizeof from / sizeof *from);
  uint16_t half;
  vec_scalar.to_f16(&half, &from[7], 1);
  CHECK_EQ_INT(half, 0x7c00);
}

/* ---- lengths and alignment ----------------------------------------------- */

enum { LENGTH_MAX = 70, ROOM = 4 * LENGTH_MAX + 64 };

/* n random finite floats at an odd address. */
static float *odd_floats(char *room, size_t off, size_t n) {
  for (size_t i = 0; i < n; i++) {
    float x = (float)(int32_t)test_random() * 0x1p-16f;
    memcpy(room + off + 4 * i, &x, 4);
  }
  return (float *)(void *)(room + off);
}

TEST(forms_agree_at_every_length_and_alignment) {
  char a_room[ROOM], half_room[2][ROOM], wide_room[2][ROOM];
  for (int f = 0; vec__form(f); f++) {
    for (size_t n = 0; n <= LENGTH_MAX; n++) {
      for (size_t off = 0; off < 8; off++) {
        float *a = odd_floats(a_room, off, n);
        for (int k = 0; k < 2; k++) {
          const struct vec_ops *form = k ? vec__form(f) : &vec_scalar;
          memset(half_room[k], 0x5a, ROOM);
          memset(wide_room[k], 0x5a, ROOM);
          uint16_t *half = (uint16_t *)(void *)(half_room[k] + off / 2 * 2);
          form->to_f16(half, a, n);
          form->from_f16((float *)(void *)(wide_room[k] + off), half, n);
        }
        /* Nothing beyond n may change. */
        if (memcmp(half_room[0], half_room[1], ROOM) != 0 ||
            memcmp(wide_room[0], wide_room[1], ROOM) != 0)
          test_check(0, __FILE__, __LINE__, "%s, length %zu, offset %zu",
                     vec__form(f)->name, n, off);
        CHECK_EQ_INT(half_room[1][off / 2 * 2 + 2 * n], 0x5a);
        CHECK_EQ_INT(wide_room[1][off + 4 * n], 0x5a);
      }
    }
  }
}

TEST(best_form_is_the_last) {
  int n = 0;
  while (vec__form(n))
    n++;
  CHECK(vec_best() == vec__form(n - 1));
  CHECK(vec__form(0) == &vec_scalar);
}

TEST(add_at_every_length_and_alignment) {
  char a_room[ROOM], b_room[ROOM], to_room[ROOM];
  for (int f = 0; vec__form(f); f++) {
    for (size_t n = 0; n <= LENGTH_MAX; n++) {
      for (size_t off = 0; off < 4; off++) {
        float *a = odd_floats(a_room, off, n);
        float *b = odd_floats(b_room, 3 - off, n);
        memset(to_room, 0x5a, ROOM);
        vec__form(f)->add((float *)(void *)(to_room + off), a, b, n);
        for (size_t i = 0; i < n; i++) {
          float p, q, sum;
          memcpy(&p, a_room + off + 4 * i, 4);
          memcpy(&q, b_room + 3 - off + 4 * i, 4);
          memcpy(&sum, to_room + off + 4 * i, 4);
          CHECK(sum == p + q);
        }
        CHECK_EQ_INT(to_room[off + 4 * n], 0x5a);
        vec__form(f)->add(a, a, b, n); /* in place, as emb_rmw does */
        CHECK(memcmp(a_room + off, to_room + off, 4 * n) == 0);
      }
    }
  }
}

TEST(find_bad_names_the_first_bad_element) {
  const float bad[] = {INFINITY, -INFINITY, NAN, float_from_bits(0xff800001u),
                       float_from_bits(0x7f800001u)};
  char room[ROOM];
  for (int f = 0; vec__form(f); f++) {
    for (size_t n = 0; n <= LENGTH_MAX; n++) {
      size_t off = n % 4;
      float *x = odd_floats(room, off, n);
      CHECK_EQ_INT(vec__form(f)->find_bad(x, n), n);
      for (size_t at = 0; at < n; at++) {
        (void)odd_floats(room, off, n);
        memcpy(room + off + 4 * at, &bad[at % 5], 4);
        CHECK_EQ_INT(vec__form(f)->find_bad(x, n), at);
        memcpy(room + off + 4 * (n - 1), &bad[n % 5], 4); /* later */
        CHECK_EQ_INT(vec__form(f)->find_bad(x, n), at);
        CHECK_EQ_INT(vec__form(f)->find_bad(x, at), at); /* n ends before it */
      }
    }
  }
}

TEST(find_bad_accepts_all_finite_values) {
  float x[32];
  for (int i = 0; i < 32; i++)
    x[i] = float_from_bits(0x7f7fffffu | (uint32_t)(i & 1) << 31);
  x[3] = 0x1p-149f;
  x[4] = -0.0f;
  for (int f = 0; vec__form(f); f++)
    CHECK_EQ_INT(vec__form(f)->find_bad(x, 32), 32);
}
