/* SPDX-License-Identifier: MIT
**
** hash.c -- tests of engine/base/hash.h: the position can be recovered from the
** checksum, and keys spread evenly however regular they are.
*/
#include "test.h"

#include "engine/base/hash.h"

TEST(constants_are_inverses) {
  uint64_t step = HASH_POSITION_STEP, back = HASH_POSITION_BACK;
  CHECK(step * back == 1);
}

TEST(position_comes_back_from_the_sum) {
  char bytes[200];
  const uint64_t edges[] = {0, 1, 2, UINT64_MAX, UINT64_C(1) << 63};
  for (int i = 0; i < 2000; i++) {
    size_t n = test_random() % sizeof bytes;
    for (size_t k = 0; k < n; k++)
      bytes[k] = (char)test_random();
    uint64_t position = i < 5 ? edges[i] : test_random() >> (i % 64);
    uint64_t salt = test_random();
    uint64_t sum = hash_sum(bytes, n, salt, position);
    CHECK(hash_position(bytes, n, salt, sum) == position);
    CHECK(hash_sum(bytes, n, salt, position + 1) != sum);
    CHECK(hash_sum(bytes, n, salt + 1, position) != sum);
  }
}

/* The sum depends on the position: the same bytes elsewhere have another sum.
 */
TEST(sum_tells_positions_apart) {
  static const char bytes[64];
  enum { POSITIONS = 4096 };
  static uint64_t seen[POSITIONS];
  for (uint64_t p = 0; p < POSITIONS; p++)
    seen[p] = hash_sum(bytes, sizeof bytes, 7, p);
  for (int p = 0; p < POSITIONS; p++)
    for (int q = 0; q < p; q++)
      if (seen[p] == seen[q])
        CHECK_EQ_INT(p, q);
}

TEST(salt_depends_on_each_byte_of_the_uuid) {
  uint8_t uuid[16];
  for (int i = 0; i < 16; i++)
    uuid[i] = (uint8_t)test_random();
  uint64_t salt = hash_salt(uuid);
  CHECK(hash_salt(uuid) == salt);
  for (int i = 0; i < 16; i++) {
    uuid[i] ^= 1;
    CHECK(hash_salt(uuid) != salt);
    uuid[i] ^= 1;
  }
}

/* hash_mix consists of invertible steps. Inverting them proves that two keys
** never have the same hash. */
static uint64_t unmix(uint64_t x) {
  uint64_t back = 1, factor = UINT64_C(0xd6e8feb86659fd93);
  for (int i = 0; i < 63; i++) /* factor^-1 = factor^(2^63 - 1) */
    back = back * back * factor;
  CHECK(back * factor == 1);
  x ^= x >> 32;
  x *= back;
  x ^= x >> 32;
  x *= back;
  x ^= x >> 32;
  return x;
}

TEST(key_hash_is_a_bijection) {
  const int64_t edges[] = {0, 1, -1, INT64_MIN, INT64_MAX};
  for (int i = 0; i < 1000; i++) {
    int64_t key = i < 5 ? edges[i] : (int64_t)test_random();
    uint64_t back = unmix(hash_key(key)) - UINT64_C(0x9E3779B97F4A7C15);
    CHECK((int64_t)back == key);
  }
}

/* Puts KEYS keys with stride and start into 1024 boxes by the bits of their
** hash from `shift` on. Returns the chi-square of the boxes' counts. */
static double chi_square(int64_t start, int64_t stride, int shift) {
  enum { BOXES = 1024, KEYS = BOXES * 64 };
  static uint32_t boxes[BOXES];
  memset(boxes, 0, sizeof boxes);
  for (int64_t i = 0; i < KEYS; i++) {
    uint64_t key = (uint64_t)start + (uint64_t)i * (uint64_t)stride;
    boxes[hash_key((int64_t)key) >> shift & (BOXES - 1)]++;
  }
  double sum = 0, expected = (double)KEYS / BOXES;
  for (int b = 0; b < BOXES; b++) {
    double off = (double)boxes[b] - expected;
    sum += off * off / expected;
  }
  return sum;
}

/* 1023 degrees of freedom: mean 1023, deviation 45.  A truly random function
** leaves +- 7 deviations once in 10^11 times. */
TEST(regular_keys_spread_evenly) {
  const int64_t strides[] = {1,
                             2,
                             -1,
                             8,
                             1000,
                             1024,
                             INT64_C(1) << 16,
                             INT64_C(1) << 32,
                             INT64_C(1) << 47,
                             INT64_C(0x9E3779B97F4A7C),
                             (INT64_C(1) << 40) + 1};
  const int64_t starts[] = {0, 1000000007, INT64_MIN, -5};
  for (size_t i = 0; i < sizeof strides / sizeof *strides; i++)
    for (size_t k = 0; k < sizeof starts / sizeof *starts; k++)
      for (int shift = 0; shift <= 54; shift += 18) {
        double chi = chi_square(starts[k], strides[i], shift);
        test_check(chi > 700 && chi < 1350, __FILE__, __LINE__,
                   "start %" PRId64 " stride %" PRId64 " shift %d: %.0f",
                   starts[k], strides[i], shift, chi);
      }
}

TEST(one_bit_of_a_key_changes_half_of_the_hash) {
  enum { ROUNDS = 400 };
  for (int bit = 0; bit < 64; bit++) {
    int changed = 0;
    for (int i = 0; i < ROUNDS; i++) {
      uint64_t key = test_random();
      changed +=
          __builtin_popcountll(hash_key((int64_t)key) ^
                               hash_key((int64_t)(key ^ UINT64_C(1) << bit)));
    }
    double mean = (double)changed / ROUNDS;
    test_check(mean > 28 && mean < 36, __FILE__, __LINE__,
               "bit %d changes %.1f bits", bit, mean);
  }
}

TEST(a_hash_gives_its_key_back) {
  const int64_t keys[] = {0, 1, -1, INT64_MIN, INT64_MAX};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    CHECK(hash_key_of(hash_key(keys[i])) == keys[i]);
  for (int i = 0; i < 100000; i++) {
    int64_t key = (int64_t)test_random();
    if (!CHECK(hash_key_of(hash_key(key)) == key))
      break;
  }
}
