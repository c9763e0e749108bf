/* SPDX-License-Identifier: MIT
**
** decimal.c -- tests of ext/value/decimal.c against the C library in the C
** locale, whose strtof and printf are exact.
*/
#include "test.h"
#include "ext/value/value.h"

#include <math.h>

/* Scans all of text; the number must end there. */
static float read_float(const char *text) {
  struct decimal number;
  int valid;
  size_t n = ext_decimal_scan(text, strlen(text), &number, &valid);
  test_check(valid && n == strlen(text), __FILE__, __LINE__, "\"%s\" scans",
             text);
  return ext_decimal_to_float(&number);
}

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* read_float agrees with strtof, to the bit. */
static void check_read(const char *text) {
  uint32_t ours = bits_of(read_float(text));
  uint32_t theirs = bits_of(strtof(text, NULL));
  test_check(ours == theirs, __FILE__, __LINE__, "%s reads as %08x, not %08x",
             text, (unsigned)ours, (unsigned)theirs);
}

TEST(reads_random_decimals) {
  int i, k;
  for (i = 0; i < 300000; i++) {
    char text[64];
    int n = 0, digits = (int)(test_random() % 30);
    if (test_random() & 1)
      text[n++] = '-';
    text[n++] = (char)('1' + test_random() % 9);
    text[n++] = '.';
    for (k = 0; k <= digits; k++)
      text[n++] = (char)('0' + test_random() % 10);
    (void)snprintf(text + n, sizeof text - (size_t)n, "e%d",
                   (int)(test_random() % 100) - 55);
    check_read(text);
  }
}

/* Subtracts one unit of the last digit of "d.dddde..." in place. */
static void step_down(char *end) {
  for (;; end--) {
    if (*end == '.')
      continue;
    if (*end != '0') {
      --*end;
      return;
    }
    *end = '9';
  }
}

/* Midpoints of neighbouring floats, exact and one unit of the last digit off,
** in more digits than a midpoint has. */
TEST(reads_halfway_cases) {
  int i;
  for (i = 0; i < 200000; i++) {
    uint32_t bits = (uint32_t)test_random() & 0x7fffffff;
    double above;
    char text[256], *e;
    if (i % 4 == 0)
      bits &= 0x00ffffff; /* subnormals and the smallest normals */
    if (bits > 0x7f7fffff)
      bits = 0x7f7fffff;
    above = bits == 0x7f7fffff ? 0x1p128 : (double)float_of(bits + 1);
    (void)snprintf(text, sizeof text, "%.160e",
                   ((double)float_of(bits) + above) / 2);
    e = strchr(text, 'e');
    check_read(text);
    e[-1] = '1';
    check_read(text);
    e[-1] = '0';
    step_down(e - 1);
    check_read(text);
  }
}

TEST(reads_edges) {
  static const char *const texts[] = {
      "0",
      "-0",
      "0.0e99",
      "0e999999999999999999999999",
      "1e-999999999999999999999999",
      "1e999999999999999999999999",
      "-1e999999999999999999999999",
      "1e39",
      "1e38",
      "3.4028234663852886e38",
      "3.4028235677973365e38",
      "3.4028235677973367e38",
      "340282356779733661637539395458142568447",
      "340282356779733661637539395458142568448",
      "1e-45",
      "7e-46",
      "7.1e-46",
      "1.17549428e-38",
      "16777217",
      "16777217.0000000000000000000000000000000000000001",
      "0.00000000000000000000000000000000000000000000000000000000001e50",
      "123456789012345678901234567890e-20",
  };
  size_t i;
  for (i = 0; i < sizeof texts / sizeof *texts; i++)
    check_read(texts[i]);
}

/* A number of many digits whose last one decides. */
TEST(reads_long_mantissas) {
  static char text[20000];
  memset(text, '0', sizeof text);
  memcpy(text, "16777217.", 9);
  text[sizeof text - 1] = 0;
  CHECK(read_float(text) == 16777216.0f);
  text[sizeof text - 2] = '1';
  CHECK(read_float(text) == 16777218.0f);
}

TEST(keeps_to_the_grammar) {
  /* text, bytes scanned, valid */
  static const struct {
    const char *text;
    size_t n;
    int valid;
  } cases[] = {
      {"", 0, 0},     {"-", 1, 0},     {"+1", 0, 0},   {".5", 0, 0},
      {"1.", 2, 0},   {"1.e5", 2, 0},  {"1e", 2, 0},   {"1e+", 3, 0},
      {"1ex", 2, 0},  {"01", 1, 1},    {"-01", 2, 1},  {"1,5", 1, 1},
      {"1.5x", 3, 1}, {"1E+05", 5, 1}, {"0x10", 1, 1}, {"nan", 0, 0},
      {"inf", 0, 0},  {"1e5.5", 3, 1},
  };
  size_t i;
  for (i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct decimal number;
    int valid;
    size_t n =
        ext_decimal_scan(cases[i].text, strlen(cases[i].text), &number, &valid);
    test_check(n == cases[i].n && valid == cases[i].valid, __FILE__, __LINE__,
               "\"%s\": %d bytes, valid %d", cases[i].text, (int)n, valid);
  }
}

