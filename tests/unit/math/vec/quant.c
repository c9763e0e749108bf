/* SPDX-License-Identifier: MIT
**
** quant.c -- tests of engine/math/vec/quant.c: sizes and bytes computed
** independently, the error bound for random and hostile rows, and refused
** input.
*/
#include "engine/storage/pack/emb_file.h"
#include "test.h"

#include "engine/math/vec/quant.h"
#include "quant_help.h"

#include <math.h>

enum { DIM_MAX = 1100, BYTES_MAX = 4 * DIM_MAX + 8, TYPES = 4 };

static const char *const names[TYPES] = {"f32", "f16", "int8", "int4"};

static float float_from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

TEST(bytes_of_a_row) {
  static const size_t want[][5] = {
      /* dim, f32, f16, int8, int4 */
      {1, 4, 2, 9, 9},          {2, 8, 4, 10, 9},
      {31, 124, 62, 39, 24},    {32, 128, 64, 40, 24},
      {33, 132, 66, 41, 33},    {64, 256, 128, 72, 48},
      {100, 400, 200, 108, 82}, {65536, 262144, 131072, 65544, 49152}};
  for (size_t k = 0; k < sizeof want / sizeof *want; k++)
    for (int type = 0; type < TYPES; type++)
      CHECK_EQ_INT(quant_bytes((enum quant_type)type, (uint32_t)want[k][0]),
                   want[k][type + 1]);
}

TEST(bytes_by_hand) {
  static const float x[3] = {-1, 0.5f, 6.5f};
  uint8_t out[32];
  float back[3];
  memset(out, 0x5a, sizeof out);
  CHECK_EQ_INT(quant_encode(QUANT_INT4, 3, x, out), 0);
  /* low -1, scale 7.5 / 15; codes 0, 3, 15 */
  CHECK(memcmp(out, "\x00\x00\x80\xbf\x00\x00\x00\x3f\x30\x0f\x5a", 11) == 0);
  CHECK_EQ_INT(quant_decode(QUANT_INT4, 3, out, back), 0);
  CHECK(memcmp(back, x, sizeof x) == 0);
  static const float y[4] = {0, 127.5f, 1.2f, 0.2f};
  CHECK_EQ_INT(quant_encode(QUANT_INT8, 4, y, out), 0);
  /* low 0, scale 127.5 / 255; codes 0, 255, 2, 0 */
  CHECK(memcmp(out, "\x00\x00\x00\x00\x00\x00\x00\x3f\x00\xff\x02\x00", 12) ==
        0);
  CHECK_EQ_INT(quant_encode(QUANT_F16, 3, x, out), 0);
  CHECK(memcmp(out, "\x00\xbc\x00\x38\x80\x46", 6) == 0);
  CHECK_EQ_INT(quant_encode(QUANT_F32, 3, x, out), 0);
  CHECK(memcmp(out, x, sizeof x) == 0);
}

/* From the bytes back to the dimension, for every length. */
TEST(dimension_of_bytes) {
  uint32_t want[BYTES_MAX];
  for (int type = 0; type < TYPES; type++) {
    memset(want, 0, sizeof want);
    for (uint32_t dim = 1; dim <= 2 * BYTES_MAX; dim++) {
      size_t bytes = quant_bytes((enum quant_type)type, dim);
      if (bytes < BYTES_MAX)
        want[bytes] = dim; /* the last one, which is even */
    }
    for (size_t bytes = 0; bytes < BYTES_MAX; bytes++)
      CHECK_EQ_INT(quant_dim((enum quant_type)type, bytes), want[bytes]);
  }
  CHECK_EQ_INT(quant_dim(QUANT_F16, (size_t)INT32_MAX * 2), INT32_MAX);
  CHECK_EQ_INT(quant_dim(QUANT_F16, ((size_t)INT32_MAX + 1) * 2), 0);
  CHECK_EQ_INT(quant_dim(QUANT_INT4, SIZE_MAX), 0);
}

/* The functions in emb.h. */
TEST(public_functions_do_the_same) {
  static const char *const types[] = {"none", "float16", "int8", "int4"};
  float x[77], y[77], z[77];
  uint8_t a[400], b[400];
  for (int type = EMB_QUANT_F16; type <= EMB_QUANT_INT4; type++) {
    CHECK_EQ_INT(emb_quant_type(types[type]), type);
    for (uint32_t dim = 1; dim <= 77; dim++) {
      size_t bytes = quant_bytes((enum quant_type)type, dim);
      for (uint32_t i = 0; i < dim; i++)
        x[i] = (float)(int32_t)test_random() * 0x1p-20f;
      CHECK_EQ_INT(emb_quant_bytes(type, dim), bytes);
      CHECK_EQ_INT(emb_quant_dim(type, bytes),
                   quant_dim((enum quant_type)type, bytes));
      CHECK_EQ_INT(emb_quantize(type, dim, x, a, NULL), EMB_OK);
      CHECK_EQ_INT(quant_encode((enum quant_type)type, dim, x, b), EMB_OK);
      CHECK(memcmp(a, b, bytes) == 0);
      CHECK_EQ_INT(emb_dequantize(type, dim, a, y, NULL), EMB_OK);
      CHECK_EQ_INT(quant_decode((enum quant_type)type, dim, a, z), EMB_OK);
      CHECK(memcmp(y, z, dim * sizeof y[0]) == 0);
    }
  }
}

static void check_refused(int code, int rc, const emb_err *err,
                          const char *text) {
  CHECK_EQ_INT(rc, code);
  CHECK_EQ_INT(err->code, code);
  test_check(strcmp(err->text, text) == 0, __FILE__, __LINE__,
             "'%s' instead of '%s'", err->text, text);
}

TEST(public_functions_name_what_they_refuse) {
  static const char *const others[] = {"", "none", "float32", "int", "int81"};
  float x[3] = {1, 70000, 2}, y[3];
  uint8_t row[32];
  emb_err err;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    CHECK_EQ_INT(emb_quant_type(others[i]), 0);
  CHECK_EQ_INT(emb_quant_type("Int8"), emb_quant_type("int8"));
  for (int type = -1; type <= 4; type += 5) {
    CHECK_EQ_INT(emb_quant_bytes(type, 3), 0);
    CHECK_EQ_INT(emb_quant_dim(type, 24), 0);
  }
  CHECK_EQ_INT(emb_quant_bytes(EMB_QUANT_INT8, 0), 0);
  CHECK_EQ_INT(emb_quant_bytes(EMB_QUANT_INT8, 0x80000000u), 0);
  check_refused(EMB_RANGE, emb_quantize(0, 3, x, row, &err), &err,
                "there is no type 0 of quantised vectors");
  check_refused(EMB_RANGE, emb_dequantize(4, 3, row, y, &err), &err,
                "there is no type 4 of quantised vectors");
  check_refused(EMB_RANGE, emb_quantize(EMB_QUANT_INT4, 0, x, row, &err), &err,
                "a vector cannot have 0 dimensions");
  check_refused(EMB_NONFINITE, emb_quantize(EMB_QUANT_F16, 3, x, row, &err),
                &err, "element 1 does not fit into float16");
  x[2] = NAN;
  check_refused(EMB_NONFINITE, emb_quantize(EMB_QUANT_F16, 3, x, row, &err),
                &err, "element 2 is not finite");
  check_refused(EMB_NONFINITE, emb_quantize(EMB_QUANT_INT8, 3, x, row, &err),
                &err, "element 2 is not finite");
  memcpy(row, "\x00\x3c\x00\xfc\x00\x00", 6);
  check_refused(EMB_NONFINITE, emb_dequantize(EMB_QUANT_F16, 3, row, y, &err),
                &err, "element 1 is not finite");
}

/* The bound for the part of the row that shares a scale. */
static double bound_at(enum quant_type type, const float *x, uint32_t dim,
                       uint32_t i) {
  uint32_t from = type == QUANT_INT4 ? i / QUANT_GROUP * QUANT_GROUP : 0;
  uint32_t to = type == QUANT_INT4 ? from + QUANT_GROUP : dim;
  float low = x[from], high = x[from];
  for (uint32_t j = from; j < to && j < dim; j++) {
    low = fminf(low, x[j]);
    high = fmaxf(high, x[j]);
  }
  return quant_error_max(type, low, high);
}

static int fits_half(const float *x, uint32_t dim) {
  for (uint32_t i = 0; i < dim; i++)
    if (fabsf(x[i]) >= 65520)
      return 0;
  return 1;
}