TEST(reads_integers) {
  static const struct {
    const char *text;
    int valid;
    int64_t value;
  } cases[] = {
      {"0", 1, 0},
      {"-0", 1, 0},
      {"0.000", 1, 0},
      {"0e99", 1, 0},
      {"7", 1, 7},
      {"3.0", 1, 3},
      {"-3.000000000000000000000000000000", 1, -3},
      {"1e3", 1, 1000},
      {"1500e-2", 1, 15},
      {"1.5", 0, 0},
      {"1e-1", 0, 0},
      {"3.0000000000000000000000000001", 0, 0},
      {"9223372036854775807", 1, INT64_MAX},
      {"9223372036854775807.0", 1, INT64_MAX},
      {"9223372036854775808", 0, 0},
      {"-9223372036854775808", 1, INT64_MIN},
      {"-9223372036854775809", 0, 0},
      {"9.223372036854775807e18", 1, INT64_MAX},
      {"18446744073709551616", 0, 0},
      {"10000000000000000000000", 0, 0},
      {"1e18", 1, 1000000000000000000},
      {"1e19", 0, 0},
      {"1e999999999999999999999", 0, 0},
  };
  size_t i;
  for (i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct decimal number;
    int valid;
    int64_t value = 0;
    (void)ext_decimal_scan(cases[i].text, strlen(cases[i].text), &number,
                           &valid);
    valid = ext_decimal_to_int64(&number, &value);
    test_check(valid == cases[i].valid && value == cases[i].value, __FILE__,
               __LINE__, "\"%s\": %d, %lld", cases[i].text, valid,
               (long long)value);
  }
}

/* Significant digits of a printed number. */
static int digits_of(const char *text) {
  int digits = 0, zeros = 0;
  for (; *text != 0 && *text != 'e'; text++) {
    if (*text < '0' || *text > '9' || (digits == 0 && *text == '0'))
      continue;
    digits++;
    zeros = *text == '0' ? zeros + 1 : 0;
  }
  return digits - zeros;
}

/* x reads back, in no more digits than the shortest %e that reads back. */
static void check_print(float x) {
  char text[DECIMAL_PRINT_MAX + 1], theirs[32];
  int digits = 1;
  size_t n = ext_decimal_print(x, text);
  if (!CHECK(n < sizeof text))
    return;
  text[n] = 0;
  test_check(bits_of(strtof(text, NULL)) == bits_of(x), __FILE__, __LINE__,
             "%a prints as %s", (double)x, text);
  for (; x != 0 && digits < 9; digits++) {
    (void)snprintf(theirs, sizeof theirs, "%.*e", digits - 1, (double)x);
    if (strtof(theirs, NULL) == x)
      break;
  }
  test_check(digits_of(text) <= digits, __FILE__, __LINE__,
             "%s has more than %d digits", text, digits);
}

TEST(prints_random_floats) {
  int i;
  for (i = 0; i < 300000; i++) {
    float x = float_of((uint32_t)test_random());
    if (isfinite(x))
      check_print(x);
  }
}

TEST(prints_every_power_of_two) {
  int power;
  for (power = -149; power <= 127; power++) {
    float x = ldexpf(1, power);
    check_print(x);
    check_print(nextafterf(x, 0));
    check_print(-nextafterf(x, x * 1.5f));
  }
}

TEST(prints_like_people_write) {
  static const struct {
    float x;
    const char *text;
  } cases[] = {
      {0.0f, "0"},
      {-0.0f, "-0"},
      {1.0f, "1"},
      {-1.5f, "-1.5"},
      {0.1f, "0.1"},
      {100.0f, "100"},
      {16777216.0f, "16777216"},
      {999999984.0f, "1e9"},
      {123456789.0f, "123456790"},
      {0.0001f, "0.0001"},
      {-0.000123456784f, "-0.00012345679"},
      {0.00001f, "1e-5"},
      {3.4028235e38f, "3.4028235e38"},
      {1e-45f, "1e-45"},
      {1.5e-10f, "1.5e-10"},
  };
  size_t i;
  for (i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[DECIMAL_PRINT_MAX + 1];
    text[ext_decimal_print(cases[i].x, text)] = 0;
    CHECK_STR(text, cases[i].text);
  }
}