/* Encodes and decodes at odd addresses.  Returns the largest error as a part of
** the bound. */
static double check_row(const float *x, uint32_t dim, enum quant_type type) {
  static char in[BYTES_MAX], out[BYTES_MAX], back[BYTES_MAX];
  size_t bytes = quant_bytes(type, dim);
  double worst = 0;
  memcpy(in + 3, x, 4 * dim);
  memset(out, 0x5a, sizeof out);
  memset(back, 0x5a, sizeof back);
  int rc = quant_encode(type, dim, (const float *)(void *)(in + 3), out + 1);
  CHECK_EQ_INT(rc, type == QUANT_F16 && !fits_half(x, dim) ? EMB_NONFINITE : 0);
  if (rc)
    return 0;
  CHECK_EQ_INT(out[bytes + 1], 0x5a);
  CHECK_EQ_INT(quant_decode(type, dim, out + 1, (float *)(void *)(back + 3)),
               0);
  CHECK_EQ_INT(back[3 + 4 * dim], 0x5a);
  for (uint32_t i = 0; i < dim; i++) {
    float y;
    memcpy(&y, back + 3 + 4 * i, 4);
    double off = fabs((double)y - (double)x[i]);
    double bound = bound_at(type, x, dim, i);
    worst = fmax(worst, bound > 0 ? off / bound : off > 0 ? 2 : 0);
    test_check(off <= bound, __FILE__, __LINE__,
               "%s, dim %u, element %u: %a gives %a, bound %g", names[type],
               dim, i, (double)x[i], (double)y, bound);
  }
  return worst;
}

static void check_all(const float *x, uint32_t dim) {
  for (int type = 0; type < TYPES; type++)
    (void)check_row(x, dim, (enum quant_type)type);
}

TEST(random_rows_keep_the_bound) {
  static float x[DIM_MAX];
  double worst[TYPES] = {0};
  for (int round = 0; round < 3000; round++) {
    uint32_t dim = 1 + (uint32_t)(test_random() % (round % 50 ? 130 : 1100));
    int scale = (int)(test_random() % 30) - 15;
    double offset = round % 3 ? 0 : ldexp(1, scale + (int)(test_random() % 30));
    for (uint32_t i = 0; i < dim; i++)
      x[i] =
          (float)(ldexp((double)(int64_t)test_random(), scale - 63) + offset);
    for (int type = 0; type < TYPES; type++)
      worst[type] = fmax(worst[type], check_row(x, dim, (enum quant_type)type));
  }
  /* The bound is not far above the actual errors. */
  CHECK(worst[QUANT_F32] == 0);
  for (int type = 1; type < TYPES; type++)
    test_check(worst[type] > 0.98 && worst[type] <= 1, __FILE__, __LINE__,
               "%s: %g of the bound", names[type], worst[type]);
}

/* Floats of any bits: the exponents are far apart. */
TEST(random_bits_keep_the_bound) {
  float x[64];
  for (int round = 0; round < 20000; round++) {
    uint32_t dim = 1 + (uint32_t)(test_random() % 64);
    uint32_t mask = round % 2 ? 0xffffffffu : 0x80ffffffu; /* subnormal, tiny */
    for (uint32_t i = 0; i < dim; i++)
      do {
        x[i] = float_from_bits((uint32_t)test_random() & mask);
      } while (!isfinite(x[i]));
    check_all(x, dim);
  }
}

TEST(hostile_rows_keep_the_bound) {
  static const float pairs[][2] = {{3.4028235e38f, -3.4028235e38f},
                                   {3.4028235e38f, 3.4028233e38f},
                                   {3.4028235e38f, 0},
                                   {0x1p-149f, 0},
                                   {0x1p-149f, -0x1p-149f},
                                   {0x1.fep-142f, 0},
                                   {0x1p-126f, 0x1p-149f},
                                   {0x1.ep-146f, -0x1p-149f},
                                   {1, 0x1.fffffep-1f},
                                   {65519, -65519},
                                   {0x1p-24f, -0x1p-25f},
                                   {-0.0f, 0.0f},
                                   {1e30f, 1e-30f},
                                   {7, 7}};
  float x[40];
  for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
    for (uint32_t dim = 1; dim <= 40; dim++) {
      for (uint32_t i = 0; i < dim; i++) {
        double share = dim > 1 ? (double)(i * 7 % dim) / (dim - 1) : 0;
        x[i] = (float)((double)pairs[k][0] * share +
                       (double)pairs[k][1] * (1 - share));
      }
      check_all(x, dim);
      for (uint32_t i = 0; i < dim; i++)
        x[i] = pairs[k][test_random() % 2];
      check_all(x, dim);
    }
  }
}

TEST(equal_elements_are_exact) {
  float x[70], back[70];
  uint8_t out[400];
  for (int round = 0; round < 1000; round++) {
    float value = float_from_bits((uint32_t)test_random());
    if (!isfinite(value))
      continue;
    for (int i = 0; i < 70; i++)
      x[i] = value;
    for (int type = QUANT_INT8; type <= QUANT_INT4; type++) {
      CHECK_EQ_INT(quant_encode((enum quant_type)type, 70, x, out), 0);
      CHECK_EQ_INT(quant_decode((enum quant_type)type, 70, out, back), 0);
      for (int i = 0; i < 70; i++)
        CHECK(back[i] == value);
    }
  }
}

TEST(smallest_element_is_exact_and_nothing_is_beyond_the_largest) {
  float x[32], back[32];
  uint8_t out[200];
  for (int round = 0; round < 20000; round++) {
    float low = INFINITY, high = -INFINITY;
    for (int i = 0; i < 32; i++) {
      x[i] = (float)(int64_t)test_random();
      low = fminf(low, x[i]);
      high = fmaxf(high, x[i]);
    }
    for (int type = QUANT_INT8; type <= QUANT_INT4; type++) {
      CHECK_EQ_INT(quant_encode((enum quant_type)type, 32, x, out), 0);
      CHECK_EQ_INT(quant_decode((enum quant_type)type, 32, out, back), 0);
      for (int i = 0; i < 32; i++)
        CHECK((x[i] != low || back[i] == low) && back[i] >= low &&
              back[i] <= high);
    }
  }
}

TEST(rows_that_are_not_finite_are_refused) {
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  float x[100];
  uint8_t out[400];
  for (uint32_t dim = 1; dim <= 100; dim++) {
    for (int type = 0; type < TYPES; type++) {
      uint32_t at = (uint32_t)(test_random() % dim);
      for (uint32_t i = 0; i < dim; i++)
        x[i] = (float)i;
      CHECK_EQ_INT(quant_encode((enum quant_type)type, dim, x, out), 0);
      for (int b = 0; b < 3; b++) {
        x[at] = bad[b];
        CHECK_EQ_INT(quant_encode((enum quant_type)type, dim, x, out),
                     EMB_NONFINITE);
      }
    }
  }
}

TEST(bytes_that_no_row_has_are_corrupt) {
  float x[64];
  uint8_t out[256];
  for (uint32_t i = 0; i < 64; i++)
    x[i] = (float)i;
  CHECK_EQ_INT(quant_encode(QUANT_F32, 64, x, out), 0);
  memcpy(out + 40, "\x00\x00\x80\x7f", 4);
  CHECK_EQ_INT(quant_decode(QUANT_F32, 64, out, x), EMB_CORRUPT);
  memcpy(out + 40, "\x00\xfe", 2);
  CHECK_EQ_INT(quant_decode(QUANT_F16, 64, out, x), EMB_CORRUPT);
  for (uint32_t i = 0; i < 64; i++)
    x[i] = (float)i;
  CHECK_EQ_INT(quant_encode(QUANT_INT8, 64, x, out), 0);
  memcpy(out + 4, "\xff\xff\x7f\x7f", 4); /* 255 times the largest float */
  CHECK_EQ_INT(quant_decode(QUANT_INT8, 64, out, x), EMB_CORRUPT);
  for (uint32_t i = 0; i < 64; i++)
    x[i] = (float)i;
  CHECK_EQ_INT(quant_encode(QUANT_INT4, 64, x, out), 0);
  memcpy(out + 24, "\x00\x00\xc0\x7f", 4); /* the second group's low */
  CHECK_EQ_INT(quant_decode(QUANT_INT4, 64, out, x), EMB_CORRUPT);
}
